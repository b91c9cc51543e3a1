//! A file of a user, to be shown otherwise.

use vnode::{FileSystemRef, SetAttributes};

use super::{create, memory, name, root};

/// Changes nothing.
pub(crate) const NONE: SetAttributes =
    SetAttributes { mode: None, uid: None, gid: None, size: None, atime: None, mtime: None, kill_privileges: false };

/// A file below, owned by 1000:1000 with mode 0640, with `data` in it; its directory belongs to 1000 too.
pub(crate) fn below() -> FileSystemRef {
    let lower = memory();
    let directory = lower.root().mkdir(&root(), name("d"), 0o755).unwrap().vnode;
    let (file, open) = create(&directory, &root(), "file", 0o640);
    open.write_at(&root(), 0, b"data").unwrap();
    for vnode in [&directory, &file] {
        vnode.setattr(&root(), &SetAttributes { uid: Some(1000), gid: Some(1000), ..NONE }).unwrap();
    }
    lower
}

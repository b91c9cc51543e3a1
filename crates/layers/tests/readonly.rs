//! `readonly`: every change is refused, to everybody, and nothing else is.

mod common;

use common::{contents, create, layer, list, memory, name, root, user, walk};
use vnode::{
    AccessMode, AllocateMode, Creation, Device, Errno, FileKind, OpenFlags, RenameMode, SetAttributes, XattrMode,
};

#[test]
fn every_change_is_refused_and_nothing_changes() {
    let lower = memory();
    let (_, file) = create(&lower.root(), &root(), "file", 0o666);
    file.write_at(&root(), 0, b"data").unwrap();
    lower.root().mkdir(&root(), name("directory"), 0o755).unwrap();
    let upper = layer("readonly", &[], lower.clone());
    let top = upper.root();
    let vnode = walk(&upper, &root(), "file").unwrap().vnode;
    for caller in [root(), user(1)] {
        let new = Creation { mode: 0o644, flags: OpenFlags::READ };
        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let size = SetAttributes { size: Some(0), ..SetAttributes::default() };
        let results = [
            top.create(&caller, name("new"), &new).map(drop),
            top.mkdir(&caller, name("new"), 0o755).map(drop),
            top.mknod(&caller, name("new"), FileKind::Fifo, 0o644, Device::default()).map(drop),
            top.symlink(&caller, name("new"), b"file").map(drop),
            top.link(&caller, &vnode, name("new")).map(drop),
            top.unlink(&caller, name("file")),
            top.rmdir(&caller, name("directory")),
            top.rename(&caller, name("file"), &top, name("new"), RenameMode::Replace),
            top.tmpfile(&caller, &new).map(drop),
            vnode.setattr(&caller, &mode).map(drop),
            vnode.setattr(&caller, &size).map(drop),
            vnode.setxattr(&caller, b"user.x", b"", XattrMode::Set),
            vnode.removexattr(&caller, b"user.x"),
            vnode.open(&caller, OpenFlags::WRITE).map(drop),
            vnode.open(&caller, OpenFlags::READ_WRITE).map(drop),
            vnode.open(&caller, OpenFlags::READ.with(OpenFlags::TRUNCATE)).map(drop),
            vnode.access(&caller, AccessMode::WRITE),
        ];
        assert!(results.iter().all(|result| *result == Err(Errno::EROFS)), "{results:?}");
        let open = vnode.open(&caller, OpenFlags::READ).unwrap();
        assert_eq!(open.write_at(&caller, 0, b"x"), Err(Errno::EROFS));
        assert_eq!(open.truncate(&caller, 0), Err(Errno::EROFS));
        assert_eq!(open.allocate(&caller, AllocateMode::ALLOCATE, 0, 1), Err(Errno::EROFS));
        assert_eq!(contents(&vnode, &caller), b"data");
        assert_eq!(vnode.access(&caller, AccessMode::READ), Ok(()));
    }
    assert_eq!(list(&top, &root()), ["directory", "file"]);
    assert!(upper.properties().needs.read_only && upper.properties().promises.data_untouched);
}

#[test]
fn special_files_are_not_on_the_file_system_that_is_read_only() {
    let lower = memory();
    lower.root().mknod(&root(), name("fifo"), FileKind::Fifo, 0o622, Device::default()).unwrap();
    let upper = layer("readonly", &[], lower);
    let fifo = walk(&upper, &root(), "fifo").unwrap().vnode;
    assert_eq!(fifo.access(&root(), AccessMode::WRITE), Ok(()));
    assert_eq!(fifo.setattr(&root(), &SetAttributes { mode: Some(0), ..SetAttributes::default() }), Err(Errno::EROFS));
}

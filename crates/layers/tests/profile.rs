//! Profiling: every operation is charged to the member of the stack that performs it, however its object was come by.

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use bases::dir::{self, DirectoryFileSystem};
use common::{layer, memory, name, root};
use vnode::{
    Cookie, Creation, Device, FileKind, FileSystemRef, OpenDirectoryRef, OpenFileRef, OpenFlags, Result, VnodeRef,
    profile,
};

/// Returns the parts that are charged for an operation.
fn charged<T>(operation: impl FnOnce() -> Result<T>) -> Vec<&'static str> {
    let (result, parts) = profile::watch("caller", operation);
    assert!(result.is_ok(), "{:?}", result.map(drop));
    parts.into_iter().map(|(part, _)| part).collect()
}

fn assert_objects_are_charged_to(part: &str, file_system: &FileSystemRef) {
    let (top, caller) = (file_system.root(), root());
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    let created = top.create(&caller, name("file"), &how).unwrap();
    let directory = top.mkdir(&caller, name("directory"), 0o755).unwrap().vnode;
    let unnamed = top.tmpfile(&caller, &how).unwrap();
    let found = top.lookup(&caller, name("file")).unwrap().vnode;
    let vnodes: [(&str, VnodeRef); 11] = [
        ("root", Arc::clone(&top)),
        ("parent", directory.parent(&caller).unwrap()),
        ("resolve", file_system.resolve(&root(), &directory.handle()).unwrap()),
        ("mkdir", directory),
        ("create", created.entry.vnode),
        ("tmpfile", unnamed.entry.vnode),
        ("existing", top.create(&caller, name("file"), &how).unwrap().entry.vnode),
        ("link", top.link(&caller, &found, name("link")).unwrap().vnode),
        ("lookup", found),
        ("mknod", top.mknod(&caller, name("fifo"), FileKind::Fifo, 0o644, Device::default()).unwrap().vnode),
        ("symlink", top.symlink(&caller, name("symlink"), b"target").unwrap().vnode),
    ];
    for (what, vnode) in &vnodes {
        assert!(charged(|| vnode.getattr(&caller)).contains(&part), "{part}: {what}");
    }
    let files: [(&str, OpenFileRef); 4] = [
        ("create", created.file),
        ("tmpfile", unnamed.file),
        ("existing", top.create(&caller, name("file"), &how).unwrap().file),
        ("open", top.lookup(&caller, name("file")).unwrap().vnode.open(&caller, OpenFlags::READ).unwrap()),
    ];
    for (what, file) in &files {
        assert!(charged(|| file.getattr(&caller)).contains(&part), "{part}: {what}");
    }
    let open: OpenDirectoryRef = top.open_directory(&caller).unwrap();
    assert!(
        charged(|| open.read(&caller, Cookie::START, &mut |_| ControlFlow::Continue(()))).contains(&part),
        "{part}: listing"
    );
}

#[test]
fn objects_of_every_member_are_charged_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let on_disk = DirectoryFileSystem::open(directory.path(), dir::Options::default()).unwrap();
    assert_objects_are_charged_to("dir", &(Arc::new(on_disk) as FileSystemRef));
    assert_objects_are_charged_to("mem", &memory());
    assert_objects_are_charged_to("union", &layer("union", &[], memory()));
    assert_objects_are_charged_to("longnames", &layer("longnames", &[], memory()));
}

#[test]
fn each_member_has_what_it_took_by_itself() {
    let stack = layer("longnames", &[], layer("union", &[], memory()));
    assert_eq!(charged(|| stack.root().getattr(&root())), ["caller", "longnames", "union", "mem"]);
}

//! What a branch answers where it has nothing, and also where it could not tell: it is taken for nothing only where it can mean
//! nothing else. Otherwise data would become zeros, and what a mark hides would be seen.

mod common;

use common::unions::{Scene, at, joined_with, list, name, read, server, write};
use common::{layer, memory};
use conformance::faults::Below;
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use vnode::{Errno, FileSystemRef, OpenFlags, RenameMode, SetAttributes, read_fully};

const DATA_OFFSET: u64 = 1 << 20;

/// A file system that answers as it is told.
fn told() -> (FileSystemRef, Below) {
    let below = layer("faulty", &[], memory());
    let told = Below::of(vec![below.clone()]);
    told.off();
    (below, told)
}

#[test]
fn failed_data_lookup_leaves_no_hole() {
    for call in 1..12 {
        for error in ["ENXIO", "EIO", "EINVAL"] {
            let (right, told) = told();
            write(&right.root(), "file", b"begin");
            let file = at(&right, "file").unwrap().open(&server(), OpenFlags::READ_WRITE).unwrap();
            file.write_at(&server(), DATA_OFFSET, b"end").unwrap();
            file.truncate(&server(), 3 * DATA_OFFSET).unwrap();
            let scene = joined_with(&[], vec![(ReadWrite, memory()), (ReadOnly, right.clone())]);
            let shown = at(&scene.union, "file").unwrap();
            told.set(0, &[("operations", "lseek"), ("from", &call.to_string()), ("times", "1"), ("error", error)]);
            let opened = shown.open(&server(), OpenFlags::READ_WRITE);
            told.off();
            let copied = opened.and_then(|file| file.write_at(&server(), 0, b"B"));
            assert!(copied.is_ok() || at(&scene.branches[0], "file").is_err(), "{copied:?}");
            let (shown, mut found) = (shown.open(&server(), OpenFlags::READ).unwrap(), [0; 3]);
            read_fully(&*shown, &server(), DATA_OFFSET, &mut found).unwrap();
            assert_eq!(&found, b"end", "{error} at call {call}");
            assert_eq!(shown.getattr(&server()).unwrap().size, 3 * DATA_OFFSET);
        }
    }
}

/// A union whose left branch has an opaque directory, one that was moved, and a metadata-only copy: what users see then.
fn marked() -> (Scene, Below) {
    let (left, told) = told();
    let right = memory();
    for directory in ["opaque", "moved"] {
        let made = right.root().mkdir(&server(), name(directory), 0o755).unwrap().vnode;
        write(&made, "right", directory.as_bytes());
    }
    write(&right.root(), "file", b"data");
    let branches = || vec![(ReadWrite, left.clone()), (ReadOnly, right.clone())];
    let options = [("whiteouts", "overlay"), ("metacopy", "on")];
    {
        let scene = joined_with(&options, branches());
        let root = scene.union.root();
        at(&scene.union, "opaque").unwrap().unlink(&server(), name("right")).unwrap();
        root.rmdir(&server(), name("opaque")).unwrap();
        root.mkdir(&server(), name("opaque"), 0o755).unwrap();
        root.rename(&server(), name("moved"), &root, name("here"), RenameMode::NoReplace).unwrap();
        let changes = SetAttributes { mode: Some(0o640), ..SetAttributes::default() };
        at(&scene.union, "file").unwrap().setattr(&server(), &changes).unwrap();
    }
    (joined_with(&options, branches()), told)
}

#[test]
fn unreadable_marks_are_an_error() {
    for operation in ["listxattr", "getxattr"] {
        for error in ["EPERM", "EACCES", "EIO", "ENOMEM"] {
            for call in 1..8 {
                for times in ["1", "1000"] {
                    let (scene, told) = marked();
                    let from = call.to_string();
                    told.set(0, &[("operations", operation), ("from", &from), ("times", times), ("error", error)]);
                    let answers = [
                        at(&scene.union, "opaque").and_then(|_| at(&scene.union, "opaque/right")).map(drop),
                        at(&scene.union, "here").and_then(|_| read(&scene.union, "here/right")).map(drop),
                        read(&scene.union, "file").map(|text| assert_eq!(text, "data")),
                    ];
                    told.off();
                    let why = format!("{operation} answers {error} from call {call}, {times} times: {answers:?}");
                    assert_ne!(answers[0], Ok(()), "what is hidden was seen: {why}");
                    assert_ne!(answers[1], Err(Errno::ENOENT), "what is there was not seen: {why}");
                }
            }
        }
    }
    let (scene, _) = marked();
    assert_eq!(list(&scene.union, "opaque"), [] as [&str; 0]);
    assert_eq!(read(&scene.union, "here/right").as_deref(), Ok("moved"));
}

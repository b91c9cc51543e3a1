//! The samples that keep what is deleted or overwritten: what is refused leaves no trace.

use vnode::{Caller, Errno, OpenFlags, RenameMode, SetAttributes, VnodeRef};

use super::{Described, TIERS, described, name, names_in, read, user, write};

const KEEPFS: &str = include_str!("../../../../examples/fist/keepfs.fist");
const VERSIONFS: &str = include_str!("../../../../examples/fist/versionfs.fist");

/// A directory of a mount with this mode.
fn directory(mount: &Described, at: &str, mode: u32) -> VnodeRef {
    let made = mount.root().mkdir(&Caller::server(), name(at), 0o755).unwrap().vnode;
    made.setattr(&Caller::server(), &SetAttributes { mode: Some(mode), ..Default::default() }).unwrap();
    made
}

fn opened_to_write(directory: &VnodeRef, caller: &Caller, at: &str) -> Result<(), Errno> {
    directory.lookup(caller, name(at))?.vnode.open(caller, OpenFlags::READ_WRITE).map(drop)
}

#[test]
fn keepfs_keeps_nothing_for_who_may_not_delete() {
    for tier in TIERS {
        let mount = described("keepfs", KEEPFS, &[("tier", tier)]);
        let shared = directory(&mount, "shared", 0o1777);
        let (owner, other) = (user(1000), user(1001));
        write(&shared, &owner, "file", b"old").unwrap();
        shared.unlink(&owner, name("file")).unwrap();
        write(&shared, &owner, "file", b"new").unwrap();
        assert_eq!(shared.unlink(&other, name("file")), Err(Errno::EPERM));
        write(&shared, &owner, "second", b"text").unwrap();
        assert_eq!(shared.unlink(&other, name("second")), Err(Errno::EPERM));
        assert_eq!(names_in(&shared), [".kept.file", "file", "second"]);
        assert_eq!(read(&shared, &owner, ".kept.file").unwrap(), b"old");
        // What cannot be kept is not deleted, and has its name.
        shared.mkdir(&other, name(".kept.second"), 0o755).unwrap();
        assert!(shared.unlink(&owner, name("second")).is_err());
        assert_eq!(names_in(&shared), [".kept.file", ".kept.second", "file", "second"]);
        shared.unlink(&owner, name("file")).unwrap();
        assert_eq!(read(&shared, &owner, ".kept.file").unwrap(), b"new");
    }
}

#[test]
fn versionfs_keeps_its_versions_where_an_operation_is_refused() {
    for tier in TIERS {
        let mount = described("versionfs", VERSIONFS, &[("versions", "3"), ("tier", tier)]);
        let (owner, other) = (user(1000), user(1001));
        let open = directory(&mount, "open", 0o777);
        write(&open, &owner, "file", b"1").unwrap();
        for text in [b"2", b"3", b"4", b"5"] {
            opened_to_write(&open, &owner, "file").unwrap();
            write(&open, &owner, "file", text).unwrap();
        }
        let versions = |directory: &VnodeRef| {
            let texts = [1, 2, 3].map(|number| read(directory, &Caller::server(), &format!("file.~{number}~")));
            (names_in(directory).len(), texts.map(|text| text.map(|text| text[0]).unwrap_or_default()))
        };
        let before = versions(&open);
        assert_eq!(before.0, 4);
        for _ in 0..5 {
            assert_eq!(opened_to_write(&open, &other, "file"), Err(Errno::EACCES));
            assert_eq!(versions(&open), before);
        }
        // A rename that is refused by the directory that it is from.
        let closed = directory(&mount, "closed", 0o755);
        write(&closed, &Caller::server(), "mine", b"x").unwrap();
        let rename = |at, mode| closed.rename(&other, name(at), &open, name("file"), mode);
        assert_eq!(rename("mine", RenameMode::Replace), Err(Errno::EACCES));
        assert_eq!(rename("nothing", RenameMode::Replace), Err(Errno::ENOENT));
        assert_eq!(versions(&open), before);
        write(&open, &other, "mine", b"x").unwrap();
        let kept = open.rename(&other, name("mine"), &open, name("file"), RenameMode::NoReplace);
        assert_eq!(kept, Err(Errno::EEXIST));
        open.unlink(&other, name("mine")).unwrap();
        assert_eq!(versions(&open), before);
        // What is missing between others is missing still.
        open.unlink(&owner, name("file.~2~")).unwrap();
        let before = versions(&open);
        assert_eq!(opened_to_write(&open, &other, "file"), Err(Errno::EACCES));
        assert_eq!(versions(&open), before);
        // What cannot be kept is not opened, and what has been moved for it is moved back.
        open.setattr(&Caller::server(), &SetAttributes { mode: Some(0o1777), ..Default::default() }).unwrap();
        let file = open.lookup(&owner, name("file")).unwrap().vnode;
        file.setattr(&owner, &SetAttributes { mode: Some(0o666), ..Default::default() }).unwrap();
        assert_eq!(opened_to_write(&open, &other, "file"), Err(Errno::EPERM));
        assert_eq!(versions(&open), before);
    }
}

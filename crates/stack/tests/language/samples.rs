//! The samples that keep what is deleted or overwritten: what is refused leaves no trace.

use std::path::Path;

use vnode::{Caller, Control, Creation, Errno, FileSystemRef, OpenFlags, RenameMode, SetAttributes, VnodeRef};

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

/// A program that is told `EXDEV` copies what it sees by the old name, and deletes that. After half a rename it would put the
/// second's file in the place of the first's.
#[test]
fn unionfs_has_nothing_copied_after_half_a_rename() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fist/unionfs.fist");
    let build = |expression: &str| plyfs_stack::build(&plyfs_stack::syntax::parse(expression).unwrap()).unwrap();
    let server = Caller::server();
    for tier in TIERS {
        let below = vec![build("mem:"), build("mem: | faulty(operations=rename, error=EXDEV)")];
        let options = [("tier".to_owned(), tier.to_owned())];
        let mount = plyfs_stack::build_description(&sample, &options, below.clone()).unwrap();
        let (root, first, second) = (mount.root(), below[0].root(), below[1].root());
        for at in ["one", "two"] {
            write(&first, &server, at, b"newer").unwrap();
            write(&second, &server, at, b"older").unwrap();
        }
        write(&second, &server, "lower", b"lower").unwrap();
        let rename = |at, to: &VnodeRef| root.rename(&server, name(at), to, name("moved"), RenameMode::Replace);
        assert_eq!(rename("one", &root), Err(Errno::EIO));
        assert_eq!(read(&root, &server, "moved").unwrap(), b"newer");
        // Here nothing has been renamed.
        root.unlink(&server, name("moved")).unwrap();
        assert_eq!(rename("lower", &root), Err(Errno::EXDEV));
        assert_eq!(
            (names_in(&first), read(&root, &server, "lower").unwrap()),
            (vec!["two".to_owned()], b"lower".to_vec())
        );
        let only_first = root.mkdir(&server, name("directory"), 0o755).unwrap().vnode;
        assert_eq!(rename("two", &only_first), Err(Errno::EXDEV));
        assert_eq!(
            (names_in(&first), read(&root, &server, "two").unwrap()),
            (vec!["directory".to_owned(), "two".to_owned()], b"newer".to_vec())
        );
    }
}

/// The same sample on storage that fails, and what tells it to.
fn failing(called: &str, text: &str, options: &str) -> (tempfile::TempDir, FileSystemRef) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("{called}.fist"));
    std::fs::write(&path, text).unwrap();
    let expression = format!("mem: | faulty | {}({options})", path.display());
    (directory, plyfs_stack::build(&plyfs_stack::syntax::parse(&expression).unwrap()).unwrap())
}

fn tell_faulty(mount: &FileSystemRef, command: &str, arguments: &[(&str, &str)]) -> String {
    let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    mount.control(&Control { target: "faulty".to_owned(), command: command.to_owned(), arguments }).unwrap()
}

/// What a rule cannot be told of a file is no reason to let go what it protects.
#[test]
fn nothing_goes_unkept_where_a_question_fails() {
    let samples = [
        ("keepfs", KEEPFS, "tier=interpreted", ".kept.file"),
        ("versionfs", VERSIONFS, "tier=interpreted, versions=2", "file.~1~"),
        ("trashfs", include_str!("../../../../examples/fist/trashfs.fist"), "tier=interpreted", "file.deleted"),
    ];
    let server = Caller::server();
    for (called, text, options, kept) in samples {
        let mut failed = 0;
        for call in 1..200 {
            let (_directory, mount) = failing(called, text, options);
            tell_faulty(&mount, "off", &[]);
            let root = mount.root();
            write(&root, &server, "file", b"precious").unwrap();
            let file = root.lookup(&server, name("file")).unwrap().vnode;
            tell_faulty(&mount, "set", &[("from", &call.to_string()), ("times", "1"), ("error", "EIO")]);
            tell_faulty(&mount, "on", &[]);
            let answer = match called {
                "versionfs" => file.open(&server, OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).map(drop),
                _ => root.unlink(&server, name("file")),
            };
            let has_failed = tell_faulty(&mount, "stats", &[]).contains("faults=1");
            tell_faulty(&mount, "off", &[]);
            let all: Vec<_> = names_in(&root).iter().filter_map(|name| read(&root, &server, name).ok()).collect();
            assert!(
                all.iter().any(|data| data == b"precious"),
                "{called}, call {call}: {answer:?}, {:?}",
                names_in(&root)
            );
            if answer.is_ok() {
                assert_eq!(read(&root, &server, kept).unwrap(), b"precious", "{called}, call {call}");
            }
            if !has_failed {
                break;
            }
            failed += 1;
        }
        assert!((1..199).contains(&failed), "{called}: {failed} calls");
    }
}

#[test]
fn versionfs_keeps_what_is_cut_however_it_is_opened() {
    for tier in TIERS {
        let mount = described("versionfs", VERSIONFS, &[("versions", "3"), ("tier", tier)]);
        let (root, server) = (mount.root(), Caller::server());
        write(&root, &server, "file", b"1").unwrap();
        let file = root.lookup(&server, name("file")).unwrap().vnode;
        file.open(&server, OpenFlags::READ.with(OpenFlags::TRUNCATE)).unwrap();
        assert_eq!(read(&root, &server, "file.~1~").unwrap(), b"1");
        // Whoever means to make it meets what somebody else has made.
        file.open(&server, OpenFlags::WRITE).unwrap().write_at(&server, 0, b"2").unwrap();
        let flags = OpenFlags::WRITE.with(OpenFlags::TRUNCATE);
        root.create(&server, name("file"), &Creation { mode: 0o644, flags }).unwrap();
        assert_eq!(read(&root, &server, "file.~1~").unwrap(), b"2");
        assert_eq!(read(&root, &server, "file.~2~").unwrap(), b"1");
        let flags = flags.with(OpenFlags::EXCLUSIVE);
        assert_eq!(root.create(&server, name("file"), &Creation { mode: 0o644, flags }).map(drop), Err(Errno::EEXIST));
        assert_eq!(names_in(&root), ["file", "file.~1~", "file.~2~"]);
    }
}

//! The examples of the reference, each of which does what is said of it there.

use vnode::{Caller, Creation, Device, Errno, FileKind, OpenFlags, RenameMode, SetAttributes};

use super::{TIERS, attributes, command, create, described, in_both_tiers, logged, name, names_in, read, user, write};

/// The examples, in their order.
fn examples() -> Vec<&'static str> {
    let reference = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/language.md"));
    reference.split("```fist\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// The one example that has this in it.
fn with(part: &str) -> &'static str {
    let all = examples();
    let mut having = all.iter().filter(|example| example.contains(part));
    let found = having.next().unwrap_or_else(|| panic!("no example has {part}"));
    assert!(having.next().is_none(), "several examples have {part}");
    found
}

/// What each example is known by: each has a test of its own below.
const TESTED: [&str; 9] = [
    "is_precious",
    "LONGEST",
    "errorcode EBADKEY",
    "%delops:name:precall",
    "$0.seen",
    "fistStrEq($name, \"con\")",
    "int area",
    "out[i] = ~in[i]",
    "fileformat OWNER",
];

#[test]
fn each_example_has_a_test() {
    assert_eq!(examples().len(), TESTED.len());
    TESTED.into_iter().for_each(|part| {
        with(part);
    });
}

#[test]
fn sections() {
    in_both_tiers("example", with("is_precious"), |mount| {
        let (root, server) = (mount.root(), Caller::server());
        for at in ["short", "ten_bytes_", "eleven_byte"] {
            write(&root, &server, at, b"text").unwrap();
        }
        assert_eq!(root.unlink(&server, name("eleven_byte")), Err(Errno::EPERM));
        root.unlink(&server, name("ten_bytes_")).unwrap();
        root.unlink(&server, name("short")).unwrap();
        assert_eq!(names_in(&root), ["eleven_byte"]);
    });
}

#[test]
fn conditions() {
    in_both_tiers("example", with("LONGEST"), |mount| {
        assert_eq!((mount.mkdir("abcde"), mount.mkdir("abcdef")), (Ok(()), Err(Errno::ENAMETOOLONG)));
        assert!(write(&mount.root(), &Caller::server(), "abcdef", b"").is_ok());
    });
}

#[test]
fn declarations() {
    let text = with("errorcode EBADKEY");
    assert_eq!((command("example", text, "SETKEY") & 0xff, command("example", text, "STATISTICS") & 0xff), (7, 1));
    for tier in TIERS {
        let options = [("tier", tier), ("loud", "yes"), ("label", "a label"), ("ports", "1:2"), ("limit", "-3")];
        let log = logged(|| {
            let mount = described("example", text, &options);
            let (root, server) = (mount.root(), Caller::server());
            write(&root, &server, "file", b"text").unwrap();
            assert_eq!(names_in(&mount.root_below(0)), ["_file"]);
            write(&mount.root_below(0), &server, "other", b"").unwrap();
            assert_eq!(names_in(&root), ["file"], "what lies below by another name is not listed");
            for _ in 0..2 {
                assert_eq!(read(&root, &server, "file").unwrap(), b"text");
            }
            let mut opened = [0; 8];
            mount.ioctl(&root, &server, command("example", text, "STATISTICS"), &mut opened).unwrap();
            assert_eq!(i64::from_le_bytes(opened), 2);
        });
        assert!(log.contains("a label: file"), "{log}");
        let quiet =
            logged(|| drop(create(&described("example", text, &[("tier", tier)]).root(), &Caller::server(), "x")));
        assert!(!quiet.contains(": x"), "{quiet}");
    }
}

#[test]
fn rules() {
    in_both_tiers("example", with("%delops:name:precall"), |mount| {
        let (root, server, user) = (mount.root(), Caller::server(), user(1000));
        root.setattr(&server, &SetAttributes { mode: Some(0o777), ..Default::default() }).unwrap();
        write(&root, &server, "of_root", b"").unwrap();
        write(&root, &user, "own", b"").unwrap();
        write(&root, &user, ".hidden", b"").unwrap();
        mount.mkdir("directory").unwrap();
        assert_eq!(root.unlink(&user, name("of_root")), Err(Errno::EPERM));
        assert_eq!(root.rmdir(&user, name("directory")), Err(Errno::EPERM));
        root.unlink(&user, name("own")).unwrap();
        assert_eq!(names_in(&root), ["directory", "of_root"]);
        assert!(root.lookup(&server, name(".hidden")).is_ok());
        root.rmdir(&server, name("directory")).unwrap();
        assert_eq!(names_in(&root), ["of_root"]);
    });
}

#[test]
fn variables() {
    in_both_tiers("example", with("$0.seen"), |mount| {
        let (root, server, user) = (mount.root(), Caller::server(), user(1000));
        root.setattr(&server, &SetAttributes { mode: Some(0o777), ..Default::default() }).unwrap();
        write(&root, &server, "of_root", b"text").unwrap();
        write(&root, &user, "of_user", b"text").unwrap();
        assert_eq!(read(&root, &server, "of_root").unwrap(), b"text");
        assert_eq!(read(&root, &server, "of_user"), Err(Errno::EBUSY));
        let file = root.lookup(&server, name("of_root")).unwrap().vnode;
        let set = |changes: SetAttributes| file.setattr(&server, &changes).map(drop);
        assert_eq!(set(SetAttributes { size: Some((1 << 30) + 1), ..Default::default() }), Err(Errno::EPERM));
        assert_eq!(set(SetAttributes { mode: Some(0o4755), ..Default::default() }), Err(Errno::EPERM));
        assert_eq!(set(SetAttributes { mode: Some(0o755), ..Default::default() }), Ok(()));
        assert_eq!(set(SetAttributes { uid: Some(7), ..Default::default() }), Ok(()), "no mode is set");
        let rename = |from, to| root.rename(&server, name(from), &root, name(to), RenameMode::Replace);
        write(&root, &server, "core", b"text").unwrap();
        assert_eq!(rename("of_root", "core"), Err(Errno::EEXIST));
        root.unlink(&server, name("core")).unwrap();
        write(&root, &server, "core", b"").unwrap();
        assert_eq!(rename("of_root", "core"), Ok(()));
    });
}

#[test]
fn arguments_that_are_assigned() {
    in_both_tiers("example", with("fistStrEq($name, \"con\")"), |mount| {
        let (root, server) = (mount.root(), Caller::server());
        root.mkdir(&server, name("con"), 0o777).unwrap();
        root.mknod(&server, name("fifo"), FileKind::Fifo, 0o666, Device::default()).unwrap();
        let how = Creation { mode: 0o666, flags: OpenFlags::READ_WRITE };
        let file = root.create(&server, name("file"), &how).unwrap().entry.vnode;
        root.symlink(&server, name("link"), b"con").unwrap();
        assert_eq!(names_in(&root), ["con_", "fifo", "file", "link"]);
        let modes = ["con_", "fifo", "file"].map(|at| attributes(&root, at).mode);
        assert_eq!(modes, [0o755, 0o644, 0o644]);
        let changed = file.setattr(&server, &SetAttributes { mode: Some(0o777), ..Default::default() }).unwrap();
        assert_eq!(changed.mode, 0o755);
        let changed = file.setattr(&server, &SetAttributes { size: Some(5000), ..Default::default() }).unwrap();
        assert_eq!((changed.mode, changed.size), (0o755, 1000));
    });
}

#[test]
fn statements() {
    in_both_tiers("example", with("int area"), |mount| {
        assert_eq!([mount.mkdir("one"), mount.mkdir("two"), mount.mkdir("three")], [Ok(()), Ok(()), Err(Errno::EBUSY)]);
    });
}

#[test]
fn filters() {
    in_both_tiers("example", with("out[i] = ~in[i]"), |mount| {
        let (root, server) = (mount.root(), Caller::server());
        let text: Vec<u8> = (0..9000_u32).map(|byte| (byte % 97) as u8 + 1).collect();
        write(&root, &server, "file", &text).unwrap();
        assert_eq!(names_in(&root), ["file"]);
        assert_eq!(read(&root, &server, "file").unwrap(), text);
        let below = mount.root_below(0);
        assert_eq!(names_in(&below), ["file.x"]);
        let inverted: Vec<u8> = text.iter().map(|byte| !byte).collect();
        assert_eq!(read(&below, &server, "file.x").unwrap(), inverted);
    });
}

#[test]
fn functions() {
    let text = with("fileformat OWNER");
    in_both_tiers("example", text, |mount| {
        let (root, server) = (mount.root(), Caller::server());
        let (owner, friend, other) = (user(1000), user(1001), user(1002));
        root.setattr(&server, &SetAttributes { mode: Some(0o777), ..Default::default() }).unwrap();
        let directory = root.mkdir(&owner, name("private"), 0o700).unwrap().vnode;
        write(&directory, &owner, "file", b"for friends").unwrap();
        assert_eq!(read(&directory, &friend, "file"), Err(Errno::EACCES));
        let give = |caller: &Caller| {
            mount.ioctl(&directory, caller, command("example", text, "GIVE"), &mut 1001_u32.to_le_bytes())
        };
        assert_eq!((give(&friend), give(&owner)), (Err(Errno::EPERM), Ok(0)));
        assert_eq!(read(&directory, &friend, "file").unwrap(), b"for friends");
        assert_eq!(read(&directory, &other, "file"), Err(Errno::EACCES));
        // Some of what is deleted stays.
        let is_deleted = |at: &str| fist::ciphers::hash(format!("kept.{at}").as_bytes())[0] & 1 == 1;
        let names = ["a", "b", "c", "d", "e", "f"];
        for at in names {
            write(&root, &server, at, b"").unwrap();
            root.unlink(&server, name(at)).unwrap();
        }
        let mut expected: Vec<_> =
            names.into_iter().filter(|at| !is_deleted(at)).map(|at| format!("kept.{at}")).collect();
        assert!(!expected.is_empty() && expected.len() < names.len());
        expected.push("private".to_owned());
        assert_eq!(names_in(&root), expected);
    });
}

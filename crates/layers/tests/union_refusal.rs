//! What a caller may not do to what is in a branch that is only read makes no copy of it.

mod common;

use common::unions::{Scene, at, fill, joined, list, name, scene, server};
use common::{layer, memory, user};
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use vnode::{
    AccessMode, Caller, Control, Creation, Errno, OpenFlags, RenameMode, Result, SetAttributes, SetTime, XattrMode,
};

/// A list that lets one user write more than the mode says; the version and its entries.
const WRITE_ACL: &[u8] = &[
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 9, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 6, 0,
    255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
];

type RefusedOperation = (&'static str, fn(&Scene, &Caller) -> Result<()>);

/// What neither the owner of `d/f` may do, nor others.
const REFUSED_TO_ALL: &[RefusedOperation] = &[
    ("chown", |scene, caller| set(scene, caller, SetAttributes { uid: Some(9), ..SetAttributes::default() })),
    ("chgrp", |scene, caller| set(scene, caller, SetAttributes { gid: Some(9), ..SetAttributes::default() })),
    ("trusted", |scene, caller| set_attribute(scene, caller, b"trusted.x", b"y")),
    ("security", |scene, caller| set_attribute(scene, caller, b"security.x", b"y")),
    ("capability", |scene, caller| set_attribute(scene, caller, b"security.capability", &[0; 20])),
    ("removal of trusted", |scene, caller| at(&scene.union, "d/f")?.removexattr(caller, b"trusted.there")),
    ("creation of user", |scene, caller| {
        at(&scene.union, "d/f")?.setxattr(caller, b"user.there", b"z", XattrMode::Create)
    }),
    ("replacing of user", |scene, caller| {
        at(&scene.union, "d/f")?.setxattr(caller, b"user.missing", b"z", XattrMode::Replace)
    }),
    ("link", |scene, caller| at(&scene.union, "d")?.link(caller, &at(&scene.union, "d/f")?, name("g")).map(drop)),
    ("rename", |scene, caller| {
        let directory = at(&scene.union, "d")?;
        directory.rename(caller, name("f"), &directory, name("g"), RenameMode::Replace)
    }),
    ("exchange", |scene, caller| {
        let directory = at(&scene.union, "d")?;
        directory.rename(caller, name("f"), &directory, name("h"), RenameMode::Exchange)
    }),
    ("unlink", |scene, caller| at(&scene.union, "d")?.unlink(caller, name("f"))),
    ("rmdir", |scene, caller| at(&scene.union, "d")?.rmdir(caller, name("empty"))),
    ("create", |scene, caller| {
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        at(&scene.union, "d")?.create(caller, name("new"), &how).map(drop)
    }),
    ("mkdir", |scene, caller| at(&scene.union, "d")?.mkdir(caller, name("new"), 0o755).map(drop)),
    ("symlink", |scene, caller| at(&scene.union, "d")?.symlink(caller, name("new"), b"to").map(drop)),
];

/// What only its owner may do.
const REFUSED_TO_OTHERS: &[RefusedOperation] = &[
    ("chmod", |scene, caller| set(scene, caller, SetAttributes { mode: Some(0o666), ..SetAttributes::default() })),
    ("truncate", |scene, caller| set(scene, caller, SetAttributes { size: Some(0), ..SetAttributes::default() })),
    ("touch", |scene, caller| {
        let now = Some(SetTime::Now);
        set(scene, caller, SetAttributes { atime: now, mtime: now, ..SetAttributes::default() })
    }),
    ("a time", |scene, caller| {
        let time = Some(SetTime::To(vnode::Timestamp { seconds: 7, nanoseconds: 0 }));
        set(scene, caller, SetAttributes { mtime: time, ..SetAttributes::default() })
    }),
    ("user", |scene, caller| set_attribute(scene, caller, b"user.x", b"y")),
    ("removal of user", |scene, caller| at(&scene.union, "d/f")?.removexattr(caller, b"user.there")),
    ("list", |scene, caller| set_attribute(scene, caller, b"system.posix_acl_access", WRITE_ACL)),
    ("open to write", |scene, caller| at(&scene.union, "d/f")?.open(caller, OpenFlags::READ_WRITE).map(drop)),
    ("open to truncate", |scene, caller| {
        at(&scene.union, "d/f")?.open(caller, OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).map(drop)
    }),
];

/// What not even the superuser may do: `d/f` and `d/g` are one file.
const REFUSED_TO_ANYBODY: &[RefusedOperation] = &[
    ("rmdir of a file", |scene, caller| at(&scene.union, "d")?.rmdir(caller, name("f"))),
    ("unlink of a directory", |scene, caller| at(&scene.union, "d")?.unlink(caller, name("empty"))),
    ("rmdir of what is not empty", |scene, caller| at(&scene.union, "")?.rmdir(caller, name("d"))),
    ("mkdir by a name that is there", |scene, caller| at(&scene.union, "d")?.mkdir(caller, name("f"), 0o755).map(drop)),
    ("symlink by a name that is there", |scene, caller| {
        at(&scene.union, "d")?.symlink(caller, name("f"), b"to").map(drop)
    }),
    ("link by a name that is there", |scene, caller| {
        at(&scene.union, "d")?.link(caller, &at(&scene.union, "d/f")?, name("h")).map(drop)
    }),
    ("link of a directory", |scene, caller| {
        at(&scene.union, "d")?.link(caller, &at(&scene.union, "d/empty")?, name("new")).map(drop)
    }),
    ("rename of a file to a directory", |scene, caller| renamed(scene, caller, ["f", "empty"], RenameMode::Replace)),
    ("rename of a directory to a file", |scene, caller| renamed(scene, caller, ["empty", "f"], RenameMode::Replace)),
    ("rename to what is not empty", |scene, caller| renamed(scene, caller, ["empty", "full"], RenameMode::Replace)),
    ("rename to what is there", |scene, caller| renamed(scene, caller, ["f", "h"], RenameMode::NoReplace)),
    ("exchange with nothing", |scene, caller| renamed(scene, caller, ["f", "new"], RenameMode::Exchange)),
    ("rename into itself", |scene, caller| {
        let directory = at(&scene.union, "d")?;
        at(&scene.union, "")?.rename(caller, name("d"), &directory, name("new"), RenameMode::Replace)
    }),
    ("open of a directory to write", |scene, caller| {
        at(&scene.union, "d/empty")?.open(caller, OpenFlags::WRITE).map(drop)
    }),
    ("size of a directory", |scene, caller| {
        let size = SetAttributes { size: Some(0), ..SetAttributes::default() };
        at(&scene.union, "d/empty")?.setattr(caller, &size).map(drop)
    }),
];

fn renamed(scene: &Scene, caller: &Caller, [from, to]: [&str; 2], mode: RenameMode) -> Result<()> {
    let directory = at(&scene.union, "d")?;
    directory.rename(caller, name(from), &directory, name(to), mode)
}

fn set(scene: &Scene, caller: &Caller, changes: SetAttributes) -> Result<()> {
    at(&scene.union, "d/f")?.setattr(caller, &changes).map(drop)
}

fn set_attribute(scene: &Scene, caller: &Caller, name: &[u8], value: &[u8]) -> Result<()> {
    at(&scene.union, "d/f")?.setxattr(caller, name, value, XattrMode::Set)
}

#[test]
fn refused_operations_copy_nothing() {
    const OWNER: u32 = 5;
    let mut copied = Vec::new();
    for (caller, refused) in [(user(OWNER), vec![REFUSED_TO_ALL]), (user(6), vec![REFUSED_TO_ALL, REFUSED_TO_OTHERS])] {
        for (what, refused) in refused.into_iter().flatten() {
            let scene = scene(&[(ReadWrite, &[][..]), (ReadOnly, &["d/f", "d/h", "d/empty/"])]);
            let file = at(&scene.branches[1], "d/f").unwrap();
            for attribute in [&b"trusted.there"[..], b"user.there"] {
                file.setxattr(&server(), attribute, b"y", XattrMode::Set).unwrap();
            }
            let (uid, gid) = (Some(OWNER), Some(OWNER));
            file.setattr(&server(), &SetAttributes { uid, gid, ..SetAttributes::default() }).unwrap();
            let result = refused(&scene, &caller);
            if result.is_ok() || !list(&scene.branches[0], "").is_empty() {
                copied.push(format!("{what} by {}: {result:?}, {:?}", caller.uid, list(&scene.branches[0], "")));
            }
        }
    }
    assert_eq!(copied, Vec::<String>::new());
}

#[test]
fn impossible_operations_copy_nothing() {
    let mut copied = Vec::new();
    for (what, refused) in REFUSED_TO_ANYBODY {
        let scene = scene(&[(ReadWrite, &[][..]), (ReadOnly, &["d/f", "d/h", "d/empty/", "d/full/x"])]);
        at(&scene.branches[1], "d")
            .unwrap()
            .link(&server(), &at(&scene.branches[1], "d/f").unwrap(), name("g"))
            .unwrap();
        let result = refused(&scene, &server());
        if result.is_ok() || !list(&scene.branches[0], "").is_empty() {
            copied.push(format!("{what}: {result:?}, {:?}", list(&scene.branches[0], "")));
        }
    }
    assert_eq!(copied, Vec::<String>::new());
}

#[test]
fn unreadable_acl_denies_writes() {
    const GROUP: u32 = 5;
    let right = memory();
    fill(&right, 1, "f");
    let file = at(&right, "f").unwrap();
    file.setxattr(&server(), b"system.posix_acl_access", WRITE_ACL, XattrMode::Set).unwrap();
    file.setattr(&server(), &SetAttributes { gid: Some(GROUP), ..SetAttributes::default() }).unwrap();
    let right = layer("faulty", &[("operations", "getxattr"), ("error", "EIO")], layer("readonly", &[], right));
    let scene = joined(vec![(ReadWrite, memory()), (ReadOnly, right)]);
    let faults = |command: &str| {
        let control = Control { target: "faulty".to_owned(), command: command.to_owned(), arguments: Vec::new() };
        scene.union.control(&control).unwrap();
    };
    faults("off");
    let (file, member) = (at(&scene.union, "f").unwrap(), user(GROUP));
    assert_eq!(
        file.access(&member, AccessMode::WRITE),
        Err(Errno::EACCES),
        "the list gives the group less than the mode"
    );
    faults("on");
    let now = Some(SetTime::Now);
    let touch = SetAttributes { atime: now, mtime: now, ..SetAttributes::default() };
    assert_eq!(file.access(&member, AccessMode::WRITE), Err(Errno::EIO));
    assert_eq!(file.setattr(&member, &touch).map(drop), Err(Errno::EIO));
    assert_eq!(file.open(&member, OpenFlags::READ_WRITE).map(drop), Err(Errno::EIO));
    assert_eq!(list(&scene.branches[0], ""), Vec::<String>::new());
}

//! Split views: who has a view sees and writes a branch of its own, and nobody else sees it.

mod common;
#[path = "../../bases/tests/model/operation.rs"]
mod operation;
#[path = "../../bases/tests/model/side.rs"]
mod side;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::unions::{Scene, joined, joined_with, list as list_all, read, scene, server};
use common::{As, Shared, contents, list, memory, name, numbered, root, user};
use fastrand::Rng;
use operation::{Action, Operation};
use plyfs_layers::BranchMode;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use side::Side;
use vnode::layer;
use vnode::{
    Caller, Cookie, Creation, Errno, FileSystemRef, OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes,
    VnodeRef, XattrMode,
};

use BranchMode::{ReadOnly, ReadWrite};

/// The user of the first view, that of the second, and one without.
const FIRST_VIEW_USER: u32 = 1001;
const SECOND_VIEW_USER: u32 = 1002;
const USER_WITHOUT_VIEW: u32 = 1003;

/// A union of a written branch and one that is read, and two views, each for one user.
fn split() -> (Scene, [FileSystemRef; 2]) {
    let scene = scene(&[(ReadWrite, &["top", "d/f"]), (ReadOnly, &["below", "d/g", "e/deep/h"])]);
    for branch in &scene.branches {
        open_to_all(&branch.root());
    }
    let privates = [memory(), memory()];
    for (label, (private, uid)) in
        ["one", "two"].into_iter().zip(privates.iter().zip([FIRST_VIEW_USER, SECOND_VIEW_USER]))
    {
        scene.offer(label, private);
        scene.tell("view-add", &[("branch", label), ("uid", &uid.to_string())]).unwrap();
    }
    (scene, privates)
}

/// Lets everybody change everything.
fn open_to_all(directory: &VnodeRef) {
    let open = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    directory.setattr(&server(), &open).unwrap();
    for entry in list(directory, &server()) {
        let entry = directory.lookup(&server(), name(&entry)).unwrap();
        if entry.attributes.is_directory() {
            open_to_all(&entry.vnode);
        } else {
            entry.vnode.setattr(&server(), &open).unwrap();
        }
    }
}

fn walk(scene: &Scene, uid: u32, path: &str) -> Result<VnodeRef> {
    common::walk(&scene.union, &user(uid), path).map(|entry| entry.vnode)
}

fn see(scene: &Scene, uid: u32, path: &str) -> Option<String> {
    let vnode = walk(scene, uid, path).ok()?;
    Some(String::from_utf8(contents(&vnode, &user(uid))).unwrap())
}

fn names(scene: &Scene, uid: u32, path: &str) -> Vec<String> {
    list(&walk(scene, uid, path).unwrap(), &user(uid))
}

/// Writes a file whole, made if need be.
fn put(scene: &Scene, uid: u32, path: &str, text: &str) {
    let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
    let how = Creation { mode: 0o666, flags: OpenFlags::READ_WRITE.with(OpenFlags::TRUNCATE) };
    let made = walk(scene, uid, directory).unwrap().create(&user(uid), name(file), &how).unwrap();
    made.file.write_at(&user(uid), 0, text.as_bytes()).unwrap();
}

fn text(file: &OpenFileRef, caller: &Caller) -> Result<String> {
    let mut buffer = [0; 100];
    let length = file.read_at(caller, 0, &mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

#[test]
fn writes_of_a_view_are_private() {
    let (scene, privates) = split();
    put(&scene, FIRST_VIEW_USER, "top", "mine");
    put(&scene, FIRST_VIEW_USER, "below", "mine too");
    put(&scene, FIRST_VIEW_USER, "d/new", "new");
    put(&scene, FIRST_VIEW_USER, "e/deep/new", "deep");
    let d = walk(&scene, FIRST_VIEW_USER, "d").unwrap();
    d.unlink(&user(FIRST_VIEW_USER), name("f")).unwrap();
    d.mkdir(&user(FIRST_VIEW_USER), name("sub"), 0o777).unwrap();
    assert_eq!(
        (see(&scene, FIRST_VIEW_USER, "top").as_deref(), see(&scene, FIRST_VIEW_USER, "below").as_deref()),
        (Some("mine"), Some("mine too"))
    );
    assert_eq!(names(&scene, FIRST_VIEW_USER, "d"), ["g", "new", "sub"]);
    for other in [SECOND_VIEW_USER, USER_WITHOUT_VIEW] {
        assert_eq!(
            (see(&scene, other, "top").as_deref(), see(&scene, other, "below").as_deref()),
            (Some("0:top"), Some("1:below"))
        );
        assert_eq!(names(&scene, other, "d"), ["f", "g"]);
        assert_eq!(see(&scene, other, "d/f").as_deref(), Some("0:d/f"));
        assert_eq!(names(&scene, other, "e/deep"), ["h"]);
        assert_eq!(walk(&scene, other, "d/sub").err(), Some(Errno::ENOENT));
    }
    assert_eq!(list_all(&scene.branches[0], "d"), ["f"], "the shared branch is not written");
    assert_eq!(read(&privates[0], "top").unwrap(), "mine");
    assert!(list_all(&privates[1], "").is_empty());
}

#[test]
fn views_see_changes_of_shared_branches_at_once() {
    let (scene, _) = split();
    // Whatever a view may remember of the directories.
    for round in 0..30 {
        let file = format!("d/{round}");
        assert_eq!(see(&scene, FIRST_VIEW_USER, &file), None);
        put(&scene, USER_WITHOUT_VIEW, &file, "a");
        assert_eq!(see(&scene, FIRST_VIEW_USER, &file).as_deref(), Some("a"));
        put(&scene, USER_WITHOUT_VIEW, &file, "changed");
        assert_eq!(see(&scene, FIRST_VIEW_USER, &file).as_deref(), Some("changed"));
        assert!(names(&scene, FIRST_VIEW_USER, "d").contains(&round.to_string()));
        walk(&scene, USER_WITHOUT_VIEW, "d")
            .unwrap()
            .unlink(&user(USER_WITHOUT_VIEW), name(&round.to_string()))
            .unwrap();
        assert_eq!(see(&scene, FIRST_VIEW_USER, &file), None);
        assert!(!names(&scene, FIRST_VIEW_USER, "d").contains(&round.to_string()));
    }
    // A copy in a branch that the view only reads.
    assert_eq!(see(&scene, FIRST_VIEW_USER, "below").as_deref(), Some("1:below"));
    let reader = walk(&scene, FIRST_VIEW_USER, "below").unwrap().open(&user(FIRST_VIEW_USER), OpenFlags::READ).unwrap();
    let number = walk(&scene, FIRST_VIEW_USER, "below").unwrap().getattr(&user(FIRST_VIEW_USER)).unwrap().ino;
    put(&scene, USER_WITHOUT_VIEW, "below", "copied");
    assert_eq!(see(&scene, FIRST_VIEW_USER, "below").as_deref(), Some("copied"));
    assert_eq!(text(&reader, &user(FIRST_VIEW_USER)).unwrap(), "copied", "what is open follows");
    assert_eq!(walk(&scene, FIRST_VIEW_USER, "below").unwrap().getattr(&user(FIRST_VIEW_USER)).unwrap().ino, number);
    // A directory that gets another name.
    let top = scene.union.root();
    top.rename(&user(USER_WITHOUT_VIEW), name("e"), &top, name("moved"), RenameMode::Replace).unwrap();
    assert_eq!(see(&scene, FIRST_VIEW_USER, "moved/deep/h").as_deref(), Some("1:e/deep/h"));
    assert_eq!(walk(&scene, FIRST_VIEW_USER, "e").err(), Some(Errno::ENOENT));
    // And what the view has hidden stays so.
    walk(&scene, FIRST_VIEW_USER, "d").unwrap().unlink(&user(FIRST_VIEW_USER), name("f")).unwrap();
    put(&scene, USER_WITHOUT_VIEW, "d/f", "again");
    assert_eq!(see(&scene, FIRST_VIEW_USER, "d/f"), None);
}

#[test]
fn views_share_directory_vnodes_but_not_files() {
    let (scene, _) = split();
    let handle = |uid, path| walk(&scene, uid, path).unwrap().handle();
    assert_ne!(handle(FIRST_VIEW_USER, "top"), handle(USER_WITHOUT_VIEW, "top"));
    assert_ne!(handle(FIRST_VIEW_USER, "top"), handle(SECOND_VIEW_USER, "top"));
    assert_eq!(handle(FIRST_VIEW_USER, "top"), handle(FIRST_VIEW_USER, "top"));
    for uid in [FIRST_VIEW_USER, SECOND_VIEW_USER] {
        assert_eq!(handle(uid, "d"), handle(USER_WITHOUT_VIEW, "d"));
        assert_eq!(handle(uid, "e/deep"), handle(USER_WITHOUT_VIEW, "e/deep"));
    }
    let number = |uid, path| walk(&scene, uid, path).unwrap().getattr(&user(uid)).unwrap().ino;
    assert_eq!(number(FIRST_VIEW_USER, "top"), number(USER_WITHOUT_VIEW, "top"));
    // Directories that only views have are one vnode too, which shows each its own.
    let mut held = Vec::new();
    for (uid, text) in [(FIRST_VIEW_USER, "of one"), (SECOND_VIEW_USER, "of two")] {
        held.push(scene.union.root().mkdir(&user(uid), name("work"), 0o700).unwrap());
        put(&scene, uid, "work/file", text);
    }
    assert_eq!(handle(FIRST_VIEW_USER, "work"), handle(SECOND_VIEW_USER, "work"));
    assert_eq!(see(&scene, FIRST_VIEW_USER, "work/file").as_deref(), Some("of one"));
    assert_eq!(see(&scene, SECOND_VIEW_USER, "work/file").as_deref(), Some("of two"));
    let work = walk(&scene, FIRST_VIEW_USER, "work").unwrap();
    assert_eq!(
        work.lookup(&user(USER_WITHOUT_VIEW), name("file")).err(),
        Some(Errno::ENOENT),
        "others have no such directory"
    );
    assert_eq!(work.getattr(&user(USER_WITHOUT_VIEW)).err(), Some(Errno::ENOENT));
    assert_ne!(work.getattr(&user(FIRST_VIEW_USER)).unwrap().uid, work.getattr(&user(SECOND_VIEW_USER)).unwrap().uid);
    // And one that is made there later by the others is one with it.
    scene.union.root().mkdir(&user(USER_WITHOUT_VIEW), name("work"), 0o777).unwrap();
    assert_eq!(handle(USER_WITHOUT_VIEW, "work"), work.handle());
    assert_eq!(names(&scene, USER_WITHOUT_VIEW, "work"), [""; 0]);
}

#[test]
fn open_directory_serves_the_view_of_each_reader() {
    let (scene, _) = split();
    put(&scene, FIRST_VIEW_USER, "d/mine", "");
    let open = walk(&scene, FIRST_VIEW_USER, "d").unwrap().open_directory(&user(FIRST_VIEW_USER)).unwrap();
    let read_as = |uid| {
        let mut names = Vec::new();
        open.read(&user(uid), Cookie::START, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        names.sort();
        names
    };
    assert_eq!(read_as(FIRST_VIEW_USER), ["f", "g", "mine"]);
    assert_eq!(read_as(USER_WITHOUT_VIEW), ["f", "g"]);
}

#[test]
fn open_file_stays_in_its_view() {
    let (scene, _) = split();
    let (one, other) = (user(FIRST_VIEW_USER), user(USER_WITHOUT_VIEW));
    let shared = walk(&scene, USER_WITHOUT_VIEW, "top").unwrap().open(&other, OpenFlags::READ_WRITE).unwrap();
    let mine = walk(&scene, FIRST_VIEW_USER, "top").unwrap().open(&one, OpenFlags::READ_WRITE).unwrap();
    // As processes do that inherit descriptors.
    mine.write_at(&other, 0, b"M").unwrap();
    assert_eq!(
        (see(&scene, FIRST_VIEW_USER, "top").as_deref(), see(&scene, USER_WITHOUT_VIEW, "top").as_deref()),
        (Some("M:top"), Some("0:top"))
    );
    shared.write_at(&one, 0, b"S").unwrap();
    assert_eq!(
        (see(&scene, FIRST_VIEW_USER, "top").as_deref(), see(&scene, SECOND_VIEW_USER, "top").as_deref()),
        (Some("M:top"), Some("S:top"))
    );
    let vnode = walk(&scene, FIRST_VIEW_USER, "top").unwrap();
    assert_eq!(vnode.open(&other, OpenFlags::READ).err(), Some(Errno::ENOENT), "it is nobody else's to open");
    assert_eq!(vnode.open(&user(SECOND_VIEW_USER), OpenFlags::READ).err(), Some(Errno::ENOENT));
    let shared = walk(&scene, USER_WITHOUT_VIEW, "top").unwrap();
    let linked = scene.union.root().link(&one, &shared, name("stolen"));
    assert_eq!(linked.err().map(|error| error == Errno::EXDEV), Some(true));
}

/// As chmod(2), truncate(2) and setxattr(2) do through /proc/PID/fd.
#[test]
fn objects_of_a_view_cannot_be_changed_by_others() {
    for (owner, other) in [
        (USER_WITHOUT_VIEW, FIRST_VIEW_USER),
        (FIRST_VIEW_USER, USER_WITHOUT_VIEW),
        (FIRST_VIEW_USER, SECOND_VIEW_USER),
    ] {
        let (scene, _) = split();
        let (mine, others) = (user(owner), user(other));
        let top = scene.union.root();
        put(&scene, owner, "new", "new");
        top.symlink(&mine, name("link"), b"top").unwrap();
        let of = |caller: &Caller, path: &str| common::walk(&scene.union, caller, path).unwrap();
        let set = |mode: Option<u32>, size: Option<u64>| SetAttributes { mode, size, ..SetAttributes::default() };
        for path in ["top", "below", "new"] {
            let file = of(&mine, path).vnode;
            let open = file.open(&mine, OpenFlags::READ_WRITE).unwrap();
            file.setxattr(&mine, b"user.a", b"mine", XattrMode::Set).unwrap();
            let before = file.getattr(&mine).unwrap();
            for changes in [set(None, Some(0)), set(Some(0), None), set(Some(0o700), Some(1))] {
                for caller in [&others, &Caller::process(0, other, 0, 0)] {
                    assert_eq!(file.setattr(caller, &changes).err(), Some(Errno::ENOENT), "{path} {changes:?}");
                }
            }
            let stolen = file.setxattr(&others, b"user.a", b"other", XattrMode::Set);
            assert_eq!(stolen.err(), Some(Errno::ENOENT), "{path}");
            assert_eq!(file.removexattr(&others, b"user.a").err(), Some(Errno::ENOENT), "{path}");
            const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
            let flagged = file.ioctl(&others, FS_IOC_SETFLAGS, &[0; 8], &mut []);
            assert_eq!(flagged.err(), Some(Errno::ENOENT), "{path}");
            assert_eq!(file.getattr(&mine).unwrap(), before, "{path}");
            assert_eq!(file.getxattr(&mine, b"user.a").unwrap(), b"mine");
            // Through what is open it may be written and cut, by whoever has inherited that.
            open.truncate(&others, 1).unwrap();
            assert_eq!(open.getattr(&others).unwrap().size, 1);
            // What the kernel does for whoever writes comes without the open file: it takes set-id bits, and sets times.
            let kept = file.setattr(&others, &SetAttributes { kill_privileges: true, ..SetAttributes::default() });
            assert_ne!(kept.err(), Some(Errno::ENOENT), "{path}");
            for (caller, mode) in [(server(), 0o606), (Caller::server_for(&others), 0o666)] {
                assert_eq!(file.setattr(&caller, &set(Some(mode), None)).unwrap().mode & 0o7777, mode);
            }
            assert_eq!(file.setattr(&mine, &set(None, Some(0))).unwrap().size, 0);
        }
        let link = of(&mine, "link").vnode;
        let given = SetAttributes { uid: Some(other), ..SetAttributes::default() };
        assert_eq!(link.setattr(&others, &given).err(), Some(Errno::ENOENT));
        // A directory is to each what it has at that place.
        let directory = of(&mine, "d").vnode;
        directory.setxattr(&others, b"user.a", b"other", XattrMode::Set).unwrap();
        assert_eq!(
            directory.getxattr(&mine, b"user.a").is_ok(),
            other == USER_WITHOUT_VIEW,
            "what is shared is seen below"
        );
    }
}

#[test]
fn attributes_links_and_xattrs_belong_to_the_view() {
    let (scene, _) = split();
    let (one, other) = (user(FIRST_VIEW_USER), user(USER_WITHOUT_VIEW));
    let (mine, theirs) =
        (walk(&scene, FIRST_VIEW_USER, "top").unwrap(), walk(&scene, USER_WITHOUT_VIEW, "top").unwrap());
    let top = scene.union.root();
    top.link(&one, &mine, name("again")).unwrap();
    assert_eq!((mine.getattr(&one).unwrap().nlink, theirs.getattr(&other).unwrap().nlink), (2, 1));
    assert_eq!(mine.handle(), walk(&scene, FIRST_VIEW_USER, "again").unwrap().handle());
    mine.setxattr(&root(), b"user.a", b"1", XattrMode::Set).unwrap();
    assert_eq!(theirs.getxattr(&other, b"user.a").err(), Some(Errno::ENODATA));
    let d = walk(&scene, USER_WITHOUT_VIEW, "d").unwrap();
    let hidden = walk(&scene, FIRST_VIEW_USER, "d").unwrap();
    hidden.mkdir(&one, name("own"), 0o755).unwrap();
    let own = walk(&scene, FIRST_VIEW_USER, "d/own").unwrap();
    own.setattr(&one, &SetAttributes { mode: Some(0o700), ..SetAttributes::default() }).unwrap();
    assert_eq!(d.lookup(&other, name("own")).err(), Some(Errno::ENOENT));
    // What is listed has the number that it is found with, in each view.
    for uid in [FIRST_VIEW_USER, SECOND_VIEW_USER, USER_WITHOUT_VIEW] {
        let caller = user(uid);
        let open = walk(&scene, uid, "d").unwrap().open_directory(&caller).unwrap();
        for (entry, ino) in numbered(&open, &caller) {
            let found = walk(&scene, uid, "d").unwrap().lookup(&caller, entry.as_name()).unwrap();
            assert_eq!(found.attributes.ino, ino);
        }
    }
}

#[test]
fn directory_removed_in_one_view_is_detached_first() {
    let (scene, _) = split();
    let (one, other) = (user(FIRST_VIEW_USER), user(USER_WITHOUT_VIEW));
    scene.union.root().mkdir(&other, name("empty"), 0o777).unwrap();
    let held = walk(&scene, FIRST_VIEW_USER, "empty").unwrap();
    let shared = held.handle();
    assert_eq!(shared, walk(&scene, USER_WITHOUT_VIEW, "empty").unwrap().handle());
    let top = scene.union.root();
    assert_eq!(top.rmdir(&one, name("d")).err(), Some(Errno::ENOTEMPTY));
    assert_eq!(top.rmdir(&one, name("empty")).err(), Some(Errno::ESTALE), "look again");
    assert_ne!(walk(&scene, FIRST_VIEW_USER, "empty").unwrap().handle(), shared);
    top.rmdir(&one, name("empty")).unwrap();
    assert_eq!(walk(&scene, FIRST_VIEW_USER, "empty").err(), Some(Errno::ENOENT));
    assert_eq!(walk(&scene, USER_WITHOUT_VIEW, "empty").unwrap().handle(), shared);
    // What comes in its place is presented as what the others have there.
    top.mkdir(&one, name("empty"), 0o777).unwrap();
    assert_eq!(walk(&scene, FIRST_VIEW_USER, "empty").unwrap().handle(), shared);
    // A directory that is renamed is known where it is to those who are in it.
    let inside = walk(&scene, FIRST_VIEW_USER, "d").unwrap();
    assert_eq!(top.rename(&one, name("d"), &top, name("x"), RenameMode::Replace).err(), Some(Errno::ESTALE));
    top.rename(&one, name("d"), &top, name("x"), RenameMode::Replace).unwrap();
    put(&scene, FIRST_VIEW_USER, "x/made", "after");
    assert_eq!(list(&inside, &one), ["f", "g", "made"]);
    assert_eq!(list(&inside, &other), ["f", "g"]);
    assert_ne!(walk(&scene, FIRST_VIEW_USER, "x").unwrap().handle(), inside.handle());
    assert_eq!(walk(&scene, USER_WITHOUT_VIEW, "d").unwrap().handle(), inside.handle());
}

/// However a directory is presented, those in it tell the same of the one above them.
#[test]
fn parent_lookup_agrees_with_name_lookup() {
    let (scene, _) = split();
    let (one, other) = (user(FIRST_VIEW_USER), user(USER_WITHOUT_VIEW));
    let top = scene.union.root();
    let is_above = |uid: u32| {
        let inside = walk(&scene, uid, "room/inside").unwrap();
        let above = inside.parent(&user(uid)).unwrap();
        assert_eq!(above.handle(), walk(&scene, uid, "room").unwrap().handle(), "{uid}");
    };
    let room = top.mkdir(&other, name("room"), 0o777).unwrap().vnode;
    open_to_all(&room);
    let make_inside = |caller: &Caller| walk(&scene, caller.uid, "room").unwrap().mkdir(caller, name("inside"), 0o777);
    make_inside(&one).unwrap();
    is_above(FIRST_VIEW_USER);
    // To be removed, and then not: by a vnode of its own.
    assert_eq!(top.rmdir(&other, name("room")).err(), Some(Errno::ESTALE), "look again");
    let face = walk(&scene, USER_WITHOUT_VIEW, "room").unwrap();
    assert_ne!(face.handle(), room.handle());
    make_inside(&other).unwrap();
    [FIRST_VIEW_USER, USER_WITHOUT_VIEW].into_iter().for_each(is_above);
    // To be renamed, and then not: set apart.
    assert_eq!(top.rename(&one, name("room"), &top, name("x"), RenameMode::Replace).err(), Some(Errno::ESTALE));
    [FIRST_VIEW_USER, USER_WITHOUT_VIEW].into_iter().for_each(is_above);
}

#[test]
fn working_directory_survives_removal_in_another_view() {
    let (scene, _) = split();
    let (one, other) = (user(FIRST_VIEW_USER), user(USER_WITHOUT_VIEW));
    let top = scene.union.root();
    let inside = top.mkdir(&other, name("room"), 0o777).unwrap().vnode;
    open_to_all(&inside);
    put(&scene, FIRST_VIEW_USER, "room/mine", "1");
    put(&scene, SECOND_VIEW_USER, "room/mine", "2");
    assert_eq!(walk(&scene, FIRST_VIEW_USER, "room").unwrap().handle(), inside.handle());
    assert_eq!(walk(&scene, SECOND_VIEW_USER, "room").unwrap().handle(), inside.handle());
    assert_eq!(top.rmdir(&other, name("room")).err(), Some(Errno::ESTALE), "look again");
    let face = walk(&scene, USER_WITHOUT_VIEW, "room").unwrap();
    assert_ne!(face.handle(), inside.handle());
    assert_eq!(list(&face, &other), [""; 0]);
    assert_eq!(list(&face, &one), ["mine"]);
    assert_eq!(face.getattr(&other).unwrap().ino, inside.getattr(&other).unwrap().ino);
    assert_eq!(scene.union.resolve(&server(), &face.handle()).err(), Some(Errno::ESTALE));
    top.rmdir(&other, name("room")).unwrap();
    assert_eq!(walk(&scene, USER_WITHOUT_VIEW, "room").err(), Some(Errno::ENOENT));
    assert_eq!(walk(&scene, SECOND_VIEW_USER, "room/mine").map(drop), Ok(()));
    let how = Creation { mode: 0o666, flags: OpenFlags::READ_WRITE };
    inside.create(&one, name("more"), &how).unwrap();
    assert_eq!(
        (list(&inside, &one), list(&inside, &user(SECOND_VIEW_USER))),
        (vec!["mine".to_owned(), "more".to_owned()], vec!["mine".to_owned()])
    );
    assert_eq!(names(&scene, FIRST_VIEW_USER, "room"), ["mine", "more"]);
    // One that nobody else has anything in needs no second look.
    top.mkdir(&other, name("plain"), 0o777).unwrap();
    let plain = walk(&scene, FIRST_VIEW_USER, "plain").unwrap();
    top.rmdir(&other, name("plain")).unwrap();
    assert!(plain.lookup(&one, name("x")).is_err());
}

#[test]
fn changes_of_a_view_survive_a_foreign_move() {
    for is_inside in [true, false] {
        let (scene, _) = split();
        let (one, other) = (user(FIRST_VIEW_USER), user(USER_WITHOUT_VIEW));
        let top = scene.union.root();
        put(&scene, FIRST_VIEW_USER, "d/mine", "mine");
        let inside = walk(&scene, FIRST_VIEW_USER, "d").unwrap();
        let file = walk(&scene, FIRST_VIEW_USER, "d/mine").unwrap();
        top.rename(&other, name("d"), &top, name("x"), RenameMode::Replace).unwrap();
        if is_inside {
            assert_eq!(list(&inside, &one), ["mine"]);
        }
        for _ in 0..3 {
            let (d, x) = (walk(&scene, FIRST_VIEW_USER, "d").unwrap(), walk(&scene, FIRST_VIEW_USER, "x").unwrap());
            assert_ne!(d.handle(), x.handle());
            assert_eq!(
                (list(&d, &one), list(&x, &one)),
                (vec!["mine".to_owned()], vec!["f".to_owned(), "g".to_owned()])
            );
            assert_eq!(walk(&scene, USER_WITHOUT_VIEW, "x").unwrap().handle(), inside.handle());
            assert_eq!(names(&scene, USER_WITHOUT_VIEW, "x"), ["f", "g"]);
        }
        put(&scene, FIRST_VIEW_USER, "x/new", "new");
        put(&scene, FIRST_VIEW_USER, "d/more", "more");
        assert_eq!(
            (names(&scene, FIRST_VIEW_USER, "d"), names(&scene, FIRST_VIEW_USER, "x")),
            (vec!["mine".to_owned(), "more".to_owned()], vec!["f".to_owned(), "g".to_owned(), "new".to_owned()])
        );
        assert_eq!(contents(&file, &one), b"mine");
        assert_eq!(names(&scene, USER_WITHOUT_VIEW, ""), ["below", "e", "top", "x"]);
        top.mkdir(&other, name("d"), 0o777).unwrap();
        assert_eq!(names(&scene, FIRST_VIEW_USER, "d"), ["mine", "more"]);
        assert_eq!(names(&scene, USER_WITHOUT_VIEW, "d"), [""; 0]);
    }
}

#[test]
fn handles_identify_their_view() {
    let (scene, privates) = split();
    put(&scene, FIRST_VIEW_USER, "d/f", "mine");
    let mine = walk(&scene, FIRST_VIEW_USER, "d/f").unwrap().handle();
    let found = scene.union.resolve(&server(), &mine).unwrap();
    assert_eq!(contents(&found, &user(FIRST_VIEW_USER)), b"mine");
    assert_eq!(found.open(&user(USER_WITHOUT_VIEW), OpenFlags::READ).err(), Some(Errno::ENOENT));
    let theirs = walk(&scene, USER_WITHOUT_VIEW, "d/f").unwrap().handle();
    assert_eq!(contents(&scene.union.resolve(&server(), &theirs).unwrap(), &user(USER_WITHOUT_VIEW)), b"0:d/f");
    drop(found);
    // After a restart too, with the views the other way round.
    let Scene { branches, union, .. } = scene;
    drop(union);
    let again = joined(vec![(ReadWrite, branches[0].clone()), (ReadOnly, branches[1].clone())]);
    again.offer("one", &privates[0]);
    again.offer("two", &privates[1]);
    assert_eq!(again.union.resolve(&server(), &mine).err(), Some(Errno::ESTALE), "there is no such view");
    for (label, uid) in [("two", SECOND_VIEW_USER), ("one", FIRST_VIEW_USER)] {
        again.tell("view-add", &[("branch", label), ("uid", &uid.to_string())]).unwrap();
    }
    assert_eq!(contents(&again.union.resolve(&server(), &mine).unwrap(), &user(FIRST_VIEW_USER)), b"mine");
}

#[test]
fn a_handle_gives_what_the_view_of_its_caller_shows() {
    let (scene, _) = split();
    let (one, other) = (user(FIRST_VIEW_USER), user(USER_WITHOUT_VIEW));
    let resolve = |uid, handle| scene.union.resolve(&user(uid), handle);
    put(&scene, FIRST_VIEW_USER, "d/f", "mine");
    let mine = walk(&scene, FIRST_VIEW_USER, "d/f").unwrap().handle();
    let theirs = walk(&scene, USER_WITHOUT_VIEW, "d/f").unwrap().handle();
    assert_eq!(contents(&resolve(FIRST_VIEW_USER, &mine).unwrap(), &one), b"mine");
    assert_eq!(contents(&resolve(USER_WITHOUT_VIEW, &theirs).unwrap(), &other), b"0:d/f");
    for (uid, handle) in
        [(USER_WITHOUT_VIEW, &mine), (SECOND_VIEW_USER, &mine), (FIRST_VIEW_USER, &theirs), (SECOND_VIEW_USER, &theirs)]
    {
        assert_eq!(resolve(uid, handle).err(), Some(Errno::ESTALE), "{uid}");
    }
    assert!(scene.union.resolve(&server(), &mine).is_ok() && scene.union.resolve(&server(), &theirs).is_ok());
    // A directory that several views have is the same vnode, and lists what each caller's has.
    let d = walk(&scene, USER_WITHOUT_VIEW, "d").unwrap().handle();
    put(&scene, FIRST_VIEW_USER, "d/own", "own");
    for (uid, expected) in [(FIRST_VIEW_USER, &["f", "g", "own"][..]), (USER_WITHOUT_VIEW, &["f", "g"])] {
        assert_eq!(list(&resolve(uid, &d).unwrap(), &user(uid)), expected);
    }
    // One that only the second view has, and one that the first has removed.
    let room = scene.union.root().mkdir(&user(SECOND_VIEW_USER), name("room"), 0o777).unwrap().vnode.handle();
    assert!(resolve(SECOND_VIEW_USER, &room).is_ok());
    assert_eq!(resolve(FIRST_VIEW_USER, &room).err(), Some(Errno::ESTALE));
    let held = walk(&scene, USER_WITHOUT_VIEW, "e/deep").unwrap();
    let deep = held.handle();
    walk(&scene, FIRST_VIEW_USER, "e/deep").unwrap().unlink(&one, name("h")).unwrap();
    let remove = || {
        walk(&scene, FIRST_VIEW_USER, "e/deep").unwrap();
        walk(&scene, FIRST_VIEW_USER, "e").unwrap().rmdir(&one, name("deep"))
    };
    // As the kernel does after `ESTALE`.
    assert!(remove().is_ok() || remove().is_ok());
    assert_eq!(resolve(FIRST_VIEW_USER, &deep).err(), Some(Errno::ESTALE));
    assert_eq!(list(&resolve(USER_WITHOUT_VIEW, &deep).unwrap(), &other), ["h"]);
}

#[test]
fn removed_view_leaves_its_branch_and_stale_files() {
    let (scene, privates) = split();
    let one = user(FIRST_VIEW_USER);
    put(&scene, FIRST_VIEW_USER, "top", "mine");
    put(&scene, FIRST_VIEW_USER, "d/new", "new");
    let file = walk(&scene, FIRST_VIEW_USER, "top").unwrap().open(&one, OpenFlags::READ_WRITE).unwrap();
    let (vnode, work) = (walk(&scene, FIRST_VIEW_USER, "top").unwrap(), walk(&scene, FIRST_VIEW_USER, "d").unwrap());
    assert_eq!(scene.tell("views", &[]).unwrap(), "uid:1001 = one\nuid:1002 = two\n");
    assert!(scene.tell("view-remove", &[("branch", "none")]).unwrap_err().to_string().contains("one, two"));
    assert!(scene.union.properties().needs.every_lookup);
    assert_eq!(scene.tell("view-remove", &[("branch", "one")]).unwrap(), "uid:1002 = two\n");
    assert_eq!(text(&file, &one).err(), Some(Errno::ESTALE));
    assert_eq!(file.write_at(&one, 0, b"x").err(), Some(Errno::ESTALE));
    assert_eq!(vnode.getattr(&one).err(), Some(Errno::ESTALE));
    assert_eq!(
        see(&scene, FIRST_VIEW_USER, "top").as_deref(),
        Some("0:top"),
        "who had the view sees what the others see"
    );
    assert_eq!(list(&work, &one), ["f", "g"]);
    assert_eq!(read(&privates[0], "d/new").unwrap(), "new");
    // And comes back as it was, for somebody else.
    scene.tell("view-add", &[("branch", "one"), ("uid", &USER_WITHOUT_VIEW.to_string())]).unwrap();
    assert_eq!(
        (see(&scene, USER_WITHOUT_VIEW, "top").as_deref(), see(&scene, FIRST_VIEW_USER, "top").as_deref()),
        (Some("mine"), Some("0:top"))
    );
    put(&scene, USER_WITHOUT_VIEW, "top", "other");
    assert_eq!(read(&privates[0], "top").unwrap(), "other");
    for label in ["one", "two"] {
        scene.tell("view-remove", &[("branch", label)]).unwrap();
    }
    assert!(!scene.union.properties().needs.every_lookup, "names may be cached again");
}

#[test]
fn views_follow_changes_of_the_branches() {
    let (scene, _) = split();
    put(&scene, FIRST_VIEW_USER, "d/mine", "mine");
    let added = memory();
    common::unions::fill(&added, 2, "late");
    common::unions::fill(&added, 2, "d/f");
    open_to_all(&added.root());
    scene.offer("late", &added);
    scene.tell("add", &[("branch", "late=ro"), ("at", "0")]).unwrap();
    for uid in [FIRST_VIEW_USER, USER_WITHOUT_VIEW] {
        assert_eq!(see(&scene, uid, "late").as_deref(), Some("2:late"));
        assert_eq!(see(&scene, uid, "d/f").as_deref(), Some("2:d/f"));
    }
    assert_eq!(see(&scene, FIRST_VIEW_USER, "d/mine").as_deref(), Some("mine"));
    put(&scene, FIRST_VIEW_USER, "late", "changed");
    scene.tell("remove", &[("branch", "late")]).unwrap();
    assert_eq!(
        (see(&scene, FIRST_VIEW_USER, "late").as_deref(), see(&scene, USER_WITHOUT_VIEW, "late")),
        (Some("changed"), None)
    );
    assert_eq!(see(&scene, FIRST_VIEW_USER, "d/f").as_deref(), Some("0:d/f"));
    scene.offer("one", &memory());
    for (command, taken, rule) in [("add", "one", None), ("view-add", "branch 0", Some(("uid", "5")))] {
        scene.offer("branch 0", &memory());
        let arguments: Vec<_> = [("branch", taken)].into_iter().chain(rule).collect();
        let refused = scene.tell(command, &arguments).unwrap_err().to_string();
        assert!(refused.contains(taken), "{refused}");
    }
    // A branch that can no longer be written is none of a view's business.
    scene.tell("mode", &[("branch", "branch 0"), ("mode", "ro")]).unwrap();
    put(&scene, FIRST_VIEW_USER, "d/g", "still written");
    assert_eq!(see(&scene, FIRST_VIEW_USER, "d/g").as_deref(), Some("still written"));
}

#[test]
fn views_survive_snapshots() {
    let (scene, _) = split();
    put(&scene, FIRST_VIEW_USER, "d/mine", "mine");
    put(&scene, USER_WITHOUT_VIEW, "d/f", "before");
    scene.tell("snapshot-take", &[("name", "first")]).unwrap();
    put(&scene, USER_WITHOUT_VIEW, "d/f", "after");
    assert_eq!(see(&scene, FIRST_VIEW_USER, "d/f").as_deref(), Some("after"));
    let file = walk(&scene, FIRST_VIEW_USER, "d/f").unwrap().open(&user(FIRST_VIEW_USER), OpenFlags::READ).unwrap();
    put(&scene, FIRST_VIEW_USER, "top", "mine");
    scene.tell("snapshot-restore", &[("name", "first")]).unwrap();
    assert_eq!(
        (see(&scene, FIRST_VIEW_USER, "d/f").as_deref(), see(&scene, USER_WITHOUT_VIEW, "d/f").as_deref()),
        (Some("before"), Some("before"))
    );
    assert_eq!(text(&file, &user(FIRST_VIEW_USER)).unwrap(), "before", "as that of others does");
    put(&scene, USER_WITHOUT_VIEW, "d/f", "later");
    scene.tell("snapshot-merge", &[]).unwrap();
    assert_eq!(see(&scene, FIRST_VIEW_USER, "d/f").as_deref(), Some("later"));
    assert_eq!(
        (see(&scene, FIRST_VIEW_USER, "top").as_deref(), see(&scene, FIRST_VIEW_USER, "d/mine").as_deref()),
        (Some("mine"), Some("mine"))
    );
}

#[test]
fn first_matching_rule_selects_the_view() {
    let (scene, privates) = split();
    assert!(scene.tell("view-add", &[("branch", "one"), ("uid", "x")]).unwrap_err().to_string().contains("uid=x"));
    assert!(scene.tell("view-add", &[("branch", "one")]).is_err());
    assert!(scene.tell("view-add", &[("branch", "one"), ("uid", "1"), ("session", "1")]).is_err());
    scene.tell("view-add", &[("branch", "one"), ("uid", &USER_WITHOUT_VIEW.to_string())]).unwrap();
    let own = std::process::id();
    let list = scene.tell("view-add", &[("branch", "two"), ("pid", &own.to_string())]).unwrap();
    assert_eq!(list, format!("uid:1001 uid:1003 = one\nuid:1002 pid:{own} = two\n"));
    put(&scene, USER_WITHOUT_VIEW, "mine", "of one");
    assert_eq!(read(&privates[0], "mine").unwrap(), "of one");
    let mut caller = user(4);
    let at = |caller: &Caller, path: &str| scene.union.root().lookup(caller, name(path)).map(drop);
    assert_eq!(at(&caller, "mine"), Err(Errno::ENOENT));
    put(&scene, SECOND_VIEW_USER, "his", "of two");
    assert_eq!(at(&caller, "his"), Err(Errno::ENOENT));
    caller.pid = own;
    assert_eq!(at(&caller, "his"), Ok(()));
    caller.uid = FIRST_VIEW_USER;
    assert_eq!((at(&caller, "his"), at(&caller, "mine")), (Err(Errno::ENOENT), Ok(())), "the first that is for it");
}

#[test]
fn views_can_be_defined_by_option() {
    let offered: [FileSystemRef; 3] = [memory(), memory(), memory()];
    let names = ["top", "one", "two"];
    let all = offered.clone();
    let opener: plyfs_layers::BranchOpener = Arc::new(move |text: &str| {
        let index = names.iter().position(|known| *known == text).ok_or("no such branch")?;
        Ok(plyfs_layers::Branch {
            file_system: all[index].clone(),
            mode: None,
            label: text.to_owned(),
            minimum_free: None,
        })
    });
    let join = |views: &str| {
        let top = opener.open("top").unwrap();
        plyfs_layers::kind("union").unwrap().join(
            &[("views".to_owned(), views.to_owned())],
            vec![top],
            Some(opener.clone()),
        )
    };
    let union = join("uid:1001=one; uid:1002 = two").unwrap();
    union.root().mkdir(&user(FIRST_VIEW_USER), name("d"), 0o755).unwrap();
    assert_eq!((list_all(&offered[1], "").contains(&"d".to_owned()), list_all(&offered[0], "").len()), (true, 0));
    assert!(union.properties().needs.every_lookup && union.properties().needs.fresh_attributes);
    drop(union);
    for wrong in ["uid:1001", "uid:x=one", "gid:1=one", "uid:1=nowhere", "uid:1=top"] {
        let error = join(wrong).err().unwrap_or_else(|| panic!("{wrong}")).to_string();
        assert!(error.contains("views"), "{wrong}: {error}");
    }
    assert!(!join("").unwrap().properties().needs.every_lookup);
}

/// Views work while others change what is below them, branches come and go, and views end.
#[test]
fn views_work_concurrently() {
    let (scene, _) = split();
    let (extra, third) = (memory(), memory());
    common::unions::fill(&extra, 2, "extra");
    scene.offer("extra", &extra);
    scene.offer("third", &third);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (scene, is_over) = (&scene, &is_over);
    let works = |uid: u32| {
        let (caller, top) = (user(uid), scene.union.root());
        let mut random = Rng::with_seed(u64::from(uid));
        let own = uid.to_string();
        // Once more if it is told to look again, as the kernel does.
        let twice = |act: &dyn Fn() -> Result<()>| match act() {
            Err(Errno::ESTALE) => act(),
            result => result,
        };
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            let name_of = |number: usize| format!("n{number}");
            let (one, other) = (name_of(random.usize(..4)), name_of(random.usize(..4)));
            let _ = top.mkdir(&caller, name(&one), 0o777);
            if let Ok(directory) = common::walk(&scene.union, &caller, &one) {
                let how = Creation { mode: 0o666, flags: OpenFlags::READ_WRITE.with(OpenFlags::TRUNCATE) };
                if let Ok(created) = directory.vnode.create(&caller, name("f"), &how) {
                    let _ = created.file.write_at(&caller, 0, own.as_bytes());
                    // The other thread of the view may have begun it anew.
                    let seen = text(&created.file, &caller).unwrap_or_default();
                    assert!(seen.is_empty() || seen == own, "{uid} sees {seen}");
                }
                let _ = list_directory(&directory.vnode, &caller);
                if random.bool() {
                    let _ = directory.vnode.unlink(&caller, name("f"));
                }
            }
            let _ = twice(&|| top.rename(&caller, name(&one), &top, name(&other), RenameMode::Replace));
            let _ = twice(&|| top.rmdir(&caller, name(&other)));
        }
    };
    std::thread::scope(|scope| {
        for uid in [FIRST_VIEW_USER, FIRST_VIEW_USER, SECOND_VIEW_USER, USER_WITHOUT_VIEW] {
            scope.spawn(move || works(uid));
        }
        for round in 0..40 {
            let name = format!("s{round}");
            scene.tell("add", &[("branch", "extra=ro"), ("at", "1")]).unwrap();
            scene.tell("snapshot-take", &[("name", &name)]).unwrap();
            scene.tell("view-add", &[("branch", "third"), ("uid", "7")]).unwrap();
            put(scene, 7, "top", &name);
            assert_eq!(see(scene, 7, "top"), Some(name));
            assert_eq!(see(scene, USER_WITHOUT_VIEW, "top").as_deref(), Some("0:top"));
            scene.tell("view-remove", &[("branch", "third")]).unwrap();
            scene.tell("remove", &[("branch", "extra")]).unwrap();
            scene.tell("snapshot-merge", &[]).unwrap();
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for uid in [FIRST_VIEW_USER, SECOND_VIEW_USER, USER_WITHOUT_VIEW] {
        for directory in names(scene, uid, "") {
            let Some(found) = see(scene, uid, &format!("{directory}/f")).filter(|_| directory.starts_with('n')) else {
                continue;
            };
            let allowed = [String::new(), uid.to_string(), USER_WITHOUT_VIEW.to_string()];
            assert!(allowed.contains(&found), "{uid} sees {found} in {directory}");
        }
    }
}

fn list_directory(directory: &VnodeRef, caller: &Caller) -> Result<usize> {
    let mut count = 0;
    directory.open_directory(caller)?.read(caller, Cookie::START, &mut |_| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// The first process forks one that outlives its parent, and goes on in another thread than its first.
const OUTLIVING_SCRIPT: &str = r"
import ctypes, os, platform, signal, threading, time
def stay():
    print(threading.get_native_id(), flush=True)
    os.read(0, 1)
os.read(0, 1)
if os.fork() == 0:
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.read(0, 1)
        above = os.getppid()
        os.kill(above, signal.SIGKILL)
        while os.getppid() == above:
            time.sleep(0.001)
        threading.Thread(target=stay).start()
        # exit(2) ends the calling thread alone.
        ctypes.CDLL(None).syscall({'x86_64': 60}.get(platform.machine(), 93), 0)
    signal.pause()
os.wait()
signal.pause()
";

#[test]
fn process_keeps_its_view_without_main_thread_and_parents() {
    for is_seen_before in [true, false] {
        if !is_seen_before && !births_are_told() {
            continue;
        }
        let (scene, _) = split();
        put(&scene, FIRST_VIEW_USER, "mine", "");
        let mut first = IdleProcess(
            Command::new("python3")
                .args(["-c", OUTLIVING_SCRIPT])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let (mut input, output) = (first.0.stdin.take().unwrap(), first.0.stdout.take().unwrap());
        let mut lines = BufReader::new(output).lines().map(|line| line.unwrap().parse::<u32>().unwrap());
        scene.tell("view-add", &[("branch", "one"), ("pid", &first.0.id().to_string())]).unwrap();
        input.write_all(b"f").unwrap();
        let process = lines.next().unwrap();
        if is_seen_before {
            assert!(has_mine(&scene, process));
        }
        input.write_all(b"t").unwrap();
        let thread = lines.next().unwrap();
        while !std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap().contains(") Z ") {
            std::thread::sleep(Duration::from_millis(5));
        }
        // What the kernel tells of the end may come a moment later.
        for _ in 0..20 {
            assert!(has_mine(&scene, thread), "seen before: {is_seen_before}");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!has_mine(&scene, std::process::id()));
    }
}

/// Whether the kernel tells of the births of processes: to root outside of containers.
fn births_are_told() -> bool {
    let first = std::path::Path::new("pid:[4026531836]");
    rustix::process::geteuid().is_root() && std::fs::read_link("/proc/self/ns/pid").is_ok_and(|found| found == first)
}

/// Whether a process finds the file `mine`, which the first view has.
fn has_mine(scene: &Scene, process: u32) -> bool {
    let mut caller = user(USER_WITHOUT_VIEW);
    caller.pid = process;
    scene.union.root().lookup(&caller, name("mine")).is_ok()
}

/// In a container of its own, where the next process gets the number that is wanted.
#[test]
fn later_session_with_same_number_has_no_view() {
    const INSIDE_VARIABLE: &str = "PLYFS_TEST_IS_INSIDE";
    const LAST_PID_FILE: &str = "/proc/sys/kernel/ns_last_pid";
    if !rustix::process::geteuid().is_root() || !std::path::Path::new(LAST_PID_FILE).exists() {
        return eprintln!("skipped: choosing the numbers of processes needs root and {LAST_PID_FILE}");
    }
    if std::env::var_os(INSIDE_VARIABLE).is_none() {
        let mut inside = Command::new("unshare");
        inside.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(std::env::current_exe().unwrap());
        let test = "later_session_with_same_number_has_no_view";
        let ended = inside.args(["--exact", test]).env(INSIDE_VARIABLE, "1").output().unwrap();
        return assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
    let (scene, _) = split();
    put(&scene, FIRST_VIEW_USER, "mine", "");
    let (first, member) = session();
    let number = first.0.id();
    scene.tell("view-add", &[("branch", "one"), ("session", &number.to_string())]).unwrap();
    assert!(has_mine(&scene, number) && has_mine(&scene, member));
    drop(first);
    assert!(has_mine(&scene, member), "who began it has ended");
    end(member);
    assert!(!has_mine(&scene, member));
    let (second, member) = loop {
        std::fs::write(LAST_PID_FILE, (number - 1).to_string()).unwrap();
        let (leader, member) = session();
        if leader.0.id() == number {
            break (leader, member);
        }
        end(member);
    };
    assert!(!has_mine(&scene, number) && !has_mine(&scene, member));
    drop(second);
    assert!(!has_mine(&scene, member), "who began it has ended");
    end(member);
}

/// A session: who began it, and another process in it.
fn session() -> (IdleProcess, u32) {
    let script = "sleep 100000 <&- >&- 2>&- & echo $!; read line";
    let mut command = Command::new("setsid");
    let leader = command.args(["sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut leader = IdleProcess(leader);
    let mut member = String::new();
    BufReader::new(leader.0.stdout.take().unwrap()).read_line(&mut member).unwrap();
    (leader, member.trim().parse().unwrap())
}

/// Ends a process that the test has not started, but may have come to as the first in its container.
fn end(process: u32) {
    let number = Pid::from_raw(process.cast_signed()).unwrap();
    kill_process(number, Signal::KILL).unwrap();
    let _ = waitpid(Some(number), WaitOptions::empty());
    let stat = || std::fs::read_to_string(format!("/proc/{process}/stat"));
    while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that does nothing.
struct IdleProcess(Child);

impl IdleProcess {
    fn new() -> Self {
        Self(Command::new("sleep").arg("100000").spawn().unwrap())
    }
}

impl Drop for IdleProcess {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

const STEPS: usize = 4000;
const VIEW_COUNT: usize = 3;

/// Random operations of random views side by side with a file system in memory for each: no view sees what another does.
#[test]
fn each_view_behaves_as_its_own_file_system() {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let seed = number("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let steps = number("MODEL_STEPS").map_or(STEPS, |steps| steps as usize);
    let mut random = Rng::with_seed(seed);
    let mut options = Vec::new();
    for (key, values) in [("delete", ["whiteout", "all"]), ("whiteouts", ["names", "overlay"])] {
        options.push((key, values[random.usize(..2)]));
    }
    println!("MODEL_SEED={seed} MODEL_STEPS={steps} {options:?}");
    // What all begin with: made in the shared branches and in each model by the same operations.
    let models: Vec<FileSystemRef> = (0..=VIEW_COUNT).map(|_| memory()).collect();
    let shared = [memory(), memory()];
    let mut sides: Vec<Side> = models.iter().map(|model| Side::new(Box::new(Shared(model.clone())), false)).collect();
    // Through a union, to which devices of users are no whiteouts.
    let lowest = joined(vec![(ReadWrite, shared[1].clone())]);
    let mut lowest = Side::new(Box::new(Shared(lowest.union)), false);
    for _ in 0..300 {
        let operation = next(&mut random);
        lowest.apply(&operation);
        sides.iter_mut().for_each(|side| drop(side.apply(&operation)));
    }
    drop(lowest);
    copy_root(&shared[1], &shared[0]);
    let scene = joined_with(&options, vec![(ReadWrite, shared[0].clone()), (ReadOnly, shared[1].clone())]);
    let idle: Vec<IdleProcess> = (0..VIEW_COUNT).map(|_| IdleProcess::new()).collect();
    for (index, process) in idle.iter().enumerate() {
        let private = memory();
        copy_root(&shared[1], &private);
        let label = format!("view {index}");
        scene.offer(&label, &private);
        scene.tell("view-add", &[("branch", &label), ("pid", &process.0.id().to_string())]).unwrap();
    }
    // The last is nobody's, and only looks: what it changed all would see.
    let seen = |index: usize| {
        let pid = idle.get(index).map_or(std::process::id(), |process| process.0.id());
        Side::new(Box::new(Shared(layer::stack(As(pid), scene.union.clone()))), false)
    };
    let mut views: Vec<Side> = (0..=VIEW_COUNT).map(seen).collect();
    let mut sides: Vec<Side> = models.iter().map(|model| Side::new(Box::new(Shared(model.clone())), false)).collect();
    for step in 0..steps {
        let (which, operation) = (random.usize(..VIEW_COUNT), next(&mut random));
        let mut found = views[which].apply(&operation);
        if found.starts_with("ESTALE") {
            // As the kernel does, once.
            found = views[which].apply(&operation);
        }
        let expected = sides[which].apply(&operation);
        assert_eq!(
            comparable(&expected),
            comparable(&found),
            "MODEL_SEED={seed}, step {step}, view {which}: {operation:?}"
        );
        if step % 200 == 199 || number("MODEL_TREES").is_some_and(|from| step as u64 >= from) {
            for (index, (model, view)) in sides.iter().zip(&views).enumerate() {
                compare(&model.tree(), &view.tree(), &format!("MODEL_SEED={seed}, step {step}, view {index}"));
            }
        }
    }
}

fn next(random: &mut Rng) -> Operation {
    loop {
        let operation = Operation::random(random);
        let is_comparable = !matches!(
            operation.action,
            Action::Hold { .. }
                | Action::Copy { .. }
                | Action::LinkHeld { .. }
                | Action::InHeld { .. }
                // Kept by whoever asks for them.
                | Action::Lock { .. }
                | Action::TestLock { .. }
                | Action::Rename { mode: RenameMode::Whiteout | RenameMode::WhiteoutNoReplace, .. }
        );
        if is_comparable {
            return operation;
        }
    }
}

fn compare(model: &[String], view: &[String], when: &str) {
    for (expected, found) in model.iter().zip(view) {
        assert_eq!(comparable(expected), comparable(found), "{when}");
    }
    assert_eq!(model.len(), view.len(), "{when}");
}

/// Without the link counts of directories.
fn comparable(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(" nlink ") {
        Some((before, after)) if before.contains("Directory") => {
            let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
            format!("{before} {rest}")
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Makes the root of one branch as that of another.
fn copy_root(from: &FileSystemRef, to: &FileSystemRef) {
    let (from, to) = (from.root(), to.root());
    let now = from.getattr(&server()).unwrap();
    for name in from.listxattr(&server()).unwrap().split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let value = from.getxattr(&server(), name).unwrap_or_default();
        to.setxattr(&server(), name, &value, XattrMode::Set).unwrap();
    }
    let changes =
        SetAttributes { mode: Some(now.mode), uid: Some(now.uid), gid: Some(now.gid), ..SetAttributes::default() };
    to.setattr(&server(), &changes).unwrap();
}

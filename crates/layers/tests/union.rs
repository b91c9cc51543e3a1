//! The union, by its vnodes: what users see of several branches, and what their changes leave in each.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::unions::{at, fill, joined, joined_with, list, name, read, scene, server, write};
use common::{memory, numbered};
use plyfs_layers::Branch;
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use vnode::layer::{Layer, LayerVnode, Operation, stack};
use vnode::{Caller, Errno, FileKind, FileSystemRef, OpenFlags, Promises, RenameMode, SetAttributes};

#[test]
fn the_leftmost_wins_and_directories_merge() {
    let scene =
        scene(&[(ReadWrite, &["a", "d/x", "f"]), (ReadOnly, &["a", "b", "d/y", "f/z"]), (ReadOnly, &["d/x", "d/z"])]);
    assert_eq!(list(&scene.union, ""), ["a", "b", "d", "f"]);
    assert_eq!(list(&scene.union, "d"), ["x", "y", "z"]);
    assert_eq!(read(&scene.union, "a").unwrap(), "0:a");
    assert_eq!(read(&scene.union, "d/y").unwrap(), "1:d/y");
    assert_eq!(read(&scene.union, "d/x").unwrap(), "0:d/x");
    assert_eq!(at(&scene.union, "f").unwrap().kind(), FileKind::Regular);
    assert_eq!(at(&scene.union, "c").err(), Some(Errno::ENOENT));
}

#[test]
fn inode_numbers_of_readdir_and_stat_agree_and_differ_between_branches() {
    let scene = scene(&[(ReadWrite, &["a", "d/x"]), (ReadOnly, &["b", "d/y"]), (ReadOnly, &["c", "d/z"])]);
    for path in ["", "d"] {
        let directory = at(&scene.union, path).unwrap();
        let seen = numbered(&directory.open_directory(&server()).unwrap(), &server());
        let mut numbers: Vec<_> = seen.iter().map(|(_, ino)| *ino).collect();
        for (name, ino) in seen {
            assert_eq!(directory.lookup(&server(), name.as_name()).unwrap().attributes.ino, ino, "{name:?}");
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), list(&scene.union, path).len());
    }
}

#[test]
fn writing_copies_the_file_with_all_above_it_and_nothing_else_changes() {
    let scene = scene(&[(ReadWrite, &[]), (ReadOnly, &["d/e/x", "d/e/y"])]);
    let node = at(&scene.union, "d/e/x").unwrap();
    let before = node.getattr(&server()).unwrap();
    let reader = node.open(&server(), OpenFlags::READ).unwrap();
    assert_eq!(list(&scene.branches[0], ""), [""; 0], "reading makes nothing");
    let writer = node.open(&server(), OpenFlags::WRITE).unwrap();
    writer.write_at(&server(), 0, b"9").unwrap();
    assert_eq!(read(&scene.union, "d/e/x").unwrap(), "9:d/e/x");
    assert_eq!(read(&scene.branches[0], "d/e/x").unwrap(), "9:d/e/x");
    assert_eq!(read(&scene.branches[1], "d/e/x").unwrap(), "1:d/e/x");
    let mut buffer = [0];
    reader.read_at(&server(), 0, &mut buffer).unwrap();
    assert_eq!(&buffer, b"9", "a file that was open before sees later writes");
    let after = node.getattr(&server()).unwrap();
    assert_eq!((before.ino, before.mode, before.size), (after.ino, after.mode, after.size));
    assert_eq!(at(&scene.union, "d/e/x").unwrap().handle(), node.handle());
    assert_eq!(list(&scene.union, "d/e"), ["x", "y"]);
    assert_eq!(list(&scene.branches[0], ".wh..wh.plyfs/work"), [""; 0], "nothing is left in the work directory");
}

#[test]
fn what_is_deleted_stays_deleted() {
    let scene = scene(&[(ReadWrite, &["both"]), (ReadOnly, &["both", "low", "d/x", "d/y"])]);
    let root = scene.union.root();
    root.unlink(&server(), name("both")).unwrap();
    root.unlink(&server(), name("low")).unwrap();
    assert_eq!(root.rmdir(&server(), name("d")).err(), Some(Errno::ENOTEMPTY));
    let directory = at(&scene.union, "d").unwrap();
    directory.unlink(&server(), name("x")).unwrap();
    assert_eq!(list(&scene.union, "d"), ["y"]);
    directory.unlink(&server(), name("y")).unwrap();
    root.rmdir(&server(), name("d")).unwrap();
    assert_eq!(list(&scene.union, ""), [""; 0]);
    for gone in ["both", "low", "d"] {
        assert_eq!(at(&scene.union, gone).err(), Some(Errno::ENOENT), "{gone}");
    }
    assert_eq!(list(&scene.branches[1], "d"), ["x", "y"], "the read-only branch is as it was");
    // Made anew, a directory has nothing of the old one.
    root.mkdir(&server(), name("d"), 0o755).unwrap();
    assert_eq!(list(&scene.union, "d"), [""; 0]);
    write(&root, "low", b"new");
    assert_eq!(read(&scene.union, "low").unwrap(), "new");
    assert_eq!(list(&scene.union, ""), ["d", "low"]);
}

#[test]
fn names_that_look_like_whiteouts_are_names_as_any_other() {
    let scene = scene(&[(ReadWrite, &[]), (ReadOnly, &["x"])]);
    let root = scene.union.root();
    write(&root, ".wh.x", b"mine");
    assert_eq!(list(&scene.union, ""), [".wh.x", "x"]);
    assert_eq!(read(&scene.union, ".wh.x").unwrap(), "mine");
    root.unlink(&server(), name("x")).unwrap();
    assert_eq!(list(&scene.union, ""), [".wh.x"]);
    root.unlink(&server(), name(".wh.x")).unwrap();
    assert_eq!(list(&scene.union, ""), [""; 0]);
}

#[test]
fn files_are_renamed_and_what_they_were_does_not_come_back() {
    let scene = scene(&[(ReadWrite, &["d/"]), (ReadOnly, &["low", "d/y", "e/z"])]);
    let root = scene.union.root();
    let (d, e) = (at(&scene.union, "d").unwrap(), at(&scene.union, "e").unwrap());
    root.rename(&server(), name("low"), &d, name("y"), RenameMode::Replace).unwrap();
    assert_eq!(list(&scene.union, ""), ["d", "e"]);
    assert_eq!(read(&scene.union, "d/y").unwrap(), "1:low");
    assert_eq!(d.rename(&server(), name("y"), &e, name("z"), RenameMode::NoReplace).err(), Some(Errno::EEXIST));
    d.rename(&server(), name("y"), &e, name("z"), RenameMode::Exchange).unwrap();
    assert_eq!(read(&scene.union, "d/y").unwrap(), "1:e/z");
    assert_eq!(read(&scene.union, "e/z").unwrap(), "1:low");
}

#[test]
fn what_is_replaced_stays_in_read_only_branches() {
    let scene = scene(&[(ReadWrite, &["g"]), (ReadOnly, &["g"]), (ReadWrite, &["f"])]);
    let root = scene.union.root();
    root.rename(&server(), name("f"), &root, name("g"), RenameMode::Replace).unwrap();
    assert_eq!(read(&scene.union, "g").unwrap(), "2:f");
    assert_eq!(list(&scene.union, ""), ["g"]);
    assert_eq!(read(&scene.branches[1], "g").unwrap(), "1:g");
}

#[test]
fn directories_of_several_branches_are_renamed_whole() {
    let scene = scene(&[(ReadWrite, &["d/new"]), (ReadOnly, &["d/old", "d/e/deep", "t/x"]), (ReadOnly, &["d/older"])]);
    let root = scene.union.root();
    root.rename(&server(), name("d"), &root, name("m"), RenameMode::Replace).unwrap();
    assert_eq!(list(&scene.union, ""), ["m", "t"]);
    assert_eq!(list(&scene.union, "m"), ["e", "new", "old", "older"]);
    assert_eq!(read(&scene.union, "m/e/deep").unwrap(), "1:d/e/deep");
    // Again, and into another directory, with one that was never copied.
    let t = at(&scene.union, "t").unwrap();
    root.rename(&server(), name("m"), &t, name("m2"), RenameMode::Replace).unwrap();
    let m2 = at(&scene.union, "t/m2").unwrap();
    m2.rename(&server(), name("e"), &root, name("e2"), RenameMode::Replace).unwrap();
    assert_eq!(read(&scene.union, "e2/deep").unwrap(), "1:d/e/deep");
    assert_eq!(list(&scene.union, "t/m2"), ["new", "old", "older"]);
    assert_eq!(t.rename(&server(), name("m2"), &m2, name("inside"), RenameMode::Replace).err(), Some(Errno::EINVAL));
    // A new directory by the old name is empty.
    root.mkdir(&server(), name("d"), 0o755).unwrap();
    assert_eq!(list(&scene.union, "d"), [""; 0]);
    // What was moved can be changed and deleted.
    let old = at(&scene.union, "t/m2/old").unwrap();
    old.setattr(&server(), &SetAttributes { mode: Some(0o600), ..SetAttributes::default() }).unwrap();
    assert_eq!(at(&scene.union, "t/m2/old").unwrap().getattr(&server()).unwrap().mode, 0o600);
    for gone in ["new", "old", "older"] {
        m2.unlink(&server(), name(gone)).unwrap();
    }
    t.rmdir(&server(), name("m2")).unwrap();
    assert_eq!(list(&scene.union, "t"), ["x"]);
}

#[test]
fn a_union_of_read_only_branches_refuses_every_change() {
    let scene = scene(&[(ReadOnly, &["a"]), (ReadOnly, &["b"])]);
    let root = scene.union.root();
    assert!(scene.union.properties().needs.read_only);
    assert_eq!(root.unlink(&server(), name("a")).err(), Some(Errno::EROFS));
    assert_eq!(root.mkdir(&server(), name("n"), 0o755).err(), Some(Errno::EROFS));
    assert_eq!(at(&scene.union, "b").unwrap().open(&server(), OpenFlags::WRITE).err(), Some(Errno::EROFS));
}

#[test]
fn handles_find_their_objects_after_a_restart_and_a_copy() {
    let lower = scene(&[(ReadOnly, &["d/x"])]).branches.remove(0);
    let upper = memory();
    let join = || {
        let branch = |file_system: &FileSystemRef, mode, label: &str| Branch {
            file_system: file_system.clone(),
            mode: Some(mode),
            label: label.to_owned(),
            minimum_free: None,
        };
        let branches = vec![branch(&upper, ReadWrite, "upper"), branch(&lower, ReadOnly, "lower")];
        plyfs_layers::kind("union").unwrap().join(&[], branches, None).unwrap()
    };
    let (handle, directory, ino) = {
        let union = join();
        let node = at(&union, "d/x").unwrap();
        let ino = node.getattr(&server()).unwrap().ino;
        (node.handle(), at(&union, "d").unwrap().handle(), ino)
    };
    let union = join();
    union.resolve(&server(), &handle).unwrap().open(&server(), OpenFlags::WRITE).unwrap();
    drop(union);
    let union = join();
    let node = union.resolve(&server(), &handle).unwrap();
    assert_eq!(node.getattr(&server()).unwrap().ino, ino);
    assert_eq!(node.handle(), at(&union, "d/x").unwrap().handle());
    assert_eq!(union.resolve(&server(), &directory).unwrap().handle(), at(&union, "d").unwrap().handle());
}

#[test]
fn a_directory_read_again_from_the_start_shows_what_another_branch_has_by_now() {
    let scene = scene(&[(ReadWrite, &[]), (ReadOnly, &["d/low"])]);
    let directory = at(&scene.union, "d").unwrap();
    let open = directory.open_directory(&server()).unwrap();
    let read = || common::names(&open, &server());
    assert_eq!(read(), ["low"]);
    write(&directory, "new", b"");
    assert_eq!(read(), ["low", "new"]);
    directory.unlink(&server(), name("low")).unwrap();
    assert_eq!(read(), ["new"]);
}

/// Refuses to rename one object while it is told to, as a device that fails.
struct Failing(Arc<AtomicBool>);

impl Layer for Failing {
    type State = ();

    fn kind(&self) -> &'static str {
        "failing"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> vnode::Result<()> {
        let is_meant = matches!(operation, Operation::Rename { name, .. } if name.as_bytes() == b"new");
        if is_meant && self.0.load(Ordering::Relaxed) { Err(Errno::EIO) } else { Ok(()) }
    }
}

#[test]
fn a_rename_that_fails_brings_no_deleted_name_back_and_deletes_none() {
    // Without room for a prefix.
    let long = "n".repeat(255);
    for (options, deleted) in [(&[][..], "deleted"), (&OVERLAY, "deleted"), (&OVERLAY, &long)] {
        let (fails, lower) = (Arc::<AtomicBool>::default(), memory());
        let upper = stack(Failing(fails.clone()), memory());
        fill(&lower, 1, deleted);
        let branches = || vec![(ReadWrite, upper.clone()), (ReadOnly, lower.clone())];
        let union = joined_with(options, branches()).union;
        union.root().unlink(&server(), name(deleted)).unwrap();
        write(&union.root(), "new", b"data");
        for target in [deleted, "absent"] {
            fails.store(true, Ordering::Relaxed);
            let renamed = union.root().rename(&server(), name("new"), &union.root(), name(target), RenameMode::Replace);
            fails.store(false, Ordering::Relaxed);
            assert_eq!(renamed, Err(Errno::EIO), "{options:?}");
            assert_eq!(list(&union, ""), ["new"], "{options:?} {target}");
        }
        drop(union);
        fill(&lower, 1, "absent");
        assert_eq!(list(&joined_with(options, branches()).union, ""), ["absent", "new"], "{options:?}");
    }
}

const OVERLAY: [(&str, &str); 1] = [("whiteouts", "overlay")];

#[test]
fn what_is_immutable_in_a_lower_branch_stays_so_until_somebody_takes_the_flag_away() {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let lower = tempfile::tempdir().unwrap();
    std::fs::write(lower.path().join("file"), b"old").unwrap();
    std::fs::create_dir(lower.path().join("directory")).unwrap();
    for more in ["directory/inner", "other"] {
        std::fs::write(lower.path().join(more), b"more").unwrap();
    }
    let open = |name: &str| std::fs::File::open(lower.path().join(name)).unwrap();
    let flag = |name: &str, flags: IFlags| {
        let object = open(name);
        ioctl_setflags(&object, (ioctl_getflags(&object)? - IFlags::IMMUTABLE) | flags)
    };
    if flag("file", IFlags::IMMUTABLE).and_then(|()| flag("directory", IFlags::IMMUTABLE)).is_err() {
        eprintln!("skipped: making files immutable needs root and a file system that can");
        return;
    }
    let base = bases::dir::DirectoryFileSystem::open(lower.path(), bases::dir::Options::default()).unwrap();
    let scene = joined(vec![(ReadWrite, memory()), (ReadOnly, std::sync::Arc::new(base))]);
    let (root, file) = (scene.union.root(), at(&scene.union, "file").unwrap());
    let directory = at(&scene.union, "directory").unwrap();
    let superuser = Caller::with_groups(0, 0, &[], 0);
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    let refused = [
        file.setattr(&superuser, &mode).map(drop),
        file.open(&superuser, OpenFlags::WRITE).map(drop),
        file.setxattr(&superuser, b"trusted.x", b"", vnode::XattrMode::Set),
        root.link(&superuser, &file, name("link")).map(drop),
        root.rename(&superuser, name("file"), &root, name("moved"), RenameMode::Replace),
        root.unlink(&superuser, name("file")),
        directory.mkdir(&superuser, name("new"), 0o755).map(drop),
        directory.rename(&superuser, name("inner"), &directory, name("new"), RenameMode::Replace),
        directory.link(&superuser, &at(&scene.union, "other").unwrap(), name("new")).map(drop),
    ];
    let made = list(&scene.branches[0], "");
    // One that is in a branch on the left as well is what it is there, as in overlayfs.
    let upper = memory();
    upper.root().mkdir(&superuser, name("directory"), 0o755).unwrap();
    let base = bases::dir::DirectoryFileSystem::open(lower.path(), bases::dir::Options::default()).unwrap();
    let both = joined(vec![(ReadWrite, upper), (ReadOnly, std::sync::Arc::new(base))]);
    let merged = at(&both.union, "directory").unwrap();
    let is_immutable = merged.getattr(&superuser).unwrap().is_immutable();
    let changed = [
        merged.mkdir(&superuser, name("new"), 0o755).map(drop),
        merged.rename(&superuser, name("inner"), &merged, name("moved"), RenameMode::Replace),
        merged.unlink(&superuser, name("moved")),
    ];
    const SET_FLAGS: u32 = libc::FS_IOC_SETFLAGS as u32;
    let plain = 0_i64.to_ne_bytes();
    let by_user = file.ioctl(&Caller::with_groups(5, 5, &[], 0), SET_FLAGS, &plain, &mut []);
    // The copy is in memory, where there are no flags to be taken away.
    let _ = file.ioctl(&superuser, SET_FLAGS, &plain, &mut []);
    let after = file.setattr(&superuser, &mode).map(drop);
    flag("file", IFlags::empty()).and_then(|()| flag("directory", IFlags::empty())).unwrap();
    assert_eq!(refused, [Err(Errno::EPERM); 9]);
    assert_eq!((is_immutable, changed), (false, [Ok(()); 3]));
    assert_eq!(made, [""; 0], "nothing was copied");
    assert_eq!((by_user, after), (Err(Errno::EPERM), Ok(())));
}

/// The file of the base below is not what a layer that encodes shows, whatever else the layer declares.
#[test]
fn a_copy_from_a_branch_that_encodes_is_what_the_branch_shows() {
    let layers = samples::KINDS.iter().filter(|kind| kind.name != "mirror");
    for kind in layers.chain([plyfs_layers::kind("rot13").unwrap()]) {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [upper, lower] = directories.each_ref().map(|directory| -> FileSystemRef {
            let options = bases::dir::Options::default();
            Arc::new(bases::dir::DirectoryFileSystem::open(directory.path(), options).unwrap())
        });
        let lower = kind.stack(&[], lower).unwrap();
        let text = "as it is shown, ".repeat(10_000);
        write(&lower.root(), "file", text.as_bytes());
        let open = at(&lower, "file").unwrap().open(&server(), OpenFlags::READ).unwrap();
        assert!(open.backing().is_none(), "{}", kind.name);
        let scene = joined(vec![(ReadWrite, upper), (ReadOnly, lower)]);
        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        at(&scene.union, "file").unwrap().setattr(&server(), &mode).unwrap();
        assert!(list(&scene.branches[0], "").contains(&"file".to_owned()), "it is copied");
        let copy = at(&scene.union, "file").unwrap().open(&server(), OpenFlags::READ).unwrap();
        let mut data = vec![0; text.len() + 1];
        assert_eq!(vnode::read_fully(&*copy, &server(), 0, &mut data), Ok(text.len()), "{}", kind.name);
        assert!(data[..text.len()] == *text.as_bytes(), "{}", kind.name);
        bases::dir::restore_thread_credentials();
    }
}

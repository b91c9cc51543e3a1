//! Identity: one vnode for an object, handles over renames and restarts, objects without names, bounded descriptors.

use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use vnode::{Errno, FileSystem, Handle, OpenFlags, RenameMode};

use crate::fixture::{Fixture, content, create_file, creation, entries, name, root};

#[test]
fn an_object_keeps_its_vnode_and_handle_over_renames_and_restarts() {
    Fixture::each(|fixture| {
        let caller = root();
        let directory = fixture.root.mkdir(&caller, name("d"), 0o755).unwrap().vnode;
        let (vnode, _) = create_file(&fixture.root, &caller, "a", 0o644, b"content");
        fixture.root.rename(&caller, name("a"), &directory, name("b"), RenameMode::Replace).unwrap();
        let found = directory.lookup(&caller, name("b")).unwrap();
        assert!(Arc::ptr_eq(&found.vnode, &vnode));
        assert_eq!(vnode.path(), Ok(b"d/b".to_vec()));
        assert_eq!(found.attributes.ino.get(), std::fs::metadata(fixture.path.join("d/b")).unwrap().ino());
        assert_eq!(content(&vnode.open(&caller, OpenFlags::READ).unwrap()), b"content");

        let again = fixture.again();
        let resolved = again.resolve(&root(), &vnode.handle());
        match fixture.has_handles() {
            true => {
                let resolved = resolved.unwrap();
                assert_eq!(content(&resolved.open(&caller, OpenFlags::READ).unwrap()), b"content");
                assert_eq!(resolved.handle(), vnode.handle());
                assert!(Arc::ptr_eq(&again.resolve(&root(), &fixture.root.handle()).unwrap(), &again.root()));
            }
            false => assert_eq!(resolved.err(), Some(Errno::ESTALE)),
        }
        assert!(Arc::ptr_eq(&fixture.file_system.resolve(&root(), &vnode.handle()).unwrap(), &vnode));
    });
}

#[test]
fn hard_links_are_one_vnode() {
    Fixture::each(|fixture| {
        let caller = root();
        let (vnode, _) = create_file(&fixture.root, &caller, "a", 0o644, b"x");
        let linked = fixture.root.link(&caller, &vnode, name("b")).unwrap();
        assert!(Arc::ptr_eq(&linked.vnode, &vnode));
        assert_eq!(linked.attributes.nlink, 2);
        fixture.root.unlink(&caller, name("a")).unwrap();
        assert_eq!(vnode.getattr(&caller).unwrap().nlink, 1);
        assert!(Arc::ptr_eq(&fixture.root.lookup(&caller, name("b")).unwrap().vnode, &vnode));
    });
}

#[test]
fn symlinks_and_special_files_can_be_linked() {
    Fixture::each(|fixture| {
        let caller = root();
        let link = fixture.root.symlink(&caller, name("s"), b"/nowhere").unwrap().vnode;
        assert_eq!(fixture.root.link(&caller, &link, name("s2")).unwrap().attributes.nlink, 2);
        assert_eq!(std::fs::read_link(fixture.path.join("s2")).unwrap().to_str(), Some("/nowhere"));
        let fifo = fixture.root.mknod(&caller, name("f"), vnode::FileKind::Fifo, 0o600, Default::default()).unwrap();
        assert_eq!(fixture.root.link(&caller, &fifo.vnode, name("f2")).unwrap().attributes.nlink, 2);
        assert_eq!(fifo.vnode.open(&caller, OpenFlags::READ).err(), Some(Errno::ENXIO));
        let how = vnode::Creation { mode: 0o600, flags: OpenFlags::READ };
        assert_eq!(fixture.root.create(&caller, name("f"), &how).err(), Some(Errno::ENXIO), "and does not block");
        assert_eq!(fixture.root.create(&caller, name("s"), &how).err(), Some(Errno::ELOOP));
    });
}

#[test]
fn objects_without_names_stay_usable_while_referenced() {
    Fixture::each(|fixture| {
        let caller = root();
        let (file, open) = create_file(&fixture.root, &caller, "f", 0o644, b"still here");
        drop(open);
        let directory = fixture.root.mkdir(&caller, name("d"), 0o755).unwrap().vnode;
        let (victim, _) = create_file(&fixture.root, &caller, "v", 0o644, b"victim");
        create_file(&fixture.root, &caller, "w", 0o644, b"winner");
        fixture.root.unlink(&caller, name("f")).unwrap();
        fixture.root.rmdir(&caller, name("d")).unwrap();
        fixture.root.rename(&caller, name("w"), &fixture.root, name("v"), RenameMode::Replace).unwrap();
        for vnode in [&file, &directory, &victim] {
            assert_eq!(vnode.getattr(&caller).unwrap().nlink, 0);
            assert_eq!(vnode.path(), Err(Errno::ENOENT));
        }
        assert_eq!(content(&file.open(&caller, OpenFlags::READ).unwrap()), b"still here");
        assert_eq!(content(&victim.open(&caller, OpenFlags::READ).unwrap()), b"victim");
        assert_eq!(directory.parent(&caller).err(), Some(Errno::ENOENT));
        assert_eq!(directory.create(&caller, name("x"), &creation(0o600)).err(), Some(Errno::ENOENT));
        assert_eq!(entries(&directory), []);
        let handle = file.handle();
        assert!(Arc::ptr_eq(&fixture.file_system.resolve(&root(), &handle).unwrap(), &file));
        drop(file);
        assert_eq!(error_once_released(|| fixture.file_system.resolve(&root(), &handle)), Some(Errno::ESTALE));
    });
}

/// What an object's handle answers once nobody has it. A process that another test is just starting has, until it runs its
/// program, all that this one had open when it began.
fn error_once_released<T>(resolve: impl Fn() -> vnode::Result<T>) -> Option<Errno> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = resolve().err();
        if answer.is_some() || Instant::now() > deadline {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_file_that_loses_all_its_names_at_once_stays_usable() {
    const ROUNDS: usize = 200;
    Fixture::each(|fixture| {
        let caller = root();
        for _ in 0..ROUNDS {
            let (file, open) = create_file(&fixture.root, &caller, "a", 0o644, b"x");
            drop(open);
            fixture.root.link(&caller, &file, name("b")).unwrap();
            fixture.root.link(&caller, &file, name("c")).unwrap();
            create_file(&fixture.root, &caller, "winner", 0o644, b"y");
            let start = std::sync::Barrier::new(3);
            std::thread::scope(|scope| {
                let (root, start) = (&fixture.root, &start);
                for removed in ["a", "b"] {
                    scope.spawn(move || {
                        start.wait();
                        root.unlink(&crate::fixture::root(), name(removed)).unwrap();
                    });
                }
                scope.spawn(move || {
                    start.wait();
                    root.rename(&crate::fixture::root(), name("winner"), root, name("c"), RenameMode::Replace).unwrap();
                });
            });
            assert_eq!(file.getattr(&caller).unwrap().nlink, 0);
            assert_eq!(content(&file.open(&caller, OpenFlags::READ).unwrap()), b"x");
            fixture.root.unlink(&caller, name("c")).unwrap();
        }
    });
}

#[test]
fn foreign_and_forged_handles_are_stale() {
    Fixture::each(|fixture| {
        for bytes in [&[][..], &[1, 1, 0, 0, 0, 0, 0, 0, 0, 0], &[2; 30], &[3; 26], &[7; 48]] {
            let handle = Handle::new(bytes).unwrap();
            assert_eq!(fixture.file_system.resolve(&root(), &handle).err(), Some(Errno::ESTALE), "{handle:?}");
        }
    });
}

#[test]
fn a_handle_of_an_object_outside_the_directory_is_stale() {
    Fixture::each(|fixture| {
        if !fixture.has_handles() {
            return;
        }
        let above = fixture.path.parent().unwrap();
        std::fs::write(above.join("secret"), "x").unwrap();
        let whole = plyfs_bases::dir::DirectoryFileSystem::open(above, Default::default()).unwrap();
        let secret = whole.root().lookup(&root(), name("secret")).unwrap().vnode;
        assert_eq!(fixture.file_system.resolve(&root(), &secret.handle()).err(), Some(Errno::ESTALE));
        assert_eq!(fixture.file_system.resolve(&root(), &whole.root().handle()).err(), Some(Errno::ESTALE));
    });
}

#[test]
fn object_removed_by_others_is_stale_even_if_its_number_is_reused() {
    Fixture::each(|fixture| {
        let caller = root();
        let (old, open) = create_file(&fixture.root, &caller, "a", 0o644, b"old");
        drop(open);
        std::fs::remove_file(fixture.path.join("a")).unwrap();
        std::fs::write(fixture.path.join("a"), "new").unwrap();
        let new = fixture.root.lookup(&caller, name("a")).unwrap().vnode;
        assert!(!Arc::ptr_eq(&old, &new));
        assert_eq!(old.getattr(&caller).err(), Some(Errno::ESTALE));
        assert_eq!(content(&new.open(&caller, OpenFlags::READ).unwrap()), b"new");
    });
}

#[test]
fn a_component_swapped_for_a_symlink_is_never_followed() {
    Fixture::each(|fixture| {
        let caller = root();
        let outside = fixture.path.parent().unwrap().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("f"), "secret").unwrap();
        let directory = fixture.root.mkdir(&caller, name("d"), 0o755).unwrap().vnode;
        let (file, open) = create_file(&directory, &caller, "f", 0o644, b"own");
        drop(open);
        std::fs::rename(fixture.path.join("d"), fixture.path.join("e")).unwrap();
        symlink(&outside, fixture.path.join("d")).unwrap();
        let swapped = fixture.root.lookup(&caller, name("d")).unwrap();
        assert_eq!(swapped.vnode.kind(), vnode::FileKind::Symlink);
        assert_eq!(swapped.vnode.lookup(&caller, name("f")).err(), Some(Errno::ENOTDIR));
        assert_eq!(swapped.vnode.open_directory(&caller).err(), Some(Errno::ENOTDIR));
        // Held objects are still the old ones, or known to be out of reach.
        match file.open(&caller, OpenFlags::READ) {
            Ok(file) => assert_eq!(content(&file), b"own"),
            Err(error) => assert_eq!(error, Errno::ESTALE),
        }
        std::fs::remove_file(fixture.path.join("e/f")).unwrap();
        symlink(outside.join("f"), fixture.path.join("e/f")).unwrap();
        assert_eq!(file.open(&caller, OpenFlags::READ).err(), Some(Errno::ESTALE));
    });
}

#[test]
fn a_walk_over_many_files_holds_few_descriptors() {
    Fixture::each(|fixture| {
        let caller = root();
        let mut held = Vec::new();
        for directory in 0..100 {
            let below = fixture.path.join(format!("d{directory}"));
            std::fs::create_dir(&below).unwrap();
            (0..200).for_each(|file| drop(std::fs::File::create(below.join(format!("f{file}"))).unwrap()));
        }
        for (directory, ..) in entries(&fixture.root) {
            let directory = fixture.root.lookup(&caller, name(&directory)).unwrap().vnode;
            for (file, ino, _) in entries(&directory) {
                let entry = directory.lookup(&caller, name(&file)).unwrap();
                assert_eq!(entry.attributes.ino, ino);
                assert_eq!(entry.vnode.getattr(&caller).unwrap().ino, ino);
                held.push(entry.vnode);
            }
            held.push(directory);
        }
        assert_eq!(held.len(), 20_100);
        // Other tests have files of their own open.
        let open =
            std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.unwrap().path().read_link().ok());
        let open = open.filter(|path| path.starts_with(&fixture.path)).count();
        assert!(open <= 110, "{open} descriptors for 100 directories and the root");
    });
}

#[test]
fn directories_may_be_very_deep() {
    Fixture::each(|fixture| {
        const DEPTH: usize = 10_000;
        let caller = root();
        let mut deepest = fixture.root.clone();
        for _ in 0..DEPTH {
            deepest = deepest.mkdir(&caller, name("d"), 0o755).unwrap().vnode;
        }
        let (file, open) = create_file(&deepest, &caller, "f", 0o644, b"deep");
        drop(open);
        // More directories than are kept open, so that the way has to be found anew.
        for other in 0..5_000 {
            let other = fixture.root.mkdir(&caller, name(&format!("o{other}")), 0o755).unwrap().vnode;
            other.lookup(&caller, name("absent")).err().unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(content(&file.open(&root(), OpenFlags::READ).unwrap()), b"deep");
                drop((deepest, file));
            });
        });
    });
}

#[test]
fn the_parent_of_the_root_is_the_root() {
    Fixture::each(|fixture| {
        let caller = root();
        let directory = fixture.root.mkdir(&caller, name("d"), 0o755).unwrap().vnode;
        let below = directory.mkdir(&caller, name("e"), 0o755).unwrap().vnode;
        assert!(Arc::ptr_eq(&below.parent(&caller).unwrap(), &directory));
        assert!(Arc::ptr_eq(&directory.parent(&caller).unwrap(), &fixture.root));
        assert!(Arc::ptr_eq(&fixture.root.parent(&caller).unwrap(), &fixture.root));
        assert_eq!(fixture.root.path(), Ok(Vec::new()));
        assert_eq!(below.path(), Ok(b"d/e".to_vec()));
    });
}

#[test]
fn file_systems_mounted_below_are_crossed_with_numbers_of_their_own() {
    Fixture::each(|fixture| {
        let caller = root();
        for kind in ["tmpfs", "ext4"] {
            let point = fixture.mount_below(kind, kind);
            std::fs::write(point.join("f"), "below").unwrap();
            let mounted = fixture.root.lookup(&caller, name(kind)).unwrap();
            let file = mounted.vnode.lookup(&caller, name("f")).unwrap();
            assert_eq!(content(&file.vnode.open(&caller, OpenFlags::READ).unwrap()), b"below");
            assert_ne!(file.attributes.ino.get(), std::fs::metadata(point.join("f")).unwrap().ino());
            assert_ne!(mounted.attributes.ino, fixture.root.getattr(&caller).unwrap().ino);
            assert_eq!(entries(&mounted.vnode).iter().find(|entry| entry.0 == b"f").unwrap().1, file.attributes.ino);
            let listed = entries(&fixture.root).into_iter().find(|entry| entry.0 == kind.as_bytes()).unwrap();
            assert_eq!(listed.1, mounted.attributes.ino, "the mounted root's number, not that of what it covers");
            assert!(Arc::ptr_eq(&mounted.vnode.parent(&caller).unwrap(), &fixture.root));
            assert_eq!(file.vnode.path(), Ok(format!("{kind}/f").into_bytes()));
            let moved = mounted.vnode.rename(&caller, name("f"), &fixture.root, name("g"), RenameMode::Replace);
            assert_eq!(moved.err(), Some(Errno::EXDEV));
            mounted.vnode.unlink(&caller, name("f")).unwrap();
            assert_eq!(file.vnode.getattr(&caller).unwrap().nlink, 0);
            create_file(&mounted.vnode, &caller, "new", 0o644, b"new");
            if fixture.has_handles() {
                let new = mounted.vnode.lookup(&caller, name("new")).unwrap().vnode;
                let resolved = fixture.again().resolve(&root(), &new.handle()).unwrap();
                assert_eq!(content(&resolved.open(&caller, OpenFlags::READ).unwrap()), b"new");
            }
        }
    });
}

/// The open descriptors on a mount, by the kernel's number of it.
fn descriptors_on(mounts: &[String]) -> usize {
    let entries = std::fs::read_dir("/proc/thread-self/fdinfo").unwrap();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    texts.filter(|text| text.lines().any(|line| mounts.iter().any(|mount| line == mount))).count()
}

#[test]
fn unmounted_file_systems_are_forgotten() {
    Fixture::each(|fixture| {
        let caller = root();
        let stays = fixture.mount_below("stays", "tmpfs");
        std::fs::write(stays.join("f"), "stays").unwrap();
        let kept = fixture.root.lookup(&caller, name("stays")).unwrap().vnode;
        let (mut mounts, mut used) = (Vec::new(), None);
        for number in 0..40 {
            let point = fixture.mount_below("point", "tmpfs");
            std::fs::write(point.join("f"), number.to_string()).unwrap();
            let directory = std::fs::File::open(&point).unwrap();
            let info = format!("/proc/thread-self/fdinfo/{}", std::os::fd::AsRawFd::as_raw_fd(&directory));
            let info = std::fs::read_to_string(info).unwrap();
            mounts.push(info.lines().find(|line| line.starts_with("mnt_id:")).unwrap().to_owned());
            let file =
                fixture.root.lookup(&caller, name("point")).unwrap().vnode.lookup(&caller, name("f")).unwrap().vnode;
            assert_eq!(content(&file.open(&caller, OpenFlags::READ).unwrap()), number.to_string().as_bytes());
            if number == 0 {
                used = Some(file);
            }
            drop(directory);
            crate::fixture::run("umount", &["-l", point.to_str().unwrap()]);
        }
        // Another test may have mounts meanwhile that have got numbers of those that are gone.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while descriptors_on(&mounts) > 6 {
            let open = descriptors_on(&mounts);
            assert!(std::time::Instant::now() < deadline, "{open} descriptors for one that is in use and the last one");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let used = used.unwrap();
        if fixture.has_handles() {
            assert_eq!(content(&used.open(&caller, OpenFlags::READ).unwrap()), b"0", "what has vnodes stays usable");
        }
        let file = kept.lookup(&caller, name("f")).unwrap().vnode;
        assert_eq!(content(&file.open(&caller, OpenFlags::READ).unwrap()), b"stays");
    });
}

#[test]
fn unnamed_files_can_be_linked_unless_exclusive() {
    Fixture::each(|fixture| {
        let caller = root();
        let how = vnode::Creation { mode: 0o640, flags: OpenFlags::READ_WRITE };
        let made = fixture.root.tmpfile(&caller, &how).unwrap();
        assert_eq!(made.entry.attributes.nlink, 0);
        made.file.write_at(&caller, 0, b"data").unwrap();
        assert_eq!(made.entry.vnode.getattr(&caller).unwrap().size, 4);
        let linked = fixture.root.link(&caller, &made.entry.vnode, name("t")).unwrap();
        assert_eq!((linked.attributes.nlink, linked.attributes.mode), (1, 0o640));
        assert!(Arc::ptr_eq(&fixture.root.lookup(&caller, name("t")).unwrap().vnode, &made.entry.vnode));
        assert_eq!(std::fs::read(fixture.path.join("t")).unwrap(), b"data");
        if fixture.has_handles() {
            assert_eq!(made.entry.vnode.path(), Ok(b"t".to_vec()));
        }
        let (odd, _) = create_file(&fixture.root, &caller, "x (deleted)", 0o600, b"");
        assert_eq!(odd.path(), Ok(b"x (deleted)".to_vec()));
        let how = vnode::Creation { flags: how.flags.with(OpenFlags::EXCLUSIVE), ..how };
        let made = fixture.root.tmpfile(&caller, &how).unwrap();
        assert_eq!(fixture.root.link(&caller, &made.entry.vnode, name("u")).err(), Some(Errno::ENOENT));
    });
}

#[test]
fn objects_that_change_places_stay_usable() {
    Fixture::each(|fixture| {
        let caller = root();
        let directory = fixture.root.mkdir(&caller, name("d"), 0o755).unwrap().vnode;
        let (one, _) = create_file(&fixture.root, &caller, "one", 0o644, b"one");
        let (other, _) = create_file(&directory, &caller, "other", 0o644, b"other");
        fixture.root.rename(&caller, name("one"), &directory, name("other"), RenameMode::Exchange).unwrap();
        assert_eq!(content(&one.open(&caller, OpenFlags::READ).unwrap()), b"one");
        assert_eq!(content(&other.open(&caller, OpenFlags::READ).unwrap()), b"other");
        assert_eq!((one.path(), other.path()), (Ok(b"d/other".to_vec()), Ok(b"one".to_vec())));
    });
}

#[test]
fn renames_in_opposite_directions_do_not_wait_for_each_other() {
    const ROUNDS: usize = 2_000;
    // Long enough for the base to tell them apart where it keeps others from a name.
    const PAIRS: [[&str; 2]; 3] =
        [["first name", "second name"], ["third name", "fourth name"], ["fifth name", "sixth name"]];
    Fixture::each(|fixture| {
        for [one, other] in PAIRS {
            for file in [one, other] {
                create_file(&fixture.root, &root(), file, 0o644, b"x");
            }
            let (done, finished) = channel();
            // Two of each: when one is done, one of either direction goes on with what it waits for first.
            for (from, to) in [(one, other), (other, one), (one, other), (other, one)] {
                let (directory, done) = (fixture.root.clone(), done.clone());
                // Not joined: should they wait for each other, they do so for ever.
                std::thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        directory.rename(&root(), name(from), &directory, name(to), RenameMode::Exchange).unwrap();
                    }
                    let _ = done.send(());
                });
            }
            drop(done);
            for _ in 0..4 {
                let ended = finished.recv_timeout(Duration::from_secs(60));
                assert!(ended.is_ok(), "{one} and {other} are still being exchanged: {ended:?}");
            }
        }
    });
}

//! Branches of a union that come, go and change while objects are in use, and changes behind its back.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use common::memory;
use common::unions::{at, fill, joined, list, name, read, scene, server, write};
use plyfs_layers::BranchMode::{ReadOnly, ReadWrite};
use vnode::layer::{Layer, LayerVnode};
use vnode::{
    Attributes, Caller, Creation, Entry, Errno, FileSystemRef, Handle, Lock, LockFamily, LockKind, LockOwner, Name,
    NameBuf, OpenFileRef, OpenFlags, Promises, RenameMode, Result, SetAttributes, SetTime, Vnode,
};

fn read_text(file: &OpenFileRef) -> String {
    let mut buffer = [0; 100];
    let length = file.read_at(&server(), 0, &mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn branches_are_added_and_removed_under_open_objects() {
    let scene = scene(&[(ReadWrite, &["d/x"]), (ReadOnly, &["d/y", "e/z", "f"])]);
    let new = memory();
    fill(&new, 7, "d/new");
    fill(&new, 7, "f");
    scene.offer("new", &new);
    let (directory, gone) = (at(&scene.union, "d").unwrap(), at(&scene.union, "e").unwrap());
    let file = at(&scene.union, "f").unwrap().open(&server(), OpenFlags::READ).unwrap();
    let listed = scene.tell("add", &[("branch", "new=ro"), ("at", "1")]).unwrap();
    assert_eq!(listed, "branch 0=rw\nnew=ro\nbranch 1=ro\n");
    assert_eq!(read(&scene.union, "f").unwrap(), "7:f", "a branch on the left hides");
    assert_eq!(read_text(&file), "1:f", "open files stay what they are");
    assert_eq!(directory.lookup(&server(), name("new")).unwrap().attributes.size, 7);
    scene.tell("remove", &[("branch", "branch 1")]).unwrap();
    assert_eq!(list(&scene.union, ""), ["d", "f"]);
    assert_eq!(list(&scene.union, "d"), ["new", "x"]);
    assert_eq!(read_text(&file), "1:f");
    assert_eq!(gone.getattr(&server()).err(), Some(Errno::ESTALE));
    assert_eq!(directory.lookup(&server(), name("y")).err(), Some(Errno::ENOENT));
    assert!(directory.lookup(&server(), name("x")).is_ok());
}

#[test]
fn directory_keeps_its_inode_number_when_branches_change() {
    let scene = scene(&[(ReadWrite, &["d/x"]), (ReadOnly, &["d/y"]), (ReadOnly, &["d/z"])]);
    let directory = at(&scene.union, "d").unwrap();
    let number = || at(&scene.union, "d").unwrap().getattr(&server()).unwrap().ino;
    let before = number();
    let new = memory();
    fill(&new, 7, "d/new");
    scene.offer("new", &new);
    scene.tell("add", &[("branch", "new=ro")]).unwrap();
    assert_eq!(number(), before);
    scene.tell("move", &[("branch", "branch 2"), ("at", "1")]).unwrap();
    assert_eq!(number(), before);
    scene.tell("remove", &[("branch", "branch 2")]).unwrap();
    assert_eq!((number(), directory.getattr(&server()).unwrap().ino), (before, before));
    assert_eq!(list(&scene.union, "d"), ["new", "x", "y"]);
}

#[test]
fn names_are_removed_while_branches_change() {
    let scene = scene(&[(ReadWrite, &["d/"]), (ReadWrite, &["d/"])]);
    let new = memory();
    fill(&new, 7, "d/");
    scene.offer("new", &new);
    let is_over = AtomicBool::new(false);
    let takes_away = |own: &str| {
        let (d, theirs) = (at(&scene.union, "d").unwrap(), at(&scene.branches[1], "d").unwrap());
        let (file, other) = (format!("{own}f"), format!("{own}g"));
        while !is_over.load(Ordering::Relaxed) {
            at(&scene.union, "d").unwrap();
            write(&theirs, &file, b"on the right");
            // Again if it is told to look again, as the kernel does.
            while d.unlink(&server(), name(&file)) == Err(Errno::ESTALE) {}
            assert_eq!(d.lookup(&server(), name(&file)).map(drop), Err(Errno::ENOENT));
            write(&theirs, &file, b"on the right");
            write(&d, &other, b"new");
            while d.rename(&server(), name(&other), &d, name(&file), RenameMode::Replace) == Err(Errno::ESTALE) {}
            assert_eq!(read(&scene.union, &format!("d/{file}")).as_deref(), Ok("new"));
        }
    };
    std::thread::scope(|scope| {
        for own in ["a", "b", "c", "d"] {
            let takes_away = &takes_away;
            scope.spawn(move || takes_away(own));
        }
        for _ in 0..3_000 {
            scene.tell("add", &[("branch", "new=ro"), ("at", "0")]).unwrap();
            scene.tell("remove", &[("branch", "new")]).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn foreign_objects_are_seen_by_concurrent_lookups() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 5_000;
    let scene = scene(&[(ReadWrite, &["d/"]), (ReadWrite, &["d/"]), (ReadWrite, &["d/"])]);
    let (d, theirs) = (at(&scene.union, "d").unwrap(), at(&scene.branches[2], "d").unwrap());
    let looks = |own: usize| {
        for round in 0..ROUNDS {
            // Each learns anew what the branches have, and forgets it when it has changed.
            let file = format!("{own} {round}");
            assert!(d.lookup(&server(), name(&file)).is_err());
            write(&theirs, &file, b"new");
            assert!(d.lookup(&server(), name(&file)).is_ok(), "{file} is not seen");
            theirs.unlink(&server(), name(&file)).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for own in 0..THREADS {
            let looks = &looks;
            scope.spawn(move || looks(own));
        }
    });
}

#[test]
fn write_to_branch_that_became_read_only_copies_up() {
    let scene = scene(&[(ReadWrite, &["d/x"])]);
    let new = memory();
    scene.offer("new", &new);
    let node = at(&scene.union, "d/x").unwrap();
    let (reader, writer) = (node.open(&server(), OpenFlags::READ), node.open(&server(), OpenFlags::READ_WRITE));
    let (reader, writer) = (reader.unwrap(), writer.unwrap());
    let ino = node.getattr(&server()).unwrap().ino;
    scene.tell("add", &[("branch", "new=rw"), ("at", "0")]).unwrap();
    scene.tell("mode", &[("branch", "branch 0"), ("mode", "ro")]).unwrap();
    writer.write_at(&server(), 0, b"new").unwrap();
    assert_eq!((read_text(&reader), read_text(&writer)), ("new/x".to_owned(), "new/x".to_owned()));
    assert_eq!(read(&scene.branches[0], "d/x").unwrap(), "0:d/x");
    assert_eq!(read(&new, "d/x").unwrap(), "new/x");
    assert_eq!(at(&scene.union, "d/x").unwrap().getattr(&server()).unwrap().ino, ino);
}

#[test]
fn held_locks_move_with_a_copy() {
    let bytes = |last: u8| LockOwner::from([vec![0; 1023], vec![last]].concat().as_slice());
    held_locks_move([1, 2, 3].map(LockOwner::Number));
    held_locks_move([1, 2, 3].map(bytes));
}

fn held_locks_move(owners: [LockOwner; 3]) {
    let scene = scene(&[(ReadWrite, &[]), (ReadOnly, &["x"])]);
    let open = |flags| at(&scene.union, "x").unwrap().open(&server(), flags).unwrap();
    let (first, second) = (open(OpenFlags::READ), open(OpenFlags::READ));
    let lock = |start| Lock { family: LockFamily::Posix, kind: LockKind::Shared, start, end: start, pid: 1 };
    first.lock(&server(), &owners[0], &lock(1)).unwrap();
    first.lock(&server(), &owners[1], &lock(2)).unwrap();
    // Closing another descriptor of the file releases what was taken through the first.
    second.flush(&server(), &owners[1]).unwrap();
    let writer = open(OpenFlags::READ_WRITE);
    writer.write_at(&server(), 0, b"new").unwrap();
    let in_the_way = |start| {
        let exclusive = Lock { kind: LockKind::Exclusive, ..lock(start) };
        writer.test_lock(&server(), &owners[2], &exclusive).unwrap().is_some()
    };
    assert_eq!((in_the_way(1), in_the_way(2)), (true, false));
    assert_eq!(read_text(&first), "new");
}

#[test]
fn locks_replaced_through_another_open_file_are_not_reacquired() {
    let scene = scene(&[(ReadWrite, &[]), (ReadOnly, &["x"])]);
    let open = |flags| at(&scene.union, "x").unwrap().open(&server(), flags).unwrap();
    let (first, second) = (open(OpenFlags::READ), open(OpenFlags::READ));
    let lock = |kind, start, end| Lock { family: LockFamily::Posix, kind, start, end, pid: 1 };
    let set = |file: &OpenFileRef, lock| file.lock(&server(), &LockOwner::Number(1), &lock).unwrap();
    set(&first, lock(LockKind::Shared, 0, 9));
    set(&second, lock(LockKind::Unlock, 2, 3));
    set(&second, lock(LockKind::Shared, 6, 7));
    set(&first, lock(LockKind::Unlock, 8, 8));
    let writer = open(OpenFlags::READ_WRITE);
    writer.write_at(&server(), 0, b"new").unwrap();
    let is_locked =
        |at| writer.test_lock(&server(), &LockOwner::Number(3), &lock(LockKind::Exclusive, at, at)).unwrap().is_some();
    let locked: Vec<u64> = (0..12).filter(|at| is_locked(*at)).collect();
    assert_eq!(locked, [0, 1, 4, 5, 6, 7, 9]);
    // With an open file go the locks that were taken through it.
    drop(first);
    let locked: Vec<u64> = (0..12).filter(|at| is_locked(*at)).collect();
    assert_eq!(locked, [6, 7]);
}

#[test]
fn failed_commands_report_the_reason_and_change_nothing() {
    let scene = scene(&[(ReadWrite, &["a"])]);
    let before = scene.tell("branches", &[]).unwrap();
    let error = |command: &str, arguments: &[(&str, &str)]| scene.tell(command, arguments).unwrap_err().to_string();
    assert_eq!(error("remove", &[("branch", "branch 0")]), "the last branch of a union cannot be removed");
    assert_eq!(error("remove", &[("branch", "x")]), "there is no branch x; there are branch 0");
    assert_eq!(error("add", &[("branch", "x=ro")]), "no x");
    assert_eq!(error("add", &[]), "branch= is missing; add branch=BRANCH[=MODE]");
    assert_eq!(error("mode", &[("branch", "0"), ("mode", "wr")]), "mode=wr: a branch is rw, ro or nc");
    scene.offer("x", &memory());
    assert_eq!(error("add", &[("branch", "x=ro"), ("at", "2")]), "there are 1 branches, counted from 0");
    assert_eq!(scene.tell("branches", &[]).unwrap(), before);
}

#[test]
fn branch_changes_are_invisible_to_running_programs() {
    let scene = scene(&[(ReadWrite, &[]), (ReadOnly, &["d/x", "d/y"])]);
    let spare = memory();
    fill(&spare, 7, "d/new");
    scene.offer("spare", &spare);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (scene, is_over) = (&scene, &is_over);
            scope.spawn(move || {
                let directory = at(&scene.union, "d").unwrap();
                for round in 0.. {
                    let file = format!("{worker}-{round}");
                    write(&directory, &file, file.as_bytes());
                    assert_eq!(read(&scene.union, &format!("d/{file}")).unwrap(), file);
                    assert!(list(&scene.union, "d").contains(&file));
                    directory.unlink(&server(), name(&file)).unwrap();
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for round in 0..100 {
            let at = (1 + round % 2).to_string();
            scene.tell("add", &[("branch", "spare=ro"), ("at", &at)]).unwrap();
            scene.tell("move", &[("branch", "branch 1"), ("at", "2")]).unwrap();
            assert_eq!(list(&scene.union, "d").iter().filter(|name| *name == "new").count(), 1);
            scene.tell("remove", &[("branch", "spare")]).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(list(&scene.union, "d"), ["x", "y"]);
}

#[test]
fn foreign_changes_become_visible() {
    let scene = scene(&[(ReadWrite, &["d/x"]), (ReadOnly, &["e"])]);
    let directory = at(&scene.union, "d").unwrap();
    // Nobody looks `d` up again from here on.
    fill(&scene.branches[1], 1, "d/new");
    let deadline = Instant::now() + Duration::from_secs(20);
    while directory.lookup(&server(), name("new")).is_err() {
        assert!(Instant::now() < deadline, "it is seen some time");
        std::thread::sleep(Duration::from_millis(50));
    }
    scene.branches[1].root().unlink(&server(), name("e")).unwrap();
    assert_eq!(read(&scene.union, "e").err(), Some(Errno::ENOENT));
}

#[test]
fn original_reappears_when_its_copy_is_removed_in_the_branch() {
    let scene = scene(&[(ReadWrite, &["d/"][..]), (ReadOnly, &["d/x"])]);
    let known = at(&scene.union, "d/x").unwrap();
    let file = known.open(&server(), OpenFlags::READ_WRITE).unwrap();
    file.write_at(&server(), 0, b"new").unwrap();
    assert_eq!(read(&scene.union, "d/x").unwrap(), "new/x");
    at(&scene.branches[0], "d").unwrap().unlink(&server(), name("x")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while read(&scene.union, "d/x").as_deref() != Ok("1:d/x") {
        assert!(Instant::now() < deadline, "it is seen some time: {:?}", read(&scene.union, "d/x"));
        std::thread::sleep(Duration::from_millis(50));
    }
    // It can be written again, also by what was known before.
    let file = known.open(&server(), OpenFlags::READ_WRITE).unwrap();
    file.write_at(&server(), 0, b"two").unwrap();
    assert_eq!(read(&scene.union, "d/x").unwrap(), "two/x");
    assert_eq!(read(&scene.branches[0], "d/x").unwrap(), "two/x");
}

#[test]
fn directory_created_in_a_branch_by_others_is_used() {
    let scene = scene(&[(ReadWrite, &["d/"][..]), (ReadOnly, &["d/x/old"])]);
    let x = at(&scene.union, "d/x").unwrap();
    fill(&scene.branches[0], 0, "d/x/theirs");
    x.create(&server(), name("ours"), &Creation { mode: 0o644, flags: OpenFlags::WRITE }).unwrap();
    let has_ours = |branch: &FileSystemRef| at(branch, "d/x/ours").is_ok();
    assert_eq!(scene.branches.iter().map(has_ours).collect::<Vec<_>>(), [true, false]);
    assert_eq!(common::list(&x, &server()), ["old", "ours", "theirs"]);
}

#[test]
fn foreign_object_is_seen_at_a_cached_miss() {
    let modes = [(ReadWrite, &["d/a"][..]), (ReadWrite, &["d/b"]), (ReadOnly, &["d/c"])];
    let scene = scene(&modes);
    let d = at(&scene.union, "d").unwrap();
    for missing in 0..64 {
        assert_eq!(d.lookup(&server(), name(&format!("missing {missing}"))).map(drop), Err(Errno::ENOENT));
    }
    for (branch, file) in [(1, "d/new"), (2, "d/a")] {
        fill(&scene.branches[branch], branch, file);
    }
    assert_eq!(read(&scene.union, "d/new").unwrap(), "1:d/new");
    // Nothing of it comes to light when the name is taken away.
    d.unlink(&server(), name("a")).unwrap();
    assert_eq!(read(&scene.union, "d/a").map(drop), Err(Errno::ENOENT));
}

/// A branch in which a query of a directory waits for another thread.
struct Interleaved(Arc<Mutex<Option<Interleaving>>>);

/// What another thread does between a look-up of a name and the next query of the directory's attributes by the same thread.
struct Interleaving {
    directory: Handle,
    name: NameBuf,
    /// The thread that has looked up the name.
    thread: Option<ThreadId>,
    action: Box<dyn FnOnce() + Send>,
}

impl Layer for Interleaved {
    type State = ();

    fn kind(&self) -> &'static str {
        "interleaved"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let found = node.forward_lookup(caller, name);
        if let Some(planned) = &mut *self.0.lock().unwrap()
            && planned.directory == node.handle()
            && planned.name.as_name() == name
        {
            planned.thread = Some(thread::current().id());
        }
        found
    }

    fn getattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Attributes> {
        let is_now = |planned: &mut Interleaving| {
            planned.directory == node.handle() && planned.thread == Some(thread::current().id())
        };
        let planned = self.0.lock().unwrap().take_if(is_now);
        if let Some(planned) = planned {
            thread::spawn(planned.action).join().unwrap();
        }
        node.forward_getattr(caller)
    }
}

#[test]
fn foreign_object_is_seen_when_another_thread_drops_the_cache() {
    const DIRECTORIES: usize = 16;
    // Misses that reading so many names would cost: otherwise the other thread reads them instead of dropping them.
    const NAMES: usize = 64;
    let (plan, left) = (Arc::default(), memory());
    let branch: FileSystemRef = vnode::layer::stack(Interleaved(Arc::clone(&plan)), left);
    let scene = joined(vec![(ReadWrite, branch), (ReadOnly, memory())]);
    for directory in 0..DIRECTORIES {
        fill(&scene.branches[0], 0, &format!("d{directory}/"));
        (0..NAMES).for_each(|file| fill(&scene.branches[1], 1, &format!("d{directory}/{file}")));
    }
    let (is_interleaved, deadline) = (Arc::new(AtomicBool::new(false)), Instant::now() + Duration::from_secs(60));
    for round in 0.. {
        // From then on no change can have the time of the last.
        thread::sleep(Duration::from_millis(2_200));
        for directory in 0..DIRECTORIES {
            let (path, file) = (format!("d{directory}"), format!("new {round}"));
            let d = at(&scene.union, &path).unwrap();
            let (others, was_interleaved) = (Arc::clone(&d), Arc::clone(&is_interleaved));
            let action = Box::new(move || {
                assert_eq!(others.lookup(&server(), name("missing")).map(drop), Err(Errno::ENOENT));
                was_interleaved.store(true, Ordering::SeqCst);
            });
            *plan.lock().unwrap() = Some(Interleaving {
                directory: at(&scene.branches[0], &path).unwrap().handle(),
                name: name(&file).to_owned(),
                thread: None,
                action,
            });
            // The names of both branches are known from here on, for a moment.
            common::list(&d, &server());
            fill(&scene.branches[1], 1, &format!("{path}/{file}"));
            assert_eq!(d.lookup(&server(), name(&file)).map(drop), Ok(()), "{path}/{file}");
        }
        if is_interleaved.load(Ordering::SeqCst) {
            break;
        }
        assert!(Instant::now() < deadline, "the names were never known for long enough");
    }
}

#[test]
fn foreign_object_is_seen_despite_reset_mtime() {
    let scene = scene(&[(ReadWrite, &["d/a"][..]), (ReadWrite, &["d/b"])]);
    // From then on no change can have the time of the last.
    std::thread::sleep(Duration::from_millis(2_100));
    let (d, branch) = (at(&scene.union, "d").unwrap(), at(&scene.branches[1], "d").unwrap());
    list(&scene.union, "d");
    let before = branch.getattr(&server()).unwrap().mtime;
    fill(&scene.branches[1], 1, "d/a");
    fill(&scene.branches[1], 1, "d/new");
    let times = SetAttributes { mtime: Some(SetTime::To(before)), ..SetAttributes::default() };
    branch.setattr(&server(), &times).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    for missing in 0..8 {
        assert_eq!(d.lookup(&server(), name(&format!("missing {missing}"))).map(drop), Err(Errno::ENOENT));
    }
    assert_eq!(d.lookup(&server(), name("new")).map(drop), Ok(()));
    // A whiteout is needed: it would come to light.
    d.unlink(&server(), name("a")).unwrap();
    assert_eq!(d.lookup(&server(), name("a")).map(drop), Err(Errno::ENOENT));
}

#[test]
fn directory_just_created_by_others_is_merged_completely() {
    let files = ["a", "b"];
    let scene = scene(&[(ReadWrite, &files), (ReadWrite, &files)]);
    for round in 0..10 {
        // The names of both branches are known from here on.
        list(&scene.union, "");
        for (branch, file) in files.iter().enumerate() {
            fill(&scene.branches[branch], branch, &format!("new{round}/{file}"));
        }
        assert_eq!(list(&scene.union, &format!("new{round}")), files, "in round {round}");
    }
}
#[test]
fn failed_open_does_not_truncate() {
    let left = common::layer("faulty", &[], memory());
    let below = conformance::faults::Below::of(vec![left.clone()]);
    below.off();
    let right = memory();
    fill(&right, 1, "d/f");
    let scene = common::unions::joined(vec![(ReadWrite, left), (ReadOnly, right)]);
    for flags in [OpenFlags::WRITE, OpenFlags::READ_WRITE] {
        below.set(0, &[("operations", "open"), ("error", "EMFILE"), ("from", "1"), ("times", "100")]);
        let opened = at(&scene.union, "d/f").unwrap().open(&server(), flags.with(OpenFlags::TRUNCATE));
        assert_eq!(opened.err(), Some(Errno::EMFILE));
        below.off();
        assert_eq!(read(&scene.union, "d/f").unwrap(), "1:d/f");
        let copied = at(&scene.branches[0], "d").map(|directory| common::list(&directory, &server()));
        assert!(copied.is_err() || copied == Ok(Vec::new()), "{copied:?}");
    }
    let opened = at(&scene.union, "d/f").unwrap().open(&server(), OpenFlags::READ_WRITE.with(OpenFlags::TRUNCATE));
    opened.unwrap().write_at(&server(), 0, b"new").unwrap();
    assert_eq!(read(&scene.union, "d/f").unwrap(), "new");
}

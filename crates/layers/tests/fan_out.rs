//! A fan-out whose changes go to all branches: they stay the same, whoever works beside and whatever breaks.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{create, layer, memory, name, root};
use vnode::fan_out::{Changes, Routing, join};
use vnode::layer::{Layer, LayerFile, LayerVnode, stack};
use vnode::{AllocateMode, Caller, Errno, FileSystemRef, Name, OpenFlags, RenameMode, Result, VnodeRef};

/// Does something before the next rename or creation.
#[derive(Clone, Default)]
struct Before(Arc<Mutex<Option<Action>>>);

type Action = Box<dyn FnOnce() + Send>;

impl Layer for Before {
    type State = ();

    fn kind(&self) -> &'static str {
        "before"
    }

    fn rename(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        from: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let action = self.0.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
        node.forward_rename(caller, from, to, to_name, mode)
    }

    fn create(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        how: &vnode::Creation,
    ) -> Result<vnode::Created> {
        let action = self.0.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
        node.forward_create(caller, name, how)
    }
}

struct InAll;

impl Routing for InAll {
    fn changes(&self) -> Changes {
        Changes::InAll
    }
}

#[test]
fn a_parent_that_is_asked_for_during_a_rename_mixes_no_branches() {
    let (first, second, before) = (memory(), memory(), Before::default());
    let mirror = join(vec![first.clone(), stack(before.clone(), second.clone())], InAll);
    let top = mirror.root();
    let make = |directory: &VnodeRef, text: &str| directory.mkdir(&root(), name(text), 0o755).unwrap().vnode;
    let (one, two) = (make(&top, "one"), make(&top, "two"));
    let moved = make(&one, "moved");
    create(&one, &root(), "precious", 0o644);
    create(&two, &root(), "precious", 0o644);
    // What a listing of the moved directory does, for its entry `..`.
    *before.0.lock().unwrap() = Some(Box::new(move || {
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            let _ = moved.parent(&root());
            let _ = done.send(());
        });
        let _ = is_done.recv_timeout(Duration::from_millis(300));
    }));
    one.rename(&root(), name("moved"), &two, name("moved"), RenameMode::Replace).unwrap();
    two.unlink(&root(), name("precious")).unwrap();
    let is_there = |branch: &FileSystemRef, path: &str| common::walk(branch, &root(), path).is_ok();
    assert!(is_there(&first, "one/precious") && !is_there(&first, "two/precious"));
    assert!(is_there(&second, "one/precious"), "removed in the second branch, where nobody has removed it");
    assert!(!is_there(&second, "two/precious"));
}

#[test]
fn a_parent_is_not_that_of_a_branch_that_has_failed() {
    let first = layer("faulty", &[("operations", "mkdir"), ("from", "4"), ("error", "EIO")], memory());
    let mirror = join(vec![first, memory()], InAll);
    let top = mirror.root();
    let make = |directory: &VnodeRef, text: &str| directory.mkdir(&root(), name(text), 0o755).unwrap().vnode;
    let (one, two) = (make(&top, "one"), make(&top, "two"));
    let moved = make(&one, "moved");
    make(&top, "missing in the first");
    one.rename(&root(), name("moved"), &two, name("moved"), RenameMode::Replace).unwrap();
    let parent = moved.parent(&root()).unwrap();
    create(&parent, &root(), "file", 0o644);
    assert!(common::walk(&mirror, &root(), "two/file").is_ok());
    create(&one, &root(), "other", 0o644);
    assert!(common::walk(&mirror, &root(), "one/other").is_ok(), "the former parent is what it was");
}

/// A branch whose writes fail from some time on, after they were made or without.
#[derive(Clone, Default)]
struct Broken {
    is_broken: Arc<AtomicBool>,
    is_full: Arc<AtomicBool>,
}

impl Layer for Broken {
    type State = ();

    fn kind(&self) -> &'static str {
        "broken"
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(Errno::ENOSPC);
        }
        let written = file.forward_write_at(caller, offset, data)?;
        if self.is_broken.load(Ordering::Relaxed) { Err(Errno::EIO) } else { Ok(written) }
    }
}

#[test]
fn a_branch_that_may_have_what_another_refused_fails() {
    let (broken, full) = (Broken::default(), Broken::default());
    let (first, second) = (memory(), memory());
    let mirror = join(vec![stack(broken.clone(), first.clone()), stack(full.clone(), second.clone())], InAll);
    let (_, file) = create(&mirror.root(), &root(), "file", 0o644);
    broken.is_broken.store(true, Ordering::Relaxed);
    full.is_full.store(true, Ordering::Relaxed);
    let written = file.write_at(&root(), 0, b"data");
    broken.is_broken.store(false, Ordering::Relaxed);
    full.is_full.store(false, Ordering::Relaxed);
    file.write_at(&root(), 4, b"more").unwrap();
    let of = |branch: &FileSystemRef| common::contents(&common::walk(branch, &root(), "file").unwrap().vnode, &root());
    assert_eq!(written, Err(Errno::ENOSPC));
    assert_eq!(of(&first), b"data", "it is not used any more");
    assert_eq!(of(&second), b"\0\0\0\0more");
    assert_eq!(common::contents(&common::walk(&mirror, &root(), "file").unwrap().vnode, &root()), of(&second));
}

#[test]
fn a_truncating_creation_and_a_write_come_in_one_order_in_all_branches() {
    let (first, second, before) = (memory(), memory(), Before::default());
    let mirror = join(vec![first.clone(), stack(before.clone(), second.clone())], InAll);
    let (_, file) = create(&mirror.root(), &root(), "file", 0o644);
    *before.0.lock().unwrap() = Some(Box::new(move || {
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            let _ = done.send(file.write_at(&root(), 0, b"data"));
        });
        let _ = is_done.recv_timeout(Duration::from_millis(300));
    }));
    let how = vnode::Creation { mode: 0o644, flags: OpenFlags::WRITE.with(OpenFlags::TRUNCATE) };
    mirror.root().create(&root(), name("file"), &how).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let of = |branch: &FileSystemRef| common::contents(&common::walk(branch, &root(), "file").unwrap().vnode, &root());
    assert_eq!(of(&first), of(&second));
}

#[test]
fn a_change_that_only_failed_branches_have_is_not_reported_as_made() {
    let first = layer("faulty", &[("operations", "create"), ("times", "1"), ("error", "EIO")], memory());
    let second = layer("faulty", &[("operations", "mkdir"), ("from", "2"), ("error", "EIO")], memory());
    let before = Before::default();
    let mirror = join(vec![first.clone(), stack(before.clone(), second)], InAll);
    let top = mirror.root();
    let other = top.mkdir(&root(), name("other"), 0o755).unwrap().vnode;
    // The second branch fails while it makes what the first has not made.
    *before.0.lock().unwrap() = Some(Box::new(move || drop(other.mkdir(&root(), name("d"), 0o755).unwrap())));
    let how = vnode::Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    assert_eq!(top.create(&root(), name("file"), &how).err(), Some(Errno::EIO));
    assert!(common::walk(&first, &root(), "other/d").is_ok());
    create(&top, &root(), "file", 0o644);
    assert!(common::walk(&first, &root(), "file").is_ok(), "the last branch goes on");
}

/// A branch without space: an allocation leaves a part of its range allocated.
struct Full;

impl Layer for Full {
    type State = ();

    fn kind(&self) -> &'static str {
        "full"
    }

    fn allocate(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        if !mode.contains(AllocateMode::KEEP_SIZE) {
            file.forward_truncate(caller, offset + length / 2)?;
        }
        Err(Errno::ENOSPC)
    }
}

#[test]
fn an_allocation_makes_all_branches_as_long_or_none() {
    let size = |branch: &FileSystemRef| common::walk(branch, &root(), "file").unwrap().attributes.size;
    let (allocate, zero) = (AllocateMode::ALLOCATE, AllocateMode::ZERO_RANGE);
    for (is_full, mode) in [(true, allocate), (false, allocate), (false, zero)] {
        let (first, second) = (memory(), memory());
        let lower = if is_full { stack(Full, first.clone()) } else { first.clone() };
        let mirror = join(vec![lower, second.clone()], InAll);
        let (_, file) = create(&mirror.root(), &root(), "file", 0o644);
        let expected = if is_full { Err(Errno::ENOSPC) } else { Ok(()) };
        // The second is within the first: the file becomes no shorter.
        for (offset, length) in [(10, 100), (0, 50)] {
            assert_eq!(file.allocate(&root(), mode, offset, length), expected);
            assert_eq!((size(&first), size(&second)), if is_full { (0, 0) } else { (110, 110) });
        }
    }
}

/// A branch that can allocate only if that may change the size, as NFS.
struct Growing;

impl Layer for Growing {
    type State = ();

    fn kind(&self) -> &'static str {
        "growing"
    }

    fn allocate(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        if mode.contains(AllocateMode::KEEP_SIZE) {
            return Err(Errno::EOPNOTSUPP);
        }
        file.forward_allocate(caller, mode, offset, length)
    }
}

#[test]
fn a_branch_is_asked_for_no_mode_of_allocation_that_it_lacks_and_nobody_asked_for() {
    for growing in [0, 1] {
        let branches = [memory(), memory()];
        let lower = |branch: usize| match branch == growing {
            true => stack(Growing, branches[branch].clone()),
            false => branches[branch].clone(),
        };
        let mirror = join(vec![lower(0), lower(1)], InAll);
        let top = mirror.root();
        let (_, file) = create(&top, &root(), "file", 0o644);
        assert_eq!(file.allocate(&root(), AllocateMode::ALLOCATE, 10, 100), Ok(()), "{growing}");
        create(&top, &root(), "later", 0o644);
        for branch in &branches {
            assert_eq!(common::walk(branch, &root(), "file").unwrap().attributes.size, 110, "{growing}");
            assert!(common::walk(branch, &root(), "later").is_ok(), "{growing}: no branch has failed");
        }
    }
}

#[test]
fn an_object_that_is_held_shows_the_values_of_one_branch() {
    // The first lookups cannot be made in the first branch, which is asked twice each time.
    for times in ["1", "2", "3", "4"] {
        let rule = [("operations", "lookup"), ("times", times), ("error", "EIO")];
        let (first, second) = (memory(), memory());
        create(&first.root(), &root(), "only here, for other numbers", 0o644);
        let mirror = join(vec![layer("faulty", &rule, first), second], InAll);
        create(&mirror.root(), &root(), "file", 0o644);
        let find = || common::walk(&mirror, &root(), "file").unwrap();
        let found = [find(), find(), find()];
        let number = found[0].vnode.getattr(&root()).unwrap().ino;
        assert_eq!(found.map(|entry| entry.attributes.ino), [number; 3], "{times}");
    }
}

#[test]
fn an_object_is_one_whichever_branch_it_is_found_in() {
    for operation in ["mkdir", "lookup"] {
        let first = layer("faulty", &[("operations", operation), ("error", "EIO")], memory());
        let mirror = join(vec![first, memory()], InAll);
        let top = mirror.root();
        let (held, file) = create(&top, &root(), "file", 0o644);
        // The first branch fails, or only cannot be read.
        top.mkdir(&root(), name("d"), 0o755).unwrap();
        let find = || common::walk(&mirror, &root(), "file").unwrap().vnode;
        assert_eq!(find().handle(), held.handle(), "{operation}");
        assert_eq!(mirror.resolve(&root(), &held.handle()).unwrap().handle(), held.handle(), "{operation}");
        drop((held, file));
        let found = find();
        assert_eq!(mirror.resolve(&root(), &found.handle()).unwrap().handle(), found.handle(), "{operation}");
    }
}

#[test]
fn objects_that_one_branch_has_as_one_stay_several() {
    let (first, second) = (memory(), memory());
    create(&first.root(), &root(), "one", 0o644);
    create(&first.root(), &root(), "other", 0o644);
    let (linked, _) = create(&second.root(), &root(), "one", 0o644);
    second.root().link(&root(), &linked, name("other")).unwrap();
    let mirror = join(vec![first, second], InAll);
    let [one, other] = ["one", "other"].map(|path| common::walk(&mirror, &root(), path).unwrap().vnode);
    assert_ne!(one.handle(), other.handle());
}

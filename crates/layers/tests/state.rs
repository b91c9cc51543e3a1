//! State of layers: one for each object, whoever holds it and however it was come by.

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::{create, memory, name, root};
use vnode::layer::{Layer, LayerFile, LayerVnode, Operation, stack};
use vnode::{Caller, Errno, OpenFlags, Promises, RenameMode, Result};

/// Counts look-ups in each directory and openings of each file, and tells by `getxattr`.
struct Counting;

impl Layer for Counting {
    type State = AtomicUsize;

    fn kind(&self) -> &'static str {
        "counting"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn observe(&self, node: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>, result: Result<()>) {
        if result.is_ok() && matches!(operation, Operation::Lookup(_) | Operation::Open(_)) {
            node.state().fetch_add(1, Ordering::Relaxed);
        }
    }

    fn getxattr(&self, node: &LayerVnode<Self>, _: &Caller, _: &[u8]) -> Result<Vec<u8>> {
        Ok(node.state().load(Ordering::Relaxed).to_string().into_bytes())
    }
}

/// Counts open files.
#[derive(Default)]
struct Releasing;

impl Layer for Releasing {
    type State = AtomicUsize;

    fn kind(&self) -> &'static str {
        "releasing"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn release(&self, file: &LayerFile<Self>) {
        file.node().state().fetch_add(1, Ordering::Relaxed);
    }

    fn getxattr(&self, node: &LayerVnode<Self>, _: &Caller, _: &[u8]) -> Result<Vec<u8>> {
        Ok(node.state().load(Ordering::Relaxed).to_string().into_bytes())
    }
}

fn count(vnode: &vnode::VnodeRef) -> usize {
    String::from_utf8(vnode.getxattr(&root(), b"").unwrap()).unwrap().parse().unwrap()
}

#[test]
fn hard_links_handles_and_renames_lead_to_one_state() {
    let file_system = stack(Counting, memory());
    let directory = file_system.root();
    let (file, _open) = create(&directory, &root(), "file", 0o644);
    directory.link(&root(), &file, name("link")).unwrap();
    let by_link = directory.lookup(&root(), name("link")).unwrap().vnode;
    by_link.open(&root(), OpenFlags::READ).unwrap();
    directory.rename(&root(), name("file"), &directory, name("moved"), RenameMode::Replace).unwrap();
    let by_name = directory.lookup(&root(), name("moved")).unwrap().vnode;
    by_name.open(&root(), OpenFlags::READ).unwrap();
    let by_handle = file_system.resolve(&root(), &file.handle()).unwrap();
    by_handle.open(&root(), OpenFlags::READ).unwrap();
    assert_eq!([&file, &by_link, &by_name, &by_handle].map(count), [3; 4]);
    assert_eq!(count(&file_system.root()), 2);
}

#[test]
fn concurrent_look_ups_find_one_state_and_none_is_lost_while_held() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 2000;
    let file_system = stack(Counting, memory());
    let (held, _open) = create(&file_system.root(), &root(), "held", 0o644);
    create(&file_system.root(), &root(), "loose", 0o644);
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..ROUNDS {
                    let vnode = file_system.root().lookup(&root(), name("held")).unwrap().vnode;
                    vnode.open(&root(), OpenFlags::READ).unwrap();
                    // Nobody holds this one: it comes and goes, in all threads at once.
                    let loose = file_system.root().lookup(&root(), name("loose")).unwrap().vnode;
                    loose.open(&root(), OpenFlags::READ).unwrap();
                    assert!(count(&loose) >= 1);
                }
            });
        }
    });
    assert_eq!(count(&held), THREADS * ROUNDS);
}

#[test]
fn release_comes_once_for_each_open_file() {
    let file_system = stack(Releasing, memory());
    let (vnode, first) = create(&file_system.root(), &root(), "file", 0o644);
    let second = vnode.open(&root(), OpenFlags::READ).unwrap();
    let shared = second.clone();
    drop(first);
    drop(second);
    assert_eq!(count(&vnode), 1);
    drop(shared);
    assert_eq!(count(&vnode), 2);
}

#[test]
fn vnodes_of_another_mount_are_told_apart() {
    let (one, other) = (stack(Counting, memory()), stack(Counting, memory()));
    let (file, open) = create(&one.root(), &root(), "file", 0o644);
    let (_, to) = create(&other.root(), &root(), "file", 0o644);
    let link = other.root().link(&root(), &file, name("link")).map(drop);
    let rename = one.root().rename(&root(), name("file"), &other.root(), name("file"), RenameMode::Replace);
    assert_eq!((link, rename), (Err(Errno::EXDEV), Err(Errno::EXDEV)));
    assert_eq!(open.copy_range(&root(), 0, &to, 0, 1), Err(Errno::EXDEV));
}

//! A union of slow branches asks them at once: the branches count how many of them are being asked.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bases::dir::{DirectoryFileSystem, Options};
use common::{list, memory, name, root};
use layers::{Branch, BranchMode};
use vnode::layer::{Layer, LayerVnode};
use vnode::{Caller, CancellationSource, Entry, Errno, FileSystemRef, Name, OpenDirectoryRef, Result};

/// How many branches are being asked, and the most that ever were.
#[derive(Default)]
struct Asked {
    now: AtomicUsize,
    most: AtomicUsize,
    /// None answers while this is so, whoever waits for it.
    is_stuck: AtomicBool,
}

/// Takes its time to look up and to open directories, as over a network.
struct Far(Arc<Asked>);

impl Far {
    fn slowly<T>(&self, answer: impl FnOnce() -> T) -> T {
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(20));
        while self.0.is_stuck.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        let answer = answer();
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

impl Layer for Far {
    type State = ();

    fn kind(&self) -> &'static str {
        "far"
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        self.slowly(|| node.forward_lookup(caller, name))
    }

    fn open_directory(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<OpenDirectoryRef> {
        self.slowly(|| node.forward_open_directory(caller))
    }
}

/// A union of a branch at hand and that many far ones, in each of which is a directory `d` with files of its own.
fn scene(far: usize) -> (FileSystemRef, Arc<Asked>) {
    let (server, asked) = (Caller::server(), Arc::new(Asked::default()));
    let branches = (0..=far).map(|index| {
        let tree = memory();
        let d = tree.root().mkdir(&server, name("d"), 0o755).unwrap().vnode;
        d.mkdir(&server, name("common"), 0o755).unwrap();
        d.mkdir(&server, name(&format!("own {index}")), 0o755).unwrap();
        let file_system =
            if index == 0 { tree } else { vnode::layer::stack(Far(Arc::clone(&asked)), tree) as FileSystemRef };
        let mode = if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly };
        Branch { file_system, mode: Some(mode), label: format!("branch {index}") }
    });
    let union = layers::kind("union").unwrap().join(&[], branches.collect(), None).unwrap();
    // By now it is known how slow they are.
    for missing in 0..4 {
        let found = union.root().lookup(&server, name(&format!("missing {missing}")));
        assert_eq!(found.map(drop), Err(Errno::ENOENT));
    }
    asked.most.store(0, Ordering::SeqCst);
    (union, asked)
}

#[test]
fn slow_branches_are_asked_for_a_name_at_once() {
    let (union, asked) = scene(8);
    let server = Caller::server();
    let d = union.root().lookup(&server, name("d")).unwrap().vnode;
    assert_eq!(asked.most.load(Ordering::SeqCst), 8);
    let found = d.lookup(&server, name("own 7")).unwrap();
    assert!(found.attributes.is_directory());
    assert_eq!(d.lookup(&server, name("own 9")).map(drop), Err(Errno::ENOENT));
    assert_eq!(asked.now.load(Ordering::SeqCst), 0, "nobody is left asking");
}

#[test]
fn slow_branches_are_listed_at_once() {
    let (union, asked) = scene(8);
    let d = union.root().lookup(&Caller::server(), name("d")).unwrap().vnode;
    asked.most.store(0, Ordering::SeqCst);
    let names = list(&d, &Caller::server());
    let mut expected: Vec<_> = (0..=8).map(|index| format!("own {index}")).collect();
    expected.insert(0, "common".to_owned());
    assert_eq!(names, expected);
    assert_eq!(asked.most.load(Ordering::SeqCst), 8);
}

type Question<'a> = dyn Fn(&Caller) -> Result<()> + Sync + 'a;

#[test]
fn who_is_cancelled_waits_for_no_branch_that_does_not_answer() {
    let (union, asked) = scene(8);
    let d = union.root().lookup(&root(), name("d")).unwrap().vnode;
    let open = d.open_directory(&root()).unwrap();
    asked.is_stuck.store(true, Ordering::SeqCst);
    let source = CancellationSource::new();
    let read = |caller: &Caller| open.read(caller, 0, &mut |_| std::ops::ControlFlow::Continue(()));
    let look_up = |caller: &Caller| d.lookup(caller, name("own 7")).map(drop);
    let questions: [&Question<'_>; 2] = [&look_up, &read];
    for (request, question) in (1..).zip(questions) {
        let caller = root().cancelled_by(source.begin(request, 0));
        let begin = Instant::now();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| question(&caller));
            thread::sleep(Duration::from_millis(100));
            assert!(!waiting.is_finished());
            source.cancel(request);
            assert_eq!(waiting.join().unwrap(), Err(Errno::EINTR));
        });
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
    asked.is_stuck.store(false, Ordering::SeqCst);
    assert_eq!((look_up(&root()), read(&root())), (Ok(()), Ok(())));
}

#[test]
fn what_is_at_hand_on_the_left_does_not_wait_for_slow_branches() {
    let (union, asked) = scene(8);
    let server = Caller::server();
    let how = vnode::Creation { mode: 0o644, flags: vnode::OpenFlags::WRITE };
    union.root().create(&server, name("file"), &how).unwrap();
    asked.most.store(0, Ordering::SeqCst);
    union.root().lookup(&server, name("file")).unwrap();
    assert_eq!(asked.most.load(Ordering::SeqCst), 0);
}

#[test]
fn branches_are_free_when_their_union_has_ended() {
    let directory = tempfile::tempdir().unwrap();
    let (server, asked) = (Caller::server(), Arc::new(Asked::default()));
    let union = || {
        let branches = (0..3).map(|index| {
            let path = directory.path().join(index.to_string());
            let _ = std::fs::create_dir(&path);
            std::fs::write(path.join("file"), "").unwrap();
            let tree: FileSystemRef = Arc::new(DirectoryFileSystem::open(&path, Options::default()).unwrap());
            let file_system = vnode::layer::stack(Far(Arc::clone(&asked)), tree) as FileSystemRef;
            let mode = if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly };
            Branch { file_system, mode: Some(mode), label: format!("branch {index}") }
        });
        layers::kind("union").unwrap().join(&[], branches.collect(), None).unwrap()
    };
    for round in 0..3 {
        let union = union();
        let d = format!("d{round}");
        // The union's own directory has to be taken.
        union.root().mkdir(&server, name(&d), 0o755).unwrap();
        for missing in 0..4 {
            let _ = union.root().lookup(&server, name(&format!("missing {missing}")));
        }
        // The first branch has it, and nobody waits for the others.
        union.root().lookup(&server, name("file")).unwrap();
        drop(union);
        assert_eq!(asked.now.load(Ordering::SeqCst), 0, "round {round}: nobody is left asking");
    }
}

//! A union of slow branches asks them at once: the branches count how many of them are being asked.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bases::dir::{DirectoryFileSystem, Options};
use common::{list, memory, name, root};
use plyfs_layers::{Branch, BranchMode};
use vnode::layer::{Layer, LayerVnode};
use vnode::{
    Attributes, Caller, CancellationSource, Cookie, Creation, Entry, Errno, FileSystemRef, Name, OpenDirectoryRef,
    OpenFlags, Promises, Result, StatFs,
};

/// How many branches are being asked, and the most that ever were.
#[derive(Default)]
struct QueryCount {
    now: AtomicUsize,
    most: AtomicUsize,
    /// How often somebody began to ask when nobody was asking.
    rounds: AtomicUsize,
    /// What is asked for slowly: [`NAME_QUERIES`], [`ATTRIBUTE_QUERIES`] or [`SPACE_QUERIES`].
    slow: AtomicU8,
    /// None answers while this is so, whoever waits for it.
    is_stuck: AtomicBool,
}

const NAME_QUERIES: u8 = 0;
const ATTRIBUTE_QUERIES: u8 = 1;
const SPACE_QUERIES: u8 = 2;

/// Takes its time to look up and to open directories, or to do something else, as over a network.
struct SlowLayer(Arc<QueryCount>);

impl SlowLayer {
    fn slowly<T>(&self, question: u8, answer: impl FnOnce() -> T) -> T {
        if self.0.slow.load(Ordering::SeqCst) != question {
            return answer();
        }
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.rounds.fetch_add(usize::from(now == 1), Ordering::SeqCst);
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

impl Layer for SlowLayer {
    type State = ();

    fn kind(&self) -> &'static str {
        "far"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        self.slowly(NAME_QUERIES, || node.forward_lookup(caller, name))
    }

    fn open_directory(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<OpenDirectoryRef> {
        self.slowly(NAME_QUERIES, || node.forward_open_directory(caller))
    }

    fn getattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Attributes> {
        self.slowly(ATTRIBUTE_QUERIES, || node.forward_getattr(caller))
    }

    fn statfs(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<StatFs> {
        self.slowly(SPACE_QUERIES, || node.forward_statfs(caller))
    }
}

/// A union of a branch at hand and that many far ones, in each of which is a directory `d` with files of its own.
fn scene(far: usize) -> (FileSystemRef, Arc<QueryCount>) {
    scene_with(far, BranchMode::ReadOnly, &[])
}

/// The same with far branches of that mode, and these options.
fn scene_with(far: usize, mode_of_far: BranchMode, options: &[(&str, &str)]) -> (FileSystemRef, Arc<QueryCount>) {
    let (server, asked) = (Caller::server(), Arc::new(QueryCount::default()));
    let options: Vec<_> = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let branches = (0..=far).map(|index| {
        let tree = memory();
        let how = Creation { mode: 0o644, flags: OpenFlags::WRITE };
        tree.root().create(&server, name("everywhere"), &how).unwrap();
        if index == 0 {
            tree.root().mkdir(&server, name("at hand"), 0o755).unwrap();
        }
        let d = tree.root().mkdir(&server, name("d"), 0o755).unwrap().vnode;
        d.mkdir(&server, name("common"), 0o755).unwrap();
        d.mkdir(&server, name(&format!("own {index}")), 0o755).unwrap();
        let file_system =
            if index == 0 { tree } else { vnode::layer::stack(SlowLayer(Arc::clone(&asked)), tree) as FileSystemRef };
        let mode = if index == 0 { BranchMode::ReadWrite } else { mode_of_far };
        Branch { file_system, mode: Some(mode), label: format!("branch {index}"), minimum_free: None }
    });
    let union = plyfs_layers::kind("union").unwrap().join(&options, branches.collect(), None).unwrap();
    // By now it is known how slow they are.
    for missing in 0..4 {
        let found = union.root().lookup(&server, name(&format!("missing {missing}")));
        assert_eq!(found.map(drop), Err(Errno::ENOENT));
    }
    asked.most.store(0, Ordering::SeqCst);
    (union, asked)
}

#[test]
fn slow_branches_are_searched_in_parallel() {
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
fn slow_branches_are_listed_in_parallel() {
    let (union, asked) = scene(8);
    let d = union.root().lookup(&Caller::server(), name("d")).unwrap().vnode;
    asked.most.store(0, Ordering::SeqCst);
    let names = list(&d, &Caller::server());
    let mut expected: Vec<_> = (0..=8).map(|index| format!("own {index}")).collect();
    expected.insert(0, "common".to_owned());
    assert_eq!(names, expected);
    // A helper may look up another name in all of them meanwhile.
    assert!(asked.most.load(Ordering::SeqCst) >= 8);
}

type Query<'a> = dyn Fn(&Caller) -> Result<()> + Sync + 'a;

#[test]
fn cancelled_caller_does_not_wait_for_hung_branch() {
    let (union, asked) = scene(8);
    let d = union.root().lookup(&root(), name("d")).unwrap().vnode;
    let open = d.open_directory(&root()).unwrap();
    asked.is_stuck.store(true, Ordering::SeqCst);
    let source = CancellationSource::new();
    let read = |caller: &Caller| open.read(caller, Cookie::START, &mut |_| std::ops::ControlFlow::Continue(()));
    let look_up = |caller: &Caller| d.lookup(caller, name("own 7")).map(drop);
    let questions: [&Query<'_>; 2] = [&look_up, &read];
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
fn object_in_fast_higher_branch_does_not_wait() {
    let (union, asked) = scene(8);
    let server = Caller::server();
    let how = vnode::Creation { mode: 0o644, flags: vnode::OpenFlags::WRITE };
    union.root().create(&server, name("file"), &how).unwrap();
    asked.most.store(0, Ordering::SeqCst);
    union.root().lookup(&server, name("file")).unwrap();
    assert_eq!(asked.most.load(Ordering::SeqCst), 0);
}

#[test]
fn branches_are_released_when_the_union_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (server, asked) = (Caller::server(), Arc::new(QueryCount::default()));
    let union = || {
        let branches = (0..3).map(|index| {
            let path = directory.path().join(index.to_string());
            let _ = std::fs::create_dir(&path);
            std::fs::write(path.join("file"), "").unwrap();
            let tree: FileSystemRef = Arc::new(DirectoryFileSystem::open(&path, Options::default()).unwrap());
            let file_system = vnode::layer::stack(SlowLayer(Arc::clone(&asked)), tree) as FileSystemRef;
            let mode = if index == 0 { BranchMode::ReadWrite } else { BranchMode::ReadOnly };
            Branch { file_system, mode: Some(mode), label: format!("branch {index}"), minimum_free: None }
        });
        plyfs_layers::kind("union").unwrap().join(&[], branches.collect(), None).unwrap()
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

#[test]
fn slow_branches_are_validated_in_parallel() {
    let (union, asked) = scene(8);
    let server = Caller::server();
    // What has just been changed may be changed again without a sign.
    thread::sleep(Duration::from_millis(2_500));
    asked.slow.store(ATTRIBUTE_QUERIES, Ordering::SeqCst);
    // Names are learnt after some misses, and then a branch is asked for nothing but its times.
    for missing in 0..3 {
        assert_eq!(union.root().lookup(&server, name(&format!("none {missing}"))).map(drop), Err(Errno::ENOENT));
    }
    asked.rounds.store(0, Ordering::SeqCst);
    assert_eq!(union.root().lookup(&server, name("none of all")).map(drop), Err(Errno::ENOENT));
    let rounds = asked.rounds.load(Ordering::SeqCst);
    assert!(rounds < 8, "{rounds} rounds");
    assert_eq!(asked.now.load(Ordering::SeqCst), 0, "nobody is left asking");
}

#[test]
fn free_space_of_slow_branches_is_queried_in_parallel() {
    for options in [("create", "most-free"), ("create", "least-used"), ("minimum-free", "1k")] {
        let (union, asked) = scene_with(8, BranchMode::ReadWrite, &[options]);
        asked.slow.store(SPACE_QUERIES, Ordering::SeqCst);
        asked.most.store(0, Ordering::SeqCst);
        let how = Creation { mode: 0o644, flags: OpenFlags::WRITE };
        union.root().create(&Caller::server(), name("new"), &how).unwrap();
        // Not all, where a thread begins late.
        assert!(asked.most.load(Ordering::SeqCst) >= 4, "{options:?}");
    }
}

#[test]
fn visibility_in_slow_branches_is_queried_in_parallel() {
    let (union, asked) = scene_with(8, BranchMode::ReadWrite, &[("create", "round-robin")]);
    let (server, how) = (Caller::server(), Creation { mode: 0o644, flags: OpenFlags::WRITE });
    let directory = union.root().lookup(&server, name("at hand")).unwrap().vnode;
    // The first goes where the directory is, and the last to the last of all branches.
    let rounds = (0..9).map(|index| {
        asked.rounds.store(0, Ordering::SeqCst);
        directory.create(&server, name(&format!("new {index}")), &how).unwrap();
        asked.rounds.load(Ordering::SeqCst)
    });
    let most = rounds.max().unwrap();
    assert!(most < 30, "{most} rounds");
}

#[test]
fn deletions_in_slow_branches_are_queried_in_parallel() {
    let (union, asked) = scene_with(8, BranchMode::ReadWrite, &[("delete", "all")]);
    let server = Caller::server();
    asked.rounds.store(0, Ordering::SeqCst);
    union.root().unlink(&server, name("everywhere")).unwrap();
    let rounds = asked.rounds.load(Ordering::SeqCst);
    assert!(rounds < 16, "{rounds} rounds");
    assert_eq!(union.root().lookup(&server, name("everywhere")).map(drop), Err(Errno::ENOENT));
}

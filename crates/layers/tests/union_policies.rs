//! The policies of the union: the branch that each selects, and the space that is reported.

mod common;

use std::fs;
use std::sync::{Arc, Mutex};

use bases::dir;
use common::{list, memory, name, small_memory, walk};
use plyfs_layers::{Branch, BranchMode, BranchOpener, BranchScan, BranchSource, PatternMatch, PatternMatches};
use vnode::{
    Caller, Control, Creation, Errno, FileSystemRef, OpenFlags, SetAttributes, SetTime, Timestamp, VnodeRef, XattrMode,
};

use BranchMode::{NoCreate, ReadOnly, ReadWrite};

fn server() -> Caller {
    Caller::server()
}

fn branch(index: usize, file_system: &FileSystemRef, mode: BranchMode) -> Branch {
    Branch { file_system: file_system.clone(), mode: Some(mode), label: format!("branch {index}"), minimum_free: None }
}

fn pairs(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn join(options: &[(&str, &str)], branches: Vec<Branch>) -> FileSystemRef {
    let union = plyfs_layers::kind("union").unwrap().join(&pairs(options), branches, None);
    union.unwrap_or_else(|error| panic!("{options:?}: {error}"))
}

fn read_write(branches: &[FileSystemRef]) -> Vec<Branch> {
    branches.iter().enumerate().map(|(index, file_system)| branch(index, file_system, ReadWrite)).collect()
}

/// Creates a file, with the directories above it, in a branch.
fn fill(file_system: &FileSystemRef, path: &str, data: &str) {
    let (above, file) = path.rsplit_once('/').unwrap_or(("", path));
    let mut directory = file_system.root();
    for part in above.split('/').filter(|part| !part.is_empty()) {
        directory = match directory.mkdir(&server(), name(part), 0o755) {
            Ok(entry) => entry.vnode,
            Err(Errno::EEXIST) => directory.lookup(&server(), name(part)).unwrap().vnode,
            Err(error) => panic!("{path}: {error}"),
        };
    }
    if !file.is_empty() {
        create(&directory, file, data).unwrap();
    }
}

fn create(directory: &VnodeRef, file: &str, data: &str) -> vnode::Result<()> {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    directory.create(&server(), name(file), &how)?.file.write_at(&server(), 0, data.as_bytes()).map(drop)
}

fn at(file_system: &FileSystemRef, path: &str) -> VnodeRef {
    walk(file_system, &server(), path).unwrap_or_else(|error| panic!("{path}: {error}")).vnode
}

/// Numbers of the branches that have an object.
fn having(branches: &[FileSystemRef], path: &str) -> Vec<usize> {
    (0..branches.len()).filter(|index| walk(&branches[*index], &server(), path).is_ok()).collect()
}

/// Branches of 4, 8 and 3 MiB, of which 1, 3 and 2 are free.
fn unequal_branches() -> Vec<FileSystemRef> {
    let branch = |(size, used): (u64, usize)| {
        let branch = small_memory(size << 20);
        fill(&branch, "ballast", &"x".repeat(used << 20));
        branch
    };
    [(4, 3), (8, 5), (3, 1)].map(branch).to_vec()
}

/// The branch in which a policy creates a file in the directory `path`, which is in the branches `present`.
fn chosen(policy: &str, path: &str, present: &[usize]) -> Vec<usize> {
    let branches = unequal_branches();
    present.iter().for_each(|index| fill(&branches[*index], &format!("{path}/"), ""));
    let union = join(&[("create", policy)], read_write(&branches));
    create(&at(&union, path), "new", "").unwrap();
    having(&branches, &format!("{path}/new"))
}

#[test]
fn each_order_prefers_its_branch() {
    for (policies, everywhere, within, shared) in [
        (["leftmost", "ff"], 0, 1, 1),
        (["most-free", "mfs"], 1, 1, 1),
        (["least-free", "lfs"], 0, 2, 2),
        (["least-used", "lus"], 2, 2, 2),
    ] {
        for policy in policies {
            assert_eq!(chosen(policy, "d", &[1, 2]), [everywhere], "{policy}");
        }
        let policy = policies[0];
        assert_eq!(chosen(&format!("existing-path-{policy}"), "d", &[1, 2]), [within], "{policy}");
        assert_eq!(chosen(&format!("shared-path-{policy}"), "d", &[1, 2]), [shared], "{policy}");
    }
    for (policy, expected) in [("epff", 1), ("epmfs", 1), ("eplfs", 2), ("eplus", 2), ("msplfs", 2), ("mspmfs", 1)] {
        assert_eq!(chosen(policy, "d", &[1, 2]), [expected], "{policy}");
    }
    for policy in ["rand", "pfrd", "eprand", "eppfrd", "msppfrd", "mspfrd", "msplus", "newest", "round-robin"] {
        assert_eq!(chosen(policy, "d", &[0, 1, 2]).len(), 1, "{policy}");
    }
}

#[test]
fn random_placement_is_weighted_by_free_space() {
    let branches = [small_memory(8 << 20), small_memory(56 << 20)];
    let union = join(&[("create", "weighted-random")], read_write(&branches));
    for file in 0..300 {
        create(&union.root(), &file.to_string(), "").unwrap();
    }
    let count = list(&branches[1].root(), &server()).len();
    assert!((220..300).contains(&count), "{count} of 300 files are in the branch with seven eighths of the space");
}

#[test]
fn newest_follows_the_time_of_the_directory() {
    let branches = [memory(), memory(), memory()];
    for (branch, seconds) in branches.iter().zip([100, 300, 200]) {
        fill(branch, "d/", "");
        let time = SetTime::To(Timestamp { seconds, nanoseconds: 0 });
        at(branch, "d").setattr(&server(), &SetAttributes { mtime: Some(time), ..SetAttributes::default() }).unwrap();
    }
    let union = join(&[("create", "newest")], read_write(&branches));
    create(&at(&union, "d"), "new", "").unwrap();
    assert_eq!(having(&branches, "d/new"), [1]);
}

#[test]
fn existing_path_creates_no_directories_elsewhere() {
    let branches = [memory(), small_memory(1 << 20)];
    fill(&branches[1], "d/", "");
    let union = join(&[("create", "existing-path-most-free")], read_write(&branches));
    create(&at(&union, "d"), "new", "").unwrap();
    assert_eq!((having(&branches, "d"), having(&branches, "d/new")), (vec![1], vec![1]));
}

#[test]
fn directories_of_read_only_branches_get_new_objects_by_every_policy() {
    for policy in ["existing-path-leftmost", "shared-path-most-free", "newest", "leftmost"] {
        let branches = [memory(), memory()];
        fill(&branches[1], "d/old", "");
        let joined = vec![branch(0, &branches[0], ReadWrite), branch(1, &branches[1], ReadOnly)];
        let union = join(&[("create", policy)], joined);
        create(&at(&union, "d"), "new", "").unwrap();
        assert_eq!(having(&branches, "d/new"), [0], "{policy}");
    }
}

#[test]
fn shared_path_prefers_the_longest_part_of_the_path() {
    let paths = ["", "a/", "a/b/", "a/b/c/"];
    let modes = [ReadWrite, ReadWrite, ReadWrite, NoCreate];
    let branches: Vec<FileSystemRef> = paths.iter().map(|_| memory()).collect();
    branches.iter().zip(paths).for_each(|(branch, path)| fill(branch, path, ""));
    let joined = (0..4).map(|index| branch(index, &branches[index], modes[index])).collect();
    let union = join(&[("create", "shared-path-leftmost")], joined);
    create(&at(&union, "a/b/c"), "new", "").unwrap();
    assert_eq!(having(&branches, "a/b/c/new"), [2]);
}

#[test]
fn policies_against_unix_semantics_are_refused_with_the_reason() {
    for (option, reason) in [
        (("create", "all"), "copies of one file"),
        (("create", "epall"), "copies of one file"),
        (("create", "most"), "existing-path-"),
        (("create", "existing-path-first"), "shared-path-"),
        (("action", "newest"), "would not be visible"),
        (("action", "epmfs"), "would not be visible"),
        (("search", "newest"), "leftmost object"),
        (("statfs", "full"), "sum or first"),
    ] {
        let error = plyfs_layers::kind("union").unwrap().join(&pairs(&[option]), read_write(&[memory()]), None);
        let error = error.map(drop).unwrap_err().to_string();
        assert!(error.contains(reason), "{option:?}: {error}");
    }
    for option in [("action", "ff"), ("action", "epall"), ("search", "ff"), ("search", "all"), ("search", "first")] {
        join(&[option], read_write(&[memory()]));
    }
}

#[test]
fn actions_on_all_change_hidden_copies() {
    let branches: Vec<FileSystemRef> = (0..4).map(|_| memory()).collect();
    branches.iter().for_each(|branch| fill(branch, "d/x", "data"));
    let modes = [ReadWrite, NoCreate, ReadOnly, ReadWrite];
    let joined = |options: &[(&str, &str)]| {
        join(options, (0..4).map(|index| branch(index, &branches[index], modes[index])).collect())
    };
    let modes_of = |path: &str| -> Vec<u32> {
        branches.iter().map(|branch| at(branch, path).getattr(&server()).unwrap().mode & 0o7777).collect()
    };
    let chmod = |union: &FileSystemRef, path: &str, mode| {
        at(union, path).setattr(&server(), &SetAttributes { mode: Some(mode), ..SetAttributes::default() }).unwrap();
    };
    let first = joined(&[]);
    chmod(&first, "d/x", 0o640);
    assert_eq!(modes_of("d/x"), [0o640, 0o644, 0o644, 0o644]);
    drop(first);

    let all = joined(&[("action", "all")]);
    chmod(&all, "d/x", 0o600);
    chmod(&all, "d", 0o700);
    assert_eq!(modes_of("d/x"), [0o600, 0o600, 0o644, 0o600]);
    assert_eq!(modes_of("d"), [0o700, 0o700, 0o755, 0o700]);
    at(&all, "d/x").setxattr(&server(), b"user.key", b"value", XattrMode::Create).unwrap();
    let has_attribute = |branch: &FileSystemRef| at(branch, "d/x").getxattr(&server(), b"user.key").is_ok();
    assert_eq!(branches.iter().map(has_attribute).collect::<Vec<_>>(), [true, true, false, true]);
    at(&all, "d/x").removexattr(&server(), b"user.key").unwrap();
    assert!(!branches.iter().any(has_attribute));
    at(&all, "d").unlink(&server(), name("x")).unwrap();
    assert_eq!(having(&branches, "d/x"), [2], "deleted from all branches that may be changed");
    assert!(list(&at(&all, "d"), &server()).is_empty());
}

#[test]
fn actions_on_hidden_copies_need_their_permissions() {
    let branches = [memory(), memory()];
    branches.iter().for_each(|branch| fill(branch, "x", "data"));
    let owned = SetAttributes { uid: Some(1000), ..SetAttributes::default() };
    at(&branches[0], "x").setattr(&server(), &owned).unwrap();
    let union = join(&[("action", "all")], read_write(&branches));
    let open = SetAttributes { mode: Some(0o666), ..SetAttributes::default() };
    at(&union, "x").setattr(&Caller::with_groups(1000, 1000, &[], 0o022), &open).unwrap();
    let mode = |branch: &FileSystemRef| at(branch, "x").getattr(&server()).unwrap().mode & 0o777;
    assert_eq!((mode(&branches[0]), mode(&branches[1])), (0o666, 0o644), "the hidden file belongs to another user");
}

#[test]
fn minimum_of_a_branch_replaces_that_of_the_union() {
    let place = |union_minimum: &str, minimum: Option<u64>| {
        let branches = [small_memory(4 << 20), small_memory(8 << 20)];
        let mut joined = read_write(&branches);
        joined[0].minimum_free = minimum;
        let union = join(&[("create", "leftmost"), ("minimum-free", union_minimum)], joined);
        create(&union.root(), "new", "").unwrap();
        having(&branches, "new")[0]
    };
    assert_eq!(place("0", None), 0);
    assert_eq!(place("0", Some(5 << 20)), 1);
    assert_eq!(place("5m", None), 1);
    assert_eq!(place("5m", Some(1 << 20)), 0);
    assert_eq!(place("9g", Some(9 << 30)), 0, "all have less");
}

/// Total and free bytes that a file system reports.
fn space(file_system: &FileSystemRef) -> (u64, u64) {
    let space = file_system.root().statfs(&server()).unwrap();
    let unit = u64::from(space.fragment_size);
    (space.blocks * unit, space.blocks_free * unit)
}

#[test]
fn reported_space_is_the_total_of_writable_branches() {
    let branches = unequal_branches();
    let modes = [ReadWrite, ReadWrite, ReadOnly];
    let reported = |options: &[(&str, &str)]| {
        space(&join(options, (0..3).map(|index| branch(index, &branches[index], modes[index])).collect()))
    };
    let (first, second) = (space(&branches[0]), space(&branches[1]));
    let sum = (first.0 + second.0, first.1 + second.1);
    assert_eq!(reported(&[]).0, first.0);
    assert_eq!(reported(&[("create", "existing-path")]).0, first.0);
    assert_eq!(reported(&[("statfs", "sum")]).0, sum.0);
    assert_eq!(reported(&[("create", "most-free")]).0, sum.0);
    assert_eq!(reported(&[("create", "most-free"), ("statfs", "first")]).0, first.0);
    assert!(reported(&[("statfs", "sum")]).1.abs_diff(sum.1) < 1 << 16);
}

#[test]
fn branches_on_one_file_system_count_once() {
    let directory = tempfile::tempdir().unwrap();
    let branches: Vec<FileSystemRef> = ["a", "b"]
        .iter()
        .map(|name| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            Arc::new(dir::DirectoryFileSystem::open(&path, dir::Options::default()).unwrap()) as FileSystemRef
        })
        .collect();
    let union = join(&[("statfs", "sum")], read_write(&branches));
    assert_eq!(space(&union).0, space(&branches[0]).0);
}

/// A pattern with the branches that match it, by number.
struct Matches {
    branches: Vec<FileSystemRef>,
    present: Mutex<Vec<usize>>,
    vanished: Mutex<Vec<usize>>,
}

impl BranchSource for Matches {
    fn open(&self, text: &str) -> Result<Branch, String> {
        let label = text.strip_suffix("=rw").unwrap_or(text);
        let index = label.rsplit(' ').next().and_then(|index| index.parse::<usize>().ok());
        let index = index.filter(|index| *index < self.branches.len()).ok_or_else(|| format!("there is no {text}"))?;
        Ok(branch(index, &self.branches[index], ReadWrite))
    }

    fn scan(&self) -> BranchScan {
        let label = |index: &usize| format!("branch {index}");
        let found = |index: &usize| PatternMatch { label: label(index), text: label(index) + "=rw" };
        BranchScan {
            patterns: vec![PatternMatches {
                label: "branch *".to_owned(),
                branches: self.present.lock().unwrap().iter().map(found).collect(),
            }],
            vanished: self.vanished.lock().unwrap().iter().map(label).collect(),
        }
    }
}

#[test]
fn rescan_adds_matches_and_reports_vanished_ones() {
    let branches: Vec<FileSystemRef> = (0..5).map(|_| memory()).collect();
    branches.iter().enumerate().for_each(|(index, branch)| fill(branch, &index.to_string(), ""));
    let (present, vanished) = (Mutex::new(vec![1, 3]), Mutex::default());
    let matches = Arc::new(Matches { branches: branches.clone(), present, vanished });
    let joined = [1, 3].map(|index| branch(index, &branches[index], ReadWrite)).to_vec();
    let opener: BranchOpener = matches.clone();
    let union = plyfs_layers::kind("union").unwrap().join(&[], joined, Some(opener)).unwrap();
    let rescan = || {
        let control = Control { target: "union".to_owned(), command: "rescan".to_owned(), arguments: Vec::new() };
        union.control(&control).unwrap()
    };
    assert_eq!(rescan(), "nothing has changed\n");
    *matches.present.lock().unwrap() = vec![0, 2, 3, 4, 9];
    *matches.vanished.lock().unwrap() = vec![1];
    let report = rescan();
    assert_eq!(
        report.lines().collect::<Vec<_>>(),
        [
            "added branch 0=rw",
            "added branch 2=rw",
            "added branch 4=rw",
            "failed branch 9: there is no branch 9=rw",
            "vanished branch 1 (still a branch; plyfs union remove removes it)",
        ]
    );
    assert_eq!(list(&union.root(), &server()), ["0", "1", "2", "3", "4"]);
    let control = Control { target: "union".to_owned(), command: "branches".to_owned(), arguments: Vec::new() };
    let order = union.control(&control).unwrap();
    let order: Vec<&str> = order.lines().map(|line| line.split('=').next().unwrap()).collect();
    assert_eq!(order, ["branch 1", "branch 0", "branch 2", "branch 3", "branch 4"]);
}

//! Random operations on names and data over unions of several writable branches, made as the kernel makes them: on vnodes by
//! names that it has looked up before. A `mem` does the same, and each answers as the other.
//!
//! Now and then all is closed, the branches are checked, and a new union of them shows what the old one has shown.
//! `PLYFS_TEST_SEED` replays a failure.

mod common;

use std::collections::{BTreeMap, HashMap};

use common::{contents, layer, list, memory, name, root};
use conformance::faults::Below;
use fastrand::Rng;
use plyfs_layers::union::{CheckOptions, Finding, Problem};
use plyfs_layers::{Branch, BranchMode};
use vnode::{
    Creation, Device, Errno, FileKind, FileSystemRef, InodeNumber, OpenFileRef, OpenFlags, RenameMode, Result,
    SetAttributes, VnodeRef, write_fully,
};

use BranchMode::{ReadOnly, ReadWrite};

/// Unions, and operations on each.
const UNION_COUNT: usize = 60;
const STEPS: usize = 400;
/// Open files.
const OPEN_FILE_SLOTS: usize = 3;

/// Options that are chosen from at random.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "create",
        &[
            "first",
            "leftmost",
            "most-free",
            "least-used",
            "random",
            "round-robin",
            "newest",
            "existing-path",
            "existing-path-random",
            "shared-path-weighted-random",
        ],
    ),
    ("delete", &["whiteout", "all"]),
    ("whiteouts", &["names", "overlay"]),
    ("metacopy", &["on", "off"]),
];

/// Names from the root.
type NamePath = Vec<&'static str>;

#[derive(Clone, Debug)]
enum Action {
    Create { path: NamePath, slot: usize },
    Temporary { path: NamePath, slot: usize },
    Open { path: NamePath, slot: usize, truncates: bool },
    Close { slot: usize },
    Write { slot: usize, length: usize, byte: u8 },
    Read { slot: usize },
    Append { path: NamePath, length: usize, byte: u8 },
    Truncate { path: NamePath, size: u64 },
    Mode { path: NamePath, mode: u32 },
    Link { from: NamePath, to: NamePath },
    LinkOpen { slot: usize, to: NamePath },
    Unlink { path: NamePath },
    Rename { from: NamePath, to: NamePath, mode: RenameMode },
    Mkdir { path: NamePath },
    Rmdir { path: NamePath },
    Symlink { path: NamePath },
}

fn pick<T: Clone>(random: &mut Rng, from: &[T]) -> T {
    from[random.usize(..from.len())].clone()
}

fn path(random: &mut Rng) -> NamePath {
    let above = pick(random, &[&["d"][..], &["d"], &["d"], &["e"], &["d", "s"], &[]]);
    let last = pick(random, &["f", "g", "x", "f", "g", "x", "s"]);
    above.iter().copied().chain([last]).collect()
}

impl Action {
    fn is_about_names(&self) -> bool {
        matches!(
            self,
            Self::Link { .. }
                | Self::LinkOpen { .. }
                | Self::Unlink { .. }
                | Self::Rename { .. }
                | Self::Mkdir { .. }
                | Self::Rmdir { .. }
                | Self::Symlink { .. }
        )
    }

    fn random(random: &mut Rng) -> Self {
        let (one, other, slot) = (path(random), path(random), random.usize(..OPEN_FILE_SLOTS));
        let (length, byte) = (pick(random, &[1, 10, 5000]), random.u8(b'a'..=b'z'));
        match random.u32(..30) {
            0..=1 => Self::Create { path: one, slot },
            2 => Self::Temporary { path: one, slot },
            3..=4 => Self::Open { path: one, slot, truncates: random.u8(..4) == 0 },
            5 => Self::Close { slot },
            6..=8 => Self::Write { slot, length, byte },
            9 => Self::Read { slot },
            10..=13 => Self::Append { path: one, length, byte },
            14 => Self::Truncate { path: one, size: random.u64(..4) },
            15 => Self::Mode { path: one, mode: pick(random, &[0o644, 0o600, 0o755]) },
            16..=19 => Self::Link { from: one, to: other },
            20 => Self::LinkOpen { slot, to: one },
            21..=23 => Self::Unlink { path: one },
            24..=26 => {
                let modes = [RenameMode::Replace, RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
                Self::Rename { from: one, to: other, mode: pick(random, &modes) }
            }
            27 => Self::Mkdir { path: one },
            28 => Self::Rmdir { path: one },
            _ => Self::Symlink { path: one },
        }
    }
}

/// What the kernel knows of a name.
struct CachedDentry {
    vnode: VnodeRef,
    below: BTreeMap<&'static str, CachedDentry>,
}

impl CachedDentry {
    fn new(vnode: VnodeRef) -> Self {
        Self { vnode, below: BTreeMap::new() }
    }
}

/// A file system as the kernel uses it.
struct KernelModel {
    top: CachedDentry,
    files: [Option<(VnodeRef, OpenFileRef)>; OPEN_FILE_SLOTS],
}

impl KernelModel {
    fn new(file_system: &FileSystemRef) -> Self {
        Self { top: CachedDentry::new(file_system.root()), files: Default::default() }
    }

    /// What is known at a path, looked up as far as it is not.
    fn find(&mut self, path: &[&'static str]) -> Result<&mut CachedDentry> {
        let mut cached = &mut self.top;
        for part in path {
            if !cached.below.contains_key(part) {
                let found = cached.vnode.lookup(&root(), name(part))?.vnode;
                cached.below.insert(part, CachedDentry::new(found));
            }
            cached = cached.below.get_mut(part).expect("it was put there");
        }
        Ok(cached)
    }

    fn vnode(&mut self, path: &[&'static str]) -> Result<VnodeRef> {
        Ok(self.find(path)?.vnode.clone())
    }

    /// The directory that the last name of a path is in, and that name, after both were looked up.
    fn place(&mut self, path: &[&'static str]) -> Result<(VnodeRef, &'static str, Option<VnodeRef>)> {
        let (last, above) = path.split_last().expect("a path has names");
        let directory = self.vnode(above)?;
        match self.vnode(path) {
            Ok(there) => Ok((directory, last, Some(there))),
            Err(Errno::ENOENT) => Ok((directory, last, None)),
            Err(error) => Err(error),
        }
    }

    fn free_place(&mut self, path: &[&'static str]) -> Result<(VnodeRef, &'static str)> {
        match self.place(path)? {
            (directory, last, None) => Ok((directory, last)),
            _ => Err(Errno::EEXIST),
        }
    }

    fn has(&mut self, path: &[&'static str], vnode: VnodeRef) {
        self.put(path, Some(CachedDentry::new(vnode)));
    }

    fn put(&mut self, path: &[&'static str], cached: Option<CachedDentry>) -> Option<CachedDentry> {
        let (last, above) = path.split_last().expect("a path has names");
        let below = &mut self.find(above).ok()?.below;
        match cached {
            Some(cached) => below.insert(last, cached),
            None => below.remove(last),
        }
    }

    /// Forgets what is known of some names.
    fn forget(&mut self, random: &mut Rng) {
        let path = path(random);
        self.put(&path[..random.usize(1..=path.len())], None);
    }

    fn file(&self, slot: usize) -> Result<&(VnodeRef, OpenFileRef)> {
        self.files[slot].as_ref().ok_or(Errno::EBADF)
    }

    /// How many names count of the open file that is to be linked.
    fn counted(&self, action: &Action) -> Option<u32> {
        let Action::LinkOpen { slot, .. } = action else { return None };
        self.file(*slot).ok()?.1.getattr(&root()).ok().map(|attributes| attributes.nlink)
    }

    /// Does it, and once more with nothing known of names if what was known has become stale.
    fn apply(&mut self, action: &Action) -> Result<String> {
        match self.perform(action) {
            Err(Errno::ESTALE) => {
                self.top.below.clear();
                self.perform(action)
            }
            done => done,
        }
    }

    fn perform(&mut self, action: &Action) -> Result<String> {
        let server = &root();
        match action {
            Action::Create { path, slot } => {
                let (directory, last, there) = self.place(path)?;
                match there {
                    Some(_) => self.open(path, *slot, false)?,
                    None => {
                        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
                        let created = directory.create(server, name(last), &how)?;
                        self.has(path, created.entry.vnode.clone());
                        self.files[*slot] = Some((created.entry.vnode, created.file));
                    }
                }
            }
            Action::Temporary { path, slot } => {
                let directory = self.vnode(&path[..path.len() - 1])?;
                let created = directory.tmpfile(server, &Creation { mode: 0o644, flags: OpenFlags::READ_WRITE })?;
                self.files[*slot] = Some((created.entry.vnode, created.file));
            }
            Action::Open { path, slot, truncates } => self.open(path, *slot, *truncates)?,
            Action::Close { slot } => self.files[*slot] = None,
            Action::Write { slot, length, byte } => append(&self.file(*slot)?.1, *length, *byte)?,
            Action::Read { slot } => {
                let (vnode, file) = self.file(*slot)?;
                let attributes = file.getattr(server)?;
                assert_eq!(attributes.nlink, vnode.getattr(server)?.nlink);
                let mut data = vec![0; attributes.size as usize];
                let length = file.read_at(server, 0, &mut data)?;
                return Ok(format!("{} names: {}", attributes.nlink, digest(&data[..length])));
            }
            Action::Append { path, length, byte } => {
                let file = self.regular(path)?.open(server, OpenFlags::READ_WRITE)?;
                append(&file, *length, *byte)?;
            }
            Action::Truncate { path, size } => {
                let changes = SetAttributes { size: Some(*size), ..SetAttributes::default() };
                self.regular(path)?.setattr(server, &changes)?;
            }
            Action::Mode { path, mode } => {
                let changes = SetAttributes { mode: Some(*mode), ..SetAttributes::default() };
                self.regular(path)?.setattr(server, &changes)?;
            }
            _ => return self.perform_on_names(action),
        }
        Ok("done".to_owned())
    }

    fn perform_on_names(&mut self, action: &Action) -> Result<String> {
        let server = &root();
        match action {
            Action::Link { from, to } => {
                let target = self.vnode(from)?;
                self.link(&target, to)?;
            }
            Action::LinkOpen { slot, to } => {
                let target = self.file(*slot)?.0.clone();
                self.link(&target, to)?;
            }
            Action::Unlink { path } => {
                let (directory, last, there) = self.place(path)?;
                there.ok_or(Errno::ENOENT)?;
                directory.unlink(server, name(last))?;
                self.put(path, None);
            }
            Action::Rmdir { path } => {
                let (directory, last, there) = self.place(path)?;
                there.ok_or(Errno::ENOENT)?;
                directory.rmdir(server, name(last))?;
                self.put(path, None);
            }
            Action::Rename { from, to, mode } => self.rename(from, to, *mode)?,
            Action::Mkdir { path } => {
                let (directory, last) = self.free_place(path)?;
                let made = directory.mkdir(server, name(last), 0o755)?.vnode;
                self.has(path, made);
            }
            Action::Symlink { path } => {
                let (directory, last) = self.free_place(path)?;
                let made = directory.symlink(server, name(last), b"target")?.vnode;
                self.has(path, made);
            }
            other => unreachable!("{other:?} is not about names"),
        }
        Ok("done".to_owned())
    }

    fn open(&mut self, path: &[&'static str], slot: usize, truncates: bool) -> Result<()> {
        let vnode = self.regular(path)?;
        let flags = OpenFlags::READ_WRITE;
        let file = vnode.open(&root(), if truncates { flags.with(OpenFlags::TRUNCATE) } else { flags })?;
        self.files[slot] = Some((vnode, file));
        Ok(())
    }

    fn regular(&mut self, path: &[&'static str]) -> Result<VnodeRef> {
        let vnode = self.vnode(path)?;
        if vnode.kind() == FileKind::Regular { Ok(vnode) } else { Err(Errno::EINVAL) }
    }

    fn link(&mut self, target: &VnodeRef, to: &[&'static str]) -> Result<()> {
        let (directory, last) = self.free_place(to)?;
        if target.kind() == FileKind::Directory {
            return Err(Errno::EPERM);
        }
        let linked = directory.link(&root(), target, name(last))?.vnode;
        self.has(to, linked);
        Ok(())
    }

    fn rename(&mut self, from: &[&'static str], to: &[&'static str], mode: RenameMode) -> Result<()> {
        let (directory, last, source) = self.place(from)?;
        let (to_directory, to_last, target) = self.place(to)?;
        let source = source.ok_or(Errno::ENOENT)?;
        match (&target, mode) {
            (None, RenameMode::Exchange) => return Err(Errno::ENOENT),
            (Some(_), RenameMode::NoReplace) => return Err(Errno::EEXIST),
            _ => {}
        }
        if from.len() < to.len() && to.starts_with(from) {
            return Err(Errno::EINVAL);
        }
        if to.len() < from.len() && from.starts_with(to) {
            return Err(if mode == RenameMode::Exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
        }
        if target.is_some_and(|target| target.handle() == source.handle()) {
            return Ok(());
        }
        directory.rename(&root(), name(last), &to_directory, name(to_last), mode)?;
        let (one, other) = (self.put(from, None), self.put(to, None));
        self.put(to, one);
        if mode == RenameMode::Exchange {
            self.put(from, other);
        }
        Ok(())
    }

    /// What there is at each path that is known, and at all others if `looks` for them.
    fn tree(&mut self, looks: bool) -> BTreeMap<NamePath, String> {
        let mut shown = BTreeMap::new();
        self.show(&mut Vec::new(), looks, &mut shown);
        shown
    }

    fn show(&mut self, path: &mut NamePath, looks: bool, shown: &mut BTreeMap<NamePath, String>) {
        const NAMES: [&str; 6] = ["d", "e", "f", "g", "s", "x"];
        let cached = self.find(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        shown.insert(path.clone(), describe(&cached.vnode));
        if cached.vnode.kind() != FileKind::Directory {
            return;
        }
        let known: Vec<&'static str> = match looks {
            true => {
                let listed = list(&cached.vnode, &root());
                assert!(listed.iter().all(|name| NAMES.contains(&name.as_str())), "{path:?}: {listed:?}");
                NAMES.into_iter().filter(|name| listed.iter().any(|listed| listed == name)).collect()
            }
            false => cached.below.keys().copied().collect(),
        };
        for name in known {
            path.push(name);
            self.show(path, looks, shown);
            path.pop();
        }
    }
}

fn append(file: &OpenFileRef, length: usize, byte: u8) -> Result<()> {
    let size = file.getattr(&root())?.size;
    write_fully(&**file, &root(), size, &vec![byte; length])?;
    file.fsync(&root(), false)
}

fn describe(vnode: &VnodeRef) -> String {
    let attributes = vnode.getattr(&root()).unwrap();
    match vnode.kind() {
        FileKind::Directory => "a directory".to_owned(),
        FileKind::Symlink => format!("a symlink, {} names", attributes.nlink),
        _ => {
            let data = digest(&contents(vnode, &root()));
            format!("{:o}, {} bytes, {} names: {data}", attributes.mode, attributes.size, attributes.nlink)
        }
    }
}

/// Without the number of names.
fn without_count(shown: &str) -> String {
    let parts = shown.split(", ").map(|part| part.split_once(" names").map_or(part, |(_, rest)| rest));
    parts.collect::<Vec<_>>().join(", ")
}

fn without_counts(tree: BTreeMap<NamePath, String>) -> BTreeMap<NamePath, String> {
    tree.into_iter().map(|(path, shown)| (path, without_count(&shown))).collect()
}

/// Runs of one byte as the byte and their length.
fn digest(data: &[u8]) -> String {
    data.chunk_by(|one, other| one == other).map(|run| format!("{}{}", char::from(run[0]), run.len())).collect()
}

/// The branches of a union and how they are joined.
struct UnionPlan {
    branches: Vec<(BranchMode, FileSystemRef)>,
    options: Vec<(String, String)>,
}

/// An empty branch whose calls can be told to fail.
fn faulty() -> FileSystemRef {
    let branch = layer("faulty", &[], memory());
    Below::of(vec![branch.clone()]).off();
    branch
}

impl UnionPlan {
    fn random(random: &mut Rng) -> Self {
        let mut branches: Vec<_> = (0..random.usize(2..=3)).map(|_| (ReadWrite, faulty())).collect();
        branches.extend((0..random.usize(..2)).map(|_| (ReadOnly, faulty())));
        for (_, branch) in &branches {
            let mut kernel = KernelModel::new(branch);
            for _ in 0..random.usize(..12) {
                let (path, other, byte) = (path(random), path(random), random.u8(b'A'..=b'Z'));
                for depth in 1..path.len() {
                    let _ = kernel.apply(&Action::Mkdir { path: path[..depth].to_vec() });
                }
                let _ = kernel.apply(&Action::Create { path: path.clone(), slot: 0 });
                let _ = kernel.apply(&Action::Append { path: path.clone(), length: 5, byte });
                if random.u8(..3) == 0 {
                    let _ = kernel.apply(&Action::Link { from: path, to: other });
                }
            }
        }
        let option = |(key, values): &(&str, &[&str])| {
            let value = values.get(random.usize(..=values.len()))?;
            Some(((*key).to_owned(), (*value).to_owned()))
        };
        Self { options: OPTIONS.iter().filter_map(option).collect(), branches }
    }

    fn named(&self) -> Vec<Branch> {
        let named = |(index, (mode, branch)): (usize, &(BranchMode, FileSystemRef))| Branch {
            file_system: branch.clone(),
            mode: Some(*mode),
            label: format!("branch {index}"),
            minimum_free: None,
        };
        self.branches.iter().enumerate().map(named).collect()
    }

    fn join(&self) -> FileSystemRef {
        plyfs_layers::kind("union").unwrap().join(&self.options, self.named(), None).unwrap()
    }

    /// What is wrong in the branches while no union uses them. A file that has moved keeps its identity, and a
    /// branch its mark.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let options = CheckOptions { idle: true, ..CheckOptions::default() };
        let report = &mut |finding: Finding| match finding.problem {
            Problem::OriginGone | Problem::NoMetacopies => {}
            problem => {
                problems.push(format!("{} {}: {problem}", finding.branch, String::from_utf8_lossy(&finding.path)))
            }
        };
        plyfs_layers::union::check(self.named(), &options, report).unwrap();
        problems
    }
}

/// A file system in memory with all that another has.
fn copy_of(original: &FileSystemRef) -> FileSystemRef {
    fn copy(from: &VnodeRef, to: &VnodeRef, copied: &mut HashMap<InodeNumber, VnodeRef>) {
        for text in list(from, &root()) {
            let entry = from.lookup(&root(), name(&text)).unwrap();
            let made = match (entry.attributes.kind, copied.get(&entry.attributes.ino)) {
                (_, Some(known)) => to.link(&root(), known, name(&text)).unwrap().vnode,
                (FileKind::Directory, None) => {
                    let made = to.mkdir(&root(), name(&text), 0o755).unwrap().vnode;
                    copy(&entry.vnode, &made, copied);
                    made
                }
                (FileKind::Regular, None) => {
                    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
                    let made = to.create(&root(), name(&text), &how).unwrap();
                    write_fully(&*made.file, &root(), 0, &contents(&entry.vnode, &root())).unwrap();
                    made.entry.vnode
                }
                (kind, None) => panic!("{text} is a {kind:?}"),
            };
            copied.insert(entry.attributes.ino, made);
        }
    }
    let made = memory();
    copy(&original.root(), &made.root(), &mut HashMap::new());
    made
}

#[test]
fn hard_links_in_several_writable_branches_behave_as_one_file_system() {
    let mut seeds = common::random();
    for _ in 0..UNION_COUNT {
        compare(seeds.u64(..), false);
    }
}

#[test]
fn failed_operations_on_hard_links_change_nothing() {
    let mut seeds = common::random();
    for _ in 0..UNION_COUNT {
        compare(seeds.u64(..), true);
    }
}

/// Calls below a union that remove names, and make more.
const REMOVAL_CALLS: &str = "link:unlink";
/// Calls below a union that fail, together.
const FAILING_CALLS: &[&str] =
    &[REMOVAL_CALLS, "lookup:getattr", "rename", "create:mkdir:mknod", "setxattr:getxattr:listxattr"];

impl UnionPlan {
    /// Has a call fail in one of the branches. What goes back after one that failed has to work, but for removals.
    fn disturb(&self, random: &mut Rng) {
        let (from, operations) = (random.usize(1..8).to_string(), pick(random, FAILING_CALLS));
        let times = if operations == REMOVAL_CALLS && random.bool() { "100" } else { "1" };
        let rule = [("operations", operations), ("error", "EIO"), ("from", &from), ("times", times)];
        self.below().set(random.usize(..self.branches.len()), &rule);
    }

    fn below(&self) -> Below {
        Below::of(self.branches.iter().map(|(_, branch)| branch.clone()).collect())
    }
}

fn compare(seed: u64, fails: bool) {
    let random = &mut Rng::with_seed(seed);
    let (plan, plain) = loop {
        let plan = UnionPlan::random(random);
        let plain = copy_of(&plan.join());
        // Unless a file has names in its branch that another branch hides: then they count, and are not seen.
        if KernelModel::new(&plan.join()).tree(true) == KernelModel::new(&plain).tree(true) {
            break (plan, plain);
        }
    };
    let title = format!("seed {seed}, {} branches, {:?}", plan.branches.len(), plan.options);
    let (mut model, mut union) = (KernelModel::new(&plain), KernelModel::new(&plan.join()));
    let mut done: Vec<String> = Vec::new();
    for step in 0..STEPS {
        if step % 40 == 39 {
            drop((model, union));
            let shown = |done: &[String]| format!("{title}:\n{}\nstep {step}", done.join("\n"));
            if !fails {
                assert_eq!(plan.problems(), Vec::<String>::new(), "{}", shown(&done));
            }
            (model, union) = (KernelModel::new(&plain), KernelModel::new(&plan.join()));
            let trees =
                [union.tree(true), model.tree(true)].map(|tree| if fails { without_counts(tree) } else { tree });
            assert_eq!(trees[0], trees[1], "{}, after a new mount", shown(&done));
            drop(union);
            (model, union) = (KernelModel::new(&plain), KernelModel::new(&plan.join()));
            done.push("a new mount".to_owned());
        }
        if random.u8(..8) == 0 {
            union.forget(random);
        }
        let action = Action::random(random);
        let is_disturbed = fails && action.is_about_names() && random.bool();
        let counted = union.counted(&action);
        if is_disturbed {
            plan.disturb(random);
        }
        let found = union.apply(&action);
        plan.below().off();
        done.push(format!("{action:?}: {found:?}"));
        let is_about_branches = matches!(action, Action::Link { .. } | Action::LinkOpen { .. } | Action::Rename { .. });
        let is_undone = is_about_branches && found == Err(Errno::EXDEV) || is_disturbed && found == Err(Errno::EIO);
        if !is_undone {
            let is_read = fails && matches!(action, Action::Read { .. });
            let comparable =
                |answer: Result<String>| answer.map(|shown| if is_read { without_count(&shown) } else { shown });
            let expected = model.apply(&action);
            if fails
                && let Action::LinkOpen { to, .. } = &action
                && counted.is_some_and(|names| names > 0)
                && found.is_ok()
                && expected == Err(Errno::ENOENT)
            {
                // A name that could not be removed where another hides it still counts, so that the file can be linked.
                assert_eq!(union.apply(&Action::Unlink { path: to.clone() }), Ok("done".into()), "{title}: {action:?}");
                continue;
            }
            assert_eq!(comparable(found), comparable(expected), "{title}:\n{}\nstep {step}", done.join("\n"));
        }
        for (path, shown) in union.tree(false) {
            let expected = model.vnode(&path).map(|vnode| describe(&vnode));
            // A name that could not be removed where another hides it still counts.
            let comparable = |shown: String| if fails { without_count(&shown) } else { shown };
            assert_eq!(
                Ok(comparable(shown)),
                expected.map(comparable),
                "{title}:\n{}\nstep {step}: {path:?}",
                done.join("\n")
            );
        }
    }
}

/// Two branches that are written, and one on the right that has what the left one hides.
fn three() -> UnionPlan {
    let branches = [ReadWrite, ReadWrite, ReadOnly].map(|mode| (mode, memory()));
    let files = [(0, "x", b'x'), (1, "f", b'1'), (2, "x", b'x')];
    for (index, file, byte) in files {
        let mut kernel = KernelModel::new(&branches[index].1);
        kernel.apply(&Action::Mkdir { path: vec!["d"] }).unwrap();
        kernel.apply(&Action::Create { path: vec!["d", file], slot: 0 }).unwrap();
        kernel.apply(&Action::Append { path: vec!["d", file], length: 3, byte }).unwrap();
    }
    UnionPlan { branches: branches.into(), options: Vec::new() }
}

/// A name that could not be removed in the branch on the right, where it hides nothing that users see, is another name of the
/// file that is renamed to it then.
#[test]
fn rename_replaces_a_hidden_name_of_the_same_file() {
    let branches = [ReadWrite, ReadWrite].map(|mode| (mode, faulty()));
    let [x, f, s] = ["x", "f", "s"].map(|name| vec![name]);
    let mut right = KernelModel::new(&branches[1].1);
    right.apply(&Action::Create { path: x.clone(), slot: 0 }).unwrap();
    right.apply(&Action::Append { path: x.clone(), length: 3, byte: b'x' }).unwrap();
    let plan = UnionPlan { branches: branches.into(), options: Vec::new() };
    let mut kernel = KernelModel::new(&plan.join());
    let replace = |from: &NamePath, to: &NamePath| Action::Rename {
        from: from.clone(),
        to: to.clone(),
        mode: RenameMode::Replace,
    };
    for action in [Action::Link { from: x.clone(), to: f.clone() }, Action::Create { path: s.clone(), slot: 0 }] {
        assert_eq!(kernel.apply(&action).as_deref(), Ok("done"), "{action:?}");
    }
    plan.below().set(1, &[("operations", "unlink"), ("error", "EIO")]);
    assert_eq!(kernel.apply(&replace(&s, &f)).as_deref(), Ok("done"));
    plan.below().off();
    assert_eq!(kernel.apply(&replace(&x, &f)).as_deref(), Ok("done"));
    drop(kernel);
    let shown = KernelModel::new(&plan.join()).tree(true);
    assert!(!shown.contains_key(&x) && !shown.contains_key(&s), "{shown:?}");
    assert!(shown[&f].contains("3 bytes, 1 names: x3"), "{shown:?}");
}

#[test]
fn file_moves_to_another_branch_with_its_remaining_names() {
    let [x, f, g] = ["x", "f", "g"].map(|name| vec!["d", name]);
    let moves = [
        Action::Link { from: f.clone(), to: x.clone() },
        Action::Rename { from: f.clone(), to: x.clone(), mode: RenameMode::Replace },
    ];
    for step in moves {
        let plan = three();
        let mut kernel = KernelModel::new(&plan.join());
        kernel.vnode(&f).unwrap();
        let linked = Action::Link { from: f.clone(), to: g.clone() };
        for action in [&Action::Unlink { path: x.clone() }, &linked, &Action::Unlink { path: g.clone() }, &step] {
            assert_eq!(kernel.apply(action).as_deref(), Ok("done"), "{action:?}");
        }
        kernel.apply(&Action::Append { path: x.clone(), length: 3, byte: b'2' }).unwrap();
        let names = if matches!(step, Action::Link { .. }) { 2 } else { 1 };
        let expected = format!("644, 6 bytes, {names} names: 1323");
        assert_eq!(describe(&kernel.vnode(&x).unwrap()), expected, "{step:?}");
        drop(kernel);
        assert_eq!(plan.problems(), Vec::<String>::new(), "{step:?}");
        assert_eq!(describe(&KernelModel::new(&plan.join()).vnode(&x).unwrap()), expected, "{step:?}");
    }
}

#[test]
fn copy_is_not_moved_without_its_other_names() {
    // The file has two names on the right, and a copy in the middle by one that goes then.
    let branches = [ReadWrite, ReadWrite, ReadOnly].map(|mode| (mode, memory()));
    let mut right = KernelModel::new(&branches[2].1);
    let [x, f, g] = ["x", "f", "g"].map(|name| vec![name]);
    for file in [&x, &f] {
        right.apply(&Action::Create { path: file.clone(), slot: 0 }).unwrap();
        right.apply(&Action::Append { path: file.clone(), length: 3, byte: b'1' }).unwrap();
    }
    right.apply(&Action::Link { from: f.clone(), to: g.clone() }).unwrap();
    KernelModel::new(&branches[0].1).apply(&Action::Create { path: x.clone(), slot: 0 }).unwrap();
    let plan = UnionPlan { branches: branches.into(), options: Vec::new() };
    let mut kernel = KernelModel::new(&plan.join());
    kernel.vnode(&f).unwrap();
    kernel.apply(&Action::Append { path: g.clone(), length: 3, byte: b'2' }).unwrap();
    kernel.apply(&Action::Unlink { path: x.clone() }).unwrap();
    kernel.apply(&Action::Unlink { path: g }).unwrap();
    let linked = kernel.apply(&Action::Link { from: f.clone(), to: x.clone() });
    kernel.apply(&Action::Append { path: f.clone(), length: 3, byte: b'3' }).unwrap();
    let shown = describe(&kernel.vnode(&f).unwrap());
    assert_eq!(shown, format!("644, 9 bytes, {} names: 132333", if linked.is_ok() { 2 } else { 1 }));
    drop(kernel);
    assert_eq!(plan.problems(), Vec::<String>::new());
    assert_eq!(describe(&KernelModel::new(&plan.join()).vnode(&f).unwrap()), shown);
}

#[test]
fn file_with_unknown_names_is_not_moved() {
    // Its name that is left is in a directory that was moved: its path in the branch is not that in the union.
    let plan = three();
    for (_, branch) in &plan.branches[..2] {
        KernelModel::new(branch).apply(&Action::Mkdir { path: vec!["d", "s"] }).unwrap();
    }
    let [f, x, inside, moved] = [vec!["d", "f"], vec!["d", "x"], vec!["d", "s", "f"], vec!["g", "f"]];
    KernelModel::new(&plan.branches[1].1).apply(&Action::Link { from: f.clone(), to: inside }).unwrap();
    let mut kernel = KernelModel::new(&plan.join());
    let rename = Action::Rename { from: vec!["d", "s"], to: vec!["g"], mode: RenameMode::Replace };
    for action in [rename, Action::Unlink { path: x.clone() }] {
        assert_eq!(kernel.apply(&action).as_deref(), Ok("done"), "{action:?}");
    }
    drop(kernel);
    let mut kernel = KernelModel::new(&plan.join());
    for action in [Action::Open { path: f.clone(), slot: 0, truncates: false }, Action::Unlink { path: f }] {
        assert_eq!(kernel.apply(&action).as_deref(), Ok("done"), "{action:?}");
    }
    let link = Action::LinkOpen { slot: 0, to: x };
    assert_eq!(kernel.apply(&link), Err(Errno::EXDEV));
    assert_eq!(kernel.apply(&Action::Write { slot: 0, length: 3, byte: b'2' }).as_deref(), Ok("done"));
    assert_eq!(describe(&kernel.vnode(&moved).unwrap()), "644, 6 bytes, 1 names: 1323");
    assert_eq!(kernel.apply(&link).as_deref(), Ok("done"));
    assert_eq!(describe(&kernel.vnode(&moved).unwrap()), "644, 6 bytes, 2 names: 1323");
    drop(kernel);
    assert_eq!(plan.problems(), Vec::<String>::new());
}

#[test]
fn unnamed_file_cannot_be_linked_at_a_hidden_name() {
    let mut plan = three();
    plan.options.push(("create".to_owned(), "round-robin".to_owned()));
    let mut kernel = KernelModel::new(&plan.join());
    kernel.apply(&Action::Unlink { path: vec!["d", "x"] }).unwrap();
    let answers: Vec<_> = (0..2)
        .map(|slot| {
            kernel.apply(&Action::Temporary { path: vec!["d", "x"], slot }).unwrap();
            let linked = kernel.apply(&Action::LinkOpen { slot, to: vec!["d", "x"] });
            let _ = kernel.apply(&Action::Unlink { path: vec!["d", "x"] });
            linked.map(drop)
        })
        .collect();
    assert_eq!(answers, [Ok(()), Err(Errno::EXDEV)]);
}

#[test]
fn whiteout_left_beside_a_file_does_not_hide_its_replacement() {
    let plan = three();
    let left = plan.branches[0].1.root().lookup(&root(), name("d")).unwrap().vnode;
    left.mknod(&root(), name(".wh.x"), FileKind::Regular, 0o444, Device::default()).unwrap();
    let mut kernel = KernelModel::new(&plan.join());
    let (from, to) = (vec!["d", "f"], vec!["d", "x"]);
    kernel.apply(&Action::Rename { from, to: to.clone(), mode: RenameMode::Replace }).unwrap();
    drop(kernel);
    assert_eq!(describe(&KernelModel::new(&plan.join()).vnode(&to).unwrap()), "644, 3 bytes, 1 names: 13");
}

//! The compared directories: a mount of each stack, and a directory on the native file system.

use std::path::{Path, PathBuf};

use layers::BranchMode;
use libtest_mimic::Failed;
use suite::{Base, Recipe, ServedStack, TestDirectory};

use super::state::has_fine_timestamps;

/// A stack of the test.
pub(crate) struct HostileStack {
    pub title: &'static str,
    /// Substrings of the names of objects and calls that it does not support.
    lacks: &'static [&'static str],
    recipe: fn(&TestDirectory) -> Result<Recipe, Failed>,
    /// Directory below the mount in which objects are created; `None`: in the mount itself.
    below: Option<&'static str>,
}

const fn stack(title: &'static str, recipe: fn(&TestDirectory) -> Result<Recipe, Failed>) -> HostileStack {
    HostileStack { title, lacks: &[], recipe, below: None }
}

fn directory(test_directory: &TestDirectory) -> Result<Recipe, Failed> {
    Ok(Recipe::plain(Base::Directory(test_directory.path().to_owned())))
}

fn union(test_directory: &TestDirectory) -> Result<Recipe, Failed> {
    let branches = suite::make_branches(test_directory, &[BranchMode::ReadWrite, BranchMode::ReadOnly])?;
    Ok(Recipe::plain(Base::Branches(branches)).with_layer("union", &[]))
}

fn mapped(test_directory: &TestDirectory) -> Result<Recipe, Failed> {
    Ok(directory(test_directory)?.with_layer("map", &[("user-map", "70000/70001"), ("group-map", "70000/70001")]))
}

fn audited(test_directory: &TestDirectory) -> Result<Recipe, Failed> {
    let log = test_directory.sibling("logs")?.join("audit");
    Ok(directory(test_directory)?.with_layer("audit", &[("to", &log.display().to_string()), ("result", "denied")]))
}

fn in_memory(_: &TestDirectory) -> Result<Recipe, Failed> {
    Ok(Recipe::plain(Base::Memory("size=256m".to_owned())))
}

pub(crate) const STACKS: &[HostileStack] = &[
    stack("dir", directory),
    HostileStack { lacks: &["a list"], ..stack("dir|map", mapped) },
    stack("union", union),
    HostileStack { below: Some("branch1"), ..stack("union of what is below", union) },
    stack("dir|audit", audited),
    HostileStack { lacks: &["immutable", "only grows"], ..stack("mem", in_memory) },
    stack("dir|sizes.fist", |test_directory| Ok(directory(test_directory)?.with_layer("sizes.fist", &[]))),
    stack("dir|rules.fist", |test_directory| Ok(directory(test_directory)?.with_layer("rules.fist", &[]))),
];

impl HostileStack {
    /// Returns whether it does not support the object or call with this name.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        self.lacks.iter().any(|word| name.contains(word))
    }
}

/// A directory in which calls are tested.
pub(crate) struct ComparedDirectory {
    pub path: PathBuf,
    /// Directory in which the objects are created that are visible here.
    pub origin: PathBuf,
    /// Modified objects are first copied up to another branch.
    pub copies_up: bool,
    /// No two changes get the same timestamp.
    pub has_fine_timestamps: bool,
}

/// A mount and a directory on the same kind of file system.
pub(crate) struct ComparedDirectories {
    pub stack: &'static HostileStack,
    pub native: ComparedDirectory,
    pub mounted: ComparedDirectory,
    _served: ServedStack,
    _directories: [TestDirectory; 2],
}

impl ComparedDirectories {
    pub(crate) fn start(stack: &'static HostileStack) -> Result<Self, Failed> {
        let directories = [TestDirectory::image(256)?, TestDirectory::image(256)?];
        let recipe = (stack.recipe)(&directories[1])?;
        let mount_point = directories[1].sibling("mount")?;
        let served = ServedStack::start(&recipe, &mount_point, frontends::fuse::Features::NONE, None)?;
        let copies_up = stack.below.is_some();
        let has_fine_timestamps = has_fine_timestamps(directories[0].path())?;
        let side = |path: &Path, origin: &Path| ComparedDirectory {
            path: path.to_owned(),
            origin: origin.to_owned(),
            copies_up,
            has_fine_timestamps,
        };
        let origin = stack.below.map_or(mount_point.clone(), |below| directories[1].path().join(below));
        let (native, mounted) = (side(directories[0].path(), directories[0].path()), side(&mount_point, &origin));
        Ok(Self { stack, native, mounted, _served: served, _directories: directories })
    }
}

//! Where it is tried: in mounts of stacks over a directory, and in a directory beside them.

use std::path::{Path, PathBuf};

use layers::BranchMode;
use libtest_mimic::Failed;
use suite::{Base, Place, Recipe, Served};

use super::state::are_times_fine;

/// A stack of the test.
pub(crate) struct Stack {
    pub title: &'static str,
    /// It has no objects whose names have this in them.
    lacks: &'static [&'static str],
    recipe: fn(&Place) -> Result<Recipe, Failed>,
    /// Objects are made below its mount, in this directory of its place, and not in the mount.
    below: Option<&'static str>,
}

const fn stack(title: &'static str, recipe: fn(&Place) -> Result<Recipe, Failed>) -> Stack {
    Stack { title, lacks: &[], recipe, below: None }
}

fn directory(place: &Place) -> Result<Recipe, Failed> {
    Ok(Recipe::plain(Base::Directory(place.path().to_owned())))
}

fn union(place: &Place) -> Result<Recipe, Failed> {
    let branches = suite::make_branches(place, &[BranchMode::ReadWrite, BranchMode::ReadOnly])?;
    Ok(Recipe::plain(Base::Branches(branches)).with_layer("union", &[]))
}

fn mapped(place: &Place) -> Result<Recipe, Failed> {
    Ok(directory(place)?.with_layer("map", &[("user-map", "70000/70001"), ("group-map", "70000/70001")]))
}

fn audited(place: &Place) -> Result<Recipe, Failed> {
    let log = place.beside("logs")?.join("audit");
    Ok(directory(place)?.with_layer("audit", &[("to", &log.display().to_string()), ("result", "denied")]))
}

fn in_memory(_: &Place) -> Result<Recipe, Failed> {
    Ok(Recipe::plain(Base::Memory("size=256m".to_owned())))
}

pub(crate) const STACKS: &[Stack] = &[
    stack("dir", directory),
    Stack { lacks: &["a list"], ..stack("dir|map", mapped) },
    stack("union", union),
    Stack { below: Some("branch1"), ..stack("union of what is below", union) },
    stack("dir|audit", audited),
    Stack { lacks: &["immutable", "only grows"], ..stack("mem", in_memory) },
    stack("dir|sizes.fist", |place| Ok(directory(place)?.with_layer("sizes.fist", &[]))),
    stack("dir|rules.fist", |place| Ok(directory(place)?.with_layer("rules.fist", &[]))),
];

impl Stack {
    /// Whether it has no objects or calls of this name.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        self.lacks.iter().any(|lacked| name.contains(lacked))
    }
}

/// A directory in which calls are tried.
pub(crate) struct Side {
    pub path: PathBuf,
    /// Where the objects are made that are seen there.
    pub origin: PathBuf,
    /// What is changed is copied to another branch first.
    pub copies_up: bool,
    /// No two changes are noted with the same time.
    pub has_fine_times: bool,
}

/// A mount and a directory on the same kind of file system.
pub(crate) struct Sides {
    pub stack: &'static Stack,
    pub beside: Side,
    pub mounted: Side,
    _served: Served,
    _places: [Place; 2],
}

impl Sides {
    pub(crate) fn start(stack: &'static Stack) -> Result<Self, Failed> {
        let places = [Place::image(256)?, Place::image(256)?];
        let recipe = (stack.recipe)(&places[1])?;
        let mount_point = places[1].beside("mount")?;
        let served = Served::start(&recipe, &mount_point, frontends::fuse::Features::NONE, None)?;
        let copies_up = stack.below.is_some();
        let has_fine_times = are_times_fine(places[0].path())?;
        let side = |path: &Path, origin: &Path| Side {
            path: path.to_owned(),
            origin: origin.to_owned(),
            copies_up,
            has_fine_times,
        };
        let origin = stack.below.map_or(mount_point.clone(), |below| places[1].path().join(below));
        let (beside, mounted) = (side(places[0].path(), places[0].path()), side(&mount_point, &origin));
        Ok(Self { stack, beside, mounted, _served: served, _places: places })
    }
}

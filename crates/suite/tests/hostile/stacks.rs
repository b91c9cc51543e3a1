//! Where it is tried: in mounts of stacks over a directory, and in a directory beside them.

use std::fs;
use std::path::{Path, PathBuf};

use super::objects;
use layers::BranchMode;
use libtest_mimic::Failed;
use rustix::fs::IFlags;
use suite::{Base, Place, Recipe, Served};

/// A stack of the test.
pub struct Stack {
    pub title: &'static str,
    /// It has no objects whose names have this in them.
    pub lacks: &'static [&'static str],
    recipe: fn(&Place) -> Result<Recipe, Failed>,
}

fn directory(place: &Place) -> Result<Recipe, Failed> {
    Ok(Recipe::plain(Base::Directory(place.path().to_owned())))
}

fn union(place: &Place) -> Result<Recipe, Failed> {
    let branches = suite::make_branches(place, &[BranchMode::ReadWrite, BranchMode::ReadOnly])?;
    Ok(Recipe::plain(Base::Branches(branches)).with_layer("union", &[]))
}

pub const STACKS: &[Stack] = &[
    Stack { title: "dir", lacks: &[], recipe: directory },
    Stack {
        title: "dir|map",
        lacks: &["list"],
        recipe: |place| {
            Ok(directory(place)?.with_layer("map", &[("user-map", "70000/70001"), ("group-map", "70000/70001")]))
        },
    },
    Stack { title: "union", lacks: &[], recipe: union },
    Stack {
        title: "dir|audit",
        lacks: &[],
        recipe: |place| {
            let log = place.beside("logs")?.join("audit");
            Ok(directory(place)?.with_layer("audit", &[("to", &log.display().to_string()), ("result", "denied")]))
        },
    },
    Stack {
        title: "mem",
        lacks: &["immutable", "only grows"],
        recipe: |_| Ok(Recipe::plain(Base::Memory("size=256m".to_owned()))),
    },
    Stack { title: "dir|sizes.fist", lacks: &[], recipe: |place| Ok(directory(place)?.with_layer("sizes.fist", &[])) },
    Stack { title: "dir|rules.fist", lacks: &[], recipe: |place| Ok(directory(place)?.with_layer("rules.fist", &[])) },
];

/// A directory in which calls are tried.
pub struct Side {
    path: PathBuf,
}

impl Side {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of a trial's directory.
    pub fn name(&self, trial: usize) -> String {
        format!("trial{trial}")
    }

    /// A new directory for a trial.
    pub fn new_directory(&self, trial: usize) -> Result<PathBuf, Failed> {
        let path = self.path.join(self.name(trial));
        fs::create_dir(&path)?;
        Ok(path)
    }

    pub fn remove(&self, directory: &Path) -> Result<(), Failed> {
        if fs::remove_dir_all(directory).is_ok() {
            return Ok(());
        }
        // What is immutable stays as long as it is.
        for name in [objects::OBJECT, "renamed"] {
            let _ = objects::set_flags(&directory.join(name), IFlags::empty());
        }
        Ok(fs::remove_dir_all(directory)?)
    }
}

/// A mount and a directory on the same kind of file system.
pub struct Sides {
    pub stack: &'static Stack,
    pub beside: Side,
    pub mounted: Side,
    _served: Served,
    _places: [Place; 2],
}

impl Sides {
    pub fn start(stack: &'static Stack) -> Result<Self, Failed> {
        let places = [Place::image(256)?, Place::image(256)?];
        let recipe = (stack.recipe)(&places[1])?;
        let mount_point = places[1].beside("mount")?;
        let served = Served::start(&recipe, &mount_point, frontends::fuse::Features::NONE, None)?;
        let beside = Side { path: places[0].path().to_owned() };
        Ok(Self { stack, beside, mounted: Side { path: mount_point }, _served: served, _places: places })
    }
}

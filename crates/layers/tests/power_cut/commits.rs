//! A layer that has its disk write what it has after one change or another, as a journal's timer or another program's
//! fsync(2) would: what is on two disks was then written at different times.

use std::path::PathBuf;
use std::sync::Mutex;

use fastrand::Rng;
use plyfs_layers::Branch;
use vnode::layer::{Layer, LayerVnode, Operation, stack};
use vnode::{Caller, Promises, Result};

use super::disks::sync;

struct DiskCommits {
    /// On the disk.
    path: PathBuf,
    random: Mutex<Rng>,
    /// Probability that a change is written with all before it.
    chance: f64,
}

impl Layer for DiskCommits {
    type State = ();

    fn kind(&self) -> &'static str {
        "commits"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn observe(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>, _: Result<()>) {
        if operation.modifies() && self.random.lock().unwrap().f64() < self.chance {
            sync(&self.path);
        }
    }
}

/// Has each branch, which is a directory at this path, written after changes that the random numbers choose.
pub(crate) fn with_random_syncs(
    branches: Vec<Branch>,
    path: impl Fn(usize) -> PathBuf,
    random: &mut Rng,
) -> Vec<Branch> {
    let with_random_syncs = |(index, branch): (usize, Branch)| {
        let chance = *random.choice(&[0.0, 0.3, 1.0]).expect("there are chances");
        let layer = DiskCommits { path: path(index), random: Mutex::new(random.fork()), chance };
        Branch { file_system: stack(layer, branch.file_system), ..branch }
    };
    branches.into_iter().enumerate().map(with_random_syncs).collect()
}

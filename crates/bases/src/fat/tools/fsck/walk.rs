//! The whole tree, each directory before those in it, in memory that grows with its depth only.

use super::checker::Checker;
use super::context::{DirectoryContext, PendingDirectory};
use super::owner::Owner;
use crate::fat::format::Link;
use crate::fat::tools::directory::{DirectoryRange, DirectoryStart};
use crate::fat::tools::error::ToolError;
use crate::fat::tools::progress::{Meter, Phase};

/// Number of bytes from which on a path is shown without the names of the directories below.
const PATH_MAX: usize = 4096;

/// The directories of one directory that are still to be checked, last first.
struct Level {
    pending: Vec<PendingDirectory>,
    /// That directory; `None` for the uppermost one.
    range: Option<DirectoryRange>,
    /// First cluster of that directory, as an entry `..` says it.
    start: u32,
    /// Length of its path.
    path_length: usize,
}

impl Checker<'_> {
    /// Checks all directories from the root on.
    pub(crate) fn check_tree(&mut self) -> Result<(), ToolError> {
        let start = DirectoryStart::root(&self.volume.geometry);
        let (clusters, may_grow) = match start {
            DirectoryStart::FixedRoot => (u32::MAX, false),
            DirectoryStart::Cluster(start) => self.check_chain(&Owner {
                path: "/".into(),
                position: None,
                slots: Vec::new(),
                is_directory: true,
                may_own_cluster: false,
                size: 0,
                start,
                parent: 0,
            })?,
        };
        let range = DirectoryRange { start, clusters, may_grow };
        let mut context = DirectoryContext { range, parent: 0, path: "/".into(), owner: None };
        self.read_store()?;
        let pending = self.check_directory(&mut context)?;
        self.root_range = context.range;
        self.check_below(pending, 0, "/".into())
    }

    /// Checks directories and everything below, whose parent has this first cluster, as `..` says it, and this path.
    pub(crate) fn check_below(
        &mut self,
        pending: Vec<PendingDirectory>,
        start: u32,
        mut path: String,
    ) -> Result<(), ToolError> {
        let total = u64::from(self.volume.geometry.clusters());
        let mut meter = Meter::start(Phase::Tree, total, &mut *self.progress);
        let mut levels = vec![Level { pending: reversed(pending), range: None, start, path_length: path.len() }];
        while let Some(level) = levels.last_mut() {
            path.truncate(level.path_length);
            let parent = level.start;
            let Some(directory) = level.pending.pop() else {
                if let Some(range) = levels.pop().and_then(|level| level.range) {
                    self.set_above(&range, false)?;
                }
                continue;
            };
            meter.add(u64::from(directory.range.clusters), &mut *self.progress);
            descend(&mut path, &directory.name);
            let path_length = path.len();
            let mut context = DirectoryContext {
                range: directory.range,
                parent,
                path: std::mem::take(&mut path),
                owner: Some(directory.owner),
            };
            self.set_above(&context.range, true)?;
            let below = self.check_directory(&mut context)?;
            path = context.path;
            let start = context.range.start.cluster();
            levels.push(Level { pending: reversed(below), range: Some(context.range), start, path_length });
        }
        Ok(())
    }

    /// Notes whether what is checked is in a directory, or below.
    pub(crate) fn set_above(&mut self, directory: &DirectoryRange, is_above: bool) -> Result<(), ToolError> {
        let mut next = self.volume.follow(Link::Next(directory.start.cluster()))?;
        for _ in 0..directory.clusters {
            let Ok(cluster) = next else { break };
            if is_above {
                self.above.insert(cluster);
            } else {
                self.above.remove(cluster);
            }
            let link = self.volume.table.get(cluster)?;
            next = self.volume.follow(link)?;
        }
        Ok(())
    }
}

/// Appends the name of a directory to a path, which stays short however deep the directories are.
fn descend(path: &mut String, name: &str) {
    const OMITTED: &str = "…/";
    if path.len() < PATH_MAX {
        path.push_str(name);
        path.push('/');
    } else if !path.ends_with(OMITTED) {
        path.push_str(OMITTED);
    }
}

fn reversed(mut pending: Vec<PendingDirectory>) -> Vec<PendingDirectory> {
    pending.reverse();
    pending
}

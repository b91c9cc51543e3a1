//! Checks objects that are to be replaced or removed, with everything below them, for others' changes and new objects.

use std::collections::HashSet;

use vnode::{Entry, Handle};

use super::commit::Commit;
use super::conflicts::ConflictSearch;
use super::outcome::{AtPath, CommitStep, ForeignChange, is_directory};
use crate::union::branch::objects;
use crate::union::tree_path::TreePath;

/// A directory that is to be removed.
struct RemovedDirectory {
    path: TreePath,
    /// Index of its parent among these.
    above: Option<usize>,
    is_changed: bool,
    /// Whether a conflict inside it explains its change.
    is_explained: bool,
}

impl Commit<'_> {
    /// Finds conflicts with the object there and everything below, except for directories that move elsewhere.
    pub(crate) fn check_removed(
        &self,
        there: Entry,
        path: TreePath,
        lower_parts: &HashSet<Handle>,
        found: &mut ConflictSearch,
    ) -> CommitStep {
        let mut directories: Vec<RemovedDirectory> = Vec::new();
        let mut open = vec![(path, there, None)];
        while let Some((path, there, above)) = open.pop() {
            let handle = there.vnode.handle();
            if lower_parts.contains(&handle) {
                continue;
            }
            let is_changed = self.is_changed(&there);
            if !is_directory(&there) {
                if there.attributes.nlink > 1 {
                    found.linked.push(handle);
                }
                if is_changed {
                    found.add(&path, ForeignChange::Changed);
                    mark_explained(&mut directories, above);
                }
                continue;
            }
            let here = Some(directories.len());
            directories.push(RemovedDirectory { path: path.clone(), above, is_changed, is_explained: false });
            let entries = objects::entries(&there.vnode).at(&path)?;
            for (name, _) in entries.into_iter().filter(|(name, _)| !self.journal.is_temporary(name)) {
                let path = path.join(name.as_name());
                open.extend(objects::find(&there.vnode, name.as_name()).at(&path)?.map(|entry| (path, entry, here)));
            }
        }
        // Children before parents.
        while let Some(RemovedDirectory { path, above, is_changed, is_explained }) = directories.pop() {
            if is_changed && !is_explained {
                found.add(&path, ForeignChange::Changed);
            }
            if is_changed || is_explained {
                mark_explained(&mut directories, above);
            }
        }
        Ok(())
    }

    /// Stops at objects that others have changed since they were checked.
    pub(crate) fn refuse_changed(&self, there: &Entry, path: &TreePath) -> CommitStep {
        if self.options.force {
            return Ok(());
        }
        let mut found = ConflictSearch::default();
        self.check_removed(there.clone(), path.clone(), &HashSet::new(), &mut found)?;
        found.refuse()
    }
}

fn mark_explained(directories: &mut [RemovedDirectory], index: Option<usize>) {
    if let Some(directory) = index.and_then(|index| directories.get_mut(index)) {
        directory.is_explained = true;
    }
}

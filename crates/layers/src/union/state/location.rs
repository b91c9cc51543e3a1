//! Locations of objects: the names at which they were last seen.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use vnode::{FileKind, Name};

use super::{LocationHistory, Node, NodeLocation, ParentEntry};

/// Maximum number of other known names of an object.
const MAX_OTHER_NAMES: usize = 16;

impl ParentEntry {
    fn is(&self, directory: &Node, stored: Name<'_>) -> bool {
        std::ptr::eq(&raw const *self.directory, directory) && self.stored.as_name() == stored
    }
}

impl Node {
    /// The location at which it was last seen.
    pub(crate) fn location(&self) -> NodeLocation {
        self.lock_location().current.clone()
    }

    /// The names by which it was seen, the last one first.
    pub(crate) fn seen_names(&self) -> Vec<ParentEntry> {
        let locations = self.lock_location();
        let last = match &locations.current {
            NodeLocation::At(above) => Some(above),
            _ => None,
        };
        last.into_iter().chain(&locations.others).cloned().collect()
    }

    /// Records that it was seen there.
    pub(crate) fn record_location(&self, directory: &Arc<Node>, stored: Name<'_>) {
        if self.was_last_at(directory, stored) {
            return;
        }
        let above = ParentEntry { directory: Arc::clone(directory), stored: stored.to_owned() };
        let mut locations = self.lock_location();
        let same = locations.others.extract_if(.., |other| other.is(directory, stored)).next();
        let before = std::mem::replace(&mut locations.current, NodeLocation::At(above));
        let dropped = match before {
            NodeLocation::At(before) if self.kind != FileKind::Directory => {
                locations.others.push(before);
                (locations.others.len() > MAX_OTHER_NAMES).then(|| NodeLocation::At(locations.others.remove(0)))
            }
            before => Some(before),
        };
        drop(locations);
        // A name that users see is not hidden.
        self.is_hidden.store(false, Ordering::Relaxed);
        drop((same, dropped));
    }

    /// Records a move from one name to another.
    pub(crate) fn record_move(&self, (directory, stored): (&Node, Name<'_>), to: (&Arc<Node>, Name<'_>)) {
        self.record_location(to.0, to.1);
        self.forget_name(directory, stored);
    }

    /// Returns whether it was last seen there.
    pub(crate) fn was_last_at(&self, directory: &Node, stored: Name<'_>) -> bool {
        matches!(&self.lock_location().current, NodeLocation::At(above) if above.is(directory, stored))
    }

    /// Records that it was not found there after a change of the branches. Unknown names are not assumed to exist.
    pub(crate) fn record_name_missing(&self, directory: &Node, stored: Name<'_>) {
        if self.forget_name(directory, stored) && !matches!(self.location(), NodeLocation::At(_)) {
            self.set_location(NodeLocation::Nowhere);
        }
    }

    /// Sets the location to nowhere or unknown.
    pub(crate) fn set_location(&self, location: NodeLocation) {
        let before =
            std::mem::replace(&mut *self.lock_location(), LocationHistory { current: location, others: Vec::new() });
        // Dropping a directory may take locks; this one is free by then.
        drop(before);
    }

    /// Forgets a name; returns whether it was the one by which the object was last seen.
    pub(crate) fn forget_name(&self, directory: &Node, stored: Name<'_>) -> bool {
        let mut locations = self.lock_location();
        let lost = locations.others.extract_if(.., |other| other.is(directory, stored)).next();
        let is_last_seen = matches!(&locations.current, NodeLocation::At(above) if above.is(directory, stored));
        let before = is_last_seen.then(|| {
            let other = locations.others.pop().map_or(NodeLocation::Unknown, NodeLocation::At);
            std::mem::replace(&mut locations.current, other)
        });
        drop(locations);
        drop((lost, before));
        is_last_seen
    }

    fn lock_location(&self) -> MutexGuard<'_, LocationHistory> {
        self.location.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the location; returns its directory, if it has one.
    pub(crate) fn take_above(&mut self) -> Option<Arc<Node>> {
        let location = self.location.get_mut().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut location.current, NodeLocation::Nowhere) {
            NodeLocation::At(above) => Some(above.directory),
            _ => None,
        }
    }
}

//! Changes of attributes that apply to all objects of a name: those that the visible one hides change too, if they may be changed.

use std::sync::Arc;

use vnode::{Caller, FileKind, Result, SetAttributes, VnodeRef};

use super::remove::{ReachedObject, reachable_objects};
use crate::union::policies::ActionPolicy;
use crate::union::state::instance::instances_from;
use crate::union::state::{Node, NodeLocation};

impl Node {
    /// Applies a change that was made to the visible object to what it hides, as the caller. What cannot be changed there, or not
    /// by this caller, remains as it is.
    pub(crate) fn change_hidden_copies(self: &Arc<Self>, mut change: impl FnMut(&VnodeRef) -> Result<()>) {
        if self.union.settings.action == ActionPolicy::All {
            for copy in self.hidden_copies() {
                // The visible object has changed, whatever happens to the others.
                let _ = change(&copy);
            }
        }
    }

    /// Applies changes of attributes, without one of the size, to what the object hides.
    pub(crate) fn set_attributes_of_hidden_copies(self: &Arc<Self>, caller: &Caller, changes: &SetAttributes) {
        let changes = SetAttributes { size: None, kill_privileges: false, ..*changes };
        if changes == SetAttributes::default() {
            return;
        }
        self.change_hidden_copies(|copy| copy.setattr(caller, &changes).map(drop));
    }

    /// The objects of the same kind and name in lower branches that may be changed. Of a directory, its lower instances.
    fn hidden_copies(self: &Arc<Self>) -> Vec<VnodeRef> {
        let branches = &self.union.branches;
        if self.kind == FileKind::Directory {
            let instances = self.instances();
            let others = instances.iter().skip(1).filter(|instance| branches.may_change(&instance.member));
            return others.map(|instance| instance.vnode.clone()).collect();
        }
        if self.find_location().is_err() {
            return Vec::new();
        }
        let NodeLocation::At(above) = self.location() else { return Vec::new() };
        let _names = above.directory.read_guard();
        let instances = above.directory.instances();
        let Some([_, lower @ ..]) = instances_from(&instances, &self.leftmost().member) else { return Vec::new() };
        let (reached, _) = reachable_objects(lower, above.stored.as_name());
        let files = reached.into_iter().filter(|(instance, object)| {
            matches!(object, ReachedObject::Other) && branches.may_change(&instance.member)
        });
        let object = |directory: &VnodeRef| directory.lookup(&Caller::server(), above.stored.as_name()).ok();
        let entries = files.filter_map(|(instance, _)| object(&instance.vnode));
        entries.filter(|entry| entry.attributes.kind == self.kind).map(|entry| entry.vnode).collect()
    }
}

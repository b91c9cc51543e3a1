//! The union as a file system: created from branches, with properties that follow from theirs.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use vnode::{
    AccessControl, Caller, Claim, ClaimFlag, Control, ControlError, Description, FileSystem, Handle, KeptAccessTimes,
    Needs, Notifier, Promises, Properties, Result, TimesTell, VnodeRef, profile,
};

use super::branch::branches::{BranchSlot, Branches, UnusableBranch, UnusableReason};
use super::branch::claim;
use super::lookup::parallel;
use super::settings::{NAME, UnionSettings};
use super::state::{Node, Union};
use crate::{Branch, BranchOpener, OptionError, OptionProblem};

/// Upper bound on how long dropping a union waits for branch queries whose results are no longer needed.
const LAST_QUERIES_TIMEOUT: Duration = Duration::from_secs(5);

/// A file system that shows several trees as one.
pub struct UnionFileSystem {
    pub(crate) union: Arc<Union>,
    root: Arc<Node>,
    /// Claim of the union itself as a branch of another union.
    claimed: ClaimFlag,
}

impl UnionFileSystem {
    /// Creates the union of these branches, highest priority first. A branch without a mode is read-write if it is the first,
    /// and read-only otherwise.
    ///
    /// # Errors
    /// [`OptionError`] that names the unusable branch.
    ///
    /// # Panics
    /// If there are no branches.
    pub fn new(branches: Vec<Branch>) -> std::result::Result<Self, OptionError> {
        Self::with_settings(branches, None, UnionSettings::default(), claim::CLAIM_TIMEOUT)
    }

    /// Creates the union; waits up to the given time for another union of a branch that is ending.
    pub(crate) fn with_settings(
        branches: Vec<Branch>,
        opener: Option<BranchOpener>,
        settings: UnionSettings,
        timeout: Duration,
    ) -> std::result::Result<Self, OptionError> {
        let claims = claim::claim_branches(&branches, timeout).map_err(branch_error)?;
        let union = Self::assemble(branches, opener, settings)?;
        union.store_claims(claims, timeout).map_err(branch_error)?;
        union.mount_state.set_common_union(&union);
        union.recover();
        union.finish_merges().map_err(|error| OptionError {
            member: NAME,
            key: String::new(),
            problem: OptionProblem::Unfinished { message: error.to_string() },
        })?;
        let root = union.root_node();
        // Not for views, whose branches others write too.
        union.recent_directories.enable();
        Ok(Self { union, root, claimed: ClaimFlag::default() })
    }

    /// Creates the union as found, without any change to the branches.
    pub(crate) fn assemble(
        branches: Vec<Branch>,
        opener: Option<BranchOpener>,
        settings: UnionSettings,
    ) -> std::result::Result<Arc<Union>, OptionError> {
        assert!(!branches.is_empty(), "a union has at least one branch");
        let (branches, register) = Branches::new(branches).map_err(branch_error)?;
        Ok(Arc::new(Union::new(branches, register, settings, opener)))
    }
}

impl FileSystem for UnionFileSystem {
    fn root(&self) -> VnodeRef {
        profile::vnode(Arc::clone(&self.root))
    }

    fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        let node = {
            let _guard = self.union.operation_guard();
            let (union, handle) = self.union.resolve_view_handle(handle)?;
            union.resolve(caller, &handle)?
        };
        node.check_handle_for(caller)?;
        Ok(profile::vnode(node))
    }

    fn sync(&self) -> Result<()> {
        let slots = self.union.branches.slots();
        parallel::for_each(&slots, |slot| slot.member.base.file_system.sync())?;
        self.union.mount_state.views().iter().try_for_each(|view| view.file_system().sync())
    }

    fn end_of_use(&self) -> Result<()> {
        self.union.direct_files.forget_unmapped();
        let views = self.union.mount_state.views();
        let of_views = views.iter().map(|view| view.file_system().end_of_use()).fold(Ok(()), Result::and);
        let slots = self.union.branches.slots();
        let ends = slots.iter().map(|slot| slot.member.base.file_system.end_of_use());
        ends.fold(of_views, Result::and)
    }

    fn claim(&self) -> Result<Claim> {
        // Its own branches are claimed.
        self.claimed.claim()
    }

    fn properties(&self) -> Properties {
        let slots = self.union.branches.slots();
        // A lock on a file in a branch would not apply to the copy that replaces it. A metadata-only copy has its data in
        // another branch, with times of their own.
        let own = Promises {
            names_untouched: false,
            shares_locks: false,
            times_tell_changes: TimesTell::OfSome,
            ..Promises::TRANSPARENT
        };
        let own = Properties { promises: own, needs: Needs::NONE };
        let branches = slots.iter().map(|slot| slot.member.base.file_system.properties());
        let has_backing_files = branches.clone().any(|branch| branch.promises.has_backing_files);
        let views = self.union.mount_state.views();
        let all = branches.chain(views.iter().map(|view| view.file_system().properties()));
        let Properties { promises, needs } = all.fold(own, Properties::stacked_on);
        // The meaning of a name, and a directory's attributes, depend on the caller.
        let is_split = !views.is_empty();
        Properties {
            promises: Promises {
                has_backing_files,
                access_control: if is_split { AccessControl::NotShown } else { promises.access_control },
                // Names of branches are exact in the union.
                exact_names: true,
                ..promises
            },
            needs: Needs {
                // A read-only branch does not make the union read-only.
                read_only: slots.iter().all(|slot| !self.union.branches.may_change(&slot.member)) && views.is_empty(),
                every_lookup: needs.every_lookup || is_split,
                failed_lookups: needs.failed_lookups || is_split,
                fresh_attributes: needs.fresh_attributes || is_split,
                ..needs
            },
        }
    }

    fn describe(&self) -> Vec<Description> {
        let slots = self.union.branches.slots();
        // Layers of one branch are adjacent.
        let newest: Vec<_> = slots.chunk_by(BranchSlot::is_same_branch).map(|group| &group[0]).collect();
        let mut members: Vec<_> = newest.iter().flat_map(|slot| slot.member.base.file_system.describe()).collect();
        let details: Vec<_> = newest.iter().map(|slot| format!("{}={}", slot.member.base.label, slot.mode)).collect();
        let views = self.union.mount_state.views();
        members.extend(views.iter().flat_map(|view| view.file_system().describe()));
        let views = views.iter().map(|view| format!("{}={} (a view)", view.rules(), view.label()));
        let details: Vec<_> = details.into_iter().chain(views).collect();
        let properties = Properties {
            promises: Promises { names_untouched: false, ..Promises::TRANSPARENT },
            ..Properties::TRANSPARENT
        };
        members.push(Description { kind: NAME.to_owned(), details: details.join(", "), properties });
        members
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        if command.target == NAME {
            return self.union.control(command);
        }
        for slot in self.union.branches.slots().iter() {
            match slot.member.base.file_system.control(command) {
                Err(ControlError::UnknownTarget(_)) => {}
                answered => return answered,
            }
        }
        for view in self.union.mount_state.views() {
            match view.file_system().control(command) {
                Err(ControlError::UnknownTarget(_)) => {}
                answered => return answered,
            }
        }
        Err(ControlError::UnknownTarget(command.target.clone()))
    }

    fn keep_access_times(&self, kept: KeptAccessTimes) {
        *self.union.kept_access_times.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        self.union.mount_state.views().iter().for_each(|view| view.file_system().keep_access_times(kept));
        self.union.branches.slots().iter().for_each(|slot| slot.member.base.file_system.keep_access_times(kept));
    }

    fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        self.union.mount_state.views().iter().for_each(|view| view.file_system().set_mount_point(directory));
        self.union.branches.slots().iter().for_each(|slot| slot.member.base.file_system.set_mount_point(directory));
        if let Ok(directory) = directory.try_clone_to_owned() {
            // A stack is mounted once.
            let _ = self.union.mount_point.set(directory);
        }
    }

    fn add_notifier(&self, notifier: &Arc<dyn Notifier>) {
        let Union { notifications, branches, mount_state, .. } = &*self.union;
        notifications.receivers().add(notifier);
        branches.slots().iter().for_each(|slot| notifications.forward_from(&*slot.member.base.file_system));
        mount_state.views().iter().for_each(|view| notifications.forward_from(view.file_system()));
    }
}

impl Drop for UnionFileSystem {
    fn drop(&mut self) {
        self.union.mount_state.end();
        self.union.recent_directories.disable();
        self.union.direct_files.forget_mapped();
        // The next mount of the branches finds them free.
        self.union.branches.slots().iter().for_each(|slot| slot.member.latency.wait_idle(LAST_QUERIES_TIMEOUT));
    }
}

pub(crate) fn branch_error(UnusableBranch { label, reason }: UnusableBranch) -> OptionError {
    let problem = match reason {
        UnusableReason::Error(error) => OptionProblem::Branch { error },
        UnusableReason::Refused(reason) => OptionProblem::RefusedBranch(reason),
    };
    OptionError { member: NAME, key: label, problem }
}

impl Union {
    /// Stores these claims in the branches, in their order.
    pub(crate) fn store_claims(
        &self,
        claims: Vec<Option<Claim>>,
        timeout: Duration,
    ) -> std::result::Result<(), UnusableBranch> {
        let slots = self.branches.slots();
        let branches = slots.chunk_by(BranchSlot::is_same_branch);
        branches.zip(claims).try_for_each(|(layers, claim)| claim::store(layers, claim, timeout))
    }
}

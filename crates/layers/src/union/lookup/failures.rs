//! Failed branches, as operations and lists of the branches report them.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use vnode::{Errno, FileKind};

use crate::BranchMode;
use crate::union::branch::branches::BranchSlot;
use crate::union::branch::health::may_indicate_failure;
use crate::union::state::{Node, Union};

/// Time for which a list of the branches waits for a response.
const LIST_TIMEOUT: Duration = Duration::from_millis(500);

impl Union {
    /// Checks all branches, and waits a moment for those that do not respond.
    pub(crate) fn check_all_branches(&self) {
        let slots = self.branches.slots();
        let (sender, responses) = channel();
        let mut count = 0;
        for group in slots.chunk_by(BranchSlot::is_same_branch) {
            let (base, sender) = (Arc::clone(&group[0].member.base), sender.clone());
            // Nobody waits any more for a late response.
            let check = vnode::as_server(move || {
                let _ = sender.send(base.health.check_failed());
            });
            count += usize::from(thread::Builder::new().name("branch".to_owned()).spawn(check).is_ok());
        }
        let deadline = Instant::now() + LIST_TIMEOUT;
        for _ in 0..count {
            let left = deadline.saturating_duration_since(Instant::now());
            if responses.recv_timeout(left).is_err() {
                return;
            }
        }
    }

    /// A branch that is known to have failed, if any.
    pub(crate) fn failed_branch(&self) -> Option<String> {
        let slots = self.branches.slots();
        slots.iter().find(|slot| slot.member.base.health.is_failed()).map(|slot| slot.member.base.label.clone())
    }
}

impl Node {
    /// The error to report to users where an operation on the object has failed with this one: `EIO` if a branch that has it,
    /// or one that would receive new objects, has failed.
    pub(crate) fn reported_error(&self, error: Errno) -> Errno {
        let slots = self.union.branches.slots();
        if error == Errno::EROFS {
            let is_lost = |slot: &BranchSlot| slot.mode == BranchMode::ReadWrite && slot.member.has_failed();
            return if slots.iter().any(is_lost) { Errno::EIO } else { error };
        }
        if !may_indicate_failure(error) {
            return error;
        }
        let instances = self.instances();
        let own = instances.iter().map(|instance| &instance.member);
        let written = slots.iter().filter(|slot| slot.mode != BranchMode::ReadOnly).map(|slot| &slot.member);
        // For directories, known failures have already been taken into account.
        let has_own_failed = (error != Errno::ENOENT || self.kind != FileKind::Directory)
            && instances.iter().any(|instance| instance.member.has_failed());
        let is_failure = own.chain(written).any(|member| member.base.health.check_just_failed(error)) || has_own_failed;
        if is_failure { Errno::EIO } else { error }
    }
}

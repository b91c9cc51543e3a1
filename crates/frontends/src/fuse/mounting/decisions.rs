//! The current decisions for a mount, which are made again when the requirements of its stack change.

use super::options::{Decisions, MountOptions, decide};
use crate::fuse::protocol::agreement::apply_negotiated;
use crate::fuse::protocol::negotiation::Negotiated;
use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;
use vnode::Properties;

/// The current decisions for a mount that is being served.
pub(crate) struct CurrentDecisions {
    options: MountOptions,
    negotiated: Negotiated,
    decisions: ArcSwap<Decisions>,
}

impl CurrentDecisions {
    /// Starts with the decisions that were made at mount time.
    pub(crate) fn new(options: MountOptions, negotiated: Negotiated, decisions: Decisions) -> CurrentDecisions {
        CurrentDecisions { options, negotiated, decisions: ArcSwap::from_pointee(decisions) }
    }

    /// Returns the current decisions.
    pub(crate) fn decisions(&self) -> Guard<Arc<Decisions>> {
        self.decisions.load()
    }

    /// Returns what was negotiated with the kernel.
    pub(crate) fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Decides again by what the stack needs now, except for what was fixed with the kernel at INIT: who checks permissions,
    /// who keeps writes and locks, and how requests arrive. Open files stay as they were opened.
    pub(crate) fn update_decisions(&self, properties: &Properties) {
        let mounted = self.decisions();
        let default_permissions = Some(mounted.default_permissions);
        let mut decided = decide(properties, &MountOptions { default_permissions, ..self.options.clone() });
        apply_negotiated(&mut decided, &self.negotiated);
        self.decisions.store(Arc::new(Decisions {
            default_permissions: mounted.default_permissions,
            checks_without_acls: mounted.checks_without_acls,
            posix_acl: mounted.posix_acl,
            write_back: mounted.write_back,
            drops_changed_data: mounted.drops_changed_data,
            forward_locks: mounted.forward_locks,
            forward_flocks: mounted.forward_flocks,
            uring: mounted.uring,
            ..decided
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::mounting::options::NameCaching;
    use crate::fuse::protocol::agreement::requested_features;
    use crate::fuse::protocol::negotiation::{NegotiationResult, negotiate};
    use crate::fuse::protocol::wire;
    use vnode::{AccessControl, Needs, Promises};

    fn mounted(properties: &Properties, options: &MountOptions) -> CurrentDecisions {
        let mut decisions = decide(properties, options);
        let offer =
            wire::InitIn { major: 7, minor: 45, max_readahead: 0, flags: u32::MAX, flags2: u32::MAX, unused: [0; 11] };
        let NegotiationResult::Agreed(_, negotiated) = negotiate(&offer, &requested_features(&decisions), 4096) else {
            panic!("not agreed")
        };
        apply_negotiated(&mut decisions, &negotiated);
        CurrentDecisions::new(options.clone(), negotiated, decisions)
    }

    #[test]
    fn unchanged_stack_keeps_its_decisions() {
        for allow_other in [false, true] {
            let properties = Properties {
                promises: Promises { checks_credentials: true, ..Promises::TRANSPARENT },
                ..Properties::TRANSPARENT
            };
            let options = MountOptions { allow_other, ..MountOptions::default() };
            let current = mounted(&properties, &options);
            let before = Decisions::clone(&current.decisions());
            current.update_decisions(&properties);
            let after =
                Decisions { names_without_acls: before.names_without_acls, ..Decisions::clone(&current.decisions()) };
            assert_eq!(after, before, "others: {allow_other}");
        }
    }

    #[test]
    fn new_requirements_of_the_stack_apply() {
        let before = Properties { needs: Needs { failed_lookups: false, ..Needs::NONE }, ..Properties::TRANSPARENT };
        let current = mounted(&before, &MountOptions { default_permissions: Some(false), ..MountOptions::default() });
        assert!(
            current.decisions().negative_names && current.decisions().exclusive && !current.decisions().direct_io()
        );
        current.update_decisions(&Properties {
            promises: Promises {
                exclusive: false,
                access_control: AccessControl::NotShown,
                checks_credentials: false,
                ..before.promises
            },
            needs: Needs { failed_lookups: true, every_data_operation: true, ..before.needs },
        });
        let after = current.decisions();
        assert!(!after.negative_names && !after.exclusive && after.direct_io() && after.passthrough.is_err());
        assert_eq!((after.names, after.default_permissions), (NameCaching::Never, false));
    }
}

//! Split views (Unionfs, section 3.9): inside one mount, chosen processes see and write a branch of their own.
//!
//! Each view is an almost independent union: of a private branch, the only one that it writes, and the branches of the
//! mount's union, which it only reads. All share one lock for operations, so that branches change for all at once;
//! changes that the mount's union makes below a view make the view revalidate ([`crate::union::state::Union::invalidate_views`]).
//!
//! **Invariants.** An object other than a directory has a vnode in each view, through which only that view opens and
//! changes it, and an open file stays in the view in which it was opened. A directory that several have at one location
//! is one vnode ([`merged_directory`]), which serves each caller from the caller's view. No view writes to anything but
//! its private branch.
//!
//! The module is above the union's operations; the rules by which a view is selected are below it, in [`crate::view_rules`].

mod control;
mod listing;
pub(crate) mod merged_directory;

pub(crate) use control::ViewDefinition;
pub(crate) use listing::PerViewListing;

//! Look-ups: which objects the branches have, and which vnodes of the union they are.
//!
//! `search` looks a name up in the branches, slow ones in `parallel` with the `helpers`, and finds `shared_copies`; `identity` is
//! what the objects found are known by, and finds or creates their vnodes. `revalidation` looks live vnodes up again. `failures`
//! of branches are reported instead of what they answer.

mod failures;
mod helpers;
pub(crate) mod identity;
pub(crate) mod parallel;
pub(crate) mod revalidation;
pub(crate) mod search;
pub(crate) mod shared_copies;

//! On which CPU a worker runs, under which scheduling policy, and how many workers there are.

pub(crate) mod affinity;
pub(crate) mod budget;
pub(crate) mod idle_prevention;
pub(crate) mod policy;
pub(crate) mod sched_idle;
pub(crate) mod scheduler;

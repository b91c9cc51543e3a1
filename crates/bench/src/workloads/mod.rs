//! The workloads: one module each, all with the same structure.

mod build;
mod fchown;
mod latency;
mod parallel;
mod postmark;
mod random;
pub(crate) mod sequential;
mod sizes;
mod tree;

use anyhow::Result;

use crate::session::Session;
pub(crate) use sizes::Sizes;

/// A workload; each of its steps is timed separately.
pub(crate) struct Workload {
    /// Name for `--only` and the results.
    pub name: &'static str,
    /// Subjects run it side by side: all timed work is done by programs, which can be stopped meanwhile.
    pub is_shared: bool,
    /// Prepares, mounts, works, and checks that the work was done.
    pub run: fn(&mut Session<'_>, &Sizes) -> Result<()>,
}

/// The workloads of a plain run, in the order of the results.
pub(crate) const ALL: &[Workload] = &[
    Workload { name: "build", is_shared: true, run: build::run },
    Workload { name: "postmark", is_shared: true, run: postmark::run },
    Workload { name: "tree", is_shared: false, run: tree::run },
    Workload { name: "sequential", is_shared: false, run: sequential::run },
    Workload { name: "random", is_shared: false, run: random::run },
    Workload { name: "fchown", is_shared: false, run: fchown::run },
];

/// Workloads that differ only with several branches, in the order of the results; for a union they come after build and
/// postmark.
pub(crate) const LAYOUTS: &[Workload] = &[
    Workload { name: "tree, DIST", is_shared: false, run: tree::run },
    Workload { name: "tree, DUP", is_shared: false, run: tree::run_duplicated },
];

/// Workloads whose figures are times of single operations.
pub(crate) const OPERATIONS: &[Workload] = &[
    Workload { name: "latency", is_shared: false, run: latency::run },
    Workload { name: "parallel", is_shared: false, run: parallel::run },
];

//! The workloads: one module each, all of the same shape.
mod build;
mod fchown;
mod latency;
mod parallel;
mod postmark;
mod random;
mod sequential;
mod tree;

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::session::Session;

/// One workload; each of its steps is timed apart.
pub struct Workload {
    /// For `--only` and the results.
    pub name: &'static str,
    /// Whether the subjects do it side by side: where programs do all that is timed, which can be stopped meanwhile.
    pub is_shared: bool,
    /// Prepares, mounts, works, and checks that the work was done.
    pub run: fn(&mut Session<'_>, &Sizes) -> Result<()>,
}

/// The workloads of a plain run, in the order of the results.
pub const ALL: &[Workload] = &[
    Workload { name: "build", is_shared: true, run: build::run },
    Workload { name: "postmark", is_shared: true, run: postmark::run },
    Workload { name: "tree", is_shared: false, run: tree::run },
    Workload { name: "sequential", is_shared: false, run: sequential::run },
    Workload { name: "random", is_shared: false, run: random::run },
    Workload { name: "fchown", is_shared: false, run: fchown::run },
];

/// Those that only several branches make different, in the order of the results; over a union they come after build and
/// postmark.
pub const LAYOUTS: &[Workload] = &[
    Workload { name: "tree, DIST", is_shared: false, run: tree::run },
    Workload { name: "tree, DUP", is_shared: false, run: tree::run_duplicated },
];

/// Those whose figures are times of single operations.
pub const OPERATIONS: &[Workload] = &[
    Workload { name: "latency", is_shared: false, run: latency::run },
    Workload { name: "parallel", is_shared: false, run: parallel::run },
];

/// How much work there is to do.
pub struct Sizes {
    archive: Option<PathBuf>,
    /// Whether to configure and compile, beside unpacking and removing.
    pub compile: bool,
    /// Files that postmark starts with.
    pub postmark_files: u32,
    /// Transactions of postmark.
    pub postmark_transactions: u32,
    /// Directories of postmark.
    pub postmark_directories: u32,
    /// Copies of the source tree.
    pub copies: u32,
    /// Size of the large file.
    pub file_bytes: u64,
    /// Small reads, and as many small writes.
    pub random_operations: u64,
    /// Changes of owner.
    pub fchown_operations: u64,
    /// Operations of each kind in the latency run.
    pub latency_operations: u64,
}

impl Sizes {
    /// Those of the published figures.
    pub fn full(archive: Option<PathBuf>) -> Self {
        Self {
            archive,
            compile: true,
            postmark_files: 20_000,
            postmark_transactions: 200_000,
            postmark_directories: 200,
            copies: 20,
            file_bytes: 512 << 20,
            random_operations: 131_072,
            fchown_operations: 50_000,
            latency_operations: 20_000,
        }
    }

    /// Just enough to see that everything works.
    pub fn quick(archive: Option<PathBuf>) -> Self {
        Self {
            archive,
            compile: false,
            postmark_files: 500,
            postmark_transactions: 2_000,
            postmark_directories: 20,
            copies: 1,
            file_bytes: 16 << 20,
            random_operations: 4_096,
            fchown_operations: 2_000,
            latency_operations: 1_000,
        }
    }

    /// The source archive of openssh.
    pub fn archive(&self) -> Result<PathBuf> {
        let archive = self.archive.clone().or_else(find_archive).context(
            "no source archive of openssh in target/bench: run scripts/bench-setup, or name one by --archive",
        )?;
        archive.canonicalize().with_context(|| format!("no source archive {}", archive.display()))
    }
}

/// The newest source archive where scripts/bench-setup puts it.
fn find_archive() -> Option<PathBuf> {
    let is_archive = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("openssh_") && name.ends_with(".orig.tar.gz")
    };
    let entries = std::fs::read_dir("target/bench").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_archive).max()
}

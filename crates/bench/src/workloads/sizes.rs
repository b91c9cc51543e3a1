//! The amount of work of the workloads.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// The amount of work of the workloads.
pub(crate) struct Sizes {
    archive: Option<PathBuf>,
    /// Configure and compile, in addition to unpacking and removing.
    pub compile: bool,
    /// Number of files that postmark starts with.
    pub postmark_files: u32,
    /// Number of transactions of postmark.
    pub postmark_transactions: u32,
    /// Number of directories of postmark.
    pub postmark_directories: u32,
    /// Number of copies of the source tree.
    pub copies: u32,
    /// Size of the large file in bytes.
    pub file_bytes: u64,
    /// Number of small reads, and of small writes.
    pub random_operations: u64,
    /// Number of changes of owner.
    pub fchown_operations: u64,
    /// Number of operations of each kind in the latency run.
    pub latency_operations: u64,
}

impl Sizes {
    /// Returns the sizes of the published figures.
    pub(crate) fn full(archive: Option<PathBuf>) -> Self {
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

    /// Returns sizes that just suffice to check that everything works.
    pub(crate) fn quick(archive: Option<PathBuf>) -> Self {
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

    /// Returns the path of the openssh source archive.
    pub(crate) fn archive(&self) -> Result<PathBuf> {
        let archive = self.archive.clone().or_else(find_archive).context(
            "no source archive of openssh in target/bench: run scripts/bench-setup, or name one by --archive",
        )?;
        archive.canonicalize().with_context(|| format!("no source archive {}", archive.display()))
    }
}

/// Returns the newest source archive in the directory that scripts/bench-setup uses.
fn find_archive() -> Option<PathBuf> {
    let is_archive = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("openssh_") && name.ends_with(".orig.tar.gz")
    };
    let entries = std::fs::read_dir("target/bench").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_archive).max()
}

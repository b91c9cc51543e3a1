//! How much work there is to do.

use std::path::PathBuf;

use anyhow::{Context, Result};

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

//! The named tests of file-system behaviour over `mem`, with no mount.
#![cfg(feature = "mem")]

use std::sync::Arc;

use conformance::Tree;
use plyfs_bases::mem::{MemoryFileSystem, Options};

#[test]
fn mem_conforms() {
    let options = Options { size: 1 << 30, inodes: 100_000, mode: 0o755, ..Options::default() };
    let subject = Tree::new(Arc::new(MemoryFileSystem::new(options))).titled("mem");
    let report = conformance::run(&subject, |_| true);
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
}

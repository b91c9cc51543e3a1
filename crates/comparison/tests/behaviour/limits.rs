//! The sample that limits what users take: quotafs.

use std::fs;

use super::{Mounting, TestDirectories, as_user};

/// Quotafs, mounted with a limit of 10,000 bytes, limits what the files of a user grow by.
pub(crate) fn quotafs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let _mounted = mounting(&directories);
    let mount = directories.mount();
    let write = |count: u32, name: &str| as_user(&format!("head -c {count} /dev/zero > {}/{name}", mount.display()));
    assert!(write(8000, "one").is_some());
    assert!(write(8000, "two").is_none(), "16,000 bytes are too many");
    assert!(as_user(&format!("rm {}/one", mount.display())).is_some());
    assert!(write(8000, "three").is_some());
    // What is cut counts back, and what is made longer counts.
    let resize = |size: u32| as_user(&format!("truncate -s {size} {}/three", mount.display()));
    assert!(resize(20_000).is_none() && resize(1000).is_some());
    assert!(write(8000, "four").is_some());
    // The superuser is free.
    fs::write(mount.join("root"), vec![0; 100_000]).unwrap();
}

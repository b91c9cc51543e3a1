//! Mounted unions whose upper branch is on a real file system of each kind: what all keep, and what each answers or loses that it
//! cannot keep. Those that the kernel here does not have, FAT and NFS, are there in a guest with another kernel.

mod fat;
mod file_system;
mod nfs;
mod scene;
#[path = "../support/mod.rs"]
mod support;
mod trial;

use std::path::Path;
use std::process::Command;

use file_system::Kind;
use support::can_mount;

/// The kinds that a run of this program in a guest is to try, with commas.
const KINDS: &str = "PLYFS_BRANCH_KINDS";

#[test]
fn what_is_done_in_a_union_stays_done_on_file_systems_of_this_kernel() {
    if can_mount() && std::env::var_os(KINDS).is_none() {
        [Kind::Tmpfs, Kind::Ext4, Kind::Overlay, Kind::Fuse].into_iter().for_each(trial::run);
    }
}

#[test]
fn what_is_done_in_a_union_stays_done_on_fat_and_nfs() {
    if !can_mount() {
        return;
    }
    match std::env::var(KINDS) {
        Ok(kinds) => kinds.split(',').map(Kind::named).for_each(trial::run),
        Err(_) => in_a_guest("what_is_done_in_a_union_stays_done_on_fat_and_nfs", &[Kind::Fat, Kind::Nfs]),
    }
}

/// Runs a test of this program in a guest.
fn in_a_guest(test: &str, kinds: &[Kind]) {
    let is_there = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join("linux.uml").exists()));
    if !is_there {
        println!("skipped: the kernel has no FAT and NFS, and there is no User-Mode Linux (scripts/setup guest)");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest");
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let run = Command::new(script)
        .arg(std::env::current_exe().expect("the program has a path"))
        .args(["--exact", test, "--nocapture"])
        .env(KINDS, kinds.join(","))
        .env("GUEST_SECONDS", "300")
        .env("GUEST_MEMORY", "1G")
        .env("GUEST_DISK", "1G")
        .output()
        .expect("the guest is started");
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && said.contains("1 passed"), "in the guest: {}\n{said}", run.status);
}

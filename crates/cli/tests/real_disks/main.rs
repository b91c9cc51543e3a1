//! Disk formats beside those of a real kernel, which a guest has: each reads what the other wrote, byte for byte. And a CD as the root of
//! a guest.

mod guest;
mod isofs;
mod live;
mod source;
#[path = "../support/mod.rs"]
mod support;
mod tree;
mod vfat;

use support::can_mount;

#[test]
fn vfat_and_plyfs_read_what_the_other_wrote() {
    if can_mount() {
        guest::run_there("vfat_and_plyfs_read_what_the_other_wrote", vfat::run);
    }
}

#[test]
fn isofs_and_plyfs_show_the_same() {
    if can_mount() {
        guest::run_there("isofs_and_plyfs_show_the_same", isofs::run);
    }
}

#[test]
fn a_guest_has_a_cd_as_its_root_and_keeps_its_changes() {
    if can_mount() && guest::exists() {
        live::run();
    }
}

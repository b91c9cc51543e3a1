//! The samples from scratch on the FUSE crate, each through a real mount.

mod behaviour;

use std::any::Any;
use std::path::Path;

use behaviour::{Mounting, Place, can_mount};
use comparison::scratch::pass_through::{Operations, PassThrough, mount};
use comparison::scratch::{
    aclfs, cryptfs, hidefs, keepfs, lb2fs, quotafs, rot13fs, sealfs, snoopfs, trashfs, unionfs, usenetfs, uuencodefs,
    versionfs, zstdfs,
};

/// Mounts a file system on the place's mount point.
fn mounted(place: &Place, name: &str, file_system: impl Operations) -> Box<dyn Any> {
    Box::new(mount(file_system, name, &place.mount()).expect("it is mounted"))
}

/// What lies in a directory.
fn shown(directory: &Path) -> PassThrough {
    PassThrough::new(directory).expect("the directory is there")
}

/// Whether what a sample does is so, if it can be mounted.
fn check(behaviour: fn(Mounting<'_>), mounting: Mounting<'_>) {
    if can_mount() {
        behaviour(mounting);
    }
}

#[test]
fn snoopfs_tells_of_users_who_reach_for_files_of_others() {
    check(behaviour::snoopfs, &|place| {
        let log = std::fs::File::options().create(true).append(true).open(place.log()).unwrap();
        mounted(place, "snoopfs", snoopfs::Snoopfs::new(shown(&place.base()), log))
    });
}

#[test]
fn cryptfs_enciphers_names_and_data_by_the_key_that_was_set() {
    check(behaviour::cryptfs, &|place| mounted(place, "cryptfs", cryptfs::Cryptfs::new(shown(&place.base()))));
}

#[test]
fn aclfs_lets_one_more_user_search_a_directory() {
    check(behaviour::aclfs, &|place| mounted(place, "aclfs", aclfs::Aclfs::new(shown(&place.base()))));
}

#[test]
fn rot13fs_rotates_letters() {
    check(behaviour::rot13fs, &|place| mounted(place, "rot13fs", rot13fs::Rot13fs::new(shown(&place.base()))));
}

#[test]
fn trashfs_renames_what_is_deleted() {
    check(behaviour::trashfs, &|place| mounted(place, "trashfs", trashfs::Trashfs::new(shown(&place.base()))));
}

#[test]
fn keepfs_copies_what_is_deleted() {
    check(behaviour::keepfs, &|place| mounted(place, "keepfs", keepfs::Keepfs::new(shown(&place.base()))));
}

#[test]
fn quotafs_limits_what_the_files_of_a_user_grow_by() {
    check(behaviour::quotafs, &|place| mounted(place, "quotafs", quotafs::Quotafs::new(shown(&place.base()), 10_000)));
}

#[test]
fn hidefs_shows_no_names_with_dots_and_lets_nobody_change_anything() {
    check(behaviour::hidefs, &|place| mounted(place, "hidefs", hidefs::Hidefs::new(shown(&place.base()))));
}

#[test]
fn versionfs_keeps_the_last_versions() {
    check(behaviour::versionfs, &|place| {
        mounted(place, "versionfs", versionfs::Versionfs::new(shown(&place.base()), 2))
    });
}

#[test]
fn zstdfs_takes_less_room_below() {
    check(behaviour::zstdfs, &|place| mounted(place, "zstdfs", zstdfs::Zstdfs::new(shown(&place.base()))));
}

#[test]
fn uuencodefs_writes_printable_characters() {
    check(behaviour::uuencodefs, &|place| {
        mounted(place, "uuencodefs", uuencodefs::Uuencodefs::new(shown(&place.base())))
    });
}

#[test]
fn sealfs_keeps_data_secret_and_unchanged() {
    check(behaviour::sealfs, &|place| mounted(place, "sealfs", sealfs::Sealfs::new(shown(&place.base()))));
}

#[test]
fn unionfs_joins_two_file_systems() {
    check(behaviour::unionfs, &|place| {
        mounted(place, "unionfs", unionfs::Unionfs::new(shown(&place.first()), shown(&place.second())))
    });
}

#[test]
fn lb2fs_reads_from_both_in_turn() {
    check(behaviour::lb2fs, &|place| {
        mounted(place, "lb2fs", lb2fs::Lb2fs::new(shown(&place.first()), shown(&place.second())))
    });
}

#[test]
fn usenetfs_breaks_large_directories_into_small_ones() {
    check(behaviour::usenetfs, &|place| mounted(place, "usenetfs", usenetfs::Usenetfs::new(shown(&place.base()))));
}

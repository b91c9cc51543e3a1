//! The samples from scratch on the FUSE crate, each through a real mount.

mod behaviour;

use std::any::Any;
use std::path::Path;

use behaviour::{Mounting, TestDirectories, can_mount};
use comparison::scratch::pass_through::{Operations, PassThrough, mount};
use comparison::scratch::{
    aclfs, cryptfs, hidefs, keepfs, lb2fs, quotafs, rot13fs, sealfs, snoopfs, trashfs, unionfs, usenetfs, uuencodefs,
    versionfs, zstdfs,
};

/// Mounts a file system on the directories's mount point.
fn mounted(directories: &TestDirectories, name: &str, file_system: impl Operations) -> Box<dyn Any> {
    Box::new(mount(file_system, name, &directories.mount()).expect("it is mounted"))
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
    check(behaviour::snoopfs, &|directories| {
        let log = std::fs::File::options().create(true).append(true).open(directories.log()).unwrap();
        mounted(directories, "snoopfs", snoopfs::Snoopfs::new(shown(&directories.base()), log))
    });
}

#[test]
fn cryptfs_enciphers_names_and_data_by_the_key_that_was_set() {
    check(behaviour::cryptfs, &|directories| {
        mounted(directories, "cryptfs", cryptfs::Cryptfs::new(shown(&directories.base())))
    });
}

#[test]
fn aclfs_lets_one_more_user_search_a_directory() {
    check(behaviour::aclfs, &|directories| {
        mounted(directories, "aclfs", aclfs::Aclfs::new(shown(&directories.base())))
    });
}

#[test]
fn rot13fs_rotates_letters() {
    check(behaviour::rot13fs, &|directories| {
        mounted(directories, "rot13fs", rot13fs::Rot13fs::new(shown(&directories.base())))
    });
}

#[test]
fn trashfs_renames_what_is_deleted() {
    check(behaviour::trashfs, &|directories| {
        mounted(directories, "trashfs", trashfs::Trashfs::new(shown(&directories.base())))
    });
}

#[test]
fn keepfs_copies_what_is_deleted() {
    check(behaviour::keepfs, &|directories| {
        mounted(directories, "keepfs", keepfs::Keepfs::new(shown(&directories.base())))
    });
}

#[test]
fn quotafs_limits_what_the_files_of_a_user_grow_by() {
    check(behaviour::quotafs, &|directories| {
        mounted(directories, "quotafs", quotafs::Quotafs::new(shown(&directories.base()), 10_000))
    });
}

#[test]
fn hidefs_shows_no_names_with_dots_and_lets_nobody_change_anything() {
    check(behaviour::hidefs, &|directories| {
        mounted(directories, "hidefs", hidefs::Hidefs::new(shown(&directories.base())))
    });
}

#[test]
fn versionfs_keeps_the_last_versions() {
    check(behaviour::versionfs, &|directories| {
        mounted(directories, "versionfs", versionfs::Versionfs::new(shown(&directories.base()), 2))
    });
}

#[test]
fn zstdfs_takes_less_room_below() {
    check(behaviour::zstdfs, &|directories| {
        mounted(directories, "zstdfs", zstdfs::Zstdfs::new(shown(&directories.base())))
    });
}

#[test]
fn uuencodefs_writes_printable_characters() {
    check(behaviour::uuencodefs, &|directories| {
        mounted(directories, "uuencodefs", uuencodefs::Uuencodefs::new(shown(&directories.base())))
    });
}

#[test]
fn sealfs_keeps_data_secret_and_unchanged() {
    check(behaviour::sealfs, &|directories| {
        mounted(directories, "sealfs", sealfs::Sealfs::new(shown(&directories.base())))
    });
}

#[test]
fn unionfs_joins_two_file_systems() {
    check(behaviour::unionfs, &|directories| {
        mounted(
            directories,
            "unionfs",
            unionfs::Unionfs::new(shown(&directories.first()), shown(&directories.second())),
        )
    });
}

#[test]
fn lb2fs_reads_from_both_in_turn() {
    check(behaviour::lb2fs, &|directories| {
        mounted(directories, "lb2fs", lb2fs::Lb2fs::new(shown(&directories.first()), shown(&directories.second())))
    });
}

#[test]
fn usenetfs_breaks_large_directories_into_small_ones() {
    check(behaviour::usenetfs, &|directories| {
        mounted(directories, "usenetfs", usenetfs::Usenetfs::new(shown(&directories.base())))
    });
}

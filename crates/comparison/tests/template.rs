//! The samples on the layer template, each through a real mount.

mod behaviour;

use std::any::Any;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use behaviour::{TestDirectories, can_mount};
use comparison::template::*;
use frontends::fuse::{Mount, MountOptions};
use vnode::FileSystemRef;
use vnode::layer::{Layer, stack};

/// A directory as a file system.
fn directory(path: PathBuf) -> FileSystemRef {
    Arc::new(bases::dir::DirectoryFileSystem::open(&path, bases::dir::Options::default()).expect("it is opened"))
}

/// Mounts a file system for all users.
fn mounted(directories: &TestDirectories, file_system: FileSystemRef) -> Box<dyn Any> {
    let options = MountOptions { allow_other: true, ..MountOptions::default() };
    Box::new(Mount::new(file_system, &directories.mount(), &options).expect("it is mounted"))
}

/// Tests a layer over one directory.
fn test<L: Layer>(behaviour: fn(behaviour::Mounting<'_>), make: impl Fn(&TestDirectories) -> L) {
    if can_mount() {
        behaviour(&|directories| mounted(directories, stack(make(directories), directory(directories.base()))));
    }
}

/// Tests what joins two directories.
fn test_joined(behaviour: fn(behaviour::Mounting<'_>), join: fn(FileSystemRef, FileSystemRef) -> FileSystemRef) {
    if can_mount() {
        behaviour(&|directories| {
            mounted(directories, join(directory(directories.first()), directory(directories.second())))
        });
    }
}

#[test]
fn snoopfs_tells_of_users_who_reach_for_files_of_others() {
    test(behaviour::snoopfs, |directories| {
        let log = File::create(directories.log()).expect("the log is opened");
        snoopfs::Snoopfs::new(move |line| writeln!(&log, "{line}").expect("the log is written"))
    });
}

#[test]
fn cryptfs_enciphers_names_and_data() {
    test(behaviour::cryptfs, |_| cryptfs::Cryptfs::new());
}

#[test]
fn aclfs_lets_one_more_user_search_a_directory() {
    test(behaviour::aclfs, |_| aclfs::Aclfs);
}

#[test]
fn unionfs_joins_two_file_systems() {
    test_joined(behaviour::unionfs, unionfs::Unionfs::join);
}

#[test]
fn rot13fs_rotates_letters() {
    test(behaviour::rot13fs, |_| rot13fs::Rot13fs);
}

#[test]
fn lb2fs_reads_from_both_in_turn() {
    test_joined(behaviour::lb2fs, lb2fs::Lb2fs::join);
}

#[test]
fn trashfs_renames_what_is_deleted() {
    test(behaviour::trashfs, |_| trashfs::Trashfs);
}

#[test]
fn keepfs_copies_what_is_deleted() {
    test(behaviour::keepfs, |_| keepfs::Keepfs);
}

#[test]
fn quotafs_limits_what_files_grow_by() {
    test(behaviour::quotafs, |_| quotafs::Quotafs::new(10_000));
}

#[test]
fn hidefs_shows_no_names_with_dots() {
    test(behaviour::hidefs, |_| hidefs::Hidefs);
}

#[test]
fn versionfs_keeps_the_last_versions() {
    test(behaviour::versionfs, |_| versionfs::Versionfs::new(2));
}

#[test]
fn zstdfs_takes_less_room_below() {
    test(behaviour::zstdfs, |_| zstdfs::Zstdfs);
}

#[test]
fn uuencodefs_writes_printable_characters() {
    test(behaviour::uuencodefs, |_| uuencodefs::Uuencodefs);
}

#[test]
fn sealfs_keeps_data_secret_and_unchanged() {
    test(behaviour::sealfs, |_| sealfs::Sealfs::new());
}

#[test]
fn usenetfs_breaks_large_directories_into_small_ones() {
    test(behaviour::usenetfs, |_| usenetfs::Usenetfs);
}

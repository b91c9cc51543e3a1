//! The samples from scratch on the FUSE crate, each through a real mount.

mod behaviour;

use std::any::Any;
use std::path::Path;

use behaviour::{Mounting, Place, can_mount};
use comparison::scratch::pass_through::{Operations, PassThrough, mount};
use comparison::scratch::{hidefs, keepfs, snoopfs, trashfs};

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
fn hidefs_shows_no_names_with_dots_and_lets_nobody_change_anything() {
    check(behaviour::hidefs, &|place| mounted(place, "hidefs", hidefs::Hidefs::new(shown(&place.base()))));
}

#[test]
fn trashfs_renames_what_is_deleted() {
    check(behaviour::trashfs, &|place| mounted(place, "trashfs", trashfs::Trashfs::new(shown(&place.base()))));
}

#[test]
fn keepfs_copies_what_is_deleted() {
    check(behaviour::keepfs, &|place| mounted(place, "keepfs", keepfs::Keepfs::new(shown(&place.base()))));
}

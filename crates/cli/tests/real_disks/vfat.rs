//! Linux's vfat beside `fat`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::guest::{command, load};
use crate::support::{Scratch, run as plyfs, umount};
use crate::tree::Object;
use crate::{source, tree};

/// What both are told: names are UTF-8, times are UTC, all is root's.
const VFAT: &str = "loop,utf8=1,codepage=437,iocharset=iso8859-1,tz=UTC,uid=0,gid=0,umask=022,shortname=mixed";
const PLYFS: &str = "(uid=0,gid=0,mode=755)";

/// The hidden file of `fat` itself.
const JOURNAL: &str = "PLYFS.JNL";

/// Tries volumes of each width.
pub(crate) fn run() {
    load(&["vfat", "nls_cp437", "nls_iso8859-1", "nls_utf8"]);
    for (width, cluster_sectors, size) in [("12", "4", 7), ("16", "1", 16), ("32", "1", 40)] {
        one(width, cluster_sectors, size << 20);
    }
}

fn one(width: &str, cluster_sectors: &str, size: u64) {
    let scratch = Scratch::new();
    let image = scratch.path("image");
    fs::File::create(&image).unwrap().set_len(size).unwrap();
    command(Command::new("mkfs.fat").args(["-F", width, "-s", cluster_sectors]).arg(&image));
    let original = scratch.path("original");
    fs::create_dir(&original).unwrap();
    source::make(&original);
    let expected = tree::read(&original);

    mount_plyfs(&scratch);
    source::make(&scratch.mount());
    assert_files(&tree::read(&scratch.mount()), &expected, &format!("FAT{width}: plyfs itself"));
    umount(scratch.mount().to_str().unwrap());
    check(&image, width);
    mount_vfat(&scratch);
    assert!(scratch.mount().join(JOURNAL).exists(), "Linux shows hidden files");
    assert_files(&tree::read(&scratch.mount()), &expected, &format!("FAT{width}: what plyfs wrote"));
    // What it changes, plyfs sees.
    let at = |name: &str| scratch.mount().join(name);
    fs::rename(at("a directory"), at("moved")).unwrap();
    fs::remove_file(at("SHORT.TXT")).unwrap();
    fs::write(at("moved/inner/size 3"), "written by vfat").unwrap();
    source::make(&at("moved/again"));
    let mut by_vfat = tree::read(&scratch.mount());
    by_vfat.remove(JOURNAL);
    unmount_vfat(&scratch);
    mount_plyfs(&scratch);
    tree::assert_same(&tree::read(&scratch.mount()), &by_vfat, &format!("FAT{width}: what vfat wrote"));
    // And what is removed leaves room.
    fs::remove_dir_all(at("moved")).unwrap();
    umount(scratch.mount().to_str().unwrap());
    check(&image, width);
    mount_vfat(&scratch);
    assert!(!at("moved").exists() && at("日本語").exists());
    unmount_vfat(&scratch);
}

/// Compares names of all objects, and contents and times of files, which do not depend on who is asked.
fn assert_files(shown: &BTreeMap<String, Object>, expected: &BTreeMap<String, Object>, what: &str) {
    let only = |one: &BTreeMap<String, Object>, other: &BTreeMap<String, Object>| {
        let names = one.keys().filter(|name| !other.contains_key(*name) && *name != JOURNAL);
        names.cloned().collect::<Vec<_>>()
    };
    assert_eq!((only(shown, expected), only(expected, shown)), (vec![], vec![]), "{what}: names");
    for (name, object) in expected.iter().filter(|(_, object)| object.is_file()) {
        let other = &shown[name];
        assert!(object.contents == other.contents, "{what}: the contents of {name} differ");
        assert_eq!(object.modified, other.modified, "{what}: the time of {name}");
    }
}

fn mount_plyfs(scratch: &Scratch) {
    plyfs(["mount", &format!("fat:{}{PLYFS}", scratch.name("image")), scratch.mount().to_str().unwrap()]).succeeded();
}

fn mount_vfat(scratch: &Scratch) {
    let mut mount = Command::new("mount");
    command(mount.args(["-t", "vfat", "-o", VFAT]).arg(scratch.path("image")).arg(scratch.mount()));
}

fn unmount_vfat(scratch: &Scratch) {
    command(Command::new("umount").arg(scratch.mount()));
}

fn check(image: &Path, width: &str) {
    let run = Command::new("fsck.fat").arg("-n").arg(image).output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && output.lines().count() <= 2, "FAT{width}: {output}");
}

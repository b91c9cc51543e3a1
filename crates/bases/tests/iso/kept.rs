//! Kept images, one of each extension: what was readable once stays so.
//!
//! `kept/make` says how they were made. It has made the lists, too, from the trees that the images are of.

use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::Crc;
use flate2::read::GzDecoder;
use plyfs_bases::iso::{IsoFileSystem, TreeKind, WalkEntry};
use vnode::{FileKind, FileSystem};

use crate::image::{find, names, open_bytes, read, root_user};

/// Objects that are not in the tree that an image was made of, except for what is in the first of them.
const ADDED: [&str; 2] = ["[BOOT]", "catalog.bin"];

/// Opens a kept image.
fn open(name: &str, options: &str) -> IsoFileSystem {
    let mut image = Vec::new();
    let file = fs::File::open(path(name, "iso.gz")).unwrap();
    GzDecoder::new(file).read_to_end(&mut image).unwrap();
    open_bytes(&image, options).unwrap()
}

fn path(name: &str, suffix: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/iso/kept/{name}.{suffix}"))
}

/// Asserts that an image shows what its list says: all of it, or without modes and owners.
fn check(name: &str, options: &str, tree: TreeKind, has_attributes: bool) -> IsoFileSystem {
    let file_system = open(name, options);
    assert_eq!(file_system.information().tree, tree, "{name}");
    let entries = file_system.walk().map(|entry| entry.ok().unwrap_or_else(|| panic!("{name} cannot be read")));
    let is_of_source = |entry: &WalkEntry| {
        let first = entry.path.split(|byte| *byte == b'/').next().unwrap();
        !first.is_empty() && !ADDED.iter().any(|added| added.as_bytes() == first)
    };
    let mut entries: Vec<_> = entries.filter(is_of_source).collect();
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let shown: String = entries.iter().map(|entry| line(entry, has_attributes)).collect();
    assert_eq!(shown, fs::read_to_string(path(name, "txt")).unwrap(), "{name}");
    file_system
}

/// Returns the line of a list for an object.
fn line(entry: &WalkEntry, has_attributes: bool) -> String {
    let attributes = &entry.attributes;
    let mut line = match attributes.kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::BlockDevice => "block",
        FileKind::CharacterDevice => "character",
    }
    .to_owned();
    if has_attributes {
        write!(line, " {:o} {} {}", attributes.mode, attributes.uid, attributes.gid).unwrap();
    }
    match attributes.kind {
        FileKind::Regular => {
            let mut sum = Crc::new();
            sum.update(&read(&entry.vnode).unwrap());
            write!(line, " {} {:08x}", attributes.size, sum.sum()).unwrap();
        }
        FileKind::BlockDevice | FileKind::CharacterDevice => {
            write!(line, " {}:{}", attributes.rdev.major, attributes.rdev.minor).unwrap();
        }
        _ => {}
    }
    if attributes.kind != FileKind::Directory {
        write!(line, " {}", attributes.mtime.seconds).unwrap();
    }
    write!(line, " {}", String::from_utf8_lossy(&entry.path)).unwrap();
    if attributes.kind == FileKind::Symlink {
        let target = entry.vnode.readlink(&root_user()).unwrap();
        write!(line, " -> {}", String::from_utf8_lossy(&target)).unwrap();
    }
    line + "\n"
}

#[test]
fn trees_without_attributes() {
    check("plain", "", TreeKind::Plain, false);
    check("joliet", "", TreeKind::Joliet, false);
    check("enhanced", "", TreeKind::Enhanced, false);
}

#[test]
fn rock_ridge_in_all_its_forms() {
    for name in ["rock-ridge", "rock-ridge-1.12", "rock-ridge-xa", "relocated"] {
        check(name, "", TreeKind::RockRidge, true);
    }
}

#[test]
fn data_in_all_their_forms() {
    for name in ["zisofs-1", "zisofs-2"] {
        check(name, "", TreeKind::RockRidge, true);
        let stored = open(name, "zisofs=no");
        assert!(read(&find(&stored, "words").unwrap()).unwrap().len() < 10_000, "it is compressed");
    }
    check("two-extents", "", TreeKind::RockRidge, false);
    let raw = check("whole-sectors", "", TreeKind::RockRidge, true);
    assert_eq!(raw.information().sector_size, Some(2352));
}

#[test]
fn several_sessions() {
    let grown = check("sessions-grown", "", TreeKind::RockRidge, false);
    assert_eq!(grown.information().sessions.len(), 2);
    assert_eq!(names(&open("sessions-grown", "session=1").root()), ["readme.txt"]);
    let appended = check("sessions-appended", "", TreeKind::RockRidge, false);
    assert_eq!(appended.information().sessions.len(), 2);
    assert_eq!(names(&open("sessions-appended", "session=1").root()), ["sub"]);
}

#[test]
fn boot_images() {
    let file_system = check("boot", "", TreeKind::RockRidge, true);
    assert_eq!(names(&find(&file_system, "[BOOT]").unwrap()), ["01-bios.img", "catalog"]);
    let image = read(&find(&file_system, "[BOOT]/01-bios.img").unwrap()).unwrap();
    assert_eq!(image, read(&find(&file_system, "loader.bin").unwrap()).unwrap()[..image.len()]);
}

#[test]
fn every_kept_image_is_tested() {
    let kept = fs::read_dir(path("x", "y").parent().unwrap()).unwrap();
    let is_image = |name: &str| name.ends_with(".iso.gz");
    let kept =
        kept.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| is_image(name)).count();
    assert_eq!(kept, 14, "add the others to the tests above");
}

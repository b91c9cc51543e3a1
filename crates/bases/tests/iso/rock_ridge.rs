//! Rock Ridge: images show what they were made from.

use plyfs_bases::iso::TreeKind;
use vnode::FileSystem;

use crate::compare::{Compared, assert_same};
use crate::image::{Workshop, find, names, open};
use crate::source;
use crate::tools::{genisoimage, run, xorriso};

#[test]
fn objects_of_all_kinds_as_xorriso_writes_them() {
    let workshop = Workshop::new();
    source::kinds(&workshop.source());
    xorriso(&["-R"], &workshop.path("image"), &workshop.source());
    let file_system = open(&workshop.path("image"), "");
    assert_eq!(file_system.information().tree, TreeKind::RockRidge);
    assert_same(&file_system, &workshop.source(), Compared::All);
    let hard_link = find(&file_system, "directory/hard link").unwrap();
    assert_eq!(hard_link.getattr(&crate::image::root_user()).unwrap().nlink, 2);
}

#[test]
fn objects_of_all_kinds_as_genisoimage_writes_them() {
    let workshop = Workshop::new();
    source::kinds(&workshop.source());
    genisoimage(&["-R", "-J"], &workshop.path("image"), &workshop.source());
    let file_system = open(&workshop.path("image"), "");
    assert_eq!(file_system.information().tree, TreeKind::RockRidge);
    assert_same(&file_system, &workshop.source(), Compared::All);
}

#[test]
fn rrip_1_12_with_serial_numbers() {
    let workshop = Workshop::new();
    source::kinds(&workshop.source());
    let arguments = ["-compliance", "new_rr", "-as", "mkisofs", "-quiet", "-R", "--hardlinks", "-o"];
    run("xorriso", &arguments, &[&workshop.path("image"), &workshop.source()]);
    assert_same(&open(&workshop.path("image"), ""), &workshop.source(), Compared::All);
}

#[test]
fn relocated_directories_are_where_they_belong() {
    let workshop = Workshop::new();
    source::deep(&workshop.source(), 14);
    genisoimage(&["-R"], &workshop.path("genisoimage"), &workshop.source());
    genisoimage(&["-R", "-hide-rr-moved"], &workshop.path("hidden"), &workshop.source());
    xorriso(&["-R", "-rr_reloc_dir", "rr_moved"], &workshop.path("xorriso"), &workshop.source());
    xorriso(&["-R", "-rr_reloc_dir", "/"], &workshop.path("into-root"), &workshop.source());
    for image in ["genisoimage", "hidden", "xorriso", "into-root"] {
        eprintln!("{image}");
        assert_same(&open(&workshop.path(image), ""), &workshop.source(), Compared::All);
    }
}

#[test]
fn a_directory_for_relocated_ones_that_has_others_too_is_shown() {
    let workshop = Workshop::new();
    source::deep(&workshop.source(), 9);
    std::fs::create_dir(workshop.source().join("rr_moved")).unwrap();
    source::file(&workshop.source().join("rr_moved/own"), 9);
    xorriso(&["-R", "-rr_reloc_dir", "rr_moved"], &workshop.path("image"), &workshop.source());
    let file_system = open(&workshop.path("image"), "");
    assert_eq!(names(&file_system.root()), ["level 1", "rr_moved"]);
    assert_eq!(names(&find(&file_system, "rr_moved").unwrap()), ["own"]);
}

#[test]
fn directories_that_are_too_deep_without_relocation() {
    let workshop = Workshop::new();
    source::deep(&workshop.source(), 30);
    xorriso(&["-R", "-D"], &workshop.path("image"), &workshop.source());
    assert_same(&open(&workshop.path("image"), ""), &workshop.source(), Compared::All);
}

#[test]
fn names_and_targets_continue_outside_of_their_records() {
    let workshop = Workshop::new();
    source::long(&workshop.source(), 20);
    xorriso(&["-R"], &workshop.path("image"), &workshop.source());
    assert_same(&open(&workshop.path("image"), ""), &workshop.source(), Compared::All);
}

#[test]
fn a_directory_of_many_blocks() {
    let workshop = Workshop::new();
    source::many(&workshop.source().join("many"), 3_000);
    xorriso(&["-R"], &workshop.path("xorriso"), &workshop.source());
    genisoimage(&["-R"], &workshop.path("genisoimage"), &workshop.source());
    for image in ["xorriso", "genisoimage"] {
        assert_same(&open(&workshop.path(image), ""), &workshop.source(), Compared::All);
    }
}

#[test]
fn an_empty_image() {
    let workshop = Workshop::new();
    genisoimage(&["-R"], &workshop.path("image"), &workshop.source());
    let file_system = open(&workshop.path("image"), "");
    assert!(names(&file_system.root()).is_empty());
}

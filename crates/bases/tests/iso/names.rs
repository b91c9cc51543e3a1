//! Names without Rock Ridge: Joliet, ISO 9660:1999, and plain ones.

use std::fs;

use plyfs_bases::iso::{IsoFileSystem, TreeKind};
use vnode::FileSystem;

use crate::compare::{Compared, assert_same};
use crate::image::{Workshop, find, names, open, read, root_user};
use crate::source;
use crate::tools::{genisoimage, xorriso};

/// A source with names that fit into Joliet.
fn source(workshop: &Workshop) {
    let source = workshop.source();
    fs::create_dir_all(source.join("Ein Ordner/inner")).unwrap();
    source::file(&source.join("Grüße 😀.txt"), 3000);
    source::file(&source.join("Ein Ordner/Mixed Case"), 5);
    source::file(&source.join("Ein Ordner/inner/a.b.c"), 0);
    source::deep(&source.join("deep"), 3);
}

fn tree(file_system: &IsoFileSystem) -> TreeKind {
    file_system.information().tree
}

#[test]
fn joliet_names_are_unicode() {
    let workshop = Workshop::new();
    source(&workshop);
    let source = workshop.source();
    xorriso(&["--norock", "-J", "-joliet-utf16"], &workshop.path("xorriso"), &source);
    let file_system = open(&workshop.path("xorriso"), "");
    assert_eq!(tree(&file_system), TreeKind::Joliet);
    assert_same(&file_system, &source, Compared::Contents);
    // It writes no characters outside of the basic plane.
    fs::rename(source.join("Grüße 😀.txt"), source.join("Grüße.txt")).unwrap();
    genisoimage(&["-J", "-D", "-input-charset", "utf-8"], &workshop.path("genisoimage"), &source);
    genisoimage(&["-J", "-R", "-D", "-input-charset", "utf-8"], &workshop.path("both"), &source);
    for (image, options) in [("genisoimage", ""), ("both", "rock=no")] {
        let file_system = open(&workshop.path(image), options);
        assert_eq!(tree(&file_system), TreeKind::Joliet);
        assert_same(&file_system, &source, Compared::Contents);
    }
    assert_eq!(tree(&open(&workshop.path("both"), "")), TreeKind::RockRidge);
}

#[test]
fn attributes_are_those_of_the_options() {
    let workshop = Workshop::new();
    source(&workshop);
    xorriso(&["--norock", "-J"], &workshop.path("image"), &workshop.source());
    let file_system = open(&workshop.path("image"), "uid=7,gid=8,mode=640,dmode=750");
    let shown = |path| {
        let attributes = find(&file_system, path).unwrap().getattr(&root_user()).unwrap();
        (attributes.uid, attributes.gid, attributes.mode)
    };
    assert_eq!(shown("Ein Ordner"), (7, 8, 0o750));
    assert_eq!(shown("Ein Ordner/Mixed Case"), (7, 8, 0o640));
}

#[test]
fn plain_names_are_mapped() {
    let workshop = Workshop::new();
    let source = workshop.source();
    fs::create_dir(source.join("SUB.DIR")).unwrap();
    for name in ["README.TXT", "NOEXT", "SUB.DIR/FILE.C"] {
        source::file(&source.join(name), 100);
    }
    genisoimage(&[], &workshop.path("image"), &source);
    for (options, expected) in [
        ("", ["noext", "readme.txt", "sub.dir"]),
        ("names=lower", ["noext", "readme.txt", "sub.dir"]),
        ("names=as-is", ["NOEXT", "README.TXT", "SUB.DIR"]),
        ("names=raw", ["NOEXT.;1", "README.TXT;1", "SUB.DIR"]),
    ] {
        let file_system = open(&workshop.path("image"), options);
        assert_eq!(tree(&file_system), TreeKind::Plain);
        assert_eq!(names(&file_system.root()), expected);
    }
    let file_system = open(&workshop.path("image"), "names=as-is");
    assert_same(&file_system, &source, Compared::Contents);
}

#[test]
fn every_interchange_level_is_read() {
    let workshop = Workshop::new();
    let source = workshop.source();
    fs::create_dir_all(source.join("SUB/INNER")).unwrap();
    for name in ["README.TXT", "SUB/A", "SUB/INNER/B.C"] {
        source::file(&source.join(name), 3_000);
    }
    for level in ["1", "2", "3", "4"] {
        let image = workshop.path(level);
        genisoimage(&["-iso-level", level], &image, &source);
        assert_same(&open(&image, "names=as-is"), &source, Compared::Contents);
        // With Rock Ridge, and with tables of names for other systems, which are files like all others.
        genisoimage(&["-iso-level", level, "-R", "-T"], &image, &source);
        let file_system = open(&image, "");
        assert_eq!(names(&find(&file_system, "SUB").unwrap()), ["A", "INNER", "TRANS.TBL"]);
        assert_eq!(read(&find(&file_system, "SUB/A").unwrap()).unwrap(), fs::read(source.join("SUB/A")).unwrap());
    }
}

#[test]
fn an_enhanced_descriptor_has_long_names() {
    let workshop = Workshop::new();
    source(&workshop);
    xorriso(&["--norock", "-iso-level", "4"], &workshop.path("image"), &workshop.source());
    let file_system = open(&workshop.path("image"), "");
    assert_eq!(tree(&file_system), TreeKind::Enhanced);
    assert!(file_system.information().has_enhanced);
    let file = find(&file_system, "Ein Ordner/Mixed Case").unwrap();
    assert_eq!(read(&file).unwrap(), fs::read(workshop.source().join("Ein Ordner/Mixed Case")).unwrap());
    assert_eq!(tree(&open(&workshop.path("image"), "enhanced=no")), TreeKind::Plain);
}

#[test]
fn what_is_described_can_be_opened_again() {
    let workshop = Workshop::new();
    source(&workshop);
    xorriso(&["--norock", "-J", "-V", "A_VOLUME"], &workshop.path("image"), &workshop.source());
    let file_system = open(&workshop.path("image"), "");
    let description = &file_system.describe()[0];
    assert_eq!(description.kind, "iso");
    assert!(description.details.starts_with("test.iso, uid="), "{}", description.details);
    let text = file_system.information().to_string();
    for line in ["image       test.iso\n", "tree        Joliet\n", "name        A_VOLUME\n", "joliet      level 3\n"] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

//! El Torito: boot images are files.

use std::fs;

use plyfs_bases::iso::{BootMedium, BootPlatform};
use vnode::{Errno, FileKind, FileSystem};

use crate::compare::{Compared, assert_same};
use crate::image::{Workshop, find, list, names, open, read, root_user};
use crate::source;
use crate::tools::{genisoimage, xorriso};

#[test]
fn images_for_several_platforms() {
    let workshop = Workshop::new();
    let source = workshop.source();
    source::file(&source.join("loader.bin"), 10_000);
    source::file(&source.join("efi.img"), 40_000);
    let bios = ["-b", "loader.bin", "-c", "boot.cat", "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table"];
    let efi = ["-eltorito-alt-boot", "-e", "efi.img", "-no-emul-boot"];
    xorriso(&[&["-R"][..], &bios, &efi].concat(), &workshop.path("image"), &source);
    let file_system = open(&workshop.path("image"), "");
    assert_eq!(names(&file_system.root()), ["[BOOT]", "boot.cat", "efi.img", "loader.bin"]);
    let boot = find(&file_system, "[BOOT]").unwrap();
    assert_eq!(names(&boot), ["01-bios.img", "02-efi.img", "catalog"]);
    let contents = |path| read(&find(&file_system, path).unwrap()).unwrap();
    assert_eq!(contents("[BOOT]/01-bios.img"), contents("loader.bin"), "the table in it says how long it is");
    assert!(contents("[BOOT]/02-efi.img").starts_with(&contents("efi.img")));
    assert!(contents("boot.cat").starts_with(&contents("[BOOT]/catalog")));
    let images = &file_system.information().boot_images;
    assert_eq!((images[0].image.platform, images[0].image.medium), (BootPlatform::Bios, BootMedium::NoEmulation));
    assert_eq!(
        (images[1].image.platform, images[1].size),
        (BootPlatform::Efi, contents("[BOOT]/02-efi.img").len() as u64)
    );
    for vnode in [boot.clone(), find(&file_system, "[BOOT]/catalog").unwrap()] {
        let resolved = file_system.resolve(&root_user(), &vnode.handle()).unwrap();
        assert_eq!(resolved.getattr(&root_user()), vnode.getattr(&root_user()));
        assert_eq!(resolved.path(), vnode.path());
    }
    assert_eq!(boot.parent(&root_user()).unwrap().handle(), file_system.root().handle());
    assert_eq!(find(&file_system, "[BOOT]/other").err(), Some(Errno::ENOENT));
    let (entries, _) = list(&file_system.root());
    let entry = entries.iter().find(|(name, ..)| name == "[BOOT]").unwrap();
    assert_eq!((entry.1, entry.2), (boot.getattr(&root_user()).unwrap().ino, Some(FileKind::Directory)));
}

#[test]
fn a_diskette_and_the_option_not_to_show_it() {
    let workshop = Workshop::new();
    let source = workshop.source();
    source::file(&source.join("floppy"), 1_474_560);
    genisoimage(&["-R", "-b", "floppy", "-c", "boot.cat"], &workshop.path("image"), &source);
    let file_system = open(&workshop.path("image"), "uid=9,mode=600");
    let diskette = find(&file_system, "[BOOT]/01-bios.img").unwrap();
    assert_eq!(read(&diskette).unwrap(), fs::read(source.join("floppy")).unwrap());
    let attributes = diskette.getattr(&root_user()).unwrap();
    assert_eq!((attributes.uid, attributes.mode), (9, 0o600));
    let without = open(&workshop.path("image"), "boot=no");
    assert_eq!(names(&without.root()), ["boot.cat", "floppy"]);
    assert_eq!(without.resolve(&root_user(), &diskette.handle()).err(), Some(Errno::ESTALE));
}

#[test]
fn an_object_of_the_same_name_keeps_it() {
    let workshop = Workshop::new();
    let source = workshop.source();
    source::file(&source.join("floppy"), 1_474_560);
    source::file(&source.join("[BOOT]"), 5);
    genisoimage(&["-R", "-b", "floppy", "-c", "boot.cat"], &workshop.path("image"), &source);
    let file_system = open(&workshop.path("image"), "");
    assert_eq!(names(&file_system.root()), ["[BOOT]", "[BOOT]~2", "boot.cat", "floppy"]);
    assert_eq!(find(&file_system, "[BOOT]").unwrap().kind(), FileKind::Regular);
    assert_eq!(find(&file_system, "[BOOT]~2").unwrap().path().unwrap(), b"[BOOT]~2");
    fs::remove_file(source.join("[BOOT]")).unwrap();
    genisoimage(&["-R"], &workshop.path("none"), &source);
    assert_same(&open(&workshop.path("none"), ""), &source, Compared::All);
}

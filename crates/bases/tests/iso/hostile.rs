//! Images that lie: the object concerned is an error, and everything else can be read.

use std::fs;
use std::path::Path;

use plyfs_bases::iso::IsoFileSystem;
use vnode::{Errno, FileSystem, VnodeRef};

use crate::fields::ImageBytes;
use crate::image::{Workshop, find, list, names, open_bytes, read};
use crate::source;
use crate::tools::genisoimage;

/// Returns an image with directories `A/B/C` and `D`, and a file in each and in the root.
fn image(arguments: &[&str]) -> ImageBytes {
    image_of(arguments, |root| {
        fs::create_dir_all(root.join("A/B/C")).unwrap();
        fs::create_dir(root.join("D")).unwrap();
        for directory in ["", "A", "A/B", "A/B/C", "D"] {
            source::file(&root.join(directory).join("FILE"), 100);
        }
    })
}

fn image_of(arguments: &[&str], fill: impl Fn(&Path)) -> ImageBytes {
    let workshop = Workshop::new();
    fill(&workshop.source());
    genisoimage(arguments, &workshop.path("image"), &workshop.source());
    ImageBytes(fs::read(workshop.path("image")).unwrap())
}

fn open(image: &ImageBytes) -> IsoFileSystem {
    open_bytes(&image.0, "names=as-is").unwrap()
}

/// Returns the paths of everything that a walk sees, and of everything that it cannot read.
fn walk(file_system: &IsoFileSystem) -> (Vec<String>, Vec<String>) {
    let (mut seen, mut errors) = (Vec::new(), Vec::new());
    for entry in file_system.walk() {
        match entry {
            Ok(entry) => seen.push(String::from_utf8(entry.path).unwrap()),
            Err(error) => {
                assert_eq!(error.errno, Errno::EIO);
                errors.push(String::from_utf8(error.path).unwrap());
            }
        }
        assert!(seen.len() + errors.len() < 1000);
    }
    seen.sort();
    (seen, errors)
}

#[test]
fn a_directory_that_is_its_own_ancestor() {
    for (path, target) in [
        (&["A", "B"][..], &["A"][..]),
        (&["A", "B"], &["A", "B"]),
        (&["A", "B"], &[]),
        (&[], &[]),
        (&["D"], &["A", "B"]),
    ] {
        for arguments in [&[][..], &["-R"]] {
            let mut image = image(arguments);
            let (block, target_block) = (image.directory(path), image.directory(target));
            let name = if path == ["D"] {
                "FILE.;1"
            } else if path.is_empty() {
                "D"
            } else {
                "C"
            };
            let record = image.record(block, name);
            image.0[record + 25] |= 2;
            image.set(record + 2, target_block);
            if path == ["D"] && !arguments.is_empty() {
                continue;
            }
            let file_system = open(&image);
            let (seen, errors) = walk(&file_system);
            let lying = [path, &[name]].concat().join("/");
            assert_eq!(errors, std::slice::from_ref(&lying), "{target:?}: {seen:?}");
            assert!(seen.contains(&"A/FILE".to_owned()) && !seen.contains(&lying));
        }
    }
}

#[test]
fn a_directory_that_is_listed_twice() {
    let mut image = image(&["-R"]);
    let (root, target) = (image.root(), image.directory(&["A"]));
    let record = image.record(root, "D");
    image.set(record + 2, target);
    let (seen, errors) = walk(&open(&image));
    assert_eq!(errors, ["D"]);
    assert_eq!(seen, ["", "A", "A/B", "A/B/C", "A/B/C/FILE", "A/B/FILE", "A/FILE", "FILE"]);
}

#[test]
fn relocations_in_a_circle() {
    let image = image_of(&["-R"], |root| source::deep(root, 10));
    let path = ["LEVEL_1", "LEVEL_2", "LEVEL_3", "LEVEL_4", "LEVEL_5", "LEVEL_6", "LEVEL_7"];
    let last = image.directory(&path);
    let records = image.records(last);
    let link =
        records.iter().find(|record| image.0[**record + 25] & 2 == 0 && image.number(**record + 10) == 0).unwrap();
    let entry = image.entry(*link, b"CL");
    for target in [image.root(), last, image.directory(&path[..3]), image.directory(&["RR_MOVED"]), 0, 1_000_000] {
        let mut image = image.clone();
        image.set(entry + 4, target);
        let (seen, errors) = walk(&open(&image));
        assert_eq!(errors.len(), 1, "{target}: {errors:?}");
        assert!(seen.iter().any(|path| path.ends_with("level 7/file")), "{seen:?}");
    }
}

#[test]
fn continuation_areas_in_a_circle() {
    let image = image_of(&["-R"], |root| {
        source::file(&root.join("n".repeat(200)), 5);
        source::file(&root.join("other"), 6);
    });
    let record = image.records(image.root())[2];
    let entry = image.entry(record, b"CE");
    let (block, offset) = (image.number(entry + 4), image.number(entry + 12));
    let area = block * 2048 + offset;
    let mut circle = image.clone();
    let link = image.0[entry..entry + 28].to_vec();
    circle.0[area..area + 28].copy_from_slice(&link);
    let mut outside = image.clone();
    outside.set(entry + 4, 0x0fff_ffff);
    let mut overflowing = image.clone();
    overflowing.set(entry + 12, 0xffff_ffff);
    overflowing.set(entry + 20, 0xffff_ffff);
    for image in [circle, outside, overflowing] {
        let file_system = open(&image);
        let (seen, errors) = walk(&file_system);
        assert_eq!((seen, errors.len()), (vec![String::new(), "other".to_owned()], 1));
        assert_eq!(read(&find(&file_system, "other").unwrap()).unwrap().len(), 6);
    }
}

#[test]
fn data_outside_of_the_image() {
    let mut image = image(&["-R"]);
    let root = image.root();
    let record = image.record(root, "FILE.;1");
    image.set(record + 2, image.0.len() / 2048 - 1);
    image.set(record + 10, 3000);
    let directory = image.record(root, "D");
    image.set(directory + 2, 0x7fff_ffff);
    let file_system = open(&image);
    let vnode = find(&file_system, "FILE").unwrap();
    assert_eq!(read(&vnode).err(), Some(Errno::EIO));
    assert_eq!(find(&file_system, "D").err(), Some(Errno::EIO));
    let (seen, errors) = walk(&file_system);
    assert_eq!(errors, ["D"]);
    assert!(seen.contains(&"A/B/C/FILE".to_owned()));
}

#[test]
fn directories_of_impossible_length() {
    for length in [0xffff_ffff, 0x7fff_ffff, 1 << 20] {
        let mut image = image(&["-R"]);
        let block = image.directory(&["D"]);
        image.set(block * 2048 + 10, length);
        let (_, errors) = walk(&open(&image));
        assert_eq!(errors, ["D"], "{length}");
    }
    let mut image = image(&[]);
    let record = image.record(image.root(), "D");
    image.set(record + 10, 0);
    let file_system = open(&image);
    assert!(names(&find(&file_system, "D").unwrap()).is_empty(), "a directory without data is empty");
    let handle = find(&file_system, "D").unwrap().handle();
    assert_eq!(file_system.resolve(&crate::image::root_user(), &handle).unwrap().path().unwrap(), b"D");
}

#[test]
fn a_directory_beyond_the_memory() {
    let image = image_of(&["-R"], |root| source::many(&root.join("many"), 20_000));
    let file_system = open_bytes(&image.0, "memory=4m").unwrap();
    let many: VnodeRef = find(&file_system, "many").unwrap();
    assert_eq!(list(&many).1, Some(Errno::ENOMEM));
    let file_system = open_bytes(&image.0, "memory=32m").unwrap();
    assert_eq!(names(&find(&file_system, "many").unwrap()).len(), 20_000);
}

#[test]
fn records_that_make_no_sense() {
    let mut image = image_of(&["-R"], |root| {
        for name in ["A", "B", "C"] {
            source::file(&root.join(name), 5);
        }
    });
    let record = image.record(image.root(), "B.;1");
    image.0[record] = 7;
    let file_system = open(&image);
    let (entries, error) = list(&file_system.root());
    assert_eq!(entries.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["A"]);
    assert_eq!(error, Some(Errno::EIO), "after all entries");
    assert_eq!(read(&find(&file_system, "A").unwrap()).unwrap().len(), 5);
    assert_eq!(find(&file_system, "missing").err(), Some(Errno::EIO), "it may be in a record that makes no sense");
    assert_eq!(walk(&file_system), (vec![String::new(), "A".to_owned()], vec![String::new()]));
}

#[test]
fn names_that_unix_does_not_allow() {
    let image = image_of(&["-R"], |root| {
        for name in ["aa", "bb", "cc", "dd", "ee", "ff"] {
            source::file(&root.join(name), 5);
        }
    });
    let root = image.root();
    let mut image = image;
    for (identifier, name) in
        [("AA.;1", b"a/"), ("BB.;1", b"\0b"), ("CC.;1", b".."), ("DD.;1", b"ff"), ("EE.;1", b"\xff\n")]
    {
        let entry = image.entry(image.record(root, identifier), b"NM");
        image.0[entry + 5..entry + 7].copy_from_slice(name);
    }
    let file_system = open(&image);
    let shown: Vec<_> = file_system.walk().skip(1).map(|entry| entry.ok().unwrap().path).collect();
    assert_eq!(shown, [&b"a_"[..], b"_b", b"__", b"ff", b"\xff\n", b"ff~2"]);
    assert_eq!(file_system.root().lookup(&crate::image::root_user(), vnode::Name::new(b"\xff\n").unwrap()).err(), None);
}

#[test]
fn open_directories_do_not_keep_what_is_in_them() {
    let image = image_of(&["-R"], |root| (0..8).for_each(|number| source::many(&root.join(number.to_string()), 4_000)));
    let file_system = open_bytes(&image.0, "memory=4m").unwrap();
    let directories: Vec<_> = (0..8).map(|number| find(&file_system, &number.to_string()).unwrap()).collect();
    let opened: Vec<_> =
        directories.iter().map(|vnode| vnode.open_directory(&crate::image::root_user()).unwrap()).collect();
    // Together they take more than the memory, and all can be read.
    for open in opened.iter().chain(&opened) {
        let mut count = 0;
        let sink = &mut |_: vnode::DirectoryEntry<'_>| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        };
        open.read(&crate::image::root_user(), vnode::Cookie::START, sink).unwrap();
        assert_eq!(count, 4_000);
    }
}

#[test]
fn a_file_of_too_many_extents() {
    let mut image = image_of(&["-R"], |root| source::many(root, 5_000));
    let records = image.records(image.root());
    let first = image.identifier(records[2]).to_vec();
    for record in &records[2..records.len() - 1] {
        image.0[record + 25] |= 0x80;
    }
    for record in &records[2..] {
        assert_eq!(image.0[record + 32] as usize, first.len());
        image.0[record + 33..record + 33 + first.len()].copy_from_slice(&first);
        image.set(record + 10, 1);
    }
    let file_system = open(&image);
    let names = names(&file_system.root());
    assert_eq!(names.len(), 1, "all records are of one file");
    assert_eq!(find(&file_system, &names[0]).err(), Some(Errno::EIO));
}

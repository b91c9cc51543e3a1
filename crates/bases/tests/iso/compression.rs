//! zisofs: compressed files show what they were made from.

use std::fs;
use std::path::Path;

use vnode::{Errno, FileSystem, OpenFlags};

use crate::compare::{Compared, assert_same};
use crate::image::{Workshop, find, open, open_bytes, read, root_user};
use crate::source;
use crate::tools::{genisoimage, run};

/// A source with files that compress well, badly, and to nothing.
fn source(root: &Path) {
    let words: Vec<u8> = (0..400_000u32).flat_map(|number| format!("{} ", number % 977).into_bytes()).collect();
    fs::create_dir_all(root.join("zeros")).unwrap();
    fs::write(root.join("words"), &words[..300_000]).unwrap();
    fs::write(root.join("exactly two blocks"), &words[..2 * 131_072]).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    fs::write(root.join("random"), (0..200_000).map(|_| random.u8(..)).collect::<Vec<_>>()).unwrap();
    fs::write(root.join("zeros/zeros"), vec![0; 500_000]).unwrap();
    let holes: Vec<u8> =
        words[..140_000].iter().copied().chain(vec![0; 300_000]).chain(words[..70_000].to_vec()).collect();
    fs::write(root.join("zeros/between"), holes).unwrap();
    source::file(&root.join("small"), 10);
    source::file(&root.join("empty"), 0);
}

/// Makes an image with xorriso, which compresses by these settings.
fn compressed(workshop: &Workshop, settings: &str) {
    let (image, source) = (workshop.path("image"), workshop.source());
    let (image, source) = (image.to_str().unwrap(), source.to_str().unwrap());
    let setup = ["-outdev", image, "-zisofs", settings, "-map", source, "/"];
    let filter = ["-set_filter_r", "--zisofs", "/", "--", "-commit", "-end"];
    run("xorriso", &[&setup[..], &filter[..]].concat(), &[]);
}

#[test]
fn version_1_of_both_writers() {
    let workshop = Workshop::new();
    source(&workshop.source());
    run("mkzftree", &[], &[&workshop.source(), &workshop.path("compressed")]);
    genisoimage(&["-R", "-z"], &workshop.path("genisoimage"), &workshop.path("compressed"));
    assert_same(&open(&workshop.path("genisoimage"), ""), &workshop.source(), Compared::All);
    assert_same(&open(&workshop.path("genisoimage"), "zisofs=no"), &workshop.path("compressed"), Compared::All);
    for size in ["32k", "64k", "128k"] {
        fs::remove_file(workshop.path("image")).ok();
        compressed(&workshop, &format!("level=6:block_size={size}"));
        assert_same(&open(&workshop.path("image"), "memory=4m"), &workshop.source(), Compared::All);
    }
}

#[test]
fn version_2_with_either_signature() {
    let workshop = Workshop::new();
    source(&workshop.source());
    for settings in ["version_2=on:block_size_v2=32k", "version_2=on:block_size_v2=1m:susp_z2=on"] {
        fs::remove_file(workshop.path("image")).ok();
        compressed(&workshop, settings);
        assert_same(&open(&workshop.path("image"), "memory=4m"), &workshop.source(), Compared::All);
    }
}

#[test]
fn parts_of_files_are_read_in_any_order() {
    let workshop = Workshop::new();
    source(&workshop.source());
    compressed(&workshop, "level=1");
    let file_system = open(&workshop.path("image"), "");
    let expected = fs::read(workshop.source().join("zeros/between")).unwrap();
    let file = find(&file_system, "zeros/between").unwrap().open(&root_user(), OpenFlags::READ).unwrap();
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..200 {
        let (offset, length) = (random.usize(..expected.len() + 10), random.usize(..100_000));
        let mut buffer = vec![0xaa; length];
        let read = file.read_at(&root_user(), offset as u64, &mut buffer).unwrap();
        let end = (offset + length).min(expected.len());
        assert!(buffer[..read] == expected[offset.min(end)..end]);
    }
}

#[test]
fn other_algorithms_and_damaged_blocks_are_errors_of_the_file() {
    let workshop = Workshop::new();
    source(&workshop.source());
    compressed(&workshop, "version_2=on");
    let image = fs::read(workshop.path("image")).unwrap();
    let positions = |pattern: &[u8]| -> Vec<usize> {
        image.windows(pattern.len()).enumerate().filter(|(_, it)| *it == pattern).map(|(at, _)| at).collect()
    };
    let entries = positions(b"ZF\x10\x02PZ");
    assert!(!entries.is_empty());
    let mut other = image.clone();
    entries.iter().for_each(|at| other[at + 4..at + 6].copy_from_slice(b"XZ"));
    let file_system = open_bytes(&other, "").unwrap();
    let words = find(&file_system, "words").unwrap();
    assert_eq!(words.getattr(&root_user()).unwrap().size, 300_000);
    assert_eq!(words.open(&root_user(), OpenFlags::READ).err(), Some(Errno::EOPNOTSUPP));
    assert_eq!(read(&find(&file_system, "small").unwrap()).unwrap().len(), 10);
    // The headers of the files.
    let mut damaged = image.clone();
    positions(&[0xef, 0x22, 0x55, 0xa1]).iter().for_each(|at| damaged[*at] = 0);
    let file_system = open_bytes(&damaged, "").unwrap();
    let words = find(&file_system, "words").unwrap();
    assert_eq!(words.open(&root_user(), OpenFlags::READ).err(), Some(Errno::EIO));
    assert!(open_bytes(&damaged, "zisofs=no").unwrap().walk().all(|entry| entry.is_ok()));
    // Everything behind a header.
    let mut damaged = image.clone();
    positions(&[0xef, 0x22, 0x55, 0xa1]).iter().for_each(|at| damaged[at + 24..at + 4000].fill(0x55));
    let words = find(&open_bytes(&damaged, "").unwrap(), "words").unwrap();
    assert_eq!(read(&words).err(), Some(Errno::EIO));
    assert!(open_bytes(&damaged, "").unwrap().root().getattr(&root_user()).is_ok());
}

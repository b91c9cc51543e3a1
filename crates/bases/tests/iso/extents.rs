//! Files of several extents, and with holes.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use vnode::{Errno, FileSystem, OpenFlags};

use crate::fields::ImageBytes;
use crate::image::{Workshop, find, names, open, open_bytes, read, root_user};
use crate::source;
use crate::tools::{genisoimage, xorriso};

/// Returns an image with two files `A` and `B`, of which the second one continues the first.
fn continued() -> ImageBytes {
    let workshop = Workshop::new();
    source::file(&workshop.source().join("A"), 3000);
    source::file(&workshop.source().join("B"), 4000);
    source::file(&workshop.source().join("C"), 5);
    genisoimage(&["-R"], &workshop.path("image"), &workshop.source());
    let mut image = ImageBytes(fs::read(workshop.path("image")).unwrap());
    let [first, second] = ["A.;1", "B.;1"].map(|name| image.record(image.root(), name));
    image.0[first + 25] |= 0x80;
    image.0[second + 33] = b'A';
    image
}

#[test]
fn a_file_of_two_extents() {
    let image = continued();
    let parts = |file_system| read(&find(&file_system, "A").unwrap()).unwrap();
    let workshop = Workshop::new();
    let expected = ["A", "B"].map(|name| {
        let path = workshop.source().join(name);
        source::file(&path, if name == "A" { 3000 } else { 4000 });
        fs::read(path).unwrap()
    });
    let file_system = open_bytes(&image.0, "boot=no").unwrap();
    assert_eq!(names(&file_system.root()), ["A", "C"]);
    assert_eq!(parts(file_system), expected.concat());
    let plain = open_bytes(&image.0, "rock=no,names=as-is").unwrap();
    assert_eq!(names(&plain.root()), ["A", "C"]);
    assert_eq!(parts(plain), expected.concat());
}

#[test]
fn a_file_whose_last_extent_is_missing_is_damaged() {
    let mut image = continued();
    let second = image.records(image.root())[3];
    image.0[second + 33] = b'B';
    let file_system = open_bytes(&image.0, "").unwrap();
    assert_eq!(names(&file_system.root()), ["A", "B", "C"]);
    assert_eq!(find(&file_system, "A").err(), Some(Errno::EIO));
    assert_eq!(read(&find(&file_system, "B").unwrap()).unwrap().len(), 4000);
    image.0[second + 33] = b'A';
    image.0[second + 25] |= 0x80;
    let file_system = open_bytes(&image.0, "").unwrap();
    assert_eq!(find(&file_system, "A").err(), Some(Errno::EIO));
    assert_eq!(read(&find(&file_system, "C").unwrap()).unwrap().len(), 5);
}

#[test]
fn an_interleaved_file() {
    let workshop = Workshop::new();
    source::file(&workshop.source().join("A"), 5 * 2048);
    genisoimage(&["-R"], &workshop.path("image"), &workshop.source());
    let mut image = ImageBytes(fs::read(workshop.path("image")).unwrap());
    let record = image.record(image.root(), "A.;1");
    let contents = read(&find(&open_bytes(&image.0, "").unwrap(), "A").unwrap()).unwrap();
    (image.0[record + 26], image.0[record + 27]) = (1, 1);
    image.set(record + 10, 2 * 2048 + 7);
    let interleaved = read(&find(&open_bytes(&image.0, "").unwrap(), "A").unwrap()).unwrap();
    assert_eq!(interleaved, [&contents[..2048], &contents[4096..6144], &contents[8192..8199]].concat());
}

#[test]
#[ignore = "writes 5 GiB"]
fn a_file_of_more_than_4_gib() {
    const SIZE: u64 = (5 << 30) + 12_345;
    let workshop = Workshop::new();
    let path = workshop.source().join("large");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.set_len(SIZE).unwrap();
    let marks = [0, (4 << 30) - 2048 - 8, (4 << 30) - 4, (4 << 30) + 77, SIZE - 8];
    marks.iter().for_each(|mark| file.write_all_at(&mark.to_be_bytes(), *mark).unwrap());
    xorriso(&["-R", "-iso-level", "3"], &workshop.path("image"), &workshop.source());
    let file_system = open(&workshop.path("image"), "");
    let vnode = find(&file_system, "large").unwrap();
    assert_eq!(vnode.getattr(&root_user()).unwrap().size, SIZE);
    let open_file = vnode.open(&root_user(), OpenFlags::READ).unwrap();
    for mark in marks {
        let mut bytes = [0; 8];
        assert_eq!(open_file.read_at(&root_user(), mark, &mut bytes), Ok(8));
        assert_eq!(u64::from_be_bytes(bytes), mark);
    }
    let mut buffer = vec![0xaa; 1 << 20];
    let start = (4 << 30) - (1 << 19);
    assert_eq!(open_file.read_at(&root_user(), start, &mut buffer), Ok(buffer.len()));
    let mut expected = vec![0; 1 << 20];
    file.read_exact_at(&mut expected, start).unwrap();
    assert!(buffer == expected);
}

//! The zstd layer: what it stores, and the kept images of its format.

use std::sync::Arc;

use bases::mem::{MemoryFileSystem, Options};
use vnode::{Caller, Creation, FileSystemRef, Name, OpenFileRef, OpenFlags, read_fully, write_fully};

fn root() -> Caller {
    Caller::with_groups(0, 0, &[], 0o022)
}

fn create(file_system: &FileSystemRef) -> OpenFileRef {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    file_system.root().create(&root(), Name::new(b"file").unwrap(), &how).unwrap().file
}

fn memory() -> FileSystemRef {
    Arc::new(MemoryFileSystem::new(Options { size: 1 << 30, inodes: 100, mode: 0o777, uid: 0, gid: 0 }))
}

fn zstd(options: &[(&str, &str)], lower: &FileSystemRef) -> FileSystemRef {
    let options: Vec<_> = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    samples::zstd::KIND.stack(&options, lower.clone()).unwrap()
}

fn contents(file_system: &FileSystemRef) -> Vec<u8> {
    let entry = file_system.root().lookup(&root(), Name::new(b"file").unwrap()).unwrap();
    let mut data = vec![0; entry.attributes.size as usize];
    let file = entry.vnode.open(&root(), OpenFlags::READ).unwrap();
    assert_eq!(read_fully(&*file, &root(), 0, &mut data), Ok(data.len()));
    data
}

/// A file system with a lower file of these bytes.
fn with_lower_file(bytes: &[u8]) -> FileSystemRef {
    let lower = memory();
    write_fully(&*create(&lower), &root(), 0, bytes).unwrap();
    lower
}

#[test]
fn text_takes_little_and_noise_no_more_than_it_has() {
    let (lower, mut random) = (memory(), fastrand::Rng::with_seed(1));
    let blocks = || {
        let entry = lower.root().lookup(&root(), Name::new(b"file").unwrap()).unwrap();
        entry.attributes.blocks * 512
    };
    let file_system = zstd(&[("level", "1")], &lower);
    let file = create(&file_system);
    let text = "the quick brown fox jumps over the lazy dog\n".repeat(50_000);
    write_fully(&*file, &root(), 0, text.as_bytes()).unwrap();
    assert!(blocks() < text.len() as u64 / 20, "{} for {}", blocks(), text.len());
    let noise: Vec<u8> = (0..1 << 20).map(|_| random.u8(..)).collect();
    file.truncate(&root(), 0).unwrap();
    write_fully(&*file, &root(), 0, &noise).unwrap();
    assert!(blocks() < noise.len() as u64 * 101 / 100 + 8192, "{} for {}", blocks(), noise.len());
    assert!(contents(&file_system) == noise);
}

#[test]
fn options_are_checked() {
    for (key, value) in [("level", "0"), ("level", "20"), ("block-size", "3"), ("block-size", "many"), ("size", "1")] {
        let refused = samples::zstd::KIND.stack(&[(key.to_owned(), value.to_owned())], memory());
        assert!(refused.is_err(), "{key}={value}");
    }
}

/// The file of the kept images: text, a hole, noise, and the part of a block.
fn kept_data() -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut data = "text that comes again, ".repeat(300).into_bytes();
    data.truncate(6000);
    data.resize(20_000, 0);
    data.extend((0..5_000).map(|_| random.u8(..)));
    data
}

/// Version 1, as it was written when it was new: with `PLYFS_WRITE_IMAGE`, it is written again.
#[test]
fn images_of_each_version_are_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images/block-map-1");
    let data = kept_data();
    if std::env::var_os("PLYFS_WRITE_IMAGE").is_some() {
        let lower = memory();
        let file = create(&zstd(&[("block-size", "4")], &lower));
        write_fully(&*file, &root(), 20_000, &data[20_000..]).unwrap();
        write_fully(&*file, &root(), 100, &data[100..6000]).unwrap();
        file.fsync(&root(), false).unwrap();
        write_fully(&*file, &root(), 25_000, &[1; 9000]).unwrap();
        file.truncate(&root(), 25_000).unwrap();
        write_fully(&*file, &root(), 0, &data[..100]).unwrap();
        std::fs::write(path, contents(&lower)).unwrap();
    }
    assert!(contents(&zstd(&[], &with_lower_file(&std::fs::read(path).unwrap()))) == data);
}

#[test]
fn the_example_of_the_page_is_read() {
    if std::env::var_os("PLYFS_WRITE_IMAGE").is_some() {
        let lower = memory();
        create(&zstd(&[], &lower)).write_at(&root(), 0, b"hello, world\n").unwrap();
        for line in contents(&lower).chunks(16) {
            println!("{}", line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "));
        }
    }
    let page = include_str!("../../../docs/formats/block-map.md");
    let example = page.split("```").nth(1).unwrap();
    let digits: Vec<u8> = example.lines().filter_map(|line| line.split("  ").next()).flat_map(str::bytes).collect();
    let digits: Vec<u8> = digits.into_iter().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
    assert_eq!(bytes.len(), 256);
    assert_eq!(contents(&zstd(&[], &with_lower_file(&bytes))), b"hello, world\n");
}

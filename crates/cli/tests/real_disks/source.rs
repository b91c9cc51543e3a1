//! A tree to be stored: files of all sizes around those of clusters, names of all lengths, and for Unix objects of all kinds.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Makes the files and directories that FAT can store.
pub(crate) fn make(root: &Path) {
    fs::create_dir_all(root.join("a directory/inner/Deeper")).unwrap();
    let longest = "l".repeat(255);
    let names = [
        "SHORT.TXT",
        "lower.txt",
        "Mixed Case and spaces.text",
        "ÄÖü €",
        "日本語",
        "a directory/.hidden",
        "no~1.x",
        &longest,
    ];
    for (number, name) in names.iter().enumerate() {
        write(&root.join(name), number * 777);
    }
    for (number, size) in [0, 1, 511, 512, 513, 4095, 4096, 4097, 65_536, 1_000_003].into_iter().enumerate() {
        write(&root.join(format!("a directory/inner/size {number}")), size);
    }
    for number in 0..150 {
        write(&root.join(format!("a directory/inner/Deeper/one of many files, number {number}")), number);
    }
}

fn write(path: &Path, size: usize) {
    let contents: Vec<u8> = (0..size).map(|index| (index * 31 + index / 256 + size) as u8).collect();
    fs::write(path, contents).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // FAT counts in two seconds.
    let time = UNIX_EPOCH + Duration::from_secs(1_500_000_000 + size as u64 * 2);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

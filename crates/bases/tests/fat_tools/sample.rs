//! A sound file system with files and directories, to be damaged.

use plyfs_bases::fat::format::FatWidth;

use crate::image::{Image, pattern};

/// A sound file system.
pub(crate) struct Sample {
    pub(crate) image: Image,
    /// Position of `/A.TXT`, of 3,000 bytes.
    pub(crate) file: u64,
    /// Clusters of it.
    pub(crate) clusters: Vec<u32>,
    /// Positions of the slots of `/A long file name.text`, of 1,000 bytes.
    pub(crate) long: Vec<u64>,
    /// First cluster of `/DIR`.
    pub(crate) directory: u32,
    /// Position of its entry.
    pub(crate) directory_entry: u64,
    /// First cluster of `/DIR/SUB`.
    pub(crate) inner: u32,
    /// Position of its entry.
    pub(crate) inner_entry: u64,
    /// Position of `/DIR/B.BIN`, of 512 bytes.
    pub(crate) inner_file: u64,
}

impl Sample {
    /// Returns a sample of a width.
    pub(crate) fn new(width: FatWidth) -> Self {
        let mut image = Image::new(width);
        let file = image.add_file(0, (b"A       TXT", ""), &pattern(1, 3000))[0];
        let clusters = image.chain(image.entry(file).first_cluster(width));
        let long = image.add_file(0, (b"ALONGF~1TEX", "A long file name.text"), &pattern(2, 1000));
        let (directory, directory_entry) = image.add_directory(0, (b"DIR        ", ""));
        let inner_file = image.add_file(directory, (b"B       BIN", ""), &pattern(3, 512))[0];
        let (inner, inner_entry) = image.add_directory(directory, (b"SUB        ", "sub directory"));
        image.add_file(inner, (b"C       DAT", ""), &pattern(4, 700));
        crate::boot::correct_free_count(&image);
        Self { image, file, clusters, long, directory, directory_entry, inner, inner_entry, inner_file }
    }
}

//! The directory of boot files: the boot catalog of an image and the boot images that it lists, which need not be in any directory.

use std::sync::Arc;

use vnode::{Device, FileKind, InodeNumber, Result, Timestamp, zeros};

use super::format::boot_catalog::{BootCatalog, BootImage};
use super::format::{SECTOR_SIZE, boot_image, names};
use super::object::Metadata;
use super::tree::Tree;

/// Name of the directory, unless the root directory has another object of that name.
const NAME: &[u8] = b"[BOOT]";
/// Name of the file with the catalog.
const CATALOG: &str = "catalog";
/// Number of bytes of a catalog that are read.
const CATALOG_BYTES: u64 = 8 * SECTOR_SIZE as u64;
/// The inode number of the directory. Those of its files follow; those of all others are offsets in the image.
const FIRST_INODE: u64 = 1 << 62;

/// A boot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BootFile {
    pub(crate) name: String,
    /// Offset in the image of its first byte.
    pub(crate) offset: u64,
    /// Size in bytes: what of it is in the image.
    pub(crate) size: u64,
    /// The image, unless this is the catalog.
    pub(crate) image: Option<BootImage>,
}

/// The directory of boot files.
#[derive(Debug)]
pub(crate) struct BootDirectory {
    pub(crate) name: Arc<[u8]>,
    pub(crate) files: Vec<BootFile>,
}

impl BootDirectory {
    /// Reads the catalog in this sector; `None` if it makes no sense. `is_taken` says which names the root directory has.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn read(tree: &Tree, sector: u32, is_taken: impl Fn(&[u8]) -> bool) -> Result<Option<Self>> {
        let offset = u64::from(sector) * u64::from(SECTOR_SIZE);
        let mut bytes = zeros(CATALOG_BYTES.min(tree.device.size().saturating_sub(offset)) as usize)?;
        if tree.read(offset, &mut bytes).is_err() {
            return Ok(None);
        }
        let Ok(catalog) = BootCatalog::parse(&bytes) else { return Ok(None) };
        let catalog_file = BootFile { name: CATALOG.to_owned(), offset, size: catalog.length as u64, image: None };
        let images = catalog.images.iter().enumerate().map(|(index, image)| boot_file(tree, index + 1, image));
        let files = std::iter::once(catalog_file).chain(images).collect();
        let numbered = (2..=u32::MAX).map(|count| names::duplicate(NAME, count));
        let name = std::iter::once(NAME.to_vec()).chain(numbered).find(|name| !is_taken(name));
        Ok(name.map(|name| Self { name: name.into(), files }))
    }

    /// Returns the file with this name, and its index.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(usize, &BootFile)> {
        self.files.iter().enumerate().find(|(_, file)| file.name.as_bytes() == name)
    }
}

/// Returns the inode number of the directory, or of the file with this index.
pub(crate) fn inode_number(file: Option<usize>) -> InodeNumber {
    InodeNumber::new(FIRST_INODE + file.map_or(0, |index| index as u64 + 1))
}

/// Returns the attributes of the directory, or of its files: those of what has none on its own.
pub(crate) fn metadata(tree: &Tree, kind: FileKind, time: Timestamp) -> Metadata {
    let is_directory = kind == FileKind::Directory;
    Metadata {
        kind,
        mode: if is_directory { tree.options.directory_mode } else { tree.options.mode },
        nlink: if is_directory { 2 } else { 1 },
        uid: tree.options.uid,
        gid: tree.options.gid,
        rdev: Device::default(),
        atime: time,
        mtime: time,
        ctime: time,
        btime: None,
    }
}

fn boot_file(tree: &Tree, number: usize, image: &BootImage) -> BootFile {
    let offset = u64::from(image.sector) * u64::from(SECTOR_SIZE);
    let left = tree.device.size().saturating_sub(offset);
    let mut head = [0; boot_image::HEAD_LENGTH];
    let length = left.min(head.len() as u64) as usize;
    // What cannot be read says nothing about its size.
    let head = if tree.read(offset, &mut head[..length]).is_ok() { &head[..length] } else { &[] };
    let size = boot_image::size(image, head).min(left);
    BootFile { name: format!("{number:02}-{}.img", image.platform.name()), offset, size, image: Some(*image) }
}

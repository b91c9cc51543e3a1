//! What a tree shows: every object with its attributes and contents.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Attributes and contents of one object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// Kind and permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Number of names, but for directories.
    pub links: u64,
    /// Modification time in seconds.
    pub modified: i64,
    /// The number of a device.
    pub device: u64,
    /// Contents of a file, or the target of a symlink.
    pub contents: Vec<u8>,
}

impl Object {
    const KIND: u32 = 0o170_000;

    /// Returns whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.mode & Self::KIND == 0o040_000
    }

    /// Returns whether it is a regular file.
    pub(crate) fn is_file(&self) -> bool {
        self.mode & Self::KIND == 0o100_000
    }
}

/// Returns all objects below a directory by their paths.
pub(crate) fn read(root: &Path) -> BTreeMap<String, Object> {
    let mut objects = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        for entry in entries {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let kind = metadata.file_type();
            let contents = match () {
                () if kind.is_file() => fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
                () if kind.is_symlink() => fs::read_link(&path)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
                    .into_os_string()
                    .into_encoded_bytes(),
                () => Vec::new(),
            };
            let is_device = kind.is_char_device() || kind.is_block_device();
            let object = Object {
                mode: metadata.mode(),
                owner: (metadata.uid(), metadata.gid()),
                links: if kind.is_dir() { 0 } else { metadata.nlink() },
                modified: metadata.mtime(),
                device: if is_device { metadata.rdev() } else { 0 },
                contents,
            };
            objects.insert(path.strip_prefix(root).unwrap().to_str().expect("names are text").to_owned(), object);
            if kind.is_dir() {
                directories.push(path);
            }
        }
    }
    objects
}

/// Compares what two trees show, and says where they differ first.
pub(crate) fn assert_same(left: &BTreeMap<String, Object>, right: &BTreeMap<String, Object>, what: &str) {
    let only = |one: &BTreeMap<String, Object>, other: &BTreeMap<String, Object>| {
        one.keys().filter(|name| !other.contains_key(*name)).cloned().collect::<Vec<_>>()
    };
    assert_eq!((only(left, right), only(right, left)), (vec![], vec![]), "{what}: names");
    for (name, object) in left {
        let other = &right[name];
        assert!(object.contents == other.contents, "{what}: the contents of {name} differ");
        let shown = |object: &Object| (object.mode, object.owner, object.links, object.modified, object.device);
        assert_eq!(shown(object), shown(other), "{what}: attributes of {name}");
    }
}

//! Kept images: volumes of each metadata mode, as earlier versions wrote them, are read as they were. `FAT_KEPT=write` makes them,
//! `FAT_KEPT=links` only the one of that name.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use plyfs_bases::device::MemoryDevice;
use plyfs_bases::fat::{MetadataMode, Options};
use vnode::{Device, FileKind, FileSystem, SetAttributes, SetTime, Timestamp, VnodeRef, XattrMode};

use crate::image::{self, KINDS, Kind, find, get, in_entries, name, put, superuser};

const MODES: [(&str, MetadataMode); 5] = [
    ("none", MetadataMode::None),
    ("sidecar", MetadataMode::Sidecar),
    (LINKS, MetadataMode::Sidecar),
    ("inline", MetadataMode::Inline),
    ("paper", MetadataMode::Paper),
];

/// The image with hard links.
const LINKS: &str = "links";

const TIME: Timestamp = Timestamp { seconds: 1_500_000_000, nanoseconds: 0 };

fn path(text: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fat/kept").join(format!("{text}.img.gz"))
}

/// Fills a volume.
fn fill(root: &VnodeRef, metadata: MetadataMode) {
    let directory = root.mkdir(&superuser(), name("A directory"), 0o750).unwrap().vnode;
    let file = put(&directory, "Ünïcödé 漢字.txt", &[7; 3000]).unwrap();
    put(root, "SHORT.TXT", b"short").unwrap();
    if metadata != MetadataMode::None {
        let ids = SetAttributes { uid: Some(1000), gid: Some(1005), ..Default::default() };
        file.setattr(&superuser(), &ids).unwrap();
        file.setattr(&superuser(), &SetAttributes { mode: Some(0o4751), ..Default::default() }).unwrap();
        root.symlink(&superuser(), name("symlink"), b"A directory").unwrap();
        let number = Device { major: 8, minor: 1 };
        root.mknod(&superuser(), name("device"), FileKind::BlockDevice, 0o660, number).unwrap();
    }
    if metadata == MetadataMode::Sidecar {
        file.setxattr(&superuser(), b"user.name", b"value", XattrMode::Create).unwrap();
    }
    let times = SetAttributes { mtime: Some(SetTime::To(TIME)), ..Default::default() };
    file.setattr(&superuser(), &times).unwrap();
}

/// Checks what [`fill`] has made.
fn check(root: &VnodeRef, metadata: MetadataMode) {
    let file = find(root, "a DIRECTORY/ünïcödé 漢字.TXT").unwrap();
    assert_eq!((get(root, "short.txt").unwrap(), file.attributes.mtime), (b"short".to_vec(), TIME));
    assert_eq!(get(root, "A directory/Ünïcödé 漢字.txt").unwrap(), [7; 3000]);
    if metadata == MetadataMode::None {
        return;
    }
    assert_eq!((file.attributes.mode, file.attributes.uid, file.attributes.gid), (0o4751, 1000, 1005), "{metadata:?}");
    assert_eq!(find(root, "A directory").unwrap().attributes.mode, 0o750);
    assert_eq!(find(root, "symlink").unwrap().vnode.readlink(&superuser()).unwrap(), b"A directory");
    let device = find(root, "device").unwrap().attributes;
    assert_eq!((device.kind, device.mode, device.rdev), (FileKind::BlockDevice, 0o660, Device { major: 8, minor: 1 }));
    if metadata == MetadataMode::Sidecar {
        assert_eq!(file.vnode.getxattr(&superuser(), b"user.name").unwrap(), b"value");
    }
}

/// Makes hard links in what [`fill`] has made.
fn fill_links(root: &VnodeRef) {
    let directory = find(root, "A directory").unwrap().vnode;
    for (path, text) in
        [("A directory/Ünïcödé 漢字.txt", "again"), ("symlink", "Another symlink"), ("device", "again 2")]
    {
        directory.link(&superuser(), &find(root, path).unwrap().vnode, name(text)).unwrap();
    }
    root.link(&superuser(), &find(root, "A directory/again").unwrap().vnode, name("third")).unwrap();
}

/// Checks what [`fill_links`] has made.
fn check_links(root: &VnodeRef) {
    let names = ["A directory/Ünïcödé 漢字.txt", "A directory/again", "third"];
    let files = names.map(|path| find(root, path).unwrap().attributes);
    assert_eq!(files.map(|attributes| (attributes.nlink, attributes.mode)), [(3, 0o4751); 3]);
    assert_eq!(files.map(|attributes| attributes.ino), [files[0].ino; 3]);
    assert_eq!(get(root, "third").unwrap(), [7; 3000]);
    let symlink = find(root, "A directory/Another symlink").unwrap();
    assert_eq!(symlink.vnode.readlink(&superuser()).unwrap(), b"A directory");
    let device = find(root, "A directory/again 2").unwrap().attributes;
    assert_eq!((device.nlink, device.rdev), (2, Device { major: 8, minor: 1 }));
}

fn write(text: &str, metadata: MetadataMode) {
    let kind = Kind { size: 160 << 10, sectors_per_cluster: 1, ..KINDS[0] };
    let Some(device) = image::format(kind).map(Arc::new) else { return };
    let file_system = image::mount(&device, in_entries(metadata));
    fill(&file_system.root(), metadata);
    if text == LINKS {
        fill_links(&file_system.root());
    }
    file_system.end_of_use().unwrap();
    let file = std::fs::File::create(path(text)).unwrap();
    let mut encoder = GzEncoder::new(file, Compression::best());
    encoder.write_all(&device.contents()).unwrap();
    encoder.finish().unwrap();
}

#[test]
fn kept_images_are_read() {
    for (text, metadata) in MODES {
        if std::env::var("FAT_KEPT").is_ok_and(|value| value == "write" || value == text) {
            write(text, metadata);
        }
        let mut bytes = Vec::new();
        GzDecoder::new(std::fs::File::open(path(text)).unwrap()).read_to_end(&mut bytes).unwrap();
        let device = Arc::new(MemoryDevice::from_bytes(&bytes));
        image::check(&device);
        let file_system = image::mount(&device, Options { read_only: true, ..in_entries(metadata) });
        check(&file_system.root(), metadata);
        if text == LINKS {
            check_links(&file_system.root());
        }
        drop(file_system);
        assert!(device.contents() == bytes);
        let is_recognized = metadata != MetadataMode::Paper;
        if is_recognized {
            let file_system = image::mount(&device, in_entries(MetadataMode::Auto));
            check(&file_system.root(), metadata);
        }
    }
}

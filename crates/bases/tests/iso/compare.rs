//! Compares an image with the tree that it was made from, object by object.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use plyfs_bases::iso::IsoFileSystem;
use vnode::{Attributes, FileKind, FileSystem, Name, VnodeRef};

use crate::image::{list, read, root_user};

/// What of an object is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compared {
    /// Everything.
    All,
    /// Kind, size, contents and the time of the last change.
    Contents,
}

/// Asserts that the root of the image has what the source has. An object `[BOOT]` of the image is ignored.
pub(crate) fn assert_same(file_system: &IsoFileSystem, source: &Path, compared: Compared) {
    let mut inodes = BTreeSet::new();
    let mut pending = vec![(file_system.root(), source.to_path_buf(), Vec::new())];
    while let Some((vnode, path, path_in_image)) = pending.pop() {
        let attributes = vnode.getattr(&root_user()).unwrap();
        assert!(inodes.insert(attributes.ino), "{}: its inode number is another one's", path.display());
        assert_object(&vnode, &attributes, &path, compared);
        assert_eq!(vnode.path().unwrap(), path_in_image);
        let resolved = file_system.resolve(&root_user(), &vnode.handle()).unwrap();
        assert_eq!((resolved.handle(), resolved.getattr(&root_user()).unwrap()), (vnode.handle(), attributes));
        assert_eq!(resolved.path().unwrap(), path_in_image);
        if attributes.kind != FileKind::Directory {
            continue;
        }
        let (entries, error) = list(&vnode);
        assert_eq!(error, None, "{}", path.display());
        let mut expected: BTreeSet<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        for (name, ino, kind) in entries.into_iter().filter(|(name, ..)| name != "[BOOT]") {
            assert!(expected.remove(name.as_ref() as &std::ffi::OsStr), "{}: {name}", path.display());
            let entry = vnode.lookup(&root_user(), Name::new(name.as_bytes()).unwrap()).unwrap();
            assert_eq!((ino, kind), (entry.attributes.ino, Some(entry.attributes.kind)), "{name}");
            assert_eq!(entry.attributes, entry.vnode.getattr(&root_user()).unwrap());
            if entry.attributes.kind == FileKind::Directory {
                assert_eq!(entry.vnode.parent(&root_user()).unwrap().handle(), vnode.handle());
            }
            let inner = if path_in_image.is_empty() { vec![] } else { [&path_in_image[..], b"/"].concat() };
            pending.push((entry.vnode, path.join(&name), [&inner[..], name.as_bytes()].concat()));
        }
        assert!(expected.is_empty(), "{}: {expected:?} are missing", path.display());
    }
}

fn assert_object(vnode: &VnodeRef, attributes: &Attributes, path: &Path, compared: Compared) {
    let metadata = path.symlink_metadata().unwrap();
    let shown = path.display();
    assert_eq!(attributes.kind, kind(&metadata), "{shown}");
    assert_eq!(vnode.kind(), attributes.kind, "{shown}");
    assert_eq!(attributes.mtime.seconds, metadata.mtime(), "{shown}: mtime");
    if attributes.kind == FileKind::Regular {
        assert_eq!(attributes.size, metadata.size(), "{shown}: size");
        assert!(read(vnode).unwrap() == fs::read(path).unwrap(), "{shown}: contents");
    }
    if compared == Compared::Contents {
        return;
    }
    let owner = (attributes.uid, attributes.gid, attributes.mode);
    assert_eq!(owner, (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777), "{shown}: owner and mode");
    if attributes.kind == FileKind::Symlink {
        let target = fs::read_link(path).unwrap();
        assert_eq!(vnode.readlink(&root_user()).unwrap(), target.as_os_str().as_bytes(), "{shown}: target");
        assert_eq!(attributes.size, metadata.size(), "{shown}: size of the target");
    }
    if matches!(attributes.kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
        let device = rustix::fs::makedev(attributes.rdev.major, attributes.rdev.minor);
        assert_eq!(device, metadata.rdev(), "{shown}: device number");
    }
}

fn kind(metadata: &fs::Metadata) -> FileKind {
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => FileKind::Directory,
        () if kind.is_symlink() => FileKind::Symlink,
        () if kind.is_fifo() => FileKind::Fifo,
        () if kind.is_socket() => FileKind::Socket,
        () if kind.is_char_device() => FileKind::CharacterDevice,
        () if kind.is_block_device() => FileKind::BlockDevice,
        () => FileKind::Regular,
    }
}

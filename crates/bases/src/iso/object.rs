//! Objects: what the records of a directory say of one, in the terms of a Unix file system.

use std::sync::Arc;

use libc::S_IFMT;
use vnode::{Attributes, Device, FileKind, InodeNumber, Timestamp};

use super::Options;
use super::format::directory_record::DirectoryRecord;
use super::format::zisofs::Compression;
use super::sections::FileSections;
use super::system_use_reader::SystemUse;
use crate::unix::protection::Protection;

/// Length of the longest target of a symlink that vnodes have themselves, in bytes.
const VNODE_TARGET_MAX: usize = 256;

/// The position of the first record of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordPosition {
    /// First logical block of the data of the directory that has the record.
    pub(crate) directory: u32,
    /// Offset of the record in the directory in bytes.
    pub(crate) offset: u32,
}

/// The attributes of an object, except for those that depend on its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) kind: FileKind,
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: Device,
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
    pub(crate) btime: Option<Timestamp>,
}

/// How the data of a file are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As they are.
    Plain,
    /// Compressed.
    Zisofs(Compression),
    /// In a way that is not supported: with holes left out, or compressed by another algorithm than zlib.
    Unsupported {
        /// Size of the file in bytes.
        size: u64,
    },
}

/// The contents by kind.
#[derive(Debug)]
pub(crate) enum Content {
    File {
        sections: FileSections,
        encoding: Encoding,
    },
    /// A directory, by the first logical block of its data.
    Directory(u32),
    /// A directory without data: not even records of itself and its parent.
    EmptyDirectory,
    /// A symlink; `None` if its target makes no sense.
    Symlink(Option<Box<[u8]>>),
    /// A symlink with a long target, by the length of that in bytes. Its directory has the target.
    LongSymlink(usize),
    /// A pipe, socket or device.
    Special,
    /// What the records say contradicts itself.
    Damaged,
}

/// An object as its directory describes it.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) position: RecordPosition,
    pub(crate) metadata: Metadata,
    pub(crate) content: Content,
}

impl Metadata {
    /// Returns the attributes of an object, by its record and the entries of Rock Ridge, if it has them.
    pub(crate) fn new(record: &DirectoryRecord<'_>, system_use: &SystemUse, options: &Options) -> Self {
        let is_directory = record.is_directory() || system_use.child.is_some();
        let recorded = record.recorded.unwrap_or_default();
        let mtime = system_use.times.modified.unwrap_or(recorded);
        let mut metadata = Self {
            kind: if is_directory { FileKind::Directory } else { FileKind::Regular },
            mode: if is_directory { options.directory_mode } else { options.mode },
            nlink: if is_directory { 2 } else { 1 },
            uid: options.uid,
            gid: options.gid,
            rdev: Device::default(),
            atime: system_use.times.accessed.unwrap_or(mtime),
            mtime,
            ctime: system_use.times.attributes_changed.unwrap_or(mtime),
            btime: system_use.times.created,
        };
        if let Some(posix) = &system_use.posix {
            let kind = FileKind::from_mode(posix.mode).filter(|_| !is_directory).unwrap_or(metadata.kind);
            let rdev = system_use.device.filter(|_| is_device(kind)).unwrap_or_default();
            let (mode, nlink) = (posix.mode & !S_IFMT & 0o7777, posix.nlink.max(1));
            metadata = Self { kind, mode, nlink, uid: posix.uid, gid: posix.gid, rdev, ..metadata };
        }
        metadata
    }

    /// Returns what decides who may access the object.
    pub(crate) fn protection(&self) -> Protection {
        let Self { kind, mode, uid, gid, .. } = *self;
        Protection { kind, uid, gid, mode, access_acl: None, default_acl: None }
    }

    /// Returns all attributes, given those that depend on the contents.
    pub(crate) fn attributes(&self, ino: InodeNumber, size: u64, stored: u64, block_size: u32) -> Attributes {
        Attributes {
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            ino,
            size,
            blocks: stored.div_ceil(512),
            block_size,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            flags: 0,
            flags_known: 0,
            is_provisional: false,
        }
    }
}

impl Object {
    /// Returns the size as a reader sees it, and the number of bytes that are stored.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        match &self.content {
            Content::File { sections, encoding } => {
                let stored = sections.size();
                let size = match encoding {
                    Encoding::Plain => stored,
                    Encoding::Zisofs(compression) => compression.size,
                    Encoding::Unsupported { size } => *size,
                };
                (size, stored)
            }
            Content::Symlink(Some(target)) => (target.len() as u64, 0),
            Content::LongSymlink(length) => (*length as u64, 0),
            _ => (0, 0),
        }
    }

    /// Returns this object as vnodes have it, of which there can be any number at a time: of a symlink with a long target, one without
    /// that. An image needs only a few bytes for each such symlink, since many records may share the target.
    pub(crate) fn for_vnode(self: &Arc<Self>) -> Arc<Self> {
        match &self.content {
            Content::Symlink(Some(target)) if target.len() > VNODE_TARGET_MAX => {
                let content = Content::LongSymlink(target.len());
                Arc::new(Self { position: self.position, metadata: self.metadata, content })
            }
            _ => Arc::clone(self),
        }
    }

    /// Returns roughly how many bytes of memory the object takes.
    pub(crate) fn memory(&self) -> u64 {
        let content = match &self.content {
            Content::File { sections, .. } => sections.memory(),
            Content::Symlink(Some(target)) => target.len(),
            _ => 0,
        };
        (size_of::<Self>() + content) as u64
    }
}

/// Returns the contents of an object that is no directory, by all that is known of it.
pub(crate) fn content(
    metadata: &Metadata,
    system_use: SystemUse,
    sections: FileSections,
    reads_zisofs: bool,
) -> Content {
    match metadata.kind {
        _ if system_use.is_damaged => Content::Damaged,
        FileKind::Directory => Content::Damaged,
        FileKind::Regular => {
            let encoding = match (system_use.sparse_size, system_use.compression) {
                (Some(size), _) => Encoding::Unsupported { size },
                (None, Some(compression)) if reads_zisofs && compression.is_zlib => Encoding::Zisofs(compression),
                (None, Some(compression)) if reads_zisofs => Encoding::Unsupported { size: compression.size },
                (None, _) => Encoding::Plain,
            };
            Content::File { sections, encoding }
        }
        FileKind::Symlink => {
            Content::Symlink(system_use.symlink.and_then(|target| target.finish().ok()).map(Into::into))
        }
        _ => Content::Special,
    }
}

fn is_device(kind: FileKind) -> bool {
    matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice)
}

#[cfg(test)]
mod tests {
    use super::super::format::directory_record::tests::record;
    use super::super::format::rock_ridge::PosixAttributes;
    use super::*;

    fn metadata(flags: u8, mode: Option<u32>) -> Metadata {
        let bytes = record(b"NAME", 1, 1, flags);
        let record = DirectoryRecord::parse(&bytes).unwrap().unwrap();
        let posix = mode.map(|mode| PosixAttributes { mode, nlink: 0, uid: 7, gid: 8 });
        let device = Some(Device { major: 1, minor: 2 });
        let system_use = SystemUse { posix, device, ..SystemUse::default() };
        let options = Options { uid: 1, gid: 2, mode: 0o444, directory_mode: 0o511, ..Options::default() };
        Metadata::new(&record, &system_use, &options)
    }

    #[test]
    fn options_apply_without_attributes() {
        let (file, directory) = (metadata(0, None), metadata(2, None));
        assert_eq!((file.kind, file.mode, file.uid, file.gid, file.nlink), (FileKind::Regular, 0o444, 1, 2, 1));
        assert_eq!((directory.kind, directory.mode, directory.nlink), (FileKind::Directory, 0o511, 2));
        assert_eq!((file.mtime.seconds, file.atime.seconds, file.btime), (946_684_800, 946_684_800, None));
    }

    #[test]
    fn the_record_decides_what_is_a_directory() {
        let kind = |flags, mode| metadata(flags, Some(mode)).kind;
        assert_eq!(kind(2, 0o100644), FileKind::Directory);
        assert_eq!(kind(0, 0o120777), FileKind::Symlink);
        assert_eq!(kind(0, 0o040755), FileKind::Directory, "whose content is damaged");
        assert_eq!(kind(0, 0o644), FileKind::Regular);
        let device = metadata(0, Some(0o060640));
        assert_eq!((device.mode, device.uid, device.gid, device.nlink), (0o640, 7, 8, 1));
        assert_eq!((device.rdev, metadata(0, Some(0o100640)).rdev), (Device { major: 1, minor: 2 }, Device::default()));
    }

    #[test]
    fn vnodes_do_not_have_long_targets() {
        let object = |target: &[u8]| {
            let content = Content::Symlink(Some(target.into()));
            Arc::new(Object {
                position: RecordPosition { directory: 1, offset: 0 },
                metadata: metadata(0, Some(0o120777)),
                content,
            })
        };
        let (short, long) = (object(b"target"), object(&[b'x'; 4095]));
        assert!(Arc::ptr_eq(&short.for_vnode(), &short));
        let of_vnode = long.for_vnode();
        assert_eq!(of_vnode.sizes(), long.sizes());
        assert!(of_vnode.memory() <= short.memory());
    }

    #[test]
    fn what_contradicts_itself_is_damaged() {
        let of =
            |system_use, flags, mode| content(&metadata(flags, Some(mode)), system_use, FileSections::default(), true);
        assert!(matches!(of(SystemUse::default(), 0, 0o040755), Content::Damaged));
        let damaged = SystemUse { is_damaged: true, ..SystemUse::default() };
        assert!(matches!(of(damaged, 0, 0o100644), Content::Damaged));
        assert!(matches!(of(SystemUse::default(), 0, 0o120777), Content::Symlink(None)));
        let sparse = SystemUse { sparse_size: Some(5), ..SystemUse::default() };
        let Content::File { encoding, .. } = of(sparse, 0, 0o100644) else { panic!() };
        assert_eq!(encoding, Encoding::Unsupported { size: 5 });
    }
}

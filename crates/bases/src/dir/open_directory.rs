//! Open directories: entries, with the file system's own offsets as cookies.

use std::ops::{ControlFlow, Range};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{OFlags, SeekFrom};
use vnode::profile::Part;
use vnode::{Caller, Cookie, DirectoryEntry, Errno, FileKind, InodeNumber, Name, OpenDirectory, Result};

use super::KIND;
use super::file::{self, noatime_flag, open_tolerantly};
use super::mounts::Mount;
use super::names::require_directory;
use super::node::Node;
use super::shares::{DescriptorShare, HeldDescriptor};
use super::silly_rename::is_silly_name;
use super::status::number_at;
use super::{errno, system};

/// Number of bytes read at once.
const BUFFER_BYTES: usize = 32_768;

/// The cookies that encode the offsets 0, 1 and 2, which have other meanings to callers. ext4, whose offsets are hashes,
/// uses none in this range.
const SMALL_OFFSETS: Range<u64> = 0x7fff_ffff_0000_0000..0x7fff_ffff_0000_0003;

/// An open directory.
pub(crate) struct Directory {
    node: Arc<Node>,
    mount: Arc<Mount>,
    descriptor: HeldDescriptor,
    /// Whether something is mounted on an entry: records then contain the number of the covered object.
    has_mount_points: bool,
    /// Records left over from a read: most reads continue where the last one stopped.
    leftover: Mutex<Option<Records>>,
    /// The current offset of the descriptor; locked from a seek to the read that follows it.
    position: Mutex<Option<u64>>,
}

/// Records of one getdents64(2) call.
struct Records {
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    range: Range<usize>,
    /// The offset of the first unread record.
    offset: u64,
    /// Whether no caller has received any of them, or learned that there are none.
    is_unseen: bool,
}

/// One record of getdents64(2).
struct Record<'a> {
    ino: InodeNumber,
    /// The offset of the next record.
    next: u64,
    length: usize,
    kind: u8,
    name: &'a [u8],
}

impl Directory {
    /// Opens the directory of a vnode.
    pub(crate) fn open(node: &Node, caller: &Caller) -> Result<Self> {
        require_directory(node)?;
        let share = DescriptorShare::take(caller)?;
        let thread = &mut node.tree().credentials.thread();
        let object = node.descriptor(thread)?;
        let acting = thread.act_for(caller)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let servers = flags | OFlags::CLOEXEC | noatime_flag(caller);
        // By its own `.` entry, which requires search permission: the server has that, and a /proc link costs more.
        let open = || match caller.server {
            true => open_tolerantly(servers, |flags| acting.open_at(&object, c".", flags)).map_err(errno),
            false => acting.reopen(&object, flags).map_err(errno),
        };
        let descriptor = match node.tree().open_with_retry(open) {
            // A server that is not a superuser may list a directory that it may not search.
            Err(Errno::EACCES) if caller.server => acting.reopen(&object, flags).map_err(errno)?,
            opened => opened?,
        };
        let (tree, descriptor) = (node.tree(), share.of(descriptor));
        tree.preserve_access_time(thread, FileKind::Directory, descriptor.as_fd());
        let has_mount_points = tree.submounts.exist_in(tree.root(), descriptor.as_fd());
        let (leftover, position) = (Mutex::default(), Mutex::new(Some(0)));
        Ok(Self { node: node.reference(), mount: node.mount(), descriptor, has_mount_points, leftover, position })
    }

    /// Returns the records from an offset on: left over from an earlier read, or fresh ones.
    fn records(&self, offset: u64, first: bool) -> Result<Records> {
        let leftover = self.leftover().take();
        match leftover {
            // A caller that starts over expects to see changes.
            Some(leftover) if first && leftover.offset == offset && leftover.continues_at(offset) => {
                return Ok(leftover);
            }
            _ => {}
        }
        let mut buffer = leftover.map_or_else(|| vec![0; BUFFER_BYTES], |leftover| leftover.buffer);
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        if position.take() != Some(offset) {
            rustix::fs::seek(&self.descriptor, SeekFrom::Start(offset)).map_err(errno)?;
        }
        let length = match system::read_records(self.descriptor.as_fd(), &mut buffer) {
            // A removed directory has no entries.
            Err(rustix::io::Errno::NOENT) => 0,
            length => length.map_err(errno)?,
        };
        let records = Records { buffer, range: 0..length, offset, is_unseen: true };
        // Only a descriptor that has not been read from is certainly at the start.
        *position = records.last_offset().filter(|&offset| offset != 0);
        Ok(records)
    }

    fn entry<'a>(&self, record: &Record<'a>) -> Result<Option<DirectoryEntry<'a>>> {
        // A damaged file system may contain anything; `.` and `..` are not returned.
        let Ok(name) = Name::new(record.name) else { return Ok(None) };
        if self.mount.has_silly_renames() && is_silly_name(record.name) {
            return Ok(None);
        }
        let cookie = match record.next {
            small if small < Cookie::FIRST.get() => Cookie::new(SMALL_OFFSETS.start + small),
            offset if offset > Cookie::LAST.get() => return Err(Errno::EOVERFLOW),
            offset => Cookie::new(offset),
        };
        let kind = FileKind::from_mode(u32::from(record.kind) << 12);
        Ok(Some(DirectoryEntry { name, ino: self.ino(record), kind, cookie }))
    }

    fn ino(&self, record: &Record<'_>) -> InodeNumber {
        let tree = self.node.tree();
        if self.has_mount_points
            && let Ok(_acting) = tree.credentials.thread().act_as_server()
            && let Ok((device, ino)) = number_at(&self.descriptor, record.name)
        {
            return tree.mounts.exposed_ino(device, ino);
        }
        self.mount.exposed_ino(record.ino)
    }

    fn leftover(&self) -> MutexGuard<'_, Option<Records>> {
        self.leftover.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part for Directory {
    const PART: &'static str = KIND;
}

impl OpenDirectory for Directory {
    fn read(
        &self,
        _caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut offset = match cookie.get() {
            small if SMALL_OFFSETS.contains(&small) => small - SMALL_OFFSETS.start,
            offset => offset,
        };
        let mut first = true;
        loop {
            let mut records = self.records(offset, first)?;
            if records.range.is_empty() {
                if !first {
                    // A caller that has received entries asks once more.
                    *self.leftover() = Some(records);
                }
                return Ok(());
            }
            first = false;
            records.is_unseen = false;
            while let Some(record) = records.first() {
                let (length, next) = (record.length, record.next);
                if let Some(entry) = self.entry(&record)?
                    && sink(entry).is_break()
                {
                    *self.leftover() = Some(records);
                    return Ok(());
                }
                records.range.start += length;
                records.offset = next;
                offset = next;
            }
            *self.leftover() = Some(records);
        }
    }

    fn dots(&self) -> Option<[InodeNumber; 2]> {
        // The parent is on another file system, or does not exist.
        if self.node.is_root() || self.mount.index != 0 {
            return None;
        }
        let records = self.records(0, true).ok()?;
        let numbers = [records.number_of(b"."), records.number_of(b"..")];
        *self.leftover() = Some(records);
        Some([self.mount.exposed_ino(numbers[0]?), self.mount.exposed_ino(numbers[1]?)])
    }

    fn fsync(&self, _caller: &Caller, data_only: bool) -> Result<()> {
        file::synchronize(&self.node, self.descriptor.as_fd(), data_only)
    }
}

impl Records {
    /// Returns whether a read from this offset continues with them.
    fn continues_at(&self, offset: u64) -> bool {
        if offset == 0 { self.is_unseen } else { self.is_unseen || !self.range.is_empty() }
    }

    /// Returns the inode number of a name, if it is among them.
    fn number_of(&self, name: &[u8]) -> Option<InodeNumber> {
        self.iter().find(|record| record.name == name).map(|record| record.ino)
    }

    fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        let mut at = self.range.start;
        std::iter::from_fn(move || self.record_at(at).inspect(|record| at += record.length))
    }

    /// Returns the first unread record.
    fn first(&self) -> Option<Record<'_>> {
        self.record_at(self.range.start)
    }

    fn record_at(&self, start: usize) -> Option<Record<'_>> {
        const HEADER: usize = 19;
        let bytes = self.buffer.get(start..self.range.end)?;
        let number = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let length = usize::from(u16::from_ne_bytes(bytes.get(16..18)?.try_into().ok()?));
        let name = bytes.get(HEADER..length)?;
        let name = &name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())];
        Some(Record { ino: InodeNumber::new(number(0)?), next: number(8)?, length, kind: bytes[18], name })
    }

    /// Returns the offset after the last record, which is the descriptor's.
    fn last_offset(&self) -> Option<u64> {
        self.iter().last().map(|record| record.next)
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "open {:?}", self.node)
    }
}

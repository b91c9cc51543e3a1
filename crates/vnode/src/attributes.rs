//! Attributes: what statx(2) reports about an object, and the changes that setattr makes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::InodeNumber;

/// The kind of an object, as the `S_IFMT` bits of its mode. It never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum FileKind {
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharacterDevice,
    BlockDevice,
}

impl FileKind {
    /// The `S_IFMT` bits, as in inode(7).
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::Regular => libc::S_IFREG,
            Self::Directory => libc::S_IFDIR,
            Self::Symlink => libc::S_IFLNK,
            Self::Fifo => libc::S_IFIFO,
            Self::Socket => libc::S_IFSOCK,
            Self::CharacterDevice => libc::S_IFCHR,
            Self::BlockDevice => libc::S_IFBLK,
        }
    }

    /// Returns the kind in a mode's `S_IFMT` bits; `None` if they denote none.
    pub const fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & libc::S_IFMT {
            libc::S_IFREG => Self::Regular,
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFIFO => Self::Fifo,
            libc::S_IFSOCK => Self::Socket,
            libc::S_IFCHR => Self::CharacterDevice,
            libc::S_IFBLK => Self::BlockDevice,
            _ => return None,
        })
    }

    /// Returns the letter with which ls(1) begins a mode.
    const fn letter(self) -> char {
        match self {
            Self::Regular => '-',
            Self::Directory => 'd',
            Self::Symlink => 'l',
            Self::Fifo => 'p',
            Self::Socket => 's',
            Self::CharacterDevice => 'c',
            Self::BlockDevice => 'b',
        }
    }

    /// The type byte of a directory entry, `DT_REG` and so on, as in readdir(3).
    pub const fn directory_entry_type(self) -> u8 {
        (self.mode_bits() >> 12) as u8
    }
}

/// A point in time: seconds since 1970 (negative before it) and nanoseconds below 1,000,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub struct Timestamp {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Returns the current time of the system clock.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self { seconds: after.as_secs() as i64, nanoseconds: after.subsec_nanos() },
            Err(before) => {
                let before = before.duration();
                match before.subsec_nanos() {
                    0 => Self { seconds: -(before.as_secs() as i64), nanoseconds: 0 },
                    part => Self { seconds: -(before.as_secs() as i64) - 1, nanoseconds: 1_000_000_000 - part },
                }
            }
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let part = Duration::from_nanos(u64::from(time.nanoseconds));
        match u64::try_from(time.seconds) {
            Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + part,
            Err(_) => UNIX_EPOCH - Duration::from_secs(time.seconds.unsigned_abs()) + part,
        }
    }
}

/// A device number, as in makedev(3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

/// Attributes of an object, as returned by statx(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The kind of the object.
    pub kind: FileKind,
    /// Permission, set-id and sticky bits: the mode below `S_IFMT`, at most 0o7777.
    pub mode: u32,
    /// Number of hard links; 0 for an object that is open but unlinked.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Device number of a device special file; zero for all other kinds.
    pub rdev: Device,
    /// The inode number: unique in the stack and the same in readdir, as far as the base can tell.
    pub ino: InodeNumber,
    /// Size in bytes, as a reader sees it; for a symlink, the length of the target path.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Block size for efficient I/O, in bytes.
    pub block_size: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of data.
    pub mtime: Timestamp,
    /// Last change of data or attributes.
    pub ctime: Timestamp,
    /// Creation; `None` where the file system does not keep it.
    pub btime: Option<Timestamp>,
    /// `STATX_ATTR_*` bits that are set, of those in `flags_known`.
    pub flags: u64,
    /// `STATX_ATTR_*` bits that the file system supports.
    pub flags_known: u64,
    /// Set if the kind is certain but the rest may not be: a lookup found the root of another mount, whose server might
    /// not answer and was not queried. Such attributes are neither used for decisions nor cached;
    /// [`Vnode::getattr`](crate::Vnode::getattr) queries the server.
    pub is_provisional: bool,
}

impl Attributes {
    /// Returns whether the object is immutable or append-only: its names and those in it stay, whoever the caller is,
    /// as in ioctl_iflags(2) for `FS_IMMUTABLE_FL` and `FS_APPEND_FL`.
    pub const fn only_grows_or_stays(&self) -> bool {
        self.flags & (libc::STATX_ATTR_IMMUTABLE | libc::STATX_ATTR_APPEND) as u64 != 0
    }

    /// Returns whether the object is immutable, as in ioctl_iflags(2) for `FS_IMMUTABLE_FL`.
    pub const fn is_immutable(&self) -> bool {
        self.flags & libc::STATX_ATTR_IMMUTABLE as u64 != 0
    }

    /// Kind and permission bits in one word: `st_mode` of stat(2).
    pub const fn full_mode(&self) -> u32 {
        self.kind.mode_bits() | (self.mode & 0o7777)
    }

    /// Returns kind and permission bits as ls(1) writes them: `drwxr-xr-x`.
    pub fn mode_text(&self) -> String {
        let mut text = String::from(self.kind.letter());
        for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
            text.push(if self.mode >> shift & 4 != 0 { 'r' } else { '-' });
            text.push(if self.mode >> shift & 2 != 0 { 'w' } else { '-' });
            text.push(match (self.mode & special != 0, self.mode >> shift & 1 != 0) {
                (false, false) => '-',
                (false, true) => 'x',
                (true, true) => letter,
                (true, false) => letter.to_ascii_uppercase(),
            });
        }
        text
    }

    /// Returns whether the object is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

/// A new value for a timestamp, as in utimensat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Time at which the change is made; permitted to every caller with write permission.
    Now,
    /// This time; permitted to the owner and the superuser.
    To(Timestamp),
}

/// Changes made by one setattr: only fields that are `Some` change, all of them or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// New permission bits, at most 0o7777, as chmod(2).
    pub mode: Option<u32>,
    /// New owner, as chown(2). Set-id bits are cleared as Linux does for the caller.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size, as truncate(2); `EISDIR`, `EINVAL` for anything but a regular file.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<SetTime>,
    /// New modification time.
    pub mtime: Option<SetTime>,
    /// Clears the set-ID bits and `security.capability` as a change of its own: alone it is a chown(2) without IDs, which
    /// the owner may do. A change of size clears them according to the caller; see
    /// [`Caller::killing_privileges`](crate::Caller::killing_privileges).
    pub kill_privileges: bool,
}

impl SetAttributes {
    /// Returns whether nothing would change.
    pub fn is_empty(&self) -> bool {
        *self == Self { kill_privileges: self.kill_privileges, ..Self::default() } && !self.kill_privileges
    }
}

/// File system statistics, as returned by statfs(2). Sizes are in blocks of `fragment_size` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Block size for efficient I/O, in bytes.
    pub block_size: u32,
    /// Unit of the block counts, in bytes.
    pub fragment_size: u32,
    /// Total number of blocks.
    pub blocks: u64,
    /// Number of free blocks.
    pub blocks_free: u64,
    /// Number of free blocks available to callers other than the superuser.
    pub blocks_available: u64,
    /// Total number of inodes.
    pub files: u64,
    /// Number of free inodes.
    pub files_free: u64,
    /// Maximum length of a name in bytes.
    pub name_max: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        for time in [
            Timestamp { seconds: -2, nanoseconds: 999_999_999 },
            Timestamp { seconds: -1, nanoseconds: 0 },
            Timestamp { seconds: 0, nanoseconds: 1 },
            Timestamp { seconds: 4_000_000_000, nanoseconds: 5 },
        ] {
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn kinds_and_modes_agree() {
        assert_eq!(FileKind::from_mode(0o100644), Some(FileKind::Regular));
        assert_eq!(FileKind::from_mode(0o644), None);
        assert_eq!(FileKind::Directory.directory_entry_type(), libc::DT_DIR);
    }
}

//! The interface that the tests use: a subject, its clients and their open files.
//!
//! Methods are named after the corresponding system calls and return their error numbers. Flags and modes are those of libc.
//! Paths are bytes, relative to the working directory.

use std::any::Any;

use vnode::{Cookie, InodeNumber};

use crate::{Abilities, Errno, Failure, Outcome};

pub(crate) use vnode::Result;

/// A file system under test.
pub trait Subject: Send + Sync {
    /// Returns a short name for reports.
    fn title(&self) -> &str;

    /// Returns the abilities of the subject.
    fn abilities(&self) -> Abilities;

    /// Starts a process with this identity and umask 022 in the root of the subject. Without [`crate::Ability::Users`], the
    /// identity is ignored.
    fn client(&self, identity: &Identity) -> Box<dyn Client>;

    /// Creates the directory for a test, if that takes more than mkdir(2), and returns whether it did.
    ///
    /// # Errors
    /// Fails if it cannot be created.
    fn make_directory(&self, _name: &[u8]) -> Result<bool> {
        Ok(false)
    }
}

/// The credentials that a client acts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// The client has no capabilities, whatever its user.
    pub is_powerless: bool,
}

impl Identity {
    /// The superuser.
    pub const ROOT: Self = Self { uid: 0, gid: 0, groups: Vec::new(), is_powerless: false };

    /// Returns a user whose only group has the same number.
    pub fn user(id: u32) -> Self {
        Self { uid: id, gid: id, ..Self::ROOT }
    }

    /// Returns the same user without capabilities.
    pub fn without_capabilities(self) -> Self {
        Self { is_powerless: true, ..self }
    }

    /// Returns the same user as a member of these additional groups.
    pub fn and_groups(mut self, groups: &[u32]) -> Self {
        self.groups.extend_from_slice(groups);
        self
    }
}

/// An actor on a subject with the properties of a process: it has an identity, a working directory and a umask, and owns the
/// range locks of its files.
pub trait Client: Send + Sync {
    /// open(2); including `O_TMPFILE`, `O_DIRECTORY` and `O_PATH` where the subject supports them.
    fn open(&self, path: &[u8], flags: i32, mode: u32) -> Result<Box<dyn File>>;
    /// open_by_handle_at(2) with these flags, for the handle that name_to_handle_at(2) returns for a path; a symbolic link in
    /// the last component is not followed. Default: `EOPNOTSUPP`, for subjects without kernel file handles.
    fn open_by_handle(&self, _path: &[u8], _flags: i32) -> Result<Box<dyn File>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Opens a directory for listing.
    fn open_directory(&self, path: &[u8]) -> Result<Box<dyn Directory>>;
    /// stat(2): follows symbolic links.
    fn stat(&self, path: &[u8]) -> Result<Stat>;
    /// lstat(2): does not follow a symbolic link in the last component.
    fn lstat(&self, path: &[u8]) -> Result<Stat>;
    /// access(2) with any of `R_OK`, `W_OK`, `X_OK`.
    fn access(&self, path: &[u8], mode: i32) -> Result<()>;
    /// mkdir(2).
    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()>;
    /// mknod(2): the mode carries the kind.
    fn mknod(&self, path: &[u8], mode: u32, device: (u32, u32)) -> Result<()>;
    /// symlink(2).
    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()>;
    /// readlink(2), untruncated.
    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>>;
    /// link(2): does not follow a symbolic link in the last component.
    fn link(&self, existing: &[u8], path: &[u8]) -> Result<()>;
    /// unlink(2).
    fn unlink(&self, path: &[u8]) -> Result<()>;
    /// rmdir(2).
    fn rmdir(&self, path: &[u8]) -> Result<()>;
    /// renameat2(2) with its flags.
    fn rename_with(&self, from: &[u8], to: &[u8], flags: u32) -> Result<()>;
    /// chmod(2).
    fn chmod(&self, path: &[u8], mode: u32) -> Result<()>;
    /// chown(2); `None` leaves an id unchanged.
    fn chown(&self, path: &[u8], uid: Option<u32>, gid: Option<u32>) -> Result<()>;
    /// lchown(2).
    fn lchown(&self, path: &[u8], uid: Option<u32>, gid: Option<u32>) -> Result<()>;
    /// truncate(2).
    fn truncate(&self, path: &[u8], length: u64) -> Result<()>;
    /// utimensat(2): access and modification time.
    fn set_times(&self, path: &[u8], access: TimeChange, modification: TimeChange, follow: bool) -> Result<()>;
    /// statfs(2).
    fn statfs(&self, path: &[u8]) -> Result<Space>;
    /// getxattr(2) into a buffer of this size; a size of 0 queries the length, which is returned as that many zero bytes.
    fn getxattr(&self, path: &[u8], name: &[u8], size: usize) -> Result<Vec<u8>>;
    /// setxattr(2) with its flags.
    fn setxattr(&self, path: &[u8], name: &[u8], value: &[u8], flags: i32) -> Result<()>;
    /// listxattr(2) into a buffer of this size, as in [`Client::getxattr`].
    fn listxattr(&self, path: &[u8], size: usize) -> Result<Vec<u8>>;
    /// removexattr(2).
    fn removexattr(&self, path: &[u8], name: &[u8]) -> Result<()>;
    /// umask(2): returns the previous mask.
    fn umask(&self, mask: u32) -> u32;
    /// chdir(2).
    fn chdir(&self, path: &[u8]) -> Result<()>;
    /// syncfs(2) on the subject.
    fn sync(&self) -> Result<()>;
}

/// An open file. Dropping it closes it.
pub trait File: Send + Sync {
    /// pread(2).
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// pwrite(2).
    fn write_at(&self, data: &[u8], offset: u64) -> Result<usize>;
    /// read(2) at the file offset.
    fn read(&self, buffer: &mut [u8]) -> Result<usize>;
    /// write(2) at the file offset, or at the end with `O_APPEND`.
    fn write(&self, data: &[u8]) -> Result<usize>;
    /// lseek(2), including `SEEK_DATA` and `SEEK_HOLE`.
    fn seek(&self, offset: i64, whence: i32) -> Result<u64>;
    /// fstat(2).
    fn stat(&self) -> Result<Stat>;
    /// ftruncate(2).
    fn truncate(&self, length: u64) -> Result<()>;
    /// fchmod(2).
    fn chmod(&self, mode: u32) -> Result<()>;
    /// fchown(2).
    fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()>;
    /// futimens(2).
    fn set_times(&self, access: TimeChange, modification: TimeChange) -> Result<()>;
    /// fallocate(2) with its mode.
    fn allocate(&self, mode: i32, offset: u64, length: u64) -> Result<()>;
    /// copy_file_range(2) to a file of the same client.
    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64>;
    /// fsync(2), or fdatasync(2) for the data only.
    fn sync(&self, data_only: bool) -> Result<()>;
    /// fcntl(2) `F_SETLK`, or `F_SETLKW` to wait; a length of 0 extends to the maximum file offset.
    fn lock(&self, lock: Lock, wait: bool) -> Result<()>;
    /// fcntl(2) `F_GETLK`: returns the first lock that conflicts with this one.
    fn test_lock(&self, lock: Lock) -> Result<Option<Lock>>;
    /// flock(2) with this operation.
    fn flock(&self, operation: i32) -> Result<()>;
    /// linkat(2) of an open file, named or not.
    fn link(&self, path: &[u8]) -> Result<()>;
    /// mmap(2) of this many bytes from the start: shared or private, always readable.
    fn map(&self, length: usize, shared: bool, writable: bool) -> Result<Box<dyn Mapping>>;
    /// close(2).
    fn close(self: Box<Self>) -> Result<()>;
    /// Returns `self` for downcasting, for implementations of calls with two files.
    fn as_any(&self) -> &dyn Any;
}

/// An open directory being listed. Dropping it closes it.
pub trait Directory: Send + Sync {
    /// Returns the next entries as one call returns them, at least about 1 KiB; empty at the end.
    fn next(&self) -> Result<Vec<Entry>>;
    /// Continues after the entry with this cookie, or from the beginning with [`Cookie::START`].
    fn seek(&self, cookie: Cookie) -> Result<()>;
}

/// A memory-mapped file. Dropping it unmaps it.
pub trait Mapping: Send + Sync {
    /// Loads bytes.
    fn load(&self, offset: usize, length: usize) -> Vec<u8>;
    /// Stores bytes.
    fn store(&self, offset: usize, data: &[u8]);
    /// msync(2) `MS_SYNC`.
    fn sync(&self) -> Result<()>;
    /// Returns whether the page at this offset can be loaded, determined without a signal.
    fn is_backed(&self, offset: usize) -> bool;
}

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharacterDevice,
    BlockDevice,
    Unknown,
}

impl Kind {
    /// Returns the kind encoded in the type bits of a mode.
    pub fn of_mode(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFREG => Self::Regular,
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFIFO => Self::Fifo,
            libc::S_IFSOCK => Self::Socket,
            libc::S_IFCHR => Self::CharacterDevice,
            libc::S_IFBLK => Self::BlockDevice,
            _ => Self::Unknown,
        }
    }
}

/// A point in time since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds after the whole seconds.
    pub nanoseconds: u32,
}

impl Time {
    /// Returns a time from its two parts.
    pub const fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self { seconds, nanoseconds }
    }
}

/// The change that utimensat(2) applies to one time.
#[derive(Clone, Copy, Debug)]
pub enum TimeChange {
    /// `UTIME_OMIT`.
    Keep,
    /// `UTIME_NOW`.
    Now,
    /// Set to this time.
    To(Time),
}

/// The attributes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stat {
    pub inode: InodeNumber,
    pub kind: Kind,
    /// The lower twelve bits of the mode.
    pub mode: u32,
    pub links: u64,
    pub uid: u32,
    pub gid: u32,
    /// Major and minor number of the device that a device node represents.
    pub device: (u32, u32),
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    pub block_size: u32,
    pub accessed: Time,
    pub modified: Time,
    pub changed: Time,
    pub born: Option<Time>,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode number that readdir reports.
    pub inode: InodeNumber,
    /// The kind that readdir reports; it may be unknown.
    pub kind: Kind,
    /// The position to seek to in order to continue after this entry.
    pub cookie: Cookie,
}

/// The access that a range lock is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LockKind {
    Read,
    Write,
    Unlock,
}

/// A range lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The access that it is for.
    pub kind: LockKind,
    /// Offset of the first byte.
    pub start: u64,
    /// Number of bytes; 0 for all that follow.
    pub length: u64,
}

impl Lock {
    /// Returns a lock on a range.
    pub const fn new(kind: LockKind, start: u64, length: u64) -> Self {
        Self { kind, start, length }
    }
}

/// The result of statfs(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Space {
    pub block_size: u64,
    pub blocks: u64,
    pub blocks_free: u64,
    pub blocks_available: u64,
    pub files: u64,
    pub files_free: u64,
    pub name_max: u64,
}

/// Common operations of tests, composed of those above.
impl dyn Client + '_ {
    /// rename(2).
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.rename_with(from, to, 0)
    }

    /// Creates a new file of mode 0644 with these contents.
    pub fn put(&self, path: &[u8], contents: &[u8]) -> Result<()> {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        self.open(path, flags, 0o644)?.put_at(contents, 0)
    }

    /// Opens an existing file for reading and writing.
    pub fn edit(&self, path: &[u8]) -> Result<Box<dyn File>> {
        self.open(path, libc::O_RDWR, 0)
    }

    /// Creates a new file of mode 0644, open for reading and writing.
    pub fn create(&self, path: &[u8]) -> Result<Box<dyn File>> {
        self.open(path, libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o644)
    }

    /// Returns the contents of a file.
    pub fn get(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.open(path, libc::O_RDONLY, 0)?.contents()
    }

    /// Returns all entries of a directory except "." and "..".
    pub fn entries(&self, path: &[u8]) -> Result<Vec<Entry>> {
        let mut entries = self.open_directory(path)?.rest()?;
        entries.retain(|entry| entry.name != b"." && entry.name != b"..");
        Ok(entries)
    }

    /// Returns all names in a directory except "." and "..", sorted.
    pub fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut names: Vec<_> = self.entries(path)?.into_iter().map(|e| e.name).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the value of an extended attribute.
    pub fn attribute(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        self.getxattr(path, name, 65536)
    }

    /// Returns the names of all extended attributes, sorted.
    pub fn attributes(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let list = self.listxattr(path, 65536)?;
        let mut names: Vec<Vec<u8>> = list.split(|byte| *byte == 0).map(Vec::from).collect();
        names.retain(|name| !name.is_empty());
        names.sort();
        Ok(names)
    }

    /// Returns whether a name exists, including dangling symbolic links.
    pub fn exists(&self, path: &[u8]) -> Result<bool> {
        match self.lstat(path) {
            Ok(_) => Ok(true),
            Err(error) if error.number() == libc::ENOENT => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a name and everything below it. A name that is gone is not an error.
    ///
    /// # Errors
    /// Names the call that failed, its path, and the object there.
    pub fn remove_all(&self, path: &[u8]) -> Outcome {
        let (call, removed) = match self.lstat(path) {
            Ok(stat) if stat.kind == Kind::Directory => {
                let _ = self.chmod(path, 0o700);
                match self.entries(path) {
                    Ok(entries) => {
                        for entry in entries {
                            self.remove_all(&[path, b"/", &entry.name].concat())?;
                        }
                        ("rmdir", self.rmdir(path))
                    }
                    Err(error) => ("readdir", Err(error)),
                }
            }
            Ok(_) => ("unlink", self.unlink(path)),
            Err(error) => ("lstat", Err(error)),
        };
        match removed {
            Err(error) if error.number() != libc::ENOENT => Err(self.failure(call, path, error)),
            _ => Ok(()),
        }
    }

    /// Returns the failure of a call on a path, with the object there.
    fn failure(&self, call: &str, path: &[u8], error: Errno) -> Failure {
        let object = match self.lstat(path) {
            Ok(Stat { kind, mode, uid, gid, .. }) => format!("{kind:?} of mode {mode:04o}, owner {uid}:{gid}"),
            Err(error) => format!("lstat: {error:?}"),
        };
        Failure::new(format!("{call}: {error:?}, {object}: {}", String::from_utf8_lossy(path)))
    }
}

/// Common operations of tests, composed of those above.
impl dyn File + '_ {
    /// Writes all of the data.
    pub fn put_at(&self, mut data: &[u8], mut offset: u64) -> Result<()> {
        while !data.is_empty() {
            let written = self.write_at(data, offset)?;
            data = &data[written..];
            offset += written as u64;
        }
        Ok(())
    }

    /// Reads up to this many bytes; returns fewer only at the end of the file.
    pub fn get_at(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut data = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self.read_at(&mut data[filled..], offset + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    /// Reads the whole file.
    pub fn contents(&self) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        loop {
            let part = self.get_at(data.len() as u64, 65536)?;
            if part.is_empty() {
                return Ok(data);
            }
            data.extend(part);
        }
    }
}

/// Common operations of tests, composed of those above.
impl dyn Directory + '_ {
    /// Returns all remaining entries, including "." and "..".
    pub fn rest(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        loop {
            let more = self.next()?;
            if more.is_empty() {
                return Ok(entries);
            }
            entries.extend(more);
        }
    }
}

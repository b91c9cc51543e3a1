//! What the tests are written against: a subject, its clients and their open files.
//!
//! Methods are named after the system calls they stand for and answer their error numbers.
//! Flags and modes are those of libc. Paths are bytes, relative to the working directory.

use std::any::Any;

use crate::{Abilities, Errno, Failure, Outcome};

pub(crate) use vnode::Result;

/// A file system under test.
pub trait Subject: Send + Sync {
    /// A short name for reports.
    fn title(&self) -> &str;

    /// What the subject can do.
    fn abilities(&self) -> Abilities;

    /// A new process of this identity, with umask 022, in the root of the subject.
    /// Without [`crate::Ability::Users`] the identity is ignored.
    fn client(&self, identity: &Identity) -> Box<dyn Client>;

    /// Makes the directory that a test is to work in, if there is more to it than mkdir(2) does: whether it did.
    ///
    /// # Errors
    /// Of making it.
    fn make_directory(&self, _name: &[u8]) -> Result<bool> {
        Ok(false)
    }
}

/// Whom a client acts as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// It has no capability, whatever its user.
    pub is_powerless: bool,
}

impl Identity {
    /// The superuser.
    pub const ROOT: Self = Self { uid: 0, gid: 0, groups: Vec::new(), is_powerless: false };

    /// A user with a group of the same number and no other.
    pub fn user(id: u32) -> Self {
        Self { uid: id, gid: id, ..Self::ROOT }
    }

    /// The same user without any capability.
    pub fn without_capabilities(self) -> Self {
        Self { is_powerless: true, ..self }
    }

    /// The same user, who is a member of these groups too.
    pub fn and_groups(mut self, groups: &[u32]) -> Self {
        self.groups.extend_from_slice(groups);
        self
    }
}

/// What acts on a subject, as a process does: it has an identity, a working directory, a umask,
/// and owns the range locks of its files.
pub trait Client: Send + Sync {
    /// open(2); `O_TMPFILE`, `O_DIRECTORY` and `O_PATH` included where the subject can.
    fn open(&self, path: &[u8], flags: i32, mode: u32) -> Result<Box<dyn File>>;
    /// open_by_handle_at(2) with these flags, by what name_to_handle_at(2) answers for a path whose last symbolic link is not
    /// followed. Default: `EOPNOTSUPP`, where there are no handles of the kernel.
    fn open_by_handle(&self, _path: &[u8], _flags: i32) -> Result<Box<dyn File>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Opens a directory to list it.
    fn open_directory(&self, path: &[u8]) -> Result<Box<dyn Directory>>;
    /// stat(2): follows symbolic links.
    fn stat(&self, path: &[u8]) -> Result<Stat>;
    /// lstat(2): does not follow a last symbolic link.
    fn lstat(&self, path: &[u8]) -> Result<Stat>;
    /// access(2) with any of `R_OK`, `W_OK`, `X_OK`.
    fn access(&self, path: &[u8], mode: i32) -> Result<()>;
    /// mkdir(2).
    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()>;
    /// mknod(2): the mode carries the kind.
    fn mknod(&self, path: &[u8], mode: u32, device: (u32, u32)) -> Result<()>;
    /// symlink(2).
    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()>;
    /// readlink(2), whole.
    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>>;
    /// link(2): does not follow a last symbolic link.
    fn link(&self, existing: &[u8], path: &[u8]) -> Result<()>;
    /// unlink(2).
    fn unlink(&self, path: &[u8]) -> Result<()>;
    /// rmdir(2).
    fn rmdir(&self, path: &[u8]) -> Result<()>;
    /// renameat2(2) with its flags.
    fn rename_with(&self, from: &[u8], to: &[u8], flags: u32) -> Result<()>;
    /// chmod(2).
    fn chmod(&self, path: &[u8], mode: u32) -> Result<()>;
    /// chown(2); `None` leaves an id as it is.
    fn chown(&self, path: &[u8], uid: Option<u32>, gid: Option<u32>) -> Result<()>;
    /// lchown(2).
    fn lchown(&self, path: &[u8], uid: Option<u32>, gid: Option<u32>) -> Result<()>;
    /// truncate(2).
    fn truncate(&self, path: &[u8], length: u64) -> Result<()>;
    /// utimensat(2): access and modification time.
    fn set_times(&self, path: &[u8], access: TimeChange, modification: TimeChange, follow: bool) -> Result<()>;
    /// statfs(2).
    fn statfs(&self, path: &[u8]) -> Result<Space>;
    /// getxattr(2) into a buffer of this size; a size of 0 asks for the length, which is answered
    /// as that many zero bytes.
    fn getxattr(&self, path: &[u8], name: &[u8], size: usize) -> Result<Vec<u8>>;
    /// setxattr(2) with its flags.
    fn setxattr(&self, path: &[u8], name: &[u8], value: &[u8], flags: i32) -> Result<()>;
    /// listxattr(2) into a buffer of this size, as in [`Client::getxattr`].
    fn listxattr(&self, path: &[u8], size: usize) -> Result<Vec<u8>>;
    /// removexattr(2).
    fn removexattr(&self, path: &[u8], name: &[u8]) -> Result<()>;
    /// umask(2): answers the previous one.
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
    /// read(2) at the file position.
    fn read(&self, buffer: &mut [u8]) -> Result<usize>;
    /// write(2) at the file position, or at the end with `O_APPEND`.
    fn write(&self, data: &[u8]) -> Result<usize>;
    /// lseek(2), with `SEEK_DATA` and `SEEK_HOLE` too.
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
    /// fcntl(2) `F_SETLK`, or `F_SETLKW` to wait; a length of 0 reaches to the end of all files.
    fn lock(&self, lock: Lock, wait: bool) -> Result<()>;
    /// fcntl(2) `F_GETLK`: the first lock in the way of this one.
    fn test_lock(&self, lock: Lock) -> Result<Option<Lock>>;
    /// flock(2); `None` would block.
    fn flock(&self, operation: i32) -> Result<()>;
    /// linkat(2) of an open file, named or not.
    fn link(&self, path: &[u8]) -> Result<()>;
    /// mmap(2) of this many bytes from the start: shared or private, always readable.
    fn map(&self, length: usize, shared: bool, writable: bool) -> Result<Box<dyn Mapping>>;
    /// close(2).
    fn close(self: Box<Self>) -> Result<()>;
    /// For implementations that take two files.
    fn as_any(&self) -> &dyn Any;
}

/// A directory that is being listed. Dropping it closes it.
pub trait Directory: Send + Sync {
    /// One call's worth of the next entries, of about 1 KiB at least; none at the end.
    fn next(&self) -> Result<Vec<Entry>>;
    /// Continues after the entry with this cookie, or from the start with 0.
    fn seek(&self, cookie: u64) -> Result<()>;
}

/// A file in memory. Dropping it unmaps it.
pub trait Mapping: Send + Sync {
    /// Loads bytes.
    fn load(&self, offset: usize, length: usize) -> Vec<u8>;
    /// Stores bytes.
    fn store(&self, offset: usize, data: &[u8]);
    /// msync(2) `MS_SYNC`.
    fn sync(&self) -> Result<()>;
    /// Whether the page at this offset can be loaded, found out without a signal.
    fn is_backed(&self, offset: usize) -> bool;
}

/// What kind of object a name leads to.
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
    /// The kind that the type bits of a mode say.
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

/// A point in time, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// The rest.
    pub nanoseconds: u32,
}

impl Time {
    /// A time from its two parts.
    pub const fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self { seconds, nanoseconds }
    }
}

/// What utimensat(2) does to one time.
#[derive(Clone, Copy, Debug)]
pub enum TimeChange {
    /// `UTIME_OMIT`.
    Keep,
    /// `UTIME_NOW`.
    Now,
    /// Sets it to this.
    To(Time),
}

/// The attributes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stat {
    pub inode: u64,
    pub kind: Kind,
    /// The lower twelve bits of the mode.
    pub mode: u32,
    pub links: u64,
    pub uid: u32,
    pub gid: u32,
    /// Major and minor number of the device that the object stands for.
    pub device: (u32, u32),
    pub size: u64,
    /// In units of 512 bytes.
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
    /// The inode number that readdir says.
    pub inode: u64,
    /// The kind that readdir says; it may be unknown.
    pub kind: Kind,
    /// Where to seek to continue after this entry.
    pub cookie: u64,
}

/// Which access a range lock is for.
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
    /// For which access.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// Number of bytes; 0 for all that follow.
    pub length: u64,
}

impl Lock {
    /// A lock on a range.
    pub const fn new(kind: LockKind, start: u64, length: u64) -> Self {
        Self { kind, start, length }
    }
}

/// What statfs(2) says.
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

/// What tests often do, made from the operations above.
impl dyn Client + '_ {
    /// rename(2).
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.rename_with(from, to, 0)
    }

    /// Makes a new file of mode 0644 with these contents.
    pub fn put(&self, path: &[u8], contents: &[u8]) -> Result<()> {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        self.open(path, flags, 0o644)?.put_at(contents, 0)
    }

    /// Opens an existing file to read and write.
    pub fn edit(&self, path: &[u8]) -> Result<Box<dyn File>> {
        self.open(path, libc::O_RDWR, 0)
    }

    /// Makes a new file of mode 0644, open to read and write.
    pub fn create(&self, path: &[u8]) -> Result<Box<dyn File>> {
        self.open(path, libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, 0o644)
    }

    /// The contents of a file.
    pub fn get(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.open(path, libc::O_RDONLY, 0)?.contents()
    }

    /// All entries of a directory but "." and "..".
    pub fn entries(&self, path: &[u8]) -> Result<Vec<Entry>> {
        let mut entries = self.open_directory(path)?.rest()?;
        entries.retain(|entry| entry.name != b"." && entry.name != b"..");
        Ok(entries)
    }

    /// All names in a directory but "." and "..", sorted.
    pub fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut names: Vec<_> = self.entries(path)?.into_iter().map(|e| e.name).collect();
        names.sort();
        Ok(names)
    }

    /// The value of an extended attribute.
    pub fn attribute(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        self.getxattr(path, name, 65536)
    }

    /// The names of all extended attributes, sorted.
    pub fn attributes(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let list = self.listxattr(path, 65536)?;
        let mut names: Vec<Vec<u8>> = list.split(|byte| *byte == 0).map(Vec::from).collect();
        names.retain(|name| !name.is_empty());
        names.sort();
        Ok(names)
    }

    /// Whether a name exists, be it a dangling symbolic link.
    pub fn exists(&self, path: &[u8]) -> Result<bool> {
        match self.lstat(path) {
            Ok(_) => Ok(true),
            Err(error) if error.number() == libc::ENOENT => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a name and all below it. A name that is gone is no error.
    ///
    /// # Errors
    /// Which call failed, on which path, and what is there.
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

    /// That a call on a path failed, with what is there.
    fn failure(&self, call: &str, path: &[u8], error: Errno) -> Failure {
        let object = match self.lstat(path) {
            Ok(Stat { kind, mode, uid, gid, .. }) => format!("{kind:?} of mode {mode:04o}, owner {uid}:{gid}"),
            Err(error) => format!("lstat: {error:?}"),
        };
        Failure::new(format!("{call}: {error:?}, {object}: {}", String::from_utf8_lossy(path)))
    }
}

/// What tests often do, made from the operations above.
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

    /// Reads up to this many bytes: fewer only at the end of the file.
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

    /// Reads everything.
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

/// What tests often do, made from the operations above.
impl dyn Directory + '_ {
    /// All entries from here on, "." and ".." too.
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

//! The mount table: what is mounted where, as the kernel reports in proc_pid_mountinfo(5).

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Result, Seek};

use rustix::event::{PollFd, PollFlags};

/// Path of the mount table of the calling thread's mount namespace.
const OWN: &str = "/proc/thread-self/mountinfo";

/// Reads the mount table of the calling thread's mount namespace, for [`mounts`].
///
/// # Errors
/// Those of open(2) and read(2).
pub fn read() -> Result<Vec<u8>> {
    crate::read::read(OWN)
}

/// One mount, parsed from its line in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The kernel's ID of the mount. IDs of mounts that are gone are reused.
    pub number: u64,
    /// ID of the parent mount.
    pub parent: u64,
    /// Device number of its file system, as in makedev(3).
    pub device: u64,
    /// Path, within the file system, of what is mounted.
    pub root: Cow<'a, [u8]>,
    /// Mount point: a path from the root directory of the process whose table it is.
    pub mount_point: Cow<'a, [u8]>,
    /// Mount options, separated by commas.
    pub options: &'a [u8],
    /// The type of the file system, such as `ext4`.
    pub kind: Cow<'a, [u8]>,
    /// Source that mount(8) shows.
    pub source: Cow<'a, [u8]>,
    /// Options of the file system, separated by commas; their values are still [escaped](unescape).
    pub file_system_options: &'a [u8],
}

impl<'a> Mount<'a> {
    /// Parses a line; `None` if it does not describe a mount.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ');
        let mut next = || fields.next();
        let (number, parent, device) = (number(next()?)?, number(next()?)?, device(next()?)?);
        let (root, mount_point, options) = (unescape(next()?), unescape(next()?), next()?);
        // Any number of optional fields comes in between.
        while next()? != b"-" {}
        let (kind, source) = (unescape(next()?), unescape(next()?));
        let file_system_options = next().unwrap_or_default();
        Some(Self { number, parent, device, root, mount_point, options, kind, source, file_system_options })
    }

    /// Returns whether a process, which might not answer, serves its file system by FUSE. `fuseblk`, which is root's,
    /// does not count.
    pub fn is_fuse(&self) -> bool {
        *self.kind == *b"fuse" || self.kind.starts_with(b"fuse.")
    }
}

/// Returns the mounts of a table in the order in which they were made: the last of several at one mount point covers
/// the others.
pub fn mounts(table: &[u8]) -> impl DoubleEndedIterator<Item = Mount<'_>> {
    table.split(|&byte| byte == b'\n').filter_map(Mount::parse)
}

/// Decodes the octal escapes (`\040`) of spaces, tabs, newlines and backslashes, and of commas in options.
pub fn unescape(field: &[u8]) -> Cow<'_, [u8]> {
    if !field.contains(&b'\\') {
        return Cow::Borrowed(field);
    }
    let (mut plain, mut rest) = (Vec::with_capacity(field.len()), field);
    while let [first, after @ ..] = rest {
        match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(plain)
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn device(field: &[u8]) -> Option<u64> {
    let (major, minor) = std::str::from_utf8(field).ok()?.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Mount table of the namespace in which it was opened, with detection of changes.
#[derive(Debug)]
pub struct MountTable(File);

impl MountTable {
    /// Opens the table.
    ///
    /// # Errors
    /// As open(2): without /proc there is no table.
    pub fn open() -> Result<Self> {
        File::open(OWN).map(Self)
    }

    /// Returns whether the table has changed since the last call; the kernel reports each change once.
    pub fn has_changed(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.0, PollFlags::PRI)];
        let ready = rustix::event::poll(&mut descriptors, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 }));
        ready.is_ok_and(|count| count > 0)
    }

    /// Reads the current table, for [`mounts`].
    ///
    /// # Errors
    /// As read(2).
    pub fn read(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        self.0.rewind().and_then(|()| self.0.read_to_end(&mut text))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table() {
        let line = br"36 35 98:7 /sub\011dir /mnt/a\040b\134 ro,noatime shared:1 master:2 - fuse.plyfs /srv\040|\040audit rw,a=\054";
        let expected = Mount {
            number: 36,
            parent: 35,
            device: rustix::fs::makedev(98, 7),
            root: b"/sub\tdir".into(),
            mount_point: br"/mnt/a b\".into(),
            options: b"ro,noatime",
            kind: b"fuse.plyfs".into(),
            source: b"/srv | audit".into(),
            file_system_options: br"rw,a=\054",
        };
        assert_eq!(Mount::parse(line), Some(expected));
        let without_tags = b"1 1 8:1 / / rw - ext4 /dev/vda";
        assert_eq!(Mount::parse(without_tags).map(|mount| mount.kind), Some(b"ext4".into()));
        assert!(
            [&b""[..], b"nonsense", b"1 1 8:1 / / rw shared:1", b"1 1 8 / / rw - ext4 x rw"]
                .into_iter()
                .all(|line| Mount::parse(line).is_none())
        );
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(*unescape(br"a\054\04\777\x\\"), *br"a,\04\777\x\\");
        assert!(matches!(unescape(b"plain"), Cow::Borrowed(b"plain")));
    }

    /// Any user may mount something with such a name, in a namespace of their own or by a set-user-ID helper.
    #[test]
    fn lines_that_are_not_text_or_not_understood_hide_no_other() {
        let table = b"36 35 98:7 / /mnt/\xff rw - ext4 /dev/a rw\nnonsense\n37 35 98:8 / /b rw - tmpfs  rw\n";
        let found: Vec<_> = mounts(table).map(|mount| (mount.number, mount.mount_point.into_owned())).collect();
        assert_eq!(found, [(36, b"/mnt/\xff".to_vec()), (37, b"/b".to_vec())]);
    }

    #[test]
    fn the_root_is_mounted() {
        let table = MountTable::open().unwrap().read().unwrap();
        assert_eq!(table, read().unwrap());
        assert!(mounts(&table).any(|mount| *mount.mount_point == *b"/"));
    }
}

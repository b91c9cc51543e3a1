//! Where file systems are mounted below the root, as the kernel's mount table tells, read again when it changes.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags};

use super::credentials::Acting;
use super::paths::absolute_path;
use super::restrictions::Restrictions;
use super::tree::PATH_ONLY;

/// The mount points below a directory.
pub struct Submounts {
    known: Mutex<Known>,
}

/// The mount table as it was last read.
struct Known {
    table: Option<File>,
    points: Vec<Point>,
    parents: HashSet<Vec<u8>>,
}

/// One mount point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// The kernel's number of the mount.
    pub id: u64,
    /// The number of the device that is mounted.
    pub device: u64,
    /// What the mount forbids.
    pub restrictions: Restrictions,
    /// Below the root.
    path: Vec<u8>,
}

impl Submounts {
    /// Those below `root`. Without a mount table to read there are none.
    pub fn new(root: BorrowedFd<'_>) -> Self {
        let table = File::open("/proc/thread-self/mountinfo").ok();
        let mut known = Known { table, points: Vec::new(), parents: HashSet::new() };
        known.read(root);
        Self { known: Mutex::new(known) }
    }

    /// Whether something is mounted on an entry of this directory, so that its records tell what is covered.
    pub fn are_in(&self, root: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> bool {
        let known = self.current(root);
        !known.parents.is_empty() && absolute_path(directory).is_ok_and(|path| known.parents.contains(&path))
    }

    /// Where a device is mounted.
    pub fn of_device(&self, root: BorrowedFd<'_>, device: u64) -> Vec<Point> {
        self.current(root).points.iter().filter(|point| point.device == device).cloned().collect()
    }

    /// The root of what is mounted at a point, opened component by component.
    pub fn open(acting: &Acting<'_>, root: BorrowedFd<'_>, point: &Point) -> Option<OwnedFd> {
        let mut object: Option<OwnedFd> = None;
        for component in point.path.split(|&byte| byte == b'/') {
            let directory = object.as_ref().map_or(root, AsFd::as_fd);
            object = Some(acting.open_at(directory, component, PATH_ONLY).ok()?);
        }
        object
    }

    fn current(&self, root: BorrowedFd<'_>) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.has_changed() {
            known.read(root);
        }
        known
    }
}

impl Known {
    /// The kernel tells once that the mount table has changed since it was asked last.
    fn has_changed(&self) -> bool {
        let Some(table) = &self.table else { return false };
        let mut asked = [PollFd::new(table, PollFlags::PRI)];
        let told = rustix::event::poll(&mut asked, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 }));
        told.is_ok_and(|count| count > 0)
    }

    fn read(&mut self, root: BorrowedFd<'_>) {
        self.points.clear();
        self.parents.clear();
        let Some(table) = &mut self.table else { return };
        let (Ok(mut prefix), mut text) = (absolute_path(root), Vec::new()) else { return };
        if table.rewind().is_err() || table.read_to_end(&mut text).is_err() {
            return;
        }
        if prefix != b"/" {
            prefix.push(b'/');
        }
        for line in text.split(|&byte| byte == b'\n') {
            let Some(mut point) = parse(line) else { continue };
            let Some(path) = point.path.strip_prefix(&*prefix).filter(|path| !path.is_empty()) else { continue };
            let parent = point.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0).max(1);
            self.parents.insert(point.path[..parent].to_vec());
            point.path = path.to_vec();
            self.points.push(point);
        }
    }
}

/// The mount of a line of mountinfo, see proc_pid_mountinfo(5), with its whole path.
fn parse(line: &[u8]) -> Option<Point> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (major, minor) = std::str::from_utf8(fields.nth(1)?).ok()?.split_once(':')?;
    let device = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    let path = unescape(fields.nth(1)?);
    Some(Point { id, device, restrictions: Restrictions::of_options(fields.next()?), path })
}

/// Blanks, tabs, newlines and backslashes are written in octal.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let digits = after.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match digits {
            Some(digits) if *first == b'\\' => {
                plain.push(digits.iter().fold(0u8, |number, digit| number.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_mount_table_are_understood() {
        let line = br"36 35 98:7 /mnt1 /mnt/a\040b\134 ro,nosuid,noatime master:1 - ext3 /dev/root rw";
        let restrictions = Restrictions::READ_ONLY.union(Restrictions::NO_SET_ID);
        let point = Point { id: 36, device: rustix::fs::makedev(98, 7), restrictions, path: br"/mnt/a b\".to_vec() };
        assert_eq!(parse(line), Some(point));
        assert_eq!(parse(b""), None);
    }
}

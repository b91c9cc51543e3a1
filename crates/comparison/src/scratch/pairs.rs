//! Objects of two file systems with the same names, each a pair: what unionfs and lb2fs stand on. What both have is
//! shown as it is in the first, and what is changed is changed there.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fuser::{FileAttr, INodeNo};
use rustix::fs::{RenameFlags, StatVfs};
use rustix::io::Errno;

use super::pass_through::{Caller, Handles, Listed, Operations, PassThrough, Result, SetAttributes};

/// The number of the root.
const ROOT: u64 = 1;
/// From here on objects are numbered whose own number another has.
const OWN_NUMBERS: u64 = 1 << 63;

/// The numbers of an object in each branch that has it.
pub type Pair = [Option<u64>; 2];

/// Two file systems.
pub struct Pairs {
    branches: [PassThrough; 2],
    table: Mutex<Table>,
    /// The branch that serves each open file, and its handle there.
    files: Handles<(usize, u64)>,
    directories: Handles<Pair>,
}

struct Table {
    pairs: HashMap<u64, (Pair, u64)>,
    numbers: HashMap<Pair, u64>,
    next: u64,
}

impl Pairs {
    /// Joins two directories.
    pub fn new(first: PassThrough, second: PassThrough) -> Self {
        let root = [Some(ROOT); 2];
        let (pairs, numbers) = (HashMap::from([(ROOT, (root, 1))]), HashMap::from([(root, ROOT)]));
        let table = Mutex::new(Table { pairs, numbers, next: OWN_NUMBERS });
        Self { branches: [first, second], table, files: Handles::default(), directories: Handles::default() }
    }

    /// One of the two.
    pub fn branch(&self, index: usize) -> &PassThrough {
        &self.branches[index]
    }

    /// The numbers of an object in the branches.
    ///
    /// # Errors
    /// `ESTALE` if the kernel does not know it.
    pub fn pair(&self, number: u64) -> Result<Pair> {
        self.table().pairs.get(&number).map(|(pair, _)| *pair).ok_or(Errno::STALE)
    }

    /// Finds a name in both. The second's is shown if the first answers that error.
    ///
    /// # Errors
    /// That of the first, or, if this is that, of the second.
    pub fn find(&self, caller: &Caller, parent: u64, name: &OsStr, taken_over: Errno) -> Result<FileAttr> {
        let pair = self.pair(parent)?;
        let first = in_branch(pair[0], |directory| self.branches[0].lookup(caller, directory, name));
        if first.is_err_and(|error| error != taken_over) {
            return first;
        }
        let second = in_branch(pair[1], |directory| self.branches[1].lookup(caller, directory, name));
        if first.is_ok() || second.is_ok() { Ok(self.enter([first.ok(), second.ok()])) } else { second }
    }

    /// Opens an object in one branch.
    ///
    /// # Errors
    /// `ENOENT` if that lacks it, or what it says.
    pub fn open_in(&self, branch: usize, caller: &Caller, number: u64, flags: i32) -> Result<u64> {
        let handle = in_branch(self.pair(number)?[branch], |number| self.branches[branch].open(caller, number, flags))?;
        Ok(self.files.insert((branch, handle)))
    }

    /// All names of an open directory in one branch, if that has it.
    ///
    /// # Errors
    /// What it says.
    pub fn list_in(&self, branch: usize, caller: &Caller, number: u64, handle: u64) -> Result<Vec<Listed>> {
        match (self.pair(number)?[branch], self.directories.get(handle)?[branch]) {
            (Some(number), Some(handle)) => self.branches[branch].list(caller, number, handle),
            _ => Ok(Vec::new()),
        }
    }

    /// Counts a look-up of what was found in the branches.
    fn enter(&self, found: [Option<FileAttr>; 2]) -> FileAttr {
        let shown = found[0].or(found[1]).expect("one of the two is found");
        let pair = found.map(|found| found.map(|attributes| attributes.ino.0));
        let mut table = self.table();
        let known = table.numbers.get(&pair).copied();
        let number = known.unwrap_or_else(|| {
            let number = if table.pairs.contains_key(&shown.ino.0) { table.next } else { shown.ino.0 };
            table.next += u64::from(number == table.next);
            table.numbers.insert(pair, number);
            number
        });
        table.pairs.entry(number).or_insert((pair, 0)).1 += 1;
        FileAttr { ino: INodeNo(number), ..shown }
    }

    /// Makes a name in the first, and finds it in both.
    fn make<T>(
        &self,
        caller: &Caller,
        parent: u64,
        name: &OsStr,
        work: impl FnOnce(&PassThrough, u64) -> Result<(FileAttr, T)>,
    ) -> Result<(FileAttr, T)> {
        let pair = self.pair(parent)?;
        let (made, more) = in_branch(pair[0], |directory| work(&self.branches[0], directory))?;
        let second = in_branch(pair[1], |directory| self.branches[1].lookup(caller, directory, name));
        Ok((self.enter([Some(made), second.ok()]), more))
    }

    /// The first branch that has an object, and its number there.
    fn shown(&self, number: u64) -> Result<(&PassThrough, u64)> {
        match self.pair(number)? {
            [Some(number), _] => Ok((&self.branches[0], number)),
            [None, Some(number)] => Ok((&self.branches[1], number)),
            [None, None] => Err(Errno::STALE),
        }
    }

    /// An object's number in the first, where it is changed.
    fn changed(&self, number: u64) -> Result<(&PassThrough, u64)> {
        in_branch(self.pair(number)?[0], |number| Ok((&self.branches[0], number)))
    }

    /// The branch and the handle there of an open file.
    fn file(&self, handle: u64) -> Result<(&PassThrough, u64)> {
        self.files.get(handle).map(|file| (&self.branches[file.0], file.1))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does something with what a branch has.
pub fn in_branch<T>(number: Option<u64>, work: impl FnOnce(u64) -> Result<T>) -> Result<T> {
    number.map_or(Err(Errno::NOENT), work)
}

/// Attributes with another number.
fn numbered(number: u64, found: FileAttr) -> FileAttr {
    FileAttr { ino: INodeNo(number), ..found }
}

impl Operations for Pairs {
    fn below(&self) -> &dyn Operations {
        // All that has a number is done here: the rest is the same in both.
        &self.branches[0]
    }

    fn lookup(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<FileAttr> {
        self.find(caller, parent, name, Errno::NOENT)
    }

    fn forget(&self, number: u64, lookups: u64) {
        let mut table = self.table();
        let Some((pair, left)) = table.pairs.get_mut(&number).filter(|_| number != ROOT) else { return };
        *left = left.saturating_sub(lookups);
        let (pair, is_gone) = (*pair, *left == 0);
        if is_gone {
            table.numbers.remove(&pair);
            table.pairs.remove(&number);
        }
        drop(table);
        for (branch, number) in self.branches.iter().zip(pair) {
            number.inspect(|&number| branch.forget(number, lookups));
        }
    }

    fn getattr(&self, number: u64) -> Result<FileAttr> {
        let (branch, below) = self.shown(number)?;
        Ok(numbered(number, branch.getattr(below)?))
    }

    fn setattr(&self, caller: &Caller, number: u64, changes: &SetAttributes) -> Result<FileAttr> {
        let (branch, below) = self.changed(number)?;
        let handle = changes.handle.map(|handle| self.file(handle)).transpose()?.map(|(_, handle)| handle);
        Ok(numbered(number, branch.setattr(caller, below, &SetAttributes { handle, ..*changes })?))
    }

    fn readlink(&self, number: u64) -> Result<Vec<u8>> {
        let (branch, number) = self.shown(number)?;
        branch.readlink(number)
    }

    fn mknod(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, device: u32) -> Result<FileAttr> {
        let made = |first: &PassThrough, parent| Ok((first.mknod(caller, parent, name, mode, device)?, ()));
        Ok(self.make(caller, parent, name, made)?.0)
    }

    fn mkdir(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32) -> Result<FileAttr> {
        let made = |first: &PassThrough, parent| Ok((first.mkdir(caller, parent, name, mode)?, ()));
        Ok(self.make(caller, parent, name, made)?.0)
    }

    fn symlink(&self, caller: &Caller, parent: u64, name: &OsStr, target: &Path) -> Result<FileAttr> {
        let made = |first: &PassThrough, parent| Ok((first.symlink(caller, parent, name, target)?, ()));
        Ok(self.make(caller, parent, name, made)?.0)
    }

    fn link(&self, caller: &Caller, number: u64, parent: u64, name: &OsStr) -> Result<FileAttr> {
        let (_, number) = self.changed(number)?;
        let made = |first: &PassThrough, parent| Ok((first.link(caller, number, parent, name)?, ()));
        Ok(self.make(caller, parent, name, made)?.0)
    }

    fn create(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, flags: i32) -> Result<(FileAttr, u64)> {
        let made = |first: &PassThrough, parent| first.create(caller, parent, name, mode, flags);
        let (made, handle) = self.make(caller, parent, name, made)?;
        Ok((made, self.files.insert((0, handle))))
    }

    fn unlink(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        let (branch, parent) = self.changed(parent)?;
        branch.unlink(caller, parent, name)
    }

    fn rmdir(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<()> {
        let (branch, parent) = self.changed(parent)?;
        branch.rmdir(caller, parent, name)
    }

    fn rename(&self, caller: &Caller, from: (u64, &OsStr), to: (u64, &OsStr), flags: RenameFlags) -> Result<()> {
        let ((branch, from_parent), (_, to_parent)) = (self.changed(from.0)?, self.changed(to.0)?);
        branch.rename(caller, (from_parent, from.1), (to_parent, to.1), flags)
    }

    fn open(&self, caller: &Caller, number: u64, flags: i32) -> Result<u64> {
        let is_changed = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let branch = usize::from(!is_changed && self.pair(number)?[0].is_none());
        self.open_in(branch, caller, number, flags)
    }

    fn read(&self, number: u64, handle: u64, offset: u64, length: usize) -> Result<Vec<u8>> {
        let (branch, handle) = self.file(handle)?;
        branch.read(number, handle, offset, length)
    }

    fn write(&self, caller: &Caller, number: u64, handle: u64, offset: u64, data: &[u8]) -> Result<usize> {
        let (branch, handle) = self.file(handle)?;
        branch.write(caller, number, handle, offset, data)
    }

    fn fsync(&self, handle: u64, is_data_only: bool) -> Result<()> {
        let (branch, handle) = self.file(handle)?;
        branch.fsync(handle, is_data_only)
    }

    fn fallocate(&self, number: u64, handle: u64, mode: i32, offset: u64, length: u64) -> Result<()> {
        let (branch, handle) = self.file(handle)?;
        branch.fallocate(number, handle, mode, offset, length)
    }

    fn lseek(&self, number: u64, handle: u64, offset: u64, whence: i32) -> Result<u64> {
        let (branch, handle) = self.file(handle)?;
        branch.lseek(number, handle, offset, whence)
    }

    fn release(&self, handle: u64) {
        if let Some(file) = self.files.remove(handle) {
            self.branches[file.0].release(file.1);
        }
    }

    fn opendir(&self, caller: &Caller, number: u64) -> Result<u64> {
        let pair = self.pair(number)?;
        let open = |index: usize| pair[index].map(|number| self.branches[index].opendir(caller, number)).transpose();
        let first = open(0)?;
        let second = match open(1) {
            Err(Errno::NOTDIR) if first.is_some() => Ok(None),
            opened => opened,
        };
        match second {
            Ok(second) => Ok(self.directories.insert([first, second])),
            Err(error) => {
                first.inspect(|&handle| self.branches[0].releasedir(handle));
                Err(error)
            }
        }
    }

    fn list(&self, caller: &Caller, number: u64, handle: u64) -> Result<Vec<Listed>> {
        self.list_in(usize::from(self.pair(number)?[0].is_none()), caller, number, handle)
    }

    fn fsyncdir(&self, handle: u64, is_data_only: bool) -> Result<()> {
        let pair = self.directories.get(handle)?;
        let mut open = self.branches.iter().zip(*pair).filter_map(|(branch, handle)| Some((branch, handle?)));
        open.try_for_each(|(branch, handle)| branch.fsyncdir(handle, is_data_only))
    }

    fn releasedir(&self, handle: u64) {
        let Some(pair) = self.directories.remove(handle) else { return };
        for (branch, handle) in self.branches.iter().zip(*pair) {
            handle.inspect(|&handle| branch.releasedir(handle));
        }
    }

    fn statfs(&self, number: u64) -> Result<StatVfs> {
        let (branch, number) = self.shown(number)?;
        branch.statfs(number)
    }

    fn getxattr(&self, caller: &Caller, number: u64, name: &OsStr) -> Result<Vec<u8>> {
        let (branch, number) = self.shown(number)?;
        branch.getxattr(caller, number, name)
    }

    fn setxattr(&self, caller: &Caller, number: u64, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let (branch, number) = self.changed(number)?;
        branch.setxattr(caller, number, name, value, flags)
    }

    fn listxattr(&self, caller: &Caller, number: u64) -> Result<Vec<u8>> {
        let (branch, number) = self.shown(number)?;
        branch.listxattr(caller, number)
    }

    fn removexattr(&self, caller: &Caller, number: u64, name: &OsStr) -> Result<()> {
        let (branch, number) = self.changed(number)?;
        branch.removexattr(caller, number, name)
    }

    fn access(&self, caller: &Caller, number: u64, mask: i32) -> Result<()> {
        let (branch, number) = self.shown(number)?;
        branch.access(caller, number, mask)
    }
}

//! The journal of a commit: an append-only file in the fork, so that an interrupted commit resumes where it stopped.
//!
//! `.wh..wh.plyfs/commit` has one line for each event: `begun ID` first, with the identifier in this commit's temporary names;
//! `copy UPPER CTIME BASE MTIME PATH` before a copy of that object, as of that ctime, takes its place in the file system; `move
//! UPPER BASE` for each directory that is to move, before the first does.
//!
//! The other lines distinguish this commit's own changes from others'. `rights BASE MODE UID GID XATTRS` gives the permissions
//! of a directory of the file system as first seen, or as set; `rights BASE` alone precedes a change of them. `bereft BASE` is
//! a file that is about to lose names; `left BASE` a directory out of which others are about to move, and `left BASE MTIME` one
//! out of which they have moved; `aside BASE` a directory that is about to be removed with all its contents; `staging BASE` the
//! one that holds the directories in transit. `lost LOSSES PATH` is what the file system could not preserve of the object at
//! that path.

use std::collections::{BTreeMap, HashMap, HashSet};

use vnode::{Attributes, Caller, Errno, Handle, NameBuf, OpenFileRef, OpenFlags, Result, Timestamp, VnodeRef};

use super::permissions::DirectoryPermissions;
use crate::union::branch::encoding;
use crate::union::branch::losses::Losses;
use crate::union::branch::objects;
use crate::union::branch::state_directory;
use crate::union::branch::state_directory::LATER_VERSION;
use crate::union::branch::work::WorkDirectory;

/// Journal of a fork.
pub(crate) struct Journal {
    file: OpenFileRef,
    end: u64,
    /// Identifier in the temporary names.
    pub(crate) id: String,
    /// Whether an earlier commit was started and interrupted.
    pub(crate) is_resumed: bool,
    /// The error of the last write that failed.
    pub(crate) failure: Option<Errno>,
    copies: HashMap<(Handle, Timestamp), JournaledCopy>,
    made: HashMap<Handle, Timestamp>,
    moves: HashMap<Handle, Handle>,
    permissions: HashMap<Handle, Option<DirectoryPermissions>>,
    orphaned: HashSet<Handle>,
    left: HashMap<Handle, Option<Timestamp>>,
    aside: HashSet<Handle>,
    staging: Option<Handle>,
    lost: BTreeMap<Vec<u8>, Losses>,
}

/// A copy in the file system.
#[derive(Clone)]
pub(crate) struct JournaledCopy {
    pub(crate) handle: Handle,
    /// Path at which it was first placed.
    pub(crate) path: Vec<u8>,
}

impl Journal {
    /// Opens or creates the journal in the branch of changes.
    ///
    /// # Errors
    /// Errors from reading it; [`LATER_VERSION`] if a line is unknown: what it says of a commit must not be ignored.
    pub(crate) fn open(work: &WorkDirectory) -> Result<Self> {
        let created = state_directory::create_own(&work.state()?, state_directory::COMMIT, OpenFlags::READ_WRITE)?;
        let text = objects::read_all(&created.entry, u64::MAX)?;
        // A partly written event did not happen.
        let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let mut journal = Self {
            file: created.file,
            end: end as u64,
            id: String::new(),
            is_resumed: false,
            failure: None,
            copies: HashMap::new(),
            made: HashMap::new(),
            moves: HashMap::new(),
            permissions: HashMap::new(),
            orphaned: HashSet::new(),
            left: HashMap::new(),
            aside: HashSet::new(),
            staging: None,
            lost: BTreeMap::new(),
        };
        let text = std::str::from_utf8(&text[..end]).map_err(|_| LATER_VERSION)?;
        // Storage after a power failure may have zeros where it was not written.
        for line in text.lines().filter(|line| !line.contains('\0')) {
            journal.apply(&line.split(' ').collect::<Vec<_>>()).ok_or(LATER_VERSION)?;
        }
        Ok(journal)
    }

    /// Opens the journal in the branch of changes, if there is one.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub(crate) fn open_existing(root: &VnodeRef, work: &WorkDirectory) -> Result<Option<Self>> {
        let Some(state) = state_directory::state_of(root)? else { return Ok(None) };
        let is_there = state_directory::find_own(&state, state_directory::COMMIT)?.is_some();
        if is_there { Self::open(work).map(Some) } else { Ok(None) }
    }

    /// Records that the file system is changed from now on.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.is_resumed {
            return Ok(());
        }
        let now = Timestamp::now();
        self.id = format!(
            "{:x}-{:x}",
            std::process::id(),
            now.seconds.unsigned_abs() << 20 | u64::from(now.nanoseconds >> 10)
        );
        self.write(&format!("begun {}", self.id))
    }

    /// Name of an object that is not in its place yet.
    pub(crate) fn temporary_name(&self, number: u64) -> NameBuf {
        NameBuf::new(format!(".plyfs-{}-{number}", self.id).into_bytes()).expect("it is short")
    }

    /// Returns whether a name is a temporary name.
    pub(crate) fn is_temporary(&self, name: &NameBuf) -> bool {
        self.is_resumed && name.as_bytes().starts_with(format!(".plyfs-{}-", self.id).as_bytes())
    }

    /// The file system's copy of an object in its present state.
    pub(crate) fn copy_of(&self, object: &Handle, attributes: &Attributes) -> Option<JournaledCopy> {
        self.copies.get(&(*object, attributes.ctime)).cloned()
    }

    /// Modification time that the fork's data have, for an object of the file system that this commit created.
    pub(crate) fn mtime_of_copy(&self, object: &Handle) -> Option<Timestamp> {
        self.made.get(object).copied()
    }

    /// Records that a copy is complete, and about to take its place.
    pub(crate) fn record_copy(&mut self, object: &Handle, attributes: &Attributes, copy: JournaledCopy) -> Result<()> {
        let (object_digits, base, path) = (digits(object), digits(&copy.handle), encoding::to_hex(&copy.path));
        let (ctime, mtime) = (time_text(attributes.ctime), time_text(attributes.mtime));
        self.write(&format!("copy {object_digits} {ctime} {base} {mtime} {path}"))?;
        self.made.insert(copy.handle, attributes.mtime);
        self.copies.insert((*object, attributes.ctime), copy);
        Ok(())
    }

    /// The directory of the file system that is to move to where the fork has this one.
    pub(crate) fn moved_to(&self, directory: &Handle) -> Option<Handle> {
        self.moves.get(directory).copied()
    }

    /// Records that the directory is to move.
    pub(crate) fn record_move(&mut self, directory: &Handle, rest: &Handle) -> Result<()> {
        self.write(&format!("move {} {}", digits(directory), digits(rest)))?;
        self.moves.insert(*directory, *rest);
        Ok(())
    }

    /// Returns whether this is a directory of the file system that is to move, or has moved.
    pub(crate) fn is_moved(&self, directory: &Handle) -> bool {
        self.moves.values().any(|rest| rest == directory)
    }

    /// Permissions that a directory of the file system has unless others have changed them: `None` if it is unknown, and an
    /// inner `None` if they were being changed.
    pub(crate) fn permissions_of(&self, directory: &Handle) -> Option<Option<DirectoryPermissions>> {
        self.permissions.get(directory).copied()
    }

    /// Records the permissions of the directory, or with `None`, that they are about to be changed.
    pub(crate) fn record_permissions(
        &mut self,
        directory: &Handle,
        permissions: Option<DirectoryPermissions>,
    ) -> Result<()> {
        let words = permissions.map(|permissions| format!(" {}", permissions.words())).unwrap_or_default();
        self.write(&format!("rights {}{words}", digits(directory)))?;
        self.permissions.insert(*directory, permissions);
        Ok(())
    }

    /// Returns whether this commit orphans the file: removes some of its names.
    pub(crate) fn is_orphaned(&self, file: &Handle) -> bool {
        self.orphaned.contains(file)
    }

    /// Records that the file is about to lose names.
    pub(crate) fn record_orphaned(&mut self, file: &Handle) -> Result<()> {
        if self.orphaned.insert(*file) { self.write(&format!("bereft {}", digits(file))) } else { Ok(()) }
    }

    /// The mtime of a directory since this commit moved something out of it; an inner `None` if that is not known.
    pub(crate) fn source_mtime(&self, directory: &Handle) -> Option<Option<Timestamp>> {
        self.left.get(directory).copied()
    }

    /// Records the mtime since something was moved out of the directory; with `None`, that something is about to be.
    pub(crate) fn record_source_mtime(&mut self, directory: &Handle, time: Option<Timestamp>) -> Result<()> {
        let word = time.map(|time| format!(" {}", time_text(time))).unwrap_or_default();
        self.write(&format!("left {}{word}", digits(directory)))?;
        self.left.insert(*directory, time);
        Ok(())
    }

    /// Returns whether a directory may be removed with all its contents.
    pub(crate) fn is_aside(&self, directory: &Handle) -> bool {
        self.aside.contains(directory)
    }

    /// Records that the directory is about to be removed with all its contents.
    pub(crate) fn record_aside(&mut self, directory: &Handle) -> Result<()> {
        if self.aside.insert(*directory) {
            self.write(&format!("aside {}", digits(directory)))?;
        }
        self.sync()
    }

    /// The directory that holds directories in transit.
    pub(crate) fn staging(&self) -> Option<Handle> {
        self.staging
    }

    /// Records that it was created.
    pub(crate) fn record_staging(&mut self, directory: &Handle) -> Result<()> {
        self.write(&format!("staging {}", digits(directory)))?;
        self.staging = Some(*directory);
        self.sync()
    }

    /// Attributes that the file system could not preserve, by path.
    pub(crate) fn lost(&self) -> &BTreeMap<Vec<u8>, Losses> {
        &self.lost
    }

    /// Records what it could not preserve of the object at this path.
    pub(crate) fn record_lost(&mut self, path: Vec<u8>, losses: Losses) -> Result<()> {
        if losses.is_empty() || self.lost.get(&path) == Some(&losses) {
            return Ok(());
        }
        self.write(&format!("lost {} {}", losses.words(), encoding::to_hex(&path)))?;
        self.lost.insert(path, losses);
        Ok(())
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.file.fsync(&Caller::server(), true).inspect_err(|errno| self.failure = Some(*errno))
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        objects::write_all(&*self.file, self.end, line.as_bytes()).inspect_err(|errno| self.failure = Some(*errno))?;
        self.end += line.len() as u64;
        Ok(())
    }

    /// Applies a line; `None` if it is unknown.
    fn apply(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["begun", id] => (self.id, self.is_resumed) = ((*id).to_owned(), true),
            ["copy", object, changed, copy, written, path] => {
                let (object, copied) = (handle(object)?, handle(copy)?);
                let (changed, written, path) = (time(changed)?, time(written)?, encoding::from_hex(path)?);
                self.copies.insert((object, changed), JournaledCopy { handle: copied, path });
                self.made.insert(copied, written);
            }
            ["move", directory, rest] => drop(self.moves.insert(handle(directory)?, handle(rest)?)),
            ["rights", directory] => drop(self.permissions.insert(handle(directory)?, None)),
            ["rights", directory, mode, uid, gid, attributes] => {
                let permissions = DirectoryPermissions::parse_words([mode, uid, gid, attributes])?;
                self.permissions.insert(handle(directory)?, Some(permissions));
            }
            ["bereft", file] => drop(self.orphaned.insert(handle(file)?)),
            ["left", directory] => drop(self.left.insert(handle(directory)?, None)),
            ["left", directory, changed] => drop(self.left.insert(handle(directory)?, Some(time(changed)?))),
            ["aside", directory] => drop(self.aside.insert(handle(directory)?)),
            ["staging", directory] => self.staging = Some(handle(directory)?),
            ["lost", losses, path] => drop(self.lost.insert(encoding::from_hex(path)?, Losses::parse_words(losses)?)),
            _ => return None,
        }
        Some(())
    }
}

fn digits(handle: &Handle) -> String {
    encoding::to_hex(handle.as_bytes())
}

fn handle(digits: &str) -> Option<Handle> {
    Handle::new(&encoding::from_hex(digits)?).ok()
}

fn time_text(Timestamp { seconds, nanoseconds }: Timestamp) -> String {
    format!("{seconds}.{nanoseconds}")
}

fn time(text: &str) -> Option<Timestamp> {
    let (seconds, nanoseconds) = text.split_once('.')?;
    Some(Timestamp { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As documented in docs/formats/fork.md.
    #[test]
    fn documented_lines_are_parsed() {
        const FORMAT_DOCUMENTATION: &str =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/fork.md"));
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let example = FORMAT_DOCUMENTATION.split_once("```\n").unwrap().1.split_once("```").unwrap().0;
        assert_eq!(example.len(), 108);
        for line in example.lines() {
            let words = words(line);
            assert!(FORMAT_DOCUMENTATION.contains(&format!("| `{} ", words[0])), "{line}");
        }
        let copy = words(example.lines().nth(1).unwrap());
        let [object, changed, base, written, path] = &copy[1..] else { panic!("{copy:?}") };
        assert!(
            handle(object).is_some() && handle(base).is_some() && time(changed).is_some() && time(written).is_some()
        );
        assert_eq!(encoding::from_hex(path).unwrap(), b"file");
    }
}

//! What a commit has done: a file in the fork that only grows, so that a commit which was stopped goes on where it was.
//!
//! `.wh..wh.plyfs/commit` has one line for each thing: `begun ID` first, with what the temporary names of this commit have
//! in them; `copy UPPER CTIME BASE MTIME PATH` before a copy of that object, as it was when its status last changed, takes that
//! place in the file system; `move UPPER BASE` for each directory that is to move, before the first does.
//!
//! The others tell what is this commit's doing from what others do. `rights BASE MODE UID GID XATTRS` is what a directory of the
//! file system had when it was first seen, or was given; `rights BASE` alone, before it is given others. `bereft BASE` is a file
//! that is about to lose names; `left BASE` a directory out of which others are about to move, and `left BASE MTIME` one out of
//! which they have moved; `aside BASE` a directory that is about to be removed with all that is in it; `staging BASE` the one that
//! those are in which are on their way. `lost LOSSES PATH` is what the file system did not keep of what came to that path.

use std::collections::{BTreeMap, HashMap, HashSet};

use vnode::{Attributes, Caller, Creation, Handle, NameBuf, OpenFileRef, OpenFlags, Result, Timestamp, VnodeRef};

use super::super::identity;
use super::super::losses::Losses;
use super::super::register::LATER;
use super::super::work::{self, Work};
use super::rights::Rights;

/// The journal of a fork.
pub(super) struct Journal {
    file: OpenFileRef,
    end: u64,
    /// What is in the temporary names.
    pub(super) id: String,
    /// A commit was begun before, and stopped.
    pub(super) is_resumed: bool,
    copies: HashMap<(Handle, Timestamp), Copied>,
    made: HashMap<Handle, Timestamp>,
    moves: HashMap<Handle, Handle>,
    rights: HashMap<Handle, Option<Rights>>,
    bereft: HashSet<Handle>,
    left: HashMap<Handle, Option<Timestamp>>,
    aside: HashSet<Handle>,
    staging: Option<Handle>,
    lost: BTreeMap<Vec<u8>, Losses>,
}

/// A copy in the file system.
#[derive(Clone)]
pub(super) struct Copied {
    pub(super) handle: Handle,
    /// The place that it took first.
    pub(super) path: Vec<u8>,
}

impl Journal {
    /// That in the branch of changes.
    ///
    /// # Errors
    /// Those of reading it; [`LATER`] for one with a line that is not known: what it says of a commit must not be passed over.
    pub(super) fn open(work: &Work) -> Result<Self> {
        let server = Caller::server();
        let how = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
        let created = work.state()?.create(&server, work::name(Work::COMMIT), &how)?;
        let text = work::read_all(&created.entry, u64::MAX)?;
        // What was not written to its end did not happen.
        let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let mut journal = Self {
            file: created.file,
            end: end as u64,
            id: String::new(),
            is_resumed: false,
            copies: HashMap::new(),
            made: HashMap::new(),
            moves: HashMap::new(),
            rights: HashMap::new(),
            bereft: HashSet::new(),
            left: HashMap::new(),
            aside: HashSet::new(),
            staging: None,
            lost: BTreeMap::new(),
        };
        let text = std::str::from_utf8(&text[..end]).map_err(|_| LATER)?;
        // Storage that was switched off may have zeros where it was not written.
        for line in text.lines().filter(|line| !line.contains('\0')) {
            journal.learn(&line.split(' ').collect::<Vec<_>>()).ok_or(LATER)?;
        }
        Ok(journal)
    }

    /// That in the branch of changes, if there is one.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub(super) fn open_if_there(root: &VnodeRef, work: &Work) -> Result<Option<Self>> {
        let Some(state) = work::state_of(root)? else { return Ok(None) };
        let is_there = work::find(&state, work::name(Work::COMMIT))?.is_some();
        if is_there { Self::open(work).map(Some) } else { Ok(None) }
    }

    /// From now on the file system is changed.
    pub(super) fn begin(&mut self) -> Result<()> {
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

    /// A name for what is not in its place yet.
    pub(super) fn temporary_name(&self, number: u64) -> NameBuf {
        NameBuf::new(format!(".plyfs-{}-{number}", self.id).into_bytes()).expect("it is short")
    }

    /// Whether a name is one of those.
    pub(super) fn is_temporary(&self, name: &NameBuf) -> bool {
        self.is_resumed && name.as_bytes().starts_with(format!(".plyfs-{}-", self.id).as_bytes())
    }

    /// The copy in the file system of an object as it is now.
    pub(super) fn copy_of(&self, object: &Handle, attributes: &Attributes) -> Option<Copied> {
        self.copies.get(&(*object, attributes.ctime)).cloned()
    }

    /// When the data of an object of the file system were changed, if it is one of ours: by the fork.
    pub(super) fn time_of_made(&self, object: &Handle) -> Option<Timestamp> {
        self.made.get(object).copied()
    }

    /// A copy is complete, and about to take its place.
    pub(super) fn note_copy(&mut self, object: &Handle, attributes: &Attributes, copy: Copied) -> Result<()> {
        let (object_digits, base, path) = (digits(object), digits(&copy.handle), identity::digits(&copy.path));
        let (ctime, mtime) = (time_text(attributes.ctime), time_text(attributes.mtime));
        self.write(&format!("copy {object_digits} {ctime} {base} {mtime} {path}"))?;
        self.made.insert(copy.handle, attributes.mtime);
        self.copies.insert((*object, attributes.ctime), copy);
        Ok(())
    }

    /// The directory of the file system that is to move to where the fork has this one.
    pub(super) fn moved_to(&self, directory: &Handle) -> Option<Handle> {
        self.moves.get(directory).copied()
    }

    /// The directory is to move.
    pub(super) fn note_move(&mut self, directory: &Handle, rest: &Handle) -> Result<()> {
        self.write(&format!("move {} {}", digits(directory), digits(rest)))?;
        self.moves.insert(*directory, *rest);
        Ok(())
    }

    /// Whether this is a directory of the file system that is to move, or has moved.
    pub(super) fn is_moved(&self, directory: &Handle) -> bool {
        self.moves.values().any(|rest| rest == directory)
    }

    /// The rights that a directory of the file system has unless others have changed them: `None` for one of which nothing is
    /// known, and within it, for one that was being given others.
    pub(super) fn rights_of(&self, directory: &Handle) -> Option<Option<Rights>> {
        self.rights.get(directory).copied()
    }

    /// The directory has these rights, or with `None`, is about to be given others.
    pub(super) fn note_rights(&mut self, directory: &Handle, rights: Option<Rights>) -> Result<()> {
        let words = rights.map(|rights| format!(" {}", rights.words())).unwrap_or_default();
        self.write(&format!("rights {}{words}", digits(directory)))?;
        self.rights.insert(*directory, rights);
        Ok(())
    }

    /// Whether this commit takes names from the file.
    pub(super) fn is_bereft(&self, file: &Handle) -> bool {
        self.bereft.contains(file)
    }

    /// The file is about to lose names.
    pub(super) fn note_bereft(&mut self, file: &Handle) -> Result<()> {
        if self.bereft.insert(*file) { self.write(&format!("bereft {}", digits(file))) } else { Ok(()) }
    }

    /// The time of the data of a directory since this commit took something out of it; within it, `None` if that is not known.
    pub(super) fn left(&self, directory: &Handle) -> Option<Option<Timestamp>> {
        self.left.get(directory).copied()
    }

    /// That is the time since something was taken out of the directory; with `None`, something is about to be.
    pub(super) fn note_left(&mut self, directory: &Handle, time: Option<Timestamp>) -> Result<()> {
        let word = time.map(|time| format!(" {}", time_text(time))).unwrap_or_default();
        self.write(&format!("left {}{word}", digits(directory)))?;
        self.left.insert(*directory, time);
        Ok(())
    }

    /// Whether a directory may be removed with all that is in it.
    pub(super) fn is_aside(&self, directory: &Handle) -> bool {
        self.aside.contains(directory)
    }

    /// The directory is about to be removed, with all that is in it.
    pub(super) fn note_aside(&mut self, directory: &Handle) -> Result<()> {
        if self.aside.insert(*directory) {
            self.write(&format!("aside {}", digits(directory)))?;
        }
        self.sync()
    }

    /// The directory for those on their way.
    pub(super) fn staging(&self) -> Option<Handle> {
        self.staging
    }

    /// It was made.
    pub(super) fn note_staging(&mut self, directory: &Handle) -> Result<()> {
        self.write(&format!("staging {}", digits(directory)))?;
        self.staging = Some(*directory);
        self.sync()
    }

    /// What the file system did not keep, by path.
    pub(super) fn lost(&self) -> &BTreeMap<Vec<u8>, Losses> {
        &self.lost
    }

    /// It did not keep that of what came to this path.
    pub(super) fn note_lost(&mut self, path: Vec<u8>, losses: Losses) -> Result<()> {
        if losses.is_empty() || self.lost.get(&path) == Some(&losses) {
            return Ok(());
        }
        self.write(&format!("lost {} {}", losses.words(), identity::digits(&path)))?;
        self.lost.insert(path, losses);
        Ok(())
    }

    /// What is written so far is lasting.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.fsync(&Caller::server(), true)
    }

    fn write(&mut self, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        work::write_all(&*self.file, self.end, line.as_bytes())?;
        self.end += line.len() as u64;
        Ok(())
    }

    /// Takes a line in: `None` for one that is not known.
    fn learn(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["begun", id] => (self.id, self.is_resumed) = ((*id).to_owned(), true),
            ["copy", object, changed, copy, written, path] => {
                let (object, copied) = (handle(object)?, handle(copy)?);
                let (changed, written, path) = (time(changed)?, time(written)?, identity::bytes(path)?);
                self.copies.insert((object, changed), Copied { handle: copied, path });
                self.made.insert(copied, written);
            }
            ["move", directory, rest] => drop(self.moves.insert(handle(directory)?, handle(rest)?)),
            ["rights", directory] => drop(self.rights.insert(handle(directory)?, None)),
            ["rights", directory, mode, uid, gid, attributes] => {
                let rights = Rights::of_words([mode, uid, gid, attributes])?;
                self.rights.insert(handle(directory)?, Some(rights));
            }
            ["bereft", file] => drop(self.bereft.insert(handle(file)?)),
            ["left", directory] => drop(self.left.insert(handle(directory)?, None)),
            ["left", directory, changed] => drop(self.left.insert(handle(directory)?, Some(time(changed)?))),
            ["aside", directory] => drop(self.aside.insert(handle(directory)?)),
            ["staging", directory] => self.staging = Some(handle(directory)?),
            ["lost", losses, path] => drop(self.lost.insert(identity::bytes(path)?, Losses::of_words(losses)?)),
            _ => return None,
        }
        Some(())
    }
}

fn digits(handle: &Handle) -> String {
    identity::digits(handle.as_bytes())
}

fn handle(digits: &str) -> Option<Handle> {
    Handle::new(&identity::bytes(digits)?).ok()
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

    /// As docs/formats/fork.md has them.
    #[test]
    fn lines_in_the_documentation_are_those_that_are_read() {
        const PAGE: &str = include_str!("../../../../../docs/formats/fork.md");
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let example = PAGE.split_once("```\n").unwrap().1.split_once("```").unwrap().0;
        assert_eq!(example.len(), 108);
        for line in example.lines() {
            let words = words(line);
            assert!(PAGE.contains(&format!("| `{} ", words[0])), "{line}");
        }
        let copy = words(example.lines().nth(1).unwrap());
        let [object, changed, base, written, path] = &copy[1..] else { panic!("{copy:?}") };
        assert!(
            handle(object).is_some() && handle(base).is_some() && time(changed).is_some() && time(written).is_some()
        );
        assert_eq!(identity::bytes(path).unwrap(), b"file");
    }
}

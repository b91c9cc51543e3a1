//! The work directory of a branch: where things are made before they are seen, and go before they are removed.
//!
//! It is `.wh..wh.plyfs/work` at the branch's root, made when it is first needed. Whatever is in it when a union begins
//! to use it was left by one that was stopped half-way, and belongs to no name: it is removed. What has to be done beside
//! that, its name tells: see [`Purpose`]. What has a name of another form is a later version's, and stays.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use vnode::{
    Caller, Creation, Device, Entry, Errno, FileKind, Lock, LockFamily, LockKind, LockOwner, Name, NameBuf, OpenFile,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, Timestamp, VnodeRef, read_fully, write_fully,
};

use super::durable::sync_directory;
use super::identity::Identity;
use super::kept;
use super::losses::{self, Losses};
use super::metacopy;
use super::register::Register;
use super::sure::Sure;
use super::trusted;
use super::whiteout::{self, STATE};
use super::whiteout_device;
use super::xattrs;

/// What something in the work directory is for: its name begins with it. So a name that is left behind is the record of
/// what was not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Made to be seen elsewhere, or taken out of sight to be removed.
    Passing,
    /// A copy of a file. If it has got its name in the links directory already, that goes too: there is the original.
    Copy,
    /// A name of a copied file that is to take the place of one of the original's, which are this many: the copy's count
    /// is set to that again.
    Name(u32),
    /// A name of a metadata-only copy whose data are coming, and its modification time, which is set to that again.
    Times(Timestamp),
    /// Tells which removals belong to a rename.
    Record,
    /// Tells of files that change places with their copies for a snapshot: see [`super::kept`].
    Kept,
}

impl Purpose {
    fn prefix(self) -> String {
        match self {
            Self::Passing => String::new(),
            Self::Copy => "copy.".to_owned(),
            Self::Name(names) => format!("name.{names}."),
            Self::Times(time) => format!("times.{}.{}.", time.seconds, time.nanoseconds),
            Self::Record => "record.".to_owned(),
            Self::Kept => "kept.".to_owned(),
        }
    }

    /// That of a name; `None` for one that only a later version can have made.
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let words: Vec<&str> = std::str::from_utf8(name).ok()?.split('.').collect();
        let (_, words) = words.split_last().filter(|(number, _)| is_number(number))?;
        Some(match words {
            [] => Self::Passing,
            ["copy"] => Self::Copy,
            ["record"] => Self::Record,
            ["kept"] => Self::Kept,
            ["name", names] => Self::Name(names.parse().ok()?),
            ["times", seconds, nanoseconds] => {
                Self::Times(Timestamp { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? })
            }
            _ => return None,
        })
    }
}

/// Tells that the branch has its extended attributes.
const MARKED: trusted::Mark = trusted::Mark::new(b"trusted.plyfs.marked", b"user.plyfs.marked");

/// Passed up for a branch that has lost them, and files whose data are elsewhere with them. No file system answers it.
pub(super) const UNMARKED: Errno = Errno::ENOTUNIQ;

/// The work directory of a branch.
pub(super) struct Work {
    root: VnodeRef,
    /// The branch has been written by a union, now or earlier.
    exists: AtomicBool,
    /// Directories have come to the branch that were known by another.
    has_copied_directories: AtomicBool,
    /// Files have come to the branch without their data.
    has_metacopies: AtomicBool,
    opened: Mutex<Option<Opened>>,
    /// What the register is to say.
    register: Mutex<String>,
    /// Whether the branch has hard links, once that is known.
    has_hard_links: OnceLock<bool>,
    /// Held to note losses, one after the other.
    losses: Mutex<()>,
    /// What could not be taken back yet.
    left: Mutex<Vec<NameBuf>>,
    next: AtomicU64,
}

/// What unions have written to a branch.
struct Written {
    exists: bool,
    has_copied_directories: bool,
    has_metacopies: bool,
}

impl Written {
    /// In the branch with this root.
    fn of(root: &VnodeRef) -> Result<Self> {
        let state = state_of(root)?;
        Register::of(root)?;
        let has = |mark| match &state {
            Some(state) => find(state, name(mark)),
            None => Ok(None),
        };
        let (copied, metacopies) = (has(Work::COPIED)?, has(Work::METACOPIES)?);
        if let Some(mark) = &metacopies
            && !MARKED.is_in(&xattrs::attributes(&mark.vnode)?)
        {
            return Err(UNMARKED);
        }
        Ok(Self {
            exists: state.is_some(),
            has_copied_directories: copied.is_some(),
            has_metacopies: metacopies.is_some(),
        })
    }
}

struct Opened {
    state: VnodeRef,
    directory: VnodeRef,
    /// Says to other unions that the directory is in use.
    _lock: Option<OpenFileRef>,
}

impl Work {
    /// The name of the directory itself. Whatever else there is in the state directory has its name here too: for the
    /// check, all others are unknown.
    pub(super) const WORK: &[u8] = b"work";
    /// The directory of names that lead to copies of files with several names.
    pub(super) const LINKS: &[u8] = b"links";
    /// The file that is locked while the branch is written to.
    pub(super) const LOCK: &[u8] = b"lock";
    /// The name of the file that [`super::register`] reads.
    pub(super) const REGISTER: &[u8] = b"branches";
    /// The mark of [`Work::has_copied_directories`].
    pub(super) const COPIED: &[u8] = b"directories";
    /// The mark of [`Work::has_metacopies`], a file that has the attribute [`MARKED`]: without it, it has come from elsewhere by a
    /// copy without attributes, and so have they.
    pub(super) const METACOPIES: &[u8] = b"metacopies";
    /// The name of the file that [`super::history`] reads.
    pub(super) const HISTORY: &[u8] = b"history";
    /// The directory of later layers.
    pub(super) const LAYERS: &[u8] = b"layers";
    /// The file that tells what of a fork is committed.
    pub(super) const COMMIT: &[u8] = b"commit";
    /// Where directories are while a layer is folded.
    pub(super) const MOVING: &[u8] = b"moving";
    /// The file of [`super::losses`].
    pub(super) const LOSSES: &[u8] = b"losses";
    /// What a file of the state directory is called before it is whole.
    pub(super) const PART: &[u8] = b"part";

    /// That of the branch with this root.
    ///
    /// # Errors
    /// Those of finding out what the branch has: to take it for less would show what is hidden. [`UNMARKED`]; [`LATER`] if a
    /// later version has written to it.
    ///
    /// [`LATER`]: super::register::LATER
    pub(super) fn new(root: &VnodeRef) -> Result<Self> {
        let written = Written::of(root)?;
        Ok(Self {
            root: root.clone(),
            exists: AtomicBool::new(written.exists),
            has_copied_directories: AtomicBool::new(written.has_copied_directories),
            has_metacopies: AtomicBool::new(written.has_metacopies),
            opened: Mutex::default(),
            register: Mutex::default(),
            has_hard_links: OnceLock::new(),
            losses: Mutex::default(),
            left: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Learns what another union has written to the branch since: whether that is anything new.
    ///
    /// # Errors
    /// As [`Work::new`].
    pub(super) fn look_again(&self) -> Result<bool> {
        let written = Written::of(&self.root)?;
        let is_new = |known: &AtomicBool, now: bool| known.swap(now, Ordering::Relaxed) != now;
        let flags = [
            is_new(&self.exists, written.exists),
            is_new(&self.has_copied_directories, written.has_copied_directories),
            is_new(&self.has_metacopies, written.has_metacopies),
        ];
        Ok(flags.contains(&true))
    }

    /// Whether directories have come to the branch that were known by another: otherwise none has an identity with it.
    pub(super) fn has_copied_directories(&self) -> bool {
        self.has_copied_directories.load(Ordering::Relaxed)
    }

    /// Such a directory is about to come.
    pub(super) fn note_copied_directories(&self) -> Result<()> {
        if self.has_copied_directories() {
            return Ok(());
        }
        let how = Creation { mode: 0o600, flags: OpenFlags::READ };
        self.state()?.create(&Caller::server(), name(Work::COPIED), &how)?;
        self.has_copied_directories.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether files have come to the branch without their data: then the branches on its right have to stay as they are.
    pub(super) fn has_metacopies(&self) -> bool {
        self.has_metacopies.load(Ordering::Relaxed)
    }

    /// Such a file is about to come: whether it may, for the branch has extended attributes.
    pub(super) fn note_metacopies(&self) -> Result<bool> {
        if self.has_metacopies() {
            return Ok(true);
        }
        let (server, work, part) = (Caller::server(), self.directory()?, self.name());
        let how = Creation { mode: 0o600, flags: OpenFlags::READ };
        // It is never seen without its attribute.
        let made = work.create(&server, part.as_name(), &how)?.entry;
        let is_marked = MARKED.set(&server, &made.vnode, b"").and_then(|is_marked| match is_marked {
            true => {
                work.rename_surely(&server, part.as_name(), &self.state()?, name(Work::METACOPIES), RenameMode::Replace)
            }
            false => Err(Errno::EOPNOTSUPP),
        });
        match is_marked {
            Ok(()) => self.has_metacopies.store(true, Ordering::Relaxed),
            Err(_) => self.discard(&part),
        }
        match is_marked {
            Err(Errno::EOPNOTSUPP) => Ok(false),
            noted => noted.map(|()| true),
        }
    }

    /// Whether a file of the branch can have several names: tried out once.
    pub(super) fn has_hard_links(&self) -> Result<bool> {
        if let Some(known) = self.has_hard_links.get() {
            return Ok(*known);
        }
        let (server, work, name, other) = (Caller::server(), self.directory()?, self.name(), self.name());
        let linked = work
            .mknod(&server, name.as_name(), FileKind::Regular, 0o600, Device::default())
            .and_then(|file| work.link_surely(&server, &file.vnode, other.as_name()));
        [name, other].iter().for_each(|name| self.discard(name));
        let has = match linked {
            Err(error) if whiteout::is_incapable(error) => false,
            linked => linked.map(|_| true)?,
        };
        Ok(*self.has_hard_links.get_or_init(|| has))
    }

    /// Notes what the branch does not keep of the copy at a path.
    pub(super) fn note_losses(&self, path: &[u8], lost: Losses) -> Result<()> {
        let state = self.state()?;
        let _one_at_a_time = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses::note(&state, path, lost)
    }

    /// Whether a union has ever written to the branch: otherwise nothing in it comes from another.
    pub(super) fn exists(&self) -> bool {
        self.exists.load(Ordering::Relaxed)
    }

    /// The directory, empty but for what this union is doing, and for records.
    ///
    /// # Errors
    /// `EBUSY` if another union writes to the branch; those of making it.
    pub(super) fn directory(&self) -> Result<VnodeRef> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &*opened {
            return Ok(opened.directory.clone());
        }
        let state = match state_of(&self.root)? {
            Some(state) => state,
            None => made_directory(&self.root, STATE)?,
        };
        let lock = take_lock(&state)?;
        let directory = directory_in(&state, Work::WORK)?;
        // A later version may have written there since this was made.
        Register::of(&self.root)?;
        clear(&self.root, &state, &directory)?;
        self.exists.store(true, Ordering::Relaxed);
        let register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            read_whole(&state, Self::REGISTER, 1 << 20).is_ok_and(|known| known.as_ref() == Some(&*register));
        if !is_known {
            write_whole(&state, Self::REGISTER, register.as_bytes())?;
        } else if state.lookup(&Caller::server(), name(Self::PART)).is_ok() {
            state.unlink_surely(&Caller::server(), name(Self::PART))?;
        }
        *opened = Some(Opened { state, directory: directory.clone(), _lock: lock });
        Ok(directory)
    }

    /// Keeps other unions from writing to the branch while the result lives, if one has ever done so.
    ///
    /// # Errors
    /// `EBUSY` if one is doing so now.
    pub(super) fn lock(&self) -> Result<Option<OpenFileRef>> {
        state_of(&self.root)?.map_or(Ok(None), |state| take_lock(&state))
    }

    /// Undoes what was not finished, as whoever uses the branch next would. Not while operations are under way.
    pub(super) fn undo_unfinished(&self) -> Result<()> {
        clear(&self.root, &self.state()?, &self.directory()?)
    }

    /// Lets other unions write to the branch.
    pub(super) fn close(&self) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(opened);
    }

    /// Has the register say this: now if the branch is being written to, else when it first is.
    pub(super) fn remember(&self, text: String) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        if *register == text {
            return;
        }
        *register = text;
        if let Some(opened) = &*opened {
            // The next to read it makes the same numbers for all but new branches.
            let _ = write_whole(&opened.state, Self::REGISTER, register.as_bytes());
        }
    }

    /// The directory of names that lead to copies of files with several names.
    pub(super) fn links(&self) -> Result<VnodeRef> {
        self.take_back_left()?;
        self.state_directory(Work::LINKS)
    }

    /// A directory in the state directory, made if need be.
    pub(super) fn state_directory(&self, name: &'static [u8]) -> Result<VnodeRef> {
        directory_in(&self.state()?, name)
    }

    /// Writes a file of the state directory whole or not at all, and lasting.
    ///
    /// # Errors
    /// Those of storage: the file is as it was.
    pub(super) fn write_state(&self, file: &'static [u8], text: &[u8]) -> Result<()> {
        let state = self.state()?;
        let before = find(&state, name(file))?.map(|entry| read_all(&entry, u64::MAX)).transpose()?;
        write_whole(&state, file, text)?;
        let synchronized = sync_directory(&state);
        if synchronized.is_err() {
            // It is there, and whoever uses the branch next believes it, while this union goes on as before.
            let undone = match before {
                Some(before) => write_whole(&state, file, &before),
                None => state.unlink_surely(&Caller::server(), name(file)),
            };
            // Where it has to stay, it counts, though it may be gone after a power cut.
            return if undone.is_ok() { synchronized } else { Ok(()) };
        }
        synchronized
    }

    /// The directory that all this is in.
    pub(super) fn state(&self) -> Result<VnodeRef> {
        self.directory()?;
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.as_ref().map(|opened| opened.state.clone()).ok_or(Errno::ESTALE)
    }

    /// That directory, if the branch has it.
    pub(super) fn links_if_there(&self) -> Result<Option<VnodeRef>> {
        if !self.exists() {
            return Ok(None);
        }
        self.take_back_left()?;
        let Some(state) = state_of(&self.root)? else { return Ok(None) };
        Ok(find(&state, name(Work::LINKS))?.map(|links| links.vnode))
    }

    /// A name that nothing in the directory has.
    pub(super) fn name(&self) -> NameBuf {
        self.name_for(Purpose::Passing)
    }

    /// Such a name, which tells what it is for.
    pub(super) fn name_for(&self, purpose: Purpose) -> NameBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        NameBuf::new(format!("{}{number}", purpose.prefix()).into_bytes()).expect("a number is a name")
    }

    /// Moves an object out of sight.
    pub(super) fn take(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<NameBuf> {
        let (work, name) = (self.directory()?, self.name());
        directory.rename_surely(&Caller::server(), stored, &work, name.as_name(), RenameMode::NoReplace)?;
        Ok(name)
    }

    /// Puts a whiteout into the place of an object, in one step.
    pub(super) fn replace_by_device(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
        let (work, name) = (self.directory()?, self.name());
        whiteout::make_device(&work, name.as_name())?;
        let exchanged = work.rename_surely(&Caller::server(), name.as_name(), directory, stored, RenameMode::Exchange);
        self.discard(&name);
        exchanged
    }

    /// Makes a user's device that is a whiteout, out of sight: what a rename can leave behind also where no room is left then.
    ///
    /// # Errors
    /// `EINVAL` where the branch has no such devices, or cannot mark them.
    pub(super) fn make_users_device(&self, owner: &Caller) -> Result<NameBuf> {
        let (server, work, name) = (Caller::server(), self.directory()?, self.name());
        let to_owner = SetAttributes { uid: Some(owner.uid), gid: Some(owner.gid), ..SetAttributes::default() };
        let made = work
            .mknod(&server, name.as_name(), FileKind::CharacterDevice, 0, Device::default())
            .and_then(|made| whiteout::mark_as_users(&made.vnode).map(|()| made))
            .and_then(|made| made.vnode.setattr(&server, &to_owner));
        match made {
            Ok(_) => Ok(name),
            Err(error) => {
                self.discard(&name);
                Err(if whiteout::is_incapable(error) { Errno::EINVAL } else { error })
            }
        }
    }

    /// Has a user's device that is a whiteout be seen where nothing is: the one that a rename in the branch has left, or a new
    /// one of the owner's, or else that which was made before. Until it is marked it hides the name. What hides the name beside
    /// it goes.
    pub(super) fn leave_users_device(
        &self,
        directory: &VnodeRef,
        stored: Name<'_>,
        owner: &Caller,
        made: Option<&NameBuf>,
    ) -> Result<()> {
        let (server, number) = (Caller::server(), Device::default());
        let device = match directory.lookup(&server, stored) {
            Err(Errno::ENOENT) => directory.mknod(owner, stored, FileKind::CharacterDevice, 0, number),
            there => there,
        };
        match (device, made) {
            (Ok(device), _) if whiteout_device::has_number(&device.attributes) => {
                whiteout::mark_as_users(&device.vnode)?
            }
            (Ok(_), _) => return Ok(()),
            (Err(_), Some(made)) => {
                self.directory()?.rename_surely(&server, made.as_name(), directory, stored, RenameMode::NoReplace)?;
            }
            (Err(error), None) => return Err(error),
        }
        whiteout::remove(directory, stored)
    }

    /// Removes something in the directory, with all below it. What cannot be removed now is removed when the branch is
    /// next used.
    pub(super) fn discard(&self, name: &NameBuf) {
        // Nobody waits for this, and what is left behind is found again.
        let _ = self.directory().and_then(|work| remove_tree(&work, name.as_name()));
    }

    /// Undoes what a name tells of that has not come to its place, as whoever uses the branch next would. What cannot be undone
    /// now is before names of copies are next looked for or counted: until then the links directory may lead to a copy that is
    /// none.
    pub(super) fn take_back(&self, name: &NameBuf) {
        if self.undo(name).is_err() {
            self.lock_left().push(name.clone());
        }
    }

    /// Undoes what could not be [taken back](Work::take_back).
    ///
    /// # Errors
    /// Those of storage: what names lead to and how many there are cannot be told.
    pub(super) fn take_back_left(&self) -> Result<()> {
        let mut left = self.lock_left();
        while let Some(name) = left.last() {
            self.undo(name)?;
            left.pop();
        }
        Ok(())
    }

    fn undo(&self, name: &NameBuf) -> Result<()> {
        let (work, state) = (self.directory()?, self.state()?);
        match undo(&state, &work, name.as_name()) {
            // It has left the directory.
            Err(Errno::ENOENT) => Ok(()),
            undone => undone,
        }
    }

    fn lock_left(&self) -> MutexGuard<'_, Vec<NameBuf>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state directory of the branch with this root, if it has one.
///
/// # Errors
/// `EPERM` for one in which others than the server can have written: nothing in it is believed.
pub(super) fn state_of(root: &VnodeRef) -> Result<Option<VnodeRef>> {
    match find(root, name(STATE))? {
        Some(state) if !trusted::is_private(&state.attributes) => Err(Errno::EPERM),
        found => Ok(found.map(|state| state.vnode)),
    }
}

/// Whether there is none, or one that is believed.
pub(super) fn has_believed_state(root: &VnodeRef) -> Result<bool> {
    match state_of(root) {
        Err(Errno::EPERM) => Ok(false),
        found => found.map(|_| true),
    }
}

fn made_directory(parent: &VnodeRef, bytes: &'static [u8]) -> Result<VnodeRef> {
    match directory_in(parent, bytes) {
        // Another union has made it just now, or somebody else has.
        Ok(found) if !trusted::is_private(&found.getattr(&Caller::server())?) => Err(Errno::EPERM),
        made => made,
    }
}

fn directory_in(parent: &VnodeRef, bytes: &'static [u8]) -> Result<VnodeRef> {
    let server = Caller::server();
    match parent.mkdir(&server, name(bytes), 0o700) {
        Ok(entry) => {
            // What is made in it is to inherit nothing.
            for list in [b"system.posix_acl_default", &b"system.posix_acl_access"[..]] {
                let _ = entry.vnode.removexattr(&server, list);
            }
            entry.vnode.setattr(&server, &SetAttributes { mode: Some(0o700), ..SetAttributes::default() })?;
            Ok(entry.vnode)
        }
        Err(Errno::EEXIST) => Ok(parent.lookup(&server, name(bytes))?.vnode),
        Err(error) => Err(error),
    }
}

/// Writes a file of the state directory whole or not at all.
fn write_whole(state: &VnodeRef, file: &'static [u8], text: &[u8]) -> Result<()> {
    let server = Caller::server();
    let how = Creation { mode: 0o600, flags: OpenFlags::WRITE.with(OpenFlags::TRUNCATE) };
    let made = state.create(&server, name(Work::PART), &how)?;
    let written = write_all(&*made.file, 0, text).and_then(|()| made.file.fsync(&server, false));
    if written.is_err() {
        let _ = state.unlink_surely(&server, name(Work::PART));
        return written;
    }
    state.rename_surely(&server, name(Work::PART), state, name(file), RenameMode::Replace)
}

/// Whether the first line of a text says that it is in a later form than this one: both end with a number.
pub(super) fn is_later(text: &str, form: &str) -> bool {
    fn number(line: &str) -> Option<(&str, u32)> {
        let (of, number) = line.rsplit_once(' ')?;
        Some((of, number.parse().ok()?))
    }
    let line = text.split_once('\n').map_or(text, |(line, _)| line);
    number(line).zip(number(form)).is_some_and(|((of, said), (known, number))| of == known && said > number)
}

/// The text of a file of the state directory, if it is there.
pub(super) fn read_whole(state: &VnodeRef, file: &'static [u8], bytes_max: u64) -> Result<Option<String>> {
    let server = Caller::server();
    let found = match state.lookup(&server, name(file)) {
        Err(Errno::ENOENT) => return Ok(None),
        found => found?,
    };
    String::from_utf8(read_all(&found, bytes_max)?).map(Some).map_err(|_| Errno::EIO)
}

/// The data of a file, or as much of it.
pub(super) fn read_all(file: &Entry, bytes_max: u64) -> Result<Vec<u8>> {
    let server = Caller::server();
    let opened = file.vnode.open(&server, OpenFlags::READ)?;
    let size = file.attributes.size.min(bytes_max);
    let mut data = vec![0; usize::try_from(size).map_err(|_| Errno::EFBIG)?];
    let length = read_fully(&*opened, &server, 0, &mut data)?;
    data.truncate(length);
    Ok(data)
}

/// Writes all of the data at an offset, as the server.
pub(super) fn write_all(file: &dyn OpenFile, offset: u64, data: &[u8]) -> Result<()> {
    write_fully(file, &Caller::server(), offset, data, false)
}

/// What a directory has by a name.
pub(super) fn find(directory: &VnodeRef, name: Name<'_>) -> Result<Option<Entry>> {
    match directory.lookup(&Caller::server(), name) {
        Ok(entry) => Ok(Some(entry)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks the state directory for as long as the result lives.
fn take_lock(state: &VnodeRef) -> Result<Option<OpenFileRef>> {
    let server = Caller::server();
    let how = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
    let file = state.create(&server, name(Work::LOCK), &how)?.file;
    let whole = Lock { family: LockFamily::Flock, kind: LockKind::Exclusive, start: 0, end: u64::MAX, pid: 0 };
    match file.lock(&server, LockOwner(0), &whole) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::EAGAIN) => Err(Errno::EBUSY),
        // A branch without locks: nobody can tell.
        Err(_) => Ok(None),
    }
}

/// Undoes what was not finished, but for renames.
fn clear(root: &VnodeRef, state: &VnodeRef, work: &VnodeRef) -> Result<()> {
    for (name, _) in entries(work)? {
        if Purpose::of(name.as_bytes()) == Some(Purpose::Kept) {
            kept::put_back(root, work, name.as_name())?;
        }
    }
    // What these tell of has left the directory, or is removed before they are.
    let mut left = entries(work)?;
    left.sort_by_key(|(name, _)| Purpose::of(name.as_bytes()) == Some(Purpose::Kept));
    for (name, _) in left {
        match Purpose::of(name.as_bytes()) {
            // Of a kind that is not known a later version knows what is to be done.
            None | Some(Purpose::Record) => {}
            Some(_) => undo(state, work, name.as_name())?,
        }
    }
    Ok(())
}

/// Undoes what the name of something in the work directory tells of, and removes it.
fn undo(state: &VnodeRef, work: &VnodeRef, name: Name<'_>) -> Result<()> {
    let find = || work.lookup(&Caller::server(), name);
    match Purpose::of(name.as_bytes()) {
        Some(Purpose::Times(time)) => metacopy::put_times_back(&find()?.vnode, time)?,
        Some(Purpose::Copy) => unshare(state, &find()?)?,
        Some(Purpose::Name(names)) => {
            let object = find()?.vnode;
            if let Some((identity, _)) = Identity::brought(&object)? {
                identity.bring(&Caller::server(), &object, names)?;
            }
        }
        _ => {}
    }
    remove_tree(work, name)
}

/// Takes away the name in the links directory of a copy that has not come to its place.
fn unshare(state: &VnodeRef, copy: &Entry) -> Result<()> {
    let server = Caller::server();
    if copy.attributes.is_directory() || copy.attributes.nlink < 2 {
        return Ok(());
    }
    let links = match state.lookup(&server, name(Work::LINKS)) {
        Ok(entry) => entry.vnode,
        Err(Errno::ENOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    links.open_directory(&server)?.read(&server, 0, &mut |entry| {
        if entry.ino == copy.attributes.ino {
            found.push(entry.name.to_owned());
        }
        ControlFlow::Continue(())
    })?;
    found.iter().try_for_each(|name| links.unlink_surely(&server, name.as_name()))
}

/// Removes the object by this name in a directory, as the server, with all below it, however deep that is. Each object counts
/// for the [progress](vnode::progress) of this thread.
///
/// # Errors
/// `ENOENT` if there is none; those of unlink(2), rmdir(2) and reading directories: the rest stays.
pub fn remove_tree(directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    let server = Caller::server();
    let entry = directory.lookup(&server, stored)?;
    if !entry.attributes.is_directory() {
        return directory.unlink_surely(&server, stored);
    }
    // Not by recursion: a tree may be deeper than a thread's stack.
    // A directory stays below those in it, and is removed when it is empty.
    let mut way = vec![(directory.clone(), stored.to_owned(), entry.vnode)];
    while let Some((parent, name, inner)) = way.pop() {
        let mut below = Vec::new();
        for (name, kind) in entries(&inner)? {
            vnode::progress::object_done();
            let is_directory = match kind {
                Some(kind) => kind == FileKind::Directory,
                None => inner.lookup(&server, name.as_name())?.attributes.is_directory(),
            };
            if is_directory {
                below.push((inner.clone(), name.clone(), inner.lookup(&server, name.as_name())?.vnode));
            } else {
                inner.unlink_surely(&server, name.as_name())?;
            }
        }
        if below.is_empty() {
            parent.rmdir_surely(&server, name.as_name())?;
        } else {
            way.push((parent, name, inner));
            way.extend(below);
        }
    }
    Ok(())
}

/// The entries of a directory, all at once.
pub(super) fn entries(directory: &VnodeRef) -> Result<Vec<(NameBuf, Option<FileKind>)>> {
    let server = Caller::server();
    let mut entries = Vec::new();
    directory.open_directory(&server)?.read(&server, 0, &mut |entry| {
        entries.push((entry.name.to_owned(), entry.kind));
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// A name of ours.
pub(super) fn name(bytes: &'static [u8]) -> Name<'static> {
    Name::new(bytes).expect("our own names are names")
}

//! The work directory of a branch: objects are created here before they become visible, and moved here before they are removed.
//!
//! It is `.wh..wh.plyfs/work` at the branch's root, created on first use. Whatever it contains when a union starts
//! using it is left over from an interrupted union and belongs to no name: it is removed. Any further recovery step is
//! encoded in the entry's name: see [`EntryPurpose`]. Entries whose names have another form were written by a later
//! version and stay.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use vnode::{
    Caller, Creation, Device, Entry, Errno, FileKind, Lock, LockFamily, LockKind, LockOwner, Name, NameBuf, OpenFile,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, Timestamp, VnodeRef, read_fully, write_fully,
};

use super::losses::{self, Losses};
use super::register::BranchRegister;
use super::trust;
use super::verified::VerifiedOperations;
use super::whiteout::{self, STATE_DIRECTORY};
use super::whiteout_device;
use super::write_order::sync_directory;
use super::xattrs;
use crate::union::branch::identity::Identity;
use crate::union::copy_up::metacopy;
use crate::union::snapshots::direct_files;

/// Purpose of an entry in the work directory, encoded as the prefix of its name, so that a leftover name records what was not
/// finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryPurpose {
    /// An object to be moved into place, or taken out of sight to be removed.
    Transit,
    /// A copy of a file. If the links directory already has a name for it, that name is removed too, since the original still
    /// exists.
    Copy,
    /// A name of a copied file that is to replace one of the original's names. The number is the original's name count before
    /// the step; recovery resets the copy's count to it.
    Name(u32),
    /// A name of a metadata-only copy whose data are being filled in, and the modification time that recovery restores.
    Times(Timestamp),
    /// A record of the removals that belong to a rename.
    Record,
    /// A record of files that change places with their copies for a snapshot: see [`crate::union::snapshots::direct_files`].
    DirectFiles,
}

impl EntryPurpose {
    fn prefix(self) -> String {
        match self {
            Self::Transit => String::new(),
            Self::Copy => "copy.".to_owned(),
            Self::Name(names) => format!("name.{names}."),
            Self::Times(time) => format!("times.{}.{}.", time.seconds, time.nanoseconds),
            Self::Record => "record.".to_owned(),
            Self::DirectFiles => "kept.".to_owned(),
        }
    }

    /// The purpose encoded in a name; `None` if only a later version can have written it.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let words: Vec<&str> = std::str::from_utf8(name).ok()?.split('.').collect();
        let (_, words) = words.split_last().filter(|(number, _)| is_number(number))?;
        Some(match words {
            [] => Self::Transit,
            ["copy"] => Self::Copy,
            ["record"] => Self::Record,
            ["kept"] => Self::DirectFiles,
            ["name", names] => Self::Name(names.parse().ok()?),
            ["times", seconds, nanoseconds] => {
                Self::Times(Timestamp { seconds: seconds.parse().ok()?, nanoseconds: nanoseconds.parse().ok()? })
            }
            _ => return None,
        })
    }
}

/// Marker that shows that the branch still has its extended attributes.
const ATTRIBUTES_MARK: trust::TrustedAttribute =
    trust::TrustedAttribute::new(b"trusted.plyfs.marked", b"user.plyfs.marked");

/// Error passed up for a branch that has lost its extended attributes, and with them the marks of its metadata-only copies. No
/// file system returns it.
pub(crate) const ATTRIBUTES_LOST: Errno = Errno::ENOTUNIQ;

/// The work directory of a branch.
pub(crate) struct WorkDirectory {
    root: VnodeRef,
    /// Whether a union has written to the branch, now or earlier.
    was_written: AtomicBool,
    /// Whether directories were copied to the branch whose identity comes from another branch.
    has_copied_directories: AtomicBool,
    /// Whether metadata-only copies were made in the branch.
    has_metacopies: AtomicBool,
    opened: Mutex<Option<OpenWorkDirectory>>,
    /// Text that the register is to contain.
    register: Mutex<String>,
    /// Whether the branch supports hard links, once that is known.
    has_hard_links: OnceLock<bool>,
    /// Serializes writes of losses.
    losses: Mutex<()>,
    /// Names in the work directory that could not be undone yet.
    pending_undo: Mutex<Vec<NameBuf>>,
    next: AtomicU64,
}

/// State that unions have written to a branch.
struct WrittenState {
    was_written: bool,
    has_copied_directories: bool,
    has_metacopies: bool,
}

impl WrittenState {
    /// Reads the state of the branch with this root.
    fn of(root: &VnodeRef) -> Result<Self> {
        let state = state_of(root)?;
        BranchRegister::of(root)?;
        let has = |mark| match &state {
            Some(state) => find(state, own_name(mark)),
            None => Ok(None),
        };
        let (copied, metacopies) = (has(WorkDirectory::COPIED_DIRECTORIES)?, has(WorkDirectory::METACOPIES)?);
        if let Some(mark) = &metacopies
            && !ATTRIBUTES_MARK.is_in(&xattrs::attributes(&mark.vnode)?)
        {
            return Err(ATTRIBUTES_LOST);
        }
        Ok(Self {
            was_written: state.is_some(),
            has_copied_directories: copied.is_some(),
            has_metacopies: metacopies.is_some(),
        })
    }
}

struct OpenWorkDirectory {
    state: VnodeRef,
    directory: VnodeRef,
    /// Lock that shows other unions that the directory is in use.
    _lock: Option<OpenFileRef>,
}

impl WorkDirectory {
    /// Name of the work directory itself. Every other entry of the state directory has its name listed here too: the check
    /// reports all others as unknown.
    pub(crate) const WORK: &[u8] = b"work";
    /// Directory of names that lead to copies of files with several names.
    pub(crate) const LINKS: &[u8] = b"links";
    /// File that is locked while the branch is written to.
    pub(crate) const LOCK: &[u8] = b"lock";
    /// Name of the file that [`super::register`] reads.
    pub(crate) const REGISTER: &[u8] = b"branches";
    /// Marker file of [`WorkDirectory::has_copied_directories`].
    pub(crate) const COPIED_DIRECTORIES: &[u8] = b"directories";
    /// Marker file of [`WorkDirectory::has_metacopies`]. It has the attribute [`ATTRIBUTES_MARK`]: if that is missing,
    /// the branch was copied without its attributes, and the metadata-only copies have lost theirs too.
    pub(crate) const METACOPIES: &[u8] = b"metacopies";
    /// Name of the file that [`super::history`] reads.
    pub(crate) const HISTORY: &[u8] = b"history";
    /// Directory of later layers.
    pub(crate) const LAYERS: &[u8] = b"layers";
    /// Journal of the commit of a fork.
    pub(crate) const COMMIT: &[u8] = b"commit";
    /// Directory that holds directories in transit while a layer is merged.
    pub(crate) const MERGE_TRANSIT: &[u8] = b"moving";
    /// File of [`super::losses`].
    pub(crate) const LOSSES: &[u8] = b"losses";
    /// Temporary name of a state file until it is complete.
    pub(crate) const TEMPORARY: &[u8] = b"part";

    /// Opens the state of the branch with this root.
    ///
    /// # Errors
    /// Errors from reading the branch's state: assuming less than it says would reveal hidden objects.
    /// [`ATTRIBUTES_LOST`]; [`LATER_VERSION`] if a later version has written to the branch.
    ///
    /// [`LATER_VERSION`]: super::register::LATER_VERSION
    pub(crate) fn new(root: &VnodeRef) -> Result<Self> {
        let written = WrittenState::of(root)?;
        Ok(Self {
            root: root.clone(),
            was_written: AtomicBool::new(written.was_written),
            has_copied_directories: AtomicBool::new(written.has_copied_directories),
            has_metacopies: AtomicBool::new(written.has_metacopies),
            opened: Mutex::default(),
            register: Mutex::default(),
            has_hard_links: OnceLock::new(),
            losses: Mutex::default(),
            pending_undo: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Rereads what other unions have written to the branch since; returns whether there is anything new.
    ///
    /// # Errors
    /// As [`WorkDirectory::new`].
    pub(crate) fn reread(&self) -> Result<bool> {
        let written = WrittenState::of(&self.root)?;
        let is_new = |known: &AtomicBool, now: bool| known.swap(now, Ordering::Relaxed) != now;
        let flags = [
            is_new(&self.was_written, written.was_written),
            is_new(&self.has_copied_directories, written.has_copied_directories),
            is_new(&self.has_metacopies, written.has_metacopies),
        ];
        Ok(flags.contains(&true))
    }

    /// Returns whether the branch may contain directories that were known by another branch; if not, no directory in it stores
    /// an identity of another.
    pub(crate) fn has_copied_directories(&self) -> bool {
        self.has_copied_directories.load(Ordering::Relaxed)
    }

    /// Records that such a directory is about to be created.
    pub(crate) fn record_copied_directories(&self) -> Result<()> {
        if self.has_copied_directories() {
            return Ok(());
        }
        let creation = Creation { mode: 0o600, flags: OpenFlags::READ };
        self.state()?.create(&Caller::server(), own_name(WorkDirectory::COPIED_DIRECTORIES), &creation)?;
        self.has_copied_directories.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns whether the branch may contain metadata-only copies; if so, the branches below it must not change.
    pub(crate) fn has_metacopies(&self) -> bool {
        self.has_metacopies.load(Ordering::Relaxed)
    }

    /// Records that a metadata-only copy is about to be created; returns whether it may be: whether the branch has extended
    /// attributes.
    pub(crate) fn record_metacopies(&self) -> Result<bool> {
        if self.has_metacopies() {
            return Ok(true);
        }
        let (server, work, part) = (Caller::server(), self.directory()?, self.unused_name());
        let creation = Creation { mode: 0o600, flags: OpenFlags::READ };
        // It never becomes visible without its attribute.
        let made = work.create(&server, part.as_name(), &creation)?.entry;
        let is_marked = ATTRIBUTES_MARK.set(&server, &made.vnode, b"").and_then(|is_marked| match is_marked {
            true => work.rename_verified(
                &server,
                part.as_name(),
                &self.state()?,
                own_name(WorkDirectory::METACOPIES),
                RenameMode::Replace,
            ),
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

    /// Returns whether a file of the branch can have several names; probed once.
    pub(crate) fn has_hard_links(&self) -> Result<bool> {
        if let Some(known) = self.has_hard_links.get() {
            return Ok(*known);
        }
        let (server, work, name, other) = (Caller::server(), self.directory()?, self.unused_name(), self.unused_name());
        let linked = work
            .mknod(&server, name.as_name(), FileKind::Regular, 0o600, Device::default())
            .and_then(|file| work.link_verified(&server, &file.vnode, other.as_name()));
        [name, other].iter().for_each(|name| self.discard(name));
        let has = match linked {
            Err(error) if whiteout::is_unsupported(error) => false,
            linked => linked.map(|_| true)?,
        };
        Ok(*self.has_hard_links.get_or_init(|| has))
    }

    /// Records what the branch cannot preserve of the copy at a path.
    pub(crate) fn record_losses(&self, path: &[u8], lost: Losses) -> Result<()> {
        let state = self.state()?;
        let _one_at_a_time = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        losses::record(&state, path, lost)
    }

    /// Returns whether a union has ever written to the branch; if not, nothing in it comes from another branch.
    pub(crate) fn was_written(&self) -> bool {
        self.was_written.load(Ordering::Relaxed)
    }

    /// The work directory, empty except for this union's own entries and for records.
    ///
    /// # Errors
    /// `EBUSY` if another union writes to the branch; errors from creating the directory.
    pub(crate) fn directory(&self) -> Result<VnodeRef> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &*opened {
            return Ok(opened.directory.clone());
        }
        let state = match state_of(&self.root)? {
            Some(state) => state,
            None => make_private_directory(&self.root, STATE_DIRECTORY)?,
        };
        let lock = take_lock(&state)?;
        let directory = make_state_directory(&state, WorkDirectory::WORK)?;
        // A later version may have written there since this was made.
        BranchRegister::of(&self.root)?;
        undo_leftovers(&self.root, &state, &directory)?;
        self.was_written.store(true, Ordering::Relaxed);
        let register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            read_state_file(&state, Self::REGISTER, 1 << 20).is_ok_and(|known| known.as_ref() == Some(&*register));
        if !is_known {
            write_state_file(&state, Self::REGISTER, register.as_bytes())?;
        } else if state.lookup(&Caller::server(), own_name(Self::TEMPORARY)).is_ok() {
            state.unlink_verified(&Caller::server(), own_name(Self::TEMPORARY))?;
        }
        *opened = Some(OpenWorkDirectory { state, directory: directory.clone(), _lock: lock });
        Ok(directory)
    }

    /// Prevents other unions from writing to the branch while the result lives, if any union has ever written to it.
    ///
    /// # Errors
    /// `EBUSY` if another union is writing to it.
    pub(crate) fn lock(&self) -> Result<Option<OpenFileRef>> {
        state_of(&self.root)?.map_or(Ok(None), |state| take_lock(&state))
    }

    /// Undoes unfinished steps, as the next union to use the branch would. Must not run during operations.
    pub(crate) fn undo_unfinished(&self) -> Result<()> {
        undo_leftovers(&self.root, &self.state()?, &self.directory()?)
    }

    /// Allows other unions to write to the branch again.
    pub(crate) fn close(&self) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(opened);
    }

    /// Sets the register's text: written at once if the branch is open for writing, otherwise when it first is.
    pub(crate) fn set_register(&self, text: String) {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        if *register == text {
            return;
        }
        *register = text;
        if let Some(opened) = &*opened {
            // The next reader derives the same numbers for all but new branches.
            let _ = write_state_file(&opened.state, Self::REGISTER, register.as_bytes());
        }
    }

    /// Directory of names that lead to copies of files with several names.
    pub(crate) fn links(&self) -> Result<VnodeRef> {
        self.retry_undo()?;
        self.state_directory(WorkDirectory::LINKS)
    }

    /// A directory in the state directory, created if necessary.
    pub(crate) fn state_directory(&self, name: &'static [u8]) -> Result<VnodeRef> {
        make_state_directory(&self.state()?, name)
    }

    /// Writes a state file durably, completely or not at all.
    ///
    /// # Errors
    /// Storage errors; the file is unchanged then.
    pub(crate) fn write_state(&self, file: &'static [u8], text: &[u8]) -> Result<()> {
        let state = self.state()?;
        let before = find(&state, own_name(file))?.map(|entry| read_all(&entry, u64::MAX)).transpose()?;
        write_state_file(&state, file, text)?;
        let synchronized = sync_directory(&state);
        if synchronized.is_err() {
            // The file exists, and the next union would trust it, while this union goes on without the change.
            let undone = match before {
                Some(before) => write_state_file(&state, file, &before),
                None => state.unlink_verified(&Caller::server(), own_name(file)),
            };
            // If it cannot be removed it counts, although a power failure may lose it.
            return if undone.is_ok() { synchronized } else { Ok(()) };
        }
        synchronized
    }

    /// The state directory.
    pub(crate) fn state(&self) -> Result<VnodeRef> {
        self.directory()?;
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.as_ref().map(|opened| opened.state.clone()).ok_or(Errno::ESTALE)
    }

    /// The links directory, if the branch has one.
    pub(crate) fn existing_links(&self) -> Result<Option<VnodeRef>> {
        if !self.was_written() {
            return Ok(None);
        }
        self.retry_undo()?;
        let Some(state) = state_of(&self.root)? else { return Ok(None) };
        Ok(find(&state, own_name(WorkDirectory::LINKS))?.map(|links| links.vnode))
    }

    /// A name that is unused in the work directory.
    pub(crate) fn unused_name(&self) -> NameBuf {
        self.unused_name_for(EntryPurpose::Transit)
    }

    /// An unused name that encodes its purpose.
    pub(crate) fn unused_name_for(&self, purpose: EntryPurpose) -> NameBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        NameBuf::new(format!("{}{number}", purpose.prefix()).into_bytes()).expect("a number is a name")
    }

    /// Moves an object out of sight, into the work directory.
    pub(crate) fn stash(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<NameBuf> {
        let (work, name) = (self.directory()?, self.unused_name());
        directory.rename_verified(&Caller::server(), stored, &work, name.as_name(), RenameMode::NoReplace)?;
        Ok(name)
    }

    /// Atomically replaces an object with a whiteout.
    pub(crate) fn replace_by_device(&self, directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
        let (work, name) = (self.directory()?, self.unused_name());
        whiteout::make_device(&work, name.as_name())?;
        let exchanged =
            work.rename_verified(&Caller::server(), name.as_name(), directory, stored, RenameMode::Exchange);
        self.discard(&name);
        exchanged
    }

    /// Creates, out of sight, a user's device that is a whiteout, which a rename can then leave behind even if the branch is
    /// full.
    ///
    /// # Errors
    /// `EINVAL` if the branch does not support such devices, or cannot mark them.
    pub(crate) fn make_user_device(&self, owner: &Caller) -> Result<NameBuf> {
        let (server, work, name) = (Caller::server(), self.directory()?, self.unused_name());
        let to_owner = SetAttributes { uid: Some(owner.uid), gid: Some(owner.gid), ..SetAttributes::default() };
        let made = work
            .mknod(&server, name.as_name(), FileKind::CharacterDevice, 0, Device::default())
            .and_then(|made| whiteout::mark_user_device(&made.vnode).map(|()| made))
            .and_then(|made| made.vnode.setattr(&server, &to_owner));
        match made {
            Ok(_) => Ok(name),
            Err(error) => {
                self.discard(&name);
                Err(if whiteout::is_unsupported(error) { Errno::EINVAL } else { error })
            }
        }
    }

    /// Makes a user's device that is a whiteout visible at an empty name: the one that the rename in the branch left, or a new
    /// one of the owner, or else the one that was created beforehand. Until it is marked it hides the name. The whiteout beside
    /// it, which hides the name, is removed.
    pub(crate) fn place_user_device(
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
                whiteout::mark_user_device(&device.vnode)?
            }
            (Ok(_), _) => return Ok(()),
            (Err(_), Some(made)) => {
                self.directory()?.rename_verified(&server, made.as_name(), directory, stored, RenameMode::NoReplace)?;
            }
            (Err(error), None) => return Err(error),
        }
        whiteout::remove(directory, stored)
    }

    /// Removes an entry of the work directory and everything below it. What cannot be removed now is removed when the branch is
    /// next used.
    pub(crate) fn discard(&self, name: &NameBuf) {
        // Nobody waits for this, and leftovers are found by the next union.
        let _ = self.directory().and_then(|work| remove_tree(&work, name.as_name()));
    }

    /// Undoes the step encoded in the name of an entry that has not reached its place, as the next union to use the branch
    /// would. If that fails now, it is retried before names of copies are next looked up or counted: until then the links
    /// directory may lead to a copy that is not in place.
    pub(crate) fn undo_entry(&self, name: &NameBuf) {
        if self.undo(name).is_err() {
            self.lock_pending_undo().push(name.clone());
        }
    }

    /// Retries what could not be [undone](WorkDirectory::undo_entry).
    ///
    /// # Errors
    /// Storage errors: the targets and the count of names are unknown then.
    pub(crate) fn retry_undo(&self) -> Result<()> {
        let mut left = self.lock_pending_undo();
        while let Some(name) = left.last() {
            self.undo(name)?;
            left.pop();
        }
        Ok(())
    }

    fn undo(&self, name: &NameBuf) -> Result<()> {
        let (work, state) = (self.directory()?, self.state()?);
        match undo(&state, &work, name.as_name()) {
            // The entry has already left the directory.
            Err(Errno::ENOENT) => Ok(()),
            undone => undone,
        }
    }

    fn lock_pending_undo(&self) -> MutexGuard<'_, Vec<NameBuf>> {
        self.pending_undo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state directory of the branch with this root, if it has one.
///
/// # Errors
/// `EPERM` if others than the server can have written to it: nothing in it is trusted.
pub(crate) fn state_of(root: &VnodeRef) -> Result<Option<VnodeRef>> {
    match find(root, own_name(STATE_DIRECTORY))? {
        Some(state) if !trust::is_private(&state.attributes) => Err(Errno::EPERM),
        found => Ok(found.map(|state| state.vnode)),
    }
}

/// Returns whether the state directory is absent or trusted.
pub(crate) fn has_trusted_state(root: &VnodeRef) -> Result<bool> {
    match state_of(root) {
        Err(Errno::EPERM) => Ok(false),
        found => found.map(|_| true),
    }
}

fn make_private_directory(parent: &VnodeRef, bytes: &'static [u8]) -> Result<VnodeRef> {
    match make_state_directory(parent, bytes) {
        // Another union has just created it, or somebody else has.
        Ok(found) if !trust::is_private(&found.getattr(&Caller::server())?) => Err(Errno::EPERM),
        made => made,
    }
}

fn make_state_directory(parent: &VnodeRef, bytes: &'static [u8]) -> Result<VnodeRef> {
    let server = Caller::server();
    match parent.mkdir(&server, own_name(bytes), 0o700) {
        Ok(entry) => {
            // Objects created in it must not inherit ACLs.
            for list in [b"system.posix_acl_default", &b"system.posix_acl_access"[..]] {
                let _ = entry.vnode.removexattr(&server, list);
            }
            entry.vnode.setattr(&server, &SetAttributes { mode: Some(0o700), ..SetAttributes::default() })?;
            Ok(entry.vnode)
        }
        Err(Errno::EEXIST) => Ok(parent.lookup(&server, own_name(bytes))?.vnode),
        Err(error) => Err(error),
    }
}

/// Writes a state file completely or not at all.
fn write_state_file(state: &VnodeRef, file: &'static [u8], text: &[u8]) -> Result<()> {
    let server = Caller::server();
    let creation = Creation { mode: 0o600, flags: OpenFlags::WRITE.with(OpenFlags::TRUNCATE) };
    let made = state.create(&server, own_name(WorkDirectory::TEMPORARY), &creation)?;
    let written = write_all(&*made.file, 0, text).and_then(|()| made.file.fsync(&server, false));
    if written.is_err() {
        let _ = state.unlink_verified(&server, own_name(WorkDirectory::TEMPORARY));
        return written;
    }
    state.rename_verified(&server, own_name(WorkDirectory::TEMPORARY), state, own_name(file), RenameMode::Replace)
}

/// Returns whether the first line of a text declares a later version than `form`; both end with a number.
pub(crate) fn is_later_version(text: &str, form: &str) -> bool {
    fn number(line: &str) -> Option<(&str, u32)> {
        let (of, number) = line.rsplit_once(' ')?;
        Some((of, number.parse().ok()?))
    }
    let line = text.split_once('\n').map_or(text, |(line, _)| line);
    number(line).zip(number(form)).is_some_and(|((of, said), (known, number))| of == known && said > number)
}

/// The text of a state file, if the file exists.
pub(crate) fn read_state_file(state: &VnodeRef, file: &'static [u8], bytes_max: u64) -> Result<Option<String>> {
    let server = Caller::server();
    let found = match state.lookup(&server, own_name(file)) {
        Err(Errno::ENOENT) => return Ok(None),
        found => found?,
    };
    String::from_utf8(read_all(&found, bytes_max)?).map(Some).map_err(|_| Errno::EIO)
}

/// The data of a file, up to the given number of bytes.
pub(crate) fn read_all(file: &Entry, bytes_max: u64) -> Result<Vec<u8>> {
    let server = Caller::server();
    let opened = file.vnode.open(&server, OpenFlags::READ)?;
    let size = file.attributes.size.min(bytes_max);
    let mut data = vec![0; usize::try_from(size).map_err(|_| Errno::EFBIG)?];
    let length = read_fully(&*opened, &server, 0, &mut data)?;
    data.truncate(length);
    Ok(data)
}

/// Writes all of the data at an offset, as the server.
pub(crate) fn write_all(file: &dyn OpenFile, offset: u64, data: &[u8]) -> Result<()> {
    write_fully(file, &Caller::server(), offset, data, false)
}

/// The entry of that name in a directory, if any.
pub(crate) fn find(directory: &VnodeRef, name: Name<'_>) -> Result<Option<Entry>> {
    match directory.lookup(&Caller::server(), name) {
        Ok(entry) => Ok(Some(entry)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks the state directory for the lifetime of the result.
fn take_lock(state: &VnodeRef) -> Result<Option<OpenFileRef>> {
    let server = Caller::server();
    let creation = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
    let file = state.create(&server, own_name(WorkDirectory::LOCK), &creation)?.file;
    let whole = Lock { family: LockFamily::Flock, kind: LockKind::Exclusive, start: 0, end: u64::MAX, pid: 0 };
    match file.lock(&server, LockOwner(0), &whole) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::EAGAIN) => Err(Errno::EBUSY),
        // The branch has no locks: there is no way to find out.
        Err(_) => Ok(None),
    }
}

/// Undoes unfinished steps, except for renames.
fn undo_leftovers(root: &VnodeRef, state: &VnodeRef, work: &VnodeRef) -> Result<()> {
    for (name, _) in entries(work)? {
        if EntryPurpose::of(name.as_bytes()) == Some(EntryPurpose::DirectFiles) {
            direct_files::restore_interrupted(root, work, name.as_name())?;
        }
    }
    // The files that these records name have left the directory, or are removed before the records.
    let mut left = entries(work)?;
    left.sort_by_key(|(name, _)| EntryPurpose::of(name.as_bytes()) == Some(EntryPurpose::DirectFiles));
    for (name, _) in left {
        match EntryPurpose::of(name.as_bytes()) {
            // Entries of unknown kinds are left to the later version that knows them.
            None | Some(EntryPurpose::Record) => {}
            Some(_) => undo(state, work, name.as_name())?,
        }
    }
    Ok(())
}

/// Undoes the step encoded in the name of an entry of the work directory, and removes the entry.
fn undo(state: &VnodeRef, work: &VnodeRef, name: Name<'_>) -> Result<()> {
    let find = || work.lookup(&Caller::server(), name);
    match EntryPurpose::of(name.as_bytes()) {
        Some(EntryPurpose::Times(time)) => metacopy::restore_mtime(&find()?.vnode, time)?,
        Some(EntryPurpose::Copy) => remove_link_entry(state, &find()?)?,
        Some(EntryPurpose::Name(names)) => {
            let object = find()?.vnode;
            if let Some((identity, _)) = Identity::stored_origin(&object)? {
                identity.store_origin(&Caller::server(), &object, names)?;
            }
        }
        _ => {}
    }
    remove_tree(work, name)
}

/// Removes the name in the links directory of a copy that has not reached its place.
fn remove_link_entry(state: &VnodeRef, copy: &Entry) -> Result<()> {
    let server = Caller::server();
    if copy.attributes.is_directory() || copy.attributes.nlink < 2 {
        return Ok(());
    }
    let links = match state.lookup(&server, own_name(WorkDirectory::LINKS)) {
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
    found.iter().try_for_each(|name| links.unlink_verified(&server, name.as_name()))
}

/// Removes the object of this name in a directory, as the server, with everything below it to any depth. Each object counts
/// towards the [progress](vnode::progress) of this thread.
///
/// # Errors
/// `ENOENT` if it does not exist; errors of unlink(2), rmdir(2) and of reading directories: the remainder stays.
pub fn remove_tree(directory: &VnodeRef, stored: Name<'_>) -> Result<()> {
    let server = Caller::server();
    let entry = directory.lookup(&server, stored)?;
    if !entry.attributes.is_directory() {
        return directory.unlink_verified(&server, stored);
    }
    // Iterative: a tree may be deeper than a thread's stack. A directory stays below its children on the stack, and is removed
    // when it is empty.
    let mut stack = vec![(directory.clone(), stored.to_owned(), entry.vnode)];
    while let Some((parent, name, inner)) = stack.pop() {
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
                inner.unlink_verified(&server, name.as_name())?;
            }
        }
        if below.is_empty() {
            parent.rmdir_verified(&server, name.as_name())?;
        } else {
            stack.push((parent, name, inner));
            stack.extend(below);
        }
    }
    Ok(())
}

/// All entries of a directory.
pub(crate) fn entries(directory: &VnodeRef) -> Result<Vec<(NameBuf, Option<FileKind>)>> {
    let server = Caller::server();
    let mut entries = Vec::new();
    directory.open_directory(&server)?.read(&server, 0, &mut |entry| {
        entries.push((entry.name.to_owned(), entry.kind));
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// A name that the union itself uses.
pub(crate) fn own_name(bytes: &'static [u8]) -> Name<'static> {
    Name::new(bytes).expect("our own names are names")
}

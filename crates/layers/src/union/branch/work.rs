//! The work directory of a branch: objects are created here before they become visible, and moved here before they are removed.
//!
//! It is `.wh..wh.plyfs/work` at the branch's root, created on first use. Whatever it contains when a union starts
//! using it is left over from an interrupted union and belongs to no name: it is removed. Any further recovery step is
//! encoded in the entry's name: see [`EntryPurpose`]. Entries whose names have another form were written by a later
//! version and stay.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use vnode::{
    Caller, Creation, Device, Errno, FileKind, Lock, LockFamily, LockKind, LockOwner, Name, NameBuf, OpenFileRef,
    OpenFlags, RenameMode, Result, SetAttributes, VnodeRef,
};

use super::entry_purpose::EntryPurpose;
use super::leftovers;
use super::losses::{self, Losses};
use super::objects;
use super::objects::{read_all, sync_directory};
use super::register::BranchRegister;
use super::state_directory;
use super::trust;
use super::verified::VerifiedOperations;
use super::whiteout::{self, STATE_DIRECTORY};
use super::whiteout_device;
use super::xattrs;

/// Marker that shows that the branch still has its extended attributes.
const ATTRIBUTES_MARK: trust::TrustedAttribute =
    trust::TrustedAttribute::new(b"trusted.plyfs.marked", b"user.overlay.plyfs.marked").formerly(b"user.plyfs.marked");

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
        let state = state_directory::state_of(root)?;
        BranchRegister::of(root)?;
        let has = |mark| match &state {
            Some(state) => state_directory::find_own(state, mark),
            None => Ok(None),
        };
        let (copied, metacopies) = (has(state_directory::COPIED_DIRECTORIES)?, has(state_directory::METACOPIES)?);
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
    /// Opens the state of the branch with this root.
    ///
    /// # Errors
    /// Errors from reading the branch's state: assuming less than it says would reveal hidden objects.
    /// [`ATTRIBUTES_LOST`]; [`LATER_VERSION`] if a later version has written to the branch.
    ///
    /// [`LATER_VERSION`]: super::state_directory::LATER_VERSION
    pub(crate) fn new(root: &VnodeRef) -> Result<Self> {
        if !state_directory::has_trusted_state(root)? {
            return Err(Errno::EPERM);
        }
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
        state_directory::create_own(&self.state()?, state_directory::COPIED_DIRECTORIES, OpenFlags::READ)?;
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
                state_directory::own_name(state_directory::METACOPIES),
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
        let state = match state_directory::state_of(&self.root)? {
            Some(_) if !state_directory::has_trusted_state(&self.root)? => return Err(Errno::EPERM),
            Some(state) => state,
            None => state_directory::make_private_directory(&self.root, STATE_DIRECTORY)?,
        };
        let lock = take_lock(&state)?;
        let directory = state_directory::make_private_directory(&state, state_directory::WORK)?;
        // A later version may have written there since this was made.
        BranchRegister::of(&self.root)?;
        leftovers::undo_leftovers(&self.root, &state, &directory)?;
        self.was_written.store(true, Ordering::Relaxed);
        let register = self.register.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = state_directory::read_state_file(&state, state_directory::REGISTER, 1 << 20)
            .is_ok_and(|known| known.as_ref() == Some(&*register));
        if !is_known {
            state_directory::write_state_file(&state, state_directory::REGISTER, register.as_bytes())?;
        } else if state.lookup(&Caller::server(), state_directory::own_name(state_directory::TEMPORARY)).is_ok() {
            state.unlink_verified(&Caller::server(), state_directory::own_name(state_directory::TEMPORARY))?;
        }
        *opened = Some(OpenWorkDirectory { state, directory: directory.clone(), _lock: lock });
        Ok(directory)
    }

    /// Prevents other unions from writing to the branch while the result lives, if any union has ever written to it.
    ///
    /// # Errors
    /// `EBUSY` if another union is writing to it.
    pub(crate) fn lock(&self) -> Result<Option<OpenFileRef>> {
        state_directory::state_of(&self.root)?.map_or(Ok(None), |state| take_lock(&state))
    }

    /// Undoes unfinished steps, as the next union to use the branch would. Must not run during operations.
    pub(crate) fn undo_unfinished(&self) -> Result<()> {
        leftovers::undo_leftovers(&self.root, &self.state()?, &self.directory()?)
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
            let _ = state_directory::write_state_file(&opened.state, state_directory::REGISTER, register.as_bytes());
        }
    }

    /// Directory of names that lead to copies of files with several names.
    pub(crate) fn links(&self) -> Result<VnodeRef> {
        self.retry_undo()?;
        self.state_directory(state_directory::LINKS)
    }

    /// A directory in the state directory, created if necessary.
    pub(crate) fn state_directory(&self, name: &'static [u8]) -> Result<VnodeRef> {
        state_directory::make_private_directory(&self.state()?, name)
    }

    /// Writes a state file durably, completely or not at all.
    ///
    /// # Errors
    /// Storage errors; the file is unchanged then.
    pub(crate) fn write_state(&self, file: &'static [u8], text: &[u8]) -> Result<()> {
        let state = self.state()?;
        let before = state_directory::find_own(&state, file)?.map(|entry| read_all(&entry, u64::MAX)).transpose()?;
        state_directory::write_state_file(&state, file, text)?;
        let synchronized = sync_directory(&state);
        if synchronized.is_err() {
            // The file exists, and the next union would trust it, while this union goes on without the change.
            let undone = match before {
                Some(before) => state_directory::write_state_file(&state, file, &before),
                None => state.unlink_verified(&Caller::server(), state_directory::own_name(file)),
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
        let Some(state) = state_directory::state_of(&self.root)? else { return Ok(None) };
        Ok(state_directory::find_own(&state, state_directory::LINKS)?.map(|links| links.vnode))
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
    /// one of the owner, or else, where there is no space for a new one or its mark, the one that was created beforehand. Until
    /// it is marked it hides the name. The whiteout beside it, which hides the name, is removed.
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
        let (placed, mode) = match device {
            Ok(device) if whiteout_device::has_number(&device.attributes) => {
                (whiteout::mark_user_device(&device.vnode), RenameMode::Replace)
            }
            Ok(_) => return Ok(()),
            Err(error) => (Err(error), RenameMode::NoReplace),
        };
        match (placed, made) {
            (Ok(()), _) => {}
            (Err(_), Some(made)) => {
                self.directory()?.rename_verified(&server, made.as_name(), directory, stored, mode)?;
            }
            (Err(error), None) => return Err(error),
        }
        whiteout::remove(directory, stored)
    }

    /// Removes an entry of the work directory and everything below it. What cannot be removed now is removed when the branch is
    /// next used.
    pub(crate) fn discard(&self, name: &NameBuf) {
        // Nobody waits for this, and leftovers are found by the next union.
        let _ = self.directory().and_then(|work| objects::remove_tree(&work, name.as_name()));
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
        match leftovers::undo(&state, &work, name.as_name()) {
            // The entry has already left the directory.
            Err(Errno::ENOENT) => Ok(()),
            undone => undone,
        }
    }

    fn lock_pending_undo(&self) -> MutexGuard<'_, Vec<NameBuf>> {
        self.pending_undo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks the state directory for the lifetime of the result.
fn take_lock(state: &VnodeRef) -> Result<Option<OpenFileRef>> {
    let server = Caller::server();
    let file = state_directory::create_own(state, state_directory::LOCK, OpenFlags::READ_WRITE)?.file;
    let whole = Lock { family: LockFamily::Flock, kind: LockKind::Exclusive, start: 0, end: u64::MAX, pid: 0 };
    match file.lock(&server, &LockOwner::Number(0), &whole) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::EAGAIN) => Err(Errno::EBUSY),
        // The branch has no locks: there is no way to find out.
        Err(_) => Ok(None),
    }
}

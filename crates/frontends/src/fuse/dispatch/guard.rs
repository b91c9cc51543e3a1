//! What the kernel does without asking where others are let in for whom it checks nothing: refused beforehand.
//!
//! It opens pipes and devices and connects to sockets of whose names it has been told, follows symlinks by what they hold, and
//! takes capabilities away from files whose owner or data somebody only tries to change.

use super::Dispatcher;
use crate::fuse::nodes::Node;
use std::fs;
use std::sync::atomic::Ordering;
use vnode::{AccessMode, Caller, Entry, Errno, FileKind, Name, Result};

/// What is to be done with a name of which the kernel is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing.
    None,
    /// The kernel must ask for it each time: the next caller may not be admitted.
    AskAgain,
    /// Likewise, and it is a symlink whose node gets the note [`FOLLOW_NOT_FOR_OTHERS`].
    FollowNotForOthers,
}

/// In the note of a symlink: it is in a sticky directory to which everybody may write and which belongs to somebody else than
/// the symlink, so that only its own owner may follow it.
pub(super) const FOLLOW_NOT_FOR_OTHERS: u64 = 1;

/// The switch of the protection of symlinks, as in proc_sys_fs(5).
const PROTECTED_SYMLINKS: &str = "/proc/sys/fs/protected_symlinks";

impl Dispatcher {
    /// Whether an object of this kind is guarded in this mount.
    pub(super) fn is_guarded(&self, kind: FileKind) -> bool {
        self.decisions().guards_others() && !matches!(kind, FileKind::Regular | FileKind::Directory)
    }

    /// What is to be done with a name in `parent`, whether it was looked up, made or moved there.
    pub(super) fn guard(&self, parent: &Node, entry: &Entry) -> Guard {
        let kind = entry.vnode.kind();
        if !self.is_guarded(kind) {
            Guard::None
        } else if kind != FileKind::Symlink {
            Guard::AskAgain
        } else {
            match parent.vnode.getattr(&self.server) {
                Ok(directory) if !is_sticky_and_for_all(directory.mode) => Guard::None,
                Ok(directory) if directory.uid == entry.attributes.uid => Guard::AskAgain,
                _ => Guard::FollowNotForOthers,
            }
        }
    }

    /// Admits a caller to what it has looked up by a name.
    ///
    /// # Errors
    /// `EACCES` for a pipe, socket or device that the caller may not both read and write.
    pub(super) fn admit_to_found(&self, caller: &Caller, entry: &Entry) -> Result<()> {
        let kind = entry.vnode.kind();
        if !self.is_guarded(kind) || kind == FileKind::Symlink {
            return Ok(());
        }
        let both = AccessMode::from_bits(AccessMode::READ.bits() | AccessMode::WRITE.bits());
        match entry.vnode.access(caller, both) {
            Err(Errno::EROFS) => entry.vnode.access(caller, AccessMode::READ),
            admitted => admitted,
        }
    }

    /// A name has come to a directory, and the kernel takes along what it knows of it: nobody looks it up there.
    pub(super) fn guard_moved(&self, directory: &Node, name: &[u8]) {
        let is_sticky = || directory.vnode.getattr(&self.server).is_ok_and(|found| is_sticky_and_for_all(found.mode));
        if self.is_guarded(FileKind::Symlink)
            && is_sticky()
            && let Ok(name) = Name::new(name)
            && let Ok(entry) = directory.vnode.lookup(&self.server, name)
            && self.guard(directory, &entry) == Guard::FollowNotForOthers
            && let Some(node) = self.nodes.id_of(&entry.vnode.handle()).and_then(|id| self.nodes.get(id))
        {
            node.note.store(FOLLOW_NOT_FOR_OTHERS, Ordering::Release);
        }
    }

    /// Whether a directory that gets this mode protects the symlinks in it, of which the kernel may keep names from before.
    pub(super) fn protects_symlinks(&self, mode: u32) -> bool {
        self.is_guarded(FileKind::Symlink) && is_sticky_and_for_all(mode)
    }

    /// Admits a caller to what a symlink holds.
    ///
    /// # Errors
    /// `EACCES` for a symlink of somebody else's in a sticky directory, as the kernel answers to whoever follows it.
    pub(super) fn admit_to_symlink(&self, caller: &Caller, node: &Node) -> Result<()> {
        let is_protected = self.is_guarded(FileKind::Symlink)
            && node.note.load(Ordering::Acquire) & FOLLOW_NOT_FOR_OTHERS != 0
            && node.vnode.getattr(&self.server)?.uid != caller.uid
            && fs::read(PROTECTED_SYMLINKS).is_ok_and(|switch| !switch.starts_with(b"0"));
        if is_protected { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// Whether to take capabilities away from a file as the kernel says. It says so for those who write to it, for those who
    /// may remove them by name, and for those who change its owner or size, before it knows whether they may: that takes them
    /// away by itself below, unless it is refused.
    pub(super) fn takes_capabilities(&self, caller: &Caller, node: &Node) -> Result<bool> {
        Ok(caller.is_superuser()
            || self.open_files.has_writers(node.id)
            || (caller.may_give_own_files_capabilities() && node.vnode.getattr(&self.server)?.uid == caller.uid))
    }

    /// The result of a change that the kernel asks for by itself, for a caller who writes, or for one who asks for it by name; it
    /// does not say for which. `None` where a rule of the stack refuses it, and the file is open for writing: whoever writes
    /// was admitted to that, and what has to change with the data is changed below.
    pub(super) fn unless_for_writer<T>(&self, node: &Node, changed: Result<T>) -> Result<Option<T>> {
        match changed {
            Err(Errno::EPERM | Errno::EACCES) if self.open_files.has_writers(node.id) => Ok(None),
            changed => changed.map(Some),
        }
    }

    /// Whether a caller whom the kernel has not checked may write to a file, and so take its set-id bits away.
    pub(super) fn may_write(&self, caller: &Caller, node: &Node) -> bool {
        self.open_files.has_writers(node.id) || node.vnode.access(caller, AccessMode::WRITE).is_ok()
    }
}

fn is_sticky_and_for_all(mode: u32) -> bool {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o002;
    mode & (STICKY | OTHERS_WRITE) == STICKY | OTHERS_WRITE
}

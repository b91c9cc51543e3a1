//! An open file of a union. One that may be copied to another branch while it is open follows its object there.

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use vnode::{
    AllocateMode, Attributes, Caller, Errno, Lock, LockKind, LockOwner, OpenFile, OpenFileRef, OpenFlags, Result,
    SeekTarget,
};

use super::copy_up::Extent;
use super::node::Node;
use crate::ioctl;

/// An open file.
pub(super) struct UnionFile {
    pub(super) node: Arc<Node>,
    flags: OpenFlags,
    lower: Lower,
}

/// The open file below.
enum Lower {
    /// Of an object that stays where it is.
    Fixed(OpenFileRef),
    /// Of one that may be copied.
    Following(RwLock<Current>, Mutex<Vec<(LockOwner, Lock)>>),
}

/// Which copy of the object is open.
struct Current {
    copies: u32,
    file: OpenFileRef,
}

impl UnionFile {
    /// A file of a branch that may be changed.
    pub(super) fn fixed(node: Arc<Node>, file: OpenFileRef) -> OpenFileRef {
        Arc::new(Self { node, flags: OpenFlags::READ_WRITE, lower: Lower::Fixed(file) })
    }

    /// Opens a file as the caller. To be written to, it is copied if need be.
    pub(super) fn open(node: &Arc<Node>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        if flags.writes() || flags.truncates() {
            if !node.is_writable() {
                let wanted = if flags.reads() { 6 } else { 2 };
                node.may(caller, vnode::AccessMode::from_bits(wanted))?;
            }
            let extent = if flags.truncates() { Extent::UpTo(0) } else { Extent::All };
            node.writable(extent)?;
        }
        let copies = node.copies();
        let instance = node.leftmost();
        let file = instance.vnode.open(caller, flags)?;
        if node.union.branches.may_change(&instance.member) || !node.union.can_write(&instance.member) {
            return Ok(Self::fixed(Arc::clone(node), file));
        }
        let lower = Lower::Following(RwLock::new(Current { copies, file }), Mutex::default());
        let flags = flags.without(OpenFlags::TRUNCATE).without(OpenFlags::EXCLUSIVE);
        let opened = Arc::new(Self { node: Arc::clone(node), flags, lower });
        let mut followers = node.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| follower.strong_count() > 0);
        followers.push(Arc::downgrade(&opened));
        Ok(opened)
    }

    /// The open file of the object as it is now.
    fn lower(&self) -> Result<OpenFileRef> {
        let (current, locks) = match &self.lower {
            Lower::Fixed(file) => return Ok(Arc::clone(file)),
            Lower::Following(current, locks) => (current, locks),
        };
        {
            let current = current.read().unwrap_or_else(PoisonError::into_inner);
            if current.copies == self.node.copies() {
                return Ok(Arc::clone(&current.file));
            }
        }
        let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
        let copies = self.node.copies();
        if current.copies != copies {
            let server = Caller::server();
            // What the caller may do with the file was decided when it was opened.
            let file = self.node.leftmost().vnode.open(&server, self.flags)?;
            for (owner, lock) in lock_of(locks).iter() {
                file.lock(&server, *owner, lock)?;
            }
            *current = Current { copies, file };
        }
        Ok(Arc::clone(&current.file))
    }

    /// Remembers a lock for the copies to come.
    fn locked(&self, owner: LockOwner, lock: &Lock) {
        let Lower::Following(_, locks) = &self.lower else { return };
        let mut locks = lock_of(locks);
        let whole = lock.start == 0 && lock.end == u64::MAX;
        if whole {
            // All that was held by this owner is replaced.
            locks.retain(|(held, known)| *held != owner || known.family != lock.family);
        }
        if lock.kind != LockKind::Unlock || !whole {
            locks.push((owner, *lock));
        }
    }
}

impl Node {
    /// The object has been copied: files with locks take them again there, before anybody else can.
    pub(super) fn call_followers(&self) {
        let followers = std::mem::take(&mut *self.followers.lock().unwrap_or_else(PoisonError::into_inner));
        for follower in followers.iter().filter_map(std::sync::Weak::upgrade) {
            // One that cannot be opened says so when it is used.
            let _ = follower.lower();
        }
    }
}

fn lock_of(locks: &Mutex<Vec<(LockOwner, Lock)>>) -> MutexGuard<'_, Vec<(LockOwner, Lock)>> {
    locks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenFile for UnionFile {
    fn read_at(&self, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.lower()?.read_at(caller, offset, buffer)
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8], kill_privileges: bool) -> Result<usize> {
        self.lower()?.write_at(caller, offset, data, kill_privileges)
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        Ok(self.node.shown(self.lower()?.getattr(caller)?))
    }

    fn truncate(&self, caller: &Caller, size: u64, kill_privileges: bool) -> Result<()> {
        self.lower()?.truncate(caller, size, kill_privileges)
    }

    fn flush(&self, caller: &Caller, owner: LockOwner) -> Result<()> {
        if let Lower::Following(_, locks) = &self.lower {
            lock_of(locks).retain(|(held, lock)| *held != owner || lock.family != vnode::LockFamily::Posix);
        }
        self.lower()?.flush(caller, owner)
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.lower()?.fsync(caller, data_only)
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.lower()?.allocate(caller, mode, offset, length)
    }

    fn seek(&self, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        self.lower()?.seek(caller, offset, target)
    }

    fn copy_range(&self, caller: &Caller, offset: u64, to: &OpenFileRef, to_offset: u64, length: u64) -> Result<u64> {
        let to = to.as_any().downcast_ref::<Self>().ok_or(Errno::EXDEV)?.lower()?;
        self.lower()?.copy_range(caller, offset, &to, to_offset, length)
    }

    fn lock(&self, caller: &Caller, owner: LockOwner, lock: &Lock) -> Result<()> {
        self.lower()?.lock(caller, owner, lock)?;
        self.locked(owner, lock);
        Ok(())
    }

    fn test_lock(&self, caller: &Caller, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        self.lower()?.test_lock(caller, owner, lock)
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        if ioctl::changes(command) {
            self.node.writable(Extent::All)?;
        }
        self.lower()?.ioctl(caller, command, input, output)
    }

    fn poll(&self, caller: &Caller, events: u32) -> Result<u32> {
        self.lower()?.poll(caller, events)
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        match &self.lower {
            Lower::Fixed(file) => file.backing(),
            // The kernel would go on reading the original.
            Lower::Following(..) => None,
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

//! Open files: data, holes, copies, and their open flags.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use vnode::profile::{self, Part};
use vnode::{
    AllocateMode, Attributes, Caller, Errno, FileKind, Lock, LockFamily, LockOwner, OpenFile, OpenFileRef, OpenFlags,
    Result, SeekTarget,
};

use super::KIND;
use super::credentials::{AssumedCredentials, ThreadCredentials};
use super::locks::FileLocks;
use super::node::Node;
use super::restrictions::{self, Restrictions};
use super::shares::{DescriptorShare, HeldDescriptor};
use super::{attributes, errno, ioctl, system};

/// The flag bit by which execve(2) marks an open: execute permission then suffices.
const OPEN_FOR_EXEC: u32 = 0x20;

/// An open regular file.
pub(crate) struct File {
    node: Arc<Node>,
    descriptor: HeldDescriptor,
    flags: OpenFlags,
    /// The caller that opened the file, on whose behalf data are written when no other writer is known.
    opener: Caller,
    /// Whether the kernel must not read it directly: it would open the file anew and update an access time that is to be
    /// kept.
    forbids_passthrough: bool,
    locks: FileLocks,
}

/// Opens the file of a vnode.
pub(crate) fn open(node: &Node, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
    match node.file_kind() {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Errno::EISDIR),
        FileKind::Symlink => return Err(Errno::ELOOP),
        _ => return Err(Errno::ENXIO),
    }
    let how = open_flags(node, flags);
    let how = if flags.writes() { how } else { how | noatime_flag(caller) };
    let executes = flags.bits() & OPEN_FOR_EXEC != 0 && !flags.writes();
    if executes && restrictions::forbids(&node.mount(), Restrictions::NO_EXECUTION) {
        return Err(Errno::EACCES);
    }
    let share = DescriptorShare::take(caller)?;
    let thread = &mut node.tree().credentials.thread();
    let opened = if executes && !caller.server {
        let object = node.descriptor(thread)?;
        thread.act_for(caller)?.access(&object, libc::X_OK as u32).map_err(errno)?;
        let acting = thread.act_as_server()?;
        node.tree().open_with_retry(|| acting.reopen(&object, how).map_err(errno))?
    } else if caller.is_superuser() && thread.assumes_callers() {
        thread.act_for(caller)?;
        node.tree().open_with_retry(|| match node.open_object(thread, how) {
            Err(Errno::EPERM) if how.contains(OFlags::NOATIME) => {
                node.open_object(thread, how.difference(OFlags::NOATIME))
            }
            opened => opened,
        })?
    } else {
        let object = node.descriptor(thread)?;
        let acting = thread.act_for(caller)?;
        node.tree().open_with_retry(|| open_tolerantly(how, |flags| acting.reopen(&object, flags)).map_err(errno))?
    };
    make_blocking(&opened, flags)?;
    node.tree().preserve_access_time(thread, FileKind::Regular, opened.as_fd());
    clear_after_truncation(node, thread, caller, &opened, flags)?;
    Ok(profile::open_file(Arc::new(File::new(node.reference(), caller, share.of(opened), flags))))
}

/// Clears the privileges of a file that was truncated as it was opened, for a superuser that kills them.
pub(crate) fn clear_after_truncation(
    node: &Node,
    thread: &mut ThreadCredentials,
    caller: &Caller,
    opened: &OwnedFd,
    flags: OpenFlags,
) -> Result<()> {
    if flags.truncates() { clear_killed_privileges(node, thread, caller, opened.as_fd()) } else { Ok(()) }
}

/// Clears the set-id bits and capabilities of a file if the caller is a superuser that kills them.
fn clear_killed_privileges(
    node: &Node,
    thread: &mut ThreadCredentials,
    caller: &Caller,
    file: BorrowedFd<'_>,
) -> Result<()> {
    if caller.kills_privileges() && caller.is_superuser() && thread.assumes_callers() {
        attributes::clear_privileges(node, thread, file)?;
    }
    Ok(())
}

/// Clears `O_NONBLOCK`, so that reads and writes behave as on any other file: file systems may interpret the flag.
pub(crate) fn make_blocking(opened: &OwnedFd, flags: OpenFlags) -> Result<()> {
    if flags.is_nonblocking() {
        let now = rustix::fs::fcntl_getfl(opened).map_err(errno)?;
        rustix::fs::fcntl_setfl(opened, now.difference(OFlags::NONBLOCK)).map_err(errno)?;
    }
    Ok(())
}

/// Has what was written to an open file or directory stored.
pub(crate) fn synchronize(node: &Node, opened: BorrowedFd<'_>, data_only: bool) -> Result<()> {
    match data_only {
        _ if node.tree().volatile => Ok(()),
        true => rustix::fs::fdatasync(opened),
        false => rustix::fs::fsync(opened),
    }
    .map_err(errno)
}

/// Returns the flags used for opening the file itself. `O_DIRECT` is omitted: it concerns the caller's own buffers, and ours
/// need not be aligned.
pub(crate) fn open_flags(node: &Node, flags: OpenFlags) -> OFlags {
    let synchronizing = if node.tree().volatile { OFlags::empty() } else { OFlags::SYNC | OFlags::DSYNC };
    let kept = OFlags::RWMODE | OFlags::APPEND | OFlags::TRUNC | synchronizing | OFlags::NOATIME | OFlags::NONBLOCK;
    (OFlags::from_bits_retain(flags.bits()) & kept) | OFlags::CLOEXEC | OFlags::LARGEFILE
}

/// Returns the flag for reads that the server makes for itself, without any process: they are not an access.
pub(crate) fn noatime_flag(caller: &Caller) -> OFlags {
    if caller.server && caller.pid == 0 { OFlags::NOATIME } else { OFlags::empty() }
}

/// Opens without `O_NOATIME` if the caller may not use it: the flag is a hint, not the purpose of the open.
pub(crate) fn open_tolerantly(
    flags: OFlags,
    open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>,
) -> rustix::io::Result<OwnedFd> {
    match open(flags) {
        Err(rustix::io::Errno::PERM) if flags.contains(OFlags::NOATIME) => open(flags.difference(OFlags::NOATIME)),
        opened => opened,
    }
}

/// Repeats a call interrupted by a signal to the server: the signal was not meant for the caller.
fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.map_err(errno),
        }
    }
}

/// Maximum number of bytes passed to one kernel copy for a caller that may be killed meanwhile: the kernel would not stop.
const COPY_CHUNK_BYTES: u64 = 64 << 20;

/// Copies in parts until one is short or fails; the error is returned only if nothing has been copied.
fn copy_in_chunks(length: u64, mut part: impl FnMut(u64) -> Result<u64>) -> Result<u64> {
    let mut done = 0;
    while done < length {
        let wanted = COPY_CHUNK_BYTES.min(length - done);
        match part(wanted) {
            Ok(copied) if copied == wanted => done += copied,
            Ok(copied) => return Ok(done + copied),
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

impl File {
    /// Creates the file of a vnode that `caller` opened by `descriptor`.
    pub(crate) fn new(node: Arc<Node>, caller: &Caller, descriptor: HeldDescriptor, flags: OpenFlags) -> Self {
        let forbids_passthrough =
            !caller.server && node.tree().preserves_file_access_times() && node.mount().keeps_access_times();
        Self { node, descriptor, flags, opener: caller.uncancelled(), forbids_passthrough, locks: FileLocks::default() }
    }

    /// Returns the attributes.
    pub(crate) fn attributes(&self) -> Result<Attributes> {
        attributes::of_descriptor(&self.node, self.descriptor.as_fd())
    }

    /// Assumes the credentials of a caller that is about to change the data: the kernel clears set-id bits when anyone other
    /// than the superuser writes to a file, and file capabilities on any write.
    fn act_for_writer<'t>(&self, thread: &'t mut ThreadCredentials, caller: &Caller) -> Result<AssumedCredentials<'t>> {
        if !self.flags.writes() {
            return Err(Errno::EBADF);
        }
        // Data that the server writes by itself are charged to the opener of the file where space is reserved or limited.
        thread.act_for_data(if caller.server && !caller.has_payer() { &self.opener } else { caller })
    }

    fn thread(&self) -> ThreadCredentials {
        self.node.tree().credentials.thread()
    }

    /// Clears the set-id bits and capabilities for a superuser that kills privileges. For all others the kernel does so.
    fn clear_privileges(&self, thread: &mut ThreadCredentials, caller: &Caller) -> Result<()> {
        clear_killed_privileges(&self.node, thread, caller, self.descriptor.as_fd())
    }
}

impl Part for File {
    const PART: &'static str = KIND;
}

impl OpenFile for File {
    fn read_at(&self, _caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        // A signal or a network file system may cut a read short before the end of the file.
        vnode::transfer_fully(buffer.len(), |done| {
            uninterrupted(|| rustix::io::pread(&self.descriptor, &mut buffer[done..], offset + done as u64))
        })
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let thread = &mut self.thread();
        if self.flags.writes() && !data.is_empty() {
            self.clear_privileges(thread, caller)?;
        }
        let acting = self.act_for_writer(thread, caller)?;
        uninterrupted(|| acting.write(&self.descriptor, data, offset))
    }

    fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
        self.attributes()
    }

    fn truncate(&self, caller: &Caller, size: u64) -> Result<()> {
        if i64::try_from(size).is_err() {
            return Err(Errno::EFBIG);
        }
        if !self.flags.writes() {
            return Err(Errno::EINVAL);
        }
        let thread = &mut self.thread();
        self.act_for_writer(thread, caller)?.set_size(&self.descriptor, size).map_err(errno)?;
        self.clear_privileges(thread, caller)
    }

    fn flush(&self, _caller: &Caller, owner: &LockOwner) -> Result<()> {
        self.node.tree().locks.release(&self.node, owner);
        if self.closing_tells() {
            // Closing another descriptor of the file reports what closing this one would.
            let copy = rustix::io::fcntl_dupfd_cloexec(&self.descriptor, 0).map_err(errno)?;
            system::close(copy).map_err(errno)?;
        }
        Ok(())
    }

    fn closing_tells(&self) -> bool {
        self.flags.writes() && self.node.mount().reports_errors_at_close()
    }

    fn fsync(&self, _caller: &Caller, data_only: bool) -> Result<()> {
        synchronize(&self.node, self.descriptor.as_fd(), data_only)
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        let thread = &mut self.thread();
        let flags = FallocateFlags::from_bits_retain(mode.bits());
        if self.flags.writes() && length > 0 {
            self.clear_privileges(thread, caller)?;
        }
        self.act_for_writer(thread, caller)?.allocate(&self.descriptor, flags, offset, length).map_err(errno)
    }

    fn seek(&self, _caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        // Moves the descriptor's own offset, which nothing else here uses.
        let target = match target {
            SeekTarget::Data => SeekFrom::Data(offset),
            SeekTarget::Hole => SeekFrom::Hole(offset),
        };
        rustix::fs::seek(&self.descriptor, target).map_err(errno)
    }

    fn copy_range(
        &self,
        caller: &Caller,
        mut offset: u64,
        to: &OpenFileRef,
        mut to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let to = to.as_any().downcast_ref::<File>().ok_or(Errno::EXDEV)?;
        let thread = &mut to.thread();
        if to.flags.writes() && length > 0 {
            to.clear_privileges(thread, caller)?;
        }
        let acting = to.act_for_writer(thread, caller)?;
        let mut part = |length: u64| {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            match acting.copy((&self.descriptor, &mut offset), (&to.descriptor, &mut to_offset), length) {
                Ok(copied) => Ok(copied as u64),
                // File systems and kernels report this lack in several ways.
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Err(Errno::EXDEV),
                Err(error) => Err(errno(error)),
            }
        };
        let cancellation = caller.cancellation();
        // Within a file the kernel refuses overlapping ranges, for which it has to see the whole range.
        if !cancellation.may_come() || length <= COPY_CHUNK_BYTES || Arc::ptr_eq(&self.node, &to.node) {
            return part(length);
        }
        copy_in_chunks(length, |length| cancellation.check().and_then(|()| part(length)))
    }

    fn lock(&self, caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<()> {
        let (file, thread) = (self.descriptor.as_fd(), &mut self.thread());
        match lock.family {
            LockFamily::Flock => self.locks.flock(thread, caller, file, owner, lock.kind),
            LockFamily::Posix => {
                let tables = &self.node.tree().locks;
                self.locks.posix((tables, &self.node), thread, caller, (file, self.flags), owner, lock)
            }
        }
    }

    fn test_lock(&self, _caller: &Caller, owner: &LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        match lock.family {
            LockFamily::Flock => Err(Errno::EINVAL),
            LockFamily::Posix => self.node.tree().locks.test(&self.node, self.descriptor.as_fd(), owner, lock),
        }
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        ioctl::of_descriptor(&mut self.thread(), self.descriptor.as_fd(), caller, command, input, output)
    }

    /// The thread then has the credentials of the opener of the file: the kernel writes to the file with the credentials of the
    /// thread that hands it over, even for others that open it for writing while it is registered.
    fn backing(&self) -> Option<BorrowedFd<'_>> {
        if self.forbids_passthrough {
            return None;
        }
        self.thread().act_for_data(&self.opener).ok()?;
        Some(self.descriptor.as_fd())
    }

    /// Network file systems give leases to nobody, or as their servers see fit.
    fn is_open_elsewhere(&self) -> bool {
        self.node.mount().is_local()
            && self
                .thread()
                .act_for(&Caller::server())
                .is_ok_and(|_| system::is_open_elsewhere(self.descriptor.as_fd()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_ends_with_a_short_or_failed_chunk() {
        const LENGTH: u64 = 2 * COPY_CHUNK_BYTES + 5;
        let copied = |third: Result<u64>| {
            let mut requested = Vec::new();
            let copied = copy_in_chunks(LENGTH, |wanted| {
                requested.push(wanted);
                if requested.len() == 3 { third } else { Ok(wanted) }
            });
            (copied, requested)
        };
        let parts = vec![COPY_CHUNK_BYTES, COPY_CHUNK_BYTES, 5];
        assert_eq!(copied(Ok(5)), (Ok(LENGTH), parts.clone()));
        assert_eq!(copied(Ok(3)), (Ok(LENGTH - 2), parts.clone()));
        assert_eq!(copied(Err(Errno::EINTR)), (Ok(LENGTH - 5), parts));
        assert_eq!(copy_in_chunks(LENGTH, |_| Err(Errno::EINTR)), Err(Errno::EINTR));
    }
}

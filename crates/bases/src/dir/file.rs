//! Open files: data, holes, copies, and the flags that they are opened with.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use vnode::profile::enter;
use vnode::{
    AllocateMode, Attributes, Caller, Errno, FileKind, Lock, LockFamily, LockOwner, OpenFile, OpenFileRef, OpenFlags,
    Result, SeekTarget,
};

use super::KIND;
use super::locks::FileLocks;
use super::node::{Node, reopen};
use super::shares::{HeldDescriptor, Share};
use super::{attributes, errno, ioctl, system};

/// The bit by which execve(2) shows in the flags of an open: permission to execute is enough then.
const FOR_EXECUTION: u32 = 0x20;

/// An open regular file.
pub struct File {
    node: Arc<Node>,
    descriptor: HeldDescriptor,
    flags: OpenFlags,
    locks: FileLocks,
}

/// Opens the file of a vnode.
pub fn open(node: &Node, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
    match node.file_kind() {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Errno::EISDIR),
        FileKind::Symlink => return Err(Errno::ELOOP),
        _ => return Err(Errno::ENXIO),
    }
    let how = open_flags(flags);
    let share = Share::take(caller)?;
    let opened = if caller.is_superuser() && node.tree().credentials.switches() {
        open_with_room(node, || node.open_object(how))?
    } else if flags.bits() & FOR_EXECUTION != 0 && !flags.writes() {
        let object = node.descriptor_for(caller)?;
        system::access(object.as_fd(), libc::X_OK as u32).map_err(errno)?;
        node.tree().credentials.become_server()?;
        open_with_room(node, || reopen(object.as_fd(), how))?
    } else {
        let object = node.descriptor_for(caller)?;
        let path = system::DescriptorPath::new(&object);
        let open = |flags| rustix::fs::open(path.as_c_str(), flags, rustix::fs::Mode::empty());
        open_with_room(node, || open_tolerantly(how, open))?
    };
    Ok(Arc::new(File::new(node.reference(), share.of(opened), flags)))
}

/// Opens again with the cached descriptors closed if there are too many.
fn open_with_room(node: &Node, open: impl Fn() -> Result<OwnedFd>) -> Result<OwnedFd> {
    match open() {
        Err(Errno::EMFILE | Errno::ENFILE) => {
            node.tree().descriptors.clear();
            open()
        }
        opened => opened,
    }
}

/// The flags that the file is really opened with. `O_DIRECT` is left out: it is between the caller and its own buffers,
/// ours need not be aligned.
pub fn open_flags(flags: OpenFlags) -> OFlags {
    let kept = OFlags::RWMODE | OFlags::APPEND | OFlags::TRUNC | OFlags::SYNC | OFlags::DSYNC | OFlags::NOATIME;
    (OFlags::from_bits_retain(flags.bits()) & kept) | OFlags::CLOEXEC | OFlags::LARGEFILE
}

/// Opens without `O_NOATIME` if the caller may not ask for that: it is a wish, not what the file is opened for.
pub fn open_tolerantly(flags: OFlags, open: impl Fn(OFlags) -> rustix::io::Result<OwnedFd>) -> Result<OwnedFd> {
    match open(flags) {
        Err(rustix::io::Errno::PERM) if flags.contains(OFlags::NOATIME) => open(flags.difference(OFlags::NOATIME)),
        opened => opened,
    }
    .map_err(errno)
}

/// Repeats a call that a signal to the server has interrupted: it was not meant for the caller.
fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            answer => return answer.map_err(errno),
        }
    }
}

impl File {
    /// A file of a vnode that was opened by `descriptor`.
    pub fn new(node: Arc<Node>, descriptor: HeldDescriptor, flags: OpenFlags) -> Self {
        Self { node, descriptor, flags, locks: FileLocks::default() }
    }

    /// The attributes.
    pub fn attributes(&self) -> Result<Attributes> {
        attributes::of_descriptor(&self.node, self.descriptor.as_fd())
    }

    /// Takes on the credentials of a caller who is about to change the data: the kernel takes set-id bits away from a
    /// file that others than the superuser write to, and file capabilities from any.
    fn assume_writer(&self, caller: &Caller) -> Result<()> {
        if !self.flags.writes() {
            return Err(Errno::EBADF);
        }
        let credentials = &self.node.tree().credentials;
        // The superuser's thread may have anybody's ids: then the kernel would clear what the superuser may keep.
        if caller.is_superuser() { credentials.become_server() } else { credentials.assume(caller) }
    }

    /// Clears the set-id bits for a superuser who may not keep them. For all others the kernel does.
    fn clear_privileges(&self, caller: &Caller, asked: bool) -> Result<()> {
        if asked && caller.is_superuser() && self.node.tree().credentials.switches() {
            attributes::clear_privileges(&self.node, self.descriptor.as_fd(), false)?;
        }
        Ok(())
    }
}

impl OpenFile for File {
    fn read_at(&self, _caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let _working = enter(KIND);
        // A signal or a network file system may cut a read short before the end of the file.
        vnode::transfer_fully(buffer.len(), |done| {
            uninterrupted(|| rustix::io::pread(&self.descriptor, &mut buffer[done..], offset + done as u64))
        })
    }

    fn write_at(&self, caller: &Caller, offset: u64, data: &[u8], kill_privileges: bool) -> Result<usize> {
        let _working = enter(KIND);
        self.assume_writer(caller)?;
        if !data.is_empty() {
            self.clear_privileges(caller, kill_privileges)?;
        }
        uninterrupted(|| rustix::io::pwrite(&self.descriptor, data, offset))
    }

    fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
        let _working = enter(KIND);
        self.attributes()
    }

    fn truncate(&self, caller: &Caller, size: u64, kill_privileges: bool) -> Result<()> {
        let _working = enter(KIND);
        if i64::try_from(size).is_err() {
            return Err(Errno::EFBIG);
        }
        if !self.flags.writes() {
            return Err(Errno::EINVAL);
        }
        self.assume_writer(caller)?;
        rustix::fs::ftruncate(&self.descriptor, size).map_err(errno)?;
        self.clear_privileges(caller, kill_privileges)
    }

    fn flush(&self, _caller: &Caller, owner: LockOwner) -> Result<()> {
        let _working = enter(KIND);
        self.node.tree().locks.release(&self.node, owner);
        if self.flags.writes() && self.node.mount().tells_errors_at_close() {
            // Closing another descriptor of it tells what closing this one would.
            let copy = rustix::io::fcntl_dupfd_cloexec(&self.descriptor, 0).map_err(errno)?;
            system::close(copy).map_err(errno)?;
        }
        Ok(())
    }

    fn fsync(&self, _caller: &Caller, data_only: bool) -> Result<()> {
        let _working = enter(KIND);
        match data_only {
            true => rustix::fs::fdatasync(&self.descriptor),
            false => rustix::fs::fsync(&self.descriptor),
        }
        .map_err(errno)
    }

    fn allocate(&self, caller: &Caller, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        let _working = enter(KIND);
        self.assume_writer(caller)?;
        let flags = FallocateFlags::from_bits_retain(mode.bits());
        rustix::fs::fallocate(&self.descriptor, flags, offset, length).map_err(errno)
    }

    fn seek(&self, _caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        let _working = enter(KIND);
        // Moves the descriptor's own position, which nothing else here uses.
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
        let _working = enter(KIND);
        let to = to.as_any().downcast_ref::<File>().ok_or(Errno::EXDEV)?;
        to.assume_writer(caller)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(
            &self.descriptor,
            Some(&mut offset),
            &to.descriptor,
            Some(&mut to_offset),
            length,
        );
        match copied {
            Ok(copied) => Ok(copied as u64),
            // File systems and kernels that cannot say so in several ways.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Err(Errno::EXDEV),
            Err(error) => Err(errno(error)),
        }
    }

    fn lock(&self, _caller: &Caller, owner: LockOwner, lock: &Lock) -> Result<()> {
        let _working = enter(KIND);
        match lock.family {
            LockFamily::Flock => self.locks.flock(&self.node, self.descriptor.as_fd(), owner, lock.kind),
            LockFamily::Posix => self.locks.posix(&self.node, self.descriptor.as_fd(), self.flags, owner, lock),
        }
    }

    fn test_lock(&self, _caller: &Caller, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        let _working = enter(KIND);
        match lock.family {
            LockFamily::Flock => Err(Errno::EINVAL),
            LockFamily::Posix => self.node.tree().locks.test(&self.node, self.descriptor.as_fd(), owner, lock),
        }
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let _working = enter(KIND);
        ioctl::of_descriptor(&self.node, self.descriptor.as_fd(), caller, command, input, output)
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

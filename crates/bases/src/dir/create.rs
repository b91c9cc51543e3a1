//! Creates objects, and adds names to existing ones.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags};
use vnode::{Caller, Created, Creation, Device, Entry, Errno, FileKind, Name, OpenFlags, Result, profile};

use super::attributes::mode_bits;
use super::calls::PATH_ONLY;
use super::credentials::{AssumedCredentials, ThreadCredentials};
use super::errno;
use super::file::{self, File};
use super::names::{location, require_directory, require_not_attached, require_same_mount};
use super::node::{LookupLocation, Node};
use super::shares::{DescriptorShare, HeldDescriptor};

/// Creates and opens a regular file. `by`, the caller or somebody with more rights there, acts in the directory; a file that
/// already exists is opened by the caller.
pub(crate) fn create(
    directory: &Node,
    caller: &Caller,
    by: &Caller,
    name: Name<'_>,
    how: &Creation,
) -> Result<Created> {
    require_directory(directory)?;
    require_not_attached(directory, name, Errno::EEXIST)?;
    let thread = &mut directory.tree().credentials.thread();
    let descriptor = directory.descriptor(thread)?;
    let flags = file::open_flags(directory, how.flags).difference(OFlags::TRUNC | OFlags::NONBLOCK)
        | OFlags::CREATE
        | OFlags::EXCL;
    // A non-exclusive creation usually makes a new file, too: it is sent after a look-up that found nothing.
    for _ in 0..CREATE_ATTEMPTS_MAX {
        let share = DescriptorShare::take(caller)?;
        let new_file = thread.create(by, |acting| {
            file::open_tolerantly(flags, |flags| {
                acting.create_at(&descriptor, name.as_bytes(), flags | OFlags::NOFOLLOW, mode_bits(how.mode))
            })
        });
        match new_file {
            Ok(new) => {
                return opened_entry(directory, thread, caller, share.of(new), how.flags, location(directory, name));
            }
            Err(Errno::EEXIST) if !how.flags.is_exclusive() => drop(share),
            Err(error) => return Err(error),
        }
        match open_existing(directory, thread, descriptor.as_fd(), (caller, by), name, how.flags) {
            Err(Errno::ENOENT) => {}
            opened => return opened,
        }
    }
    Err(Errno::EAGAIN)
}

/// Maximum number of attempts while the name keeps appearing and vanishing between two system calls.
const CREATE_ATTEMPTS_MAX: usize = 16;

fn open_existing(
    directory: &Node,
    thread: &mut ThreadCredentials,
    descriptor: BorrowedFd<'_>,
    (caller, by): (&Caller, &Caller),
    name: Name<'_>,
    flags: OpenFlags,
) -> Result<Created> {
    let object = thread.act_for(by)?.open_at(descriptor, name.as_bytes(), PATH_ONLY).map_err(errno)?;
    let (node, attributes) = directory.tree().entry_of(thread, object.as_fd(), location(directory, name))?;
    match node.file_kind() {
        // A caller that looks the name up again opens it without blocking others from the directory.
        FileKind::Regular if node.is_fuse_root() => return Err(Errno::ESTALE),
        FileKind::Regular => {}
        FileKind::Directory => return Err(Errno::EISDIR),
        FileKind::Symlink => return Err(Errno::ELOOP),
        _ => return Err(Errno::ENXIO),
    }
    let share = DescriptorShare::take(caller)?;
    let acting = thread.act_for(caller)?;
    let opened =
        file::open_tolerantly(file::open_flags(&node, flags), |flags| acting.reopen(&object, flags)).map_err(errno)?;
    file::make_blocking(&opened, flags)?;
    directory.tree().preserve_access_time(thread, FileKind::Regular, opened.as_fd());
    file::clear_after_truncation(&node, thread, caller, &opened, flags)?;
    let file = File::new(Arc::clone(&node), caller, share.of(opened), flags);
    let attributes = if flags.truncates() { file.attributes()? } else { attributes };
    Ok(Created { entry: Entry { vnode: profile::vnode(node), attributes }, file: profile::open_file(Arc::new(file)) })
}

/// Returns the vnode, attributes and open file of a newly created file.
fn opened_entry(
    directory: &Node,
    thread: &mut ThreadCredentials,
    caller: &Caller,
    descriptor: HeldDescriptor,
    flags: OpenFlags,
    location: LookupLocation<'_>,
) -> Result<Created> {
    let (node, attributes) = directory.tree().entry_of(thread, descriptor.as_fd(), location)?;
    directory.tree().preserve_access_time(thread, FileKind::Regular, descriptor.as_fd());
    let file = File::new(Arc::clone(&node), caller, descriptor, flags);
    Ok(Created { entry: Entry { vnode: profile::vnode(node), attributes }, file: profile::open_file(Arc::new(file)) })
}

/// Creates an unnamed file.
pub(crate) fn tmpfile(directory: &Node, caller: &Caller, how: &Creation) -> Result<Created> {
    require_directory(directory)?;
    let share = DescriptorShare::take(caller)?;
    let thread = &mut directory.tree().credentials.thread();
    let descriptor = directory.descriptor(thread)?;
    let exclusive = if how.flags.is_exclusive() { OFlags::EXCL } else { OFlags::empty() };
    let flags = file::open_flags(directory, how.flags).difference(OFlags::TRUNC | OFlags::NONBLOCK)
        | OFlags::TMPFILE
        | exclusive;
    let (new_file, pin) = thread.create(caller, |acting| {
        let create = |flags| acting.create_at(&descriptor, c".", flags, mode_bits(how.mode));
        let new_file = file::open_tolerantly(flags, create)?;
        // Not a copy of the file's own descriptor: that would count as open for writing when the file is executed.
        let pin = acting.reopen(&new_file, PATH_ONLY)?;
        Ok((new_file, pin))
    })?;
    let (node, attributes) = directory.tree().entry_of(thread, new_file.as_fd(), LookupLocation::Unnamed)?;
    node.pin(pin);
    directory.tree().preserve_access_time(thread, FileKind::Regular, new_file.as_fd());
    let file = File::new(Arc::clone(&node), caller, share.of(new_file), how.flags);
    Ok(Created { entry: Entry { vnode: profile::vnode(node), attributes }, file: profile::open_file(Arc::new(file)) })
}

/// Creates a directory.
pub(crate) fn mkdir(directory: &Node, caller: &Caller, name: Name<'_>, bits: u32) -> Result<Entry> {
    create_and_look_up(directory, caller, name, |acting, descriptor| {
        acting.make_directory_at(descriptor, name.as_bytes(), mode_bits(bits))
    })
}

/// Creates a file, FIFO, socket or device.
pub(crate) fn mknod(
    directory: &Node,
    caller: &Caller,
    name: Name<'_>,
    kind: FileKind,
    bits: u32,
    device: Device,
) -> Result<Entry> {
    if matches!(kind, FileKind::Directory | FileKind::Symlink) {
        return Err(Errno::EINVAL);
    }
    let number = match kind {
        FileKind::CharacterDevice | FileKind::BlockDevice => rustix::fs::makedev(device.major, device.minor),
        _ => 0,
    };
    let file_type = FileType::from_raw_mode(kind.mode_bits());
    create_and_look_up(directory, caller, name, |acting, descriptor| {
        acting.make_node_at(descriptor, name.as_bytes(), file_type, mode_bits(bits), number)
    })
}

/// Creates a symlink.
pub(crate) fn symlink(directory: &Node, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
    create_and_look_up(directory, caller, name, |acting, descriptor| {
        acting.make_symlink_at(target, descriptor, name.as_bytes())
    })
}

/// Adds a name to an object.
pub(crate) fn link(directory: &Node, caller: &Caller, target: &Node, name: Name<'_>) -> Result<Entry> {
    require_directory(directory)?;
    require_not_attached(directory, name, Errno::EEXIST)?;
    require_same_mount(directory, target)?;
    let thread = &mut directory.tree().credentials.thread();
    let (object, descriptor) = (target.descriptor(thread)?, directory.descriptor(thread)?);
    thread.charge_space(caller, |acting| acting.link_at(&object, &descriptor, name.as_bytes()))?;
    let (node, attributes) = directory.tree().entry_of(thread, object.as_fd(), location(directory, name))?;
    Ok(Entry { vnode: profile::vnode(node), attributes })
}

/// Creates an object by a call that returns no descriptor for it, and looks it up. Removals by this server wait meanwhile;
/// if another program removes the object immediately, it is created again, since no such call reports that the object it
/// made is gone.
fn create_and_look_up(
    directory: &Node,
    caller: &Caller,
    name: Name<'_>,
    call: impl Fn(&AssumedCredentials<'_>, BorrowedFd<'_>) -> rustix::io::Result<()>,
) -> Result<Entry> {
    require_directory(directory)?;
    require_not_attached(directory, name, Errno::EEXIST)?;
    let tree = directory.tree();
    let thread = &mut tree.credentials.thread();
    let descriptor = directory.descriptor(thread)?;
    let _name = tree.name_lock(directory.key(), name);
    for _ in 0..CREATE_ATTEMPTS_MAX {
        thread.create(caller, |acting| call(acting, descriptor.as_fd()))?;
        match tree.entry(thread, caller, directory, descriptor.as_fd(), name) {
            Ok((node, attributes)) => return Ok(Entry { vnode: profile::vnode(node), attributes }),
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EAGAIN)
}

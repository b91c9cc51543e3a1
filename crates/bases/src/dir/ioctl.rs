//! The ioctl commands that reach the file system: inode flags and project quotas.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::OFlags;
use vnode::{Caller, Errno, FileKind, Result};

use super::credentials::ThreadCredentials;
use super::node::Node;
use super::{errno, system};

const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
/// The equivalents for 32-bit programs; the argument is 32 bits wide in all of them.
const GET_FLAGS_32: u32 = 0x8004_6601;
const SET_FLAGS_32: u32 = 0x4004_6602;
const GET_EXTENDED: u32 = 0x801c_581f;
const SET_EXTENDED: u32 = 0x401c_5820;

/// `FS_IOC_GETFSUUID`, added in Linux 6.9: the UUID, preceded by its length in one byte.
const GET_UUID: u32 = 0x8011_1500;

/// Returns the UUID of the file system that a descriptor is on; `None` if it has none or the kernel does not report it.
pub(crate) fn uuid(descriptor: BorrowedFd<'_>) -> Option<[u8; 16]> {
    let mut data = [0; 32];
    // SAFETY: the command writes 17 bytes.
    unsafe { system::ioctl(descriptor, GET_UUID, &mut data) }.ok()?;
    let (length, uuid) = data.split_first()?;
    let uuid: [u8; 16] = uuid.first_chunk().copied()?;
    (*length == 16 && uuid != [0; 16]).then_some(uuid)
}

/// Executes a command on a vnode.
pub(crate) fn of_node(node: &Node, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
    // Opening any other kind could have side effects, and its commands are not ours.
    if !matches!(node.file_kind(), FileKind::Regular | FileKind::Directory) || translate(command).is_none() {
        return Err(Errno::ENOTTY);
    }
    let thread = &mut node.tree().credentials.thread();
    let descriptor = node.open_object(thread, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC)?;
    of_descriptor(thread, descriptor.as_fd(), caller, command, input, output)
}

/// Executes a command on an open file.
pub(crate) fn of_descriptor(
    thread: &mut ThreadCredentials,
    descriptor: BorrowedFd<'_>,
    caller: &Caller,
    command: u32,
    input: &[u8],
    output: &mut [u8],
) -> Result<i32> {
    let (command, size) = translate(command).ok_or(Errno::ENOTTY)?;
    let mut data = [0; 32];
    let input_length = input.len().min(size);
    data[..input_length].copy_from_slice(&input[..input_length]);
    let _acting = thread.act_for(caller)?;
    // SAFETY: none of the commands that `translate` knows accesses more than these 32 bytes.
    let result = unsafe { system::ioctl(descriptor, command, &mut data) }.map_err(errno)?;
    let output_length = output.len().min(size);
    output[..output_length].copy_from_slice(&data[..output_length]);
    Ok(result)
}

/// Returns the command in this machine's width, and the number of bytes of its argument that are used.
fn translate(command: u32) -> Option<(u32, usize)> {
    match command {
        GET_FLAGS | GET_FLAGS_32 => Some((GET_FLAGS, 4)),
        SET_FLAGS | SET_FLAGS_32 => Some((SET_FLAGS, 4)),
        GET_EXTENDED | SET_EXTENDED => Some((command, 28)),
        _ => None,
    }
}

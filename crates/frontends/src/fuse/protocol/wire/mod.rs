//! The kernel's FUSE protocol as bytes: numbers, flags and structures, exactly as Linux defines them.
//!
//! Version 7.45 is used where the kernel has it, and every older one down to 7.31. Structures have the kernel's layout
//! (`repr(C)`, sizes asserted at compile time); they are read by copying from a slice whose length was checked, so a malformed
//! request is an error and never a fault. Names follow the kernel's, written out.

#![allow(dead_code, reason = "the protocol is written down whole, used or not")]

mod flags;
mod notifications;
mod opcode;
mod replies;
mod requests;

pub(crate) use flags::*;
pub(crate) use notifications::*;
pub(crate) use opcode::Opcode;
pub(crate) use replies::*;
pub(crate) use requests::*;

/// The only major version that exists.
pub(crate) const MAJOR_VERSION: u32 = 7;
/// The newest minor version this front end knows.
pub(crate) const MINOR_VERSION: u32 = 45;
/// The oldest minor version that it supports (Linux 5.4; the supported releases begin at 5.10, which has 32).
pub(crate) const MINOR_VERSION_MIN: u32 = 31;
/// The node id of the root, which is never looked up.
pub(crate) const ROOT_ID: u64 = 1;
/// Minimum buffer size in bytes: the kernel refuses to hand a request to a smaller buffer.
pub(crate) const READ_BUFFER_MIN: usize = 8192;

/// Rounds a record's length up to the eight bytes to which directory entries are aligned.
pub(crate) const fn record_align(length: usize) -> usize {
    (length + 7) & !7
}

//! The kernel's FUSE protocol as bytes: numbers, flags and structures, exactly as Linux defines them.
//!
//! Version 7.45 is spoken where the kernel has it, and every older one down to 7.31. Structures carry the
//! kernel's layout (`repr(C)`, sizes asserted at compile time); they are read by copying from a slice whose
//! length was checked, so an odd request is an error and never a fault. Names follow the kernel's, written out.

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

/// The only major version there is.
pub(crate) const MAJOR_VERSION: u32 = 7;
/// The newest minor version this front end knows.
pub(crate) const MINOR_VERSION: u32 = 45;
/// The oldest minor version it works with (Linux 5.4; the releases supported begin at 5.10, which has 32).
pub(crate) const MINOR_VERSION_MIN: u32 = 31;
/// The node id of the root, which is never looked up.
pub(crate) const ROOT_ID: u64 = 1;
/// The kernel refuses to hand a request to a smaller buffer.
pub(crate) const READ_BUFFER_MIN: usize = 8192;

/// Rounds a record's length up to the eight bytes that directory entries are aligned to.
pub(crate) const fn record_align(length: usize) -> usize {
    (length + 7) & !7
}

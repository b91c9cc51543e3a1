//! Replies of the FUSE crate, each for what an operation answered.

use std::time::Duration;

use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyXattr,
};

use super::Result;

/// How long the kernel may keep attributes.
const ATTRIBUTES_KEPT: Duration = Duration::from_secs(1);
/// How long it may keep names: not at all, since a search that it does not ask about is not checked.
const NAMES_KEPT: Duration = Duration::ZERO;
/// Numbers are not used for two objects at a time.
const GENERATION: Generation = Generation(0);

/// An error as the FUSE crate takes it.
pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// Answers a name that was found or made.
pub(crate) fn reply_entry(found: Result<FileAttr>, reply: ReplyEntry) {
    match found {
        Ok(found) => reply.entry_with_ttls(&ATTRIBUTES_KEPT, &NAMES_KEPT, &found, GENERATION),
        Err(error) => reply.error(errno(error)),
    }
}

/// Answers attributes.
pub(crate) fn reply_attributes(found: Result<FileAttr>, reply: ReplyAttr) {
    match found {
        Ok(found) => reply.attr(&ATTRIBUTES_KEPT, &found),
        Err(error) => reply.error(errno(error)),
    }
}

/// Answers a file that was made and opened. One time is for both, its name and its attributes.
pub(crate) fn reply_created(made: Result<(FileAttr, u64)>, flags: FopenFlags, reply: ReplyCreate) {
    match made {
        Ok((made, handle)) => reply.created(&NAMES_KEPT, &made, GENERATION, FileHandle(handle), flags),
        Err(error) => reply.error(errno(error)),
    }
}

/// Answers that something is done.
pub(crate) fn reply_empty(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

/// Answers what was opened.
pub(crate) fn reply_opened(handle: Result<u64>, flags: FopenFlags, reply: ReplyOpen) {
    match handle {
        Ok(handle) => reply.opened(FileHandle(handle), flags),
        Err(error) => reply.error(errno(error)),
    }
}

/// Answers data.
pub(crate) fn reply_data(found: Result<Vec<u8>>, reply: ReplyData) {
    match found {
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(errno(error)),
    }
}

/// Answers a value, or how long it is if there is no room to write it to.
pub(crate) fn reply_value(found: Result<Vec<u8>>, room: u32, reply: ReplyXattr) {
    match found {
        Ok(found) if room == 0 => reply.size(found.len() as u32),
        Ok(found) if found.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(found) => reply.data(&found),
        Err(error) => reply.error(errno(error)),
    }
}

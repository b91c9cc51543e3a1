//! Copies of files.

use std::sync::atomic::{AtomicU64, Ordering};

use vnode::{Caller, Creation, Errno, Name, OpenFileRef, OpenFlags, RenameMode, Result, VnodeRef};

/// Copies a file below to a name in a directory below, which stands for the whole copy or for what it stood for before.
pub(crate) fn copy(caller: &Caller, file: &VnodeRef, directory: &VnodeRef, name: &[u8]) -> Result<()> {
    static COPIES: AtomicU64 = AtomicU64::new(0);
    let name = Name::new(name)?;
    let from = file.open(caller, OpenFlags::READ)?;
    let unfinished = format!(".{}-{}.copy", std::process::id(), COPIES.fetch_add(1, Ordering::Relaxed));
    let unfinished = Name::new(unfinished.as_bytes())?;
    let mode = file.getattr(caller)?.mode & 0o777;
    let how = Creation { mode, flags: OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE) };
    let to = directory.create(caller, unfinished, &how)?.file;
    let copied = copy_data(caller, &from, &to)
        .and_then(|()| directory.rename(caller, unfinished, directory, name, RenameMode::Replace));
    if copied.is_err() {
        // The error is what went wrong before.
        let _ = directory.unlink(caller, unfinished);
    }
    copied
}

fn copy_data(caller: &Caller, from: &OpenFileRef, to: &OpenFileRef) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let length = from.read_at(caller, offset, &mut buffer)?;
        let mut rest = &buffer[..length];
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            match to.write_at(caller, offset, rest)? {
                0 => return Err(Errno::ENOSPC),
                written => (rest, offset) = (&rest[written..], offset + written as u64),
            }
        }
    }
}

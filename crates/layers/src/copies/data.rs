//! Data of copies: cloned if the file system can, otherwise copied by the kernel if it can, skipping holes.

use rustix::io::Errno as SystemError;
use vnode::{Caller, Errno, OpenFile, Result, SeekTarget, read_fully, write_fully, zeros};

/// Maximum size of a file that is copied by reading and writing it, which then takes less than asking the kernel for it.
const SMALL_FILE_BYTES: u64 = 32 << 10;
/// Size of the blocks of file systems: one with only zeros may be a hole.
const BLOCK_BYTES: usize = 4096;
/// Number of bytes copied at a time where the kernel cannot copy the data.
const COPY_BUFFER_BYTES: usize = 256 << 10;
/// Maximum number of bytes that the kernel is asked to copy at a time, since it does not check for cancellation.
const MAX_KERNEL_COPY_BYTES: u64 = 32 << 20;
/// Number of bytes after which a cancellable copy syncs to storage before it continues: waiting for a sync cannot be
/// cancelled.
const SYNC_INTERVAL_BYTES: u64 = 256 << 20;

/// Copies data, skipping holes, to a file that the writer has opened: the caller that makes the copy, or the server at
/// the expense of the caller that needs it.
///
/// # Errors
/// Returns the errors of copying, and those of the writer's cancellation, which is checked between parts.
pub fn copy_data(writer: &Caller, from: &dyn OpenFile, to: &dyn OpenFile, size: u64) -> Result<()> {
    let server = Caller::server().cancelled_with(writer);
    // The target comes last: after this the thread has the credentials with which the opener of the target writes.
    if let (Some(source), Some(target)) = (from.backing(), to.backing())
        && rustix::fs::ioctl_ficlone(target, source).is_ok()
    {
        return set_size(writer, to, size);
    }
    if size <= SMALL_FILE_BYTES && copy_small(&server, writer, from, to, size as usize)? {
        return set_size(writer, to, size);
    }
    let (mut offset, mut unsynced) = (0, 0);
    while offset < size {
        server.cancellation().check()?;
        let data = match from.seek(&server, offset, SeekTarget::Data) {
            Ok(data) => data,
            Err(Errno::ENXIO) if is_empty_from(from, offset)? => break,
            // Not `ENXIO`, which would mean that there are no more data.
            Err(Errno::ENXIO) => return Err(Errno::EIO),
            Err(error) => return Err(error),
        };
        let hole = from.seek(&server, data, SeekTarget::Hole)?;
        let end = hole.min(size);
        for start in (data..end).step_by(SYNC_INTERVAL_BYTES as usize) {
            let end = end.min(start + SYNC_INTERVAL_BYTES);
            copy_range(writer, from, to, start, end)?;
            unsynced += end - start;
            if unsynced >= SYNC_INTERVAL_BYTES && server.cancellation().may_come() {
                to.fsync(&server, true)?;
                unsynced = 0;
            }
        }
        offset = hole;
    }
    set_size(writer, to, size)
}

/// Gives a copy its size, unless its data have done so.
fn set_size(writer: &Caller, to: &dyn OpenFile, size: u64) -> Result<()> {
    if to.getattr(&Caller::server())?.size == size { Ok(()) } else { to.truncate(writer, size) }
}

/// Copies a small file without holes; returns false, and copies nothing, if it may have holes or is shorter than that by now.
fn copy_small(reader: &Caller, writer: &Caller, from: &dyn OpenFile, to: &dyn OpenFile, size: usize) -> Result<bool> {
    reader.cancellation().check()?;
    let mut data = zeros(size)?;
    let is_whole = read_fully(from, reader, 0, &mut data)? == size;
    if !is_whole || data.chunks(BLOCK_BYTES).any(|block| block.iter().all(|&byte| byte == 0)) {
        return Ok(false);
    }
    write_fully(to, writer, 0, &data).map(|()| true)
}

/// Returns whether a file that was reported to have no data from `offset` on has none, or has become that short by now.
/// Storage that is gone fails with the same error, so there has to be a hole, and then the same error again.
fn is_empty_from(file: &dyn OpenFile, offset: u64) -> Result<bool> {
    let server = Caller::server();
    match file.seek(&server, offset, SeekTarget::Hole) {
        Ok(hole) if hole == offset => match file.seek(&server, offset, SeekTarget::Data) {
            Err(Errno::ENXIO) => Ok(true),
            again => again.map(|_| false),
        },
        Ok(_) => Ok(false),
        Err(Errno::ENXIO) => Ok(file.getattr(&server)?.size <= offset),
        Err(error) => Err(error),
    }
}

/// Copies a range, in the kernel if it can.
fn copy_range(writer: &Caller, from: &dyn OpenFile, to: &dyn OpenFile, start: u64, end: u64) -> Result<()> {
    let mut offset = start;
    if let Some(source) = from.backing() {
        while offset < end {
            // Queried each time, and last: after this the thread has the credentials with which the opener of the
            // target writes.
            let Some(target) = to.backing() else { break };
            let (mut source_offset, mut target_offset) = (offset, offset);
            writer.cancellation().check()?;
            let wanted = (end - offset).min(MAX_KERNEL_COPY_BYTES) as usize;
            let copied =
                rustix::fs::copy_file_range(source, Some(&mut source_offset), target, Some(&mut target_offset), wanted);
            match copied {
                Ok(0) => return check_source_end(from, offset),
                Ok(bytes) => offset += bytes as u64,
                Err(SystemError::INTR) => {}
                Err(SystemError::XDEV | SystemError::INVAL | SystemError::NOSYS | SystemError::OPNOTSUPP) => break,
                Err(error) => return Err(Errno::new(error.raw_os_error())),
            }
        }
    }
    let server = Caller::server().cancelled_with(writer);
    let mut buffer = zeros(COPY_BUFFER_BYTES)?;
    while offset < end {
        writer.cancellation().check()?;
        let wanted = usize::try_from(end - offset).unwrap_or(usize::MAX).min(COPY_BUFFER_BYTES);
        let read = read_fully(from, &server, offset, &mut buffer[..wanted])?;
        write_fully(to, writer, offset, &buffer[..read])?;
        offset += read as u64;
        if read < wanted {
            return check_source_end(from, offset);
        }
    }
    Ok(())
}

/// Ends a copy whose source has no more data than up to `offset`.
///
/// # Errors
/// Returns `EIO` unless the source has become that short: missing data must not become zeros.
fn check_source_end(from: &dyn OpenFile, offset: u64) -> Result<()> {
    if from.getattr(&Caller::server())?.size <= offset { Ok(()) } else { Err(Errno::EIO) }
}

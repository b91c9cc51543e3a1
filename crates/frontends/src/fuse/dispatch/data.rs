//! Data operations on open files: read, write, allocate, seek, copy.

use super::{Dispatcher, OperationResult, caller};
use crate::fuse::protocol::convert::seek_target;
use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::request::{Operation, Request};
use crate::fuse::protocol::wire;
use vnode::{AllocateMode, Caller, Errno, OpenFlags, SetAttributes, read_fully, write_fully};

/// Maximum number of bytes per copy: the result must fit the 32 bits of the older operation; whole pages keep the rest
/// aligned.
const COPY_BYTES_MAX: u64 = 0x7fff_f000;

impl Dispatcher {
    pub(crate) fn data_operation(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> OperationResult {
        let caller = caller(request, 0);
        match &request.operation {
            Operation::Read(arguments) => {
                let opened = self.open_file(arguments.handle)?;
                let buffer = reply.space(arguments.size as usize);
                let length = read_fully(&*opened.file, &caller, arguments.offset, buffer)?;
                reply.advance(length);
            }
            Operation::Write { arguments, data } => {
                let opened = self.open_file(arguments.handle)?;
                let is_page = arguments.write_flags & wire::WRITE_CACHE != 0;
                let is_requested = arguments.write_flags & wire::WRITE_KILL_SUIDGID != 0;
                let kills = is_requested || (!is_page && self.clears_set_id(request.uid));
                let caller = if kills { caller.killing_privileges() } else { caller };
                // The flags may have been changed since the open, by fcntl(2), or be those of a single write, by pwritev2(2).
                let flags = OpenFlags::from_bits(arguments.flags);
                let is_placed = is_page || !flags.appends();
                let file = if is_placed { self.file_for_writeback(&opened)? } else { &opened.file };
                let length = if is_page {
                    // It comes in the name of the kernel, whoever has written the data.
                    let (uid, gid) = opened.opener;
                    let caller = caller.clone().at_expense_of(&Caller::process(0, uid, gid, 0));
                    // After a short write the kernel drops the rest of the page, without reporting an error to anybody.
                    write_fully(&**file, &caller, arguments.offset, data)?;
                    self.restore_mtime(opened.node, request.unique);
                    data.len()
                } else {
                    file.write_at(&caller, arguments.offset, data)?
                };
                if !is_page && flags.synchronizes() {
                    file.fsync(&caller, flags.synchronizes_data_only())?;
                } else if !is_page && opened.is_direct {
                    self.durability.file_changed(&caller, &**file)?;
                }
                reply.put(&wire::WriteOut { size: length as u32, padding: 0 });
            }
            Operation::Fallocate(arguments) => {
                let opened = self.open_file(arguments.handle)?;
                let mode = AllocateMode::from_bits(arguments.mode);
                opened.file.allocate(&writer(&caller), mode, arguments.offset, arguments.length)?;
                self.durability.file_changed(&caller, &*opened.file)?;
            }
            Operation::Seek(arguments) => {
                let opened = self.open_file(arguments.handle)?;
                let target = seek_target(arguments.whence)?;
                if self.writes_back() && self.open_files.has_writers(opened.node) {
                    // The kernel sends the request without first writing back data that the seek would have to see.
                    self.notifications.write_back(opened.node);
                }
                let offset = opened.file.seek(&caller, arguments.offset, target)?;
                reply.put(&wire::SeekOut { offset });
            }
            Operation::CopyFileRange { arguments, long_result } => {
                self.copy(&caller, arguments, *long_result, reply)?;
            }
            _ => return Err(Errno::ENOSYS),
        }
        Ok(())
    }

    /// Restores a node's modification time that the kernel has reported since it sent a page, which has been written by now:
    /// the kernel sends pages and then the time, without waiting for the pages before it reports the time. The page stays
    /// written even if this fails, as for a file that has no name any more.
    fn restore_mtime(&self, node: u64, page: u64) {
        if !self.writes_back() {
            return;
        }
        let set = |mtime| {
            let time = SetAttributes { mtime: Some(mtime), ..SetAttributes::default() };
            self.node(node).and_then(|node| node.vnode.setattr(&self.server, &time)).map(drop)
        };
        if let Err(error) = self.open_files.apply_later_mtimes(node, page, set) {
            tracing::debug!(?error, "the time of a file is that of its writing back");
        }
    }

    fn copy(
        &self,
        caller: &Caller,
        arguments: &wire::CopyFileRangeIn,
        long_result: bool,
        reply: &mut Reply<'_>,
    ) -> OperationResult {
        let from = self.open_file(arguments.handle_in)?;
        let to = self.open_file(arguments.handle_out)?;
        let length = if long_result { arguments.length } else { arguments.length.min(COPY_BYTES_MAX) };
        let copied =
            from.file.copy_range(&writer(caller), arguments.offset_in, &to.file, arguments.offset_out, length)?;
        self.durability.file_changed(caller, &*to.file)?;
        if long_result {
            reply.put(&wire::CopyFileRangeOut { copied });
        } else {
            reply.put(&wire::WriteOut { size: copied as u32, padding: 0 });
        }
        Ok(())
    }
}

/// Returns the caller for a change of data in which the kernel says nothing of privileges, since FALLOCATE and COPY_FILE_RANGE
/// have no flag for that: with either version of HANDLE_KILLPRIV it leaves them to the server, and without it has cleared them.
fn writer(caller: &Caller) -> Caller {
    let caller = caller.clone();
    if caller.may_keep_set_id() { caller } else { caller.killing_privileges() }
}

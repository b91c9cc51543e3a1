//! Tracing: one readable line per request, only when enabled.

use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::request::{Operation, Request};
use crate::fuse::protocol::wire::{self, Opcode};
use crate::fuse::session::Outcome;
use std::fmt::Write as _;
use std::time::Instant;
use vnode::Errno;
use zerocopy::FromBytes;

/// Target of the events, for filters: `plyfs::request=trace`.
pub const TRACE_TARGET: &str = "plyfs::request";

/// A request being traced.
pub(crate) struct Trace {
    opcode: Opcode,
    line: String,
    started: Instant,
}

/// Begins a line, if tracing is enabled; costs one comparison otherwise.
pub(crate) fn start(request: &Request<'_>) -> Option<Trace> {
    tracing::enabled!(target: TRACE_TARGET, tracing::Level::TRACE).then(|| Trace {
        opcode: request.opcode,
        line: describe(request),
        started: Instant::now(),
    })
}

impl Trace {
    /// Ends the line with the result.
    pub(crate) fn finish(self, outcome: Outcome, reply: &Reply<'_>) {
        let microseconds = self.started.elapsed().as_micros();
        let Trace { opcode, line, .. } = self;
        let result = describe_result(opcode, outcome, reply);
        tracing::trace!(target: TRACE_TARGET, "{line} = {result} ({microseconds} us)");
    }
}

/// Returns the operation with its arguments.
pub(crate) fn describe(request: &Request<'_>) -> String {
    let mut line = format!("{} node {}", request.opcode.name(), request.node);
    describe_arguments(&request.operation, &mut line);
    let _ = write!(line, " by uid {} gid {} pid {}", request.uid, request.gid, request.pid);
    if let Some(group) = request.supplementary_group {
        let _ = write!(line, " also in group {group}");
    }
    if !request.security_contexts.is_empty() {
        let _ = write!(line, " with {} bytes of security contexts", request.security_contexts.len());
    }
    line
}

fn text(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

fn describe_arguments(operation: &Operation<'_>, line: &mut String) {
    use Operation as O;
    // Writing to a string cannot fail.
    let _ = match operation {
        O::Lookup { name } | O::Unlink { name } | O::RemoveDirectory { name } | O::RemoveXattr { name } => {
            write!(line, " {}", text(name))
        }
        O::Forget { lookups } => write!(line, " {lookups} lookups"),
        O::BatchForget { forgets } => write!(line, " {} nodes", forgets.iter().count()),
        O::GetAttributes { handle: Some(handle) } => write!(line, " file {handle}"),
        O::SetAttributes(set) => describe_set_attributes(set, line),
        O::SymbolicLink { name, target } => write!(line, " {} -> {}", text(name), text(target)),
        O::MakeNode { arguments, name } => {
            write!(line, " {} mode {:o} device {:#x}", text(name), arguments.mode, arguments.device)
        }
        O::MakeDirectory { arguments, name } => write!(line, " {} mode {:o}", text(name), arguments.mode),
        O::Rename { name, new_parent, new_name, flags } => {
            write!(line, " {} to node {new_parent} {} flags {flags:#x}", text(name), text(new_name))
        }
        O::Link { source, name } => write!(line, " {} to node {source}", text(name)),
        O::Open(open) | O::OpenDirectory(open) => write!(line, " flags {:#o}", open.flags),
        O::Create { arguments, name } | O::TemporaryFile { arguments, name } => {
            write!(line, " {} mode {:o} flags {:#o}", text(name), arguments.mode, arguments.flags)
        }
        O::Read(read) | O::ReadDirectory { arguments: read, .. } => {
            write!(line, " file {} offset {} size {}", read.handle, read.offset, read.size)
        }
        O::Write { arguments, .. } => {
            write!(line, " file {} offset {} size {}", arguments.handle, arguments.offset, arguments.size)
        }
        O::Release(release) | O::ReleaseDirectory(release) => write!(line, " file {}", release.handle),
        O::Flush(flush) => write!(line, " file {}", flush.handle),
        O::Fsync(fsync) | O::FsyncDirectory(fsync) => {
            write!(line, " file {}{}", fsync.handle, if fsync.flags & 1 != 0 { " data only" } else { "" })
        }
        O::SetXattr { name, value, flags, .. } => {
            write!(line, " {} {} bytes flags {flags}", text(name), value.len())
        }
        O::GetXattr { name, size } => write!(line, " {} size {size}", text(name)),
        O::ListXattr { size } => write!(line, " size {size}"),
        O::GetLock(lock) | O::SetLock { arguments: lock, .. } => {
            let wire::FileLock { start, end, kind, .. } = lock.lock;
            write!(line, " file {} owner {:x} {start}..={end} kind {kind}", lock.handle, lock.owner)
        }
        O::Access { mask } => write!(line, " mask {mask}"),
        O::Interrupt { unique } => write!(line, " request {unique}"),
        O::Ioctl { arguments, .. } => write!(line, " file {} command {:#x}", arguments.handle, arguments.command),
        O::Poll(poll) => write!(line, " file {} events {:#x}", poll.handle, poll.events),
        O::Fallocate(allocate) => write!(
            line,
            " file {} offset {} length {} mode {:#x}",
            allocate.handle, allocate.offset, allocate.length, allocate.mode
        ),
        O::Seek(seek) => write!(line, " file {} offset {} whence {}", seek.handle, seek.offset, seek.whence),
        O::CopyFileRange { arguments: copy, .. } => write!(
            line,
            " file {} offset {} to node {} file {} offset {} length {}",
            copy.handle_in, copy.offset_in, copy.node_out, copy.handle_out, copy.offset_out, copy.length
        ),
        O::GetAttributes { handle: None }
        | O::Statx(_)
        | O::ReadLink
        | O::StatFs
        | O::SyncFs
        | O::Init(_)
        | O::Destroy
        | O::BlockMap
        | O::NotifyReply
        | O::Unsupported => Ok(()),
    };
}

fn describe_set_attributes(set: &wire::SetAttributesIn, line: &mut String) -> std::fmt::Result {
    use wire::set_attributes as valid;
    let has = |bit: u32| set.valid & bit != 0;
    if has(valid::MODE) {
        write!(line, " mode {:o}", set.mode & 0o7777)?;
    }
    if has(valid::UID) {
        write!(line, " uid {}", set.uid)?;
    }
    if has(valid::GID) {
        write!(line, " gid {}", set.gid)?;
    }
    if has(valid::SIZE) {
        write!(line, " size {}", set.size)?;
    }
    if has(valid::ATIME) {
        write!(line, " atime {}.{:09}", set.atime as i64, set.atime_nanoseconds)?;
    }
    if has(valid::MTIME) {
        write!(line, " mtime {}.{:09}", set.mtime as i64, set.mtime_nanoseconds)?;
    }
    if has(valid::HANDLE) {
        write!(line, " file {}", set.handle)?;
    }
    if has(valid::KILL_SUIDGID) {
        write!(line, " kill set-id bits")?;
    }
    Ok(())
}

fn describe_result(opcode: Opcode, outcome: Outcome, reply: &Reply<'_>) -> String {
    match outcome {
        Outcome::NoReply => "no reply".into(),
        Outcome::Deferred => "waits".into(),
        Outcome::Failed(errno) => format!("{:?}", Errno::new(errno)),
        Outcome::Done => describe_success(opcode, reply.payload()),
    }
}

fn describe_success(opcode: Opcode, payload: &[u8]) -> String {
    fn first<T: FromBytes>(payload: &[u8]) -> Option<T> {
        T::read_from_prefix(payload).ok().map(|(value, _)| value)
    }
    let described = match opcode {
        Opcode::Lookup | Opcode::SymbolicLink | Opcode::MakeNode | Opcode::MakeDirectory | Opcode::Link => {
            first::<wire::EntryOut>(payload).map(|entry| describe_entry(&entry))
        }
        Opcode::Create | Opcode::TemporaryFile => first::<wire::EntryOut>(payload).map(|entry| {
            let rest = payload.get(size_of::<wire::EntryOut>()..).unwrap_or_default();
            let open = first::<wire::OpenOut>(rest).unwrap_or_default();
            format!("{}, {}", describe_entry(&entry), describe_open(&open))
        }),
        Opcode::Open | Opcode::OpenDirectory => first::<wire::OpenOut>(payload).map(|open| describe_open(&open)),
        Opcode::GetAttributes | Opcode::SetAttributes => first::<wire::AttributesOut>(payload)
            .map(|out| format!("mode {:o} size {}", out.attributes.mode, out.attributes.size)),
        Opcode::Write => first::<wire::WriteOut>(payload).map(|out| format!("{} bytes", out.size)),
        Opcode::ReadLink => Some(text(payload)),
        Opcode::Seek => first::<wire::SeekOut>(payload).map(|out| out.offset.to_string()),
        _ => None,
    };
    described.unwrap_or_else(|| if payload.is_empty() { "0".into() } else { format!("{} bytes", payload.len()) })
}

fn describe_entry(entry: &wire::EntryOut) -> String {
    let wire::EntryOut { node, attributes, .. } = entry;
    match node {
        0 => "nothing by that name".into(),
        _ => format!("node {node} mode {:o} size {}", attributes.mode, attributes.size),
    }
}

fn describe_open(open: &wire::OpenOut) -> String {
    let how = if open.open_flags & wire::open_reply::PASSTHROUGH != 0 { " passthrough" } else { "" };
    format!("file {}{how}", open.handle)
}

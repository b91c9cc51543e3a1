//! Open files: open, create, close, sync, lock; and the choice of passthrough.

use super::{Dispatcher, OperationResult, SET_ID, caller, name};
use crate::fuse::backing;
use crate::fuse::locks::LockOutcome;
use crate::fuse::mounting::options::Decisions;
use crate::fuse::nodes::Node;
use crate::fuse::open_files::{OpenConstraints, OpenReply, OpenedFile, Opener};
use crate::fuse::protocol::convert::{lock_from_wire, lock_to_wire};
use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::request::{Operation, Request};
use crate::fuse::protocol::wire;
use rustix::io::Errno as SystemError;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vnode::{
    AccessMode, Attributes, Caller, Creation, Errno, Lock, LockFamily, LockKind, LockOwner, OpenFileRef, OpenFlags,
    TimesTell, open_for_rewriting,
};

/// Set by the kernel for a file opened to be executed; not a flag of open(2).
const OPEN_FOR_EXEC: u32 = 0x20;
/// Flags for the kernel's own I/O on its own descriptor: our buffers are not aligned for O_DIRECT, and nobody waits for our
/// signals.
const FLAGS_NOT_FORWARDED: u32 = (libc::O_DIRECT | libc::O_ASYNC) as u32 | OPEN_FOR_EXEC;

impl Dispatcher {
    pub(crate) fn file_operation(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> OperationResult {
        match &request.operation {
            Operation::Open(arguments) => self.open(request, arguments, reply),
            Operation::Create { arguments, name } => self.create(request, arguments, Some(name), reply),
            Operation::TemporaryFile { arguments, .. } => self.create(request, arguments, None, reply),
            Operation::Release(arguments) => self.release(request, arguments),
            Operation::Flush(arguments) => {
                let opened = self.open_file(arguments.handle)?;
                let owner = LockOwner::Number(arguments.lock_owner);
                let flushed = opened.file.flush(&caller(request, 0), &owner);
                if self.decisions().forward_locks {
                    self.locks.owner_closed(opened.node, &owner);
                }
                flushed
            }
            Operation::Fsync(arguments) => {
                let data_only = arguments.flags & wire::FSYNC_DATA_ONLY != 0;
                self.open_file(arguments.handle)?.file.fsync(&caller(request, 0), data_only)
            }
            Operation::GetLock(arguments) => {
                let opened = self.open_file(arguments.handle)?;
                let (owner, lock) = (LockOwner::Number(arguments.owner), lock_from_wire(arguments)?);
                let found = self.locks.test(&caller(request, 0), &opened, &owner, &lock)?;
                reply.put(&wire::LockOut { lock: lock_to_wire(found.as_ref()) });
                Ok(())
            }
            _ => Err(Errno::ENOSYS),
        }
    }

    fn open(&self, request: &Request<'_>, arguments: &wire::OpenIn, reply: &mut Reply<'_>) -> OperationResult {
        let node = self.node(request.node)?;
        let caller = with_kill(self.admitted_caller(request, 0), arguments.open_flags);
        let flags = OpenFlags::from_bits(arguments.flags & !FLAGS_NOT_FORWARDED);
        let (file, appends) = if arguments.flags & OPEN_FOR_EXEC != 0 {
            // A caller that may execute need not be allowed to read; the kernel reads for the program loader. The purpose is
            // passed down: below, nothing may be executable at all.
            node.vnode.access(&caller, self.access_to_execute())?;
            let to_execute = flags.with(OpenFlags::from_bits(OPEN_FOR_EXEC));
            (node.vnode.open(&Caller::server_for(&caller), to_execute)?, false)
        } else {
            self.open_vnode(&node, &caller, flags)?
        };
        if flags.truncates() {
            self.durability.file_changed(&caller, &*file)?;
        }
        let open_reply = self.register(&node, file, flags, appends, None, Opener::of(&caller));
        put_open_reply(reply, open_reply);
        Ok(())
    }

    /// Returns the access that a caller needs in order to execute a program. Where the kernel checks nothing, it treats all
    /// programs as readable by everybody, and lets others look into the memory of the processes that execute them.
    fn access_to_execute(&self) -> AccessMode {
        match self.decisions().guards_others() {
            true => AccessMode::from_bits(AccessMode::READ.bits() | AccessMode::EXECUTE.bits()),
            false => AccessMode::EXECUTE,
        }
    }

    /// Opens for a caller; also returns whether writes to the file are appended. A kernel with the writeback cache determines
    /// the offsets itself, and reads the data around them.
    fn open_vnode(&self, node: &Node, caller: &Caller, flags: OpenFlags) -> vnode::Result<(OpenFileRef, bool)> {
        if self.writes_back() && flags.writes() {
            match open_for_rewriting(&*node.vnode, caller, flags) {
                // Some files can be written only at their end.
                Err(Errno::EPERM) if flags.appends() => {}
                file => return Ok((file?, false)),
            }
        }
        Ok((node.vnode.open(caller, flags)?, flags.appends()))
    }

    /// Handles CREATE, with a name, and TMPFILE, without one.
    fn create(
        &self,
        request: &Request<'_>,
        arguments: &wire::CreateIn,
        bytes: Option<&[u8]>,
        reply: &mut Reply<'_>,
    ) -> OperationResult {
        let parent = self.node(request.node)?;
        let generation = self.cached_names.generation();
        let caller = with_kill(self.admitted_caller(request, arguments.umask), arguments.open_flags);
        let flags = OpenFlags::from_bits(arguments.flags & !FLAGS_NOT_FORWARDED);
        let create_flags = if self.writes_back() { flags.for_rewriting() } else { flags };
        let how = Creation { mode: arguments.mode & 0o7777, flags: create_flags };
        let created = match bytes {
            Some(bytes) => parent.vnode.create(&caller, name(bytes)?, &how)?,
            None => parent.vnode.tmpfile(&caller, &how)?,
        };
        if let Some(bytes) = bytes {
            self.sync_name_change(&parent, bytes)?;
        }
        let attributes = created.entry.attributes;
        let entry = match bytes {
            Some(bytes) => self.entry_out(generation, &parent, bytes, created.entry),
            None => self.unnamed_entry_out(created.entry),
        };
        let node = self.node(entry.node)?;
        self.new_files.record_creation(&node, &attributes);
        let open_reply =
            self.register(&node, created.file, flags, create_flags.appends(), Some(&attributes), Opener::of(&caller));
        reply.put(&entry);
        put_open_reply(reply, open_reply);
        Ok(())
    }

    /// Assigns a handle to an open file, and decides who does its I/O.
    fn register(
        &self,
        node: &Node,
        file: OpenFileRef,
        flags: OpenFlags,
        appends: bool,
        attributes: Option<&Attributes>,
        opener: Opener,
    ) -> OpenReply {
        let passthrough = self.decisions().passthrough.is_ok() && !self.passthrough_refused.load(Ordering::Relaxed);
        // After a passthrough write the kernel would not notice that the bits are gone; and if the superuser opens the file
        // for somebody else to write, they would stay.
        let writes_clear_set_id = passthrough && flags.writes() && self.has_set_id(&file, attributes);
        // With the writeback cache, the kernel may place appended data where something else has been appended meanwhile. With
        // passthrough, it keeps appending after the flag has been cleared by fcntl(2).
        let appends_by_itself = appends && (self.writes_back() || passthrough);
        // The kernel sends an fsync after a write through its cache, but none after a write to the backing file.
        let synchronized = passthrough && flags.writes() && self.durability.covers_data();
        let direct = self.decisions().direct_io() || writes_clear_set_id || appends_by_itself || synchronized;
        let opens_differ = self.decisions().opens_differ;
        let constraints =
            OpenConstraints { passthrough, direct, opens_differ, writes: flags.writes(), appends, opener };
        let register = |file: &OpenFileRef| self.register_backing(file, opener.is_privileged);
        let keeps = |file: &OpenFileRef| self.may_keep_page_cache(node, file, attributes, flags.reads());
        let close_reports_nothing = !self.decisions().needs_flush() || !file.closing_tells();
        let mut open_reply = self.open_files.open(node.id, file, constraints, register, keeps);
        let may_bypass_server = open_reply.flags & wire::open_reply::PASSTHROUGH != 0;
        if may_bypass_server && flags.reads() && flags.writes() {
            // Only such a file can be mapped for writing.
            node.record_mapping();
        }
        if !self.decisions().forward_locks && close_reports_nothing {
            // There is nothing for the close to report, and locks are the kernel's: FLUSH is not needed.
            open_reply.flags |= wire::open_reply::NOFLUSH;
        }
        open_reply
    }

    /// Returns the file to which the kernel's pages are written back: an open file that appends would put them at its end.
    pub(crate) fn file_for_writeback<'a>(&self, opened: &'a OpenedFile) -> vnode::Result<&'a OpenFileRef> {
        if !opened.appends {
            return Ok(&opened.file);
        }
        if let Some(file) = opened.writeback_file.get() {
            return Ok(file);
        }
        let again = self.node(opened.node)?.vnode.open(&self.server, OpenFlags::READ_WRITE)?;
        Ok(opened.writeback_file.get_or_init(|| again))
    }

    /// Returns whether the kernel may keep what it has cached of a file that is being opened.
    fn may_keep_page_cache(
        &self,
        node: &Node,
        file: &OpenFileRef,
        attributes: Option<&Attributes>,
        reads: bool,
    ) -> bool {
        let Decisions { needs_fresh_attributes, exclusive, times_tell_changes, reading_changes_times, .. } =
            **self.decisions();
        let times_reveal = match times_tell_changes {
            TimesTell::OfAll => true,
            TimesTell::OfSome => file.times_tell_changes(),
            TimesTell::OfNone => false,
        };
        if needs_fresh_attributes || !(exclusive || times_reveal) {
            return false;
        }
        self.attributes_of(file, attributes).is_ok_and(|attributes| {
            // The base updates the access time when it is read from, and not otherwise.
            let is_unread = reads && reading_changes_times && attributes.atime <= attributes.mtime;
            let is_unchanged = exclusive || self.page_cache_retention.record_open(node.id, &attributes);
            is_unchanged && !is_unread
        })
    }

    fn has_set_id(&self, file: &OpenFileRef, attributes: Option<&Attributes>) -> bool {
        self.attributes_of(file, attributes).map_or(true, |attributes| attributes.mode & SET_ID != 0)
    }

    /// Returns the known attributes, or else queries them.
    fn attributes_of(&self, file: &OpenFileRef, known: Option<&Attributes>) -> vnode::Result<Attributes> {
        known.copied().map_or_else(|| file.getattr(&self.server), Ok)
    }

    fn register_backing(&self, file: &OpenFileRef, privileged: bool) -> Option<i32> {
        match backing::register(&self.device, file.backing()?, privileged) {
            Ok(id) => Some(id),
            Err(error) => {
                // These would be the same for every file; others may be specific to this file, such as ELOOP for one that is
                // on a stacked file system mounted inside the tree.
                let lasting = matches!(error, SystemError::PERM | SystemError::NOTTY);
                if lasting {
                    self.passthrough_refused.store(true, Ordering::Relaxed);
                }
                tracing::debug!(%error, lasting, "no passthrough");
                None
            }
        }
    }

    fn release(&self, request: &Request<'_>, arguments: &wire::ReleaseIn) -> OperationResult {
        let close_backing = |id: i32| {
            if let Err(error) = backing::unregister(&self.device, id) {
                tracing::warn!(%error, "a backing file stays registered");
            }
        };
        let opened = self.open_files.release(arguments.handle, close_backing).ok_or(Errno::EBADF)?;
        let flock = arguments.release_flags & wire::RELEASE_FLOCK_UNLOCK != 0;
        if flock || opened.flocked.load(Ordering::Relaxed) {
            let whole = Lock { family: LockFamily::Flock, kind: LockKind::Unlock, start: 0, end: u64::MAX, pid: 0 };
            // The lock is released with the file in any case; this is for waiters.
            let owner = flock_owner(arguments.handle);
            let _ = self.locks.set(caller(request, 0), Arc::clone(&opened), owner, whole, None);
        }
        self.pollers.released(arguments.handle);
        if opened.may_bypass_server() && !self.decisions().attribute_timeout.is_zero() {
            // A write through a mapping changes the times below without the kernel noticing it here.
            self.notifications.invalidate_attributes(opened.node);
        }
        self.locks.released(opened);
        Ok(())
    }

    /// Takes or releases a lock, or queues the request to wait for it.
    pub(crate) fn set_lock(
        &self,
        request: &Request<'_>,
        arguments: &wire::LockIn,
        wait: bool,
    ) -> vnode::Result<LockOutcome> {
        let opened = self.open_file(arguments.handle)?;
        let lock = lock_from_wire(arguments)?;
        let owner = match lock.family {
            LockFamily::Posix => LockOwner::Number(arguments.owner),
            LockFamily::Flock => flock_owner(arguments.handle),
        };
        if lock.family == LockFamily::Flock && lock.kind != LockKind::Unlock {
            opened.flocked.store(true, Ordering::Relaxed);
        }
        self.locks.set(caller(request, 0), opened, owner, lock, wait.then_some(request.unique))
    }
}

/// Returns the owner of a flock lock: the open file. The kernel reuses its own owner id for a later open file, while the
/// release of the earlier one may still be in flight.
fn flock_owner(handle: u64) -> LockOwner {
    LockOwner::Number(handle)
}

/// Returns the caller of OPEN or CREATE, which kills privileges where it truncates if the kernel requests that.
fn with_kill(caller: Caller, open_flags: u32) -> Caller {
    if open_flags & wire::OPEN_KILL_SUIDGID != 0 { caller.killing_privileges() } else { caller }
}

fn put_open_reply(reply: &mut Reply<'_>, open_reply: OpenReply) {
    let OpenReply { handle, flags, backing_id } = open_reply;
    reply.put(&wire::OpenOut { handle, open_flags: flags, backing_id });
}

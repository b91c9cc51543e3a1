//! Open directories: reading their entries, with attributes where the kernel may cache them.

use super::{Dispatcher, OperationResult, caller};
use crate::fuse::caching::names::Generation;
use crate::fuse::mounting::options::Decisions;
use crate::fuse::open_files::OpenedDirectory;
use crate::fuse::protocol::reply::{EntryPacker, Reply};
use crate::fuse::protocol::request::{Operation, Request};
use crate::fuse::protocol::wire::{self, open_reply};
use std::ops::ControlFlow;
use vnode::{Caller, Cookie, Errno, FileKind, InodeNumber, Name, Result, VnodeRef};

impl Dispatcher {
    pub(crate) fn directory_operation(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> OperationResult {
        let caller = caller(request, 0);
        match &request.operation {
            Operation::OpenDirectory(_) => {
                let node = self.node(request.node)?;
                let directory = node.vnode.open_directory(&self.admitted_caller(request, 0))?;
                let handle = self.open_files.open_directory(node, directory);
                let keep_flags = open_reply::CACHE_DIR | open_reply::KEEP_CACHE;
                let Decisions { exclusive, needs_every_lookup, .. } = **self.decisions();
                let may_keep_cache = exclusive && !needs_every_lookup;
                let open_flags = if may_keep_cache { keep_flags } else { 0 };
                reply.put(&wire::OpenOut { handle, open_flags, backing_id: 0 });
                Ok(())
            }
            Operation::ReadDirectory { arguments, plus } => {
                let opened = self.open_directory(arguments.handle)?;
                let generation = self.cached_names.generation();
                // Attributes are useful only with a node, and a node only if its name may be cached.
                let wanted = *plus && (arguments.offset > 0 || self.will_be_looked_up(caller.pid, opened.node.id));
                let with_nodes = wanted && self.name_cache_policy.may_cache_names(&opened.node);
                let mut packer = EntryPacker::new(reply, arguments.size);
                let position = Cookie::new(arguments.offset);
                if !self.push_dots(&caller, &opened, position, *plus, &mut packer) {
                    return Ok(());
                }
                let cookie = if position < Cookie::FIRST { Cookie::START } else { position };
                if with_nodes {
                    self.read_with_nodes(generation, &caller, &opened, cookie, &mut packer)
                } else {
                    let files = read_names(&caller, &opened, cookie, *plus, &mut packer)?;
                    self.walkers.record_files(caller.pid, opened.node.id, files);
                    Ok(())
                }
            }
            Operation::ReleaseDirectory(arguments) => {
                self.open_files.release_directory(arguments.handle).map(drop).ok_or(Errno::EBADF)
            }
            Operation::FsyncDirectory(arguments) => {
                let data_only = arguments.flags & wire::FSYNC_DATA_ONLY != 0;
                self.open_directory(arguments.handle)?.directory.fsync(&caller, data_only)
            }
            _ => Err(Errno::ENOSYS),
        }
    }

    /// Returns whether what is in a directory will probably be looked up by a process that begins to list it.
    fn will_be_looked_up(&self, pid: u32, directory: u64) -> bool {
        let was_looked_up = self.readdirplus.take_lookup(directory);
        self.walkers.begin_listing(pid, directory) || was_looked_up
    }

    /// Appends `.` and `..`, if the reader has not had them yet; returns `false` if there was no room.
    fn push_dots(
        &self,
        caller: &Caller,
        opened: &OpenedDirectory,
        position: Cookie,
        plus: bool,
        packer: &mut EntryPacker<'_, '_>,
    ) -> bool {
        if position >= Cookie::DOT_DOT {
            return true;
        }
        // As the reader sees them: what a directory is may depend on the caller.
        let number =
            |vnode: &VnodeRef| vnode.getattr(caller).map_or(InodeNumber::new(opened.node.id), |found| found.ino);
        let query = || {
            let own = number(&opened.node.vnode);
            [own, opened.node.vnode.parent(caller).map_or(own, |parent| number(&parent))]
        };
        let dot = |cookie: Cookie, inode: InodeNumber| wire::DirectoryEntry {
            inode: inode.get(),
            cookie: cookie.get(),
            name_length: 0,
            kind: u32::from(FileKind::Directory.directory_entry_type()),
        };
        let [own, parent] = opened.directory.dots().unwrap_or_else(query);
        (position >= Cookie::DOT || push(packer, plus, dot(Cookie::DOT, own), b"."))
            && push(packer, plus, dot(Cookie::DOT_DOT, parent), b"..")
    }

    /// Reads entries with a lookup each. The lookups follow the read: a base may hold a lock while it returns entries.
    fn read_with_nodes(
        &self,
        generation: Generation,
        caller: &Caller,
        opened: &OpenedDirectory,
        cookie: Cookie,
        packer: &mut EntryPacker<'_, '_>,
    ) -> OperationResult {
        let mut entries = EntryBatch::default();
        let mut room = packer.bytes_left();
        opened.directory.read(caller, cookie, &mut |entry| {
            let length = EntryPacker::length(entry.name.as_bytes().len(), true);
            if length > room {
                return ControlFlow::Break(());
            }
            room -= length;
            entries.push(wire_entry(&entry), entry.name);
            ControlFlow::Continue(())
        })?;
        let mut denied = false;
        for (entry, name) in entries.iter() {
            let found = match Name::new(name) {
                Ok(name) if !denied => opened.node.vnode.lookup(caller, name),
                _ => Err(Errno::ENOENT),
            };
            // A caller without search permission gets names only, and the stack is not queried again for every one of them.
            denied |= matches!(found, Err(Errno::EACCES));
            let looked_up = match found {
                // Callers that use a name that the kernel must not cache look it up.
                Ok(found) if self.is_guarded(found.vnode.kind()) => wire::EntryOut::default(),
                // Callers that need these attributes request them, and nobody else waits for the result.
                Ok(found) if found.attributes.is_provisional => wire::EntryOut::default(),
                Ok(found) => self.entry_out(generation, &opened.node, name, found),
                Err(_) => wire::EntryOut::default(),
            };
            if !packer.push_plus(&looked_up, entry, name) {
                // The kernel will not see the entry: undo the lookup.
                self.forget(looked_up.node, 1);
                break;
            }
        }
        Ok(())
    }
}

/// Reads entries without nodes, in the longer format if that was requested; returns how many are not known to be directories.
fn read_names(
    caller: &Caller,
    opened: &OpenedDirectory,
    cookie: Cookie,
    plus: bool,
    packer: &mut EntryPacker<'_, '_>,
) -> Result<u32> {
    let mut files = 0;
    opened.directory.read(caller, cookie, &mut |entry| {
        if push(packer, plus, wire_entry(&entry), entry.name.as_bytes()) {
            files += u32::from(entry.kind != Some(FileKind::Directory));
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(files)
}

fn push(packer: &mut EntryPacker<'_, '_>, plus: bool, entry: wire::DirectoryEntry, name: &[u8]) -> bool {
    if plus { packer.push_plus(&wire::EntryOut::default(), entry, name) } else { packer.push(entry, name) }
}

fn wire_entry(entry: &vnode::DirectoryEntry<'_>) -> wire::DirectoryEntry {
    wire::DirectoryEntry {
        inode: entry.ino.get(),
        cookie: entry.cookie.get(),
        name_length: 0,
        kind: entry.kind.map_or(u32::from(libc::DT_UNKNOWN), |kind| u32::from(kind.directory_entry_type())),
    }
}

/// A batch of entries, with their names stored contiguously.
#[derive(Default)]
struct EntryBatch {
    entries: Vec<wire::DirectoryEntry>,
    names: Vec<u8>,
}

impl EntryBatch {
    fn push(&mut self, entry: wire::DirectoryEntry, name: Name<'_>) {
        let name = name.as_bytes();
        self.entries.push(wire::DirectoryEntry { name_length: name.len() as u32, ..entry });
        self.names.extend_from_slice(name);
    }

    fn iter(&self) -> impl Iterator<Item = (wire::DirectoryEntry, &[u8])> {
        let mut rest = self.names.as_slice();
        self.entries.iter().map(move |entry| {
            let (name, after) = rest.split_at(entry.name_length as usize);
            rest = after;
            (*entry, name)
        })
    }
}

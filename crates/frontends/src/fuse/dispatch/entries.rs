//! Names: lookup, creation, removal, rename, link, readlink.

use super::guard::{FOLLOW_BY_OWNER_ONLY, NameGuard};
use super::{Dispatcher, OperationResult, name};
use crate::fuse::caching::names::Generation;
use crate::fuse::nodes::Node;
use crate::fuse::protocol::convert::{attributes_to_wire, device_from_wire, node_kind, rename_mode};
use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::request::{Operation, Request};
use crate::fuse::protocol::wire;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vnode::{Attributes, Caller, Entry, Errno, FileKind, RenameMode, Result};

impl Dispatcher {
    pub(crate) fn entry_operation(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> OperationResult {
        let node = self.node(request.node)?;
        let caller_with = |umask: u32| self.admitted_caller(request, umask);
        let vnode = &node.vnode;
        let generation = self.cached_names.generation();
        let (bytes, created) = match &request.operation {
            Operation::Lookup { name } => return self.look_up(&caller_with(0), &node, name, reply),
            Operation::SymbolicLink { name: bytes, target } => {
                (bytes, vnode.symlink(&caller_with(0), name(bytes)?, target)?)
            }
            Operation::MakeNode { arguments, name: bytes } => {
                let device = device_from_wire(arguments.device);
                let kind = node_kind(arguments.mode)?;
                let mode = arguments.mode & 0o7777;
                (bytes, vnode.mknod(&caller_with(arguments.umask), name(bytes)?, kind, mode, device)?)
            }
            Operation::MakeDirectory { arguments, name: bytes } => {
                (bytes, vnode.mkdir(&caller_with(arguments.umask), name(bytes)?, arguments.mode & 0o7777)?)
            }
            Operation::Link { source, name: bytes } => {
                let source = self.vnode(*source)?;
                (bytes, vnode.link(&caller_with(0), &source, name(bytes)?)?)
            }
            Operation::Unlink { name: bytes } => {
                vnode.unlink(&caller_with(0), name(bytes)?)?;
                self.cached_names.remove(node.id, bytes);
                return self.sync_name_change(&node, bytes);
            }
            Operation::RemoveDirectory { name: bytes } => {
                vnode.rmdir(&caller_with(0), name(bytes)?)?;
                self.cached_names.remove(node.id, bytes);
                return self.sync_name_change(&node, bytes);
            }
            Operation::Rename { name: from, new_parent, new_name, flags } => {
                let mode = rename_mode(*flags)?;
                let to = self.node(*new_parent)?;
                vnode.rename(&caller_with(0), name(from)?, &to.vnode, name(new_name)?, mode)?;
                self.record_rename(generation, (&node, from), (&to, new_name), mode);
                return self.sync_name_change(&to, new_name).and(self.sync_name_change(&node, from));
            }
            Operation::ReadLink => {
                self.check_symlink_access(&caller_with(0), &node)?;
                let target = vnode.readlink(&caller_with(0))?;
                return if reply.put_bytes(&target) { Ok(()) } else { Err(Errno::ENAMETOOLONG) };
            }
            _ => return Err(Errno::ENOSYS),
        };
        self.sync_name_change(&node, bytes)?;
        reply.put(&self.entry_out(generation, &node, bytes, created));
        Ok(())
    }

    /// Syncs the change of a name to stable storage, if the mount requires that. If this fails, the kernel looks the name up
    /// again: it has changed all the same.
    pub(crate) fn sync_name_change(&self, directory: &Node, name: &[u8]) -> OperationResult {
        self.durability.directory_changed(&*directory.vnode, &*self.file_system).inspect_err(|_| {
            self.expiry.name(directory.id, name);
        })
    }

    /// Handles a renamed name. The kernel moves its dentry along.
    fn record_rename(
        &self,
        generation: Generation,
        from: (&Arc<Node>, &[u8]),
        to: (&Arc<Node>, &[u8]),
        mode: RenameMode,
    ) {
        let is_exchange = mode == RenameMode::Exchange;
        self.guard_renamed(to.0, to.1);
        if is_exchange {
            self.guard_renamed(from.0, from.1);
        }
        self.cached_names.rename((from.0.id, from.1), (to.0.id, to.1), is_exchange);
        if self.cached_names.generation() != generation {
            // The kernel may have been given these names before they were moved.
            self.expiry.name(to.0.id, to.1);
            self.expiry.name(from.0.id, from.1);
        }
        self.expire_if_private(from.0, to.0);
        if is_exchange {
            self.expire_if_private(to.0, from.0);
        }
    }

    /// Expires names if a name that the kernel may have cached in a directory that everybody may search has moved to one that
    /// perhaps not everybody may search.
    fn expire_if_private(&self, from: &Arc<Node>, to: &Arc<Node>) {
        let is_elsewhere = !Arc::ptr_eq(from, to);
        if is_elsewhere && self.name_cache_policy.may_cache_names(from) && !self.name_cache_policy.may_cache_names(to) {
            self.expire_private_names(to);
        }
    }

    fn look_up(&self, caller: &Caller, parent: &Arc<Node>, bytes: &[u8], reply: &mut Reply<'_>) -> OperationResult {
        let generation = self.cached_names.generation();
        let entry = match bytes {
            // File handles of the mount (name_to_handle_at, NFS export) come back this way.
            b"." => self.unnamed_entry_out(self.entry_of(caller, parent.vnode.clone())?),
            b".." => {
                let vnode = parent.vnode.parent(caller)?;
                self.unnamed_entry_out(self.entry_of(caller, vnode)?)
            }
            _ => match parent.vnode.lookup(caller, name(bytes)?) {
                Ok(entry) => {
                    // Names that do not exist are looked up before something is created; that says nothing about those that
                    // do.
                    self.readdirplus.record_lookup(parent.id);
                    self.walkers.record_lookup(caller.pid, parent.id, entry.vnode.kind() == FileKind::Directory);
                    self.check_lookup_access(caller, &entry)?;
                    self.entry_out(generation, parent, bytes, entry)
                }
                Err(Errno::ENOENT) if self.may_cache_missing(generation, parent) => {
                    entry_with_timeouts(self.decisions().name_timeout, Duration::ZERO)
                }
                Err(errno) => return Err(self.inner_mounts.lookup_error(errno, bytes, caller.pid)),
            },
        };
        reply.put(&entry);
        Ok(())
    }

    /// Returns whether the kernel may cache that a name in `parent` does not exist.
    fn may_cache_missing(&self, generation: Generation, parent: &Node) -> bool {
        self.decisions().negative_names
            && self.name_cache_policy.may_cache_names(parent)
            && self.cached_names.record_missing(generation, parent.id)
    }

    fn entry_of(&self, caller: &Caller, vnode: vnode::VnodeRef) -> Result<Entry> {
        let attributes = vnode.getattr(caller)?;
        Ok(Entry { vnode, attributes })
    }

    /// Returns the result for a name in `parent`: its node, on which the kernel holds one more lookup from now on.
    pub(crate) fn entry_out(&self, generation: Generation, parent: &Node, name: &[u8], entry: Entry) -> wire::EntryOut {
        let guard = self.name_guard(parent, &entry);
        let Entry { vnode, attributes } = entry;
        let node = self.nodes.look_up(vnode);
        if guard == NameGuard::FollowByOwnerOnly {
            node.state_bits.store(FOLLOW_BY_OWNER_ONLY, Ordering::Release);
        }
        let is_forgotten = |node| self.nodes.get(node).is_none();
        let is_cacheable = guard == NameGuard::None
            && !self.decisions().name_timeout.is_zero()
            && self.name_cache_policy.may_cache_names(parent)
            && self.cached_names.record(generation, parent.id, name, node.id, is_forgotten);
        let name_timeout = if is_cacheable { self.decisions().name_timeout } else { Duration::ZERO };
        self.node_entry_out(&node, &attributes, name_timeout)
    }

    /// Returns the result for an object that is not requested by name, as [`Dispatcher::entry_out`].
    pub(crate) fn unnamed_entry_out(&self, Entry { vnode, attributes }: Entry) -> wire::EntryOut {
        self.node_entry_out(&self.nodes.look_up(vnode), &attributes, Duration::ZERO)
    }

    fn node_entry_out(&self, node: &Node, attributes: &Attributes, name_timeout: Duration) -> wire::EntryOut {
        wire::EntryOut {
            node: node.id,
            generation: self.nodes.generation(),
            attributes: attributes_to_wire(attributes),
            ..entry_with_timeouts(name_timeout, self.attribute_timeout(node, attributes))
        }
    }

    pub(crate) fn forget(&self, node: u64, lookups: u64) {
        if self.nodes.forget(node, lookups) {
            self.cached_names.forget(node);
            self.trimmer.count_forgotten(self.nodes.len());
        }
    }
}

/// Returns a result without a node: a negative entry, valid for the name's timeout.
fn entry_with_timeouts(name_timeout: Duration, attribute_timeout: Duration) -> wire::EntryOut {
    wire::EntryOut {
        entry_valid_s: name_timeout.as_secs(),
        entry_valid_ns: name_timeout.subsec_nanos(),
        attributes_valid_s: attribute_timeout.as_secs(),
        attributes_valid_ns: attribute_timeout.subsec_nanos(),
        ..Default::default()
    }
}

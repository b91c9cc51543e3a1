//! Names: look up, make, remove, rename, link, read links.

use super::guard::{FOLLOW_NOT_FOR_OTHERS, Guard};
use super::{Answer, Dispatcher, caller, name};
use crate::fuse::convert::{attributes_to_wire, device_from_wire, node_kind, rename_mode};
use crate::fuse::nodes::Node;
use crate::fuse::notify::Notification;
use crate::fuse::reply::Reply;
use crate::fuse::request::{Operation, Request};
use crate::fuse::wire;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vnode::{Caller, Entry, Errno, RenameMode, Result};

impl Dispatcher {
    pub(super) fn entry_operation(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Answer {
        let node = self.node(request.node)?;
        let caller_with = |umask: u32| caller(request, umask);
        let vnode = &node.vnode;
        let (made, new_name) = match &request.operation {
            Operation::Lookup { name } => return self.look_up(&caller_with(0), &node, name, reply),
            Operation::SymbolicLink { name: bytes, target } => {
                (vnode.symlink(&caller_with(0), name(bytes)?, target)?, bytes)
            }
            Operation::MakeNode { arguments, name: bytes } => {
                let device = device_from_wire(arguments.device);
                let kind = node_kind(arguments.mode)?;
                let mode = arguments.mode & 0o7777;
                (vnode.mknod(&caller_with(arguments.umask), name(bytes)?, kind, mode, device)?, bytes)
            }
            Operation::MakeDirectory { arguments, name: bytes } => {
                (vnode.mkdir(&caller_with(arguments.umask), name(bytes)?, arguments.mode & 0o7777)?, bytes)
            }
            Operation::Link { source, name: bytes } => {
                let source = self.vnode(*source)?;
                (vnode.link(&caller_with(0), &source, name(bytes)?)?, bytes)
            }
            Operation::Unlink { name: bytes } => {
                vnode.unlink(&caller_with(0), name(bytes)?)?;
                return self.name_changed(&node, bytes);
            }
            Operation::RemoveDirectory { name: bytes } => {
                vnode.rmdir(&caller_with(0), name(bytes)?)?;
                return self.name_changed(&node, bytes);
            }
            Operation::Rename { name: from, new_parent, new_name, flags } => {
                let mode = rename_mode(*flags)?;
                let to = self.node(*new_parent)?;
                vnode.rename(&caller_with(0), name(from)?, &to.vnode, name(new_name)?, mode)?;
                self.moved(&node, &to);
                if mode == RenameMode::Exchange {
                    self.moved(&to, &node);
                }
                return self.name_changed(&to, new_name).and(self.name_changed(&node, from));
            }
            Operation::ReadLink => {
                self.admit_to_symlink(&caller_with(0), &node)?;
                let target = vnode.readlink(&caller_with(0))?;
                return if reply.put_bytes(&target) { Ok(()) } else { Err(Errno::ENAMETOOLONG) };
            }
            _ => return Err(Errno::ENOSYS),
        };
        self.name_changed(&node, new_name)?;
        reply.put(&self.entry_out(&node, made));
        Ok(())
    }

    /// Has the change of a name reach storage, if the mount is to. Where it does not, the kernel looks the name up again: it has
    /// changed all the same.
    pub(super) fn name_changed(&self, directory: &Node, name: &[u8]) -> Answer {
        self.durability.directory_changed(&*directory.vnode, &*self.file_system).inspect_err(|_| {
            self.notifications.send(Notification::InvalidateEntry { parent: directory.id, name: name.into() });
        })
    }

    /// A name that the kernel may have cached where everybody may search has come to a directory where not everybody may: the
    /// kernel takes what it knows of the name along.
    fn moved(&self, from: &Arc<Node>, to: &Arc<Node>) {
        let is_elsewhere = !Arc::ptr_eq(from, to);
        if is_elsewhere && self.admission.names_cacheable(from) && !self.admission.names_cacheable(to) {
            self.names_became_private(to);
        }
    }

    fn look_up(&self, caller: &Caller, parent: &Arc<Node>, bytes: &[u8], reply: &mut Reply<'_>) -> Answer {
        let found = match bytes {
            // File handles of the mount (name_to_handle_at, NFS export) come back this way.
            b"." => self.entry_of(caller, parent.vnode.clone()),
            b".." => parent.vnode.parent(caller).and_then(|vnode| self.entry_of(caller, vnode)),
            // What is not there is looked up before something is created; that tells nothing of those that are.
            _ => parent.vnode.lookup(caller, name(bytes)?).inspect(|_| self.interest.note(parent.id)),
        };
        match found {
            Ok(entry) => {
                let guard = self.guard(caller, parent, &entry)?;
                let cacheable = guard != Guard::AskAgain && self.admission.names_cacheable(parent);
                let found = self.cached_entry_out(cacheable, entry);
                if guard == Guard::FollowNotForOthers {
                    self.node(found.node)?.note.store(FOLLOW_NOT_FOR_OTHERS, Ordering::Release);
                }
                reply.put(&found);
                Ok(())
            }
            Err(Errno::ENOENT) if self.decisions.negative_names && self.admission.names_cacheable(parent) => {
                reply.put(&timed_entry(self.decisions.name_timeout, Duration::ZERO));
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }

    fn entry_of(&self, caller: &Caller, vnode: vnode::VnodeRef) -> Result<Entry> {
        let attributes = vnode.getattr(caller)?;
        Ok(Entry { vnode, attributes })
    }

    /// The result for a name in `parent`: its node, which the kernel holds once more from now on.
    pub(super) fn entry_out(&self, parent: &Node, entry: Entry) -> wire::EntryOut {
        let cacheable = self.admission.names_cacheable(parent);
        self.cached_entry_out(cacheable, entry)
    }

    /// As [`Dispatcher::entry_out`], where it is known whether names in the parent may be cached.
    pub(super) fn cached_entry_out(&self, cacheable: bool, entry: Entry) -> wire::EntryOut {
        let Entry { vnode, attributes } = entry;
        let node = self.nodes.look_up(vnode);
        let name_timeout = if cacheable { self.decisions.name_timeout } else { Duration::ZERO };
        wire::EntryOut {
            node: node.id,
            attributes: attributes_to_wire(&attributes),
            ..timed_entry(name_timeout, self.attribute_timeout(&node, &attributes))
        }
    }

    pub(super) fn forget(&self, node: u64, lookups: u64) {
        if self.nodes.forget(node, lookups) {
            self.trimmer.node_went(self.nodes.len());
        }
    }
}

/// Without a node: the name stands for nothing, for as long as the name's time says.
fn timed_entry(name_timeout: Duration, attribute_timeout: Duration) -> wire::EntryOut {
    wire::EntryOut {
        entry_valid_s: name_timeout.as_secs(),
        entry_valid_ns: name_timeout.subsec_nanos(),
        attributes_valid_s: attribute_timeout.as_secs(),
        attributes_valid_ns: attribute_timeout.subsec_nanos(),
        ..Default::default()
    }
}

//! Extended attributes, including access control lists.

use super::{Dispatcher, OperationResult};
use crate::fuse::caching::access::{ACCESS_ACL, DEFAULT_ACL};
use crate::fuse::nodes::Node;
use crate::fuse::protocol::convert::xattr_mode;
use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::request::{Operation, Request};
use crate::fuse::protocol::wire;
use vnode::{Caller, Errno, FileKind, Result, SetAttributes};

pub(crate) const FILE_CAPABILITIES: &[u8] = b"security.capability";

impl Dispatcher {
    pub(crate) fn xattr_operation(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> OperationResult {
        let node = self.node(request.node)?;
        let caller = self.admitted_caller(request, 0);
        match &request.operation {
            Operation::GetXattr { name, .. } if *name == FILE_CAPABILITIES && self.is_new_file(&node) => {
                Err(Errno::ENODATA)
            }
            Operation::GetXattr { name, size } => {
                let value = node.vnode.getxattr(&caller, name).map_err(|error| match error {
                    // The kernel reads lists to check permissions, and would return this error as the result of the check.
                    Errno::EOPNOTSUPP if self.decisions().posix_acl && [ACCESS_ACL, DEFAULT_ACL].contains(name) => {
                        Errno::ENODATA
                    }
                    error => error,
                })?;
                put_sized(reply, &value, *size)
            }
            Operation::ListXattr { size } => put_sized(reply, &node.vnode.listxattr(&caller)?, *size),
            Operation::SetXattr { name, value, flags, extra_flags } => {
                node.vnode.setxattr(&caller, name, value, xattr_mode(*flags)?)?;
                if extra_flags & wire::SETXATTR_ACL_KILL_SGID != 0 {
                    clear_set_group_id(&caller, &node)?;
                }
                if node.vnode.kind() == FileKind::Regular {
                    self.new_files.record_xattr(&node);
                }
                self.xattr_changed(&node, name);
                Ok(())
            }
            Operation::RemoveXattr { name } => {
                // The kernel removes a file's capabilities on behalf of writers, and has checked the permission of callers
                // that remove them by name.
                let is_capabilities = *name == FILE_CAPABILITIES;
                if is_capabilities && !self.may_remove_capabilities(&caller, &node)? {
                    return Ok(());
                }
                if is_capabilities {
                    let removed = node.vnode.removexattr(&Caller::server_for(&caller), name);
                    self.ignore_refusal_for_writer(&node, removed)?;
                } else {
                    node.vnode.removexattr(&caller, name)?;
                }
                self.xattr_changed(&node, name);
                Ok(())
            }
            _ => Err(Errno::ENOSYS),
        }
    }

    fn is_new_file(&self, node: &Node) -> bool {
        // A stack that wants to see attributes read sees this too.
        let unseen = !self.decisions().attribute_timeout.is_zero();
        unseen && node.vnode.kind() == FileKind::Regular && self.new_files.is_new_file(node)
    }

    fn xattr_changed(&self, node: &Node, name: &[u8]) {
        if name == ACCESS_ACL {
            // The mode changed with it.
            self.notifications.invalidate_attributes(node.id);
        }
        let decides_search = name == ACCESS_ACL && node.vnode.kind() == FileKind::Directory;
        if decides_search && self.name_cache_policy.refresh(node) {
            self.expire_private_names(node);
        }
    }
}

/// Puts a value for a caller with room for `size` bytes; for a size of zero, only its length.
fn put_sized(reply: &mut Reply<'_>, value: &[u8], size: u32) -> OperationResult {
    if size == 0 {
        let length = u32::try_from(value.len()).map_err(|_| Errno::E2BIG)?;
        reply.put(&wire::GetXattrOut { size: length, padding: 0 });
        Ok(())
    } else if value.len() > size as usize || !reply.put_bytes(value) {
        Err(Errno::ERANGE)
    } else {
        Ok(())
    }
}

/// Clears the set-group-ID bit if the caller set a list on a file whose group it is not in: no program may run as that group
/// as a result.
fn clear_set_group_id(caller: &Caller, node: &Node) -> Result<()> {
    const SET_GROUP_ID: u32 = 0o2000;
    let mode = node.vnode.getattr(caller)?.mode;
    if mode & SET_GROUP_ID == 0 {
        return Ok(());
    }
    let changes = SetAttributes { mode: Some(mode & !SET_GROUP_ID), ..SetAttributes::default() };
    node.vnode.setattr(caller, &changes).map(drop)
}

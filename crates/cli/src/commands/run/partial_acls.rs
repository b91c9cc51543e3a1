//! Access control lists in the fork of a user whose user namespace does not map the ids of others: a list that names others is
//! shown without them, and the permissions that it grants them stay unchanged.
//!
//! A file with such a list has a marker attribute, which its copies get like every attribute: replacing the file by a copy
//! would revoke the permissions of the others.

use procfs::{IdKind, has_machine_ids};
use vnode::layer::{Layer, LayerVnode};
use vnode::{Caller, Errno, FileKind, FileSystemRef, Name, Promises, Result, SetAttributes, VnodeRef, XattrMode};

/// Name of the marker attribute.
const MARKER_XATTR: &[u8] = b"user.plyfs-list-names-others";
const ACL_XATTRS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];
const ACCESS_ACL: &[u8] = ACL_XATTRS[0];

/// The layer that hides the entries of others.
pub(crate) struct PartialAcls {
    /// Permissions of others may be revoked.
    pub force: bool,
}

impl PartialAcls {
    /// Returns the list without the entries of ids that are not mapped here, if it has any.
    fn partial(node: &LayerVnode<Self>, name: &[u8]) -> Option<Vec<u8>> {
        node.forward_getxattr(&Caller::server(), name).ok().and_then(|list| without_others(&list))
    }

    fn is_marked(node: &LayerVnode<Self>) -> Result<bool> {
        let is_file = node.forward_getattr(&Caller::server())?.kind == FileKind::Regular;
        Ok(is_file && Self::partial(node, ACCESS_ACL).is_some())
    }
}

impl Layer for PartialAcls {
    type State = ();

    fn kind(&self) -> &'static str {
        "lists"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        if name == MARKER_XATTR {
            return if Self::is_marked(node)? { Ok(b"y".to_vec()) } else { Err(Errno::ENODATA) };
        }
        let value = node.forward_getxattr(caller, name)?;
        let partial = if ACL_XATTRS.contains(&name) { without_others(&value) } else { None };
        Ok(partial.unwrap_or(value))
    }

    fn listxattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        let mut names = node.forward_listxattr(caller)?;
        if names.split(|&byte| byte == 0).any(|name| name == ACCESS_ACL) && Self::is_marked(node)? {
            names.extend_from_slice(MARKER_XATTR);
            names.push(0);
        }
        Ok(names)
    }

    fn setxattr(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        if name == MARKER_XATTR {
            return Ok(());
        }
        let partial = if ACL_XATTRS.contains(&name) { Self::partial(node, name) } else { None };
        match partial {
            Some(present) if present == value => Ok(()),
            Some(present) if name == ACCESS_ACL && differ_by_mode(&present, value) => {
                let special = node.forward_getattr(caller)?.mode & 0o7000;
                let mode = Some(special | mode_of(value));
                node.forward_setattr(caller, &SetAttributes { mode, ..SetAttributes::default() }).map(drop)
            }
            Some(_) if !self.force => Err(Errno::EOVERFLOW),
            _ => node.forward_setxattr(caller, name, value, mode),
        }
    }

    fn removexattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<()> {
        match name {
            MARKER_XATTR => Ok(()),
            _ if ACL_XATTRS.contains(&name) && !self.force && Self::partial(node, name).is_some() => {
                Err(Errno::EOVERFLOW)
            }
            _ => node.forward_removexattr(caller, name),
        }
    }
}

/// Returns whether some users or groups are not mapped in the user namespace of this process, see user_namespaces(7).
pub(crate) fn has_unmapped_ids() -> bool {
    [IdKind::User, IdKind::Group].into_iter().any(|kind| has_machine_ids(kind) != Some(true))
}

/// Returns those of these paths whose objects are copies of files with lists that name others.
pub(crate) fn naming_others<'a>(file_system: &FileSystemRef, paths: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    let server = Caller::server();
    let find = |path: &[u8]| {
        path.split(|&byte| byte == b'/').try_fold(file_system.root(), |directory: VnodeRef, name| {
            Ok::<_, Errno>(directory.lookup(&server, Name::new(name)?)?.vnode)
        })
    };
    paths.filter(|path| find(path).is_ok_and(|object| object.getxattr(&server, MARKER_XATTR).is_ok())).collect()
}

/// An entry of a list, see acl(5): its tag, its permissions, and the id that it names.
#[derive(Clone, Copy, PartialEq, Eq)]
struct AclEntry {
    tag: u16,
    permissions: u16,
    id: u32,
}

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// The id that the kernel reports for one that is not mapped in the user namespace.
const UNMAPPED: u32 = u32::MAX;
const HEADER_SIZE: usize = 4;
const ENTRY_SIZE: usize = 8;

fn entries(list: &[u8]) -> impl Iterator<Item = (AclEntry, &[u8])> {
    list.get(HEADER_SIZE..).unwrap_or_default().chunks_exact(ENTRY_SIZE).map(|bytes| {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        (AclEntry { tag: half(0), permissions: half(2), id }, bytes)
    })
}

/// Returns the list without entries for users and groups that are not mapped here; `None` if it has no such entry.
fn without_others(list: &[u8]) -> Option<Vec<u8>> {
    let names_others = |entry: &AclEntry| matches!(entry.tag, USER | GROUP) && entry.id == UNMAPPED;
    entries(list).any(|(entry, _)| names_others(&entry)).then(|| {
        let remaining = entries(list).filter(|(entry, _)| !names_others(entry)).flat_map(|(_, bytes)| bytes);
        list[..HEADER_SIZE].iter().chain(remaining).copied().collect()
    })
}

/// Returns whether the lists differ in nothing but what chmod(2) changes.
fn differ_by_mode(one: &[u8], other: &[u8]) -> bool {
    let named = |list| entries(list).map(|(entry, _)| entry).filter(|entry| !matches!(entry.tag, OWNER | MASK | OTHER));
    let has_mask = |list| entries(list).any(|(entry, _)| entry.tag == MASK);
    named(one).eq(named(other)) && has_mask(one) && has_mask(other)
}

/// Returns the permission bits of a list with a mask.
fn mode_of(list: &[u8]) -> u32 {
    entries(list).fold(0, |mode, (entry, _)| {
        let shift = match entry.tag {
            OWNER => 6,
            MASK => 3,
            OTHER => 0,
            _ => return mode,
        };
        mode | u32::from(entry.permissions & 7) << shift
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            list.extend_from_slice(&tag.to_le_bytes());
            list.extend_from_slice(&permissions.to_le_bytes());
            list.extend_from_slice(&id.to_le_bytes());
        }
        list
    }

    const OWNING_GROUP: u16 = 0x04;
    const NOBODY: u32 = UNMAPPED;

    #[test]
    fn acl_is_shown_without_unmapped_entries() {
        let full = list(&[
            (OWNER, 6, NOBODY),
            (USER, 7, 0),
            (USER, 6, UNMAPPED),
            (OWNING_GROUP, 4, NOBODY),
            (GROUP, 4, UNMAPPED),
            (MASK, 7, NOBODY),
            (OTHER, 0, NOBODY),
        ]);
        let own =
            list(&[(OWNER, 6, NOBODY), (USER, 7, 0), (OWNING_GROUP, 4, NOBODY), (MASK, 7, NOBODY), (OTHER, 0, NOBODY)]);
        assert_eq!(without_others(&full), Some(own.clone()));
        assert_eq!(without_others(&own), None);
        assert_eq!((without_others(b""), without_others(&full[..6])), (None, None));
    }

    #[test]
    fn acls_that_differ_only_by_mode_are_recognised() {
        let of = |owner, group, mask, other| {
            list(&[(OWNER, owner, NOBODY), (OWNING_GROUP, group, NOBODY), (MASK, mask, NOBODY), (OTHER, other, NOBODY)])
        };
        assert!(differ_by_mode(&of(7, 5, 7, 5), &of(6, 5, 4, 0)));
        assert!(!differ_by_mode(&of(7, 5, 7, 5), &of(7, 4, 7, 5)));
        assert_eq!(mode_of(&of(6, 5, 4, 1)), 0o641);
    }
}

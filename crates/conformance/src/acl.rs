//! Access control lists, encoded as extended attributes, and the permissions that they grant.

use vnode::Caller;

/// Name of the extended attribute that holds the list of an object.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the extended attribute that holds the default list, which objects created in the directory get.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Tags of entries.
pub(crate) const USER_OBJECT: u16 = 1;
pub(crate) const USER: u16 = 2;
pub(crate) const GROUP_OBJECT: u16 = 4;
pub(crate) const GROUP: u16 = 8;
pub(crate) const MASK: u16 = 16;
pub(crate) const OTHER: u16 = 32;

/// An entry: tag, permission bits and id, which is significant for `USER` and `GROUP`.
pub(crate) type AclEntry = (u16, u16, u32);

const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;

/// Encodes the list as the kernel accepts it.
pub(crate) fn list(entries: &[AclEntry]) -> Vec<u8> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        let id = if [USER, GROUP].contains(tag) { *id } else { u32::MAX };
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Decodes the entries of a list as the kernel shows it; `None` if it is not a list.
pub(crate) fn entries(list: &[u8]) -> Option<Vec<AclEntry>> {
    let entry = |bytes: &[u8]| {
        let [a, b, c, d, id @ ..]: [u8; ENTRY_BYTES] = bytes.try_into().ok()?;
        Some((u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]), u32::from_le_bytes(id)))
    };
    list.strip_prefix(&VERSION.to_le_bytes())?.chunks(ENTRY_BYTES).map(entry).collect()
}

/// Returns whether a list grants a caller other than the superuser these permissions on an object with this owner and group.
pub(crate) fn admits(list: &[AclEntry], caller: &Caller, (uid, gid): (u32, u32), wanted: u16) -> bool {
    let permissions = |tag, id| {
        let is_meant = |entry: &&AclEntry| entry.0 == tag && (tag != USER || entry.2 == id);
        list.iter().find(is_meant).map(|entry| entry.1)
    };
    let mask = permissions(MASK, 0).unwrap_or(7);
    let has = |permissions: u16| permissions & wanted == wanted;
    if caller.uid == uid {
        return permissions(USER_OBJECT, 0).is_some_and(has);
    }
    if let Some(own) = permissions(USER, caller.uid) {
        return has(own & mask);
    }
    let is_of_groups = |entry: &&AclEntry| match entry.0 {
        GROUP_OBJECT => caller.is_in_group(gid),
        GROUP => caller.is_in_group(entry.2),
        _ => false,
    };
    // Any group that grants it suffices; a caller in a group that does not grant it does not get the permissions of others.
    let mut of_groups = list.iter().filter(is_of_groups).peekable();
    match of_groups.peek() {
        Some(_) => of_groups.any(|entry| has(entry.1 & mask)),
        None => permissions(OTHER, 0).is_some_and(has),
    }
}

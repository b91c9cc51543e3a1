//! POSIX access control lists: the binary form, the permission check, and their relation to mode bits, as in acl(5).

use vnode::{Caller, Errno, Result};

/// The version in the header of the binary form.
const VERSION: u32 = 2;
const HEADER_SIZE: usize = 4;
const ENTRY_SIZE: usize = 8;
/// The id in entries that need none.
const NO_ID: u32 = u32::MAX;

/// An ACL; once checked, it has one entry each for the owner, the owning group and others, and a mask if it has any other
/// entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl {
    entries: Box<[Entry]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    /// 4 read, 2 write, 1 execute.
    permissions: u32,
}

/// The subject of an entry, in the order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

impl Acl {
    /// Parses the binary form of the `system.posix_acl_*` attributes; `None` for a list without entries. [`Acl::check`]
    /// verifies that the list is consistent: Linux checks in between who sets it.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for another version, `EINVAL` if it is not a list of entries.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let (header, rest) = bytes.split_at_checked(HEADER_SIZE).ok_or(Errno::EINVAL)?;
        if header != VERSION.to_le_bytes() {
            return Err(Errno::EOPNOTSUPP);
        }
        if !rest.len().is_multiple_of(ENTRY_SIZE) {
            return Err(Errno::EINVAL);
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let entries: Box<[Entry]> = rest.chunks_exact(ENTRY_SIZE).map(Entry::parse).collect::<Result<_>>()?;
        Ok(Some(Self { entries }))
    }

    /// Returns its memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        size_of_val(&*self.entries) as u64
    }

    /// Verifies that the list is consistent: entries in order, required ones present, permissions and ids valid.
    ///
    /// # Errors
    /// `EINVAL`.
    pub(crate) fn check(&self) -> Result<()> {
        let is_valid =
            |entry: &Entry| entry.permissions <= 7 && !matches!(entry.tag, Tag::User(NO_ID) | Tag::Group(NO_ID));
        if self.entries.iter().all(is_valid) && is_ordered(&self.entries) { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Returns the binary form.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            let (tag, id) = entry.tag.encoded();
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&(entry.permissions as u16).to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }

    /// Returns whether the list grants all of `wanted` to the caller, which is neither the owner nor the superuser.
    pub(crate) fn grants(&self, caller: &Caller, owning_group: u32, wanted: u32) -> bool {
        let mask = self.permissions_of(Tag::Mask).unwrap_or(7);
        let grants = |entry: &Entry| entry.permissions & wanted == wanted;
        let mut group_matches = false;
        for entry in &self.entries {
            match entry.tag {
                Tag::User(uid) if uid == caller.uid => return entry.permissions & mask & wanted == wanted,
                Tag::OwningGroup if caller.is_in_group(owning_group) => group_matches = true,
                Tag::Group(gid) if caller.is_in_group(gid) => group_matches = true,
                Tag::Other => return !group_matches && grants(entry),
                _ => continue,
            }
            // The first group entry that grants all decides, subject to the mask.
            if grants(entry) {
                return mask & wanted == wanted;
            }
        }
        false
    }

    /// Returns the nine permission bits of a mode for this list: the group's are the mask's if there is one.
    pub(crate) fn mode_bits(&self) -> u32 {
        let permissions = |tag| self.permissions_of(tag);
        let group = permissions(Tag::Mask).or(permissions(Tag::OwningGroup)).unwrap_or(0);
        permissions(Tag::Owner).unwrap_or(0) << 6 | group << 3 | permissions(Tag::Other).unwrap_or(0)
    }

    /// Returns whether the list expresses no more than mode bits can.
    pub(crate) fn is_mode_only(&self) -> bool {
        self.entries.len() == 3
    }

    /// Returns the list after chmod to `mode`.
    #[must_use]
    pub(crate) fn with_mode(&self, mode: u32) -> Self {
        self.map_classes(|_, class| class_bits(mode, class))
    }

    /// Returns the list that a new object of `mode` inherits from this default list.
    #[must_use]
    pub(crate) fn inherited(&self, mode: u32) -> Self {
        self.map_classes(|permissions, class| permissions & class_bits(mode, class))
    }

    /// Returns the list with the entries that correspond to the mode's three digits changed by `change`, which is passed
    /// their permissions and the digit: 2 owner, 1 group, 0 others.
    fn map_classes(&self, change: impl Fn(u32, u32) -> u32) -> Self {
        let group_tag = if self.permissions_of(Tag::Mask).is_some() { Tag::Mask } else { Tag::OwningGroup };
        let mut changed = self.clone();
        for entry in &mut changed.entries {
            let class = match entry.tag {
                Tag::Owner => 2,
                tag if tag == group_tag => 1,
                Tag::Other => 0,
                _ => continue,
            };
            entry.permissions = change(entry.permissions, class);
        }
        changed
    }

    fn permissions_of(&self, tag: Tag) -> Option<u32> {
        self.entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions)
    }
}

impl Entry {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let tag = match half(0) {
            0x01 => Tag::Owner,
            0x02 => Tag::User(id),
            0x04 => Tag::OwningGroup,
            0x08 => Tag::Group(id),
            0x10 => Tag::Mask,
            0x20 => Tag::Other,
            _ => return Err(Errno::EINVAL),
        };
        Ok(Self { tag, permissions: u32::from(half(2)) })
    }
}

impl Tag {
    fn encoded(self) -> (u16, u32) {
        match self {
            Self::Owner => (0x01, NO_ID),
            Self::User(id) => (0x02, id),
            Self::OwningGroup => (0x04, NO_ID),
            Self::Group(id) => (0x08, id),
            Self::Mask => (0x10, NO_ID),
            Self::Other => (0x20, NO_ID),
        }
    }
}

/// Returns one digit of a mode.
fn class_bits(mode: u32, class: u32) -> u32 {
    mode >> (3 * class) & 7
}

/// Returns whether the entries are in the order owner, users, owning group, groups, mask, others, with the mask if one is
/// needed.
fn is_ordered(entries: &[Entry]) -> bool {
    let mut tags = entries.iter().map(|entry| entry.tag).peekable();
    let mut needs_mask = false;
    if tags.next() != Some(Tag::Owner) {
        return false;
    }
    while tags.next_if(|tag| matches!(tag, Tag::User(_))).is_some() {
        needs_mask = true;
    }
    if tags.next() != Some(Tag::OwningGroup) {
        return false;
    }
    while tags.next_if(|tag| matches!(tag, Tag::Group(_))).is_some() {
        needs_mask = true;
    }
    let has_mask = tags.next_if_eq(&Tag::Mask).is_some();
    tags.next() == Some(Tag::Other) && tags.next().is_none() && (has_mask || !needs_mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend([&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat());
        }
        bytes
    }

    fn sample() -> Acl {
        let entries =
            [(1, 7, NO_ID), (2, 6, 10), (2, 0, 11), (4, 5, NO_ID), (8, 2, 20), (16, 6, NO_ID), (32, 1, NO_ID)];
        let acl = Acl::parse(&list(&entries)).unwrap().unwrap();
        acl.check().unwrap();
        acl
    }

    #[test]
    fn binary_form_round_trips() {
        let acl = sample();
        assert_eq!(Acl::parse(&acl.to_bytes()).unwrap().unwrap(), acl);
        assert_eq!(acl.mode_bits(), 0o761);
    }

    #[test]
    fn malformed_lists_are_refused() {
        assert_eq!(Acl::parse(&[]), Ok(None));
        assert_eq!(Acl::parse(&list(&[])), Ok(None));
        assert_eq!(Acl::parse(&[1, 0, 0, 0]), Err(Errno::EOPNOTSUPP));
        assert_eq!(Acl::parse(&[2, 0]), Err(Errno::EINVAL));
        for wrong in [
            &[(1, 7, 0), (4, 7, 0)][..],
            &[(1, 8, 0), (4, 7, 0), (32, 7, 0)],
            &[(4, 7, 0), (1, 7, 0), (32, 7, 0)],
            &[(1, 7, 0), (2, 7, 5), (4, 7, 0), (32, 7, 0)],
            &[(1, 7, 0), (2, 7, NO_ID), (4, 7, 0), (16, 7, 0), (32, 7, 0)],
            &[(1, 7, 0), (4, 7, 0), (32, 7, 0), (32, 7, 0)],
            &[(1, 7, 0), (4, 7, 0), (3, 7, 0), (32, 7, 0)],
        ] {
            let error = Acl::parse(&list(wrong)).and_then(|acl| acl.unwrap().check());
            assert_eq!(error, Err(Errno::EINVAL), "{wrong:?}");
        }
    }

    #[test]
    fn matching_entry_decides_within_the_mask() {
        let acl = sample();
        let caller = |uid, groups: &[u32]| Caller::with_groups(uid, 99, groups, 0);
        assert!(acl.grants(&caller(10, &[]), 30, 6));
        assert!(!acl.grants(&caller(10, &[]), 30, 1), "named users do not fall through to others");
        assert!(!acl.grants(&caller(11, &[30]), 30, 4), "a named user's entry goes before group entries");
        assert!(acl.grants(&caller(12, &[30]), 30, 4));
        assert!(!acl.grants(&caller(12, &[30]), 30, 1), "the mask takes execution from the owning group");
        assert!(acl.grants(&caller(12, &[20]), 30, 2));
        assert!(!acl.grants(&caller(12, &[20, 30]), 30, 6), "no one group entry grants both");
        assert!(acl.grants(&caller(12, &[]), 30, 1));
    }

    #[test]
    fn chmod_and_inheritance_change_the_mask() {
        let acl = sample();
        assert_eq!(acl.with_mode(0o640).mode_bits(), 0o640);
        assert_eq!(acl.with_mode(0o640).permissions_of(Tag::OwningGroup), Some(5));
        assert_eq!(acl.inherited(0o646).mode_bits(), 0o640);
        assert_eq!(acl.inherited(0o646).permissions_of(Tag::Group(20)), Some(2));
    }
}

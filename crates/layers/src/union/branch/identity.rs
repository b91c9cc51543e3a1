//! Identity of an object of a union, independent of the branch that it is in.
//!
//! A branch has a tag, stored in the register, and an object the handle that it has in its branch: together they are the handle
//! in the union. A file that is copied to another branch keeps its identity, in an extended attribute. A directory that several
//! branches have is known by the oldest branch.

use vnode::{Caller, Handle, InodeNumber, Name, Result, VnodeRef};

use super::encoding::hash;
use super::register::BranchNumbers;
use super::trust::TrustedAttribute;
use super::xattrs;

/// Identity of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Handle in the union.
    pub(crate) handle: Handle,
    /// Inode number in the union.
    pub(crate) ino: InodeNumber,
    /// Identifier of the branch that has the tag of the handle.
    pub(crate) branch: u64,
}

/// First byte of a handle.
pub(crate) const NATIVE_HANDLE: u8 = 1;
/// First byte of handles that cannot be resolved: those of an object whose identity belongs to another.
pub(crate) const DUPLICATE_HANDLE: u8 = 5;
/// Inode numbers below this many bits are kept; the tag is put above them.
const INO_BITS: u32 = 47;
/// Value that means that names are not counted.
pub(crate) const UNCOUNTED_NAMES: u32 = u32::MAX;
/// Attribute in which a copied file stores its origin.
const ORIGIN: TrustedAttribute =
    TrustedAttribute::new(b"trusted.plyfs.origin", b"user.overlay.plyfs.origin").formerly(b"user.plyfs.origin");

impl Identity {
    /// Identity of an object of the branch with these numbers that was not copied from another.
    ///
    /// # Errors
    /// `EOVERFLOW` if the handle in the branch is too long to be part of one of the union.
    pub(crate) fn native(branch: &BranchNumbers, lower: &Handle, ino: InodeNumber) -> Result<Self> {
        let tag = branch.tag.to_le_bytes();
        let handle = Handle::new(&[&[NATIVE_HANDLE], &tag[..], lower.as_bytes()].concat())?;
        Ok(Self { handle, ino: tagged_ino(branch.tag, ino), branch: branch.identifier })
    }

    /// Identity of an object whose native identity is this one, while another object that claims it is in use. It is valid for
    /// that long.
    pub(crate) fn duplicate(&self) -> Self {
        let bytes = [&[DUPLICATE_HANDLE], &self.handle.as_bytes()[1..]].concat();
        let handle = Handle::new(&bytes).expect("it is as long as before");
        Self { handle, ino: tagged_ino(u16::MAX, InodeNumber::new(hash(&bytes))), ..*self }
    }

    /// Identity of a directory whose identity is this one, while all others that it could have are in use too: derived from its
    /// name in the directory with this handle. It is valid for that long.
    pub(crate) fn at_location(&self, directory: &Handle, name: Name<'_>) -> Self {
        let location = [directory.as_bytes(), b"/", name.as_bytes()].concat();
        let numbers = [&b"1"[..], b"2"].map(|salt| hash(&[salt, &location].concat()).to_le_bytes());
        let bytes = [&[DUPLICATE_HANDLE], &self.handle.as_bytes()[1..3], &numbers.concat()].concat();
        let handle = Handle::new(&bytes).expect("it is short");
        Self { handle, ino: tagged_ino(u16::MAX, InodeNumber::new(hash(&bytes))), ..*self }
    }

    /// Returns whether it is the native identity of an object with this handle in the branch with these numbers.
    pub(crate) fn is_native(&self, branch: &BranchNumbers, lower: &Handle) -> bool {
        match self.handle.as_bytes() {
            [NATIVE_HANDLE, low, high, own @ ..] => {
                u16::from_le_bytes([*low, *high]) == branch.tag && own == lower.as_bytes()
            }
            _ => false,
        }
    }

    /// Stored origin of a copied object, and the number of names that lead to its original.
    pub(crate) fn stored_origin(object: &VnodeRef) -> Result<Option<(Self, u32)>> {
        Ok(origin(object)?.and_then(|value| Self::decode(&value)))
    }

    /// Returns whether an object has a stored origin, readable or not.
    pub(crate) fn has_stored_origin(object: &VnodeRef) -> Result<bool> {
        Ok(origin(object)?.is_some())
    }

    /// Removes a stored origin: the object then has its native identity.
    pub(crate) fn remove_origin(object: &VnodeRef) -> Result<()> {
        ORIGIN.remove(object)
    }

    /// Stores the identity of the original in a copy; returns whether that was possible. Where attributes cannot be set, the
    /// copy has another identity.
    pub(crate) fn store_origin(&self, writer: &Caller, object: &VnodeRef, names: u32) -> Result<bool> {
        let (ino, names, branch) = (self.ino.get().to_le_bytes(), names.to_le_bytes(), self.branch.to_le_bytes());
        let value = [&ino[..], &names, &branch, self.handle.as_bytes()].concat();
        ORIGIN.set(writer, object, &value)
    }

    pub(crate) fn decode(value: &[u8]) -> Option<(Self, u32)> {
        let (ino, rest) = value.split_first_chunk::<8>()?;
        let (names, rest) = rest.split_first_chunk::<4>()?;
        let (branch, handle) = rest.split_first_chunk::<8>()?;
        let handle = Handle::new(handle).ok()?;
        split_handle(&handle)?;
        let (ino, branch) = (InodeNumber::new(u64::from_le_bytes(*ino)), u64::from_le_bytes(*branch));
        Some((Self { handle, ino, branch }, u32::from_le_bytes(*names)))
    }
}

/// Raw origin attribute of an object.
fn origin(object: &VnodeRef) -> Result<Option<Vec<u8>>> {
    // Most have none, and a single query shows that.
    if ORIGIN.is_in(&xattrs::attributes(object)?) { ORIGIN.get(object) } else { Ok(None) }
}

/// The branch's tag and the handle there, from a handle of the union.
pub(crate) fn split_handle(handle: &Handle) -> Option<(u16, Handle)> {
    match handle.as_bytes() {
        [NATIVE_HANDLE, low, high, lower @ ..] => Some((u16::from_le_bytes([*low, *high]), Handle::new(lower).ok()?)),
        _ => None,
    }
}

/// Inode number in the union of an object with number `ino` in the branch of that tag. It is below 2^63: some programs take
/// larger ones for negative.
pub(crate) fn tagged_ino(tag: u16, ino: InodeNumber) -> InodeNumber {
    let ino = ino.get();
    if ino >> INO_BITS == 0 {
        return InodeNumber::new(u64::from(tag) << INO_BITS | ino);
    }
    // Rare: a branch whose own numbers are that large, such as another union. Hashed, so that numbers of two branches hardly
    // collide.
    let mixed = hash(&[&tag.to_le_bytes()[..], &ino.to_le_bytes()].concat());
    InodeNumber::new(mixed & (u64::MAX >> 1) | 1 << (INO_BITS + 15))
}

#[cfg(test)]
mod tests {
    use super::super::encoding::from_hex;
    use super::*;

    #[test]
    fn inode_numbers_of_two_branches_differ() {
        let small = InodeNumber::new(12);
        assert_eq!(tagged_ino(0, small), small);
        assert_ne!(tagged_ino(1, small), tagged_ino(2, small));
        for ino in [1, u64::from(u32::MAX), 1 << 50, u64::MAX].map(InodeNumber::new) {
            assert_ne!(tagged_ino(1, ino), tagged_ino(2, ino));
            assert!(tagged_ino(0xffff, ino).get() < 1 << 63);
        }
    }

    /// As documented in docs/formats/union-branch.md.
    #[test]
    fn documented_origin_is_decoded() {
        const FORMAT_DOCUMENTATION: &str =
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/union-branch.md"));
        let digits = FORMAT_DOCUMENTATION.split_once("trusted.plyfs.origin=0x").unwrap().1.lines().next().unwrap();
        let value = from_hex(digits).unwrap();
        let (identity, names) = Identity::decode(&value).unwrap();
        let (tag, lower) = split_handle(&identity.handle).unwrap();
        assert_eq!((value.len(), identity.ino.get(), names, tag), (33, 0x98403a, u32::MAX, 0));
        assert_eq!((identity.branch, lower.as_bytes().len()), (0x8f51_bf70_110a_3530, 10));
    }
}

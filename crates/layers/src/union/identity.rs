//! Identity: what an object of a union is known by, whichever branch it is in.
//!
//! A branch has a tag, kept in the register, and an object the handle that it has in its branch: together they are
//! the handle in the union. A file that is copied to another branch takes its identity along, in an extended attribute.
//! A directory that several branches have is known by the branch that was there first.

use vnode::{Caller, Handle, Name, Result, VnodeRef};

use super::branches::Base;
use super::trusted::Mark;
use super::xattrs;

/// What an object is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The handle in the union.
    pub(super) handle: Handle,
    /// The inode number in the union.
    pub(super) ino: u64,
    /// The identifier of the branch that has the tag of the handle.
    pub(super) branch: u64,
}

/// The first byte of a handle.
pub(super) const FORM: u8 = 1;
/// The first byte of handles by which nothing is found: of an object whose identity another has.
pub(super) const ANOTHER: u8 = 5;
/// Inode numbers below this keep their digits; the tag is written before them.
const INO_BITS: u32 = 47;
/// Where a copied file keeps its identity.
const ORIGIN: Mark = Mark::new(b"trusted.plyfs.origin", b"user.plyfs.origin");

impl Identity {
    /// That of an object that has always been where it is.
    ///
    /// # Errors
    /// `EOVERFLOW` for a handle in the branch that is too long to go into one of the union.
    pub(super) fn native(base: &Base, lower: &Handle, ino: u64) -> Result<Self> {
        let tag = base.known.tag.to_le_bytes();
        let handle = Handle::new(&[&[FORM], &tag[..], lower.as_bytes()].concat())?;
        Ok(Self { handle, ino: tagged(base.known.tag, ino), branch: base.known.identifier })
    }

    /// That of an object which is known by this one in its branch, while another that claims it is in use. It lasts as long.
    pub(super) fn of_another(&self) -> Self {
        let bytes = [&[ANOTHER], &self.handle.as_bytes()[1..]].concat();
        let handle = Handle::new(&bytes).expect("it is as long as before");
        Self { handle, ino: tagged(u16::MAX, hash(&bytes)), ..*self }
    }

    /// That of a directory which is known by this one, while whatever else it could be known by is in use too: by its name in
    /// the directory with this handle. It lasts as long.
    pub(super) fn of_place(&self, directory: &Handle, name: Name<'_>) -> Self {
        let place = [directory.as_bytes(), b"/", name.as_bytes()].concat();
        let numbers = [&b"1"[..], b"2"].map(|salt| hash(&[salt, &place].concat()).to_le_bytes());
        let bytes = [&[ANOTHER], &self.handle.as_bytes()[1..3], &numbers.concat()].concat();
        let handle = Handle::new(&bytes).expect("it is short");
        Self { handle, ino: tagged(u16::MAX, hash(&bytes)), ..*self }
    }

    /// Whether it is that of an object with this handle in a branch which has always been there.
    pub(super) fn is_native(&self, base: &Base, lower: &Handle) -> bool {
        match self.handle.as_bytes() {
            [FORM, low, high, own @ ..] => {
                u16::from_le_bytes([*low, *high]) == base.known.tag && own == lower.as_bytes()
            }
            _ => false,
        }
    }

    /// The identity that a copied object has brought along, and how many names lead to its original.
    pub(super) fn brought(object: &VnodeRef) -> Result<Option<(Self, u32)>> {
        Ok(origin(object)?.and_then(|value| Self::decode(&value)))
    }

    /// Whether an object has brought an identity along, readable or not.
    pub(super) fn is_brought(object: &VnodeRef) -> Result<bool> {
        Ok(origin(object)?.is_some())
    }

    /// Takes an identity back: the object has one of its own then.
    pub(super) fn forget(object: &VnodeRef) -> Result<()> {
        ORIGIN.remove(object)
    }

    /// Gives a copy the identity of what it is a copy of: whether that could be. Where attributes cannot be set it has another.
    pub(super) fn bring(&self, writer: &Caller, object: &VnodeRef, names: u32) -> Result<bool> {
        let (ino, names, branch) = (self.ino.to_le_bytes(), names.to_le_bytes(), self.branch.to_le_bytes());
        let value = [&ino[..], &names, &branch, self.handle.as_bytes()].concat();
        ORIGIN.set(writer, object, &value)
    }

    pub(super) fn decode(value: &[u8]) -> Option<(Self, u32)> {
        let (ino, rest) = value.split_first_chunk::<8>()?;
        let (names, rest) = rest.split_first_chunk::<4>()?;
        let (branch, handle) = rest.split_first_chunk::<8>()?;
        let handle = Handle::new(handle).ok()?;
        parts(&handle)?;
        let (ino, branch) = (u64::from_le_bytes(*ino), u64::from_le_bytes(*branch));
        Some((Self { handle, ino, branch }, u32::from_le_bytes(*names)))
    }
}

/// What an object says of its identity.
fn origin(object: &VnodeRef) -> Result<Option<Vec<u8>>> {
    // Most have none, and one question tells so.
    if ORIGIN.is_in(&xattrs::attributes(object)?) { ORIGIN.of(object) } else { Ok(None) }
}

/// The branch's tag and the handle there, of a handle of the union.
pub(super) fn parts(handle: &Handle) -> Option<(u16, Handle)> {
    match handle.as_bytes() {
        [FORM, low, high, lower @ ..] => Some((u16::from_le_bytes([*low, *high]), Handle::new(lower).ok()?)),
        _ => None,
    }
}

/// The inode number of an object with number `ino` in the branch of that tag. Below 2^63, which some programs take for
/// negative.
pub(super) fn tagged(tag: u16, ino: u64) -> u64 {
    if ino >> INO_BITS == 0 {
        return u64::from(tag) << INO_BITS | ino;
    }
    // Rare: a branch whose own numbers are as large, such as another union. Mixed, so that two branches hardly meet.
    let mixed = hash(&[&tag.to_le_bytes()[..], &ino.to_le_bytes()].concat());
    mixed & (u64::MAX >> 1) | 1 << (INO_BITS + 15)
}

/// Bytes as hexadecimal digits.
pub(super) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits; `None` for anything else.
pub(super) fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok())
        .collect()
}

/// The same number for the same bytes, always (FNV-1a, with its bits mixed once more).
pub(super) fn hash(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = bytes.iter().fold(OFFSET, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    let hash = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_two_branches_differ() {
        assert_eq!(tagged(0, 12), 12);
        assert_ne!(tagged(1, 12), tagged(2, 12));
        for ino in [1, u64::from(u32::MAX), 1 << 50, u64::MAX] {
            assert_ne!(tagged(1, ino), tagged(2, ino));
            assert!(tagged(0xffff, ino) < 1 << 63);
        }
    }

    /// As docs/formats/union-branch.md has it.
    #[test]
    fn the_origin_in_the_documentation_is_read() {
        const PAGE: &str = include_str!("../../../../docs/formats/union-branch.md");
        let digits = PAGE.split_once("trusted.plyfs.origin=0x").unwrap().1.lines().next().unwrap();
        let value = bytes(digits).unwrap();
        let (identity, names) = Identity::decode(&value).unwrap();
        let (tag, lower) = parts(&identity.handle).unwrap();
        assert_eq!((value.len(), identity.ino, names, tag), (33, 0x98403a, u32::MAX, 0));
        assert_eq!((identity.branch, lower.as_bytes().len()), (0x8f51_bf70_110a_3530, 10));
    }
}

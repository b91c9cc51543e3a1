//! Handles and inode numbers of a fan-out, which differ between its branches.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use crate::{Errno, Handle, InodeNumber, Result};

/// Set in the first byte of a handle that has a digest in place of the branch object's handle.
const DIGEST: u8 = 0x80;
/// Maximum number of branches of a fan-out: the first byte of a handle has the branch.
pub const MAX_BRANCHES: usize = DIGEST as usize;

/// Returns the handle of an object: the index of its primary branch, and the handle of the branch object there. If that is too
/// long, as where many fan-outs lie on each other, it is replaced by a digest: such a handle is valid as long as the object is
/// referenced.
pub(crate) fn of_branch(branch: usize, object: &Handle) -> Handle {
    let mut bytes = vec![branch as u8];
    bytes.extend_from_slice(object.as_bytes());
    Handle::new(&bytes).unwrap_or_else(|_| digest(branch, object))
}

fn digest(branch: usize, object: &Handle) -> Handle {
    // Of this process only, so that nobody can prepare two objects with one digest.
    static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
    let keys = KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]);
    let mut bytes = vec![branch as u8 | DIGEST];
    keys.iter().for_each(|key| bytes.extend_from_slice(&key.hash_one(object).to_ne_bytes()));
    Handle::new(&bytes).expect("a digest is short")
}

/// Returns whether a handle has a digest in place of the branch object's handle.
pub(crate) fn is_digest(handle: &Handle) -> bool {
    handle.as_bytes().first().is_some_and(|branch| branch & DIGEST != 0)
}

/// Returns the branch and the handle of the branch object.
///
/// # Errors
/// `ESTALE` for bytes that are no handle of a fan-out, and for those with a digest.
pub(crate) fn parse(handle: &Handle) -> Result<(usize, Handle)> {
    let (branch, object) = handle.as_bytes().split_first().ok_or(Errno::ESTALE)?;
    if branch & DIGEST != 0 {
        return Err(Errno::ESTALE);
    }
    Ok((usize::from(*branch), Handle::new(object)?))
}

/// Returns an inode number that includes the branch. Numbers of the first branch stay as they are.
pub(crate) fn inode_number(branch: usize, number: InodeNumber) -> InodeNumber {
    InodeNumber::new(number.get() ^ (branch as u64) << 56)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HANDLE_MAX;

    #[test]
    fn handles_nest_without_overflowing() {
        let short = Handle::new(&[7; HANDLE_MAX - 1]).unwrap();
        assert_eq!(parse(&of_branch(3, &short)), Ok((3, short)));
        let mut nested = [Handle::new(&[7; HANDLE_MAX]).unwrap(), Handle::new(&[8; HANDLE_MAX]).unwrap()];
        for level in 0..100 {
            nested = nested.map(|handle| of_branch(level % MAX_BRANCHES, &handle));
            assert_ne!(nested[0], nested[1]);
            assert_eq!(nested[0], nested[0], "the same object has the same handle");
        }
    }

    #[test]
    fn a_digest_names_no_branch_object() {
        let long = Handle::new(&[7; HANDLE_MAX]).unwrap();
        assert_eq!(parse(&of_branch(1, &long)), Err(Errno::ESTALE));
        assert_eq!(parse(&Handle::new(&[]).unwrap()), Err(Errno::ESTALE));
    }
}

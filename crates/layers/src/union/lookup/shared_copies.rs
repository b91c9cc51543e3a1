//! Copies of files with several names: a look-up of one name of the original finds the copy that was made through another.

use std::sync::Arc;

use vnode::{Caller, Entry, Errno, Handle, NameBuf, Result};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::encoding;
use crate::union::branch::identity::Identity;
use crate::union::state::Union;
use crate::union::state::instance::Instance;

impl Union {
    /// The copy of a file with several names in a branch, if one was made through another of them.
    pub(crate) fn shared_copy(
        &self,
        member: &Arc<BranchMember>,
        original: &Entry,
    ) -> Result<Option<(Instance, Entry)>> {
        // A branch that may be changed now may have been read-only when the copy was made, and other names may be gone by now.
        if original.attributes.nlink < 2 && !self.branches.may_change(member) {
            return Ok(None);
        }
        let Some(position) = self.branches.position(member) else { return Ok(None) };
        let mut known = None;
        // The leftmost is the newest.
        for slot in &self.branches.slots()[..position] {
            let Some(links) = slot.member.work.existing_links()? else { continue };
            let identity = match &known {
                Some(identity) => identity,
                None => {
                    let instance = Instance::new(member, original.vnode.clone(), original.attributes.ino);
                    known.insert(self.claimed_identity(&[instance], original.attributes.kind)?.0)
                }
            };
            let name = link_name(identity);
            match links.lookup(&Caller::server(), name.as_name()) {
                // The copy of another file, which had this identity in another union.
                Ok(entry)
                    if Identity::stored_origin(&entry.vnode)?
                        .is_some_and(|(copied, _)| copied.branch != identity.branch) => {}
                Ok(entry) => {
                    let (member, ino) = (Arc::clone(&slot.member), entry.attributes.ino);
                    return Ok(Some((Instance::new(&member, entry.vnode.clone(), ino), entry)));
                }
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Name of the link entry of an object's copy.
pub(crate) fn link_name(identity: &Identity) -> NameBuf {
    handle_name(&identity.handle)
}

/// A handle in hexadecimal digits.
pub(crate) fn handle_name(handle: &Handle) -> NameBuf {
    NameBuf::new(encoding::to_hex(handle.as_bytes()).into_bytes()).expect("a handle has a name's length at most")
}

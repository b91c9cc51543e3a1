//! Leftovers in the work directory of a branch: undoes the unfinished steps of a union that was interrupted, or could not go on.

use std::ops::ControlFlow;

use vnode::{Caller, Cookie, Entry, Name, Result, VnodeRef};

use super::entry_purpose::EntryPurpose;
use super::identity::Identity;
use super::objects::{entries, remove_tree};
use super::verified::VerifiedOperations;
use super::{direct_file_record, metacopy_mark, state_directory};

/// Undoes unfinished steps, except for renames.
pub(crate) fn undo_leftovers(root: &VnodeRef, state: &VnodeRef, work: &VnodeRef) -> Result<()> {
    for (name, _) in entries(work)? {
        if EntryPurpose::of(name.as_bytes()) == Some(EntryPurpose::DirectFiles) {
            direct_file_record::restore_interrupted(root, work, name.as_name())?;
        }
    }
    // The files that these records name have left the directory, or are removed before the records.
    let mut left = entries(work)?;
    left.sort_by_key(|(name, _)| EntryPurpose::of(name.as_bytes()) == Some(EntryPurpose::DirectFiles));
    for (name, _) in left {
        match EntryPurpose::of(name.as_bytes()) {
            // Entries of unknown kinds are left to the later version that knows them.
            None | Some(EntryPurpose::Record) => {}
            Some(_) => undo(state, work, name.as_name())?,
        }
    }
    Ok(())
}

/// Undoes the step encoded in the name of an entry of the work directory, and removes the entry.
pub(crate) fn undo(state: &VnodeRef, work: &VnodeRef, name: Name<'_>) -> Result<()> {
    let find = || work.lookup(&Caller::server(), name);
    match EntryPurpose::of(name.as_bytes()) {
        Some(EntryPurpose::Times(time)) => metacopy_mark::restore_mtime(&find()?.vnode, time)?,
        Some(EntryPurpose::Copy) => remove_link_entry(state, &find()?)?,
        Some(EntryPurpose::Name(names)) => {
            let object = find()?.vnode;
            if let Some((identity, _)) = Identity::stored_origin(&object)? {
                identity.store_origin(&Caller::server(), &object, names)?;
            }
        }
        _ => {}
    }
    remove_tree(work, name)
}

/// Removes the name in the links directory of a copy that has not reached its place.
fn remove_link_entry(state: &VnodeRef, copy: &Entry) -> Result<()> {
    let server = Caller::server();
    if copy.attributes.is_directory() || copy.attributes.nlink < 2 {
        return Ok(());
    }
    let Some(Entry { vnode: links, .. }) = state_directory::find_own(state, state_directory::LINKS)? else {
        return Ok(());
    };
    let mut found = Vec::new();
    links.open_directory(&server)?.read(&server, Cookie::START, &mut |entry| {
        if entry.ino == copy.attributes.ino {
            found.push(entry.name.to_owned());
        }
        ControlFlow::Continue(())
    })?;
    found.iter().try_for_each(|name| links.unlink_verified(&server, name.as_name()))
}

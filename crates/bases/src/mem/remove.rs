//! Removes names: unlink, rmdir.

use std::sync::Arc;

use vnode::{Caller, Cookie, Errno, Name, Result};

use crate::unix::permissions;

use super::directory::Directory;
use super::inode::{Inode, State};

impl Inode {
    /// Removes a name of a non-directory.
    pub(crate) fn remove_file(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        // Declared first, so that an inode whose last reference this is is dropped after the locks are released.
        let victim: Arc<Inode>;
        let mut state = self.write();
        victim = find(&state, caller, name)?;
        let mut victim_state = victim.write();
        permissions::check_removal(&state.metadata.protection, &victim_state.metadata.protection, caller, false)?;
        self.detach(&mut state, name, &mut victim_state)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let victim: Arc<Inode>;
        let mut state = self.write();
        victim = find(&state, caller, name)?;
        let mut victim_state = victim.write();
        permissions::check_removal(&state.metadata.protection, &victim_state.metadata.protection, caller, true)?;
        if victim_state.directory()?.len() > 0 {
            return Err(Errno::ENOTEMPTY);
        }
        self.detach(&mut state, name, &mut victim_state)
    }

    /// Removes `name` from this directory, and the link from the object that it refers to.
    fn detach(&self, state: &mut State, name: Name<'_>, victim_state: &mut State) -> Result<()> {
        let slot = state.directory_mut()?.remove(name).ok_or(Errno::ENOENT)?;
        state.metadata.times.modified();
        if victim_state.drop_link(self, slot.cookie) {
            state.metadata.nlink -= 1;
        }
        Ok(())
    }
}

impl State {
    /// Removes one link, in directory `parent`; this removes a directory. Returns whether the object is one.
    pub(crate) fn drop_link(&mut self, parent: &Inode, cookie: Cookie) -> bool {
        self.remove_link(parent, cookie);
        self.metadata.times.changed();
        match self.directory_mut() {
            Ok(directory) => {
                directory.set_removed();
                self.metadata.nlink = 0;
                true
            }
            Err(_) => {
                self.metadata.nlink -= 1;
                false
            }
        }
    }
}

/// Returns the names in a directory, for a caller with search permission.
///
/// # Errors
/// `ENOTDIR`, then `EACCES`.
pub(crate) fn search<'a>(state: &'a State, caller: &Caller) -> Result<&'a Directory<Inode>> {
    let directory = state.directory()?;
    permissions::check(&state.metadata.protection, caller, permissions::SEARCH)?;
    Ok(directory)
}

/// Returns the object that the caller finds by that name.
pub(crate) fn find(state: &State, caller: &Caller, name: Name<'_>) -> Result<Arc<Inode>> {
    search(state, caller)?.get(name).map(|slot| slot.inode.clone()).ok_or(Errno::ENOENT)
}

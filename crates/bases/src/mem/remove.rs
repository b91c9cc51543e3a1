//! Taking names away: unlink, rmdir.

use std::sync::Arc;

use vnode::{Caller, Errno, Name, Result};

use super::directory::Directory;
use super::inode::{Inode, State};
use super::permissions;

impl Inode {
    /// Takes the name of something that is no directory away.
    pub(super) fn remove_file(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        // Declared first, so that an inode whose last reference this is goes after the locks are released.
        let victim: Arc<Inode>;
        let mut state = self.write();
        victim = find(&state, caller, name)?;
        let mut gone = victim.write();
        permissions::check_removal(&state.metadata, &gone.metadata, caller, false)?;
        self.detach(&mut state, name, &mut gone)
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let victim: Arc<Inode>;
        let mut state = self.write();
        victim = find(&state, caller, name)?;
        let mut gone = victim.write();
        permissions::check_removal(&state.metadata, &gone.metadata, caller, true)?;
        if gone.directory()?.len() > 0 {
            return Err(Errno::ENOTEMPTY);
        }
        self.detach(&mut state, name, &mut gone)
    }

    /// Takes `name` out of this directory, and out of what it stands for.
    fn detach(&self, state: &mut State, name: Name<'_>, gone: &mut State) -> Result<()> {
        let slot = state.directory_mut()?.remove(name).ok_or(Errno::ENOENT)?;
        state.metadata.modified();
        if gone.lose_name(self, slot.cookie) {
            state.metadata.nlink -= 1;
        }
        Ok(())
    }
}

impl State {
    /// Counts one name less, in directory `parent`. A directory is removed by that; whether it is one is answered.
    pub(super) fn lose_name(&mut self, parent: &Inode, cookie: u64) -> bool {
        self.remove_link(parent, cookie);
        self.metadata.changed();
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

/// The names in a directory, for a caller who may use them.
///
/// # Errors
/// `ENOTDIR`, then `EACCES`.
pub(super) fn search<'a>(state: &'a State, caller: &Caller) -> Result<&'a Directory> {
    let directory = state.directory()?;
    permissions::check(&state.metadata, caller, permissions::SEARCH)?;
    Ok(directory)
}

/// What the caller finds by that name.
pub(super) fn find(state: &State, caller: &Caller, name: Name<'_>) -> Result<Arc<Inode>> {
    search(state, caller)?.get(name).map(|slot| slot.inode.clone()).ok_or(Errno::ENOENT)
}

//! Changes attributes: chmod, chown, truncate and utimensat in one.

use vnode::{Attributes, Caller, Result, SetAttributes};

use crate::unix::changes;

use super::data::SIZE_MAX;
use super::inode::Inode;

impl Inode {
    /// Changes attributes, all or none.
    pub(crate) fn change_attributes(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let mut state = self.write();
        changes::check(&state.metadata.protection, caller, changes, SIZE_MAX)?;
        if let Some(size) = changes.size {
            let (data, _) = state.file_mut()?;
            data.resize(&self.volume.pages, size)?;
        }
        let metadata = &mut state.metadata;
        if changes::apply(&mut metadata.protection, &mut metadata.times, caller, changes) {
            metadata.xattrs.forget_capability();
        }
        let attributes = self.attributes_in(&state);
        drop(state);
        self.volume.return_memory();
        Ok(attributes)
    }
}

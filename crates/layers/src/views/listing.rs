//! An open directory of a mount with views: each caller reads the entries of the caller's view, whoever opened it.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use vnode::profile::Part;
use vnode::{Caller, Cookie, DirectoryEntry, OpenDirectory, OpenDirectoryRef, Result};

use crate::union::operations::listing::DirectoryListing;
use crate::union::settings::NAME;
use crate::union::state::Node;

/// An open directory that processes of several views may read.
pub(crate) struct PerViewListing {
    vnode: Arc<Node>,
    /// Open directories of the views that have read it.
    opened: Mutex<Vec<(Arc<Node>, OpenDirectoryRef)>>,
}

impl PerViewListing {
    /// Opens the directory as the caller, for whom it is `node`. The caller holds an operation guard.
    pub(crate) fn open(vnode: Arc<Node>, node: Arc<Node>, caller: &Caller) -> Result<Self> {
        let listing: OpenDirectoryRef = Arc::new(DirectoryListing::open(Arc::clone(&node), caller)?);
        Ok(Self { vnode, opened: Mutex::new(vec![(node, listing)]) })
    }

    fn of(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        let node = self.vnode.for_caller(caller)?;
        let find = |opened: &[(Arc<Node>, OpenDirectoryRef)]| {
            opened.iter().find(|(known, _)| Arc::ptr_eq(known, &node)).map(|(_, listing)| Arc::clone(listing))
        };
        if let Some(listing) = find(&self.opened.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(listing);
        }
        let listing: OpenDirectoryRef = {
            let _guard = node.begin_operation()?;
            Arc::new(DirectoryListing::open(Arc::clone(&node), caller)?)
        };
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        // One that another thread has opened meanwhile serves as well, and keeps its position.
        Ok(find(&opened).unwrap_or_else(|| {
            opened.push((node, Arc::clone(&listing)));
            listing
        }))
    }
}

impl Part for PerViewListing {
    const PART: &'static str = NAME;
}

impl OpenDirectory for PerViewListing {
    fn read(
        &self,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.of(caller)?.read(caller, cookie, sink)
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.of(caller)?.fsync(caller, data_only)
    }
}

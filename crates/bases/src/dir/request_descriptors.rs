//! Descriptors of objects other than directories, kept for the request that the thread handles.
//!
//! A layer turns one request into many operations on few objects, each of which needs a descriptor. For longer they are not kept:
//! a removed file would take space for as long.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use vnode::request;

use super::handle::{CompactHandle, FileHandle};
use super::mounts::Mount;
use super::shares::may_retain;

/// Maximum number of descriptors that a thread keeps: an operation concerns an object, its copy, and those that these replace.
const MAX_KEPT: usize = 4;

struct KeptDescriptor {
    mount: (u64, u64),
    handle: FileHandle,
    descriptor: Arc<OwnedFd>,
}

thread_local! {
    /// The latest last.
    static KEPT: RefCell<Vec<KeptDescriptor>> = const { RefCell::new(Vec::new()) };
}

/// Returns the `O_PATH` descriptor of an object, if one is kept.
pub(crate) fn find(mount: &Mount, handle: &CompactHandle) -> Option<Arc<OwnedFd>> {
    KEPT.with_borrow(|kept| {
        let found = kept.iter().rev().find(|kept| kept.mount == mount.number() && handle.is(&kept.handle))?;
        Some(Arc::clone(&found.descriptor))
    })
}

/// Keeps the `O_PATH` descriptor of an object.
///
/// # Errors
/// Returns the descriptor, if the thread handles no request, few descriptors are left for others, or a removed file would get
/// another name as long as it is open.
pub(crate) fn keep(mount: &Mount, handle: &CompactHandle, descriptor: OwnedFd) -> Result<Arc<OwnedFd>, OwnedFd> {
    if mount.has_silly_renames()
        || !may_retain(&descriptor)
        || (KEPT.with_borrow(Vec::is_empty) && !request::at_end(close_all))
    {
        return Err(descriptor);
    }
    let descriptor = Arc::new(descriptor);
    let new = KeptDescriptor { mount: mount.number(), handle: handle.expand(), descriptor: Arc::clone(&descriptor) };
    let _replaced = KEPT.with_borrow_mut(|kept| {
        let replaced = (kept.len() == MAX_KEPT).then(|| kept.remove(0));
        kept.push(new);
        replaced
    });
    Ok(descriptor)
}

/// Closes what the thread keeps.
pub(crate) fn close_all() {
    drop(KEPT.take());
}

//! New-file capability cache: files just created have no capabilities, which the kernel requests before the first write to
//! each file.

use crate::fuse::nodes::{MAY_BE_MAPPED, Node};
use std::sync::atomic::Ordering;
use std::time::Instant;
use vnode::Attributes;

/// How long after its creation a file counts as new, in milliseconds. Others could set capabilities on it below the stack
/// meanwhile; their file system clears them again at the first write.
const NEW_FILE_PERIOD_MS: u64 = 1000;

pub(crate) struct NewFileCache {
    started: Instant,
}

impl NewFileCache {
    pub(crate) fn new() -> NewFileCache {
        NewFileCache { started: Instant::now() }
    }

    /// Records a file that was opened by a creation: it is new, unless something has happened to it since.
    pub(crate) fn record_creation(&self, node: &Node, attributes: &Attributes) {
        if attributes.btime == Some(attributes.ctime) {
            record(node, self.now_ms());
        }
    }

    /// Records that the file got an extended attribute.
    pub(crate) fn record_xattr(&self, node: &Node) {
        record(node, 0);
    }

    /// Returns whether the file, which is a regular one, is certain to have no extended attributes that matter.
    pub(crate) fn is_new_file(&self, node: &Node) -> bool {
        let created_ms = node.state_bits.load(Ordering::Relaxed) & !MAY_BE_MAPPED;
        created_ms != 0 && self.now_ms() < created_ms + NEW_FILE_PERIOD_MS
    }

    /// Returns the time since the start; never 0, which means that nothing is recorded.
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64 + 1
    }
}

/// Records a creation time, or with 0 that the file is not new, and keeps the other state bits.
fn record(node: &Node, created_ms: u64) {
    let update = |old| Some(old & MAY_BE_MAPPED | created_ms);
    let _ = node.state_bits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
}

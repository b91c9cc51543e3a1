//! Files just created: they have no capabilities, which the kernel asks for before the first write to each file.

use super::nodes::{MAY_BE_MAPPED, Node};
use std::sync::atomic::Ordering;
use std::time::Instant;
use vnode::Attributes;

/// For how long after its creation a file counts as new. Others, below the stack, could give it capabilities meanwhile;
/// their file system takes them away again at the first write.
const NEWBORN_MS: u64 = 1000;

pub(crate) struct Newborns {
    started: Instant,
}

impl Newborns {
    pub(crate) fn new() -> Newborns {
        Newborns { started: Instant::now() }
    }

    /// A file was opened by a creation: new, unless something has happened to it since its birth.
    pub(crate) fn created(&self, node: &Node, attributes: &Attributes) {
        if attributes.btime == Some(attributes.ctime) {
            note(node, self.now_ms());
        }
    }

    /// The file got an extended attribute.
    pub(crate) fn grown_up(&self, node: &Node) {
        note(node, 0);
    }

    /// Whether the file, which is a regular one, has no extended attributes that matter, for certain.
    pub(crate) fn is_newborn(&self, node: &Node) -> bool {
        let born_ms = node.note.load(Ordering::Relaxed) & !MAY_BE_MAPPED;
        born_ms != 0 && self.now_ms() < born_ms + NEWBORN_MS
    }

    /// Never 0, which stands for no note.
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64 + 1
    }
}

/// Notes a time of birth, or with 0 that the file is not new, beside what else is noted.
fn note(node: &Node, born_ms: u64) {
    let beside = |note| Some(note & MAY_BE_MAPPED | born_ms);
    let _ = node.note.fetch_update(Ordering::Relaxed, Ordering::Relaxed, beside);
}

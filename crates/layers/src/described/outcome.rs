//! What operations answer, as far as rules can make or see it.

use vnode::{Attributes, Created, Entry, Lock, OpenDirectoryRef, OpenFileRef, StatFs, VnodeRef};

/// An answer of an operation.
pub(super) trait Outcome: Sized {
    /// The answer where a rule says that all went well, and nothing was done; `None` where there has to be something.
    fn nothing() -> Option<Self> {
        None
    }

    /// The answer that is an entry which a rule looked up.
    fn found(_: Entry) -> Option<Self> {
        None
    }

    /// The entry that the answer is.
    fn entry(&self) -> Option<&Entry> {
        None
    }
}

impl Outcome for () {
    fn nothing() -> Option<()> {
        Some(())
    }
}

impl Outcome for Entry {
    fn found(entry: Entry) -> Option<Entry> {
        Some(entry)
    }

    fn entry(&self) -> Option<&Entry> {
        Some(self)
    }
}

impl Outcome for Created {
    fn entry(&self) -> Option<&Entry> {
        Some(&self.entry)
    }
}

impl Outcome for i32 {
    fn nothing() -> Option<i32> {
        Some(0)
    }
}

impl Outcome for Option<Lock> {
    fn nothing() -> Option<Self> {
        Some(None)
    }
}

impl Outcome for Vec<u8> {
    fn nothing() -> Option<Vec<u8>> {
        Some(Vec::new())
    }
}

impl Outcome for Attributes {}
impl Outcome for OpenDirectoryRef {}
impl Outcome for OpenFileRef {}
impl Outcome for StatFs {}
impl Outcome for VnodeRef {}
impl Outcome for u32 {}
impl Outcome for u64 {}

impl Outcome for usize {
    fn nothing() -> Option<usize> {
        Some(0)
    }
}

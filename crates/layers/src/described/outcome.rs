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

    /// The answer in words, for the log.
    fn told(&self) -> String;
}

/// Attributes in words.
fn attributes(all: &Attributes) -> String {
    let Attributes { ino, nlink, uid, gid, size, .. } = all;
    format!("ino={ino} mode=0{:o} nlink={nlink} owner={uid} group={gid} size={size}", all.full_mode())
}

impl Outcome for () {
    fn nothing() -> Option<()> {
        Some(())
    }

    fn told(&self) -> String {
        "0".to_owned()
    }
}

impl Outcome for Entry {
    fn found(entry: Entry) -> Option<Entry> {
        Some(entry)
    }

    fn entry(&self) -> Option<&Entry> {
        Some(self)
    }

    fn told(&self) -> String {
        attributes(&self.attributes)
    }
}

impl Outcome for Created {
    fn entry(&self) -> Option<&Entry> {
        Some(&self.entry)
    }

    fn told(&self) -> String {
        attributes(&self.entry.attributes)
    }
}

impl Outcome for i32 {
    fn nothing() -> Option<i32> {
        Some(0)
    }

    fn told(&self) -> String {
        self.to_string()
    }
}

impl Outcome for Option<Lock> {
    fn nothing() -> Option<Self> {
        Some(None)
    }

    fn told(&self) -> String {
        match self {
            Some(lock) => format!("{:?} {}..={} of process {}", lock.kind, lock.start, lock.end, lock.pid),
            None => "free".to_owned(),
        }
    }
}

impl Outcome for Vec<u8> {
    fn nothing() -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn told(&self) -> String {
        format!("{} bytes", self.len())
    }
}

impl Outcome for Attributes {
    fn told(&self) -> String {
        attributes(self)
    }
}

impl Outcome for OpenDirectoryRef {
    fn told(&self) -> String {
        "open".to_owned()
    }
}

impl Outcome for OpenFileRef {
    fn told(&self) -> String {
        "open".to_owned()
    }
}

impl Outcome for StatFs {
    fn told(&self) -> String {
        format!("blocks={} free={} files={}", self.blocks, self.blocks_free, self.files)
    }
}

impl Outcome for VnodeRef {
    fn told(&self) -> String {
        "found".to_owned()
    }
}

impl Outcome for u32 {
    fn told(&self) -> String {
        self.to_string()
    }
}

impl Outcome for u64 {
    fn told(&self) -> String {
        self.to_string()
    }
}

impl Outcome for usize {
    fn nothing() -> Option<usize> {
        Some(0)
    }

    fn told(&self) -> String {
        self.to_string()
    }
}

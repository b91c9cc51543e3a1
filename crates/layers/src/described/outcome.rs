//! Results of operations, as far as rules can make or see them.

use vnode::{Attributes, Created, Entry, Lock, OpenDirectoryRef, OpenFileRef, StatFs, VnodeRef};

/// Result of an operation.
pub(crate) trait Outcome: Sized {
    /// Returns the result where a rule reports success without performing the operation; `None` where there has to be a
    /// result.
    fn default_success() -> Option<Self> {
        None
    }

    /// Returns the result that consists of an entry which a rule looked up.
    fn from_entry(_: Entry) -> Option<Self> {
        None
    }

    /// Returns the entry of the result, if it has one.
    fn entry(&self) -> Option<&Entry> {
        None
    }

    /// Formats the result for the log.
    fn describe(&self) -> String;
}

/// Formats attributes for the log.
fn describe_attributes(all: &Attributes) -> String {
    let Attributes { ino, nlink, uid, gid, size, .. } = all;
    format!("ino={ino} mode=0{:o} nlink={nlink} owner={uid} group={gid} size={size}", all.full_mode())
}

impl Outcome for () {
    fn default_success() -> Option<()> {
        Some(())
    }

    fn describe(&self) -> String {
        "0".to_owned()
    }
}

impl Outcome for Entry {
    fn from_entry(entry: Entry) -> Option<Entry> {
        Some(entry)
    }

    fn entry(&self) -> Option<&Entry> {
        Some(self)
    }

    fn describe(&self) -> String {
        describe_attributes(&self.attributes)
    }
}

impl Outcome for Created {
    fn entry(&self) -> Option<&Entry> {
        Some(&self.entry)
    }

    fn describe(&self) -> String {
        describe_attributes(&self.entry.attributes)
    }
}

impl Outcome for i32 {
    fn default_success() -> Option<i32> {
        Some(0)
    }

    fn describe(&self) -> String {
        self.to_string()
    }
}

impl Outcome for Option<Lock> {
    fn default_success() -> Option<Self> {
        Some(None)
    }

    fn describe(&self) -> String {
        match self {
            Some(lock) => format!("{:?} {}..={} of process {}", lock.kind, lock.start, lock.end, lock.pid),
            None => "free".to_owned(),
        }
    }
}

impl Outcome for Vec<u8> {
    fn default_success() -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn describe(&self) -> String {
        format!("{} bytes", self.len())
    }
}

impl Outcome for Attributes {
    fn describe(&self) -> String {
        describe_attributes(self)
    }
}

impl Outcome for OpenDirectoryRef {
    fn describe(&self) -> String {
        "open".to_owned()
    }
}

impl Outcome for OpenFileRef {
    fn describe(&self) -> String {
        "open".to_owned()
    }
}

impl Outcome for StatFs {
    fn describe(&self) -> String {
        format!("blocks={} free={} files={}", self.blocks, self.blocks_free, self.files)
    }
}

impl Outcome for VnodeRef {
    fn describe(&self) -> String {
        "found".to_owned()
    }
}

impl Outcome for u32 {
    fn describe(&self) -> String {
        self.to_string()
    }
}

impl Outcome for u64 {
    fn describe(&self) -> String {
        self.to_string()
    }
}

impl Outcome for usize {
    fn default_success() -> Option<usize> {
        Some(0)
    }

    fn describe(&self) -> String {
        self.to_string()
    }
}

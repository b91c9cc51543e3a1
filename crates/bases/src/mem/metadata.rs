//! Metadata: the attributes of one object, ACLs and extended attributes included.

use vnode::{FileKind, Timestamp};

use super::acl::Acl;
use super::xattr_store::XattrStore;

/// The attributes of an object without its contents.
pub(crate) struct Metadata {
    pub(crate) kind: FileKind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) nlink: u32,
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
    pub(crate) btime: Timestamp,
    pub(crate) access_acl: Option<Box<Acl>>,
    pub(crate) default_acl: Option<Box<Acl>>,
    pub(crate) xattrs: XattrStore,
}

impl Metadata {
    /// Updates the times after a change of data or entries.
    pub(crate) fn modified(&mut self) {
        self.mtime = Timestamp::now();
        self.changed_at(self.mtime);
    }

    /// Updates the time after a change of attributes.
    pub(crate) fn changed(&mut self) {
        self.changed_at(Timestamp::now());
    }

    /// Sets the change time. It is later after each change, even if the clock is not: it shows that there was one.
    pub(crate) fn changed_at(&mut self, now: Timestamp) {
        self.ctime = now.max(just_after(self.ctime));
    }

    /// Returns whether the rules of `relatime` update the access time now.
    pub(crate) fn needs_access_time_update(&self, now: Timestamp) -> bool {
        const DAY_SECONDS: i64 = 24 * 60 * 60;
        self.atime <= self.mtime || self.atime <= self.ctime || now.seconds - self.atime.seconds >= DAY_SECONDS
    }
}

/// Returns the next time that a timestamp can express.
fn just_after(time: Timestamp) -> Timestamp {
    match time.nanoseconds {
        999_999_999.. => Timestamp { seconds: time.seconds + 1, nanoseconds: 0 },
        nanoseconds => Timestamp { nanoseconds: nanoseconds + 1, ..time },
    }
}

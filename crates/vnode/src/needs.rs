//! Needs of a file system: operations that must reach it although a cache could answer them, and how it is to be mounted.

/// What a file system needs of whoever uses it.
///
/// A stack needs what any of its members needs: [`Needs::stacked_on`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Every lookup must reach the stack: no name may be cached.
    pub every_lookup: bool,
    /// Failed lookups must reach the stack: negative names may not be cached.
    pub failed_lookups: bool,
    /// Every read and write must reach the stack with its caller, although data is untouched.
    pub every_data_operation: bool,
    /// Attributes may change by themselves at any time: none may be cached.
    pub fresh_attributes: bool,
    /// Every close of a descriptor must reach the stack ([`OpenFile::flush`](crate::OpenFile::flush)): it may report an
    /// error, or release more than locks.
    pub every_close: bool,
    /// Every poll(2) must reach the stack ([`OpenFile::poll`](crate::OpenFile::poll)): files may not be ready.
    pub every_poll: bool,
    /// Reads that update an access time must reach the stack: at least those of a file that was not read since it was
    /// written (`relatime`).
    pub access_times: bool,
    /// To be mounted read-only: every modifying operation returns `EROFS`.
    pub read_only: bool,
    /// To be mounted over its own base, which is then reachable only through it (FiST's overlay mounts).
    pub overlay: bool,
}

impl Needs {
    /// Needs of a layer that forwards what reaches it.
    pub const NONE: Self = Self {
        every_lookup: false,
        failed_lookups: false,
        every_data_operation: false,
        fresh_attributes: false,
        every_close: false,
        every_poll: false,
        access_times: false,
        read_only: false,
        overlay: false,
    };

    /// Returns the needs of a member that declares `self` on a stack that needs `lower`: those of either.
    #[must_use]
    pub const fn stacked_on(self, lower: Self) -> Self {
        Self {
            every_lookup: self.every_lookup || lower.every_lookup,
            failed_lookups: self.failed_lookups || lower.failed_lookups,
            every_data_operation: self.every_data_operation || lower.every_data_operation,
            fresh_attributes: self.fresh_attributes || lower.fresh_attributes,
            every_close: self.every_close || lower.every_close,
            every_poll: self.every_poll || lower.every_poll,
            access_times: self.access_times || lower.access_times,
            read_only: self.read_only || lower.read_only,
            overlay: self.overlay || lower.overlay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_of_either_is_a_need_of_both() {
        let above = Needs { failed_lookups: true, ..Needs::NONE };
        let below = Needs { access_times: true, read_only: true, ..Needs::NONE };
        let both = Needs { failed_lookups: true, access_times: true, read_only: true, ..Needs::NONE };
        assert_eq!((above.stacked_on(below), below.stacked_on(above)), (both, both));
        assert_eq!(Needs::NONE.stacked_on(below), below);
    }
}

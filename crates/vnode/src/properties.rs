//! Declared properties: what a stack leaves untouched and what it needs, by which front ends choose optimizations.

/// Relation between the mode, owner, group and access control list that a file system shows and the access that it
/// grants.
///
/// Each value on its own defines what a front end may do. Each guarantees less than the one before, so that the
/// greatest value among the members of a stack applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessControl {
    /// The shown attributes decide, as in acl(5): the kernel may check permissions by them before it calls the stack,
    /// and may decide without calling it who may search a directory, open a pipe or device, or connect to a socket.
    /// Operations that reach the stack in any case, opening and changing files, may be refused in addition, to all
    /// callers alike: a read-only layer, or one that protects files, declares this.
    #[default]
    AsShown,
    /// Directories that the shown attributes let everybody search can be searched by everybody, and the kernel may
    /// cache names there. Elsewhere other callers have access too, or the stack must see refused operations: the kernel
    /// must not check permissions.
    OpenAsShown,
    /// The shown attributes say nothing about access: the kernel must neither check permissions nor cache names.
    NotShown,
}

/// Files for which unchanged size, mtime and ctime imply unchanged data.
///
/// The least value among the members of a stack applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimesTell {
    /// None: data may change without them.
    OfNone,
    /// Those that [say so](crate::OpenFile::times_tell_changes): the data of others may be elsewhere.
    OfSome,
    /// All.
    #[default]
    OfAll,
}

impl TimesTell {
    /// Returns the value of the two that guarantees less.
    #[must_use]
    pub const fn stacked_on(self, lower: Self) -> Self {
        if (self as u8) < lower as u8 { self } else { lower }
    }
}

impl AccessControl {
    /// Returns whether the kernel may check permissions before it calls the stack.
    pub const fn kernel_may_check(self) -> bool {
        matches!(self, Self::AsShown)
    }

    /// Returns the value of the two that guarantees less.
    #[must_use]
    pub const fn stacked_on(self, lower: Self) -> Self {
        if self as u8 > lower as u8 { self } else { lower }
    }
}

/// Properties that a file system declares. A layer's are combined with those below it by [`Properties::stacked_on`].
///
/// They are guarantees: a front end that reads `data_untouched` may let the kernel do all reading and writing by
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// File data is that of the base: reads and writes may bypass the layers (passthrough).
    pub data_untouched: bool,
    /// Names are those of the base.
    pub names_untouched: bool,
    /// Attributes are those of the base.
    pub attributes_untouched: bool,
    /// Lookup may find an object by other spellings of its name than the one listed in its directory, as with
    /// case-insensitive names.
    pub folds_names: bool,
    /// Relation between the shown attributes and the access granted.
    pub access_control: AccessControl,
    /// Every lookup must reach the stack: no name may be cached.
    pub needs_every_lookup: bool,
    /// Failed lookups must reach the stack: negative names may not be cached.
    pub needs_failed_lookups: bool,
    /// Every read and write must reach the stack with its caller, although data is untouched.
    pub needs_every_data_operation: bool,
    /// Attributes may change by themselves at any time: none may be cached.
    pub needs_fresh_attributes: bool,
    /// One file opened twice may be two files of the base: data cached for one open is not what another reads.
    pub opens_differ: bool,
    /// Files with unchanged size, mtime and ctime have unchanged data: cached data may be retained.
    pub times_tell_changes: TimesTell,
    /// Reading a file updates its access time, at least if it was not read since it was written (`relatime`).
    pub reading_changes_times: bool,
    /// Files may be backed by open files of the kernel ([`OpenFile::backing`](crate::OpenFile::backing)).
    pub has_backing_files: bool,
    /// Closing a file reports no error and releases nothing but locks: [`OpenFile::flush`](crate::OpenFile::flush) need
    /// not be called if locks are managed elsewhere.
    pub nothing_to_flush: bool,
    /// Only this stack can change the objects below: caches may be retained indefinitely.
    pub exclusive: bool,
    /// Programs outside lock the base's files too: their locks apply here, and locks acquired here apply there.
    /// Otherwise a front end may manage locks by itself.
    pub shares_locks: bool,
    /// The base checks permissions with the caller's credentials. Otherwise it acts as the server's user, and a front
    /// end that serves other users must check permissions itself (`default_permissions` of FUSE).
    pub checks_credentials: bool,
    /// Handles stay valid across a restart of the server.
    pub persistent_handles: bool,
    /// Nothing can be changed: every modifying operation returns `EROFS`.
    pub read_only: bool,
    /// The stack is to be mounted over its own base, which is then reachable only through it (FiST's overlay mounts).
    pub overlay: bool,
}

impl Properties {
    /// Properties of a layer that changes nothing and needs nothing: the starting point of a layer's declaration.
    pub const TRANSPARENT: Self = Self {
        data_untouched: true,
        names_untouched: true,
        attributes_untouched: true,
        folds_names: false,
        access_control: AccessControl::AsShown,
        needs_every_lookup: false,
        needs_failed_lookups: false,
        needs_every_data_operation: false,
        needs_fresh_attributes: false,
        opens_differ: false,
        times_tell_changes: TimesTell::OfAll,
        reading_changes_times: true,
        has_backing_files: true,
        nothing_to_flush: true,
        exclusive: true,
        shares_locks: true,
        checks_credentials: true,
        persistent_handles: true,
        read_only: false,
        overlay: false,
    };

    /// Returns the properties of a layer that declares `self` on a stack that declares `lower`: untouched only if both
    /// leave it untouched, needed if either needs it.
    #[must_use]
    pub const fn stacked_on(self, lower: Self) -> Self {
        Self {
            data_untouched: self.data_untouched && lower.data_untouched,
            names_untouched: self.names_untouched && lower.names_untouched,
            attributes_untouched: self.attributes_untouched && lower.attributes_untouched,
            folds_names: self.folds_names || lower.folds_names,
            access_control: self.access_control.stacked_on(lower.access_control),
            needs_every_lookup: self.needs_every_lookup || lower.needs_every_lookup,
            needs_failed_lookups: self.needs_failed_lookups || lower.needs_failed_lookups,
            needs_every_data_operation: self.needs_every_data_operation || lower.needs_every_data_operation,
            needs_fresh_attributes: self.needs_fresh_attributes || lower.needs_fresh_attributes,
            opens_differ: self.opens_differ || lower.opens_differ,
            times_tell_changes: self.times_tell_changes.stacked_on(lower.times_tell_changes),
            reading_changes_times: self.reading_changes_times && lower.reading_changes_times,
            has_backing_files: self.has_backing_files && lower.has_backing_files,
            nothing_to_flush: self.nothing_to_flush && lower.nothing_to_flush,
            exclusive: self.exclusive && lower.exclusive,
            shares_locks: self.shares_locks && lower.shares_locks,
            checks_credentials: self.checks_credentials && lower.checks_credentials,
            persistent_handles: self.persistent_handles && lower.persistent_handles,
            read_only: self.read_only || lower.read_only,
            overlay: self.overlay || lower.overlay,
        }
    }

    /// Returns whether the kernel may read and write the base's files by itself.
    pub const fn allows_passthrough(&self) -> bool {
        self.data_untouched && !self.needs_every_data_operation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transparent_layer_changes_nothing() {
        let base = Properties { exclusive: false, read_only: true, data_untouched: false, ..Properties::TRANSPARENT };
        assert_eq!(Properties::TRANSPARENT.stacked_on(base), base);
    }

    #[test]
    fn of_two_layers_the_one_that_promises_less_about_access_counts() {
        use AccessControl::{AsShown, NotShown, OpenAsShown};
        let declared = |access_control| Properties { access_control, ..Properties::TRANSPARENT };
        for (one, other, both) in [(AsShown, OpenAsShown, OpenAsShown), (OpenAsShown, NotShown, NotShown)] {
            assert_eq!(declared(one).stacked_on(declared(other)), declared(both));
            assert_eq!(declared(other).stacked_on(declared(one)), declared(both));
        }
    }
}

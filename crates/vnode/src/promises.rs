//! Promises of a file system: what users of a stack may rely on, and so do without asking it.

/// Relation between the mode, owner, group and access control list that a file system shows and the access that it
/// grants.
///
/// Each value on its own defines what a front end may do. Each guarantees less than the one before, so that the
/// greatest value among the members of a stack applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessControl {
    /// The shown attributes decide, as in acl(5): a front end may check permissions by them before it calls the stack,
    /// and may decide without calling it who may search a directory, open a pipe or device, or connect to a socket.
    /// Operations that reach the stack in any case, opening and changing files, may be refused in addition, to all
    /// callers alike: a read-only layer, or one that protects files, declares this.
    #[default]
    AsShown,
    /// Directories that the shown attributes let everybody search can be searched by everybody, and names there may be
    /// cached. Elsewhere other callers have access too, or the stack must see refused operations: permissions must not
    /// be checked above it.
    OpenAsShown,
    /// The shown attributes say nothing about access: permissions must not be checked above the stack, and no name may
    /// be cached.
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
    /// Returns whether permissions may be checked by the shown attributes before the stack is called.
    pub const fn may_be_checked_above(self) -> bool {
        matches!(self, Self::AsShown)
    }

    /// Returns the value of the two that guarantees less.
    #[must_use]
    pub const fn stacked_on(self, lower: Self) -> Self {
        if self as u8 > lower as u8 { self } else { lower }
    }
}

/// What a file system promises: front ends and layers above it act on it without asking.
///
/// A stack promises what each of its members promises: [`Promises::stacked_on`]. A member that promises less than it
/// could makes the stack slower; one that promises too much makes it wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// File data is that of the base: reads and writes may bypass the layers.
    pub data_untouched: bool,
    /// Names are those of the base.
    pub names_untouched: bool,
    /// Attributes are those of the base.
    pub attributes_untouched: bool,
    /// Lookup finds an object only by the names that its directories list. Not so where names fold case.
    pub exact_names: bool,
    /// All opens of a file are of one file of the base: what is cached for one open is what another reads.
    pub opens_share_data: bool,
    /// Relation between the shown attributes and the access granted.
    pub access_control: AccessControl,
    /// Files with unchanged size, mtime and ctime have unchanged data: cached data may be retained.
    pub times_tell_changes: TimesTell,
    /// Open files may have [backing files](crate::OpenFile::backing).
    pub has_backing_files: bool,
    /// Only this stack can change the objects below: caches may be retained indefinitely.
    pub exclusive: bool,
    /// Locks acquired here apply to the base's files for programs outside, and theirs apply here. Otherwise a front
    /// end may manage locks by itself.
    pub shares_locks: bool,
    /// The base checks permissions with the caller's credentials. Otherwise it acts as the server's user, and a front
    /// end that serves other users must check permissions itself.
    pub checks_credentials: bool,
    /// Handles stay valid across a restart of the server.
    pub persistent_handles: bool,
}

impl Promises {
    /// Promises of a layer that passes every call and every result on as it is.
    pub const TRANSPARENT: Self = Self {
        data_untouched: true,
        names_untouched: true,
        attributes_untouched: true,
        exact_names: true,
        opens_share_data: true,
        access_control: AccessControl::AsShown,
        times_tell_changes: TimesTell::OfAll,
        has_backing_files: true,
        exclusive: true,
        shares_locks: true,
        checks_credentials: true,
        persistent_handles: true,
    };

    /// Promises of a layer that may change all that passes through it: data, names and attributes.
    pub const OPAQUE: Self =
        Self { data_untouched: false, names_untouched: false, attributes_untouched: false, ..Self::TRANSPARENT };

    /// Returns the promises of a member that declares `self` on a stack that promises `lower`: those that both keep,
    /// and of two guarantees the weaker one.
    #[must_use]
    pub const fn stacked_on(self, lower: Self) -> Self {
        Self {
            data_untouched: self.data_untouched && lower.data_untouched,
            names_untouched: self.names_untouched && lower.names_untouched,
            attributes_untouched: self.attributes_untouched && lower.attributes_untouched,
            exact_names: self.exact_names && lower.exact_names,
            opens_share_data: self.opens_share_data && lower.opens_share_data,
            access_control: self.access_control.stacked_on(lower.access_control),
            times_tell_changes: self.times_tell_changes.stacked_on(lower.times_tell_changes),
            has_backing_files: self.has_backing_files && lower.has_backing_files,
            exclusive: self.exclusive && lower.exclusive,
            shares_locks: self.shares_locks && lower.shares_locks,
            checks_credentials: self.checks_credentials && lower.checks_credentials,
            persistent_handles: self.persistent_handles && lower.persistent_handles,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transparent_layer_promises_what_is_promised_below() {
        let below = Promises { exclusive: false, data_untouched: false, ..Promises::TRANSPARENT };
        assert_eq!(Promises::TRANSPARENT.stacked_on(below), below);
    }

    #[test]
    fn opaque_layer_leaves_nothing_untouched() {
        let both = Promises::OPAQUE.stacked_on(Promises::TRANSPARENT);
        assert!(!both.data_untouched && !both.names_untouched && !both.attributes_untouched && both.exclusive);
    }

    #[test]
    fn of_two_layers_the_one_that_promises_less_about_access_counts() {
        use AccessControl::{AsShown, NotShown, OpenAsShown};
        let declared = |access_control| Promises { access_control, ..Promises::TRANSPARENT };
        for (one, other, both) in [(AsShown, OpenAsShown, OpenAsShown), (OpenAsShown, NotShown, NotShown)] {
            assert_eq!(declared(one).stacked_on(declared(other)), declared(both));
            assert_eq!(declared(other).stacked_on(declared(one)), declared(both));
        }
    }
}

//! Settings of a union, as set by its options.

use super::branch::whiteout::WhiteoutFormat;
use super::policies::{ActionPolicy, BranchOrder, CreatePolicy};

/// Name of the layer in stack expressions.
pub(crate) const NAME: &str = "union";

/// Choices that a union's options determine.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnionSettings {
    /// Treatment of the lower objects of a name that is removed.
    pub(crate) deletion: DeletionPolicy,
    /// Format of whiteouts.
    pub(crate) whiteouts: WhiteoutFormat,
    /// Owner and permissions of copies.
    pub(crate) copy_up: CopyOwnership,
    /// Whether files are copied without their data as long as these are not about to be changed.
    pub(crate) metacopy: bool,
    /// Placement policy for new objects.
    pub(crate) create: CreatePolicy,
    /// Objects of a name to which changes of names and attributes apply.
    pub(crate) action: ActionPolicy,
    /// Space that users see.
    pub(crate) reported_space: ReportedSpace,
    /// Whether attributes report where files are, as those of mergerfs do.
    pub(crate) has_mergerfs_attributes: bool,
    /// Minimum number of free bytes, for branches without a minimum of their own: a branch with fewer gets new objects only if
    /// all have fewer.
    pub(crate) minimum_free: u64,
    /// Whether objects move on from a full branch: new objects, copies, and files that are written.
    pub(crate) moves_when_full: bool,
    /// Order in which branches are tried for a file that is written in a full one; `None` for the nearest on the left.
    pub(crate) when_full_order: Option<BranchOrder>,
}

/// Owner of a copy in another branch (Unionfs, section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CopyOwnership {
    /// The original's owner.
    #[default]
    Original,
    /// A constant owner, with permissions.
    Constant(CopyPermissions),
    /// The caller, as for a new object.
    Current,
}

/// Owner, group and permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyPermissions {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Of anything but a directory.
    pub(crate) mode: u32,
}

impl CopyPermissions {
    /// Permission bits of a directory: whoever may read it may search it.
    pub(crate) fn directory_mode(&self) -> u32 {
        self.mode | (self.mode & 0o444) >> 2
    }
}

/// Space that statfs(2) reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReportedSpace {
    /// That of the leftmost branch in which objects may be created.
    #[default]
    First,
    /// The total of all branches in which objects may be created.
    Sum,
}

/// Treatment of the instances below a deleted one (Unionfs, section 3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DeletionPolicy {
    /// A whiteout hides them.
    #[default]
    Whiteout,
    /// They are deleted too; those that cannot be deleted are hidden.
    All,
}

//! Entities outside a program: the objects of an operation, and the data that operations share.

/// Data that operations share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// The `%per_vfs` fields.
    Vfs,
    /// The `%mntdata` and `%mntflag` fields, which do not change.
    Mount,
    /// The `%per_vnode` fields of an object of the operation.
    Argument(Argument),
    /// The `%per_vnode` fields of the object in the first argument.
    Object,
    /// Mutable data of the program, by index.
    Data(usize),
}

/// An object of the operation: `$this:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Argument {
    /// Its role in the operation.
    pub role: Role,
    /// The file system: 0 is this one, 1 the first below.
    pub branch: u32,
}

/// The role of an object in its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `$this`: the object operated on; for an operation with a name, the object of that name.
    This,
    /// `$dir`: the directory in which the operation takes place.
    Directory,
    /// `$from`: the object moved by a rename.
    From,
    /// `$fromdir`: the source directory of a rename.
    FromDirectory,
    /// `$to`: the object replaced by a rename.
    To,
    /// `$todir`: the target directory of a rename.
    ToDirectory,
}

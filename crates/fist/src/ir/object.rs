//! What a program does not own: the objects that an operation is about, and the data that operations share.

/// Data that operations share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// The `%per_vfs` fields.
    Vfs,
    /// The `%mntdata` and `%mntflag` fields, which do not change.
    Mount,
    /// The `%per_vnode` fields of an object that the operation is about.
    Argument(Argument),
    /// The `%per_vnode` fields of an object that is the first of the values.
    Object,
    /// The data of the description that are written to, by their index.
    Data(usize),
}

/// An object that the operation is about: `$this:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Argument {
    /// What it is to the operation.
    pub role: Role,
    /// 0 is this file system, 1 the first below.
    pub branch: u32,
}

/// What an argument is to its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `$this`: what it is done to; of an operation with a name, what the name stands for.
    This,
    /// `$dir`: the directory that it is done in.
    Directory,
    /// `$from`: of a rename, what is moved.
    From,
    /// `$fromdir`: of a rename, where it was.
    FromDirectory,
    /// `$to`: of a rename, what is replaced.
    To,
    /// `$todir`: of a rename, where it goes.
    ToDirectory,
}

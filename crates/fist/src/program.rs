//! A program: a checked FiST program prepared for a target, for consumers that run, compile or explain it.

use std::ops::Range;

use crate::code::{Function, Integer, Site};
use crate::operations::{Operations, Part};
use crate::target::Target;
use crate::text::Span;
use crate::tree::{Access, Direction};

/// FiST programs that run as one file system: a single one, or several stacked on each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The stacked FiST programs, topmost first; at least one.
    pub levels: Vec<Level>,
    /// The structures.
    pub structures: Vec<Structure>,
    /// Data; those that are written to exist once per mount.
    pub data: Vec<Data>,
    /// Functions, including those of the rules.
    pub functions: Vec<Function>,
    /// Intrinsic and host calls. The level of the calling function makes the request.
    pub sites: Vec<Site>,
    /// The target that it was prepared for.
    pub target: Target,
}

/// One FiST program: its declarations and rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The file system's name: the prefix of its filter functions.
    pub name: String,
    /// Permitted access to files; everything if not declared.
    pub access: Option<Access>,
    /// Each operation is traced.
    pub traces: bool,
    /// Error codes that it declares.
    pub errors: Vec<(String, i32)>,
    /// Number of file systems immediately below.
    pub fan_out: u32,
    /// The file system is to be mounted over its lower file system.
    pub is_overlay: bool,
    /// The filters.
    pub filters: Filters,
    /// Structures of its auxiliary file formats.
    pub formats: Vec<usize>,
    /// Ioctls that user processes can issue.
    pub ioctls: Vec<Ioctl>,
    /// The structure of its mount data.
    pub mount: Option<usize>,
    /// The fields of its mount data that options set.
    pub mount_fields: Vec<MountField>,
    /// The structure of its per-mount data.
    pub vfs: Option<usize>,
    /// The structure of its data per object in use.
    pub vnode: Option<usize>,
    /// Its rules, in source order.
    pub rules: Vec<Rule>,
    /// Operations with rules are serialized per mount.
    pub is_serial: bool,
    /// A filter of data learns which page or chunk is the last of its file: the last one then has a form of its own,
    /// and there are no holes.
    pub marks_last: bool,
    /// Indexes of its own data in the program.
    pub data: Range<usize>,
    /// Indexes of its own functions in the program.
    pub functions: Range<usize>,
}

/// Encode and decode functions, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Encoder and decoder of a page of data.
    pub data: Option<(usize, usize)>,
    /// Encoder and decoder of a name.
    pub name: Option<(usize, usize)>,
    /// The encoded form of data differs in size.
    pub changes_size: bool,
}

impl Level {
    /// The operations that have rules.
    pub fn operations(&self) -> Operations {
        self.rules.iter().fold(Operations::default(), |all, rule| all.or(rule.operations))
    }
}

/// An ioctl that user processes can issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ioctl {
    /// Its name.
    pub name: String,
    /// Direction of its data.
    pub direction: Direction,
    /// The structure of its data.
    pub structure: usize,
    /// Its command number, as ioctl(2) takes it.
    pub command: u32,
}

/// A mount option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountField {
    /// Name of the option.
    pub name: String,
    /// Index of the field in the structure.
    pub field: usize,
    /// The field belongs to a group: the option is a boolean.
    pub is_flag: bool,
}

/// A structure: its fields one after the other, aligned as in C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<Field>,
    /// Size of the structure in bytes.
    pub size: u64,
    /// Alignment of its address.
    pub alignment: u64,
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub r#type: Type,
    /// Offset in the structure.
    pub offset: u64,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `void`.
    Void,
    /// An integer.
    Integer(Integer),
    /// An object of a file system.
    Vnode,
    /// A pointer.
    Pointer {
        /// The type pointed to.
        to: Box<Type>,
        /// The target is not written to through this pointer.
        is_const: bool,
    },
    /// An array and its length.
    Array(Box<Type>, u64),
    /// A structure, by its index.
    Structure(usize),
}

/// A data object of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its name; empty for a string.
    pub name: String,
    /// Its type.
    pub r#type: Type,
    /// Its initial bytes.
    pub bytes: Vec<u8>,
    /// The program writes to it: every mount has its own copy.
    pub is_written: bool,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its header as written: `%op:lookup:postcall`.
    pub title: String,
    /// The operations that it is for.
    pub operations: Operations,
    /// For `ioctl`, the index of the ioctl.
    pub ioctl: Option<usize>,
    /// The part of the operations.
    pub part: Part,
    /// Its body: a function.
    pub function: usize,
    /// Location in the source text.
    pub span: Span,
}

impl Program {
    /// The topmost FiST program; the only one if nothing was merged.
    ///
    /// # Panics
    /// If the program has no levels.
    pub fn topmost(&self) -> &Level {
        &self.levels[0]
    }

    /// Returns the size of a value of a type in bytes; 0 for `void`.
    pub fn size(&self, r#type: &Type) -> u64 {
        match r#type {
            Type::Void => 0,
            Type::Integer(integer) => integer.bytes.into(),
            Type::Vnode | Type::Pointer { .. } => 8,
            Type::Array(of, length) => self.size(of) * length,
            Type::Structure(index) => self.structures[*index].size,
        }
    }
}

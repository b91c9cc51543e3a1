//! A whole program in the intermediate form.

use std::ops::Range;

use super::{Constant, Expression, Function, Site, Type};
use crate::program::{Filters, MountField, Rule};
use crate::tree::{Access, Direction};

/// Checked FiST programs that form one file system: a single one, or several stacked on each other.
///
/// Their elements are in one list per kind, and are referred to by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The stacked FiST programs, topmost first; at least one.
    pub levels: Vec<Level>,
    /// The error codes that they declare.
    pub errors: Vec<DeclaredError>,
    /// Constants computed from others, which precede them.
    pub constants: Vec<Definition>,
    /// The structures. One that is a field of another precedes it.
    pub structures: Vec<Structure>,
    /// Data; those that are written to exist once per mount.
    pub data: Vec<Data>,
    /// Functions, including those of the rules.
    pub functions: Vec<Function>,
    /// Intrinsic and host calls. The level of the calling function makes the request.
    pub sites: Vec<Site>,
}

/// One FiST program: its declarations and rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The file system's name: the prefix of its filter functions.
    pub name: String,
    /// Comments before declarations and data, and after everything.
    pub comments: Vec<String>,
    /// Permitted access to files; everything if not declared.
    pub access: Option<Access>,
    /// Each operation is traced.
    pub traces: bool,
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
    /// The elements of the program that are its own.
    pub own: Own,
}

/// The elements of a program that belong to one FiST program, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Errors.
    pub errors: Range<usize>,
    /// Constants computed from others.
    pub constants: Range<usize>,
    /// Structures.
    pub structures: Range<usize>,
    /// Data.
    pub data: Range<usize>,
    /// Functions.
    pub functions: Range<usize>,
}

impl Level {
    /// Creates a level that does nothing.
    pub fn new(name: &str) -> Level {
        Level { name: name.to_owned(), fan_out: 1, ..Level::default() }
    }
}

/// An error code that a FiST program declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredError {
    /// Its name.
    pub name: String,
    /// Its number; by default one that is free on the target.
    pub number: Option<i32>,
}

/// A constant computed from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name; empty if it is anonymous.
    pub name: String,
    /// The expression that computes it.
    pub value: Expression,
}

/// An ioctl that user processes can issue. The target derives its ioctl(2) number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ioctl {
    /// Its name.
    pub name: String,
    /// Direction of its data.
    pub direction: Direction,
    /// The structure of its data.
    pub structure: usize,
    /// Its number among the ioctls of the FiST program.
    pub number: u32,
}

/// A structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Its name.
    pub name: String,
    /// Its fields, in order.
    pub fields: Vec<Field>,
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub r#type: Type,
}

/// A data object of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its name; empty for a string.
    pub name: String,
    /// Its type.
    pub r#type: Type,
    /// Its initial value.
    pub value: Initial,
    /// The program writes to it: every mount has its own copy.
    pub is_written: bool,
}

/// The initial value of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Zeros.
    Zero,
    /// Bytes, followed by zeros.
    Bytes(Vec<u8>),
    /// An integer.
    Integer(Expression),
    /// A pointer to another data object.
    Pointer(usize),
    /// Values of the first elements or fields; the others are zero.
    List(Vec<Initial>),
}

impl Program {
    /// Sets the only level, which owns everything in the program.
    pub fn with_level(mut self, mut level: Level) -> Program {
        level.own = Own {
            errors: 0..self.errors.len(),
            constants: 0..self.constants.len(),
            structures: 0..self.structures.len(),
            data: 0..self.data.len(),
            functions: 0..self.functions.len(),
        };
        self.levels = vec![level];
        self
    }

    /// Returns the name of a constant, if it has one.
    pub fn constant_name(&self, constant: Constant) -> Option<&str> {
        match constant {
            Constant::Error(name) | Constant::Flag(name) => Some(name),
            Constant::DeclaredError(index) => Some(&self.errors[index].name),
            Constant::Defined(index) => Some(self.constants[index].name.as_str()).filter(|name| !name.is_empty()),
            Constant::PageSize => Some("%pagesize"),
            Constant::Integer(_) => None,
        }
    }
}

//! A program: what a checked description is when it has been prepared for a target, for whoever runs, compiles or explains it.

use std::ops::Range;

use crate::code::{Function, Integer, Site};
use crate::operations::{Operations, Part};
use crate::target::Target;
use crate::text::Span;
use crate::tree::{Access, Direction};

/// Descriptions that can be run as one file system: one, or several of which each lies on the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The descriptions, the topmost first; there is one at least.
    pub levels: Vec<Level>,
    /// The structures.
    pub structures: Vec<Structure>,
    /// Data, of which those that are written to are the mount's.
    pub data: Vec<Data>,
    /// Functions, those of the rules among them.
    pub functions: Vec<Function>,
    /// Calls out of it. What is asked for is asked by the level of the function that calls.
    pub sites: Vec<Site>,
    /// What it was prepared for.
    pub target: Target,
}

/// One description: what it declares, and its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The file system's name: its filter functions begin with it.
    pub name: String,
    /// What may be done to files; everything if nothing is said.
    pub access: Option<Access>,
    /// Each operation is traced.
    pub traces: bool,
    /// Names for error numbers that it declares.
    pub errors: Vec<(String, i32)>,
    /// How many file systems lie immediately below.
    pub fan_out: u32,
    /// It is to be mounted over what lies below.
    pub is_overlay: bool,
    /// The filters.
    pub filters: Filters,
    /// What files of auxiliary data hold: structures.
    pub formats: Vec<usize>,
    /// Commands that programs can give.
    pub ioctls: Vec<Ioctl>,
    /// What is given when it is mounted: a structure.
    pub mount: Option<usize>,
    /// Its fields' values where they are not given.
    pub mount_fields: Vec<MountField>,
    /// Data of each mount: a structure.
    pub vfs: Option<usize>,
    /// Data of each object that is in use: a structure.
    pub vnode: Option<usize>,
    /// Its rules, in the order of the text.
    pub rules: Vec<Rule>,
    /// Operations with rules are done one at a time on a mount.
    pub is_serial: bool,
    /// A filter of data is told which page or chunk is the last of its file: that has a form of its own then, and there are no
    /// holes.
    pub marks_last: bool,
    /// Which of the program's data are its own.
    pub data: Range<usize>,
    /// Which of the program's functions are its own.
    pub functions: Range<usize>,
}

/// Functions that encode and decode, by their index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Encodes and decodes a page of data.
    pub data: Option<(usize, usize)>,
    /// Encodes and decodes a name.
    pub name: Option<(usize, usize)>,
    /// The encoded form of data has another size.
    pub changes_size: bool,
}

impl Level {
    /// The operations for which there are rules.
    pub fn operations(&self) -> Operations {
        self.rules.iter().fold(Operations::default(), |all, rule| all.or(rule.operations))
    }
}

/// A command that programs can give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ioctl {
    /// Its name.
    pub name: String,
    /// Which way its data go.
    pub direction: Direction,
    /// What they are: a structure.
    pub structure: usize,
    /// Its number, as ioctl(2) takes it.
    pub command: u32,
}

/// What can be given when the file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountField {
    /// The option's name.
    pub name: String,
    /// The field, by its index in the structure.
    pub field: usize,
    /// It is one of a group: the option is true or false.
    pub is_flag: bool,
}

/// A structure: its fields, one behind the other, aligned as C does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<Field>,
    /// Bytes of the whole.
    pub size: u64,
    /// What its address is a multiple of.
    pub alignment: u64,
}

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub r#type: Type,
    /// Where in the structure it begins.
    pub offset: u64,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Nothing.
    Void,
    /// An integer.
    Integer(Integer),
    /// An object of a file system.
    Vnode,
    /// To something of a type.
    Pointer {
        /// What it points to.
        to: Box<Type>,
        /// It is not written to through this pointer.
        is_const: bool,
    },
    /// So many of one type.
    Array(Box<Type>, u64),
    /// A structure, by its index.
    Structure(usize),
}

/// Data of the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its name; a string's is empty.
    pub name: String,
    /// Its type.
    pub r#type: Type,
    /// What it begins with.
    pub bytes: Vec<u8>,
    /// Something writes to it: every mount has its own.
    pub is_written: bool,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// As it is written, without what it does: `%op:lookup:postcall`.
    pub title: String,
    /// The operations that it is for.
    pub operations: Operations,
    /// Of `ioctl`, which.
    pub ioctl: Option<usize>,
    /// Which part of them.
    pub part: Part,
    /// What it does: a function.
    pub function: usize,
    /// Where it stands.
    pub span: Span,
}

impl Program {
    /// The topmost description, which is the only one where nothing was merged.
    ///
    /// # Panics
    /// If there is none.
    pub fn topmost(&self) -> &Level {
        &self.levels[0]
    }

    /// Bytes of a value of a type; 0 for one of nothing.
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

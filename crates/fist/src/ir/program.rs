//! A whole program in the intermediate form.

use std::ops::Range;

use super::{Constant, Expression, Function, Site, Type};
use crate::program::{Filters, MountField, Rule};
use crate::tree::{Access, Direction};

/// Checked descriptions that are one file system: one, or several of which each lies on the next.
///
/// What they are made of stands in one list of each kind, and is known by its index there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The descriptions, the topmost first; there is one at least.
    pub levels: Vec<Level>,
    /// Errors that they declare.
    pub errors: Vec<OwnError>,
    /// Constants that are computed of others, which stand before them.
    pub constants: Vec<Definition>,
    /// The structures. Those that are fields of others stand before them.
    pub structures: Vec<Structure>,
    /// Data, of which those that are written to are the mount's.
    pub data: Vec<Data>,
    /// Functions, those of the rules among them.
    pub functions: Vec<Function>,
    /// Calls out of it. What is asked for is asked by the level of the function that calls.
    pub sites: Vec<Site>,
}

/// One description: what it declares, and its rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The file system's name: its filter functions begin with it.
    pub name: String,
    /// Comments that stand before declarations and data, and behind all.
    pub comments: Vec<String>,
    /// What may be done to files; everything if nothing is said.
    pub access: Option<Access>,
    /// Each operation is traced.
    pub traces: bool,
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
    /// What of the program is its own.
    pub own: Own,
}

/// What of a program belongs to one description, by the indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Errors.
    pub errors: Range<usize>,
    /// Constants that are computed of others.
    pub constants: Range<usize>,
    /// Structures.
    pub structures: Range<usize>,
    /// Data.
    pub data: Range<usize>,
    /// Functions.
    pub functions: Range<usize>,
}

impl Level {
    /// One that does nothing.
    pub fn new(name: &str) -> Level {
        Level { name: name.to_owned(), fan_out: 1, ..Level::default() }
    }
}

/// An error that a description declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnError {
    /// Its name.
    pub name: String,
    /// Its number; otherwise one that is free on the target.
    pub number: Option<i32>,
}

/// A constant that is computed of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name; empty for one that has none.
    pub name: String,
    /// What it is computed by.
    pub value: Expression,
}

/// A command that programs can give. Its number for ioctl(2) is made of this by the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ioctl {
    /// Its name.
    pub name: String,
    /// Which way its data go.
    pub direction: Direction,
    /// What they are: a structure.
    pub structure: usize,
    /// Its number among the description's.
    pub number: u32,
}

/// A structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Its name.
    pub name: String,
    /// Its fields, in their order.
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

/// Data of the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its name; a string's is empty.
    pub name: String,
    /// Its type.
    pub r#type: Type,
    /// What it begins with.
    pub value: Initial,
    /// Something writes to it: every mount has its own.
    pub is_written: bool,
}

/// What data begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Zeros.
    Zero,
    /// These bytes, and zeros behind them.
    Bytes(Vec<u8>),
    /// An integer.
    Integer(Expression),
    /// A pointer to other data.
    Pointer(usize),
    /// Those of the first elements or fields; the others are zero.
    List(Vec<Initial>),
}

impl Program {
    /// That of one description, whose level is made of it.
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

    /// What a constant is called where it has a name.
    pub fn constant_name(&self, constant: Constant) -> Option<&str> {
        match constant {
            Constant::Error(name) | Constant::Flag(name) => Some(name),
            Constant::OwnError(index) => Some(&self.errors[index].name),
            Constant::Defined(index) => Some(self.constants[index].name.as_str()).filter(|name| !name.is_empty()),
            Constant::PageSize => Some("%pagesize"),
            Constant::Integer(_) => None,
        }
    }
}

//! The intermediate form: a description that has been checked, every name resolved and every expression typed.
//!
//! It is a tree of statements and expressions. The interpreter runs it and is the reference; the compiled tier must do the same.
//!
//! **Memory.** A value is an integer, a pointer or a vnode. Variables that are never pointed to are in registers; others, arrays
//! and structures are bytes of the function's frame. A pointer carries the bounds of what it points into. What is shared by
//! the operations of a mount (`$vfs`, `%per_vnode` fields, data that are written to) is never behind a pointer that a variable
//! holds: it is read and written by [`Place::Shared`], and given whole to built-in functions.

use crate::text::Span;

/// An integer's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Integer {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// Below zero there is nothing.
    pub is_unsigned: bool,
}

impl Integer {
    /// `char`.
    pub const CHAR: Integer = Integer { bytes: 1, is_unsigned: false };
    /// `int`.
    pub const INT: Integer = Integer { bytes: 4, is_unsigned: false };
    /// `unsigned`.
    pub const UNSIGNED: Integer = Integer { bytes: 4, is_unsigned: true };
    /// `long`.
    pub const LONG: Integer = Integer { bytes: 8, is_unsigned: false };
    /// `unsigned long`.
    pub const UNSIGNED_LONG: Integer = Integer { bytes: 8, is_unsigned: true };

    /// What is left of a value in this type, sign or zero extended.
    pub const fn wrap(self, value: i64) -> i64 {
        match (self.bytes, self.is_unsigned) {
            (1, false) => value as i8 as i64,
            (1, true) => value as u8 as i64,
            (2, false) => value as i16 as i64,
            (2, true) => value as u16 as i64,
            (4, false) => value as i32 as i64,
            (4, true) => value as u32 as i64,
            _ => value,
        }
    }

    /// The type that C computes with: at least an `int`.
    pub const fn promoted(self) -> Integer {
        if self.bytes < 4 { Integer::INT } else { self }
    }

    /// The type of two operands together (C, "usual arithmetic conversions").
    pub const fn with(self, other: Integer) -> Integer {
        let (one, other) = (self.promoted(), other.promoted());
        if one.bytes > other.bytes || (one.bytes == other.bytes && one.is_unsigned) { one } else { other }
    }
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
    /// To how many bytes each of what it points to takes is in the type pointed to.
    Pointer {
        /// What it points to.
        to: Box<Type>,
        /// It is not written to through this pointer.
        is_const: bool,
    },
    /// So many of one type.
    Array(Box<Type>, u64),
    /// A structure, by its index in [`Program::structures`].
    Structure(usize),
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

/// A register of a function.
pub type Register = usize;

/// An expression that computes an integer: the value is always within its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Which.
    pub kind: ExpressionKind,
    /// Its type.
    pub r#type: Type,
    /// Where it stands, for messages when it is stopped.
    pub span: Span,
}

/// The expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpressionKind {
    /// An integer.
    Constant(i64),
    /// A pointer to nothing.
    Null,
    /// What a register holds.
    Register(Register),
    /// What lies at a place.
    Load(Place),
    /// A pointer to memory.
    Address(Memory),
    /// A pointer so many elements of `size` bytes further on.
    Offset {
        /// From where.
        pointer: Box<Expression>,
        /// How many elements.
        count: Box<Expression>,
        /// Bytes of each.
        size: u64,
    },
    /// The field or element at a place of what a pointer points to, with bounds of its own.
    Part {
        /// To what.
        pointer: Box<Expression>,
        /// Where in it the part begins, bytes.
        offset: u64,
        /// Bytes of the part.
        size: u64,
    },
    /// How many elements of `size` bytes lie between two pointers into the same.
    Distance(Box<Expression>, Box<Expression>, u64),
    /// An integer as another integer.
    Convert(Box<Expression>),
    /// 1 if the value is not 0 and not null, else 0.
    Truth(Box<Expression>),
    /// 0 if the value is not 0 and not null, else 1.
    Not(Box<Expression>),
    /// All bits turned around.
    Complement(Box<Expression>),
    /// Two integers of the same type.
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// Two integers of the same type, or pointers: 1 or 0.
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// The second only if the first is not 0.
    And(Box<Expression>, Box<Expression>),
    /// The second only if the first is 0.
    Or(Box<Expression>, Box<Expression>),
    /// One of two.
    Conditional(Box<Expression>, Box<Expression>, Box<Expression>),
    /// The first for what it does, the second for its value.
    Sequence(Box<Expression>, Box<Expression>),
    /// Writes to a register; the value is what was written.
    SetRegister(Register, Box<Expression>),
    /// Writes to a place; the value is what was written.
    Store(Place, Box<Expression>),
    /// Reads, computes with the value as `ExpressionKind::Old`, writes: in one step where it is shared.
    Update {
        /// What is changed.
        target: Target,
        /// The new value.
        new: Box<Expression>,
        /// The value of the whole is the one before.
        is_postfix: bool,
    },
    /// Within an update, what was there.
    Old,
    /// A function of the description.
    Call(usize, Vec<Expression>),
    /// A function of the language.
    BuiltIn(crate::builtins::BuiltIn, Vec<Argument>),
    /// `%uid` and its like.
    Global(crate::builtins::Global),
    /// A number that the operation was called with, or that an attribute is.
    Number(Vnode, crate::builtins::Attribute),
    /// A string that the operation was called with, or that an attribute is.
    String(Vnode, crate::builtins::Attribute),
}

/// What an update changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A register.
    Register(Register),
    /// A place.
    Place(Place),
}

/// Where an integer lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where a pointer points.
    Pointer(Box<Expression>),
    /// In what the mount's operations share.
    Shared(Shared, Box<Position>),
}

/// What the operations of a mount share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shared {
    /// The `%per_vfs` fields.
    Vfs,
    /// The `%mntdata` and `%mntflag` fields, which do not change.
    Mount,
    /// The `%per_vnode` fields of an object.
    Vnode(Vnode),
    /// The data of the description that are written to.
    Data,
}

/// Where in shared data something lies: within bounds that are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Where it begins, bytes.
    pub offset: u64,
    /// Elements further on: which, how many there are, and bytes of each.
    pub indexes: Vec<(Expression, u64, u64)>,
}

/// Memory that a pointer can be made to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Bytes of the function's frame.
    Frame {
        /// Where they begin.
        offset: u64,
        /// How many.
        size: u64,
    },
    /// Data of the description that nothing writes to, by their index in [`Program::constants`].
    Constant(usize),
}

/// An object that an operation is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vnode {
    /// One of its arguments, here or below: 0 is this file system, 1 the first below.
    Argument(Role, u32),
    /// What a register holds.
    Register(Register),
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

/// What a built-in function is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing: its default.
    Missing,
    /// An integer or a pointer.
    Value(Expression),
    /// An object.
    Vnode(Vnode),
    /// Shared data, whole: so many bytes at a position.
    Shared(Shared, Position, u64),
    /// A register to write an answer to.
    Register(Register),
    /// The name of a field of an ioctl or of a format: its index, and the field's.
    Field(usize, usize),
}

/// Operators on integers. Results wrap around; a division by zero stops the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// For what it does.
    Expression(Expression),
    /// Bytes of the frame become zero: variables begin so.
    Clear {
        /// Where they begin.
        offset: u64,
        /// How many.
        size: u64,
    },
    /// All of them.
    Block(Vec<Statement>),
    /// One of two.
    If(Expression, Box<Statement>, Box<Statement>),
    /// As long as the condition holds, which is asked before, or behind each round.
    Loop {
        /// Asked before each round.
        before: Option<Expression>,
        /// Done in each.
        body: Box<Statement>,
        /// Done behind each, also after a `continue`.
        step: Option<Expression>,
        /// Asked behind each.
        after: Option<Expression>,
        /// For messages.
        span: Span,
    },
    /// The statements from the one on that belongs to a value.
    Switch {
        /// The value.
        value: Expression,
        /// Values, and with which of the parts they begin.
        cases: Vec<(i64, usize)>,
        /// With which it begins otherwise; with none if that is past the last.
        otherwise: usize,
        /// What is done.
        parts: Vec<Vec<Statement>>,
    },
    /// Out of the innermost loop or switch.
    Break,
    /// To the next round.
    Continue,
    /// The end of the function.
    Return(Option<Expression>),
}

/// A function, or what a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The registers that its parameters come in.
    pub parameters: Vec<(Register, Type)>,
    /// What it answers.
    pub result: Type,
    /// The types of its registers.
    pub registers: Vec<Type>,
    /// Bytes of its frame.
    pub frame_bytes: u64,
    /// What it does.
    pub body: Vec<Statement>,
    /// Where it stands.
    pub span: Span,
}

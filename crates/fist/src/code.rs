//! Code: what a program in the [intermediate form](crate::ir) is when it has been prepared for a target, for whoever runs it.
//!
//! Each size, offset and constant is a number here, and names are for messages only.
//!
//! **Every value is an `i64`**: an integer within its type, a pointer, or the number of an object in the table of the run.
//! Variables that are never pointed to are registers; others are objects of memory. A pointer holds the number of a region
//! of memory and an offset in it, and each access is checked against the bounds of the region: a pointer that was made in
//! any way whatever reaches nothing else. All that is not computing on such values is a [`Site`]: a call out of the
//! program, which both tiers make in the same way.

use crate::builtins::{Attribute, BuiltIn, Global, OperationValue};
pub use crate::ir::{Area, Argument, Comparison, Integer, Operator, Register, Role};
use crate::text::Span;

/// What computes a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// An integer, or 0 for a pointer to nothing.
    Constant(i64),
    /// What a register holds.
    Register(Register),
    /// A pointer to the function's object of this number.
    Object(usize),
    /// A pointer to data of the description that nothing writes to, by their index in the program.
    Data(usize),
    /// The integer that a pointer points to.
    Load(Box<Expression>, Integer, Span),
    /// A pointer so many elements further on.
    Element {
        /// From where.
        pointer: Box<Expression>,
        /// How many elements.
        index: Box<Expression>,
        /// Bytes of each.
        size: u64,
        /// The index must be less than this, where it is known.
        length: Option<u64>,
        /// For messages.
        span: Span,
    },
    /// A pointer so many bytes further on, within the same bounds.
    Field(Box<Expression>, u64),
    /// How many elements of so many bytes lie between two pointers into the same region.
    Distance(Box<Expression>, Box<Expression>, u64, Span),
    /// An integer as one of this type.
    Convert(Box<Expression>, Integer),
    /// 1 if the value is 0, else 0.
    Not(Box<Expression>),
    /// Two integers of the same type.
    Binary(Operator, Integer, Box<Expression>, Box<Expression>, Span),
    /// Two integers of the same type, or pointers: 1 or 0.
    Compare(Comparison, Integer, Box<Expression>, Box<Expression>),
    /// 1 if both are not 0: the second is computed only if the first is not 0.
    And(Box<Expression>, Box<Expression>),
    /// 1 if one is not 0: the second is computed only if the first is 0.
    Or(Box<Expression>, Box<Expression>),
    /// The second if the first is not 0, else the third.
    Conditional(Box<Expression>, Box<Expression>, Box<Expression>),
    /// The first for what it does, the second for its value.
    Sequence(Box<Expression>, Box<Expression>),
    /// Writes to a register; the value is what was written.
    Set(Register, Box<Expression>),
    /// Writes an integer to where the pointer points; the value is what was written.
    Store(Box<Expression>, Integer, Box<Expression>, Span),
    /// Copies so many bytes to the first pointer from the second; the value is the first.
    Copy(Box<Expression>, Box<Expression>, u64, Span),
    /// A function of the description, by its index in the program.
    Call(usize, Vec<Expression>, Span),
    /// A call out of the program, by its index there, and the values that it is given.
    Site(usize, Vec<Expression>, Span),
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// For what it does.
    Expression(Expression),
    /// The function's object of this number becomes zero: variables begin so.
    Clear(usize),
    /// All of them.
    Block(Vec<Statement>),
    /// The first if the value is not 0, else the second.
    If(Expression, Box<Statement>, Box<Statement>),
    /// As long as the conditions hold.
    Loop {
        /// Asked before each round.
        before: Option<Expression>,
        /// Done in each.
        body: Box<Statement>,
        /// Done behind each, also after a `continue`.
        step: Option<Expression>,
        /// Asked behind each.
        after: Option<Expression>,
        /// What a round counts against the limit of a run: 1, and more where much is done in it.
        weight: u32,
        /// For messages.
        span: Span,
    },
    /// The statements from the one on that belongs to a value.
    Switch {
        /// The value.
        value: Expression,
        /// Values, and with which of the parts they begin: the lowest value first, each once.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// So many parameters, which come in the first registers.
    pub parameters: usize,
    /// So many registers. All but the parameters begin with 0.
    pub registers: usize,
    /// Its objects of memory: bytes of each. They begin with zeros.
    pub objects: Vec<u64>,
    /// What it does. At the end it answers 0.
    pub body: Vec<Statement>,
    /// How deeply what it does is nested: what a call of it takes from the room of a run.
    pub depth: u32,
    /// What a call of it counts against the limit of a run, as a round of a loop does.
    pub weight: u32,
    /// Where it stands.
    pub span: Span,
}

/// A call out of the program: what it asks for. The values that it is given are those of its operands, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// A function of the language.
    BuiltIn(BuiltIn, Vec<Operand>),
    /// `%uid` and its like.
    Global(Global),
    /// What the operation was called with: a number, or a pointer to a string.
    OperationValue(OperationValue),
    /// Assigns what the operation is called with below; the value is what was assigned.
    Assign(OperationValue, Operand),
    /// An attribute of the object of the operand: a number, or a pointer to a string.
    Attribute(Attribute, Operand),
    /// An object that the operation is about, as a value.
    Object(Argument),
    /// An integer of shared data.
    Load(Shared, Integer),
    /// Writes an integer of shared data; the last of the values is what is written.
    Store(Shared, Integer),
    /// Computes with an integer of shared data and the last of the values, in one step.
    Update {
        /// Where.
        shared: Shared,
        /// The type of what lies there.
        integer: Integer,
        /// How.
        operator: Operator,
        /// The type that is computed with.
        computed: Integer,
        /// The value is the one before.
        is_postfix: bool,
    },
}

/// How a call out takes its next values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// Nothing is given: no value.
    Missing,
    /// An integer: one value.
    Integer(Integer),
    /// A pointer, perhaps to a variable or field of so many bytes, beyond which nothing is reached: one value.
    Pointer(Option<u64>),
    /// A pointer to where an integer of this type is written: one value.
    Answer(Integer),
    /// An object, the value of a variable: one value.
    Object,
    /// An object that the operation is about: no value.
    Argument(Argument),
    /// A name that stands for an object of the operation's directory: a pointer, one value.
    Named,
    /// Shared data, whole: a value for each of the indexes.
    Shared(Shared, u64),
    /// Shared data, where an integer is written: a value for each of the indexes.
    SharedAnswer(Shared, Integer),
    /// The name of an ioctl or a format, and of a field, by their indexes: no value.
    Field(usize, usize),
    /// Text that is known: no value.
    Text(Vec<u8>),
}

/// Something in data that operations share: within bounds that are checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// In which.
    pub area: Area,
    /// Where it begins, bytes.
    pub offset: u64,
    /// Elements further on, each by a value of the call: how many there are, and bytes of each.
    pub indexes: Vec<(u64, u64)>,
}

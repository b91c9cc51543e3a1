//! Code: a program in the [intermediate form](crate::ir) after it has been prepared for a target, as its consumers see
//! it.
//!
//! Each size, offset and constant is a number here, and names serve messages only.
//!
//! **Every value is an `i64`**: an integer within its type, a pointer, or an index into the object table of the run.
//! Variables whose address is never taken are registers; others are objects in memory. A pointer holds a region number
//! and an offset, and each access is checked against the bounds of the region: a pointer, however it was computed,
//! reaches nothing else. Everything other than computing on such values is a [`Site`]: an intrinsic or host call, which
//! both tiers make in the same way.

use crate::builtins::{Attribute, BuiltIn, Global, OperationValue};
pub use crate::ir::{Area, Argument, Comparison, Integer, Operator, Register, Role};
use crate::text::Span;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// An integer, or 0 for a null pointer.
    Constant(i64),
    /// The value of a register.
    Register(Register),
    /// A pointer to the object with this index in the function.
    Object(usize),
    /// A pointer to constant data of the program, by index.
    Data(usize),
    /// The integer that a pointer points to.
    Load(Box<Expression>, Integer, Span),
    /// A pointer advanced by a number of elements.
    Element {
        /// The base pointer.
        pointer: Box<Expression>,
        /// Number of elements.
        index: Box<Expression>,
        /// Size of an element in bytes.
        size: u64,
        /// Exclusive upper bound of the index, where known.
        length: Option<u64>,
        /// Location for messages.
        span: Span,
    },
    /// A pointer advanced by a number of bytes, within the same bounds.
    Field(Box<Expression>, u64),
    /// Number of elements of the given size between two pointers into the same region.
    Distance(Box<Expression>, Box<Expression>, u64, Span),
    /// Conversion of an integer to this type.
    Convert(Box<Expression>, Integer),
    /// 1 if the value is 0, else 0.
    Not(Box<Expression>),
    /// A binary operator on two integers of the same type.
    Binary(Operator, Integer, Box<Expression>, Box<Expression>, Span),
    /// A comparison of two integers of the same type or of two pointers: 1 or 0.
    Compare(Comparison, Integer, Box<Expression>, Box<Expression>),
    /// 1 if both are not 0; the second is evaluated only if the first is not 0.
    And(Box<Expression>, Box<Expression>),
    /// 1 if either is not 0; the second is evaluated only if the first is 0.
    Or(Box<Expression>, Box<Expression>),
    /// The second if the first is not 0, else the third.
    Conditional(Box<Expression>, Box<Expression>, Box<Expression>),
    /// Evaluates the first for its side effects and yields the second.
    Sequence(Box<Expression>, Box<Expression>),
    /// Writes to a register; yields the value written.
    Set(Register, Box<Expression>),
    /// Writes an integer through the pointer; yields the value written.
    Store(Box<Expression>, Integer, Box<Expression>, Span),
    /// Copies bytes from the second pointer to the first; yields the first.
    Copy(Box<Expression>, Box<Expression>, u64, Span),
    /// A call of a function of the program, by index.
    Call(usize, Vec<Expression>, Span),
    /// An intrinsic or host call, by its index in the program, and its arguments.
    Site(usize, Vec<Expression>, Span),
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// An expression evaluated for its side effects.
    Expression(Expression),
    /// Zeroes the object with this index in the function: the initial state of a variable.
    Clear(usize),
    /// A sequence of statements.
    Block(Vec<Statement>),
    /// The first if the value is not 0, else the second.
    If(Expression, Box<Statement>, Box<Statement>),
    /// A loop that runs while the conditions hold.
    Loop {
        /// Condition evaluated before each iteration.
        before: Option<Expression>,
        /// Body of the loop.
        body: Box<Statement>,
        /// Evaluated after each iteration, also after a `continue`.
        step: Option<Expression>,
        /// Condition evaluated after each iteration.
        after: Option<Expression>,
        /// Fuel cost of an iteration: 1, and more where an iteration does much work.
        weight: u32,
        /// Location for messages.
        span: Span,
    },
    /// A switch: runs the parts from the matching one on.
    Switch {
        /// The value switched on.
        value: Expression,
        /// Case values with the index of their first part, in ascending order and without duplicates.
        cases: Vec<(i64, usize)>,
        /// Index of the first part if no case matches; past the last part to run none.
        otherwise: usize,
        /// The statements of each part.
        parts: Vec<Vec<Statement>>,
    },
    /// Leaves the innermost loop or switch.
    Break,
    /// Continues with the next iteration.
    Continue,
    /// Returns from the function.
    Return(Option<Expression>),
}

/// A function, or the body of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Number of parameters, which arrive in the first registers.
    pub parameters: usize,
    /// Number of registers. All but the parameters start as 0.
    pub registers: usize,
    /// Size in bytes of each of its objects in memory. They start zeroed.
    pub objects: Vec<u64>,
    /// Its body. Falling off the end returns 0.
    pub body: Vec<Statement>,
    /// Nesting depth of the body: what a call takes from the depth limit of a run.
    pub depth: u32,
    /// Fuel cost of a call, as for a loop iteration.
    pub weight: u32,
    /// Location in the source text.
    pub span: Span,
}

/// An intrinsic or host call: its kind. Its arguments are those of its operands, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// A built-in function.
    BuiltIn(BuiltIn, Vec<Operand>),
    /// `%uid` and the like.
    Global(Global),
    /// An argument of the operation: a number, or a pointer to a string.
    OperationValue(OperationValue),
    /// Assigns an argument that the operation passes to the lower layer; yields the value assigned.
    Assign(OperationValue, Operand),
    /// An attribute of the operand's object: a number, or a pointer to a string.
    Attribute(Attribute, Operand),
    /// An object of the operation, as a value.
    Object(Argument),
    /// An integer in shared data.
    Load(Shared, Integer),
    /// Writes an integer to shared data; the last argument is the value.
    Store(Shared, Integer),
    /// Atomically updates an integer in shared data with the last argument.
    Update {
        /// Location of the integer.
        shared: Shared,
        /// Its type in memory.
        integer: Integer,
        /// The operator.
        operator: Operator,
        /// The type that the operator computes in.
        computed: Integer,
        /// The expression yields the previous value.
        is_postfix: bool,
    },
}

/// How an intrinsic or host call consumes its next arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// An omitted argument: no value.
    Missing,
    /// An integer: one value.
    Integer(Integer),
    /// A pointer, perhaps to a variable or field of the given number of bytes, beyond which nothing is accessed: one
    /// value.
    Pointer(Option<u64>),
    /// A pointer to an integer of this type that receives the result: one value.
    OutInteger(Integer),
    /// An object held in a variable: one value.
    Object,
    /// An object of the operation: no value.
    Argument(Argument),
    /// The name of an entry in the directory of the operation: a pointer, one value.
    Named,
    /// Shared data as a whole: one value per index.
    Shared(Shared, u64),
    /// Shared data that receives an integer: one value per index.
    SharedOutInteger(Shared, Integer),
    /// A field of an ioctl or format, by the indexes of both: no value.
    Field(usize, usize),
    /// Constant text: no value.
    Text(Vec<u8>),
}

/// A bounds-checked location in data that operations share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// The area.
    pub area: Area,
    /// Offset in bytes.
    pub offset: u64,
    /// Array dimensions, each indexed by an argument of the call: number of elements, and size of an element in bytes.
    pub indexes: Vec<(u64, u64)>,
}

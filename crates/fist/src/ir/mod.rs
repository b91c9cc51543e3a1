//! The intermediate form: a checked FiST program with every name resolved and every conversion explicit.
//!
//! It is **typed and named**, so that a back end can emit source text in another language: variables, functions,
//! structures and constants keep their source names, accesses name what they access, and comments are kept. It is
//! **target-neutral**: everything that differs between targets (sizes and offsets of fields, error numbers, flags, the
//! page size, ioctl numbers, byte order) appears by name, and becomes a number when a program is
//! [prepared](crate::prepare) for a [target](crate::target).
//!
//! It is independent of its consumers. Everything other than computing is a [`Site`]: an intrinsic or host call with
//! known effects.

mod integer;
mod merge;
mod object;
pub mod print;
mod program;
mod visit;

pub use integer::{Comparison, Integer, Operator};
pub use object::{Area, Argument, Role};
pub use program::{Data, DeclaredError, Definition, Field, Initial, Ioctl, Level, Own, Program, Structure};
pub(crate) use visit::{each, each_expression};

use crate::builtins::{Attribute, BuiltIn, Global, OperationValue};
use crate::text::Span;

/// A register of a function.
pub type Register = usize;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    Array(Box<Type>, Constant),
    /// A structure, by its index in the program.
    Structure(usize),
}

/// A number that is known at the latest when a program is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// A target-independent number.
    Integer(i64),
    /// An error number by name: `EACCES`.
    Error(&'static str),
    /// A flag or file type by name: `S_IFDIR`, `O_APPEND`.
    Flag(&'static str),
    /// An error that the program declares, by its index in the program.
    DeclaredError(usize),
    /// The page size in bytes.
    PageSize,
    /// A constant computed from others, by its index in the program.
    Defined(usize),
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldReference {
    /// The structure, by its index in the program.
    pub structure: usize,
    /// The field, by its index in the structure.
    pub field: usize,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expression {
    /// A number, or 0 for a null pointer.
    Constant(Constant),
    /// The size of a type in bytes.
    Size(Type),
    /// The value of a register.
    Register(Register),
    /// A pointer to the object with this index in the function.
    Object(usize),
    /// A pointer to constant data of the program, by index.
    Data(usize),
    /// The value that a pointer points to: an integer or a pointer of this type.
    Load(Box<Expression>, Type, Span),
    /// A pointer advanced by a number of elements.
    Element {
        /// The base pointer.
        pointer: Box<Expression>,
        /// Number of elements.
        index: Box<Expression>,
        /// The element type.
        of: Type,
        /// Exclusive upper bound of the index, where known.
        length: Option<Constant>,
        /// Location for messages.
        span: Span,
    },
    /// A pointer to a field of the structure that the given pointer points to, within the same bounds.
    Field(Box<Expression>, FieldReference),
    /// Number of elements of a type between two pointers into the same region.
    Distance(Box<Expression>, Box<Expression>, Type, Span),
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
    /// Writes a value of a type through the pointer; yields the value written.
    Store(Box<Expression>, Type, Box<Expression>, Span),
    /// Copies a value of a type from the second pointer to the first; yields the first.
    Copy(Box<Expression>, Box<Expression>, Type, Span),
    /// A call of a function of the program, by index.
    Call(usize, Vec<Expression>, Span),
    /// An intrinsic or host call, by its index in the program, and its arguments.
    Site(usize, Vec<Expression>, Span),
}

impl Expression {
    /// Creates a target-independent number.
    pub const fn integer(value: i64) -> Expression {
        Expression::Constant(Constant::Integer(value))
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// A comment from the source.
    Comment(String),
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
        /// Location for messages.
        span: Span,
    },
    /// A switch: runs the parts from the matching one on.
    Switch {
        /// The value switched on.
        value: Expression,
        /// The type of the value and of the cases.
        integer: Integer,
        /// Case values with the index of their first part.
        cases: Vec<(Expression, usize)>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name; the title of a rule.
    pub name: String,
    /// The comments that precede it.
    pub comments: Vec<String>,
    /// The return type.
    pub result: Type,
    /// Number of parameters, which arrive in the first registers.
    pub parameters: usize,
    /// Its registers. All but the parameters start as 0.
    pub registers: Vec<Variable>,
    /// Its objects in memory. They start zeroed.
    pub objects: Vec<Variable>,
    /// Its body. Falling off the end returns 0.
    pub body: Vec<Statement>,
    /// Location in the source text.
    pub span: Span,
}

impl Default for Function {
    /// A function that does nothing.
    fn default() -> Function {
        Function {
            name: String::new(),
            comments: Vec::new(),
            result: Type::Void,
            parameters: 0,
            registers: Vec::new(),
            objects: Vec::new(),
            body: Vec::new(),
            span: Span::default(),
        }
    }
}

/// A variable of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its source name; empty for a temporary.
    pub name: String,
    /// Its type.
    pub r#type: Type,
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
    /// A value in shared data: an integer or a pointer.
    Load(Shared),
    /// Writes a value to shared data; the last argument is the value.
    Store(Shared),
    /// Atomically updates an integer in shared data with the last argument.
    Update {
        /// Location of the integer.
        shared: Shared,
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
    /// A pointer, perhaps to a variable or field of this type, beyond which nothing is accessed: one value.
    Pointer(Option<Type>),
    /// A pointer to an integer of this type that receives the result: one value.
    OutInteger(Integer),
    /// An object held in a variable: one value.
    Object,
    /// An object of the operation: no value.
    Argument(Argument),
    /// The name of an entry in the directory of the operation: a pointer, one value.
    Named,
    /// Shared data as a whole: one value per index.
    Shared(Shared),
    /// Shared data that receives an integer: one value per index.
    SharedOutInteger(Shared),
    /// A field of an ioctl or format: no value.
    Field(FieldReference),
    /// Constant text: no value.
    Text(Vec<u8>),
}

/// A bounds-checked location in data that operations share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// The area.
    pub area: Area,
    /// The path from the area to the location.
    pub path: Vec<Step>,
    /// The type of the value there.
    pub r#type: Type,
}

/// A step from an aggregate to a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Selects a field.
    Field(FieldReference),
    /// Selects an element, by an argument of the call, which must be less than the length.
    Element {
        /// The element type.
        of: Type,
        /// Number of elements.
        length: Constant,
    },
}

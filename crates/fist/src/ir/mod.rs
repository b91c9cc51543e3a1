//! The intermediate form: what a checked description says, with every name resolved and every conversion written out.
//!
//! It is **typed and named**, so that a text in another language can be written from it: variables, functions, structures and
//! constants keep what the description calls them, accesses say what is accessed, and comments are kept. It is **neutral**:
//! what differs from one target to the next (sizes and places of fields, error numbers, flags, bytes of a page, numbers of ioctls,
//! byte order) stands in it by name, and becomes a number when a program is
//! [prepared](crate::prepare) for a [target](crate::target).
//!
//! It knows nothing of who runs it. All that is not computing is a [`Site`]: a call out of the program, of which it is known
//! what it may do.

mod integer;
mod merge;
mod object;
pub mod print;
mod program;
mod visit;

pub use integer::{Comparison, Integer, Operator};
pub use object::{Area, Argument, Role};
pub use program::{Data, Definition, Field, Initial, Ioctl, Level, Own, OwnError, Program, Structure};
pub(crate) use visit::{each, each_expression};

use crate::builtins::{Attribute, BuiltIn, Global, OperationValue};
use crate::text::Span;

/// A register of a function.
pub type Register = usize;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    Array(Box<Type>, Constant),
    /// A structure, by its index in the program.
    Structure(usize),
}

/// A number that is known at the latest when a program is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// The same everywhere.
    Integer(i64),
    /// The number of an error: `EACCES`.
    Error(&'static str),
    /// A bit or a kind by its name: `S_IFDIR`, `O_APPEND`.
    Flag(&'static str),
    /// An error of the description's own, by its index in the program.
    OwnError(usize),
    /// Bytes of a page.
    PageSize,
    /// One that is computed of others, by its index in the program.
    Defined(usize),
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldOf {
    /// The structure, by its index in the program.
    pub structure: usize,
    /// The field, by its index there.
    pub field: usize,
}

/// What computes a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expression {
    /// A number, or 0 for a pointer to nothing.
    Constant(Constant),
    /// Bytes of a value of a type.
    Size(Type),
    /// What a register holds.
    Register(Register),
    /// A pointer to the function's object of this number.
    Object(usize),
    /// A pointer to data of the description that nothing writes to, by their index in the program.
    Data(usize),
    /// The value of this type that a pointer points to: an integer or a pointer.
    Load(Box<Expression>, Type, Span),
    /// A pointer so many elements further on.
    Element {
        /// From where.
        pointer: Box<Expression>,
        /// How many elements.
        index: Box<Expression>,
        /// What they are.
        of: Type,
        /// The index must be less than this, where it is known.
        length: Option<Constant>,
        /// For messages.
        span: Span,
    },
    /// A pointer to a field of the structure that the pointer is to, within the same bounds.
    Field(Box<Expression>, FieldOf),
    /// How many elements of a type lie between two pointers into the same region.
    Distance(Box<Expression>, Box<Expression>, Type, Span),
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
    /// Writes a value of a type to where the pointer points; the value is what was written.
    Store(Box<Expression>, Type, Box<Expression>, Span),
    /// Copies a value of a type to the first pointer from the second; the value is the first.
    Copy(Box<Expression>, Box<Expression>, Type, Span),
    /// A function of the description, by its index in the program.
    Call(usize, Vec<Expression>, Span),
    /// A call out of the program, by its index there, and the values that it is given.
    Site(usize, Vec<Expression>, Span),
}

impl Expression {
    /// A number that is the same everywhere.
    pub const fn integer(value: i64) -> Expression {
        Expression::Constant(Constant::Integer(value))
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// A comment that stands here.
    Comment(String),
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
        /// For messages.
        span: Span,
    },
    /// The statements from the one on that belongs to a value.
    Switch {
        /// The value, and its type.
        value: Expression,
        /// The type of the value and of the cases.
        integer: Integer,
        /// Values, and with which of the parts they begin.
        cases: Vec<(Expression, usize)>,
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
    /// Its name; of a rule, its title.
    pub name: String,
    /// Comments that stand before it.
    pub comments: Vec<String>,
    /// What it answers.
    pub result: Type,
    /// So many parameters, which come in the first registers.
    pub parameters: usize,
    /// Its registers. All but the parameters begin with 0.
    pub registers: Vec<Variable>,
    /// Its objects of memory. They begin with zeros.
    pub objects: Vec<Variable>,
    /// What it does. At the end it answers 0.
    pub body: Vec<Statement>,
    /// Where it stands.
    pub span: Span,
}

impl Default for Function {
    /// One that does nothing.
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
    /// What the description calls it; empty for one that it has no name for.
    pub name: String,
    /// Its type.
    pub r#type: Type,
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
    /// A value of shared data: an integer or a pointer.
    Load(Shared),
    /// Writes a value of shared data; the last of the values is what is written.
    Store(Shared),
    /// Computes with an integer of shared data and the last of the values, in one step.
    Update {
        /// Where.
        shared: Shared,
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
    /// A pointer, perhaps to a variable or field of this type, beyond which nothing is reached: one value.
    Pointer(Option<Type>),
    /// A pointer to where an integer of this type is written: one value.
    Answer(Integer),
    /// An object, the value of a variable: one value.
    Object,
    /// An object that the operation is about: no value.
    Argument(Argument),
    /// A name that stands for an object of the operation's directory: a pointer, one value.
    Named,
    /// Shared data, whole: a value for each of the indexes.
    Shared(Shared),
    /// Shared data, where an integer is written: a value for each of the indexes.
    SharedAnswer(Shared),
    /// A field of an ioctl or a format: no value.
    Field(FieldOf),
    /// Text that is known: no value.
    Text(Vec<u8>),
}

/// Something in data that operations share: within bounds that are checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// In which.
    pub area: Area,
    /// Which part of that.
    pub path: Vec<Step>,
    /// The type of what is there.
    pub r#type: Type,
}

/// A step into data: from a whole to a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To a field.
    Field(FieldOf),
    /// To an element, by a value of the call, which must be less than the length.
    Element {
        /// What elements are.
        of: Type,
        /// How many there are.
        length: Constant,
    },
}

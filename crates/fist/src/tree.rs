//! The tree of a description, as it was written.

use crate::text::{Span, Spanned};

/// A name in the text.
pub type Name = Spanned<String>;

/// A whole description: its four sections (FiST, section 2.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// What stands between `%{` and `%}`: constants, types, and functions that are only announced.
    pub preamble: Vec<Item>,
    /// What the file system is like, and the data that belong to it.
    pub declarations: Vec<Declaration>,
    /// What it does at which operations.
    pub rules: Vec<Rule>,
    /// Functions and data that rules use.
    pub code: Vec<Item>,
}

/// A FiST declaration (section 2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// What it declares.
    pub kind: DeclarationKind,
    /// The whole of it.
    pub span: Span,
}

/// What a declaration declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclarationKind {
    /// `accessmode`: what may be done to files.
    AccessMode(Spanned<Access>),
    /// `debug`: whether each operation is traced.
    Debug(Spanned<bool>),
    /// `operations`: whether those with rules are done one at a time.
    Operations(Spanned<bool>),
    /// `errorcode`: a name for an error number, a new one if none is given.
    ErrorCode(Name, Option<Spanned<u64>>),
    /// `fanout`: how many file systems lie immediately below.
    FanOut(Spanned<u64>),
    /// `mntstyle`: whether the mount hides what lies below.
    MountStyle(Spanned<Style>),
    /// `filter`: what is encoded below.
    Filter(Spanned<Filter>),
    /// `fileformat`: what a file of auxiliary data holds.
    FileFormat(Name, Vec<Field>),
    /// `ioctl`: a command that programs can give, and its number, if it is to have this one.
    Ioctl(Direction, Name, Option<Spanned<u64>>, Vec<Field>),
    /// `mntdata`: what is given when the file system is mounted.
    MountData(Vec<Field>),
    /// `mntflag`: the same by the name of one group.
    MountFlag(Name, Vec<Field>),
    /// `per_vfs`: data of each mount.
    PerVfs(Vec<Field>),
    /// `per_vnode`: data of each object that is in use.
    PerVnode(Vec<Field>),
}

/// What may be done to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access {
    ReadOnly,
    WriteOnly,
    ReadWrite,
}

/// Whether the mount hides what lies below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Style {
    Regular,
    Overlay,
}

/// What is encoded below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The data of files.
    Data,
    /// The names of objects.
    Name,
    /// The data of files, whose encoded form has another size.
    Size,
}

/// Which way the data of an ioctl go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the program.
    FromUser,
    /// To the program.
    ToUser,
    /// From it and to it: also where nothing is said.
    #[default]
    Both,
}

/// A field of declared data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its type, of which arrays are made.
    pub r#type: TypeName,
    /// Its name.
    pub name: Name,
    /// The lengths of arrays, the outermost first.
    pub lengths: Vec<Expression>,
}

/// A rule (section 2.3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which set of operations: `op`, `delops`.
    pub set: Name,
    /// Which of them: `all`, `name`, `unlink`.
    pub operation: Name,
    /// Of `ioctl`, which.
    pub ioctl: Option<Name>,
    /// `precall`, `call` or `postcall`; `call` where nothing is said.
    pub part: Option<Name>,
    /// What is done.
    pub body: Block,
    /// The whole rule.
    pub span: Span,
}

/// Something outside of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: ItemKind,
    /// The whole of it.
    pub span: Span,
}

/// What can stand outside of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// `#include`: the compiler knows what it needs to.
    Include(String),
    /// `#define NAME expression`.
    Constant(Name, Expression),
    /// `typedef type name;`.
    TypeAlias(Variable),
    /// `struct name { … };`.
    Structure(Name, Vec<Field>),
    /// `enum { A, B = 3 };`.
    Enumeration(Vec<(Name, Option<Expression>)>),
    /// Data.
    Data(Vec<Variable>),
    /// A function, or with no body one that is only announced.
    Function(Function),
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// What it answers.
    pub result: TypeName,
    /// How many pointers its result is behind.
    pub result_pointers: u32,
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub parameters: Vec<Variable>,
    /// What it does; nothing: it is announced.
    pub body: Option<Block>,
}

/// A type without the pointers and arrays made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// `const`: it is not written to.
    pub is_const: bool,
    /// Which.
    pub base: BaseType,
    /// Where it stands.
    pub span: Span,
}

/// The types that the language has, and those that descriptions name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseType {
    /// `void`.
    Void,
    /// An integer of so many bytes.
    Integer {
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// Below zero there is nothing.
        is_unsigned: bool,
    },
    /// `struct name`.
    Structure(String),
    /// `vnode`: an object of a file system.
    Vnode,
    /// A name that a `typedef` gave, or `page_t`.
    Named(String),
}

/// A variable that is declared: of a function, a parameter, or data outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its type, of which pointers and arrays are made.
    pub r#type: TypeName,
    /// How many `*` stand before its name.
    pub pointers: u32,
    /// Its name; nothing in an announced function's parameter.
    pub name: Option<Name>,
    /// The lengths of arrays, the outermost first; one may be left out where a value tells it.
    pub lengths: Vec<Option<Expression>>,
    /// What it begins with.
    pub value: Option<Initializer>,
    /// The whole of it.
    pub span: Span,
}

/// What a variable begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initializer {
    /// One value.
    Value(Expression),
    /// Those of an array's elements or a structure's fields, in braces.
    List(Vec<Initializer>, Span),
}

/// Statements in braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// In their order.
    pub statements: Vec<Statement>,
    /// The braces included.
    pub span: Span,
}

/// A statement of C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Which.
    pub kind: StatementKind,
    /// The whole of it.
    pub span: Span,
}

/// The statements.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StatementKind {
    Empty,
    Expression(Expression),
    Declaration(Vec<Variable>),
    Block(Block),
    If { condition: Expression, then: Box<Statement>, otherwise: Option<Box<Statement>> },
    While { condition: Expression, body: Box<Statement> },
    DoWhile { body: Box<Statement>, condition: Expression },
    For { first: Box<Statement>, condition: Option<Expression>, step: Option<Expression>, body: Box<Statement> },
    Switch { value: Expression, body: Vec<SwitchPart> },
    Break,
    Continue,
    Return(Option<Expression>),
}

/// Labels of a `switch` and what follows them, up to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPart {
    /// The values; `None` is `default`.
    pub labels: Vec<(Option<Expression>, Span)>,
    /// What is done from here on.
    pub statements: Vec<Statement>,
}

/// An expression of C, or of FiST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Which.
    pub kind: ExpressionKind,
    /// The whole of it.
    pub span: Span,
    /// How many expressions lie in each other, itself counted.
    pub depth: u32,
}

impl Expression {
    /// An expression of these parts.
    pub fn new(kind: ExpressionKind, span: Span) -> Expression {
        let mut deepest = 0;
        kind.parts(&mut |part| deepest = deepest.max(part.depth));
        Expression { kind, span, depth: deepest + 1 }
    }
}

impl ExpressionKind {
    /// Shows the expressions that it is made of.
    pub fn parts<'t>(&'t self, see: &mut dyn FnMut(&'t Expression)) {
        use ExpressionKind as E;
        match self {
            E::Wrong
            | E::Integer { .. }
            | E::Character(_)
            | E::Text(_)
            | E::Name(_)
            | E::Argument { .. }
            | E::Global(_) => {}
            E::Unary(_, of)
            | E::Step { target: of, .. }
            | E::Member { of, .. }
            | E::Cast { value: of, .. }
            | E::SizeOfValue(of) => see(of),
            E::Binary(_, one, other) | E::Assign(_, one, other) | E::Index(one, other) | E::Sequence(one, other) => {
                see(one);
                see(other);
            }
            E::Conditional(condition, then, otherwise) => {
                [condition, then, otherwise].into_iter().for_each(|part| see(part));
            }
            E::Call { arguments, .. } => arguments.iter().for_each(see),
            E::SizeOfType { lengths, .. } => lengths.iter().for_each(see),
        }
    }
}

/// The expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ExpressionKind {
    /// What could not be read: told already.
    Wrong,
    Integer {
        value: u64,
        is_unsigned: bool,
        is_long: bool,
    },
    Character(u8),
    /// Strings side by side are one.
    Text(Vec<u8>),
    Name(String),
    /// `$dir:1`: an argument of the operation, or with `$vfs` the mount's data.
    Argument {
        name: String,
        branch: Option<u32>,
    },
    /// `%uid`.
    Global(String),
    Unary(UnaryOperator, Box<Expression>),
    Binary(BinaryOperator, Box<Expression>, Box<Expression>),
    /// With an operator, `a op= b`.
    Assign(Option<BinaryOperator>, Box<Expression>, Box<Expression>),
    /// `++a`, `a--`: by how much, and whether the value is the one before.
    Step {
        target: Box<Expression>,
        is_increment: bool,
        is_postfix: bool,
    },
    Conditional(Box<Expression>, Box<Expression>, Box<Expression>),
    Index(Box<Expression>, Box<Expression>),
    /// `a.b`, or with `is_arrow` `a->b`.
    Member {
        of: Box<Expression>,
        name: Name,
        is_arrow: bool,
    },
    Call {
        function: Name,
        arguments: Vec<Expression>,
    },
    Cast {
        to: TypeName,
        pointers: u32,
        value: Box<Expression>,
    },
    SizeOfType {
        of: TypeName,
        pointers: u32,
        lengths: Vec<Expression>,
    },
    SizeOfValue(Box<Expression>),
    /// `a, b`.
    Sequence(Box<Expression>, Box<Expression>),
}

/// Operators before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UnaryOperator {
    Plus,
    Negate,
    Not,
    Complement,
    AddressOf,
    Dereference,
}

/// Operators between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOperator {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
}

//! The syntax tree of a FiST program.

use crate::text::{Span, Spanned};

/// A name in the source text.
pub type Name = Spanned<String>;

/// A whole FiST program: its four sections (FiST, section 2.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The part between `%{` and `%}`: constants, types, and function declarations.
    pub preamble: Vec<Item>,
    /// The properties of the file system and its data.
    pub declarations: Vec<Declaration>,
    /// The rules.
    pub rules: Vec<Rule>,
    /// Functions and data for the rules.
    pub code: Vec<Item>,
}

/// A FiST declaration (section 2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Its kind.
    pub kind: DeclarationKind,
    /// Its location.
    pub span: Span,
}

/// Kinds of declarations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclarationKind {
    /// `accessmode`: permitted access to files.
    AccessMode(Spanned<Access>),
    /// `debug`: whether each operation is traced.
    Debug(Spanned<bool>),
    /// `operations`: whether operations with rules are serialized.
    Operations(Spanned<bool>),
    /// `errorcode`: a name for an error number; a new one if no number is given.
    ErrorCode(Name, Option<Spanned<u64>>),
    /// `fanout`: number of file systems immediately below.
    FanOut(Spanned<u64>),
    /// `mntstyle`: whether the mount hides its lower file system.
    MountStyle(Spanned<Style>),
    /// `filter`: what is stored encoded in the lower file system.
    Filter(Spanned<Filter>),
    /// `fileformat`: the contents of an auxiliary file.
    FileFormat(Name, Vec<Field>),
    /// `ioctl`: an ioctl that user processes can issue, and optionally its number.
    Ioctl(Direction, Name, Option<Spanned<u64>>, Vec<Field>),
    /// `mntdata`: data passed at mount time.
    MountData(Vec<Field>),
    /// `mntflag`: flags passed at mount time, under the name of a group.
    MountFlag(Name, Vec<Field>),
    /// `per_vfs`: data of each mount.
    PerVfs(Vec<Field>),
    /// `per_vnode`: data of each object in use.
    PerVnode(Vec<Field>),
}

/// Permitted access to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access {
    ReadOnly,
    WriteOnly,
    ReadWrite,
}

/// Whether the mount hides its lower file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Style {
    Regular,
    Overlay,
}

/// The target of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The data of files.
    Data,
    /// The names of objects.
    Name,
    /// The data of files, if the encoded form differs in size.
    Size,
}

/// Direction of an ioctl's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the user process.
    FromUser,
    /// To the user process.
    ToUser,
    /// Both ways; also the default.
    #[default]
    Both,
}

/// A field of declared data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its element type.
    pub r#type: TypeName,
    /// Its name.
    pub name: Name,
    /// Array lengths, outermost first.
    pub lengths: Vec<Expression>,
}

/// A rule (section 2.3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The set of operations: `op`, `delops`.
    pub set: Name,
    /// The operations within the set: `all`, `name`, `unlink`.
    pub operation: Name,
    /// The ioctl, for `ioctl`.
    pub ioctl: Option<Name>,
    /// `precall`, `call` or `postcall`; `call` by default.
    pub part: Option<Name>,
    /// Its body.
    pub body: Block,
    /// Its location.
    pub span: Span,
}

/// An item at file scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its kind.
    pub kind: ItemKind,
    /// Its location.
    pub span: Span,
}

/// Kinds of items at file scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// `#include`: ignored, since the compiler has the definitions built in.
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
    /// A function, or a function declaration if it has no body.
    Function(Function),
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The base of its return type.
    pub result: TypeName,
    /// Number of pointers in its return type.
    pub result_pointers: u32,
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub parameters: Vec<Variable>,
    /// Its body; `None` in a declaration.
    pub body: Option<Block>,
}

/// A type name, without pointers and arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// `const`: not written to.
    pub is_const: bool,
    /// The base type.
    pub base: BaseType,
    /// Its location.
    pub span: Span,
}

/// Types of the language, and type names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseType {
    /// `void`.
    Void,
    /// An integer type.
    Integer {
        /// Size in bytes: 1, 2, 4 or 8.
        bytes: u8,
        /// It has no negative values.
        is_unsigned: bool,
    },
    /// `struct name`.
    Structure(String),
    /// `vnode`: an object of a file system.
    Vnode,
    /// A name defined by a `typedef`, or `page_t`.
    Named(String),
}

/// A declared variable: local, a parameter, or data at file scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The type without pointers and arrays.
    pub r#type: TypeName,
    /// Number of `*` before its name.
    pub pointers: u32,
    /// Its name; may be missing for a parameter in a function declaration.
    pub name: Option<Name>,
    /// Array lengths, outermost first; one may be omitted if the initializer determines it.
    pub lengths: Vec<Option<Expression>>,
    /// Its initializer.
    pub value: Option<Initializer>,
    /// Its location.
    pub span: Span,
}

/// An initializer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initializer {
    /// A single value.
    Value(Expression),
    /// A braced list for the elements of an array or the fields of a structure.
    List(Vec<Initializer>, Span),
}

/// Statements in braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The statements, in order.
    pub statements: Vec<Statement>,
    /// Its location, including the braces.
    pub span: Span,
}

/// A statement of C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its kind.
    pub kind: StatementKind,
    /// Its location.
    pub span: Span,
}

/// Kinds of statements.
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

/// Labels of a `switch` and the statements up to the next labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPart {
    /// The label values; `None` is `default`.
    pub labels: Vec<(Option<Expression>, Span)>,
    /// The statements after the labels.
    pub statements: Vec<Statement>,
}

/// An expression of C, or of FiST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Its kind.
    pub kind: ExpressionKind,
    /// Its location.
    pub span: Span,
    /// Nesting depth, counting itself.
    pub depth: u32,
}

impl Expression {
    /// Creates an expression from its parts.
    pub fn new(kind: ExpressionKind, span: Span) -> Expression {
        let mut deepest = 0;
        kind.parts(&mut |part| deepest = deepest.max(part.depth));
        Expression { kind, span, depth: deepest + 1 }
    }
}

impl ExpressionKind {
    /// Visits its direct operands.
    pub fn parts<'t>(&'t self, visit: &mut dyn FnMut(&'t Expression)) {
        use ExpressionKind as E;
        match self {
            E::Invalid
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
            | E::SizeOfValue(of) => visit(of),
            E::Binary(_, one, other) | E::Assign(_, one, other) | E::Index(one, other) | E::Sequence(one, other) => {
                visit(one);
                visit(other);
            }
            E::Conditional(condition, then, otherwise) => {
                [condition, then, otherwise].into_iter().for_each(|part| visit(part));
            }
            E::Call { arguments, .. } => arguments.iter().for_each(visit),
            E::SizeOfType { lengths, .. } => lengths.iter().for_each(visit),
        }
    }
}

/// Kinds of expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ExpressionKind {
    /// An unparsable expression: already reported.
    Invalid,
    Integer {
        value: u64,
        is_unsigned: bool,
        is_long: bool,
    },
    Character(u8),
    /// Adjacent strings are concatenated.
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
    /// With an operator, the compound assignment `a op= b`.
    Assign(Option<BinaryOperator>, Box<Expression>, Box<Expression>),
    /// `++a`, `a--`: the increment, and whether the previous value is the result.
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

/// Unary operators.
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

/// Binary operators.
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

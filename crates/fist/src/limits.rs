//! Limits of a FiST program: the checker reports one that is longer, deeper or has more of something, so that any other
//! compiles in bounded time and on a stack of bounded size.

/// Maximum length of a FiST program in bytes.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;
/// Maximum number of tokens: words, numbers, strings and punctuators.
pub const MAX_TOKENS: usize = 1 << 17;
/// Maximum length of a name in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Maximum number of lexical diagnostics; the text after the last one is not read.
pub(crate) const MAX_LEXICAL_DIAGNOSTICS: usize = 1000;
/// Maximum nesting depth of statements, expressions and braced initializers: the parts of an expression count alike,
/// however they come to be nested.
pub const MAX_NESTING_DEPTH: u32 = 256;
/// Maximum number of pointers and arrays in a type, including those from a `typedef`.
pub const MAX_TYPE_DEPTH: u32 = 32;
/// Maximum number of rules.
pub const MAX_RULES: usize = 1024;
/// Maximum number of functions.
pub const MAX_FUNCTIONS: usize = 4096;
/// Maximum number of parameters of a function.
pub const MAX_PARAMETERS: usize = 64;
/// Maximum number of fields of a structure, and of all mount data together.
pub const MAX_FIELDS: usize = 1024;
/// Maximum number of error codes that a program declares.
pub const MAX_ERROR_CODES: usize = 511;
/// Maximum number of ioctls, which is what their numbers can encode, and of file formats.
pub const MAX_IOCTLS_OR_FORMATS: usize = 255;
/// Maximum number of data objects of the last section and strings, together.
pub const MAX_DATA_OBJECTS: usize = 4096;
/// Their maximum total size in bytes.
pub const MAX_DATA_BYTES: u64 = 16 << 20;
/// Maximum size of an array or structure in bytes.
pub const MAX_OBJECT_BYTES: u64 = 16 << 20;
/// Maximum size of the `per_vnode` data in bytes.
pub const MAX_VNODE_DATA_BYTES: u64 = 64 << 10;
/// Maximum number of expressions visited by the checker, some more than once.
pub(crate) const MAX_EXPRESSION_VISITS: u32 = 1 << 19;
/// Maximum number of expressions in the lowered functions together.
pub(crate) const MAX_LOWERED_EXPRESSIONS: u64 = 1 << 19;
/// Spelling suggestions: maximum number of diagnostics that get one, maximum name length in bytes, and maximum number
/// of candidates, so a search is never long.
pub(crate) const SUGGESTION_LIMITS: (usize, usize, usize) = (100, 32, 500);

//! Limits of a FiST program: the checker reports one that is longer, deeper or has more of something, so that any other
//! compiles in bounded time and on a stack of bounded size.

/// Maximum length of a FiST program in bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Maximum number of tokens: words, numbers, strings and punctuators.
pub const TOKENS_MAX: usize = 1 << 17;
/// Maximum length of a name in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Maximum number of lexical diagnostics; the text after the last one is not read.
pub(crate) const PROBLEMS_MAX: usize = 1000;
/// Maximum nesting depth of statements, expressions and braced initializers: the parts of an expression count alike,
/// however they come to be nested.
pub const DEPTH_MAX: u32 = 256;
/// Maximum number of pointers and arrays in a type, including those from a `typedef`.
pub const TYPE_DEPTH_MAX: u32 = 32;
/// Maximum number of rules.
pub const RULES_MAX: usize = 1024;
/// Maximum number of functions.
pub const FUNCTIONS_MAX: usize = 4096;
/// Maximum number of parameters of a function.
pub const PARAMETERS_MAX: usize = 64;
/// Maximum number of fields of a structure, and of all mount data together.
pub const FIELDS_MAX: usize = 1024;
/// Maximum number of error codes that a program declares.
pub const ERRORS_MAX: usize = 511;
/// Maximum number of ioctls, which is what their numbers can encode, and of file formats.
pub const DECLARED_MAX: usize = 255;
/// Maximum number of data objects of the last section and strings, together.
pub const DATA_MAX: usize = 4096;
/// Their maximum total size in bytes.
pub const DATA_BYTES_MAX: u64 = 16 << 20;
/// Maximum size of an array or structure in bytes.
pub const OBJECT_BYTES_MAX: u64 = 16 << 20;
/// Maximum size of the `per_vnode` data in bytes.
pub const VNODE_BYTES_MAX: u64 = 64 << 10;
/// Maximum number of expressions visited by the checker, some more than once.
pub(crate) const CHECKS_MAX: u32 = 1 << 19;
/// Maximum number of expressions in the lowered functions together.
pub(crate) const MADE_MAX: u64 = 1 << 19;
/// Spelling suggestions: maximum number of diagnostics that get one, maximum name length in bytes, and maximum number
/// of candidates, so a search is never long.
pub(crate) const PROPOSED_MAX: (usize, usize, usize) = (100, 32, 500);

//! Limits of a description: one that is longer, deeper or has more of something is told, so that any other is compiled in
//! bounded time, and on a stack of bounded size.

/// The longest description, bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Most words, numbers, strings and marks of a description.
pub const TOKENS_MAX: usize = 1 << 17;
/// The longest name, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Most problems of single characters and words that a text is read with; what follows is not read.
pub(crate) const PROBLEMS_MAX: usize = 1000;
/// How deep statements, expressions and values in braces lie in each other: the parts of an expression count alike, however
/// they come to lie in each other.
pub const DEPTH_MAX: u32 = 256;
/// How many pointers and arrays a type is made of, those that a `typedef` gives it included.
pub const TYPE_DEPTH_MAX: u32 = 32;
/// Most rules.
pub const RULES_MAX: usize = 1024;
/// Most functions.
pub const FUNCTIONS_MAX: usize = 4096;
/// Most parameters of a function.
pub const PARAMETERS_MAX: usize = 64;
/// Most fields of a structure, and of what is given at mount together.
pub const FIELDS_MAX: usize = 1024;
/// Most errors of a description's own.
pub const ERRORS_MAX: usize = 511;
/// Most ioctls, which is what their numbers hold, and most file formats.
pub const DECLARED_MAX: usize = 255;
/// Most data of the last section and strings, together.
pub const DATA_MAX: usize = 4096;
/// Most bytes of them.
pub const DATA_BYTES_MAX: u64 = 16 << 20;
/// The largest array or structure, bytes.
pub const OBJECT_BYTES_MAX: u64 = 16 << 20;
/// The most bytes of `per_vnode`.
pub const VNODE_BYTES_MAX: u64 = 64 << 10;
/// Most expressions that are looked at in a description, some more than once.
pub(crate) const CHECKS_MAX: u32 = 1 << 19;
/// Most expressions that are made of a description, in all its functions.
pub(crate) const MADE_MAX: u64 = 1 << 19;
/// Names are proposed for so many problems, of so many bytes, from among so many: a search is never long.
pub(crate) const PROPOSED_MAX: (usize, usize, usize) = (100, 32, 500);

//! The stack expression, and the one function that builds a stack from it.
//!
//! An expression names a base and the layers on it, bottom first, as in a shell pipeline: `/srv/data | audit | readonly`.
//! [`syntax`] turns the text into a tree that remembers the column of every word, and back.

pub mod suggest;
pub mod syntax;

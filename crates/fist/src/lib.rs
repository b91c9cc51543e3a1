//! FiST: a language that describes stackable file systems (E. Zadok and J. Nieh, "FiST: A Language for Stackable File Systems").

pub mod diagnostic;
pub mod lexer;
pub mod parser;
pub mod text;
pub mod token;
pub mod tree;

//! FiST: a language that describes stackable file systems (E. Zadok and J. Nieh, "FiST: A Language for Stackable File Systems").

pub mod arithmetic;
pub mod builtins;
pub mod calls;
pub mod check;
pub mod ciphers;
pub mod compiler;
mod depth;
pub mod diagnostic;
pub mod format;
pub mod interpreter;
pub mod ir;
pub mod lexer;
pub mod memory;
pub mod operations;
pub mod parser;
pub mod program;
pub mod stop;
pub mod text;
pub mod token;
pub mod tree;
mod walk;

//! The sample FiST programs written by hand in Rust, to compare code sizes: FiST, section 7.1, table 1.
//!
//! Each is equivalent to the program of its name in `examples/fist`, and the same tests run on all three.

pub mod lines;
pub mod scratch;
pub mod sizes;
pub mod template;

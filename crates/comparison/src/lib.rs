//! The sample descriptions written by hand in Rust, to compare the work with: FiST, section 7.1, table 1.
//!
//! Each does what the description of its name in `examples/fist` does, and the same tests run on all three.

pub mod lines;
pub mod scratch;
pub mod sizes;
pub mod template;

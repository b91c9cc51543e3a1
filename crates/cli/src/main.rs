//! The plyfs command.
fn main() {}

//! Benchmarks: workloads timed on a mount and beside it on the lower file system and on peers.
fn main() {}

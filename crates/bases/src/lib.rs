//! Bases: the bottoms of stacks, which turn the outside world into vnodes.

#[cfg(feature = "mem")]
pub mod mem;

//! Bases: the bottom layers of stacks, which turn the outside world into vnodes.

#[cfg(feature = "mem")]
mod allocator;
#[cfg(feature = "device")]
pub mod device;
#[cfg(feature = "dir")]
pub mod dir;
#[cfg(feature = "fat")]
pub mod fat;
#[cfg(feature = "iso")]
pub mod iso;
#[cfg(feature = "mem")]
pub mod mem;
#[cfg(any(feature = "mem", feature = "fat", feature = "iso"))]
mod option_values;
#[cfg(any(feature = "mem", feature = "fat", feature = "iso"))]
mod unix;

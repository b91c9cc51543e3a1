//! Disk formats under images that mean nothing: whatever an image says, every operation ends within bounds, and without a panic.
//!
//! An [`Input`] is an image in few bytes. [`fat()`] and [`iso()`] do with it everything that there is to do. Inputs come from a kept
//! corpus: damaged by chance in the tests, and by programs that are guided by coverage (`make fuzz-images`), which extend it.

mod changes;
pub mod corpus;
mod device;
mod fat;
mod input;
mod iso;
mod mutate;
mod walk;

pub use fat::fat;
pub use input::Input;
pub use iso::iso;
pub use mutate::mutate;

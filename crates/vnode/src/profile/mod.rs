//! Profiling: the time that each part of a stack takes by itself for the requests that are sampled.
//!
//! A base, or a layer that implements [`Vnode`](crate::Vnode), [`OpenFile`](crate::OpenFile) or
//! [`OpenDirectory`](crate::OpenDirectory) itself, names its objects' [`Part`] and hands them out by [`vnode`],
//! [`open_file`] and [`open_directory`]; layers built on [`Layer`](crate::layer::Layer) need not. The time of calls below
//! is charged to the parts below. A part that has its own threads work is charged for the time that it waits for them.

mod accounting;
mod wrapper;

pub(crate) use accounting::enter_with;
pub use accounting::watch;
pub use wrapper::{Part, open_directory, open_file, vnode};

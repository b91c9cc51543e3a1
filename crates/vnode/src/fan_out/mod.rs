//! The fan-out template: several file systems as one, on which a layer joins them.
//!
//! [`join`] makes one file system of several, its branches. An object of it has a *branch object* in each branch that has the
//! same name there, and stands for the first of them, the primary one. A [`Routing`] decides where operations go: reads to one
//! branch, changes to the primary branch or to all. The template keeps the branch objects of an object together, makes a change
//! in several branches in the same order for all callers, continues without a branch that fails, and creates handles and inode
//! numbers that differ between branches.
//!
//! A fan-out layer is a [`Layer`](crate::layer::Layer) over the joined file system: it overrides what it changes like any other
//! layer, and reaches branch objects by [`FanOutVnode::of`]. A mirror needs no more than a routing:
//!
//! ```
//! use plyfs_vnode::fan_out::{Changes, Routing};
//!
//! /// Keeps every branch the same.
//! struct Mirror;
//!
//! impl Routing for Mirror {
//!     fn changes(&self) -> Changes {
//!         Changes::InAll
//!     }
//! }
//! ```

mod file;
mod file_system;
mod handle;
mod health;
mod object;
mod operations;
mod routing;

pub use file::FanOutFile;
pub use file_system::join;
pub use handle::MAX_BRANCHES;
pub use health::BranchHealth;
pub use object::FanOutVnode;
pub use routing::{Changes, PrimaryOnly, Routing};

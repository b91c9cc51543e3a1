//! The layer template: a layer consists of what it changes, and the template provides the rest.
//!
//! The Wrapfs template for the vnode interface (Zadok, Badulescu, Shender: *Extending File Systems Using Stackable
//! Templates*, section 2.1). A layer implements [`Layer`], every method of which has a default, and [`stack`] puts it on
//! a file system:
//!
//! ```
//! use plyfs_vnode::layer::{Layer, LayerVnode, Operation};
//! use plyfs_vnode::{Caller, Errno, Needs, Promises, Result};
//!
//! /// Refuses every change.
//! struct ReadOnly;
//!
//! impl Layer for ReadOnly {
//!     type State = ();
//!
//!     fn kind(&self) -> &'static str {
//!         "readonly"
//!     }
//!
//!     fn promises(&self) -> Promises {
//!         Promises::TRANSPARENT
//!     }
//!
//!     fn needs(&self) -> Needs {
//!         Needs { read_only: true, ..Needs::NONE }
//!     }
//!
//!     fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
//!         if operation.modifies() { Err(Errno::EROFS) } else { Ok(()) }
//!     }
//! }
//! ```
//!
//! There are two ways to intercept. **Hooks** concern one thing wherever it occurs: names, data blocks, attributes,
//! callers, access control, observation; one override serves every operation that involves it. **Operations** are
//! overridden one at a time, and reach what they replace through the `forward_…` methods of [`LayerVnode`] and
//! [`LayerFile`], which apply the hooks, call the lower vnode and wrap its result.
//!
//! Each operation consists of [`Layer::admit`], the operation itself and [`Layer::observe`]; a layer that acts before,
//! after or instead of every operation in one place overrides [`Layer::around`], which defines this sequence.

mod block_map;
mod blocks;
mod change;
mod data;
mod directory;
mod entry;
mod file;
mod file_system;
mod filled_directory;
mod operation;
mod own_entries;
mod own_file;
mod path;
mod scratch;
mod shape;
mod state;
mod template;
mod vnode;

pub use file_system::{LayerFileSystem, stack};
pub use operation::Operation;
pub use own_entries::{EntryOrigin, OwnEntries};
pub use own_file::{read_own_file, write_own_file};
pub use shape::{Block, BlockForm, DataShape, Holes, MappedBlock};
pub use state::{LayerState, VnodeAndFile};
pub use template::{Layer, LayerDirectory, LayerFile, LayerVnode};

//! The vnode interface that every base, layer and front end of Plyfs speaks.
//!
//! Calls go down, results go up. A [`FileSystem`] has a root [`Vnode`]; vnodes provide operations named after system
//! calls; open returns an [`OpenFile`] or an [`OpenDirectory`]. All operations are synchronous, take the [`Caller`],
//! and may be called from many threads at once. A base implements them from scratch; a layer is built on the layer
//! template, which forwards everything that its author does not change.

mod attributes;
mod buffer;
mod caller;
mod cancellation;
mod claim;
mod cookie;
mod errno;
pub mod fan_out;
mod file_system;
mod flags;
mod handle;
mod inode_number;
mod keyed_locks;
mod latency;
pub mod layer;
mod live_table;
mod lock;
mod lock_ranges;
mod lock_table;
mod name;
mod needs;
mod notifiers;
mod open_directory;
mod open_file;
mod overlays;
mod process;
mod process_files;
pub mod profile;
pub mod progress;
mod promises;
mod properties;
pub mod request;
mod rewriting;
mod sharded;
pub mod shortage;
mod threads;
mod transfer;
mod vnode;

pub use attributes::{Attributes, Device, FileKind, SetAttributes, SetTime, StatFs, Timestamp};
pub use buffer::zeros;
pub use caller::Caller;
pub use cancellation::{Cancellation, CancellationSource};
pub use claim::{Claim, ClaimFlag};
pub use cookie::Cookie;
pub use errno::{Errno, Result};
pub use file_system::{Control, ControlError, Description, FileSystem, FileSystemRef, KeptAccessTimes, Notifier};
pub use flags::{AccessMode, AllocateMode, OpenFlags, RenameMode, SeekTarget, XattrMode};
pub use handle::{HANDLE_MAX, Handle};
pub use inode_number::InodeNumber;
pub use keyed_locks::{KeyedGuard, KeyedLocks};
pub use latency::Latency;
pub use live_table::LiveTable;
pub use lock::{LOCK_RANGES_MAX, Lock, LockFamily, LockKind, LockOwner};
pub use lock_ranges::{LockRange, LockRanges};
pub use lock_table::LockTable;
pub use name::{NAME_MAX, Name, NameBuf, is_terminal_control};
pub use needs::Needs;
pub use notifiers::Notifiers;
pub use open_directory::{DirectoryEntry, OpenDirectory, OpenDirectoryRef};
pub use open_file::{OpenFile, OpenFileRef};
pub use promises::{AccessControl, Promises, TimesTell};
pub use properties::Properties;
pub use rewriting::open_for_rewriting;
pub use sharded::Sharded;
pub use threads::{as_server, restore_credentials_by};
pub use transfer::{read_fully, transfer_fully, write_fully};
pub use vnode::{Created, Creation, Entry, Vnode, VnodeRef};

//! The branches: the trees of a union, what is stored in each beside its users' objects, and how one is read and changed. Nothing
//! here knows the union, or its objects.
//!
//! From the bottom: **Objects** of a branch: `objects` (as the server reads and changes them), `xattrs`, `verified`, `lease`,
//! `exact_names`, `encoding`. **Marks**: `trust` (which are believed), `whiteout`, `whiteout_device`, `metacopy_mark`,
//! `directory_marks`. **The state directory**: `state_directory`, `register` (which branch it is), `identity` (what a copy is known
//! by), `losses`, `entry_purpose`, `direct_file_record`, `leftovers` (what is undone), `work` (objects that are not visible yet, or
//! no longer), `history` (snapshots). **Availability**: `health`, `latency`. `branches` has the trees and their modes; above it are
//! `claim`, `rename_records` and `write_order`.

pub(crate) mod branches;
pub(crate) mod claim;
pub(crate) mod direct_file_record;
pub(crate) mod directory_marks;
pub(crate) mod encoding;
pub(crate) mod entry_purpose;
pub(crate) mod exact_names;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod identity;
pub(crate) mod latency;
pub(crate) mod lease;
pub(crate) mod leftovers;
pub(crate) mod losses;
pub(crate) mod metacopy_mark;
pub(crate) mod objects;
pub(crate) mod register;
pub(crate) mod rename_records;
pub(crate) mod state_directory;
pub(crate) mod trust;
pub(crate) mod verified;
pub(crate) mod whiteout;
pub(crate) mod whiteout_device;
pub(crate) mod work;
pub(crate) mod write_order;
pub(crate) mod xattrs;

//! The branches: the trees of a union, what is stored in each beside its users' objects, and how one is read and changed.
//!
//! `branches` has the trees and their modes. The state directory of a branch: `register` (which branch it is), `work` (objects
//! that are not visible yet, or no longer), `rename_records`, `links` (copies of files with several names), `losses`,
//! `history` (its snapshots). Marks: `whiteout`, `whiteout_device`, and `trust` (which of them are believed). Availability:
//! `claim`, `health`, `recovery`, `parallel` (latency). Safe access: `exact_names`, `verified`, `lease`, `write_order`.

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
pub(crate) mod only_described;
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

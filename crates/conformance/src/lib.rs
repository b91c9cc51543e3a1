//! Named tests of file system behaviour, run over any vnode tree and over any mounted path.
//!
//! Each [`Test`] is written once against a [`Subject`], which provides [`Client`]s that behave as processes do (credentials,
//! working directory, umask, open files). [`Mounted`] is a directory of the running system, [`Tree`] a vnode tree. A subject
//! declares its [`Abilities`]: a test that requires a missing one is counted as not applicable, never silently skipped.
//!
//! ```no_run
//! let subject = plyfs_conformance::Mounted::new("/mnt/scratch".as_ref()).unwrap();
//! let report = plyfs_conformance::run(&subject, |_| true);
//! println!("{report}");
//! assert!(report.failures.is_empty());
//! ```

mod ability;
mod access_control;
mod acl;
mod cases;
mod check;
mod context;
pub mod faults;
mod mounted;
mod run;
mod subject;
mod test;
mod tree;

pub use ability::{Abilities, Ability};
pub use access_control::check_access_control;
pub use cases::all;
pub use check::{Failure, Outcome};
pub use context::TestContext;
pub use mounted::Mounted;
pub use run::{Report, Verdict, prepare, run, run_test};
pub use subject::{
    Client, Directory, Entry, File, Identity, Kind, Lock, LockKind, Mapping, Space, Stat, Subject, Time, TimeChange,
};
pub use test::Test;
pub use tree::Tree;
pub use vnode::Errno;

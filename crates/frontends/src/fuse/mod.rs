//! The FUSE front end: a stack, mounted by the Linux kernel.
//!
//! [`Mount::new`] mounts any [`vnode::FileSystem`] and serves it from background threads. Requests arrive through the `device`
//! or a ring (`uring`), are decoded to typed operations (`request`, over the bytes of `wire`), run on worker threads
//! (`session`), and become vnode calls (`dispatch`). In addition there are the tables that the kernel's view requires: `nodes`
//! (ids to vnodes), `open_files` (handles to open files, and who does their I/O), `admission` (which names the kernel may
//! cache), `locks` (waiting, with replies that are `deferred`). `notify` notifies the kernel of changes from elsewhere,
//! `expiry` of names (`known_names`) that it has to revalidate.

mod admission;
mod agreement;
mod awake;
mod backing;
mod budget;
mod convert;
mod current;
mod deferred;
mod device;
mod device_queue;
mod dispatch;
mod durability;
mod expiry;
mod features;
mod helper;
mod inner_mounts;
mod interest;
mod interrupts;
mod kept_data;
mod kernel;
mod known_names;
mod locality;
mod locks;
mod memory;
mod mount;
mod mount_error;
mod mount_flags;
mod mount_point;
mod mounted;
mod negotiation;
mod newborn;
mod nodes;
mod notifier;
mod notify;
mod open_files;
mod options;
mod policy;
mod poll;
mod privilege;
mod queue;
mod reply;
mod request;
mod seldom;
mod session;
mod statistics;
mod telling;
#[cfg(test)]
mod test_vnode;
mod times;
mod trace;
mod trim;
mod uring;
mod wire;
mod yielding;

pub use features::{Features, UnknownFeature};
pub use kernel::{Explanation, OfferSource, explain};
pub use mount::FILE_SYSTEM_TYPE;
pub use mount_error::MountError;
pub use mount_flags::{AccessTimes, MountFlags};
pub use mount_point::{MountPoint, UnmountMode};
pub use mounted::Mount;
pub use options::{Decisions, MountOptions, NameCaching, Uring, decide};
pub use statistics::{FRONT_END, OperationStatistics, PartStatistics, REQUESTS_PER_WATCHED};
pub use times::Times;
pub use trace::TRACE_TARGET;

//! The FUSE front end: a stack, mounted by the Linux kernel.
//!
//! [`Mount::new`] mounts any [`vnode::FileSystem`] and serves it from background threads (`mounting`). Requests arrive through a
//! `transport`, are decoded to typed operations (`protocol`), run on worker threads (`session`), whose CPUs are chosen by
//! `scheduling`, and become vnode calls (`dispatch`). In addition there are the tables that the kernel's view requires: `nodes`
//! (ids to vnodes), `open_files` (handles to open files, and who does their I/O), `locks` (waiting, with replies that are sent
//! later); and `caching`, which decides what the kernel may cache, and notifies it of changes from elsewhere.

mod backing;
mod caching;
mod dispatch;
mod durability;
mod interrupts;
mod locks;
mod mounting;
mod nodes;
mod open_files;
mod poll;
mod protocol;
mod reporting;
mod scheduling;
mod session;
#[cfg(test)]
mod test_vnode;
mod transport;
mod trim;

pub use mounting::error::MountError;
pub use mounting::flags::{AccessTimes, MountFlags};
pub use mounting::mount::FILE_SYSTEM_TYPE;
pub use mounting::mount_point::{MountPoint, UnmountMode};
pub use mounting::mounted::Mount;
pub use mounting::options::{Decisions, MountOptions, NameCaching, Uring, decide};
pub use protocol::features::{Features, UnknownFeature};
pub use protocol::kernel_offer::{Explanation, OfferSource, explain};
pub use reporting::latency::LatencyHistogram;
pub use reporting::statistics::{FRONT_END, OperationStatistics, PartStatistics, REQUESTS_PER_SAMPLE};
pub use reporting::trace::TRACE_TARGET;

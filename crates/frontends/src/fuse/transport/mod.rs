//! How requests arrive and replies leave: the interface of a transport (`queue`), the device, and io_uring.

pub(crate) mod deferred;
pub(crate) mod device;
pub(crate) mod device_queue;
pub(crate) mod memory;
pub(crate) mod queue;
pub(crate) mod uring;

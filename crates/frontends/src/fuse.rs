//! The FUSE front end: a stack, mounted by the Linux kernel.
#![allow(dead_code)]

mod device;
mod mount;
mod negotiation;
mod notify;
mod reply;
mod request;
mod session;
mod statistics;
mod trace;
mod wire;

pub use mount::{FILE_SYSTEM_TYPE, MountError, UnmountMode, unmount};
pub use statistics::OperationCount;
pub use trace::TRACE_TARGET;

//! Parking: entries without a worker.
//!
//! The kernel never releases an entry, and gives a request to each entry that waits for one. It gives none to an entry whose
//! request has not been answered. So the session sends itself requests for which nobody waits: it asks the kernel for zero
//! bytes of a file's cached data (FUSE_NOTIFY_RETRIEVE), and the kernel responds with a request. An entry that holds one of
//! these needs neither a thread nor a ring. It is used again by answering: the kernel then also looks for requests that have
//! been waiting in the queue, which it does not do for a new entry.

use super::entry::RingEntry;
use super::purpose::{OWN_REQUEST, OwnRequestPurpose, PARK_REQUEST};
use crate::fuse::protocol::wire::{self, notification};
use crate::fuse::transport::device::Device;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::IntoBytes;

/// Returns a regular file that the kernel knows.
pub(crate) type AnyRegularFile = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Increment from one unique to the next: the lowest bit marks interrupts.
const UNIQUE_STEP: u64 = 2;

/// The parked entries of a session.
pub(crate) struct Parking {
    device: Arc<Device>,
    /// By CPU.
    by_cpu: Vec<Mutex<Vec<RingEntry>>>,
    own_requests: AtomicU64,
    /// A regular file that the kernel knows, if there is one.
    any_regular_file: AnyRegularFile,
    /// The kernel lets a request stay unanswered indefinitely.
    is_allowed: bool,
}

impl Parking {
    /// Creates an empty set of parked entries.
    pub(crate) fn new(device: &Arc<Device>, cpus: u16, any_regular_file: AnyRegularFile) -> Parking {
        Parking {
            device: Arc::clone(device),
            by_cpu: (0..cpus).map(|_| Mutex::default()).collect(),
            own_requests: AtomicU64::new(0),
            any_regular_file,
            is_allowed: !has_time_limit(),
        }
    }

    /// Makes the kernel send a request to an entry of the CPU on which this thread runs; returns whether it does, for which it
    /// has to know a regular file. Never blocks.
    pub(crate) fn send_own_request(&self, purpose: OwnRequestPurpose) -> bool {
        let bits = match purpose {
            OwnRequestPurpose::Park if !self.is_allowed => return false,
            OwnRequestPurpose::Park => OWN_REQUEST | PARK_REQUEST,
            OwnRequestPurpose::Fetch => OWN_REQUEST,
        };
        let Some(node) = (self.any_regular_file)() else { return false };
        let unique =
            bits | (self.own_requests.fetch_add(UNIQUE_STEP, Ordering::Relaxed) & !(OWN_REQUEST | PARK_REQUEST));
        let fixed = wire::NotifyRetrieve { unique, node, offset: 0, size: 0, padding: 0 };
        let length = (size_of::<wire::OutHeader>() + size_of_val(&fixed)) as u32;
        let header = wire::OutHeader { length, error: notification::RETRIEVE, unique: 0 };
        match self.device.notify(&[header.as_bytes(), fixed.as_bytes()].concat()) {
            Ok(()) => true,
            // The kernel may have forgotten the file.
            Err(Errno::NOENT | Errno::NODEV | Errno::NOTCONN) => false,
            Err(error) => {
                tracing::warn!(%error, ?purpose, "the kernel makes no request");
                false
            }
        }
    }

    /// Parks an entry that holds a request of our own.
    pub(crate) fn park(&self, mut entry: Box<RingEntry>) {
        entry.release_all();
        self.parked_on(&entry).push(*entry);
    }

    /// Takes a parked entry of a CPU, ready to be committed.
    pub(crate) fn take(&self, cpu: u16) -> Option<Box<RingEntry>> {
        let parked_on = self.by_cpu.get(usize::from(cpu))?;
        let mut entry = parked_on.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        entry.put_reply(None);
        Some(Box::new(entry))
    }

    fn parked_on(&self, entry: &RingEntry) -> MutexGuard<'_, Vec<RingEntry>> {
        self.by_cpu[usize::from(entry.cpu())].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the kernel is configured to end connections whose requests are not answered in time (Linux 6.15).
fn has_time_limit() -> bool {
    let is_set = |name: &str| procfs::parameter(&format!("fs/fuse/{name}")).is_some_and(|seconds| seconds != "0");
    is_set("default_request_timeout") || is_set("max_request_timeout")
}

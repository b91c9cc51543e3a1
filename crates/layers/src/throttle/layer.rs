//! The layer `throttle`: delays reads and writes until their bytes may pass.

use std::sync::{Arc, PoisonError, RwLock};

use vnode::layer::{Layer, LayerFile};
use vnode::{Caller, Control, ControlError, Needs, OpenFileRef, Promises, Result};

use super::bucket::TokenBucket;
use super::options::{self, CONTROLS, NAME, Rates};
use crate::ControlSpecification;

/// Maximum number of bytes that one call copies within the limits, so that a large copy proceeds in steps that can be cancelled.
const MAX_COPY_BYTES: u64 = 1 << 20;

/// Delays reads and writes so that they stay below the limits, which apply to all callers together.
#[derive(Debug)]
pub struct Throttle {
    limits: RwLock<Arc<Limits>>,
    details: String,
}

/// The buckets from which reads and writes take what they move.
#[derive(Debug)]
struct Limits {
    read: Option<TokenBucket>,
    write: Option<TokenBucket>,
}

impl Limits {
    fn new(rates: Rates) -> Arc<Self> {
        Arc::new(Self { read: rates.read.map(TokenBucket::new), write: rates.write.map(TokenBucket::new) })
    }
}

impl Throttle {
    /// Creates a layer with these limits, shown to users as `details`.
    pub(crate) fn new(rates: Rates, details: String) -> Self {
        Self { limits: RwLock::new(Limits::new(rates)), details }
    }

    fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Performs an operation that moves up to `bytes` when these may pass; `moved` returns how many it moved.
fn pay<T>(
    bucket: Option<&TokenBucket>,
    caller: &Caller,
    bytes: u64,
    moved: impl FnOnce(&T) -> u64,
    body: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let Some(bucket) = bucket else { return body() };
    bucket.take(caller.cancellation(), bytes)?;
    let result = body();
    let moved = result.as_ref().map_or(0, moved);
    bucket.give_back(bytes.saturating_sub(moved));
    result
}

impl Layer for Throttle {
    type State = ();

    fn kind(&self) -> &'static str {
        NAME
    }

    fn details(&self) -> String {
        self.details.clone()
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    /// Declares that reads and writes always come through, since limits may be set at any time.
    fn needs(&self) -> Needs {
        Needs { every_data_operation: true, ..Needs::NONE }
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        ControlSpecification::check(CONTROLS, command)?;
        let rates = options::read(&command.arguments);
        let rates = rates.map_err(|error| ControlError::BadArgument(error.to_string()))?;
        // Operations that wait already do so by the limits at which they began.
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = Limits::new(rates);
        Ok(String::new())
    }

    fn read_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let (limits, bytes) = (self.limits(), buffer.len() as u64);
        pay(
            limits.read.as_ref(),
            caller,
            bytes,
            |length| *length as u64,
            || file.forward_read_at(caller, offset, buffer),
        )
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let (limits, bytes) = (self.limits(), data.len() as u64);
        pay(
            limits.write.as_ref(),
            caller,
            bytes,
            |length| *length as u64,
            || file.forward_write_at(caller, offset, data),
        )
    }

    fn copy_range(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        offset: u64,
        to: &OpenFileRef,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let limits = self.limits();
        let is_limited = limits.read.is_some() || limits.write.is_some();
        let length = if is_limited { length.min(MAX_COPY_BYTES) } else { length };
        let copy = || file.forward_copy_range(caller, offset, to, to_offset, length);
        let write = || pay(limits.write.as_ref(), caller, length, |length| *length, copy);
        pay(limits.read.as_ref(), caller, length, |length| *length, write)
    }
}

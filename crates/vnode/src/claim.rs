//! Claims: the writer of a whole file system excludes other writers.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Errno, Result};

/// Exclusive right to write a file system for the lifetime of this value, as far as the file system can tell.
#[must_use = "others may claim the file system when this is dropped"]
pub struct Claim(Vec<Box<dyn Any + Send + Sync>>);

impl Claim {
    /// Returns the claim of a file system that cannot tell who writes it: it excludes nobody.
    pub const fn unknown() -> Self {
        Self(Vec::new())
    }

    /// Returns a claim that lasts as long as `guard`, which it holds.
    pub fn held_by(guard: impl Any + Send + Sync) -> Self {
        Self(vec![Box::new(guard)])
    }

    /// Combines claims into one.
    pub fn all(claims: impl IntoIterator<Item = Self>) -> Self {
        Self(claims.into_iter().flat_map(|claim| claim.0).collect())
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "unknown" } else { "held" })
    }
}

/// Flag for whether a file system that exists only in this process is claimed.
#[derive(Debug, Default)]
pub struct ClaimFlag(Arc<AtomicBool>);

impl ClaimFlag {
    /// Sets the flag until the result is dropped.
    ///
    /// # Errors
    /// `EBUSY` if the flag is set.
    pub fn claim(&self) -> Result<Claim> {
        if self.0.swap(true, Ordering::AcqRel) {
            return Err(Errno::EBUSY);
        }
        Ok(Claim::held_by(Reset(Arc::clone(&self.0))))
    }
}

/// Guard that resets the flag on drop.
struct Reset(Arc<AtomicBool>);

impl Drop for Reset {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_claimed_once_at_a_time() {
        let flag = ClaimFlag::default();
        let claim = Claim::all([flag.claim().unwrap(), Claim::unknown()]);
        assert_eq!(flag.claim().err(), Some(Errno::EBUSY));
        drop(claim);
        assert!(flag.claim().is_ok());
    }
}

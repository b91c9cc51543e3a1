//! The gate at which stopped operations wait until the rules that stopped them are gone.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use vnode::{Cancellation, Result};

/// A gate that holds operations back.
#[derive(Debug, Default)]
pub(crate) struct OperationGate {
    state: Mutex<GateState>,
    opened: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// Number of times that the gate has been opened.
    openings: u64,
    /// Number of waiting operations.
    waiting: usize,
}

impl OperationGate {
    /// Waits until the gate is opened next.
    ///
    /// # Errors
    /// Returns the errors of an operation that is cancelled in the meantime.
    pub(crate) fn wait(&self, cancellation: &Cancellation) -> Result<()> {
        let mut state = self.state();
        let now = state.openings;
        state.waiting += 1;
        let mut waited = Ok(());
        while state.openings == now && waited.is_ok() {
            state = cancellation.wait(&self.opened, state);
            waited = cancellation.check();
        }
        state.waiting -= 1;
        waited
    }

    /// Lets all waiting operations continue.
    pub(crate) fn open(&self) {
        self.state().openings += 1;
        self.opened.notify_all();
    }

    /// Number of waiting operations.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

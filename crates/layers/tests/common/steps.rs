//! A base that counts its operations as steps, at one of which the request that is being served is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vnode::layer::{Layer, LayerVnode, Operation};
use vnode::{Caller, CancellationSource, Promises, Result};

use super::root;

/// Cancels the request that is being served at its step of a number, and looks at the cancellation at each.
#[derive(Default)]
pub(crate) struct Steps {
    source: CancellationSource,
    request: AtomicU64,
    done: AtomicU64,
    cancelled_at: AtomicU64,
}

impl Steps {
    /// Does something as the superuser, cancelled at that step: what came of it, and whether it has so many steps.
    pub(crate) fn run<T>(&self, cancelled_at: u64, operation: impl FnOnce(&Caller) -> Result<T>) -> (Result<T>, bool) {
        let request = self.request.fetch_add(1, Ordering::SeqCst) + 1;
        let caller = root().cancelled_by(self.source.begin(request, 0));
        self.done.store(0, Ordering::SeqCst);
        self.cancelled_at.store(cancelled_at, Ordering::SeqCst);
        let result = operation(&caller);
        self.cancelled_at.store(0, Ordering::SeqCst);
        self.source.end();
        (result, self.done.load(Ordering::SeqCst) >= cancelled_at)
    }
}

/// A branch whose operations are steps.
pub(crate) struct Stepwise(pub Arc<Steps>);

impl Layer for Stepwise {
    type State = ();

    fn kind(&self) -> &'static str {
        "stepwise"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn around<T>(
        &self,
        _: &LayerVnode<Self>,
        caller: &Caller,
        _: &Operation<'_>,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if self.0.done.fetch_add(1, Ordering::SeqCst) + 1 == self.0.cancelled_at.load(Ordering::SeqCst) {
            self.0.source.cancel(self.0.request.load(Ordering::SeqCst));
        }
        caller.cancellation().check()?;
        body()
    }
}

//! Invocation of an operation with rules: the pre rules, the operation or its replace rule, and the post rules.

use vnode::layer::{LayerVnode, Operation};
use vnode::{Caller, Errno, Result};

use super::Described;
use super::host::{Running, Work};
use super::loaded::Loaded;
use super::outcome::Outcome;

/// Invocation of an operation that has rules.
pub(crate) struct Act<'a> {
    loaded: &'a Loaded,
    node: &'a LayerVnode<Described>,
    caller: &'a Caller,
    operation: &'a Operation<'a>,
}

/// Performs the operation as the template does: on an object, as a caller, with its current arguments.
pub(crate) type Forward<'f, T> = &'f mut dyn FnMut(&LayerVnode<Described>, &Caller, &Operation<'_>) -> Result<T>;

impl<'a> Act<'a> {
    pub(crate) fn new(
        loaded: &'a Loaded,
        node: &'a LayerVnode<Described>,
        caller: &'a Caller,
        operation: &'a Operation<'a>,
    ) -> Act<'a> {
        Act { loaded, node, caller, operation }
    }

    /// Performs the operation as its rules say.
    pub(crate) fn run<T: Outcome>(self, forward: Forward<'_, T>) -> Result<T> {
        self.run_or(T::nothing(), forward)
    }

    /// Performs the operation as its rules say; returns `nothing` where a rule reports success without performing it.
    pub(crate) fn run_or<T: Outcome>(self, nothing: Option<T>, forward: Forward<'_, T>) -> Result<T> {
        let mut outcome = None;
        let mut perform = |work: Work<'_>| {
            let done = match work {
                Work::Operate(node, caller, operation) => Some(forward(node, caller, operation)?),
                Work::Take(entry) => T::found(entry),
            };
            let entry = done.as_ref().and_then(Outcome::entry).cloned();
            outcome = done;
            Ok(entry)
        };
        let mut running = Running::new(self.loaded, self.node, self.caller);
        running.operation = Some(self.operation);
        running.perform = Some(&mut perform);
        running.all(self.loaded.rules(self.operation));
        if self.loaded.level().traces {
            running.log_assigned();
        }
        if let Some(error) = running.answer() {
            return Err(error);
        }
        outcome.or(nothing).ok_or_else(|| {
            let operation = self.operation.name();
            tracing::error!(target: "fist", "{}: a rule says that {operation} went well, and did not do it", self.loaded.kind);
            Errno::EIO
        })
    }

    /// Performs a declared ioctl; without rules of its own, nothing happens.
    pub(crate) fn run_ioctl(self, ioctl: usize, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let structure = self.loaded.level().ioctls[ioctl].structure;
        let mut data = vec![0; self.loaded.program.structures[structure].size as usize];
        let given = input.len().min(data.len());
        data[..given].copy_from_slice(&input[..given]);
        let mut running = Running::new(self.loaded, self.node, self.caller);
        running.operation = Some(self.operation);
        running.ioctl = Some((structure, data));
        let rules = self.loaded.rules_of_ioctl(ioctl);
        // The lower file system has no such ioctl: without a replace rule, nothing is done.
        running.around(&rules, |running| rules.instead.into_iter().for_each(|function| running.rule(function)));
        if let Some(error) = running.answer() {
            return Err(error);
        }
        let made = running.ioctl.map(|(_, data)| data).unwrap_or_default();
        let taken = output.len().min(made.len());
        output[..taken].copy_from_slice(&made[..taken]);
        Ok(0)
    }
}

//! Invocation of an operation with rules: the pre rules, the operation or its replace rule, and the post rules.

use vnode::layer::{LayerVnode, Operation};
use vnode::{Caller, Errno, Result};

use super::host::{RuleContext, RuleRequest};
use super::layer::FistLayer;
use super::module::LoadedModule;
use super::outcome::Outcome;

/// Invocation of an operation that has rules.
pub(crate) struct Invocation<'a> {
    module: &'a LoadedModule,
    node: &'a LayerVnode<FistLayer>,
    caller: &'a Caller,
    operation: &'a Operation<'a>,
}

/// Performs the operation as the template does: on an object, as a caller, with its current arguments.
pub(crate) type Forward<'f, T> = &'f mut dyn FnMut(&LayerVnode<FistLayer>, &Caller, &Operation<'_>) -> Result<T>;

impl<'a> Invocation<'a> {
    pub(crate) fn new(
        module: &'a LoadedModule,
        node: &'a LayerVnode<FistLayer>,
        caller: &'a Caller,
        operation: &'a Operation<'a>,
    ) -> Invocation<'a> {
        Invocation { module, node, caller, operation }
    }

    /// Performs the operation as its rules say.
    pub(crate) fn run<T: Outcome>(self, forward: Forward<'_, T>) -> Result<T> {
        self.run_or(T::default_success(), forward)
    }

    /// Performs the operation as its rules say; returns `nothing` where a rule reports success without performing it.
    pub(crate) fn run_or<T: Outcome>(self, default_result: Option<T>, forward: Forward<'_, T>) -> Result<T> {
        let mut outcome = None;
        let mut perform = |request: RuleRequest<'_>| {
            let outcome_of_request = match request {
                RuleRequest::Perform(node, caller, operation) => Some(forward(node, caller, operation)?),
                RuleRequest::UseEntry(entry) => T::from_entry(entry),
            };
            let entry = outcome_of_request.as_ref().and_then(Outcome::entry).cloned();
            outcome = outcome_of_request;
            Ok(entry)
        };
        let mut context = RuleContext::new(self.module, self.node, self.caller);
        context.operation = Some(self.operation);
        context.perform = Some(&mut perform);
        context.run_all(self.module.rules(self.operation));
        if self.module.level().traces {
            context.log_assigned();
        }
        if let Some(error) = context.final_error() {
            return Err(error);
        }
        outcome.or(default_result).ok_or_else(|| {
            let operation = self.operation.name();
            tracing::error!(target: "fist", "{}: a rule says that {operation} went well, and did not do it", self.module.kind);
            Errno::EIO
        })
    }

    /// Performs a declared ioctl; without rules of its own, nothing happens.
    pub(crate) fn run_ioctl(self, ioctl: usize, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let structure = self.module.level().ioctls[ioctl].structure;
        let mut data = vec![0; self.module.program.structures[structure].size as usize];
        let input_bytes = input.len().min(data.len());
        data[..input_bytes].copy_from_slice(&input[..input_bytes]);
        let mut context = RuleContext::new(self.module, self.node, self.caller);
        context.operation = Some(self.operation);
        context.ioctl = Some((structure, data));
        let rules = self.module.rules_of_ioctl(ioctl);
        // The lower file system has no such ioctl: without a replace rule, nothing is done.
        context.run_around(&rules, |context| rules.replace.into_iter().for_each(|function| context.run_rule(function)));
        if let Some(error) = context.final_error() {
            return Err(error);
        }
        let output_data = context.ioctl.map(|(_, data)| data).unwrap_or_default();
        let output_bytes = output.len().min(output_data.len());
        output[..output_bytes].copy_from_slice(&output_data[..output_bytes]);
        Ok(0)
    }
}

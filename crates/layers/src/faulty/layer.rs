//! The layer `faulty`: injects the fault that a rule selects into each operation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use vnode::layer::{Layer, LayerFile, LayerVnode, Operation};
use vnode::{AllocateMode, Caller, Control, ControlError, Errno, Needs, OpenFileRef, Promises, Result, SeekTarget};

use super::fault_rules::{FaultEffect, FaultRules};
use super::gate::OperationGate;
use super::options::{self, CONTROLS, NAME};
use crate::ControlSpecification;

/// Injects faults into operations by rules. Without a rule, or when switched off, it only forwards.
#[derive(Debug)]
pub struct Faulty {
    rules: RwLock<Arc<FaultRules>>,
    is_on: AtomicBool,
    gate: OperationGate,
    details: String,
}

impl Faulty {
    pub(crate) fn new(rules: FaultRules, details: String) -> Self {
        Self {
            rules: RwLock::new(Arc::new(rules)),
            is_on: AtomicBool::new(true),
            gate: OperationGate::default(),
            details,
        }
    }

    fn rules(&self) -> Arc<FaultRules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the rules, and lets operations stopped by the earlier ones continue.
    fn replace(&self, rules: FaultRules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.gate.open();
    }

    /// Performs an operation as the rules say. `body` receives the maximum number of bytes to move, if there is one;
    /// `granted_length` returns how many of them fit into the new space that a function grants. An operation that is
    /// cancelled while held back is not performed.
    fn inject<T>(
        &self,
        caller: &Caller,
        operation: &Operation<'_>,
        granted_length: impl FnOnce(&dyn Fn(u64) -> u64) -> Result<Option<usize>>,
        body: impl FnOnce(Option<usize>) -> Result<T>,
    ) -> Result<T> {
        if !self.is_on.load(Ordering::Acquire) {
            return body(None);
        }
        let rules = self.rules();
        let Some(fault) = rules.next_fault(operation) else { return body(None) };
        if !fault.delay.is_zero() {
            caller.cancellation().sleep(fault.delay)?;
        }
        match fault.effect {
            FaultEffect::None => body(None),
            FaultEffect::Error(error) => Err(error),
            FaultEffect::LateError(error) => body(None).and(Err(error)),
            FaultEffect::Short(length) => body(Some(length)),
            FaultEffect::SpaceLimit(limit) => body(granted_length(&|wanted| rules.grant_space(limit, wanted))?),
            FaultEffect::Stop => {
                self.gate.wait(caller.cancellation())?;
                body(None)
            }
        }
    }
}

impl Layer for Faulty {
    type State = ();

    fn kind(&self) -> &'static str {
        NAME
    }

    fn details(&self) -> String {
        self.details.clone()
    }

    /// Declares that reads, writes, closes and polls always come through, since rules may be set at any time.
    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn needs(&self) -> Needs {
        Needs { every_data_operation: true, every_close: true, every_poll: true, ..Needs::NONE }
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        ControlSpecification::check(CONTROLS, command)?;
        match command.command.as_str() {
            "on" => self.is_on.store(true, Ordering::Release),
            "off" => {
                self.is_on.store(false, Ordering::Release);
                self.gate.open();
            }
            "set" => {
                let rules = options::read_rules(&command.arguments);
                self.replace(rules.map_err(|error| ControlError::BadArgument(error.to_string()))?);
            }
            "stats" => return Ok(format!("{} stopped={}", self.rules().counts(), self.gate.waiting())),
            _ => {
                let (target, command) = (command.target.clone(), command.command.clone());
                return Err(ControlError::UnknownCommand { target, command });
            }
        }
        Ok(String::new())
    }

    fn around<T>(
        &self,
        _: &LayerVnode<Self>,
        caller: &Caller,
        operation: &Operation<'_>,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match operation {
            // These may be shortened, so the fault is injected where the length is known.
            Operation::Read { .. } | Operation::Write { .. } | Operation::CopyRange { .. } => body(),
            _ => self.inject(caller, operation, |grant| check_allocation(operation, grant).map(|()| None), |_| body()),
        }
    }

    fn read_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.inject(
            caller,
            &Operation::Read { offset, length: buffer.len() },
            |_| Ok(None),
            |limit| {
                let length = limit.unwrap_or(usize::MAX).min(buffer.len());
                file.forward_read_at(caller, offset, &mut buffer[..length])
            },
        )
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let within =
            |grant: &dyn Fn(u64) -> u64| granted_write_length(file, caller, offset, data.len(), grant).map(Some);
        self.inject(caller, &Operation::Write { offset, length: data.len() }, within, |limit| {
            let length = limit.unwrap_or(usize::MAX).min(data.len());
            file.forward_write_at(caller, offset, &data[..length])
        })
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
        self.inject(
            caller,
            &Operation::CopyRange { offset, to_offset, length },
            |_| Ok(None),
            |limit| {
                let length = limit.map_or(length, |limit| length.min(limit as u64));
                file.forward_copy_range(caller, offset, to, to_offset, length)
            },
        )
    }
}

/// Returns the number of bytes of a write that fit into the granted new space, which only holes and the range past the
/// end need.
fn granted_write_length(
    file: &LayerFile<Faulty>,
    caller: &Caller,
    offset: u64,
    length: usize,
    grant: &dyn Fn(u64) -> u64,
) -> Result<usize> {
    let (end, mut at) = (offset.saturating_add(length as u64), offset);
    while at < end {
        let data = next_segment_offset(file, caller, at, SeekTarget::Data, end)?;
        let granted = grant(data - at);
        if granted < data - at {
            at += granted;
            break;
        }
        at = data;
        if at < end {
            at = next_segment_offset(file, caller, at, SeekTarget::Hole, end)?;
        }
    }
    if at == offset && length > 0 { Err(Errno::ENOSPC) } else { Ok((at - offset) as usize) }
}

/// Returns the offset of the next data or hole at or after `offset`, or `end`.
fn next_segment_offset(
    file: &LayerFile<Faulty>,
    caller: &Caller,
    offset: u64,
    target: SeekTarget,
    end: u64,
) -> Result<u64> {
    match file.forward_seek(caller, offset, target) {
        Err(Errno::ENXIO) => Ok(end),
        offset => offset.map(|offset| offset.min(end)),
    }
}

/// Checks that an allocation, if the operation is one, fits into the granted new space, which it is assumed to need for
/// all of its length.
fn check_allocation(operation: &Operation<'_>, grant: &dyn Fn(u64) -> u64) -> Result<()> {
    match operation {
        Operation::Allocate { mode, length, .. } if !mode.contains(AllocateMode::PUNCH_HOLE) => {
            if grant(*length) == *length { Ok(()) } else { Err(Errno::ENOSPC) }
        }
        _ => Ok(()),
    }
}

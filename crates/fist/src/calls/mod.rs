//! Intrinsic and host calls: decodes their arguments from memory and shared data, and executes them or forwards them to
//! the file system that runs the program.

mod arguments;
mod built_in;
mod host;
mod shared;

use crate::builtins::{Attribute, Global, OperationValue};
use crate::code::{Integer, Operator, Site};
use crate::interpreter::CallHandler;
use crate::memory::{self, Memory};
use crate::program::Program;
use crate::trap::TrapKind;
use arguments::CallArgument;
pub use host::{DataOwner, Host, Object};
use shared::{resolve_shared, store};

/// The handler of a program's calls on behalf of a file system.
pub struct Calls<'a> {
    /// The program.
    pub program: &'a Program,
    /// The file system.
    pub host: &'a mut dyn Host,
}

/// Work of every call, besides that of the bytes that it handles.
const CALL_WORK: u64 = 64;
/// Work of a request to the lower layer, or of a log message.
const LOWER_REQUEST_WORK: u64 = 64 << 10;

impl CallHandler for Calls<'_> {
    fn call(&mut self, memory: &mut Memory<'_>, site: usize, values: &[i64]) -> Result<i64, TrapKind> {
        memory.meter().charge(CALL_WORK)?;
        let (site, pauses) = (&self.program.sites[site], memory.meter().pauses());
        let result = self.dispatch(memory, site, values);
        debug_assert!(memory.meter().pauses() == pauses || site.effects().sleeps, "{site:?} waits");
        if self.host.ends() { Err(TrapKind::Finished) } else { result }
    }
}

impl Calls<'_> {
    fn dispatch(&mut self, memory: &mut Memory<'_>, site: &Site, values: &[i64]) -> Result<i64, TrapKind> {
        let order = self.program.target.byte_order;
        match site {
            Site::BuiltIn(function, operands) => self.built_in(memory, *function, operands, values),
            Site::Global(global @ Global::BlockSize) => self.request_lower(memory, |host| host.global(*global)),
            Site::Global(global) => Ok(self.host.global(*global)),
            Site::OperationValue(value) => self.operation_value(memory, *value),
            Site::Assign(value, operand) => {
                let argument = arguments::decode_one(operand, values, memory)?;
                self.assign(memory, *value, &argument)?;
                Ok(values.first().copied().unwrap_or(0))
            }
            Site::Attribute(attribute, operand) => {
                let object = arguments::decode_one(operand, values, memory)?.object()?;
                match attribute {
                    Attribute::Name | Attribute::FileSystem => {
                        let text = self.request_lower(memory, |host| host.attribute_text(*attribute, &object))?;
                        allocate_text(memory, text)
                    }
                    _ => self.request_lower(memory, |host| host.attribute(*attribute, &object)),
                }
            }
            Site::Object(argument) => self.request_lower(memory, |host| host.object(*argument)),
            Site::Load(shared, integer) => {
                let (place, offset, _) = resolve_shared(shared, values)?;
                let mut value = 0;
                self.host.shared(place, &mut |bytes| value = memory::load(&bytes[offset..], *integer, order))?;
                Ok(value)
            }
            Site::Store(shared, integer) => {
                let (place, offset, rest) = resolve_shared(shared, values)?;
                let value = rest.first().copied().unwrap_or(0);
                self.host.shared(place, &mut |bytes| store(&mut bytes[offset..], *integer, value, order))?;
                Ok(value)
            }
            Site::Update { shared, integer, operator, computed, is_postfix } => {
                let (place, offset, rest) = resolve_shared(shared, values)?;
                let by = rest.first().copied().unwrap_or(0);
                self.update((place, offset), *integer, (*operator, *computed), by, *is_postfix)
            }
        }
    }

    /// Sends a request to the lower layer or the log: its duration does not count as time of the run.
    fn request_lower<T>(
        &mut self,
        memory: &mut Memory<'_>,
        request: impl FnOnce(&mut dyn Host) -> T,
    ) -> Result<T, TrapKind> {
        memory.meter().charge(LOWER_REQUEST_WORK)?;
        memory.meter().pause();
        let result = request(self.host);
        memory.meter().resume();
        Ok(result)
    }

    fn operation_value(&mut self, memory: &mut Memory<'_>, value: OperationValue) -> Result<i64, TrapKind> {
        use OperationValue as V;
        match value {
            V::Name | V::ToName | V::Target | V::Xattr => {
                let text = self.host.operation_text(value);
                allocate_text(memory, text)
            }
            _ => Ok(self.host.operation_number(value)),
        }
    }

    /// Assigns an argument of the operation. An invalid value ends the operation.
    fn assign(
        &mut self,
        memory: &mut Memory<'_>,
        value: OperationValue,
        argument: &CallArgument<'_>,
    ) -> Result<(), TrapKind> {
        let assigned = match argument {
            // The lower layer checks whether the caller may request it.
            CallArgument::Integer(number, _) => {
                self.request_lower(memory, |host| host.set_operation_number(value, *number))?
            }
            text => {
                let text = text.string(memory, self.host)?;
                self.host.set_operation_text(value, &text)
            }
        };
        assigned.map_err(|error| {
            self.host.set_error(error);
            TrapKind::Finished
        })
    }

    fn update(
        &mut self,
        (place, offset): (DataOwner, usize),
        integer: Integer,
        (operator, computed): (Operator, Integer),
        by: i64,
        is_postfix: bool,
    ) -> Result<i64, TrapKind> {
        let order = self.program.target.byte_order;
        let mut result = Ok(0);
        self.host.shared(place, &mut |bytes| {
            let before = memory::load(&bytes[offset..], integer, order);
            result = match crate::arithmetic::compute(operator, computed, computed.wrap(before), by) {
                None => Err(TrapKind::DivisionByZero),
                Some(after) => {
                    let after = integer.wrap(after);
                    store(&mut bytes[offset..], integer, after, order);
                    Ok(if is_postfix { before } else { after })
                }
            };
        })?;
        result
    }
}

/// Allocates a string in memory of the run.
fn allocate_text(memory: &mut Memory<'_>, mut text: Vec<u8>) -> Result<i64, TrapKind> {
    text.push(0);
    memory.meter().charge(text.len() as u64)?;
    memory.allocate(text)
}

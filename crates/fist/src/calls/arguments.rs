//! Arguments of intrinsic and host calls, decoded from the values of their operands.

use super::host::{DataOwner, Host, Object};
use super::shared::{resolve_shared, store};
use crate::code::{Integer, Operand};
use crate::memory::{self, Memory};
use crate::trap::TrapKind;

/// A decoded argument.
#[derive(Clone, Debug)]
pub(crate) enum CallArgument<'p> {
    Missing,
    Integer(i64, Integer),
    /// Memory, and the maximum number of bytes that may be accessed.
    Pointer(i64, Option<u64>),
    /// The destination of an integer.
    OutInteger(i64, Integer),
    Object(Object),
    /// Shared data: its location, offset and size in bytes.
    Shared(DataOwner, usize, usize),
    SharedOutInteger(DataOwner, usize, Integer),
    Field(usize, usize),
    Text(&'p [u8]),
}

/// Decodes all arguments of a call.
pub(crate) fn decode_all<'p>(
    operands: &'p [Operand],
    values: &[i64],
    memory: &mut Memory<'_>,
) -> Result<Vec<CallArgument<'p>>, TrapKind> {
    let mut rest = values;
    operands.iter().map(|operand| decode_next(operand, &mut rest, memory)).collect()
}

/// Decodes the only argument of a call.
pub(crate) fn decode_one<'p>(
    operand: &'p Operand,
    values: &[i64],
    memory: &mut Memory<'_>,
) -> Result<CallArgument<'p>, TrapKind> {
    decode_next(operand, &mut { values }, memory)
}

fn decode_next<'p>(
    operand: &'p Operand,
    values: &mut &[i64],
    memory: &mut Memory<'_>,
) -> Result<CallArgument<'p>, TrapKind> {
    let mut take = || {
        let (first, rest) = values.split_first().ok_or(TrapKind::NullPointer)?;
        *values = rest;
        Ok::<i64, TrapKind>(*first)
    };
    Ok(match operand {
        Operand::Missing => CallArgument::Missing,
        Operand::Integer(integer) => CallArgument::Integer(take()?, *integer),
        Operand::Pointer(limit) => CallArgument::Pointer(take()?, *limit),
        Operand::OutInteger(integer) => CallArgument::OutInteger(take()?, *integer),
        Operand::Object => CallArgument::Object(Object::Value(take()?)),
        Operand::Argument(argument) => CallArgument::Object(Object::Argument(*argument)),
        Operand::Named => CallArgument::Object(Object::Named(read_string(take()?, None, memory)?)),
        Operand::Field(structure, field) => CallArgument::Field(*structure, *field),
        Operand::Text(text) => CallArgument::Text(text),
        Operand::Shared(shared, bytes) => {
            let (place, offset, rest) = resolve_shared(shared, values)?;
            *values = rest;
            CallArgument::Shared(place, offset, *bytes as usize)
        }
        Operand::SharedOutInteger(shared, integer) => {
            let (place, offset, rest) = resolve_shared(shared, values)?;
            *values = rest;
            CallArgument::SharedOutInteger(place, offset, *integer)
        }
    })
}

impl CallArgument<'_> {
    pub(crate) fn integer(&self) -> Result<i64, TrapKind> {
        match self {
            CallArgument::Integer(value, _) => Ok(*value),
            _ => Err(TrapKind::NullPointer),
        }
    }

    /// Returns the argument as a length in memory.
    pub(crate) fn length(&self) -> Result<usize, TrapKind> {
        match usize::try_from(self.integer()?) {
            Ok(length) if length <= 64 << 20 => Ok(length),
            _ => Err(TrapKind::InvalidLength),
        }
    }

    pub(crate) fn object(&self) -> Result<Object, TrapKind> {
        match self {
            CallArgument::Object(object) => Ok(object.clone()),
            _ => Err(TrapKind::NullPointer),
        }
    }

    /// Returns the argument as a pointer.
    pub(crate) fn pointer(&self) -> Result<i64, TrapKind> {
        match self {
            CallArgument::Pointer(pointer, _) => Ok(*pointer),
            _ => Err(TrapKind::NullPointer),
        }
    }

    /// Reads a number of bytes.
    pub(crate) fn bytes(
        &self,
        length: usize,
        memory: &mut Memory<'_>,
        host: &mut dyn Host,
    ) -> Result<Vec<u8>, TrapKind> {
        match self {
            CallArgument::Pointer(..) if length == 0 => Ok(Vec::new()),
            CallArgument::Pointer(pointer, limit) => {
                check_limit(length, *limit)?;
                memory.read(*pointer, length)?;
                memory.charge_copy(length)?;
                memory::try_copy(memory.read(*pointer, length)?)
            }
            CallArgument::Shared(place, offset, bytes) => {
                check_limit(length, Some(*bytes as u64))?;
                memory.charge_copy(length)?;
                // Data of a missing object read as zero.
                let mut read = memory::try_filled(0, length)?;
                host.shared(*place, &mut |all| read.copy_from_slice(&all[*offset..offset + length]))?;
                Ok(read)
            }
            _ => Err(TrapKind::NullPointer),
        }
    }

    /// Reads a string.
    pub(crate) fn string(&self, memory: &mut Memory<'_>, host: &mut dyn Host) -> Result<Vec<u8>, TrapKind> {
        match self {
            CallArgument::Pointer(pointer, limit) => read_string(*pointer, *limit, memory),
            CallArgument::Shared(_, _, length) => {
                let mut bytes = self.bytes(*length, memory, host)?;
                bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
                Ok(bytes)
            }
            _ => Err(TrapKind::NullPointer),
        }
    }

    /// Reads up to `length` bytes, as many as there are.
    pub(crate) fn read_up_to(
        &self,
        length: usize,
        memory: &mut Memory<'_>,
        host: &mut dyn Host,
    ) -> Result<Vec<u8>, TrapKind> {
        let available = match self {
            CallArgument::Pointer(pointer, limit) => {
                let rest = memory.rest(*pointer)?.len();
                limit.map_or(rest, |limit| rest.min(limit as usize))
            }
            CallArgument::Shared(_, _, bytes) => *bytes,
            _ => return Err(TrapKind::NullPointer),
        };
        self.bytes(length.min(available), memory, host)
    }

    /// Writes bytes.
    pub(crate) fn write(&self, bytes: &[u8], memory: &mut Memory<'_>, host: &mut dyn Host) -> Result<(), TrapKind> {
        match self {
            CallArgument::Pointer(..) if bytes.is_empty() => Ok(()),
            CallArgument::Pointer(pointer, limit) => {
                check_limit(bytes.len(), *limit)?;
                memory.meter().charge(bytes.len() as u64)?;
                memory.write(*pointer, bytes.len())?.copy_from_slice(bytes);
                Ok(())
            }
            CallArgument::Shared(place, offset, length) => {
                check_limit(bytes.len(), Some(*length as u64))?;
                memory.meter().charge(bytes.len() as u64)?;
                host.shared(*place, &mut |all| all[*offset..offset + bytes.len()].copy_from_slice(bytes))
            }
            _ => Err(TrapKind::NullPointer),
        }
    }

    /// Fills a number of bytes with one value.
    pub(crate) fn fill(
        &self,
        byte: u8,
        length: usize,
        memory: &mut Memory<'_>,
        host: &mut dyn Host,
    ) -> Result<(), TrapKind> {
        match self {
            CallArgument::Pointer(..) if length == 0 => Ok(()),
            CallArgument::Pointer(pointer, limit) => {
                check_limit(length, *limit)?;
                memory.meter().charge(length as u64)?;
                memory.write(*pointer, length)?.fill(byte);
                Ok(())
            }
            CallArgument::Shared(place, offset, bytes) => {
                check_limit(length, Some(*bytes as u64))?;
                memory.meter().charge(length as u64)?;
                host.shared(*place, &mut |all| all[*offset..offset + length].fill(byte))
            }
            _ => Err(TrapKind::NullPointer),
        }
    }

    /// Writes an integer to an out-parameter.
    pub(crate) fn write_integer(
        &self,
        value: i64,
        memory: &mut Memory<'_>,
        host: &mut dyn Host,
    ) -> Result<(), TrapKind> {
        match self {
            CallArgument::OutInteger(pointer, integer) => memory.store(*pointer, *integer, value),
            CallArgument::SharedOutInteger(place, offset, integer) => {
                let order = memory.order();
                host.shared(*place, &mut |all| store(&mut all[*offset..], *integer, value, order))
            }
            _ => Err(TrapKind::NullPointer),
        }
    }

    /// Reads the current integer of an out-parameter.
    pub(crate) fn current_integer(&self, memory: &Memory<'_>, host: &mut dyn Host) -> Result<i64, TrapKind> {
        match self {
            CallArgument::OutInteger(pointer, integer) => memory.load(*pointer, *integer),
            CallArgument::SharedOutInteger(place, offset, integer) => {
                let (mut value, order) = (0, memory.order());
                host.shared(*place, &mut |all| value = memory::load(&all[*offset..], *integer, order))?;
                Ok(value)
            }
            _ => Err(TrapKind::NullPointer),
        }
    }
}

/// Copies the string at a pointer, up to a maximum length.
fn read_string(pointer: i64, limit: Option<u64>, memory: &mut Memory<'_>) -> Result<Vec<u8>, TrapKind> {
    let rest = memory.rest(pointer)?;
    let rest = &rest[..limit.map_or(rest.len(), |limit| rest.len().min(limit as usize))];
    let length = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    memory.charge_copy(length)?;
    memory::try_copy(memory.read(pointer, length)?)
}

fn check_limit(length: usize, limit: Option<u64>) -> Result<(), TrapKind> {
    match limit {
        Some(limit) if length as u64 > limit => Err(TrapKind::OutOfBounds),
        _ => Ok(()),
    }
}

//! Arguments of intrinsic and host calls, decoded from the values of their operands.

use super::host::{Host, Object, Place};
use super::shared::{find, store};
use crate::code::{Integer, Operand};
use crate::memory::{self, Memory};
use crate::stop::Why;

/// A decoded argument.
#[derive(Clone, Debug)]
pub(crate) enum Given<'p> {
    Missing,
    Integer(i64, Integer),
    /// Memory, and the maximum number of bytes that may be accessed.
    Pointer(i64, Option<u64>),
    /// The destination of an integer.
    Answer(i64, Integer),
    Object(Object),
    /// Shared data: its location, offset and size in bytes.
    Shared(Place, usize, usize),
    SharedAnswer(Place, usize, Integer),
    Field(usize, usize),
    Text(&'p [u8]),
}

/// Decodes all arguments of a call.
pub(crate) fn all<'p>(operands: &'p [Operand], values: &[i64], memory: &mut Memory<'_>) -> Result<Vec<Given<'p>>, Why> {
    let mut rest = values;
    operands.iter().map(|operand| next(operand, &mut rest, memory)).collect()
}

/// Decodes the only argument of a call.
pub(crate) fn one<'p>(operand: &'p Operand, values: &[i64], memory: &mut Memory<'_>) -> Result<Given<'p>, Why> {
    next(operand, &mut { values }, memory)
}

fn next<'p>(operand: &'p Operand, values: &mut &[i64], memory: &mut Memory<'_>) -> Result<Given<'p>, Why> {
    let mut take = || {
        let (first, rest) = values.split_first().ok_or(Why::NullPointer)?;
        *values = rest;
        Ok::<i64, Why>(*first)
    };
    Ok(match operand {
        Operand::Missing => Given::Missing,
        Operand::Integer(integer) => Given::Integer(take()?, *integer),
        Operand::Pointer(limit) => Given::Pointer(take()?, *limit),
        Operand::Answer(integer) => Given::Answer(take()?, *integer),
        Operand::Object => Given::Object(Object::Value(take()?)),
        Operand::Argument(argument) => Given::Object(Object::Argument(*argument)),
        Operand::Named => Given::Object(Object::Named(copied_string(take()?, None, memory)?)),
        Operand::Field(structure, field) => Given::Field(*structure, *field),
        Operand::Text(text) => Given::Text(text),
        Operand::Shared(shared, bytes) => {
            let (place, offset, rest) = find(shared, values)?;
            *values = rest;
            Given::Shared(place, offset, *bytes as usize)
        }
        Operand::SharedAnswer(shared, integer) => {
            let (place, offset, rest) = find(shared, values)?;
            *values = rest;
            Given::SharedAnswer(place, offset, *integer)
        }
    })
}

impl Given<'_> {
    pub(crate) fn integer(&self) -> Result<i64, Why> {
        match self {
            Given::Integer(value, _) => Ok(*value),
            _ => Err(Why::NullPointer),
        }
    }

    /// Returns the argument as a length in memory.
    pub(crate) fn length(&self) -> Result<usize, Why> {
        match usize::try_from(self.integer()?) {
            Ok(length) if length <= 64 << 20 => Ok(length),
            _ => Err(Why::BadLength),
        }
    }

    pub(crate) fn object(&self) -> Result<Object, Why> {
        match self {
            Given::Object(object) => Ok(object.clone()),
            _ => Err(Why::NullPointer),
        }
    }

    /// Returns the argument as a pointer.
    pub(crate) fn pointer(&self) -> Result<i64, Why> {
        match self {
            Given::Pointer(pointer, _) => Ok(*pointer),
            _ => Err(Why::NullPointer),
        }
    }

    /// Reads a number of bytes.
    pub(crate) fn bytes(&self, length: usize, memory: &mut Memory<'_>, host: &mut dyn Host) -> Result<Vec<u8>, Why> {
        match self {
            Given::Pointer(..) if length == 0 => Ok(Vec::new()),
            Given::Pointer(pointer, limit) => {
                within(length, *limit)?;
                memory.read(*pointer, length)?;
                memory.passes(length)?;
                memory::copied(memory.read(*pointer, length)?)
            }
            Given::Shared(place, offset, bytes) => {
                within(length, Some(*bytes as u64))?;
                memory.passes(length)?;
                // Data of a missing object read as zero.
                let mut read = memory::filled(0, length)?;
                host.shared(*place, &mut |all| read.copy_from_slice(&all[*offset..offset + length]))?;
                Ok(read)
            }
            _ => Err(Why::NullPointer),
        }
    }

    /// Reads a string.
    pub(crate) fn string(&self, memory: &mut Memory<'_>, host: &mut dyn Host) -> Result<Vec<u8>, Why> {
        match self {
            Given::Pointer(pointer, limit) => copied_string(*pointer, *limit, memory),
            Given::Shared(_, _, length) => {
                let mut bytes = self.bytes(*length, memory, host)?;
                bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
                Ok(bytes)
            }
            _ => Err(Why::NullPointer),
        }
    }

    /// Reads up to `length` bytes, as many as there are.
    pub(crate) fn at_most(&self, length: usize, memory: &mut Memory<'_>, host: &mut dyn Host) -> Result<Vec<u8>, Why> {
        let there = match self {
            Given::Pointer(pointer, limit) => {
                let rest = memory.rest(*pointer)?.len();
                limit.map_or(rest, |limit| rest.min(limit as usize))
            }
            Given::Shared(_, _, bytes) => *bytes,
            _ => return Err(Why::NullPointer),
        };
        self.bytes(length.min(there), memory, host)
    }

    /// Writes bytes.
    pub(crate) fn write(&self, bytes: &[u8], memory: &mut Memory<'_>, host: &mut dyn Host) -> Result<(), Why> {
        match self {
            Given::Pointer(..) if bytes.is_empty() => Ok(()),
            Given::Pointer(pointer, limit) => {
                within(bytes.len(), *limit)?;
                memory.meter().charge(bytes.len() as u64)?;
                memory.write(*pointer, bytes.len())?.copy_from_slice(bytes);
                Ok(())
            }
            Given::Shared(place, offset, length) => {
                within(bytes.len(), Some(*length as u64))?;
                memory.meter().charge(bytes.len() as u64)?;
                host.shared(*place, &mut |all| all[*offset..offset + bytes.len()].copy_from_slice(bytes))
            }
            _ => Err(Why::NullPointer),
        }
    }

    /// Fills a number of bytes with one value.
    pub(crate) fn fill(
        &self,
        byte: u8,
        length: usize,
        memory: &mut Memory<'_>,
        host: &mut dyn Host,
    ) -> Result<(), Why> {
        match self {
            Given::Pointer(..) if length == 0 => Ok(()),
            Given::Pointer(pointer, limit) => {
                within(length, *limit)?;
                memory.meter().charge(length as u64)?;
                memory.write(*pointer, length)?.fill(byte);
                Ok(())
            }
            Given::Shared(place, offset, bytes) => {
                within(length, Some(*bytes as u64))?;
                memory.meter().charge(length as u64)?;
                host.shared(*place, &mut |all| all[*offset..offset + length].fill(byte))
            }
            _ => Err(Why::NullPointer),
        }
    }

    /// Writes an integer to an out-parameter.
    pub(crate) fn answer(&self, value: i64, memory: &mut Memory<'_>, host: &mut dyn Host) -> Result<(), Why> {
        match self {
            Given::Answer(pointer, integer) => memory.store(*pointer, *integer, value),
            Given::SharedAnswer(place, offset, integer) => {
                let order = memory.order();
                host.shared(*place, &mut |all| store(&mut all[*offset..], *integer, value, order))
            }
            _ => Err(Why::NullPointer),
        }
    }

    /// Reads the current integer of an out-parameter.
    pub(crate) fn before(&self, memory: &Memory<'_>, host: &mut dyn Host) -> Result<i64, Why> {
        match self {
            Given::Answer(pointer, integer) => memory.load(*pointer, *integer),
            Given::SharedAnswer(place, offset, integer) => {
                let (mut value, order) = (0, memory.order());
                host.shared(*place, &mut |all| value = memory::load(&all[*offset..], *integer, order))?;
                Ok(value)
            }
            _ => Err(Why::NullPointer),
        }
    }
}

/// Copies the string at a pointer, up to a maximum length.
fn copied_string(pointer: i64, most: Option<u64>, memory: &mut Memory<'_>) -> Result<Vec<u8>, Why> {
    let rest = memory.rest(pointer)?;
    let rest = &rest[..most.map_or(rest.len(), |most| rest.len().min(most as usize))];
    let length = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    memory.passes(length)?;
    memory::copied(memory.read(pointer, length)?)
}

fn within(length: usize, limit: Option<u64>) -> Result<(), Why> {
    match limit {
        Some(limit) if length as u64 > limit => Err(Why::OutOfBounds),
        _ => Ok(()),
    }
}

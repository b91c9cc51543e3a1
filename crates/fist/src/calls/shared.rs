//! Location of shared data, and access to its integers.

use super::host::Place;
use crate::code::{Area, Integer, Shared};
use crate::stop::Why;
use crate::target::ByteOrder;

pub(crate) fn store(bytes: &mut [u8], integer: Integer, value: i64, order: ByteOrder) {
    order.write(value, &mut bytes[..integer.bytes.into()]);
}

/// Resolves the location of shared data; also returns the arguments after its own.
pub(crate) fn resolve_shared<'v>(shared: &Shared, values: &'v [i64]) -> Result<(Place, usize, &'v [i64]), Why> {
    let (place, values) = match shared.area {
        Area::Vfs => (Place::Vfs, values),
        Area::Mount => (Place::Mount, values),
        Area::Argument(argument) => (Place::Argument(argument), values),
        Area::Object => (Place::Object(*values.first().ok_or(Why::NullPointer)?), &values[1..]),
        Area::Data(index) => (Place::Data(index), values),
    };
    let mut offset = shared.offset;
    for ((length, size), index) in shared.indexes.iter().zip(values) {
        if *index as u64 >= *length {
            return Err(Why::NoElement);
        }
        offset += *index as u64 * size;
    }
    Ok((place, offset as usize, &values[shared.indexes.len()..]))
}

//! Location of shared data, and access to its integers.

use super::host::DataOwner;
use crate::code::{Area, Integer, Shared};
use crate::target::ByteOrder;
use crate::trap::TrapKind;

pub(crate) fn store(bytes: &mut [u8], integer: Integer, value: i64, order: ByteOrder) {
    order.write(value, &mut bytes[..integer.bytes.into()]);
}

/// Resolves the location of shared data; also returns the arguments after its own.
pub(crate) fn resolve_shared<'v>(
    shared: &Shared,
    values: &'v [i64],
) -> Result<(DataOwner, usize, &'v [i64]), TrapKind> {
    let (place, values) = match shared.area {
        Area::Vfs => (DataOwner::Vfs, values),
        Area::Mount => (DataOwner::Mount, values),
        Area::Argument(argument) => (DataOwner::Argument(argument), values),
        Area::Object => (DataOwner::Object(*values.first().ok_or(TrapKind::NullPointer)?), &values[1..]),
        Area::Data(index) => (DataOwner::Data(index), values),
    };
    let mut offset = shared.offset;
    for ((length, size), index) in shared.indexes.iter().zip(values) {
        if *index as u64 >= *length {
            return Err(TrapKind::IndexOutOfRange);
        }
        offset += *index as u64 * size;
    }
    Ok((place, offset as usize, &values[shared.indexes.len()..]))
}

//! Initial values of data, encoded as bytes of the target.

use super::layout::Layout;
use crate::ir::{Initial, Type};
use crate::memory::data_pointer;

/// Writes the initial value of a type; `None` if the value cannot be evaluated or does not fit.
pub(crate) fn write(r#type: &Type, value: &Initial, layout: &Layout, bytes: &mut [u8]) -> Option<()> {
    let order = layout.target.byte_order;
    match (value, r#type) {
        (Initial::Zero, _) => {}
        (Initial::Bytes(text), _) => bytes.get_mut(..text.len())?.copy_from_slice(text),
        (Initial::Integer(number), Type::Integer(integer)) => {
            order.write(integer.wrap(layout.value(number)?), bytes.get_mut(..integer.bytes.into())?);
        }
        (Initial::Pointer(index), _) => order.write(data_pointer(*index), bytes.get_mut(..8)?),
        (Initial::List(values), Type::Array(of, _)) => {
            let size = layout.size(of)? as usize;
            for (value, place) in values.iter().zip(bytes.chunks_mut(size.max(1))) {
                write(of, value, layout, place)?;
            }
        }
        (Initial::List(values), Type::Structure(index)) => {
            for (field, value) in values.iter().enumerate() {
                let offset = layout.structures[*index].fields.get(field)?.offset as usize;
                write(&layout.field_types[*index][field], value, layout, bytes.get_mut(offset..)?)?;
            }
        }
        (Initial::Integer(_) | Initial::List(_), _) => return None,
    }
    Some(())
}

//! Attributes of objects, and numbers of operations, as rules see them.

use ::fist::builtins::{Attribute, OperationValue};
use vnode::Attributes;
use vnode::layer::Operation;

/// Returns a numeric attribute; -1 for others.
pub(crate) fn attribute(attribute: Attribute, attributes: &Attributes) -> i64 {
    match attribute {
        Attribute::Kind => attributes.kind.mode_bits().into(),
        Attribute::Mode => attributes.mode.into(),
        Attribute::Owner => attributes.uid.into(),
        Attribute::OwningGroup => attributes.gid.into(),
        Attribute::Size => attributes.size as i64,
        Attribute::AccessTime => attributes.atime.seconds,
        Attribute::ModificationTime => attributes.mtime.seconds,
        Attribute::ChangeTime => attributes.ctime.seconds,
        Attribute::Links => attributes.nlink.into(),
        Attribute::Inode => attributes.ino.get() as i64,
        Attribute::Name | Attribute::FileSystem | Attribute::Identity => -1,
    }
}

/// Returns a numeric argument of an operation; -1 if it has none.
pub(crate) fn number(operation: &Operation<'_>, value: OperationValue) -> i64 {
    use Operation as O;
    use OperationValue as V;
    let number = match (value, operation) {
        (V::NewMode, O::Create { how, .. } | O::TemporaryFile(how)) => Some(how.mode.into()),
        (V::NewMode, O::MakeDirectory { mode, .. } | O::MakeNode { mode, .. }) => Some((*mode).into()),
        (V::NewMode, O::SetAttributes(changes)) => changes.mode.map(i64::from),
        (V::NewOwner, O::SetAttributes(changes)) => changes.uid.map(i64::from),
        (V::NewGroup, O::SetAttributes(changes)) => changes.gid.map(i64::from),
        (V::NewSize, O::SetAttributes(changes)) => changes.size.map(|size| size as i64),
        (V::NewSize, O::Truncate { size }) => Some(*size as i64),
        (V::Offset, O::Read { offset, .. } | O::Write { offset, .. } | O::Allocate { offset, .. })
        | (V::Offset, O::Seek { offset, .. } | O::CopyRange { offset, .. }) => Some(*offset as i64),
        (V::Length, O::Read { length, .. } | O::Write { length, .. }) => Some(*length as i64),
        (V::Length, O::Allocate { length, .. } | O::CopyRange { length, .. }) => Some(*length as i64),
        (V::Flags, O::Open(flags)) => Some(flags.bits().into()),
        (V::Flags, O::Create { how, .. } | O::TemporaryFile(how)) => Some(how.flags.bits().into()),
        (V::Flags, O::Allocate { mode, .. }) => Some(mode.bits().into()),
        (V::Flags, O::Access(mode)) => Some(mode.bits().into()),
        _ => None,
    };
    number.unwrap_or(-1)
}

//! Operation arguments that rules have assigned, as the lower operation receives them (FiST, section 2.3.4).

use ::fist::builtins::OperationValue as V;
use vnode::layer::Operation as O;
use vnode::{Creation, Errno, Name, NameBuf, Result, SetAttributes};

/// Permission, set-ID and sticky bits.
const MODE_BITS: u32 = 0o7777;
/// Maximum length of the target of a symbolic link in bytes, as in Linux (`PATH_MAX` includes the NUL byte).
const MAX_TARGET_BYTES: usize = 4095;

/// Arguments that rules have assigned.
#[derive(Default)]
pub(crate) struct AssignedArguments {
    name: Option<NameBuf>,
    to_name: Option<NameBuf>,
    target: Option<Vec<u8>>,
    /// Mode of the directory or node to create.
    mode: Option<u32>,
    /// New size of an open file.
    size: Option<u64>,
    how: Option<Creation>,
    changes: Option<SetAttributes>,
}

impl AssignedArguments {
    /// Returns the operation with the assigned arguments in place of the original ones.
    pub(crate) fn apply_to<'o>(&'o self, operation: &O<'o>) -> O<'o> {
        let name = |original| self.name.as_ref().map_or(original, NameBuf::as_name);
        match *operation {
            O::SetAttributes(changes) => O::SetAttributes(self.changes.as_ref().unwrap_or(changes)),
            O::Lookup(original) => O::Lookup(name(original)),
            O::Create { name: original, how } => {
                O::Create { name: name(original), how: self.how.as_ref().unwrap_or(how) }
            }
            O::MakeDirectory { name: original, mode } => {
                O::MakeDirectory { name: name(original), mode: self.mode.unwrap_or(mode) }
            }
            O::MakeNode { name: original, kind, mode } => {
                O::MakeNode { name: name(original), kind, mode: self.mode.unwrap_or(mode) }
            }
            O::MakeSymlink { name: original, target } => {
                O::MakeSymlink { name: name(original), target: self.target.as_deref().unwrap_or(target) }
            }
            O::Link { name: original, target } => O::Link { name: name(original), target },
            O::Unlink(original) => O::Unlink(name(original)),
            O::RemoveDirectory(original) => O::RemoveDirectory(name(original)),
            O::Rename { name: original, to, to_name, mode } => {
                let to_name = self.to_name.as_ref().map_or(to_name, NameBuf::as_name);
                O::Rename { name: name(original), to, to_name, mode }
            }
            O::TemporaryFile(how) => O::TemporaryFile(self.how.as_ref().unwrap_or(how)),
            O::Truncate { size } => O::Truncate { size: self.size.unwrap_or(size) },
            other => other,
        }
    }

    /// Assigns a string. An operation without such an argument stays unchanged.
    ///
    /// # Errors
    /// Returns the errors of [`Name::new`] for a name: it is one component, and no other directory. Returns `ENOENT`
    /// and `ENAMETOOLONG`, as symlink(2) does, for an invalid target of a symbolic link.
    pub(crate) fn set_text(&mut self, operation: &O<'_>, value: V, text: &[u8]) -> Result<()> {
        match (value, operation) {
            (V::Name, _) if operation.entry_name().is_some() => self.name = Some(NameBuf::new(text)?),
            (V::ToName, O::Rename { .. }) => self.to_name = Some(NameBuf::new(text)?),
            (V::Target, O::MakeSymlink { .. }) => match text.len() {
                0 => return Err(Errno::ENOENT),
                1..=MAX_TARGET_BYTES => self.target = Some(text.to_vec()),
                _ => return Err(Errno::ENAMETOOLONG),
            },
            _ => {}
        }
        Ok(())
    }

    /// Assigns a number; for setattr, a negative number sets nothing. An operation without such an argument stays
    /// unchanged.
    ///
    /// # Errors
    /// Returns `EINVAL` for a number that the argument cannot have.
    pub(crate) fn set_number(&mut self, operation: &O<'_>, value: V, number: i64) -> Result<()> {
        match (value, operation) {
            (V::NewMode, O::Create { how, .. } | O::TemporaryFile(how)) => {
                self.how = Some(Creation { mode: mode(number)?, ..**how });
            }
            (V::NewMode, O::MakeDirectory { .. } | O::MakeNode { .. }) => self.mode = Some(mode(number)?),
            (V::NewSize, O::Truncate { .. }) => self.size = Some(size(number)?),
            (_, O::SetAttributes(changes)) => {
                let changes = self.changes.get_or_insert(**changes);
                match value {
                    V::NewMode => changes.mode = unless_negative(number, mode)?,
                    V::NewOwner => changes.uid = unless_negative(number, id)?,
                    V::NewGroup => changes.gid = unless_negative(number, id)?,
                    V::NewSize => changes.size = unless_negative(number, size)?,
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn mode(number: i64) -> Result<u32> {
    u32::try_from(number).ok().filter(|mode| *mode <= MODE_BITS).ok_or(Errno::EINVAL)
}

/// Converts a number to the ID of a user or group, which the largest number is not.
fn id(number: i64) -> Result<u32> {
    u32::try_from(number).ok().filter(|id| *id != u32::MAX).ok_or(Errno::EINVAL)
}

fn size(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| Errno::EINVAL)
}

fn unless_negative<T>(number: i64, make: impl Fn(i64) -> Result<T>) -> Result<Option<T>> {
    if number < 0 { Ok(None) } else { make(number).map(Some) }
}

/// Returns the name of an operation, or `otherwise` if it has none.
pub(crate) fn name<'a>(operation: &O<'a>, otherwise: Name<'a>) -> Name<'a> {
    operation.entry_name().unwrap_or(otherwise)
}

/// Returns the new name of a rename, or `otherwise` for other operations.
pub(crate) fn to_name<'a>(operation: &O<'a>, otherwise: Name<'a>) -> Name<'a> {
    match *operation {
        O::Rename { to_name, .. } => to_name,
        _ => otherwise,
    }
}

/// Returns the target of a symbolic link to create, or `otherwise` for other operations.
pub(crate) fn target<'a>(operation: &O<'a>, otherwise: &'a [u8]) -> &'a [u8] {
    match *operation {
        O::MakeSymlink { target, .. } => target,
        _ => otherwise,
    }
}

/// Returns the mode of a directory or node to create, or `otherwise` for other operations.
pub(crate) fn new_mode(operation: &O<'_>, otherwise: u32) -> u32 {
    match *operation {
        O::MakeDirectory { mode, .. } | O::MakeNode { mode, .. } => mode,
        _ => otherwise,
    }
}

/// Returns the mode and flags of a file to create, or `otherwise` for other operations.
pub(crate) fn how<'a>(operation: &O<'a>, otherwise: &'a Creation) -> &'a Creation {
    match *operation {
        O::Create { how, .. } | O::TemporaryFile(how) => how,
        _ => otherwise,
    }
}

/// Returns the changes of setattr, or `otherwise` for other operations.
pub(crate) fn changes<'a>(operation: &O<'a>, otherwise: &'a SetAttributes) -> &'a SetAttributes {
    match *operation {
        O::SetAttributes(changes) => changes,
        _ => otherwise,
    }
}

/// Returns the new size of an open file, or `otherwise` for other operations.
pub(crate) fn new_size(operation: &O<'_>, otherwise: u64) -> u64 {
    match *operation {
        O::Truncate { size } => size,
        _ => otherwise,
    }
}

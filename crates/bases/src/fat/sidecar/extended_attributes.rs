//! The values of extended attributes of one object.

use std::collections::BTreeMap;

use vnode::{Errno, Result, XattrMode};

use crate::unix::extended_attributes::{CAPABILITY, LIST_MAX};

use super::bytes::{FieldReader, FieldWriter};

/// Maximum size of all names and values of an object, in bytes.
const SIZE_MAX: usize = 128 * 1024;

/// Extended attributes by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtendedAttributes {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

impl ExtendedAttributes {
    /// Returns the value of an attribute.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.values.get(name).map(|value| &**value)
    }

    /// Returns the names of all attributes, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.values.keys().map(|name| &**name)
    }

    /// Returns the size of all names and values in bytes.
    pub(crate) fn size(&self) -> usize {
        self.values.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Removes `security.capability`, unless it has no bytes: Linux takes that for nothing to remove.
    pub(crate) fn forget_capability(&mut self) {
        if self.get(CAPABILITY).is_some_and(|value| !value.is_empty()) {
            self.values.remove(CAPABILITY);
        }
    }

    /// Sets a value.
    ///
    /// # Errors
    /// `EEXIST` and `ENODATA` as the mode says; `ENOSPC` if all values together become too large, or the names longer than a list
    /// can be.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let old = self.values.get(name).map(|value| value.len());
        match (mode, old) {
            (XattrMode::Create, Some(_)) => return Err(Errno::EEXIST),
            (XattrMode::Replace, None) => return Err(Errno::ENODATA),
            _ => {}
        }
        let names: usize = self.values.keys().map(|name| name.len() + 1).sum();
        let size = self.size() - old.map_or(0, |length| name.len() + length) + name.len() + value.len();
        if size > SIZE_MAX || old.is_none() && names + name.len() + 1 > LIST_MAX {
            return Err(Errno::ENOSPC);
        }
        self.values.insert(name.into(), value.into());
        Ok(())
    }

    /// Removes a value.
    ///
    /// # Errors
    /// `ENODATA` if there is none.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Result<()> {
        self.values.remove(name).map(drop).ok_or(Errno::ENODATA)
    }

    /// Writes all attributes.
    pub(crate) fn encode(&self, writer: &mut FieldWriter) {
        writer.u32(self.values.len() as u32);
        for (name, value) in &self.values {
            writer.counted(name);
            writer.counted(value);
        }
    }

    /// Reads all attributes; `None` if they are not complete or too large, or two have one name.
    pub(crate) fn decode(reader: &mut FieldReader<'_>) -> Option<Self> {
        let mut attributes = Self::default();
        let (mut size, mut names) = (0, 0);
        for _ in 0..reader.u32()? {
            let (name, value) = (reader.counted()?, reader.counted()?);
            size += name.len() + value.len();
            names += name.len() + 1;
            let is_new = attributes.values.insert(name.into(), value.into()).is_none();
            if !is_new || size > SIZE_MAX || names > LIST_MAX {
                return None;
            }
        }
        Some(attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_set_replaced_and_removed_within_a_limit() {
        let mut attributes = ExtendedAttributes::default();
        assert_eq!(attributes.set(b"user.a", b"1", XattrMode::Replace), Err(Errno::ENODATA));
        attributes.set(b"user.a", b"1", XattrMode::Create).unwrap();
        assert_eq!(attributes.set(b"user.a", b"2", XattrMode::Create), Err(Errno::EEXIST));
        attributes.set(b"user.a", &[0; 65_536], XattrMode::Set).unwrap();
        assert_eq!(attributes.set(b"user.b", &[0; 65_536], XattrMode::Set), Err(Errno::ENOSPC));
        let mut writer = FieldWriter::default();
        attributes.encode(&mut writer);
        assert_eq!(ExtendedAttributes::decode(&mut FieldReader(&writer.0)), Some(attributes.clone()));
        assert_eq!(ExtendedAttributes::decode(&mut FieldReader(&writer.0[..1000])), None);
        let twice = [&2_u32.to_le_bytes()[..], &[1, 0, 0, 0, b'a', 0, 0, 0, 0].repeat(2)].concat();
        assert_eq!(ExtendedAttributes::decode(&mut FieldReader(&twice)), None);
        attributes.remove(b"user.a").unwrap();
        assert_eq!((attributes.remove(b"user.a"), attributes.size()), (Err(Errno::ENODATA), 0));
    }
}

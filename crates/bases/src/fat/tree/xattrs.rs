//! Extended attributes: reading, setting, listing and removing, ACLs included. Volumes without sidecars have none.

use vnode::{Caller, Errno, Result, XattrMode};

use crate::unix::acl::Acl;
use crate::unix::extended_attributes::{self as rules, Namespace, VALUE_MAX, namespace_of};

use super::changing::Change;
use super::inode::Inode;

/// Bytes that an attribute takes besides its name and value.
const ATTRIBUTE_SIZE: usize = 8;

impl Inode {
    /// Returns the value of an attribute.
    pub(crate) fn get_xattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        self.check_supported()?;
        let namespace = namespace_of(name)?;
        let state = self.read();
        let metadata = &state.metadata;
        match namespace {
            Namespace::AccessAcl | Namespace::DefaultAcl => rules::acl_value(&metadata.protection, namespace),
            _ => {
                rules::check_reading(&metadata.protection, caller, namespace, name)?;
                rules::readable(name, metadata.extended_attributes.get(name).ok_or(Errno::ENODATA)?)
            }
        }
    }

    /// Sets an attribute.
    pub(crate) fn set_xattr(
        &self,
        _change: &Change<'_>,
        caller: &Caller,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<()> {
        self.check_supported()?;
        let namespace = namespace_of(name)?;
        if value.len() > VALUE_MAX {
            return Err(Errno::E2BIG);
        }
        let mut state = self.write_with_record(name.len() + value.len() + ATTRIBUTE_SIZE)?;
        let metadata = &mut state.metadata;
        let is_same = match namespace {
            Namespace::AccessAcl | Namespace::DefaultAcl => {
                !rules::set_acl(&mut metadata.protection, caller, namespace, Acl::parse(value)?)?
            }
            _ => {
                rules::check_writing(&metadata.protection, caller, namespace, name, value)?;
                rules::check_value(name, value)?;
                let is_same = metadata.extended_attributes.get(name) == Some(value);
                metadata.extended_attributes.set(name, value, mode)?;
                is_same
            }
        };
        if !is_same {
            metadata.times.changed();
            self.metadata_changed(&mut state);
        }
        Ok(())
    }

    /// Returns the names of all attributes that the caller may see, each terminated by a NUL.
    pub(crate) fn list_xattrs(&self, caller: &Caller) -> Vec<u8> {
        let state = self.read();
        let metadata = &state.metadata;
        let names = metadata.extended_attributes.names().filter(|name| rules::is_visible(name, caller));
        let names = rules::acl_names(&metadata.protection).chain(names);
        names.flat_map(|name| name.iter().copied().chain([0])).collect()
    }

    /// Removes an attribute.
    pub(crate) fn remove_xattr(&self, _change: &Change<'_>, caller: &Caller, name: &[u8]) -> Result<()> {
        self.check_supported()?;
        let namespace = namespace_of(name)?;
        let mut state = self.write_with_record(0)?;
        let metadata = &mut state.metadata;
        let has_changed = match namespace {
            Namespace::AccessAcl | Namespace::DefaultAcl => {
                rules::set_acl(&mut metadata.protection, caller, namespace, None)?
            }
            _ => {
                let value = metadata.extended_attributes.get(name).unwrap_or_default();
                rules::check_writing(&metadata.protection, caller, namespace, name, value)?;
                metadata.extended_attributes.remove(name)?;
                true
            }
        };
        if has_changed {
            metadata.times.changed();
            self.metadata_changed(&mut state);
        }
        Ok(())
    }

    fn check_supported(&self) -> Result<()> {
        if self.volume.has_sidecars { self.check_usable() } else { Err(Errno::EOPNOTSUPP) }
    }
}

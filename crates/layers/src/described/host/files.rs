//! Lower files that rules read, write, copy and rename.

use std::sync::PoisonError;

use ::fist::calls::Object;
use vnode::{
    Caller, Creation, Errno, FileKind, Name, OpenFileRef, OpenFlags, RenameMode, Result, VnodeRef, read_fully,
    write_fully, zeros,
};

use super::{RuleContext, copy};

/// Mode of a file of auxiliary data: permissions for its owner only.
const AUXILIARY_MODE: u32 = 0o600;

impl RuleContext<'_> {
    /// Reads the beginning of a file of auxiliary data, whoever the caller is, since rules decide by it. Bytes that a
    /// short file lacks are zero.
    pub(crate) fn read_auxiliary(&mut self, file: &Object, bytes: usize) -> Result<Vec<u8>> {
        let found = self.find(file).ok_or(Errno::ENOENT)?;
        let server = Caller::server();
        if found.lower.kind() != FileKind::Regular {
            return Err(Errno::EINVAL);
        }
        let open = found.lower.open(&server, OpenFlags::READ)?;
        let mut data = zeros(bytes)?;
        read_fully(&*open, &server, 0, &mut data)?;
        Ok(data)
    }

    /// Writes part of a file of auxiliary data as the caller, which owns the file if it is new.
    pub(crate) fn write_auxiliary(&mut self, file: &Object, bytes: usize, offset: usize, data: &[u8]) -> Result<()> {
        let _one = self.module.file_data.lock().unwrap_or_else(PoisonError::into_inner);
        let (open, is_new) = match self.find(file) {
            Some(found) => (found.lower.open(self.caller, OpenFlags::WRITE)?, false),
            None => (self.create_auxiliary(file)?, true),
        };
        let writer = &self.caller.clone().keeping_privileges();
        if !is_new {
            return write_fully(&*open, writer, offset as u64, data);
        }
        let mut whole = zeros(bytes)?;
        whole[offset..offset + data.len()].copy_from_slice(data);
        write_fully(&*open, writer, 0, &whole)
    }

    fn create_auxiliary(&self, file: &Object) -> Result<OpenFileRef> {
        let Object::Named(name) = file else { return Err(Errno::ENOENT) };
        let directory = self.own_directory().ok_or(Errno::ENOTDIR)?;
        let how = Creation { mode: AUXILIARY_MODE, flags: OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE) };
        Ok(directory.create(self.caller, Name::new(name)?, &how)?.file)
    }

    pub(crate) fn rename_below(
        &mut self,
        from: &Object,
        name: &[u8],
        to: &Object,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let (from, to) = (self.directory(from)?, self.directory(to)?);
        let to: VnodeRef = to;
        from.forward_rename(self.caller, Name::new(name)?, &to, Name::new(to_name)?, mode)
    }

    /// Copies a file to a name in a directory, the operation's if none is given. The name refers either to the old file
    /// or to the complete copy.
    pub(crate) fn copy(&mut self, from: &Object, to: &[u8], directory: Option<&Object>) -> Result<()> {
        use vnode::layer::Layer;
        let to = Name::new(to)?;
        let found = self.find(from).ok_or(Errno::ENOENT)?;
        if found.lower.kind() != FileKind::Regular {
            return Err(Errno::EINVAL);
        }
        let node = match directory {
            Some(directory) => self.directory(directory)?,
            None => self.node.wrap(self.own_directory().ok_or(Errno::ENOTDIR)?),
        };
        let to = node.layer().encode_name(&node, self.caller, to)?;
        copy::copy(self.caller, &found.lower, node.lower(), Name::new(&to)?)
    }
}

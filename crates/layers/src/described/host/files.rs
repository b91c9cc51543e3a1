//! Files that rules read, write, copy and rename below.

use std::sync::PoisonError;

use ::fist::calls::Object;
use vnode::{
    Caller, Creation, Errno, FileKind, Name, OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, VnodeRef,
    read_fully, write_fully, zeros,
};

use super::Running;

/// The permissions of a file of auxiliary data: its owner's.
const AUXILIARY_MODE: u32 = 0o600;
/// How much is copied at a time.
const COPY_BYTES: usize = 1 << 20;
/// The same where it is copied below, which looks at no cancellation meanwhile.
const COPY_RANGE_BYTES: u64 = 64 << 20;

impl Running<'_> {
    /// The beginning of a file of auxiliary data, whoever asks: rules decide by it. What a short file lacks is zero.
    pub(super) fn read_auxiliary(&mut self, file: &Object, bytes: usize) -> Result<Vec<u8>> {
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

    /// Writes a part of a file of auxiliary data, as the caller, who owns it if it is new.
    pub(super) fn write_auxiliary(&mut self, file: &Object, bytes: usize, offset: usize, data: &[u8]) -> Result<()> {
        let _one = self.loaded.file_data.lock().unwrap_or_else(PoisonError::into_inner);
        let (open, is_new) = match self.find(file) {
            Some(found) => (found.lower.open(self.caller, OpenFlags::WRITE)?, false),
            None => (self.create_auxiliary(file)?, true),
        };
        if !is_new {
            return write_fully(&*open, self.caller, offset as u64, data, false);
        }
        let mut whole = zeros(bytes)?;
        whole[offset..offset + data.len()].copy_from_slice(data);
        write_fully(&*open, self.caller, 0, &whole, false)
    }

    fn create_auxiliary(&self, file: &Object) -> Result<OpenFileRef> {
        let Object::Named(name) = file else { return Err(Errno::ENOENT) };
        let directory = self.own_directory().ok_or(Errno::ENOTDIR)?;
        let how = Creation { mode: AUXILIARY_MODE, flags: OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE) };
        Ok(directory.create(self.caller, Name::new(name)?, &how)?.file)
    }

    pub(super) fn rename_below(
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

    /// Copies a file to a name in a directory, the operation's if none is given. The name stands for the old file, or for the whole copy.
    pub(super) fn copy(&mut self, from: &Object, to: &[u8], directory: Option<&Object>) -> Result<()> {
        let to = Name::new(to)?;
        let found = self.find(from).ok_or(Errno::ENOENT)?;
        if found.lower.kind() != FileKind::Regular {
            return Err(Errno::EINVAL);
        }
        let node = match directory {
            Some(directory) => self.directory(directory)?,
            None => self.node.wrap(self.own_directory().ok_or(Errno::ENOTDIR)?),
        };
        let from = found.lower.open(self.caller, OpenFlags::READ)?;
        let original = found.lower.getattr(self.caller)?;
        let mode = original.mode & 0o777;
        // Names are encoded, and data are not: they are copied as they lie below.
        let unfinished = format!(".{:016x}.copy", self.caller.pid as u64 ^ std::ptr::from_ref(self) as u64);
        let unfinished = Name::new(unfinished.as_bytes())?;
        // The group of the copy may be another, which gets no more than all others do.
        let others = mode & 0o707 | (mode & 0o007) << 3 & mode;
        let how = Creation { mode: others, flags: OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE) };
        let made = node.lower().create(self.caller, unfinished, &how)?;
        let target = made.file;
        let is_as_before = mode == others || made.entry.attributes.gid != original.gid;
        let permitted = match is_as_before {
            true => Ok(()),
            false => {
                // No more than the umask left of the rest.
                let mode = made.entry.attributes.mode & 0o777 | mode & 0o070 & !self.caller.umask;
                made.entry
                    .vnode
                    .setattr(self.caller, &SetAttributes { mode: Some(mode), ..SetAttributes::default() })
                    .map(drop)
            }
        };
        // What is on storage before the copy has its name may be removed or overwritten next.
        let written = permitted
            .and_then(|()| copy_data(&from, &target, self.caller))
            .and_then(|()| target.fsync(self.caller, false));
        let copied = written.and_then(|()| {
            let target: VnodeRef = node.clone();
            use vnode::layer::Layer;
            let encoded = node.layer().encode_name(&node, self.caller, to)?;
            let target = node.lower_of(&target)?;
            node.lower().rename(self.caller, unfinished, target, Name::new(&encoded)?, RenameMode::Replace)
        });
        if copied.is_err() {
            // The error is what went wrong before.
            let _ = node.lower().unlink(self.caller, unfinished);
        }
        copied
    }
}

fn copy_data(from: &OpenFileRef, to: &OpenFileRef, caller: &Caller) -> Result<()> {
    let size = from.getattr(caller)?.size;
    let mut done = 0;
    while done < size {
        caller.cancellation().check()?;
        match from.copy_range(caller, done, to, done, (size - done).min(COPY_RANGE_BYTES)) {
            Ok(0) => break,
            Ok(copied) => done += copied,
            Err(Errno::EXDEV | Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOSYS) => break,
            Err(error) => return Err(error),
        }
    }
    let mut buffer = zeros(COPY_BYTES.min((size - done).max(1) as usize))?;
    loop {
        caller.cancellation().check()?;
        let read = read_fully(&**from, caller, done, &mut buffer)?;
        write_fully(&**to, caller, done, &buffer[..read], false)?;
        done += read as u64;
        if read < buffer.len() {
            return if from.getattr(caller)?.size <= done { Ok(()) } else { Err(Errno::EIO) };
        }
    }
}

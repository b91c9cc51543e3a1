//! Access control of `map`: hidden names, denied operations, and the permissions that are shown.

use vnode::layer::{LayerVnode, Operation};
use vnode::{AccessMode, Caller, Errno, FileKind, Name, RenameMode, Result, Vnode};

use super::effects;
use super::layer::Map;
use crate::ioctl;

impl Map {
    pub(crate) fn hides(&self, name: Name<'_>) -> bool {
        self.settings.hidden.as_ref().is_some_and(|globs| globs.matches(name.as_bytes()))
    }

    pub(crate) fn denies(&self, operation: &str) -> bool {
        let index = Operation::NAMES.iter().position(|name| *name == operation);
        index.is_some_and(|index| self.settings.denied & (1 << index) != 0)
    }

    /// Checks that the operation uses no hidden name: hidden names do not exist, and cannot be created.
    pub(crate) fn check_hidden(&self, operation: &Operation<'_>) -> Result<()> {
        if self.settings.hidden.is_none() {
            return Ok(());
        }
        if let Operation::Rename { to_name, mode, .. } = operation
            && self.hides(*to_name)
        {
            return Err(if *mode == RenameMode::Exchange { Errno::ENOENT } else { Errno::EACCES });
        }
        if operation.entry_name().is_none_or(|name| !self.hides(name)) {
            return Ok(());
        }
        Err(match operation {
            Operation::Create { .. }
            | Operation::MakeDirectory { .. }
            | Operation::MakeNode { .. }
            | Operation::MakeSymlink { .. }
            | Operation::Link { .. } => Errno::EACCES,
            _ => Errno::ENOENT,
        })
    }

    pub(crate) fn check_denied(&self, operation: &Operation<'_>) -> Result<()> {
        if self.settings.denied & effects::effects(operation) != 0 { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Refuses access to a squashed caller that is excluded: all but the attributes of what it has reached by another way, such as
    /// the mount point, and operations on files that it was given open.
    pub(crate) fn check_excluded(&self, caller: &Caller, operation: &Operation<'_>) -> Result<()> {
        let is_harmless = matches!(
            operation,
            Operation::GetAttributes
                | Operation::StatFs
                | Operation::ReadDirectory
                | Operation::Read { .. }
                | Operation::Write { .. }
                | Operation::CopyRange { .. }
                | Operation::Seek { .. }
                | Operation::Truncate { .. }
                | Operation::Allocate { .. }
                | Operation::Fsync { .. }
                | Operation::Flush
                | Operation::Lock(_)
                | Operation::TestLock(_)
                | Operation::Poll
                | Operation::Release
        );
        if !is_harmless && self.excludes(caller) { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// Checks whether the squashed caller may perform the operation by the attributes that it sees. Changes of
    /// attributes, access and creation are checked with the operations.
    pub(crate) fn check_view(&self, node: &LayerVnode<Self>, caller: &Caller, operation: &Operation<'_>) -> Result<()> {
        let view = || self.view(node, caller);
        match operation {
            Operation::Lookup(_) | Operation::Parent | Operation::Create { .. } => view()?.check(AccessMode::EXECUTE),
            Operation::MakeDirectory { .. } | Operation::MakeSymlink { .. } | Operation::TemporaryFile(_) => {
                view()?.check_entries()
            }
            Operation::Link { target, .. } => {
                view()?.check_entries()?;
                self.view_of(&**node.lower_of(target)?, caller)?.check_link()
            }
            Operation::MakeNode { kind, .. } => {
                let device = matches!(kind, FileKind::BlockDevice | FileKind::CharacterDevice);
                view()?.check_entries()?;
                if device && !caller.is_superuser() { Err(Errno::EPERM) } else { Ok(()) }
            }
            Operation::Unlink(name) | Operation::RemoveDirectory(name) => {
                self.check_removal(&**node.lower(), caller, *name, None)
            }
            Operation::Rename { name, to, to_name, mode } => {
                let to = node.lower_of(to)?;
                let moved = (node.lower().handle() != to.handle()).then_some(());
                self.check_removal(&**node.lower(), caller, *name, moved)?;
                let back = if *mode == RenameMode::Exchange { moved } else { None };
                match self.check_removal(&**to, caller, *to_name, back) {
                    // If the target is created in the meantime, it is found when it is replaced.
                    Err(Errno::ENOENT) if *mode != RenameMode::Exchange => Ok(()),
                    checked => checked,
                }
            }
            Operation::Open(flags) => view()?.check_open(*flags),
            Operation::OpenDirectory => view()?.check(AccessMode::READ),
            Operation::GetXattr(name) => view()?.check_attribute(name, false),
            Operation::SetXattr { name, .. } | Operation::RemoveXattr(name) => view()?.check_attribute(name, true),
            Operation::Ioctl { command } if ioctl::changes(*command) => view()?.check_owner(),
            _ => Ok(()),
        }
    }

    /// Checks whether a name may be removed from the lower directory. A missing name is `ENOENT`, since a name created
    /// after this must not be removed unchecked. A directory that moves to another directory has to be writable itself,
    /// since its `..` changes.
    pub(crate) fn check_removal(
        &self,
        directory: &dyn Vnode,
        caller: &Caller,
        name: Name<'_>,
        moves: Option<()>,
    ) -> Result<()> {
        let view = self.view_of(directory, caller)?;
        view.check_entries()?;
        let entry = directory.lookup(&Caller::server(), name)?;
        let object = self.view_of(&*entry.vnode, caller)?;
        view.check_sticky(object.attributes.uid)?;
        if moves.is_some() && object.attributes.is_directory() { object.check(AccessMode::WRITE) } else { Ok(()) }
    }
}

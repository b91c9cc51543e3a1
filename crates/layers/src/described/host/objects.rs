//! Objects that rules refer to, and their attributes.

use std::sync::{Arc, PoisonError};

use ::fist::budget::Lease;
use ::fist::builtins::OperationValue;
use ::fist::calls::Object;
use ::fist::code::Role;
use ::fist::trap::TrapKind;
use vnode::fan_out::FanOutVnode;
use vnode::layer::{LayerVnode, Operation};
use vnode::{AccessMode, Attributes, Caller, Entry, Errno, FileKind, Name, Result, VnodeRef};

use super::super::layer::{FistLayer, VnodeFields};
use super::{LowerObject, RuleContext};

/// Returns whether an error says that the object does not exist, rather than that this cannot be determined.
fn means_absent(error: Errno) -> bool {
    matches!(error, Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG | Errno::EINVAL)
}

impl RuleContext<'_> {
    /// Returns the queried value, or `None` if it does not exist. Where that cannot be determined, the operation ends
    /// with the error: a rule that protects something would take the object for missing, and let the operation
    /// continue.
    fn or_record_error<T>(&mut self, answer: Result<T>) -> Option<T> {
        match answer {
            Ok(known) => Some(known),
            Err(error) => {
                if !means_absent(error) {
                    self.query_error.get_or_insert(error);
                }
                None
            }
        }
    }

    /// Returns the object that rules refer to.
    pub(crate) fn find(&mut self, object: &Object) -> Option<LowerObject> {
        let here = |lower: &VnodeRef| Some(LowerObject { lower: VnodeRef::clone(lower), attributes: None });
        match object {
            Object::Value(value) => here(self.values.get(usize::try_from(*value).ok()?.checked_sub(1)?)?),
            Object::Named(name) => {
                let directory = self.own_directory()?;
                let found = Name::new(name).and_then(|name| directory.lookup(&Caller::server(), name));
                let entry = self.or_record_error(found)?;
                Some(LowerObject { lower: entry.vnode, attributes: Some(entry.attributes) })
            }
            Object::Argument(argument) => {
                let found = match argument.role {
                    Role::This | Role::From => self.find_operation_object(),
                    Role::Directory | Role::FromDirectory => here(&self.own_directory()?),
                    Role::To => self.find_replaced_object(),
                    Role::ToDirectory => match self.operation {
                        Some(Operation::Rename { to, .. }) => here(self.node.lower_of(to).ok()?),
                        _ => None,
                    },
                }?;
                self.in_branch(found, argument.branch)
            }
        }
    }

    /// Returns the object of the operation: for an operation with a name, the object that the name refers to.
    fn find_operation_object(&mut self) -> Option<LowerObject> {
        let lower = VnodeRef::clone(self.node.lower());
        if self.operation.and_then(Operation::entry_name).is_none() {
            return Some(LowerObject { lower, attributes: None });
        }
        if self.named_object.is_none() {
            let found = match self.current().as_ref().and_then(Operation::entry_name) {
                Some(name) => self.lookup_as_server(&lower, name),
                None => Err(Errno::ENOENT),
            };
            self.named_object = Some(self.or_record_error(found));
        }
        self.named_object.clone().flatten()
    }

    fn find_replaced_object(&mut self) -> Option<LowerObject> {
        let Some(Operation::Rename { to, .. }) = self.operation else { return None };
        if self.replaced_object.is_none() {
            let directory = VnodeRef::clone(self.node.lower_of(to).ok()?);
            let found = match self.current() {
                Some(Operation::Rename { to_name, .. }) => self.lookup_as_server(&directory, to_name),
                _ => Err(Errno::ENOENT),
            };
            self.replaced_object = Some(self.or_record_error(found));
        }
        self.replaced_object.clone().flatten()
    }

    /// Looks up a lower name, whoever the caller is: rules decide by the object, and reveal nothing of it.
    fn lookup_as_server(&self, directory: &VnodeRef, name: Name<'_>) -> Result<LowerObject> {
        use vnode::layer::Layer;
        let encoded = self.node.layer().encode_name(self.node, self.caller, name)?;
        let entry = directory.lookup(&Caller::server(), Name::new(&encoded)?)?;
        Ok(LowerObject { lower: entry.vnode, attributes: None })
    }

    /// Returns the object in the lower file system with this number.
    fn in_branch(&self, found: LowerObject, branch: u32) -> Option<LowerObject> {
        match FanOutVnode::of(&found.lower) {
            Some(node) if branch > 0 => {
                Some(LowerObject { lower: node.in_branch(branch as usize - 1)?, attributes: None })
            }
            _ if branch > 1 => None,
            _ => Some(found),
        }
    }

    /// Returns the object on which the operation is performed in a branch; `None` if the branch lacks the operation's
    /// object.
    pub(crate) fn target_in_branch(&mut self, branch: u32) -> Option<Arc<LayerVnode<FistLayer>>> {
        let Some(node) = FanOutVnode::of(self.node.lower()) else {
            return (branch <= 1).then(|| self.node.shared());
        };
        let part = node.in_branch(branch as usize - 1)?;
        if let Some(Operation::Unlink(name) | Operation::RemoveDirectory(name) | Operation::Rename { name, .. }) =
            self.current()
        {
            let found = self.lookup_as_server(&part, name);
            self.or_record_error(found)?;
        }
        Some(self.node.wrap(part))
    }

    /// Returns whether the operation is on an open file, which is in one branch.
    pub(crate) fn is_on_open_file(&self) -> bool {
        matches!(
            self.operation,
            Some(
                Operation::Read { .. }
                    | Operation::Write { .. }
                    | Operation::Truncate { .. }
                    | Operation::Flush
                    | Operation::Fsync { .. }
                    | Operation::Allocate { .. }
                    | Operation::Seek { .. }
                    | Operation::CopyRange { .. }
                    | Operation::Lock(_)
                    | Operation::TestLock(_)
                    | Operation::Poll
                    | Operation::Release
            )
        )
    }

    /// Returns the number of the branch that the operation's object is in, counted from 1.
    pub(crate) fn own_branch(&self) -> u32 {
        FanOutVnode::of(self.node.lower()).map_or(1, |node| node.primary() as u32 + 1)
    }

    /// Returns the directory of the operation: for an operation on a directory itself, that directory; for an operation
    /// on another object, the directory in which the object was looked up.
    pub(crate) fn own_directory(&self) -> Option<VnodeRef> {
        let has_name = self.operation.is_some_and(|operation| operation.entry_name().is_some());
        let lower = self.node.lower();
        if has_name || lower.kind() == FileKind::Directory {
            return Some(VnodeRef::clone(lower));
        }
        self.node.state().data().location.lock().unwrap_or_else(PoisonError::into_inner).directory.clone()
    }

    /// Returns the object of this layer on which the operation is to be performed, as passed to `fistOp`.
    pub(crate) fn target(&mut self, object: &Object) -> Option<Arc<LayerVnode<FistLayer>>> {
        Some(self.node.wrap(self.find(object)?.lower))
    }

    /// Returns the object of this layer for a directory.
    pub(crate) fn directory(&mut self, object: &Object) -> Result<Arc<LayerVnode<FistLayer>>> {
        let found = self.find(object).ok_or(Errno::ENOENT)?;
        Ok(self.node.wrap(found.lower))
    }

    /// Checks whether the caller could have requested the value that a rule assigns to an attribute that setattr sets:
    /// rules give no caller more than it could have had.
    ///
    /// # Errors
    /// Returns `EPERM` if not, as chmod(2) and chown(2) do, or the error of access(2) for a size.
    pub(crate) fn check_assignment(&self, value: OperationValue, number: i64) -> Result<()> {
        let Some(Operation::SetAttributes(changes)) = self.operation else { return Ok(()) };
        if number < 0 || self.caller.is_superuser() {
            return Ok(());
        }
        if value == OperationValue::NewSize {
            // A caller that sets a size already may set this one.
            return if changes.size.is_some() {
                Ok(())
            } else {
                self.node.forward_access(self.caller, AccessMode::WRITE)
            };
        }
        let Attributes { uid, gid, .. } = self.node.forward_getattr(&Caller::server())?;
        let is_owner = self.caller.uid == uid;
        let may = match value {
            // For a group that the caller is not in, Linux clears the bit that it requests.
            OperationValue::NewMode => {
                let is_group_set = |mode: i64| mode & i64::from(libc::S_ISGID) != 0;
                let is_asked_for = changes.mode.is_some_and(|mode| is_group_set(mode.into()));
                is_owner
                    && (!is_group_set(number) || is_asked_for || self.caller.is_in_group(changes.gid.unwrap_or(gid)))
            }
            OperationValue::NewOwner => is_owner && number == i64::from(uid),
            OperationValue::NewGroup => {
                is_owner && u32::try_from(number).is_ok_and(|group| group == gid || self.caller.is_in_group(group))
            }
            _ => true,
        };
        if may { Ok(()) } else { Err(Errno::EPERM) }
    }

    pub(crate) fn lookup_as(
        &mut self,
        directory: &Object,
        name: &[u8],
        user: Option<u32>,
        group: Option<u32>,
    ) -> Result<Entry> {
        let node = self.directory(directory)?;
        let name = Name::new(name)?;
        match (user, group) {
            (None, None) => node.forward_lookup(self.caller, name),
            (user, group) => {
                let (user, group) = (user.unwrap_or(self.caller.uid), group.unwrap_or(self.caller.gid));
                node.forward_lookup(&Caller::with_groups(user, group, &[], self.caller.umask), name)
            }
        }
    }

    /// Returns the attributes of an object: those of an object of this file system as the file system shows them.
    pub(crate) fn attributes(&mut self, object: &Object) -> Option<Attributes> {
        let found = self.find(object)?;
        let server = Caller::server();
        match object {
            Object::Argument(argument) if argument.branch == 0 => match found.attributes {
                Some(attributes) => Some(attributes),
                None => {
                    let attributes = self.node.wrap(found.lower).forward_getattr(&server);
                    self.or_record_error(attributes)
                }
            },
            _ => self.or_record_error(found.lower.getattr(&server)),
        }
    }

    /// Returns an identifier of an object: one that remains unique when the inode number is used again if handles are
    /// persistent, otherwise the inode number; `None` if the object does not exist.
    pub(crate) fn identity(&mut self, object: &Object) -> Option<i64> {
        if !self.module.has_persistent_handles {
            return self.attributes(object).map(|attributes| attributes.ino.get() as i64);
        }
        let digest = ::fist::ciphers::hash(self.find(object)?.lower.handle().as_bytes());
        let number = u64::from_le_bytes(*digest.first_chunk().expect("it is longer"));
        // Negative numbers are for missing objects, and zero for none.
        Some(((number >> 1) as i64).max(1))
    }

    /// Passes the `%per_vnode` fields of an object to `see`.
    ///
    /// # Errors
    /// Returns [`TrapKind::OutOfMemory`] if the mount has no room for the fields of one more object.
    pub(crate) fn with_vnode_fields(
        &mut self,
        object: &Object,
        access: &mut dyn FnMut(&mut [u8]),
    ) -> std::result::Result<(), TrapKind> {
        let Some(structure) = self.module.level().vnode else { return Ok(()) };
        let Some(found) = self.find(object) else { return Ok(()) };
        let node = self.node.wrap(found.lower);
        let mut fields_of_members = node.state().data().fields.lock().unwrap_or_else(PoisonError::into_inner);
        if fields_of_members.len() <= self.module.modules_below {
            fields_of_members.resize_with(self.module.modules_below + 1, VnodeFields::default);
        }
        let fields = &mut fields_of_members[self.module.modules_below];
        let size = self.module.program.structures[structure].size;
        if fields.layout != self.module.layout || fields.bytes.len() as u64 != size {
            // Fields of another layout are released first.
            *fields = VnodeFields::default();
            let mut lease = Lease::of(Arc::clone(&self.module.object_budget));
            if !lease.grow_to(size) {
                return Err(TrapKind::OutOfMemory);
            }
            *fields = VnodeFields { layout: self.module.layout, bytes: vec![0; size as usize], _lease: lease };
        }
        access(&mut fields.bytes);
        Ok(())
    }

    /// Returns the name by which the operation's object was looked up.
    pub(crate) fn own_name(&self) -> Vec<u8> {
        self.node.state().data().location.lock().unwrap_or_else(PoisonError::into_inner).name.clone()
    }

    /// Returns the name by which an object was looked up.
    pub(crate) fn name_of(&self, lower: &VnodeRef) -> Vec<u8> {
        let node = self.node.wrap(VnodeRef::clone(lower));
        let location = node.state().data().location.lock().unwrap_or_else(PoisonError::into_inner);
        location.name.clone()
    }
}

//! The layer `map`: performs each operation as the settings modify it.

use std::borrow::Cow;

use vnode::layer::{Layer, LayerFile, LayerVnode, Operation};
use vnode::{
    AccessMode, AllocateMode, Attributes, Caller, Creation, Device, Entry, Errno, FileKind, Name, Needs, OpenFileRef,
    OpenFlags, Promises, RenameMode, Result, SetAttributes, TimesTell, Vnode, VnodeRef, XattrMode,
};

use super::names::NameLocks;
use super::options::NAME;
use super::policies::XattrAccess;
use super::settings::Settings;
use super::view::is_acl;
use crate::ioctl;

/// Shows owners, groups and permission bits other than they are.
#[derive(Debug)]
pub struct Map {
    pub(crate) settings: Settings,
    pub(crate) names: NameLocks,
    details: String,
}

impl Layer for Map {
    type State = ();

    fn kind(&self) -> &'static str {
        NAME
    }

    fn details(&self) -> String {
        self.details.clone()
    }

    fn promises(&self) -> Promises {
        Promises {
            names_untouched: self.settings.hidden.is_none(),
            attributes_untouched: !self.has_view() && !self.alters(),
            // Without the time of its last change, a file whose modification time is set back looks unchanged.
            times_tell_changes: if self.settings.ctime_from_mtime { TimesTell::OfNone } else { TimesTell::OfAll },
            access_control: self.access_control(),
            ..Promises::TRANSPARENT
        }
    }

    fn needs(&self) -> Needs {
        Needs {
            every_lookup: self.denies("lookup"),
            failed_lookups: self.denies("lookup"),
            every_data_operation: self.denies("read") || self.denies("write"),
            every_poll: self.denies("poll"),
            fresh_attributes: self.settings.mirror.is_some() || self.denies("getattr"),
            ..Needs::NONE
        }
    }

    fn admit(&self, node: &LayerVnode<Self>, caller: &Caller, operation: &Operation<'_>) -> Result<()> {
        self.check_hidden(operation)?;
        if caller.is_server_alone() {
            return Ok(());
        }
        self.check_denied(operation)?;
        if caller.server {
            return Ok(());
        }
        if !self.has_view() {
            return Ok(());
        }
        let effective = self.effective(caller);
        self.check_excluded(&effective, operation)?;
        self.check_view(node, &effective, operation)
    }

    fn admit_handle(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<()> {
        if self.settings.hidden.is_some() || self.denies("lookup") { node.check_lookup(caller) } else { Ok(()) }
    }

    fn around<T>(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        operation: &Operation<'_>,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let _guards = self.has_view().then(|| self.names.lock(node, operation));
        self.admit(node, caller, operation)?;
        body()
    }

    fn map_caller<'a>(&'a self, caller: &'a Caller) -> Cow<'a, Caller> {
        let effective = self.effective(caller);
        match self.has_view() {
            // New objects and written data are still charged to the caller, where space is reserved or limited.
            true => {
                let server = Caller::server().at_expense_of(&self.charged_caller(&effective));
                Cow::Owned(with_process(server.killing_privileges_with(caller), caller))
            }
            false => effective,
        }
    }

    fn encode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        if self.hides(name) { Err(Errno::ENOENT) } else { Ok(Cow::Borrowed(name.as_bytes())) }
    }

    fn decode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        Ok((!self.hides(name)).then_some(Cow::Borrowed(name.as_bytes())))
    }

    fn map_attributes(&self, caller: &Caller, attributes: &mut Attributes) {
        if self.has_view() {
            self.show(&self.effective(caller), attributes);
        }
        if !caller.is_server_alone() {
            self.alter(attributes);
        }
    }

    fn setattr(&self, node: &LayerVnode<Self>, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let set_id = if node.kind() == FileKind::Regular { self.squashed_set_id(caller) } else { 0 };
        if caller.is_server_alone() || (!self.has_view() && self.settings.policies.are_normal() && set_id == 0) {
            return node.forward_setattr(caller, changes);
        }
        let view_caller = self.effective(caller);
        let view = self.view(node, &view_caller)?;
        let lower_mode = || node.lower().getattr(&Caller::server()).map(|below| below.mode);
        let mut changes = self.settings.policies.apply(&view, lower_mode, changes)?;
        if self.has_view() {
            view.check_changes(&mut changes)?;
            changes.uid =
                changes.uid.map(|uid| self.settings.users.to_lower(uid).ok_or(Errno::EOVERFLOW)).transpose()?;
            changes.gid =
                changes.gid.map(|gid| self.settings.groups.to_lower(gid).ok_or(Errno::EOVERFLOW)).transpose()?;
        }
        if let Some(mode) = &mut changes.mode {
            *mode &= !set_id;
        }
        if let Some(mode) = &mut changes.mode
            && self.has_view()
            && node.kind() == FileKind::Regular
        {
            let below = node.lower().getattr(&Caller::server())?;
            let ids = (changes.uid.unwrap_or(below.uid), changes.gid.unwrap_or(below.gid));
            *mode &= !self.foreign_set_id(&view_caller, ids);
        }
        match changes {
            changes if changes.is_empty() => node.forward_getattr(caller),
            SetAttributes { size: Some(_), .. } => node.forward_setattr(&self.writer(caller), &changes),
            _ => node.forward_setattr(caller, &changes),
        }
    }

    fn access(&self, node: &LayerVnode<Self>, caller: &Caller, mode: AccessMode) -> Result<()> {
        if !self.has_view() || caller.server {
            return node.forward_access(caller, mode);
        }
        self.view(node, &self.effective(caller))?.check(mode)?;
        // The lower file system knows whether anything can be written at all.
        if mode.contains(AccessMode::WRITE) { node.forward_access(caller, AccessMode::WRITE) } else { Ok(()) }
    }

    fn create(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        how: &Creation,
    ) -> Result<vnode::Created> {
        self.create_file(node, caller, name, how)
    }

    fn mkdir(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let new = self.new_object(node, caller, FileKind::Directory, mode)?;
        let entry = node.forward_mkdir(caller, name, new.mode)?;
        new.finish(self, node, caller, name, entry)
    }

    fn mknod(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        let new = self.new_object(node, caller, kind, mode)?;
        let entry = node.forward_mknod(caller, name, kind, new.mode, device)?;
        new.finish(self, node, caller, name, entry)
    }

    fn symlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let new = self.new_object(node, caller, FileKind::Symlink, 0o777)?;
        let entry = node.forward_symlink(caller, name, target)?;
        new.finish(self, node, caller, name, entry)
    }

    fn rename(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let rename = |mode| node.forward_rename(caller, name, to, to_name, mode);
        let no_replace_mode = match mode {
            RenameMode::Replace => RenameMode::NoReplace,
            RenameMode::Whiteout => RenameMode::WhiteoutNoReplace,
            _ => return rename(mode),
        };
        let denies_unlink = self.denies("unlink");
        if caller.server || !(denies_unlink || self.has_view()) {
            return rename(mode);
        }
        match rename(no_replace_mode) {
            // Where nothing may be deleted, nothing may be replaced either.
            Err(Errno::EEXIST) if denies_unlink => Err(Errno::EPERM),
            // The target may have been created after the check: then nothing has checked yet whether it may be removed.
            Err(Errno::EEXIST) => {
                self.check_removal(&**node.lower_of(to)?, &self.effective(caller), to_name, None)?;
                rename(mode)
            }
            // Not every file system supports a rename that keeps the target.
            Err(Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS) if !denies_unlink => rename(mode),
            answer => answer,
        }
    }

    fn tmpfile(&self, node: &LayerVnode<Self>, caller: &Caller, how: &Creation) -> Result<vnode::Created> {
        let new = self.new_object(node, caller, FileKind::Regular, how.mode)?;
        let mut created = node.forward_tmpfile(caller, &Creation { mode: new.mode, ..*how })?;
        created.entry.attributes = new.apply_attributes(self, node, caller, &created.entry)?;
        Ok(created)
    }

    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        if self.settings.policies.xattrs == XattrAccess::None {
            return Err(Errno::EOPNOTSUPP);
        }
        node.forward_getxattr(caller, name)
    }

    fn setxattr(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.settings.policies.check_xattr_change()?;
        match self.ignores_acl_change(node, caller, name)? {
            true => Ok(()),
            false => node.forward_setxattr(caller, name, value, mode),
        }
    }

    fn removexattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<()> {
        self.settings.policies.check_xattr_change()?;
        if self.ignores_acl_change(node, caller, name)? { Ok(()) } else { node.forward_removexattr(caller, name) }
    }

    fn listxattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        if self.settings.policies.xattrs == XattrAccess::None {
            return Ok(Vec::new());
        }
        let names = node.forward_listxattr(caller)?;
        if !self.has_view() {
            return Ok(names);
        }
        let trusted = self.effective(caller).is_superuser();
        let shown = |name: &&[u8]| !is_acl(name) && (trusted || !name.starts_with(b"trusted."));
        Ok(names.split_inclusive(|byte| *byte == 0).filter(shown).flatten().copied().collect())
    }

    fn ioctl(
        &self,
        node: &LayerVnode<Self>,
        file: Option<&LayerFile<Self>>,
        caller: &Caller,
        command: u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<i32> {
        let restricted = match self.has_view() && !caller.server && ioctl::changes(command) {
            true => self.restricted_owner(node, &self.effective(caller))?,
            false => None,
        };
        match (restricted, file) {
            (Some(owner), Some(file)) => file.lower().ioctl(&owner, command, input, output),
            (Some(owner), None) => node.lower().ioctl(&owner, command, input, output),
            (None, Some(file)) => file.forward_ioctl(caller, command, input, output),
            (None, None) => node.forward_ioctl(caller, command, input, output),
        }
    }

    fn open(&self, node: &LayerVnode<Self>, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        if flags.truncates() {
            node.forward_open(&self.writer(caller), flags)
        } else {
            node.forward_open(caller, flags)
        }
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        file.forward_write_at(&self.writer(caller), offset, data)
    }

    fn truncate(&self, file: &LayerFile<Self>, caller: &Caller, size: u64) -> Result<()> {
        file.forward_truncate(&self.writer(caller), size)
    }

    fn allocate(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        self.strip_privileges(file, caller)?;
        file.forward_allocate(&self.writer(caller), mode, offset, length)
    }

    fn copy_range(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        offset: u64,
        to: &OpenFileRef,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        if let Some(to) = to.as_any().downcast_ref::<LayerFile<Self>>()
            && length > 0
        {
            self.strip_privileges(to, caller)?;
        }
        file.forward_copy_range(&self.writer(caller), offset, to, to_offset, length)
    }
}

impl Map {
    /// Creates a layer with these settings, shown to users as `details`.
    pub(crate) fn new(settings: Settings, details: String) -> Self {
        Self { settings, names: NameLocks::default(), details }
    }

    /// Returns whether an extended attribute is an access control list that stays unchanged, since permission changes
    /// are ignored.
    ///
    /// # Errors
    /// Returns `EPERM` where permissions may not be changed this way, since setting a list is a way to change them.
    pub(crate) fn ignores_acl_change(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<bool> {
        if caller.server || !is_acl(name) || self.settings.policies.are_normal() {
            return Ok(false);
        }
        let caller = self.effective(caller);
        self.settings.policies.ignores_acl_change(&self.view(node, &caller)?)
    }

    /// Returns the caller that performs an ioctl for a squashed caller that owns the object in the view: the lower
    /// owner, without the server's capabilities, which permit more than ownership does, such as changing immutable
    /// files. Returns `None` for a caller that has these capabilities, too.
    pub(crate) fn restricted_owner(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Option<Caller>> {
        if caller.is_superuser() && caller.may_change_flags() {
            return Ok(None);
        }
        let below = node.lower().getattr(&Caller::server())?;
        let owner = Caller::with_groups(below.uid, below.gid, &[], caller.umask).without_capabilities();
        Ok(Some(with_process(owner, caller)))
    }

    /// Returns whether changes must clear set-ID bits, since the server may keep them where the caller may not.
    fn kills_privileges(&self, caller: &Caller) -> bool {
        self.has_view() && !caller.server && !self.effective(caller).is_superuser()
    }

    /// Returns the caller for an operation that changes data: it kills privileges where the server may keep them and the
    /// caller may not.
    fn writer<'a>(&self, caller: &'a Caller) -> Cow<'a, Caller> {
        match self.kills_privileges(caller) {
            true => Cow::Owned(caller.clone().killing_privileges()),
            false => Cow::Borrowed(caller),
        }
    }

    /// Removes set-ID bits and capabilities from a file that the server is about to change for a caller that may not
    /// keep them: before the change, since data may have changed even where a layer below reports an error.
    fn strip_privileges(&self, file: &LayerFile<Self>, caller: &Caller) -> Result<()> {
        if !self.kills_privileges(caller) {
            return Ok(());
        }
        let (below, server) = (file.node().lower(), Caller::server());
        let mode = below.getattr(&server)?.mode;
        let group = if mode & libc::S_IXGRP != 0 { libc::S_ISGID } else { 0 };
        let remaining_mode = mode & !(libc::S_ISUID | group);
        if remaining_mode != mode {
            below.setattr(&server, &SetAttributes { mode: Some(remaining_mode), ..SetAttributes::default() })?;
        }
        match below.getxattr(&server, CAPABILITY_XATTR) {
            Ok(_) => below.removexattr(&server, CAPABILITY_XATTR),
            Err(_) => Ok(()),
        }
    }
}

/// Returns the caller with the process ID of another.
pub(crate) fn with_process(mut caller: Caller, of: &Caller) -> Caller {
    caller.pid = of.pid;
    caller
}

/// Extended attribute that gives a program privileges.
const CAPABILITY_XATTR: &[u8] = b"security.capability";

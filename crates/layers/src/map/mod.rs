//! The layer `map`: shows other owners, groups and permission bits, hides names, refuses operations.
//!
//! What bindfs does. Two questions decide how an operation is admitted. Where owners, groups or permission bits are
//! shown other than they are, the **view** decides: whether the caller may do what it asks is checked here, by the
//! attributes that it is shown, and what is admitted is done below as the server. Where they are not, the file system
//! below decides, as without the layer.

mod create;
mod ids;
mod names;
mod options;
mod permissions;
mod view;
mod ways;

use std::borrow::Cow;

use vnode::layer::{self, Layer, LayerFile, LayerVnode, Operation};
use vnode::{
    AccessControl, AccessMode, AllocateMode, Attributes, Caller, Creation, Device, Entry, Errno, FileKind, Name,
    OpenFileRef, OpenFlags, Properties, RenameMode, Result, SetAttributes, Vnode, VnodeRef, XattrMode,
};

use crate::globs::Globs;
use crate::kind::Build;
use crate::{Kind, ioctl};
use ids::Ids;
use names::NameLocks;
use permissions::Permissions;
use view::{View, is_acl};

pub use options::create;

/// What whoever builds stacks knows of it.
pub const KIND: Kind = Kind {
    name: "map",
    summary: "shows other owners and permissions, hides names, refuses operations",
    options: options::KNOWN,
    build: Build::Over(|pairs, lower| Ok(layer::stack(create(pairs)?, lower))),
};

/// Shows owners, groups and permission bits other than they are.
#[derive(Debug)]
pub struct Map {
    users: Ids,
    groups: Ids,
    /// Users who see themselves as the owner of everything.
    mirror: Option<Users>,
    permissions: Option<Permissions>,
    squash: Option<Squash>,
    created: Created,
    policies: Policies,
    hidden: Option<Globs>,
    /// Operations that are refused, as bits by index.
    denied: u64,
    names: NameLocks,
    details: String,
}

/// A set of users and members of groups.
#[derive(Debug, Default)]
struct Users {
    users: Vec<u32>,
    groups: Vec<u32>,
}

/// Callers who are taken for another one: the superuser, or all.
#[derive(Debug)]
struct Squash {
    all: bool,
    uid: u32,
    gid: u32,
}

/// What is created gets these, as ids below.
#[derive(Debug)]
struct Created {
    owner: Option<u32>,
    group: Option<u32>,
    permissions: Option<Permissions>,
}

/// What becomes of changes.
#[derive(Debug)]
struct Policies {
    chown: Policy,
    chgrp: Policy,
    chmod: Policy,
    chmod_filter: Option<Permissions>,
    xattrs: Xattrs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Policy {
    #[default]
    Normal,
    /// Done as far as the caller can tell who does not look.
    Ignore,
    Deny,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Xattrs {
    None,
    ReadOnly,
    #[default]
    ReadWrite,
}

impl Layer for Map {
    type State = ();

    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn details(&self) -> String {
        self.details.clone()
    }

    fn properties(&self) -> Properties {
        Properties {
            names_untouched: self.hidden.is_none(),
            attributes_untouched: !self.has_view(),
            access_control: self.access_control(),
            needs_every_lookup: self.denies("lookup"),
            needs_failed_lookups: self.denies("lookup"),
            needs_every_data_operation: self.denies("read") || self.denies("write"),
            needs_fresh_attributes: self.mirror.is_some() || self.denies("getattr"),
            ..Properties::TRANSPARENT
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
        if self.has_view() { self.check_view(node, &self.effective(caller), operation) } else { Ok(()) }
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
            // What is made and written is the caller's all the same, where room is reserved or limited.
            true => Cow::Owned(with_process(Caller::server().at_expense_of(&self.payer(&effective)), caller)),
            false => effective,
        }
    }

    fn encode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        if self.hides(name) { Err(Errno::ENOENT) } else { Ok(Cow::Borrowed(name.as_bytes())) }
    }

    fn decode_name<'a>(&self, _: &LayerVnode<Self>, name: Name<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        Ok((!self.hides(name)).then_some(Cow::Borrowed(name.as_bytes())))
    }

    fn map_attributes(&self, caller: &Caller, attributes: &mut Attributes) {
        if self.has_view() {
            self.show(&self.effective(caller), attributes);
        }
    }

    fn setattr(&self, node: &LayerVnode<Self>, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        if caller.is_server_alone() || (!self.has_view() && self.policies.are_normal()) {
            return node.forward_setattr(caller, changes);
        }
        let view_caller = self.effective(caller);
        let view = self.view(node, &view_caller)?;
        let mut changes = self.policies.apply(&view, changes)?;
        if self.has_view() {
            view.check_changes(&mut changes)?;
            changes.uid = changes.uid.map(|uid| self.users.meant(uid).ok_or(Errno::EOVERFLOW)).transpose()?;
            changes.gid = changes.gid.map(|gid| self.groups.meant(gid).ok_or(Errno::EOVERFLOW)).transpose()?;
        }
        if let Some(mode) = &mut changes.mode
            && self.has_view()
            && node.kind() == FileKind::Regular
        {
            let below = node.lower().getattr(&Caller::server())?;
            let ids = (changes.uid.unwrap_or(below.uid), changes.gid.unwrap_or(below.gid));
            *mode &= !self.foreign_set_id(&view_caller, ids);
        }
        if changes.is_empty() { node.forward_getattr(caller) } else { node.forward_setattr(caller, &changes) }
    }

    fn access(&self, node: &LayerVnode<Self>, caller: &Caller, mode: AccessMode) -> Result<()> {
        if !self.has_view() || caller.server {
            return node.forward_access(caller, mode);
        }
        self.view(node, &self.effective(caller))?.check(mode)?;
        // Whether anything can be written at all is known below.
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
        new.settle(self, node, caller, name, entry)
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
        new.settle(self, node, caller, name, entry)
    }

    fn symlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let new = self.new_object(node, caller, FileKind::Symlink, 0o777)?;
        let entry = node.forward_symlink(caller, name, target)?;
        new.settle(self, node, caller, name, entry)
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
        let kept = match mode {
            RenameMode::Replace => RenameMode::NoReplace,
            RenameMode::Whiteout => RenameMode::WhiteoutNoReplace,
            _ => return rename(mode),
        };
        let keeps = self.denies("unlink");
        if caller.server || !(keeps || self.has_view()) {
            return rename(mode);
        }
        match rename(kept) {
            // Where nothing may be deleted, nothing may be replaced either.
            Err(Errno::EEXIST) if keeps => Err(Errno::EPERM),
            // It may have come to be after it was looked for: then nobody has asked yet whether it may go.
            Err(Errno::EEXIST) => {
                self.check_removal(&**node.lower_of(to)?, &self.effective(caller), to_name, None)?;
                rename(mode)
            }
            // Not every file system can keep what stands there.
            Err(Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS) if !keeps => rename(mode),
            answer => answer,
        }
    }

    fn tmpfile(&self, node: &LayerVnode<Self>, caller: &Caller, how: &Creation) -> Result<vnode::Created> {
        let new = self.new_object(node, caller, FileKind::Regular, how.mode)?;
        let mut created = node.forward_tmpfile(caller, &Creation { mode: new.mode, ..*how })?;
        created.entry.attributes = new.adopt(self, node, caller, &created.entry)?;
        Ok(created)
    }

    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        if self.policies.xattrs == Xattrs::None {
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
        self.policies.check_xattr_change()?;
        match self.keeps_list(node, caller, name)? {
            true => Ok(()),
            false => node.forward_setxattr(caller, name, value, mode),
        }
    }

    fn removexattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<()> {
        self.policies.check_xattr_change()?;
        if self.keeps_list(node, caller, name)? { Ok(()) } else { node.forward_removexattr(caller, name) }
    }

    fn listxattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        if self.policies.xattrs == Xattrs::None {
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
        if !flags.truncates() || !self.kills_privileges(caller) {
            return node.forward_open(caller, flags);
        }
        let file = node.forward_open(caller, flags.without(OpenFlags::TRUNCATE))?;
        let cut = SetAttributes { size: Some(0), kill_privileges: true, ..SetAttributes::default() };
        node.forward_setattr(caller, &cut)?;
        Ok(file)
    }

    fn write_at(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        offset: u64,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<usize> {
        file.forward_write_at(caller, offset, data, kill_privileges || self.kills_privileges(caller))
    }

    fn truncate(&self, file: &LayerFile<Self>, caller: &Caller, size: u64, kill_privileges: bool) -> Result<()> {
        file.forward_truncate(caller, size, kill_privileges || self.kills_privileges(caller))
    }

    fn allocate(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        self.before_change(file, caller)?;
        file.forward_allocate(caller, mode, offset, length)
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
            self.before_change(to, caller)?;
        }
        file.forward_copy_range(caller, offset, to, to_offset, length)
    }
}

impl Map {
    /// Whether attributes are shown other than they are, so that they decide.
    fn has_view(&self) -> bool {
        !self.users.is_identity() || !self.groups.is_identity() || self.permissions.is_some() || self.mirror.is_some()
    }

    /// What the attributes that are shown say of who gets in: a view decides by them.
    fn access_control(&self) -> AccessControl {
        if self.mirror.is_some() || self.denies("lookup") {
            AccessControl::NotShown
        } else if self.squash.is_some() || self.denies("access") {
            // The kernel does not know as whom a caller is seen, and would answer access(2) by itself.
            AccessControl::OpenAsShown
        } else {
            AccessControl::AsShown
        }
    }

    /// Whom this caller, squashed, is below: what is made at its expense is its own from the beginning. A user whom the superuser
    /// below is shown as is not the superuser.
    fn payer<'a>(&self, effective: &'a Caller) -> Cow<'a, Caller> {
        let below = (self.users.meant(effective.uid), self.groups.meant(effective.gid));
        match below {
            (Some(uid), Some(gid))
                if effective.uid != 0 && uid != 0 && (uid, gid) != (effective.uid, effective.gid) =>
            {
                let mut payer = effective.clone();
                (payer.uid, payer.gid) = (uid, gid);
                Cow::Owned(payer)
            }
            _ => Cow::Borrowed(effective),
        }
    }

    /// Whether an extended attribute is an access control list that stays as it is, since changes of permissions are ignored.
    ///
    /// # Errors
    /// `EPERM` where permissions may not be changed so: a list is a way to change them.
    fn keeps_list(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<bool> {
        if caller.server || !is_acl(name) || self.policies.are_normal() {
            return Ok(false);
        }
        let caller = self.effective(caller);
        self.policies.keeps_list(&self.view(node, &caller)?)
    }

    /// The owner and the group that this caller, squashed, is shown for those below.
    fn shown_ids(&self, caller: &Caller, (uid, gid): (u32, u32)) -> (u32, u32) {
        let mirrored = |users: &Users| {
            !caller.server
                && (users.users.contains(&caller.uid) || users.groups.iter().any(|group| caller.is_in_group(*group)))
        };
        let uid = match &self.mirror {
            Some(users) if mirrored(users) => caller.uid,
            _ => self.users.shown(uid),
        };
        (uid, self.groups.shown(gid))
    }

    /// The set-id bits that a file with this owner and group below must not have for this caller, squashed: a program would run
    /// as somebody else than it is shown to.
    fn foreign_set_id(&self, caller: &Caller, below: (u32, u32)) -> u32 {
        let shown = self.shown_ids(caller, below);
        let user = if shown.0 == below.0 { 0 } else { libc::S_ISUID };
        user | if shown.1 == below.1 { 0 } else { libc::S_ISGID }
    }

    /// Attributes from below as this caller, squashed, sees them.
    fn show(&self, caller: &Caller, attributes: &mut Attributes) {
        let below = (attributes.uid, attributes.gid);
        (attributes.uid, attributes.gid) = self.shown_ids(caller, below);
        if attributes.kind == FileKind::Regular {
            attributes.mode &= !self.foreign_set_id(caller, below);
        }
        if let Some(permissions) = &self.permissions
            && attributes.kind != FileKind::Symlink
        {
            attributes.mode = permissions.apply(attributes.mode, attributes.is_directory());
        }
    }

    /// The object as the caller, squashed, sees it.
    fn view<'a>(&self, node: &LayerVnode<Self>, caller: &'a Caller) -> Result<View<'a>> {
        self.view_of(&**node.lower(), caller)
    }

    fn view_of<'a>(&self, below: &dyn Vnode, caller: &'a Caller) -> Result<View<'a>> {
        let mut attributes = below.getattr(&Caller::server())?;
        if self.has_view() {
            self.show(caller, &mut attributes);
        }
        Ok(View { caller, attributes })
    }

    /// The caller, or whom it is squashed to.
    fn effective<'a>(&self, caller: &'a Caller) -> Cow<'a, Caller> {
        match &self.squash {
            Some(squash) if !caller.server && (squash.all || caller.uid == 0) => {
                let squashed = Caller::with_groups(squash.uid, squash.gid, &[], caller.umask);
                Cow::Owned(with_process(squashed, caller))
            }
            _ => Cow::Borrowed(caller),
        }
    }

    /// As whom a caller, squashed, who owns an object in the view has it changed by an ioctl: as its owner below, without the
    /// server's capabilities, which allow more than owning it, such as to change immutable files. `None` for a caller who has
    /// them too.
    fn restricted_owner(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Option<Caller>> {
        if caller.is_superuser() && caller.may_change_flags() {
            return Ok(None);
        }
        let below = node.lower().getattr(&Caller::server())?;
        let owner = Caller::with_groups(below.uid, below.gid, &[], caller.umask).without_capabilities();
        Ok(Some(with_process(owner, caller)))
    }

    /// The server may keep set-id bits where the caller may not.
    fn kills_privileges(&self, caller: &Caller) -> bool {
        self.has_view() && !caller.server && !self.effective(caller).is_superuser()
    }

    /// Takes set-id bits and capabilities from a file that the server is about to change for a caller who may not keep them:
    /// first, since data may have changed where an error is reported.
    fn before_change(&self, file: &LayerFile<Self>, caller: &Caller) -> Result<()> {
        if !self.kills_privileges(caller) {
            return Ok(());
        }
        let (below, server) = (file.node().lower(), Caller::server());
        let mode = below.getattr(&server)?.mode;
        let group = if mode & libc::S_IXGRP != 0 { libc::S_ISGID } else { 0 };
        let left = mode & !(libc::S_ISUID | group);
        if left != mode {
            below.setattr(&server, &SetAttributes { mode: Some(left), ..SetAttributes::default() })?;
        }
        match below.getxattr(&server, CAPABILITIES) {
            Ok(_) => below.removexattr(&server, CAPABILITIES),
            Err(_) => Ok(()),
        }
    }

    fn hides(&self, name: Name<'_>) -> bool {
        self.hidden.as_ref().is_some_and(|globs| globs.matches(name.as_bytes()))
    }

    fn denies(&self, operation: &str) -> bool {
        let index = Operation::NAMES.iter().position(|name| *name == operation);
        index.is_some_and(|index| self.denied & (1 << index) != 0)
    }

    /// Hidden names do not exist, and cannot be made to.
    fn check_hidden(&self, operation: &Operation<'_>) -> Result<()> {
        if self.hidden.is_none() {
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

    fn check_denied(&self, operation: &Operation<'_>) -> Result<()> {
        if self.denied & ways::effects(operation) != 0 { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Whether the caller, squashed, may do this by the attributes it sees. Changes of attributes, access and creation
    /// are checked with the operations.
    fn check_view(&self, node: &LayerVnode<Self>, caller: &Caller, operation: &Operation<'_>) -> Result<()> {
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
                    // If it comes to be meanwhile, it is found when it is replaced.
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

    /// Whether a name may go from the directory below: `ENOENT` if there is none, since one that is made after this must
    /// not go unchecked. A directory that moves elsewhere has to be writable itself, for its `..` changes.
    fn check_removal(&self, directory: &dyn Vnode, caller: &Caller, name: Name<'_>, moves: Option<()>) -> Result<()> {
        let view = self.view_of(directory, caller)?;
        view.check_entries()?;
        let entry = directory.lookup(&Caller::server(), name)?;
        let object = self.view_of(&*entry.vnode, caller)?;
        view.check_sticky(object.attributes.uid)?;
        if moves.is_some() && object.attributes.is_directory() { object.check(AccessMode::WRITE) } else { Ok(()) }
    }
}

impl Policies {
    /// Whether all changes go through as they are.
    fn are_normal(&self) -> bool {
        [self.chown, self.chgrp, self.chmod] == [Policy::Normal; 3] && self.chmod_filter.is_none()
    }

    /// What is left of the changes. What is ignored still takes the right to do it.
    fn apply(&self, view: &View<'_>, changes: &SetAttributes) -> Result<SetAttributes> {
        let mut left = *changes;
        let keep = |policy, asked: bool| match policy {
            Policy::Deny if asked => Err(Errno::EPERM),
            Policy::Ignore if asked => view.check_owner().map(|()| false),
            _ => Ok(true),
        };
        if !keep(self.chown, changes.uid.is_some())? {
            left.uid = None;
        }
        if !keep(self.chgrp, changes.gid.is_some())? {
            left.gid = None;
        }
        if !keep(self.chmod, changes.mode.is_some())? {
            left.mode = None;
        }
        if let (Some(filter), Some(mode)) = (&self.chmod_filter, &mut left.mode) {
            *mode = filter.apply(*mode, view.attributes.is_directory());
        }
        Ok(left)
    }

    /// Whether access control lists stay as they are, for somebody who is told that they have changed.
    fn keeps_list(&self, view: &View<'_>) -> Result<bool> {
        match self.chmod {
            Policy::Deny => Err(Errno::EPERM),
            // What a list grants cannot be filtered as a mode can.
            _ if self.chmod_filter.is_some() => Err(Errno::EPERM),
            Policy::Ignore => view.check_owner().map(|()| true),
            Policy::Normal => Ok(false),
        }
    }

    fn check_xattr_change(&self) -> Result<()> {
        match self.xattrs {
            Xattrs::None => Err(Errno::EOPNOTSUPP),
            Xattrs::ReadOnly => Err(Errno::EPERM),
            Xattrs::ReadWrite => Ok(()),
        }
    }
}

/// The same caller, of the process of another.
fn with_process(mut caller: Caller, of: &Caller) -> Caller {
    caller.pid = of.pid;
    caller
}

/// The extended attribute that gives a program privileges.
const CAPABILITIES: &[u8] = b"security.capability";

/// Operations that delete, as bits by index.
fn deleting() -> u64 {
    ["unlink", "rmdir"].iter().fold(0, |set, name| {
        set | Operation::NAMES.iter().position(|known| known == name).map_or(0, |index| 1 << index)
    })
}

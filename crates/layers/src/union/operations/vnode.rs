//! The vnode interface of a [`Node`]: passes each operation to the module of its group.

use std::any::Any;
use std::sync::Arc;

use vnode::profile::{self, Part};
use vnode::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, Name, OpenDirectoryRef,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
};

use super::file::UnionFile;
use super::listing::DirectoryListing;
use crate::ioctl;
use crate::union::branch::lease::{LeaseRetry, retry_while_leased};
use crate::union::branch::whiteout::{self, EntryMeaning};
use crate::union::settings::NAME;
use crate::union::state::{Node, NodeLocation};
use crate::views::PerViewListing;

impl Part for Node {
    const PART: &'static str = NAME;
}

impl Vnode for Node {
    fn handle(&self) -> Handle {
        self.external_handle()
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn path(&self) -> Result<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut node = self.unaliased();
        loop {
            let above = match node.location() {
                NodeLocation::At(above) => above,
                NodeLocation::Unknown if node.is_root() => break,
                NodeLocation::Unknown => return Err(Errno::EOPNOTSUPP),
                NodeLocation::Nowhere => return Err(Errno::ENOENT),
            };
            let EntryMeaning::Object(name) = whiteout::meaning(above.stored.as_bytes()) else {
                return Err(Errno::ENOENT);
            };
            names.push(name.into_owned());
            node = above.directory;
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        self.for_caller(caller)?.run_query(|node| node.attributes(caller))
    }

    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        // Set-id bits are cleared by writes, through whatever open file.
        let only_clears = SetAttributes { kill_privileges: true, ..SetAttributes::default() };
        let node = if *changes == only_clears { self.for_caller(caller)? } else { self.for_change_by(caller)? };
        node.run_change(|node| node.set_attributes(caller, changes))
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        self.for_caller(caller)?.run_query(|node| node.check_access(caller, mode))
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let node = self.for_caller(caller)?;
        let _guard = node.begin_operation()?;
        Ok(self.present_entry(name, node.look_up(caller, name)?))
    }

    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        self.require_directory()?;
        let node = self.for_caller(caller)?;
        let _guard = node.begin_operation()?;
        if node.is_root() {
            return Ok(profile::vnode(self.reference()));
        }
        node.find_location()?;
        match node.location() {
            NodeLocation::At(above) => Ok(profile::vnode(above.directory.present_parent())),
            _ => Err(Errno::ENOENT),
        }
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        self.for_caller(caller)?.run_change(|node| node.create_file(caller, name, how))
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let node = self.for_caller(caller)?;
        node.run_change(|node| Ok(self.present_entry(name, node.make_directory(caller, name, mode)?)))
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        self.for_caller(caller)?.run_change(|node| node.make_special(caller, name, kind, mode, device))
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        self.for_caller(caller)?.run_change(|node| node.make_symlink(caller, name, target))
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let lease_retry = LeaseRetry::for_blocked_callers(Errno::EAGAIN);
        self.for_caller(caller)?
            .run_change_within(lease_retry, |node| node.make_link(caller, &node.translate(target)?, name))
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.for_caller(caller)?.run_change(|node| node.unlink_name(caller, name))
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        self.for_caller(caller)?.run_change(|node| {
            node.detach(name, true)?;
            node.remove_directory(caller, name)
        })
    }

    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        // The kernel blocks all other renames between directories meanwhile: a program that gets `EXDEV` copies by itself.
        let lease_retry = LeaseRetry::for_blocked_callers(Errno::EXDEV);
        self.for_caller(caller)?.run_change_within(lease_retry, |node| {
            let to = node.translate(to)?;
            let target_detached = match mode {
                RenameMode::NoReplace | RenameMode::WhiteoutNoReplace => Ok(()),
                _ => to.detach(to_name, mode != RenameMode::Exchange),
            };
            node.detach(name, false).and(target_detached)?;
            node.rename_name(caller, name, &to, to_name, mode)
        })
    }

    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.reference().run_query(|node| node.leftmost().vnode.readlink(caller))
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        match self.kind {
            FileKind::Regular => {
                self.check_visible_to(caller)?;
                let lease_retry = LeaseRetry::for_open(flags);
                self.reference().run_change_within(lease_retry, |node| UnionFile::open(node, caller, flags))
            }
            FileKind::Directory => Err(Errno::EISDIR),
            FileKind::Symlink => Err(Errno::ELOOP),
            _ => Err(Errno::ENXIO),
        }
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        self.for_caller(caller)?.run_query(|node| {
            if self.union.mount_state.has_had_views() {
                let listing = PerViewListing::open(self.reference(), Arc::clone(node), caller)?;
                return Ok(profile::open_directory(Arc::new(listing)));
            }
            Ok(profile::open_directory(Arc::new(DirectoryListing::open(Arc::clone(node), caller)?)))
        })
    }

    fn statfs(&self, caller: &Caller) -> Result<StatFs> {
        let node = self.for_caller(caller)?;
        let _guard = node.union.operation_guard();
        node.union.space(caller).map_err(|error| node.reported_error(error))
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        self.for_caller(caller)?.run_query(|node| node.xattr(caller, name))
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.for_change_by(caller)?.run_change(|node| node.set_xattr(caller, name, value, mode))
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.for_caller(caller)?.run_query(|node| node.xattr_names(caller))
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        self.for_change_by(caller)?.run_change(|node| node.remove_xattr(caller, name))
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        self.for_caller(caller)?.run_change(|node| node.make_unnamed(caller, how))
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let node = if ioctl::changes(command) { self.for_change_by(caller)? } else { self.for_caller(caller)? };
        retry_while_leased(|| {
            let _guard = node.begin_operation()?;
            let instance = match ioctl::changes(command) {
                true => node.writable_to_set_flags(caller)?,
                false if ioctl::asks_for_data(command) => node.data_instance()?.unwrap_or_else(|| node.leftmost()),
                false => node.leftmost(),
            };
            instance.vnode.ioctl(caller, command, input, output)
        })
        .map_err(|error| node.reported_error(error))
    }
}

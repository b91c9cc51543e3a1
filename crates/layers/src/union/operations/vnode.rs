//! The vnode interface of a [`Node`]: passes each operation to the module of its group.

use std::any::Any;
use std::sync::Arc;

use vnode::profile::enter;
use vnode::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, Name, OpenDirectoryRef,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
};

use super::file::UnionFile;
use super::listing::Listing;
use crate::ioctl;
use crate::union::branch::lease::{Patience, patiently};
use crate::union::branch::whiteout::{self, Meaning};
use crate::union::node::{Node, Whereabouts};
use crate::union::settings::NAME;
use crate::views::SplitListing;

impl Vnode for Node {
    fn handle(&self) -> Handle {
        self.outward()
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn path(&self) -> Result<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut node = self.behind();
        loop {
            let above = match node.whereabouts() {
                Whereabouts::At(above) => above,
                Whereabouts::Unknown if node.is_root() => break,
                Whereabouts::Unknown => return Err(Errno::EOPNOTSUPP),
                Whereabouts::Nowhere => return Err(Errno::ENOENT),
            };
            let Meaning::Object(name) = whiteout::meaning(above.stored.as_bytes()) else {
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
        let _working = enter(NAME);
        self.for_caller(caller)?.reading(|node| node.attributes(caller))
    }

    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let _working = enter(NAME);
        // Set-id bits are cleared by writes, through whatever open file.
        let only_clears = SetAttributes { kill_privileges: true, ..SetAttributes::default() };
        let node = if *changes == only_clears { self.for_caller(caller)? } else { self.changed_by(caller)? };
        node.changing(|node| node.set_attributes(caller, changes))
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        let _working = enter(NAME);
        self.for_caller(caller)?.reading(|node| node.may(caller, mode))
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let _working = enter(NAME);
        let node = self.for_caller(caller)?;
        let _steady = node.begin()?;
        Ok(self.presented(name, node.look_up(caller, name)?))
    }

    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        let _working = enter(NAME);
        self.only_directory()?;
        let node = self.for_caller(caller)?;
        let _steady = node.begin()?;
        if node.is_root() {
            return Ok(self.reference());
        }
        node.find_whereabouts()?;
        match node.whereabouts() {
            Whereabouts::At(above) => Ok(above.directory.presented_above()),
            _ => Err(Errno::ENOENT),
        }
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let _working = enter(NAME);
        self.for_caller(caller)?.changing(|node| node.create_file(caller, name, how))
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        let _working = enter(NAME);
        let node = self.for_caller(caller)?;
        node.changing(|node| Ok(self.presented(name, node.make_directory(caller, name, mode)?)))
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        let _working = enter(NAME);
        self.for_caller(caller)?.changing(|node| node.make_special(caller, name, kind, mode, device))
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        let _working = enter(NAME);
        self.for_caller(caller)?.changing(|node| node.make_symlink(caller, name, target))
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let _working = enter(NAME);
        let patience = Patience::of_many(Errno::EAGAIN);
        self.for_caller(caller)?.changing_within(patience, |node| node.make_link(caller, &node.own(target)?, name))
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let _working = enter(NAME);
        self.for_caller(caller)?.changing(|node| node.unlink_name(caller, name))
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let _working = enter(NAME);
        self.for_caller(caller)?.changing(|node| {
            node.set_apart(name, true)?;
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
        let _working = enter(NAME);
        // The kernel blocks all other renames between directories meanwhile: a program that gets `EXDEV` copies by itself.
        let patience = Patience::of_many(Errno::EXDEV);
        self.for_caller(caller)?.changing_within(patience, |node| {
            let to = node.own(to)?;
            let to_apart = match mode {
                RenameMode::NoReplace | RenameMode::WhiteoutNoReplace => Ok(()),
                _ => to.set_apart(to_name, mode != RenameMode::Exchange),
            };
            node.set_apart(name, false).and(to_apart)?;
            node.rename_name(caller, name, &to, to_name, mode)
        })
    }

    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        let _working = enter(NAME);
        self.reference().reading(|node| node.leftmost().vnode.readlink(caller))
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        let _working = enter(NAME);
        match self.kind {
            FileKind::Regular => {
                self.is_seen_by(caller)?;
                let patience = if flags.is_nonblocking() { Patience::none() } else { Patience::of_one() };
                self.reference().changing_within(patience, |node| UnionFile::open(node, caller, flags))
            }
            FileKind::Directory => Err(Errno::EISDIR),
            FileKind::Symlink => Err(Errno::ELOOP),
            _ => Err(Errno::ENXIO),
        }
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        let _working = enter(NAME);
        self.for_caller(caller)?.reading(|node| {
            if self.union.family.is_split() {
                return Ok(
                    Arc::new(SplitListing::open(self.reference(), Arc::clone(node), caller)?) as OpenDirectoryRef
                );
            }
            Ok(Arc::new(Listing::open(Arc::clone(node), caller)?))
        })
    }

    fn statfs(&self, caller: &Caller) -> Result<StatFs> {
        let _working = enter(NAME);
        let node = self.for_caller(caller)?;
        let _steady = node.union.steady();
        node.union.space(caller).map_err(|error| node.judged(error))
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        let _working = enter(NAME);
        self.for_caller(caller)?.reading(|node| node.xattr(caller, name))
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _working = enter(NAME);
        self.changed_by(caller)?.changing(|node| node.set_xattr(caller, name, value, mode))
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        let _working = enter(NAME);
        self.for_caller(caller)?.reading(|node| node.xattr_names(caller))
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        let _working = enter(NAME);
        self.changed_by(caller)?.changing(|node| node.remove_xattr(caller, name))
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        let _working = enter(NAME);
        self.for_caller(caller)?.changing(|node| node.make_unnamed(caller, how))
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        let _working = enter(NAME);
        let node = if ioctl::changes(command) { self.changed_by(caller)? } else { self.for_caller(caller)? };
        patiently(|| {
            let _steady = node.begin()?;
            let instance = match ioctl::changes(command) {
                true => node.writable_to_flag(caller)?,
                false if ioctl::asks_for_data(command) => node.data()?.unwrap_or_else(|| node.leftmost()),
                false => node.leftmost(),
            };
            instance.vnode.ioctl(caller, command, input, output)
        })
        .map_err(|error| node.judged(error))
    }
}

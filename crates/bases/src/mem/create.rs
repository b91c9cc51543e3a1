//! Creates objects and names: create, mkdir, mknod, symlink, tmpfile, link.

use std::sync::Arc;

use vnode::{Caller, Created, Creation, Device, Entry, Errno, FileKind, Name, OpenFileRef, Result, VnodeRef, profile};

use crate::unix::creation::{check_device, check_target, inherit};

use super::data::Data;
use super::file::MemoryFile;
use super::inode::{Content, Inode, LINKS_MAX, NewInode, State};
use super::memory;
use super::remove::search;

impl Inode {
    /// Creates and opens a regular file, or opens an existing one.
    pub(crate) fn create_file(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let mut state = self.write();
        if let Some(slot) = search(&state, caller)?.get(name) {
            let old = slot.inode.clone();
            drop(state);
            if how.flags.is_exclusive() {
                return Err(Errno::EEXIST);
            }
            let file = old.open_file(caller, how.flags)?;
            return Ok(Created { entry: old.entry(), file });
        }
        state.check_creation(caller)?;
        let content = Content::File { data: Data::default(), linkable: false };
        let inode = self.new_inode(&state, caller, FileKind::Regular, how.mode, Device::default(), content)?;
        self.add_name(&mut state, name, &inode, &mut inode.write())?;
        Ok(Created { entry: inode.entry(), file: open_new_file(&inode, how) })
    }

    /// Creates an object with a name.
    pub(crate) fn create_named(
        &self,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        let (device, content) = match kind {
            FileKind::Regular => (Device::default(), Content::File { data: Data::default(), linkable: false }),
            FileKind::Directory => (Device::default(), Content::Directory(Box::default())),
            FileKind::Fifo | FileKind::Socket => (Device::default(), Content::Special),
            FileKind::CharacterDevice | FileKind::BlockDevice => (device, Content::Special),
            FileKind::Symlink => return Err(Errno::EINVAL),
        };
        let mut state = self.write();
        check_new_name(&state, caller, name)?;
        check_device(caller, kind, device)?;
        let inode = self.new_inode(&state, caller, kind, mode, device, content)?;
        self.add_name(&mut state, name, &inode, &mut inode.write())?;
        Ok(inode.entry())
    }

    /// Creates a symlink.
    pub(crate) fn create_symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        check_target(target)?;
        let mut state = self.write();
        check_new_name(&state, caller, name)?;
        let content = Content::Symlink(memory::copy(target)?);
        let inode = self.new_inode(&state, caller, FileKind::Symlink, 0o777, Device::default(), content)?;
        self.add_name(&mut state, name, &inode, &mut inode.write())?;
        Ok(inode.entry())
    }

    /// Creates and opens an unnamed file.
    pub(crate) fn create_unnamed(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        let state = self.read();
        state.check_creation(caller)?;
        let content = Content::File { data: Data::default(), linkable: !how.flags.is_exclusive() };
        let inode = self.new_inode(&state, caller, FileKind::Regular, how.mode, Device::default(), content)?;
        Ok(Created { entry: inode.entry(), file: open_new_file(&inode, how) })
    }

    /// Adds a link to `target`.
    pub(crate) fn add_link_to(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let target = self.of_same_volume(target)?.to_arc();
        let mut state = self.write();
        check_new_name(&state, caller, name)?;
        if target.kind == FileKind::Directory {
            return Err(Errno::EPERM);
        }
        let mut linked = target.write();
        let is_permanently_unnamed = !matches!(linked.content, Content::File { linkable: true, .. });
        if linked.metadata.nlink == 0 && is_permanently_unnamed {
            return Err(Errno::ENOENT);
        }
        if linked.metadata.nlink >= LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        if let Content::File { linkable, .. } = &mut linked.content {
            *linkable = false;
        }
        linked.metadata.times.changed();
        self.add_name(&mut state, name, &target, &mut linked)?;
        drop(linked);
        Ok(target.entry())
    }

    /// Creates a whiteout: a character device 0:0, which marks a removed name.
    pub(crate) fn new_whiteout(&self, state: &State, caller: &Caller) -> Result<Arc<Inode>> {
        let kind = FileKind::CharacterDevice;
        self.new_inode(state, caller, kind, 0, Device::default(), Content::Special)
    }

    fn new_inode(
        &self,
        state: &State,
        caller: &Caller,
        kind: FileKind,
        mode: u32,
        device: Device,
        content: Content,
    ) -> Result<Arc<Inode>> {
        let inherited = inherit(&state.metadata.protection, caller, kind, mode);
        Inode::new(&self.volume, NewInode { kind, device, uid: caller.uid, inherited, content })
    }

    /// Adds an inode to this directory under a name that does not exist yet; the states are the directory's and the inode's.
    fn add_name(&self, state: &mut State, name: Name<'_>, inode: &Arc<Inode>, child: &mut State) -> Result<()> {
        state.directory_mut()?.reserve()?;
        child.reserve_link()?;
        if inode.kind == FileKind::Directory {
            state.metadata.nlink = state.metadata.nlink.checked_add(1).ok_or(Errno::EMLINK)?;
        }
        let cookie = state.directory_mut()?.insert(name, inode.clone());
        state.metadata.times.modified();
        child.add_link(self, cookie);
        if inode.kind != FileKind::Directory {
            child.metadata.nlink += 1;
        }
        Ok(())
    }
}

fn open_new_file(inode: &Arc<Inode>, how: &Creation) -> OpenFileRef {
    profile::open_file(Arc::new(MemoryFile::new(inode.clone(), how.flags)))
}

/// Checks whether the caller may create an object by that name in a directory, in the order of Linux's checks.
fn check_new_name(state: &State, caller: &Caller, name: Name<'_>) -> Result<()> {
    if search(state, caller)?.get(name).is_some() {
        return Err(Errno::EEXIST);
    }
    state.check_creation(caller)
}

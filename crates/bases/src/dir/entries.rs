//! Finds the vnodes of objects: by name, by an open descriptor, and by handle.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use vnode::{Attributes, Caller, Errno, Name, Result};

use super::calls::PATH_ONLY;
use super::credentials::{AssumedCredentials, ThreadCredentials};
use super::handle::{FileHandle, WireHandle};
use super::mounts::Mount;
use super::node::{Identity, LookupLocation, Node, PathIdentity};
use super::restrictions;
use super::shares::may_retain;
use super::status::Status;
use super::table::fingerprint;
use super::tree::Tree;
use super::{errno, system};

impl Tree<Node> {
    /// Returns the vnode and attributes of a name, as the caller finds it.
    ///
    /// Handle and attributes come from two calls by name, which are verified to concern the same object: an object that has
    /// the handle's inode number and is older than a few seconds existed at both calls and so is the handle's; for a younger
    /// one, the handle is queried again.
    pub(crate) fn entry(
        self: &Arc<Self>,
        thread: &mut ThreadCredentials,
        caller: &Caller,
        directory: &Node,
        descriptor: BorrowedFd<'_>,
        name: Name<'_>,
    ) -> Result<(Arc<Node>, Attributes)> {
        let mount = self.mounts.get(directory.mount_index());
        let location = LookupLocation::At(directory, name.as_bytes());
        let acting = thread.act_for(caller)?;
        if let Some(object) = self.covered.get().and_then(|covered| covered.at(&mount, directory.lower_ino(), name)) {
            // Checks whether the caller may search the directory.
            acting.status_at(descriptor, ".")?;
            return self.entry_of_kept(thread, object, location);
        }
        if let Some(object) =
            self.attached.as_ref().filter(|_| directory.is_root()).and_then(|attached| attached.at(name))
        {
            acting.status_at(descriptor, ".")?;
            return self.entry_of_kept(thread, object, location);
        }
        if mount.has_transient_inos() {
            // Found by its descriptor, below.
        } else if mount.handles().is_none() {
            let status = self.status_at(&acting, &mount, descriptor, name.as_bytes())?;
            // One file system may report several devices, such as overlayfs.
            let is_known = |mount: &Arc<Mount>| mount.handles().is_none() && mount.is_status_sufficient(&status);
            if let Some(mount) = self.mounts.of(&status).filter(is_known) {
                return Ok(self.vnode(&mount, &status, None, location));
            }
        } else if let Some(handle) = handle_of_name(&acting, descriptor, name)? {
            let status = self.status_at(&acting, &mount, descriptor, name.as_bytes())?;
            let certain = mount.has(&status)
                && mount.handle_has_ino(&handle, status.ino())
                && (is_certainly_old(&status) || handle_of_name(&acting, descriptor, name)? == Some(handle));
            if certain {
                return Ok(self.vnode(&mount, &status, Some(&handle), location));
            }
        }
        let object = acting.open_at(descriptor, name.as_bytes(), PATH_ONLY).map_err(errno)?;
        self.entry_of(thread, object.as_fd(), location)
    }

    /// Returns the vnode and attributes of an object that is not found by its name, and is kept open.
    fn entry_of_kept(
        self: &Arc<Self>,
        thread: &mut ThreadCredentials,
        object: BorrowedFd<'_>,
        location: LookupLocation<'_>,
    ) -> Result<(Arc<Node>, Attributes)> {
        let (node, attributes) = self.entry_of(thread, object, location)?;
        if !node.is_identified_by_handle() {
            node.pin(object.try_clone_to_owned()?);
        }
        Ok((node, attributes))
    }

    /// Returns the vnode and attributes of an open object. The root of a FUSE mount is not queried.
    pub(crate) fn entry_of(
        self: &Arc<Self>,
        thread: &mut ThreadCredentials,
        object: BorrowedFd<'_>,
        location: LookupLocation<'_>,
    ) -> Result<(Arc<Node>, Attributes)> {
        let cached = Status::cached_of_descriptor(object)?;
        let mount = match self.mounts.of(&cached) {
            Some(mount) => mount,
            None => self.mounts.of_object(&thread.act_as_server()?, object, &cached)?,
        };
        let status = if mount.is_status_sufficient(&cached) { cached } else { Status::of_descriptor(object)? };
        let handle = match mount.handles() {
            Some(_) => supported_handle(system::name_to_handle_at(object, b"", system::EMPTY_PATH))?,
            None => None,
        };
        let (node, attributes) = self.vnode(&mount, &status, handle.as_ref(), location);
        if mount.has_transient_inos() {
            self.pin_ino(thread, &node, object);
        }
        Ok((node, attributes))
    }

    /// Keeps an object open as long as it has a vnode, which would become a different one if its inode number changed. When
    /// descriptors are scarce, that may happen.
    fn pin_ino(&self, thread: &mut ThreadCredentials, node: &Node, object: BorrowedFd<'_>) {
        if node.pinned().is_none()
            && !node.is_root()
            && let Ok(acting) = thread.act_as_server()
            && let Ok(descriptor) = acting.reopen(object, PATH_ONLY)
            && may_retain(&descriptor)
        {
            node.pin(descriptor);
        }
    }

    /// Returns the only vnode of an object.
    fn vnode(
        self: &Arc<Self>,
        mount: &Mount,
        status: &Status,
        handle: Option<&FileHandle>,
        location: LookupLocation<'_>,
    ) -> (Arc<Node>, Attributes) {
        let attributes = restrictions::attributes(mount, status);
        let fingerprint = fingerprint(mount.index, mount.identity_ino(status));
        let generation = mount.identity_generation(status);
        let new = |identity| Node::new(self, mount, status, identity);
        let node = match handle {
            Some(handle) => {
                self.table.find_or_insert(fingerprint, |node| node.has_handle(handle), || new(Identity::of(handle)))
            }
            None => {
                // Identifies the vnode immediately, for callers that find it at the same time.
                let at = match location {
                    LookupLocation::At(directory, name) if generation.is_none() => {
                        Some((directory.reference(), name.into()))
                    }
                    _ => None,
                };
                let identity = || Identity::Path(Box::new(PathIdentity::new(generation, at)));
                self.table.find_or_insert(fingerprint, |node| node.matches_at(status, location), || new(identity()))
            }
        };
        if let LookupLocation::At(directory, name) = location {
            node.set_location(directory, name);
        }
        (node, attributes)
    }

    /// Returns the vnode of a handle.
    pub(crate) fn resolve(self: &Arc<Self>, wire: &WireHandle) -> Result<Arc<Node>> {
        let thread = &mut self.credentials.thread();
        let (mount, handle) = match wire {
            WireHandle::Root(handle) => (Arc::clone(self.mounts.root()), handle),
            WireHandle::Device(device, handle) => (self.mount_of_device(thread, *device)?, handle),
            WireHandle::Mount { device, mount, handle } => (self.mount_of_id(thread, *mount, *device)?, handle),
            WireHandle::Inode { mount, device, ino, generation } => {
                let mount = self.mounts.find(*mount, *device).ok_or(Errno::ESTALE)?;
                let matches = |node: &Node| node.generation() == Some(*generation);
                return self.table.find(fingerprint(mount.index, *ino), matches).ok_or(Errno::ESTALE);
            }
        };
        let descriptor = mount.handles().ok_or(Errno::ESTALE)?;
        let object = thread.act_as_server()?.open_by_handle(descriptor, handle, PATH_ONLY);
        let object = object.map_err(|_| Errno::ESTALE)?;
        if self.is_outside_root(object.as_fd())? {
            return Err(Errno::ESTALE);
        }
        let (node, _) = self.entry_of(thread, object.as_fd(), LookupLocation::Unnamed)?;
        if node.has_handle(handle) { Ok(node) } else { Err(Errno::ESTALE) }
    }
}

/// Returns the handle of a name.
fn handle_of_name(
    acting: &AssumedCredentials<'_>,
    directory: BorrowedFd<'_>,
    name: Name<'_>,
) -> Result<Option<FileHandle>> {
    supported_handle(acting.handle_at(directory, name.as_bytes()))
}

/// Returns a handle, or `None` if the object has no usable one, such as one on another file system.
fn supported_handle(handle: system::SystemResult<FileHandle>) -> Result<Option<FileHandle>> {
    use rustix::io::Errno as SystemError;
    match handle {
        Ok(handle) => Ok(Some(handle)),
        Err(SystemError::OPNOTSUPP | SystemError::OVERFLOW) => Ok(None),
        Err(error) => Err(errno(error)),
    }
}

/// Returns whether the object is known to be older than the time between any two consecutive calls.
fn is_certainly_old(status: &Status) -> bool {
    const MARGIN_SECONDS: i64 = 2;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    status.created().is_some_and(|created| created.seconds < now.tv_sec - MARGIN_SECONDS)
}

//! The mounts of the tree: the root's, and those below it, each known by the kernel's number of the mount and its device.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::OFlags;
use vnode::{Errno, FileKind, Result};

use super::credentials::Acting;
use super::handle::FileHandle;
use super::status::Status;
use super::tree::PATH_ONLY;
use super::{errno, system};

/// One mount. A file system that is mounted at several places of the tree has several, for each forbids what its flags say.
/// One mount that shows several devices, such as overlayfs's, counts once for each.
pub struct Mount {
    /// Its place in the list; 0 is the root's.
    pub index: u16,
    /// Its device number.
    pub device: u64,
    /// The kernel's number of it.
    id: u64,
    is_of_root_device: bool,
    /// No other mount of the device was met before.
    is_first: bool,
    /// A descriptor on it, which keeps its number from being used again.
    place: OwnedFd,
    /// Present where objects can be opened by handle.
    handles: Option<Handles>,
    tells_errors_at_close: bool,
    keeps_access_times: bool,
}

struct Handles {
    /// A descriptor on the file system: open_by_handle_at wants a real one, not an `O_PATH` one.
    descriptor: OwnedFd,
    /// Where handles hold the inode number.
    inode_offset: Option<usize>,
}

/// All mounts of the tree that have been met.
pub struct Mounts {
    root: Arc<Mount>,
    others: RwLock<Vec<Arc<Mount>>>,
    use_handles: bool,
}

impl Mount {
    /// The one that an object is on, as the root's.
    fn root(acting: &Acting<'_>, object: BorrowedFd<'_>, status: &Status, handles: Option<Handles>) -> Result<Self> {
        let (is_local, keeps_access_times) = behaviour(object);
        Ok(Self {
            index: 0,
            device: status.device(),
            id: status.mount_id(),
            is_of_root_device: true,
            is_first: true,
            place: acting.reopen(object, PATH_ONLY).map_err(errno)?,
            handles,
            tells_errors_at_close: !is_local,
            keeps_access_times,
        })
    }

    /// Whether the object of this state is on it.
    pub fn has(&self, status: &Status) -> bool {
        self.is(status.mount_id(), status.device())
    }

    fn is(&self, id: u64, device: u64) -> bool {
        self.id == id && self.device == device
    }

    /// The kernel's number of it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether its device number alone stands for it: no other mount of the device was met before.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// A descriptor on it, `O_PATH`.
    pub fn place(&self) -> BorrowedFd<'_> {
        self.place.as_fd()
    }

    /// A descriptor to open by handle with, where that can be done.
    pub fn handles(&self) -> Option<BorrowedFd<'_>> {
        self.handles.as_ref().map(|handles| handles.descriptor.as_fd())
    }

    /// Whether the handle is known to be of an object with that inode number. A handle of another object may pass only
    /// if that object had the same inode number at another time.
    pub fn handle_has_ino(&self, handle: &FileHandle, ino: u64) -> bool {
        let offset = self.handles.as_ref().and_then(|handles| handles.inode_offset);
        offset.is_some_and(|offset| {
            handle.as_bytes().get(offset..offset + 4) == Some((ino as u32).to_ne_bytes().as_slice())
        })
    }

    /// Whether reading a file changes its access time, and at once: neither `noatime` nor read-only nor on another machine.
    pub fn keeps_access_times(&self) -> bool {
        self.keeps_access_times
    }

    /// Whether closing a file may tell of an error of earlier writes, as on network file systems.
    pub fn tells_errors_at_close(&self) -> bool {
        self.tells_errors_at_close
    }

    /// The inode number that the stack shows: the file system's own on the root's, mixed with the device elsewhere.
    pub fn shown_ino(&self, ino: u64) -> u64 {
        if self.is_of_root_device { ino } else { foreign_ino(self.device, ino) }
    }
}

impl Mounts {
    /// The root's file system, by its root directory.
    pub fn new(acting: &Acting<'_>, root: BorrowedFd<'_>, use_handles: bool) -> Result<Self> {
        let status = Status::of_descriptor(root)?;
        let handles = use_handles.then(|| probe(acting, root, &status)).flatten();
        let root = Arc::new(Mount::root(acting, root, &status, handles)?);
        Ok(Self { root, others: RwLock::default(), use_handles })
    }

    /// The root's.
    pub fn root(&self) -> &Arc<Mount> {
        &self.root
    }

    /// The inode number that the stack shows for one of a device, which need not have been met.
    pub fn shown_ino(&self, device: u64, ino: u64) -> u64 {
        if device == self.root.device { ino } else { foreign_ino(device, ino) }
    }

    /// By its place in the list.
    pub fn get(&self, index: u16) -> Arc<Mount> {
        match index {
            0 => Arc::clone(&self.root),
            index => Arc::clone(&self.others.read().unwrap_or_else(PoisonError::into_inner)[usize::from(index) - 1]),
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Mount>> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.root).chain(others.iter()).cloned().collect()
    }

    /// The first of a device that has been met below the root's mount.
    pub fn first_of_device(&self, device: u64) -> Option<Arc<Mount>> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        others.iter().find(|mount| mount.device == device && mount.is_first).cloned()
    }

    /// By the kernel's number and the device, if it has been met.
    pub fn find(&self, id: u64, device: u64) -> Option<Arc<Mount>> {
        if self.root.is(id, device) {
            return Some(Arc::clone(&self.root));
        }
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        others.iter().find(|mount| mount.is(id, device)).cloned()
    }

    /// The one that the object of this state is on, if it has been met.
    pub fn of(&self, status: &Status) -> Option<Arc<Mount>> {
        self.find(status.mount_id(), status.device())
    }

    /// The one that an object is on, which is met now if it was not before, by the server.
    pub fn of_object(&self, acting: &Acting<'_>, object: BorrowedFd<'_>, status: &Status) -> Result<Arc<Mount>> {
        if let Some(mount) = self.of(status) {
            return Ok(mount);
        }
        let handles = self.use_handles.then(|| probe(acting, object, status)).flatten();
        let new = Mount::root(acting, object, status, handles)?;
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = others.iter().find(|mount| mount.has(status)) {
            return Ok(Arc::clone(mount));
        }
        let index = u16::try_from(others.len() + 1).map_err(|_| Errno::ENFILE)?;
        let is_of_root_device = new.device == self.root.device;
        let is_first = !others.iter().any(|mount| mount.device == new.device);
        let mount = Arc::new(Mount { index, is_of_root_device, is_first, ..new });
        others.push(Arc::clone(&mount));
        Ok(mount)
    }
}

/// The inode number shown for an object on another device than the root's.
fn foreign_ino(device: u64, ino: u64) -> u64 {
    // Spread over the bits that inode numbers rarely use; the top bit is never set by a file system.
    let spread = device.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0x7fff_ff00_0000_0000;
    ino ^ (spread | 1 << 63)
}

/// Whether it is on one of the common file systems that have nothing to tell at close, and keeps access times.
fn behaviour(object: BorrowedFd<'_>) -> (bool, bool) {
    const LOCAL: [libc::c_long; 5] = [
        libc::EXT4_SUPER_MAGIC,
        libc::XFS_SUPER_MAGIC,
        libc::BTRFS_SUPER_MAGIC,
        libc::TMPFS_MAGIC,
        libc::F2FS_SUPER_MAGIC,
    ];
    const WITHOUT: u64 = libc::ST_NOATIME | libc::ST_RDONLY;
    let Ok(state) = rustix::fs::fstatfs(object) else { return (false, false) };
    let is_local = LOCAL.contains(&state.f_type);
    (is_local, is_local && state.f_flags as u64 & WITHOUT == 0)
}

/// Whether objects of the file system that `object` is on can be opened by handle: tried with the object itself.
fn probe(acting: &Acting<'_>, object: BorrowedFd<'_>, status: &Status) -> Option<Handles> {
    // A FUSE file system answers handles, but forgets what they mean when the kernel forgets the inode.
    if rustix::fs::fstatfs(object).map_err(errno).ok()?.f_type == libc::FUSE_SUPER_MAGIC {
        return None;
    }
    // Opening anything else could have effects, such as a device's.
    let flags = match status.kind {
        FileKind::Directory => OFlags::DIRECTORY,
        FileKind::Regular => OFlags::NONBLOCK,
        _ => return None,
    };
    let descriptor = acting.reopen(object, flags | OFlags::RDONLY).ok()?;
    let handle = system::name_to_handle_at(object, b"", system::EMPTY_PATH).ok()?;
    let again = acting.open_by_handle(descriptor.as_fd(), &handle, PATH_ONLY).ok()?;
    let same = Status::of_descriptor(again).is_ok_and(|again| again.ino() == status.ino());
    same.then(|| Handles { inode_offset: handle.inode_offset(status.ino()), descriptor })
}

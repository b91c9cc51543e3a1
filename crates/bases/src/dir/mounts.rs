//! The mounts of the tree: the root's and those below it, each identified by its mount ID and device.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use procfs::mount_table;
use rustix::fs::OFlags;
use vnode::{Errno, FileKind, InodeNumber, Result};

use super::calls::PATH_ONLY;
use super::credentials::AssumedCredentials;
use super::handle::FileHandle;
use super::shares::may_retain;
use super::status::Status;
use super::{errno, system};

/// One mount. A file system mounted at several points of the tree has several, since the flags of each forbid different
/// things. One mount that shows several devices, such as overlayfs, counts once for each.
pub(crate) struct Mount {
    /// Index in the list; 0 is the root's mount.
    pub index: u16,
    /// Device number.
    pub device: u64,
    /// Mount ID.
    id: u64,
    is_of_root_device: bool,
    /// Whether it is a FUSE mount, whose server may be any user's and may not reply. Always false for the root's mount.
    is_fuse: bool,
    /// Whether no other mount of the device was seen before.
    is_first: bool,
    /// A descriptor on it, which keeps its mount ID from being reused. `None` once it has been released.
    descriptor: Option<OwnedFd>,
    /// Present if objects can be opened by handle.
    handles: Option<HandleSupport>,
    behaviour: FileSystemBehaviour,
    /// Time at which it was first seen, if it is an overlay: on the clock of creation times, see [`Status::generation`].
    overlay_seen_at: Option<u64>,
    /// Number of live vnodes on it. Not maintained for the root's mount, which is permanent.
    vnodes: Arc<AtomicUsize>,
}

/// Behaviour of the common local file systems, and what is assumed about others.
#[derive(Clone, Copy, Default)]
struct FileSystemBehaviour {
    /// Whether closing a file reports no errors.
    is_local: bool,
    keeps_access_times: bool,
    is_overlay: bool,
    /// Whether an object is found by other spellings of its name.
    folds_names: bool,
    /// Whether inode numbers are valid only while the object is in use, because it has none on storage.
    has_transient_inos: bool,
    /// Whether a file that is removed while in use gets another name in its directory until it is released (`.nfs…`).
    has_silly_renames: bool,
}

struct HandleSupport {
    /// A descriptor on the file system: open_by_handle_at(2) requires a real one, not an `O_PATH` one.
    descriptor: OwnedFd,
    /// Offset of the inode number in handles.
    inode_offset: Option<usize>,
}

/// The mounts of the tree that have been seen, and that still exist or have live vnodes.
pub(crate) struct Mounts {
    root: Arc<Mount>,
    others: RwLock<OtherMounts>,
    use_handles: bool,
}

/// All mounts except the root's, each at its index minus 1. The slot of a forgotten mount is empty.
#[derive(Default)]
struct OtherMounts(Vec<Option<Arc<Mount>>>);

impl OtherMounts {
    fn all(&self) -> impl Iterator<Item = &Arc<Mount>> {
        self.0.iter().flatten()
    }

    /// Returns the first empty slot.
    fn free_slot(&mut self) -> Result<(u16, &mut Option<Arc<Mount>>)> {
        let slot = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        let index = u16::try_from(slot + 1).map_err(|_| Errno::ENFILE)?;
        if slot == self.0.len() {
            self.0.push(None);
        }
        Ok((index, &mut self.0[slot]))
    }

    /// Takes the descriptors of mounts that are no longer mounted.
    fn release_unmounted(&mut self, mounted: &HashSet<u64>) -> Vec<Arc<Mount>> {
        let unmounted =
            self.0.iter_mut().flatten().filter(|mount| mount.descriptor.is_some() && !mounted.contains(&mount.id));
        unmounted.map(|mount| std::mem::replace(mount, Arc::new(mount.released()))).collect()
    }

    /// Removes and returns mounts that are no longer mounted and that nothing refers to.
    fn take_unmounted(&mut self, mounted: &HashSet<u64>) -> Vec<Arc<Mount>> {
        let slots = self.0.iter_mut();
        slots.filter_map(|slot| slot.take_if(|mount| !mounted.contains(&mount.id) && Mount::is_unused(mount))).collect()
    }
}

impl Mount {
    /// Creates the mount that an object is on, as the root's.
    fn root(
        acting: &AssumedCredentials<'_>,
        object: BorrowedFd<'_>,
        status: &Status,
        handles: Option<HandleSupport>,
        behaviour: FileSystemBehaviour,
    ) -> Result<Self> {
        // The clock of creation times: none of them is earlier than the present reading.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        let now = (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64);
        Ok(Self {
            index: 0,
            device: status.device(),
            id: status.mount_id(),
            is_of_root_device: true,
            is_fuse: false,
            is_first: true,
            descriptor: Some(acting.reopen(object, PATH_ONLY).map_err(errno)?),
            handles,
            behaviour,
            overlay_seen_at: behaviour.is_overlay.then_some(now),
            vnodes: Arc::default(),
        })
    }

    /// Returns whether the object with this status is on the mount.
    pub(crate) fn has(&self, status: &Status) -> bool {
        self.is(status.mount_id(), status.device())
    }

    /// Returns whether the kernel answers for it without querying a server.
    pub(crate) fn is_answered_by_kernel(&self) -> bool {
        self.behaviour.is_local || self.behaviour.is_overlay
    }

    /// Returns whether the object with this status is the root of this mount and a FUSE server, which may not reply, serves it.
    /// Only callers that need that very object query the server: querying it in a look-up would block everybody else from the
    /// directory above.
    pub(crate) fn is_fuse_root(&self, status: &Status) -> bool {
        self.is_fuse && status.is_mount_root()
    }

    /// Returns the inode number by which the object with this status is known. The kernel's number for the root of a FUSE
    /// mount changes when the server is first queried.
    pub(crate) fn identity_ino(&self, status: &Status) -> InodeNumber {
        if self.is_fuse_root(status) { FUSE_ROOT_INO } else { status.ino() }
    }

    /// Returns whether an object with that [`Mount::identity_ino`] is the root of a FUSE mount.
    pub(crate) fn is_fuse_root_ino(&self, ino: InodeNumber) -> bool {
        self.is_fuse && ino == FUSE_ROOT_INO
    }

    /// Returns the creation time by which the object with this status is known, see [`Status::generation`]: `None` for the root
    /// of a FUSE mount, see [`Mount::identity_ino`].
    pub(crate) fn identity_generation(&self, status: &Status) -> Option<u64> {
        if self.is_fuse_root(status) { None } else { status.generation() }
    }

    /// Returns the status of an open object on this mount. The root of a FUSE mount is not queried for it.
    pub(crate) fn status_of(&self, object: BorrowedFd<'_>) -> Result<Status> {
        let cached = Status::cached_of_descriptor(object)?;
        if self.is_status_sufficient(&cached) { Ok(cached) } else { Status::of_descriptor(object) }
    }

    /// Returns whether this status of an object on the mount suffices, without another query.
    pub(crate) fn is_status_sufficient(&self, status: &Status) -> bool {
        status.is_queried() || self.is_answered_by_kernel() || self.is_fuse_root(status)
    }

    /// Adds one to the number of vnodes on it.
    pub(crate) fn count_vnode(&self) {
        if self.index != 0 {
            self.vnodes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether only the list refers to it. The list must be locked: code that creates a vnode on the mount holds a
    /// reference.
    fn is_unused(self: &Arc<Self>) -> bool {
        // Nor does anything refer to the mount that this one replaced when its descriptors were released.
        let is_unreferenced = Arc::strong_count(self) == 1 && Arc::strong_count(&self.vnodes) == 1;
        // A former holder of a reference counted its vnodes before it dropped that.
        fence(Ordering::Acquire);
        is_unreferenced && self.vnodes.load(Ordering::Acquire) == 0
    }

    fn is(&self, id: u64, device: u64) -> bool {
        self.id == id && self.device == device && self.descriptor.is_some()
    }

    /// Returns the mount ID.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether its device number alone identifies it: no other mount of the device was seen before.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Returns an `O_PATH` descriptor on it; `None` if that has been released.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Returns the entry that replaces it in the list once its descriptors have been released: vnodes on it can no longer be
    /// opened.
    fn released(&self) -> Self {
        let Self { index, device, id, is_of_root_device, is_fuse, is_first, .. } = *self;
        let (behaviour, overlay_seen_at, vnodes) = (self.behaviour, self.overlay_seen_at, Arc::clone(&self.vnodes));
        let (descriptor, handles) = (None, None);
        Self {
            index,
            device,
            id,
            is_of_root_device,
            is_fuse,
            is_first,
            descriptor,
            handles,
            behaviour,
            overlay_seen_at,
            vnodes,
        }
    }

    /// Returns its mount ID and device number, by which it differs from all others while it is in use.
    pub(crate) fn number(&self) -> (u64, u64) {
        (self.id, self.device)
    }

    /// Returns a descriptor for opening by handle, where that is possible.
    pub(crate) fn handles(&self) -> Option<BorrowedFd<'_>> {
        self.handles.as_ref().map(|handles| handles.descriptor.as_fd())
    }

    /// Returns whether the handle is known to be of an object with that inode number. A handle of another object passes only
    /// if that object had the same inode number at another time.
    pub(crate) fn handle_has_ino(&self, handle: &FileHandle, ino: InodeNumber) -> bool {
        let offset = self.handles.as_ref().and_then(|handles| handles.inode_offset);
        offset.is_some_and(|offset| {
            handle.as_bytes().get(offset..offset + 4) == Some((ino.get() as u32).to_ne_bytes().as_slice())
        })
    }

    /// Returns whether reading a file updates its access time, and immediately: the mount is neither `noatime` nor read-only
    /// nor on another machine.
    pub(crate) fn keeps_access_times(&self) -> bool {
        self.behaviour.keeps_access_times
    }

    /// Returns whether an object is found by other spellings of its name than the one that its directory lists.
    pub(crate) fn folds_names(&self) -> bool {
        self.behaviour.folds_names
    }

    /// Returns whether an object has its inode number only while in use, and another one afterwards.
    pub(crate) fn has_transient_inos(&self) -> bool {
        self.behaviour.has_transient_inos
    }

    /// Returns whether a file that is removed while in use gets another name in its directory.
    pub(crate) fn has_silly_renames(&self) -> bool {
        self.behaviour.has_silly_renames
    }

    /// Returns when it was first seen, in nanoseconds on the clock of creation times, if it is a kernel overlay: an object
    /// there gets another creation time, and keeps its number, when it is copied up to the writable layer.
    pub(crate) fn overlay_seen_at(&self) -> Option<u64> {
        self.overlay_seen_at
    }

    /// Returns whether the file system is a local one that is known.
    pub(crate) fn is_local(&self) -> bool {
        self.behaviour.is_local
    }

    /// Returns whether closing a file may report an error of earlier writes, as on network file systems.
    pub(crate) fn reports_errors_at_close(&self) -> bool {
        !self.behaviour.is_local
    }

    /// Returns the inode number that the stack shows: the file system's own on the root's device, mixed with the device
    /// number elsewhere.
    pub(crate) fn exposed_ino(&self, ino: InodeNumber) -> InodeNumber {
        if self.is_of_root_device { ino } else { foreign_ino(self.device, ino) }
    }
}

impl Mounts {
    /// Creates the list with the root's mount, given its root directory.
    pub(crate) fn new(acting: &AssumedCredentials<'_>, root: BorrowedFd<'_>, use_handles: bool) -> Result<Self> {
        let status = Status::of_descriptor(root)?;
        let handles = use_handles.then(|| probe(acting, root, &status)).flatten();
        let root = Arc::new(Mount::root(acting, root, &status, handles, FileSystemBehaviour::of(root))?);
        Ok(Self { root, others: RwLock::default(), use_handles })
    }

    /// Returns the root's mount.
    pub(crate) fn root(&self) -> &Arc<Mount> {
        &self.root
    }

    /// Returns the inode number that the stack shows for one of a device, which need not have been seen.
    pub(crate) fn exposed_ino(&self, device: u64, ino: InodeNumber) -> InodeNumber {
        if device == self.root.device { ino } else { foreign_ino(device, ino) }
    }

    /// Returns the mount at an index of the list, where it stays as long as it has vnodes.
    pub(crate) fn get(&self, index: u16) -> Arc<Mount> {
        let other = usize::from(index).checked_sub(1).map(|slot| self.others().0[slot].clone());
        other.flatten().unwrap_or_else(|| Arc::clone(&self.root))
    }

    /// Subtracts one from the number of vnodes on that mount.
    pub(crate) fn uncount_vnode(&self, index: u16) {
        if index != 0 {
            self.get(index).vnodes.fetch_sub(1, Ordering::Release);
        }
    }

    /// Returns all mounts.
    pub(crate) fn all(&self) -> Vec<Arc<Mount>> {
        std::iter::once(&self.root).chain(self.others().all()).cloned().collect()
    }

    /// Returns the first mount of a device that has been seen below the root's mount.
    pub(crate) fn first_of_device(&self, device: u64) -> Option<Arc<Mount>> {
        self.others().all().find(|mount| mount.device == device && mount.is_first).cloned()
    }

    /// Returns the mount with this mount ID and device, if it has been seen.
    pub(crate) fn find(&self, id: u64, device: u64) -> Option<Arc<Mount>> {
        if self.root.is(id, device) {
            return Some(Arc::clone(&self.root));
        }
        self.others().all().find(|mount| mount.is(id, device)).cloned()
    }

    fn others(&self) -> RwLockReadGuard<'_, OtherMounts> {
        self.others.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the mount that the object with this status is on, if it has been seen.
    pub(crate) fn of(&self, status: &Status) -> Option<Arc<Mount>> {
        self.find(status.mount_id(), status.device())
    }

    /// Returns the mount that an object is on; a mount not seen before is added now, with the server's credentials.
    pub(crate) fn of_object(
        &self,
        acting: &AssumedCredentials<'_>,
        object: BorrowedFd<'_>,
        status: &Status,
    ) -> Result<Arc<Mount>> {
        if let Some(mount) = self.of(status) {
            return Ok(mount);
        }
        self.forget_unmounted(may_retain(object));
        let is_fuse = is_on_fuse_mount(status);
        let handles = if self.use_handles && !is_fuse { probe(acting, object, status) } else { None };
        let behaviour = if is_fuse { FileSystemBehaviour::default() } else { FileSystemBehaviour::of(object) };
        let new = Mount { is_fuse, ..Mount::root(acting, object, status, handles, behaviour)? };
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = others.all().find(|mount| mount.has(status)) {
            return Ok(Arc::clone(mount));
        }
        let is_of_root_device = new.device == self.root.device;
        let is_first = !others.all().any(|mount| mount.device == new.device);
        let (index, slot) = others.free_slot()?;
        Ok(Arc::clone(slot.insert(Arc::new(Mount { index, is_of_root_device, is_first, ..new }))))
    }

    /// Forgets mounts that no longer exist and have no vnodes, and closes their descriptors: unmounting is not reported, so
    /// it is detected when another mount is first seen. When descriptors are scarce, mounts that have vnodes release theirs
    /// too: the kernel may keep forever a name that nobody looks up any more.
    fn forget_unmounted(&self, has_descriptors: bool) {
        if self.others().0.is_empty() {
            return;
        }
        let Some(mounted) = mounted() else { return };
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        let mut unmounted = others.take_unmounted(&mounted);
        if !has_descriptors {
            unmounted.extend(others.release_unmounted(&mounted));
        }
        drop(others);
        // Closed after the lock is released: a detached mount ends with its last descriptor.
        drop(unmounted);
    }
}

/// Returns the mount IDs of everything mounted, as far as the server sees it; `None` if that cannot be determined now.
fn mounted() -> Option<HashSet<u64>> {
    let table = mount_table::read().ok()?;
    Some(mount_table::mounts(&table).map(|mount| mount.number).collect())
}

/// Returns whether the object with this status is on a FUSE mount, according to the mount table: the mount itself would query its
/// server. A mount that is no longer in the table may have been one.
fn is_on_fuse_mount(status: &Status) -> bool {
    let Ok(table) = mount_table::read() else { return false };
    // An overlay reports other devices than the one in the table. Linux before 5.8 reports no mount ID.
    let is_it = |mount: &mount_table::Mount<'_>| match status.mount_id() {
        0 => mount.device == status.device(),
        id => mount.number == id,
    };
    mount_table::mounts(&table).find(is_it).is_none_or(|mount| mount.is_fuse())
}

/// Inode number by which the root of a FUSE mount is known. FUSE assigns 1 to roots that it knows nothing more of, and this
/// number to no object.
const FUSE_ROOT_INO: InodeNumber = InodeNumber::new(u64::MAX);

/// Returns the inode number shown for an object on another device than the root's.
fn foreign_ino(device: u64, ino: InodeNumber) -> InodeNumber {
    // Spread over bits that inode numbers rarely use; file systems never set the top bit.
    let spread = device.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0x7fff_ff00_0000_0000;
    InodeNumber::new(ino.get() ^ (spread | 1 << 63))
}

impl FileSystemBehaviour {
    /// Determines the behaviour of the file system that an object is on.
    fn of(object: BorrowedFd<'_>) -> Self {
        const LOCAL: [libc::c_long; 5] = [
            libc::EXT4_SUPER_MAGIC,
            libc::XFS_SUPER_MAGIC,
            libc::BTRFS_SUPER_MAGIC,
            libc::TMPFS_MAGIC,
            libc::F2FS_SUPER_MAGIC,
        ];
        const NO_ACCESS_TIME: u64 = libc::ST_NOATIME | libc::ST_RDONLY;
        /// CIFS, SMB 2 and later, HFS, HFS+.
        const CASE_FOLDING: [libc::c_long; 4] = [0xff53_4d42, 0xfe53_4d42, 0x4244, 0x482b];
        let Ok(state) = rustix::fs::fstatfs(object) else { return Self::default() };
        let is_local = LOCAL.contains(&state.f_type);
        let keeps_access_times = is_local && state.f_flags as u64 & NO_ACCESS_TIME == 0;
        let has_transient_inos = FAT.contains(&state.f_type);
        let folds_names = has_transient_inos || CASE_FOLDING.contains(&state.f_type);
        let is_overlay = state.f_type == libc::OVERLAYFS_SUPER_MAGIC;
        let has_silly_renames = state.f_type == libc::NFS_SUPER_MAGIC;
        Self { is_local, keeps_access_times, is_overlay, folds_names, has_transient_inos, has_silly_renames }
    }
}

/// FAT and exFAT, which have no inodes.
const FAT: [libc::c_long; 2] = [libc::MSDOS_SUPER_MAGIC, 0x2011_bab0];

/// Returns how to open objects by handle on the file system that `object` is on, if that works: tried with the object
/// itself.
fn probe(acting: &AssumedCredentials<'_>, object: BorrowedFd<'_>, status: &Status) -> Option<HandleSupport> {
    // FUSE and FAT return handles, but lose their meaning when the kernel forgets the inode.
    let kind = rustix::fs::fstatfs(object).map_err(errno).ok()?.f_type;
    if kind == libc::FUSE_SUPER_MAGIC || FAT.contains(&kind) {
        return None;
    }
    // Opening anything else could have side effects, such as a device's.
    let flags = match status.kind {
        FileKind::Directory => OFlags::DIRECTORY,
        FileKind::Regular => OFlags::NONBLOCK,
        _ => return None,
    };
    let descriptor = acting.reopen(object, flags | OFlags::RDONLY).ok()?;
    let handle = system::name_to_handle_at(object, b"", system::EMPTY_PATH).ok()?;
    let again = acting.open_by_handle(descriptor.as_fd(), &handle, PATH_ONLY).ok()?;
    let same = Status::of_descriptor(again).is_ok_and(|again| again.ino() == status.ino());
    same.then(|| HandleSupport { inode_offset: handle.inode_offset(status.ino()), descriptor })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use vnode::{Caller, FileSystem, Name};

    use crate::dir::{DirectoryFileSystem, Options};

    fn run(command: &str, arguments: &[&str]) {
        assert!(Command::new(command).args(arguments).status().unwrap().success(), "{command} {arguments:?}");
    }

    #[test]
    fn unmounted_file_systems_release_descriptors_when_scarce() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root to mount file systems");
            return;
        }
        // A mount namespace for the test's thread: whatever happens, its mounts go with it.
        // SAFETY: unsharing the mount namespace touches no memory.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        run("mount", &["--make-rprivate", "/"]);
        let directory = tempfile::tempdir().unwrap();
        let point = directory.path().join("point");
        std::fs::create_dir(&point).unwrap();
        let file_system = DirectoryFileSystem::open(directory.path(), Options::default()).unwrap();
        let mounts = &file_system.tree.mounts;
        let mount_and_look_up = || {
            run("mount", &["-t", "tmpfs", "none", point.to_str().unwrap()]);
            let entry = file_system.root().lookup(&Caller::server(), Name::new(b"point").unwrap());
            run("umount", &["-l", point.to_str().unwrap()]);
            entry.unwrap().vnode
        };
        let open = || mounts.all().iter().filter(|mount| mount.descriptor.is_some()).count();
        let vnode = mount_and_look_up();
        mounts.forget_unmounted(true);
        assert_eq!((open(), mounts.all().len()), (2, 2), "it has a vnode");
        mounts.forget_unmounted(false);
        assert_eq!((open(), mounts.all().len()), (1, 2), "the root's stays open");
        drop(vnode);
        mounts.forget_unmounted(true);
        assert_eq!(mounts.all().len(), 1);
        let again = mount_and_look_up();
        assert_eq!(mounts.all().iter().map(|mount| mount.index).collect::<Vec<_>>(), [0, 1], "its place is used again");
        drop(again);
    }
}

//! The mounts of the tree: the root's, and those below it, each known by the kernel's number of the mount and its device.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::OFlags;
use vnode::{Errno, FileKind, Result, mount_table};

use super::credentials::Acting;
use super::handle::FileHandle;
use super::shares::may_keep;
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
    /// A process serves it, by FUSE, which may be any user's and may not answer. Not said of the root's.
    is_served: bool,
    /// No other mount of the device was met before.
    is_first: bool,
    /// A descriptor on it, which keeps its number from being used again. None if it has been given up.
    place: Option<OwnedFd>,
    /// Present where objects can be opened by handle.
    handles: Option<Handles>,
    behaviour: Behaviour,
    /// When it was met, if it is an overlay: on the clock of times of creation, as [`Status::generation`].
    overlay_seen_at: Option<u64>,
    /// Number of live vnodes on it. Not counted of the root's mount, which stays.
    vnodes: Arc<AtomicUsize>,
}

/// How the common local file systems behave, and what is assumed of others.
#[derive(Clone, Copy, Default)]
struct Behaviour {
    /// It has nothing to tell at close.
    is_local: bool,
    keeps_access_times: bool,
    is_overlay: bool,
    /// An object is found by other spellings of its name.
    folds_names: bool,
    /// An inode number is of an object only as long as somebody uses that: it has none on storage.
    lends_numbers: bool,
    /// A file that is removed while something holds it gets another name in its directory until it is let go (`.nfs…`).
    renames_removed: bool,
}

struct Handles {
    /// A descriptor on the file system: open_by_handle_at wants a real one, not an `O_PATH` one.
    descriptor: OwnedFd,
    /// Where handles hold the inode number.
    inode_offset: Option<usize>,
}

/// The mounts of the tree that have been met, and that are there still or have live vnodes.
pub struct Mounts {
    root: Arc<Mount>,
    others: RwLock<Others>,
    use_handles: bool,
}

/// All but the root's, each at its index less 1. The place of one that has been forgotten is empty.
#[derive(Default)]
struct Others(Vec<Option<Arc<Mount>>>);

impl Others {
    fn all(&self) -> impl Iterator<Item = &Arc<Mount>> {
        self.0.iter().flatten()
    }

    /// The first place that is empty.
    fn free_place(&mut self) -> Result<(u16, &mut Option<Arc<Mount>>)> {
        let place = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        let index = u16::try_from(place + 1).map_err(|_| Errno::ENFILE)?;
        if place == self.0.len() {
            self.0.push(None);
        }
        Ok((index, &mut self.0[place]))
    }

    /// Takes the descriptors of those that are not mounted any more.
    fn give_up_gone(&mut self, mounted: &HashSet<u64>) -> Vec<Arc<Mount>> {
        let gone = self.0.iter_mut().flatten().filter(|mount| mount.place.is_some() && !mounted.contains(&mount.id));
        gone.map(|mount| std::mem::replace(mount, Arc::new(mount.given_up()))).collect()
    }

    /// Takes out those that are not mounted any more and that nothing refers to.
    fn take_gone(&mut self, mounted: &HashSet<u64>) -> Vec<Arc<Mount>> {
        let places = self.0.iter_mut();
        places
            .filter_map(|place| place.take_if(|mount| !mounted.contains(&mount.id) && Mount::is_unused(mount)))
            .collect()
    }
}

impl Mount {
    /// The one that an object is on, as the root's.
    fn root(
        acting: &Acting<'_>,
        object: BorrowedFd<'_>,
        status: &Status,
        handles: Option<Handles>,
        behaviour: Behaviour,
    ) -> Result<Self> {
        // The clock of times of creation, which are never before it.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        let now = (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64);
        Ok(Self {
            index: 0,
            device: status.device(),
            id: status.mount_id(),
            is_of_root_device: true,
            is_served: false,
            is_first: true,
            place: Some(acting.reopen(object, PATH_ONLY).map_err(errno)?),
            handles,
            behaviour,
            overlay_seen_at: behaviour.is_overlay.then_some(now),
            vnodes: Arc::default(),
        })
    }

    /// Whether the object of this state is on it.
    pub fn has(&self, status: &Status) -> bool {
        self.is(status.mount_id(), status.device())
    }

    /// Whether the kernel answers for it without asking anybody.
    pub fn answers_by_itself(&self) -> bool {
        self.behaviour.is_local || self.behaviour.is_overlay
    }

    /// Whether the object of this state is its root, and a process serves it that may not answer. It is asked for by those only
    /// who want to know of just that object: a look-up of its name would keep all others from the directory above.
    pub fn is_root_of_server(&self, status: &Status) -> bool {
        self.is_served && status.is_mount_root()
    }

    /// The inode number that the object of this state is known by. What the kernel has as that of the root of a server changes
    /// when the server is first asked.
    pub fn known_ino(&self, status: &Status) -> u64 {
        if self.is_root_of_server(status) { SERVER_ROOT_INO } else { status.ino() }
    }

    /// Whether an object with that [`Mount::known_ino`] is the root of a server.
    pub fn is_server_root_ino(&self, ino: u64) -> bool {
        self.is_served && ino == SERVER_ROOT_INO
    }

    /// The time of creation that the object of this state is known by, as [`Status::generation`]: none of the root of a server,
    /// as [`Mount::known_ino`].
    pub fn known_generation(&self, status: &Status) -> Option<u64> {
        if self.is_root_of_server(status) { None } else { status.generation() }
    }

    /// The state of an object that is open and on this mount. The root of a server is not asked for it.
    pub fn status_of(&self, object: BorrowedFd<'_>) -> Result<Status> {
        let known = Status::known_of_descriptor(object)?;
        if self.has_enough(&known) { Ok(known) } else { Status::of_descriptor(object) }
    }

    /// Whether no more is to be asked for than this state of an object on it.
    pub fn has_enough(&self, status: &Status) -> bool {
        status.is_asked() || self.answers_by_itself() || self.is_root_of_server(status)
    }

    /// Counts one more vnode on it.
    pub fn count_vnode(&self) {
        if self.index != 0 {
            self.vnodes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether nothing refers to it but the list, which must be locked: whoever makes a vnode on it has a reference.
    fn is_unused(self: &Arc<Self>) -> bool {
        // Nor does anybody have the one that it has been given up in the place of.
        let is_alone = Arc::strong_count(self) == 1 && Arc::strong_count(&self.vnodes) == 1;
        // Whoever had a reference has counted its vnodes before it gave that up.
        fence(Ordering::Acquire);
        is_alone && self.vnodes.load(Ordering::Acquire) == 0
    }

    fn is(&self, id: u64, device: u64) -> bool {
        self.id == id && self.device == device && self.place.is_some()
    }

    /// The kernel's number of it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether its device number alone stands for it: no other mount of the device was met before.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// A descriptor on it, `O_PATH`; none if it has been given up.
    pub fn place(&self) -> Option<BorrowedFd<'_>> {
        self.place.as_ref().map(AsFd::as_fd)
    }

    /// What stands for it in the list once it has been given up: vnodes on it cannot be opened any more.
    fn given_up(&self) -> Self {
        let Self { index, device, id, is_of_root_device, is_served, is_first, .. } = *self;
        let (behaviour, overlay_seen_at, vnodes) = (self.behaviour, self.overlay_seen_at, Arc::clone(&self.vnodes));
        let (place, handles) = (None, None);
        Self {
            index,
            device,
            id,
            is_of_root_device,
            is_served,
            is_first,
            place,
            handles,
            behaviour,
            overlay_seen_at,
            vnodes,
        }
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
        self.behaviour.keeps_access_times
    }

    /// Whether an object is found by other spellings of its name than the one that its directory lists.
    pub fn folds_names(&self) -> bool {
        self.behaviour.folds_names
    }

    /// Whether an object has its inode number only as long as it is in use, and another one afterwards.
    pub fn lends_numbers(&self) -> bool {
        self.behaviour.lends_numbers
    }

    /// Whether a file that is removed while something holds it gets another name in its directory.
    pub fn renames_removed(&self) -> bool {
        self.behaviour.renames_removed
    }

    /// When it was first seen, in nanoseconds as times of creation, if it is an overlay of the kernel's: an object there gets another
    /// time of creation, and keeps its number, as it is copied to the layer that may be changed.
    pub fn overlay_seen_at(&self) -> Option<u64> {
        self.overlay_seen_at
    }

    /// Whether closing a file may tell of an error of earlier writes, as on network file systems.
    pub fn tells_errors_at_close(&self) -> bool {
        !self.behaviour.is_local
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
        let root = Arc::new(Mount::root(acting, root, &status, handles, Behaviour::of(root))?);
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

    /// By its place in the list, where it is as long as it has vnodes.
    pub fn get(&self, index: u16) -> Arc<Mount> {
        let other = usize::from(index).checked_sub(1).map(|place| self.others().0[place].clone());
        other.flatten().unwrap_or_else(|| Arc::clone(&self.root))
    }

    /// One vnode less is on that mount.
    pub fn discount_vnode(&self, index: u16) {
        if index != 0 {
            self.get(index).vnodes.fetch_sub(1, Ordering::Release);
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Mount>> {
        std::iter::once(&self.root).chain(self.others().all()).cloned().collect()
    }

    /// The first of a device that has been met below the root's mount.
    pub fn first_of_device(&self, device: u64) -> Option<Arc<Mount>> {
        self.others().all().find(|mount| mount.device == device && mount.is_first).cloned()
    }

    /// By the kernel's number and the device, if it has been met.
    pub fn find(&self, id: u64, device: u64) -> Option<Arc<Mount>> {
        if self.root.is(id, device) {
            return Some(Arc::clone(&self.root));
        }
        self.others().all().find(|mount| mount.is(id, device)).cloned()
    }

    fn others(&self) -> RwLockReadGuard<'_, Others> {
        self.others.read().unwrap_or_else(PoisonError::into_inner)
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
        self.forget_gone(may_keep(object));
        let is_served = is_served(status);
        let handles = if self.use_handles && !is_served { probe(acting, object, status) } else { None };
        let behaviour = if is_served { Behaviour::default() } else { Behaviour::of(object) };
        let new = Mount { is_served, ..Mount::root(acting, object, status, handles, behaviour)? };
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(mount) = others.all().find(|mount| mount.has(status)) {
            return Ok(Arc::clone(mount));
        }
        let is_of_root_device = new.device == self.root.device;
        let is_first = !others.all().any(|mount| mount.device == new.device);
        let (index, place) = others.free_place()?;
        Ok(Arc::clone(place.insert(Arc::new(Mount { index, is_of_root_device, is_first, ..new }))))
    }

    /// Forgets the mounts that are not there any more and have no vnodes, with their descriptors: an end of a mount is not told,
    /// so that is found out when another is met. Where descriptors are short, those that have vnodes give theirs up too: the kernel
    /// may keep a name for ever that nobody asks for any more.
    fn forget_gone(&self, has_descriptors: bool) {
        if self.others().0.is_empty() {
            return;
        }
        let Some(mounted) = mounted() else { return };
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        let mut gone = others.take_gone(&mounted);
        if !has_descriptors {
            gone.extend(others.give_up_gone(&mounted));
        }
        drop(others);
        // Closed after the lock is free: what was detached ends with its last descriptor.
        drop(gone);
    }
}

/// The kernel's numbers of all that is mounted, as far as the server sees it; `None` if it cannot be told now.
fn mounted() -> Option<HashSet<u64>> {
    let table = std::fs::read(mount_table::OWN).ok()?;
    Some(mount_table::mounts(&table).map(|mount| mount.number).collect())
}

/// Whether the object of this state is on a mount that a process serves, by FUSE. Told by the mount table: the mount itself would
/// ask the process. One that is not in the table any more may have been one.
fn is_served(status: &Status) -> bool {
    let Ok(table) = std::fs::read(mount_table::OWN) else { return false };
    // An overlay shows other devices than the one in the table. Linux before 5.8 tells no number.
    let is_it = |mount: &mount_table::Mount<'_>| match status.mount_id() {
        0 => mount.device == status.device(),
        id => mount.number == id,
    };
    mount_table::mounts(&table).find(is_it).is_none_or(|mount| mount.is_fuse())
}

/// What the root of a server is known by. FUSE gives 1 to roots of which it does not know more, and to no other object this.
const SERVER_ROOT_INO: u64 = u64::MAX;

/// The inode number shown for an object on another device than the root's.
fn foreign_ino(device: u64, ino: u64) -> u64 {
    // Spread over the bits that inode numbers rarely use; the top bit is never set by a file system.
    let spread = device.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0x7fff_ff00_0000_0000;
    ino ^ (spread | 1 << 63)
}

impl Behaviour {
    /// Of the file system that it is on.
    fn of(object: BorrowedFd<'_>) -> Self {
        const LOCAL: [libc::c_long; 5] = [
            libc::EXT4_SUPER_MAGIC,
            libc::XFS_SUPER_MAGIC,
            libc::BTRFS_SUPER_MAGIC,
            libc::TMPFS_MAGIC,
            libc::F2FS_SUPER_MAGIC,
        ];
        const WITHOUT: u64 = libc::ST_NOATIME | libc::ST_RDONLY;
        /// CIFS, SMB 2 and later, HFS, HFS+.
        const FOLDING: [libc::c_long; 4] = [0xff53_4d42, 0xfe53_4d42, 0x4244, 0x482b];
        let Ok(state) = rustix::fs::fstatfs(object) else { return Self::default() };
        let is_local = LOCAL.contains(&state.f_type);
        let keeps_access_times = is_local && state.f_flags as u64 & WITHOUT == 0;
        let lends_numbers = FAT.contains(&state.f_type);
        let folds_names = lends_numbers || FOLDING.contains(&state.f_type);
        let is_overlay = state.f_type == libc::OVERLAYFS_SUPER_MAGIC;
        let renames_removed = state.f_type == libc::NFS_SUPER_MAGIC;
        Self { is_local, keeps_access_times, is_overlay, folds_names, lends_numbers, renames_removed }
    }
}

/// FAT and exFAT, which have no inodes.
const FAT: [libc::c_long; 2] = [libc::MSDOS_SUPER_MAGIC, 0x2011_bab0];

/// Whether objects of the file system that `object` is on can be opened by handle: tried with the object itself.
fn probe(acting: &Acting<'_>, object: BorrowedFd<'_>, status: &Status) -> Option<Handles> {
    // FUSE and FAT answer handles, but forget what they mean when the kernel forgets the inode.
    let kind = rustix::fs::fstatfs(object).map_err(errno).ok()?.f_type;
    if kind == libc::FUSE_SUPER_MAGIC || FAT.contains(&kind) {
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use vnode::{Caller, FileSystem, Name};

    use crate::dir::{DirectoryFileSystem, Options};

    fn run(command: &str, arguments: &[&str]) {
        assert!(Command::new(command).args(arguments).status().unwrap().success(), "{command} {arguments:?}");
    }

    #[test]
    fn where_descriptors_are_short_mounts_that_have_gone_give_up_theirs_whatever_vnodes_they_have() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root to mount file systems");
            return;
        }
        // A mount namespace of the test's thread: whatever happens, its mounts go with it.
        // SAFETY: unsharing the mount namespace touches no memory.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
        run("mount", &["--make-rprivate", "/"]);
        let directory = tempfile::tempdir().unwrap();
        let point = directory.path().join("point");
        std::fs::create_dir(&point).unwrap();
        let file_system = DirectoryFileSystem::open(directory.path(), Options::default()).unwrap();
        let mounts = &file_system.tree.mounts;
        let meet = || {
            run("mount", &["-t", "tmpfs", "none", point.to_str().unwrap()]);
            let entry = file_system.root().lookup(&Caller::server(), Name::new(b"point").unwrap());
            run("umount", &["-l", point.to_str().unwrap()]);
            entry.unwrap().vnode
        };
        let open = || mounts.all().iter().filter(|mount| mount.place.is_some()).count();
        let vnode = meet();
        mounts.forget_gone(true);
        assert_eq!((open(), mounts.all().len()), (2, 2), "it has a vnode");
        mounts.forget_gone(false);
        assert_eq!((open(), mounts.all().len()), (1, 2), "the root's stays open");
        drop(vnode);
        mounts.forget_gone(true);
        assert_eq!(mounts.all().len(), 1);
        let again = meet();
        assert_eq!(mounts.all().iter().map(|mount| mount.index).collect::<Vec<_>>(), [0, 1], "its place is used again");
        drop(again);
    }
}

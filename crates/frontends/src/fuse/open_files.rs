//! Open files and directories: the kernel's file handles, and how the opens of one node share the kernel's I/O modes.
//!
//! **Invariants.** The kernel refuses to mix cached and passthrough opens of one inode, and all passthrough opens of an inode
//! must use one backing file. So a node's opens are counted by mode; the backing file is registered by the first passthrough
//! open and released by the last; while a cached open exists, all new ones are cached.

use super::nodes::Node;
use super::protocol::wire::open_reply;
use hashbrown::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use vnode::{Caller, OpenDirectoryRef, OpenFileRef, SetTime, Sharded};

/// An open regular file.
pub(crate) struct OpenedFile {
    pub(crate) file: OpenFileRef,
    pub(crate) node: u64,
    mode: IoMode,
    /// Reads and writes bypass the kernel's cache and reach the stack.
    pub(crate) is_direct: bool,
    /// Opened for writing.
    pub(crate) writes: bool,
    /// The user and group that opened it: the owner of the pages that the kernel writes back.
    pub(crate) opener: (u32, u32),
    /// Opened for appending: writes go to the end, whatever the offset in the kernel's request.
    pub(crate) appends: bool,
    /// A second open of the file, for pages that the kernel writes back at their offsets, if this one appends.
    pub(crate) writeback_file: OnceLock<OpenFileRef>,
    /// Set once a flock lock was taken, to be released with the file.
    pub(crate) flocked: AtomicBool,
}

impl OpenedFile {
    /// Returns whether the kernel may have changed the data by itself.
    pub(crate) fn may_bypass_server(&self) -> bool {
        self.writes && self.mode == IoMode::Passthrough
    }
}

/// An open directory.
pub(crate) struct OpenedDirectory {
    pub(crate) directory: OpenDirectoryRef,
    pub(crate) node: Arc<Node>,
}

/// How the kernel does I/O on an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IoMode {
    Cached,
    Direct,
    Passthrough,
}

/// The answer to an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenReply {
    pub(crate) handle: u64,
    pub(crate) flags: u32,
    pub(crate) backing_id: i32,
}

/// The constraints on an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenConstraints {
    /// Use passthrough, if the kernel has it.
    pub(crate) passthrough: bool,
    /// Reads and writes must reach the stack.
    pub(crate) direct: bool,
    /// Another open of the node may refer to another lower file.
    pub(crate) opens_differ: bool,
    /// The file is opened for writing.
    pub(crate) writes: bool,
    /// The file is opened for appending.
    pub(crate) appends: bool,
    /// The user that opens it.
    pub(crate) opener: Opener,
}

/// The user that opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opener {
    /// User and group.
    pub(crate) ids: (u32, u32),
    /// Writes of this user leave set-ID bits unchanged.
    pub(crate) is_privileged: bool,
}

impl Opener {
    pub(crate) fn of(caller: &Caller) -> Opener {
        Opener { ids: (caller.uid, caller.gid), is_privileged: caller.is_superuser() }
    }
}

/// Bypasses the cache and allows parallel writes to one file: the stack serializes them as far as the base does.
const DIRECT: u32 = open_reply::DIRECT_IO | open_reply::PARALLEL_DIRECT_WRITES;

const SHARDS: usize = 32;

/// All open files and directories of a mount.
pub(crate) struct OpenFiles {
    next_handle: AtomicU64,
    files: Sharded<RwLock<HashMap<u64, Arc<OpenedFile>>>, SHARDS>,
    directories: Sharded<RwLock<HashMap<u64, Arc<OpenedDirectory>>>, SHARDS>,
    nodes: Sharded<Mutex<HashMap<u64, OpenNode>>, SHARDS>,
}

/// The state of a node while it is open.
#[derive(Default)]
struct OpenNode {
    /// The latest modification time that the kernel has sent for its cached writes, and the request that sent it.
    latest_mtime: Option<(u64, SetTime)>,
    cached: u32,
    passthrough: u32,
    backing_id: i32,
    /// Identity of the backing file, where [`OpenConstraints::opens_differ`].
    backing_file: Option<FileIdentity>,
    /// The user whose open registered the backing file: all passthrough writes are done with those credentials.
    backing_opener: Option<Opener>,
    handles: Vec<u64>,
    /// Number of these that are open for writing.
    writers: u32,
}

impl OpenFiles {
    pub(crate) fn new() -> OpenFiles {
        OpenFiles {
            next_handle: AtomicU64::new(1),
            files: Sharded::default(),
            directories: Sharded::default(),
            nodes: Sharded::default(),
        }
    }

    /// Registers an open file. `register_backing` is called if passthrough is requested and no open of the node has a backing
    /// file yet; `None` from it means cached I/O. `keeps_cache` is called if I/O is cached: it returns whether the pages stay
    /// valid from one open to the next.
    pub(crate) fn open(
        &self,
        node: u64,
        file: OpenFileRef,
        constraints: OpenConstraints,
        register_backing: impl FnOnce(&OpenFileRef) -> Option<i32>,
        keeps_cache: impl FnOnce(&OpenFileRef) -> bool,
    ) -> OpenReply {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let mut open_nodes = self.node_shard(node);
        let open_node = open_nodes.entry(node).or_default();
        let (mode, mut flags) = open_node.choose_io_mode(&file, constraints, register_backing);
        let backing_id = if flags & open_reply::PASSTHROUGH != 0 { open_node.backing_id } else { 0 };
        open_node.handles.push(handle);
        open_node.writers += u32::from(constraints.writes);
        drop(open_nodes);
        if mode == IoMode::Cached && keeps_cache(&file) {
            flags |= open_reply::KEEP_CACHE;
        }
        let OpenConstraints { writes, appends, opener, .. } = constraints;
        let (writeback_file, flocked) = (OnceLock::new(), AtomicBool::new(false));
        let is_direct = flags & open_reply::DIRECT_IO != 0;
        let opened = Arc::new(OpenedFile {
            file,
            node,
            mode,
            is_direct,
            writes,
            opener: opener.ids,
            appends,
            writeback_file,
            flocked,
        });
        self.file_shard(handle).write().unwrap_or_else(PoisonError::into_inner).insert(handle, opened);
        OpenReply { handle, flags, backing_id }
    }

    /// Returns the open file of this handle.
    pub(crate) fn get(&self, handle: u64) -> Option<Arc<OpenedFile>> {
        self.file_shard(handle).read().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned()
    }

    /// Returns any open file of this node.
    pub(crate) fn any_of(&self, node: u64) -> Option<Arc<OpenedFile>> {
        let handle = *self.node_shard(node).get(&node)?.handles.first()?;
        self.get(handle)
    }

    /// Records the modification time that the kernel, which caches writes, has sent with this request.
    pub(crate) fn record_mtime(&self, node: u64, unique: u64, mtime: SetTime) {
        if let Some(open_node) = self.node_shard(node).get_mut(&node) {
            open_node.latest_mtime = Some((unique, mtime));
        }
    }

    /// Sets the modification times that the kernel has sent with later requests than this one. While one is being set, the
    /// kernel may send a later one, and another thread may set it; the older one would then overwrite it: so this repeats
    /// until the time that was set is the latest one sent.
    pub(crate) fn apply_later_mtimes<E>(
        &self,
        node: u64,
        unique: u64,
        mut set: impl FnMut(SetTime) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut applied = unique;
        while let Some((sender, mtime)) = self.mtime_after(node, applied) {
            set(mtime)?;
            applied = sender;
        }
        Ok(())
    }

    /// Returns the latest modification time that the kernel has sent, and the request that sent it, if that is later than this
    /// one.
    fn mtime_after(&self, node: u64, unique: u64) -> Option<(u64, SetTime)> {
        self.node_shard(node).get(&node)?.latest_mtime.filter(|(sender, _)| *sender > unique)
    }

    /// Returns whether the node is open for writing.
    pub(crate) fn has_writers(&self, node: u64) -> bool {
        self.node_shard(node).get(&node).is_some_and(|open_node| open_node.writers > 0)
    }

    /// Returns the nodes that are open for writing.
    pub(crate) fn nodes_open_for_writing(&self) -> Vec<u64> {
        let shards = self.nodes.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner));
        shards.flat_map(|nodes| ids_open_for_writing(&nodes)).collect()
    }

    /// Removes an open file; `release_backing` gets the id of a backing file that no open uses any more.
    pub(crate) fn release(&self, handle: u64, release_backing: impl FnOnce(i32)) -> Option<Arc<OpenedFile>> {
        let opened = self.file_shard(handle).write().unwrap_or_else(PoisonError::into_inner).remove(&handle)?;
        let mut open_nodes = self.node_shard(opened.node);
        if let Some(open_node) = open_nodes.get_mut(&opened.node) {
            open_node.handles.retain(|&other| other != handle);
            open_node.writers -= u32::from(opened.writes);
            match opened.mode {
                IoMode::Cached => open_node.cached -= 1,
                IoMode::Passthrough => open_node.passthrough -= 1,
                IoMode::Direct => {}
            }
            if open_node.passthrough == 0 && open_node.backing_id != 0 {
                release_backing(std::mem::take(&mut open_node.backing_id));
            }
            if open_node.handles.is_empty() {
                open_nodes.remove(&opened.node);
            }
        }
        drop(open_nodes);
        Some(opened)
    }

    /// Registers an open directory.
    pub(crate) fn open_directory(&self, node: Arc<Node>, directory: OpenDirectoryRef) -> u64 {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let opened = Arc::new(OpenedDirectory { directory, node });
        self.directory_shard(handle).write().unwrap_or_else(PoisonError::into_inner).insert(handle, opened);
        handle
    }

    /// Returns the open directory of this handle.
    pub(crate) fn get_directory(&self, handle: u64) -> Option<Arc<OpenedDirectory>> {
        self.directory_shard(handle).read().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned()
    }

    /// Removes an open directory.
    pub(crate) fn release_directory(&self, handle: u64) -> Option<Arc<OpenedDirectory>> {
        self.directory_shard(handle).write().unwrap_or_else(PoisonError::into_inner).remove(&handle)
    }

    /// Drops everything: the kernel has ended the connection, and released its backing files.
    pub(crate) fn clear(&self) {
        for shard in self.files.iter() {
            drop(std::mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner)));
        }
        for shard in self.directories.iter() {
            drop(std::mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner)));
        }
        for shard in self.nodes.iter() {
            shard.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    fn file_shard(&self, handle: u64) -> &RwLock<HashMap<u64, Arc<OpenedFile>>> {
        self.files.of_number(handle)
    }

    fn directory_shard(&self, handle: u64) -> &RwLock<HashMap<u64, Arc<OpenedDirectory>>> {
        self.directories.of_number(handle)
    }

    fn node_shard(&self, node: u64) -> MutexGuard<'_, HashMap<u64, OpenNode>> {
        self.nodes.of_number(node).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenNode {
    /// Decides how one more open does its I/O, and counts it.
    fn choose_io_mode(
        &mut self,
        file: &OpenFileRef,
        constraints: OpenConstraints,
        register_backing: impl FnOnce(&OpenFileRef) -> Option<i32>,
    ) -> (IoMode, u32) {
        if constraints.passthrough && self.cached == 0 && self.backing_id == 0 {
            self.backing_id = register_backing(file).unwrap_or_default();
            self.backing_file = constraints.opens_differ.then(|| identity(file)).flatten();
            self.backing_opener = Some(constraints.opener);
        }
        if self.backing_id != 0 {
            // An open whose I/O must reach the server also uses the backing file: the kernel requires that of all opens of the
            // inode, and lets direct I/O take precedence.
            self.passthrough += 1;
            let wrong_credentials = constraints.writes && self.backing_opener != Some(constraints.opener);
            let wrong_file = constraints.opens_differ && self.backing_file != identity(file);
            // Each is asked: a layer has to know which of its open files the kernel uses directly, whichever is closed first.
            let is_barred = file.backing().is_none();
            let direct = if constraints.direct || wrong_credentials || wrong_file || is_barred { DIRECT } else { 0 };
            (IoMode::Passthrough, open_reply::PASSTHROUGH | direct)
        } else if constraints.direct || constraints.opens_differ {
            (IoMode::Direct, DIRECT)
        } else {
            self.cached += 1;
            (IoMode::Cached, 0)
        }
    }
}

fn ids_open_for_writing(nodes: &HashMap<u64, OpenNode>) -> Vec<u64> {
    nodes.iter().filter(|(_, open_node)| open_node.writers > 0).map(|(&node, _)| node).collect()
}

/// Device and inode number of a lower file.
type FileIdentity = (u64, u64);

fn identity(file: &OpenFileRef) -> Option<FileIdentity> {
    let status = rustix::fs::fstat(file.backing()?).ok()?;
    Some((status.st_dev, status.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::any::Any;
    use std::os::fd::BorrowedFd;
    use vnode::{Attributes, Caller, Errno, OpenFile, Result};

    /// A file that the kernel may use directly, or not.
    struct EmptyFile {
        lower: Option<std::fs::File>,
    }

    impl OpenFile for EmptyFile {
        fn backing(&self) -> Option<BorrowedFd<'_>> {
            self.lower.as_ref().map(std::os::fd::AsFd::as_fd)
        }
        fn read_at(&self, _caller: &Caller, _offset: u64, _buffer: &mut [u8]) -> Result<usize> {
            Ok(0)
        }
        fn getattr(&self, _caller: &Caller) -> Result<Attributes> {
            Err(Errno::EIO)
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    const PASSTHROUGH: OpenConstraints = OpenConstraints {
        passthrough: true,
        direct: false,
        opens_differ: false,
        writes: true,
        appends: false,
        opener: Opener { ids: (0, 0), is_privileged: true },
    };
    const USER: Opener = Opener { ids: (5, 5), is_privileged: false };
    const DIRECT: OpenConstraints = OpenConstraints { direct: true, ..PASSTHROUGH };
    const CACHED: OpenConstraints = OpenConstraints { passthrough: false, ..PASSTHROUGH };

    fn open(files: &OpenFiles, constraints: OpenConstraints, backing: Option<i32>) -> OpenReply {
        let lower = Some(std::fs::File::open("/dev/null").unwrap());
        files.open(5, Arc::new(EmptyFile { lower }), constraints, |_| backing, |_| !constraints.passthrough)
    }

    #[test]
    fn opens_of_a_node_share_one_backing_file_until_the_last_is_closed() {
        let files = OpenFiles::new();
        let first = open(&files, PASSTHROUGH, Some(7));
        let second = open(&files, PASSTHROUGH, None);
        let third = open(&files, DIRECT, None);
        assert_eq!((first.flags, first.backing_id), (open_reply::PASSTHROUGH, 7));
        assert_eq!((second.flags, second.backing_id), (open_reply::PASSTHROUGH, 7));
        assert_eq!((third.flags, third.backing_id), (open_reply::PASSTHROUGH | super::DIRECT, 7));
        let mut released = Vec::new();
        for reply in [first, second, third] {
            assert!(released.is_empty());
            files.release(reply.handle, |id| released.push(id));
        }
        assert_eq!(released, [7]);
        assert!(files.any_of(5).is_none());
    }

    #[test]
    fn an_open_that_may_not_be_used_directly_does_its_io_through_the_server() {
        let files = OpenFiles::new();
        open(&files, PASSTHROUGH, Some(7));
        let barred = files.open(5, Arc::new(EmptyFile { lower: None }), PASSTHROUGH, |_| None, |_| false);
        assert_eq!(barred.flags, open_reply::PASSTHROUGH | super::DIRECT);
    }

    #[test]
    fn writer_with_other_credentials_bypasses_passthrough() {
        let files = OpenFiles::new();
        open(&files, PASSTHROUGH, Some(7));
        let other = open(&files, OpenConstraints { opener: USER, ..PASSTHROUGH }, None);
        assert_eq!(other.flags, open_reply::PASSTHROUGH | super::DIRECT);
        let reader = open(&files, OpenConstraints { opener: USER, writes: false, ..PASSTHROUGH }, None);
        assert_eq!(reader.flags, open_reply::PASSTHROUGH);
        for opener in [
            Opener { ids: (6, 5), ..USER },
            Opener { ids: (5, 6), ..USER },
            Opener { ids: (0, 0), is_privileged: false },
        ] {
            let files = OpenFiles::new();
            open(&files, OpenConstraints { opener: USER, writes: false, ..PASSTHROUGH }, Some(7));
            let other = open(&files, OpenConstraints { opener, ..PASSTHROUGH }, None);
            assert_eq!(other.flags, open_reply::PASSTHROUGH | super::DIRECT, "{opener:?}");
            let own = open(&files, OpenConstraints { opener: USER, ..PASSTHROUGH }, None);
            assert_eq!(own.flags, open_reply::PASSTHROUGH);
        }
    }

    #[test]
    fn cached_and_passthrough_opens_never_mix() {
        let files = OpenFiles::new();
        let cached = open(&files, PASSTHROUGH, None);
        assert_eq!((cached.flags, cached.backing_id), (0, 0));
        let kept = open(&files, CACHED, None);
        assert_eq!(kept.flags, open_reply::KEEP_CACHE);
        let later = files.open(
            5,
            Arc::new(EmptyFile { lower: None }),
            PASSTHROUGH,
            |_| panic!("a cached open exists"),
            |_| false,
        );
        assert_eq!(later.flags, 0);
        for reply in [cached, kept, later] {
            files.release(reply.handle, |_| panic!("no backing file"));
        }
        assert_eq!(open(&files, PASSTHROUGH, Some(3)).backing_id, 3);
    }

    #[test]
    fn latest_mtime_is_applied_last() {
        let files = OpenFiles::new();
        let time = |seconds| SetTime::To(vnode::Timestamp { seconds, nanoseconds: 0 });
        let never = |_| Err("set");
        assert_eq!(files.apply_later_mtimes(5, 1, never), Ok(()), "the file is not open");
        open(&files, CACHED, None);
        files.record_mtime(5, 4, time(1));
        assert_eq!(files.apply_later_mtimes(5, 6, never), Ok(()), "told before the page was sent");
        let mut set = Vec::new();
        let slow = |mtime| {
            if set.is_empty() {
                // Sent and set by another thread while the first is being set.
                files.record_mtime(5, 8, time(2));
            }
            set.push(mtime);
            Ok::<_, ()>(())
        };
        files.apply_later_mtimes(5, 2, slow).unwrap();
        assert_eq!(set, [time(1), time(2)]);
        assert_eq!(files.apply_later_mtimes(5, 2, |_| Err("refused")), Err("refused"));
    }

    #[test]
    fn closed_node_leaves_no_state() {
        let files = OpenFiles::new();
        let reply = open(&files, CACHED, None);
        assert!(files.get(reply.handle).is_some());
        assert_eq!(files.nodes_open_for_writing(), [5]);
        assert!(files.release(reply.handle, |_| ()).is_some());
        assert!(files.get(reply.handle).is_none());
        assert!(files.release(reply.handle, |_| ()).is_none() && files.nodes_open_for_writing().is_empty());
        assert!(files.nodes.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}

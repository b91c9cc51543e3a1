//! Dispatch from the kernel's operations to vnode calls, split by group of operations.

mod attributes;
mod control;
mod data;
mod directories;
mod entries;
mod files;
mod guard;
mod xattrs;

use super::caching::access::NameCachePolicy;
use super::caching::expiry::{ExpiryQueue, NotificationInProgress, StaleEntries};
use super::caching::inner_mounts::InnerMounts;
use super::caching::names::{CachedNames, DirectoryNames};
use super::caching::new_files::NewFileCache;
use super::caching::notification_threads::{NotificationThreads, STALL_TIMEOUT};
use super::caching::notifications::NotificationSender;
use super::caching::page_cache::PageCacheRetention;
use super::caching::readdirplus::ReaddirplusHeuristic;
use super::caching::walkers::Walkers;
use super::durability::Durability;
use super::locks::{LockOutcome, Locks};
use super::mounting::decisions::CurrentDecisions;
use super::mounting::options::{Decisions, REGULAR_TIMEOUT};
use super::nodes::{Node, NodeTable};
use super::open_files::{OpenFiles, OpenedDirectory, OpenedFile};
use super::poll::Pollers;
use super::protocol::negotiation::Negotiated;
use super::protocol::reply::Reply;
use super::protocol::request::{Operation, Request};
use super::protocol::wire;
use super::session::{Handler, Outcome};
use super::transport::deferred::DeferredReply;
use super::transport::device::Device;
use super::trim::Trimmer;
use arc_swap::Guard;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use vnode::{
    Attributes, Caller, Cookie, Errno, FileKind, FileSystemRef, KeptAccessTimes, Name, OpenDirectory, Result, VnodeRef,
};

/// Names of a directory that are to expire.
enum StaleNames {
    All(DirectoryNames),
    One(Box<[u8]>),
}

impl StaleNames {
    fn has_negative_entries(&self) -> bool {
        matches!(self, Self::All(stale) if stale.has_negative_entries)
    }
}

/// Everything that a mount's requests need.
pub(crate) struct Dispatcher {
    file_system: FileSystemRef,
    device: Arc<Device>,
    negotiated: Negotiated,
    current: Arc<CurrentDecisions>,
    nodes: NodeTable,
    open_files: OpenFiles,
    name_cache_policy: NameCachePolicy,
    readdirplus: ReaddirplusHeuristic,
    walkers: Walkers,
    cached_names: CachedNames,
    expiry: ExpiryQueue,
    notification_threads: NotificationThreads,
    inner_mounts: InnerMounts,
    page_cache_retention: PageCacheRetention,
    new_files: NewFileCache,
    locks: Locks,
    durability: Durability,
    notifications: NotificationSender,
    pollers: Pollers,
    trimmer: Trimmer,
    /// Set once the kernel has refused to register backing files; it would refuse again.
    passthrough_refused: AtomicBool,
    server: Caller,
}

/// Result of an operation: its output is in the reply.
type OperationResult = Result<()>;

/// Upper bound on the time from reading the state for a reply until the reply reaches the kernel.
const MAX_REPLY_DELAY: Duration = Duration::from_millis(20);

/// The set-ID bits, which a write clears.
const SET_ID: u32 = 0o6000;

impl Dispatcher {
    pub(crate) fn new(
        file_system: FileSystemRef,
        device: Arc<Device>,
        current: Arc<CurrentDecisions>,
        notifications: NotificationSender,
        expiry: ExpiryQueue,
        inner_mounts: InnerMounts,
        locks: Locks,
    ) -> Dispatcher {
        let negotiated = current.negotiated();
        Dispatcher {
            negotiated,
            nodes: NodeTable::new(file_system.root()),
            open_files: OpenFiles::new(),
            name_cache_policy: NameCachePolicy::new(Arc::clone(&current)),
            readdirplus: ReaddirplusHeuristic::new(),
            walkers: Walkers::new(),
            cached_names: CachedNames::new(),
            expiry,
            notification_threads: NotificationThreads::default(),
            inner_mounts,
            page_cache_retention: PageCacheRetention::new(),
            new_files: NewFileCache::new(),
            durability: Durability::new(&current.decisions()),
            locks,
            pollers: Pollers::new(notifications.clone()),
            trimmer: Trimmer::start(),
            passthrough_refused: AtomicBool::new(!negotiated.has(wire::init::PASSTHROUGH)),
            server: Caller::server(),
            file_system,
            device,
            current,
            notifications,
        }
    }

    /// Returns the number of nodes that the kernel holds.
    pub(crate) fn node_count(&self) -> u64 {
        self.nodes.len()
    }

    /// Returns what has to be on stable storage before a request is answered.
    pub(crate) fn durability(&self) -> &Durability {
        &self.durability
    }

    /// Sets the kinds of objects whose access times reading no longer changes.
    pub(crate) fn keep_access_times(&self, kept: KeptAccessTimes) {
        self.file_system.keep_access_times(kept);
    }

    /// Syncs all written data to stable storage.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file_system.sync()
    }

    /// Returns the node table, for the notifier.
    pub(crate) fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// Returns the queue of entries of which the kernel is to be notified.
    pub(crate) fn expiry(&self) -> &ExpiryQueue {
        &self.expiry
    }

    /// Returns the number of files open for writing, whose written data the kernel may hold.
    pub(crate) fn writable_file_count(&self) -> usize {
        self.open_files.nodes_open_for_writing().len()
    }

    /// Makes the kernel write back the dirty data of all open files; returns whether it has done so within this time. Must not
    /// be called by a thread that serves requests.
    pub(crate) fn write_back_within(self: &Arc<Self>, timeout: Duration) -> bool {
        if self.writable_file_count() == 0 {
            return true;
        }
        let dispatcher = Arc::clone(self);
        let (done, completion) = std::sync::mpsc::channel();
        let write_back = move || {
            let nodes = dispatcher.open_files.nodes_open_for_writing();
            nodes.into_iter().for_each(|node| dispatcher.notifications.write_back(node));
            // The receiver may be gone.
            let _ = done.send(());
        };
        let thread = std::thread::Builder::new().name("fuse-write-back".into()).spawn(vnode::as_server(write_back));
        thread.is_ok() && completion.recv_timeout(timeout).is_ok()
    }

    /// Applies a changed stack: its current requirements hold for every reply from here on.
    pub(crate) fn update_decisions(&self) {
        self.current.update_decisions(&self.file_system.properties());
        self.cached_names.start_generation();
    }

    /// Returns the current decisions.
    fn decisions(&self) -> Guard<Arc<Decisions>> {
        self.current.decisions()
    }

    fn node(&self, id: u64) -> Result<Arc<Node>> {
        self.nodes.get(id).ok_or(Errno::ESTALE)
    }

    fn vnode(&self, id: u64) -> Result<VnodeRef> {
        self.node(id).map(|node| Arc::clone(&node.vnode))
    }

    /// Returns whether the kernel caches writes, with sizes and times of its own.
    fn writes_back(&self) -> bool {
        self.negotiated.has(wire::init::WRITEBACK_CACHE)
    }

    /// Returns whether a write or truncation by this caller clears set-ID bits without an explicit request from the kernel.
    fn clears_set_id(&self, uid: u32) -> bool {
        self.negotiated.has(wire::init::HANDLE_KILLPRIV) && uid != 0
    }

    /// Returns the process that sent a request, for an operation that the kernel has checked if it checks permissions.
    fn admitted_caller(&self, request: &Request<'_>, umask: u32) -> Caller {
        let caller = caller(request, umask);
        if self.decisions().default_permissions { caller.admitted_by_kernel() } else { caller }
    }

    /// Returns whether the kernel has checked permissions, and clears set-ID bits by setting the mode on behalf of the writer.
    fn kernel_clears_set_id(&self) -> bool {
        let left_to_server = [wire::init::HANDLE_KILLPRIV_V2, wire::init::HANDLE_KILLPRIV];
        self.decisions().default_permissions && !left_to_server.into_iter().any(|feature| self.negotiated.has(feature))
    }

    fn open_file(&self, handle: u64) -> Result<Arc<OpenedFile>> {
        self.open_files.get(handle).ok_or(Errno::EBADF)
    }

    fn open_directory(&self, handle: u64) -> Result<Arc<OpenedDirectory>> {
        self.open_files.get_directory(handle).ok_or(Errno::EBADF)
    }

    /// Returns how long the kernel may cache these attributes.
    fn attribute_timeout(&self, node: &Node, attributes: &Attributes) -> Duration {
        if attributes.is_provisional {
            Duration::ZERO
        } else if attributes.kind == FileKind::Regular && attributes.mode & SET_ID != 0 {
            // A passthrough write clears the bits without the kernel noticing, and nobody may run the program with them a
            // moment later.
            Duration::ZERO
        } else if attributes.kind == FileKind::Regular && node.may_be_mapped() {
            self.decisions().attribute_timeout.min(REGULAR_TIMEOUT)
        } else {
            self.decisions().attribute_timeout
        }
    }

    /// Expires a directory's names, of which the kernel may hold some that not everybody may look up any longer. The kernel
    /// holds the directory's lock for the request that is being served, so that a cached name may still be used for a moment
    /// after the reply.
    fn expire_private_names(&self, directory: &Node) {
        self.cached_names.start_generation();
        self.expiry.directory(directory.id);
    }

    /// Makes the kernel revalidate names, and everything else that is stale. For a thread that serves no request. It does not
    /// wait for notifications that block on hanging requests: `in_progress` is kept until those are complete too.
    pub(crate) fn notify_stale(self: &Arc<Self>, stale: StaleEntries, in_progress: &NotificationInProgress) {
        let is_everything = stale.everything;
        let mut names: Vec<(u64, StaleNames)> = match stale.everything {
            true => self.cached_names.take_all(),
            false => stale.directories.into_iter().filter_map(|id| Some((id, self.cached_names.take(id)?))).collect(),
        }
        .into_iter()
        .map(|(parent, directory)| (parent, StaleNames::All(directory)))
        .collect();
        names.extend(stale.names.into_iter().map(|(parent, name)| (parent, StaleNames::One(name))));
        if names.is_empty() {
            // Nobody has used a name yet.
        } else if self.negotiated.has(wire::init::HAS_EXPIRE_ONLY) {
            names = self.notify_each(names, in_progress, move |dispatcher, (parent, names)| {
                let started = Instant::now();
                dispatcher.expire(*parent, names);
                if started.elapsed() >= STALL_TIMEOUT {
                    // Nobody waits for this one to repeat the notification.
                    std::thread::sleep(MAX_REPLY_DELAY);
                    dispatcher.expire(*parent, names);
                    if is_everything && names.has_negative_entries() {
                        dispatcher.expire_existing_names(*parent);
                    }
                }
            });
            // A recorded name may have been looked up earlier, with a reply that reached the kernel only after the
            // notification.
            std::thread::sleep(MAX_REPLY_DELAY);
            names =
                self.notify_each(names, in_progress, |dispatcher, (parent, names)| dispatcher.expire(*parent, names));
        } else {
            std::thread::sleep(self.decisions().name_timeout + MAX_REPLY_DELAY);
        }
        let mut nodes: Vec<u64> = stale.nodes.into_iter().collect();
        if stale.everything {
            let missing =
                names.into_iter().filter(|(_, names)| names.has_negative_entries()).map(|(parent, _)| parent).collect();
            self.notify_each(missing, in_progress, |dispatcher, parent| dispatcher.expire_existing_names(*parent));
            nodes = self.nodes.ids();
        }
        // Invalidating attributes never blocks.
        nodes.iter().for_each(|&node| self.notifications.invalidate_attributes(node));
        self.notify_each(nodes, in_progress, |dispatcher, node| dispatcher.notifications.invalidate_node(*node));
    }

    /// Sends all these notifications to the kernel; returns the targets that are complete by now.
    fn notify_each<T: Send + 'static>(
        self: &Arc<Self>,
        parts: Vec<T>,
        in_progress: &NotificationInProgress,
        notify: impl Fn(&Dispatcher, &T) + Send + Sync + 'static,
    ) -> Vec<T> {
        let (dispatcher, in_progress) = (Arc::clone(self), in_progress.clone());
        self.notification_threads.notify_each(
            parts,
            &(Arc::new(move |part: &T| {
                let _ = &in_progress;
                notify(&dispatcher, part);
            }) as _),
        )
    }

    fn expire(&self, directory: u64, names: &StaleNames) {
        match names {
            StaleNames::All(stale) => stale.names().for_each(|name| self.notifications.expire_name(directory, name)),
            StaleNames::One(name) => self.notifications.expire_name(directory, name),
        }
    }

    /// Makes the kernel look up the existing names in a directory, of which it may have cached that they do not exist.
    fn expire_existing_names(&self, directory: u64) {
        let open = self.nodes.get(directory).map(|node| node.vnode.open_directory(&self.server));
        if let Some(Ok(open)) = open {
            for_each_name(&*open, &self.server, |name| self.notifications.expire_name(directory, name));
        }
    }

    fn dispatch(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> OperationResult {
        use Operation as O;
        match &request.operation {
            O::Lookup { .. }
            | O::SymbolicLink { .. }
            | O::MakeNode { .. }
            | O::MakeDirectory { .. }
            | O::Unlink { .. }
            | O::RemoveDirectory { .. }
            | O::Rename { .. }
            | O::Link { .. }
            | O::ReadLink => self.entry_operation(request, reply),
            O::GetAttributes { .. } | O::SetAttributes(_) | O::Statx(_) | O::Access { .. } | O::StatFs => {
                self.attribute_operation(request, reply)
            }
            O::Open(_)
            | O::Create { .. }
            | O::TemporaryFile { .. }
            | O::Release(_)
            | O::Flush(_)
            | O::Fsync(_)
            | O::GetLock(_) => self.file_operation(request, reply),
            O::Read(_) | O::Write { .. } | O::Fallocate(_) | O::Seek(_) | O::CopyFileRange { .. } => {
                self.data_operation(request, reply)
            }
            O::OpenDirectory(_) | O::ReadDirectory { .. } | O::ReleaseDirectory(_) | O::FsyncDirectory(_) => {
                self.directory_operation(request, reply)
            }
            O::SetXattr { .. } | O::GetXattr { .. } | O::ListXattr { .. } | O::RemoveXattr { .. } => {
                self.xattr_operation(request, reply)
            }
            O::Ioctl { .. }
            | O::Poll(_)
            | O::SyncFs
            | O::BlockMap
            | O::Init(_)
            | O::Destroy
            | O::Unsupported
            | O::NotifyReply
            | O::Interrupt { .. }
            | O::Forget { .. }
            | O::BatchForget { .. }
            | O::SetLock { .. } => self.control_operation(request, reply),
        }
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.expiry.end();
    }
}

impl Handler for Dispatcher {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Outcome {
        match &request.operation {
            Operation::Forget { lookups } => {
                self.forget(request.node, *lookups);
                return Outcome::NoReply;
            }
            Operation::BatchForget { forgets } => {
                forgets.iter().for_each(|forget| self.forget(forget.node, forget.lookups));
                return Outcome::NoReply;
            }
            Operation::Interrupt { unique } => {
                self.locks.interrupt(*unique);
                return Outcome::NoReply;
            }
            Operation::NotifyReply => return Outcome::NoReply,
            // A kernel with the writeback cache sends FLUSH at every close, unless it learns once that no file here
            // implements it.
            Operation::Flush(_) if !self.decisions().needs_flush() => return Outcome::Failed(libc::ENOSYS),
            // By this the kernel knows that files are always ready.
            Operation::Poll(_) if !self.decisions().polls => return Outcome::Failed(libc::ENOSYS),
            _ => {}
        }
        let result = match &request.operation {
            Operation::SetLock { arguments, wait } => match self.set_lock(request, arguments, *wait) {
                Ok(LockOutcome::Queued) => return Outcome::Deferred,
                locked => locked.map(drop),
            },
            _ => self.dispatch(request, reply),
        };
        match result {
            Ok(()) => Outcome::Done,
            Err(errno) => Outcome::Failed(error_number(&request.operation, errno)),
        }
    }

    fn defer(&self, unique: u64, reply: DeferredReply) {
        self.locks.attach(unique, reply);
    }

    fn give_up(&self, unique: u64) -> Outcome {
        self.locks.give_up(unique).map_or_else(|errno| Outcome::Failed(errno.number()), |()| Outcome::Done)
    }

    fn any_regular_file(&self) -> Option<u64> {
        self.nodes.find(|node| node.vnode.kind() == FileKind::Regular)
    }

    fn closed(&self) {
        self.expiry.end();
        self.locks.end();
        self.open_files.clear();
        self.nodes.clear();
    }
}

/// Returns the errno of a failed operation. After ENOSYS the kernel never sends the operation again, for any file: that is
/// only for operations that nothing here can implement.
fn error_number(operation: &Operation<'_>, errno: Errno) -> i32 {
    let unknown = matches!(operation, Operation::BlockMap | Operation::Unsupported);
    if errno == Errno::ENOSYS && !unknown { libc::EOPNOTSUPP } else { errno.number() }
}

/// Returns the process that sent a request.
fn caller(request: &Request<'_>, umask: u32) -> Caller {
    Caller::process(request.pid, request.uid, request.gid, umask).cancelled_by(request.cancellation.clone())
}

/// Calls `visit` with each name of a directory; names that cannot be read are skipped.
fn for_each_name(directory: &dyn OpenDirectory, caller: &Caller, mut visit: impl FnMut(&[u8])) {
    let _ = directory.read(caller, Cookie::START, &mut |entry| {
        visit(entry.name.as_bytes());
        ControlFlow::Continue(())
    });
}

/// Checks a name from the kernel.
fn name(bytes: &[u8]) -> Result<Name<'_>> {
    Name::new(bytes)
}

//! Dispatch: from the kernel's operations to vnode calls, cut by group of operations.

mod attributes;
mod control;
mod data;
mod directories;
mod entries;
mod files;
mod guard;
mod xattrs;

use super::admission::Admission;
use super::device::Device;
use super::durability::Durability;
use super::interest::Interest;
use super::kept_data::KeptData;
use super::locks::Locks;
use super::negotiation::Negotiated;
use super::newborn::Newborns;
use super::nodes::{Node, NodeTable};
use super::notify::{Notification, NotificationSender};
use super::open_files::{OpenFiles, OpenedDirectory, OpenedFile};
use super::options::{Decisions, REGULAR_TIMEOUT};
use super::poll::Pollers;
use super::reply::Reply;
use super::request::{Operation, Request};
use super::session::{Handler, Outcome};
use super::trim::Trimmer;
use super::wire;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vnode::{Attributes, Caller, Errno, FileKind, FileSystemRef, Name, OpenDirectory, Result, VnodeRef};

/// Everything a mount's requests need.
pub(crate) struct Dispatcher {
    file_system: FileSystemRef,
    device: Arc<Device>,
    negotiated: Negotiated,
    decisions: Decisions,
    nodes: NodeTable,
    open_files: OpenFiles,
    admission: Admission,
    interest: Interest,
    kept_data: KeptData,
    newborns: Newborns,
    locks: Locks,
    durability: Durability,
    notifications: NotificationSender,
    pollers: Pollers,
    trimmer: Trimmer,
    /// The kernel has refused to register backing files, and would again.
    passthrough_refused: AtomicBool,
    /// No attributes may be cached, since the stack has come to need that while it was mounted.
    needs_fresh_attributes: AtomicBool,
    server: Caller,
}

/// What an operation answers: its results are in the reply.
type Answer = Result<()>;

/// The set-id bits, which a write takes away.
const SET_ID: u32 = 0o6000;

impl Dispatcher {
    pub(crate) fn new(
        file_system: FileSystemRef,
        device: Arc<Device>,
        negotiated: Negotiated,
        decisions: Decisions,
        notifications: NotificationSender,
    ) -> Dispatcher {
        Dispatcher {
            nodes: NodeTable::new(file_system.root()),
            open_files: OpenFiles::new(),
            admission: Admission::new(&decisions),
            interest: Interest::new(),
            kept_data: KeptData::new(),
            newborns: Newborns::new(),
            locks: Locks::default(),
            durability: Durability::new(&decisions),
            pollers: Pollers::new(notifications.clone()),
            trimmer: Trimmer::default(),
            passthrough_refused: AtomicBool::new(!negotiated.has(wire::init::PASSTHROUGH)),
            needs_fresh_attributes: AtomicBool::new(false),
            server: Caller::server(),
            file_system,
            device,
            negotiated,
            decisions,
            notifications,
        }
    }

    /// How many nodes the kernel holds.
    pub(crate) fn node_count(&self) -> u64 {
        self.nodes.len()
    }

    /// What has to be on storage before a request is answered.
    pub(crate) fn durability(&self) -> &Durability {
        &self.durability
    }

    /// Everything written reaches storage.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file_system.sync()
    }

    /// The node table, for the notifier.
    pub(crate) fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// The stack has changed: what it needs now counts for all that is answered from here on.
    pub(crate) fn reconsider(&self) {
        let properties = self.file_system.properties();
        self.admission.reconsider(&properties);
        self.needs_fresh_attributes.store(properties.needs_fresh_attributes, Ordering::Release);
    }

    fn node(&self, id: u64) -> Result<Arc<Node>> {
        self.nodes.get(id).ok_or(Errno::ESTALE)
    }

    fn vnode(&self, id: u64) -> Result<VnodeRef> {
        self.node(id).map(|node| Arc::clone(&node.vnode))
    }

    /// Whether the kernel keeps what is written, with sizes and times of its own.
    fn writes_back(&self) -> bool {
        self.negotiated.has(wire::init::WRITEBACK_CACHE)
    }

    /// Whether a write or truncation by this caller clears set-id bits without the kernel's saying so.
    fn clears_set_id(&self, uid: u32) -> bool {
        self.negotiated.has(wire::init::HANDLE_KILLPRIV) && uid != 0
    }

    /// Whether the kernel has checked permissions, and clears set-id bits by setting the mode for whoever writes.
    fn kernel_clears_set_id(&self) -> bool {
        let left_to_us = [wire::init::HANDLE_KILLPRIV_V2, wire::init::HANDLE_KILLPRIV];
        self.decisions.default_permissions && !left_to_us.into_iter().any(|feature| self.negotiated.has(feature))
    }

    fn open_file(&self, handle: u64) -> Result<Arc<OpenedFile>> {
        self.open_files.get(handle).ok_or(Errno::EBADF)
    }

    fn open_directory(&self, handle: u64) -> Result<Arc<OpenedDirectory>> {
        self.open_files.get_directory(handle).ok_or(Errno::EBADF)
    }

    /// How long the kernel may keep these attributes.
    fn attribute_timeout(&self, node: &Node, attributes: &Attributes) -> Duration {
        if self.needs_fresh_attributes.load(Ordering::Acquire) {
            Duration::ZERO
        } else if attributes.kind == FileKind::Regular && attributes.mode & SET_ID != 0 {
            // A write that the kernel passes through takes the bits away without its noticing, and nobody may run the
            // program with them a moment later.
            Duration::ZERO
        } else if attributes.kind == FileKind::Regular && node.may_be_mapped() {
            self.decisions.attribute_timeout.min(REGULAR_TIMEOUT)
        } else {
            self.decisions.attribute_timeout
        }
    }

    /// The kernel may hold names of this directory that not everybody may look up any more.
    fn names_became_private(&self, directory: &Node) {
        if self.negotiated.has_epochs() {
            self.notifications.increment_epoch();
            return;
        }
        // An older kernel is told name by name. This is done by another thread, so for a moment after the reply a
        // cached name may still be used.
        self.invalidate_directory(directory);
    }

    /// Has the kernel drop the names it caches of this node, if it is a directory.
    pub(crate) fn invalidate_names(&self, node: u64) {
        if let Some(node) = self.nodes.get(node).filter(|node| node.vnode.kind() == FileKind::Directory) {
            self.invalidate_directory(&node);
        }
    }

    fn invalidate_directory(&self, directory: &Node) {
        let Ok(open) = directory.vnode.open_directory(&self.server) else { return };
        let parent = directory.id;
        each_name(&*open, &self.server, |name| {
            self.notifications.send(Notification::InvalidateEntry { parent, name: name.into() });
        });
    }

    fn dispatch(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Answer {
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
            | O::GetLock(_)
            | O::SetLock { .. } => self.file_operation(request, reply),
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
            | O::BatchForget { .. } => self.control_operation(request, reply),
        }
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
            // A kernel that writes back tells of every close, unless it hears once that nobody here has that operation.
            Operation::Flush(_) if !self.decisions.needs_flush() => return Outcome::Failed(libc::ENOSYS),
            _ => {}
        }
        match self.dispatch(request, reply) {
            Ok(()) => Outcome::Done,
            Err(errno) => Outcome::Failed(refusal(&request.operation, errno)),
        }
    }

    fn closed(&self) {
        self.open_files.clear();
        self.nodes.clear();
    }
}

/// The number to answer. To ENOSYS the kernel never sends the operation again, for no file: that is only for
/// operations that nobody here can have.
fn refusal(operation: &Operation<'_>, errno: Errno) -> i32 {
    let unknown = matches!(operation, Operation::BlockMap | Operation::Unsupported);
    if errno == Errno::ENOSYS && !unknown { libc::EOPNOTSUPP } else { errno.number() }
}

/// The process that a request comes from.
fn caller(request: &Request<'_>, umask: u32) -> Caller {
    Caller::process(request.pid, request.uid, request.gid, umask)
}

/// Calls with each name of a directory; what cannot be read is left out.
fn each_name(directory: &dyn OpenDirectory, caller: &Caller, mut tell: impl FnMut(&[u8])) {
    let _ = directory.read(caller, 0, &mut |entry| {
        tell(entry.name.as_bytes());
        ControlFlow::Continue(())
    });
}

/// A name from the kernel, checked.
fn name(bytes: &[u8]) -> Result<Name<'_>> {
    Name::new(bytes)
}

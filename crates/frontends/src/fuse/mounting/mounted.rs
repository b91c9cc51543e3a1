//! A running mount: created from a stack, served by background threads, ended by unmounting.

use super::decisions::CurrentDecisions;
use super::error::{MountError, mount_point_error};
use super::flags::MountFlags;
use super::mount::{self, MountParameters};
use super::mount_point::{ListedMount, MountIdentity, MountPoint, UnmountMode};
use super::options::{Decisions, MountOptions, TURNED_OFF, Uring, decide};
use super::read_ahead;
use crate::fuse::caching::expiry::ExpiryQueue;
use crate::fuse::caching::inner_mounts::InnerMounts;
use crate::fuse::caching::notifications::NotificationSender;
use crate::fuse::caching::notifier::KernelNotifier;
use crate::fuse::dispatch::Dispatcher;
use crate::fuse::locks::Locks;
use crate::fuse::protocol::agreement::{apply_negotiated, requested_features, unmet_requirement};
use crate::fuse::protocol::negotiation::Negotiated;
use crate::fuse::protocol::wire::{self, init};
use crate::fuse::reporting::statistics::{OperationStatistics, PartStatistics, Statistics};
use crate::fuse::scheduling::budget::limit_arenas;
use crate::fuse::session::{Session, SessionError, handshake};
use crate::fuse::transport::device::Device;
use crate::fuse::transport::uring;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use vnode::{FileSystemRef, Notifier};

/// A mounted stack. Threads of this process serve it until somebody unmounts it; dropping the value unmounts it, lazily if it
/// is in use.
pub struct Mount {
    mount_point: PathBuf,
    identity: MountIdentity,
    decisions: Decisions,
    dispatcher: Arc<Dispatcher>,
    session: Session<Dispatcher>,
    statistics: Arc<Statistics>,
    /// Receiver of the stack's notifications while it is mounted.
    _notifier: Arc<KernelNotifier>,
}

impl Mount {
    /// Mounts a stack on a directory. On return the mount is usable.
    ///
    /// # Errors
    /// [`MountError`], which names cause and remedy; nothing stays mounted in that case.
    pub fn new(file_system: FileSystemRef, mount_point: &Path, options: &MountOptions) -> Result<Mount, MountError> {
        let point = MountPoint::open(mount_point).map_err(|error| mount_point_error(mount_point, error))?;
        Mount::on(file_system, &point, options)
    }

    /// Mounts as [`Mount::new`], on a directory that is already held.
    ///
    /// # Errors
    /// As [`Mount::new`].
    pub fn on(file_system: FileSystemRef, point: &MountPoint, options: &MountOptions) -> Result<Mount, MountError> {
        if options.uring == Uring::On {
            if options.withheld.rule_out(init::OVER_IO_URING) {
                return Err(MountError::NoUring(TURNED_OFF));
            }
            uring::switch_on().map_err(MountError::NoUring)?;
        }
        file_system.keep_access_times(options.flags.kept_access_times());
        let properties = file_system.properties();
        // The kernel then returns EROFS also where it does not ask the stack, as for access(2).
        let flags = MountFlags { read_only: options.flags.read_only || properties.needs.read_only, ..options.flags };
        let mut decisions = decide(&properties, options);
        if let Some(error) = unmet_requirement(&decisions, options) {
            return Err(error);
        }
        file_system.set_mount_point(point.as_fd());
        let (device, listed) = mount::mount(&MountParameters {
            mount_point: point,
            source: &mount::listed_source(&options.source),
            flags,
            allow_other: options.allow_other,
            // A kernel that applies access control lists checks permissions by that.
            default_permissions: decisions.checks_without_acls,
            max_read: options.max_read,
            cover_fuse: options.over,
        })?;
        // At once: the kernel would give its number to another mount if somebody unmounted it meanwhile.
        let identity = MountIdentity::of(&listed);
        let device = Arc::new(device);
        let served = serve(file_system, &device, &listed, options, &mut decisions);
        let served = served.and_then(|served| unmet_requirement(&decisions, options).map_or(Ok(served), Err));
        let served = served.and_then(|served| {
            let set = read_ahead::set(listed.device, options.read_ahead);
            set.map(|()| served)
                .map_err(|error| MountError::System { what: "setting read_ahead (which only root can)", error })
        });
        match served {
            Ok((dispatcher, session, statistics, notifier)) => Ok(Mount {
                identity,
                mount_point: listed.path,
                decisions,
                dispatcher,
                session,
                statistics,
                _notifier: notifier,
            }),
            Err(error) => {
                if let Err(left) = identity.unmount(UnmountMode::Abort) {
                    tracing::error!(%left, "a mount that cannot be served stays on {}", listed.path.display());
                }
                Err(error)
            }
        }
    }

    /// Returns the mount point, as an absolute path.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Returns what was decided from the stack's properties, the options and the kernel's features.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// Returns statistics of the requests served so far, by operation.
    pub fn statistics(&self) -> Vec<OperationStatistics> {
        self.statistics.operations()
    }

    /// Returns how the time of the sampled requests is divided between the parts of the stack.
    pub fn parts(&self) -> Vec<PartStatistics> {
        self.statistics.parts()
    }

    /// Returns the number of objects that the kernel holds.
    pub fn nodes(&self) -> u64 {
        self.dispatcher.node_count()
    }

    /// Returns the number of threads that serve requests now.
    pub fn workers(&self) -> usize {
        self.session.workers()
    }

    /// Applies new flags of the mount, set by [`MountPoint::remount`](crate::fuse::MountPoint::remount): those that the kernel
    /// leaves to the server are in force from now on, and earlier writes are on stable storage on return. A file that is open
    /// for writing keeps bypassing the server if it did so before.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn flags_changed(&self, flags: &MountFlags) -> vnode::Result<()> {
        self.dispatcher.durability().set(flags);
        self.dispatcher.keep_access_times(flags.kept_access_times());
        self.sync()
    }

    /// Syncs everything written so far to stable storage, as syncfs(2), except for data that the kernel has not written back
    /// yet.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn sync(&self) -> vnode::Result<()> {
        self.dispatcher.sync()
    }

    /// Waits, with a timeout, until the kernel has been notified of all changes of the stack so far (reported by
    /// [`vnode::Notifier`]). Returns whether it has: until then it may use what it has cached. Must not be called by a thread
    /// that serves requests.
    pub fn wait_until_notified(&self, timeout: Duration) -> bool {
        self.dispatcher.expiry().wait(timeout)
    }

    /// Returns the number of files open for writing. The kernel may hold data written to them (with
    /// [`MountOptions::write_back`], or through a mapping) until it is made to write them back.
    pub fn writable_file_count(&self) -> usize {
        self.dispatcher.writable_file_count()
    }

    /// Makes the kernel write back the dirty data of all open files, also on a lazily unmounted mount; returns whether it has
    /// done so within this time. Must not be called by a thread that serves requests.
    pub fn write_back(&self, timeout: Duration) -> bool {
        self.dispatcher.write_back_within(timeout)
    }

    /// Waits until the mount is unmounted and the last request is served.
    pub fn wait(&self) {
        self.session.wait();
    }

    /// Waits as [`Mount::wait`], with a timeout. Returns whether the mount has ended.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.session.wait_timeout(timeout)
    }

    /// Unmounts. With [`UnmountMode::Lazy`] the mount is served until nobody uses it any more: then [`Mount::wait`] returns.
    ///
    /// # Errors
    /// `EBUSY` while it is in use and the mode is clean, or if something else is mounted over it; as umount2(2).
    pub fn unmount(&self, mode: UnmountMode) -> io::Result<()> {
        if self.session.workers() == 0 {
            return Ok(());
        }
        self.identity.unmount(mode)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(10);
        if self.wait_timeout(Duration::ZERO) {
            return;
        }
        let unmounted = self.unmount(UnmountMode::Clean).or_else(|_| self.unmount(UnmountMode::Lazy));
        match unmounted {
            Ok(()) => {
                if !self.wait_timeout(UNMOUNT_TIMEOUT) && !self.write_back(UNMOUNT_TIMEOUT) {
                    tracing::error!("what was written to files that are still open may be lost");
                }
            }
            Err(error) => tracing::error!(%error, "{} stays mounted", self.mount_point.display()),
        }
    }
}

type ServingState = (Arc<Dispatcher>, Session<Dispatcher>, Arc<Statistics>, Arc<KernelNotifier>);

fn serve(
    file_system: FileSystemRef,
    device: &Arc<Device>,
    listed: &ListedMount,
    options: &MountOptions,
    decisions: &mut Decisions,
) -> Result<ServingState, MountError> {
    limit_arenas();
    let negotiated = handshake(device, &requested_features(decisions)).map_err(mount_error)?;
    apply_negotiated(decisions, &negotiated);
    let no_thread = |error| MountError::System { what: "starting a thread", error };
    let (notifications, _ends_with_its_senders) = NotificationSender::start(Arc::clone(device)).map_err(no_thread)?;
    let expiry = ExpiryQueue::default();
    let notifier = Arc::new(KernelNotifier::new(notifications.clone(), expiry.clone()));
    file_system.add_notifier(&(Arc::clone(&notifier) as Arc<dyn Notifier>));
    log_negotiated(&negotiated);
    let dispatcher = Arc::new(Dispatcher::new(
        file_system,
        Arc::clone(device),
        Arc::new(CurrentDecisions::new(options.clone(), negotiated, decisions.clone())),
        notifications,
        expiry.clone(),
        InnerMounts::of(listed),
        Locks::start().map_err(no_thread)?,
    ));
    start_expiry(&dispatcher, expiry).map_err(no_thread)?;
    notifier.attach(Arc::downgrade(&dispatcher));
    dispatcher.update_decisions();
    let statistics = Arc::new(Statistics::new());
    let (handler, counted) = (Arc::clone(&dispatcher), Arc::clone(&statistics));
    let session = Session::start(Arc::clone(device), &listed.path, handler, &negotiated, counted, decisions.stay_awake)
        .map_err(mount_error)?;
    if let Err(error) = session.uring() {
        tracing::warn!(%error, "the queues of the processors cannot be set up: all requests come through the device");
        decisions.uring = Err("its queues could not be set up");
    }
    Ok((dispatcher, session, statistics, notifier))
}

/// Starts the thread that notifies the kernel of stale names; it ends with the connection.
fn start_expiry(dispatcher: &Arc<Dispatcher>, expiry: ExpiryQueue) -> io::Result<()> {
    let dispatcher = Arc::downgrade(dispatcher);
    let notify = move |stale, in_progress| {
        if let Some(dispatcher) = dispatcher.upgrade() {
            dispatcher.notify_stale(stale, &in_progress);
        }
    };
    std::thread::Builder::new().name("fuse-expiry".into()).spawn(move || expiry.run(notify)).map(drop)
}

fn mount_error(error: SessionError) -> MountError {
    match error {
        SessionError::KernelTooOld { major, minor } => MountError::KernelTooOld { major, minor },
        SessionError::Closed => MountError::Vanished,
        SessionError::Device(error) => MountError::System { what: "talking to the FUSE device", error },
        SessionError::Thread(error) => MountError::System { what: "starting a thread", error },
    }
}

fn log_negotiated(negotiated: &Negotiated) {
    tracing::debug!(
        minor = negotiated.minor,
        features = format_args!("{:#x}", negotiated.features),
        max_write = negotiated.max_write,
        newest = wire::MINOR_VERSION,
        "FUSE protocol agreed"
    );
}

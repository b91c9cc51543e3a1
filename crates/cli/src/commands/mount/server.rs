//! The server of a mount: from opening the stack to the end of the process.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stack::{BRANCHES_COMMAND, ControlFailure, ControlSpecification, Kind};
use vnode::{Control, ControlError, Errno, FileSystemRef};

use super::job::{MountJob, check_not_mounted};
use crate::commands::{explain, print, progress};
use crate::control::server::{ControlSocket, RequestHandler};
use crate::control::{MountReport, Request, Response, StatisticsReport};
use crate::exit::{Exit, Failure, Outcome};
use crate::file_size;
use crate::front_end::{self, MountPoint, ServedMount};
use crate::logging;
use crate::options::{self, MountOptions};
use crate::registry::registry;
use crate::runtime_directory;
use crate::service_manager::ServiceManager;

/// A mount that is usable.
pub(crate) struct MountServer {
    mount: Arc<MountContext>,
    socket: ControlSocket,
}

/// The state of the mount that the control socket reports.
struct MountContext {
    served: ServedMount,
    file_system: FileSystemRef,
    started: Instant,
    /// The part that does not change, or is the same in every report.
    report: MountReport,
    /// The mount options, whose flags a remount changes.
    options: Mutex<MountOptions>,
    /// Informed of the end of the mount.
    service_manager: ServiceManager,
}

/// Builds the stack, mounts it and opens the control socket. If any step fails, nothing stays mounted.
pub(crate) fn start(job: &MountJob, point: MountPoint) -> Outcome<MountServer> {
    log_panics();
    file_size::lift_limit();
    // Registered first: a signal that arrives while the mount is being made ends it as soon as it exists.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| Failure::new(Exit::Failure, format!("cannot install signal handlers: {error}; try again")))?;
    stack::declare_single_mount();
    // Building the stack completes operations that an earlier server left unfinished, which may take long.
    let file_system = progress::with_progress("mount", |_| job.expression.build())?;
    if job.explain {
        print(&explain::text(&job.expression, file_system.as_ref(), &job.plan))?;
    }
    let lock = runtime_directory::lock_mounting()?;
    check_not_mounted(&job.plan.mount_point)?;
    let served = front_end::mount(file_system.clone(), &point, &job.plan)?;
    // Keeping it would prevent the file system that it is on from being unmounted.
    drop(point);
    drop(lock);
    let report = MountReport {
        mount_point: job.plan.mount_point.to_string_lossy().into_owned(),
        stack: job.expression.canonical_form(),
        pid: std::process::id(),
        uid: rustix::process::geteuid().as_raw(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..MountReport::default()
    };
    let (options, service_manager) = (Mutex::new(job.plan.options.clone()), ServiceManager::of(job.foreground));
    let started = Instant::now();
    let mount = Arc::new(MountContext { served, file_system, started, report, options, service_manager });
    let watching = handle_signals(signals, Arc::clone(&mount));
    let socket = watching.and_then(|()| ControlSocket::start(Arc::clone(&mount) as Arc<dyn RequestHandler>));
    match socket {
        Ok(socket) => {
            tracing::info!(stack = mount.report.stack, mount_point = mount.report.mount_point, "mounted");
            Ok(MountServer { mount, socket })
        }
        Err(failure) => {
            mount.served.unmount(true);
            Err(failure)
        }
    }
}

impl MountServer {
    /// Serves until the mount is gone, and flushes everything to storage.
    pub(crate) fn run(self) -> Outcome {
        let MountReport { stack, mount_point, .. } = &self.mount.report;
        self.mount.service_manager.ready(&format!("Serving {stack} on {mount_point}"));
        self.mount.served.wait();
        self.mount.service_manager.stopping(&format!("{mount_point} is unmounted; storing what was written"));
        if let Err(errno) = self.mount.file_system.end_of_use() {
            tracing::error!(%errno, "not everything could be written to storage");
        }
        tracing::info!(mount_point = self.mount.report.mount_point, "unmounted");
        drop(self.socket);
        Ok(())
    }
}

impl RequestHandler for MountContext {
    fn handle(&self, request: Request) -> Response {
        match request {
            Request::Status => Response::Status(Box::new(self.report())),
            Request::Statistics => Response::Statistics(Box::new(self.statistics())),
            Request::LogLevel { level: None } => Response::Text(logging::level()),
            Request::LogLevel { level: Some(level) } => match logging::set_level(&level) {
                Ok(()) => Response::Text(level),
                Err(failure) => Response::Error(failure.message),
            },
            Request::Sync => sync_response(self.served.sync()),
            Request::FlagsChanged { options } => match options::parse(&options.join(","), false) {
                Ok(changed) => {
                    self.options.lock().unwrap_or_else(PoisonError::into_inner).flags = changed.flags;
                    sync_response(self.served.flags_changed(&changed.flags))
                }
                Err(failure) => Response::Error(failure.message),
            },
            Request::Control { target, name, arguments, .. } => {
                match self.file_system.control(&Control { target: target.clone(), command: name.clone(), arguments }) {
                    Ok(text) => {
                        self.served.wait_until_visible();
                        Response::Text(text)
                    }
                    Err(ControlError::Failed(error)) => Response::Error(command_error(&target, &name, error)),
                    Err(error @ ControlError::UnknownCommand { .. }) if registry().layer(&target).is_some() => {
                        Response::Error(format!("{error}; to list them: plyfs layers {target}"))
                    }
                    Err(error) => Response::Error(error.to_string()),
                }
            }
        }
    }
}

/// Returns a message that names what a storage error prevented, and the remedy.
fn command_error(target: &str, command: &str, error: Errno) -> String {
    match control_specification(target, command).and_then(|known| known.failure) {
        Some(ControlFailure { what, remedy }) => format!("{what}: {error}; {remedy}"),
        None => format!("{command}: {error}; check the storage below the stack"),
    }
}

/// Returns the specification of a control command, if the layer lists it.
fn control_specification(target: &str, command: &str) -> Option<&'static ControlSpecification> {
    registry().layer(target)?.controls.iter().find(|known| known.name == command)
}

impl MountContext {
    /// Returns the branches of the first kind of layers that joins branches and lists them.
    fn branches(&self) -> Vec<String> {
        let list = |kind: &Kind| {
            let (target, command) = (kind.name.to_owned(), BRANCHES_COMMAND.to_owned());
            self.file_system.control(&Control { target, command, arguments: Vec::new() }).ok()
        };
        let list = registry().layers().iter().filter(|kind| kind.joins_branches()).find_map(list).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }

    /// Returns the current options.
    fn option_words(&self) -> Vec<String> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).to_words()
    }

    fn report(&self) -> MountReport {
        let requests_by_operation: BTreeMap<String, u64> = self.served.requests();
        MountReport {
            uptime_seconds: self.started.elapsed().as_secs(),
            branches: self.branches(),
            options: self.option_words(),
            log_level: logging::level(),
            requests: requests_by_operation.values().sum(),
            requests_by_operation,
            transport: self.served.transport(),
            objects: self.served.objects(),
            memory_bytes: resident_bytes(),
            ..self.report.clone()
        }
    }

    fn statistics(&self) -> StatisticsReport {
        StatisticsReport {
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            workers: self.served.workers(),
            operations: self.served.operations(),
            parts: self.served.parts(),
        }
    }
}

/// Ends the mount gracefully at the first signal, and at once at the second.
fn handle_signals(mut signals: Signals, mount: Arc<MountContext>) -> Outcome {
    let (end_sender, end_receiver) = channel();
    let waiting = Arc::clone(&mount);
    let end = move || {
        if end_receiver.recv().is_ok() {
            waiting.service_manager.stopping(&format!("Unmounting {}", waiting.report.mount_point));
            waiting.served.unmount(false);
        }
    };
    let wait_for_signals = move || {
        for (count, signal) in signals.forever().enumerate() {
            tracing::info!(signal, "ending");
            // A second signal is received while the other thread waits for the processes that use the mount.
            if count > 0 || end_sender.send(()).is_err() {
                mount.served.unmount(true);
            }
        }
    };
    // Both threads start now: when they are needed, it may be impossible to create one.
    let start = |name: &str, run: Box<dyn FnOnce() + Send>| thread::Builder::new().name(name.into()).spawn(run);
    let started = start("ending", Box::new(end)).and_then(|_| start("signals", Box::new(wait_for_signals)));
    started.map(drop).map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot start a thread: {error}; raise the limit (ulimit -u)"))
    })
}

/// Converts the result of a sync into an answer.
fn sync_response(synchronized: vnode::Result<()>) -> Response {
    match synchronized {
        Ok(()) => Response::Text(String::new()),
        Err(errno) => Response::Error(format!("some data could not be written to storage: {errno}")),
    }
}

/// Logs panics: a server in the background has no terminal to print them on.
fn log_panics() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        default_hook(panic);
    }));
}

/// Returns the resident memory in bytes; 0 if that is not available.
fn resident_bytes() -> u64 {
    procfs::Process::Own.resident_bytes().ok().flatten().unwrap_or_default()
}

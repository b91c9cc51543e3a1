//! The server of a mount: from opening the stack to the end of the process.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use vnode::{Control, ControlError, Errno, FileSystemRef};

use super::job::{Job, refuse_mounted};
use crate::commands::{explain, print, progress};
use crate::control::server::{Answerer, Server as ControlSocket};
use crate::control::{Answer, Report, Request, Statistics};
use crate::exit::{Exit, Failure, Outcome};
use crate::file_size;
use crate::front_end::{self, MountPoint, Served};
use crate::logging;
use crate::options::{self, MountOptions};
use crate::runtime_directory;

/// A mount that is usable.
pub(crate) struct Server {
    mount: Arc<Mounted>,
    socket: ControlSocket,
}

/// The state of the mount that the control socket reports.
struct Mounted {
    served: Served,
    file_system: FileSystemRef,
    started: Instant,
    /// The part that does not change, or is the same in every report.
    report: Report,
    /// The mount options, whose flags a remount changes.
    options: Mutex<MountOptions>,
    /// The mount covers its own base.
    is_over: bool,
}

/// Builds the stack, mounts it and opens the control socket. If any step fails, nothing stays mounted.
pub(crate) fn start(job: &Job, point: MountPoint) -> Outcome<Server> {
    log_panics();
    file_size::lift();
    // Registered first: a signal that arrives while the mount is being made ends it as soon as it exists.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| Failure::new(Exit::Failure, format!("cannot watch for signals: {error}; try again")))?;
    // Building the stack completes operations that an earlier server left unfinished, which may take long.
    let file_system = progress::follow("mount", |_| job.expression.build())?;
    if job.explain {
        print(&explain::text(&job.expression, file_system.as_ref(), &job.plan))?;
    }
    let turn = runtime_directory::turn()?;
    refuse_mounted(&job.plan.mount_point)?;
    let served = front_end::mount(file_system.clone(), &point, &job.plan)?;
    // Keeping it would prevent the file system that it is on from being unmounted.
    drop(point);
    drop(turn);
    let report = Report {
        mount_point: job.plan.mount_point.to_string_lossy().into_owned(),
        stack: job.expression.standard_form(),
        pid: std::process::id(),
        uid: rustix::process::geteuid().as_raw(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Report::default()
    };
    let (options, is_over) = (Mutex::new(job.plan.options.clone()), job.plan.over);
    let mount = Arc::new(Mounted { served, file_system, started: Instant::now(), report, options, is_over });
    let watched = watch(signals, Arc::clone(&mount));
    let socket = watched.and_then(|()| ControlSocket::start(Arc::clone(&mount) as Arc<dyn Answerer>));
    match socket {
        Ok(socket) => {
            tracing::info!(stack = mount.report.stack, mount_point = mount.report.mount_point, "mounted");
            Ok(Server { mount, socket })
        }
        Err(failure) => {
            mount.served.end(true);
            Err(failure)
        }
    }
}

impl Server {
    /// Serves until the mount is gone, and flushes everything to storage.
    pub(crate) fn run(self) -> Outcome {
        self.mount.served.wait();
        if let Err(errno) = self.mount.file_system.sync() {
            tracing::error!(%errno, "not everything could be written to storage");
        }
        tracing::info!(mount_point = self.mount.report.mount_point, "unmounted");
        drop(self.socket);
        Ok(())
    }
}

impl Answerer for Mounted {
    fn answer(&self, request: Request) -> Answer {
        match request {
            Request::Status => Answer::Status(Box::new(self.report())),
            Request::Statistics => Answer::Statistics(Box::new(self.statistics())),
            Request::LogLevel { level: None } => Answer::Text(logging::level()),
            Request::LogLevel { level: Some(level) } => match logging::set_level(&level) {
                Ok(()) => Answer::Text(level),
                Err(failure) => Answer::Error(failure.message),
            },
            Request::Sync => stored(self.served.sync()),
            Request::FlagsChanged { options } => match options::parse(&options.join(","), false) {
                Ok(changed) => {
                    self.options.lock().unwrap_or_else(PoisonError::into_inner).flags = changed.flags;
                    stored(self.served.flags_changed(&changed.flags))
                }
                Err(failure) => Answer::Error(failure.message),
            },
            Request::Control { target, name, arguments, .. } => {
                match self.file_system.control(&Control { target, command: name.clone(), arguments }) {
                    Ok(text) => {
                        self.served.settle();
                        Answer::Text(text)
                    }
                    Err(ControlError::Failed(error)) => Answer::Error(failed(&name, error)),
                    Err(error) => Answer::Error(error.to_string()),
                }
            }
        }
    }
}

/// Returns a message that names what a storage error prevented, and the remedy.
fn failed(command: &str, error: Errno) -> String {
    let what = match command {
        "snapshot-take" => "the snapshot cannot be taken",
        "snapshot-restore" => "the union cannot go back to the snapshot",
        "snapshot-diff" => "the states cannot be compared",
        "snapshot-merge" | "snapshot-drop" => {
            return format!(
                "the layers cannot be merged: {error}; check the storage of the branches: one that `plyfs union list` shows as \
                 failed is merged half-way, and answers EIO until that is finished, which is tried again and again"
            );
        }
        _ => return format!("{command}: {error}; check the storage of what the stack lies on"),
    };
    format!("{what}: {error}; nothing was changed: check the storage of the branches, and try again")
}

impl Mounted {
    /// Returns the branches of the union, if the stack has one.
    fn branches(&self) -> Vec<String> {
        let (target, command) = ("union".to_owned(), "branches".to_owned());
        let list = self.file_system.control(&Control { target, command, arguments: Vec::new() }).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }

    /// Returns the current options, and the option for a mount over its own base.
    fn words(&self) -> Vec<String> {
        let mut words = self.options.lock().unwrap_or_else(PoisonError::into_inner).to_words();
        if self.is_over {
            words.insert(0, "over".to_owned());
        }
        words
    }

    fn report(&self) -> Report {
        let requests_by_operation: BTreeMap<String, u64> = self.served.requests();
        Report {
            uptime_seconds: self.started.elapsed().as_secs(),
            branches: self.branches(),
            options: self.words(),
            log_level: logging::level(),
            requests: requests_by_operation.values().sum(),
            requests_by_operation,
            transport: self.served.transport(),
            objects: self.served.objects(),
            memory_bytes: resident_bytes(),
            ..self.report.clone()
        }
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            workers: self.served.workers(),
            operations: self.served.operations(),
            parts: self.served.parts(),
        }
    }
}

/// Ends the mount gracefully at the first signal, and at once at the second.
fn watch(mut signals: Signals, mount: Arc<Mounted>) -> Outcome {
    let (ending, ends) = channel();
    let waiting = Arc::clone(&mount);
    let end = move || {
        if ends.recv().is_ok() {
            waiting.served.end(false);
        }
    };
    let watch = move || {
        for (count, signal) in signals.forever().enumerate() {
            tracing::info!(signal, "ending");
            // A second signal is received while the other thread waits for the processes that use the mount.
            if count > 0 || ending.send(()).is_err() {
                mount.served.end(true);
            }
        }
    };
    // Both threads start now: when they are needed, it may be impossible to create one.
    let start = |name: &str, run: Box<dyn FnOnce() + Send>| thread::Builder::new().name(name.into()).spawn(run);
    let started = start("ending", Box::new(end)).and_then(|_| start("signals", Box::new(watch)));
    started.map(drop).map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot start a thread: {error}; raise the limit (ulimit -u)"))
    })
}

/// Converts the result of a sync into an answer.
fn stored(synchronized: vnode::Result<()>) -> Answer {
    match synchronized {
        Ok(()) => Answer::Text(String::new()),
        Err(errno) => Answer::Error(format!("not everything that was written could be stored: {errno}")),
    }
}

/// Logs panics: a server in the background has no terminal to print them on.
fn log_panics() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!("{panic}");
        shown(panic);
    }));
}

/// Returns the resident memory in bytes, from the second number of /proc/self/statm; 0 if that is not available.
fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * rustix::param::page_size() as u64
}

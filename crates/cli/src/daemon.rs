//! Daemonization: a server process that reports to its parent when the mount is usable, or why it is not.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};

use crate::exit::{self, Exit, Failure, Outcome};

/// The process in which [`fork_server`] returned.
pub(crate) enum ForkSide {
    /// The original process, which ends with the outcome that the server reported.
    Parent(Outcome),
    /// The server, which must report its outcome.
    Server(StartupReporter),
}

/// The server's obligation to report to its parent how the start went.
pub(crate) struct StartupReporter {
    pipe: File,
    /// Where standard streams lead once the mount is usable. Opened before, since then there may be no descriptor left.
    null: Option<File>,
}

/// The message through the pipe. End of file without a message means that the server died.
#[derive(Serialize, Deserialize)]
enum StartupReport {
    Usable,
    Failed { number: u8, message: String, excerpt: Option<String> },
}

/// Forks the server off. The parent waits for the server's report.
///
/// Must be called while the process has a single thread.
pub(crate) fn fork_server() -> Outcome<ForkSide> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| daemonize_failure(&error))?;
    let null = match OpenOptions::new().read(true).write(true).open("/dev/null") {
        Ok(null) => Some(null),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
            return Err(daemonize_failure(&format_args!("cannot open /dev/null: {error}")));
        }
        // Without a /dev there is nothing that the streams could lead to.
        Err(_) => None,
    };
    // SAFETY: the process has a single thread, so that the child finds no lock held by a thread that it lacks.
    match unsafe { libc::fork() } {
        -1 => Err(daemonize_failure(&std::io::Error::last_os_error())),
        0 => {
            drop(reader);
            rustix::process::setsid().map_err(|error| daemonize_failure(&error))?;
            Ok(ForkSide::Server(StartupReporter { pipe: File::from(writer), null }))
        }
        _ => {
            drop(writer);
            Ok(ForkSide::Parent(await_report(reader)))
        }
    }
}

impl StartupReporter {
    /// Reports that the mount is usable: the parent ends, and the server detaches from its terminal and working directory. From
    /// then on, standard error goes to `errors`, or nowhere.
    pub(crate) fn report_usable(self, errors: Option<&Path>) {
        // Replacing a descriptor needs none that is free. Whoever reads from a stream of the caller's would wait for the unmount.
        if let Some(null) = &self.null {
            let errors = errors.and_then(|path| OpenOptions::new().append(true).open(path).ok());
            let _ = rustix::stdio::dup2_stdin(null);
            let _ = rustix::stdio::dup2_stdout(null);
            let _ = rustix::stdio::dup2_stderr(errors.as_ref().unwrap_or(null));
        }
        let _ = std::env::set_current_dir("/");
        self.send(&StartupReport::Usable);
    }

    /// Reports that the mount failed; the parent prints the failure.
    pub(crate) fn report_failure(self, failure: &Failure) {
        self.send(&StartupReport::Failed {
            number: failure.exit.number(),
            message: failure.message.clone(),
            excerpt: failure.excerpt.clone(),
        });
    }

    fn send(mut self, report: &StartupReport) {
        // A parent that was killed does not read; the mount is not affected.
        if let Ok(bytes) = serde_json::to_vec(report) {
            let _ = self.pipe.write_all(&bytes);
        }
    }
}

/// Closes every descriptor but the standard ones. Must be called before the process opens anything: every open descriptor was
/// inherited, and another process may be waiting for it to be closed.
pub(crate) fn close_inherited() {
    const FIRST_INHERITED: libc::c_uint = 3;
    // SAFETY: nothing in this process owns a descriptor from `FIRST_INHERITED` on. Kernels without the call (before
    // Linux 5.9) and refusals leave the descriptors open, which only delays processes that wait for them to be closed.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST_INHERITED, libc::c_uint::MAX, 0) };
}

fn await_report(reader: OwnedFd) -> Outcome {
    let mut bytes = Vec::new();
    let read = File::from(reader).read_to_end(&mut bytes);
    match serde_json::from_slice(&bytes) {
        Ok(StartupReport::Usable) if read.is_ok() => Ok(()),
        Ok(StartupReport::Failed { number, message, excerpt }) => {
            Err(Failure { exit: exit::from_number(number).unwrap_or(Exit::Failure), message, excerpt })
        }
        _ => Err(Failure::new(
            Exit::Died,
            "the server ended before the mount was usable; run it in the foreground with -f to see why",
        )),
    }
}

fn daemonize_failure(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Failure, format!("cannot go to the background: {error}; stay in the foreground with -f"))
}

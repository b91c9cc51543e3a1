//! Going to the background: a server process that tells its parent when the mount is usable, or why it is not.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure, Outcome};

/// Which of the two processes this is.
pub enum Side {
    /// The one that was started: it ends with what the server told.
    Parent(Outcome),
    /// The server, which has to tell.
    Server(Ready),
}

/// The server's duty to tell its parent how the start went.
pub struct Ready {
    pipe: File,
}

/// What goes through the pipe. Nothing at all means that the server died.
#[derive(Serialize, Deserialize)]
enum Told {
    Usable,
    Failed { number: u8, message: String, excerpt: Option<String> },
}

/// Splits the process in two. The parent waits for the server's word.
///
/// Called while the process has a single thread.
pub fn split() -> Outcome<Side> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| cannot(&error))?;
    // SAFETY: the process has a single thread, so that the child finds no lock held by a thread that it lacks.
    match unsafe { libc::fork() } {
        -1 => Err(cannot(&std::io::Error::last_os_error())),
        0 => {
            drop(reader);
            rustix::process::setsid().map_err(|error| cannot(&error))?;
            Ok(Side::Server(Ready { pipe: File::from(writer) }))
        }
        _ => {
            drop(writer);
            Ok(Side::Parent(listen(reader)))
        }
    }
}

impl Ready {
    /// The mount is usable: the parent ends, and the server lets go of its terminal and directory. What it writes to
    /// standard error goes to `errors` from now on, or nowhere.
    pub fn usable(self, errors: Option<&Path>) {
        // Failing to let go harms nobody but the terminal.
        if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::stdio::dup2_stdout(&null);
            let errors = errors.and_then(|path| OpenOptions::new().append(true).open(path).ok());
            let _ = rustix::stdio::dup2_stderr(errors.as_ref().unwrap_or(&null));
        }
        let _ = std::env::set_current_dir("/");
        self.tell(&Told::Usable);
    }

    /// The mount failed: the parent reports it.
    pub fn failed(self, failure: &Failure) {
        self.tell(&Told::Failed {
            number: failure.exit.number(),
            message: failure.message.clone(),
            excerpt: failure.excerpt.clone(),
        });
    }

    fn tell(mut self, told: &Told) {
        // A parent that was killed does not read; the mount is none the worse for it.
        if let Ok(bytes) = serde_json::to_vec(told) {
            let _ = self.pipe.write_all(&bytes);
        }
    }
}

/// Closes every descriptor but the standard ones. Called while the process has opened nothing: whatever is open was inherited,
/// and somebody may wait for its end.
pub fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: nothing in this process owns a descriptor from `FIRST` on. Kernels without the call (before Linux 5.9)
    // and refusals leave them open, which only delays those who wait for their end.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
}

fn listen(reader: OwnedFd) -> Outcome {
    let mut bytes = Vec::new();
    let read = File::from(reader).read_to_end(&mut bytes);
    match serde_json::from_slice(&bytes) {
        Ok(Told::Usable) if read.is_ok() => Ok(()),
        Ok(Told::Failed { number, message, excerpt }) => {
            Err(Failure { exit: Exit::from_number(number).unwrap_or(Exit::Failure), message, excerpt })
        }
        _ => Err(Failure::new(
            Exit::Died,
            "the server ended before the mount was usable; run it in the foreground with -f to see why",
        )),
    }
}

fn cannot(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Failure, format!("cannot go to the background: {error}; stay in the foreground with -f"))
}

//! `mount -o remount`: changes the flags of an existing mount.
//!
//! Everything written before is on storage when the mount becomes read-only. The kernel keeps the flags; the server is informed
//! of those that it must act on, and of the log level.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::commands::{find_running, is_root};
use crate::control::{MountReport, Request};
use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;
use crate::front_end::MountPoint;
use crate::logging;
use crate::mount_table::MountEntry;
use crate::options::{self, MountOptions, flags};
use crate::runtime_directory;

/// Time that a server has to open its root and to accept the kernel's cached data.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// The parameters of a remount.
pub(crate) struct Remount<'a> {
    /// The root of the mount.
    pub point: MountPoint,
    /// The mount as the kernel lists it.
    pub entry: MountEntry,
    /// The stack, if it is named; a remount cannot change it.
    pub stack: Option<&'a OsStr>,
    /// The mount options, a comma-separated list.
    pub options: &'a str,
    /// The options are the complete set, as mount(8) has merged it, and not only those that change.
    pub is_complete: bool,
    /// Ignore unknown options.
    pub sloppy: bool,
}

impl Remount<'_> {
    /// Changes the flags, and the log level if it is named.
    pub(crate) fn run(&self) -> Outcome {
        let name = self.point.path().display();
        if !is_root() {
            let message = format!(
                "only root may change the options of {name}; unmount it, and mount it again with the new options"
            );
            return Err(Failure::new(Exit::Permission, message));
        }
        // One remount at a time, so that the flags in the kernel and in the server agree.
        let _lock = runtime_directory::lock_mounting()?;
        let server = find_running(self.point.path())?;
        self.check_same_stack(&server.report)?;
        let current = flags::from_mount_table(&self.entry.options);
        let options = match self.is_complete {
            true => options::parse(self.options, self.sloppy)?,
            false => options::parse_after(current, self.options, self.sloppy)?,
        };
        self.check_fixed_options(&options, &server.report)?;
        options.log_level.as_deref().map_or(Ok(()), logging::check)?;
        let mut wanted = options.flags;
        if wanted.synchronous_directories && !current.synchronous_directories {
            return Err(self.fixed("dirsync"));
        }
        wanted.synchronous_directories = current.synchronous_directories;
        server.text(&Request::Sync)?;
        self.check_written()?;
        self.point.remount(&wanted).map_err(|error| self.refused(&error))?;
        server.text(&Request::FlagsChanged { options: flags::words(&wanted) })?;
        match options.log_level {
            Some(level) => server.text(&Request::LogLevel { level: Some(level) }).map(drop),
            None => Ok(()),
        }
    }

    /// Asks the kernel whether everything that it has passed on could be written: only the kernel knows, and syncfs(2) does not
    /// wait for writes still in flight (Linux 6.18). If root may not look into a user's mount, nothing is reported. The server
    /// of a user may never answer, so another thread waits for it.
    fn check_written(&self) -> Outcome {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            let name = self.point.path().display();
            Failure::new(Exit::Failure, format!("{what} {name} {error}; the mount options are unchanged"))
        };
        let (synchronized, is_synchronized) = channel();
        let path = self.point.proc_path();
        let synchronize = move || {
            let result = File::open(path).map_or(Ok(()), rustix::fs::syncfs);
            // The receiver may no longer be waiting.
            let _ = synchronized.send(result);
        };
        thread::Builder::new()
            .spawn(synchronize)
            .map_err(|error| failed("cannot ask whether all is written to", &format!("({error})")))?;
        match is_synchronized.recv_timeout(SYNC_TIMEOUT) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(failed("what was written to", &format!("cannot be stored: {error}"))),
            Err(_) => {
                let failure = failed("the server of", &"does not answer");
                Err(Failure::new(Exit::NoAnswer, failure.message))
            }
        }
    }

    fn check_same_stack(&self, report: &MountReport) -> Outcome {
        let Some(stack) = self.stack else { return Ok(()) };
        let read = match report.options.iter().any(|option| option == "over") {
            true => Expression::read_over(self.point.path(), stack),
            false => Expression::read(stack),
        };
        let is_same = || read.is_ok_and(|expression| expression.canonical_form() == report.stack);
        if stack.to_string_lossy() == self.entry.source || is_same() {
            return Ok(());
        }
        let name = self.point.path().display();
        let message = format!(
            "{name} is a mount of {}, which a remount cannot change; omit the stack, or write this one in /etc/fstab",
            report.stack
        );
        Err(Failure::new(Exit::Usage, message))
    }

    /// Fails if an option is named that a remount cannot change and that the mount does not have.
    fn check_fixed_options(&self, options: &MountOptions, report: &MountReport) -> Outcome {
        let has = |word: &String| match word.as_str() {
            "noallow_other" => !self.entry.options.iter().any(|option| option == "allow_other"),
            _ => self.entry.options.contains(word) || report.options.contains(word),
        };
        match options.fixed_words().iter().find(|word| !has(word)) {
            Some(word) => Err(self.fixed(word)),
            None => Ok(()),
        }
    }

    fn fixed(&self, option: &str) -> Failure {
        let name = self.point.path().display();
        let message =
            format!("mount option '{option}' cannot be changed while {name} is mounted; unmount it and mount it again");
        Failure::new(Exit::Usage, message)
    }

    fn refused(&self, error: &io::Error) -> Failure {
        let name = self.point.path().display();
        match error.raw_os_error() {
            Some(libc::EBUSY) => Failure::new(
                Exit::Busy,
                format!(
                    "files on {name} are open for writing, so it cannot become read-only; \
                     end the programs that write (fuser -vm {name} lists them)"
                ),
            ),
            Some(libc::EPERM) => Failure::new(
                Exit::Permission,
                format!(
                    "not permitted to remount {name}; do so in the mount namespace where it was mounted, with CAP_SYS_ADMIN"
                ),
            ),
            _ => Failure::new(Exit::Mount, format!("cannot remount {name}: {error}; unmount it and mount it again")),
        }
    }
}

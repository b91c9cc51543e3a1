//! `mount -o remount`: other flags for a mount that is there.
//!
//! What was written before is on storage when it becomes read-only. The kernel keeps the flags; the server is told of those
//! that it has to act on.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::commands::{is_root, plyfs_on, running};
use crate::control::{Report, Request};
use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;
use crate::front_end;
use crate::mount_table::Entry;
use crate::options::{self, MountOptions, flags};
use crate::runtime_directory;

/// What is asked for.
pub struct Remount<'a> {
    /// The mount.
    pub mount_point: PathBuf,
    /// The stack, if it is named; it cannot become another one.
    pub stack: Option<&'a OsStr>,
    /// The mount options, a comma list.
    pub options: &'a str,
    /// The options are all that are to hold, as mount(8) has joined them, and not only those that change.
    pub is_complete: bool,
    /// Ignore unknown options.
    pub sloppy: bool,
}

impl Remount<'_> {
    /// Changes the flags.
    pub fn run(&self) -> Outcome {
        let name = self.mount_point.display();
        let entry = plyfs_on(&self.mount_point, "remount")?;
        if !is_root() {
            let message =
                format!("only root may change the options of {name}; unmount it and mount it again with them");
            return Err(Failure::new(Exit::Permission, message));
        }
        // One after the other: what the kernel has and what the server is told are the same.
        let _turn = runtime_directory::turn()?;
        let server = running(&self.mount_point)?;
        self.refuse_other_stack(&entry, &server.report)?;
        let current = flags::of_table(&entry.options);
        let options = match self.is_complete {
            true => options::parse(self.options, self.sloppy)?,
            false => options::parse_after(current, self.options, self.sloppy)?,
        };
        self.refuse_fixed(&options, &entry, &server.report)?;
        let mut wanted = options.flags;
        if wanted.synchronous_directories && !current.synchronous_directories {
            return Err(self.fixed("dirsync"));
        }
        wanted.synchronous_directories = current.synchronous_directories;
        server.text(&Request::Sync)?;
        self.check_written()?;
        front_end::remount(&self.mount_point, &wanted).map_err(|error| self.refused(&error))?;
        server.text(&Request::FlagsChanged { options: flags::words(&wanted) }).map(drop)
    }

    /// Asks the kernel whether all that it has handed on could be written: only it knows, and syncfs(2) does not wait for what is
    /// still under way (Linux 6.18). Where root may not look into a user's mount, nobody is told.
    fn check_written(&self) -> Outcome {
        let Ok(directory) = File::open(&self.mount_point) else { return Ok(()) };
        rustix::fs::syncfs(directory).map_err(|error| {
            let name = self.mount_point.display();
            let message = format!("what was written to {name} cannot be stored: {error}; it stays as it is mounted");
            Failure::new(Exit::Failure, message)
        })
    }

    fn refuse_other_stack(&self, entry: &Entry, report: &Report) -> Outcome {
        let Some(stack) = self.stack else { return Ok(()) };
        let is_same = stack.to_string_lossy() == entry.source
            || Expression::read(stack).is_ok_and(|expression| expression.standard_form() == report.stack);
        if is_same {
            return Ok(());
        }
        let name = self.mount_point.display();
        let message = format!(
            "{name} is a mount of {}, which a remount cannot change; leave the stack out, or write it so in /etc/fstab",
            report.stack
        );
        Err(Failure::new(Exit::Usage, message))
    }

    /// Fails if an option is named that holds as long as it is mounted, and that the mount does not have.
    fn refuse_fixed(&self, options: &MountOptions, entry: &Entry, report: &Report) -> Outcome {
        let has = |word: &String| match word.as_str() {
            "noallow_other" => !entry.options.iter().any(|option| option == "allow_other"),
            _ => entry.options.contains(word) || report.options.contains(word),
        };
        match options.fixed_words().iter().find(|word| !has(word)) {
            Some(word) => Err(self.fixed(word)),
            None => Ok(()),
        }
    }

    fn fixed(&self, option: &str) -> Failure {
        let name = self.mount_point.display();
        let message =
            format!("mount option '{option}' cannot be changed while {name} is mounted; unmount it and mount it again");
        Failure::new(Exit::Usage, message)
    }

    fn refused(&self, error: &io::Error) -> Failure {
        let name = self.mount_point.display();
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
                format!("not permitted to remount {name}; do so where it was mounted, with CAP_SYS_ADMIN"),
            ),
            _ => Failure::new(Exit::Mount, format!("cannot remount {name}: {error}; unmount it and mount it again")),
        }
    }
}

//! One subject during one workload: its directories, its mount, its server, and the durations measured.
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::mount::UnmountFlags;

use crate::image::Image;
use crate::measure::Sample;
use crate::programs::{self, Server, run_logged};
use crate::slices::SubjectTurn;
use crate::subjects::{MountStyle, Subject, SubjectDirectories};
use crate::tree::open_directory;

/// A session begins unmounted with an empty directory; everything is removed on drop.
pub(crate) struct Session<'a> {
    image: &'a Image,
    subject: &'a Subject,
    turn: &'a SubjectTurn,
    directories: SubjectDirectories,
    /// Keeps the directory accessible where the subject is mounted over it.
    _lower: OwnedFd,
    lower_path: PathBuf,
    auxiliary: PathBuf,
    log: PathBuf,
    output: PathBuf,
    mounted: bool,
    server: Option<Server>,
    samples: Vec<Sample>,
}

impl<'a> Session<'a> {
    /// Creates new directories for the subject; `number` distinguishes subjects that are mounted at the same time.
    pub(crate) fn new(image: &'a Image, subject: &'a Subject, number: usize, turn: &'a SubjectTurn) -> Result<Self> {
        let own = image.directory().join(format!("s{number}"));
        let directories = SubjectDirectories {
            own: own.clone(),
            data: own.join("data"),
            lower: (1..subject.branches).map(|number| own.join(format!("b{number}"))).collect(),
            mount: image.mount_point(number)?,
            work: own.join("work"),
            empty: own.join("empty"),
        };
        // Each one individually: if a signal has unmounted the file system, none may be created elsewhere.
        let auxiliary = own.join("aside");
        for directory in [&own, &directories.data, &directories.work, &directories.empty, &auxiliary]
            .into_iter()
            .chain(&directories.lower)
        {
            std::fs::create_dir(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let lower = open_directory(&directories.data)?;
        let lower_path = procfs::DescriptorPath::new(&lower).as_path().to_owned();
        let log = image.root().join(format!("log{number}"));
        let output = image.root().join(format!("output{number}"));
        Ok(Self {
            image,
            subject,
            turn,
            directories,
            lower_path,
            auxiliary,
            _lower: lower,
            log,
            output,
            mounted: false,
            server: None,
            samples: Vec::new(),
        })
    }

    /// Returns the directory on the lower file system, bypassing the mount: for preparation and checks.
    pub(crate) fn data(&self) -> &Path {
        &self.lower_path
    }

    /// Returns all directories that the subject joins, including the first, bypassing the mount.
    pub(crate) fn branches(&self) -> Vec<PathBuf> {
        std::iter::once(&self.lower_path).chain(&self.directories.lower).cloned().collect()
    }

    /// Returns a directory beside it, for files of the workload that are not measured.
    pub(crate) fn auxiliary_directory(&self) -> &Path {
        &self.auxiliary
    }

    /// Returns the directory in which the workload operates.
    pub(crate) fn directory(&self) -> &Path {
        match self.subject.style {
            MountStyle::Directory | MountStyle::ServerOver => &self.directories.data,
            MountStyle::Command | MountStyle::Server => &self.directories.mount,
        }
    }

    /// Returns the pid of the process that serves the mount, if there is one.
    pub(crate) fn server(&self) -> Option<u32> {
        self.server.as_ref().and_then(Server::id)
    }

    /// Mounts the subject with empty caches.
    pub(crate) fn mount(&mut self) -> Result<()> {
        self.image.sync()?;
        let mut command = self.subject.command(&self.directories);
        match self.subject.style {
            MountStyle::Directory => return Ok(()),
            MountStyle::Command => {
                let output = command.output().context("cannot start mount")?;
                if !output.status.success() {
                    bail!("cannot mount: {}", String::from_utf8_lossy(&output.stderr).trim());
                }
            }
            MountStyle::Server | MountStyle::ServerOver => {
                self.server = Some(Server::start(&mut command, self.directory(), &self.log)?);
            }
        }
        self.mounted = true;
        Ok(())
    }

    /// Unmounts, and waits for the server to write everything back and exit.
    pub(crate) fn unmount(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.mounted) {
            return Ok(());
        }
        match self.server.take() {
            Some(server) => server.unmount(),
            None => programs::unmount(self.directory()),
        }
    }

    /// Empties all caches of the mount by remounting.
    pub(crate) fn remount(&mut self) -> Result<()> {
        self.unmount()?;
        self.mount()
    }

    /// Times a step of the workload, after writing back everything before it.
    pub(crate) fn time<T>(&mut self, step: &'static str, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        self.time_operations(step, 0, work)
    }

    /// As [`Session::time`], for a step of that many equal operations.
    pub(crate) fn time_operations<T>(
        &mut self,
        step: &'static str,
        operations: u64,
        work: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        self.write_back().context(step)?;
        let before = self.requests();
        let start = self.turn.used();
        let outcome = work(self.directory());
        let used = self.turn.used() - start;
        let result = outcome.context(step)?;
        let requests = self.requests().zip(before).map(|(after, before)| after.saturating_sub(before));
        let (seconds, processor_seconds) = (used.wall.as_secs_f64(), Some(used.cpu.as_secs_f64()));
        self.samples.push(Sample { step, operations, seconds, processor_seconds, requests });
        Ok(result)
    }

    /// Records a duration of this many equal operations that the workload measured itself.
    pub(crate) fn record(&mut self, step: &'static str, operations: u64, time: Duration) {
        self.samples.push(Sample {
            step,
            operations,
            seconds: time.as_secs_f64(),
            processor_seconds: None,
            requests: None,
        });
    }

    /// Returns the number of requests that the server has answered, if it reports that.
    fn requests(&self) -> Option<u64> {
        let mut command = self.subject.statistics(self.directory()).filter(|_| self.mounted)?;
        let output = command.stdin(Stdio::null()).output().ok()?;
        let mounts: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        mounts[0]["requests"].as_u64()
    }

    /// Writes back first the kernel's cached data of the mount, then that of the lower file system.
    pub(crate) fn write_back(&self) -> Result<()> {
        if self.mounted {
            let directory = open_directory(self.directory())?;
            rustix::fs::syncfs(&directory).context("cannot write back the mount")?;
        }
        self.image.sync()
    }

    /// Runs a program of the workload to its end; its output is kept only for error messages.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        run_logged(self.turn, command, &self.output)
    }

    /// Returns a function that does what [`Session::run`] does, for the timed closures, which cannot borrow the session.
    pub(crate) fn runner(&self) -> impl Fn(&mut Command) -> Result<()> + use<'a> {
        let (turn, log) = (self.turn, self.output.clone());
        move |command| run_logged(turn, command, &log)
    }

    /// Unmounts and returns the measured durations.
    pub(crate) fn finish(mut self) -> Result<Vec<Sample>> {
        self.unmount()?;
        Ok(std::mem::take(&mut self.samples))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // After a success this is already done; after a failure the mount may be in any state.
        if !matches!(self.subject.style, MountStyle::Directory) {
            let _ = rustix::mount::unmount(self.directory(), UnmountFlags::DETACH);
        }
        self.server = None;
        let _ = std::fs::remove_dir_all(&self.directories.own);
    }
}

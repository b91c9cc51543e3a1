//! The kernel's switch of io_uring for FUSE: jobs that need the same state run together, and it is put back afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;

use anyhow::Context;

use crate::job::Job;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The state of the switch that a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Requests come through /dev/fuse.
    Device,
    /// Requests come through io_uring.
    Uring,
    /// It sets the switch, so nothing else may run beside it.
    Sets,
    /// It sets the switch before each mount that it makes, and nothing of this machine mounts beside it.
    Own,
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Device => "/dev/fuse",
            Self::Uring => "io_uring",
            Self::Sets | Self::Own => "both transports",
        })
    }
}

/// Whether this process can change the switch.
pub fn is_here() -> bool {
    // The kernel loads its module when the device is opened.
    let _ = File::open("/dev/fuse");
    rustix::process::geteuid().is_root() && Path::new(SWITCH).exists()
}

/// Keeps other runs on this machine from the switch.
///
/// # Errors
/// When another run has it.
pub fn alone() -> anyhow::Result<Option<File>> {
    if !is_here() {
        return Ok(None);
    }
    let file = File::open(SWITCH).with_context(|| format!("opening {SWITCH}"))?;
    file.try_lock().with_context(|| format!("another run on this machine sets {SWITCH}: wait for its end"))?;
    Ok(Some(file))
}

/// The jobs of each state, in the order in which they run.
pub fn phases(jobs: Vec<Job>) -> BTreeMap<State, Vec<Job>> {
    let mut phases: BTreeMap<State, Vec<Job>> = BTreeMap::new();
    for job in jobs {
        phases.entry(job.state).or_default().push(job);
    }
    phases
}

/// The switch in a state. Dropping this puts it back.
pub struct Set {
    before: Option<String>,
}

impl Set {
    /// Sets the switch, where there is one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn to(state: State) -> anyhow::Result<Self> {
        if !is_here() {
            return Ok(Self { before: None });
        }
        let before = std::fs::read_to_string(SWITCH).with_context(|| format!("reading {SWITCH}"))?;
        let value = if state == State::Uring { "Y" } else { "N" };
        std::fs::write(SWITCH, value).with_context(|| format!("writing {value} to {SWITCH}"))?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = std::fs::write(SWITCH, before.trim());
        }
    }
}

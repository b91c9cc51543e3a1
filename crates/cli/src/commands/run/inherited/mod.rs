//! What the command inherits from whoever runs it, although this process changes it for itself: umask, limits and signals.

mod signals;

use std::io;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use signals::Signals;

/// The umask, the limits of descriptors and of a file's size, and the signals that this process was started with.
#[derive(Clone)]
pub struct Inherited {
    umask: Mode,
    descriptors: Rlimit,
    file_size: Rlimit,
    signals: Signals,
}

impl Inherited {
    /// As they are now: to be called before a base is opened, which acts with other ones.
    pub fn note() -> Self {
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        let [descriptors, file_size] = [Resource::Nofile, Resource::Fsize].map(getrlimit);
        Self { umask, descriptors, file_size, signals: Signals::note() }
    }

    /// Gives them to this process, a new one that becomes the command. Allocates nothing.
    ///
    /// # Errors
    /// As setrlimit(2) and sigprocmask(2).
    pub fn restore(&self) -> io::Result<()> {
        rustix::process::umask(self.umask);
        setrlimit(Resource::Nofile, self.descriptors)?;
        setrlimit(Resource::Fsize, self.file_size)?;
        self.signals.restore()
    }
}

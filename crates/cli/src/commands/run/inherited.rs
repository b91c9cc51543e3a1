//! What the command inherits from whoever runs it, although this process changes it for itself: umask and limits.

use std::io;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The umask and the limit of descriptors that this process was started with.
#[derive(Clone, Debug)]
pub struct Inherited {
    umask: Mode,
    descriptors: Rlimit,
}

impl Inherited {
    /// As they are now: to be called before a base is opened, which acts with other ones.
    pub fn note() -> Self {
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        Self { umask, descriptors: getrlimit(Resource::Nofile) }
    }

    /// Gives them to this process, a new one that becomes the command. Allocates nothing.
    ///
    /// # Errors
    /// As setrlimit(2).
    pub fn restore(&self) -> io::Result<()> {
        rustix::process::umask(self.umask);
        Ok(setrlimit(Resource::Nofile, self.descriptors)?)
    }
}

//! The attributes that the command inherits from its caller although this process changes them for itself: umask, limits and
//! signals.

mod signals;

use std::io;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use signals::SignalState;

/// The umask, the limits on descriptors and file size, and the signals that this process was started with.
#[derive(Clone)]
pub(crate) struct InheritedAttributes {
    umask: Mode,
    descriptors: Rlimit,
    file_size: Rlimit,
    signals: SignalState,
}

impl InheritedAttributes {
    /// Captures their current values: must be called before a base is opened, which works with other values.
    pub(crate) fn capture() -> Self {
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        let [descriptors, file_size] = [Resource::Nofile, Resource::Fsize].map(getrlimit);
        Self { umask, descriptors, file_size, signals: SignalState::capture() }
    }

    /// Applies them to this process, a new one that becomes the command. Does not allocate.
    ///
    /// # Errors
    /// Fails as setrlimit(2) and sigprocmask(2) do.
    pub(crate) fn restore(&self) -> io::Result<()> {
        rustix::process::umask(self.umask);
        setrlimit(Resource::Nofile, self.descriptors)?;
        setrlimit(Resource::Fsize, self.file_size)?;
        self.signals.restore()
    }
}

//! A mounted stack, served by this process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use frontends::fuse::{Mount, MountOptions, UnmountMode};
use vnode::{Errno, FileSystemRef};

use crate::error::Error;

/// Time that the kernel has for writing back what it caches of open files.
const WRITE_BACK_LIMIT: Duration = Duration::from_secs(30);

/// A mounted stack. Threads of this process serve it until somebody unmounts it. Dropping the value unmounts it, lazily if it is in
/// use; [`Mounted::unmount`] reports errors, too.
pub struct Mounted {
    mount: Mount,
    file_system: FileSystemRef,
}

impl Mounted {
    pub(crate) fn new(file_system: FileSystemRef, path: &Path, options: &MountOptions) -> Result<Mounted, Error> {
        let mount_point = PathBuf::from(path);
        if file_system.properties().needs.overlay && !options.over {
            return Err(Error::NotOverBase { mount_point });
        }
        match Mount::new(file_system.clone(), path, options) {
            Ok(mount) => Ok(Mounted { mount, file_system }),
            Err(error) => Err(Error::Mount { mount_point, error }),
        }
    }

    /// Returns the mount point, as an absolute path.
    pub fn mount_point(&self) -> &Path {
        self.mount.mount_point()
    }

    /// Returns the mount as the front end has it: its decisions and statistics.
    pub fn front_end(&self) -> &Mount {
        &self.mount
    }

    /// Waits until somebody has unmounted the stack and the last request is served, and stores everything that was written.
    ///
    /// # Errors
    /// [`Error::Sync`].
    pub fn wait(&self) -> Result<(), Error> {
        self.mount.wait();
        self.sync()
    }

    /// Unmounts, and stores everything that was written.
    ///
    /// # Errors
    /// [`Error::Unmount`] while programs use the mount, which goes on then; [`Error::Sync`].
    pub fn unmount(&self) -> Result<(), Error> {
        self.mount.write_back(WRITE_BACK_LIMIT);
        let unmounted = self.mount.unmount(UnmountMode::Clean);
        unmounted.map_err(|error| Error::Unmount { mount_point: self.mount_point().into(), error })?;
        self.wait()
    }

    fn sync(&self) -> Result<(), Error> {
        match self.file_system.sync() {
            // Nothing can be written to it.
            Err(Errno::EROFS) | Ok(()) => Ok(()),
            Err(errno) => Err(Error::Sync(errno)),
        }
    }
}

//! What programs do with a union: by vnodes, or through a mount.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use frontends::fuse::{Mount, MountOptions, UnmountMode};
use tempfile::TempDir;
use vnode::{
    Caller, Control, Creation, FileSystemRef, NameBuf, OpenFileRef, OpenFlags, RenameMode, SetAttributes, VnodeRef,
};

use super::promises::Durable;
use super::state::at;

/// Bytes that are written at a time: more than a block, and no whole number of blocks.
pub(crate) const WRITE_BYTES: usize = 6000;

/// One thing that a program does. Paths begin with a slash; the root is the empty path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Writes over the beginning of a file: so many of this byte.
    Write(&'static str, u8),
    /// The same, opened with `O_DSYNC`.
    WriteSynchronously(&'static str, u8),
    /// Makes a file with this in it.
    Create(&'static str, u8),
    /// Cuts a file to this size.
    Truncate(&'static str, u64),
    Chmod(&'static str),
    /// From, to.
    Link(&'static str, &'static str),
    Unlink(&'static str),
    Mkdir(&'static str),
    Rmdir(&'static str),
    /// From, to.
    Rename(&'static str, &'static str),
    /// A command on snapshots, and the snapshot's name.
    Snapshot(&'static str, &'static str),
    /// Opens a file to read, and keeps it open.
    Open(&'static str),
    /// fsync(2) of that open file, which this path leads to.
    FsyncOpen(&'static str),
    Fsync(&'static str),
    Fdatasync(&'static str),
    /// fsync(2) of a directory.
    FsyncDirectory(&'static str),
}

impl Step {
    /// What is on the disk when it is done, if that is more than before.
    pub(crate) fn durable(self) -> Option<Durable> {
        match self {
            Self::WriteSynchronously(path, _) | Self::Fdatasync(path) => Some(Durable::Data(path)),
            Self::Fsync(path) | Self::FsyncOpen(path) => Some(Durable::File(path)),
            Self::FsyncDirectory(path) => Some(Durable::Names(path)),
            Self::Snapshot(..) => Some(Durable::All),
            _ => None,
        }
    }
}

/// A union and whoever uses it.
pub(crate) struct UnionUser {
    union: FileSystemRef,
    mounted: Option<(Mount, TempDir)>,
    open: Option<OpenedFile>,
}

enum OpenedFile {
    Vnode(OpenFileRef),
    File(File),
}

impl UnionUser {
    /// Who calls vnodes, or uses a mount.
    pub(crate) fn of(union: FileSystemRef, is_mounted: bool) -> Self {
        let mounted = is_mounted.then(|| {
            let directory = tempfile::tempdir().unwrap();
            let options = MountOptions { source: "power-cut-union".into(), ..MountOptions::default() };
            (Mount::new(union.clone(), directory.path(), &options).unwrap(), directory)
        });
        Self { union, mounted, open: None }
    }

    /// The union.
    pub(crate) fn union(&self) -> &FileSystemRef {
        &self.union
    }

    /// Does it.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn perform(&mut self, step: Step) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{step:?}: {error}");
        match (&self.mounted, step) {
            (_, Step::Snapshot(command, name)) => {
                let arguments = vec![("name".to_owned(), name.to_owned())];
                let control = Control { target: "union".to_owned(), command: command.to_owned(), arguments };
                self.union.control(&control).map(drop).map_err(|error| failed(&error))
            }
            (Some((mount, _)), step) => {
                let root = mount.mount_point().to_owned();
                self.by_path(step, |path| root.join(path.trim_start_matches('/'))).map_err(|error| failed(&error))
            }
            (None, step) => self.by_vnodes(step).map_err(|error| failed(&error)),
        }
    }

    fn by_path(&mut self, step: Step, full: impl Fn(&str) -> PathBuf) -> io::Result<()> {
        let open = |path| OpenOptions::new().read(true).write(true).open(full(path));
        match step {
            Step::Write(path, byte) => open(path)?.write_all_at(&[byte; WRITE_BYTES], 0),
            Step::WriteSynchronously(path, byte) => {
                let file = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open(full(path))?;
                file.write_all_at(&[byte; WRITE_BYTES], 0)
            }
            Step::Create(path, byte) => File::create_new(full(path))?.write_all_at(&[byte; WRITE_BYTES], 0),
            Step::Truncate(path, size) => open(path)?.set_len(size),
            Step::Chmod(path) => fs::set_permissions(full(path), fs::Permissions::from_mode(0o711)),
            Step::Link(from, to) => fs::hard_link(full(from), full(to)),
            Step::Unlink(path) => fs::remove_file(full(path)),
            Step::Mkdir(path) => fs::create_dir(full(path)),
            Step::Rmdir(path) => fs::remove_dir(full(path)),
            Step::Rename(from, to) => fs::rename(full(from), full(to)),
            Step::Open(path) => File::open(full(path)).map(|file| self.open = Some(OpenedFile::File(file))),
            Step::FsyncOpen(_) => match &self.open {
                Some(OpenedFile::File(file)) => file.sync_all(),
                _ => Err(io::ErrorKind::NotFound.into()),
            },
            Step::Fsync(path) | Step::FsyncDirectory(path) => File::open(full(path))?.sync_all(),
            Step::Fdatasync(path) => File::open(full(path))?.sync_data(),
            Step::Snapshot(..) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn by_vnodes(&mut self, step: Step) -> vnode::Result<()> {
        let (caller, union) = (Caller::with_groups(0, 0, &[], 0o022), &*self.union);
        let open = |path, flags| at(union, path).open(&caller, flags);
        let data = |byte| [byte; WRITE_BYTES];
        match step {
            Step::Write(path, byte) => {
                vnode::write_fully(&*open(path, OpenFlags::READ_WRITE)?, &caller, 0, &data(byte))
            }
            // Who has such a file open synchronizes it after each write, as the kernel does.
            Step::WriteSynchronously(path, byte) => {
                let file = open(path, OpenFlags::READ_WRITE)?;
                vnode::write_fully(&*file, &caller, 0, &data(byte))?;
                file.fsync(&caller, true)
            }
            Step::Create(path, byte) => {
                let (directory, name) = self.split(path);
                let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE) };
                let file = directory.create(&caller, name.as_name(), &how)?.file;
                vnode::write_fully(&*file, &caller, 0, &data(byte))
            }
            Step::Truncate(path, size) => {
                let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
                at(union, path).setattr(&caller, &changes).map(drop)
            }
            Step::Chmod(path) => {
                let changes = SetAttributes { mode: Some(0o711), ..SetAttributes::default() };
                at(union, path).setattr(&caller, &changes).map(drop)
            }
            Step::Link(from, to) => {
                let (directory, name) = self.split(to);
                directory.link(&caller, &at(union, from), name.as_name()).map(drop)
            }
            Step::Unlink(path) => self.split(path).0.unlink(&caller, self.split(path).1.as_name()),
            Step::Mkdir(path) => self.split(path).0.mkdir(&caller, self.split(path).1.as_name(), 0o755).map(drop),
            Step::Rmdir(path) => self.split(path).0.rmdir(&caller, self.split(path).1.as_name()),
            Step::Rename(from, to) => {
                let ((from, from_name), (to, to_name)) = (self.split(from), self.split(to));
                from.rename(&caller, from_name.as_name(), &to, to_name.as_name(), RenameMode::Replace)
            }
            Step::Open(path) => {
                let file = open(path, OpenFlags::READ)?;
                self.open = Some(OpenedFile::Vnode(file));
                Ok(())
            }
            Step::FsyncOpen(_) => match &self.open {
                Some(OpenedFile::Vnode(file)) => file.fsync(&caller, false),
                _ => Err(vnode::Errno::EBADF),
            },
            Step::Fsync(path) => open(path, OpenFlags::READ)?.fsync(&caller, false),
            Step::Fdatasync(path) => open(path, OpenFlags::READ)?.fsync(&caller, true),
            Step::FsyncDirectory(path) => at(union, path).open_directory(&caller)?.fsync(&caller, false),
            Step::Snapshot(..) => Err(vnode::Errno::EINVAL),
        }
    }

    /// The directory that the path's last name is in, and that name.
    fn split(&self, path: &str) -> (VnodeRef, NameBuf) {
        let (above, name) = path.rsplit_once('/').expect("a path begins with a slash");
        (at(&*self.union, above), NameBuf::new(name.as_bytes().to_vec()).unwrap())
    }
}

impl Drop for UnionUser {
    fn drop(&mut self) {
        self.open = None;
        if let Some((mount, _)) = &self.mounted {
            let unmounted = mount.unmount(UnmountMode::Clean).or_else(|_| mount.unmount(UnmountMode::Lazy));
            unmounted.unwrap();
            mount.wait();
        }
    }
}

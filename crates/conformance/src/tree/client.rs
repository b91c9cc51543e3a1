//! A client of a tree: translates paths into vnode calls, as the kernel does.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use vnode::{
    AccessMode, Caller, Cookie, Creation, Device, Errno, FileKind, FileSystemRef, LockOwner, Name, OpenFlags,
    RenameMode, Result, SetAttributes, VnodeRef, XattrMode,
};

use super::calls::{change, check_length, new_owner, retry, times};
use super::convert::stat_of;
use super::directory::TreeDirectory;
use super::file::TreeFile;
use super::walk::{ParentAndName, PathWalk};
use crate::{Client, Directory, File, Identity, Space, Stat, TimeChange};

pub(crate) struct TreeClient {
    file_system: FileSystemRef,
    identity: Identity,
    umask: AtomicU32,
    working_directory: Mutex<VnodeRef>,
    owner: LockOwner,
}

impl TreeClient {
    pub(crate) fn new(file_system: FileSystemRef, identity: Identity) -> Self {
        Self {
            working_directory: Mutex::new(file_system.root()),
            file_system,
            identity,
            umask: AtomicU32::new(0o022),
            owner: new_owner(),
        }
    }

    fn caller(&self) -> Caller {
        let identity = &self.identity;
        let umask = self.umask.load(Ordering::SeqCst);
        let caller = Caller::with_groups(identity.uid, identity.gid, &identity.groups, umask);
        if caller.is_superuser() { caller } else { caller.killing_privileges() }
    }

    fn working_directory(&self) -> VnodeRef {
        self.working_directory.lock().expect("no panic with the lock held").clone()
    }

    /// Runs an operation on the object that a path resolves to.
    fn with_object<R>(
        &self,
        path: &[u8],
        follow: bool,
        operation: impl Fn(&Caller, &VnodeRef) -> Result<R>,
    ) -> Result<R> {
        let caller = self.caller();
        retry(|| {
            let found =
                PathWalk::new(&caller, self.file_system.root()).resolve(&self.working_directory(), path, follow)?;
            operation(&caller, &found)
        })
    }

    /// Runs an operation on the directory and name that a path denotes.
    fn with_parent<R>(&self, path: &[u8], operation: impl Fn(&Caller, &ParentAndName) -> Result<R>) -> Result<R> {
        let caller = self.caller();
        retry(|| {
            let parent =
                PathWalk::new(&caller, self.file_system.root()).resolve_parent(&self.working_directory(), path)?;
            operation(&caller, &parent)
        })
    }

    /// Creates an object at a path. Only a directory can be created by a name with a trailing slash.
    fn create_at(
        &self,
        path: &[u8],
        is_directory: bool,
        operation: impl Fn(&Caller, &VnodeRef, Name<'_>) -> Result<()>,
    ) -> Result<()> {
        self.with_parent(path, |caller, parent| {
            let name = parent.name(Errno::EEXIST)?;
            if parent.slash && !is_directory {
                parent.directory.lookup(caller, name)?;
                return Err(Errno::EEXIST);
            }
            operation(caller, &parent.directory, name)
        })
    }

    fn change(&self, path: &[u8], follow: bool, changes: SetAttributes) -> Result<()> {
        self.with_object(path, follow, |caller, vnode| change(caller, vnode, &changes))
    }

    fn file(&self, vnode: VnodeRef, open: vnode::OpenFileRef, flags: OpenFlags) -> Box<dyn File> {
        Box::new(TreeFile::new(
            self.caller(),
            self.owner.clone(),
            self.file_system.root(),
            self.working_directory(),
            vnode,
            open,
            flags,
        ))
    }

    fn open_existing(&self, caller: &Caller, vnode: VnodeRef, flags: i32) -> Result<Box<dyn File>> {
        let wanted = OpenFlags::from_bits(flags as u32);
        match vnode.kind() {
            FileKind::Symlink if flags & libc::O_DIRECTORY != 0 => return Err(Errno::ENOTDIR),
            FileKind::Symlink => return Err(Errno::ELOOP),
            FileKind::Directory => return Err(Errno::EISDIR),
            _ if flags & libc::O_DIRECTORY != 0 => return Err(Errno::ENOTDIR),
            _ => {}
        }
        let open = vnode.open(caller, wanted)?;
        Ok(self.file(vnode, open, wanted))
    }

    /// open(2) with `O_CREAT`: follows a symbolic link in the last component to the location of the new file.
    fn open_or_create(&self, caller: &Caller, path: &[u8], flags: i32, mode: u32) -> Result<Box<dyn File>> {
        let mut walk = PathWalk::new(caller, self.file_system.root());
        let (mut start, mut path) = (self.working_directory(), path.to_vec());
        loop {
            let parent = walk.resolve_parent(&start, &path)?;
            let name = parent.name(Errno::EISDIR)?;
            if parent.slash {
                return Err(Errno::EISDIR);
            }
            match parent.directory.lookup(caller, name) {
                Ok(_) if flags & libc::O_EXCL != 0 => return Err(Errno::EEXIST),
                Ok(entry) if entry.vnode.kind() == FileKind::Symlink && flags & libc::O_NOFOLLOW == 0 => {
                    let target = walk.target(&entry.vnode)?;
                    start = parent.directory;
                    path = target;
                }
                Ok(entry) => return self.open_existing(caller, entry.vnode, flags),
                Err(error) if error == Errno::ENOENT => {
                    let wanted = OpenFlags::from_bits(flags as u32);
                    let how = Creation { mode: mode & 0o7777, flags: wanted };
                    let created = parent.directory.create(caller, name, &how)?;
                    return Ok(self.file(created.entry.vnode, created.file, wanted));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn open_temporary(&self, path: &[u8], flags: i32, mode: u32) -> Result<Box<dyn File>> {
        if flags & libc::O_ACCMODE == libc::O_RDONLY {
            return Err(Errno::EINVAL);
        }
        let wanted = OpenFlags::from_bits((flags & !libc::O_TMPFILE) as u32);
        self.with_object(path, true, |caller, directory| {
            if directory.kind() != FileKind::Directory {
                return Err(Errno::ENOTDIR);
            }
            let created = directory.tmpfile(caller, &Creation { mode: mode & 0o7777, flags: wanted })?;
            Ok(self.file(created.entry.vnode, created.file, wanted))
        })
    }
}

impl Client for TreeClient {
    fn open(&self, path: &[u8], flags: i32, mode: u32) -> Result<Box<dyn File>> {
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            return self.open_temporary(path, flags, mode);
        }
        if flags & libc::O_CREAT != 0 {
            let caller = self.caller();
            return retry(|| self.open_or_create(&caller, path, flags, mode));
        }
        let follow = flags & libc::O_NOFOLLOW == 0;
        self.with_object(path, follow, |caller, vnode| self.open_existing(caller, vnode.clone(), flags))
    }

    fn open_directory(&self, path: &[u8]) -> Result<Box<dyn Directory>> {
        self.with_object(path, true, |caller, vnode| {
            let open = vnode.open_directory(caller)?;
            Ok(Box::new(TreeDirectory { caller: caller.clone(), open, cookie: Mutex::new(Cookie::START) })
                as Box<dyn Directory>)
        })
    }

    fn stat(&self, path: &[u8]) -> Result<Stat> {
        self.with_object(path, true, |caller, vnode| vnode.getattr(caller).map(stat_of))
    }

    fn lstat(&self, path: &[u8]) -> Result<Stat> {
        self.with_object(path, false, |caller, vnode| vnode.getattr(caller).map(stat_of))
    }

    fn access(&self, path: &[u8], mode: i32) -> Result<()> {
        self.with_object(path, true, |caller, vnode| vnode.access(caller, AccessMode::from_bits(mode as u32)))
    }

    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()> {
        self.create_at(path, true, |caller, directory, name| directory.mkdir(caller, name, mode & 0o1777).map(drop))
    }

    fn mknod(&self, path: &[u8], mode: u32, (major, minor): (u32, u32)) -> Result<()> {
        let kind = match FileKind::from_mode(mode) {
            Some(FileKind::Directory) => return Err(Errno::EPERM),
            None | Some(FileKind::Symlink) => return Err(Errno::EINVAL),
            Some(kind) => kind,
        };
        self.create_at(path, false, |caller, directory, name| {
            directory.mknod(caller, name, kind, mode & 0o7777, Device { major, minor }).map(drop)
        })
    }

    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        // The terminating zero counts.
        if target.len() >= libc::PATH_MAX as usize {
            return Err(Errno::ENAMETOOLONG);
        }
        self.create_at(path, false, |caller, directory, name| directory.symlink(caller, name, target).map(drop))
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.with_object(path, false, |caller, vnode| vnode.readlink(caller))
    }

    fn link(&self, existing: &[u8], path: &[u8]) -> Result<()> {
        let target = self.with_object(existing, false, |_, vnode| Ok(vnode.clone()))?;
        self.create_at(path, false, |caller, directory, name| directory.link(caller, &target, name).map(drop))
    }

    fn unlink(&self, path: &[u8]) -> Result<()> {
        self.with_parent(path, |caller, parent| {
            let name = parent.name(Errno::EISDIR)?;
            if parent.slash {
                let kind = parent.directory.lookup(caller, name)?.vnode.kind();
                return Err(if kind == FileKind::Directory { Errno::EISDIR } else { Errno::ENOTDIR });
            }
            parent.directory.unlink(caller, name)
        })
    }

    fn rmdir(&self, path: &[u8]) -> Result<()> {
        self.with_parent(path, |caller, parent| {
            let otherwise = if path.ends_with(b"..") { Errno::ENOTEMPTY } else { Errno::EINVAL };
            parent.directory.rmdir(caller, parent.name(otherwise)?)
        })
    }

    fn rename_with(&self, from: &[u8], to: &[u8], flags: u32) -> Result<()> {
        let mode = match flags {
            0 => RenameMode::Replace,
            libc::RENAME_NOREPLACE => RenameMode::NoReplace,
            libc::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return Err(Errno::EINVAL),
        };
        self.with_parent(from, |caller, source| {
            let target =
                PathWalk::new(caller, self.file_system.root()).resolve_parent(&self.working_directory(), to)?;
            let (name, to_name) = (source.name(Errno::EBUSY)?, target.name(Errno::EBUSY)?);
            if source.slash || target.slash {
                let kind = source.directory.lookup(caller, name)?.vnode.kind();
                if kind != FileKind::Directory {
                    return Err(Errno::ENOTDIR);
                }
            }
            source.directory.rename(caller, name, &target.directory, to_name, mode)
        })
    }

    fn chmod(&self, path: &[u8], mode: u32) -> Result<()> {
        self.change(path, true, SetAttributes { mode: Some(mode), ..SetAttributes::default() })
    }

    fn chown(&self, path: &[u8], uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.change(path, true, SetAttributes { uid, gid, ..SetAttributes::default() })
    }

    fn lchown(&self, path: &[u8], uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.change(path, false, SetAttributes { uid, gid, ..SetAttributes::default() })
    }

    fn truncate(&self, path: &[u8], length: u64) -> Result<()> {
        let size = Some(check_length(length)?);
        self.change(path, true, SetAttributes { size, ..SetAttributes::default() })
    }

    fn set_times(&self, path: &[u8], access: TimeChange, modification: TimeChange, follow: bool) -> Result<()> {
        self.change(path, follow, times(access, modification))
    }

    fn statfs(&self, path: &[u8]) -> Result<Space> {
        self.with_object(path, true, |caller, vnode| {
            let space = vnode.statfs(caller)?;
            Ok(Space {
                block_size: space.fragment_size.into(),
                blocks: space.blocks,
                blocks_free: space.blocks_free,
                blocks_available: space.blocks_available,
                files: space.files,
                files_free: space.files_free,
                name_max: space.name_max.into(),
            })
        })
    }

    fn getxattr(&self, path: &[u8], name: &[u8], size: usize) -> Result<Vec<u8>> {
        let value = self.with_object(path, false, |caller, vnode| vnode.getxattr(caller, attribute_name(name)?))?;
        check_buffer_size(value, size)
    }

    fn setxattr(&self, path: &[u8], name: &[u8], value: &[u8], flags: i32) -> Result<()> {
        let mode = match flags {
            0 => XattrMode::Set,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return Err(Errno::EINVAL),
        };
        self.with_object(path, false, |caller, vnode| vnode.setxattr(caller, attribute_name(name)?, value, mode))
    }

    fn listxattr(&self, path: &[u8], size: usize) -> Result<Vec<u8>> {
        check_buffer_size(self.with_object(path, false, |caller, vnode| vnode.listxattr(caller))?, size)
    }

    fn removexattr(&self, path: &[u8], name: &[u8]) -> Result<()> {
        self.with_object(path, false, |caller, vnode| vnode.removexattr(caller, attribute_name(name)?))
    }

    fn umask(&self, mask: u32) -> u32 {
        self.umask.swap(mask & 0o777, Ordering::SeqCst)
    }

    fn chdir(&self, path: &[u8]) -> Result<()> {
        let found = self.with_object(path, true, |caller, vnode| {
            if vnode.kind() != FileKind::Directory {
                return Err(Errno::ENOTDIR);
            }
            vnode.access(caller, AccessMode::EXECUTE)?;
            Ok(vnode.clone())
        })?;
        *self.working_directory.lock().expect("no panic with the lock held") = found;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file_system.sync()
    }
}

fn attribute_name(name: &[u8]) -> Result<&[u8]> {
    if name.is_empty() || name.len() > 255 { Err(Errno::ERANGE) } else { Ok(name) }
}

/// Returns the result of a call with a buffer of this size.
fn check_buffer_size(value: Vec<u8>, size: usize) -> Result<Vec<u8>> {
    match size {
        0 => Ok(vec![0; value.len()]),
        size if size < value.len() => Err(Errno::ERANGE),
        _ => Ok(value),
    }
}

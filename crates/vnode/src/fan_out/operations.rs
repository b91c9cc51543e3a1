//! The operations on an object of a fan-out: reads of one branch object, changes of the primary one or of all.

use std::any::Any;
use std::cell::{Cell, RefCell};

use super::file::{FanOutDirectory, FanOutFile};
use super::health::is_of_storage;
use super::object::{BranchObjects, ChangeResults, FanOutVnode, ReadOrder, is_transient};
use crate::{
    AccessMode, Attributes, Caller, Created, Creation, Device, Entry, Errno, FileKind, Handle, Name, OpenDirectoryRef,
    OpenFileRef, OpenFlags, RenameMode, Result, SetAttributes, StatFs, Vnode, VnodeRef, XattrMode,
};

impl FanOutVnode {
    /// Makes an object by a name in this directory, in the branches in which changes are made.
    fn enter(
        &self,
        caller: &Caller,
        name: Name<'_>,
        make: impl Fn(&Caller, usize, &VnodeRef) -> Result<Entry>,
    ) -> Result<Entry> {
        let _names = self.keep_names(caller)?;
        let (entries, _guard) = self.change(caller, make)?;
        self.joined(self.completed(name, entries)?)
    }

    /// Looks up a name in the other branches, where no entries were made.
    ///
    /// # Errors
    /// Where all branches have to have it, those that say nothing of it.
    fn completed(&self, name: Name<'_>, mut entries: Vec<Option<Entry>>) -> Result<Vec<Option<Entry>>> {
        let server = Caller::server();
        for (branch, directory) in self.branch_objects().iter().enumerate() {
            if entries[branch].is_none()
                && !self.health().has_failed(branch)
                && let Some(directory) = directory
            {
                entries[branch] = match directory.lookup(&server, name) {
                    Err(error) if self.fan_out.changes_all() && error != Errno::ENOENT && !is_of_storage(error) => {
                        return Err(error);
                    }
                    found => found.ok(),
                };
            }
        }
        Ok(entries)
    }

    fn changed(&self, caller: &Caller, change: impl Fn(&Caller, usize, &VnodeRef) -> Result<()>) -> Result<()> {
        self.change(caller, change).map(drop)
    }

    /// Makes a file that is open in the branches in which changes are made. Where another branch has made it, and this process goes
    /// on lacking resources to open it, such as descriptors that the caller may have, the branch is not to blame: `instead` is
    /// done there.
    ///
    /// # Errors
    /// Those of [`FanOut::change`](super::object::FanOut::change); that of the lack, where `instead` was done.
    fn make_open(
        &self,
        caller: &Caller,
        make: impl Fn(&Caller, &VnodeRef) -> Result<Created>,
        instead: impl Fn(&Caller, &VnodeRef) -> Result<()>,
    ) -> Result<ChangeResults<'_, Created>> {
        let guard = self.lock(caller)?;
        let _change = self.begin_change();
        let lack = Cell::new(None);
        let make = |caller: &Caller, _, directory: &VnodeRef| make(caller, directory).map(Some);
        let instead = |caller: &Caller, directory: &VnodeRef, error| {
            instead(caller, directory)?;
            lack.set(Some(error));
            Ok(None)
        };
        let made = self.fan_out.change_or(caller, self.primary(), &self.branch_objects(), make, instead)?;
        match lack.get() {
            Some(error) => Err(error),
            None => Ok((made.into_iter().map(Option::flatten).collect(), guard)),
        }
    }

    /// Opens the file for reading: in one branch, and in all others that can open it, since any of them may have to answer later.
    ///
    /// # Errors
    /// That of the first branch; that of a cancelled caller, or of a process that lacks resources, in any.
    fn open_to_read(&self, caller: &Caller, flags: OpenFlags) -> Result<Vec<Option<OpenFileRef>>> {
        let (opened_in, file) =
            self.read(ReadOrder::Routed, |branch, object| Ok((branch, object.open(caller, flags)?)))?;
        let objects = self.branch_objects();
        let mut files: Vec<Option<OpenFileRef>> = objects.iter().map(|_| None).collect();
        for branch in self.health().healthy().filter(|branch| *branch != opened_in) {
            files[branch] = match objects[branch].as_ref().map(|object| object.open(caller, flags)) {
                Some(Err(error)) if is_transient(error) => return Err(error),
                opened => opened.and_then(Result::ok),
            };
        }
        files[opened_in] = Some(file);
        Ok(files)
    }

    /// Opens a created object as its creators have.
    fn created(&self, name: Option<Name<'_>>, made: Vec<Option<Created>>, flags: OpenFlags) -> Result<Created> {
        let (entries, files): (Vec<_>, Vec<_>) =
            made.into_iter().map(|made| made.map(|made| (made.entry, made.file)).unzip()).unzip();
        let entries = match name {
            Some(name) => self.completed(name, entries)?,
            None => entries,
        };
        let entry = self.joined(entries)?;
        let file = FanOutFile::of_vnode(&entry.vnode, files, flags)?;
        Ok(Created { entry, file })
    }
}

/// Makes the name of a file that cannot be opened.
fn make_closed(caller: &Caller, directory: &VnodeRef, name: Name<'_>, how: &Creation) -> Result<()> {
    match directory.mknod(caller, name, FileKind::Regular, how.mode, Device::default()) {
        Err(_) if !how.flags.is_exclusive() && directory.lookup(&Caller::server(), name).is_ok() => Ok(()),
        made => made.map(drop),
    }
}

/// Returns the change of a file to one without data.
fn truncation() -> SetAttributes {
    SetAttributes { size: Some(0), ..SetAttributes::default() }
}

fn with_branch<T>((branch, result): (usize, Option<T>)) -> Option<(usize, T)> {
    Some((branch, result?))
}

impl Vnode for FanOutVnode {
    fn handle(&self) -> Handle {
        self.handle
    }

    fn kind(&self) -> FileKind {
        self.primary_object().kind()
    }

    fn path(&self) -> Result<Vec<u8>> {
        self.read(ReadOrder::PrimaryFirst, |_, object| object.path())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn getattr(&self, caller: &Caller) -> Result<Attributes> {
        self.read(ReadOrder::PrimaryFirst, |branch, object| Ok(self.attributes(branch, object.getattr(caller)?)))
    }

    fn setattr(&self, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let (changed, _guard) = self.change(caller, |caller, _, object| object.setattr(caller, changes))?;
        let mut changed: Vec<(usize, Attributes)> = changed.into_iter().enumerate().filter_map(with_branch).collect();
        changed.sort_by_key(|(branch, _)| *branch != self.primary());
        let (branch, attributes) = *changed.first().ok_or(Errno::EIO)?;
        Ok(self.attributes(branch, attributes))
    }

    fn access(&self, caller: &Caller, mode: AccessMode) -> Result<()> {
        self.read(ReadOrder::Routed, |_, object| object.access(caller, mode))
    }

    fn lookup(&self, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let _guard = self.share(caller)?;
        let mut entries: Vec<Option<Entry>> = self.branch_objects().iter().map(|_| None).collect();
        let (branch, found) =
            self.read(ReadOrder::PrimaryFirst, |branch, object| Ok((branch, object.lookup(caller, name)?)))?;
        entries[branch] = Some(found);
        self.joined(self.completed(name, entries)?)
    }

    fn parent(&self, caller: &Caller) -> Result<VnodeRef> {
        // Not while the object is moved in one branch and not yet in another.
        let _names = self.keep_names(caller)?;
        let (branch, parent) =
            self.read(ReadOrder::PrimaryFirst, |branch, object| Ok((branch, object.parent(caller)?)))?;
        let objects = match self.fan_out.changes_all() {
            false => self.fan_out.objects_at_path_of(branch, &parent)?,
            true => {
                let server = Caller::server();
                // A branch that has failed may have the object elsewhere.
                let parent_of = |(branch, object): (usize, Option<VnodeRef>)| {
                    object.filter(|_| !self.health().has_failed(branch))?.parent(&server).ok()
                };
                let mut objects: BranchObjects = self.branch_objects().into_iter().enumerate().map(parent_of).collect();
                objects[branch] = Some(parent);
                objects
            }
        };
        let is_in_primary = objects[self.primary()].is_some();
        Ok(self.fan_out.node(if is_in_primary { self.primary() } else { branch }, objects)?)
    }

    fn create(&self, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let _names = self.keep_names(caller)?;
        let truncates = self.fan_out.changes_all() && how.flags.truncates();
        let lower_how =
            Creation { flags: if truncates { how.flags.without(OpenFlags::TRUNCATE) } else { how.flags }, ..*how };
        let make = |caller: &Caller, directory: &VnodeRef| directory.create(caller, name, &lower_how);
        // The name is made all the same: whether it was there before is not known in those that have it now.
        let instead = |caller: &Caller, directory: &VnodeRef| make_closed(caller, directory, name, how);
        let (made, guard) = self.make_open(caller, make, instead)?;
        let mut created = self.created(Some(name), made, how.flags)?;
        drop(guard);
        if truncates && created.entry.attributes.size > 0 {
            // The file existed before: in all branches it is truncated before or after what others write to it.
            created.entry.attributes = created.entry.vnode.setattr(caller, &truncation())?;
        }
        Ok(created)
    }

    fn mkdir(&self, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        self.enter(caller, name, |caller, _, object| object.mkdir(caller, name, mode))
    }

    fn mknod(&self, caller: &Caller, name: Name<'_>, kind: FileKind, mode: u32, device: Device) -> Result<Entry> {
        self.enter(caller, name, |caller, _, object| object.mknod(caller, name, kind, mode, device))
    }

    fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        self.enter(caller, name, |caller, _, object| object.symlink(caller, name, target))
    }

    fn link(&self, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        let targets = self.objects_of(target)?;
        let _names = self.lock_names(caller)?;
        let link = |caller: &Caller, branch: usize, object: &VnodeRef| {
            object.link(caller, targets[branch].as_ref().ok_or(Errno::EXDEV)?, name)
        };
        let (entries, _guard) = self.change(caller, link)?;
        self.joined(self.completed(name, entries)?)
    }

    fn unlink(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let _names = self.lock_names(caller)?;
        self.changed(caller, |caller, _, object| object.unlink(caller, name))
    }

    fn rmdir(&self, caller: &Caller, name: Name<'_>) -> Result<()> {
        let _names = self.lock_names(caller)?;
        self.changed(caller, |caller, _, object| object.rmdir(caller, name))
    }

    fn rename(
        &self,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let targets = self.objects_of(to)?;
        let rename = |caller: &Caller, branch: usize, object: &VnodeRef| {
            object.rename(caller, name, targets[branch].as_ref().ok_or(Errno::EXDEV)?, to_name, mode)
        };
        let _names = self.lock_names(caller)?;
        let _guards = self.lock_both(to);
        self.change_locked(caller, rename).map(drop)
    }

    fn readlink(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.read(self.order_of_data(), |_, object| object.readlink(caller))
    }

    fn open(&self, caller: &Caller, flags: OpenFlags) -> Result<OpenFileRef> {
        let node: VnodeRef = self.shared()?;
        if !self.fan_out.changes_all() {
            let (files, _guard) = self.change(caller, |caller, _, object| object.open(caller, flags))?;
            return FanOutFile::of_vnode(&node, files, flags);
        }
        if !flags.writes() && !flags.truncates() {
            return FanOutFile::of_vnode(&node, self.open_to_read(caller, flags)?, flags);
        }
        // Truncated afterwards, since one that is not opened in all branches is to be changed in none.
        let lower_flags = flags.without(OpenFlags::TRUNCATE);
        let files = self.fan_out.open(&self.branch_objects(), |object| object.open(caller, lower_flags))?;
        let file = FanOutFile::of_vnode(&node, files, flags)?;
        match (flags.truncates(), flags.writes()) {
            (true, true) => file.truncate(caller, 0)?,
            (true, false) => self.setattr(caller, &truncation()).map(drop)?,
            (false, _) => {}
        }
        Ok(file)
    }

    fn open_directory(&self, caller: &Caller) -> Result<OpenDirectoryRef> {
        let (branch, directory) =
            self.read(ReadOrder::PrimaryFirst, |branch, object| Ok((branch, object.open_directory(caller)?)))?;
        Ok(FanOutDirectory::over(self.shared()?, branch, directory))
    }

    fn statfs(&self, caller: &Caller) -> Result<StatFs> {
        let all: Vec<StatFs> = match self.fan_out.changes_all() {
            false => vec![self.primary_object().statfs(caller)?],
            true => {
                let objects = self.branch_objects();
                let healthy = self.health().healthy().filter_map(|branch| objects[branch].as_ref());
                let all = healthy.map(|object| object.statfs(caller));
                all.filter(|statfs| !statfs.as_ref().is_err_and(|error| is_of_storage(*error)))
                    .collect::<Result<_>>()?
            }
        };
        // What is written needs space in all.
        let bytes = |statfs: &StatFs| statfs.blocks_available.saturating_mul(statfs.fragment_size.into());
        all.into_iter().min_by_key(bytes).ok_or(Errno::EIO)
    }

    fn getxattr(&self, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        self.read(ReadOrder::Routed, |_, object| object.getxattr(caller, name))
    }

    fn setxattr(&self, caller: &Caller, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.changed(caller, |caller, _, object| object.setxattr(caller, name, value, mode))
    }

    fn listxattr(&self, caller: &Caller) -> Result<Vec<u8>> {
        self.read(ReadOrder::Routed, |_, object| object.listxattr(caller))
    }

    fn removexattr(&self, caller: &Caller, name: &[u8]) -> Result<()> {
        self.changed(caller, |caller, _, object| object.removexattr(caller, name))
    }

    fn tmpfile(&self, caller: &Caller, how: &Creation) -> Result<Created> {
        let make = |caller: &Caller, directory: &VnodeRef| directory.tmpfile(caller, how);
        let (made, _guard) = self.make_open(caller, make, |_, _| Ok(()))?;
        self.created(None, made, how.flags)
    }

    fn ioctl(&self, caller: &Caller, command: u32, input: &[u8], output: &mut [u8]) -> Result<i32> {
        if input.is_empty() {
            return self.read(ReadOrder::PrimaryFirst, |_, object| object.ioctl(caller, command, input, output));
        }
        let output = RefCell::new(output);
        let ioctl =
            |caller: &Caller, _, object: &VnodeRef| object.ioctl(caller, command, input, &mut output.borrow_mut());
        let (results, _guard) = self.change(caller, ioctl)?;
        results.into_iter().flatten().next().ok_or(Errno::EIO)
    }
}

//! One of the two file systems: does operations and tells what came of them, in words that can be compared.

use std::ops::ControlFlow;

use libc::{S_ISGID, S_ISUID, S_IXGRP};
use vnode::{
    AccessMode, AllocateMode, Attributes, Caller, Cookie, Creation, Device, Entry, Errno, FileKind, FileSystem, Lock,
    LockFamily, LockOwner, Name, OpenFileRef, OpenFlags, RenameMode, Result, SeekTarget, SetAttributes, SetTime,
    VnodeRef,
};

use crate::operation::{Action, Operation, Path, SLOTS};

/// Seconds before which a time was set by an operation, so that both sides have it exactly.
const SET_TIME_MAX: i64 = 1 << 30;

/// A file system, and what is open on it.
pub(crate) struct Side {
    file_system: Box<dyn FileSystem>,
    /// Which times an operation changes is looked at.
    times: bool,
    files: [Option<(VnodeRef, OpenFileRef)>; SLOTS],
    held: [Option<VnodeRef>; SLOTS],
}

const CAPABILITIES: &[u8] = b"security.capability";

/// The times of an object before an operation.
type AttributesBefore = Option<Attributes>;

impl Side {
    /// A file system on which nothing is open; `times` says whether it is compared which times an operation changes.
    pub(crate) fn new(file_system: Box<dyn FileSystem>, times: bool) -> Self {
        Self { file_system, times, files: Default::default(), held: Default::default() }
    }

    /// Does the operation: its result, then what became of the objects that it named.
    pub(crate) fn apply(&mut self, operation: &Operation) -> String {
        let named_paths = named_paths(operation);
        let before: Vec<AttributesBefore> = named_paths.iter().map(|path| self.attributes(path)).collect();
        let result = self.perform(operation);
        let times = self.times && !may_change_any_times(operation, result.is_ok());
        let failed = result.is_err();
        if let (Action::Allocate { slot, .. }, true) = (&operation.action, failed) {
            self.count_as_changed(*slot);
        }
        let result = result.unwrap_or_else(|errno| format!("{errno:?}"));
        let after = named_paths.iter().zip(before).map(|(path, before)| self.describe_changes(path, before, times));
        let slots = self.files.iter().flatten().map(|(_, file)| describe(&file.getattr(&superuser())));
        let held = self.held.iter().flatten().map(|vnode| describe(&vnode.getattr(&superuser())));
        let after: Vec<String> = after.chain(slots).chain(held).collect();
        self.clear_ambiguous_setgid(&named_paths);
        format!("{result}\n     {}", after.join("\n     "))
    }

    /// Sets the time of an open file to now and takes its set-id bits and capabilities away: ext4 does so even where it then
    /// refuses to change the range.
    pub(crate) fn count_as_changed(&self, slot: usize) {
        let Some((vnode, file)) = &self.files[slot] else { return };
        let mode = file.getattr(&superuser()).expect("open files have attributes").mode & !(S_ISUID | S_ISGID);
        let changes = SetAttributes { mode: Some(mode), mtime: Some(SetTime::Now), ..Default::default() };
        vnode.setattr(&superuser(), &changes).expect("the superuser changes attributes");
        match vnode.removexattr(&superuser(), CAPABILITIES) {
            Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP) => {}
            Err(error) => panic!("the superuser removes capabilities: {error}"),
        }
    }

    /// Takes the set-group-id bit from files that their group does not execute. Whether a write takes it away depends, on
    /// Linux, on what is cached of the inode, so both sides may differ here.
    fn clear_ambiguous_setgid(&self, named_paths: &[Path]) {
        let named = named_paths.iter().filter_map(|path| self.find(&superuser(), path).ok());
        let open = self.files.iter().flatten().map(|(vnode, _)| vnode.clone());
        for vnode in named.chain(open).chain(self.held.iter().flatten().cloned()) {
            let Ok(now) = vnode.getattr(&superuser()) else { continue };
            if has_ambiguous_setgid(&now) {
                let changes = SetAttributes { mode: Some(now.mode & !S_ISGID), ..Default::default() };
                vnode.setattr(&superuser(), &changes).expect("the superuser changes modes");
            }
        }
    }

    /// Every object, described, in the order of paths.
    pub(crate) fn tree(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.describe_below(&self.file_system.root(), "", &mut lines);
        lines
    }

    fn describe_below(&self, directory: &VnodeRef, path: &str, lines: &mut Vec<String>) {
        let names = list(directory).expect("the superuser lists directories");
        for (name, _) in names {
            let entry = directory.lookup(&superuser(), Name::new(&name).unwrap()).expect("what is listed is found");
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            let xattrs = xattrs(&entry.vnode);
            let content = contents(&entry);
            lines.push(format!("{path}: {} {content} {xattrs}", describe(&Ok(entry.attributes))));
            if entry.attributes.is_directory() {
                let parent = entry.vnode.parent(&superuser()).map(|parent| parent.handle() == directory.handle());
                let found = entry.vnode.path().map(|path| String::from_utf8_lossy(&path).into_owned());
                lines.push(format!("{path}: path {found:?}, parent right {parent:?}"));
                self.describe_below(&entry.vnode, &path, lines);
            }
        }
    }

    fn attributes(&self, path: &Path) -> AttributesBefore {
        self.find(&superuser(), path).ok().and_then(|vnode| vnode.getattr(&superuser()).ok())
    }

    /// Describes the object at the path, and with `times`, which of its times differ from those before.
    fn describe_changes(&self, path: &Path, before: AttributesBefore, times: bool) -> String {
        let shown = path.join("/");
        let Some(now) = self.attributes(path) else { return format!("/{shown}: none") };
        let changed = match before {
            Some(before) if before.ino == now.ino && !times => String::new(),
            Some(before) if before.ino == now.ino => {
                let time = |changed: bool, what: &str| if changed { what.to_owned() } else { String::new() };
                time(before.mtime != now.mtime, " mtime") + &time(before.ctime != now.ctime, " ctime")
            }
            Some(_) => " replaced".to_owned(),
            None => " new".to_owned(),
        };
        format!("/{shown}: {}{changed}", describe(&Ok(now)))
    }

    fn find(&self, caller: &Caller, path: &Path) -> Result<VnodeRef> {
        let mut vnode = self.file_system.root();
        for part in path {
            vnode = vnode.lookup(caller, name(part))?.vnode;
        }
        Ok(vnode)
    }

    /// Returns the directory that the path's last component is in, and that component.
    fn parent_and_name<'p>(&self, caller: &Caller, path: &'p Path) -> Result<(VnodeRef, Name<'p>)> {
        let (last, above) = path.split_last().ok_or(Errno::EBUSY)?;
        Ok((self.find(caller, &above.to_vec())?, name(last)))
    }

    fn file(&self, slot: usize) -> Result<&OpenFileRef> {
        self.files[slot].as_ref().map(|(_, file)| file).ok_or(Errno::ECANCELED)
    }

    fn perform(&mut self, operation: &Operation) -> Result<String> {
        match &operation.action {
            Action::Create { .. }
            | Action::Temporary { .. }
            | Action::Mkdir { .. }
            | Action::Mknod { .. }
            | Action::Symlink { .. }
            | Action::Link { .. }
            | Action::LinkHeld { .. }
            | Action::Unlink
            | Action::Rmdir
            | Action::Rename { .. } => self.name_operation(operation),
            Action::Open { .. } | Action::Hold { .. } | Action::InHeld { .. } | Action::Close { .. } => {
                self.slot_operation(operation)
            }
            Action::Read { .. }
            | Action::Write { .. }
            | Action::Resize { .. }
            | Action::Allocate { .. }
            | Action::Seek { .. }
            | Action::Copy { .. }
            | Action::Lock { .. }
            | Action::TestLock { .. }
            | Action::Flush { .. } => self.file_operation(operation),
            _ => self.object_operation(operation),
        }
    }

    fn name_operation(&mut self, operation: &Operation) -> Result<String> {
        let caller = &operation.caller();
        if let Action::Temporary { mode, exclusive, slot } = operation.action {
            let directory = self.find(caller, &operation.path)?;
            let exclusive = if exclusive { OpenFlags::EXCLUSIVE } else { OpenFlags::READ };
            let how = Creation { mode, flags: OpenFlags::READ_WRITE.with(exclusive) };
            let created = directory.tmpfile(caller, &how)?;
            self.files[slot] = Some((created.entry.vnode.clone(), created.file));
            self.held[slot] = Some(created.entry.vnode);
            return Ok(describe(&Ok(created.entry.attributes)));
        }
        let (directory, last) = self.parent_and_name(caller, &operation.path)?;
        let made = |entry: Entry| describe(&Ok(entry.attributes));
        match &operation.action {
            Action::Create { mode, flags, slot } => {
                let how = Creation { mode: *mode, flags: OpenFlags::from_bits(*flags) };
                let created = directory.create(caller, last, &how)?;
                self.files[*slot] = Some((created.entry.vnode.clone(), created.file));
                Ok(made(created.entry))
            }
            Action::Mkdir { mode } => directory.mkdir(caller, last, *mode).map(made),
            Action::Mknod { kind, mode, minor } => {
                let device = Device { major: *minor, minor: *minor };
                directory.mknod(caller, last, *kind, *mode, device).map(made)
            }
            Action::Symlink { length } => directory.symlink(caller, last, &vec![b'x'; *length]).map(made),
            Action::Link { from } => {
                let from = self.find(caller, from)?;
                directory.link(&linker(caller, &from)?, &from, last).map(made)
            }
            Action::LinkHeld { slot } => {
                let from = self.held[*slot].as_ref().ok_or(Errno::ECANCELED)?;
                directory.link(&linker(caller, from)?, from, last).map(made)
            }
            Action::Unlink => directory.unlink(caller, last).map(done),
            Action::Rmdir => directory.rmdir(caller, last).map(done),
            Action::Rename { to, mode } => {
                let (to, to_last) = self.parent_and_name(caller, to)?;
                directory.rename(caller, last, &to, to_last, *mode).map(done)
            }
            other => unreachable!("{other:?} is no operation on a name"),
        }
    }

    fn slot_operation(&mut self, operation: &Operation) -> Result<String> {
        let caller = &operation.caller();
        match operation.action {
            Action::Open { flags, slot } => {
                let vnode = self.find(caller, &operation.path)?;
                let file = vnode.open(caller, OpenFlags::from_bits(flags))?;
                self.files[slot] = Some((vnode, file));
            }
            Action::Hold { slot } => self.held[slot] = Some(self.find(caller, &operation.path)?),
            Action::InHeld { slot, name: text, what } => {
                let vnode = self.held[slot].as_ref().ok_or(Errno::ECANCELED)?;
                return in_held(vnode, caller, name(text), what);
            }
            Action::Close { slot } => self.files[slot] = None,
            ref other => unreachable!("{other:?} is no operation on a slot"),
        }
        Ok("done".to_owned())
    }

    fn file_operation(&mut self, operation: &Operation) -> Result<String> {
        let caller = &operation.caller();
        let owner = LockOwner::Number(operation.user as u64 + 1);
        match operation.action {
            Action::Read { slot, offset, length } => {
                let mut bytes = vec![0xee; length];
                let read = self.file(slot)?.read_at(caller, offset, &mut bytes)?;
                Ok(format!("{read} bytes: {:x}", digest(&bytes[..read])))
            }
            Action::Write { slot, offset, length, byte, kill } => {
                let written = self.file(slot)?.write_at(&writer(caller, kill), offset, &vec![byte; length])?;
                Ok(format!("{written} bytes"))
            }
            Action::Resize { slot, size, kill } => self.file(slot)?.truncate(&writer(caller, kill), size).map(done),
            Action::Allocate { slot, mode, offset, length } => {
                self.file(slot)?.allocate(caller, AllocateMode::from_bits(mode), offset, length).map(done)
            }
            Action::Seek { slot, offset, target } => {
                let file = self.file(slot)?;
                let size = file.getattr(caller)?.size;
                let found = file.seek(caller, offset, target);
                // How much of what reads as zeros is a hole differs between file systems.
                let fits = found.map_or(target == SeekTarget::Data, |position| (offset..=size).contains(&position));
                if offset < size { Ok(format!("fits {fits}")) } else { found.map(|position| position.to_string()) }
            }
            Action::Copy { slot, offset, to, to_offset, length } => {
                let to = self.file(to)?.clone();
                self.copy(caller, slot, offset, &to, to_offset, length)
            }
            Action::Lock { slot, family, kind, start, end } => {
                let end = if family == LockFamily::Flock { u64::MAX } else { end };
                let start = if family == LockFamily::Flock { 0 } else { start };
                let lock = Lock { family, kind, start, end, pid: 0 };
                // A whole-file lock belongs to an open file, so the slot is its owner.
                let owner = if family == LockFamily::Flock { LockOwner::Number(100 + slot as u64) } else { owner };
                self.file(slot)?.lock(caller, &owner, &lock).map(done)
            }
            Action::TestLock { slot, kind, start, end } => {
                let lock = Lock { family: LockFamily::Posix, kind, start, end, pid: 0 };
                self.file(slot)?.test_lock(caller, &owner, &lock).map(|found| found.is_some().to_string())
            }
            Action::Flush { slot } => self.file(slot)?.flush(caller, &owner).map(done),
            ref other => unreachable!("{other:?} is no operation on a file"),
        }
    }

    fn copy(
        &self,
        caller: &Caller,
        slot: usize,
        offset: u64,
        to: &OpenFileRef,
        to_offset: u64,
        length: u64,
    ) -> Result<String> {
        let from = self.file(slot)?;
        let mut copied = 0;
        loop {
            let step = from.copy_range(caller, offset + copied, to, to_offset + copied, length - copied)?;
            copied += step;
            if step == 0 || copied == length {
                return Ok(format!("{copied} bytes"));
            }
        }
    }

    fn object_operation(&self, operation: &Operation) -> Result<String> {
        let caller = &operation.caller();
        let vnode = self.find(caller, &operation.path)?;
        let set = |changes: SetAttributes| vnode.setattr(caller, &changes).map(|now| describe(&Ok(now)));
        match &operation.action {
            Action::Lookup => Ok(describe(&vnode.getattr(caller))),
            Action::Readlink => vnode.readlink(caller).map(|target| target.len().to_string()),
            Action::List => {
                vnode.open_directory(caller)?;
                list(&vnode).map(|names| format!("{names:?}"))
            }
            Action::Access { mode } => vnode.access(caller, AccessMode::from_bits(*mode)).map(done),
            Action::Chmod { mode } => set(SetAttributes { mode: Some(*mode), ..Default::default() }),
            Action::Chown { uid: None, gid: None } => Ok("nothing".to_owned()),
            Action::Chown { uid, gid } => set(SetAttributes { uid: *uid, gid: *gid, ..Default::default() }),
            Action::Truncate { size } => {
                // tmpfs leaves the time of a file without pages that is cut to the size that it has; ext4 sets it always.
                let mtime = (!self.times).then_some(SetTime::Now);
                set(SetAttributes { size: Some(*size), mtime, ..Default::default() })
            }
            Action::Times { atime: None, mtime: None } => Ok("nothing".to_owned()),
            Action::Times { atime, mtime } => set(SetAttributes { atime: *atime, mtime: *mtime, ..Default::default() }),
            Action::GetXattr { name } => vnode.getxattr(caller, name.as_bytes()).map(|value| format!("{value:x?}")),
            Action::SetXattr { name, value, mode } => {
                vnode.setxattr(caller, name.as_bytes(), value, *mode).map(|()| xattrs(&vnode))
            }
            Action::ListXattr => vnode.listxattr(caller).map(|names| sorted_names(&names)),
            Action::RemoveXattr { name } => vnode.removexattr(caller, name.as_bytes()).map(|()| xattrs(&vnode)),
            other => unreachable!("{other:?} is no operation on an object"),
        }
    }
}

/// Operations in or on an object that may have lost its name.
fn in_held(vnode: &VnodeRef, caller: &Caller, name: Name<'_>, what: usize) -> Result<String> {
    let made = |entry: Entry| describe(&Ok(entry.attributes));
    match what {
        0 => vnode.mkdir(caller, name, 0o777).map(made),
        1 => vnode.lookup(caller, name).map(made),
        2 => vnode.symlink(caller, name, b"target").map(made),
        3 => vnode.unlink(caller, name).map(done),
        4 => vnode.mknod(caller, name, FileKind::Regular, 0o666, Device::default()).map(made),
        5 => vnode.setattr(caller, &SetAttributes { mode: Some(0o755), ..Default::default() }).map(|_| "done".into()),
        6 => vnode.open(caller, OpenFlags::READ).map(|_| "open".into()),
        _ => {
            vnode.open_directory(caller)?;
            list(vnode).map(|names| names.len().to_string())
        }
    }
}

/// Whether file systems differ in which times it changes: for a rename that leaves a whiteout ext4 makes that first, so
/// that a failure leaves traces, as does a range that it cannot cut out; and an
/// attribute that stays as it was may still count as changed.
fn may_change_any_times(operation: &Operation, succeeded: bool) -> bool {
    match &operation.action {
        Action::Rename { mode: RenameMode::Whiteout | RenameMode::WhiteoutNoReplace, .. } | Action::Allocate { .. } => {
            !succeeded
        }
        Action::SetXattr { .. } => true,
        Action::RemoveXattr { name } => name.starts_with("system."),
        _ => false,
    }
}

/// The caller that changes data, killing privileges or not.
fn writer(caller: &Caller, kills: bool) -> Caller {
    let caller = caller.clone();
    if kills { caller.killing_privileges() } else { caller }
}

/// The kernel may protect other users' files from being linked, so the owner or the superuser does it.
fn linker(caller: &Caller, vnode: &VnodeRef) -> Result<Caller> {
    let owner = vnode.getattr(&superuser())?.uid;
    Ok(if owner == caller.uid { caller.clone() } else { superuser() })
}

/// The paths that an operation names, and their directories.
fn named_paths(operation: &Operation) -> Vec<Path> {
    let mut paths = vec![operation.path.clone()];
    match &operation.action {
        Action::Rename { to, .. } => paths.push(to.clone()),
        Action::Link { from } => paths.push(from.clone()),
        _ => {}
    }
    let parents: Vec<Path> =
        paths.iter().filter_map(|path| path.split_last()).map(|(_, parent)| parent.to_vec()).collect();
    paths.extend(parents);
    paths
}

fn superuser() -> Caller {
    Caller::with_groups(0, 0, &[], 0)
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

fn done((): ()) -> String {
    "done".to_owned()
}

/// All that both sides must have in common: no inode numbers, space or times that were not set.
fn describe(attributes: &Result<Attributes>) -> String {
    let now = match attributes {
        Ok(now) => now,
        Err(errno) => return format!("{errno:?}"),
    };
    let size = if now.is_directory() { 0 } else { now.size };
    let mtime = if now.mtime.seconds < SET_TIME_MAX && !now.is_directory() {
        format!(" mtime {:?}", now.mtime)
    } else {
        String::new()
    };
    let mode = if has_ambiguous_setgid(now) { now.mode & !S_ISGID } else { now.mode };
    let Attributes { kind, nlink, uid, gid, rdev, .. } = now;
    format!("{kind:?} {mode:o} nlink {nlink} ids {uid} {gid} device {}:{} size {size}{mtime}", rdev.major, rdev.minor)
}

/// Whether it is a file with the set-group-id bit that its group does not execute.
fn has_ambiguous_setgid(now: &Attributes) -> bool {
    now.kind == FileKind::Regular && now.mode & (S_ISGID | S_IXGRP) == S_ISGID
}

/// The entries by name.
fn list(directory: &VnodeRef) -> Result<Vec<(Vec<u8>, Option<FileKind>)>> {
    let mut names = Vec::new();
    directory.open_directory(&superuser())?.read(&superuser(), Cookie::START, &mut |entry| {
        names.push((entry.name.as_bytes().to_vec(), entry.kind));
        ControlFlow::Continue(())
    })?;
    names.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(names)
}

fn contents(entry: &Entry) -> String {
    match entry.attributes.kind {
        FileKind::Regular => {
            let mut bytes = vec![0; entry.attributes.size as usize];
            let file = entry.vnode.open(&superuser(), OpenFlags::READ).expect("the superuser opens files");
            let read = file.read_at(&superuser(), 0, &mut bytes).expect("files can be read");
            format!("contents {:x}", digest(&bytes[..read]))
        }
        FileKind::Symlink => format!("target {:?}", entry.vnode.readlink(&superuser()).map(|target| target.len())),
        _ => String::new(),
    }
}

fn xattrs(vnode: &VnodeRef) -> String {
    let names = vnode.listxattr(&superuser()).expect("the superuser lists attributes");
    let mut names: Vec<&[u8]> = names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    let shown = names.iter().map(|name| {
        let value = vnode.getxattr(&superuser(), name);
        format!("{}={:x?}", String::from_utf8_lossy(name), value)
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn sorted_names(names: &[u8]) -> String {
    let mut names: Vec<_> = names.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    names.sort_unstable();
    names.join(" ")
}

/// FNV-1a, so that long contents are shown as one number.
fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

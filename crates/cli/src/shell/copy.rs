//! Commands that copy: cp within the stack, get out of it, put into it.
//!
//! The files of the machine form a stack of the directory base alone, so that one implementation serves all three.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use vnode::{
    Attributes, Caller, Creation, Errno, FileKind, LockOwner, Name, NameBuf, OpenFileRef, OpenFlags, SeekTarget,
    SetAttributes, SetTime,
};

use super::content::{CHUNK_BYTES, write_all};
use super::listing::join;
use super::naming::directory_at;
use super::session::{CommandError, Session, WithPath, split_options};
use plyfs::{CallerTree, ResolvedPath};

/// One invocation of a command that copies.
struct Copier {
    command: &'static str,
    from: CallerTree,
    to: CallerTree,
    recursive: bool,
    preserve: bool,
    /// The path of the root of `to` on the machine, for messages; empty for the stack.
    to_prefix: Vec<u8>,
}

/// `cp`
pub(crate) fn cp(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "rRp")?;
    let Some((target, sources)) = operands.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(CommandError::Usage);
    };
    let copier = Copier::new("cp", &letters, session.tree.clone(), session.tree.clone());
    let into = directory_at(session, target, sources.len())?;
    session.for_each_operand("cp", sources, |session, path| {
        let source = session.find(path, !copier.recursive)?;
        let (directory, name) = match &into {
            Some(directory) => (directory.clone(), name_of(&source, path)?),
            None => session.find_parent(target)?,
        };
        copier.copy(session, &source, path, &directory, name.as_name())
    })
}

/// `get`
pub(crate) fn get(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "rRp")?;
    let Some((target, sources)) = operands.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(CommandError::Usage);
    };
    let local = local_target(session, target, sources.len())?;
    let directory = local.tree.root();
    let copier = Copier::new("get", &letters, session.tree.clone(), local.tree);
    let copier = Copier { to_prefix: local.prefix, ..copier };
    session.for_each_operand("get", sources, |session, path| {
        let source = session.find(path, !copier.recursive)?;
        let name = match &local.name {
            Some(name) => name.clone(),
            None => name_of(&source, path)?,
        };
        copier.copy(session, &source, path, &directory, name.as_name())
    })
}

/// `put`
pub(crate) fn put(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "rRp")?;
    let Some((target, sources)) = operands.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(CommandError::Usage);
    };
    let into = directory_at(session, target, sources.len())?;
    session.for_each_operand("put", sources, |session, path| {
        let (local, source, name) = local_source(session, path)?;
        let (directory, name) = match &into {
            Some(directory) => (directory.clone(), name),
            None => session.find_parent(target)?,
        };
        let copier = Copier::new("put", &letters, local, session.tree.clone());
        copier.copy(session, &source, path, &directory, name.as_name())
    })
}

impl Copier {
    fn new(command: &'static str, letters: &[char], from: CallerTree, to: CallerTree) -> Self {
        let recursive = letters.contains(&'r') || letters.contains(&'R');
        Copier { command, from, to, recursive, preserve: letters.contains(&'p'), to_prefix: Vec::new() }
    }

    /// Returns the path for messages of a name in a directory of the target.
    fn target(&self, directory: &ResolvedPath, name: Name<'_>) -> Vec<u8> {
        let path = join(&directory.path(), name.as_bytes());
        [self.to_prefix.as_slice(), &path].concat()
    }

    /// Copies one object to a name in a directory. `path` is for messages.
    fn copy(
        &self,
        session: &mut Session<'_>,
        source: &ResolvedPath,
        path: &[u8],
        directory: &ResolvedPath,
        name: Name<'_>,
    ) -> Result<(), CommandError> {
        let attributes = self.from.attributes(source).with_path(path)?;
        let caller = &self.to.caller;
        match attributes.kind {
            FileKind::Directory if !self.recursive => {
                let path = String::from_utf8_lossy(path).into_owned();
                return Err(CommandError::Message(format!("{path} is a directory; copy it with -r")));
            }
            FileKind::Directory => return self.copy_directory(session, source, path, &attributes, directory, name),
            FileKind::Regular => self.copy_file(source, path, &attributes, directory, name)?,
            FileKind::Symlink => {
                let target = source.vnode().readlink(&self.from.caller).with_path(path)?;
                directory.vnode().symlink(caller, name, &target).with_path(&self.target(directory, name))?;
            }
            kind => {
                directory
                    .vnode()
                    .mknod(caller, name, kind, attributes.mode, attributes.rdev)
                    .with_path(&self.target(directory, name))?;
            }
        }
        let copied = self
            .to
            .find(directory, name.as_bytes(), attributes.kind != FileKind::Symlink)
            .with_path(&self.target(directory, name))?;
        self.finish(&copied, &attributes, &self.target(directory, name))
    }

    fn copy_directory(
        &self,
        session: &mut Session<'_>,
        source: &ResolvedPath,
        path: &[u8],
        attributes: &Attributes,
        directory: &ResolvedPath,
        name: Name<'_>,
    ) -> Result<(), CommandError> {
        let same_tree = std::sync::Arc::ptr_eq(self.from.file_system(), self.to.file_system());
        if same_tree && directory.is_within(source) {
            let path = String::from_utf8_lossy(path).into_owned();
            return Err(CommandError::Message(format!("{path} would be copied into itself; choose another target")));
        }
        // The list is complete before anything is created, and the new directory is writable whatever its final mode.
        let entries = self.from.list(source).with_path(path)?;
        match directory.vnode().mkdir(&self.to.caller, name, attributes.mode & 0o777 | 0o700) {
            Ok(_) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(CommandError::Path(self.target(directory, name), errno)),
        }
        let copied = self.to.child(directory, name).with_path(&self.target(directory, name))?;
        if copied.vnode().kind() != FileKind::Directory {
            return Err(CommandError::Path(self.target(directory, name), Errno::EEXIST));
        }
        let mut is_complete = true;
        for entry in entries {
            let here = join(path, entry.name.as_bytes());
            let child = self.from.child(source, entry.name.as_name()).with_path(&here);
            let done = child.and_then(|child| self.copy(session, &child, &here, &copied, entry.name.as_name()));
            if let Err(error) = done {
                session.report(self.command, &error);
                is_complete = false;
            }
        }
        if !self.preserve && attributes.mode & 0o700 != 0o700 {
            let mode = Some(attributes.mode & 0o777 & !self.to.caller.umask);
            let changes = SetAttributes { mode, ..SetAttributes::default() };
            copied.vnode().setattr(&self.to.caller, &changes).with_path(&self.target(directory, name))?;
        }
        self.finish(&copied, attributes, &self.target(directory, name))?;
        if is_complete { Ok(()) } else { Err(CommandError::Reported) }
    }

    fn copy_file(
        &self,
        source: &ResolvedPath,
        path: &[u8],
        attributes: &Attributes,
        directory: &ResolvedPath,
        name: Name<'_>,
    ) -> Result<(), CommandError> {
        let from = source.vnode().open(&self.from.caller, OpenFlags::READ).with_path(path)?;
        let caller = &self.to.caller;
        let to = match self.to.find(directory, name.as_bytes(), true) {
            Ok(old) => {
                let same_tree = std::sync::Arc::ptr_eq(self.from.file_system(), self.to.file_system());
                if same_tree && old.vnode().handle() == source.vnode().handle() {
                    let path = String::from_utf8_lossy(path).into_owned();
                    return Err(CommandError::Message(format!(
                        "{path} and its copy are the same file; choose another target"
                    )));
                }
                old.vnode()
                    .open(caller, OpenFlags::WRITE.with(OpenFlags::TRUNCATE))
                    .with_path(&self.target(directory, name))?
            }
            Err(Errno::ENOENT) => {
                let how = Creation { mode: attributes.mode & 0o777, flags: OpenFlags::WRITE };
                directory.vnode().create(caller, name, &how).with_path(&self.target(directory, name))?.file
            }
            Err(errno) => return Err(CommandError::Path(self.target(directory, name), errno)),
        };
        copy_data(caller, &from, &to).with_path(path)?;
        to.flush(caller, &LockOwner::Number(0)).with_path(&self.target(directory, name))
    }

    /// With -p, copies the owner as far as permitted, the mode and the times.
    fn finish(&self, copied: &ResolvedPath, attributes: &Attributes, target: &[u8]) -> Result<(), CommandError> {
        if !self.preserve {
            return Ok(());
        }
        let caller = &self.to.caller;
        let owner = SetAttributes { uid: Some(attributes.uid), gid: Some(attributes.gid), ..SetAttributes::default() };
        let owned = match copied.vnode().setattr(caller, &owner) {
            Ok(_) => true,
            Err(Errno::EPERM) => false,
            Err(errno) => return Err(CommandError::Path(target.to_vec(), errno)),
        };
        // Set-id bits refer to an owner: they are kept only together with the owner.
        let mode = if owned { attributes.mode } else { attributes.mode & 0o1777 };
        let changes = SetAttributes {
            mode: (attributes.kind != FileKind::Symlink).then_some(mode),
            atime: Some(SetTime::To(attributes.atime)),
            mtime: Some(SetTime::To(attributes.mtime)),
            ..SetAttributes::default()
        };
        copied.vnode().setattr(caller, &changes).with_path(target).map(drop)
    }
}

/// Copies all data and preserves holes.
fn copy_data(caller: &Caller, from: &OpenFileRef, to: &OpenFileRef) -> vnode::Result<()> {
    let mut buffer = Vec::new();
    let mut offset = 0;
    loop {
        let (start, end) = match from.seek(caller, offset, SeekTarget::Data) {
            Ok(start) => (start, from.seek(caller, start, SeekTarget::Hole).unwrap_or(u64::MAX)),
            Err(Errno::ENXIO) => break,
            Err(_) => (offset, u64::MAX),
        };
        offset = copy_segment(caller, from, to, start, end, &mut buffer)?;
        if offset < end {
            break;
        }
    }
    let size = from.getattr(caller)?.size;
    if to.getattr(caller)?.size < size { to.truncate(caller, size) } else { Ok(()) }
}

/// Copies from `start` to `end` or to the end of the file, and returns the offset reached.
fn copy_segment(
    caller: &Caller,
    from: &OpenFileRef,
    to: &OpenFileRef,
    start: u64,
    end: u64,
    buffer: &mut Vec<u8>,
) -> vnode::Result<u64> {
    let mut offset = start;
    // Within the file system as far as it can; with reads and writes from where it cannot.
    while offset < end {
        match from.copy_range(caller, offset, to, offset, (end - offset).min(1 << 30)) {
            Ok(0) | Err(_) => break,
            Ok(length) => offset += length,
        }
    }
    buffer.resize(CHUNK_BYTES, 0);
    while offset < end {
        let wanted = usize::try_from(end - offset).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        let length = vnode::read_fully(&**from, caller, offset, &mut buffer[..wanted])?;
        if length == 0 {
            break;
        }
        write_all(caller, to, offset, &buffer[..length])?;
        offset += length as u64;
    }
    Ok(offset)
}

/// Returns the name of a copy of the source in a directory.
fn name_of(source: &ResolvedPath, path: &[u8]) -> Result<NameBuf, CommandError> {
    let last = path.split(|byte| *byte == b'/').rfind(|component| !component.is_empty()).unwrap_or_default();
    match last {
        b"" | b"." | b".." => {
            let unnamed = || CommandError::Message("the root has no name; name what it is to be called".into());
            source.name().cloned().ok_or_else(unnamed)
        }
        name => NameBuf::new(name).with_path(path),
    }
}

/// Returns a file or directory of the machine, and the name that the command line gave for it.
fn local_source(session: &Session<'_>, path: &[u8]) -> Result<(CallerTree, ResolvedPath, NameBuf), CommandError> {
    let real = Path::new(OsStr::from_bytes(path)).canonicalize().map_err(Errno::from).with_path(path)?;
    let given = path.split(|byte| *byte == b'/').rfind(|component| !matches!(*component, b"" | b"." | b".."));
    let name = given.or_else(|| real.file_name().map(OsStr::as_bytes)).unwrap_or_default();
    let name = NameBuf::new(name).with_path(path)?;
    if real.is_dir() {
        let tree = local_tree(session, &real)?;
        let root = tree.root();
        return Ok((tree, root, name));
    }
    let (parent, last) = parent_and_name(&real).with_path(path)?;
    let tree = local_tree(session, &parent)?;
    let source = tree.find(&tree.root(), last.as_bytes(), false).with_path(path)?;
    Ok((tree, source, name))
}

/// The target of copies on the machine.
struct LocalTarget {
    /// The tree whose root is the directory.
    tree: CallerTree,
    /// The new name, if one was given.
    name: Option<NameBuf>,
    /// Path of the directory, the prefix of paths in the tree.
    prefix: Vec<u8>,
}

fn local_target(session: &Session<'_>, path: &[u8], sources: usize) -> Result<LocalTarget, CommandError> {
    let given = Path::new(OsStr::from_bytes(path));
    let (directory, name) = match given.canonicalize() {
        Ok(real) if real.is_dir() => (real, None),
        _ if sources > 1 => return Err(CommandError::Path(path.to_vec(), Errno::ENOTDIR)),
        Ok(real) => parent_and_name(&real).map(|(parent, name)| (parent, Some(name))).with_path(path)?,
        Err(_) => {
            let (parent, name) = parent_and_name(given).with_path(path)?;
            let parent = if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent };
            (parent.canonicalize().map_err(Errno::from).with_path(path)?, Some(name))
        }
    };
    let prefix = directory.as_os_str().as_bytes();
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix).to_vec();
    Ok(LocalTarget { tree: local_tree(session, &directory)?, name, prefix })
}

fn parent_and_name(path: &Path) -> vnode::Result<(PathBuf, NameBuf)> {
    let name = path.file_name().ok_or(Errno::EINVAL)?;
    Ok((path.parent().unwrap_or(Path::new("")).to_owned(), NameBuf::new(name.as_bytes())?))
}

fn local_tree(session: &Session<'_>, directory: &Path) -> Result<CallerTree, CommandError> {
    let file_system = stack::build_directory(directory).map_err(|error| CommandError::Message(error.to_string()))?;
    Ok(CallerTree::new(file_system, session.caller().clone()))
}

//! What the tests of the union share: scenes of branches in memory, and short ways to look into them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use plyfs_layers::{Branch, BranchMode, BranchOpener};
use vnode::{Caller, Control, ControlError, Creation, Errno, FileSystemRef, Name, OpenFlags, Result, VnodeRef};

use super::memory;

/// Branches in memory and the union of them.
pub(crate) struct Scene {
    pub branches: Vec<FileSystemRef>,
    pub union: FileSystemRef,
    offered: Arc<Mutex<HashMap<String, FileSystemRef>>>,
}

impl Scene {
    /// Has the union know a branch that it can be told to add.
    pub(crate) fn offer(&self, label: &str, branch: &FileSystemRef) {
        self.offered.lock().unwrap().insert(label.to_owned(), branch.clone());
    }

    /// Sends the union a command.
    pub(crate) fn tell(&self, command: &str, arguments: &[(&str, &str)]) -> std::result::Result<String, ControlError> {
        let arguments = arguments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.union.control(&Control { target: "union".to_owned(), command: command.to_owned(), arguments })
    }
}

/// Opens what was offered, written as `LABEL=MODE`.
fn opener(offered: &Arc<Mutex<HashMap<String, FileSystemRef>>>) -> BranchOpener {
    let offered = offered.clone();
    Arc::new(move |text: &str| {
        let (label, mode) = text.rsplit_once('=').unwrap_or((text, ""));
        let mode = [BranchMode::ReadWrite, BranchMode::ReadOnly].into_iter().find(|known| known.to_string() == mode);
        let file_system = offered.lock().unwrap().get(label).cloned().ok_or_else(|| format!("no {label}"))?;
        Ok(Branch { file_system, mode, label: label.to_owned(), minimum_free: None })
    })
}

pub(crate) fn server() -> Caller {
    Caller::server()
}

pub(crate) fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

/// A union of branches with these modes, each filled beforehand with these paths; a path that ends with a slash is a
/// directory, and any other a file that holds its branch's number and its path.
pub(crate) fn scene(branches: &[(BranchMode, &[&str])]) -> Scene {
    let filled = branches.iter().enumerate().map(|(index, (mode, paths))| {
        let branch = memory();
        for path in *paths {
            fill(&branch, index, path);
        }
        (*mode, branch)
    });
    joined(filled.collect())
}

/// A union of these branches.
pub(crate) fn joined(branches: Vec<(BranchMode, FileSystemRef)>) -> Scene {
    joined_with(&[], branches)
}

/// The same with options.
pub(crate) fn joined_with(options: &[(&str, &str)], branches: Vec<(BranchMode, FileSystemRef)>) -> Scene {
    let options: Vec<_> = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let offered = Arc::default();
    let named = |(index, (mode, branch)): (usize, &(BranchMode, FileSystemRef))| Branch {
        file_system: branch.clone(),
        mode: Some(*mode),
        label: format!("branch {index}"),
        minimum_free: None,
    };
    let named = branches.iter().enumerate().map(named).collect();
    let union = plyfs_layers::kind("union").unwrap().join(&options, named, Some(opener(&offered))).unwrap();
    Scene { branches: branches.into_iter().map(|(_, branch)| branch).collect(), union, offered }
}

pub(crate) fn fill(branch: &FileSystemRef, index: usize, path: &str) {
    let mut directory = branch.root();
    let parts: Vec<&str> = path.split('/').collect();
    let (last, above) = parts.split_last().unwrap();
    for part in above {
        directory = match directory.mkdir(&server(), name(part), 0o755) {
            Ok(entry) => entry.vnode,
            Err(Errno::EEXIST) => directory.lookup(&server(), name(part)).unwrap().vnode,
            Err(error) => panic!("{path}: {error}"),
        };
    }
    if !last.is_empty() {
        write(&directory, last, format!("{index}:{path}").as_bytes());
    }
}

pub(crate) fn write(directory: &VnodeRef, file: &str, data: &[u8]) {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    let created = directory.create(&server(), name(file), &how).unwrap();
    created.file.write_at(&server(), 0, data).unwrap();
}

pub(crate) fn at(file_system: &FileSystemRef, path: &str) -> Result<VnodeRef> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.into_iter().try_fold(file_system.root(), |node, part| Ok(node.lookup(&server(), name(part))?.vnode))
}

pub(crate) fn read(file_system: &FileSystemRef, path: &str) -> Result<String> {
    let file = at(file_system, path)?.open(&server(), OpenFlags::READ)?;
    let mut buffer = [0; 100];
    let length = file.read_at(&server(), 0, &mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// The names in a directory, sorted.
pub(crate) fn list(file_system: &FileSystemRef, path: &str) -> Vec<String> {
    super::list(&at(file_system, path).unwrap(), &server())
}

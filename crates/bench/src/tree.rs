//! A directory tree held in memory: written out any number of times, and walked with individual system calls.
use std::collections::HashSet;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, openat, statat, unlinkat};

/// The directories, each before its contents, and the files with their contents.
pub(crate) struct Tree {
    directories: Vec<PathBuf>,
    files: Vec<(PathBuf, u32, Vec<u8>)>,
}

/// The distribution of a tree over several branches, as in the Unionfs paper.
#[derive(Clone, Copy)]
pub(crate) enum TreeLayout {
    /// DIST: each object is in one branch, in rotation, with the parent directories that it needs there.
    Distributed,
    /// DUP: everything is in every branch.
    Duplicated,
}

/// Paths of copies, relative to the directory that they were written to, in the form that system calls need.
pub(crate) struct Paths {
    /// The directories, each before its contents.
    pub directories: Vec<CString>,
    /// All other objects.
    pub files: Vec<CString>,
}

impl Tree {
    /// Reads the regular files and directories below a directory.
    pub(crate) fn read(top: &Path) -> Result<Self> {
        let mut tree = Self { directories: vec![PathBuf::new()], files: Vec::new() };
        let mut next = 0;
        while let Some(directory) = tree.directories.get(next).cloned() {
            next += 1;
            for entry in fs::read_dir(top.join(&directory))? {
                let entry = entry?;
                let (path, kind) = (directory.join(entry.file_name()), entry.file_type()?);
                if kind.is_dir() {
                    tree.directories.push(path);
                } else if kind.is_file() {
                    let mode = entry.metadata()?.permissions().mode();
                    tree.files.push((path, mode, fs::read(entry.path())?));
                }
            }
        }
        Ok(tree)
    }

    /// Writes that many copies to the branches.
    pub(crate) fn write_copies(&self, branches: &[PathBuf], copies: u32, layout: TreeLayout) -> Result<Paths> {
        let mut paths = Paths { directories: Vec::new(), files: Vec::new() };
        let mut branches: Vec<_> = branches.iter().map(|top| Branch { top, created: HashSet::new() }).collect();
        let mut turn = (0..branches.len()).cycle();
        for copy in 0..copies {
            let name = PathBuf::from(format!("copy{copy:02}"));
            for directory in &self.directories {
                let relative = name.join(directory);
                for branch in layout.target_branches(&mut branches, &mut turn) {
                    branch.make_directory(&relative)?;
                }
                paths.directories.push(to_c_string(&relative)?);
            }
            for (file, mode, contents) in &self.files {
                let relative = name.join(file);
                for branch in layout.target_branches(&mut branches, &mut turn) {
                    branch.write(&relative, *mode, contents)?;
                }
                paths.files.push(to_c_string(&relative)?);
            }
        }
        Ok(paths)
    }
}

impl TreeLayout {
    /// Returns the branches that get the next object.
    fn target_branches<'a, 'b>(
        self,
        branches: &'a mut [Branch<'b>],
        turn: &mut impl Iterator<Item = usize>,
    ) -> &'a mut [Branch<'b>] {
        match self {
            Self::Distributed => {
                let next = turn.next().expect("a cycle does not end");
                &mut branches[next..=next]
            }
            Self::Duplicated => branches,
        }
    }
}

/// A branch that a tree is written to, and the directories that it already has.
struct Branch<'a> {
    top: &'a Path,
    created: HashSet<PathBuf>,
}

impl Branch<'_> {
    fn make_directory(&mut self, relative: &Path) -> Result<()> {
        if relative.as_os_str().is_empty() || self.created.contains(relative) {
            return Ok(());
        }
        self.make_directory(relative.parent().unwrap_or(Path::new("")))?;
        fs::create_dir(self.top.join(relative))?;
        self.created.insert(relative.to_owned());
        Ok(())
    }

    fn write(&mut self, relative: &Path, mode: u32, contents: &[u8]) -> Result<()> {
        self.make_directory(relative.parent().unwrap_or(Path::new("")))?;
        let path = self.top.join(relative);
        fs::write(&path, contents)?;
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
    }
}

impl Paths {
    /// Queries the attributes of everything, by path.
    pub(crate) fn stat(&self, below: impl AsFd) -> Result<()> {
        for directory in &self.directories {
            if FileType::from_raw_mode(statat(&below, directory, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
                != FileType::Directory
            {
                bail!("{} is no directory", directory.to_string_lossy());
            }
        }
        for file in &self.files {
            if FileType::from_raw_mode(statat(&below, file, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
                != FileType::RegularFile
            {
                bail!("{} is no file", file.to_string_lossy());
            }
        }
        Ok(())
    }

    /// Removes everything, by path.
    pub(crate) fn unlink(&self, below: impl AsFd) -> Result<()> {
        for file in &self.files {
            unlinkat(&below, file, AtFlags::empty())?;
        }
        for directory in self.directories.iter().rev() {
            unlinkat(&below, directory, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }

    /// Returns the number of objects.
    pub(crate) fn count(&self) -> u64 {
        (self.directories.len() + self.files.len()) as u64
    }
}

/// Opens a directory as the base of relative paths.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .with_context(|| format!("cannot open {}", path.display()))
}

/// Lists a directory and everything below it, and returns the number of entries. With `stat`, queries the attributes of each.
pub(crate) fn walk(directory: impl AsFd, stat: bool) -> Result<u64> {
    let mut space = Vec::with_capacity(64 << 10);
    let mut below = Vec::new();
    let mut count = 0;
    let mut entries = RawDir::new(directory.as_fd(), space.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        count += 1;
        if stat {
            statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if entry.file_type() == FileType::Directory {
            below.push(name.to_owned());
        }
    }
    for name in below {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        count += walk(openat(directory.as_fd(), &name, flags, Mode::empty())?, stat)?;
    }
    Ok(count)
}

fn to_c_string(path: &Path) -> Result<CString> {
    // The name of a copy's top has a trailing slash, because nothing is joined to it.
    let bytes = path.as_os_str().as_bytes();
    Ok(CString::new(bytes.strip_suffix(b"/").unwrap_or(bytes))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: usize = 5;
    const BRANCHES: usize = 3;
    const COPIES: u32 = 2;

    /// Returns for each number a branch, and which of the paths exist there.
    fn written(layout: TreeLayout) -> (Vec<Vec<bool>>, Paths) {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let branches: Vec<_> = (0..BRANCHES).map(|number| scratch.path().join(number.to_string())).collect();
        branches.iter().for_each(|branch| fs::create_dir(branch).expect("a branch"));
        let files = (0..FILES).map(|number| (PathBuf::from(format!("d/{number}")), 0o644, vec![1])).collect();
        let tree = Tree { directories: vec![PathBuf::new(), PathBuf::from("d")], files };
        let paths = tree.write_copies(&branches, COPIES, layout).expect("it can be written");
        let is_in = |branch: &PathBuf| {
            let exists = |path: &CString| branch.join(path.to_str().expect("ASCII")).is_file();
            paths.files.iter().map(exists).collect()
        };
        (branches.iter().map(is_in).collect(), paths)
    }

    #[test]
    fn distributed_files_are_in_one_branch_each_and_evenly() {
        let (branches, paths) = written(TreeLayout::Distributed);
        assert_eq!(paths.count(), (FILES as u64 + 2) * u64::from(COPIES));
        for number in 0..paths.files.len() {
            assert_eq!(branches.iter().filter(|files| files[number]).count(), 1, "{:?}", paths.files[number]);
        }
        let counts: Vec<_> = branches.iter().map(|files| files.iter().filter(|there| **there).count()).collect();
        assert!(counts.iter().max() <= counts.iter().min().map(|least| least + COPIES as usize).as_ref(), "{counts:?}");
    }

    #[test]
    fn duplicated_files_are_in_every_branch() {
        let (branches, _) = written(TreeLayout::Duplicated);
        assert!(branches.iter().flatten().all(|there| *there));
    }
}

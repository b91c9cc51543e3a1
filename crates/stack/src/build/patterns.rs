//! Branches whose paths are glob patterns, such as `/mnt/disk*=rw`: each directory that matches is a branch of its own.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use globset::{Glob, GlobMatcher};
use layers::{BranchScan, BranchSource, PatternMatch, PatternMatches};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::process::geteuid;

use crate::syntax::{Branch, BranchTree, Spanned};

/// A branch whose path is a pattern.
#[derive(Clone, Debug)]
pub(crate) struct BranchPattern {
    /// The branch as written.
    branch: Branch,
    components: Vec<PathComponent>,
    /// Paths of branches that are written out beside it: they are branches already, with modes of their own.
    written: HashSet<OsString>,
}

/// One component of a path.
#[derive(Clone, Debug)]
enum PathComponent {
    /// A name, or the root.
    Literal(OsString),
    /// A pattern for one name, and whether it matches names that begin with a dot.
    Pattern(GlobMatcher, bool),
}

/// Source of the branches that a running stack adds: those that others write, and new matches of its patterns.
pub(crate) struct RunningBranches<F> {
    open: F,
    patterns: Vec<BranchPattern>,
    /// Labels of all branches that have ever matched.
    matched: Mutex<BTreeSet<String>>,
    /// The matches of the last scan, as written.
    scanned: Mutex<HashSet<String>>,
}

/// Returns the branches of a source, with the matches of each pattern in its place, and the patterns. A pattern without a match
/// stays, so that it is reported as a missing directory.
pub(crate) fn expand(source: &[Spanned<Branch>]) -> (Vec<Branch>, Vec<BranchPattern>) {
    let (mut branches, mut patterns) = (Vec::with_capacity(source.len()), Vec::new());
    for branch in source {
        let pattern = BranchPattern::of(&branch.value, source);
        match pattern.as_ref().map(BranchPattern::branches) {
            Some(matches) if !matches.is_empty() => branches.extend(matches),
            _ => branches.push(branch.value.clone()),
        }
        patterns.extend(pattern);
    }
    (branches, patterns)
}

impl BranchPattern {
    /// Returns the pattern that a branch is; `None` for any other branch. A path that exists as it is written is no pattern.
    fn of(branch: &Branch, source: &[Spanned<Branch>]) -> Option<Self> {
        let path = plain_path(branch)?;
        let components = components(path)?;
        let written = source.iter().filter_map(|other| plain_path(&other.value));
        let written = written.map(|path| path.as_os_str().to_owned()).collect();
        Some(Self { branch: branch.clone(), components, written })
    }

    /// Returns the branches that match at present, sorted by their paths.
    fn branches(&self) -> Vec<Branch> {
        let is_followed = |path: &PathBuf| match self.resolve(path) {
            Ok(_) => true,
            Err(reason) => {
                tracing::warn!("a match is left out: {reason}");
                false
            }
        };
        let mut paths = matching_directories(&self.components);
        paths.retain(|path| !self.written.contains(path.as_os_str()) && is_followed(path));
        paths.into_iter().map(|path| self.branch_at(path)).collect()
    }

    /// Returns whether the path has the form of the pattern, and is not written out.
    fn covers(&self, path: &Path) -> bool {
        let names: Vec<&OsStr> = path.components().map(Component::as_os_str).collect();
        !self.written.contains(path.as_os_str())
            && names.len() == self.components.len()
            && self.components.iter().zip(names).all(|(component, name)| component.covers(name))
    }

    /// Finds what a path of this form leads to. Each symlink from the first name on that is not written out is read as the one whose
    /// owner was checked, so that nobody can replace it meanwhile.
    ///
    /// # Errors
    /// A message, if one of them does not belong to the user of this process or to root: it may lead to what its owner has no access
    /// to; or that of the system call.
    fn resolve(&self, path: &Path) -> Result<OwnedFd, String> {
        let failed = |error: rustix::io::Errno| format!("{}: {error}", path.display());
        let open = |at: BorrowedFd<'_>, name: &OsStr, flags| openat(at, name, OFlags::PATH | flags, Mode::empty());
        let first = self.components.iter().position(|component| matches!(component, PathComponent::Pattern(..)));
        let mut reached = open(CWD, OsStr::new("."), OFlags::CLOEXEC).map_err(failed)?;
        for (index, component) in path.components().enumerate() {
            let name = component.as_os_str();
            let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let mut found = open(reached.as_fd(), name, flags).map_err(failed)?;
            let status = fstat(&found).map_err(failed)?;
            if FileType::from_raw_mode(status.st_mode) == FileType::Symlink {
                let is_trusted = [0, geteuid().as_raw()].contains(&status.st_uid);
                if first.is_some_and(|first| index >= first) && !is_trusted {
                    return Err(format!(
                        "{} has the symlink {} of user {}, which a pattern does not follow; name the directory that it leads to",
                        path.display(),
                        name.display(),
                        status.st_uid
                    ));
                }
                let target = readlinkat(&found, "", Vec::new()).map_err(failed)?;
                found = open(reached.as_fd(), OsStr::from_bytes(target.to_bytes()), OFlags::CLOEXEC).map_err(failed)?;
            }
            reached = found;
        }
        Ok(reached)
    }

    fn branch_at(&self, path: PathBuf) -> Branch {
        let mut branch = self.branch.clone();
        if let BranchTree::Base(base) = &mut branch.tree {
            base.location.value = path.into_os_string();
        }
        branch
    }
}

/// Checks that a branch whose path has the form of one of the patterns was opened at what the path leads to: somebody who may change
/// what the pattern finds could have it lead elsewhere for a moment.
///
/// # Errors
/// A message, if it was opened elsewhere.
pub(crate) fn check_opened(patterns: &[BranchPattern], branch: &Branch, opened: &layers::Branch) -> Result<(), String> {
    let Some(path) = plain_path(branch) else { return Ok(()) };
    for pattern in patterns.iter().filter(|pattern| pattern.covers(path)) {
        let found = pattern.resolve(path)?;
        let status = fstat(&found).map_err(|error| format!("{}: {error}", path.display()))?;
        if opened.file_system.directory() != Some((status.st_dev, status.st_ino)) {
            return Err(format!("{} was replaced while it was opened", path.display()));
        }
    }
    Ok(())
}

impl PathComponent {
    /// Returns whether this is a component of the path that the pattern stands for.
    fn covers(&self, name: &OsStr) -> bool {
        match self {
            Self::Literal(literal) => literal == name,
            Self::Pattern(matcher, _) => matcher.is_match(name),
        }
    }

    /// Returns the paths in a directory, sorted, that this component matches.
    fn matches_in(&self, directory: &Path) -> Vec<PathBuf> {
        let (matcher, matches_hidden) = match self {
            Self::Literal(name) => return vec![directory.join(name)],
            Self::Pattern(matcher, matches_hidden) => (matcher, *matches_hidden),
        };
        // What cannot be read has no matches; a pattern without any is reported.
        let entries = fs::read_dir(if directory.as_os_str().is_empty() { Path::new(".") } else { directory });
        let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
        let mut names: Vec<OsString> = names
            .filter(|name| (matches_hidden || !name.as_bytes().starts_with(b".")) && matcher.is_match(name))
            .collect();
        names.sort();
        names.into_iter().map(|name| directory.join(name)).collect()
    }
}

impl<F: Fn(&str) -> Result<(Branch, layers::Branch), String> + Send + Sync> RunningBranches<F> {
    /// Returns the source for a stack that was built with the present matches of these patterns, and whose branches are opened by
    /// `open`.
    pub(crate) fn new(open: F, patterns: Vec<BranchPattern>) -> Self {
        let matched = patterns.iter().flat_map(BranchPattern::branches).map(|branch| label(&branch)).collect();
        Self { open, patterns, matched: Mutex::new(matched), scanned: Mutex::default() }
    }
}

impl<F: Fn(&str) -> Result<(Branch, layers::Branch), String> + Send + Sync> BranchSource for RunningBranches<F> {
    fn open(&self, text: &str) -> Result<layers::Branch, String> {
        let (branch, opened) = (self.open)(text)?;
        if self.scanned.lock().unwrap_or_else(PoisonError::into_inner).contains(text) {
            check_opened(&self.patterns, &branch, &opened)?;
        }
        Ok(opened)
    }

    fn scan(&self) -> BranchScan {
        let matched = |branch: Branch| PatternMatch { label: label(&branch), text: branch.to_string() };
        let matches = |pattern: &BranchPattern| PatternMatches {
            label: label(&pattern.branch),
            branches: pattern.branches().into_iter().map(matched).collect(),
        };
        let patterns: Vec<PatternMatches> = self.patterns.iter().map(matches).collect();
        let texts = patterns.iter().flat_map(|pattern| &pattern.branches).map(|branch| branch.text.clone());
        *self.scanned.lock().unwrap_or_else(PoisonError::into_inner) = texts.collect();
        let present: BTreeSet<String> =
            patterns.iter().flat_map(|pattern| &pattern.branches).map(|branch| branch.label.clone()).collect();
        let mut ever = self.matched.lock().unwrap_or_else(PoisonError::into_inner);
        let vanished = ever.difference(&present).cloned().collect();
        ever.extend(present);
        BranchScan { patterns, vanished }
    }
}

/// Returns the label of a branch: its expression, without a mode.
pub(crate) fn label(branch: &Branch) -> String {
    Branch { tree: branch.tree.clone(), mode: None, options: Vec::new() }.to_string()
}

/// Returns the path of a branch that is written as nothing but a path.
fn plain_path(branch: &Branch) -> Option<&Path> {
    match &branch.tree {
        BranchTree::Base(base) if base.kind.is_none() && base.arguments.is_empty() => {
            Some(Path::new(&base.location.value))
        }
        _ => None,
    }
}

/// Returns the directories that a plain path in an expression stands for: those that match it, if it is a pattern, or itself.
pub fn directories_at(path: &Path) -> Vec<PathBuf> {
    match components(path) {
        Some(components) => matching_directories(&components),
        None => vec![path.to_owned()],
    }
}

/// Returns the directories that match a pattern at present, sorted.
fn matching_directories(components: &[PathComponent]) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::new()];
    for component in components {
        paths = paths.iter().flat_map(|path| component.matches_in(path)).collect();
    }
    paths.retain(|path| path.is_dir());
    paths
}

/// Returns whether a path is a pattern, rather than that of something which exists.
pub(crate) fn is_pattern(path: &Path) -> bool {
    components(path).is_some()
}

/// Returns the components of a pattern; `None` for any other path.
fn components(path: &Path) -> Option<Vec<PathComponent>> {
    let has_wildcard = |name: &[u8]| name.iter().any(|byte| b"*?[{".contains(byte));
    if !has_wildcard(path.as_os_str().as_bytes()) || path.symlink_metadata().is_ok() {
        return None;
    }
    let component = |component: Component<'_>| match component {
        Component::Normal(name) if has_wildcard(name.as_bytes()) => {
            let glob = Glob::new(name.to_str()?).ok()?;
            Some(PathComponent::Pattern(glob.compile_matcher(), name.as_bytes().starts_with(b".")))
        }
        other => Some(PathComponent::Literal(other.as_os_str().to_owned())),
    };
    path.components().map(component).collect()
}

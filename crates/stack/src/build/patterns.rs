//! Branches whose paths are glob patterns, such as `/mnt/disk*=rw`: each directory that matches is a branch of its own.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use globset::{Glob, GlobMatcher};
use layers::{BranchScan, BranchSource, PatternMatch, PatternMatches};

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
        let paths = matching_directories(&self.components).into_iter();
        paths.filter(|path| !self.written.contains(path.as_os_str())).map(|path| self.branch_at(path)).collect()
    }

    fn branch_at(&self, path: PathBuf) -> Branch {
        let mut branch = self.branch.clone();
        if let BranchTree::Base(base) = &mut branch.tree {
            base.location.value = path.into_os_string();
        }
        branch
    }
}

impl PathComponent {
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

impl<F: Fn(&str) -> Result<layers::Branch, String> + Send + Sync> RunningBranches<F> {
    /// Returns the source for a stack that was built with the present matches of these patterns, and whose branches are opened by
    /// `open`.
    pub(crate) fn new(open: F, patterns: Vec<BranchPattern>) -> Self {
        let matched = patterns.iter().flat_map(BranchPattern::branches).map(|branch| label(&branch)).collect();
        Self { open, patterns, matched: Mutex::new(matched) }
    }
}

impl<F: Fn(&str) -> Result<layers::Branch, String> + Send + Sync> BranchSource for RunningBranches<F> {
    fn open(&self, text: &str) -> Result<layers::Branch, String> {
        (self.open)(text)
    }

    fn scan(&self) -> BranchScan {
        let matched = |branch: Branch| PatternMatch { label: label(&branch), text: branch.to_string() };
        let matches = |pattern: &BranchPattern| PatternMatches {
            label: label(&pattern.branch),
            branches: pattern.branches().into_iter().map(matched).collect(),
        };
        let patterns: Vec<PatternMatches> = self.patterns.iter().map(matches).collect();
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

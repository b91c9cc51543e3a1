//! Renames: which are possible, and who may make them.

use vnode::{Caller, Errno, FileKind, RenameMode, Result};

use super::permissions::{self, SEARCH, WRITE};
use super::protection::Protection;

/// The relation of the objects of a rename to the directories of its names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nesting {
    /// The source is the target's directory or one of the directories above it.
    pub(crate) source_contains_target: bool,
    /// The target is the source's directory or one of the directories above it.
    pub(crate) target_contains_source: bool,
}

/// An existing target of a rename.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) protection: &'a Protection,
    /// It is a directory with entries.
    pub(crate) has_entries: bool,
}

/// The objects of a rename, and its directories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rename<'a> {
    pub(crate) from: &'a Protection,
    /// `None` if it is the source's directory.
    pub(crate) to: Option<&'a Protection>,
    /// The target's directory has been removed.
    pub(crate) to_is_removed: bool,
    /// The target's directory has as many subdirectories as it can have.
    pub(crate) to_is_full: bool,
    pub(crate) source: &'a Protection,
    pub(crate) target: Option<Target<'a>>,
}

/// Checks that the names exist as the mode requires, and that no directory would become its own descendant.
///
/// # Errors
/// `EEXIST`, `ENOENT`, `EINVAL`, `ENOTEMPTY` as renameat2(2).
pub(crate) fn check_names(target_exists: bool, nesting: Nesting, mode: RenameMode) -> Result<()> {
    match mode {
        RenameMode::NoReplace | RenameMode::WhiteoutNoReplace if target_exists => return Err(Errno::EEXIST),
        RenameMode::Exchange if !target_exists => return Err(Errno::ENOENT),
        _ => {}
    }
    if nesting.source_contains_target {
        return Err(Errno::EINVAL);
    }
    if target_exists && nesting.target_contains_source {
        return Err(if mode == RenameMode::Exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
    }
    Ok(())
}

/// Checks the caller's permissions, and whether the objects can be renamed, in the order of Linux's checks.
///
/// # Errors
/// As renameat2(2).
pub(crate) fn check(rename: &Rename<'_>, caller: &Caller, mode: RenameMode) -> Result<()> {
    let source = rename.source;
    let is_directory = source.kind == FileKind::Directory;
    permissions::check_removal(rename.from, source, caller, is_directory)?;
    let exchanges = mode == RenameMode::Exchange;
    let to = rename.to.unwrap_or(rename.from);
    match &rename.target {
        None if rename.to_is_removed => return Err(Errno::ENOENT),
        None => permissions::check(to, caller, WRITE | SEARCH)?,
        Some(target) => {
            let target_is_directory = target.protection.kind == FileKind::Directory;
            let as_directory = if exchanges { target_is_directory } else { is_directory };
            permissions::check_removal(to, target.protection, caller, as_directory)?;
            if exchanges && target_is_directory && rename.to.is_some() {
                permissions::check(target.protection, caller, WRITE)?;
            }
        }
    }
    // The entry `..` of a directory changes with its parent.
    if is_directory && rename.to.is_some() {
        permissions::check(source, caller, WRITE)?;
        let replaces_directory =
            rename.target.as_ref().is_some_and(|target| target.protection.kind == FileKind::Directory);
        if !replaces_directory && rename.to_is_full {
            return Err(Errno::EMLINK);
        }
    }
    match &rename.target {
        Some(target) if !exchanges && target.has_entries => Err(Errno::ENOTEMPTY),
        _ => Ok(()),
    }
}

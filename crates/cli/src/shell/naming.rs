//! Commands for names: mv, mkdir, rm, rmdir, ln.

use vnode::{Errno, FileKind, Name, NameBuf, RenameMode};

use super::listing::join;
use super::session::{CommandError, Session, WithPath, split_options};
use plyfs::ResolvedPath;

/// `mv`
pub(crate) fn mv(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "n")?;
    let mode = if letters.contains(&'n') { RenameMode::NoReplace } else { RenameMode::Replace };
    let Some((target, sources)) = operands.split_last().filter(|(_, sources)| !sources.is_empty()) else {
        return Err(CommandError::Usage);
    };
    let into = directory_at(session, target, sources.len())?;
    session.for_each_operand("mv", sources, |session, path| {
        let (from, name) = session.find_parent(path)?;
        let (to, to_name) = match &into {
            Some(directory) => (directory.clone(), name.clone()),
            None => session.find_parent(target)?,
        };
        let renamed = from.vnode().rename(session.caller(), name.as_name(), to.vnode(), to_name.as_name(), mode);
        match renamed {
            Err(Errno::EEXIST) if mode == RenameMode::NoReplace => Ok(()),
            other => other.with_path(path),
        }
    })
}

/// `mkdir`
pub(crate) fn mkdir(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "p")?;
    if operands.is_empty() {
        return Err(CommandError::Usage);
    }
    session.for_each_operand("mkdir", &operands, |session, path| {
        if letters.contains(&'p') {
            return make_with_parents(session, path);
        }
        let (directory, name) = session.find_parent(path)?;
        directory.vnode().mkdir(session.caller(), name.as_name(), 0o777).with_path(path).map(drop)
    })
}

fn make_with_parents(session: &Session<'_>, path: &[u8]) -> Result<(), CommandError> {
    let ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        let part = &path[..end];
        match session.find(part, true) {
            Ok(object) if object.vnode().kind() == FileKind::Directory => continue,
            Ok(_) => return Err(CommandError::Path(part.to_vec(), Errno::EEXIST)),
            Err(CommandError::Path(_, Errno::ENOENT)) => {}
            Err(error) => return Err(error),
        }
        let (directory, name) = session.find_parent(part)?;
        match directory.vnode().mkdir(session.caller(), name.as_name(), 0o777) {
            // Another caller created it in the meantime; the next component shows whether it is a directory.
            Ok(_) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(CommandError::Path(part.to_vec(), errno)),
        }
    }
    Ok(())
}

/// `rm`
pub(crate) fn rm(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "rRf")?;
    let recursive = letters.contains(&'r') || letters.contains(&'R');
    let force = letters.contains(&'f');
    if operands.is_empty() && !force {
        return Err(CommandError::Usage);
    }
    session.for_each_operand("rm", &operands, |session, path| {
        let removed = session
            .find_parent(path)
            .and_then(|(directory, name)| remove(session, &directory, name.as_name(), path, recursive));
        match removed {
            Err(CommandError::Path(_, Errno::ENOENT)) if force => Ok(()),
            other => other,
        }
    })
}

/// Removes a name and, with `recursive`, everything below it. Reports what cannot be removed, and removes the rest.
fn remove(
    session: &mut Session<'_>,
    directory: &ResolvedPath,
    name: Name<'_>,
    path: &[u8],
    recursive: bool,
) -> Result<(), CommandError> {
    let child = session.tree.child(directory, name).with_path(path)?;
    if child.vnode().kind() != FileKind::Directory {
        return directory.vnode().unlink(session.caller(), name).with_path(path);
    }
    if !recursive {
        return Err(CommandError::Path(path.to_vec(), Errno::EISDIR));
    }
    let mut is_complete = true;
    for entry in session.tree.list(&child).with_path(path)? {
        let here = join(path, entry.name.as_bytes());
        if let Err(error) = remove(session, &child, entry.name.as_name(), &here, true) {
            session.report("rm", &error);
            is_complete = false;
        }
    }
    if !is_complete {
        return Err(CommandError::Reported);
    }
    directory.vnode().rmdir(session.caller(), name).with_path(path)
}

/// `rmdir`
pub(crate) fn rmdir(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    if words.is_empty() {
        return Err(CommandError::Usage);
    }
    session.for_each_operand("rmdir", words, |session, path| {
        let (directory, name) = session.find_parent(path)?;
        directory.vnode().rmdir(session.caller(), name.as_name()).with_path(path)
    })
}

/// `ln`
pub(crate) fn ln(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "s")?;
    let [target, path] = operands.as_slice() else { return Err(CommandError::Usage) };
    let (directory, name) = match directory_at(session, path, 1)? {
        Some(directory) => (directory, last_component(target).with_path(target)?),
        None => session.find_parent(path)?,
    };
    if letters.contains(&'s') {
        return directory.vnode().symlink(session.caller(), name.as_name(), target).with_path(path).map(drop);
    }
    // As in link(2) on Linux, the new name refers to the symlink itself.
    let target = session.find(target, false)?;
    directory.vnode().link(session.caller(), target.vnode(), name.as_name()).with_path(path).map(drop)
}

/// Returns the directory that `target` is, for a command that then creates objects in it. With several sources it must be a
/// directory.
pub(crate) fn directory_at(
    session: &Session<'_>,
    target: &[u8],
    sources: usize,
) -> Result<Option<ResolvedPath>, CommandError> {
    match session.find(target, true) {
        Ok(object) if object.vnode().kind() == FileKind::Directory => Ok(Some(object)),
        Ok(_) if sources > 1 => Err(CommandError::Path(target.to_vec(), Errno::ENOTDIR)),
        Err(error) if sources > 1 => Err(error),
        Ok(_) | Err(CommandError::Path(_, Errno::ENOENT)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn last_component(path: &[u8]) -> vnode::Result<NameBuf> {
    let last = path.split(|byte| *byte == b'/').rfind(|component| !component.is_empty());
    NameBuf::new(last.unwrap_or_default())
}

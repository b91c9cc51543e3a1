//! The lowest branch in which a rename may be made so that users see the expected result.

use vnode::{Caller, Errno, RenameMode, Result};

use super::endpoint::RenameEndpoint;
use crate::union::branch::whiteout;
use crate::union::lookup::search::SearchResult;
use crate::union::state::instance::{Instance, instances_from};

/// Lowest position at which the source may be so that no object of the target's name hides it.
pub(crate) fn lowest_position(target: RenameEndpoint<'_>, there: &SearchResult, mode: RenameMode) -> Result<usize> {
    let mut limit = usize::MAX;
    if let Some(member) = &there.whiteout {
        limit = target.position(member)?;
    }
    let Some(found) = &there.found else { return Ok(limit) };
    if mode == RenameMode::Exchange {
        return Ok(limit.min(target.position(&found.instances[0].member)?));
    }
    // An object that must not be changed there cannot be removed either, so it has to be hidden.
    let instances = target.directory.instances();
    for instance in instances_from(&instances, &found.instances[0].member).ok_or(Errno::ESTALE)? {
        let is_there = || match instance.vnode.lookup(&Caller::server(), target.stored) {
            Err(Errno::ENOENT) => Ok(false),
            result => result.map(|_| true),
        };
        if !target.may_change(&instance.member) && is_there()? {
            return Ok(limit.min(target.position(&instance.member)?));
        }
    }
    Ok(limit)
}

/// Lowest position with regard to what is below the visible object of the target's name, for a source at `position`: a whiteout
/// that would take effect, or an object that cannot be replaced. A directory there may be part of a moved one: then only an
/// object above it may have its name.
pub(crate) fn lowest_position_below(
    target: RenameEndpoint<'_>,
    there: &SearchResult,
    position: usize,
    is_directory: bool,
) -> Result<usize> {
    let Some(found) = &there.found else { return Ok(usize::MAX) };
    let seen = target.position(&found.instances[0].member)?;
    if position <= seen {
        return Ok(usize::MAX);
    }
    let instances = target.directory.instances();
    let from = instances_from(&instances, &found.instances[0].member).ok_or(Errno::ESTALE)?;
    // It has no effect beside that object, but would have once the object is replaced in a lower branch.
    if whiteout::has_whiteout_file(&from[0].vnode, target.stored)? {
        return Ok(seen);
    }
    for place in &from[1..] {
        let own = target.position(&place.member)?;
        if own <= position && whiteout::has_whiteout_file(&place.vnode, target.stored)? {
            return Ok(own);
        }
        let entry = match place.vnode.lookup(&Caller::server(), target.stored) {
            Ok(entry) => entry,
            Err(Errno::ENOENT) => continue,
            Err(error) => return Err(error),
        };
        if entry.attributes.is_directory() {
            let is_same = |instance: &Instance| instance.is_object(&place.member, &entry.vnode);
            if own <= position || !found.instances.iter().any(is_same) {
                return Ok(seen);
            }
        } else if own <= position && whiteout::is_whiteout_device(&entry)? {
            return Ok(own);
        } else if own <= position && is_directory {
            return Ok(seen);
        }
    }
    Ok(usize::MAX)
}

//! Renaming (Unionfs, section 3.6): in the branch that has the source, with whiteouts where objects of lower branches would
//! otherwise be revealed. A directory of several branches moves in one of them, and records where its lower part stays.

pub(crate) mod endpoint;
pub(crate) mod in_branch;
mod limit;
mod locks;
pub(crate) mod lower_part;
mod recovery;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{AccessMode, Caller, Errno, FileKind, Name, NameBuf, RenameMode, Result};

use crate::union::branch::branches::BranchMember;
use crate::union::branch::objects::sync_directory;
use crate::union::branch::verified::VerifiedOperations;
use crate::union::branch::whiteout;
use crate::union::copy_up::extent::DataExtent;
use crate::union::lookup::search::{LookupResult, SearchResult};
use crate::union::settings::DeletionPolicy;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation};
use endpoint::RenameEndpoint;
use in_branch::BranchRename;
use limit::{lowest_position, lowest_position_below};
use locks::RenameLocks;

/// Maximum number of attempts if the objects change meanwhile.
const MAX_ATTEMPTS: usize = 16;

impl Node {
    /// Renames the object of this name, like renameat2(2).
    pub(crate) fn rename_name(
        self: &Arc<Self>,
        caller: &Caller,
        name: Name<'_>,
        to: &Arc<Node>,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        self.require_directory()?;
        to.require_directory()?;
        let (mode, leaves_device) = match mode {
            RenameMode::Whiteout => (RenameMode::Replace, true),
            RenameMode::WhiteoutNoReplace => (RenameMode::NoReplace, true),
            mode => (mode, false),
        };
        let (stored, to_stored) = (whiteout::stored_name(name)?, whiteout::stored_name(to_name)?);
        let source = RenameEndpoint { directory: self, stored: Name::new(&stored)? };
        let target = RenameEndpoint { directory: to, stored: Name::new(&to_stored)? };
        let names = [source.stored, target.stored];
        for attempt in 1..=MAX_ATTEMPTS {
            let (node, member) = match self.prepare(caller, source, target, mode) {
                // Perhaps a directory has just been moved to where it cannot be in that branch, or a name is an object's own
                // now.
                Err(Errno::EXDEV | Errno::EAGAIN) if attempt < MAX_ATTEMPTS => continue,
                prepared => prepared?,
            };
            let _locks = RenameLocks::take(source, target, &names)?;
            let done = match mode {
                RenameMode::Exchange => exchange(caller, source, target, &member),
                _ if leaves_device => {
                    let device = member.work.make_user_device(caller)?;
                    let done = replace(caller, (source, target), &node, &member, mode, Some(&device));
                    // It has been moved into place, or is not needed.
                    member.work.discard(&device);
                    done
                }
                _ => replace(caller, (source, target), &node, &member, mode, None),
            };
            match done {
                Err(Errno::EAGAIN) => {}
                done => return done,
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Copies the objects to be renamed to one branch that may be changed and is not below the branch of what they replace.
    /// `EAGAIN` if one of the names has just become an object's own.
    fn prepare(
        self: &Arc<Self>,
        caller: &Caller,
        source: RenameEndpoint<'_>,
        target: RenameEndpoint<'_>,
        mode: RenameMode,
    ) -> Result<(Arc<Node>, Arc<BranchMember>)> {
        let (here, node) = source.search_node(caller)?;
        let (there, other) = target.search_node(caller)?;
        let node = node.ok_or(Errno::ENOENT)?;
        if mode == RenameMode::NoReplace && other.is_some() {
            return Err(Errno::EEXIST);
        }
        if mode == RenameMode::Exchange && other.is_none() {
            return Err(Errno::ENOENT);
        }
        [&here, &there]
            .into_iter()
            .filter_map(|search| search.found.as_ref())
            .try_for_each(LookupResult::check_movable)?;
        check_rename(caller, (source, &here, &node), (target, &there, other.as_ref()), mode)?;
        if source.prepare_name(caller, &here, Some(&node))? | target.prepare_name(caller, &there, other.as_ref())? {
            return Err(Errno::EAGAIN);
        }
        for object in [Some(source.directory), Some(target.directory), other.as_ref()].into_iter().flatten() {
            object.check_copyable(caller)?;
        }
        let mut limit = lowest_position(target, &there, mode)?;
        let member = loop {
            let mut member = movable_within(caller, &node, limit)?.member;
            if let (RenameMode::Exchange, Some(other)) = (mode, &other) {
                let within = source.position(&member)?;
                member = movable_within(caller, other, within)?.member;
                movable_within(caller, &node, source.position(&member)?)?;
            }
            let position = source.position(&member)?;
            if !source.directory.can_be_in(&member)? || !target.directory.can_be_in(&member)? {
                // It would be hidden there.
                limit = position.checked_sub(1).ok_or(Errno::EXDEV)?;
                continue;
            }
            limit = lowest_position_below(target, &there, position, node.kind == FileKind::Directory)?;
            if position <= limit {
                break member;
            }
        };
        node.record_data_path(caller)?;
        if let (RenameMode::Exchange, Some(other)) = (mode, &other) {
            other.record_data_path(caller)?;
        }
        source.directory.directory_for_change(caller, &member)?;
        target.directory.directory_for_change(caller, &member)?;
        Ok((node, member))
    }

    /// Returns whether this directory is in `other`, at any depth.
    fn is_below(self: &Arc<Self>, other: &Node) -> bool {
        let mut node = Arc::clone(self);
        while let NodeLocation::At(above) = node.location() {
            node = above.directory;
            if std::ptr::eq(&raw const *node, other) {
                return true;
            }
        }
        false
    }
}

/// Like [`Node::writable_within`], for an object that is to be moved.
///
/// # Errors
/// `EXDEV` for an object with several names, in a branch without hard links: programs then copy.
fn movable_within(caller: &Caller, node: &Arc<Node>, limit: usize) -> Result<Instance> {
    let writable = node.writable_within(caller, DataExtent::Nothing, limit);
    writable.map_err(|error| if error == Errno::EMLINK { Errno::EXDEV } else { error })
}

/// Checks, by reading only, that the caller may rename the objects, so that nothing is copied in vain. The branch makes the
/// final decision.
fn check_rename(
    caller: &Caller,
    (source, here, node): (RenameEndpoint<'_>, &SearchResult, &Arc<Node>),
    (target, there, other): (RenameEndpoint<'_>, &SearchResult, Option<&Arc<Node>>),
    mode: RenameMode,
) -> Result<()> {
    let objects = [Some(source.directory), Some(target.directory), Some(node), other];
    let is_same = other.is_some_and(|other| Arc::ptr_eq(other, node));
    let any = |is_so: &dyn Fn(&Node) -> bool| objects.into_iter().flatten().any(|object| is_so(object));
    if is_same || !any(&Node::would_be_copied) {
        return Ok(());
    }
    let is_asked = any(&|object| object.needs_check(caller));
    check_nesting(source, target, node, other, mode)?;
    for (endpoint, search) in [(source, here), (target, there)].into_iter().filter(|_| is_asked) {
        match &search.found {
            Some(found) => endpoint.directory.check_remove_name(caller, &found.attributes)?,
            None => endpoint.directory.check_change_names(caller)?,
        }
    }
    let replaced = other.filter(|_| mode != RenameMode::Exchange);
    replaced.map_or(Ok(()), |replaced| check_replacement(node, replaced))?;
    if is_asked && !Arc::ptr_eq(source.directory, target.directory) {
        let other = other.filter(|_| mode == RenameMode::Exchange);
        let is_directory = |node: &&Arc<Node>| node.kind == FileKind::Directory;
        // The directory's `..` entry changes.
        let mut moved = [Some(node), other].into_iter().flatten().filter(is_directory);
        moved.try_for_each(|directory| directory.check_access(caller, AccessMode::WRITE))?;
    }
    match replaced.filter(|replaced| replaced.kind == FileKind::Directory) {
        Some(replaced) => {
            let _names = replaced.read_guard();
            if replaced.is_visibly_empty()? { Ok(()) } else { Err(Errno::ENOTEMPTY) }
        }
        None => Ok(()),
    }
}

/// Refuses to move a directory into itself, and to replace a directory that contains what is moved: it is not empty, and its
/// lock comes before that of its contents.
fn check_nesting(
    source: RenameEndpoint<'_>,
    target: RenameEndpoint<'_>,
    node: &Arc<Node>,
    other: Option<&Arc<Node>>,
    mode: RenameMode,
) -> Result<()> {
    let is_above = |node: &Arc<Node>, endpoint: RenameEndpoint<'_>| {
        node.kind == FileKind::Directory && (Arc::ptr_eq(node, endpoint.directory) || endpoint.directory.is_below(node))
    };
    if is_above(node, target) {
        return Err(Errno::EINVAL);
    }
    match other {
        Some(other) if is_above(other, source) => {
            Err(if mode == RenameMode::Exchange { Errno::EINVAL } else { Errno::ENOTEMPTY })
        }
        _ => Ok(()),
    }
}

/// Puts the source in the place of the target, if any, and optionally a device in the place of the source. `EAGAIN` if they are
/// not as they were when prepared.
fn replace(
    caller: &Caller,
    (source, target): (RenameEndpoint<'_>, RenameEndpoint<'_>),
    node: &Arc<Node>,
    member: &Arc<BranchMember>,
    mode: RenameMode,
    device: Option<&NameBuf>,
) -> Result<()> {
    let found = source.search(caller)?.found.ok_or(Errno::ENOENT)?;
    let there = target.search(caller)?;
    let is_directory = node.kind == FileKind::Directory;
    let borrowed = |found: &LookupResult| found.is_copied_under_other_name;
    if borrowed(&found)
        || there.found.as_ref().is_some_and(borrowed)
        || !Arc::ptr_eq(&found.instances[0].member, member)
        || source.position(member)? > lowest_position(target, &there, mode)?
        || source.position(member)? > lowest_position_below(target, &there, source.position(member)?, is_directory)?
        || !Arc::ptr_eq(&source.directory.node_of(found.clone(), source.stored)?, node)
    {
        return Err(Errno::EAGAIN);
    }
    check_nesting(source, target, node, None, mode)?;
    let victim = match &there.found {
        Some(_) if mode == RenameMode::NoReplace => return Err(Errno::EEXIST),
        Some(victim) => Some(target.directory.node_of(victim.clone(), target.stored)?),
        None => None,
    };
    if victim.as_ref().is_some_and(|victim| Arc::ptr_eq(victim, node)) {
        // Two names of one file: a no-op.
        return Ok(());
    }
    check_nesting(source, target, node, victim.as_ref(), mode)?;
    let (from, to) = (source.directory_in(member)?, target.directory_in(member)?);
    source.directory.check_removal_permission(caller, &from, &found.attributes)?;
    if let Some(found) = &there.found {
        target.directory.check_removal_permission(caller, &to, &found.attributes)?;
    }
    if let Some(victim) = &victim {
        check_replacement(node, victim)?;
    }
    if is_directory && !Arc::ptr_eq(source.directory, target.directory) {
        // Its `..` entry changes.
        node.check_access(caller, AccessMode::WRITE)?;
    }
    let _emptiness = match &victim {
        Some(victim) if is_directory => Some(victim.write_guard()),
        _ => None,
    };
    if let Some(victim) = &victim
        && is_directory
        && !victim.is_visibly_empty()?
    {
        return Err(Errno::ENOTEMPTY);
    }
    // Between the rename and the creation of the device there is nothing at the name.
    let leaves_whiteout = device.is_some() || source.reveals_lower(member)?;
    if is_directory {
        prepare_directory(caller, target, node, member)?;
    }
    let rename = BranchRename { caller, source, target, from: &from, to: &to, member, device };
    if !is_directory && found.attributes.nlink > 1 {
        rename.remove_hidden_name(&found.instances[0].vnode)?;
    }
    let record = rename.run(found.instances[0].ino, there.found.as_ref(), leaves_whiteout)?;
    let mut is_removed = true;
    if let (Some(victim), Some(found)) = (&victim, &there.found) {
        is_removed = remove_lower(&rename, victim, found);
        victim.record_name_removed(target.directory, target.stored);
        victim.record_lost_name();
    }
    let left = rename.leave_device();
    match &record {
        Some(record) if is_removed && left.is_ok() => member.work.discard(record),
        Some(_) => node.union.schedule_recovery(member),
        None => {}
    }
    if leaves_whiteout && device.is_none() && !is_directory && node.union.settings.deletion == DeletionPolicy::All {
        rename.rename_lower_objects();
    }
    source.directory.touch_leftmost(member);
    target.directory.touch_leftmost(member);
    node.record_move((source.directory, source.stored), (target.directory, target.stored));
    left
}

/// Checks that a file replaces a file and a directory a directory.
fn check_replacement(node: &Node, victim: &Node) -> Result<()> {
    match (node.kind == FileKind::Directory, victim.kind == FileKind::Directory) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}

/// Prepares a directory to be found elsewhere with all its contents: a redirect to its lower part is stored, or, if it has
/// none, objects of lower branches at the new name are hidden.
fn prepare_directory(
    caller: &Caller,
    target: RenameEndpoint<'_>,
    node: &Arc<Node>,
    member: &BranchMember,
) -> Result<()> {
    let own = node.instance_in(member).ok_or(Errno::ESTALE)?;
    if node.instances().len() > 1 {
        let path = node.lower_path(member)?;
        whiteout::set_redirect(&Caller::server().at_expense_of(caller), &own, &path)
    } else if target.reveals_lower(member)? {
        whiteout::set_opaque(&own, node.union.settings.whiteouts)
    } else {
        Ok(())
    }
}

/// Removes the former target from the branch in which users saw it, if that is a lower one and may be changed: otherwise it is
/// hidden there. Returns whether nothing is left to do: a name that stays counts as a name of its file.
fn remove_lower(rename: &BranchRename<'_>, victim: &Node, found: &LookupResult) -> bool {
    let (target, member, own) = (rename.target, rename.member, &found.instances[0].member);
    let is_right = matches!((target.position(own), target.position(member)), (Ok(own), Ok(new)) if own > new);
    if !is_right {
        return true;
    }
    let is_file = found.kind() != FileKind::Directory;
    let is_to_go = is_file && target.directory.union.branches.may_change(own);
    // The rename is done, and what cannot be removed is invisible.
    let removed = if is_to_go { remove_in(rename, own) } else { Ok(false) };
    if !matches!(removed, Ok(true)) && victim.visible_attributes(found.attributes).nlink <= 1 {
        victim.is_hidden.store(true, Ordering::Relaxed);
    }
    removed.is_ok()
}

/// Removes the former target from a lower branch; returns whether it was there.
fn remove_in(rename: &BranchRename<'_>, own: &BranchMember) -> Result<bool> {
    let is_unordered = own.is_unordered_with(rename.member);
    if is_unordered {
        // The object that hides it is synchronized first.
        rename.sync_target()?;
    }
    let Some(directory) = rename.target.directory.instance_in(own) else { return Ok(false) };
    directory.unlink_verified(&Caller::server(), rename.target.stored)?;
    if is_unordered {
        sync_directory(&directory)?
    }
    Ok(true)
}

/// Exchanges two names. `EAGAIN` if they are not as they were when prepared.
fn exchange(
    caller: &Caller,
    source: RenameEndpoint<'_>,
    target: RenameEndpoint<'_>,
    member: &Arc<BranchMember>,
) -> Result<()> {
    let one = source.search(caller)?.found.ok_or(Errno::ENOENT)?;
    let other = target.search(caller)?.found.ok_or(Errno::ENOENT)?;
    if ![&one, &other]
        .iter()
        .all(|found| !found.is_copied_under_other_name && Arc::ptr_eq(&found.instances[0].member, member))
    {
        return Err(Errno::EAGAIN);
    }
    let one = source.directory.child(one, source.stored)?;
    let other = target.directory.child(other, target.stored)?;
    check_nesting(source, target, &one, Some(&other), RenameMode::Exchange)?;
    for (node, endpoint) in [(&one, target), (&other, source)] {
        if node.kind == FileKind::Directory {
            prepare_directory(caller, endpoint, node, member)?;
        }
    }
    let (from, to) = (source.directory_in(member)?, target.directory_in(member)?);
    from.rename_verified(caller, source.stored, &to, target.stored, RenameMode::Exchange)?;
    source.directory.touch_leftmost(member);
    target.directory.touch_leftmost(member);
    one.record_move((source.directory, source.stored), (target.directory, target.stored));
    other.record_move((target.directory, target.stored), (source.directory, source.stored));
    Ok(())
}

//! Renaming (Unionfs, section 3.6): in the branch that has the source, with whiteouts where something on the right would
//! come to light. A directory of several branches moves in one of them, and notes where the rest stays.

mod limit;
mod locks;
mod rest;
mod spot;
mod way;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{AccessMode, Caller, Errno, FileKind, Name, NameBuf, RenameMode, Result};

use super::branches::Member;
use super::copy_up::Extent;
use super::durable::sync_directory;
use super::lookup::{Found, Search};
use super::node::{Instance, Node, Whereabouts};
use super::settings::Deletion;
use super::whiteout;
use crate::union::sure::Sure;
use limit::{limit, limit_behind};
use locks::Locks;
use spot::Spot;
use way::Way;

/// How often what is renamed may change before we give up.
const ATTEMPTS: usize = 16;

impl Node {
    /// Renames what has this name, as renameat2(2).
    pub(super) fn rename_name(
        self: &Arc<Self>,
        caller: &Caller,
        name: Name<'_>,
        to: &Arc<Node>,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        self.only_directory()?;
        to.only_directory()?;
        let (mode, leaves_device) = match mode {
            RenameMode::Whiteout => (RenameMode::Replace, true),
            RenameMode::WhiteoutNoReplace => (RenameMode::NoReplace, true),
            mode => (mode, false),
        };
        let (stored, to_stored) = (whiteout::stored(name)?, whiteout::stored(to_name)?);
        let source = Spot { directory: self, stored: Name::new(&stored)? };
        let target = Spot { directory: to, stored: Name::new(&to_stored)? };
        let names = [source.stored, target.stored];
        for attempt in 1..=ATTEMPTS {
            let (node, member) = match self.prepare(caller, source, target, mode) {
                // Perhaps a directory has just been moved to where it cannot be in that branch, or a name is an object's own now.
                Err(Errno::EXDEV | Errno::EAGAIN) if attempt < ATTEMPTS => continue,
                prepared => prepared?,
            };
            let _locks = Locks::take(source, target, &names)?;
            let done = match mode {
                RenameMode::Exchange => exchange(caller, source, target, &member),
                _ if leaves_device => {
                    let device = member.work.make_users_device(caller)?;
                    let done = replace(caller, (source, target), &node, &member, mode, Some(&device));
                    // It has gone to its place, or is not needed.
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

    /// Brings what is renamed into one branch that may be changed, and is not on the right of what it replaces. `EAGAIN` if
    /// one of the names has just become an object's own.
    fn prepare(
        self: &Arc<Self>,
        caller: &Caller,
        source: Spot<'_>,
        target: Spot<'_>,
        mode: RenameMode,
    ) -> Result<(Arc<Node>, Arc<Member>)> {
        let (here, node) = source.look(caller)?;
        let (there, other) = target.look(caller)?;
        let node = node.ok_or(Errno::ENOENT)?;
        if mode == RenameMode::NoReplace && other.is_some() {
            return Err(Errno::EEXIST);
        }
        if mode == RenameMode::Exchange && other.is_none() {
            return Err(Errno::ENOENT);
        }
        [&here, &there].into_iter().filter_map(|search| search.found.as_ref()).try_for_each(Found::is_movable)?;
        may_rename(caller, (source, &here, &node), (target, &there, other.as_ref()), mode)?;
        if source.settle(caller, &here, Some(&node))? | target.settle(caller, &there, other.as_ref())? {
            return Err(Errno::EAGAIN);
        }
        for object in [Some(source.directory), Some(target.directory), other.as_ref()].into_iter().flatten() {
            object.may_be_copied(caller)?;
        }
        let mut limit = limit(target, &there, mode)?;
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
            limit = limit_behind(target, &there, position, node.kind == FileKind::Directory)?;
            if position <= limit {
                break member;
            }
        };
        node.note_path_of_data(caller)?;
        if let (RenameMode::Exchange, Some(other)) = (mode, &other) {
            other.note_path_of_data(caller)?;
        }
        source.directory.place_in(caller, &member)?;
        target.directory.place_in(caller, &member)?;
        Ok((node, member))
    }

    /// Whether this directory is in `other`, at any depth.
    fn is_below(self: &Arc<Self>, other: &Node) -> bool {
        let mut node = Arc::clone(self);
        while let Whereabouts::At(above) = node.whereabouts() {
            node = above.directory;
            if std::ptr::eq(&raw const *node, other) {
                return true;
            }
        }
        false
    }
}

/// As [`Node::writable_within`] of what is to be moved.
///
/// # Errors
/// `EXDEV` for what has several names, in a branch without hard links: then programs copy.
fn movable_within(caller: &Caller, node: &Arc<Node>, limit: usize) -> Result<Instance> {
    let writable = node.writable_within(caller, Extent::Nothing, limit);
    writable.map_err(|error| if error == Errno::EMLINK { Errno::EXDEV } else { error })
}

/// Whether the caller may rename what is there, so that nothing is copied for it; whatever is only read of it. The branch decides
/// then.
fn may_rename(
    caller: &Caller,
    (source, here, node): (Spot<'_>, &Search, &Arc<Node>),
    (target, there, other): (Spot<'_>, &Search, Option<&Arc<Node>>),
    mode: RenameMode,
) -> Result<()> {
    let objects = [Some(source.directory), Some(target.directory), Some(node), other];
    let is_same = other.is_some_and(|other| Arc::ptr_eq(other, node));
    let any = |is_so: &dyn Fn(&Node) -> bool| objects.into_iter().flatten().any(|object| is_so(object));
    if is_same || !any(&Node::would_be_copied) {
        return Ok(());
    }
    let is_asked = any(&|object| object.is_asked(caller));
    check_nesting(source, target, node, other, mode)?;
    for (spot, search) in [(source, here), (target, there)].into_iter().filter(|_| is_asked) {
        match &search.found {
            Some(found) => spot.directory.could_take_away(caller, &found.attributes)?,
            None => spot.directory.could_change_names(caller)?,
        }
    }
    let replaced = other.filter(|_| mode != RenameMode::Exchange);
    replaced.map_or(Ok(()), |replaced| check_replacement(node, replaced))?;
    if is_asked && !Arc::ptr_eq(source.directory, target.directory) {
        let other = other.filter(|_| mode == RenameMode::Exchange);
        let is_directory = |node: &&Arc<Node>| node.kind == FileKind::Directory;
        // The entry of a directory for the one above it changes.
        let mut moved = [Some(node), other].into_iter().flatten().filter(is_directory);
        moved.try_for_each(|directory| directory.may(caller, AccessMode::WRITE))?;
    }
    match replaced.filter(|replaced| replaced.kind == FileKind::Directory) {
        Some(replaced) => {
            let _names = replaced.shared();
            if replaced.shows_nothing()? { Ok(()) } else { Err(Errno::ENOTEMPTY) }
        }
        None => Ok(()),
    }
}

/// Refuses to move a directory into itself, and to replace one that has in it what is moved: that is not empty, and its lock comes
/// before that of what is in it.
fn check_nesting(
    source: Spot<'_>,
    target: Spot<'_>,
    node: &Arc<Node>,
    other: Option<&Arc<Node>>,
    mode: RenameMode,
) -> Result<()> {
    let is_above = |node: &Arc<Node>, spot: Spot<'_>| {
        node.kind == FileKind::Directory && (Arc::ptr_eq(node, spot.directory) || spot.directory.is_below(node))
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

/// Puts the source in the place of the target, if there is one, and perhaps a device in the place of the source. `EAGAIN` if they
/// are not as they were prepared.
fn replace(
    caller: &Caller,
    (source, target): (Spot<'_>, Spot<'_>),
    node: &Arc<Node>,
    member: &Arc<Member>,
    mode: RenameMode,
    device: Option<&NameBuf>,
) -> Result<()> {
    let found = source.search(caller)?.found.ok_or(Errno::ENOENT)?;
    let there = target.search(caller)?;
    let is_directory = node.kind == FileKind::Directory;
    let borrowed = |found: &Found| found.is_borrowed;
    if borrowed(&found)
        || there.found.as_ref().is_some_and(borrowed)
        || !Arc::ptr_eq(&found.instances[0].member, member)
        || source.position(member)? > limit(target, &there, mode)?
        || source.position(member)? > limit_behind(target, &there, source.position(member)?, is_directory)?
        || !Arc::ptr_eq(&source.directory.found_node(found.clone(), source.stored)?, node)
    {
        return Err(Errno::EAGAIN);
    }
    check_nesting(source, target, node, None, mode)?;
    let victim = match &there.found {
        Some(_) if mode == RenameMode::NoReplace => return Err(Errno::EEXIST),
        Some(victim) => Some(target.directory.found_node(victim.clone(), target.stored)?),
        None => None,
    };
    if victim.as_ref().is_some_and(|victim| Arc::ptr_eq(victim, node)) {
        // Two names of one file: nothing happens.
        return Ok(());
    }
    check_nesting(source, target, node, victim.as_ref(), mode)?;
    let (from, to) = (source.place(member)?, target.place(member)?);
    source.directory.may_remove(caller, &from, &found.attributes)?;
    if let Some(found) = &there.found {
        target.directory.may_remove(caller, &to, &found.attributes)?;
    }
    if let Some(victim) = &victim {
        check_replacement(node, victim)?;
    }
    if is_directory && !Arc::ptr_eq(source.directory, target.directory) {
        // Its entry for the directory above it changes.
        node.may(caller, AccessMode::WRITE)?;
    }
    let _emptiness = match &victim {
        Some(victim) if is_directory => Some(victim.alone()),
        _ => None,
    };
    if let Some(victim) = &victim
        && is_directory
        && !victim.shows_nothing()?
    {
        return Err(Errno::ENOTEMPTY);
    }
    // Between the rename and the device there is nothing at the name.
    let leaves_whiteout = device.is_some() || source.shows_more(member)?;
    if is_directory {
        prepare_directory(caller, target, node, member)?;
    }
    let way = Way { caller, source, target, from: &from, to: &to, member, device };
    if !is_directory && found.attributes.nlink > 1 {
        way.remove_hidden_name(&found.instances[0].vnode)?;
    }
    let record = way.go(found.instances[0].ino, there.found.as_ref(), leaves_whiteout)?;
    let mut is_removed = true;
    if let (Some(victim), Some(found)) = (&victim, &there.found) {
        is_removed = remove_on_the_right(&way, victim, found);
        victim.is_gone_from(target.directory, target.stored);
        victim.has_lost_a_name();
    }
    let left = way.leave_device();
    match &record {
        Some(record) if is_removed && left.is_ok() => member.work.discard(record),
        Some(_) => node.union.recover_again(member),
        None => {}
    }
    if leaves_whiteout && device.is_none() && !is_directory && node.union.settings.deletion == Deletion::All {
        way.take_others_along();
    }
    source.directory.was_changed_in(member);
    target.directory.was_changed_in(member);
    node.has_moved((source.directory, source.stored), (target.directory, target.stored));
    left
}

/// A file replaces a file and a directory a directory.
fn check_replacement(node: &Node, victim: &Node) -> Result<()> {
    match (node.kind == FileKind::Directory, victim.kind == FileKind::Directory) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}

/// Makes a directory ready to be found elsewhere with all that it has: the rest is noted, or there is none and what is on
/// the right by the new name is hidden.
fn prepare_directory(caller: &Caller, target: Spot<'_>, node: &Arc<Node>, member: &Member) -> Result<()> {
    let own = node.instance_in(member).ok_or(Errno::ESTALE)?;
    if node.instances().len() > 1 {
        let path = node.rest_path(member)?;
        whiteout::set_redirect(&Caller::server().at_expense_of(caller), &own, &path)
    } else if target.shows_more(member)? {
        whiteout::set_opaque(&own, node.union.settings.whiteouts)
    } else {
        Ok(())
    }
}

/// Removes what the target was in the branch that users saw it in, if that is on the right and may be changed: otherwise
/// it is hidden there. Whether nothing is left to be done: what stays counts among the names of its file.
fn remove_on_the_right(way: &Way<'_>, victim: &Node, found: &Found) -> bool {
    let (target, member, own) = (way.target, way.member, &found.instances[0].member);
    let is_right = matches!((target.position(own), target.position(member)), (Ok(own), Ok(new)) if own > new);
    if !is_right {
        return true;
    }
    let is_file = found.kind() != FileKind::Directory;
    let is_to_go = is_file && target.directory.union.branches.may_change(own);
    // The rename is done, and users see nothing of what cannot be removed.
    let removed = if is_to_go { remove_in(way, own) } else { Ok(false) };
    if !matches!(removed, Ok(true)) && victim.shown(found.attributes).nlink <= 1 {
        victim.is_hidden.store(true, Ordering::Relaxed);
    }
    removed.is_ok()
}

/// Removes what the target was in a branch on the right: whether it was there.
fn remove_in(way: &Way<'_>, own: &Member) -> Result<bool> {
    let is_apart = own.is_apart_from(way.member);
    if is_apart {
        // What hides it is on the disk first.
        way.sync_target()?;
    }
    let Some(place) = way.target.directory.instance_in(own) else { return Ok(false) };
    place.unlink_surely(&Caller::server(), way.target.stored)?;
    if is_apart {
        sync_directory(&place)?
    }
    Ok(true)
}

/// Lets two names change places. `EAGAIN` if they are not as they were prepared.
fn exchange(caller: &Caller, source: Spot<'_>, target: Spot<'_>, member: &Arc<Member>) -> Result<()> {
    let one = source.search(caller)?.found.ok_or(Errno::ENOENT)?;
    let other = target.search(caller)?.found.ok_or(Errno::ENOENT)?;
    if ![&one, &other].iter().all(|found| !found.is_borrowed && Arc::ptr_eq(&found.instances[0].member, member)) {
        return Err(Errno::EAGAIN);
    }
    let one = source.directory.child(one, source.stored)?;
    let other = target.directory.child(other, target.stored)?;
    check_nesting(source, target, &one, Some(&other), RenameMode::Exchange)?;
    for (node, spot) in [(&one, target), (&other, source)] {
        if node.kind == FileKind::Directory {
            prepare_directory(caller, spot, node, member)?;
        }
    }
    let (from, to) = (source.place(member)?, target.place(member)?);
    from.rename_surely(caller, source.stored, &to, target.stored, RenameMode::Exchange)?;
    source.directory.was_changed_in(member);
    target.directory.was_changed_in(member);
    one.has_moved((source.directory, source.stored), (target.directory, target.stored));
    other.has_moved((target.directory, target.stored), (source.directory, source.stored));
    Ok(())
}

//! Renaming (Unionfs, section 3.6): in the branch that has the source, with whiteouts where something on the right would
//! come to light. A directory of several branches moves in one of them, and notes where the rest stays.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use vnode::{AccessMode, Caller, Errno, FileKind, Name, NameBuf, RenameMode, Result, VnodeRef};

use super::branches::Member;
use super::copy_up::Extent;
use super::lookup::{Found, Search};
use super::node::{Alone, Instance, Node, Whereabouts};
use super::record::{self, Record};
use super::remove::within_reach;
use super::settings::Deletion;
use super::whiteout::Format;
use super::{Union, whiteout};

/// How often what is renamed may change before we give up.
const ATTEMPTS: usize = 16;

/// A name in a directory of the union.
#[derive(Clone, Copy)]
struct Spot<'a> {
    directory: &'a Arc<Node>,
    stored: Name<'a>,
}

impl Spot<'_> {
    fn search(&self, caller: &Caller) -> Result<Search> {
        self.directory.search(caller, self.stored)
    }

    /// What is there now, for a plan.
    fn look(&self, caller: &Caller) -> Result<(Search, Option<Arc<Node>>)> {
        self.directory.look(caller, self.stored)
    }

    /// Makes what is there ready to be moved or replaced: the name is its own, and is counted.
    fn settle(&self, caller: &Caller, search: &Search, node: Option<&Arc<Node>>) -> Result<()> {
        let (Some(found), Some(node)) = (&search.found, node) else { return Ok(()) };
        if found.is_borrowed {
            self.directory.settle(caller, found, node, self.stored)?;
        }
        self.directory.union.counts_names(caller, found, node).map(drop)
    }

    fn position(&self, member: &Member) -> Result<usize> {
        self.directory.union.branches.position(member).ok_or(Errno::ESTALE)
    }

    fn may_change(&self, member: &Member) -> bool {
        self.directory.union.branches.may_change(member)
    }

    /// The place in the union of one of the directory's instances.
    fn slot(&self, index: usize) -> Result<usize> {
        self.position(&self.directory.instances().get(index).ok_or(Errno::ESTALE)?.member)
    }

    /// The directory in the branches on the right of one.
    fn right_of(&self, member: &Member) -> Result<Vec<Instance>> {
        let own = self.position(member)?;
        let is_right = |place: &&Instance| self.position(&place.member).is_ok_and(|slot| slot > own);
        Ok(self.directory.instances().iter().filter(is_right).cloned().collect())
    }

    /// Whether there is something by that name on the right of a branch.
    fn shows_more(&self, member: &Member) -> Result<bool> {
        Ok(self.directory.union.search(&self.right_of(member)?, &Caller::server(), self.stored)?.found.is_some())
    }

    /// The directory in a branch, which has it.
    fn place(&self, member: &Member) -> Result<VnodeRef> {
        self.directory.instance_in(member).ok_or(Errno::ESTALE)
    }
}

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
        if matches!(mode, RenameMode::Whiteout | RenameMode::WhiteoutNoReplace) {
            return Err(Errno::EINVAL);
        }
        let (stored, to_stored) = (whiteout::stored(name)?, whiteout::stored(to_name)?);
        let source = Spot { directory: self, stored: Name::new(&stored)? };
        let target = Spot { directory: to, stored: Name::new(&to_stored)? };
        for attempt in 1..=ATTEMPTS {
            let (node, member) = match self.prepare(caller, source, target, mode) {
                // Perhaps a directory has just been moved to where it cannot be in that branch.
                Err(Errno::EXDEV) if attempt < ATTEMPTS => continue,
                prepared => prepared?,
            };
            let _locks = Locks::take(&self.union, self, to)?;
            let done = match mode {
                RenameMode::Exchange => exchange(caller, source, target, &member),
                _ => replace(caller, source, target, &node, &member, mode),
            };
            match done {
                Err(Errno::EAGAIN) => {}
                done => return done,
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Brings what is renamed into one branch that may be changed, and is not on the right of what it replaces.
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
        source.settle(caller, &here, Some(&node))?;
        target.settle(caller, &there, other.as_ref())?;
        let mut limit = limit(target, &there, mode)?;
        let member = loop {
            let mut member = node.writable_within(caller, Extent::Nothing, limit)?.member;
            if let (RenameMode::Exchange, Some(other)) = (mode, &other) {
                let within = source.position(&member)?;
                member = other.writable_within(caller, Extent::Nothing, within)?.member;
                node.writable_within(caller, Extent::Nothing, source.position(&member)?)?;
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
        node.note_path_of_data()?;
        if let (RenameMode::Exchange, Some(other)) = (mode, &other) {
            other.note_path_of_data()?;
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

    /// Notes of a directory of several branches where the others have it, so that a whiteout of its name hides nothing of
    /// it. A branch without extended attributes cannot.
    pub(super) fn keep_rest(self: &Arc<Self>, member: &Member) -> Result<()> {
        if self.instances().len() < 2 {
            return Ok(());
        }
        let own = self.instance_in(member).ok_or(Errno::ESTALE)?;
        match whiteout::set_redirect(&own, &self.rest_path(member)?) {
            Err(Errno::EXDEV) => Ok(()),
            result => result,
        }
    }

    /// Where the branches on the right of `member` have this directory: a path of names as they are there.
    pub(super) fn rest_path(self: &Arc<Self>, member: &Member) -> Result<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut node = Arc::clone(self);
        while let Whereabouts::At(above) = node.whereabouts() {
            names.push(above.stored.as_bytes().to_vec());
            node = above.directory;
        }
        names.reverse();
        let position = self.union.branches.position(member).ok_or(Errno::ESTALE)?;
        self.union.path_behind(self.union.roots(), &names.join(&b'/'), position)
    }
}

impl Union {
    /// Where the branches on the right of a position have the directory that is at a path from these roots.
    fn path_behind(&self, roots: Vec<Instance>, path: &[u8], position: usize) -> Result<Vec<u8>> {
        let mut places = roots;
        let mut behind = Vec::new();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let found = self.search(&places, &Caller::server(), Name::new(name)?)?.found.ok_or(Errno::ESTALE)?;
            match self.last_redirect(&found.instances, position)? {
                Some((instance, path)) if path.starts_with(b"/") => {
                    behind = self.path_behind(self.roots_right_of(&instance.member), &path, position)?;
                }
                Some((_, name)) => behind = [&behind[..], b"/", &name].concat(),
                None => behind = [&behind[..], b"/", name].concat(),
            }
            places = found.instances;
        }
        Ok(behind)
    }

    /// The rightmost of the instances, up to a position, that says where the rest is.
    fn last_redirect<'a>(&self, instances: &'a [Instance], position: usize) -> Result<Option<(&'a Instance, Vec<u8>)>> {
        for instance in instances.iter().rev() {
            if self.branches.position(&instance.member).is_some_and(|own| own <= position)
                && let Some(path) = whiteout::redirect(&instance.vnode)?
            {
                return Ok(Some((instance, path)));
            }
        }
        Ok(None)
    }
}

/// How far to the right the source may be so that nothing by the target's name hides it.
fn limit(target: Spot<'_>, there: &Search, mode: RenameMode) -> Result<usize> {
    let mut limit = usize::MAX;
    if let Some(index) = there.whiteout {
        limit = target.slot(index)?;
    }
    let Some(found) = &there.found else { return Ok(limit) };
    if mode == RenameMode::Exchange {
        return Ok(limit.min(target.position(&found.instances[0].member)?));
    }
    // What may not be changed there cannot be removed either, so it has to be hidden.
    for place in &target.directory.instances()[found.at..] {
        let is_there = || match place.vnode.lookup(&Caller::server(), target.stored) {
            Err(Errno::ENOENT) => Ok(false),
            result => result.map(|_| true),
        };
        if !target.may_change(&place.member) && is_there()? {
            return Ok(limit.min(target.position(&place.member)?));
        }
    }
    Ok(limit)
}

/// The same because of what is behind the object that users see by the target's name, for a source at `position`: a
/// whiteout that would come to light, or something that cannot be replaced. A directory there may be part of one that
/// was moved: then only what stays on the left of it may have its name.
fn limit_behind(target: Spot<'_>, there: &Search, position: usize, is_directory: bool) -> Result<usize> {
    let Some(found) = &there.found else { return Ok(usize::MAX) };
    let seen = target.position(&found.instances[0].member)?;
    if position <= seen {
        return Ok(usize::MAX);
    }
    let instances = target.directory.instances();
    for place in &instances[found.at + 1..] {
        let own = target.position(&place.member)?;
        if own <= position && whiteout::stands(&place.vnode, target.stored)? {
            return Ok(own);
        }
        let entry = match place.vnode.lookup(&Caller::server(), target.stored) {
            Ok(entry) => entry,
            Err(Errno::ENOENT) => continue,
            Err(error) => return Err(error),
        };
        if entry.attributes.is_directory() {
            let is_same = |instance: &Instance| instance.is(&place.member, &entry.vnode);
            if own <= position || !found.instances.iter().any(is_same) {
                return Ok(seen);
            }
        } else if own <= position && whiteout::is_device(&entry)? {
            return Ok(own);
        } else if own <= position && is_directory {
            return Ok(seen);
        }
    }
    Ok(usize::MAX)
}

/// Puts the source in the place of the target, if there is one. `EAGAIN` if they are not as they were prepared.
fn replace(
    caller: &Caller,
    source: Spot<'_>,
    target: Spot<'_>,
    node: &Arc<Node>,
    member: &Arc<Member>,
    mode: RenameMode,
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
        || !Arc::ptr_eq(&node.union.node(found.clone())?, node)
    {
        return Err(Errno::EAGAIN);
    }
    if is_directory && (Arc::ptr_eq(target.directory, node) || target.directory.is_below(node)) {
        return Err(Errno::EINVAL);
    }
    let victim = match &there.found {
        Some(_) if mode == RenameMode::NoReplace => return Err(Errno::EEXIST),
        Some(victim) => Some(node.union.node(victim.clone())?),
        None => None,
    };
    if victim.as_ref().is_some_and(|victim| Arc::ptr_eq(victim, node)) {
        // Two names of one file: nothing happens.
        return Ok(());
    }
    if let Some(victim) = &victim
        && (Arc::ptr_eq(source.directory, victim) || source.directory.is_below(victim))
    {
        // It is not empty, and its lock comes before that of what is in it.
        return Err(Errno::ENOTEMPTY);
    }
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
    let leaves_whiteout = source.shows_more(member)?;
    if is_directory {
        prepare_directory(target, node, member)?;
    }
    let way = Way { caller, source, target, from: &from, to: &to, member };
    let record = way.go(found.instances[0].ino, there.found.as_ref(), leaves_whiteout)?;
    if let (Some(victim), Some(found)) = (&victim, &there.found) {
        victim.is_gone_from(target.directory, target.stored);
        remove_on_the_right(target, member, victim, found);
        victim.has_lost_a_name();
    }
    record.iter().for_each(|record| member.work.discard(record));
    if leaves_whiteout && !is_directory && node.union.settings.deletion == Deletion::All {
        way.take_others_along();
    }
    source.directory.was_changed_in(member);
    target.directory.was_changed_in(member);
    node.is_at(target.directory, target.stored);
    Ok(())
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
fn prepare_directory(target: Spot<'_>, node: &Arc<Node>, member: &Member) -> Result<()> {
    let own = node.instance_in(member).ok_or(Errno::ESTALE)?;
    if node.instances().len() > 1 {
        let path = node.rest_path(member)?;
        whiteout::set_redirect(&own, &path)
    } else if target.shows_more(member)? {
        whiteout::set_opaque(&own, node.union.settings.whiteouts)
    } else {
        Ok(())
    }
}

/// A rename that was made.
struct Moved {
    /// What the target was on the left of it, nearest first.
    left: Vec<record::Spot>,
    /// Tells of that, and of what is on the right.
    record: Option<NameBuf>,
}

/// A rename in one branch.
struct Way<'a> {
    caller: &'a Caller,
    source: Spot<'a>,
    target: Spot<'a>,
    /// The source's directory in the branch.
    from: &'a VnodeRef,
    /// The target's directory in the branch.
    to: &'a VnodeRef,
    member: &'a Arc<Member>,
}

impl Way<'_> {
    /// The rename of the object with this number, which is one step of the branch, and what has to go before and after it.
    /// The record that tells of it, if there is one, is to be kept until the target is removed on the right too.
    fn go(&self, ino: u64, victim: Option<&Found>, leaves_whiteout: bool) -> Result<Option<NameBuf>> {
        // Not as the caller, who may have no right to replace what belongs to the server.
        let had_device = whiteout::make_room(self.to, self.target.stored)?;
        let moved = self.rename_recorded(ino, victim, leaves_whiteout);
        if moved.is_err() && had_device {
            whiteout::take_back_room(self.to, self.target.stored);
        }
        let Moved { left, record } = moved?;
        for spot in &left {
            if let Err(error) = self.member_of(spot).and_then(|member| record::remove(&member, spot)) {
                // Users see the target as it was, and are to see the source so too. If that cannot be, the next union of
                // these branches finds the record.
                if self.go_back().is_ok() {
                    record.iter().for_each(|record| self.member.work.discard(record));
                }
                return Err(error);
            }
        }
        whiteout::remove(self.to, self.target.stored)?;
        Ok(record)
    }

    /// Renames, having recorded what is to be removed then. What is on the left is left to be done.
    fn rename_recorded(&self, ino: u64, victim: Option<&Found>, leaves_whiteout: bool) -> Result<Moved> {
        let (left, right) = victim.map_or(Ok(Default::default()), |victim| self.others(victim))?;
        let all = [&left[..], &right[..]].concat();
        let record = self.write(ino, &all)?;
        match self.rename(leaves_whiteout) {
            Ok(()) => return Ok(Moved { left, record }),
            Err(error) => {
                record.iter().for_each(|record| self.member.work.discard(record));
                let is_directory = victim.is_some_and(|victim| victim.kind() == FileKind::Directory);
                if !is_directory || !matches!(error, Errno::ENOTEMPTY | Errno::EEXIST) {
                    return Err(error);
                }
            }
        }
        // It shows nothing, but has marks in it.
        let other = self.to.lookup(&Caller::server(), self.target.stored)?.attributes.ino;
        let mut emptied = record::Spot::new(self.member, self.from, self.source.stored, other);
        emptied.leaves_device = leaves_whiteout && !whiteout::can_stand_beside(self.source.stored, self.format());
        if leaves_whiteout && !emptied.leaves_device {
            whiteout::cover(self.from, self.source.stored)?;
        }
        let record = self.write(ino, &[&all[..], std::slice::from_ref(&emptied)].concat())?;
        let give_up = |error| {
            record.iter().for_each(|record| self.member.work.discard(record));
            if leaves_whiteout {
                let _ = whiteout::remove(self.from, self.source.stored);
            }
            error
        };
        self.exchange().map_err(give_up)?;
        if let Err(error) = record::remove(self.member, &emptied) {
            // Everything goes back; if it cannot, the record stays.
            return Err(if self.exchange().is_ok() { give_up(error) } else { error });
        }
        Ok(Moved { left, record })
    }

    fn exchange(&self) -> Result<()> {
        let (source, target) = (self.source.stored, self.target.stored);
        // The caller may rename the one over the other, which needs no right to move that.
        self.from.rename(&Caller::server(), source, self.to, target, RenameMode::Exchange)
    }

    /// Renames in one step, also where a whiteout has to stay.
    fn rename(&self, leaves_whiteout: bool) -> Result<()> {
        let (source, target) = (self.source.stored, self.target.stored);
        if !leaves_whiteout {
            return self.from.rename(self.caller, source, self.to, target, RenameMode::Replace);
        }
        if !whiteout::can_stand_beside(source, self.format()) {
            match self.from.rename(self.caller, source, self.to, target, RenameMode::Whiteout) {
                Err(error) if whiteout::is_incapable(error) => {}
                done => return done,
            }
        }
        whiteout::cover(self.from, source)?;
        self.from.rename(self.caller, source, self.to, target, RenameMode::Replace).inspect_err(|_| {
            // It is seen beside its whiteout.
            let _ = whiteout::remove(self.from, source);
        })
    }

    /// Records what is to be removed when the object with this number has its new name.
    fn write(&self, ino: u64, removed: &[record::Spot]) -> Result<Option<NameBuf>> {
        if removed.is_empty() {
            return Ok(None);
        }
        let moved = record::Spot::new(self.member, self.to, self.target.stored, ino);
        Record { moved, removed: removed.to_vec() }.write(self.member).map(Some)
    }

    /// What the target is in other branches and has to be removed where something replaces it: on the left it would hide
    /// that, and on the right it would count among the names of its file.
    fn others(&self, victim: &Found) -> Result<(Vec<record::Spot>, Vec<record::Spot>)> {
        let (target, own) = (self.target, self.target.position(self.member)?);
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for place in target.directory.instances().iter().rev() {
            let position = target.position(&place.member)?;
            let is_counted = Arc::ptr_eq(&place.member, &victim.instances[0].member)
                && victim.kind() != FileKind::Directory
                && victim.attributes.nlink > 1;
            if position == own || (position > own && !is_counted) || !target.may_change(&place.member) {
                continue;
            }
            match place.vnode.lookup(&Caller::server(), target.stored) {
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
                Ok(entry) => {
                    let found = record::Spot::new(&place.member, &place.vnode, target.stored, entry.attributes.ino);
                    if position < own { left.push(found) } else { right.push(found) }
                }
            }
        }
        Ok((left, right))
    }

    fn member_of(&self, spot: &record::Spot) -> Result<Arc<Member>> {
        self.target.directory.union.branches.newest_tagged(spot.tag).ok_or(Errno::ESTALE)
    }

    fn go_back(&self) -> Result<()> {
        let (server, source, target) = (Caller::server(), self.source.stored, self.target.stored);
        whiteout::make_room(self.from, source)
            .and_then(|_| self.to.rename(&server, target, self.from, source, RenameMode::NoReplace))
            .and_then(|()| whiteout::remove(self.from, source))
    }

    /// Renames what else had the source's name, from right to left (Unionfs's `DELETE_ALL`). All of it is hidden already
    /// by the whiteout and the target, so users see no step of this; where it is done, the whiteout is not needed.
    fn take_others_along(&self) {
        let Ok(right) = self.source.right_of(self.member) else { return };
        for place in within_reach(&right, self.source.stored).iter().rev() {
            if self.target.directory.union.branches.may_change(&place.member) {
                // An error is as good as a branch that is read-only.
                let _ = self.take_along(place);
            }
        }
        if self.source.shows_more(self.member) == Ok(false) {
            let _ = whiteout::lift(self.from, self.source.stored);
        }
    }

    fn take_along(&self, place: &Instance) -> Result<()> {
        let (server, source, target) = (Caller::server(), self.source.stored, self.target.stored);
        let entry = place.vnode.lookup(&server, source)?;
        if entry.attributes.is_directory() || whiteout::is_device(&entry)? {
            return Ok(());
        }
        // A directory by the target's name may be part of one that was moved: nothing is to come before it.
        let right = self.target.right_of(self.member)?;
        let is_directory =
            |place: &Instance| place.vnode.lookup(&server, target).is_ok_and(|entry| entry.attributes.is_directory());
        match self.target.directory.instance_in(&place.member).filter(|_| !right.iter().any(is_directory)) {
            Some(to) => place.vnode.rename(&server, source, &to, target, RenameMode::Replace),
            None => place.vnode.unlink(&server, source),
        }
    }

    fn format(&self) -> Format {
        self.source.directory.union.settings.whiteouts
    }
}

/// Removes what the target was in the branch that users saw it in, if that is on the right and may be changed: otherwise
/// it is hidden there.
fn remove_on_the_right(target: Spot<'_>, member: &Member, victim: &Node, found: &Found) {
    let own = &found.instances[0].member;
    let is_right = matches!((target.position(own), target.position(member)), (Ok(own), Ok(new)) if own > new);
    if !is_right {
        return;
    }
    let is_file = found.kind() != FileKind::Directory;
    let removed = is_file && target.directory.union.branches.may_change(own) && {
        let place = target.directory.instance_in(own);
        // The rename is done, and users see nothing of what cannot be removed.
        place.is_some_and(|place| place.unlink(&Caller::server(), target.stored).is_ok())
    };
    if !removed {
        victim.is_hidden.store(true, Ordering::Relaxed);
    }
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
    let is_above =
        |node: &Arc<Node>, spot: Spot<'_>| Arc::ptr_eq(node, spot.directory) || spot.directory.is_below(node);
    if is_above(&one, target) || is_above(&other, source) {
        return Err(Errno::EINVAL);
    }
    for (node, spot) in [(&one, target), (&other, source)] {
        if node.kind == FileKind::Directory {
            prepare_directory(spot, node, member)?;
        }
    }
    let (from, to) = (source.place(member)?, target.place(member)?);
    from.rename(caller, source.stored, &to, target.stored, RenameMode::Exchange)?;
    source.directory.was_changed_in(member);
    target.directory.was_changed_in(member);
    one.is_at(target.directory, target.stored);
    other.is_at(source.directory, source.stored);
    Ok(())
}

/// The locks of both directories, and before them that of all moves, so that no directory is moved into itself.
struct Locks<'a> {
    _names: (Alone<'a>, Option<Alone<'a>>),
    _moves: Option<MutexGuard<'a, ()>>,
}

impl<'a> Locks<'a> {
    fn take(union: &'a Union, from: &'a Arc<Node>, to: &'a Arc<Node>) -> Result<Self> {
        if Arc::ptr_eq(from, to) {
            return Ok(Self { _names: (from.alone(), None), _moves: None });
        }
        let moves = union.moves.lock().unwrap_or_else(PoisonError::into_inner);
        let to_first = from.is_below(to) || (!to.is_below(from) && Arc::as_ptr(to) < Arc::as_ptr(from));
        let (first, second) = if to_first { (to, from) } else { (from, to) };
        Ok(Self { _names: (first.alone(), Some(second.alone())), _moves: Some(moves) })
    }
}

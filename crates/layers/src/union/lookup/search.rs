//! Look-up of a name in the branches (Unionfs, section 3.2).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vnode::{AccessMode, Attributes, Caller, Entry, Errno, FileKind, Handle, Name, Result};

use super::parallel::ParallelQueries;
use crate::union::branch::branches::BranchMember;
use crate::union::branch::encoding::hash;
use crate::union::branch::identity::{self, Identity};
use crate::union::branch::whiteout::{self, DirectoryMarks};
use crate::union::cache::names::{self, UNKNOWN_PRESENCE};
use crate::union::cache::recent_directories::EntryKey;
use crate::union::state::instance::Instance;
use crate::union::state::{Node, NodeLocation, Union};

/// Number of misses after which the remaining branches are queried in parallel.
const MISSES_BEFORE_QUERY_ALL: usize = 2;

/// Result of a search through the branches.
#[derive(Default)]
pub(crate) struct SearchResult {
    /// The object found, if any.
    pub(crate) found: Option<LookupResult>,
    /// The branch whose whiteout ended the search.
    pub(crate) whiteout: Option<Arc<BranchMember>>,
}

/// An object in the branches.
#[derive(Clone)]
pub(crate) struct LookupResult {
    /// Branch-set generation at which this result was computed.
    pub(crate) generation: u64,
    /// The object in each branch, leftmost first; more than one only for directories.
    pub(crate) instances: Vec<Instance>,
    /// Attributes of the leftmost instance; provisional if those of any instance are.
    pub(crate) attributes: Attributes,
    /// Whether it is a copy, and this name still leads to the original.
    pub(crate) is_copied_under_other_name: bool,
}

/// Result of querying one branch for a name.
enum BranchLookup {
    Nothing,
    Whiteout,
    /// An object that ends the search.
    Object(Entry),
    /// A directory, which may be merged with others.
    Directory(Entry, DirectoryMarks),
}

/// Query of one instance of a directory.
#[derive(Clone, Copy)]
struct BranchQuery {
    /// Whether this is the leftmost instance, which decides whether the caller may search the directory.
    is_first: bool,
    /// Whether there are lower instances.
    has_more: bool,
    /// Whether the instance is in the last of all branches.
    is_last: bool,
    /// Whether cached names are ignored.
    ignores_caches: bool,
}

/// Sources of a search's results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchSource {
    /// The branches, and the cached names in them.
    NameCaches,
    /// The present state of the branches only.
    Branches,
}

impl SearchSource {
    /// Returns whether one of a directory's instances is known not to have a name. The leftmost is always queried.
    fn can_skip(self, instance: &Instance, index: usize, stored: Name<'_>) -> bool {
        index > 0 && self == Self::NameCaches && instance.names.excludes(stored)
    }
}

impl BranchQuery {
    /// Queries a name. The leftmost instance is queried as the caller, the others as the server.
    fn run(self, instance: &Instance, caller: &Caller, stored: Name<'_>) -> Result<BranchLookup> {
        let names =
            if self.ignores_caches { UNKNOWN_PRESENCE } else { instance.names.query(&instance.vnode, stored)? };
        if !self.is_first && names.is_absent() {
            return Ok(BranchLookup::Nothing);
        }
        let server = Caller::server().cancelled_with(caller);
        let caller = if self.is_first { caller } else { &server };
        let result = instance.member.latency.measure(|| self.query_branch(instance, caller, stored, names))?;
        if matches!(result, BranchLookup::Nothing) {
            instance.member.verify_absence()?;
        }
        Ok(result)
    }

    /// Queries a name, given what the name cache says about it.
    fn query_branch(
        self,
        instance: &Instance,
        caller: &Caller,
        stored: Name<'_>,
        names: names::NamePresence,
    ) -> Result<BranchLookup> {
        let has_whiteout = || -> Result<bool> {
            let stands = names.may_have_whiteout && whiteout::has_whiteout_file(&instance.vnode, stored)?;
            if names.may_have_whiteout && !stands {
                instance.names.record_miss();
            }
            Ok(stands)
        };
        let entry = match instance.vnode.lookup(caller, stored) {
            Err(Errno::ENOENT) if has_whiteout()? => return Ok(BranchLookup::Whiteout),
            Err(Errno::ENOENT) => return Ok(BranchLookup::Nothing),
            entry => entry?,
        };
        if whiteout::is_whiteout_device(&entry)? {
            return Ok(BranchLookup::Whiteout);
        }
        if !entry.attributes.is_directory() || self.is_last {
            return Ok(BranchLookup::Object(entry));
        }
        // The root of another server's mount has no marks, and is not queried.
        let is_queried = !entry.attributes.is_provisional;
        let mut marks = if is_queried {
            instance.member.marks.marks_of(&entry.vnode, &entry.attributes)?
        } else {
            DirectoryMarks::default()
        };
        if marks.is_untrusted {
            instance.member.report_untrusted_marks(stored);
        }
        // A directory beside a whiteout hides the lower branches.
        marks.is_opaque |= marks.redirect.is_none() && self.has_more && has_whiteout()?;
        Ok(BranchLookup::Directory(entry, marks))
    }
}

impl LookupResult {
    /// Kind of the leftmost instance.
    pub(crate) fn kind(&self) -> FileKind {
        self.attributes.kind
    }

    /// Checks that the object can be removed, moved or replaced.
    ///
    /// # Errors
    /// `EBUSY` if another server is mounted on it in a branch; that server is not queried for its contents, because nobody
    /// could change the directory meanwhile.
    pub(crate) fn check_movable(&self) -> Result<()> {
        if self.attributes.is_provisional { Err(Errno::EBUSY) } else { Ok(()) }
    }
}

impl Union {
    /// Searches for a name in a directory with these instances. The leftmost is queried as the caller, whose permission to
    /// search the directory it decides; the others as the server.
    pub(crate) fn search(&self, directory: &[Instance], caller: &Caller, stored: Name<'_>) -> Result<SearchResult> {
        // Others write to a view's branches too, and their changes are visible at once.
        if self.view_state.is_some() {
            return self.search_by(SearchSource::Branches, directory, caller, stored);
        }
        let replacements = || directory.iter().map(|instance| instance.names.replacements()).fold(0, u64::wrapping_add);
        let before = replacements();
        let search = self.search_by(SearchSource::NameCaches, directory, caller, stored)?;
        // That nothing is found must be true now, even if somebody else has just changed a branch; so must the instances of a
        // directory that was not known before: they are cached for longer than names are.
        let holders = match &search.found {
            None => &[][..],
            Some(found) if found.kind() == FileKind::Directory && !self.is_live(found)? => &found.instances,
            Some(_) => return Ok(search),
        };
        let is_outdated = are_outdated(directory, holders, caller)?;
        // Asked last: a cache that another thread has dropped meanwhile is not outdated.
        let is_replaced = replacements() != before;
        if is_replaced || is_outdated {
            self.search_by(SearchSource::Branches, directory, caller, stored)
        } else {
            Ok(search)
        }
    }

    /// A single pass of [`Union::search`].
    fn search_by(
        &self,
        source: SearchSource,
        directory: &[Instance],
        caller: &Caller,
        stored: Name<'_>,
    ) -> Result<SearchResult> {
        let mut search = SearchResult::default();
        let generation = self.branches.generation();
        let mut queries: Option<ParallelQueries<Result<BranchLookup>>> = None;
        let mut misses = 0;
        for (index, place) in directory.iter().enumerate() {
            place.member.require_available()?;
            if source.can_skip(place, index, stored) {
                continue;
            }
            // A directory is queried in all branches, and a name that some branches lack is likely to be far down.
            let query_all = search.found.is_some() || misses >= MISSES_BEFORE_QUERY_ALL;
            if queries.is_none() && (query_all || place.member.latency.is_slow()) {
                queries = Some(self.query_ahead(source, directory, index, caller, stored, query_all));
            }
            let result = match queries.as_ref().and_then(|queries| queries.take(index, caller.cancellation())) {
                Some(result) => result?,
                None => self.query_for(source, directory, index).run(place, caller, stored),
            };
            let reported = |error| place.member.reported_error(error);
            let (entry, marks) = match result.map_err(reported)? {
                BranchLookup::Nothing => {
                    misses += 1;
                    continue;
                }
                BranchLookup::Whiteout => {
                    search.whiteout = Some(Arc::clone(&place.member));
                    break;
                }
                BranchLookup::Object(entry) => (entry, None),
                BranchLookup::Directory(entry, marks) => (entry, Some(marks)),
            };
            if search.found.is_some() && !entry.attributes.is_directory() {
                break;
            }
            let copy = if entry.attributes.is_directory() {
                None
            } else {
                self.shared_copy(&place.member, &entry).map_err(reported)?
            };
            let is_copied_under_other_name = copy.is_some();
            let (instance, Entry { attributes, .. }) = copy.unwrap_or_else(|| (place.child(&entry), entry));
            match &mut search.found {
                Some(found) => {
                    found.instances.push(instance);
                    found.attributes.is_provisional |= attributes.is_provisional;
                }
                None => {
                    search.found = Some(LookupResult {
                        generation,
                        instances: vec![instance],
                        attributes,
                        is_copied_under_other_name,
                    });
                }
            }
            let Some(marks) = marks else { break };
            let is_elsewhere = self.follow_redirect(&directory[index..], marks.redirect, search.found.as_mut())?;
            if is_elsewhere || marks.is_opaque {
                break;
            }
        }
        Ok(search)
    }

    /// The query for one of a directory's instances.
    fn query_for(&self, source: SearchSource, directory: &[Instance], index: usize) -> BranchQuery {
        BranchQuery {
            is_first: index == 0,
            has_more: index + 1 < directory.len(),
            is_last: self.is_last(&directory[index].member),
            ignores_caches: source == SearchSource::Branches,
        }
    }

    /// Queries the instances from a given one on in parallel: the slow ones, or all.
    fn query_ahead(
        &self,
        source: SearchSource,
        directory: &[Instance],
        from: usize,
        caller: &Caller,
        stored: Name<'_>,
        all: bool,
    ) -> ParallelQueries<Result<BranchLookup>> {
        let branch_queries: Vec<BranchQuery> =
            (0..directory.len()).map(|index| self.query_for(source, directory, index)).collect();
        let is_needed = |index: usize, instance: &Instance| {
            index >= from && (all || instance.member.latency.is_slow()) && !source.can_skip(instance, index, stored)
        };
        let of_helper = caller.cancellation().of_helper();
        let (caller, asked) = (caller.clone().cancelled_by(of_helper), stored.to_owned());
        ParallelQueries::start(directory, is_needed, move |index, instance| {
            branch_queries[index].run(instance, &caller, asked.as_name())
        })
    }

    /// Finds the lower part of a directory that has been moved here. `parent_instances` are the instances of its parent,
    /// from this branch on.
    fn follow_redirect(
        &self,
        parent_instances: &[Instance],
        redirect: Option<Vec<u8>>,
        found: Option<&mut LookupResult>,
    ) -> Result<bool> {
        let Some(path) = redirect else { return Ok(false) };
        if !whiteout::is_location(&path) {
            // Nothing is there.
            return Ok(true);
        }
        let rest =
            self.search_redirect(&path, &self.roots_right_of(&parent_instances[0].member), &parent_instances[1..])?;
        if let (Some(found), Some(rest)) = (found, rest)
            && rest.kind() == FileKind::Directory
        {
            self.record_moved_directory();
            found.instances.extend(rest.instances);
        }
        Ok(true)
    }

    /// Finds the lower part of a moved directory by its redirect: a path from these roots, or a sibling's name.
    pub(crate) fn search_redirect(
        &self,
        path: &[u8],
        roots: &[Instance],
        beside: &[Instance],
    ) -> Result<Option<LookupResult>> {
        match path.strip_prefix(b"/") {
            Some(path) => self.search_path(roots, path),
            None => Ok(self.search(beside, &Caller::server(), Name::new(path)?)?.found),
        }
    }

    /// Returns whether this is the last branch.
    fn is_last(&self, member: &Arc<BranchMember>) -> bool {
        self.branches.slots().last().is_some_and(|slot| Arc::ptr_eq(&slot.member, member))
    }

    /// Finds the object at a path of names as they are in the branches.
    pub(crate) fn search_path(&self, roots: &[Instance], path: &[u8]) -> Result<Option<LookupResult>> {
        let server = Caller::server();
        let mut found: Option<LookupResult> = None;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let directory = found.as_ref().map_or(roots, |found| &found.instances);
            match self.search(directory, &server, Name::new(name)?) {
                Ok(SearchResult { found: Some(next), .. }) => found = Some(next),
                Ok(_) | Err(Errno::ENOTDIR) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Returns whether the object found has a live vnode.
    fn is_live(&self, found: &LookupResult) -> Result<bool> {
        let (identity, _) = self.identity(&found.instances, found.kind())?;
        Ok(self.table.find(&identity.handle).is_some())
    }
}

/// Returns whether somebody else may have changed one of a directory's instances since its names were cached, except for those
/// in the holders' branches. All are queried, slow ones in parallel.
fn are_outdated(directory: &[Instance], holders: &[Instance], caller: &Caller) -> Result<bool> {
    // An instance that has failed was not needed.
    let is_queried = |place: &Instance| {
        let is_trusted = || holders.iter().any(|instance| Arc::ptr_eq(&instance.member, &place.member));
        !place.member.has_failed() && !is_trusted()
    };
    let query = |place: &Instance| place.names.is_outdated(&place.vnode);
    let is_needed = |_, place: &Instance| place.names.has_contents() && is_queried(place);
    let queries = ParallelQueries::start_slow(directory, is_needed, move |_, place| query(place));
    let mut is_outdated = false;
    for (index, place) in directory.iter().enumerate().filter(|(_, place)| is_queried(place)) {
        let outdated = queries.take(index, caller.cancellation()).unwrap_or_else(|| Ok(query(place)))?;
        let outdated = outdated.map_err(|error| place.member.reported_error(error));
        is_outdated |= if place.member.has_failed() { true } else { outdated? };
    }
    Ok(is_outdated)
}

impl Instance {
    /// An object in this directory, as an instance.
    fn child(&self, entry: &Entry) -> Instance {
        Instance::new(&self.member, entry.vnode.clone(), entry.attributes.ino)
    }
}

impl Node {
    /// Searches for a name as it is in the branches. The caller holds the lock.
    pub(crate) fn search(&self, caller: &Caller, stored: Name<'_>) -> Result<SearchResult> {
        self.union.search(&self.instances(), caller, stored)
    }

    /// The vnode of an object found here by a name.
    pub(crate) fn node_of(self: &Arc<Self>, found: LookupResult, stored: Name<'_>) -> Result<Arc<Node>> {
        let identity = self.identity_of(&found, stored)?;
        let instances = (found.generation, found.instances.clone());
        Ok(self.union.find_or_insert(identity, found.kind(), instances))
    }

    /// Like [`Node::identity_of`], but prefers the identity that the live vnode had before the branches were changed.
    pub(crate) fn present_identity(&self, found: &LookupResult, stored: Name<'_>) -> Result<Identity> {
        let (identity, _) = self.identity_of(found, stored)?;
        let union = &self.union;
        let live = if union.has_other_handles() { union.table.find(&identity.handle) } else { None };
        Ok(live.map_or(identity, |node| node.identity))
    }

    /// The identity of an object found here by a name, and the number of names that lead to its original if it is a copy.
    fn identity_of(&self, found: &LookupResult, stored: Name<'_>) -> Result<(Identity, u32)> {
        let (identity, names) = self.union.identity(&found.instances, found.kind())?;
        if found.kind() != FileKind::Directory {
            return Ok((identity, names));
        }
        Ok((self.union.require_view_room(self.identity_at(identity, &found.instances[0], stored)?)?, names))
    }

    /// The identity of a directory found here by a name, which claims this one. A directory that is also visible elsewhere gets
    /// another identity here, for example if two directories have the same location as their lower part: it would otherwise
    /// contain itself.
    fn identity_at(&self, claimed: Identity, leftmost: &Instance, stored: Name<'_>) -> Result<Identity> {
        let is_elsewhere = |identity: &Identity| match self.union.table.find(&identity.handle) {
            Some(live) => live.is_visible_elsewhere(self, stored),
            None => Ok(false),
        };
        if !is_elsewhere(&claimed)? {
            return Ok(claimed);
        }
        let native = Identity::native(&leftmost.member.base.numbers, &leftmost.vnode.handle(), leftmost.ino)?;
        // The other may consist only of the lower part, which is all that is here.
        Ok(if is_elsewhere(&native)? { claimed.at_location(&self.identity.handle, stored) } else { native })
    }

    /// Returns whether this directory, which was found by a name here, is still at another location.
    fn is_visible_elsewhere(&self, directory: &Node, stored: Name<'_>) -> Result<bool> {
        if self.is_root() {
            return Ok(true);
        }
        let NodeLocation::At(above) = self.location() else { return Ok(false) };
        if self.was_last_at(directory, stored) {
            return Ok(false);
        }
        match above.directory.search(&Caller::server(), above.stored.as_name()) {
            Ok(SearchResult { found: Some(found), .. }) => Ok(self.has_instance_in(&found.instances)),
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The vnode of an object found here. The caller holds the lock.
    pub(crate) fn child(self: &Arc<Self>, found: LookupResult, stored: Name<'_>) -> Result<Arc<Node>> {
        let child = self.node_of(found, stored)?;
        child.record_location(self, stored);
        Ok(child)
    }

    /// Searches for a name and its vnode, as a hint: both may be outdated at once.
    pub(crate) fn search_node(
        self: &Arc<Self>,
        caller: &Caller,
        stored: Name<'_>,
    ) -> Result<(SearchResult, Option<Arc<Node>>)> {
        let _names = self.read_guard();
        let search = self.search(caller, stored)?;
        let node = search.found.clone().map(|found| self.child(found, stored)).transpose()?;
        Ok((search, node))
    }

    /// Looks up a name on behalf of users.
    pub(crate) fn look_up(self: &Arc<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        self.require_directory()?;
        let stored = whiteout::stored_name(name)?;
        let stored = Name::new(&stored)?;
        let _names = self.read_guard();
        if let Ok(Some((node, attributes))) = self.recent_directory(caller, stored) {
            return Ok(node.entry(attributes));
        }
        let found = self.search(caller, stored)?.found.ok_or(Errno::ENOENT)?;
        let attributes = found.attributes;
        let child = self.child(found, stored)?;
        Ok(child.entry(attributes))
    }
}

impl Union {
    /// The object at a path of user-visible names, below the root.
    pub(crate) fn node_at_path(self: &Arc<Self>, path: &[u8]) -> Result<Arc<Node>> {
        let server = Caller::server();
        let mut node = self.root_node();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            node.revalidate()?;
            let found = node.look_up(&server, Name::new(name)?)?;
            node = found.vnode.as_any().downcast_ref::<Node>().ok_or(Errno::ESTALE)?.reference();
        }
        Ok(node)
    }

    /// The vnode of a handle, unless its branch refuses the caller the object. The caller holds an operation guard.
    pub(crate) fn resolve(self: &Arc<Self>, caller: &Caller, handle: &Handle) -> Result<Arc<Node>> {
        if let Some(node) = self.table.find(handle) {
            node.revalidate()?;
            if !caller.is_server_alone() {
                let Instance { member, vnode, .. } = node.leftmost();
                let admitted = member.base.file_system.resolve(caller, &vnode.handle());
                admitted.map_err(|error| member.base.reported_error(error))?;
            }
            return Ok(node);
        }
        let (tag, lower) = identity::split_handle(handle).ok_or(Errno::ESTALE)?;
        let base = self.branches.by_tag(tag).ok_or(Errno::ESTALE)?;
        let object = base.file_system.resolve(caller, &lower).map_err(|error| base.reported_error(error))?;
        let path = BranchMember::path_in_layer(&base, &object)?;
        let node = self.node_at_path(&path).map_err(|error| if error == Errno::EIO { error } else { Errno::ESTALE })?;
        if node.identity.handle == *handle { Ok(node) } else { Err(Errno::ESTALE) }
    }
}

impl Node {
    /// Caches a directory that was found here. The caller holds the lock.
    pub(crate) fn cache_recent(self: &Arc<Self>, stored: Name<'_>, node: Arc<Node>) {
        if !self.union.recent_directories.is_enabled() {
            return;
        }
        self.union.recent_directories.insert(self.recent_key(stored), node, self.change_count());
    }

    /// A directory that was found here a moment ago, if nothing has changed. The caller holds the lock.
    pub(crate) fn recent_directory(
        self: &Arc<Self>,
        caller: &Caller,
        stored: Name<'_>,
    ) -> Result<Option<(Arc<Node>, Attributes)>> {
        let Some(node) = self.union.recent_directories.get(self.recent_key(stored), self.change_count()) else {
            return Ok(None);
        };
        if !node.was_last_at(self, stored)
            || node.generation.load(Ordering::Acquire) != self.union.branches.generation()
        {
            return Ok(None);
        }
        if !caller.is_superuser() {
            self.leftmost().vnode.access(caller, AccessMode::EXECUTE)?;
        }
        let attributes = node.leftmost().vnode.getattr(&Caller::server())?;
        Ok((attributes.nlink > 0).then_some((node, attributes)))
    }

    fn recent_key(self: &Arc<Self>, stored: Name<'_>) -> EntryKey {
        (Arc::as_ptr(self) as usize, hash(stored.as_bytes()))
    }
}

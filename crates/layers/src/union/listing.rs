//! Reading directories (Unionfs, section 3.3): the names of all branches, each once, without those that are hidden.
//!
//! A directory of one branch is read as that branch gives it. One of several is gathered whole, in an order of its own:
//! that of the names' hashes, which are the cookies. So a reader can go on anywhere, also after a restart, and names that
//! come or go move no other's place.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vnode::{Caller, DirectoryEntry, Errno, FileKind, Name, NameBuf, OpenDirectory, OpenDirectoryRef, Result};

use super::identity::{hash, tagged};
use super::node::{Instance, Node};
use super::whiteout::{self, Meaning};

/// An open directory.
pub(super) struct Listing {
    node: Arc<Node>,
    /// The leftmost instance when it was opened, as the caller.
    place: Instance,
    leftmost: OpenDirectoryRef,
    /// As it was when this reading began: a directory may come to be in several branches.
    is_merged: AtomicBool,
    gathered: Mutex<Option<Arc<[Item]>>>,
}

/// An entry of a directory of several branches.
struct Item {
    cookie: u64,
    name: NameBuf,
    ino: u64,
    kind: Option<FileKind>,
}

/// Cookies 1 and 2 belong to the front ends, and 0 is the start.
const FIRST_COOKIE: u64 = 3;

impl Listing {
    pub(super) fn open(node: Arc<Node>, caller: &Caller) -> Result<Self> {
        node.only_directory()?;
        let place = node.leftmost();
        let leftmost = place.vnode.open_directory(caller)?;
        let is_merged = AtomicBool::new(node.instances().len() > 1);
        Ok(Self { node, place, leftmost, is_merged, gathered: Mutex::default() })
    }

    fn read_single(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let place = std::slice::from_ref(&self.place);
        self.leftmost.read(caller, cookie, &mut |entry| {
            let Meaning::Object(shown) = whiteout::meaning(entry.name.as_bytes()) else {
                return ControlFlow::Continue(());
            };
            let Ok(name) = Name::new(&shown) else { return ControlFlow::Continue(()) };
            match self.seen_in(place, entry.name, entry.ino, entry.kind) {
                Ok(Some((ino, kind))) => sink(DirectoryEntry { name, ino, kind, cookie: entry.cookie }),
                // Gone meanwhile, or hidden.
                Ok(None) | Err(_) => ControlFlow::Continue(()),
            }
        })
    }

    /// The inode number and kind that users see of an entry that the first of these places has; `None` for a whiteout.
    fn seen_in(
        &self,
        places: &[Instance],
        stored: Name<'_>,
        ino: u64,
        kind: Option<FileKind>,
    ) -> Result<Option<(u64, Option<FileKind>)>> {
        let (union, member) = (&self.node.union, &places[0].member);
        let may_be_whiteout = matches!(kind, None | Some(FileKind::CharacterDevice));
        let is_native = match kind {
            // The rest of a moved directory may have been there before it.
            Some(FileKind::Directory) => {
                !union.table.has_other_names()
                    && !member.work.has_copied_directories()
                    && union.branches.position(member) == Some(union.branches.slots().len() - 1)
            }
            _ => !member.work.exists(),
        };
        if !may_be_whiteout && is_native {
            return Ok(Some((tagged(member.base.tag, ino), kind)));
        }
        let search = union.search(places, &Caller::server(), stored)?;
        let Some(found) = search.found else { return Ok(None) };
        let identity = union.present_identity(&found.instances, found.kind())?;
        Ok(Some((identity.ino, Some(found.kind()))))
    }

    /// What there is from this moment on, or what was gathered at the start of this reading.
    fn gathered(&self, from_start: bool) -> Result<Arc<[Item]>> {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        match &*gathered {
            Some(items) if !from_start => Ok(Arc::clone(items)),
            _ => {
                let items: Arc<[Item]> = self.gather()?.into();
                *gathered = Some(Arc::clone(&items));
                Ok(items)
            }
        }
    }

    fn gather(&self) -> Result<Vec<Item>> {
        let server = Caller::server();
        let _names = self.node.shared();
        let instances = self.node.instances();
        let mut hidden: HashSet<NameBuf> = HashSet::new();
        let mut items: HashMap<NameBuf, Item> = HashMap::new();
        for (index, place) in instances.iter().enumerate() {
            let opened = if place.is_same(&self.place) {
                Arc::clone(&self.leftmost)
            } else {
                place.vnode.open_directory(&server)?
            };
            let mut entries: Vec<(NameBuf, u64, Option<FileKind>)> = Vec::new();
            opened.read(&server, 0, &mut |entry| {
                entries.push((entry.name.to_owned(), entry.ino, entry.kind));
                ControlFlow::Continue(())
            })?;
            let mut hidden_here = Vec::new();
            for (stored, ino, kind) in entries {
                match whiteout::meaning(stored.as_bytes()) {
                    Meaning::Mark => {}
                    Meaning::Whiteout(name) => hidden_here.extend(NameBuf::new(name.into_owned())),
                    Meaning::Object(name) => {
                        let Ok(name) = NameBuf::new(name.into_owned()) else { continue };
                        if hidden.contains(&name) {
                            continue;
                        }
                        if items.contains_key(&name) {
                            continue;
                        }
                        match self.seen_in(&instances[index..], stored.as_name(), ino, kind)? {
                            Some((ino, kind)) => {
                                items.insert(name.clone(), Item { cookie: cookie_of(&name), name, ino, kind });
                            }
                            None => hidden_here.push(name),
                        }
                    }
                }
            }
            hidden.extend(hidden_here);
        }
        let mut items: Vec<Item> = items.into_values().collect();
        items.sort_by(|one, other| (one.cookie, one.name.as_bytes()).cmp(&(other.cookie, other.name.as_bytes())));
        for index in 1..items.len() {
            // Two names with one hash come one after the other.
            items[index].cookie = items[index].cookie.max(items[index - 1].cookie + 1);
        }
        Ok(items)
    }
}

fn cookie_of(name: &NameBuf) -> u64 {
    // Room above for names with one hash, and below 2^63.
    FIRST_COOKIE + (hash(name.as_bytes()) >> 2)
}

impl OpenDirectory for Listing {
    fn read(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let _steady = self.node.begin()?;
        self.read_now(caller, cookie, sink)
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        let _steady = self.node.begin()?;
        for place in self.node.instances().iter() {
            if self.node.union.branches.may_change(&place.member) {
                match place.vnode.open_directory(&Caller::server())?.fsync(caller, data_only) {
                    Err(Errno::EROFS) => {}
                    result => result?,
                }
            }
        }
        Ok(())
    }
}

impl Listing {
    /// As [`OpenDirectory::read`]. An operation has been begun.
    pub(super) fn read_now(
        &self,
        caller: &Caller,
        cookie: u64,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        if cookie == 0 && self.node.instances().len() > 1 {
            self.is_merged.store(true, Ordering::Relaxed);
        }
        if !self.is_merged.load(Ordering::Relaxed) {
            return self.read_single(caller, cookie, sink);
        }
        let items = self.gathered(cookie == 0)?;
        let from = items.partition_point(|item| item.cookie <= cookie);
        for Item { cookie, name, ino, kind } in &items[from..] {
            let entry = DirectoryEntry { name: name.as_name(), ino: *ino, kind: *kind, cookie: *cookie };
            if sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }
}

//! Differences between two states of a union.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vnode::progress::object_done;
use vnode::{Attributes, Caller, Entry, Errno, FileKind, NameBuf, OpenFlags, Result, VnodeRef, read_fully, zeros};

use crate::printable::printable;
use crate::union::branch::objects;
use crate::union::branch::whiteout::{self, EntryMeaning};
use crate::union::state::Node;
use crate::union::state::instance::Instance;
use crate::union::tree_path::TreePath;

/// Maximum number of attempts if the object of a name changes meanwhile, before it is compared as it is.
const MAX_ATTEMPTS: usize = 64;

/// Maximum length in bytes of a path that a program can pass to the kernel (`PATH_MAX`). Contents of a new directory with a
/// longer path are not listed, since the paths of a tree that is deep enough would exceed the memory.
const PATH_MAX: usize = 4096;
/// Number of bytes of data that are compared at a time.
const COMPARE_CHUNK_BYTES: usize = 1 << 18;
/// Maximum number of bytes that longer paths may take together. A difference beyond that is reported at its last ancestor with
/// a shorter path.
const MAX_DEEP_PATH_BYTES: usize = 64 << 20;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Kind of difference.
    pub change: Change,
    /// Path from the root, without a leading slash; empty for the root itself.
    pub path: Vec<u8>,
    /// Kind of the object in the newer state, or of the deleted object.
    pub kind: FileKind,
}

/// Kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object exists only in the newer state.
    Added,
    /// It exists in both, and differs.
    Changed,
    /// It exists only in the older state.
    Deleted,
}

impl Change {
    /// Name of the kind of difference.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// Differences as JSON, for programs.
pub fn to_json(differences: &[Difference]) -> String {
    let entry = |difference: &Difference| {
        let path = String::from_utf8_lossy(&difference.path);
        let kind = format!("{:?}", difference.kind).to_lowercase();
        serde_json::json!({ "change": difference.change.name(), "path": path, "kind": kind })
    };
    serde_json::Value::Array(differences.iter().map(entry).collect()).to_string()
}

/// Returns the differences as text, one line each.
pub fn format_differences(differences: &[Difference]) -> String {
    let line = |Difference { change, path, kind }: &Difference| {
        difference_line(change.name(), &String::from_utf8_lossy(path), *kind == FileKind::Directory)
    };
    differences.iter().map(line).collect()
}

/// Returns the line for one difference: `+` for added, `~` for changed, `-` for deleted; a directory ends with a slash, and the
/// root is `.`.
pub(crate) fn difference_line(change: &str, path: &str, is_directory: bool) -> String {
    let sign = match change {
        "added" => '+',
        "deleted" => '-',
        _ => '~',
    };
    match path {
        "" => format!("{sign} .\n"),
        path => format!("{sign} {}{}\n", printable(path), if is_directory { "/" } else { "" }),
    }
}

/// Differences found so far.
#[derive(Default)]
struct Differences {
    list: Vec<Difference>,
    /// Total length in bytes of the paths that are longer than [`PATH_MAX`].
    deep_bytes: usize,
    /// Whether no more of these are listed.
    is_full: bool,
}

impl Differences {
    fn add(&mut self, change: Change, path: &TreePath, entry: &Entry) {
        if path.length() > PATH_MAX {
            self.is_full |= self.deep_bytes + path.length() > MAX_DEEP_PATH_BYTES;
            if self.is_full {
                return self.add_unlisted(path);
            }
            self.deep_bytes += path.length();
        }
        self.list.push(Difference { change, path: path.to_bytes(), kind: entry.attributes.kind });
    }

    /// Returns whether the contents of a directory are to be compared; if not, something in it counts as changed.
    fn may_descend_into(&mut self, path: &TreePath) -> bool {
        let may = !self.is_full || path.length() <= PATH_MAX;
        if !may {
            self.add_unlisted(path);
        }
        may
    }

    /// Records a directory in which there may be differences that are not listed: their paths are too long, or somebody else
    /// has mounted a file system there.
    fn add_unlisted(&mut self, path: &TreePath) {
        let path = path.start(PATH_MAX).to_bytes();
        self.list.push(Difference { change: Change::Changed, path, kind: FileKind::Directory });
    }

    /// All differences, sorted by path.
    fn sorted(mut self) -> Vec<Difference> {
        self.list.sort_by(|one, other| one.path.cmp(&other.path));
        self.list.dedup();
        self.list
    }
}

/// Differences in the newer directory and everything below it. Parts that both have from the same branches are skipped.
pub(crate) fn compare(older: &Arc<Node>, newer: &Arc<Node>) -> Result<Vec<Difference>> {
    let mut differences = Differences::default();
    let (old, new) = (entry_of_directory(older)?, entry_of_directory(newer)?);
    if !is_directory_unchanged(&old, &new)? {
        differences.add(Change::Changed, &TreePath::root(), &new);
    }
    // Iterative: a tree may be deeper than a thread's stack.
    let mut open = vec![(TreePath::root(), Arc::clone(older), Arc::clone(newer))];
    while let Some((path, older, newer)) = open.pop() {
        if is_same(&older.instances(), &newer.instances()) {
            continue;
        }
        let (mut before, mut after) = match both_entries(&older, &newer) {
            // Without the branch itself there is nothing to be compared.
            Err(error) if objects::is_unavailable(error) && !path.is_root() => {
                differences.add_unlisted(&path);
                continue;
            }
            both => both?,
        };
        let names: BTreeSet<NameBuf> = before.keys().chain(after.keys()).cloned().collect();
        for name in names {
            object_done();
            let path = path.join(name.as_name());
            let pair = match (before.remove(&name).flatten(), after.remove(&name).flatten()) {
                (Some(old), Some(new)) if is_same_entry(&old, &new) => continue,
                _ => consistent_pair(&older, &newer, &name),
            };
            let pair = match pair {
                Err(error) if objects::is_unavailable(error) => {
                    differences.add_unlisted(&path);
                    continue;
                }
                pair => pair?,
            };
            match pair {
                (None, None) => {}
                (None, Some(entry)) => record_added(entry, path, &mut differences)?,
                (Some(old), None) => differences.add(Change::Deleted, &path, &old),
                (Some(old), Some(entry)) if is_directory(&old) && is_directory(&entry) => {
                    if !if_known(is_directory_unchanged(&old, &entry))? {
                        differences.add(Change::Changed, &path, &entry);
                    }
                    if differences.may_descend_into(&path) {
                        open.push((path, node(&old.vnode), node(&entry.vnode)));
                    }
                }
                (Some(old), Some(entry)) if is_directory(&old) || is_directory(&entry) => {
                    differences.add(Change::Deleted, &path, &old);
                    record_added(entry, path, &mut differences)?;
                }
                (Some(old), Some(entry)) if if_known(is_unchanged(&old, &entry))? => {}
                (Some(_), Some(entry)) => differences.add(Change::Changed, &path, &entry),
            }
        }
    }
    Ok(differences.sorted())
}

/// The objects of a name in both directories at one point in time: others may be changing the branches of both.
fn consistent_pair(older: &Arc<Node>, newer: &Arc<Node>, name: &NameBuf) -> Result<(Option<Entry>, Option<Entry>)> {
    let is_still = |before: &Option<Entry>, now: &Option<Entry>| match (before, now) {
        (None, None) => true,
        (Some(before), Some(now)) => is_same_entry(before, now),
        _ => false,
    };
    let mut pair = (entry_of(older, name)?, entry_of(newer, name)?);
    for _ in 0..MAX_ATTEMPTS {
        let again = (entry_of(older, name)?, entry_of(newer, name)?);
        if is_still(&pair.0, &again.0) && is_still(&pair.1, &again.1) {
            break;
        }
        pair = again;
    }
    Ok(pair)
}

/// Records a new object and everything below it.
fn record_added(entry: Entry, path: TreePath, differences: &mut Differences) -> Result<()> {
    let mut new = vec![(path, entry)];
    while let Some((path, entry)) = new.pop() {
        object_done();
        differences.add(Change::Added, &path, &entry);
        if is_directory(&entry) && path.length() <= PATH_MAX {
            let below = match entries(&node(&entry.vnode), None) {
                Err(error) if objects::is_unavailable(error) => continue,
                below => below?,
            };
            for (name, entry) in below {
                let path = path.join(name.as_name());
                match entry {
                    Some(entry) => new.push((path, entry)),
                    None => differences.add_unlisted(&path),
                }
            }
        }
    }
    Ok(())
}

/// Names that may lead to another object in the newer directory: if it is the older one with more branches on top, the names in
/// those. Its other contents are not read: they may be large, or not available. `None` if all names may.
fn changed_names(older: &Node, newer: &Node) -> Result<Option<BTreeSet<NameBuf>>> {
    let (older, newer) = (older.instances(), newer.instances());
    let Some(more) = newer.len().checked_sub(older.len()) else { return Ok(None) };
    let (left, rest) = newer.split_at(more);
    if !is_same(rest, &older) {
        return Ok(None);
    }
    let mut names = BTreeSet::new();
    for Instance { member, vnode, .. } in left {
        // A file that was copied by one of its names is changed at all of them.
        if let Some(links) = member.work.existing_links()?
            && !objects::entries(&links)?.is_empty()
        {
            return Ok(None);
        }
        for stored in names_in(vnode)? {
            if let EntryMeaning::Object(name) | EntryMeaning::Whiteout(name) = whiteout::meaning(stored.as_bytes()) {
                names.insert(NameBuf::new(name.into_owned())?);
            }
        }
    }
    Ok(Some(names))
}

/// The entries of both directories whose names may lead to another object in the newer one.
fn both_entries(older: &Arc<Node>, newer: &Arc<Node>) -> Result<(Entries, Entries)> {
    let changed = changed_names(older, newer)?;
    Ok((entries(older, changed.as_ref())?, entries(newer, changed.as_ref())?))
}

/// Entries by their names; `None` for one that cannot be read, in a mount of somebody else's.
type Entries = BTreeMap<NameBuf, Option<Entry>>;

/// The entries of a directory with these names, or all.
fn entries(directory: &Arc<Node>, names: Option<&BTreeSet<NameBuf>>) -> Result<Entries> {
    let names = match names {
        Some(names) => names.iter().cloned().collect(),
        None => names_in(&(Arc::clone(directory) as VnodeRef))?,
    };
    let mut entries = BTreeMap::new();
    for name in names {
        match entry_of(directory, &name) {
            Ok(None) => {}
            Err(error) if objects::is_unavailable(error) => drop(entries.insert(name, None)),
            found => drop(entries.insert(name, found?)),
        }
    }
    Ok(entries)
}

/// Names in a directory; none if it is gone.
fn names_in(directory: &VnodeRef) -> Result<Vec<NameBuf>> {
    match objects::entries(directory) {
        Err(Errno::ENOENT | Errno::ESTALE) => Ok(Vec::new()),
        entries => Ok(entries?.into_iter().map(|(name, _)| name).collect()),
    }
}

/// The object that has the name now, unless it is gone.
fn entry_of(directory: &Arc<Node>, name: &NameBuf) -> Result<Option<Entry>> {
    match objects::find(&(Arc::clone(directory) as VnodeRef), name.as_name()) {
        // The directory itself is gone.
        Err(Errno::ESTALE) => Ok(None),
        found => found,
    }
}

/// A directory with its attributes.
fn entry_of_directory(directory: &Arc<Node>) -> Result<Entry> {
    let vnode = Arc::clone(directory) as VnodeRef;
    let attributes = vnode.getattr(&Caller::server())?;
    Ok(Entry { vnode, attributes })
}

/// Returns whether an object is unchanged; not if that cannot be known, in somebody else's mount.
fn if_known(is_unchanged: Result<bool>) -> Result<bool> {
    match is_unchanged {
        Err(error) if objects::is_unavailable(error) => Ok(false),
        known => known,
    }
}

/// Returns whether a directory is unchanged, apart from its contents and its times.
fn is_directory_unchanged(old: &Entry, new: &Entry) -> Result<bool> {
    Ok(is_same_entry(old, new) || (are_equal(&old.attributes, &new.attributes) && have_equal_xattrs(old, new)?))
}

/// Returns whether neither has been changed since one was copied from the other, or both are the same object.
fn is_unchanged(old: &Entry, new: &Entry) -> Result<bool> {
    if is_same_entry(old, new) {
        return Ok(true);
    }
    let (one, other) = (&old.attributes, &new.attributes);
    let is_alike =
        are_equal(one, other) && one.size == other.size && one.mtime == other.mtime && one.rdev == other.rdev;
    if !is_alike || !have_equal_xattrs(old, new)? {
        return Ok(false);
    }
    let server = Caller::server();
    match one.kind {
        FileKind::Symlink => Ok(old.vnode.readlink(&server)? == new.vnode.readlink(&server)?),
        // A program that writes to a file can restore its time and size.
        FileKind::Regular => have_equal_data(old, new),
        _ => Ok(true),
    }
}

fn have_equal_data(one: &Entry, other: &Entry) -> Result<bool> {
    let server = Caller::server();
    let files = [one.vnode.open(&server, OpenFlags::READ)?, other.vnode.open(&server, OpenFlags::READ)?];
    let mut parts = [zeros(COMPARE_CHUNK_BYTES)?, zeros(COMPARE_CHUNK_BYTES)?];
    let mut offset = 0;
    loop {
        let mut lengths = [0; 2];
        for ((file, part), length) in files.iter().zip(&mut parts).zip(&mut lengths) {
            *length = read_fully(&**file, &server, offset, part)?;
        }
        let [length, other_length] = lengths;
        if length != other_length || parts[0][..length] != parts[1][..length] {
            return Ok(false);
        }
        if length < COMPARE_CHUNK_BYTES {
            return Ok(true);
        }
        offset += length as u64;
    }
}

fn are_equal(one: &Attributes, other: &Attributes) -> bool {
    (one.kind, one.mode, one.uid, one.gid) == (other.kind, other.mode, other.uid, other.gid)
}

fn have_equal_xattrs(one: &Entry, other: &Entry) -> Result<bool> {
    Ok(whiteout::user_xattrs(&one.vnode)? == whiteout::user_xattrs(&other.vnode)?)
}

fn is_same_entry(one: &Entry, other: &Entry) -> bool {
    is_same(&node(&one.vnode).instances(), &node(&other.vnode).instances())
}

fn is_same(one: &[Instance], other: &[Instance]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
}

fn is_directory(entry: &Entry) -> bool {
    entry.attributes.is_directory()
}

fn node(vnode: &VnodeRef) -> Arc<Node> {
    vnode.as_any().downcast_ref::<Node>().expect("a union's vnodes are nodes").reference()
}

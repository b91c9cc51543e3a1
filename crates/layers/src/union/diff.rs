//! What differs between two states of a union.

use std::collections::BTreeMap;
use std::sync::Arc;

use vnode::{Attributes, Caller, Entry, FileKind, NameBuf, Result, VnodeRef};

use super::node::{Instance, Node};
use super::{whiteout, work};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What has become of the object.
    pub change: Change,
    /// From the root, without a slash before it.
    pub path: Vec<u8>,
    /// Of the newer state, or of what was deleted.
    pub kind: FileKind,
}

/// What has become of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is only in the newer state.
    Added,
    /// It is in both, and differs.
    Changed,
    /// It is only in the older state.
    Deleted,
}

impl Change {
    /// The word for it.
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

/// What is different in the newer directory, with all below it. What both have from the same branches is not looked at.
pub(super) fn compare(older: &Arc<Node>, newer: &Arc<Node>) -> Result<Vec<Difference>> {
    let mut differences = Vec::new();
    // Not by recursion: a tree may be deeper than a thread's stack.
    let mut open = vec![(Vec::new(), Arc::clone(older), Arc::clone(newer))];
    while let Some((path, older, newer)) = open.pop() {
        if is_same(&older.instances(), &newer.instances()) {
            continue;
        }
        let (mut before, after) = (entries(&older)?, entries(&newer)?);
        for (name, entry) in after {
            let path = join(&path, name.as_bytes());
            match before.remove(&name) {
                None => added(entry, path, &mut differences)?,
                Some(old) if is_directory(&old) && is_directory(&entry) => {
                    if !is_directory_unchanged(&old, &entry)? {
                        differences.push(difference(Change::Changed, &path, &entry));
                    }
                    open.push((path, node(&old.vnode), node(&entry.vnode)));
                }
                Some(old) if is_directory(&old) || is_directory(&entry) => {
                    differences.push(difference(Change::Deleted, &path, &old));
                    added(entry, path, &mut differences)?;
                }
                Some(old) if is_unchanged(&old, &entry)? => {}
                Some(_) => differences.push(difference(Change::Changed, &path, &entry)),
            }
        }
        for (name, entry) in before {
            differences.push(difference(Change::Deleted, &join(&path, name.as_bytes()), &entry));
        }
    }
    differences.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(differences)
}

/// An object with all below it is new.
fn added(entry: Entry, path: Vec<u8>, differences: &mut Vec<Difference>) -> Result<()> {
    let mut new = vec![(path, entry)];
    while let Some((path, entry)) = new.pop() {
        differences.push(difference(Change::Added, &path, &entry));
        if is_directory(&entry) {
            let below = entries(&node(&entry.vnode))?;
            new.extend(below.into_iter().map(|(name, entry)| (join(&path, name.as_bytes()), entry)));
        }
    }
    Ok(())
}

fn entries(directory: &Arc<Node>) -> Result<BTreeMap<NameBuf, Entry>> {
    let server = Caller::server();
    let vnode = Arc::clone(directory) as VnodeRef;
    let mut entries = BTreeMap::new();
    for (name, _) in work::entries(&vnode)? {
        let entry = vnode.lookup(&server, name.as_name())?;
        entries.insert(name, entry);
    }
    Ok(entries)
}

/// Whether a directory is as it was, but for what is in it and its times.
fn is_directory_unchanged(old: &Entry, new: &Entry) -> Result<bool> {
    Ok(is_same(&node(&old.vnode).instances(), &node(&new.vnode).instances())
        || (are_equal(&old.attributes, &new.attributes) && have_equal_xattrs(old, new)?))
}

/// Whether neither has been changed since the other was made of it, or both are one.
fn is_unchanged(old: &Entry, new: &Entry) -> Result<bool> {
    if is_same(&node(&old.vnode).instances(), &node(&new.vnode).instances()) {
        return Ok(true);
    }
    let (one, other) = (&old.attributes, &new.attributes);
    let is_alike =
        are_equal(one, other) && one.size == other.size && one.mtime == other.mtime && one.rdev == other.rdev;
    if !is_alike || !have_equal_xattrs(old, new)? {
        return Ok(false);
    }
    if one.kind != FileKind::Symlink {
        return Ok(true);
    }
    let server = Caller::server();
    Ok(old.vnode.readlink(&server)? == new.vnode.readlink(&server)?)
}

fn are_equal(one: &Attributes, other: &Attributes) -> bool {
    (one.kind, one.mode, one.uid, one.gid) == (other.kind, other.mode, other.uid, other.gid)
}

fn have_equal_xattrs(one: &Entry, other: &Entry) -> Result<bool> {
    Ok(whiteout::users_attributes(&one.vnode)? == whiteout::users_attributes(&other.vnode)?)
}

fn is_same(one: &[Instance], other: &[Instance]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
}

fn is_directory(entry: &Entry) -> bool {
    entry.attributes.is_directory()
}

fn difference(change: Change, path: &[u8], entry: &Entry) -> Difference {
    Difference { change, path: path.to_vec(), kind: entry.attributes.kind }
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

fn node(vnode: &VnodeRef) -> Arc<Node> {
    vnode.as_any().downcast_ref::<Node>().expect("a union's vnodes are nodes").reference()
}

//! What the branch of changes says of one directory: what is in its place, and what is gone.

use std::collections::HashSet;

use vnode::{Caller, Entry, Errno, NameBuf, Result, VnodeRef};

use super::super::whiteout::{self, Meaning, STATE};
use super::super::work;
use super::is_directory;

/// The changes in a directory, by the names in branches.
pub(super) struct Changes {
    /// What is there.
    pub(super) objects: Vec<Object>,
    /// What is hidden and has nothing in its place.
    pub(super) gone: Vec<NameBuf>,
}

/// Something in the branch of changes.
pub(super) struct Object {
    pub(super) name: NameBuf,
    pub(super) entry: Entry,
    /// A directory that has nothing of the one below.
    pub(super) hides: bool,
    /// Of a moved directory, where the rest is: a path from the root.
    pub(super) rest: Option<Vec<u8>>,
}

impl Changes {
    /// Those in a directory of the branch.
    ///
    /// # Errors
    /// `EXDEV` for a moved directory whose rest is not told by a path from the root, as only overlayfs writes it.
    pub(super) fn of(directory: &VnodeRef) -> Result<Self> {
        let server = Caller::server();
        let (mut found, mut hidden) = (Vec::new(), HashSet::new());
        for (name, _) in work::entries(directory)? {
            match whiteout::meaning(name.as_bytes()) {
                _ if name.as_bytes() == STATE => {}
                Meaning::Mark => {}
                Meaning::Whiteout(_) => {
                    hidden.extend(whiteout::stored_of_whiteout(name.as_bytes()).map(vnode::Name::to_owned));
                }
                Meaning::Object(_) => {
                    let entry = directory.lookup(&server, name.as_name())?;
                    if whiteout::is_device(&entry)? {
                        hidden.insert(name);
                    } else {
                        found.push((name, entry));
                    }
                }
            }
        }
        let mut objects = Vec::with_capacity(found.len());
        for (name, entry) in found {
            let stands = hidden.remove(&name);
            objects.push(Object::new(name, entry, stands)?);
        }
        Ok(Self { objects, gone: hidden.into_iter().collect() })
    }
}

impl Object {
    fn new(name: NameBuf, entry: Entry, has_whiteout: bool) -> Result<Self> {
        let (mut hides, mut rest) = (false, None);
        if is_directory(&entry) {
            rest = whiteout::redirect(&entry.vnode)?;
            if rest.as_ref().is_some_and(|rest| !rest.starts_with(b"/")) {
                return Err(Errno::EXDEV);
            }
            hides = rest.is_none() && (has_whiteout || whiteout::is_opaque(&entry.vnode)?);
        }
        Ok(Self { name, entry, hides, rest })
    }

    /// Its path below that of its directory, as users see it.
    pub(super) fn path(&self, directory: &[u8]) -> Vec<u8> {
        join(directory, &self.name)
    }
}

/// The path, as users see it, of what has this name in branches.
pub(super) fn join(directory: &[u8], stored: &NameBuf) -> Vec<u8> {
    let name = match whiteout::meaning(stored.as_bytes()) {
        Meaning::Object(name) | Meaning::Whiteout(name) => name,
        Meaning::Mark => stored.as_bytes().into(),
    };
    if directory.is_empty() { name.into_owned() } else { [directory, b"/", &name].concat() }
}

//! Names of a directory listing that rules control, as collected so far.
//!
//! Names are listed in the order of their hashes, which serve as the cookies from which reading resumes: a hash stays
//! the same when other names come and go, and when the directory is opened again.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use vnode::layer::LayerVnode;
use vnode::{Caller, Cookie, DirectoryEntry, Errno, FileKind, InodeNumber, NameBuf, Result};

use super::layer::FistLayer;

/// Maximum number of bytes of names, with the data kept for each, that rules add to a listing.
const MAX_ADDED_BYTES: usize = 64 << 20;

/// Returns the cookie from which reading resumes after a name.
fn cookie(name: &NameBuf) -> Cookie {
    let mut hasher = DefaultHasher::new();
    name.as_bytes().hash(&mut hasher);
    Cookie::new(hasher.finish() >> 1).max(Cookie::FIRST)
}

/// A listed name.
pub(crate) struct ListedName {
    pub(crate) cookie: Cookie,
    pub(crate) name: NameBuf,
    pub(crate) ino: InodeNumber,
    pub(crate) kind: Option<FileKind>,
}

/// Names collected so far.
#[derive(Default)]
pub(crate) struct CollectedNames {
    listed: Vec<ListedName>,
    seen: HashSet<NameBuf>,
    /// Name that is being passed to the rules.
    current: Option<NameBuf>,
    is_skipped: bool,
    /// Number of bytes that rules have added.
    added_bytes: usize,
}

impl CollectedNames {
    pub(crate) fn current(&self) -> Option<&[u8]> {
        self.current.as_ref().map(NameBuf::as_bytes)
    }

    /// Omits a name: the one that is being passed to the rules, or another.
    pub(crate) fn skip(&mut self, name: Option<&[u8]>) {
        match name {
            Some(name) if self.current() != Some(name) => self.listed.retain(|listed| listed.name.as_bytes() != name),
            _ => self.is_skipped = true,
        }
    }

    /// Begins to pass a name to the rules.
    pub(crate) fn begin(&mut self, name: NameBuf) {
        self.current = Some(name);
        self.is_skipped = false;
    }

    /// Lists the name that was passed to the rules, unless they have skipped it.
    pub(crate) fn end(&mut self, entry: DirectoryEntry<'_>) {
        self.current = None;
        if !self.is_skipped {
            self.add(entry);
        }
    }

    fn add(&mut self, entry: DirectoryEntry<'_>) {
        let name = entry.name.to_owned();
        self.seen.insert(name.clone());
        self.listed.push(ListedName { cookie: cookie(&name), name, ino: entry.ino, kind: entry.kind });
    }

    /// Returns the names in the order of their cookies, no two of which are equal.
    pub(crate) fn into_cookie_order(mut self) -> Vec<ListedName> {
        self.listed.sort_by(|one, other| (one.cookie, &one.name).cmp(&(other.cookie, &other.name)));
        let mut last = Cookie::START;
        for listed in &mut self.listed {
            listed.cookie = listed.cookie.max(last.next());
            last = listed.cookie;
        }
        self.listed
    }

    /// Adds the names of another directory.
    pub(crate) fn read(&mut self, node: &LayerVnode<FistLayer>, caller: &Caller, skips_seen: bool) -> Result<()> {
        let directory = node.forward_open_directory(caller)?;
        let mut is_over_limit = false;
        directory.read(caller, Cookie::START, &mut |entry| {
            if !(skips_seen && self.seen.contains(&entry.name.to_owned())) {
                self.added_bytes += entry.name.as_bytes().len() + std::mem::size_of::<ListedName>();
                is_over_limit = self.added_bytes > MAX_ADDED_BYTES;
                if is_over_limit {
                    return ControlFlow::Break(());
                }
                self.add(entry);
            }
            ControlFlow::Continue(())
        })?;
        if is_over_limit { Err(Errno::ENOMEM) } else { Ok(()) }
    }
}

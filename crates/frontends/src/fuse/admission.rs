//! Admission: which names the kernel may cache, given that it checks nobody's permission to search on cached names.
//!
//! A name may be kept only where everybody may search its directory: all three execute bits, and no access control
//! list that could narrow them. Elsewhere each use of the name is a look-up that the stack decides with the caller's
//! credentials. The answer is remembered in the directory's node; it is asked again after every change that could
//! alter it, and after a while where others may change the directory below.

use super::current::Current;
use super::nodes::Node;
use super::options::NameCaching;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use vnode::{Caller, Errno};

/// The extended attribute that holds a list which narrows the mode.
pub(crate) const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

/// The extended attribute that holds the list which a directory gives to what is created in it.
pub(crate) const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// What is remembered in a node: zero if nobody asked yet; without `KNOWN` the answer was forgotten; else `OPEN` is the
/// answer and the bits above tell when it was found.
const KNOWN: u64 = 1;
const OPEN: u64 = 2;
const TIME_SHIFT: u32 = 2;

/// How long an answer holds where others may change the directory.
const RECHECK_MS: u64 = 1000;

pub(crate) struct Admission {
    current: Arc<Current>,
    started: Instant,
    server: Caller,
}

impl Admission {
    pub(crate) fn new(current: Arc<Current>) -> Admission {
        Admission { current, started: Instant::now(), server: Caller::server() }
    }

    /// Whether names in this directory may be cached.
    pub(crate) fn names_cacheable(&self, directory: &Node) -> bool {
        match self.current.decisions().names {
            NameCaching::Never => false,
            NameCaching::Always => true,
            NameCaching::SearchableByAll => self.searchable_by_all(directory),
        }
    }

    /// Forgets the answer for a directory whose mode or list has changed, and asks again. Whether the kernel may hold
    /// names of it that it must not hold any more.
    pub(crate) fn changed(&self, directory: &Node) -> bool {
        if self.current.decisions().names != NameCaching::SearchableByAll {
            return false;
        }
        // Any value but those before: an answer being found out just now must not be kept.
        let before = directory
            .note
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(((old >> TIME_SHIFT) + 1) << TIME_SHIFT));
        let before = before.unwrap_or_default();
        let never_asked = before == 0;
        let was_closed = before & (KNOWN | OPEN) == KNOWN;
        !never_asked && !was_closed && !self.searchable_by_all(directory)
    }

    fn searchable_by_all(&self, directory: &Node) -> bool {
        let now_ms = self.started.elapsed().as_millis() as u64;
        let known = directory.note.load(Ordering::Acquire);
        let fresh =
            known & KNOWN != 0 && (self.current.decisions().exclusive || now_ms < (known >> TIME_SHIFT) + RECHECK_MS);
        if fresh {
            return known & OPEN != 0;
        }
        let open = self.ask(directory);
        let answer = KNOWN | if open { OPEN } else { 0 } | now_ms << TIME_SHIFT;
        remember(&directory.note, known, answer);
        open
    }

    fn ask(&self, directory: &Node) -> bool {
        const SEARCH_ALL: u32 = 0o111;
        let searchable = match directory.vnode.getattr(&self.server) {
            Ok(attributes) => attributes.mode & SEARCH_ALL == SEARCH_ALL,
            Err(_) => false,
        };
        // A list is taken to narrow without reading it: they are rare, and it costs speed only.
        searchable
            && matches!(directory.vnode.getxattr(&self.server, ACCESS_ACL), Err(Errno::ENODATA | Errno::EOPNOTSUPP))
    }
}

/// Keeps the answer unless somebody reset it while it was found out.
fn remember(place: &AtomicU64, before: u64, answer: u64) {
    let _ = place.compare_exchange(before, answer, Ordering::AcqRel, Ordering::Relaxed);
}

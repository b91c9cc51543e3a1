//! Access control for cached names: which names the kernel may cache, given that it checks nobody's search permission on
//! cached names.
//!
//! A name may be cached only where everybody may search its directory: all three execute bits are set, and no access control
//! list can narrow them. Elsewhere each use of the name is a lookup that the stack decides with the caller's credentials. The
//! result is cached in the directory's node; it is computed again after every change that could alter it, and after an
//! interval where others may change the directory below.

use crate::fuse::mounting::decisions::CurrentDecisions;
use crate::fuse::mounting::options::NameCaching;
use crate::fuse::nodes::Node;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use vnode::{Caller, Errno};

/// The extended attribute that holds an access control list, which narrows the mode.
pub(crate) const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

/// The extended attribute that holds a directory's default access control list, which objects created in it inherit.
pub(crate) const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// State bits of a directory's node: zero if nobody has asked yet; without `IS_COMPUTED` the result has been discarded;
/// otherwise `IS_SEARCHABLE` is the result, and the bits above it are the time at which it was computed.
const IS_COMPUTED: u64 = 1;
const IS_SEARCHABLE: u64 = 2;
const TIME_SHIFT: u32 = 2;

/// How long a result is valid where others may change the directory, in milliseconds.
const RECHECK_INTERVAL_MS: u64 = 1000;

pub(crate) struct NameCachePolicy {
    current: Arc<CurrentDecisions>,
    started: Instant,
    server: Caller,
}

impl NameCachePolicy {
    pub(crate) fn new(current: Arc<CurrentDecisions>) -> NameCachePolicy {
        NameCachePolicy { current, started: Instant::now(), server: Caller::server() }
    }

    /// Returns whether names in this directory may be cached.
    pub(crate) fn may_cache_names(&self, directory: &Node) -> bool {
        match self.current.decisions().names {
            NameCaching::Never => false,
            NameCaching::Always => true,
            NameCaching::SearchableByAll => self.is_searchable_by_all(directory),
        }
    }

    /// Discards the result for a directory whose mode or access control list has changed, and computes it again. Returns
    /// whether the kernel may hold names of the directory that it must no longer hold.
    pub(crate) fn refresh(&self, directory: &Node) -> bool {
        if self.current.decisions().names != NameCaching::SearchableByAll {
            return false;
        }
        // Any value but the earlier ones: a result that is being computed right now must not be stored.
        let before = directory
            .state_bits
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(((old >> TIME_SHIFT) + 1) << TIME_SHIFT));
        let before = before.unwrap_or_default();
        let was_never_computed = before == 0;
        let was_unsearchable = before & (IS_COMPUTED | IS_SEARCHABLE) == IS_COMPUTED;
        !was_never_computed && !was_unsearchable && !self.is_searchable_by_all(directory)
    }

    fn is_searchable_by_all(&self, directory: &Node) -> bool {
        let now_ms = self.started.elapsed().as_millis() as u64;
        let cached = directory.state_bits.load(Ordering::Acquire);
        let is_fresh = cached & IS_COMPUTED != 0
            && (self.current.decisions().exclusive || now_ms < (cached >> TIME_SHIFT) + RECHECK_INTERVAL_MS);
        if is_fresh {
            return cached & IS_SEARCHABLE != 0;
        }
        let is_searchable = self.query_searchable(directory);
        let result = IS_COMPUTED | if is_searchable { IS_SEARCHABLE } else { 0 } | now_ms << TIME_SHIFT;
        store_unless_reset(&directory.state_bits, cached, result);
        is_searchable
    }

    fn query_searchable(&self, directory: &Node) -> bool {
        const SEARCH_ALL: u32 = 0o111;
        let searchable = match directory.vnode.getattr(&self.server) {
            Ok(attributes) => attributes.mode & SEARCH_ALL == SEARCH_ALL,
            Err(_) => false,
        };
        // An access control list counts as narrowing without being read: lists are rare, and the cost is only speed.
        searchable
            && matches!(directory.vnode.getxattr(&self.server, ACCESS_ACL), Err(Errno::ENODATA | Errno::EOPNOTSUPP))
    }
}

/// Stores the result unless somebody reset it while it was being computed.
fn store_unless_reset(state_bits: &AtomicU64, before: u64, result: u64) {
    let _ = state_bits.compare_exchange(before, result, Ordering::AcqRel, Ordering::Relaxed);
}

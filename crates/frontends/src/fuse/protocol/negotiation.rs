//! INIT: which of the requested features this kernel has, and the fallbacks for the others.

use super::features::Features;
use super::wire::{self, init};

/// The features that the front end requests; the kernel's offer decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestedFeatures {
    /// Requests arrive through io_uring.
    pub(crate) uring: bool,
    /// Pass open files to the kernel where the stack leaves data untouched.
    pub(crate) passthrough: bool,
    /// The kernel caches writes, with sizes and times, and writes them back later; only without `passthrough`.
    pub(crate) write_back: bool,
    /// Let the kernel apply access control lists; only together with `default_permissions`.
    pub(crate) posix_acl: bool,
    pub(crate) cache_symlinks: bool,
    /// Byte-range locks reach the stack.
    pub(crate) posix_locks: bool,
    /// Flock locks reach the stack.
    pub(crate) flock_locks: bool,
    /// Something else may change the files: cached pages are dropped when size or mtime changed.
    pub(crate) drop_changed_data: bool,
    /// Maximum size of a read, write or directory listing in one request, in bytes.
    pub(crate) message_bytes_max: u32,
    /// Maximum number of the kernel's own requests in flight (read-ahead, writeback, release).
    pub(crate) background_max: u16,
    /// Features that are treated as missing, whatever the kernel offers.
    pub(crate) withheld: Features,
}

/// The result of the negotiation between kernel and front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// The protocol's minor version in use.
    pub(crate) minor: u32,
    /// The features in use, bits of [`init`].
    pub(crate) features: u64,
    /// Maximum size of a write, in bytes.
    pub(crate) max_write: u32,
    /// Maximum number of pages per message.
    pub(crate) max_pages: u16,
}

impl Negotiated {
    /// Returns whether all these features are in use.
    pub(crate) fn has(&self, features: u64) -> bool {
        self.features & features == features
    }
}

/// The answer to an INIT.
#[derive(Debug)]
pub(crate) enum NegotiationResult {
    /// Success: the reply, and what is in use from now on.
    Agreed(Box<wire::InitOut>, Negotiated),
    /// The kernel speaks a later major version: this reply makes it retry with ours.
    Retry(Box<wire::InitOut>),
    /// The kernel is too old.
    TooOld { major: u32, minor: u32 },
}

/// Features used wherever the kernel has them. The fallbacks, line by line: reads one at a time, no handles for lookups of
/// `.`, 4 KiB writes, the kernel applies the umask, ioctl on files only, one direct read at a time, READDIR, READDIRPLUS each
/// time, readlink requested each time, one directory operation at a time, the older HANDLE_KILLPRIV, SETXATTR without flags,
/// no second word of features, the caller's groups from /proc, names cached for a second at most, 128 KiB messages, no shared
/// mapping of files opened for direct I/O.
///
/// Truncation by OPEN is not among them: the kernel checks only afterwards whether the file is a program being executed, whose
/// content would be lost by then. So it sends a SETATTR instead.
const ALWAYS_REQUESTED: u64 = init::ASYNC_READ
    | init::EXPORT_SUPPORT
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::HAS_IOCTL_DIR
    | init::ASYNC_DIO
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::PARALLEL_DIROPS
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::CREATE_SUPP_GROUP
    | init::HAS_EXPIRE_ONLY
    | init::MAX_PAGES
    | init::DIRECT_IO_ALLOW_MMAP;

/// Maximum number of pages per message for a kernel without MAX_PAGES.
const PAGES_DEFAULT: u32 = 32;

/// Decides on an offer. `page_size` is the machine's, in bytes.
pub(crate) fn negotiate(offer: &wire::InitIn, requested: &RequestedFeatures, page_size: u32) -> NegotiationResult {
    if offer.major > wire::MAJOR_VERSION {
        let major = wire::MAJOR_VERSION;
        let ours = wire::InitOut { major, minor: wire::MINOR_VERSION, ..Default::default() };
        return NegotiationResult::Retry(Box::new(ours));
    }
    if offer.major < wire::MAJOR_VERSION || offer.minor < wire::MINOR_VERSION_MIN {
        return NegotiationResult::TooOld { major: offer.major, minor: offer.minor };
    }
    let offered = offered_features(offer, requested.withheld.bits());
    let mut features = ALWAYS_REQUESTED & offered;
    let mut request = |wanted: bool, feature: u64| {
        if wanted {
            features |= feature & offered;
        }
    };
    request(requested.uring, init::OVER_IO_URING);
    request(requested.passthrough, init::PASSTHROUGH);
    request(requested.write_back, init::WRITEBACK_CACHE);
    request(requested.posix_acl, init::POSIX_ACL);
    request(requested.cache_symlinks, init::CACHE_SYMLINKS);
    request(requested.posix_locks, init::POSIX_LOCKS);
    request(requested.flock_locks, init::FLOCK_LOCKS);
    request(requested.drop_changed_data, init::AUTO_INVAL_DATA);

    // A kernel with neither has set-ID bits cleared in the name of the writer, who need not be permitted to. A kernel with the
    // writeback cache does not report who wrote.
    let clears_set_id = features & init::HANDLE_KILLPRIV_V2 != 0 || requested.write_back;
    if !clears_set_id {
        features |= init::HANDLE_KILLPRIV & offered;
    }

    let pages_requested = requested.message_bytes_max.div_ceil(page_size).max(1);
    let pages = if features & init::MAX_PAGES != 0 { pages_requested } else { pages_requested.min(PAGES_DEFAULT) };
    let max_pages = u16::try_from(pages).unwrap_or(u16::MAX);
    let minor = offer.minor.min(wire::MINOR_VERSION);
    let negotiated = Negotiated { minor, features, max_write: u32::from(max_pages) * page_size, max_pages };
    NegotiationResult::Agreed(Box::new(reply(offer, requested, &negotiated)), negotiated)
}

/// Returns the features offered, without those withheld. Without INIT_EXT there is no second word.
fn offered_features(offer: &wire::InitIn, withheld: u64) -> u64 {
    let low = u64::from(offer.flags) & !withheld;
    let high = if low & init::INIT_EXT != 0 { u64::from(offer.flags2) << 32 } else { 0 };
    low | (high & !withheld)
}

fn reply(offer: &wire::InitIn, requested: &RequestedFeatures, negotiated: &Negotiated) -> wire::InitOut {
    wire::InitOut {
        major: wire::MAJOR_VERSION,
        minor: negotiated.minor,
        max_readahead: offer.max_readahead,
        flags: negotiated.features as u32,
        max_background: requested.background_max,
        congestion_threshold: requested.background_max / 4 * 3,
        max_write: negotiated.max_write,
        time_granularity: 1,
        max_pages: negotiated.max_pages,
        map_alignment: 0,
        flags2: (negotiated.features >> 32) as u32,
        // One level of stacking: the lower file system must not be stacked itself.
        max_stack_depth: u32::from(negotiated.has(init::PASSTHROUGH)),
        request_timeout_s: 0,
        unused: [0; 11],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTED: RequestedFeatures = RequestedFeatures {
        uring: true,
        passthrough: true,
        write_back: false,
        posix_acl: false,
        cache_symlinks: true,
        posix_locks: true,
        flock_locks: true,
        drop_changed_data: true,
        message_bytes_max: 1 << 20,
        background_max: 64,
        withheld: Features::NONE,
    };

    fn offer(minor: u32, features: u64) -> wire::InitIn {
        wire::InitIn {
            major: 7,
            minor,
            max_readahead: 131_072,
            flags: features as u32,
            flags2: (features >> 32) as u32,
            unused: [0; 11],
        }
    }

    fn agreed(minor: u32, features: u64, requested: &RequestedFeatures) -> (wire::InitOut, Negotiated) {
        match negotiate(&offer(minor, features), requested, 4096) {
            NegotiationResult::Agreed(reply, negotiated) => (*reply, negotiated),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn new_kernel_grants_all_requested_features() {
        let (reply, negotiated) = agreed(45, u64::MAX, &REQUESTED);
        let expected = ALWAYS_REQUESTED
            | init::OVER_IO_URING
            | init::PASSTHROUGH
            | init::CACHE_SYMLINKS
            | init::POSIX_LOCKS
            | init::FLOCK_LOCKS
            | init::AUTO_INVAL_DATA;
        assert_eq!(negotiated.features, expected);
        assert_eq!(u64::from(reply.flags) | u64::from(reply.flags2) << 32, expected);
        assert_eq!((reply.max_write, reply.max_pages, reply.max_stack_depth), (1 << 20, 256, 1));
    }

    #[test]
    fn only_offered_features_are_used() {
        for bit in 0..64 {
            let feature = 1 << bit;
            let (_, negotiated) = agreed(45, !feature, &REQUESTED);
            assert_eq!(negotiated.features & feature, 0, "bit {bit}");
        }
        let (reply, negotiated) = agreed(31, 0, &REQUESTED);
        assert_eq!(negotiated.features, 0);
        assert_eq!((reply.max_write, reply.max_pages), (131_072, 32));
        assert_eq!(reply.max_stack_depth, 0);
    }

    #[test]
    fn linux_5_10_gets_the_first_word_only() {
        let features = u64::from(u32::MAX) & !init::INIT_EXT & !init::SETXATTR_EXT;
        let (reply, negotiated) = agreed(32, features | init::PASSTHROUGH, &REQUESTED);
        assert_eq!(reply.flags2, 0);
        assert_eq!(reply.minor, 32);
        assert!(!negotiated.has(init::PASSTHROUGH));
        assert!(negotiated.has(init::PARALLEL_DIROPS | init::MAX_PAGES));
    }

    #[test]
    fn costly_features_are_used_only_on_request() {
        let modest = RequestedFeatures {
            uring: false,
            passthrough: false,
            write_back: true,
            posix_acl: true,
            cache_symlinks: true,
            posix_locks: false,
            flock_locks: false,
            drop_changed_data: false,
            ..REQUESTED
        };
        let (_, negotiated) = agreed(45, u64::MAX, &modest);
        let unwanted =
            init::OVER_IO_URING | init::PASSTHROUGH | init::POSIX_LOCKS | init::FLOCK_LOCKS | init::AUTO_INVAL_DATA;
        assert_eq!(negotiated.features & unwanted, 0);
        assert!(negotiated.has(init::POSIX_ACL | init::WRITEBACK_CACHE));
        assert_eq!(negotiated.features & init::NO_EXPORT_SUPPORT, 0);
    }

    #[test]
    fn withheld_feature_disables_no_other() {
        let all = RequestedFeatures { write_back: true, posix_acl: true, ..REQUESTED };
        let (_, whole) = agreed(45, u64::MAX, &all);
        for (name, withheld) in Features::all() {
            let (reply, negotiated) = agreed(45, u64::MAX, &RequestedFeatures { withheld, ..all });
            let lost = match name {
                "init-ext" => init::INIT_EXT | whole.features & !u64::from(u32::MAX),
                _ => withheld.bits(),
            };
            assert_eq!(negotiated.features, whole.features & !lost, "{name}");
            assert_ne!(negotiated, whole, "{name} is not used at all");
            assert_eq!(u64::from(reply.flags) | u64::from(reply.flags2) << 32, negotiated.features, "{name}");
            assert_eq!(reply.minor, negotiated.minor, "{name}");
            assert_eq!(reply.max_pages, if name == "max-pages" { 32 } else { 256 }, "{name}");
            assert_eq!(reply.max_stack_depth != 0, negotiated.has(init::PASSTHROUGH), "{name}");
        }
    }

    #[test]
    fn linux_5_10_leaves_set_id_bits_to_the_stack() {
        let older = !init::HANDLE_KILLPRIV_V2;
        assert!(agreed(32, older, &REQUESTED).1.has(init::HANDLE_KILLPRIV));
        assert!(!agreed(32, older, &RequestedFeatures { write_back: true, ..REQUESTED }).1.has(init::HANDLE_KILLPRIV));
        assert!(!agreed(32, older & !init::HANDLE_KILLPRIV, &REQUESTED).1.has(init::HANDLE_KILLPRIV));
        assert!(!agreed(33, u64::MAX, &REQUESTED).1.has(init::HANDLE_KILLPRIV));
    }

    #[test]
    fn every_feature_that_is_used_has_a_name() {
        let named = Features::all().fold(Features::NONE, |set, (_, feature)| set | feature);
        let all = RequestedFeatures { write_back: true, posix_acl: true, ..REQUESTED };
        assert_eq!(agreed(45, u64::MAX, &all).1.features, named.bits());
    }

    #[test]
    fn lower_minor_version_is_used() {
        assert_eq!(agreed(38, u64::MAX, &REQUESTED).1.minor, 38);
        assert_eq!(agreed(99, u64::MAX, &REQUESTED).1.minor, wire::MINOR_VERSION);
        let later = wire::InitIn { major: 8, ..offer(0, 0) };
        assert!(matches!(negotiate(&later, &REQUESTED, 4096), NegotiationResult::Retry(reply) if reply.major == 7));
        let old = offer(30, 0);
        assert!(matches!(negotiate(&old, &REQUESTED, 4096), NegotiationResult::TooOld { major: 7, minor: 30 }));
    }

    #[test]
    fn messages_are_counted_in_pages_of_the_machine() {
        let NegotiationResult::Agreed(reply, _) = negotiate(&offer(45, u64::MAX), &REQUESTED, 65_536) else {
            panic!("not agreed")
        };
        assert_eq!((reply.max_pages, reply.max_write), (16, 1 << 20));
    }
}

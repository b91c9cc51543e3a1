//! Features that a mount's decisions request from the kernel, and what remains of the decisions after the kernel's offer.

use super::negotiation::{Negotiated, RequestedFeatures};
use super::wire::init;
use crate::fuse::mounting::error::MountError;
use crate::fuse::mounting::options::{Decisions, MountOptions, NameCaching, REGULAR_TIMEOUT, TURNED_OFF, Uring};
use std::time::Duration;

/// Maximum message size in bytes: 1 MiB, the most that Linux accepts by default.
const MESSAGE_BYTES_MAX: u32 = 1 << 20;
/// Maximum number of background requests (read-ahead, release) in flight.
const BACKGROUND_MAX: u16 = 64;
/// Maximum number of background requests with the writeback cache: writes to one file wait for each other, each with a thread
/// and its memory.
const BACKGROUND_MAX_WRITTEN_BACK: u16 = 12;

const NO_PASSTHROUGH: &str = "the kernel has no passthrough (Linux 6.9 has)";
const NO_WRITE_BACK: &str = "it has no writeback cache for FUSE";
const NO_URING: &str = "the kernel does not offer it";

/// Returns what a mount requests in the negotiation.
pub(crate) fn requested_features(decisions: &Decisions) -> RequestedFeatures {
    RequestedFeatures {
        uring: decisions.uring.is_ok(),
        passthrough: decisions.passthrough.is_ok(),
        write_back: decisions.write_back.is_ok(),
        posix_acl: decisions.posix_acl,
        // The kernel would give others a symlink's target without asking the stack.
        cache_symlinks: !decisions.guards_others(),
        posix_locks: decisions.forward_locks,
        flock_locks: decisions.forward_flocks,
        drop_changed_data: decisions.drops_changed_data,
        message_bytes_max: MESSAGE_BYTES_MAX,
        background_max: if decisions.write_back.is_ok() { BACKGROUND_MAX_WRITTEN_BACK } else { BACKGROUND_MAX },
        withheld: decisions.withheld,
    }
}

/// Corrects the decisions by what was negotiated: afterwards they promise nothing that the kernel lacks.
pub(crate) fn apply_negotiated(decisions: &mut Decisions, negotiated: &Negotiated) {
    let withheld = decisions.withheld;
    let require = |feature, reason| match negotiated.has(feature) {
        true => Ok(()),
        false if withheld.rule_out(feature) => Err(TURNED_OFF),
        false => Err(reason),
    };
    decisions.passthrough = decisions.passthrough.and_then(|()| require(init::PASSTHROUGH, NO_PASSTHROUGH));
    decisions.write_back =
        decisions.write_back.and_then(|()| require(init::WRITEBACK_CACHE, NO_WRITE_BACK).map_err(Some));
    decisions.uring = decisions.uring.and_then(|()| require(init::OVER_IO_URING, NO_URING));
    if !negotiated.has(init::POSIX_ACL) {
        decisions.drop_acls();
    }
    if !negotiated.has(init::HAS_EXPIRE_ONLY) {
        limit_name_caching(decisions);
    }
    decisions.forward_locks &= negotiated.has(init::POSIX_LOCKS);
    decisions.forward_flocks &= negotiated.has(init::FLOCK_LOCKS);
    decisions.drops_changed_data &= negotiated.has(init::AUTO_INVAL_DATA);
}

/// Limits name caching on kernels that can revalidate a name only by detaching what is mounted inside: such a kernel caches
/// names for a short time at most, and none that may have to be expired at once.
fn limit_name_caching(decisions: &mut Decisions) {
    if decisions.names == NameCaching::SearchableByAll {
        decisions.names = NameCaching::Never;
    }
    match decisions.names {
        NameCaching::Never => (decisions.name_timeout, decisions.negative_names) = (Duration::ZERO, false),
        _ => decisions.name_timeout = decisions.name_timeout.min(REGULAR_TIMEOUT),
    }
}

/// Returns the error of a mount whose options require what the decisions do not grant.
pub(crate) fn unmet_requirement(decisions: &Decisions, options: &MountOptions) -> Option<MountError> {
    match (decisions.uring, decisions.write_back) {
        (Err(reason), _) if options.uring == Uring::On => Some(MountError::NoUring(reason)),
        (_, Err(Some(reason))) => Some(MountError::NoWriteBack(reason)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::mounting::options::decide;
    use crate::fuse::protocol::features::Features;
    use crate::fuse::protocol::negotiation::{NegotiationResult, negotiate};
    use crate::fuse::protocol::wire;
    use vnode::{Promises, Properties};

    const REGULAR: Properties =
        Properties { promises: Promises { exclusive: false, ..Promises::TRANSPARENT }, ..Properties::TRANSPARENT };
    /// Features introduced after Linux 6.1.
    const LATER: u64 = init::CREATE_SUPP_GROUP
        | init::HAS_EXPIRE_ONLY
        | init::DIRECT_IO_ALLOW_MMAP
        | init::PASSTHROUGH
        | init::NO_EXPORT_SUPPORT
        | init::HAS_RESEND
        | init::ALLOW_IDMAP
        | init::OVER_IO_URING
        | init::REQUEST_TIMEOUT;

    fn corrected(properties: &Properties, options: &MountOptions, minor: u32, features: u64) -> Decisions {
        let mut decisions = decide(properties, options);
        if rustix::process::geteuid().is_root() {
            assert_eq!(decisions.passthrough.is_ok(), options.passthrough && !options.write_back);
        }
        let (flags, flags2) = (features as u32, (features >> 32) as u32);
        let offer = wire::InitIn { major: 7, minor, max_readahead: 0, flags, flags2, unused: [0; 11] };
        let NegotiationResult::Agreed(_, negotiated) = negotiate(&offer, &requested_features(&decisions), 4096) else {
            panic!("not agreed")
        };
        apply_negotiated(&mut decisions, &negotiated);
        decisions
    }

    fn without(names: &str) -> MountOptions {
        MountOptions { withheld: names.parse().unwrap(), ..MountOptions::default() }
    }

    #[test]
    fn linux_6_1_gets_no_passthrough_and_no_io_uring() {
        // Decided on another kernel, where the switch is on.
        let options = MountOptions { uring: Uring::On, ..MountOptions::default() };
        let decisions = corrected(&REGULAR, &options, 37, !LATER);
        assert!(decisions.forward_locks && decisions.forward_flocks && decisions.drops_changed_data);
        let text = decisions.to_string();
        assert!(text.contains("io_uring: the kernel does not offer it\n"), "{text}");
        if rustix::process::geteuid().is_root() {
            let data = "data read and written: by the stack, through the page cache: \
                the kernel has no passthrough (Linux 6.9 has)\n";
            assert!(text.contains(data), "{text}");
        }
        assert!(matches!(unmet_requirement(&decisions, &options), Some(MountError::NoUring(NO_URING))));
    }

    #[test]
    fn name_caching_is_limited_without_expire_only() {
        let options = without("has-expire-only");
        let decisions = corrected(&REGULAR, &options, 45, u64::MAX);
        assert_eq!((decisions.names, decisions.name_timeout), (NameCaching::Never, Duration::ZERO));
        assert!(!decisions.negative_names);
        let options = MountOptions { default_permissions: Some(true), over: true, ..options };
        let decisions = corrected(&REGULAR, &options, 45, u64::MAX);
        assert_eq!((decisions.names, decisions.name_timeout), (NameCaching::Always, REGULAR_TIMEOUT));
    }

    #[test]
    fn differing_opens_are_uncached_without_passthrough() {
        let properties = Properties { promises: Promises { opens_share_data: false, ..REGULAR.promises }, ..REGULAR };
        let decisions = corrected(&properties, &MountOptions::default(), 37, !LATER);
        assert!(decisions.direct_io());
        assert!(decisions.to_string().contains("by the stack, uncached: "), "{decisions}");
    }

    #[test]
    fn withheld_features_are_reported_as_turned_off() {
        let newest = |options: &MountOptions| corrected(&REGULAR, options, 45, u64::MAX);
        if rustix::process::geteuid().is_root() {
            assert_eq!(newest(&MountOptions::default()).passthrough, Ok(()));
            assert_eq!(newest(&without("passthrough")).passthrough, Err(TURNED_OFF));
            assert_eq!(newest(&without("init-ext")).passthrough, Err(TURNED_OFF));
        }
        let back = MountOptions { write_back: true, ..without("writeback-cache") };
        let decisions = newest(&back);
        assert_eq!(decisions.write_back, Err(Some(TURNED_OFF)));
        assert!(matches!(unmet_requirement(&decisions, &back), Some(MountError::NoWriteBack(TURNED_OFF))));
        let text = newest(&without("passthrough:async-read")).to_string();
        assert!(text.contains("\nfeatures of the kernel left unused: async-read:passthrough"), "{text}");
    }

    #[test]
    fn kernel_manages_locks_that_it_does_not_forward() {
        let locks = |names: &str| {
            let decisions = corrected(&REGULAR, &without(names), 45, u64::MAX);
            let text = decisions.to_string();
            let line = text.lines().find_map(|line| line.strip_prefix("locks: ")).unwrap().to_owned();
            (decisions.needs_flush(), line)
        };
        assert_eq!(locks("async-read"), (true, "kept by the base".to_owned()));
        assert_eq!(locks("posix-locks:flock-locks"), (false, "kept by the kernel".to_owned()));
        let byte_ranges = "of byte ranges kept by the kernel, of whole files (flock) by the base";
        assert_eq!(locks("posix-locks"), (false, byte_ranges.to_owned()));
        let files = "of byte ranges kept by the base, of whole files (flock) by the kernel";
        assert_eq!(locks("flock-locks"), (true, files.to_owned()));
    }

    #[test]
    fn acls_and_changed_data_follow_the_negotiated_features() {
        let options = MountOptions { allow_other: true, default_permissions: Some(true), ..MountOptions::default() };
        assert!(corrected(&REGULAR, &options, 45, u64::MAX).posix_acl);
        assert!(!corrected(&REGULAR, &options, 45, !init::POSIX_ACL).posix_acl);
        let by_itself = MountOptions { allow_other: true, ..MountOptions::default() };
        assert!(corrected(&REGULAR, &by_itself, 45, u64::MAX).default_permissions);
        assert!(!corrected(&REGULAR, &by_itself, 45, !init::POSIX_ACL).default_permissions);
        let uncached = MountOptions { passthrough: false, ..without("auto-inval-data") };
        let text = corrected(&REGULAR, &uncached, 45, u64::MAX).to_string();
        assert!(text.contains("data cached: until an open finds other times; written: at once\n"), "{text}");
    }

    #[test]
    fn full_featured_kernel_keeps_the_decisions() {
        let options = MountOptions { passthrough: false, ..MountOptions::default() };
        let decisions = decide(&REGULAR, &options);
        assert_eq!(corrected(&REGULAR, &options, 45, u64::MAX), decisions);
        assert_eq!(decisions.withheld, Features::NONE);
    }
}

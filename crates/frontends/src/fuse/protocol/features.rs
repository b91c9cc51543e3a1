//! The optional features of the FUSE protocol by name, and sets of them.

use super::wire::init;
use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

/// A set of optional features of the FUSE protocol. As text: the kernel's names in lower case, with hyphens, separated by
/// colons, such as `passthrough:writeback-cache`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

/// Features that the front end uses where the kernel has them.
const NAMES: [(&str, u64); 24] = [
    ("async-read", init::ASYNC_READ),
    ("posix-locks", init::POSIX_LOCKS),
    ("export-support", init::EXPORT_SUPPORT),
    ("big-writes", init::BIG_WRITES),
    ("dont-mask", init::DONT_MASK),
    ("flock-locks", init::FLOCK_LOCKS),
    ("has-ioctl-dir", init::HAS_IOCTL_DIR),
    ("auto-inval-data", init::AUTO_INVAL_DATA),
    ("do-readdirplus", init::DO_READDIRPLUS),
    ("readdirplus-auto", init::READDIRPLUS_AUTO),
    ("async-dio", init::ASYNC_DIO),
    ("writeback-cache", init::WRITEBACK_CACHE),
    ("parallel-dirops", init::PARALLEL_DIROPS),
    ("posix-acl", init::POSIX_ACL),
    ("max-pages", init::MAX_PAGES),
    ("cache-symlinks", init::CACHE_SYMLINKS),
    ("handle-killpriv-v2", init::HANDLE_KILLPRIV_V2),
    ("setxattr-ext", init::SETXATTR_EXT),
    ("init-ext", init::INIT_EXT),
    ("create-supp-group", init::CREATE_SUPP_GROUP),
    ("has-expire-only", init::HAS_EXPIRE_ONLY),
    ("direct-io-allow-mmap", init::DIRECT_IO_ALLOW_MMAP),
    ("passthrough", init::PASSTHROUGH),
    ("over-io-uring", init::OVER_IO_URING),
];

impl Features {
    /// The empty set.
    pub const NONE: Features = Features(0);

    /// Returns all features by name, each as a set of its own.
    pub fn all() -> impl Iterator<Item = (&'static str, Features)> {
        NAMES.into_iter().map(|(name, bit)| (name, Features(bit)))
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether all these features are in the set.
    pub fn contains(self, others: Features) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns whether a mount without these features cannot have any of the others either.
    pub fn rule_out_all(self, others: Features) -> bool {
        others.0 & !self.ruled_out() == 0
    }

    /// Returns the bits of INIT.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Returns whether a mount without these features cannot have this feature of [`init`] either.
    pub(crate) fn rule_out(self, feature: u64) -> bool {
        self.ruled_out() & feature != 0
    }

    /// Returns these features, and without INIT_EXT the whole second word, which is then not read.
    fn ruled_out(self) -> u64 {
        const SECOND_WORD: u64 = !0 << 32;
        if self.0 & init::INIT_EXT == 0 { self.0 } else { self.0 | SECOND_WORD }
    }
}

impl BitOr for Features {
    type Output = Features;

    fn bitor(self, others: Features) -> Features {
        Features(self.0 | others.0)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Features::all().filter(|(_, feature)| self.contains(*feature)).map(|(name, _)| name);
        formatter.write_str(&names.collect::<Vec<_>>().join(":"))
    }
}

/// A name that no feature has. Its text lists the valid names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFeature(pub String);

impl fmt::Display for UnknownFeature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Features::all().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        write!(formatter, "the FUSE protocol has no feature '{}'; there are {names}", self.0)
    }
}

impl std::error::Error for UnknownFeature {}

impl FromStr for Features {
    type Err = UnknownFeature;

    /// Parses names separated by colons, in either case, with hyphens or underscores, also as spelled in the kernel's header
    /// (`FUSE_MAX_PAGES`).
    fn from_str(text: &str) -> Result<Features, UnknownFeature> {
        text.split(':').try_fold(Features::NONE, |set, word| {
            let name = word.to_ascii_lowercase().replace('_', "-");
            let name = name.strip_prefix("fuse-").unwrap_or(&name);
            let feature = Features::all().find(|(known, _)| *known == name).map(|(_, feature)| feature);
            feature.map(|feature| set | feature).ok_or_else(|| UnknownFeature(word.to_owned()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withholding_init_ext_rules_out_the_second_word() {
        let feature = |name: &str| name.parse::<Features>().unwrap();
        for (name, other) in Features::all() {
            let is_missing = name == "init-ext" || other.0 >> 32 != 0;
            assert_eq!(feature("init-ext").rule_out_all(other), is_missing, "{name}");
            assert_eq!(feature("passthrough").rule_out_all(other), name == "passthrough", "{name}");
        }
        assert!(!feature("passthrough").rule_out_all(feature("passthrough:async-read")));
    }

    #[test]
    fn feature_names_round_trip() {
        let mut all = Features::NONE;
        for (name, feature) in Features::all() {
            assert_eq!((feature.to_string().as_str(), feature.0.count_ones()), (name, 1));
            assert_eq!(name.parse(), Ok(feature));
            assert_eq!(name.to_uppercase().replace('-', "_").parse(), Ok(feature));
            assert_eq!(format!("FUSE_{}", name.to_uppercase().replace('-', "_")).parse(), Ok(feature));
            assert!(!all.contains(feature), "{name} is there twice");
            all = all | feature;
        }
        assert_eq!(all.to_string().parse(), Ok(all));
        assert_eq!(Features::all().count(), 24);
        assert!(Features::NONE.is_empty() && !all.is_empty());
    }

    #[test]
    fn unknown_feature_lists_the_valid_names() {
        let message = "passthrough:splice".parse::<Features>().unwrap_err().to_string();
        assert!(message.starts_with("the FUSE protocol has no feature 'splice'; there are async-read, "), "{message}");
        assert!(message.ends_with(", passthrough, over-io-uring"), "{message}");
        assert_eq!("".parse::<Features>(), Err(UnknownFeature(String::new())));
    }

    #[test]
    fn init_ext_is_required_for_the_second_word() {
        let extension = Features(init::INIT_EXT);
        assert!(extension.rule_out(init::PASSTHROUGH) && extension.rule_out(init::INIT_EXT));
        assert!(!extension.rule_out(init::POSIX_LOCKS) && !Features::NONE.rule_out(init::PASSTHROUGH));
    }
}

//! Lists of patterns for paths and names, `GLOB[:GLOB]`.

#![allow(dead_code, reason = "which of the helpers are used depends on the features")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A set of glob patterns, any of which may match. `*` and `?` do not match `/`; `**` matches any number of
/// directories.
#[derive(Clone, Debug)]
pub(crate) struct Globs(GlobSet);

impl Globs {
    /// Parses patterns for paths from the root of the stack; a leading `/` is optional.
    ///
    /// # Errors
    /// Returns a description of what is expected instead.
    pub(crate) fn paths(list: &str) -> Result<Self, String> {
        Self::of(list.split(':').map(|pattern| pattern.strip_prefix('/').unwrap_or(pattern)))
    }

    /// Parses patterns for names, which contain no `/`.
    ///
    /// # Errors
    /// Returns a description of what is expected instead.
    pub(crate) fn names(list: &str) -> Result<Self, String> {
        match list.split(':').any(|pattern| pattern.contains('/')) {
            true => Err("patterns for names, without `/`".to_owned()),
            false => Self::of(list.split(':')),
        }
    }

    /// Compiles the given patterns.
    ///
    /// # Errors
    /// Returns a description of what is expected instead.
    pub(crate) fn of<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            if pattern.is_empty() {
                return Err("patterns separated by `:`, none of them empty".to_owned());
            }
            let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
            set.add(glob.map_err(|error| format!("patterns such as `*.key` or `secret/**` ({error})"))?);
        }
        set.build().map(Self).map_err(|error| format!("simpler patterns ({error})"))
    }

    /// Returns whether any pattern matches.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.0.is_match(Path::new(OsStr::from_bytes(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_paths_as_documented() {
        let globs = Globs::paths("/etc/*.key:secret/**").unwrap();
        for (path, expected) in [
            ("etc/a.key", true),
            ("etc/b/a.key", false),
            ("secret/a/b", true),
            ("secret", false),
            ("x/secret/a", false),
        ] {
            assert_eq!(globs.matches(path.as_bytes()), expected, "{path}");
        }
        assert!(Globs::names("*.\u{e9}").unwrap().matches("x.\u{e9}".as_bytes()));
        assert!(Globs::names("*.tmp").unwrap().matches(b"\xff\xfe.tmp"));
        assert!(Globs::names("a/b").is_err() && Globs::paths("a::b").is_err() && Globs::paths("[").is_err());
    }
}

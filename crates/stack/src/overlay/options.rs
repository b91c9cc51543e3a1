//! The options of overlayfs and fuse-overlayfs, as `-o` lists them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::error::OverlayError;

/// What describes an overlay.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OverlayOptions {
    /// The lower directories, the highest first.
    pub lower: Vec<OsString>,
    /// The upper directory, and the work directory.
    pub upper: Option<(OsString, OsString)>,
    /// Ranges of owners: the lower ID, the ID shown, their number.
    pub users: Vec<[u32; 3]>,
    /// Ranges of groups.
    pub groups: Vec<[u32; 3]>,
    /// Owner of everything.
    pub owner: Option<u32>,
    /// Group of everything.
    pub group: Option<u32>,
    /// Whether files are copied up without their data.
    pub metadata_only: bool,
    /// Whether nothing is synchronized.
    pub volatile: bool,
}

/// Options that change nothing here. Those of overlayfs turn on what a union always does: moved directories, inode numbers and hard
/// links that stay, file handles, marks in `user` attributes where others are not possible. Those of fuse-overlayfs and libfuse tune
/// their threads, and `context` and the like are for mount(8).
const WITHOUT_EFFECT: [&str; 14] = [
    "redirect_dir",
    "index",
    "xino",
    "nfs_export",
    "userxattr",
    "uuid",
    "verity",
    "threaded",
    "clone_fd",
    "max_threads",
    "max_idle_threads",
    "static_nlink",
    "auto_unmount",
    "lazytime",
];

/// Options that are refused, each with the reason and the remedy.
const REFUSED: [(&str, &str); 4] = [
    ("plugins", "plugins are programs for fuse-overlayfs; write a layer instead (plyfs layers), or leave it out"),
    (
        "xattr_permissions",
        "owners are always those of the files; map them by uidmapping and gidmapping, or leave it out",
    ),
    ("noacl", "access control lists are always honoured; leave it out"),
    ("allow_root", "root may use every mount of its own; use allow_other, or leave it out"),
];

/// Splits a list at commas that no backslash precedes. The words keep their backslashes.
pub(crate) fn words(list: &[u8]) -> Vec<Vec<u8>> {
    split(list, b',').into_iter().filter(|word| !word.is_empty()).collect()
}

fn split(text: &[u8], separator: u8) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new()];
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        let word = words.last_mut().expect("there is always a word");
        match byte {
            b'\\' => word.extend(std::iter::once(byte).chain(bytes.next())),
            byte if byte == separator => words.push(Vec::new()),
            byte => word.push(byte),
        }
    }
    words
}

/// Removes the backslashes that protect the characters behind them.
fn unescaped(word: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(word.len());
    let mut bytes = word.iter().copied();
    while let Some(byte) = bytes.next() {
        plain.extend(if byte == b'\\' { bytes.next().or(Some(byte)) } else { Some(byte) });
    }
    OsString::from_vec(plain)
}

impl OverlayOptions {
    /// Separates what describes the overlay from the mount options, which are returned as a list.
    pub(crate) fn parse(list: &[u8]) -> Result<(Self, String), OverlayError> {
        let mut overlay = Self::default();
        let (mut upper, mut work) = (None, None);
        let mut others = Vec::new();
        for word in words(list) {
            let (key, value) = match word.iter().position(|&byte| byte == b'=') {
                Some(equals) => (&word[..equals], &word[equals + 1..]),
                None => (&word[..], &b""[..]),
            };
            match key {
                b"lowerdir" => overlay.lower = split(value, b':').iter().map(|path| unescaped(path)).collect(),
                b"upperdir" => upper = Some(unescaped(value)),
                b"workdir" => work = Some(unescaped(value)),
                _ => others.extend(overlay.parse_other(&String::from_utf8_lossy(key), &word, value)?),
            }
        }
        overlay.upper = match (upper, work) {
            (Some(upper), Some(work)) => Some((upper, work)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(wrong(
                    "upperdir needs workdir, a directory on the same file system; add workdir=DIR".into(),
                ));
            }
            (None, Some(_)) => {
                return Err(wrong(
                    "workdir needs upperdir, where changes go; add upperdir=DIR, or leave both out".into(),
                ));
            }
        };
        if overlay.lower.is_empty() || overlay.lower.iter().any(|path| path.is_empty()) {
            return Err(wrong("lowerdir needs directories; write lowerdir=DIR[:DIR...]".into()));
        }
        Ok((overlay, others.join(",")))
    }

    /// Takes an option about owners, groups or copies; returns the mount option for any other, if there is one.
    fn parse_other(&mut self, key: &str, word: &[u8], value: &[u8]) -> Result<Option<String>, OverlayError> {
        let value = String::from_utf8_lossy(value);
        match key {
            "uidmapping" => self.users = ranges(key, &value)?,
            "gidmapping" => self.groups = ranges(key, &value)?,
            "squash_to_root" => (self.owner, self.group) = (self.owner.or(Some(0)), self.group.or(Some(0))),
            "squash_to_uid" => self.owner = Some(id(key, &value)?),
            "squash_to_gid" => self.group = Some(id(key, &value)?),
            "volatile" => self.volatile = true,
            "fsync" => self.volatile = value == "0",
            "metacopy" => self.metadata_only = value == "on",
            // Both of the timeouts of a mount.
            "timeout" => return Ok(Some(format!("attr_timeout={value},entry_timeout={value}"))),
            _ if WITHOUT_EFFECT.contains(&key) => {}
            _ => match REFUSED.iter().find(|(refused, _)| *refused == key) {
                Some((_, reason)) => return Err(wrong(format!("option '{key}' is not supported: {reason}"))),
                None => return Ok(Some(String::from_utf8_lossy(word).into_owned())),
            },
        }
        Ok(None)
    }
}

/// Parses `ID:SHOWN:COUNT[:ID:SHOWN:COUNT...]`.
fn ranges(key: &str, text: &str) -> Result<Vec<[u32; 3]>, OverlayError> {
    let numbers: Option<Vec<u32>> = text.split(':').map(|word| word.parse().ok()).collect();
    let (ranges, rest) = numbers.as_deref().unwrap_or_default().as_chunks::<3>();
    match rest.is_empty() && !ranges.is_empty() {
        true => Ok(ranges.to_vec()),
        false => Err(wrong(format!("option '{key}' needs triples of numbers; write {key}=0:100000:65536"))),
    }
}

fn id(key: &str, text: &str) -> Result<u32, OverlayError> {
    text.parse().map_err(|_| wrong(format!("option '{key}' needs a number; write {key}=1000")))
}

fn wrong(message: String) -> OverlayError {
    OverlayError { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &str) -> (OverlayOptions, String) {
        OverlayOptions::parse(list.as_bytes()).unwrap()
    }

    #[test]
    fn directories_are_separated_by_colons_that_no_backslash_precedes() {
        let (overlay, others) = parsed(r"lowerdir=/a:/b\:c:l/D\,E,upperdir=/u,workdir=/w,noexec");
        assert_eq!(overlay.lower, ["/a", "/b:c", "l/D,E"]);
        assert_eq!(overlay.upper, Some(("/u".into(), "/w".into())));
        assert_eq!(others, "noexec");
    }

    #[test]
    fn ids_are_mapped_and_squashed() {
        let (overlay, others) =
            parsed("lowerdir=/a,uidmapping=0:1000:1:1:100000:65536,gidmapping=0:5:1,timeout=2.5,static_nlink");
        assert_eq!(overlay.users, [[0, 1000, 1], [1, 100_000, 65_536]]);
        assert_eq!(overlay.groups, [[0, 5, 1]]);
        assert_eq!(others, "attr_timeout=2.5,entry_timeout=2.5");
        let (overlay, _) = parsed("squash_to_uid=7,lowerdir=/a,squash_to_root");
        assert_eq!((overlay.owner, overlay.group), (Some(7), Some(0)));
    }

    #[test]
    fn wrong_lists_are_refused_with_the_remedy() {
        let error = |list: &str| OverlayOptions::parse(list.as_bytes()).unwrap_err().to_string();
        assert!(error("upperdir=/u,workdir=/w").contains("lowerdir=DIR"));
        assert!(error("lowerdir=/a::/b").contains("lowerdir=DIR"));
        assert!(error("lowerdir=/a,upperdir=/u").contains("add workdir=DIR"));
        assert!(error("lowerdir=/a,workdir=/w").contains("add upperdir=DIR"));
        assert!(error("lowerdir=/a,uidmapping=1:2").contains("uidmapping=0:100000:65536"));
        assert!(error("lowerdir=/a,squash_to_uid=me").contains("squash_to_uid=1000"));
        assert!(error("lowerdir=/a,plugins=x").contains("not supported"));
    }
}

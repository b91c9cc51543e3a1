//! Targets of Rock Ridge symlinks (`SL`): components in records, which may continue in the next record and in the next entry.

use super::fields::{Fields, Malformed};

/// Longest target in bytes, as Linux's `PATH_MAX` without the NUL.
const TARGET_BYTES_MAX: usize = 4095;

/// In the flags of an entry: the target continues in the next one. In those of a component: it continues in the next record.
const CONTINUES: u8 = 0x01;
/// The component is the directory itself.
const CURRENT: u8 = 0x02;
/// The component is the parent directory.
const PARENT: u8 = 0x04;
/// The component is the root directory.
const ROOT: u8 = 0x08;

/// A target in the course of being assembled.
#[derive(Clone, Debug, Default)]
pub(crate) struct SymlinkTarget {
    bytes: Vec<u8>,
    /// The next component is preceded by a slash.
    needs_slash: bool,
    /// The next record continues the last component.
    in_component: bool,
    has_entry: bool,
    /// Another entry is expected.
    continues: bool,
    is_spoiled: bool,
}

impl SymlinkTarget {
    /// Adds the data of an entry. Entries after one that does not continue are ignored.
    ///
    /// # Errors
    /// [`Malformed`] for a component without a meaning in a target of Unix, such as the name of the host, and for a target of more
    /// than 4,095 bytes.
    pub(crate) fn add(&mut self, data: &[u8]) -> Result<(), Malformed> {
        if self.is_spoiled || self.has_entry && !self.continues {
            return Ok(());
        }
        let (flags, mut components) = data.split_first().ok_or(Malformed)?;
        (self.has_entry, self.continues) = (true, flags & CONTINUES != 0);
        while !components.is_empty() {
            let fields = Fields(components);
            let (flags, length) = (fields.byte(0)?, usize::from(fields.byte(1)?));
            self.add_component(flags, fields.bytes(2, length)?)?;
            components = &components[2 + length..];
        }
        Ok(())
    }

    fn add_component(&mut self, flags: u8, text: &[u8]) -> Result<(), Malformed> {
        let text = match flags & !CONTINUES {
            0 => text,
            CURRENT => b".",
            PARENT => b"..",
            // libisofs records what is between two slashes as a root, too.
            ROOT => b"/",
            _ => return Err(Malformed),
        };
        if self.needs_slash && !self.in_component {
            self.bytes.push(b'/');
        }
        self.bytes.extend_from_slice(text);
        self.in_component = flags & CONTINUES != 0;
        // The root is its own slash.
        self.needs_slash = flags & ROOT == 0;
        if self.bytes.len() > TARGET_BYTES_MAX { Err(Malformed) } else { Ok(()) }
    }

    /// Declares that a part of the target makes no sense.
    pub(crate) fn spoil(&mut self) {
        self.is_spoiled = true;
    }

    /// Returns the target.
    ///
    /// # Errors
    /// [`Malformed`] if it is empty, contains a NUL, was to continue, or a part of it makes no sense.
    pub(crate) fn finish(self) -> Result<Vec<u8>, Malformed> {
        let is_whole = !self.continues && !self.is_spoiled && !self.bytes.is_empty() && !self.bytes.contains(&0);
        if is_whole { Ok(self.bytes) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(entries: &[&[u8]]) -> Result<String, Malformed> {
        let mut target = SymlinkTarget::default();
        entries.iter().try_for_each(|entry| target.add(entry))?;
        target.finish().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn components_are_joined_by_slashes() {
        assert_eq!(target(&[b"\0\x08\0\0\x03usr\0\x03bin"]).unwrap(), "/usr/bin");
        assert_eq!(target(&[b"\0\x04\0\x04\0\x02\0\0\x01x"]).unwrap(), "../.././x");
        assert_eq!(target(&[b"\0\x08\0"]).unwrap(), "/");
        assert_eq!(target(&[b"\0\0\x01a\0\0"]).unwrap(), "a/");
        assert_eq!(target(&[b"\0\x04\0\0\x01a\x08\0\0\x01b"]).unwrap(), "../a//b");
    }

    #[test]
    fn components_and_targets_continue() {
        assert_eq!(target(&[b"\0\x01\x02ab\0\x02cd\0\x01e"]).unwrap(), "abcd/e");
        assert_eq!(target(&[b"\x01\0\x01a\x01\x01b", b"\0\0\x01c\0\x01d"]).unwrap(), "a/bc/d");
        assert_eq!(target(&[b"\x01\0\x01a", b"\0\0\x01b", b"\0\0\x01c"]).unwrap(), "a/b");
        assert_eq!(target(&[b"\x01\x08\0", b"\0\0\x01b"]).unwrap(), "/b");
    }

    #[test]
    fn what_is_no_target_is_malformed() {
        for entries in [
            &[][..],
            &[b"".as_slice()],
            &[b"\0"],
            &[b"\0\0"],
            &[b"\0\0\x05abc"],
            &[b"\0\x10\0"],
            &[b"\0\x20\0"],
            &[b"\0\x06\0"],
            &[b"\0\0\x02a\0"],
            &[b"\x01\0\x01a"],
        ] {
            assert_eq!(target(entries), Err(Malformed), "{entries:?}");
        }
        let part = [&[1, 1, 250][..], &[b'x'; 250]].concat();
        assert_eq!(target(&vec![&part[..]; 1_000_000]), Err(Malformed));
    }
}

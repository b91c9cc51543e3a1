//! The attribute byte of a directory entry.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Attributes of a directory entry, as the byte holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EntryAttributes(pub u8);

impl EntryAttributes {
    /// Must not be written to.
    pub const READ_ONLY: Self = Self(0x01);
    /// Not listed unless asked for.
    pub const HIDDEN: Self = Self(0x02);
    /// Belongs to the operating system.
    pub const SYSTEM: Self = Self(0x04);
    /// Holds the label of the volume instead of a file.
    pub const VOLUME_LABEL: Self = Self(0x08);
    /// Is a directory.
    pub const DIRECTORY: Self = Self(0x10);
    /// Has changed since it was last backed up.
    pub const ARCHIVE: Self = Self(0x20);
    /// Bits that the specification reserves.
    pub const RESERVED: Self = Self(0xC0);
    /// All of the bits that mark a part of a long name; the two reserved bits are ignored beside them.
    pub const LONG_NAME: Self = Self(0x0F);

    /// Returns whether all bits of `bits` are set.
    pub const fn contains(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Returns whether a bit is set that the specification reserves.
    pub const fn has_reserved(self) -> bool {
        self.0 & Self::RESERVED.0 != 0
    }

    /// Returns whether the entry is a part of a long name.
    pub const fn is_long_name(self) -> bool {
        self.0 & 0x3F == Self::LONG_NAME.0
    }

    /// Returns whether the entry is the label of the volume.
    pub const fn is_label(self) -> bool {
        !self.is_long_name() && self.contains(Self::VOLUME_LABEL)
    }

    /// Returns whether the entry is a directory.
    pub const fn is_directory(self) -> bool {
        !self.contains(Self::VOLUME_LABEL) && self.contains(Self::DIRECTORY)
    }

    /// Returns these attributes with the bits of `bits` set or cleared.
    #[must_use]
    pub const fn with(self, bits: Self, set: bool) -> Self {
        if set { Self(self.0 | bits.0) } else { Self(self.0 & !bits.0) }
    }
}

impl BitOr for EntryAttributes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for EntryAttributes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for EntryAttributes {
    /// Writes a letter for each attribute, as `attrib` of DOS does, and a dash for each that is not set.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (Self::READ_ONLY, 'R'),
            (Self::HIDDEN, 'H'),
            (Self::SYSTEM, 'S'),
            (Self::VOLUME_LABEL, 'V'),
            (Self::DIRECTORY, 'D'),
            (Self::ARCHIVE, 'A'),
        ];
        letters.iter().try_for_each(|&(bit, letter)| {
            let shown = if self.contains(bit) { letter } else { '-' };
            write!(formatter, "{shown}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_exclude_each_other() {
        for byte in 0..=255 {
            let attributes = EntryAttributes(byte);
            let kinds = [attributes.is_long_name(), attributes.is_label(), attributes.is_directory()];
            assert!(kinds.iter().filter(|&&kind| kind).count() <= 1, "{byte:#x}");
        }
        assert!(EntryAttributes(0x0F).is_long_name() && EntryAttributes(0x4F).is_long_name());
        assert!(!EntryAttributes(0x3F).is_long_name() && EntryAttributes(0x3F).is_label());
    }

    #[test]
    fn letters_name_the_attributes() {
        let attributes = EntryAttributes::READ_ONLY | EntryAttributes::ARCHIVE;
        assert_eq!(attributes.to_string(), "R----A");
        assert_eq!(attributes.with(EntryAttributes::READ_ONLY, false), EntryAttributes::ARCHIVE);
    }
}

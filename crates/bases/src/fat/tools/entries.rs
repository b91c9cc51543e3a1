//! Entries that tools make.

use crate::fat::format::{DosDateTime, ENTRY_SIZE, Entry, EntryAttributes, Label, ShortName};

/// Returns the entry of a label.
pub(crate) fn label_entry(label: Label, time: DosDateTime) -> [u8; ENTRY_SIZE] {
    let mut entry = Entry::new(ShortName(label.0), EntryAttributes::VOLUME_LABEL);
    entry.modified = DosDateTime { hundredths: 0, ..time };
    entry.encode()
}

//! The on-disk formats: pure functions between bytes and values, for all widths of table entries.
//!
//! Nothing here reads or writes a device. All numbers are those of the format: sectors are logical sectors of the file
//! system, clusters count from 2, and sizes are in bytes. Images may be hostile: whatever the bytes are, decoding ends
//! with a value or an error.

mod attributes;
mod boot_sector;
mod case;
mod code_page;
mod entry;
mod geometry;
mod geometry_error;
mod info_sector;
mod label;
mod long_name;
mod name;
mod saved_name;
mod short_name;
mod table;
mod time;
mod width;

pub use attributes::EntryAttributes;
pub use boot_sector::{
    BOOT_SECTOR_SIZE, BootSector, ExtendedFields, MirroringFlags, StateFlags, VolumeIdentity, is_valid_media,
};
pub use case::{names_equal, upcase, upcase_character, upcased};
pub use code_page::CodePage;
pub use entry::{ENTRY_SIZE, Entry, EntrySlot};
pub use geometry::Geometry;
pub use geometry_error::GeometryError;
pub use info_sector::InfoSector;
pub use label::{Label, LabelError, NO_NAME};
pub use long_name::{
    LONG_NAME_MAX, LONG_SLOTS_MAX, LongNameFault, LongNameReader, LongNameSlot, UNITS_PER_SLOT, long_name_slots,
};
pub use name::{LongNameError, check_long_name, units_from_name, units_to_name};
pub use saved_name::{SAVED_DIRECTORY, SAVED_FILE, SAVED_NAMES, is_saved_name};
pub use short_name::{CaseBits, GeneratedName, ShortName, ShortNameError};
pub use table::{Link, VolumeFlags, entry_length, entry_offset, read_entry, table_bytes, write_entry};
pub use time::{DosDateTime, DosTimeRange};
pub use width::FatWidth;

//! Directories: their slots in memory, found by name, and the blocks that differ from the disk.

pub(crate) mod contents;
pub(crate) mod extents;
pub(crate) mod name_index;
pub(crate) mod scan;
pub(crate) mod slots;

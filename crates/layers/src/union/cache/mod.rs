//! Caches of what the branches have: names, directories' marks and listed directories; and when they are looked up again.

pub(crate) mod names;
pub(crate) mod recent_directories;

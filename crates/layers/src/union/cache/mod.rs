//! Caches of what the branches have: names, and directories that were listed.

pub(crate) mod names;
pub(crate) mod recent_directories;

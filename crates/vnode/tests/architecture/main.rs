//! The house as ARCHITECTURE.md draws it: which crate knows which, and no circle between the files of a crate.

mod circles;
mod crates;
mod files;
mod metadata;
mod references;
mod source;

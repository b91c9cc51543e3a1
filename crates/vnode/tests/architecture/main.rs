//! The house as ARCHITECTURE.md draws it: which crate knows which, no circle between the files of a crate, and pages that name what
//! there is.

mod circles;
mod crates;
mod files;
mod metadata;
mod pages;
mod references;
mod source;

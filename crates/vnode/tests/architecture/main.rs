//! The house as ARCHITECTURE.md draws it: which crate knows which, no circle between the files of a crate, a command line that names
//! no layer, pages that name what there is, and packages of what is published.

mod circles;
mod crates;
mod files;
mod layers;
mod metadata;
mod packages;
mod pages;
mod references;
mod source;

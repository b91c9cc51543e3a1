//! The base `iso` on images that xorriso, genisoimage and mkzftree make when the tests run, and on damaged ones.
#![cfg(feature = "iso")]

mod boot;
mod compare;
mod compression;
mod conformance;
mod damage;
mod extents;
mod fields;
mod handles;
mod hostile;
mod image;
mod interface;
mod kept;
mod names;
mod rock_ridge;
mod sectors;
mod sessions;
mod source;
mod tools;

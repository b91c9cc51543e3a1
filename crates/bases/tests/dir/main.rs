//! Tests of the directory base on real file systems: ext4 in RAM and tmpfs.
//!
//! They need root (mounts, several users) and say so where they are skipped.

mod attached;
mod directories;
mod fixture;
mod identity;
mod locks;
mod objects;
mod overlay;
mod permissions;
mod restrictions;
mod unprivileged;

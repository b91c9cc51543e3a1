//! Lb2fs balances load: of two file systems with the same files each serves every other file that is opened. Where one
//! has become unreadable the other takes its place.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use fuser::{FileAttr, FopenFlags, MountOption};
use rustix::io::Errno;

use super::pairs::Pairs;
use super::pass_through::{Caller, Operations, PassThrough, Result};

/// The file system.
pub struct Lb2fs {
    below: Pairs,
    opened: AtomicUsize,
}

impl Lb2fs {
    /// Shows what lies there.
    pub fn new(first: PassThrough, second: PassThrough) -> Self {
        Self { below: Pairs::new(first, second), opened: AtomicUsize::new(0) }
    }
}

impl Operations for Lb2fs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn mount_options(&self) -> Vec<MountOption> {
        vec![MountOption::RO]
    }

    fn open_flags(&self) -> FopenFlags {
        // What the two hold is not kept by the kernel in one place.
        FopenFlags::FOPEN_DIRECT_IO
    }

    fn lookup(&self, caller: &Caller, parent: u64, name: &OsStr) -> Result<FileAttr> {
        self.below.find(caller, parent, name, Errno::IO)
    }

    fn open(&self, caller: &Caller, number: u64, flags: i32) -> Result<u64> {
        let turn = self.opened.fetch_add(1, Ordering::Relaxed) % 2;
        match self.below.open_in(turn, caller, number, flags) {
            Err(Errno::IO | Errno::NOENT) => self.below.open_in(1 - turn, caller, number, flags),
            opened => opened,
        }
    }
}

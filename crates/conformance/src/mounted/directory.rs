//! A directory listed by a client with getdents64(2).

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::Arc;

use rustix::fs::{FileType, RawDir, SeekFrom};
use vnode::{Cookie, InodeNumber};

use super::convert::number;
use super::worker::{Worker, own};
use crate::subject::Result;
use crate::{Directory, Entry, Kind};

/// Small, so that a moderately large directory requires several calls.
const BUFFER_SIZE: usize = 1024;

pub(crate) struct MountedDirectory {
    worker: Arc<Worker>,
    descriptor: RawFd,
}

impl MountedDirectory {
    pub(crate) fn new(worker: Arc<Worker>, descriptor: RawFd) -> Self {
        Self { worker, descriptor }
    }
}

impl Directory for MountedDirectory {
    fn next(&self) -> Result<Vec<Entry>> {
        let descriptor = self.descriptor;
        self.worker.call(move || read_once(descriptor)).map_err(number)
    }

    fn seek(&self, cookie: Cookie) -> Result<()> {
        let descriptor = self.descriptor;
        let sought = self.worker.call(move || rustix::fs::seek(own(descriptor), SeekFrom::Start(cookie.get())));
        sought.map(drop).map_err(number)
    }
}

impl Drop for MountedDirectory {
    fn drop(&mut self) {
        let descriptor = self.descriptor;
        self.worker.call(move || {
            // SAFETY: this object owns the descriptor and nothing uses it afterwards.
            unsafe { rustix::io::close(descriptor) }
        });
    }
}

fn read_once(descriptor: RawFd) -> rustix::io::Result<Vec<Entry>> {
    let mut buffer = [const { MaybeUninit::uninit() }; BUFFER_SIZE];
    let mut listing = RawDir::new(own(descriptor), &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry?;
        entries.push(Entry {
            name: entry.file_name().to_bytes().to_vec(),
            inode: InodeNumber::new(entry.ino()),
            kind: kind_of(entry.file_type()),
            cookie: Cookie::new(entry.next_entry_cookie()),
        });
        if listing.is_buffer_empty() {
            break;
        }
    }
    Ok(entries)
}

fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        FileType::Unknown => Kind::Unknown,
        known => Kind::of_mode(known.as_raw_mode()),
    }
}

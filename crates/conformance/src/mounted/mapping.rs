//! A file mapped into the memory of this process.

use std::ffi::c_void;
use std::os::fd::RawFd;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::convert::number;
use super::worker::own;
use crate::Mapping;
use crate::subject::Result;

pub(crate) struct MountedMapping {
    address: *mut u8,
    length: usize,
}

// SAFETY: the mapping is plain memory; the tests order the accesses of their threads.
unsafe impl Send for MountedMapping {}
// SAFETY: as above.
unsafe impl Sync for MountedMapping {}

impl MountedMapping {
    /// Maps the beginning of a file of the current worker.
    pub(crate) fn new(descriptor: RawFd, length: usize, shared: bool, writable: bool) -> rustix::io::Result<Self> {
        let mut protection = ProtFlags::READ;
        protection.set(ProtFlags::WRITE, writable);
        let flags = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        // SAFETY: the kernel chooses an unused address range.
        let address = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, own(descriptor), 0)? };
        Ok(Self { address: address.cast(), length })
    }

    /// Returns the address of a byte of the mapping.
    fn at(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset + length <= self.length, "the range is mapped");
        // SAFETY: the offset is within the mapping, as was just checked.
        unsafe { self.address.add(offset) }
    }
}

impl Mapping for MountedMapping {
    fn load(&self, offset: usize, length: usize) -> Vec<u8> {
        let start = self.at(offset, length);
        let mut data = vec![0; length];
        for (index, byte) in data.iter_mut().enumerate() {
            // SAFETY: the range is mapped and readable. Others may change the file concurrently: volatile accesses, byte by
            // byte, assume nothing about its contents.
            *byte = unsafe { start.add(index).read_volatile() };
        }
        data
    }

    fn store(&self, offset: usize, data: &[u8]) {
        let start = self.at(offset, data.len());
        for (index, byte) in data.iter().enumerate() {
            // SAFETY: as in `load`; the tests store only into writable mappings.
            unsafe { start.add(index).write_volatile(*byte) };
        }
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: the range is the mapping that this object owns.
        unsafe { rustix::mm::msync(self.address.cast::<c_void>(), self.length, MsyncFlags::SYNC) }.map_err(number)
    }

    fn is_backed(&self, offset: usize) -> bool {
        let byte = libc::iovec { iov_base: self.at(offset, 1).cast(), iov_len: 1 };
        let mut copy = 0_u8;
        let to = libc::iovec { iov_base: (&raw mut copy).cast(), iov_len: 1 };
        // SAFETY: both vectors describe one live byte of this process; a page that is not backed causes an error, not a signal.
        unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &byte, 1, 0) == 1 }
    }
}

impl Drop for MountedMapping {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping and nothing uses it afterwards.
        let _ = unsafe { rustix::mm::munmap(self.address.cast::<c_void>(), self.length) };
    }
}

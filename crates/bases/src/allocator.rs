//! Makes the allocator return free memory to the system, and checks whether the system has more to give.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Returns free memory to the system. glibc keeps most freed memory in per-thread arenas, so a process could hold several
/// times the memory that it uses.
#[cfg(target_env = "gnu")]
pub(crate) fn return_free_memory() {
    // SAFETY: malloc_trim may be called at any time, from any thread; its argument is the number of bytes to keep.
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing: other allocators return free memory by themselves.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn return_free_memory() {}

/// Returns whether the system would grant `length` more bytes now, at least as far as limits and accounting go.
pub(crate) fn can_map(length: usize) -> bool {
    // SAFETY: a new mapping at an address chosen by the system touches no other, and nothing refers to it when it is
    // unmapped.
    unsafe {
        let mapped =
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        mapped.is_ok_and(|address| munmap(address, length).is_ok())
    }
}

//! Asks the allocator to return free memory to the system, and the system if there is more.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Returns what is free. glibc keeps most of what was freed, in each thread's arena for itself, so that a process could
/// hold several times what it uses.
#[cfg(target_env = "gnu")]
pub(crate) fn return_free_memory() {
    // SAFETY: the allocator may be asked at any time, from any thread; the argument is how many bytes to keep.
    unsafe { libc::malloc_trim(0) };
}

/// Returns what is free: other allocators do so by themselves.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn return_free_memory() {}

/// Whether the system would give this many bytes more now, at least as far as limits and accounting say.
pub(crate) fn can_map(length: usize) -> bool {
    // SAFETY: a new mapping at an address that the system chooses touches no other, and nobody learns of it before it goes.
    unsafe {
        let mapped =
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        mapped.is_ok_and(|address| munmap(address, length).is_ok())
    }
}

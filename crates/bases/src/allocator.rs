//! Asks the allocator to return free memory to the system.

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

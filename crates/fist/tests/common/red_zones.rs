//! An allocator that surrounds each allocation by red zones, so that accesses beside it are noticed.
//!
//! What is written beside an allocation is found when that is freed; what is read there differs between two runs whose red zones
//! hold different bytes. What is allocated far from all else ends the process at accesses far beside it, too. A test program
//! makes it its `#[global_allocator]`; in others the functions here find nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use super::far;

/// Minimum length of each red zone, in bytes.
const RED_ZONE_BYTES: usize = 128;

thread_local! {
    /// The byte that fills red zones, and memory that is not initialized.
    static FILL: Cell<u8> = const { Cell::new(0x5a) };
    /// Number of allocations that this thread has freed and beside which something had been written.
    static DAMAGED: Cell<u64> = const { Cell::new(0) };
    /// What is allocated is far from all else.
    static IS_FAR: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, with red zones.
pub(crate) struct RedZones;

/// Number of allocations that this thread has freed and beside which something had been written.
pub(crate) fn damaged() -> u64 {
    DAMAGED.get()
}

/// Calls a function with red zones of this byte around what it allocates.
pub(crate) fn filled_with<T>(byte: u8, call: impl FnOnce() -> T) -> T {
    let before = FILL.replace(byte);
    let answer = call();
    FILL.set(before);
    answer
}

/// Calls a function with what it allocates far from all else, which takes two system calls for each allocation.
pub(crate) fn far_from_all<T>(call: impl FnOnce() -> T) -> T {
    let before = IS_FAR.replace(true);
    let answer = call();
    IS_FAR.set(before);
    answer
}

/// The length of each red zone, and the layout of an allocation between two of them.
fn surrounded(layout: Layout) -> Option<(usize, Layout)> {
    // Both are powers of two, so it is a multiple of both.
    let zone = RED_ZONE_BYTES.max(layout.align());
    let bytes = layout.size().checked_add(2 * zone)?;
    Some((zone, Layout::from_size_align(bytes, layout.align()).ok()?))
}

// SAFETY: what is returned lies within an allocation of the system's, after a zone whose length is a multiple of the alignment,
// and has the length that was asked for. Neither function unwinds.
unsafe impl GlobalAlloc for RedZones {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((zone, whole)) = surrounded(layout) else { return std::ptr::null_mut() };
        let fill = FILL.try_with(Cell::get).unwrap_or(0);
        let is_far = IS_FAR.try_with(Cell::get).unwrap_or(false) && whole.align() <= far::ALIGNMENT;
        let first = match if is_far { far::allocate(whole.size()) } else { None } {
            Some(first) => first.as_ptr(),
            // SAFETY: the layout is not empty.
            None => unsafe { System.alloc(whole) },
        };
        if first.is_null() {
            return first;
        }
        // SAFETY: so many bytes have just been allocated, and the zone is within them.
        unsafe {
            first.write_bytes(fill, whole.size());
            first.add(zone)
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let Some((zone, whole)) = surrounded(layout) else { return };
        // SAFETY: `alloc` returned the pointer for this layout: a zone of initialized bytes is before it, another one after it.
        let (first, before, behind) = unsafe {
            let first = pointer.sub(zone);
            let before = std::slice::from_raw_parts(first, zone);
            (first, before, std::slice::from_raw_parts(pointer.add(layout.size()), zone))
        };
        let fill = before[0];
        // As a whole: for the tests that are not optimized.
        let expected = [fill; RED_ZONE_BYTES];
        if !before.chunks(RED_ZONE_BYTES).chain(behind.chunks(RED_ZONE_BYTES)).all(|zone| *zone == expected) {
            // A thread that ends has no count any more.
            let _ = DAMAGED.try_with(|damaged| damaged.set(damaged.get() + 1));
        }
        if !far::free(first, whole.size()) {
            // SAFETY: the system's allocator returned it for this layout.
            unsafe { System.dealloc(first, whole) };
        }
    }
}

//! Allocations that are far from each other and from all else: whoever reaches up to 4 GiB beside one is ended by the kernel.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect};

/// Bytes from one allocation to the next. None is longer than half of it.
const ALLOCATION_SPACING_BYTES: usize = 8 << 30;
/// Number of allocations at a time.
const MAX_ALLOCATIONS: usize = 2048;
/// Every allocation is as far on as a multiple of this.
pub(crate) const ALIGNMENT: usize = 4096;
/// More than a page has anywhere.
const PAGE: usize = 64 << 10;

/// Addresses that nothing else has, of which only the allocations can be reached.
struct AddressRange {
    first: usize,
    is_used: [AtomicBool; MAX_ALLOCATIONS],
}

/// `None` where there are not so many addresses.
fn address_range() -> Option<&'static AddressRange> {
    static ROOM: OnceLock<Option<AddressRange>> = OnceLock::new();
    let reserve = || {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses addresses that nothing has.
        let first = unsafe {
            mmap_anonymous(std::ptr::null_mut(), ALLOCATION_SPACING_BYTES * MAX_ALLOCATIONS, ProtFlags::empty(), flags)
        };
        let is_used = [const { AtomicBool::new(false) }; MAX_ALLOCATIONS];
        first.ok().map(|first| AddressRange { first: first.expose_provenance(), is_used })
    };
    ROOM.get_or_init(reserve).as_ref()
}

/// So many bytes, all zero; `None` where there is no room for them.
pub(crate) fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    let address_range = address_range().filter(|_| bytes <= ALLOCATION_SPACING_BYTES / 2)?;
    let take = |is_used: &AtomicBool| !is_used.swap(true, Ordering::AcqRel);
    let index = address_range.is_used.iter().position(take)?;
    let slot = std::ptr::with_exposed_provenance_mut::<u8>(
        address_range.first + index * ALLOCATION_SPACING_BYTES + ALLOCATION_SPACING_BYTES / 4,
    );
    let (length, reachable) = (bytes.next_multiple_of(PAGE), MprotectFlags::READ | MprotectFlags::WRITE);
    // SAFETY: it is in the room, and nothing else is there until it is given back.
    if unsafe { mprotect(slot.cast(), length, reachable) }.is_err() {
        address_range.is_used[index].store(false, Ordering::Release);
        return None;
    }
    NonNull::new(slot)
}

/// Gives an allocation back: whether it is one of these.
pub(crate) fn free(slot: *mut u8, bytes: usize) -> bool {
    let Some(address_range) = address_range() else { return false };
    let Some(index) = slot
        .addr()
        .checked_sub(address_range.first)
        .map(|far| far / ALLOCATION_SPACING_BYTES)
        .filter(|index| *index < MAX_ALLOCATIONS)
    else {
        return false;
    };
    let length = bytes.next_multiple_of(PAGE);
    // SAFETY: so many bytes are those of this allocation, which nobody uses any more.
    let is_gone = unsafe {
        madvise(slot.cast(), length, Advice::LinuxDontNeed).is_ok()
            && mprotect(slot.cast(), length, MprotectFlags::empty()).is_ok()
    };
    // What can still be reached is not given to anybody again.
    address_range.is_used[index].store(!is_gone, Ordering::Release);
    true
}

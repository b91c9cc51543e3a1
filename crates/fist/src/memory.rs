//! Memory of a run: regions, and pointers into them that are checked at each access.
//!
//! A pointer is a region number, an offset in the region, and the generation of the region: after a variable is gone, a
//! pointer to it is known to be stale. All of it fits in one `i64`, so pointers are stored and passed like integers.

use std::sync::Arc;

use crate::budget::{Budget, Lease};
use crate::meter::Meter;
use crate::program::Data;
use crate::target::ByteOrder;
use crate::trap::TrapKind;

/// The pointer to a data object of the program: constant across runs.
pub const fn data_pointer(index: usize) -> i64 {
    (index as i64 + 1) << 32
}

/// Advances a pointer by a number of bytes.
///
/// # Errors
/// [`TrapKind::OutOfBounds`] where no memory can be.
pub fn offset(pointer: i64, bytes: i64) -> Result<i64, TrapKind> {
    // Objects are far smaller: farther away there is no memory, and from nearer a later step may come back.
    if !(-(1 << 31)..1 << 31).contains(&bytes) {
        return Err(TrapKind::OutOfBounds);
    }
    Ok(pointer & !0xffff_ffff | pointer.wrapping_add(bytes) & 0xffff_ffff)
}

/// Advances a pointer by a number of elements of a size.
///
/// # Errors
/// As [`offset`].
pub fn element(pointer: i64, index: i64, size: u64) -> Result<i64, TrapKind> {
    offset(pointer, index.checked_mul(size as i64).ok_or(TrapKind::OutOfBounds)?)
}

/// Allocates a buffer filled with one byte value; its length may exceed the available memory.
///
/// # Errors
/// [`TrapKind::OutOfMemory`].
pub(crate) fn try_filled(byte: u8, length: usize) -> Result<Vec<u8>, TrapKind> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| TrapKind::OutOfMemory)?;
    bytes.resize(length, byte);
    Ok(bytes)
}

/// A copy of bytes.
///
/// # Errors
/// As [`try_filled`].
pub(crate) fn try_copy(bytes: &[u8]) -> Result<Vec<u8>, TrapKind> {
    let mut copy = try_filled(0, bytes.len())?;
    copy.copy_from_slice(bytes);
    Ok(copy)
}

/// Returns the number of bytes between two pointers.
///
/// # Errors
/// [`TrapKind::DifferentObjects`] for pointers into different regions.
pub fn distance(one: i64, other: i64) -> Result<i64, TrapKind> {
    if one >> 32 != other >> 32 {
        return Err(TrapKind::DifferentObjects);
    }
    Ok(i64::from((one as u32).wrapping_sub(other as u32) as i32))
}

/// First region number of allocated memory.
pub(crate) const FIRST_HEAP_REGION: usize = 1 << 15;
/// Maximum number of bytes of live variables.
const MAX_VARIABLE_BYTES: usize = 4 << 20;
/// Size in bytes of the first block for variables; each further block is twice as large, up to 4 MiB.
const FIRST_BLOCK_BYTES: usize = 4 << 10;
/// Maximum number of bytes that a run allocates.
const MAX_RUN_HEAP_BYTES: usize = 64 << 20;
/// Number of bytes that a run allocates without charging the budget that it shares with others.
const UNBUDGETED_HEAP_BYTES: usize = 64 << 10;

/// The backing store of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum BackingStore {
    Unmapped,
    Data,
    Stack,
    Heap,
    Input,
    Output,
}

/// A region of memory. Compiled code reads the fields up to the generation: so their order is fixed, and the bytes do
/// not move while their region lives.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Region {
    /// Address of its first byte; unused on this side.
    pub(crate) address: usize,
    /// Number of readable bytes: 0 for a region that is gone.
    pub(crate) readable: u32,
    /// Number of writable bytes.
    pub(crate) writable: u32,
    /// Generation among the regions that have used this number.
    pub(crate) generation: u16,
    store: BackingStore,
    /// Index of the data object, block of variables or heap block that contains it.
    block: u32,
    /// Offset in that block.
    start: u32,
}

impl Region {
    const UNMAPPED: Region = Region {
        address: 0,
        readable: 0,
        writable: 0,
        generation: 0,
        store: BackingStore::Unmapped,
        block: 0,
        start: 0,
    };

    fn read_only(store: BackingStore, block: usize, bytes: &[u8]) -> Region {
        let address = bytes.as_ptr().expose_provenance();
        Region { address, readable: bytes.len() as u32, store, block: block as u32, ..Region::UNMAPPED }
    }

    fn writable(store: BackingStore, block: usize, start: usize, bytes: &mut [u8]) -> Region {
        let address = bytes.as_mut_ptr().expose_provenance();
        let length = bytes.len() as u32;
        let (block, start) = (block as u32, start as u32);
        Region { address, readable: length, writable: length, generation: 0, store, block, start }
    }

    /// The tombstone of a region: pointers to it are stale from now on.
    fn invalidated(self) -> Region {
        Region { generation: self.generation.wrapping_add(1), ..Region::UNMAPPED }
    }
}

/// Top of the stack of variables.
#[derive(Clone, Copy, Debug)]
struct StackTop {
    regions: usize,
    bytes: usize,
    /// The block that the next variable is placed in if it fits, and the offset there.
    block: usize,
    at: usize,
}

/// The memory of a run.
pub struct Memory<'a> {
    data: &'a [Data],
    /// Data and variables, the innermost function's last.
    regions: Vec<Region>,
    top: StackTop,
    /// Blocks that contain variables. They do not move, because compiled code holds addresses of its variables.
    stack: Vec<Vec<u8>>,
    allocated: Vec<Region>,
    heap: Vec<Vec<u8>>,
    heap_bytes: usize,
    /// Lease for allocations beyond [`UNBUDGETED_HEAP_BYTES`].
    lease: Option<Lease>,
    budget: Option<&'a Arc<Budget>>,
    meter: Meter,
    order: ByteOrder,
    input: &'a [u8],
    output: &'a mut [u8],
}

/// The variables of an active function.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    before: StackTop,
}

impl Frame {
    /// Region number of the first variable.
    pub(crate) fn first(self) -> usize {
        self.before.regions
    }
}

impl<'a> Memory<'a> {
    /// Creates the memory of a run, with an input buffer to read and an output buffer to write.
    pub fn new(data: &'a [Data], input: &'a [u8], output: &'a mut [u8]) -> Memory<'a> {
        let mut regions = Vec::with_capacity(data.len() + 8);
        regions.push(Region::UNMAPPED);
        regions.extend(data.iter().enumerate().map(|(index, data)| match data.is_written {
            true => Region::UNMAPPED,
            false => Region::read_only(BackingStore::Data, index, &data.bytes),
        }));
        let top = StackTop { regions: regions.len(), bytes: 0, block: 0, at: 0 };
        let allocated = vec![
            Region::read_only(BackingStore::Input, 0, input),
            Region::writable(BackingStore::Output, 0, 0, &mut *output),
        ];
        let (stack, heap) = (Vec::new(), Vec::new());
        Memory {
            data,
            regions,
            top,
            stack,
            allocated,
            heap,
            heap_bytes: 0,
            lease: None,
            budget: None,
            meter: Meter::default(),
            order: ByteOrder::HOST,
            input,
            output,
        }
    }

    /// Limits its allocations by a budget.
    #[must_use]
    pub fn within(mut self, heap: &'a Arc<Budget>) -> Memory<'a> {
        self.budget = Some(heap);
        self
    }

    /// Charges it to a meter that may have run before.
    #[must_use]
    pub fn metered(mut self, meter: Meter) -> Memory<'a> {
        self.meter = meter;
        self
    }

    /// Byte order of integers in memory.
    pub(crate) fn order(&self) -> ByteOrder {
        self.order
    }

    /// Sets the byte order of integers in memory, that of a target.
    pub(crate) fn set_order(&mut self, order: ByteOrder) {
        self.order = order;
    }

    /// The remaining work and time.
    #[inline]
    pub fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    /// Pointer to the input buffer.
    pub const INPUT: i64 = (FIRST_HEAP_REGION as i64) << 32;
    /// Pointer to the output buffer.
    pub const OUTPUT: i64 = (FIRST_HEAP_REGION as i64 + 1) << 32;

    /// Allocates the variables of a function, zeroed.
    ///
    /// # Errors
    /// [`TrapKind::OutOfMemory`].
    pub fn enter(&mut self, objects: &[u64]) -> Result<Frame, TrapKind> {
        let frame = Frame { before: self.top };
        for bytes in objects {
            let end = self.top.bytes + *bytes as usize;
            if end > MAX_VARIABLE_BYTES || self.top.regions >= FIRST_HEAP_REGION {
                self.leave(frame);
                return Err(TrapKind::OutOfMemory);
            }
            let Ok(region) = self.variable(*bytes as usize) else {
                self.leave(frame);
                return Err(TrapKind::OutOfMemory);
            };
            match self.regions.get_mut(self.top.regions) {
                Some(slot) => *slot = Region { generation: slot.generation, ..region },
                None => self.regions.push(region),
            }
            self.top.regions += 1;
            self.top.bytes = end;
        }
        Ok(frame)
    }

    /// Allocates a variable, zeroed.
    fn variable(&mut self, bytes: usize) -> Result<Region, TrapKind> {
        let fits =
            |stack: &[Vec<u8>], block: usize, at: usize| stack.get(block).is_some_and(|it| it.len() - at >= bytes);
        if !fits(&self.stack, self.top.block, self.top.at) {
            self.top.block += usize::from(!self.stack.is_empty());
            self.top.at = 0;
            if !fits(&self.stack, self.top.block, 0) {
                // Nothing there or beyond is live.
                self.stack.truncate(self.top.block);
                self.stack.push(try_filled(0, bytes.max(FIRST_BLOCK_BYTES << self.top.block.min(10)))?);
            }
        }
        let StackTop { block, at, .. } = self.top;
        self.top.at += bytes;
        let slot = &mut self.stack[block][at..at + bytes];
        slot.fill(0);
        Ok(Region::writable(BackingStore::Stack, block, at, slot))
    }

    /// Frees the variables of a function.
    pub fn leave(&mut self, frame: Frame) {
        for region in &mut self.regions[frame.before.regions..self.top.regions] {
            *region = region.invalidated();
        }
        self.top = frame.before;
    }

    /// Returns a pointer to a variable.
    pub fn object(&self, frame: Frame, number: usize) -> i64 {
        let index = frame.first() + number;
        (i64::from(self.regions[index].generation) << 48) | (index as i64) << 32
    }

    /// The region tables that compiled code reads: data and variables, and allocations. Neither is ever empty.
    pub(crate) fn tables(&self) -> [&[Region]; 2] {
        [&self.regions, &self.allocated]
    }

    /// Allocates memory with these bytes, which lives until the run ends.
    ///
    /// # Errors
    /// [`TrapKind::OutOfMemory`].
    pub fn allocate(&mut self, mut bytes: Vec<u8>) -> Result<i64, TrapKind> {
        let heap_bytes = self.heap_bytes + bytes.len();
        if heap_bytes > MAX_RUN_HEAP_BYTES || self.allocated.len() >= FIRST_HEAP_REGION || !self.fits_budget(heap_bytes)
        {
            return Err(TrapKind::OutOfMemory);
        }
        self.heap_bytes = heap_bytes;
        let index = FIRST_HEAP_REGION + self.allocated.len();
        self.allocated.push(Region::writable(BackingStore::Heap, self.heap.len(), 0, &mut bytes));
        self.heap.push(bytes);
        Ok((index as i64) << 32)
    }

    /// Charges the bytes of a short-lived copy.
    ///
    /// # Errors
    /// [`TrapKind::OutOfMemory`], and those of the meter.
    pub(crate) fn charge_copy(&mut self, bytes: usize) -> Result<(), TrapKind> {
        self.meter.charge(bytes as u64)?;
        if self.fits_budget(self.heap_bytes + bytes) { Ok(()) } else { Err(TrapKind::OutOfMemory) }
    }

    /// Returns whether the budget covers this number of bytes of this run.
    fn fits_budget(&mut self, bytes: usize) -> bool {
        match (bytes.checked_sub(UNBUDGETED_HEAP_BYTES), self.budget) {
            (None | Some(0), _) | (_, None) => true,
            (Some(shared), Some(budget)) => {
                self.lease.get_or_insert_with(|| Lease::of(Arc::clone(budget))).grow_to(shared as u64)
            }
        }
    }

    /// Frees memory.
    ///
    /// # Errors
    /// [`TrapKind::NotAllocated`] for memory that was not allocated; freeing a null pointer has no effect, as with free(3).
    pub fn free(&mut self, pointer: i64) -> Result<(), TrapKind> {
        if pointer == 0 {
            return Ok(());
        }
        let index = (pointer >> 32 & 0xffff) as usize;
        let region = self.region(pointer)?;
        if region.store != BackingStore::Heap || pointer as u32 != 0 {
            return Err(TrapKind::NotAllocated);
        }
        self.heap_bytes -= std::mem::take(&mut self.heap[region.block as usize]).len();
        self.allocated[index - FIRST_HEAP_REGION] = region.invalidated();
        Ok(())
    }

    #[inline]
    fn region(&self, pointer: i64) -> Result<Region, TrapKind> {
        let index = (pointer >> 32 & 0xffff) as usize;
        let region = if index < FIRST_HEAP_REGION {
            self.regions.get(index)
        } else {
            self.allocated.get(index - FIRST_HEAP_REGION)
        };
        match region {
            Some(region) if region.generation == (pointer >> 48) as u16 && region.store != BackingStore::Unmapped => {
                Ok(*region)
            }
            _ if pointer as u64 >> 32 == 0 => Err(TrapKind::NullPointer),
            _ => Err(TrapKind::StalePointer),
        }
    }

    /// Returns the bytes from a pointer to the end of its region.
    ///
    /// # Errors
    /// [`TrapKind::NullPointer`], [`TrapKind::StalePointer`], [`TrapKind::OutOfBounds`].
    #[inline]
    pub fn rest(&self, pointer: i64) -> Result<&[u8], TrapKind> {
        let region = self.region(pointer)?;
        let (at, end) = (pointer as u32 as usize, region.readable as usize);
        if at > end {
            return Err(TrapKind::OutOfBounds);
        }
        let (block, start) = (region.block as usize, region.start as usize);
        Ok(match region.store {
            BackingStore::Data => &self.data[block].bytes[at..end],
            BackingStore::Stack => &self.stack[block][start + at..start + end],
            BackingStore::Heap => &self.heap[block][at..end],
            BackingStore::Input => &self.input[at..end],
            BackingStore::Output => &self.output[at..end],
            BackingStore::Unmapped => return Err(TrapKind::StalePointer),
        })
    }

    /// Returns the bytes from a pointer to the end of its region, writable.
    ///
    /// # Errors
    /// As [`Self::rest`], and [`TrapKind::ReadOnly`].
    #[inline]
    pub fn rest_mut(&mut self, pointer: i64) -> Result<&mut [u8], TrapKind> {
        let region = self.region(pointer)?;
        let (at, end) = (pointer as u32 as usize, region.readable as usize);
        if at > end {
            return Err(TrapKind::OutOfBounds);
        }
        let (block, start) = (region.block as usize, region.start as usize);
        Ok(match region.store {
            BackingStore::Data | BackingStore::Input => return Err(TrapKind::ReadOnly),
            BackingStore::Stack => &mut self.stack[block][start + at..start + end],
            BackingStore::Heap => &mut self.heap[block][at..end],
            BackingStore::Output => &mut self.output[at..end],
            BackingStore::Unmapped => return Err(TrapKind::StalePointer),
        })
    }

    /// Returns a number of bytes at a pointer.
    ///
    /// # Errors
    /// As [`Self::rest`].
    #[inline]
    pub fn read(&self, pointer: i64, bytes: usize) -> Result<&[u8], TrapKind> {
        self.rest(pointer)?.get(..bytes).ok_or(TrapKind::OutOfBounds)
    }

    /// Returns a number of bytes at a pointer, writable.
    ///
    /// # Errors
    /// As [`Self::rest_mut`].
    #[inline]
    pub fn write(&mut self, pointer: i64, bytes: usize) -> Result<&mut [u8], TrapKind> {
        self.rest_mut(pointer)?.get_mut(..bytes).ok_or(TrapKind::OutOfBounds)
    }

    /// Returns the string at a pointer, without its zero byte; an unterminated one ends with its region.
    ///
    /// # Errors
    /// As [`Self::rest`].
    pub fn string(&self, pointer: i64) -> Result<&[u8], TrapKind> {
        let rest = self.rest(pointer)?;
        Ok(&rest[..rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len())])
    }

    /// Loads the integer at a pointer.
    ///
    /// # Errors
    /// As [`Self::rest`].
    #[inline]
    pub fn load(&self, pointer: i64, integer: crate::code::Integer) -> Result<i64, TrapKind> {
        let bytes = self.read(pointer, integer.bytes.into())?;
        Ok(load(bytes, integer, self.order))
    }

    /// Stores an integer at a pointer.
    ///
    /// # Errors
    /// As [`Self::rest_mut`].
    #[inline]
    pub fn store(&mut self, pointer: i64, integer: crate::code::Integer, value: i64) -> Result<(), TrapKind> {
        let order = self.order;
        order.write(value, self.write(pointer, integer.bytes.into())?);
        Ok(())
    }

    /// Copies bytes between ranges that may overlap.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::write`].
    pub fn copy(&mut self, to: i64, from: i64, bytes: usize) -> Result<(), TrapKind> {
        let copied = try_copy(self.read(from, bytes)?)?;
        self.write(to, bytes)?.copy_from_slice(&copied);
        Ok(())
    }
}

/// Decodes an integer from bytes.
#[inline]
pub fn load(bytes: &[u8], integer: crate::code::Integer, order: ByteOrder) -> i64 {
    integer.wrap(order.read(&bytes[..integer.bytes.into()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Integer;

    #[test]
    fn accesses_out_of_bounds_or_to_stale_regions_fail() {
        let mut output = [0; 4];
        let mut memory = Memory::new(&[], b"input", &mut output);
        let frame = memory.enter(&[4, 8]).unwrap();
        let (one, other) = (memory.object(frame, 0), memory.object(frame, 1));
        memory.store(one, Integer::INT, -2).unwrap();
        assert_eq!(memory.load(one, Integer::INT), Ok(-2));
        assert_eq!(memory.load(one, Integer::LONG), Err(TrapKind::OutOfBounds));
        assert_eq!(memory.load(offset(one, -1).unwrap(), Integer::BYTE), Err(TrapKind::OutOfBounds));
        assert_eq!(memory.load(offset(offset(one, -1).unwrap(), 1).unwrap(), Integer::INT), Ok(-2));
        assert_eq!((memory.load(other, Integer::LONG), distance(one, other)), (Ok(0), Err(TrapKind::DifferentObjects)));
        memory.leave(frame);
        assert_eq!(memory.load(one, Integer::INT), Err(TrapKind::StalePointer));
        memory.enter(&[4]).unwrap();
        assert_eq!(memory.load(one, Integer::INT), Err(TrapKind::StalePointer), "another variable stands there");
        assert_eq!(
            (memory.load(0, Integer::INT), memory.load(5, Integer::INT)),
            (Err(TrapKind::NullPointer), Err(TrapKind::NullPointer))
        );
        assert_eq!(memory.load(Memory::INPUT + 4, Integer::CHAR), Ok(i64::from(b't')));
        assert_eq!(memory.store(Memory::INPUT, Integer::CHAR, 0), Err(TrapKind::ReadOnly));
        assert_eq!(element(one, i64::MAX, 8), Err(TrapKind::OutOfBounds));
        let block = memory.allocate(vec![7; 3]).unwrap();
        assert_eq!(memory.load(block, Integer::BYTE), Ok(7));
        assert_eq!((memory.free(block), memory.free(block)), (Ok(()), Err(TrapKind::StalePointer)));
        assert_eq!(memory.free(0), Ok(()));
    }
}

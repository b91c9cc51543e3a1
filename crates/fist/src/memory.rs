//! The memory of a run: regions, and pointers into them that are checked at each access.
//!
//! A pointer is the number of a region, an offset in it, and the generation of the region: when a variable is gone, a pointer
//! to it is known to be stale. All of it is in one `i64`, so pointers are stored and passed as integers are.

use std::sync::Arc;

use crate::budget::{Budget, Lease};
use crate::meter::Meter;
use crate::program::Data;
use crate::stop::Why;
use crate::target::ByteOrder;

/// The pointer to data of a description: the same in every run.
pub const fn data_pointer(index: usize) -> i64 {
    (index as i64 + 1) << 32
}

/// A pointer so many bytes further on.
///
/// # Errors
/// [`Why::OutOfBounds`] where no memory can be.
pub fn offset(pointer: i64, bytes: i64) -> Result<i64, Why> {
    // Objects are far smaller: farther on there is nothing, and less far the offset may come back.
    if !(-(1 << 31)..1 << 31).contains(&bytes) {
        return Err(Why::OutOfBounds);
    }
    Ok(pointer & !0xffff_ffff | pointer.wrapping_add(bytes) & 0xffff_ffff)
}

/// A pointer so many elements of a size further on.
///
/// # Errors
/// As [`offset`].
pub fn element(pointer: i64, index: i64, size: u64) -> Result<i64, Why> {
    offset(pointer, index.checked_mul(size as i64).ok_or(Why::OutOfBounds)?)
}

/// So many bytes of one value, which may be more than there is memory for.
///
/// # Errors
/// [`Why::OutOfMemory`].
pub(crate) fn filled(byte: u8, length: usize) -> Result<Vec<u8>, Why> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Why::OutOfMemory)?;
    bytes.resize(length, byte);
    Ok(bytes)
}

/// A copy of bytes.
///
/// # Errors
/// As [`filled`].
pub(crate) fn copied(bytes: &[u8]) -> Result<Vec<u8>, Why> {
    let mut copy = filled(0, bytes.len())?;
    copy.copy_from_slice(bytes);
    Ok(copy)
}

/// How many bytes lie between two pointers.
///
/// # Errors
/// [`Why::OtherObject`] for pointers into different regions.
pub fn distance(one: i64, other: i64) -> Result<i64, Why> {
    if one >> 32 != other >> 32 {
        return Err(Why::OtherObject);
    }
    Ok(i64::from((one as u32).wrapping_sub(other as u32) as i32))
}

/// Memory that is allocated goes by numbers from here on.
pub(crate) const ALLOCATED: usize = 1 << 15;
/// Most bytes of variables at a time.
const STACK_BYTES_MAX: usize = 4 << 20;
/// Bytes of the first block of variables; every further one is twice as large, up to 4 MiB.
const BLOCK_BYTES: usize = 4 << 10;
/// Most bytes that a run allocates.
const HEAP_BYTES_MAX: usize = 64 << 20;
/// Bytes that a run allocates without taking them from the budget that it shares with others.
const HEAP_BYTES_FREE: usize = 64 << 10;

/// Where the bytes of a region are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Store {
    Nowhere,
    Data,
    Stack,
    Heap,
    Input,
    Output,
}

/// A piece of memory. Compiled code reads the fields up to the generation: so they have a fixed order, and bytes stay where
/// they are as long as their region lives.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Region {
    /// Where its first byte is; nothing here reaches it this way.
    pub(crate) address: usize,
    /// So many bytes can be read: none of a region that is gone.
    pub(crate) readable: u32,
    /// So many can be written to.
    pub(crate) writable: u32,
    /// Which of the regions that have had this number.
    pub(crate) generation: u16,
    store: Store,
    /// In which of the data, or of the blocks of variables or of the heap.
    block: u32,
    /// Where in that it begins.
    start: u32,
}

impl Region {
    const NOTHING: Region =
        Region { address: 0, readable: 0, writable: 0, generation: 0, store: Store::Nowhere, block: 0, start: 0 };

    fn read_only(store: Store, block: usize, bytes: &[u8]) -> Region {
        let address = bytes.as_ptr().expose_provenance();
        Region { address, readable: bytes.len() as u32, store, block: block as u32, ..Region::NOTHING }
    }

    fn writable(store: Store, block: usize, start: usize, bytes: &mut [u8]) -> Region {
        let address = bytes.as_mut_ptr().expose_provenance();
        let length = bytes.len() as u32;
        let (block, start) = (block as u32, start as u32);
        Region { address, readable: length, writable: length, generation: 0, store, block, start }
    }

    /// What is left of it when it is gone: pointers to it are stale from now on.
    fn gone(self) -> Region {
        Region { generation: self.generation.wrapping_add(1), ..Region::NOTHING }
    }
}

/// How far the room for variables is taken.
#[derive(Clone, Copy, Debug)]
struct Top {
    regions: usize,
    bytes: usize,
    /// The block that the next variable goes to if it has room, and where in it.
    block: usize,
    at: usize,
}

/// The memory of a run.
pub struct Memory<'a> {
    data: &'a [Data],
    /// Data and variables, those of the innermost function last.
    regions: Vec<Region>,
    top: Top,
    /// Blocks that variables lie in. They do not move, for compiled code knows where its variables are.
    stack: Vec<Vec<u8>>,
    allocated: Vec<Region>,
    heap: Vec<Vec<u8>>,
    heap_bytes: usize,
    /// What is allocated beyond [`HEAP_BYTES_FREE`] is of a budget.
    lease: Option<Lease>,
    budget: Option<&'a Arc<Budget>>,
    meter: Meter,
    order: ByteOrder,
    input: &'a [u8],
    output: &'a mut [u8],
}

/// The variables of a function that is running.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    before: Top,
}

impl Frame {
    /// The number of the region of the first variable.
    pub(crate) fn first(self) -> usize {
        self.before.regions
    }
}

impl<'a> Memory<'a> {
    /// The memory of a run that is given bytes to read and bytes to write.
    pub fn new(data: &'a [Data], input: &'a [u8], output: &'a mut [u8]) -> Memory<'a> {
        let mut regions = Vec::with_capacity(data.len() + 8);
        regions.push(Region::NOTHING);
        regions.extend(data.iter().enumerate().map(|(index, data)| match data.is_written {
            true => Region::NOTHING,
            false => Region::read_only(Store::Data, index, &data.bytes),
        }));
        let top = Top { regions: regions.len(), bytes: 0, block: 0, at: 0 };
        let allocated =
            vec![Region::read_only(Store::Input, 0, input), Region::writable(Store::Output, 0, 0, &mut *output)];
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

    /// The same, of which what is allocated is within a budget.
    #[must_use]
    pub fn within(mut self, heap: &'a Arc<Budget>) -> Memory<'a> {
        self.budget = Some(heap);
        self
    }

    /// The same, by a meter that may have run before.
    #[must_use]
    pub fn metered(mut self, meter: Meter) -> Memory<'a> {
        self.meter = meter;
        self
    }

    /// How integers lie in it.
    pub(crate) fn order(&self) -> ByteOrder {
        self.order
    }

    /// From now on integers lie in it as they do on a target.
    pub(crate) fn set_order(&mut self, order: ByteOrder) {
        self.order = order;
    }

    /// What is left of the work and of the time.
    #[inline]
    pub fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    /// A pointer to what is read.
    pub const INPUT: i64 = (ALLOCATED as i64) << 32;
    /// A pointer to what is written.
    pub const OUTPUT: i64 = (ALLOCATED as i64 + 1) << 32;

    /// Makes room for the variables of a function, all zero.
    ///
    /// # Errors
    /// [`Why::OutOfMemory`].
    pub fn enter(&mut self, objects: &[u64]) -> Result<Frame, Why> {
        let frame = Frame { before: self.top };
        for bytes in objects {
            let end = self.top.bytes + *bytes as usize;
            if end > STACK_BYTES_MAX || self.top.regions >= ALLOCATED {
                self.leave(frame);
                return Err(Why::OutOfMemory);
            }
            let Ok(region) = self.variable(*bytes as usize) else {
                self.leave(frame);
                return Err(Why::OutOfMemory);
            };
            match self.regions.get_mut(self.top.regions) {
                Some(place) => *place = Region { generation: place.generation, ..region },
                None => self.regions.push(region),
            }
            self.top.regions += 1;
            self.top.bytes = end;
        }
        Ok(frame)
    }

    /// Room for a variable, all zero.
    fn variable(&mut self, bytes: usize) -> Result<Region, Why> {
        let fits =
            |stack: &[Vec<u8>], block: usize, at: usize| stack.get(block).is_some_and(|it| it.len() - at >= bytes);
        if !fits(&self.stack, self.top.block, self.top.at) {
            self.top.block += usize::from(!self.stack.is_empty());
            self.top.at = 0;
            if !fits(&self.stack, self.top.block, 0) {
                // Nothing lives there, nor behind.
                self.stack.truncate(self.top.block);
                self.stack.push(filled(0, bytes.max(BLOCK_BYTES << self.top.block.min(10)))?);
            }
        }
        let Top { block, at, .. } = self.top;
        self.top.at += bytes;
        let place = &mut self.stack[block][at..at + bytes];
        place.fill(0);
        Ok(Region::writable(Store::Stack, block, at, place))
    }

    /// The variables of a function are gone.
    pub fn leave(&mut self, frame: Frame) {
        for region in &mut self.regions[frame.before.regions..self.top.regions] {
            *region = region.gone();
        }
        self.top = frame.before;
    }

    /// A pointer to a variable.
    pub fn object(&self, frame: Frame, number: usize) -> i64 {
        let index = frame.first() + number;
        (i64::from(self.regions[index].generation) << 48) | (index as i64) << 32
    }

    /// Where compiled code finds regions: data and variables, and what is allocated. Neither is ever empty.
    pub(crate) fn tables(&self) -> [&[Region]; 2] {
        [&self.regions, &self.allocated]
    }

    /// New memory with these bytes, until the run ends.
    ///
    /// # Errors
    /// [`Why::OutOfMemory`].
    pub fn allocate(&mut self, mut bytes: Vec<u8>) -> Result<i64, Why> {
        let heap_bytes = self.heap_bytes + bytes.len();
        if heap_bytes > HEAP_BYTES_MAX || self.allocated.len() >= ALLOCATED || !self.has_room(heap_bytes) {
            return Err(Why::OutOfMemory);
        }
        self.heap_bytes = heap_bytes;
        let index = ALLOCATED + self.allocated.len();
        self.allocated.push(Region::writable(Store::Heap, self.heap.len(), 0, &mut bytes));
        self.heap.push(bytes);
        Ok((index as i64) << 32)
    }

    /// So many bytes are handled, in a copy that is soon given back.
    ///
    /// # Errors
    /// [`Why::OutOfMemory`], and what the meter says.
    pub(crate) fn passes(&mut self, bytes: usize) -> Result<(), Why> {
        self.meter.charge(bytes as u64)?;
        if self.has_room(self.heap_bytes + bytes) { Ok(()) } else { Err(Why::OutOfMemory) }
    }

    /// Whether the budget has room for so many bytes of this run.
    fn has_room(&mut self, bytes: usize) -> bool {
        match (bytes.checked_sub(HEAP_BYTES_FREE), self.budget) {
            (None | Some(0), _) | (_, None) => true,
            (Some(shared), Some(budget)) => {
                self.lease.get_or_insert_with(|| Lease::of(Arc::clone(budget))).grow_to(shared as u64)
            }
        }
    }

    /// Gives memory back.
    ///
    /// # Errors
    /// [`Why::NotAllocated`] for what was not allocated; a pointer to nothing is given back without effect, as free(3) does.
    pub fn free(&mut self, pointer: i64) -> Result<(), Why> {
        if pointer == 0 {
            return Ok(());
        }
        let index = (pointer >> 32 & 0xffff) as usize;
        let region = self.region(pointer)?;
        if region.store != Store::Heap || pointer as u32 != 0 {
            return Err(Why::NotAllocated);
        }
        self.heap_bytes -= std::mem::take(&mut self.heap[region.block as usize]).len();
        self.allocated[index - ALLOCATED] = region.gone();
        Ok(())
    }

    #[inline]
    fn region(&self, pointer: i64) -> Result<Region, Why> {
        let index = (pointer >> 32 & 0xffff) as usize;
        let region = if index < ALLOCATED { self.regions.get(index) } else { self.allocated.get(index - ALLOCATED) };
        match region {
            Some(region) if region.generation == (pointer >> 48) as u16 && region.store != Store::Nowhere => {
                Ok(*region)
            }
            _ if pointer as u64 >> 32 == 0 => Err(Why::NullPointer),
            _ => Err(Why::Gone),
        }
    }

    /// The bytes from a pointer on to the end of what it points into.
    ///
    /// # Errors
    /// [`Why::NullPointer`], [`Why::Gone`], [`Why::OutOfBounds`].
    #[inline]
    pub fn rest(&self, pointer: i64) -> Result<&[u8], Why> {
        let region = self.region(pointer)?;
        let (at, end) = (pointer as u32 as usize, region.readable as usize);
        if at > end {
            return Err(Why::OutOfBounds);
        }
        let (block, start) = (region.block as usize, region.start as usize);
        Ok(match region.store {
            Store::Data => &self.data[block].bytes[at..end],
            Store::Stack => &self.stack[block][start + at..start + end],
            Store::Heap => &self.heap[block][at..end],
            Store::Input => &self.input[at..end],
            Store::Output => &self.output[at..end],
            Store::Nowhere => return Err(Why::Gone),
        })
    }

    /// The same, to write to.
    ///
    /// # Errors
    /// As [`Self::rest`], and [`Why::ReadOnly`].
    #[inline]
    pub fn rest_mut(&mut self, pointer: i64) -> Result<&mut [u8], Why> {
        let region = self.region(pointer)?;
        let (at, end) = (pointer as u32 as usize, region.readable as usize);
        if at > end {
            return Err(Why::OutOfBounds);
        }
        let (block, start) = (region.block as usize, region.start as usize);
        Ok(match region.store {
            Store::Data | Store::Input => return Err(Why::ReadOnly),
            Store::Stack => &mut self.stack[block][start + at..start + end],
            Store::Heap => &mut self.heap[block][at..end],
            Store::Output => &mut self.output[at..end],
            Store::Nowhere => return Err(Why::Gone),
        })
    }

    /// So many bytes at a pointer.
    ///
    /// # Errors
    /// As [`Self::rest`].
    #[inline]
    pub fn read(&self, pointer: i64, bytes: usize) -> Result<&[u8], Why> {
        self.rest(pointer)?.get(..bytes).ok_or(Why::OutOfBounds)
    }

    /// The same, to write to.
    ///
    /// # Errors
    /// As [`Self::rest_mut`].
    #[inline]
    pub fn write(&mut self, pointer: i64, bytes: usize) -> Result<&mut [u8], Why> {
        self.rest_mut(pointer)?.get_mut(..bytes).ok_or(Why::OutOfBounds)
    }

    /// The string at a pointer, without its zero byte; one that has none ends with what it lies in.
    ///
    /// # Errors
    /// As [`Self::rest`].
    pub fn string(&self, pointer: i64) -> Result<&[u8], Why> {
        let rest = self.rest(pointer)?;
        Ok(&rest[..rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len())])
    }

    /// The integer at a pointer.
    ///
    /// # Errors
    /// As [`Self::rest`].
    #[inline]
    pub fn load(&self, pointer: i64, integer: crate::code::Integer) -> Result<i64, Why> {
        let bytes = self.read(pointer, integer.bytes.into())?;
        Ok(load(bytes, integer, self.order))
    }

    /// Writes an integer.
    ///
    /// # Errors
    /// As [`Self::rest_mut`].
    #[inline]
    pub fn store(&mut self, pointer: i64, integer: crate::code::Integer, value: i64) -> Result<(), Why> {
        let order = self.order;
        order.write(value, self.write(pointer, integer.bytes.into())?);
        Ok(())
    }

    /// Copies bytes, which may overlap.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::write`].
    pub fn copy(&mut self, to: i64, from: i64, bytes: usize) -> Result<(), Why> {
        let copied = copied(self.read(from, bytes)?)?;
        self.write(to, bytes)?.copy_from_slice(&copied);
        Ok(())
    }
}

/// The integer that bytes are.
#[inline]
pub fn load(bytes: &[u8], integer: crate::code::Integer, order: ByteOrder) -> i64 {
    integer.wrap(order.read(&bytes[..integer.bytes.into()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Integer;

    #[test]
    fn pointers_reach_nothing_beyond_their_objects_nor_after_they_are_gone() {
        let mut output = [0; 4];
        let mut memory = Memory::new(&[], b"input", &mut output);
        let frame = memory.enter(&[4, 8]).unwrap();
        let (one, other) = (memory.object(frame, 0), memory.object(frame, 1));
        memory.store(one, Integer::INT, -2).unwrap();
        assert_eq!(memory.load(one, Integer::INT), Ok(-2));
        assert_eq!(memory.load(one, Integer::LONG), Err(Why::OutOfBounds));
        assert_eq!(memory.load(offset(one, -1).unwrap(), Integer::BYTE), Err(Why::OutOfBounds));
        assert_eq!(memory.load(offset(offset(one, -1).unwrap(), 1).unwrap(), Integer::INT), Ok(-2));
        assert_eq!((memory.load(other, Integer::LONG), distance(one, other)), (Ok(0), Err(Why::OtherObject)));
        memory.leave(frame);
        assert_eq!(memory.load(one, Integer::INT), Err(Why::Gone));
        memory.enter(&[4]).unwrap();
        assert_eq!(memory.load(one, Integer::INT), Err(Why::Gone), "another variable stands there");
        assert_eq!(
            (memory.load(0, Integer::INT), memory.load(5, Integer::INT)),
            (Err(Why::NullPointer), Err(Why::NullPointer))
        );
        assert_eq!(memory.load(Memory::INPUT + 4, Integer::CHAR), Ok(i64::from(b't')));
        assert_eq!(memory.store(Memory::INPUT, Integer::CHAR, 0), Err(Why::ReadOnly));
        assert_eq!(element(one, i64::MAX, 8), Err(Why::OutOfBounds));
        let block = memory.allocate(vec![7; 3]).unwrap();
        assert_eq!(memory.load(block, Integer::BYTE), Ok(7));
        assert_eq!((memory.free(block), memory.free(block)), (Ok(()), Err(Why::Gone)));
        assert_eq!(memory.free(0), Ok(()));
    }
}

//! The memory of a run: regions, and pointers into them that are checked at each access.
//!
//! A pointer is the number of a region, an offset in it, and the generation of the region: when a variable is gone, a pointer
//! to it is known to be stale. All of it is in one `i64`, so pointers are stored and passed as integers are.

use crate::program::Data;
use crate::stop::Why;

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
const ALLOCATED: usize = 1 << 15;
/// Most bytes of variables at a time.
const STACK_BYTES_MAX: usize = 4 << 20;
/// Most bytes that a run allocates.
const HEAP_BYTES_MAX: usize = 64 << 20;

/// Where the bytes of a region are.
#[derive(Clone, Copy, Debug)]
enum Store {
    Nowhere,
    Data(u32),
    Stack(u32),
    Heap(u32),
    Input,
    Output,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    store: Store,
    bytes: u32,
    generation: u16,
}

/// The memory of a run.
pub struct Memory<'a> {
    data: &'a [Data],
    /// Variables: regions and bytes, those of the innermost function last.
    regions: Vec<Region>,
    live: usize,
    stack: Vec<u8>,
    used: usize,
    allocated: Vec<Region>,
    heap: Vec<Vec<u8>>,
    heap_bytes: usize,
    input: &'a [u8],
    output: &'a mut [u8],
}

/// The variables of a function that is running.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    first: usize,
    live: usize,
    used: usize,
}

impl<'a> Memory<'a> {
    /// The memory of a run that is given bytes to read and bytes to write.
    pub fn new(data: &'a [Data], input: &'a [u8], output: &'a mut [u8]) -> Memory<'a> {
        let mut regions = Vec::with_capacity(data.len() + 8);
        regions.push(Region { store: Store::Nowhere, bytes: 0, generation: 0 });
        for (index, data) in data.iter().enumerate() {
            let store = if data.is_written { Store::Nowhere } else { Store::Data(index as u32) };
            regions.push(Region { store, bytes: data.bytes.len() as u32, generation: 0 });
        }
        let live = regions.len();
        let mut memory = Memory {
            data,
            regions,
            live,
            stack: Vec::new(),
            used: 0,
            allocated: Vec::new(),
            heap: Vec::new(),
            heap_bytes: 0,
            input,
            output,
        };
        memory.allocated.push(Region { store: Store::Input, bytes: input.len() as u32, generation: 0 });
        memory.allocated.push(Region { store: Store::Output, bytes: memory.output.len() as u32, generation: 0 });
        memory
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
        let frame = Frame { first: self.live, live: self.live, used: self.used };
        for bytes in objects {
            let end = self.used + *bytes as usize;
            if end > STACK_BYTES_MAX || self.live >= ALLOCATED {
                self.leave(frame);
                return Err(Why::OutOfMemory);
            }
            if self.stack.len() < end {
                self.stack.resize(end, 0);
            }
            self.stack[self.used..end].fill(0);
            let region = Region { store: Store::Stack(self.used as u32), bytes: *bytes as u32, generation: 0 };
            match self.regions.get_mut(self.live) {
                Some(place) => *place = Region { generation: place.generation, ..region },
                None => self.regions.push(region),
            }
            self.live += 1;
            self.used = end;
        }
        Ok(frame)
    }

    /// The variables of a function are gone.
    pub fn leave(&mut self, frame: Frame) {
        for region in &mut self.regions[frame.live..self.live] {
            region.generation = region.generation.wrapping_add(1);
            region.store = Store::Nowhere;
        }
        (self.live, self.used) = (frame.live, frame.used);
    }

    /// A pointer to a variable.
    pub fn object(&self, frame: Frame, number: usize) -> i64 {
        let index = frame.first + number;
        (i64::from(self.regions[index].generation) << 48) | (index as i64) << 32
    }

    /// New memory with these bytes, until the run ends.
    ///
    /// # Errors
    /// [`Why::OutOfMemory`].
    pub fn allocate(&mut self, bytes: Vec<u8>) -> Result<i64, Why> {
        self.heap_bytes += bytes.len();
        if self.heap_bytes > HEAP_BYTES_MAX || self.allocated.len() >= ALLOCATED {
            return Err(Why::OutOfMemory);
        }
        let index = ALLOCATED + self.allocated.len();
        let store = Store::Heap(self.heap.len() as u32);
        self.allocated.push(Region { store, bytes: bytes.len() as u32, generation: 0 });
        self.heap.push(bytes);
        Ok((index as i64) << 32)
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
        let Store::Heap(block) = region.store else { return Err(Why::NotAllocated) };
        if pointer as u32 != 0 {
            return Err(Why::NotAllocated);
        }
        self.heap_bytes -= std::mem::take(&mut self.heap[block as usize]).len();
        let region = &mut self.allocated[index - ALLOCATED];
        *region = Region { store: Store::Nowhere, bytes: 0, generation: region.generation.wrapping_add(1) };
        Ok(())
    }

    #[inline]
    fn region(&self, pointer: i64) -> Result<Region, Why> {
        let index = (pointer >> 32 & 0xffff) as usize;
        let region = if index < ALLOCATED { self.regions.get(index) } else { self.allocated.get(index - ALLOCATED) };
        match region {
            Some(region) if region.generation == (pointer >> 48) as u16 && !matches!(region.store, Store::Nowhere) => {
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
        let (at, end) = (pointer as u32 as usize, region.bytes as usize);
        if at > end {
            return Err(Why::OutOfBounds);
        }
        Ok(match region.store {
            Store::Data(index) => &self.data[index as usize].bytes[at..end],
            Store::Stack(start) => &self.stack[start as usize + at..start as usize + end],
            Store::Heap(block) => &self.heap[block as usize][at..end],
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
        let (at, end) = (pointer as u32 as usize, region.bytes as usize);
        if at > end {
            return Err(Why::OutOfBounds);
        }
        Ok(match region.store {
            Store::Data(_) | Store::Input => return Err(Why::ReadOnly),
            Store::Stack(start) => &mut self.stack[start as usize + at..start as usize + end],
            Store::Heap(block) => &mut self.heap[block as usize][at..end],
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
    pub fn load(&self, pointer: i64, integer: crate::ir::Integer) -> Result<i64, Why> {
        let bytes = self.read(pointer, integer.bytes.into())?;
        Ok(load(bytes, integer))
    }

    /// Writes an integer.
    ///
    /// # Errors
    /// As [`Self::rest_mut`].
    #[inline]
    pub fn store(&mut self, pointer: i64, integer: crate::ir::Integer, value: i64) -> Result<(), Why> {
        let bytes = self.write(pointer, integer.bytes.into())?;
        bytes.copy_from_slice(&value.to_le_bytes()[..integer.bytes.into()]);
        Ok(())
    }

    /// Copies bytes, which may overlap.
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::write`].
    pub fn copy(&mut self, to: i64, from: i64, bytes: usize) -> Result<(), Why> {
        let copied = self.read(from, bytes)?.to_vec();
        self.write(to, bytes)?.copy_from_slice(&copied);
        Ok(())
    }
}

/// The integer that bytes are.
#[inline]
pub fn load(bytes: &[u8], integer: crate::ir::Integer) -> i64 {
    let mut whole = [0; 8];
    whole[..integer.bytes.into()].copy_from_slice(&bytes[..integer.bytes.into()]);
    integer.wrap(i64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Integer;

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

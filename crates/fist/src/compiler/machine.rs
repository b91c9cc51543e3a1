//! The run-time state of compiled code: the tables that it reads, and its requests to the memory and the host.

use std::any::Any;

use crate::code::Integer;
use crate::interpreter::{CallHandler, MAX_FUEL};
use crate::memory::{self, Frame, Memory, Region};
use crate::meter::Fuel;
use crate::text::Span;
use crate::trap::{Trap, TrapKind};

/// A table of regions, in the form that compiled code reads.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RegionTable {
    /// The first region.
    pub(crate) regions: *const Region,
    /// Number of regions, at least one.
    pub(crate) count: u64,
}

/// State of compiled code that has not trapped.
pub(crate) const NOT_TRAPPED: u64 = 0;
/// A callback trapped. Any other number is one more than the index of a trap raised by the code itself.
const TRAPPED_IN_CALLBACK: u64 = u64::MAX;

/// Entities that compiled code refers to by number.
#[derive(Debug, Default)]
pub(crate) struct NumberedEntities {
    /// Locations in the source text.
    pub(crate) spans: Vec<Span>,
    /// Traps.
    pub(crate) traps: Vec<Trap>,
    /// Sizes of the objects of each function in bytes.
    pub(crate) objects: Vec<Vec<u64>>,
}

/// A run. Compiled code accesses the first fields.
#[repr(C)]
pub(crate) struct Machine<'r, 'm> {
    /// The region tables: data and variables, and allocations.
    pub(crate) tables: [RegionTable; 2],
    /// The reason why the code has returned.
    pub(crate) trap_state: u64,
    /// The return value of the function.
    pub(crate) result: i64,
    numbers: &'r NumberedEntities,
    memory: &'r mut Memory<'m>,
    handler: &'r mut dyn CallHandler,
    frames: Vec<Frame>,
    /// Fuel beyond the part that compiled code counts.
    fuel: Fuel,
    trap: Option<Trap>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'r, 'm> Machine<'r, 'm> {
    pub(crate) fn new(
        numbers: &'r NumberedEntities,
        memory: &'r mut Memory<'m>,
        handler: &'r mut dyn CallHandler,
    ) -> Machine<'r, 'm> {
        let tables = tables(memory);
        let (frames, (fuel, _)) = (Vec::new(), Fuel::new(MAX_FUEL));
        Machine {
            tables,
            trap_state: NOT_TRAPPED,
            result: 0,
            numbers,
            memory,
            handler,
            frames,
            fuel,
            trap: None,
            panic: None,
        }
    }

    /// The result of the run, after compiled code has returned.
    pub(crate) fn finish(mut self) -> Result<i64, Trap> {
        if let Some(panic) = self.panic.take() {
            std::panic::resume_unwind(panic);
        }
        if self.trap_state == NOT_TRAPPED {
            return Ok(self.result);
        }
        if let Some(frame) = self.frames.first() {
            self.memory.leave(*frame);
        }
        Err(match self.trap {
            Some(stop) if self.trap_state == TRAPPED_IN_CALLBACK => stop,
            _ => self.numbers.traps[self.trap_state as usize - 1],
        })
    }

    /// Ends the run with a trap: compiled code returns when it sees this.
    pub(crate) fn trap(&mut self, stop: Trap) -> i64 {
        self.trap_state = TRAPPED_IN_CALLBACK;
        self.trap = Some(stop);
        0
    }

    /// Ends the run with a panic, which resumes when all compiled code has returned.
    pub(crate) fn catch_panic(&mut self, panic: Box<dyn Any + Send>) -> i64 {
        self.trap_state = TRAPPED_IN_CALLBACK;
        self.panic = Some(panic);
        0
    }

    /// Updates the tables to the current location of the regions.
    fn refresh_tables(&mut self) {
        self.tables = tables(self.memory);
    }

    fn trap_at(&self, location: i64) -> impl Fn(TrapKind) -> Trap + use<> {
        let span = self.numbers.spans[location as usize];
        move |kind| Trap { kind, span }
    }

    /// Loads the integer at a pointer that compiled code could not validate.
    pub(crate) fn load(&mut self, pointer: i64, integer: i64, location: i64) -> Result<i64, Trap> {
        self.memory.load(pointer, integer_of(integer)).map_err(self.trap_at(location))
    }

    /// Stores an integer at a pointer that compiled code could not validate.
    pub(crate) fn store(&mut self, pointer: i64, value: i64, integer: i64, location: i64) -> Result<i64, Trap> {
        let trap_at = self.trap_at(location);
        self.memory.store(pointer, integer_of(integer), value).map_err(trap_at).map(|()| 0)
    }

    /// Traps because of an access that compiled code has found invalid.
    ///
    /// # Panics
    /// If the access is valid: then the compiled code is wrong.
    pub(crate) fn refuse(&mut self, pointer: i64, bytes: i64, is_write: i64, location: i64) -> Result<i64, Trap> {
        let bytes = bytes as usize;
        let found = match is_write {
            0 => self.memory.read(pointer, bytes).map(|_| ()),
            _ => self.memory.write(pointer, bytes).map(|_| ()),
        };
        match found {
            Err(kind) => Err(self.trap_at(location)(kind)),
            Ok(()) => panic!("compiled code refuses a valid access"),
        }
    }

    /// Refills the fuel up to the next clock check, after it has dropped below zero.
    pub(crate) fn more(&mut self, left: i64, location: i64) -> Result<i64, Trap> {
        let more = self.fuel.refill(left.unsigned_abs(), self.memory.meter());
        more.map(|fuel| fuel as i64).map_err(self.trap_at(location))
    }

    /// Copies bytes.
    pub(crate) fn copy(&mut self, to: i64, from: i64, bytes: i64, location: i64) -> Result<i64, Trap> {
        let trap_at = self.trap_at(location);
        self.memory.copy(to, from, bytes as usize).map_err(trap_at).map(|()| 0)
    }

    /// Zeroes an object.
    pub(crate) fn clear(&mut self, pointer: i64) -> Result<i64, Trap> {
        if let Ok(bytes) = self.memory.rest_mut(pointer) {
            bytes.fill(0);
        }
        Ok(0)
    }

    /// Allocates the objects of a function; returns the region number of the first one.
    pub(crate) fn enter(&mut self, function: i64, location: i64) -> Result<i64, Trap> {
        let frame = self.memory.enter(&self.numbers.objects[function as usize]);
        self.refresh_tables();
        let frame = frame.map_err(self.trap_at(location))?;
        self.frames.push(frame);
        Ok(frame.first() as i64)
    }

    /// Frees the objects of the innermost function.
    pub(crate) fn leave(&mut self) -> Result<i64, Trap> {
        if let Some(frame) = self.frames.pop() {
            self.memory.leave(frame);
        }
        Ok(0)
    }

    /// Makes an intrinsic or host call.
    pub(crate) fn site(&mut self, site: i64, location: i64, values: &[i64]) -> Result<i64, Trap> {
        let result = self.handler.call(self.memory, site as usize, values);
        self.refresh_tables();
        result.map_err(self.trap_at(location))
    }
}

fn tables(memory: &Memory<'_>) -> [RegionTable; 2] {
    memory.tables().map(|regions| RegionTable { regions: regions.as_ptr(), count: regions.len() as u64 })
}

/// An integer type encoded as a number for compiled code.
pub(crate) fn number_of(integer: Integer) -> i64 {
    i64::from(integer.bytes) << 1 | i64::from(integer.is_unsigned)
}

fn integer_of(number: i64) -> Integer {
    Integer { bytes: (number >> 1) as u8, is_unsigned: number & 1 != 0 }
}

/// The position of a region number's table bit in a pointer: bit 15 of the number selects the table, the others the
/// index in it.
pub(crate) const TABLE_BIT: i64 = memory::FIRST_HEAP_REGION.trailing_zeros() as i64 + 32;

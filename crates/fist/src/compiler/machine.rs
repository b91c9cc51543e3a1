//! The run-time state of compiled code: the tables that it reads, and its requests to the memory and the host.

use std::any::Any;

use crate::code::Integer;
use crate::interpreter::{Outside, STEPS_MAX};
use crate::memory::{self, Frame, Memory, Region};
use crate::meter::Steps;
use crate::stop::{Stop, Why};
use crate::text::Span;

/// A table of regions, in the form that compiled code reads.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Table {
    /// The first region.
    pub(crate) regions: *const Region,
    /// Number of regions, at least one.
    pub(crate) count: u64,
}

/// State of compiled code that has not trapped.
pub(crate) const RUNS: u64 = 0;
/// A callback trapped. Any other number is one more than the index of a trap raised by the code itself.
const WAS_STOPPED: u64 = u64::MAX;

/// Entities that compiled code refers to by number.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Locations in the source text.
    pub(crate) places: Vec<Span>,
    /// Traps.
    pub(crate) stops: Vec<Stop>,
    /// Sizes of the objects of each function in bytes.
    pub(crate) objects: Vec<Vec<u64>>,
}

/// A run. Compiled code accesses the first fields.
#[repr(C)]
pub(crate) struct Machine<'r, 'm> {
    /// The region tables: data and variables, and allocations.
    pub(crate) tables: [Table; 2],
    /// The reason why the code has returned.
    pub(crate) stopped: u64,
    /// The return value of the function.
    pub(crate) answer: i64,
    numbers: &'r Numbers,
    memory: &'r mut Memory<'m>,
    outside: &'r mut dyn Outside,
    frames: Vec<Frame>,
    /// Fuel beyond the part that compiled code counts.
    steps: Steps,
    stop: Option<Stop>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'r, 'm> Machine<'r, 'm> {
    pub(crate) fn new(
        numbers: &'r Numbers,
        memory: &'r mut Memory<'m>,
        outside: &'r mut dyn Outside,
    ) -> Machine<'r, 'm> {
        let tables = tables(memory);
        let (frames, (steps, _)) = (Vec::new(), Steps::new(STEPS_MAX));
        Machine { tables, stopped: RUNS, answer: 0, numbers, memory, outside, frames, steps, stop: None, panic: None }
    }

    /// The result of the run, after compiled code has returned.
    pub(crate) fn finish(mut self) -> Result<i64, Stop> {
        if let Some(panic) = self.panic.take() {
            std::panic::resume_unwind(panic);
        }
        if self.stopped == RUNS {
            return Ok(self.answer);
        }
        if let Some(frame) = self.frames.first() {
            self.memory.leave(*frame);
        }
        Err(match self.stop {
            Some(stop) if self.stopped == WAS_STOPPED => stop,
            _ => self.numbers.stops[self.stopped as usize - 1],
        })
    }

    /// Ends the run with a trap: compiled code returns when it sees this.
    pub(crate) fn stop(&mut self, stop: Stop) -> i64 {
        self.stopped = WAS_STOPPED;
        self.stop = Some(stop);
        0
    }

    /// Ends the run with a panic, which resumes when all compiled code has returned.
    pub(crate) fn panicked(&mut self, panic: Box<dyn Any + Send>) -> i64 {
        self.stopped = WAS_STOPPED;
        self.panic = Some(panic);
        0
    }

    /// Updates the tables to the current location of the regions.
    fn refresh(&mut self) {
        self.tables = tables(self.memory);
    }

    fn at(&self, place: i64) -> impl Fn(Why) -> Stop + use<> {
        let span = self.numbers.places[place as usize];
        move |why| Stop { why, span }
    }

    /// Loads the integer at a pointer that compiled code could not validate.
    pub(crate) fn load(&mut self, pointer: i64, integer: i64, place: i64) -> Result<i64, Stop> {
        self.memory.load(pointer, integer_of(integer)).map_err(self.at(place))
    }

    /// Stores an integer at a pointer that compiled code could not validate.
    pub(crate) fn store(&mut self, pointer: i64, value: i64, integer: i64, place: i64) -> Result<i64, Stop> {
        let at = self.at(place);
        self.memory.store(pointer, integer_of(integer), value).map_err(at).map(|()| 0)
    }

    /// Traps because of an access that compiled code has found invalid.
    ///
    /// # Panics
    /// If the access is valid: then the compiled code is wrong.
    pub(crate) fn refuse(&mut self, pointer: i64, bytes: i64, is_write: i64, place: i64) -> Result<i64, Stop> {
        let bytes = bytes as usize;
        let found = match is_write {
            0 => self.memory.read(pointer, bytes).map(|_| ()),
            _ => self.memory.write(pointer, bytes).map(|_| ()),
        };
        match found {
            Err(why) => Err(self.at(place)(why)),
            Ok(()) => panic!("compiled code refuses a valid access"),
        }
    }

    /// Refills the fuel up to the next clock check, after it has dropped below zero.
    pub(crate) fn more(&mut self, left: i64, place: i64) -> Result<i64, Stop> {
        let more = self.steps.more(left.unsigned_abs(), self.memory.meter());
        more.map(|steps| steps as i64).map_err(self.at(place))
    }

    /// Copies bytes.
    pub(crate) fn copy(&mut self, to: i64, from: i64, bytes: i64, place: i64) -> Result<i64, Stop> {
        let at = self.at(place);
        self.memory.copy(to, from, bytes as usize).map_err(at).map(|()| 0)
    }

    /// Zeroes an object.
    pub(crate) fn clear(&mut self, pointer: i64) -> Result<i64, Stop> {
        if let Ok(bytes) = self.memory.rest_mut(pointer) {
            bytes.fill(0);
        }
        Ok(0)
    }

    /// Allocates the objects of a function; returns the region number of the first one.
    pub(crate) fn enter(&mut self, function: i64, place: i64) -> Result<i64, Stop> {
        let frame = self.memory.enter(&self.numbers.objects[function as usize]);
        self.refresh();
        let frame = frame.map_err(self.at(place))?;
        self.frames.push(frame);
        Ok(frame.first() as i64)
    }

    /// Frees the objects of the innermost function.
    pub(crate) fn leave(&mut self) -> Result<i64, Stop> {
        if let Some(frame) = self.frames.pop() {
            self.memory.leave(frame);
        }
        Ok(0)
    }

    /// Makes an intrinsic or host call.
    pub(crate) fn site(&mut self, site: i64, place: i64, values: &[i64]) -> Result<i64, Stop> {
        let answer = self.outside.call(self.memory, site as usize, values);
        self.refresh();
        answer.map_err(self.at(place))
    }
}

fn tables(memory: &Memory<'_>) -> [Table; 2] {
    memory.tables().map(|regions| Table { regions: regions.as_ptr(), count: regions.len() as u64 })
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
pub(crate) const TABLE_BIT: i64 = memory::ALLOCATED.trailing_zeros() as i64 + 32;

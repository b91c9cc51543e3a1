//! What compiled code runs on: the tables that it reads, and what it asks of the memory and of the outside.

use std::any::Any;

use crate::code::Integer;
use crate::interpreter::{Outside, STEPS_MAX};
use crate::memory::{self, Frame, Memory, Region};
use crate::meter::Steps;
use crate::stop::{Stop, Why};
use crate::text::Span;

/// A table of regions, as compiled code reads it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Table {
    /// The first of them.
    pub(super) regions: *const Region,
    /// So many: never none.
    pub(super) count: u64,
}

/// Why compiled code has come back: it has not stopped.
pub(super) const RUNS: u64 = 0;
/// It was stopped by something that it asked for. Any other number is that of a stop that the code has, and one more.
const WAS_STOPPED: u64 = u64::MAX;

/// What compiled code knows by numbers.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Places in the text.
    pub(super) places: Vec<Span>,
    /// Stops.
    pub(super) stops: Vec<Stop>,
    /// The objects of each function, bytes of each.
    pub(super) objects: Vec<Vec<u64>>,
}

/// A run. Compiled code reads and writes the first fields.
#[repr(C)]
pub(super) struct Machine<'r, 'm> {
    /// Where regions are: data and variables, and what is allocated.
    pub(super) tables: [Table; 2],
    /// Why the code has come back.
    pub(super) stopped: u64,
    /// What the function answers.
    pub(super) answer: i64,
    numbers: &'r Numbers,
    memory: &'r mut Memory<'m>,
    outside: &'r mut dyn Outside,
    frames: Vec<Frame>,
    /// Steps after those that compiled code counts.
    steps: Steps,
    stop: Option<Stop>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'r, 'm> Machine<'r, 'm> {
    pub(super) fn new(
        numbers: &'r Numbers,
        memory: &'r mut Memory<'m>,
        outside: &'r mut dyn Outside,
    ) -> Machine<'r, 'm> {
        let tables = tables(memory);
        let (frames, (steps, _)) = (Vec::new(), Steps::new(STEPS_MAX));
        Machine { tables, stopped: RUNS, answer: 0, numbers, memory, outside, frames, steps, stop: None, panic: None }
    }

    /// What came of the run, when compiled code has come back.
    pub(super) fn finish(mut self) -> Result<i64, Stop> {
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

    /// The run ends: compiled code returns when it sees this.
    pub(super) fn stop(&mut self, stop: Stop) -> i64 {
        self.stopped = WAS_STOPPED;
        self.stop = Some(stop);
        0
    }

    /// The same, and the panic goes on when all compiled code has returned.
    pub(super) fn panicked(&mut self, panic: Box<dyn Any + Send>) -> i64 {
        self.stopped = WAS_STOPPED;
        self.panic = Some(panic);
        0
    }

    /// Compiled code finds regions where they are now.
    fn refresh(&mut self) {
        self.tables = tables(self.memory);
    }

    fn at(&self, place: i64) -> impl Fn(Why) -> Stop + use<> {
        let span = self.numbers.places[place as usize];
        move |why| Stop { why, span }
    }

    /// The integer at a pointer that compiled code did not find valid.
    pub(super) fn load(&mut self, pointer: i64, integer: i64, place: i64) -> Result<i64, Stop> {
        self.memory.load(pointer, integer_of(integer)).map_err(self.at(place))
    }

    /// Writes an integer to a pointer that compiled code did not find valid.
    pub(super) fn store(&mut self, pointer: i64, value: i64, integer: i64, place: i64) -> Result<i64, Stop> {
        let at = self.at(place);
        self.memory.store(pointer, integer_of(integer), value).map_err(at).map(|()| 0)
    }

    /// Stops the run because of an access that is not valid, as compiled code has found.
    ///
    /// # Panics
    /// It is valid: then compiled code is wrong.
    pub(super) fn refuse(&mut self, pointer: i64, bytes: i64, is_write: i64, place: i64) -> Result<i64, Stop> {
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

    /// Steps up to the next look at the clock, where less than none are left.
    pub(super) fn more(&mut self, left: i64, place: i64) -> Result<i64, Stop> {
        let more = self.steps.more(left.unsigned_abs(), self.memory.meter());
        more.map(|steps| steps as i64).map_err(self.at(place))
    }

    /// Copies bytes.
    pub(super) fn copy(&mut self, to: i64, from: i64, bytes: i64, place: i64) -> Result<i64, Stop> {
        let at = self.at(place);
        self.memory.copy(to, from, bytes as usize).map_err(at).map(|()| 0)
    }

    /// Makes an object zero.
    pub(super) fn clear(&mut self, pointer: i64) -> Result<i64, Stop> {
        if let Ok(bytes) = self.memory.rest_mut(pointer) {
            bytes.fill(0);
        }
        Ok(0)
    }

    /// Makes room for the objects of a function: the number of the first one's region.
    pub(super) fn enter(&mut self, function: i64, place: i64) -> Result<i64, Stop> {
        let frame = self.memory.enter(&self.numbers.objects[function as usize]);
        self.refresh();
        let frame = frame.map_err(self.at(place))?;
        self.frames.push(frame);
        Ok(frame.first() as i64)
    }

    /// The objects of the innermost function are gone.
    pub(super) fn leave(&mut self) -> Result<i64, Stop> {
        if let Some(frame) = self.frames.pop() {
            self.memory.leave(frame);
        }
        Ok(0)
    }

    /// A call out of the program.
    pub(super) fn site(&mut self, site: i64, place: i64, values: &[i64]) -> Result<i64, Stop> {
        let answer = self.outside.call(self.memory, site as usize, values);
        self.refresh();
        answer.map_err(self.at(place))
    }
}

fn tables(memory: &Memory<'_>) -> [Table; 2] {
    memory.tables().map(|regions| Table { regions: regions.as_ptr(), count: regions.len() as u64 })
}

/// A type of integers as a number that compiled code passes.
pub(super) fn number_of(integer: Integer) -> i64 {
    i64::from(integer.bytes) << 1 | i64::from(integer.is_unsigned)
}

fn integer_of(number: i64) -> Integer {
    Integer { bytes: (number >> 1) as u8, is_unsigned: number & 1 != 0 }
}

/// Where a pointer's region is in the tables: bit 15 of its number is the table, the others the place in it.
pub(super) const TABLE_BIT: i64 = memory::ALLOCATED.trailing_zeros() as i64 + 32;

//! Loops that make bytes of bytes, each of the one at the same place: sixteen at a time, as long as all sixteen are there.
//!
//! What is left over, and whatever would stop the run, is done by the loop itself, which follows.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::facts::Base;
use super::range::Range;
use super::rounds::{self, Round};
use super::translator::{FLAGS, Operand, Place, Translator};
use super::vectors::{Ground, Look, WIDTH};
use crate::interpreter::DEPTH_MAX;
use crate::ir::{Comparison, Expression as E, Integer, Operator, Register, Statement as S};

/// A loop as it has to be.
struct Strip<'s> {
    counter: Register,
    /// A register that the counter is copied to before it is counted up.
    copy: Option<Register>,
    bound: &'s E,
    round: Round<'s>,
    /// The steps that a round takes, with those of its calls.
    steps: i64,
}

/// Where bytes are read or written.
struct Access {
    /// The address of the first.
    address: Value,
    /// The counter is to be less than this.
    end: Value,
}

/// Whether this machine computes on sixteen bytes at a time in all the ways that are used here.
fn has_lanes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sse4.1");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// The register that a step counts up by one, one that it is copied to before, and the type.
pub(super) fn counted_up(step: &E) -> Option<(Register, Option<Register>, Integer)> {
    let added = |set: &E, from: Register| match set {
        E::Set(register, value) => match &**value {
            E::Binary(Operator::Add, integer, one, other, _)
                if **one == E::Register(from) && **other == E::Constant(1) =>
            {
                Some((*register, *integer))
            }
            _ => None,
        },
        _ => None,
    };
    match step {
        E::Sequence(first, then) => match (&**first, &**then) {
            (E::Set(copy, from), E::Sequence(set, _)) => {
                let (counter, integer) = added(set, *copy)?;
                let is_copy = **from == E::Register(counter) && counter != *copy;
                is_copy.then_some((counter, Some(*copy), integer))
            }
            _ => None,
        },
        E::Set(counter, _) => added(step, *counter).map(|(counter, integer)| (counter, None, integer)),
        _ => None,
    }
}

impl<'a> Translator<'_, 'a> {
    /// Begins a loop with as many rounds as can be done sixteen at a time.
    pub(super) fn strips(
        &mut self,
        before: Option<&'a E>,
        body: &'a S,
        step: Option<&'a E>,
        after: Option<&'a E>,
        weight: u32,
    ) {
        if has_lanes()
            && let (Some(before), Some(step), None) = (before, step, after)
            && let Some(strip) = self.strip(before, body, step, weight)
            && self.is_settled(&strip.round)
        {
            self.rounds(&strip);
        }
    }

    fn strip(&self, before: &'a E, body: &'a S, step: &'a E, weight: u32) -> Option<Strip<'a>> {
        let (counter, copy, integer) = counted_up(step)?;
        let E::Compare(Comparison::Less, compared, one, bound) = before else { return None };
        let bounds = Range::of(integer);
        let Place::Changing { range, .. } = self.scope.registers[counter] else { return None };
        // The counter never wraps around, and is compared as it is.
        let limit = match &**bound {
            E::Constant(value) => Range::exactly(*value),
            E::Register(register) if *register != counter && copy != Some(*register) => {
                match self.scope.registers[*register] {
                    Place::Fixed(Operand::Plain(_, range, _)) | Place::Changing { range, .. } => range,
                    Place::Fixed(_) => return None,
                }
            }
            _ => return None,
        };
        let is_plain =
            **one == E::Register(counter) && *compared == integer && (!integer.is_unsigned || integer.bytes < 8);
        // The counter stays below 2^31 in any case.
        let has_room = integer.bytes >= 4 || limit.is_within(bounds);
        if !is_plain || !range.is_within(bounds) || !has_room {
            return None;
        }
        let round = rounds::round((self.program, self.facts), self.index, (counter, copy), body)?;
        let steps = i64::from(weight) + i64::from(round.calls);
        Some(Strip { counter, copy, bound, round, steps })
    }

    /// Whether all pointers stay what they are, and the regions are known that they point into.
    fn is_settled(&self, round: &Round<'_>) -> bool {
        let tables = round.tables.iter().map(|(pointer, _)| *pointer);
        let mut all = round.reads.iter().chain([&round.to]).map(|(pointer, _)| *pointer).chain(tables);
        all.all(|pointer| match pointer {
            E::Register(register) => matches!(self.scope.registers[*register], Place::Fixed(Operand::Pointer { .. })),
            E::Object(object) => self.anchored(Base::Object(*object)).is_some(),
            E::Data(index) => self.anchored(Base::Data(*index)).is_some(),
            _ => false,
        })
    }

    /// Where a settled pointer points, and how many bytes are reached from there.
    fn place_of(&mut self, pointer: &E, is_write: bool) -> Option<Access> {
        let Operand::Pointer { base, offset, .. } = self.value(pointer) else { return None };
        let (address, limit) = self.extent(base, is_write);
        let address = self.builder.ins().iadd(address, offset);
        Some(Access { address, end: self.builder.ins().isub(limit, offset) })
    }

    /// Where bytes are counted.
    fn access(&mut self, (pointer, length): (&E, Option<u64>), is_write: bool) -> Option<Access> {
        let mut access = self.place_of(pointer, is_write)?;
        if let Some(length) = length {
            let length = self.constant(i64::try_from(length).unwrap_or(i64::MAX));
            access.end = self.less_of(access.end, length);
        }
        Some(access)
    }

    /// Whether no byte is read that one of the fifteen rounds before has written.
    fn is_apart(&mut self, read: &Access, to: &Access) -> Value {
        let further = self.builder.ins().isub(to.address, read.address);
        let one = self.constant(1);
        let before = self.builder.ins().isub(further, one);
        self.compare(IntCC::UnsignedGreaterThanOrEqual, before, WIDTH - 1)
    }

    /// Whether a table is there, so many bytes of it, and none of them is written to between two values of the counter.
    fn is_table(&mut self, table: &Access, bytes: i64, to: &Access, (first, end): (Value, Value)) -> Value {
        let is_there = self.compare(IntCC::SignedGreaterThanOrEqual, table.end, bytes);
        let bytes = self.constant(bytes);
        let behind = self.builder.ins().iadd(table.address, bytes);
        let (written, beyond) = (self.builder.ins().iadd(to.address, first), self.builder.ins().iadd(to.address, end));
        let is_before = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, behind, written);
        let is_behind = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, beyond, table.address);
        let is_apart = self.builder.ins().bor(is_before, is_behind);
        self.builder.ins().band(is_there, is_apart)
    }

    fn less_of(&mut self, one: Value, other: Value) -> Value {
        let is_less = self.builder.ins().icmp(IntCC::SignedLessThan, one, other);
        self.builder.ins().select(is_less, one, other)
    }

    /// Where bytes are read, where the tables are, and where bytes are written.
    fn places_of(&mut self, round: &Round<'a>) -> Option<(Vec<Access>, Vec<Access>, Access)> {
        let reads = round.reads.iter().map(|read| self.access(*read, false)).collect::<Option<_>>()?;
        let tables = round.tables.iter().map(|(table, _)| self.place_of(table, false)).collect::<Option<_>>()?;
        Some((reads, tables, self.access(round.to, true)?))
    }

    /// Whether sixteen rounds can be begun at all, and the last value of the counter with which they can be.
    fn last(
        &mut self,
        strip: &Strip<'a>,
        (reads, tables, to): (&[Access], &[Access], &Access),
        first: Value,
    ) -> (Value, Value) {
        let (bound, _) = self.integer(strip.bound);
        // Pointers are not moved farther at a time.
        let most = self.constant(Range::STEP.high);
        let mut end = self.less_of(bound, most);
        for access in reads.iter().chain([to]) {
            end = self.less_of(end, access.end);
        }
        let (steps, each) = (self.builder.use_var(self.steps), self.constant(strip.steps));
        let rounds = self.builder.ins().udiv(steps, each);
        let affordable = self.builder.ins().iadd(first, rounds);
        end = self.less_of(end, affordable);
        let room = i64::from(DEPTH_MAX) - i64::from(self.scope.depth) - i64::from(strip.round.depth);
        let has_room = self.compare(IntCC::SignedLessThanOrEqual, self.depth, room);
        let is_natural = self.compare(IntCC::SignedGreaterThanOrEqual, first, 0);
        let mut is_possible = self.builder.ins().band(has_room, is_natural);
        for read in reads {
            let apart = self.is_apart(read, to);
            is_possible = self.builder.ins().band(is_possible, apart);
        }
        for (table, (_, bytes)) in tables.iter().zip(&strip.round.tables) {
            let is_table = self.is_table(table, *bytes, to, (first, end));
            is_possible = self.builder.ins().band(is_possible, is_table);
        }
        // What is subtracted from it does not make it wrap around.
        let has_some = self.compare(IntCC::SignedGreaterThan, end, 0);
        let is_possible = self.builder.ins().band(is_possible, has_some);
        let width = self.constant(WIDTH);
        (is_possible, self.builder.ins().isub(end, width))
    }

    fn rounds(&mut self, strip: &Strip<'a>) {
        let Place::Changing { variable: counter, .. } = self.scope.registers[strip.counter] else { return };
        let Some((reads, tables, to)) = self.places_of(&strip.round) else { return };
        let first = self.builder.use_var(counter);
        let (is_possible, last) = self.last(strip, (&reads, &tables, &to), first);
        let (head, body, done) = (self.block(), self.block(), self.block());
        self.builder.ins().brif(is_possible, head, &[], done, &[]);
        self.scope.latest.clear();
        self.builder.switch_to_block(head);
        let count = self.builder.use_var(counter);
        let goes_on = self.builder.ins().icmp(IntCC::SignedLessThanOrEqual, count, last);
        self.builder.ins().brif(goes_on, body, &[], done, &[]);
        self.start(body);
        let looks = tables.iter().zip(&strip.round.tables);
        let looks = looks.map(|(table, (pointer, bytes))| Look {
            address: table.address,
            is_small: *bytes <= WIDTH && self.has_bytes(pointer, WIDTH),
        });
        let ground = Ground { count, reads: reads.iter().map(|read| read.address).collect(), tables: looks.collect() };
        let value = self.vectors(&strip.round, ground);
        let address = self.builder.ins().iadd(to.address, count);
        self.builder.ins().store(FLAGS, value, address, 0);
        let width = self.constant(WIDTH);
        let next = self.builder.ins().iadd(count, width);
        self.builder.def_var(counter, next);
        self.builder.ins().jump(head, &[]);
        self.builder.seal_block(head);
        self.start(done);
        let count = self.builder.use_var(counter);
        self.settle_rounds(strip, first, count);
    }

    /// Whether what a pointer points to certainly has so many bytes.
    fn has_bytes(&self, pointer: &E, bytes: i64) -> bool {
        let has = match pointer {
            E::Object(object) => self.function().objects[*object],
            E::Data(index) if !self.program.data[*index].is_written => self.program.data[*index].bytes.len() as u64,
            _ => 0,
        };
        has >= bytes as u64
    }

    /// The steps that were taken, and what the counter was copied to.
    fn settle_rounds(&mut self, strip: &Strip<'a>, first: Value, count: Value) {
        let rounds = self.builder.ins().isub(count, first);
        let each = self.constant(strip.steps);
        let taken = self.builder.ins().imul(rounds, each);
        let steps = self.builder.use_var(self.steps);
        let left = self.builder.ins().isub(steps, taken);
        self.builder.def_var(self.steps, left);
        if let Some(copy) = strip.copy
            && let Place::Changing { variable, .. } = self.scope.registers[copy]
        {
            let (is_some, one) = (self.compare(IntCC::NotEqual, rounds, 0), self.constant(1));
            let (before, old) = (self.builder.ins().isub(count, one), self.builder.use_var(variable));
            let copied = self.builder.ins().select(is_some, before, old);
            self.builder.def_var(variable, copied);
        }
    }
}

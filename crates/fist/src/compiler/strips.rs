//! Vectorized loops: those that map bytes to bytes at the same index, sixteen at a time, as long as all sixteen exist.
//!
//! The remainder, and every trap, is left to the scalar loop, which follows.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::facts::Base;
use super::guard::{Guard, Table, WIDTH, Window};
use super::range::Range;
use super::rounds::{self, Round};
use super::translator::{Operand, Place, Translator};
use crate::code::{Comparison, Expression as E, Integer, Operator, Register, Statement as S};
use crate::interpreter::DEPTH_MAX;

/// A vectorizable loop.
struct Strip<'s> {
    counter: Register,
    /// The register that the counter is copied to before the increment.
    copy: Option<Register>,
    bound: &'s E,
    round: Round<'s>,
    /// Fuel consumed by an iteration, including its calls.
    steps: i64,
}

/// Returns whether this CPU supports all the 16-byte vector operations used here.
fn has_lanes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sse4.1");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// The register that a step increments by one, the register that it is copied to before, and the type.
pub(crate) fn counted_up(step: &E) -> Option<(Register, Option<Register>, Integer)> {
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
    /// Emits a vectorized prefix of a loop, for as many iterations as can be done sixteen at a time.
    pub(crate) fn strips(
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
        // The counter never wraps around, and is compared without conversion.
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

    /// Returns whether all pointers are loop-invariant and the regions that they point into are known.
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

    /// Tests that no byte is read that one of the preceding fifteen iterations has written.
    fn is_apart(&mut self, read: &Window, to: &Window) -> Value {
        let further = self.builder.ins().isub(to.address(), read.address());
        let one = self.constant(1);
        let before = self.builder.ins().isub(further, one);
        self.compare(IntCC::UnsignedGreaterThanOrEqual, before, WIDTH - 1)
    }

    /// Tests that none of the first `bytes` entries of a table is written to between two values of the counter.
    fn is_kept(&mut self, table: &Table, bytes: i64, to: &Window, (first, end): (Value, Value)) -> Value {
        let bytes = self.constant(bytes);
        let behind = self.builder.ins().iadd(table.address(), bytes);
        let written = self.builder.ins().iadd(to.address(), first);
        let beyond = self.builder.ins().iadd(to.address(), end);
        let is_before = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, behind, written);
        let is_behind = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, beyond, table.address());
        self.builder.ins().bor(is_before, is_behind)
    }

    /// The exclusive upper bound of the counter: the loop bound, limited by the maximum step of a pointer and the
    /// remaining fuel.
    fn wanted_end(&mut self, strip: &Strip<'a>, first: Value) -> Value {
        let (bound, _) = self.integer(strip.bound);
        let most = self.constant(Range::STEP.high);
        let end = self.lesser(IntCC::SignedLessThan, bound, most);
        let (steps, each) = (self.builder.use_var(self.steps), self.constant(strip.steps));
        let rounds = self.builder.ins().udiv(steps, each);
        let affordable = self.builder.ins().iadd(first, rounds);
        self.lesser(IntCC::SignedLessThan, end, affordable)
    }

    /// The guard of all reads and writes.
    fn guard_of(&mut self, strip: &Strip<'a>, first: Value) -> Option<Guard> {
        let round = &strip.round;
        let reads = round.reads.iter().map(|read| self.window(*read, false)).collect::<Option<_>>()?;
        let tables = round.tables.iter().map(|(table, bytes)| self.table(table, *bytes)).collect::<Option<_>>()?;
        let to = self.window(round.to, true)?;
        let wanted = self.wanted_end(strip, first);
        Some(self.guard(reads, tables, to, wanted))
    }

    /// Tests that sixteen iterations at a time are equivalent to one by one, and that calls stay within the depth
    /// limit.
    fn is_same(&mut self, strip: &Strip<'a>, guard: &Guard, first: Value) -> Value {
        let room = i64::from(DEPTH_MAX) - i64::from(self.scope.depth) - i64::from(strip.round.depth);
        let mut is_same = self.compare(IntCC::SignedLessThanOrEqual, self.depth, room);
        for read in &guard.reads {
            let apart = self.is_apart(read, &guard.to);
            is_same = self.builder.ins().band(is_same, apart);
        }
        for (table, (_, bytes)) in guard.tables.iter().zip(&strip.round.tables) {
            let is_kept = self.is_kept(table, *bytes, &guard.to, (first, guard.end));
            is_same = self.builder.ins().band(is_same, is_kept);
        }
        is_same
    }

    fn rounds(&mut self, strip: &Strip<'a>) {
        let Place::Changing { variable: counter, .. } = self.scope.registers[strip.counter] else { return };
        let first = self.builder.use_var(counter);
        let Some(guard) = self.guard_of(strip, first) else { return };
        let is_same = self.is_same(strip, &guard, first);
        let guarded = self.begin_guarded(&guard, counter, is_same);
        let value = self.vectors(&strip.round, &guard, &guarded.count);
        self.guarded_write(&guard, &guarded.count, value);
        let count = self.end_guarded(guarded);
        self.settle_rounds(strip, first, count);
    }

    /// Accounts for the fuel consumed and for the copy of the counter.
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

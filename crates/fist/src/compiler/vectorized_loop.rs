//! Vectorized loops: those that map bytes to bytes at the same index, sixteen at a time, as long as all sixteen exist.
//!
//! The remainder, and every trap, is left to the scalar loop, which follows.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::facts::Base;
use super::guard::{Guard, LookupTable, WIDTH, Window};
use super::range::Range;
use super::translator::{Operand, RegisterStorage, Translator};
use super::vectorize::{self, VectorizedIteration};
use crate::code::{Comparison, Expression as E, Integer, Operator, Register, Statement as S};
use crate::interpreter::MAX_CALL_DEPTH;

/// A vectorizable loop.
struct VectorizedLoop<'s> {
    counter: Register,
    /// The register that the counter is copied to before the increment.
    copy: Option<Register>,
    bound: &'s E,
    iteration: VectorizedIteration<'s>,
    /// Fuel consumed by an iteration, including its calls.
    fuel: i64,
}

/// Returns whether this CPU supports all the 16-byte vector operations used here.
fn has_vector_support() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("sse4.1");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// The register that a step increments by one, the register that it is copied to before, and the type.
pub(crate) fn incremented_counter(step: &E) -> Option<(Register, Option<Register>, Integer)> {
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
    pub(crate) fn emit_vectorized_prefix(
        &mut self,
        before: Option<&'a E>,
        body: &'a S,
        step: Option<&'a E>,
        after: Option<&'a E>,
        weight: u32,
    ) {
        if has_vector_support()
            && let (Some(before), Some(step), None) = (before, step, after)
            && let Some(vectorized) = self.vectorizable_loop(before, body, step, weight)
            && self.has_invariant_pointers(&vectorized.iteration)
        {
            self.emit_vectorized_loop(&vectorized);
        }
    }

    fn vectorizable_loop(&self, before: &'a E, body: &'a S, step: &'a E, weight: u32) -> Option<VectorizedLoop<'a>> {
        let (counter, copy, integer) = incremented_counter(step)?;
        let E::Compare(Comparison::Less, compared, one, bound) = before else { return None };
        let bounds = Range::of(integer);
        let RegisterStorage::Mutable { range, .. } = self.scope.registers[counter] else { return None };
        // The counter never wraps around, and is compared without conversion.
        let limit = match &**bound {
            E::Constant(value) => Range::exactly(*value),
            E::Register(register) if *register != counter && copy != Some(*register) => {
                match self.scope.registers[*register] {
                    RegisterStorage::Immutable(Operand::Plain(_, range, _))
                    | RegisterStorage::Mutable { range, .. } => range,
                    RegisterStorage::Immutable(_) => return None,
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
        let iteration = vectorize::analyze_iteration((self.program, self.facts), self.index, (counter, copy), body)?;
        let fuel = i64::from(weight) + i64::from(iteration.calls);
        Some(VectorizedLoop { counter, copy, bound, iteration, fuel })
    }

    /// Returns whether all pointers are loop-invariant and the regions that they point into are known.
    fn has_invariant_pointers(&self, iteration: &VectorizedIteration<'_>) -> bool {
        let tables = iteration.tables.iter().map(|(pointer, _)| *pointer);
        let mut all = iteration.reads.iter().chain([&iteration.to]).map(|(pointer, _)| *pointer).chain(tables);
        all.all(|pointer| match pointer {
            E::Register(register) => {
                matches!(self.scope.registers[*register], RegisterStorage::Immutable(Operand::Pointer { .. }))
            }
            E::Object(object) => self.base_region_index(Base::Object(*object)).is_some(),
            E::Data(index) => self.base_region_index(Base::Data(*index)).is_some(),
            _ => false,
        })
    }

    /// Tests that no byte is read that one of the preceding fifteen iterations has written.
    fn reads_no_recent_write(&mut self, read: &Window, to: &Window) -> Value {
        let further = self.builder.ins().isub(to.address(), read.address());
        let one = self.constant(1);
        let before = self.builder.ins().isub(further, one);
        self.compare(IntCC::UnsignedGreaterThanOrEqual, before, WIDTH - 1)
    }

    /// Tests that none of the first `bytes` entries of a table is written to between two values of the counter.
    fn is_table_unwritten(
        &mut self,
        table: &LookupTable,
        bytes: i64,
        to: &Window,
        (first, end): (Value, Value),
    ) -> Value {
        let bytes = self.constant(bytes);
        let table_end = self.builder.ins().iadd(table.address(), bytes);
        let written = self.builder.ins().iadd(to.address(), first);
        let writes_end = self.builder.ins().iadd(to.address(), end);
        let is_before = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, table_end, written);
        let is_after = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, writes_end, table.address());
        self.builder.ins().bor(is_before, is_after)
    }

    /// The exclusive upper bound of the counter: the loop bound, limited by the maximum step of a pointer and the
    /// remaining fuel.
    fn counter_limit(&mut self, vectorized: &VectorizedLoop<'a>, first: Value) -> Value {
        let (bound, _) = self.integer(vectorized.bound);
        let max_counter = self.constant(Range::STEP.high);
        let end = self.minimum(IntCC::SignedLessThan, bound, max_counter);
        let (fuel, each) = (self.builder.use_var(self.fuel), self.constant(vectorized.fuel));
        let iterations = self.builder.ins().udiv(fuel, each);
        let affordable = self.builder.ins().iadd(first, iterations);
        self.minimum(IntCC::SignedLessThan, end, affordable)
    }

    /// The guard of all reads and writes.
    fn guard_of(&mut self, vectorized: &VectorizedLoop<'a>, first: Value) -> Option<Guard> {
        let iteration = &vectorized.iteration;
        let reads = iteration.reads.iter().map(|read| self.window(*read, false)).collect::<Option<_>>()?;
        let tables = iteration.tables.iter().map(|(table, bytes)| self.table(table, *bytes)).collect::<Option<_>>()?;
        let to = self.window(iteration.to, true)?;
        let wanted = self.counter_limit(vectorized, first);
        Some(self.guard(reads, tables, to, wanted))
    }

    /// Tests that sixteen iterations at a time are equivalent to one by one, and that calls stay within the depth
    /// limit.
    fn is_equivalent(&mut self, vectorized: &VectorizedLoop<'a>, guard: &Guard, first: Value) -> Value {
        let room = i64::from(MAX_CALL_DEPTH) - i64::from(self.scope.depth) - i64::from(vectorized.iteration.depth);
        let mut is_equivalent = self.compare(IntCC::SignedLessThanOrEqual, self.depth, room);
        for read in &guard.reads {
            let apart = self.reads_no_recent_write(read, &guard.to);
            is_equivalent = self.builder.ins().band(is_equivalent, apart);
        }
        for (table, (_, bytes)) in guard.tables.iter().zip(&vectorized.iteration.tables) {
            let is_table_unwritten = self.is_table_unwritten(table, *bytes, &guard.to, (first, guard.end));
            is_equivalent = self.builder.ins().band(is_equivalent, is_table_unwritten);
        }
        is_equivalent
    }

    fn emit_vectorized_loop(&mut self, vectorized: &VectorizedLoop<'a>) {
        let RegisterStorage::Mutable { variable: counter, .. } = self.scope.registers[vectorized.counter] else {
            return;
        };
        let first = self.builder.use_var(counter);
        let Some(guard) = self.guard_of(vectorized, first) else { return };
        let is_equivalent = self.is_equivalent(vectorized, &guard, first);
        let guarded = self.begin_guarded(&guard, counter, is_equivalent);
        let value = self.emit_vector_iteration(&vectorized.iteration, &guard, &guarded.count);
        self.guarded_write(&guard, &guarded.count, value);
        let count = self.end_guarded(guarded);
        self.account_for_iterations(vectorized, first, count);
    }

    /// Accounts for the fuel consumed and for the copy of the counter.
    fn account_for_iterations(&mut self, vectorized: &VectorizedLoop<'a>, first: Value, count: Value) {
        let iterations = self.builder.ins().isub(count, first);
        let each = self.constant(vectorized.fuel);
        let consumed = self.builder.ins().imul(iterations, each);
        let fuel = self.builder.use_var(self.fuel);
        let left = self.builder.ins().isub(fuel, consumed);
        self.builder.def_var(self.fuel, left);
        if let Some(copy) = vectorized.copy
            && let RegisterStorage::Mutable { variable, .. } = self.scope.registers[copy]
        {
            let (is_some, one) = (self.compare(IntCC::NotEqual, iterations, 0), self.constant(1));
            let (before, old) = (self.builder.ins().isub(count, one), self.builder.use_var(variable));
            let copied = self.builder.ins().select(is_some, before, old);
            self.builder.def_var(variable, copied);
        }
    }
}

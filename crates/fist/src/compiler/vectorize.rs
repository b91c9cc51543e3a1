//! Vectorization analysis: translates an iteration of a byte loop to vector IR, with both branches of a conditional
//! evaluated.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::FunctionFacts;
use super::range::Range;
use super::vector_ir::{self, RangedVector, UNSIGNED, VectorExpression};
use crate::code::{Comparison, Expression as E, Function, Integer, Operator, Register, Statement as S};
use crate::program::Program;
use crate::visit::{each_expression, each_part};

/// Maximum number of parts of an iteration to be vectorized.
const MAX_ITERATION_PARTS: usize = 160;
/// Pseudo-register for the output byte.
const OUTPUT: Register = Register::MAX;

/// A pointer to the first of the bytes that the counter indexes, and their maximum number.
pub(crate) type CountedPointer<'e> = (&'e E, Option<u64>);

/// A vectorizable iteration of a loop.
pub(crate) struct VectorizedIteration<'e> {
    /// Values computed before the output byte, in this order.
    pub(crate) computed: Vec<VectorExpression>,
    /// The output bytes.
    pub(crate) value: VectorExpression,
    /// The destination of the output.
    pub(crate) to: CountedPointer<'e>,
    /// The input reads.
    pub(crate) reads: Vec<CountedPointer<'e>>,
    /// Tables, and the number of entries accessed in each.
    pub(crate) tables: Vec<(&'e E, i64)>,
    /// Fuel consumed by the calls.
    pub(crate) calls: u32,
    /// Call depth.
    pub(crate) depth: u32,
}

/// Analyzes the body of a loop; returns it in vector IR if it is vectorizable. `counter` is the register
/// that counts, `copy` the one that it is copied to before the increment.
pub(crate) fn analyze_iteration<'e>(
    (program, facts): (&'e Program, &'e [FunctionFacts]),
    function: usize,
    (counter, copy): (Register, Option<Register>),
    body: &'e S,
) -> Option<VectorizedIteration<'e>> {
    let sets = written_registers(body);
    let mut analysis = IterationAnalysis {
        program,
        facts: &facts[function],
        all: facts,
        counter,
        changing: sets.iter().copied().chain(copy).collect(),
        to: None,
        reads: Vec::new(),
        tables: Vec::new(),
        computed: Vec::new(),
        parts: 0,
        calls: 0,
        depth: 0,
    };
    let mut state = AnalysisState { is_unconditional: true, ..AnalysisState::default() };
    analysis.statement(body, &mut state)?;
    // The condition of the loop reads the counter and its bound.
    if !sets.is_empty() && is_any_read_outside(&sets, &program.functions[function], body) {
        return None;
    }
    let (value, _) = state.registers.remove(&OUTPUT)?;
    let reads = analysis.reads.iter().map(|read| (read.pointer, read.length)).collect();
    let IterationAnalysis { computed, to, tables, calls, depth, .. } = analysis;
    Some(VectorizedIteration { computed, value, to: to?, reads, tables, calls, depth })
}

/// The registers that statements write to.
fn written_registers(body: &S) -> BTreeSet<Register> {
    let mut sets = BTreeSet::new();
    each_part(std::slice::from_ref(body), &mut |one| {
        if let E::Set(register, _) = one {
            sets.insert(*register);
        }
    });
    sets
}

/// Returns whether anything outside a loop's statements reads registers that they write to.
fn is_any_read_outside(sets: &BTreeSet<Register>, function: &Function, body: &S) -> bool {
    let is_read = |one: &E| matches!(one, E::Register(register) if sets.contains(register));
    let (mut all, mut inside) = (0, 0);
    each_expression(function, &mut |one| all += usize::from(is_read(one)));
    each_part(std::slice::from_ref(body), &mut |one| inside += usize::from(is_read(one)));
    all != inside
}

/// A byte read: its pointer and type.
#[derive(Debug, PartialEq)]
struct Read<'e> {
    pointer: &'e E,
    length: Option<u64>,
    integer: Integer,
}

/// The state at a statement or expression.
#[derive(Clone, Debug, Default)]
struct AnalysisState {
    /// Values that the iteration has written to registers; in a called function, its arguments.
    registers: BTreeMap<Register, RangedVector>,
    /// Registers written to since the last branch.
    written: BTreeSet<Register>,
    /// Narrowed ranges of bytes read.
    reads: BTreeMap<usize, Range>,
    /// The output byte has been written: memory no longer has its state before the iteration.
    has_written: bool,
    /// Inside a called function: its depth relative to the enclosing function.
    depth: Option<u32>,
    /// Evaluated in every iteration, unconditionally.
    is_unconditional: bool,
}

impl AnalysisState {
    fn set(&mut self, register: Register, value: RangedVector) {
        self.registers.insert(register, value);
        self.written.insert(register);
        self.has_written |= register == OUTPUT;
    }

    /// The array that the counter indexes, if an expression is a pointer to the current element. Not in a called
    /// function, whose registers are others.
    fn counted<'e>(&self, pointer: &'e E, counter: Register) -> Option<CountedPointer<'e>> {
        match pointer {
            E::Element { pointer, index, size: 1, length, .. }
                if self.depth.is_none() && **index == E::Register(counter) =>
            {
                Some((pointer, *length))
            }
            _ => None,
        }
    }
}

struct IterationAnalysis<'e> {
    program: &'e Program,
    /// Facts about the function that contains the loop, and about all functions.
    facts: &'e FunctionFacts,
    all: &'e [FunctionFacts],
    counter: Register,
    /// Other registers that change between iterations.
    changing: BTreeSet<Register>,
    to: Option<CountedPointer<'e>>,
    reads: Vec<Read<'e>>,
    tables: Vec<(&'e E, i64)>,
    computed: Vec<VectorExpression>,
    parts: usize,
    calls: u32,
    depth: u32,
}

impl<'e> IterationAnalysis<'e> {
    /// Counts one more part, up to the maximum.
    fn count_part(&mut self) -> Option<()> {
        self.parts += 1;
        (self.parts <= MAX_ITERATION_PARTS).then_some(())
    }

    /// Makes a vector expression usable several times.
    fn reuse(&mut self, vector: VectorExpression) -> VectorExpression {
        if vector.is_available() {
            return vector;
        }
        self.computed.push(vector);
        VectorExpression::Computed(self.computed.len() - 1)
    }

    fn statement(&mut self, statement: &'e S, state: &mut AnalysisState) -> Option<()> {
        self.count_part()?;
        match statement {
            S::Block(all) => all.iter().try_for_each(|one| self.statement(one, state)),
            S::Expression(E::Set(register, value)) => {
                let (vector, range) = self.value(value, state)?;
                state.set(*register, (self.reuse(vector), range));
                Some(())
            }
            S::Expression(E::Store(pointer, integer, value, _)) if integer.bytes == 1 => {
                let to = state.counted(pointer, self.counter)?;
                let (vector, range) = self.value(value, state)?;
                state.set(OUTPUT, (self.reuse(vector), range));
                (*self.to.get_or_insert(to) == to).then_some(())
            }
            S::If(condition, then, otherwise) => {
                let mask = self.condition(condition, state)?;
                let mask = self.reuse(mask);
                let (mut holds, mut fails) =
                    (self.assuming(condition, state, true), self.assuming(condition, state, false));
                self.statement(then, &mut holds)?;
                self.statement(otherwise, &mut fails)?;
                self.join(&mask, state, &holds, &fails)
            }
            _ => None,
        }
    }

    /// Joins the states after a conditional. A register written in only one branch has no known value.
    fn join(
        &mut self,
        mask: &VectorExpression,
        state: &mut AnalysisState,
        holds: &AnalysisState,
        fails: &AnalysisState,
    ) -> Option<()> {
        for register in holds.written.union(&fails.written) {
            match (holds.registers.get(register), fails.registers.get(register)) {
                (Some(then), Some(otherwise)) => {
                    let (vector, range) = vector_ir::select(mask.clone(), then.clone(), otherwise.clone());
                    state.set(*register, (self.reuse(vector), range));
                }
                _ if *register == OUTPUT => return None,
                _ => {
                    state.registers.remove(register);
                    state.written.insert(*register);
                }
            }
        }
        Some(())
    }

    fn value(&mut self, value: &'e E, state: &AnalysisState) -> Option<RangedVector> {
        self.count_part()?;
        match value {
            E::Constant(value) => Some((VectorExpression::Constant(*value), Range::exactly(*value))),
            E::Register(register) => self.register(*register, state),
            E::Load(pointer, integer, _) if integer.bytes == 1 && !state.has_written => {
                match state.counted(pointer, self.counter) {
                    Some((pointer, length)) => {
                        let index = self.read(Read { pointer, length, integer: *integer });
                        Some((
                            VectorExpression::Read(index),
                            state.reads.get(&index).copied().unwrap_or(Range::of(*integer)),
                        ))
                    }
                    None => self.table_lookup(pointer, *integer, state),
                }
            }
            E::Convert(value, integer) => {
                let (vector, range) = self.value(value, state)?;
                Some((vector, vector_ir::wrap_range(range, *integer)))
            }
            E::Binary(operator, integer, one, other, _) => {
                let (mut one, mut other) = (self.value(one, state)?, self.value(other, state)?);
                if matches!(operator, Operator::Multiply | Operator::Divide | Operator::Remainder) {
                    (one.0, other.0) = (self.reuse(one.0), self.reuse(other.0));
                }
                vector_ir::binary(*operator, *integer, one, other)
            }
            E::Not(_) | E::Compare(..) | E::And(..) | E::Or(..) => {
                let mask = Box::new(self.condition(value, state)?);
                Some((
                    VectorExpression::Binary(Operator::And, mask, Box::new(VectorExpression::Constant(1))),
                    Range::TRUTH,
                ))
            }
            E::Conditional(condition, then, otherwise) => {
                let mask = self.condition(condition, state)?;
                let then = self.value(then, &self.assuming(condition, state, true))?;
                let otherwise = self.value(otherwise, &self.assuming(condition, state, false))?;
                Some(vector_ir::select(mask, then, otherwise))
            }
            E::Call(function, values, _) => self.call(*function, values, state),
            _ => None,
        }
    }

    fn register(&self, register: Register, state: &AnalysisState) -> Option<RangedVector> {
        match state.registers.get(&register) {
            Some(known) => Some(known.clone()),
            None if state.depth.is_some() || self.changing.contains(&register) => None,
            // It is not negative here, and does not exceed the maximum step of a pointer.
            None if register == self.counter => {
                Some((VectorExpression::Counter, Range { low: 0, high: Range::STEP.high }))
            }
            None => Some((VectorExpression::Register(register), self.facts.ranges[register])),
        }
    }

    fn read(&mut self, read: Read<'e>) -> usize {
        self.reads.iter().position(|known| *known == read).unwrap_or_else(|| {
            self.reads.push(read);
            self.reads.len() - 1
        })
    }

    /// A table lookup, with one index per lane.
    fn table_lookup(&mut self, pointer: &'e E, integer: Integer, state: &AnalysisState) -> Option<RangedVector> {
        let E::Element { pointer, index, size: 1, length, .. } = pointer else { return None };
        // In a called function everything but data is its own.
        if state.depth.is_some() && !matches!(**pointer, E::Data(_)) {
            return None;
        }
        let (vector, range) = self.value(index, state)?;
        // The table is accessed even in lanes where the enclosing condition does not hold.
        let index_range = if state.is_unconditional { range } else { UNSIGNED };
        if !range.is_within(UNSIGNED) || length.is_some_and(|length| index_range.high as u64 >= length) {
            return None;
        }
        let known = self.tables.iter().position(|(table, _)| *table == &**pointer);
        let table = known.unwrap_or_else(|| {
            self.tables.push((pointer, 0));
            self.tables.len() - 1
        });
        self.tables[table].1 = self.tables[table].1.max(index_range.high + 1);
        Some((VectorExpression::TableLookup(table, Box::new(vector)), Range::of(integer)))
    }

    fn condition(&mut self, condition: &'e E, state: &AnalysisState) -> Option<VectorExpression> {
        self.count_part()?;
        match condition {
            E::Not(of) => Some(VectorExpression::Not(Box::new(self.condition(of, state)?))),
            E::And(one, other) | E::Or(one, other) => {
                let is_and = matches!(condition, E::And(..));
                let first = self.condition(one, state)?;
                let second = self.condition(other, &self.assuming(one, state, is_and))?;
                let operator = if is_and { Operator::And } else { Operator::Or };
                Some(VectorExpression::Binary(operator, Box::new(first), Box::new(second)))
            }
            E::Compare(comparison, integer, one, other) => {
                let (one, other) = (self.value(one, state)?, self.value(other, state)?);
                // As a wide unsigned type, a negative value is large.
                if integer.is_unsigned && !(one.1.is_natural() && other.1.is_natural()) {
                    return None;
                }
                vector_ir::compare(*comparison, one, other)
            }
            value => {
                let value = self.value(value, state)?;
                vector_ir::compare(Comparison::NotEqual, value, (VectorExpression::Constant(0), Range::exactly(0)))
            }
        }
    }

    /// The state in which a condition holds, or in which it does not. It may not be evaluated in every lane.
    fn assuming(&self, condition: &E, state: &AnalysisState, holds: bool) -> AnalysisState {
        let mut inner = AnalysisState { is_unconditional: false, written: BTreeSet::new(), ..state.clone() };
        self.narrow(condition, &mut inner, holds);
        inner
    }

    fn narrow(&self, condition: &E, inner: &mut AnalysisState, holds: bool) {
        match condition {
            E::Not(of) => self.narrow(of, inner, !holds),
            E::And(one, other) if holds => {
                self.narrow(one, inner, true);
                self.narrow(other, inner, true);
            }
            E::Or(one, other) if !holds => {
                self.narrow(one, inner, false);
                self.narrow(other, inner, false);
            }
            E::Compare(comparison, integer, one, other) => {
                let E::Constant(bound) = **other else { return };
                let Some(range) = self.bounds(one, inner) else { return };
                if !integer.is_unsigned || (range.is_natural() && bound >= 0) {
                    *range = vector_ir::narrow_range(*range, *comparison, bound, holds);
                }
            }
            _ => {}
        }
    }

    /// The range of a register or of a byte read, to be narrowed.
    fn bounds<'r>(&self, of: &E, inner: &'r mut AnalysisState) -> Option<&'r mut Range> {
        match of {
            E::Register(register) => inner.registers.get_mut(register).map(|known| &mut known.1),
            E::Load(pointer, integer, _) => {
                let (pointer, length) = inner.counted(pointer, self.counter)?;
                let read = Read { pointer, length, integer: *integer };
                let index = self.reads.iter().position(|known| *known == read)?;
                Some(inner.reads.entry(index).or_insert(Range::of(*integer)))
            }
            E::Convert(of, integer) => self.bounds(of, inner).filter(|range| range.is_within(Range::of(*integer))),
            _ => None,
        }
    }

    /// Inlines a call of a function that does no more than choose its return value.
    fn call(&mut self, index: usize, values: &'e [E], state: &AnalysisState) -> Option<RangedVector> {
        let (function, facts) = (&self.program.functions[index], &self.all[index]);
        let is_plain = facts.is_inlined && function.registers == function.parameters && !facts.is_set.contains(&true);
        if !state.is_unconditional || !is_plain {
            return None;
        }
        let mut registers = BTreeMap::new();
        for (register, value) in values.iter().enumerate() {
            let (vector, range) = self.value(value, state)?;
            registers.insert(register, (self.reuse(vector), range));
        }
        let depth = state.depth.unwrap_or(0) + function.depth;
        (self.calls, self.depth) = (self.calls + function.weight, self.depth.max(depth));
        let inner = AnalysisState {
            registers,
            has_written: state.has_written,
            depth: Some(depth),
            is_unconditional: true,
            ..AnalysisState::default()
        };
        self.return_value(&function.body, &inner)
    }

    /// The return value of a function's statements.
    fn return_value(&mut self, statements: &'e [S], state: &AnalysisState) -> Option<RangedVector> {
        match statements.split_first()? {
            (S::Return(Some(value)), _) => self.value(value, state),
            (S::Block(all), rest) if rest.is_empty() || matches!(all.last(), Some(S::Return(_))) => {
                self.return_value(all, state)
            }
            (S::If(condition, then, otherwise), rest) => {
                let mask = self.condition(condition, state)?;
                let then = self.return_value(std::slice::from_ref(then), &self.assuming(condition, state, true))?;
                let fails = self.assuming(condition, state, false);
                let otherwise = match &**otherwise {
                    S::Block(all) if all.is_empty() => self.return_value(rest, &fails)?,
                    other => self.return_value(std::slice::from_ref(other), &fails)?,
                };
                Some(vector_ir::select(mask, then, otherwise))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of entries accessed in each table, if a loop with this body is vectorizable.
    fn tables(body: &str) -> Option<Vec<i64>> {
        let text = format!(
            "%%\n%%\nconst char few[16] = \"abc\";\nconst char wide[256] = \"def\";\n\
             long f(const unsigned char *in, unsigned char *out) {{ for (int i = 0; i < 64; i++) {{ {body} }} return 0; }}\n"
        );
        let parsed = crate::parser::parse(&text);
        let checked = crate::check::check(&parsed.description, "test");
        let program = checked.program.unwrap_or_else(|| panic!("{:?}", checked.diagnostics));
        let facts = super::super::facts::analyze(&program).unwrap();
        let mut iteration = None;
        crate::visit::each_statement(&program.functions[0].body, &mut |statement| {
            if let S::Loop { body, step: Some(step), .. } = statement {
                let (counter, copy, _) = super::super::vectorized_loop::incremented_counter(step).unwrap();
                iteration = analyze_iteration((&program, &facts), 0, (counter, copy), body);
            }
        });
        iteration.map(|round| round.tables.iter().map(|(_, bytes)| *bytes).collect())
    }

    #[test]
    fn table_accesses_stay_within_the_table() {
        assert_eq!(tables("out[i] = few[in[i] & 7];"), Some(vec![8]));
        assert_eq!(tables("out[i] = few[in[i] & 7] + few[i & 15];"), Some(vec![16]));
        assert_eq!(tables("out[i] = few[in[i] & 16];"), None);
        assert_eq!(tables("int c = in[i]; if (c < 16) c = wide[c]; out[i] = c;"), Some(vec![256]));
        // Where the condition does not hold, the element does not exist.
        assert_eq!(tables("int c = in[i]; if (c < 16) c = few[c]; out[i] = c;"), None);
        assert_eq!(tables("out[i] = in[i] < 16 ? few[in[i]] : 0;"), None);
    }
}

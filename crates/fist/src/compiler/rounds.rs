//! Vectorization analysis: translates an iteration of a byte loop to vector IR, with both branches of a conditional
//! evaluated.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Facts;
use super::lanes::{self, Known, Lane, UNSIGNED};
use super::range::Range;
use crate::code::{Comparison, Expression as E, Function, Integer, Operator, Register, Statement as S};
use crate::program::Program;
use crate::visit::{each_expression, each_part};

/// Maximum number of parts of an iteration to be vectorized.
const PARTS_MAX: usize = 160;
/// Pseudo-register for the output byte.
const OUTPUT: Register = Register::MAX;

/// A pointer to the first of the bytes that the counter indexes, and their maximum number.
pub(crate) type Counted<'e> = (&'e E, Option<u64>);

/// A vectorizable iteration of a loop.
pub(crate) struct Round<'e> {
    /// Values computed before the output byte, in this order.
    pub(crate) computed: Vec<Lane>,
    /// The output bytes.
    pub(crate) value: Lane,
    /// The destination of the output.
    pub(crate) to: Counted<'e>,
    /// The input reads.
    pub(crate) reads: Vec<Counted<'e>>,
    /// Tables, and the number of entries accessed in each.
    pub(crate) tables: Vec<(&'e E, i64)>,
    /// Fuel consumed by the calls.
    pub(crate) calls: u32,
    /// Call depth.
    pub(crate) depth: u32,
}

/// Analyzes the body of a loop; returns it in vector IR if it is vectorizable. `counter` is the register
/// that counts, `copy` the one that it is copied to before the increment.
pub(crate) fn round<'e>(
    (program, facts): (&'e Program, &'e [Facts]),
    function: usize,
    (counter, copy): (Register, Option<Register>),
    body: &'e S,
) -> Option<Round<'e>> {
    let sets = sets_of(body);
    let mut finder = Finder {
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
    let mut around = Surroundings { is_certain: true, ..Surroundings::default() };
    finder.statement(body, &mut around)?;
    // The condition of the loop reads the counter and its bound.
    if !sets.is_empty() && are_read_outside(&sets, &program.functions[function], body) {
        return None;
    }
    let (value, _) = around.registers.remove(&OUTPUT)?;
    let reads = finder.reads.iter().map(|read| (read.pointer, read.length)).collect();
    let Finder { computed, to, tables, calls, depth, .. } = finder;
    Some(Round { computed, value, to: to?, reads, tables, calls, depth })
}

/// The registers that statements write to.
fn sets_of(body: &S) -> BTreeSet<Register> {
    let mut sets = BTreeSet::new();
    each_part(std::slice::from_ref(body), &mut |one| {
        if let E::Set(register, _) = one {
            sets.insert(*register);
        }
    });
    sets
}

/// Returns whether anything outside a loop's statements reads registers that they write to.
fn are_read_outside(sets: &BTreeSet<Register>, function: &Function, body: &S) -> bool {
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
struct Surroundings {
    /// Values that the iteration has written to registers; in a called function, its arguments.
    registers: BTreeMap<Register, Known>,
    /// Registers written to since the last branch.
    written: BTreeSet<Register>,
    /// Narrowed ranges of bytes read.
    reads: BTreeMap<usize, Range>,
    /// The output byte has been written: memory no longer has its state before the iteration.
    has_written: bool,
    /// Inside a called function: its depth relative to the enclosing function.
    depth: Option<u32>,
    /// Evaluated in every iteration, unconditionally.
    is_certain: bool,
}

impl Surroundings {
    fn set(&mut self, register: Register, value: Known) {
        self.registers.insert(register, value);
        self.written.insert(register);
        self.has_written |= register == OUTPUT;
    }

    /// The array that the counter indexes, if an expression is a pointer to the current element. Not in a called
    /// function, whose registers are others.
    fn counted<'e>(&self, pointer: &'e E, counter: Register) -> Option<Counted<'e>> {
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

struct Finder<'e> {
    program: &'e Program,
    /// Facts about the function that contains the loop, and about all functions.
    facts: &'e Facts,
    all: &'e [Facts],
    counter: Register,
    /// Other registers that change between iterations.
    changing: BTreeSet<Register>,
    to: Option<Counted<'e>>,
    reads: Vec<Read<'e>>,
    tables: Vec<(&'e E, i64)>,
    computed: Vec<Lane>,
    parts: usize,
    calls: u32,
    depth: u32,
}

impl<'e> Finder<'e> {
    /// Counts one more part, up to the maximum.
    fn part(&mut self) -> Option<()> {
        self.parts += 1;
        (self.parts <= PARTS_MAX).then_some(())
    }

    /// Makes a vector expression usable several times.
    fn kept(&mut self, lane: Lane) -> Lane {
        if lane.is_there() {
            return lane;
        }
        self.computed.push(lane);
        Lane::Computed(self.computed.len() - 1)
    }

    fn statement(&mut self, statement: &'e S, around: &mut Surroundings) -> Option<()> {
        self.part()?;
        match statement {
            S::Block(all) => all.iter().try_for_each(|one| self.statement(one, around)),
            S::Expression(E::Set(register, value)) => {
                let (lane, range) = self.value(value, around)?;
                around.set(*register, (self.kept(lane), range));
                Some(())
            }
            S::Expression(E::Store(pointer, integer, value, _)) if integer.bytes == 1 => {
                let to = around.counted(pointer, self.counter)?;
                let (lane, range) = self.value(value, around)?;
                around.set(OUTPUT, (self.kept(lane), range));
                (*self.to.get_or_insert(to) == to).then_some(())
            }
            S::If(condition, then, otherwise) => {
                let mask = self.condition(condition, around)?;
                let mask = self.kept(mask);
                let (mut holds, mut fails) =
                    (self.where_holds(condition, around, true), self.where_holds(condition, around, false));
                self.statement(then, &mut holds)?;
                self.statement(otherwise, &mut fails)?;
                self.join(&mask, around, &holds, &fails)
            }
            _ => None,
        }
    }

    /// Joins the states after a conditional. A register written in only one branch has no known value.
    fn join(
        &mut self,
        mask: &Lane,
        around: &mut Surroundings,
        holds: &Surroundings,
        fails: &Surroundings,
    ) -> Option<()> {
        for register in holds.written.union(&fails.written) {
            match (holds.registers.get(register), fails.registers.get(register)) {
                (Some(then), Some(otherwise)) => {
                    let (lane, range) = lanes::chosen(mask.clone(), then.clone(), otherwise.clone());
                    around.set(*register, (self.kept(lane), range));
                }
                _ if *register == OUTPUT => return None,
                _ => {
                    around.registers.remove(register);
                    around.written.insert(*register);
                }
            }
        }
        Some(())
    }

    fn value(&mut self, value: &'e E, around: &Surroundings) -> Option<Known> {
        self.part()?;
        match value {
            E::Constant(value) => Some((Lane::Constant(*value), Range::exactly(*value))),
            E::Register(register) => self.register(*register, around),
            E::Load(pointer, integer, _) if integer.bytes == 1 && !around.has_written => {
                match around.counted(pointer, self.counter) {
                    Some((pointer, length)) => {
                        let index = self.read(Read { pointer, length, integer: *integer });
                        Some((Lane::Read(index), around.reads.get(&index).copied().unwrap_or(Range::of(*integer))))
                    }
                    None => self.looked(pointer, *integer, around),
                }
            }
            E::Convert(value, integer) => {
                let (lane, range) = self.value(value, around)?;
                Some((lane, lanes::wrapped(range, *integer)))
            }
            E::Binary(operator, integer, one, other, _) => {
                let (mut one, mut other) = (self.value(one, around)?, self.value(other, around)?);
                if matches!(operator, Operator::Multiply | Operator::Divide | Operator::Remainder) {
                    (one.0, other.0) = (self.kept(one.0), self.kept(other.0));
                }
                lanes::computed(*operator, *integer, one, other)
            }
            E::Not(_) | E::Compare(..) | E::And(..) | E::Or(..) => {
                let mask = Box::new(self.condition(value, around)?);
                Some((Lane::Both(Operator::And, mask, Box::new(Lane::Constant(1))), Range::TRUTH))
            }
            E::Conditional(condition, then, otherwise) => {
                let mask = self.condition(condition, around)?;
                let then = self.value(then, &self.where_holds(condition, around, true))?;
                let otherwise = self.value(otherwise, &self.where_holds(condition, around, false))?;
                Some(lanes::chosen(mask, then, otherwise))
            }
            E::Call(function, values, _) => self.call(*function, values, around),
            _ => None,
        }
    }

    fn register(&self, register: Register, around: &Surroundings) -> Option<Known> {
        match around.registers.get(&register) {
            Some(known) => Some(known.clone()),
            None if around.depth.is_some() || self.changing.contains(&register) => None,
            // It is not negative here, and does not exceed the maximum step of a pointer.
            None if register == self.counter => Some((Lane::Counter, Range { low: 0, high: Range::STEP.high })),
            None => Some((Lane::Register(register), self.facts.ranges[register])),
        }
    }

    fn read(&mut self, read: Read<'e>) -> usize {
        self.reads.iter().position(|known| *known == read).unwrap_or_else(|| {
            self.reads.push(read);
            self.reads.len() - 1
        })
    }

    /// A table lookup, with one index per lane.
    fn looked(&mut self, pointer: &'e E, integer: Integer, around: &Surroundings) -> Option<Known> {
        let E::Element { pointer, index, size: 1, length, .. } = pointer else { return None };
        // In a called function everything but data is its own.
        if around.depth.is_some() && !matches!(**pointer, E::Data(_)) {
            return None;
        }
        let (lane, range) = self.value(index, around)?;
        // The table is accessed even in lanes where the enclosing condition does not hold.
        let looked = if around.is_certain { range } else { UNSIGNED };
        if !range.is_within(UNSIGNED) || length.is_some_and(|length| looked.high as u64 >= length) {
            return None;
        }
        let known = self.tables.iter().position(|(table, _)| *table == &**pointer);
        let table = known.unwrap_or_else(|| {
            self.tables.push((pointer, 0));
            self.tables.len() - 1
        });
        self.tables[table].1 = self.tables[table].1.max(looked.high + 1);
        Some((Lane::Looked(table, Box::new(lane)), Range::of(integer)))
    }

    fn condition(&mut self, condition: &'e E, around: &Surroundings) -> Option<Lane> {
        self.part()?;
        match condition {
            E::Not(of) => Some(Lane::Inverted(Box::new(self.condition(of, around)?))),
            E::And(one, other) | E::Or(one, other) => {
                let is_and = matches!(condition, E::And(..));
                let first = self.condition(one, around)?;
                let second = self.condition(other, &self.where_holds(one, around, is_and))?;
                let operator = if is_and { Operator::And } else { Operator::Or };
                Some(Lane::Both(operator, Box::new(first), Box::new(second)))
            }
            E::Compare(comparison, integer, one, other) => {
                let (one, other) = (self.value(one, around)?, self.value(other, around)?);
                // As a wide unsigned type, a negative value is large.
                if integer.is_unsigned && !(one.1.is_natural() && other.1.is_natural()) {
                    return None;
                }
                lanes::compared(*comparison, one, other)
            }
            value => {
                let value = self.value(value, around)?;
                lanes::compared(Comparison::NotEqual, value, (Lane::Constant(0), Range::exactly(0)))
            }
        }
    }

    /// The state in which a condition holds, or in which it does not. It may not be evaluated in every lane.
    fn where_holds(&self, condition: &E, around: &Surroundings, holds: bool) -> Surroundings {
        let mut inner = Surroundings { is_certain: false, written: BTreeSet::new(), ..around.clone() };
        self.narrow(condition, &mut inner, holds);
        inner
    }

    fn narrow(&self, condition: &E, inner: &mut Surroundings, holds: bool) {
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
                    *range = lanes::narrowed(*range, *comparison, bound, holds);
                }
            }
            _ => {}
        }
    }

    /// The range of a register or of a byte read, to be narrowed.
    fn bounds<'r>(&self, of: &E, inner: &'r mut Surroundings) -> Option<&'r mut Range> {
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
    fn call(&mut self, index: usize, values: &'e [E], around: &Surroundings) -> Option<Known> {
        let (function, facts) = (&self.program.functions[index], &self.all[index]);
        let is_plain = facts.is_inlined && function.registers == function.parameters && !facts.is_set.contains(&true);
        if !around.is_certain || !is_plain {
            return None;
        }
        let mut registers = BTreeMap::new();
        for (register, value) in values.iter().enumerate() {
            let (lane, range) = self.value(value, around)?;
            registers.insert(register, (self.kept(lane), range));
        }
        let depth = around.depth.unwrap_or(0) + function.depth;
        (self.calls, self.depth) = (self.calls + function.weight, self.depth.max(depth));
        let inner = Surroundings {
            registers,
            has_written: around.has_written,
            depth: Some(depth),
            is_certain: true,
            ..Surroundings::default()
        };
        self.answer(&function.body, &inner)
    }

    /// The return value of a function's statements.
    fn answer(&mut self, statements: &'e [S], around: &Surroundings) -> Option<Known> {
        match statements.split_first()? {
            (S::Return(Some(value)), _) => self.value(value, around),
            (S::Block(all), rest) if rest.is_empty() || matches!(all.last(), Some(S::Return(_))) => {
                self.answer(all, around)
            }
            (S::If(condition, then, otherwise), rest) => {
                let mask = self.condition(condition, around)?;
                let then = self.answer(std::slice::from_ref(then), &self.where_holds(condition, around, true))?;
                let fails = self.where_holds(condition, around, false);
                let otherwise = match &**otherwise {
                    S::Block(all) if all.is_empty() => self.answer(rest, &fails)?,
                    other => self.answer(std::slice::from_ref(other), &fails)?,
                };
                Some(lanes::chosen(mask, then, otherwise))
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
        let facts = super::super::facts::all(&program).unwrap();
        let mut found = None;
        crate::visit::each_statement(&program.functions[0].body, &mut |statement| {
            if let S::Loop { body, step: Some(step), .. } = statement {
                let (counter, copy, _) = super::super::strips::counted_up(step).unwrap();
                found = round((&program, &facts), 0, (counter, copy), body);
            }
        });
        found.map(|round| round.tables.iter().map(|(_, bytes)| *bytes).collect())
    }

    #[test]
    fn tables_are_looked_at_no_farther_than_they_reach() {
        assert_eq!(tables("out[i] = few[in[i] & 7];"), Some(vec![8]));
        assert_eq!(tables("out[i] = few[in[i] & 7] + few[i & 15];"), Some(vec![16]));
        assert_eq!(tables("out[i] = few[in[i] & 16];"), None);
        assert_eq!(tables("int c = in[i]; if (c < 16) c = wide[c]; out[i] = c;"), Some(vec![256]));
        // Where the condition does not hold, the element does not exist.
        assert_eq!(tables("int c = in[i]; if (c < 16) c = few[c]; out[i] = c;"), None);
        assert_eq!(tables("out[i] = in[i] < 16 ? few[in[i]] : 0;"), None);
    }
}

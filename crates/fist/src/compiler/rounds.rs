//! Finds what a round of a loop makes of bytes, as lanes: what its statements do, both ways of a choice at once.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Facts;
use super::lanes::{self, Known, Lane, UNSIGNED};
use super::range::Range;
use crate::code::{Comparison, Expression as E, Function, Integer, Operator, Register, Statement as S};
use crate::program::Program;
use crate::visit::{each_expression, each_part};

/// Rounds of more parts than this are left to the loop.
const PARTS_MAX: usize = 160;
/// Stands for the byte that is written, among registers.
const OUTPUT: Register = Register::MAX;

/// A pointer to the first of bytes that are counted, and how many there may be.
pub(super) type Counted<'e> = (&'e E, Option<u64>);

/// What is done in a round of a loop.
pub(super) struct Round<'e> {
    /// What is computed before the byte that is written, in this order.
    pub(super) computed: Vec<Lane>,
    /// The bytes to be written.
    pub(super) value: Lane,
    /// Where they are written.
    pub(super) to: Counted<'e>,
    /// Where bytes are read.
    pub(super) reads: Vec<Counted<'e>>,
    /// Tables, and how many bytes of them are looked at.
    pub(super) tables: Vec<(&'e E, i64)>,
    /// How many steps the calls take.
    pub(super) calls: u32,
    /// How deep they go.
    pub(super) depth: u32,
}

/// What a loop does in a function, if it can be done on lanes; with the register that counts, and the one that this is copied to
/// before it is counted up.
pub(super) fn round<'e>(
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
    // What the loop counts, and counts up to, is read by its condition.
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

/// Whether anything but a loop's statements reads registers that these write to.
fn are_read_outside(sets: &BTreeSet<Register>, function: &Function, body: &S) -> bool {
    let is_read = |one: &E| matches!(one, E::Register(register) if sets.contains(register));
    let (mut all, mut inside) = (0, 0);
    each_expression(function, &mut |one| all += usize::from(is_read(one)));
    each_part(std::slice::from_ref(body), &mut |one| inside += usize::from(is_read(one)));
    all != inside
}

/// Bytes that are read, by what the pointer is and as what.
#[derive(Debug, PartialEq)]
struct Read<'e> {
    pointer: &'e E,
    length: Option<u64>,
    integer: Integer,
}

/// What is known where a statement or an expression stands.
#[derive(Clone, Debug, Default)]
struct Surroundings {
    /// What the round has written to registers; what a function is given, in one that is called.
    registers: BTreeMap<Register, Known>,
    /// Those that were written to since the last choice.
    written: BTreeSet<Register>,
    /// Better bounds of bytes that are read.
    reads: BTreeMap<usize, Range>,
    /// The byte has been written: memory is no more as it was before the round.
    has_written: bool,
    /// This is in a function that is called, so much deeper than the function around.
    depth: Option<u32>,
    /// This is computed in each round, whatever the conditions.
    is_certain: bool,
}

impl Surroundings {
    fn set(&mut self, register: Register, value: Known) {
        self.registers.insert(register, value);
        self.written.insert(register);
        self.has_written |= register == OUTPUT;
    }

    /// Where the elements are that a counter counts, if an expression is a pointer to one. In a function that is called
    /// there are none: its registers are others.
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
    /// Of the function that the loop is in, and of all.
    facts: &'e Facts,
    all: &'e [Facts],
    counter: Register,
    /// The other registers that change from round to round.
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
    /// Another part; there may be too many.
    fn part(&mut self) -> Option<()> {
        self.parts += 1;
        (self.parts <= PARTS_MAX).then_some(())
    }

    /// The same lanes, which can now be used several times.
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

    /// What registers hold behind a choice. What only one of the ways has written to is not known.
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
            // It is not below zero where this is done, and is moved no farther than a pointer can be.
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

    /// Bytes of a table, by an index each.
    fn looked(&mut self, pointer: &'e E, integer: Integer, around: &Surroundings) -> Option<Known> {
        let E::Element { pointer, index, size: 1, length, .. } = pointer else { return None };
        // What else there is in a function that is called is its own.
        if around.depth.is_some() && !matches!(**pointer, E::Data(_)) {
            return None;
        }
        let (lane, range) = self.value(index, around)?;
        // Where the condition does not hold, at which this stands, the table is looked at nevertheless.
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
                // In a wide type without signs what is below zero is large.
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

    /// What is known where a condition holds, or where it does not. It may not be computed everywhere.
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

    /// The bounds of what a register holds, or of bytes that are read.
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

    /// A function that does no more than choose what it answers.
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

    /// What the statements of a function answer.
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

    /// The bytes that are looked at of each table, if rounds with this body can be done on lanes.
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
        // Where the condition does not hold there is no such element.
        assert_eq!(tables("int c = in[i]; if (c < 16) c = few[c]; out[i] = c;"), None);
        assert_eq!(tables("out[i] = in[i] < 16 ? few[in[i]] : 0;"), None);
    }
}

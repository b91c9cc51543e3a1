//! What is computed for sixteen bytes at a time: a value of which only the lowest byte is needed, as operations on lanes.
//!
//! Lanes are bytes. The lowest byte of a sum is made of the lowest bytes of its parts, so sums and their like may overflow
//! a lane; what is compared, divided or shifted to the right must fit into one, as its bounds have to tell.

use cranelift_codegen::ir::condcodes::IntCC;

use super::facts::Facts;
use super::integers::{masked, quotient};
use super::range::Range;
use crate::ir::{Comparison, Expression as E, Integer, Operator, Register, Statement as S};
use crate::program::Program;

/// Operations of more parts than this are left to the loop.
const PARTS_MAX: usize = 160;
/// What is computed several times has no more parts than this.
const SMALL_MAX: usize = 48;
/// A quotient of up to this many is found by comparisons.
const QUOTIENT_MAX: i64 = 3;

/// A value for each lane. Comparisons have all bits set where they hold.
#[derive(Clone, Debug)]
pub(super) enum Lane {
    /// The same everywhere.
    Constant(i64),
    /// What a register of the function around holds, everywhere.
    Register(Register),
    /// Bytes that are read: which of the accesses.
    Read(usize),
    /// Add, Subtract, And, Or and Xor.
    Both(Operator, Box<Lane>, Box<Lane>),
    /// Shifted: to the left, or to the right with or without a sign.
    Shifted(Shift, Box<Lane>, i64),
    Compared(IntCC, Box<Lane>, Box<Lane>),
    Inverted(Box<Lane>),
    Chosen(Box<Lane>, Box<Lane>, Box<Lane>),
}

impl Lane {
    /// Whether it may be computed several times.
    fn is_small(&self) -> bool {
        fn left(lane: &Lane, most: usize) -> Option<usize> {
            let most = most.checked_sub(1)?;
            match lane {
                Lane::Constant(_) | Lane::Register(_) | Lane::Read(_) => Some(most),
                Lane::Shifted(_, of, _) | Lane::Inverted(of) => left(of, most),
                Lane::Both(_, one, other) | Lane::Compared(_, one, other) => left(other, left(one, most)?),
                Lane::Chosen(mask, one, other) => left(other, left(one, left(mask, most)?)?),
            }
        }
        left(self, SMALL_MAX).is_some()
    }
}

/// How lanes are shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    Left,
    Right,
    RightSigned,
}

/// Lanes, and the bounds of the values whose lowest bytes they are.
type Known = (Lane, Range);

/// Bytes that are read, by what the pointer is and as what; the bounds may be known better where a condition holds.
#[derive(Clone, Debug)]
struct Read<'e> {
    pointer: &'e E,
    length: Option<u64>,
    integer: Integer,
    range: Range,
}

/// What is known where an expression stands.
#[derive(Clone, Debug)]
struct Surroundings {
    /// What a function is given; `None` in the function that the loop is in.
    given: Option<Vec<Known>>,
    /// Better bounds of bytes that are read.
    reads: Vec<Range>,
    /// How much deeper than the function around.
    depth: u32,
    /// This is computed in each round, whatever the conditions.
    is_certain: bool,
}

/// Finds the operations on lanes for an expression.
pub(super) struct Finder<'e> {
    program: &'e Program,
    facts: &'e [Facts],
    /// The registers that change from round to round.
    changing: [Option<Register>; 2],
    counter: Register,
    function: usize,
    reads: Vec<Read<'e>>,
    parts: usize,
    calls: u32,
    depth: u32,
}

/// What is done in a round of a loop.
pub(super) struct Round<'e> {
    /// The bytes to be written.
    pub(super) value: Lane,
    /// Pointers to the first of bytes that are read, and how many elements there may be.
    pub(super) reads: Vec<(&'e E, Option<u64>)>,
    /// How many calls are made.
    pub(super) calls: u32,
    /// How deep they go.
    pub(super) depth: u32,
}

/// The operations for a value that a loop writes, in a function, if there are such.
pub(super) fn round<'e>(
    (program, facts): (&'e Program, &'e [Facts]),
    function: usize,
    (counter, copy): (Register, Option<Register>),
    value: &'e E,
) -> Option<Round<'e>> {
    let changing = [Some(counter), copy];
    let mut finder =
        Finder { program, facts, changing, counter, function, reads: Vec::new(), parts: 0, calls: 0, depth: 0 };
    let outermost = Surroundings { given: None, reads: Vec::new(), depth: 0, is_certain: true };
    let (value, _) = finder.value(value, &outermost)?;
    let reads = finder.reads.iter().map(|read| (read.pointer, read.length)).collect();
    Some(Round { value, reads, calls: finder.calls, depth: finder.depth })
}

/// The element that a counter counts, if an expression is a pointer to it.
pub(super) fn counted(pointer: &E, counter: Register) -> Option<(&E, Option<u64>)> {
    match pointer {
        E::Element { pointer, index, size: 1, length, .. } if **index == E::Register(counter) => {
            Some((pointer, *length))
        }
        _ => None,
    }
}

const UNSIGNED: Range = Range { low: 0, high: 255 };
const SIGNED: Range = Range { low: -128, high: 127 };

impl<'e> Finder<'e> {
    fn value(&mut self, value: &'e E, around: &Surroundings) -> Option<Known> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return None;
        }
        match value {
            E::Constant(value) => Some((Lane::Constant(*value), Range::exactly(*value))),
            E::Register(register) => match &around.given {
                Some(given) => given.get(*register).cloned(),
                None if self.changing.contains(&Some(*register)) => None,
                None => Some((Lane::Register(*register), self.facts[self.function].ranges[*register])),
            },
            E::Load(pointer, integer, _) if integer.bytes == 1 && around.given.is_none() => {
                let (pointer, length) = counted(pointer, self.counter)?;
                let index = self.read(pointer, length, *integer);
                Some((Lane::Read(index), around.reads.get(index).copied().unwrap_or(Range::of(*integer))))
            }
            E::Convert(value, integer) => {
                let (lane, range) = self.value(value, around)?;
                Some((lane, wrapped(range, *integer)))
            }
            E::Binary(operator, integer, one, other, _) => {
                let (one, other) = (self.value(one, around)?, self.value(other, around)?);
                self.compute(*operator, *integer, one, other)
            }
            E::Not(_) | E::Compare(..) | E::And(..) | E::Or(..) => {
                let mask = Box::new(self.condition(value, around)?);
                Some((Lane::Both(Operator::And, mask, Box::new(Lane::Constant(1))), Range::TRUTH))
            }
            E::Conditional(condition, then, otherwise) => {
                let mask = self.condition(condition, around)?;
                let then = self.value(then, &self.where_holds(condition, around, true))?;
                let otherwise = self.value(otherwise, &self.where_holds(condition, around, false))?;
                Some(chosen(mask, then, otherwise))
            }
            E::Call(function, values, _) => self.call(*function, values, around),
            _ => None,
        }
    }

    fn read(&mut self, pointer: &'e E, length: Option<u64>, integer: Integer) -> usize {
        let known =
            self.reads.iter().position(|read| (read.pointer, read.length, read.integer) == (pointer, length, integer));
        known.unwrap_or_else(|| {
            self.reads.push(Read { pointer, length, integer, range: Range::of(integer) });
            self.reads.len() - 1
        })
    }

    fn compute(&self, operator: Operator, integer: Integer, one: Known, other: Known) -> Option<Known> {
        let range = match operator {
            Operator::Add => one.1.plus(other.1),
            Operator::Subtract => one.1.minus(other.1),
            Operator::And => masked(one.1, other.1),
            Operator::Or | Operator::Xor => one.1.bitwise(other.1),
            Operator::ShiftLeft | Operator::ShiftRight => {
                let places = other.1.known()? & (i64::from(integer.bytes) * 8 - 1);
                if operator == Operator::ShiftRight && integer.is_unsigned && !one.1.is_natural() {
                    return None;
                }
                let (lane, range) = shifted(operator, one, places)?;
                return Some((lane, wrapped(range, integer)));
            }
            Operator::Divide | Operator::Remainder => {
                let (lane, range) = divided(operator, one, other.1.known()?)?;
                return Some((lane, wrapped(range, integer)));
            }
            Operator::Multiply => return None,
        };
        Some((Lane::Both(operator, Box::new(one.0), Box::new(other.0)), wrapped(range, integer)))
    }

    fn condition(&mut self, condition: &'e E, around: &Surroundings) -> Option<Lane> {
        self.parts += 1;
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
                compared(*comparison, one, other)
            }
            value => {
                let value = self.value(value, around)?;
                compared(Comparison::NotEqual, value, (Lane::Constant(0), Range::exactly(0)))
            }
        }
    }

    /// What is known where a condition holds, or where it does not. It may not be computed everywhere.
    fn where_holds(&self, condition: &E, around: &Surroundings, holds: bool) -> Surroundings {
        let mut inner = Surroundings { is_certain: false, ..around.clone() };
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
                let range = match &**one {
                    E::Register(register) => {
                        inner.given.as_mut().and_then(|given| given.get_mut(*register)).map(|it| &mut it.1)
                    }
                    E::Load(pointer, of, _) if inner.given.is_none() => self.read_range(pointer, *of, &mut inner.reads),
                    _ => None,
                };
                let Some(range) = range else { return };
                if !integer.is_unsigned || (range.is_natural() && bound >= 0) {
                    *range = narrowed(*range, *comparison, bound, holds);
                }
            }
            _ => {}
        }
    }

    fn read_range<'r>(&self, pointer: &E, integer: Integer, ranges: &'r mut Vec<Range>) -> Option<&'r mut Range> {
        let (pointer, length) = counted(pointer, self.counter)?;
        let index = self
            .reads
            .iter()
            .position(|read| (read.pointer, read.length, read.integer) == (pointer, length, integer))?;
        for read in &self.reads[ranges.len().min(index + 1)..=index] {
            ranges.push(read.range);
        }
        ranges.get_mut(index)
    }

    /// A function that does no more than choose what it answers.
    fn call(&mut self, index: usize, values: &'e [E], around: &Surroundings) -> Option<Known> {
        let (function, facts) = (&self.program.functions[index], &self.facts[index]);
        if !around.is_certain
            || !facts.is_inlined
            || function.registers != function.parameters
            || facts.is_set.contains(&true)
        {
            return None;
        }
        let mut given = Vec::new();
        for value in values {
            let value = self.value(value, around)?;
            if !value.0.is_small() {
                return None;
            }
            given.push(value);
        }
        let depth = around.depth + function.depth;
        (self.calls, self.depth) = (self.calls + 1, self.depth.max(depth));
        let inner = Surroundings { given: Some(given), reads: around.reads.clone(), depth, is_certain: true };
        self.body(&function.body, &inner)
    }

    fn body(&mut self, statements: &'e [S], around: &Surroundings) -> Option<Known> {
        match statements.split_first()? {
            (S::Return(Some(value)), _) => self.value(value, around),
            (S::Block(all), rest) if rest.is_empty() || matches!(all.last(), Some(S::Return(_))) => {
                self.body(all, around)
            }
            (S::If(condition, then, otherwise), rest) => {
                let mask = self.condition(condition, around)?;
                let then = self.body(std::slice::from_ref(then), &self.where_holds(condition, around, true))?;
                let fails = self.where_holds(condition, around, false);
                let otherwise = match &**otherwise {
                    S::Block(all) if all.is_empty() => self.body(rest, &fails)?,
                    other => self.body(std::slice::from_ref(other), &fails)?,
                };
                Some(chosen(mask, then, otherwise))
            }
            _ => None,
        }
    }
}

fn wrapped(range: Range, integer: Integer) -> Range {
    let bounds = Range::of(integer);
    if range.is_within(bounds) { range } else { bounds }
}

fn chosen(mask: Lane, then: Known, otherwise: Known) -> Known {
    (Lane::Chosen(Box::new(mask), Box::new(then.0), Box::new(otherwise.0)), then.1.or(otherwise.1))
}

/// What is left of bounds where a comparison with a constant holds, or does not.
fn narrowed(range: Range, comparison: Comparison, bound: i64, holds: bool) -> Range {
    let (low, high) = match (comparison, holds) {
        (Comparison::Equal, true) | (Comparison::NotEqual, false) => (bound, bound),
        (Comparison::Less, true) | (Comparison::GreaterOrEqual, false) => (i64::MIN, bound.saturating_sub(1)),
        (Comparison::LessOrEqual, true) | (Comparison::Greater, false) => (i64::MIN, bound),
        (Comparison::Greater, true) | (Comparison::LessOrEqual, false) => (bound.saturating_add(1), i64::MAX),
        (Comparison::GreaterOrEqual, true) | (Comparison::Less, false) => (bound, i64::MAX),
        _ => return range,
    };
    let narrow = Range { low: range.low.max(low), high: range.high.min(high) };
    // Where it never holds nothing is to be known.
    if narrow.low > narrow.high { range } else { narrow }
}

fn compared(comparison: Comparison, one: Known, other: Known) -> Option<Lane> {
    let both = one.1.or(other.1);
    let is_signed = !both.is_within(UNSIGNED);
    if is_signed && !both.is_within(SIGNED) {
        return None;
    }
    let how = super::values::condition(comparison, Integer { bytes: 1, is_unsigned: !is_signed });
    Some(Lane::Compared(how, Box::new(one.0), Box::new(other.0)))
}

fn shifted(operator: Operator, (lane, range): Known, places: i64) -> Option<Known> {
    if operator == Operator::ShiftLeft {
        let bounds = if places < 32 { range.times(Range::exactly(1 << places)) } else { Range::FULL };
        return Some(match places {
            0..8 => (Lane::Shifted(Shift::Left, Box::new(lane), places), bounds),
            _ => (Lane::Constant(0), bounds),
        });
    }
    let bounds = Range { low: range.low >> places, high: range.high >> places };
    let shift = match range {
        _ if range.is_within(UNSIGNED) => Shift::Right,
        _ if range.is_within(SIGNED) => Shift::RightSigned,
        _ => return None,
    };
    Some(match (shift, places) {
        (Shift::Right, 8..) => (Lane::Constant(0), bounds),
        _ => (Lane::Shifted(shift, Box::new(lane), places.min(7)), bounds),
    })
}

/// A quotient or a remainder of what is not below zero, by a constant.
fn divided(operator: Operator, (lane, range): Known, by: i64) -> Option<Known> {
    if by <= 0 || !range.is_within(UNSIGNED) || !lane.is_small() {
        return None;
    }
    let bounds = quotient(range, Range::exactly(by), operator);
    let boxed = Box::new;
    if by & (by - 1) == 0 && by < 256 {
        let lane = match operator {
            Operator::Divide => Lane::Shifted(Shift::Right, boxed(lane), by.trailing_zeros().into()),
            _ => Lane::Both(Operator::And, boxed(lane), boxed(Lane::Constant(by - 1))),
        };
        return Some((lane, bounds));
    }
    if range.high / by > QUOTIENT_MAX {
        return None;
    }
    // A comparison that holds is -1.
    let (mut answer, takes) = match operator {
        Operator::Divide => (Lane::Constant(0), Lane::Constant(-1)),
        _ => (lane.clone(), Lane::Constant(by)),
    };
    for count in 1..=range.high / by {
        let least = boxed(Lane::Constant(by * count));
        let reached = Lane::Compared(IntCC::UnsignedGreaterThanOrEqual, boxed(lane.clone()), least);
        let taken = Lane::Both(Operator::And, boxed(reached), boxed(takes.clone()));
        answer = Lane::Both(Operator::Subtract, boxed(answer), boxed(taken));
    }
    Some((answer, bounds))
}

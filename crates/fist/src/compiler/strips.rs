//! Loops that make bytes of bytes, each of the one at the same place: sixteen at a time, as long as all sixteen are there.
//!
//! What is left over, and whatever would stop the run, is done by the loop itself, which follows.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::lanes::{self, Lane, Shift};
use super::range::Range;
use super::translator::{FLAGS, Operand, Place, Translator};
use crate::interpreter::DEPTH_MAX;
use crate::ir::{Comparison, Expression as E, Integer, Operator, Register, Statement as S};

/// How many bytes at a time.
const WIDTH: i64 = 16;

/// A loop as it has to be.
struct Strip<'s> {
    counter: Register,
    /// A register that the counter is copied to before it is counted up.
    copy: Option<Register>,
    bound: &'s E,
    /// Where bytes are written.
    to: (&'s E, Option<u64>),
    round: lanes::Round<'s>,
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
fn counted_up(step: &E) -> Option<(Register, Option<Register>, Integer)> {
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

/// The one byte that a statement writes: to where, and what.
fn written(body: &S) -> Option<(&E, &E)> {
    match body {
        S::Block(all) => match &all[..] {
            [one] => written(one),
            _ => None,
        },
        S::Expression(E::Store(pointer, integer, value, _)) if integer.bytes == 1 => Some((pointer, value)),
        _ => None,
    }
}

impl<'a> Translator<'_, 'a> {
    /// Begins a loop with as many rounds as can be done sixteen at a time.
    pub(super) fn strips(&mut self, before: Option<&'a E>, body: &'a S, step: Option<&'a E>, after: Option<&'a E>) {
        if has_lanes()
            && let (Some(before), Some(step), None) = (before, step, after)
            && let Some(strip) = self.strip(before, body, step)
            && let Some((accesses, is_apart)) = self.accesses(&strip)
        {
            self.rounds(&strip, &accesses, is_apart);
        }
    }

    fn strip(&self, before: &'a E, body: &'a S, step: &'a E) -> Option<Strip<'a>> {
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
        let (pointer, value) = written(body)?;
        let to = lanes::counted(pointer, counter)?;
        let round = lanes::round((self.program, self.facts), self.index, (counter, copy), value)?;
        Some(Strip { counter, copy, bound, to, round })
    }

    /// Where bytes are read, and where they are written, which is the last; and whether no byte is read that one of the
    /// fifteen rounds before has written.
    fn accesses(&mut self, strip: &Strip<'a>) -> Option<(Vec<Access>, Value)> {
        let is_settled = |this: &Self, pointer: &E| match pointer {
            E::Register(register) => matches!(this.scope.registers[*register], Place::Fixed(Operand::Pointer { .. })),
            E::Object(object) => this.anchored(super::facts::Base::Object(*object)).is_some(),
            E::Data(index) => this.anchored(super::facts::Base::Data(*index)).is_some(),
            _ => false,
        };
        let all: Vec<(&E, Option<u64>)> = strip.round.reads.iter().copied().chain([strip.to]).collect();
        if !all.iter().all(|(pointer, _)| is_settled(self, pointer)) {
            return None;
        }
        let mut accesses = Vec::new();
        for (index, (pointer, length)) in all.iter().enumerate() {
            let Operand::Pointer { base, offset, .. } = self.value(pointer) else { return None };
            let (address, limit) = self.extent(base, index + 1 == all.len());
            let address = self.builder.ins().iadd(address, offset);
            let mut end = self.builder.ins().isub(limit, offset);
            if let Some(length) = length {
                let length = self.constant(i64::try_from(*length).unwrap_or(i64::MAX));
                end = self.less_of(end, length);
            }
            accesses.push(Access { address, end });
        }
        let to = accesses.last()?.address;
        let mut is_apart = self.builder.ins().iconst(types::I8, 1);
        for access in &accesses[..accesses.len() - 1] {
            let further = self.builder.ins().isub(to, access.address);
            let one = self.constant(1);
            let before = self.builder.ins().isub(further, one);
            let apart = self.compare(IntCC::UnsignedGreaterThanOrEqual, before, WIDTH - 1);
            is_apart = self.builder.ins().band(is_apart, apart);
        }
        Some((accesses, is_apart))
    }

    fn less_of(&mut self, one: Value, other: Value) -> Value {
        let is_less = self.builder.ins().icmp(IntCC::SignedLessThan, one, other);
        self.builder.ins().select(is_less, one, other)
    }

    /// The last value of the counter with which sixteen rounds can be begun; one below zero if none can.
    fn last(&mut self, strip: &Strip<'a>, accesses: &[Access], is_apart: Value, first: Value) -> Value {
        let (bound, _) = self.integer(strip.bound);
        // Pointers are not moved farther at a time.
        let most = self.constant(Range::STEP.high);
        let mut end = self.less_of(bound, most);
        for access in accesses {
            end = self.less_of(end, access.end);
        }
        // A round takes a step, and one for each call.
        let (steps, each) = (self.builder.use_var(self.steps), self.constant(i64::from(strip.round.calls) + 1));
        let rounds = self.builder.ins().udiv(steps, each);
        let affordable = self.builder.ins().iadd(first, rounds);
        end = self.less_of(end, affordable);
        let room = i64::from(DEPTH_MAX) - i64::from(self.scope.depth) - i64::from(strip.round.depth);
        let has_room = self.compare(IntCC::SignedLessThanOrEqual, self.depth, room);
        let is_natural = self.compare(IntCC::SignedGreaterThanOrEqual, first, 0);
        let is_possible = self.builder.ins().band(is_apart, has_room);
        let is_possible = self.builder.ins().band(is_possible, is_natural);
        let nothing = self.constant(0);
        let end = self.builder.ins().select(is_possible, end, nothing);
        let is_some = self.builder.ins().icmp(IntCC::SignedGreaterThan, end, nothing);
        let end = self.builder.ins().select(is_some, end, nothing);
        let width = self.constant(WIDTH);
        self.builder.ins().isub(end, width)
    }

    fn rounds(&mut self, strip: &Strip<'a>, accesses: &[Access], is_apart: Value) {
        let Place::Changing { variable: counter, .. } = self.scope.registers[strip.counter] else { return };
        let first = self.builder.use_var(counter);
        let last = self.last(strip, accesses, is_apart, first);
        let (head, body, done) = (self.block(), self.block(), self.block());
        self.builder.ins().jump(head, &[]);
        self.scope.latest.clear();
        self.builder.switch_to_block(head);
        let count = self.builder.use_var(counter);
        let goes_on = self.builder.ins().icmp(IntCC::SignedLessThanOrEqual, count, last);
        self.builder.ins().brif(goes_on, body, &[], done, &[]);
        self.start(body);
        let value = self.lane(&strip.round.value, accesses, count);
        if let Some(access) = accesses.last() {
            let address = self.builder.ins().iadd(access.address, count);
            self.builder.ins().store(FLAGS, value, address, 0);
        }
        let width = self.constant(WIDTH);
        let next = self.builder.ins().iadd(count, width);
        self.builder.def_var(counter, next);
        self.builder.ins().jump(head, &[]);
        self.builder.seal_block(head);
        self.start(done);
        self.settle_rounds(strip, first, count);
    }

    /// The steps that were taken, and what the counter was copied to.
    fn settle_rounds(&mut self, strip: &Strip<'a>, first: Value, count: Value) {
        let rounds = self.builder.ins().isub(count, first);
        let each = self.constant(i64::from(strip.round.calls) + 1);
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

    /// Sixteen bytes.
    fn lane(&mut self, lane: &Lane, accesses: &[Access], count: Value) -> Value {
        let lanes = types::I8X16;
        match lane {
            Lane::Constant(value) => {
                let byte = self.builder.ins().iconst(types::I8, value & 0xff);
                self.builder.ins().splat(lanes, byte)
            }
            Lane::Register(register) => {
                let (value, _) = self.integer(&E::Register(*register));
                let byte = self.builder.ins().ireduce(types::I8, value);
                self.builder.ins().splat(lanes, byte)
            }
            Lane::Read(index) => {
                let address = self.builder.ins().iadd(accesses[*index].address, count);
                self.builder.ins().load(lanes, FLAGS, address, 0)
            }
            Lane::Both(operator, one, other) => {
                let (one, other) = (self.lane(one, accesses, count), self.lane(other, accesses, count));
                let make = self.builder.ins();
                match operator {
                    Operator::Add => make.iadd(one, other),
                    Operator::Subtract => make.isub(one, other),
                    Operator::And => make.band(one, other),
                    Operator::Or => make.bor(one, other),
                    _ => make.bxor(one, other),
                }
            }
            Lane::Shifted(shift, of, places) => {
                let (of, places) = (self.lane(of, accesses, count), self.constant(*places));
                let make = self.builder.ins();
                match shift {
                    Shift::Left => make.ishl(of, places),
                    Shift::Right => make.ushr(of, places),
                    Shift::RightSigned => make.sshr(of, places),
                }
            }
            Lane::Compared(how, one, other) => {
                let (one, other) = (self.lane(one, accesses, count), self.lane(other, accesses, count));
                self.builder.ins().icmp(*how, one, other)
            }
            Lane::Inverted(of) => {
                let of = self.lane(of, accesses, count);
                self.builder.ins().bnot(of)
            }
            Lane::Chosen(mask, then, otherwise) => {
                let mask = self.lane(mask, accesses, count);
                let (then, otherwise) = (self.lane(then, accesses, count), self.lane(otherwise, accesses, count));
                self.builder.ins().bitselect(mask, then, otherwise)
            }
        }
    }
}

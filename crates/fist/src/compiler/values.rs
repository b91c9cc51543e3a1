//! Translation of expressions.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::access::hint;
use super::facts::Base;
use super::range::Range;
use super::translator::{Operand, RegisterStorage, Translator};
use crate::code::{Comparison, Expression as E, Integer, Operator, Register};
use crate::memory::data_pointer;
use crate::text::Span;
use crate::trap::TrapKind;

/// Maximum size of a simple value in expressions: it is computed unconditionally rather than branched around.
const SIMPLE_MAX: usize = 16;

impl Translator<'_, '_> {
    /// Translates an expression.
    pub(crate) fn value(&mut self, expression: &E) -> Operand {
        match expression {
            E::Constant(value) => Operand::Plain(self.constant(*value), Range::exactly(*value), None),
            E::Register(register) => self.register(*register),
            E::Object(object) => {
                let pointer = self.objects[*object];
                self.base(Base::Object(*object), pointer)
            }
            E::Data(index) => {
                let pointer = self.constant(data_pointer(*index));
                self.base(Base::Data(*index), pointer)
            }
            E::Load(pointer, integer, span) => {
                let pointer = self.value(pointer);
                self.load(pointer, *integer, *span)
            }
            E::Element { pointer, index, size, length, span } => {
                let pointer = self.value(pointer);
                let index = self.integer(index);
                self.element(pointer, index, *size, *length, *span)
            }
            E::Field(pointer, bytes) => {
                let pointer = self.value(pointer);
                self.field(pointer, *bytes)
            }
            E::Distance(one, other, size, span) => self.distance(one, other, *size, *span),
            E::Convert(value, integer) => self.convert(value, *integer),
            E::Not(_) | E::Compare(..) | E::And(..) | E::Or(..) => Operand::Truth(self.truth_of(expression)),
            E::Binary(operator, integer, one, other, span) => {
                let (one, other) = (self.integer(one), self.integer(other));
                let (value, range) = self.compute(*operator, *integer, one, other, *span);
                Operand::Plain(value, range, None)
            }
            E::Conditional(condition, then, otherwise) => self.conditional(condition, then, otherwise),
            E::Sequence(one, other) => {
                self.value(one);
                self.value(other)
            }
            E::Set(register, value) => {
                let value = self.value(value);
                self.set(*register, value);
                value
            }
            E::Store(pointer, integer, value, span) => {
                let pointer = self.value(pointer);
                let value = self.value(value);
                let written = self.as_word(value);
                self.store(pointer, *integer, written, *span);
                value
            }
            E::Copy(to, from, bytes, span) => self.copy(to, from, *bytes, *span),
            E::Call(function, values, span) => self.call(*function, values, *span),
            E::Site(site, values, span) => self.site(*site, values, *span),
        }
    }

    fn register(&mut self, register: Register) -> Operand {
        if let Some(value) = self.scope.latest.get(&register) {
            return *value;
        }
        match self.scope.registers[register] {
            RegisterStorage::Immutable(operand) => operand,
            RegisterStorage::Mutable { variable, range, hint, is_stable } => {
                let value = self.builder.use_var(variable);
                match hint.filter(|_| is_stable) {
                    Some(base) => self.pointer_into(base, value),
                    None => Operand::Plain(value, range, hint),
                }
            }
        }
    }

    pub(crate) fn set(&mut self, register: Register, value: Operand) {
        let whole = self.as_word(value);
        if let RegisterStorage::Mutable { variable, .. } = self.scope.registers[register] {
            self.builder.def_var(variable, whole);
            let value = match value {
                Operand::Pointer { base, offset, range, .. } => {
                    Operand::Pointer { base, offset, range, whole: Some(whole) }
                }
                other => other,
            };
            self.scope.latest.insert(register, value);
        }
    }

    /// Translates an expression to a 64-bit value and its range.
    pub(crate) fn integer(&mut self, expression: &E) -> (Value, Range) {
        let operand = self.value(expression);
        let range = match operand {
            Operand::Plain(_, range, _) => range,
            Operand::Truth(_) => Range::TRUTH,
            Operand::Pointer { .. } => Range::FULL,
        };
        (self.as_word(operand), range)
    }

    /// Translates the test of an expression for not being 0 to an 8-bit value.
    pub(crate) fn truth_of(&mut self, expression: &E) -> Value {
        match expression {
            E::Not(of) => {
                let truth = self.truth_of(of);
                let nothing = self.builder.ins().iconst(types::I8, 0);
                self.builder.ins().icmp(IntCC::Equal, truth, nothing)
            }
            E::Compare(comparison, integer, one, other) => {
                let (one, other) = (self.integer(one).0, self.integer(other).0);
                self.builder.ins().icmp(condition(*comparison, *integer), one, other)
            }
            E::And(one, other) | E::Or(one, other) => {
                let is_and = matches!(expression, E::And(..));
                if !self.is_simple(other) {
                    return self.truth_by_branches(one, other, is_and);
                }
                let (one, other) = (self.truth_of(one), self.truth_of(other));
                match is_and {
                    true => self.builder.ins().band(one, other),
                    false => self.builder.ins().bor(one, other),
                }
            }
            _ => {
                let value = self.value(expression);
                self.truth(value)
            }
        }
    }

    fn truth(&mut self, value: Operand) -> Value {
        match value {
            Operand::Truth(truth) => truth,
            other => {
                let value = self.as_word(other);
                self.compare(IntCC::NotEqual, value, 0)
            }
        }
    }

    /// Evaluates the second value only if the first does not decide.
    fn truth_by_branches(&mut self, one: &E, other: &E, is_and: bool) -> Value {
        let ((done, truth), next) = (self.block_with(types::I8), self.block());
        let decided = self.truth_of(one);
        let value = self.builder.ins().iconst(types::I8, i64::from(!is_and));
        let (none, known) = ([], [value.into()]);
        match is_and {
            true => self.builder.ins().brif(decided, next, &none, done, &known),
            false => self.builder.ins().brif(decided, done, &known, next, &none),
        };
        self.start(next);
        let value = self.truth_of(other);
        self.builder.ins().jump(done, &[value.into()]);
        self.start(done);
        truth
    }

    fn convert(&mut self, value: &E, integer: Integer) -> Operand {
        match self.value(value) {
            truth @ Operand::Truth(_) => truth,
            Operand::Plain(value, range, hint) => {
                let (wrapped, bounds) = self.wrap(value, range, integer);
                Operand::Plain(wrapped, bounds, hint.filter(|_| wrapped == value))
            }
            pointer => {
                let value = self.as_word(pointer);
                let (value, range) = self.wrap(value, Range::FULL, integer);
                Operand::Plain(value, range, None)
            }
        }
    }

    fn distance(&mut self, one: &E, other: &E, size: u64, span: Span) -> Operand {
        let (one, other) = (self.integer(one).0, self.integer(other).0);
        let both = self.builder.ins().bxor(one, other);
        let half = self.constant(32);
        let differing = self.builder.ins().ushr(both, half);
        let is_other = self.compare(IntCC::NotEqual, differing, 0);
        self.trap_if(is_other, TrapKind::DifferentObjects, span);
        let bytes = self.builder.ins().isub(one, other);
        let (bytes, range) = self.wrap(bytes, Range::FULL, Integer::INT);
        let size = size as i64;
        let divisor = self.constant(size);
        let (value, range) = self.divide((bytes, range), (divisor, Range::exactly(size)), Operator::Divide);
        Operand::Plain(value, range, None)
    }

    fn conditional(&mut self, condition: &E, then: &E, otherwise: &E) -> Operand {
        if self.is_simple(then) && self.is_simple(otherwise) {
            return self.choose(condition, then, otherwise);
        }
        let (holds, fails, (done, result)) = (self.block(), self.block(), self.block_with(types::I64));
        self.branch(condition, holds, fails);
        let mut range = None;
        let mut hints = Vec::new();
        for (block, value) in [(holds, then), (fails, otherwise)] {
            self.start(block);
            let value = self.value(value);
            range = Some(union(range, &value));
            hints.push(hint(&value));
            let value = self.as_word(value);
            self.builder.ins().jump(done, &[value.into()]);
        }
        self.start(done);
        let hint = hints[0].filter(|hint| hints[1] == Some(*hint));
        Operand::Plain(result, range.unwrap_or(Range::FULL), hint)
    }

    /// Selects one of two simple values.
    pub(crate) fn choose(&mut self, condition: &E, then: &E, otherwise: &E) -> Operand {
        let truth = self.truth_of(condition);
        let (one, other) = (self.value(then), self.value(otherwise));
        let range = union(Some(union(None, &one)), &other);
        let hint = hint(&one).filter(|one| hint(&other) == Some(*one));
        let (one, other) = (self.as_word(one), self.as_word(other));
        Operand::Plain(self.builder.ins().select(truth, one, other), range, hint)
    }

    /// Returns whether a value can be computed speculatively: without risk and at little cost.
    pub(crate) fn is_simple(&self, expression: &E) -> bool {
        let (mut count, mut is_simple) = (0, true);
        crate::visit::each(expression, &mut |one| {
            count += 1;
            is_simple &= match one {
                E::Constant(_) | E::Register(_) | E::Object(_) | E::Data(_) | E::Convert(..) => true,
                E::Not(_) | E::Compare(..) | E::And(..) | E::Or(..) | E::Conditional(..) => true,
                E::Binary(Operator::Divide | Operator::Remainder, _, _, by, _) => {
                    matches!(**by, E::Constant(value) if value > 0)
                }
                E::Binary(..) => true,
                _ => false,
            };
        });
        is_simple && count <= SIMPLE_MAX
    }
}

fn union(range: Option<Range>, value: &Operand) -> Range {
    let of = match value {
        Operand::Plain(_, range, _) => *range,
        Operand::Truth(_) => Range::TRUTH,
        Operand::Pointer { .. } => Range::FULL,
    };
    range.map_or(of, |range| range.or(of))
}

/// The Cranelift condition code of a comparison.
pub(crate) fn condition(comparison: Comparison, integer: Integer) -> IntCC {
    match (comparison, integer.is_unsigned) {
        (Comparison::Equal, _) => IntCC::Equal,
        (Comparison::NotEqual, _) => IntCC::NotEqual,
        (Comparison::Less, false) => IntCC::SignedLessThan,
        (Comparison::Less, true) => IntCC::UnsignedLessThan,
        (Comparison::LessOrEqual, false) => IntCC::SignedLessThanOrEqual,
        (Comparison::LessOrEqual, true) => IntCC::UnsignedLessThanOrEqual,
        (Comparison::Greater, false) => IntCC::SignedGreaterThan,
        (Comparison::Greater, true) => IntCC::UnsignedGreaterThan,
        (Comparison::GreaterOrEqual, false) => IntCC::SignedGreaterThanOrEqual,
        (Comparison::GreaterOrEqual, true) => IntCC::UnsignedGreaterThanOrEqual,
    }
}

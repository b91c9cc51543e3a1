//! Code generation for the vector IR: an iteration for sixteen bytes, in vector registers.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::guard::{Guard, GuardedCount, WIDTH};
use super::translator::Translator;
use super::vector_ir::{ShiftKind, VectorExpression};
use super::vectorize::VectorizedIteration;
use crate::code::{Expression as E, Operator};

/// Inputs of the code generation: the bytes accessible through the guard, and the values computed so far.
struct VectorInputs<'g> {
    guard: &'g Guard,
    count: &'g GuardedCount,
    computed: Vec<Value>,
}

impl<'a> Translator<'_, 'a> {
    /// Generates the bytes that sixteen iterations write.
    pub(crate) fn emit_vector_iteration(
        &mut self,
        iteration: &VectorizedIteration<'a>,
        guard: &Guard,
        count: &GuardedCount,
    ) -> Value {
        let mut inputs = VectorInputs { guard, count, computed: Vec::new() };
        for expression in &iteration.computed {
            let value = self.vector(expression, &inputs);
            inputs.computed.push(value);
        }
        self.vector(&iteration.value, &inputs)
    }

    fn splat(&mut self, value: Value) -> Value {
        let byte = self.builder.ins().ireduce(types::I8, value);
        self.builder.ins().splat(types::I8X16, byte)
    }

    fn vector(&mut self, expression: &VectorExpression, inputs: &VectorInputs<'_>) -> Value {
        match expression {
            VectorExpression::Constant(value) => {
                let byte = self.builder.ins().iconst(types::I8, value & 0xff);
                self.builder.ins().splat(types::I8X16, byte)
            }
            VectorExpression::Register(register) => {
                let (value, _) = self.integer(&E::Register(*register));
                self.splat(value)
            }
            VectorExpression::Counter => self.count_vector(inputs.count.value()),
            VectorExpression::Read(index) => self.guarded_read(inputs.guard, *index, inputs.count),
            VectorExpression::TableLookup(table, index) => {
                let table = &inputs.guard.tables[*table];
                match **index {
                    VectorExpression::Read(read) => {
                        self.guarded_lookup_by_read(inputs.guard, table, read, inputs.count)
                    }
                    _ => {
                        let indexes = self.vector(index, inputs);
                        self.guarded_lookup(table, indexes)
                    }
                }
            }
            VectorExpression::Computed(index) => inputs.computed[*index],
            VectorExpression::Binary(operator, one, other) => {
                let (one, other) = (self.vector(one, inputs), self.vector(other, inputs));
                self.both(*operator, one, other)
            }
            VectorExpression::Shift(shift, of, bits) => {
                let (of, bits) = (self.vector(of, inputs), self.constant(*bits));
                let make = self.builder.ins();
                match shift {
                    ShiftKind::Left => make.ishl(of, bits),
                    ShiftKind::Right => make.ushr(of, bits),
                    ShiftKind::RightSigned => make.sshr(of, bits),
                }
            }
            VectorExpression::Compare(how, one, other) => {
                let (one, other) = (self.vector(one, inputs), self.vector(other, inputs));
                self.builder.ins().icmp(*how, one, other)
            }
            VectorExpression::Not(of) => {
                let of = self.vector(of, inputs);
                self.builder.ins().bnot(of)
            }
            VectorExpression::Select(mask, then, otherwise) => {
                let mask = self.vector(mask, inputs);
                let (then, otherwise) = (self.vector(then, inputs), self.vector(otherwise, inputs));
                self.builder.ins().bitselect(mask, then, otherwise)
            }
        }
    }

    fn both(&mut self, operator: Operator, one: Value, other: Value) -> Value {
        let make = self.builder.ins();
        match operator {
            Operator::Add => make.iadd(one, other),
            Operator::Subtract => make.isub(one, other),
            Operator::And => make.band(one, other),
            Operator::Or => make.bor(one, other),
            _ => make.bxor(one, other),
        }
    }

    /// A number, incremented by one in each lane.
    fn count_vector(&mut self, count: Value) -> Value {
        let first = self.splat(count);
        let numbers: Vec<u8> = (0..WIDTH as u8).collect();
        let numbers = self.builder.func.dfg.constants.insert(numbers.into());
        let numbers = self.builder.ins().vconst(types::I8X16, numbers);
        self.builder.ins().iadd(first, numbers)
    }
}

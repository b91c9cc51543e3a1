//! Code generation for the vector IR: an iteration for sixteen bytes, in vector registers.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::guard::{Counted, Guard, WIDTH};
use super::lanes::{Lane, Shift};
use super::rounds::Round;
use super::translator::Translator;
use crate::code::{Expression as E, Operator};

/// Inputs of the code generation: the bytes accessible through the guard, and the values computed so far.
struct Made<'g> {
    guard: &'g Guard,
    count: &'g Counted,
    computed: Vec<Value>,
}

impl<'a> Translator<'_, 'a> {
    /// Generates the bytes that sixteen iterations write.
    pub(crate) fn vectors(&mut self, round: &Round<'a>, guard: &Guard, count: &Counted) -> Value {
        let mut made = Made { guard, count, computed: Vec::new() };
        for lane in &round.computed {
            let value = self.vector(lane, &made);
            made.computed.push(value);
        }
        self.vector(&round.value, &made)
    }

    fn splat(&mut self, value: Value) -> Value {
        let byte = self.builder.ins().ireduce(types::I8, value);
        self.builder.ins().splat(types::I8X16, byte)
    }

    fn vector(&mut self, lane: &Lane, made: &Made<'_>) -> Value {
        match lane {
            Lane::Constant(value) => {
                let byte = self.builder.ins().iconst(types::I8, value & 0xff);
                self.builder.ins().splat(types::I8X16, byte)
            }
            Lane::Register(register) => {
                let (value, _) = self.integer(&E::Register(*register));
                self.splat(value)
            }
            Lane::Counter => self.counted(made.count.value()),
            Lane::Read(index) => self.guarded_read(made.guard, *index, made.count),
            Lane::Looked(table, index) => {
                let table = &made.guard.tables[*table];
                match **index {
                    Lane::Read(read) => self.guarded_look_by_read(made.guard, table, read, made.count),
                    _ => {
                        let indexes = self.vector(index, made);
                        self.guarded_look(table, indexes)
                    }
                }
            }
            Lane::Computed(index) => made.computed[*index],
            Lane::Both(operator, one, other) => {
                let (one, other) = (self.vector(one, made), self.vector(other, made));
                self.both(*operator, one, other)
            }
            Lane::Shifted(shift, of, places) => {
                let (of, places) = (self.vector(of, made), self.constant(*places));
                let make = self.builder.ins();
                match shift {
                    Shift::Left => make.ishl(of, places),
                    Shift::Right => make.ushr(of, places),
                    Shift::RightSigned => make.sshr(of, places),
                }
            }
            Lane::Compared(how, one, other) => {
                let (one, other) = (self.vector(one, made), self.vector(other, made));
                self.builder.ins().icmp(*how, one, other)
            }
            Lane::Inverted(of) => {
                let of = self.vector(of, made);
                self.builder.ins().bnot(of)
            }
            Lane::Chosen(mask, then, otherwise) => {
                let mask = self.vector(mask, made);
                let (then, otherwise) = (self.vector(then, made), self.vector(otherwise, made));
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
    fn counted(&mut self, count: Value) -> Value {
        let first = self.splat(count);
        let numbers: Vec<u8> = (0..WIDTH as u8).collect();
        let numbers = self.builder.func.dfg.constants.insert(numbers.into());
        let numbers = self.builder.ins().vconst(types::I8X16, numbers);
        self.builder.ins().iadd(first, numbers)
    }
}

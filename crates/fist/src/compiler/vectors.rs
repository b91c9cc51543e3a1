//! Lanes as values of the machine: what a round of a loop makes of bytes, sixteen of them.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::lanes::{Lane, Shift};
use super::rounds::Round;
use super::translator::{FLAGS, Translator};
use crate::ir::{Expression as E, Operator};

/// How many bytes at a time.
pub(super) const WIDTH: i64 = 16;

/// What lanes are made of.
pub(super) struct Ground {
    /// What the loop has counted to.
    pub(super) count: Value,
    /// The addresses of what is read: where the counter is 0.
    pub(super) reads: Vec<Value>,
    pub(super) tables: Vec<Look>,
}

/// Where a table is.
pub(super) struct Look {
    pub(super) address: Value,
    /// It has sixteen bytes at least, and none beyond them is looked at.
    pub(super) is_small: bool,
}

/// What has been made.
struct Made {
    ground: Ground,
    computed: Vec<Value>,
}

impl<'a> Translator<'_, 'a> {
    /// The bytes that sixteen rounds write.
    pub(super) fn vectors(&mut self, round: &Round<'a>, ground: Ground) -> Value {
        let mut made = Made { ground, computed: Vec::new() };
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

    fn vector(&mut self, lane: &Lane, made: &Made) -> Value {
        match lane {
            Lane::Constant(value) => {
                let byte = self.builder.ins().iconst(types::I8, value & 0xff);
                self.builder.ins().splat(types::I8X16, byte)
            }
            Lane::Register(register) => {
                let (value, _) = self.integer(&E::Register(*register));
                self.splat(value)
            }
            Lane::Counter => self.counted(made.ground.count),
            Lane::Read(index) => {
                let address = self.builder.ins().iadd(made.ground.reads[*index], made.ground.count);
                self.builder.ins().load(types::I8X16, FLAGS, address, 0)
            }
            Lane::Looked(table, index) => {
                let table = &made.ground.tables[*table];
                match **index {
                    Lane::Read(read) if !table.is_small => {
                        let address = self.builder.ins().iadd(made.ground.reads[read], made.ground.count);
                        self.gathered(table, |this, lane| {
                            this.builder.ins().uload8(types::I64, FLAGS, address, i32::from(lane))
                        })
                    }
                    _ => {
                        let indexes = self.vector(index, made);
                        self.looked(table, indexes)
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

    /// A number, and one more in each lane.
    fn counted(&mut self, count: Value) -> Value {
        let first = self.splat(count);
        let numbers: Vec<u8> = (0..WIDTH as u8).collect();
        let numbers = self.builder.func.dfg.constants.insert(numbers.into());
        let numbers = self.builder.ins().vconst(types::I8X16, numbers);
        self.builder.ins().iadd(first, numbers)
    }

    /// The bytes of a table that have these indexes.
    fn looked(&mut self, table: &Look, indexes: Value) -> Value {
        if table.is_small {
            let all = self.builder.ins().load(types::I8X16, FLAGS, table.address, 0);
            return self.builder.ins().swizzle(all, indexes);
        }
        self.gathered(table, |this, lane| {
            let index = this.builder.ins().extractlane(indexes, lane);
            this.builder.ins().uextend(types::I64, index)
        })
    }

    /// The same, one by one, where each has its own index.
    fn gathered(&mut self, table: &Look, mut index: impl FnMut(&mut Self, u8) -> Value) -> Value {
        let nothing = self.builder.ins().iconst(types::I8, 0);
        let mut bytes = self.builder.ins().splat(types::I8X16, nothing);
        for lane in 0..WIDTH as u8 {
            let index = index(self, lane);
            let address = self.builder.ins().iadd(table.address, index);
            let byte = self.builder.ins().load(types::I8, FLAGS, address, 0);
            bytes = self.builder.ins().insertlane(bytes, byte, lane);
        }
        bytes
    }
}

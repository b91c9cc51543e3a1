//! Calls: of functions of the program, possibly inlined, and intrinsic and host calls.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, types};

use super::range::Range;
use super::translator::{FLAGS, Operand, Scope, Translator};
use crate::code::Expression as E;
use crate::interpreter::DEPTH_MAX;
use crate::stop::Why;
use crate::text::Span;

impl Translator<'_, '_> {
    /// Translates a call of a function of the program.
    pub(crate) fn call(&mut self, index: usize, values: &[E], span: Span) -> Operand {
        let given: Vec<Operand> = values.iter().map(|value| self.value(value)).collect();
        let (function, facts) = (&self.program.functions[index], self.facts);
        let facts = &facts[index];
        if function.depth > DEPTH_MAX {
            self.stop(Why::TooDeep, span);
            return Operand::Plain(self.constant(0), Range::FULL, None);
        }
        let room = i64::from(DEPTH_MAX) - i64::from(function.depth) - i64::from(self.scope.depth);
        let is_too_deep = self.compare(IntCC::SignedGreaterThan, self.depth, room);
        self.stop_if(is_too_deep, Why::TooDeep, span);
        self.step(function.weight, span);
        if facts.is_inlined {
            return self.inlined(index, &given);
        }
        let deeper = self.constant(i64::from(self.scope.depth + function.depth));
        let depth = self.builder.ins().iadd(self.depth, deeper);
        let mut all = vec![self.machine, self.builder.use_var(self.steps), depth];
        if !function.objects.is_empty() {
            all.push(self.place(span));
        }
        for value in given {
            all.push(self.whole(value));
        }
        let called = self.program_function(index);
        let call = self.builder.ins().call(called, &all);
        let &[answer, steps] = self.builder.inst_results(call) else { unreachable!("a function answers two values") };
        let is_stopped = self.compare(IntCC::SignedLessThan, steps, 0);
        self.leave_if(is_stopped);
        self.builder.def_var(self.steps, steps);
        if facts.calls_out {
            self.look_up_again(span);
        }
        Operand::Plain(answer, facts.answer, None)
    }

    /// Inlines a function.
    fn inlined(&mut self, index: usize, given: &[Operand]) -> Operand {
        let function = &self.program.functions[index];
        let registers = self.places(index, given);
        let (done, answer) = self.block_with(types::I64);
        let scope = Scope {
            registers,
            latest: HashMap::new(),
            depth: self.scope.depth + function.depth,
            answer: Some(done),
            exits: Vec::new(),
        };
        let around = std::mem::replace(&mut self.scope, scope);
        self.statements(&function.body);
        let nothing = self.constant(0);
        self.builder.ins().jump(done, &[nothing.into()]);
        self.start(done);
        self.scope = around;
        Operand::Plain(answer, self.facts[index].answer, None)
    }

    /// Translates an intrinsic or host call.
    pub(crate) fn site(&mut self, site: usize, values: &[E], span: Span) -> Operand {
        let mut given = Vec::new();
        for value in values {
            let value = self.value(value);
            given.push(self.whole(value));
        }
        let bytes = (given.len().max(1) * 8) as u32;
        let slot = match self.room {
            Some((slot, room)) if room >= bytes => slot,
            _ => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
                let slot = self.builder.create_sized_stack_slot(data);
                self.room = Some((slot, bytes));
                slot
            }
        };
        let room = self.builder.ins().stack_addr(types::I64, slot, 0);
        for (index, value) in given.iter().enumerate() {
            self.builder.ins().store(FLAGS, *value, room, index as i32 * 8);
        }
        let (site, place) = (self.constant(site as i64), self.place(span));
        let count = self.constant(given.len() as i64);
        let answer = self.ask("site", &[site, place, room, count]);
        self.look_up_again(span);
        Operand::Plain(answer, Range::FULL, None)
    }
}

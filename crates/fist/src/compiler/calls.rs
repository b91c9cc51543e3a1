//! Calls: of functions of the program, possibly inlined, and intrinsic and host calls.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, types};

use super::range::Range;
use super::translator::{FLAGS, Operand, Scope, Translator};
use crate::code::Expression as E;
use crate::interpreter::MAX_CALL_DEPTH;
use crate::text::Span;
use crate::trap::TrapKind;

impl Translator<'_, '_> {
    /// Translates a call of a function of the program.
    pub(crate) fn call(&mut self, index: usize, values: &[E], span: Span) -> Operand {
        let arguments: Vec<Operand> = values.iter().map(|value| self.value(value)).collect();
        let (function, facts) = (&self.program.functions[index], self.facts);
        let facts = &facts[index];
        if function.depth > MAX_CALL_DEPTH {
            self.trap(TrapKind::CallDepth, span);
            return Operand::Plain(self.constant(0), Range::FULL, None);
        }
        let max_depth = i64::from(MAX_CALL_DEPTH) - i64::from(function.depth) - i64::from(self.scope.depth);
        let is_too_deep = self.compare(IntCC::SignedGreaterThan, self.depth, max_depth);
        self.trap_if(is_too_deep, TrapKind::CallDepth, span);
        self.consume_fuel(function.weight, span);
        if facts.is_inlined {
            return self.inline_call(index, &arguments);
        }
        let deeper = self.constant(i64::from(self.scope.depth + function.depth));
        let depth = self.builder.ins().iadd(self.depth, deeper);
        let mut all = vec![self.machine, self.builder.use_var(self.fuel), depth];
        if !function.objects.is_empty() {
            all.push(self.location(span));
        }
        for value in arguments {
            all.push(self.as_word(value));
        }
        let called = self.program_function(index);
        let call = self.builder.ins().call(called, &all);
        let &[result, fuel] = self.builder.inst_results(call) else { unreachable!("a function answers two values") };
        let has_trapped = self.compare(IntCC::SignedLessThan, fuel, 0);
        self.exit_if(has_trapped);
        self.builder.def_var(self.fuel, fuel);
        if facts.makes_host_calls {
            self.reload_regions(span);
        }
        Operand::Plain(result, facts.return_range, None)
    }

    /// Inlines a function.
    fn inline_call(&mut self, index: usize, arguments: &[Operand]) -> Operand {
        let function = &self.program.functions[index];
        let registers = self.register_storage(index, arguments);
        let (done, result) = self.block_with(types::I64);
        let scope = Scope {
            registers,
            latest: HashMap::new(),
            depth: self.scope.depth + function.depth,
            return_block: Some(done),
            exits: Vec::new(),
        };
        let caller_scope = std::mem::replace(&mut self.scope, scope);
        self.statements(&function.body);
        let nothing = self.constant(0);
        self.builder.ins().jump(done, &[nothing.into()]);
        self.start(done);
        self.scope = caller_scope;
        Operand::Plain(result, self.facts[index].return_range, None)
    }

    /// Translates an intrinsic or host call.
    pub(crate) fn site(&mut self, site: usize, values: &[E], span: Span) -> Operand {
        let mut arguments = Vec::new();
        for value in values {
            let value = self.value(value);
            arguments.push(self.as_word(value));
        }
        let bytes = (arguments.len().max(1) * 8) as u32;
        let slot = match self.argument_slot {
            Some((slot, capacity)) if capacity >= bytes => slot,
            _ => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
                let slot = self.builder.create_sized_stack_slot(data);
                self.argument_slot = Some((slot, bytes));
                slot
            }
        };
        let address = self.builder.ins().stack_addr(types::I64, slot, 0);
        for (index, value) in arguments.iter().enumerate() {
            self.builder.ins().store(FLAGS, *value, address, index as i32 * 8);
        }
        let (site, location) = (self.constant(site as i64), self.location(span));
        let count = self.constant(arguments.len() as i64);
        let result = self.call_back("site", &[site, location, address, count]);
        self.reload_regions(span);
        Operand::Plain(result, Range::FULL, None)
    }
}

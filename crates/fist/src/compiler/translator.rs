//! Translation of a function of the program to Cranelift IR: blocks, traps, fuel and callbacks.

use std::collections::HashMap;
use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, FuncRef, InstBuilder, MemFlagsData, StackSlot, Type, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};

use super::base_region::BaseRegion;
use super::facts::{Base, FunctionFacts};
use super::machine::{Machine, NOT_TRAPPED, NumberedEntities};
use super::range::Range;
use crate::code::{Function, Register};
use crate::interpreter::MAX_CALL_DEPTH;
use crate::program::Program;
use crate::text::Span;
use crate::trap::{Trap, TrapKind};

/// The functions that compiled code calls.
#[derive(Default)]
pub(crate) struct Imports {
    /// Functions of the program.
    pub(crate) functions: Vec<FuncId>,
    /// The region lookup.
    pub(crate) region_lookup: Option<FuncId>,
    /// Callbacks.
    pub(crate) callbacks: HashMap<&'static str, FuncId>,
}

/// Locations and traps, with the numbers by which compiled code refers to them.
#[derive(Default)]
pub(crate) struct LocationTable {
    numbers: NumberedEntities,
    numbers_of_spans: HashMap<Span, i64>,
    numbers_of_traps: HashMap<(u8, Span), i64>,
}

impl LocationTable {
    pub(crate) fn location(&mut self, span: Span) -> i64 {
        let spans = &mut self.numbers.spans;
        *self.numbers_of_spans.entry(span).or_insert_with(|| {
            spans.push(span);
            spans.len() as i64 - 1
        })
    }

    /// The number of a trap: one more than its index, since 0 means none.
    fn trap(&mut self, kind: TrapKind, span: Span) -> i64 {
        let traps = &mut self.numbers.traps;
        *self.numbers_of_traps.entry((kind as u8, span)).or_insert_with(|| {
            traps.push(Trap { kind, span });
            traps.len() as i64
        })
    }

    pub(crate) fn numbers(self, objects: Vec<Vec<u64>>) -> NumberedEntities {
        NumberedEntities { objects, ..self.numbers }
    }
}

/// An operand: a value of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A plain value; if it is a pointer, perhaps one into the region of a base, which is checked at each use.
    Plain(Value, Range, Option<usize>),
    /// 0 or 1, in 8 bits.
    Truth(Value),
    /// A pointer into the region of a base, as an offset of which the lowest 32 bits count.
    Pointer {
        base: usize,
        offset: Value,
        range: Range,
        /// The whole pointer, if it is already computed.
        whole: Option<Value>,
    },
}

/// Storage of a register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RegisterStorage {
    /// An immutable register.
    Immutable(Operand),
    /// A mutable register: its value, and the base that it may be derived from, or is if certain.
    Mutable { variable: Variable, range: Range, hint: Option<usize>, is_stable: bool },
}

/// A function being translated: the current one, or one being inlined.
pub(crate) struct Scope {
    pub(crate) registers: Vec<RegisterStorage>,
    /// Values written to registers since the last merge point.
    pub(crate) latest: HashMap<Register, Operand>,
    /// Depth relative to the enclosing function.
    pub(crate) depth: u32,
    /// The block that receives its return value; `None` for the enclosing function, which returns.
    pub(crate) return_block: Option<Block>,
    /// Targets of `break` and `continue`.
    pub(crate) exits: Vec<(Block, Option<Block>)>,
}

/// The translator of a function.
pub(crate) struct Translator<'t, 'a> {
    pub(crate) builder: FunctionBuilder<'t>,
    module: &'t mut JITModule,
    pub(crate) program: &'a Program,
    pub(crate) facts: &'a [FunctionFacts],
    imports: &'t Imports,
    pub(crate) locations: &'t mut LocationTable,
    references: HashMap<FuncId, FuncRef>,
    pub(crate) index: usize,
    pub(crate) machine: Value,
    /// The depth of the function, itself included.
    pub(crate) depth: Value,
    /// The remaining fuel.
    pub(crate) fuel: Variable,
    /// The exit block after a trap.
    trap_exit: Block,
    /// Blocks that report a trap, by its number.
    trap_blocks: HashMap<i64, Block>,
    /// Pointers to the objects.
    pub(crate) objects: Vec<Value>,
    pub(crate) bases: Vec<Base>,
    pub(crate) base_regions: Vec<BaseRegion>,
    pub(crate) scope: Scope,
    /// Stack slot for the arguments of intrinsic and host calls.
    pub(crate) argument_slot: Option<(StackSlot, u32)>,
}

/// Flags of an access to memory that certainly exists.
pub(crate) const FLAGS: MemFlagsData = MemFlagsData::new().with_trap_code(None);

impl<'t, 'a> Translator<'t, 'a> {
    pub(crate) fn new(
        mut builder: FunctionBuilder<'t>,
        module: &'t mut JITModule,
        program: &'a Program,
        facts: &'a [FunctionFacts],
        imports: &'t Imports,
        locations: &'t mut LocationTable,
        index: usize,
    ) -> Translator<'t, 'a> {
        let first = builder.create_block();
        builder.append_block_params_for_function_params(first);
        builder.switch_to_block(first);
        builder.seal_block(first);
        let [machine, left, depth] = [0, 1, 2].map(|number| builder.block_params(first)[number]);
        let fuel = builder.declare_var(types::I64);
        builder.def_var(fuel, left);
        let trap_exit = builder.create_block();
        builder.set_cold_block(trap_exit);
        let scope =
            Scope { registers: Vec::new(), latest: HashMap::new(), depth: 0, return_block: None, exits: Vec::new() };
        Translator {
            builder,
            module,
            program,
            facts,
            imports,
            locations,
            references: HashMap::new(),
            index,
            machine,
            depth,
            fuel,
            trap_exit,
            trap_blocks: HashMap::new(),
            objects: Vec::new(),
            bases: facts[index].bases.clone(),
            base_regions: Vec::new(),
            scope,
            argument_slot: None,
        }
    }

    pub(crate) fn function(&self) -> &'a Function {
        &self.program.functions[self.index]
    }

    /// Translates the function.
    pub(crate) fn translate(mut self) {
        let function = self.function();
        if function.depth > MAX_CALL_DEPTH {
            // Its callers trap before: it is unreachable.
            self.builder.ins().jump(self.trap_exit, &[]);
        } else {
            self.begin();
            self.statements(&function.body);
            let nothing = self.constant(0);
            self.return_value(nothing);
        }
        self.finish();
    }

    fn begin(&mut self) {
        let function = self.function();
        let parameters: Vec<Value> =
            self.builder.block_params(self.builder.current_block().expect("the first block")).to_vec();
        let values = &parameters[parameters.len() - function.parameters..];
        if !function.objects.is_empty() {
            self.enter(parameters[3]);
        }
        let operands: Vec<Operand> = values.iter().map(|value| Operand::Plain(*value, Range::FULL, None)).collect();
        self.look_up_base_regions(values);
        self.scope.registers = self.register_storage(self.index, &operands);
    }

    fn finish(mut self) {
        let trap_blocks: Vec<(i64, Block)> = self.trap_blocks.drain().collect();
        for (number, block) in trap_blocks {
            self.builder.switch_to_block(block);
            self.builder.seal_block(block);
            let number = self.constant(number);
            self.builder.ins().store(FLAGS, number, self.machine, offset_of!(Machine<'_, '_>, trap_state) as i32);
            self.builder.ins().jump(self.trap_exit, &[]);
        }
        self.builder.switch_to_block(self.trap_exit);
        self.builder.seal_block(self.trap_exit);
        let (result, fuel) = (self.constant(0), self.constant(-1));
        self.builder.ins().return_(&[result, fuel]);
        let configuration = self.module.target_config();
        self.builder.finalize(configuration);
    }

    /// A reference to a function that can be called from here.
    fn reference(&mut self, id: FuncId) -> FuncRef {
        let (module, builder) = (&mut self.module, &mut self.builder);
        *self.references.entry(id).or_insert_with(|| module.declare_func_in_func(id, builder.func))
    }

    /// A reference to a function of the program.
    pub(crate) fn program_function(&mut self, index: usize) -> FuncRef {
        self.reference(self.imports.functions[index])
    }

    /// A reference to the region lookup.
    pub(crate) fn region_lookup_function(&mut self) -> FuncRef {
        self.reference(self.imports.region_lookup.expect("it is made first"))
    }

    /// Emits a callback; the function returns if that traps.
    pub(crate) fn call_back(&mut self, name: &'static str, values: &[Value]) -> Value {
        let callback = self.reference(self.imports.callbacks[name]);
        let mut all = vec![self.machine];
        all.extend_from_slice(values);
        let call = self.builder.ins().call(callback, &all);
        let result = self.builder.inst_results(call)[0];
        let at = offset_of!(Machine<'_, '_>, trap_state) as i32;
        let state = self.builder.ins().load(types::I64, FLAGS, self.machine, at);
        let not_trapped = self.constant(NOT_TRAPPED as i64);
        let is_trapped = self.builder.ins().icmp(IntCC::NotEqual, state, not_trapped);
        self.exit_if(is_trapped);
        result
    }

    /// Emits a callback that traps. The code after it is unreachable.
    pub(crate) fn trap_by_callback(&mut self, name: &'static str, values: &[Value]) {
        let callback = self.reference(self.imports.callbacks[name]);
        let mut all = vec![self.machine];
        all.extend_from_slice(values);
        self.builder.ins().call(callback, &all);
        self.builder.ins().jump(self.trap_exit, &[]);
    }

    /// Emits a return in the trapped state, if the condition holds.
    pub(crate) fn exit_if(&mut self, condition: Value) {
        let trap_exit = self.trap_exit;
        self.unless(condition, trap_exit);
    }

    /// Branches to `there` if the condition holds, and falls through otherwise.
    fn unless(&mut self, condition: Value, target: Block) {
        let next = self.builder.create_block();
        self.builder.ins().brif(condition, target, &[], next, &[]);
        self.builder.switch_to_block(next);
        self.builder.seal_block(next);
    }

    fn trap_block(&mut self, kind: TrapKind, span: Span) -> Block {
        let number = self.locations.trap(kind, span);
        let builder = &mut self.builder;
        *self.trap_blocks.entry(number).or_insert_with(|| {
            let block = builder.create_block();
            builder.set_cold_block(block);
            block
        })
    }

    /// Traps if the condition holds.
    pub(crate) fn trap_if(&mut self, condition: Value, kind: TrapKind, span: Span) {
        let block = self.trap_block(kind, span);
        self.unless(condition, block);
    }

    /// Traps. The code after it is unreachable.
    pub(crate) fn trap(&mut self, kind: TrapKind, span: Span) {
        let block = self.trap_block(kind, span);
        self.jump(block);
    }

    /// Consumes fuel, or traps if it is used up. Checks the clock from time to time.
    pub(crate) fn consume_fuel(&mut self, weight: u32, span: Span) {
        let fuel = self.builder.use_var(self.fuel);
        let taken = self.constant(weight.into());
        let left = self.builder.ins().isub(fuel, taken);
        self.builder.def_var(self.fuel, left);
        let is_over = self.compare(IntCC::SignedLessThan, left, 0);
        let (over, next) = (self.block(), self.block());
        self.builder.set_cold_block(over);
        self.builder.ins().brif(is_over, over, &[], next, &[]);
        self.continue_in(over);
        let location = self.location(span);
        let more = self.call_back("more", &[left, location]);
        self.builder.def_var(self.fuel, more);
        self.builder.ins().jump(next, &[]);
        self.continue_in(next);
    }

    pub(crate) fn constant(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I64, value)
    }

    /// Compares with a constant.
    pub(crate) fn compare(&mut self, how: IntCC, one: Value, other: i64) -> Value {
        let other = self.constant(other);
        self.builder.ins().icmp(how, one, other)
    }

    pub(crate) fn block(&mut self) -> Block {
        self.builder.create_block()
    }

    /// Creates a block with a parameter.
    pub(crate) fn block_with(&mut self, r#type: Type) -> (Block, Value) {
        let block = self.builder.create_block();
        let value = self.builder.append_block_param(block, r#type);
        (block, value)
    }

    /// Continues in a block to which no more branches will be added.
    pub(crate) fn start(&mut self, block: Block) {
        self.scope.latest.clear();
        self.continue_in(block);
    }

    /// Continues in such a block, where no predecessor has written to a register.
    pub(crate) fn continue_in(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.builder.seal_block(block);
    }

    /// Jumps to a block. The code after it is not reached by falling through.
    pub(crate) fn jump(&mut self, target: Block) {
        self.builder.ins().jump(target, &[]);
        self.begin_unreachable();
    }

    /// Jumps to a block with an argument.
    pub(crate) fn jump_with(&mut self, target: Block, value: Value) {
        self.builder.ins().jump(target, &[value.into()]);
        self.begin_unreachable();
    }

    /// Begins an unreachable block.
    pub(crate) fn begin_unreachable(&mut self) {
        let block = self.block();
        self.start(block);
    }
}

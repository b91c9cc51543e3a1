//! What makes a function of Cranelift of one of a program: blocks, stops, steps, and calls of what is outside.

use std::collections::HashMap;
use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, FuncRef, InstBuilder, MemFlagsData, StackSlot, Type, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};

use super::anchor::Anchor;
use super::facts::{Base, Facts};
use super::machine::{Machine, Numbers, RUNS};
use super::range::Range;
use crate::code::{Function, Register};
use crate::interpreter::DEPTH_MAX;
use crate::program::Program;
use crate::stop::{Stop, Why};
use crate::text::Span;

/// The functions that compiled code calls.
#[derive(Default)]
pub(super) struct Imports {
    /// Those of the program.
    pub(super) functions: Vec<FuncId>,
    /// The one that looks a region up.
    pub(super) find: Option<FuncId>,
    /// Those that are outside.
    pub(super) callbacks: HashMap<&'static str, FuncId>,
}

/// Places and stops, by the numbers that compiled code knows them by.
#[derive(Default)]
pub(super) struct Spots {
    numbers: Numbers,
    places: HashMap<Span, i64>,
    stops: HashMap<(u8, Span), i64>,
}

impl Spots {
    pub(super) fn place(&mut self, span: Span) -> i64 {
        let places = &mut self.numbers.places;
        *self.places.entry(span).or_insert_with(|| {
            places.push(span);
            places.len() as i64 - 1
        })
    }

    /// The number of a stop: one more than its index, for 0 is none.
    fn stop(&mut self, why: Why, span: Span) -> i64 {
        let stops = &mut self.numbers.stops;
        *self.stops.entry((why as u8, span)).or_insert_with(|| {
            stops.push(Stop { why, span });
            stops.len() as i64
        })
    }

    pub(super) fn numbers(self, objects: Vec<Vec<u64>>) -> Numbers {
        Numbers { objects, ..self.numbers }
    }
}

/// A value of the program.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    /// As it is; perhaps it is a pointer into the region of a base, which is checked where it is used.
    Plain(Value, Range, Option<usize>),
    /// 0 or 1, in 8 bits.
    Truth(Value),
    /// A pointer into the region of a base, by its offset there, of which the lowest 32 bits count.
    Pointer {
        base: usize,
        offset: Value,
        range: Range,
        /// The whole pointer, if it is there already.
        whole: Option<Value>,
    },
}

/// Where a register is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// It does not change.
    Fixed(Operand),
    /// It does: what it holds, and which base it may be made of, or is.
    Changing { variable: Variable, range: Range, hint: Option<usize>, is_certain: bool },
}

/// A function that is being translated: this one, or one that is made part of it.
pub(super) struct Scope {
    pub(super) registers: Vec<Place>,
    /// What has been written to registers since the last place to which control comes from several others.
    pub(super) latest: HashMap<Register, Operand>,
    /// How much deeper than the function around.
    pub(super) depth: u32,
    /// Where it goes with its answer; the function around returns.
    pub(super) answer: Option<Block>,
    /// Where `break` and `continue` go.
    pub(super) exits: Vec<(Block, Option<Block>)>,
}

/// Makes a function of Cranelift.
pub(super) struct Translator<'t, 'a> {
    pub(super) builder: FunctionBuilder<'t>,
    module: &'t mut JITModule,
    pub(super) program: &'a Program,
    pub(super) facts: &'a [Facts],
    imports: &'t Imports,
    pub(super) spots: &'t mut Spots,
    references: HashMap<FuncId, FuncRef>,
    pub(super) index: usize,
    pub(super) machine: Value,
    /// How deep the function is, itself counted.
    pub(super) depth: Value,
    /// How many steps are left.
    pub(super) steps: Variable,
    /// Where it goes when it is stopped.
    stopped: Block,
    /// Blocks that tell of a stop, by its number.
    stops: HashMap<i64, Block>,
    /// Pointers to the objects.
    pub(super) objects: Vec<Value>,
    pub(super) bases: Vec<Base>,
    pub(super) anchors: Vec<Anchor>,
    pub(super) scope: Scope,
    /// Room for the values of calls out of the program.
    pub(super) room: Option<(StackSlot, u32)>,
}

/// Memory that is certainly there.
pub(super) const FLAGS: MemFlagsData = MemFlagsData::new().with_trap_code(None);

impl<'t, 'a> Translator<'t, 'a> {
    pub(super) fn new(
        mut builder: FunctionBuilder<'t>,
        module: &'t mut JITModule,
        program: &'a Program,
        facts: &'a [Facts],
        imports: &'t Imports,
        spots: &'t mut Spots,
        index: usize,
    ) -> Translator<'t, 'a> {
        let first = builder.create_block();
        builder.append_block_params_for_function_params(first);
        builder.switch_to_block(first);
        builder.seal_block(first);
        let [machine, left, depth] = [0, 1, 2].map(|number| builder.block_params(first)[number]);
        let steps = builder.declare_var(types::I64);
        builder.def_var(steps, left);
        let stopped = builder.create_block();
        builder.set_cold_block(stopped);
        let scope = Scope { registers: Vec::new(), latest: HashMap::new(), depth: 0, answer: None, exits: Vec::new() };
        Translator {
            builder,
            module,
            program,
            facts,
            imports,
            spots,
            references: HashMap::new(),
            index,
            machine,
            depth,
            steps,
            stopped,
            stops: HashMap::new(),
            objects: Vec::new(),
            bases: facts[index].bases.clone(),
            anchors: Vec::new(),
            scope,
            room: None,
        }
    }

    pub(super) fn function(&self) -> &'a Function {
        &self.program.functions[self.index]
    }

    /// Makes the function.
    pub(super) fn translate(mut self) {
        let function = self.function();
        if function.depth > DEPTH_MAX {
            // Whoever calls it stops before: nothing comes here.
            self.builder.ins().jump(self.stopped, &[]);
        } else {
            self.begin();
            self.statements(&function.body);
            let nothing = self.constant(0);
            self.answer(nothing);
        }
        self.finish();
    }

    fn begin(&mut self) {
        let function = self.function();
        let given: Vec<Value> =
            self.builder.block_params(self.builder.current_block().expect("the first block")).to_vec();
        let values = &given[given.len() - function.parameters..];
        if !function.objects.is_empty() {
            self.enter(given[3]);
        }
        let operands: Vec<Operand> = values.iter().map(|value| Operand::Plain(*value, Range::FULL, None)).collect();
        self.anchor(values);
        self.scope.registers = self.places(self.index, &operands);
    }

    fn finish(mut self) {
        let stops: Vec<(i64, Block)> = self.stops.drain().collect();
        for (number, block) in stops {
            self.builder.switch_to_block(block);
            self.builder.seal_block(block);
            let number = self.constant(number);
            self.builder.ins().store(FLAGS, number, self.machine, offset_of!(Machine<'_, '_>, stopped) as i32);
            self.builder.ins().jump(self.stopped, &[]);
        }
        self.builder.switch_to_block(self.stopped);
        self.builder.seal_block(self.stopped);
        let (answer, steps) = (self.constant(0), self.constant(-1));
        self.builder.ins().return_(&[answer, steps]);
        let configuration = self.module.target_config();
        self.builder.finalize(configuration);
    }

    /// A function that can be called from here.
    fn reference(&mut self, id: FuncId) -> FuncRef {
        let (module, builder) = (&mut self.module, &mut self.builder);
        *self.references.entry(id).or_insert_with(|| module.declare_func_in_func(id, builder.func))
    }

    /// A function of the program.
    pub(super) fn program_function(&mut self, index: usize) -> FuncRef {
        self.reference(self.imports.functions[index])
    }

    /// The function that looks a region up.
    pub(super) fn find_function(&mut self) -> FuncRef {
        self.reference(self.imports.find.expect("it is made first"))
    }

    /// Asks what is outside: the function returns if that stops the run.
    pub(super) fn ask(&mut self, name: &'static str, values: &[Value]) -> Value {
        let callback = self.reference(self.imports.callbacks[name]);
        let mut all = vec![self.machine];
        all.extend_from_slice(values);
        let call = self.builder.ins().call(callback, &all);
        let answer = self.builder.inst_results(call)[0];
        let at = offset_of!(Machine<'_, '_>, stopped) as i32;
        let state = self.builder.ins().load(types::I64, FLAGS, self.machine, at);
        let runs = self.constant(RUNS as i64);
        let is_stopped = self.builder.ins().icmp(IntCC::NotEqual, state, runs);
        self.leave_if(is_stopped);
        answer
    }

    /// Asks what is outside to stop the run. What follows is never reached.
    pub(super) fn end_with(&mut self, name: &'static str, values: &[Value]) {
        let callback = self.reference(self.imports.callbacks[name]);
        let mut all = vec![self.machine];
        all.extend_from_slice(values);
        self.builder.ins().call(callback, &all);
        self.builder.ins().jump(self.stopped, &[]);
    }

    /// Returns, stopped, if this holds.
    pub(super) fn leave_if(&mut self, condition: Value) {
        let stopped = self.stopped;
        self.unless(condition, stopped);
    }

    /// Goes there if this holds, and on otherwise.
    fn unless(&mut self, condition: Value, there: Block) {
        let next = self.builder.create_block();
        self.builder.ins().brif(condition, there, &[], next, &[]);
        self.builder.switch_to_block(next);
        self.builder.seal_block(next);
    }

    fn stop_block(&mut self, why: Why, span: Span) -> Block {
        let number = self.spots.stop(why, span);
        let builder = &mut self.builder;
        *self.stops.entry(number).or_insert_with(|| {
            let block = builder.create_block();
            builder.set_cold_block(block);
            block
        })
    }

    /// Stops the run if this holds.
    pub(super) fn stop_if(&mut self, condition: Value, why: Why, span: Span) {
        let block = self.stop_block(why, span);
        self.unless(condition, block);
    }

    /// Stops the run. What follows is never reached.
    pub(super) fn stop(&mut self, why: Why, span: Span) {
        let block = self.stop_block(why, span);
        self.jump(block);
    }

    /// Takes so many steps, or stops the run if they are not left. Now and then the clock is looked at.
    pub(super) fn step(&mut self, weight: u32, span: Span) {
        let steps = self.builder.use_var(self.steps);
        let taken = self.constant(weight.into());
        let left = self.builder.ins().isub(steps, taken);
        self.builder.def_var(self.steps, left);
        let is_over = self.compare(IntCC::SignedLessThan, left, 0);
        let (over, next) = (self.block(), self.block());
        self.builder.set_cold_block(over);
        self.builder.ins().brif(is_over, over, &[], next, &[]);
        self.go_on(over);
        let place = self.place(span);
        let more = self.ask("more", &[left, place]);
        self.builder.def_var(self.steps, more);
        self.builder.ins().jump(next, &[]);
        self.go_on(next);
    }

    pub(super) fn constant(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I64, value)
    }

    /// A comparison with a constant.
    pub(super) fn compare(&mut self, how: IntCC, one: Value, other: i64) -> Value {
        let other = self.constant(other);
        self.builder.ins().icmp(how, one, other)
    }

    pub(super) fn block(&mut self) -> Block {
        self.builder.create_block()
    }

    /// A block to which others go with a value.
    pub(super) fn block_with(&mut self, r#type: Type) -> (Block, Value) {
        let block = self.builder.create_block();
        let value = self.builder.append_block_param(block, r#type);
        (block, value)
    }

    /// Goes on in a block to which nothing will come any more.
    pub(super) fn start(&mut self, block: Block) {
        self.scope.latest.clear();
        self.go_on(block);
    }

    /// The same, where no register has been written to on any of the ways there.
    pub(super) fn go_on(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.builder.seal_block(block);
    }

    /// Goes there. What follows is not reached by falling through.
    pub(super) fn jump(&mut self, there: Block) {
        self.builder.ins().jump(there, &[]);
        self.unreached();
    }

    /// Goes there with a value.
    pub(super) fn jump_with(&mut self, there: Block, value: Value) {
        self.builder.ins().jump(there, &[value.into()]);
        self.unreached();
    }

    /// Begins a block that nothing comes to.
    pub(super) fn unreached(&mut self) {
        let block = self.block();
        self.start(block);
    }
}

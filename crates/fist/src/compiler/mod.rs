//! The compiled tier: machine code for the functions of a program, made by Cranelift when it is mounted.
//!
//! What it does is what the [interpreter](crate::interpreter) does: the same results, the same stops at the same places, the
//! same counting of steps and depth. Registers become registers of the machine, small functions become part of those that
//! call them, and loops that make bytes of bytes do sixteen at a time. A pointer's region is looked up once, at the beginning
//! of a function, where the pointer is a parameter, an object or data; what is left in loops is a comparison of the offset
//! with the bounds. The machine code decides no more than that an access is certainly valid: whatever that comparison does not
//! allow is given to the functions of [`crate::memory`] that the interpreter uses, which do it or tell why the run stops.
//! What reads or writes sixteen bytes at a time is made in one place, `guard`, which believes nothing of what was found of a loop.
//! Behind every call out of the program, and of a function that makes one, the regions are looked up anew, for they may be
//! gone: so nothing that answers such calls can make an access reach what is not there.

mod access;
mod anchor;
mod calls;
mod error;
mod facts;
mod guard;
mod integers;
mod lanes;
mod machine;
mod range;
mod raw;
mod rounds;
mod statements;
mod strips;
mod translator;
mod values;
mod vectors;

use std::fmt;
use std::ops::Range;

use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module};

use crate::interpreter::{DEPTH_MAX, Outside, STEPS_MAX};
use crate::memory::Memory;
use crate::meter::Steps;
use crate::program::Program;
use crate::stop::{Stop, Why};
use crate::target::ByteOrder;
use crate::text::Span;
pub use error::CompileError;
use facts::Facts;
use machine::{Machine, Numbers};
use translator::{Imports, Spots, Translator};

/// Most bytes of the stack that compiled functions take at a time, however they call each other.
const STACK_BYTES_MAX: u64 = 1 << 20;

/// The machine code of a program's functions. Any number of threads can run it at a time.
pub struct Compiled {
    code: raw::Code,
    numbers: Numbers,
    functions: Vec<Known>,
}

/// What is known of a function when it is run.
struct Known {
    parameters: usize,
    depth: u32,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Compiled").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

impl Compiled {
    /// Compiles all functions of a program.
    ///
    /// # Errors
    /// The machine is one that no code can be made for, a function is not whole (which no checked description's is), or needs
    /// too much of the stack.
    pub fn new(program: &Program) -> Result<Compiled, CompileError> {
        Compiled::of(program, 0..program.functions.len())
    }

    /// Compiles these functions of a program, as those of one level, and those only: they call no others.
    ///
    /// # Errors
    /// Those of [`Compiled::new`].
    pub fn of(program: &Program, functions: Range<usize>) -> Result<Compiled, CompileError> {
        if program.target.byte_order != ByteOrder::HOST {
            return Err(CompileError::general("the program was prepared for another machine"));
        }
        Compiled::by_facts(program, &facts::all(program)?, &functions)
    }

    /// Compiles functions of a program, of which this is known.
    fn by_facts(program: &Program, facts: &[Facts], wanted: &Range<usize>) -> Result<Compiled, CompileError> {
        let mut compiler = Compiler::new(program, facts)?;
        compiler.find()?;
        let mut entries = Vec::new();
        for index in 0..program.functions.len() {
            entries.push(if wanted.contains(&index) { compiler.function(index)? } else { None });
        }
        let Compiler { mut module, spots, .. } = compiler;
        module.finalize_definitions().map_err(CompileError::general)?;
        let objects = program.functions.iter().map(|function| function.objects.clone()).collect();
        let functions = program.functions.iter();
        Ok(Compiled {
            code: raw::Code::new(module, &entries),
            numbers: spots.numbers(objects),
            functions: functions.map(|one| Known { parameters: one.parameters, depth: one.depth }).collect(),
        })
    }

    /// Runs a function with these values: as [`crate::interpreter::run`] does. The program is the one that was compiled.
    ///
    /// # Errors
    /// Why it stopped, and where.
    ///
    /// # Panics
    /// As whoever answers the calls of the program does: a panic passes through.
    pub fn run(
        &self,
        program: &Program,
        memory: &mut Memory<'_>,
        outside: &mut dyn Outside,
        function: usize,
        values: &[i64],
    ) -> Result<i64, Stop> {
        debug_assert_eq!(program.functions.len(), self.functions.len(), "the program that was compiled");
        let Known { parameters, depth } = self.functions[function];
        if depth > DEPTH_MAX {
            return Err(Stop { why: Why::TooDeep, span: Span::default() });
        }
        let mut machine = Machine::new(&self.numbers, memory, outside);
        if values.len() >= parameters {
            self.code.run(function, &mut machine, values);
        } else {
            // As in the interpreter, what is not given is 0.
            let mut all = values.to_vec();
            all.resize(parameters, 0);
            self.code.run(function, &mut machine, &all);
        }
        machine.finish()
    }
}

/// What compiles the functions of a program, one by one.
struct Compiler<'a> {
    program: &'a Program,
    facts: &'a [Facts],
    module: JITModule,
    imports: Imports,
    spots: Spots,
    context: cranelift_codegen::Context,
    builder: FunctionBuilderContext,
}

fn module() -> Result<JITModule, CompileError> {
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", "speed"),
        ("use_colocated_libcalls", "false"),
        ("is_pic", "false"),
        // A frame that is larger than the guard page does not step over it.
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ] {
        flags.set(name, value).map_err(CompileError::general)?;
    }
    let isa = cranelift_native::builder().map_err(CompileError::general)?;
    let isa = isa.finish(settings::Flags::new(flags)).map_err(CompileError::general)?;
    if isa.pointer_type() != types::I64 || cfg!(target_endian = "big") {
        return Err(CompileError::general("addresses have 64 bits, the lowest first"));
    }
    let mut builder = JITBuilder::with_isa(isa, cranelift_module::default_libcall_names());
    for (name, address, _) in raw::callbacks() {
        builder.symbol(name, address);
    }
    Ok(JITModule::new(builder))
}

/// A signature of so many values, all integers of 64 bits.
fn signature(module: &JITModule, parameters: usize, answers: usize) -> Signature {
    let mut signature = module.make_signature();
    signature.params = vec![AbiParam::new(types::I64); parameters];
    signature.returns = vec![AbiParam::new(types::I64); answers];
    signature
}

impl<'a> Compiler<'a> {
    fn new(program: &'a Program, facts: &'a [Facts]) -> Result<Compiler<'a>, CompileError> {
        let mut module = module()?;
        let mut imports = Imports::default();
        for (name, _, values) in raw::callbacks() {
            let signature = signature(&module, values + 1, 1);
            let id = module.declare_function(name, Linkage::Import, &signature).map_err(CompileError::general)?;
            imports.callbacks.insert(name, id);
        }
        for function in &program.functions {
            let has_objects = !function.objects.is_empty();
            let signature = signature(&module, 3 + usize::from(has_objects) + function.parameters, 2);
            imports.functions.push(module.declare_anonymous_function(&signature).map_err(CompileError::general)?);
        }
        let context = module.make_context();
        let (spots, builder) = (Spots::default(), FunctionBuilderContext::new());
        Ok(Compiler { program, facts, module, imports, spots, context, builder })
    }

    /// Makes the function that looks a region up.
    fn find(&mut self) -> Result<(), CompileError> {
        let signature = signature(&self.module, 2, 2);
        let id = self.module.declare_anonymous_function(&signature).map_err(CompileError::general)?;
        self.context.func.signature = signature;
        let builder = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        access::make_find(builder, self.module.target_config());
        self.module.define_function(id, &mut self.context).map_err(CompileError::general)?;
        self.module.clear_context(&mut self.context);
        self.imports.find = Some(id);
        Ok(())
    }

    /// Compiles a function, and one to enter it by. There is none for one that is too deep to be ever run.
    fn function(&mut self, index: usize) -> Result<Option<(FuncId, usize)>, CompileError> {
        let function = &self.program.functions[index];
        let id = self.imports.functions[index];
        self.context.func.signature = self.module.declarations().get_function_decl(id).signature.clone();
        let builder = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        let (module, imports, spots) = (&mut self.module, &self.imports, &mut self.spots);
        Translator::new(builder, module, self.program, self.facts, imports, spots, index).translate();
        self.define(id, index)?;
        if function.depth > DEPTH_MAX {
            return Ok(None);
        }
        let entry = self.entry(index)?;
        Ok(Some((entry, function.parameters)))
    }

    fn define(&mut self, id: FuncId, index: usize) -> Result<(), CompileError> {
        let function = &self.program.functions[index];
        let wrong = |what: &dyn fmt::Display| CompileError::new(&function.name, what);
        self.module.define_function(id, &mut self.context).map_err(|error| wrong(&error))?;
        let code = self.context.compiled_code();
        let frame = code.and_then(|code| code.buffer.frame_layout()).map_or(0, |frame| frame.frame_to_fp_offset);
        // Besides the frame itself: what is passed on the stack, the return address, and registers that are kept.
        let bytes = u64::from(frame) + 8 * (function.parameters as u64 + 16);
        if bytes * u64::from(DEPTH_MAX / function.depth.clamp(1, DEPTH_MAX)) > STACK_BYTES_MAX {
            return Err(wrong(&"it needs too much of the stack"));
        }
        self.module.clear_context(&mut self.context);
        Ok(())
    }

    /// What a function is entered by: its values are in memory, and so is what it answers.
    fn entry(&mut self, index: usize) -> Result<FuncId, CompileError> {
        let function = &self.program.functions[index];
        let wrong = |error: &dyn fmt::Display| CompileError::new(&function.name, error);
        let entry = signature(&self.module, 2, 0);
        let id = self.module.declare_anonymous_function(&entry).map_err(|error| wrong(&error))?;
        self.context.func.signature = entry;
        let mut builder = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        let called = self.module.declare_func_in_func(self.imports.functions[index], builder.func);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let (machine, given) = (builder.block_params(block)[0], builder.block_params(block)[1]);
        // The call itself takes the first steps.
        let steps = builder.ins().iconst(types::I64, Steps::new(STEPS_MAX).1 as i64 - i64::from(function.weight));
        let depth = builder.ins().iconst(types::I64, i64::from(function.depth));
        let mut values = vec![machine, steps, depth];
        if !function.objects.is_empty() {
            let place = self.spots.place(Span::default());
            values.push(builder.ins().iconst(types::I64, place));
        }
        let flags = MemFlagsData::trusted();
        for parameter in 0..function.parameters {
            values.push(builder.ins().load(types::I64, flags, given, parameter as i32 * 8));
        }
        let call = builder.ins().call(called, &values);
        let answer = builder.inst_results(call)[0];
        builder.ins().store(flags, answer, machine, std::mem::offset_of!(Machine<'_, '_>, answer) as i32);
        builder.ins().return_(&[]);
        builder.finalize(self.module.target_config());
        self.define(id, index)?;
        Ok(id)
    }
}

//! The interpreter: executes code directly. It defines the semantics of a FiST program.

use crate::arithmetic::{compare, compute};
use crate::code::{Expression as E, Function, Statement as S};
use crate::memory::{self, Frame, Memory};
use crate::meter::Fuel;
use crate::program::Program;
use crate::text::Span;
use crate::trap::{Trap, TrapKind};

/// Fuel of a run: maximum number of loop iterations and calls, some tenths of a second.
pub const MAX_FUEL: u64 = 5_000_000;
/// Maximum nesting depth of functions that call each other: see [`Function::depth`].
pub const MAX_CALL_DEPTH: u32 = 600;

/// The handler of a program's intrinsic and host calls.
pub trait CallHandler {
    /// Executes the call with this index and these arguments.
    ///
    /// # Errors
    /// The reason why the run traps.
    fn call(&mut self, memory: &mut Memory<'_>, site: usize, values: &[i64]) -> Result<i64, TrapKind>;
}

/// Runs a function with these arguments.
///
/// # Errors
/// The trap kind and its location.
pub fn run(
    program: &Program,
    memory: &mut Memory<'_>,
    handler: &mut dyn CallHandler,
    function: usize,
    values: &[i64],
) -> Result<i64, Trap> {
    memory.set_order(program.target.byte_order);
    let (fuel, left) = Fuel::new(MAX_FUEL);
    let mut interpreter =
        Interpreter { program, memory, handler, registers: values.to_vec(), base: 0, left, fuel, depth: 0 };
    interpreter.invoke(function, 0, Span::default())
}

struct Interpreter<'r, 'm> {
    program: &'r Program,
    memory: &'r mut Memory<'m>,
    handler: &'r mut dyn CallHandler,
    /// Registers of all active functions, the innermost function's last.
    registers: Vec<i64>,
    base: usize,
    /// Fuel left until the next clock check, and the fuel after that.
    left: u64,
    fuel: Fuel,
    depth: u32,
}

/// Where execution continues after a statement.
enum Flow {
    Next,
    Break,
    Continue,
    Return(i64),
}

impl Interpreter<'_, '_> {
    /// Invokes a function whose arguments are in the registers from `base` on.
    fn invoke(&mut self, function: usize, base: usize, span: Span) -> Result<i64, Trap> {
        let program = self.program;
        let function: &Function = &program.functions[function];
        let trap = |kind| Trap { kind, span };
        if self.depth + function.depth > MAX_CALL_DEPTH {
            return Err(trap(TrapKind::CallDepth));
        }
        self.consume_fuel(function.weight, span)?;
        self.depth += function.depth;
        let frame = self.memory.enter(&function.objects).map_err(trap)?;
        let before = std::mem::replace(&mut self.base, base);
        self.registers.resize(base + function.registers, 0);
        let result = self.statements(&function.body, frame);
        self.registers.truncate(base);
        self.base = before;
        self.memory.leave(frame);
        self.depth -= function.depth;
        match result? {
            Flow::Return(value) => Ok(value),
            _ => Ok(0),
        }
    }

    #[inline]
    fn consume_fuel(&mut self, weight: u32, span: Span) -> Result<(), Trap> {
        let weight = u64::from(weight);
        if weight > self.left {
            return self.refill(weight - self.left, span);
        }
        self.left -= weight;
        Ok(())
    }

    /// Refills the fuel up to the next clock check; `missing` is the number of units already overspent.
    #[cold]
    fn refill(&mut self, overspent: u64, span: Span) -> Result<(), Trap> {
        self.left = self.fuel.refill(overspent, self.memory.meter()).map_err(|kind| Trap { kind, span })?;
        Ok(())
    }

    fn statements(&mut self, statements: &[S], frame: Frame) -> Result<Flow, Trap> {
        for statement in statements {
            match self.statement(statement, frame)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &S, frame: Frame) -> Result<Flow, Trap> {
        match statement {
            S::Expression(value) => {
                self.value(value, frame)?;
            }
            S::Clear(object) => {
                let pointer = self.memory.object(frame, *object);
                if let Ok(bytes) = self.memory.rest_mut(pointer) {
                    bytes.fill(0);
                }
            }
            S::Block(statements) => return self.statements(statements, frame),
            S::If(condition, then, otherwise) => {
                let chosen = if self.value(condition, frame)? != 0 { then } else { otherwise };
                return self.statement(chosen, frame);
            }
            S::Loop { before, body, step, after, weight, span } => {
                let parts = (before.as_ref(), &**body, step.as_ref(), after.as_ref());
                return self.run_loop(parts, (*weight, *span), frame);
            }
            S::Switch { value, cases, otherwise, parts } => {
                let value = self.value(value, frame)?;
                let chosen = cases.binary_search_by_key(&value, |(case, _)| *case);
                let first = chosen.map_or(*otherwise, |index| cases[index].1);
                for part in parts.get(first..).unwrap_or_default() {
                    match self.statements(part, frame)? {
                        Flow::Next => {}
                        Flow::Break => return Ok(Flow::Next),
                        other => return Ok(other),
                    }
                }
            }
            S::Break => return Ok(Flow::Break),
            S::Continue => return Ok(Flow::Continue),
            S::Return(None) => return Ok(Flow::Return(0)),
            S::Return(Some(value)) => return Ok(Flow::Return(self.value(value, frame)?)),
        }
        Ok(Flow::Next)
    }

    fn run_loop(
        &mut self,
        (before, body, step, after): (Option<&E>, &S, Option<&E>, Option<&E>),
        (weight, span): (u32, Span),
        frame: Frame,
    ) -> Result<Flow, Trap> {
        loop {
            if let Some(before) = before
                && self.value(before, frame)? == 0
            {
                return Ok(Flow::Next);
            }
            match self.statement(body, frame)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                other => return Ok(other),
            }
            if let Some(step) = step {
                self.value(step, frame)?;
            }
            if let Some(after) = after
                && self.value(after, frame)? == 0
            {
                return Ok(Flow::Next);
            }
            self.consume_fuel(weight, span)?;
        }
    }

    fn value(&mut self, expression: &E, frame: Frame) -> Result<i64, Trap> {
        Ok(match expression {
            E::Constant(value) => *value,
            E::Register(register) => self.registers[self.base + register],
            E::Object(object) => self.memory.object(frame, *object),
            E::Data(index) => memory::data_pointer(*index),
            E::Load(pointer, integer, span) => {
                let pointer = self.value(pointer, frame)?;
                self.memory.load(pointer, *integer).map_err(|kind| Trap { kind, span: *span })?
            }
            E::Element { pointer, index, size, length, span } => {
                let pointer = self.value(pointer, frame)?;
                let index = self.value(index, frame)?;
                if length.is_some_and(|length| index as u64 >= length) {
                    return Err(Trap { kind: TrapKind::IndexOutOfRange, span: *span });
                }
                memory::element(pointer, index, *size).map_err(|kind| Trap { kind, span: *span })?
            }
            E::Field(pointer, bytes) => {
                let pointer = self.value(pointer, frame)?;
                memory::offset(pointer, *bytes as i64).map_err(|kind| Trap { kind, span: Span::default() })?
            }
            E::Distance(one, other, size, span) => {
                let (one, other) = (self.value(one, frame)?, self.value(other, frame)?);
                memory::distance(one, other).map_err(|kind| Trap { kind, span: *span })? / *size as i64
            }
            E::Convert(value, integer) => integer.wrap(self.value(value, frame)?),
            E::Not(value) => (self.value(value, frame)? == 0).into(),
            E::Binary(operator, integer, one, other, span) => {
                let (one, other) = (self.value(one, frame)?, self.value(other, frame)?);
                let trap = Trap { kind: TrapKind::DivisionByZero, span: *span };
                compute(*operator, *integer, one, other).ok_or(trap)?
            }
            E::Compare(comparison, integer, one, other) => {
                let (one, other) = (self.value(one, frame)?, self.value(other, frame)?);
                compare(*comparison, *integer, one, other).into()
            }
            E::And(one, other) => (self.value(one, frame)? != 0 && self.value(other, frame)? != 0).into(),
            E::Or(one, other) => (self.value(one, frame)? != 0 || self.value(other, frame)? != 0).into(),
            E::Conditional(condition, then, otherwise) => {
                let chosen = if self.value(condition, frame)? != 0 { then } else { otherwise };
                self.value(chosen, frame)?
            }
            E::Sequence(one, other) => {
                self.value(one, frame)?;
                self.value(other, frame)?
            }
            E::Set(register, value) => {
                let value = self.value(value, frame)?;
                self.registers[self.base + register] = value;
                value
            }
            E::Store(pointer, integer, value, span) => {
                let pointer = self.value(pointer, frame)?;
                let value = self.value(value, frame)?;
                self.memory.store(pointer, *integer, value).map_err(|kind| Trap { kind, span: *span })?;
                value
            }
            E::Copy(to, from, bytes, span) => {
                let (to, from) = (self.value(to, frame)?, self.value(from, frame)?);
                self.memory.copy(to, from, *bytes as usize).map_err(|kind| Trap { kind, span: *span })?;
                to
            }
            E::Call(function, values, span) => return self.call(*function, values, *span, frame),
            E::Site(site, values, span) => return self.site(*site, values, *span, frame),
        })
    }

    fn call(&mut self, function: usize, values: &[E], span: Span, frame: Frame) -> Result<i64, Trap> {
        let mut arguments = [0; 16];
        let mut heap_buffer = Vec::new();
        let arguments = self.values(values, &mut arguments, &mut heap_buffer, frame)?;
        // After the registers of the calling function.
        let base = self.registers.len();
        self.registers.extend_from_slice(arguments);
        let result = self.invoke(function, base, span);
        self.registers.truncate(base);
        result
    }

    fn site(&mut self, site: usize, values: &[E], span: Span, frame: Frame) -> Result<i64, Trap> {
        let mut arguments = [0; 16];
        let mut heap_buffer = Vec::new();
        let arguments = self.values(values, &mut arguments, &mut heap_buffer, frame)?;
        self.handler.call(self.memory, site, arguments).map_err(|kind| Trap { kind, span })
    }

    /// Evaluates expressions, into a buffer on the stack if there are few.
    fn values<'v>(
        &mut self,
        values: &[E],
        inline_buffer: &'v mut [i64; 16],
        heap_buffer: &'v mut Vec<i64>,
        frame: Frame,
    ) -> Result<&'v [i64], Trap> {
        if values.len() <= inline_buffer.len() {
            for (slot, value) in inline_buffer.iter_mut().zip(values) {
                *slot = self.value(value, frame)?;
            }
            return Ok(&inline_buffer[..values.len()]);
        }
        for value in values {
            heap_buffer.push(self.value(value, frame)?);
        }
        Ok(heap_buffer)
    }
}

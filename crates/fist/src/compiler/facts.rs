//! Analysis of a program's functions before compilation: their validity, value ranges of registers, pointer provenance,
//! which of them make host calls, and which are inlined.

use std::collections::HashSet;

use super::error::CompileError;
use super::range::Range;
use crate::code::{Expression as E, Function, Integer, Register, Statement as S};
use crate::interpreter::DEPTH_MAX;
use crate::program::Program;
use crate::visit::{each_expression, each_statement};

/// Functions with more expressions than this are not inlined.
const INLINED_MAX: usize = 80;
/// Maximum code size of a function to be compiled: the code generator takes more than twice as long for twice as much.
const FUNCTION_MAX: usize = 32 << 10;
/// Maximum code size of all functions together.
const PROGRAM_MAX: usize = 64 << 10;
/// Code size of a base lookup, in expressions.
const LOOKUP: usize = 16;
/// Maximum number of iterations of the register analysis: it converges earlier in all but contrived functions.
const ROUNDS_MAX: usize = 16;
/// Maximum size in bytes of an object whose zeroing is unrolled.
pub(crate) const CLEARED_MAX: u64 = 64;
/// Elements and fields farther apart than this are out of reach of any pointer.
const SIZE_MAX: u64 = 1 << 31;

/// The base that a pointer is derived from: its region is looked up once, at function entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    /// The initial value of a parameter.
    Parameter(Register),
    /// An object of the function.
    Object(usize),
    /// Data of the program.
    Data(usize),
}

/// The provenance of a value used as a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// A null pointer.
    Nothing,
    /// A pointer derived from this base.
    One(Base),
    /// Unknown provenance.
    Unknown,
}

impl Root {
    fn or(self, other: Root) -> Root {
        match (self, other) {
            (Root::Nothing, one) | (one, Root::Nothing) => one,
            (one, other) if one == other => one,
            _ => Root::Unknown,
        }
    }

    /// Returns the base, if there is one.
    pub(crate) fn base(self) -> Option<Base> {
        match self {
            Root::One(base) => Some(base),
            _ => None,
        }
    }
}

/// Facts about a function.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Registers that are written to; other parameters keep the value of their argument.
    pub(crate) is_set: Vec<bool>,
    /// Value ranges of the registers.
    pub(crate) ranges: Vec<Range>,
    /// Provenance of the registers, as pointers.
    pub(crate) roots: Vec<Root>,
    /// Parameters that are written to, but only with pointers derived from their own root.
    pub(crate) is_certain: Vec<bool>,
    /// Bases of the memory accesses, in the order in which they are found.
    pub(crate) bases: Vec<Base>,
    reached: HashSet<Base>,
    /// Range of the return value.
    pub(crate) answer: Range,
    /// It makes host calls, directly or through a callee.
    pub(crate) calls_out: bool,
    /// It is inlined into its callers.
    pub(crate) is_inlined: bool,
    /// Number of expressions, including those of inlined functions.
    size: usize,
    /// Number of statements, including those of inlined functions.
    statements: usize,
    /// Its callees, once per call.
    calls: Vec<usize>,
    /// Number of lookup points after calls: host calls, and calls of functions that make any.
    lookups: usize,
}

/// Analyzes all functions.
///
/// # Errors
/// A function that is malformed.
pub(crate) fn all(program: &Program) -> Result<Vec<Facts>, CompileError> {
    let mut all = Vec::with_capacity(program.functions.len());
    for function in &program.functions {
        whole(function, program).map_err(|what| CompileError::new(&function.name, what))?;
        all.push(of_one(function));
    }
    calls_out(&mut all);
    settle_all(program, &mut all);
    let mut whole = 0_usize;
    for (function, facts) in program.functions.iter().zip(&all) {
        let made = facts.made();
        whole = whole.saturating_add(made);
        if made > FUNCTION_MAX || whole > PROGRAM_MAX {
            return Err(CompileError::new(&function.name, "it is too large to be compiled in short time"));
        }
    }
    Ok(all)
}

/// Checks that everything that a function refers to exists. A function too deep ever to run is not examined.
fn whole(function: &Function, program: &Program) -> Result<(), &'static str> {
    let mut wrong = None;
    let mut claim = |holds: bool, what: &'static str| {
        if !holds {
            wrong.get_or_insert(what);
        }
    };
    claim(function.depth > 0, "a function takes some room");
    claim(function.parameters <= function.registers, "parameters are registers");
    if function.depth > DEPTH_MAX {
        return wrong.map_or(Ok(()), Err);
    }
    let integer = |integer: &Integer| matches!(integer.bytes, 1 | 2 | 4 | 8);
    each_expression(function, &mut |one| match one {
        E::Register(register) | E::Set(register, _) => {
            claim(*register < function.registers, "there is no such register")
        }
        E::Object(object) => claim(*object < function.objects.len(), "there is no such object"),
        E::Load(_, of, _) | E::Convert(_, of) | E::Binary(_, of, ..) | E::Compare(_, of, ..) | E::Store(_, of, ..) => {
            claim(integer(of), "there is no integer of this size");
        }
        E::Element { size, .. } => claim(*size <= SIZE_MAX, "an element is too large"),
        E::Distance(.., size, _) => claim((1..=SIZE_MAX).contains(size), "an element is too large, or nothing"),
        E::Call(index, values, _) => match program.functions.get(*index) {
            Some(called) => claim(called.parameters == values.len(), "a function is given more or less than it takes"),
            None => claim(false, "there is no such function"),
        },
        _ => {}
    });
    each_statement(&function.body, &mut |statement| {
        if let S::Clear(object) = statement {
            claim(*object < function.objects.len(), "there is no such object");
        }
    });
    wrong.map_or(Ok(()), Err)
}

fn of_one(function: &Function) -> Facts {
    let mut facts = Facts {
        is_set: vec![false; function.registers],
        ranges: vec![Range::exactly(0); function.registers],
        roots: vec![Root::Nothing; function.registers],
        is_certain: vec![false; function.registers],
        bases: Vec::new(),
        reached: HashSet::new(),
        answer: Range::exactly(0),
        calls_out: false,
        is_inlined: false,
        size: 0,
        statements: 0,
        calls: Vec::new(),
        lookups: 0,
    };
    if function.depth > DEPTH_MAX {
        return facts;
    }
    for register in 0..function.parameters {
        facts.ranges[register] = Range::FULL;
        facts.roots[register] = Root::One(Base::Parameter(register));
    }
    let mut sets = Vec::new();
    each_expression(function, &mut |one| {
        facts.size += 1;
        match one {
            E::Set(register, value) => {
                facts.is_set[*register] = true;
                sets.push((*register, &**value));
            }
            E::Call(index, ..) => facts.calls.push(*index),
            E::Site(..) => {
                facts.calls_out = true;
                facts.lookups += 1;
            }
            _ => {}
        }
    });
    facts.follow(&sets);
    facts.make_certain(function.parameters, &sets);
    each_statement(&function.body, &mut |statement| {
        facts.statements += 1;
        if let S::Return(Some(value)) = statement {
            facts.answer = facts.answer.or(facts.range(value));
        }
    });
    facts
}

impl Facts {
    /// Estimates the generated code: its own, and a lookup of every base after every call that needs one.
    fn made(&self) -> usize {
        let looked_up = self.bases.len().saturating_mul(self.lookups.saturating_add(1)).saturating_mul(LOOKUP);
        self.size.saturating_add(self.statements).saturating_add(looked_up).saturating_add(self.is_set.len())
    }

    /// Computes ranges and provenance of registers from everything that is written to them.
    fn follow(&mut self, sets: &[(Register, &E)]) {
        for round in 0..ROUNDS_MAX {
            let mut is_same = true;
            for (register, value) in sets {
                let range = if round < 8 { self.ranges[*register].or(self.range(value)) } else { Range::FULL };
                let root = self.roots[*register].or(self.root(value));
                is_same &= (range, root) == (self.ranges[*register], self.roots[*register]);
                (self.ranges[*register], self.roots[*register]) = (range, root);
            }
            if is_same {
                return;
            }
        }
        for (register, _) in sets {
            (self.ranges[*register], self.roots[*register]) = (Range::FULL, Root::Unknown);
        }
    }

    /// Determines the parameters that only move within their target.
    fn make_certain(&mut self, parameters: usize, sets: &[(Register, &E)]) {
        for register in 0..parameters {
            self.is_certain[register] = self.roots[register].base().is_some();
        }
        for _ in 0..ROUNDS_MAX {
            let mut is_same = true;
            for (register, value) in sets {
                if self.is_certain[*register] && self.certain_root(value) != self.roots[*register].base() {
                    self.is_certain[*register] = false;
                    is_same = false;
                }
            }
            if is_same {
                return;
            }
        }
        sets.iter().for_each(|(register, _)| self.is_certain[*register] = false);
    }

    /// The known base of a pointer that cannot be null.
    fn certain_root(&self, pointer: &E) -> Option<Base> {
        match pointer {
            E::Register(register) if self.is_certain[*register] => self.roots[*register].base(),
            E::Object(object) => Some(Base::Object(*object)),
            E::Data(index) => Some(Base::Data(*index)),
            E::Element { pointer, .. } | E::Field(pointer, _) => self.certain_root(pointer),
            E::Sequence(_, value) | E::Set(_, value) => self.certain_root(value),
            _ => None,
        }
    }

    /// The range of a value, derived from its type.
    fn range(&self, value: &E) -> Range {
        match value {
            E::Constant(value) => Range::exactly(*value),
            E::Register(register) => self.ranges[*register],
            E::Load(_, integer, _) | E::Convert(_, integer) | E::Binary(_, integer, ..) => Range::of(*integer),
            E::Compare(..) | E::And(..) | E::Or(..) | E::Not(_) => Range::TRUTH,
            E::Conditional(_, one, other) => self.range(one).or(self.range(other)),
            E::Sequence(_, value) | E::Set(_, value) | E::Store(_, _, value, _) => self.range(value),
            _ => Range::FULL,
        }
    }

    /// The provenance of a pointer.
    fn root(&self, pointer: &E) -> Root {
        match pointer {
            E::Constant(0) => Root::Nothing,
            E::Register(register) => self.roots[*register],
            E::Object(object) => Root::One(Base::Object(*object)),
            E::Data(index) => Root::One(Base::Data(*index)),
            E::Element { pointer, .. } | E::Field(pointer, _) | E::Copy(pointer, ..) => self.root(pointer),
            E::Sequence(_, value) | E::Set(_, value) | E::Store(_, _, value, _) => self.root(value),
            E::Conditional(_, one, other) => self.root(one).or(self.root(other)),
            _ => Root::Unknown,
        }
    }

    fn reach(&mut self, root: Root) {
        if let Some(base) = root.base()
            && self.reached.insert(base)
        {
            self.bases.push(base);
        }
    }
}

/// Propagates host calls from callees to callers.
fn calls_out(all: &mut [Facts]) {
    let mut callers = vec![Vec::new(); all.len()];
    for (index, facts) in all.iter().enumerate() {
        facts.calls.iter().for_each(|called| callers[*called].push(index));
    }
    let mut found: Vec<usize> = (0..all.len()).filter(|index| all[*index].calls_out).collect();
    while let Some(called) = found.pop() {
        for caller in std::mem::take(&mut callers[called]) {
            if !std::mem::replace(&mut all[caller].calls_out, true) {
                found.push(caller);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unseen,
    Begun,
    Settled,
}

/// Settles all functions, callees before callers. Call chains may be arbitrarily long, so the pending functions are
/// kept on an explicit stack.
fn settle_all(program: &Program, all: &mut [Facts]) {
    let mut states = vec![State::Unseen; all.len()];
    for first in 0..all.len() {
        let mut begun = vec![(first, 0)];
        while let Some((index, next)) = begun.pop() {
            if states[index] == State::Settled || (states[index] == State::Begun && next == 0) {
                continue;
            }
            states[index] = State::Begun;
            match all[index].calls.get(next) {
                Some(called) => begun.extend([(index, next + 1), (*called, 0)]),
                None => {
                    settle(index, program, all, &states);
                    states[index] = State::Settled;
                }
            }
        }
    }
}

/// Decides whether a function is inlined, and collects its bases, after its callees are settled.
fn settle(index: usize, program: &Program, all: &mut [Facts], states: &[State]) {
    let function = &program.functions[index];
    if function.depth > DEPTH_MAX {
        return;
    }
    reach(index, function, all, states);
    let is_part = |called: &usize| states[*called] == State::Settled && all[*called].is_inlined;
    let calls = &all[index].calls;
    let has_parts_only = calls.iter().all(is_part);
    let parts = || calls.iter().filter(|called| is_part(called)).map(|called| &all[*called]);
    let size = all[index].size + parts().map(|part| part.size).sum::<usize>();
    let statements = all[index].statements + parts().map(|part| part.statements).sum::<usize>();
    let called_out = calls.iter().filter(|called| all[**called].calls_out).count();
    let mut loops = false;
    each_statement(&function.body, &mut |statement| loops |= matches!(statement, S::Loop { .. } | S::Switch { .. }));
    let facts = &mut all[index];
    (facts.size, facts.statements, facts.lookups) = (size, statements, facts.lookups + called_out);
    facts.is_inlined =
        has_parts_only && size <= INLINED_MAX && !loops && !facts.calls_out && function.objects.is_empty();
}

/// Collects the bases of a function's memory accesses.
fn reach(index: usize, function: &Function, all: &mut [Facts], states: &[State]) {
    let mut roots = Vec::new();
    let facts = &all[index];
    each_expression(function, &mut |one| match one {
        E::Load(pointer, ..) | E::Store(pointer, ..) => roots.push(facts.root(pointer)),
        E::Call(called, values, _) if states[*called] == State::Settled && all[*called].is_inlined => {
            roots.extend(all[*called].bases.iter().map(|base| match base {
                Base::Parameter(parameter) => facts.root(&values[*parameter]),
                base => Root::One(*base),
            }));
        }
        _ => {}
    });
    each_statement(&function.body, &mut |statement| {
        if let S::Clear(object) = statement
            && function.objects[*object] <= CLEARED_MAX
        {
            roots.push(Root::One(Base::Object(*object)));
        }
    });
    roots.into_iter().for_each(|root| all[index].reach(root));
}

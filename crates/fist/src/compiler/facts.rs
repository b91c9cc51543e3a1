//! Analysis of a program's functions before compilation: their validity, value ranges of registers, pointer provenance,
//! which of them make host calls, and which are inlined.

use std::collections::HashSet;

use super::error::CompileError;
use super::range::Range;
use crate::code::{Expression as E, Function, Integer, Register, Statement as S};
use crate::interpreter::MAX_CALL_DEPTH;
use crate::program::Program;
use crate::visit::{each_expression, each_statement};

/// Functions with more expressions than this are not inlined.
const MAX_INLINED_EXPRESSIONS: usize = 80;
/// Maximum code size of a function to be compiled: the code generator takes more than twice as long for twice as much.
const MAX_FUNCTION_SIZE: usize = 32 << 10;
/// Maximum code size of all functions together.
const MAX_PROGRAM_SIZE: usize = 64 << 10;
/// Code size of a base lookup, in expressions.
const BASE_LOOKUP_SIZE: usize = 16;
/// Maximum number of iterations of the register analysis: it converges earlier in all but contrived functions.
const MAX_ITERATIONS: usize = 16;
/// Maximum size in bytes of an object whose zeroing is unrolled.
pub(crate) const MAX_UNROLLED_CLEAR_BYTES: u64 = 64;
/// Elements and fields farther apart than this are out of reach of any pointer.
const MAX_ELEMENT_BYTES: u64 = 1 << 31;

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
pub(crate) enum Provenance {
    /// A null pointer.
    Null,
    /// A pointer derived from this base.
    Base(Base),
    /// Unknown provenance.
    Unknown,
}

impl Provenance {
    fn or(self, other: Provenance) -> Provenance {
        match (self, other) {
            (Provenance::Null, one) | (one, Provenance::Null) => one,
            (one, other) if one == other => one,
            _ => Provenance::Unknown,
        }
    }

    /// Returns the base, if there is one.
    pub(crate) fn base(self) -> Option<Base> {
        match self {
            Provenance::Base(base) => Some(base),
            _ => None,
        }
    }
}

/// Facts about a function.
#[derive(Clone, Debug)]
pub(crate) struct FunctionFacts {
    /// Registers that are written to; other parameters keep the value of their argument.
    pub(crate) is_set: Vec<bool>,
    /// Value ranges of the registers.
    pub(crate) ranges: Vec<Range>,
    /// Provenance of the registers, as pointers.
    pub(crate) provenances: Vec<Provenance>,
    /// Parameters that are written to, but only with pointers derived from their own root.
    pub(crate) is_stable: Vec<bool>,
    /// Bases of the memory accesses, in the order in which they are found.
    pub(crate) bases: Vec<Base>,
    known_bases: HashSet<Base>,
    /// Range of the return value.
    pub(crate) return_range: Range,
    /// It makes host calls, directly or through a callee.
    pub(crate) makes_host_calls: bool,
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
pub(crate) fn analyze(program: &Program) -> Result<Vec<FunctionFacts>, CompileError> {
    let mut all = Vec::with_capacity(program.functions.len());
    for function in &program.functions {
        validate(function, program).map_err(|what| CompileError::new(&function.name, what))?;
        all.push(analyze_function(function));
    }
    propagate_host_calls(&mut all);
    analyze_call_graph(program, &mut all);
    let mut total_size = 0_usize;
    for (function, facts) in program.functions.iter().zip(&all) {
        let size = facts.estimated_code_size();
        total_size = total_size.saturating_add(size);
        if size > MAX_FUNCTION_SIZE || total_size > MAX_PROGRAM_SIZE {
            return Err(CompileError::new(&function.name, "it is too large to be compiled in short time"));
        }
    }
    Ok(all)
}

/// Checks that everything that a function refers to exists. A function too deep ever to run is not examined.
fn validate(function: &Function, program: &Program) -> Result<(), &'static str> {
    let mut first_error = None;
    let mut require = |holds: bool, what: &'static str| {
        if !holds {
            first_error.get_or_insert(what);
        }
    };
    require(function.depth > 0, "a function takes some room");
    require(function.parameters <= function.registers, "parameters are registers");
    if function.depth > MAX_CALL_DEPTH {
        return first_error.map_or(Ok(()), Err);
    }
    let integer = |integer: &Integer| matches!(integer.bytes, 1 | 2 | 4 | 8);
    each_expression(function, &mut |one| match one {
        E::Register(register) | E::Set(register, _) => {
            require(*register < function.registers, "there is no such register")
        }
        E::Object(object) => require(*object < function.objects.len(), "there is no such object"),
        E::Load(_, of, _) | E::Convert(_, of) | E::Binary(_, of, ..) | E::Compare(_, of, ..) | E::Store(_, of, ..) => {
            require(integer(of), "there is no integer of this size");
        }
        E::Element { size, .. } => require(*size <= MAX_ELEMENT_BYTES, "an element is too large"),
        E::Distance(.., size, _) => {
            require((1..=MAX_ELEMENT_BYTES).contains(size), "an element is too large, or nothing")
        }
        E::Call(index, values, _) => match program.functions.get(*index) {
            Some(called) => {
                require(called.parameters == values.len(), "a function is given more or less than it takes")
            }
            None => require(false, "there is no such function"),
        },
        _ => {}
    });
    each_statement(&function.body, &mut |statement| {
        if let S::Clear(object) = statement {
            require(*object < function.objects.len(), "there is no such object");
        }
    });
    first_error.map_or(Ok(()), Err)
}

fn analyze_function(function: &Function) -> FunctionFacts {
    let mut facts = FunctionFacts {
        is_set: vec![false; function.registers],
        ranges: vec![Range::exactly(0); function.registers],
        provenances: vec![Provenance::Null; function.registers],
        is_stable: vec![false; function.registers],
        bases: Vec::new(),
        known_bases: HashSet::new(),
        return_range: Range::exactly(0),
        makes_host_calls: false,
        is_inlined: false,
        size: 0,
        statements: 0,
        calls: Vec::new(),
        lookups: 0,
    };
    if function.depth > MAX_CALL_DEPTH {
        return facts;
    }
    for register in 0..function.parameters {
        facts.ranges[register] = Range::FULL;
        facts.provenances[register] = Provenance::Base(Base::Parameter(register));
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
                facts.makes_host_calls = true;
                facts.lookups += 1;
            }
            _ => {}
        }
    });
    facts.propagate(&sets);
    facts.find_stable_parameters(function.parameters, &sets);
    each_statement(&function.body, &mut |statement| {
        facts.statements += 1;
        if let S::Return(Some(value)) = statement {
            facts.return_range = facts.return_range.or(facts.range(value));
        }
    });
    facts
}

impl FunctionFacts {
    /// Estimates the generated code: its own, and a lookup of every base after every call that needs one.
    fn estimated_code_size(&self) -> usize {
        let looked_up =
            self.bases.len().saturating_mul(self.lookups.saturating_add(1)).saturating_mul(BASE_LOOKUP_SIZE);
        self.size.saturating_add(self.statements).saturating_add(looked_up).saturating_add(self.is_set.len())
    }

    /// Computes ranges and provenance of registers from everything that is written to them.
    fn propagate(&mut self, sets: &[(Register, &E)]) {
        for iteration in 0..MAX_ITERATIONS {
            let mut is_unchanged = true;
            for (register, value) in sets {
                let range = if iteration < 8 { self.ranges[*register].or(self.range(value)) } else { Range::FULL };
                let provenance = self.provenances[*register].or(self.provenance(value));
                is_unchanged &= (range, provenance) == (self.ranges[*register], self.provenances[*register]);
                (self.ranges[*register], self.provenances[*register]) = (range, provenance);
            }
            if is_unchanged {
                return;
            }
        }
        for (register, _) in sets {
            (self.ranges[*register], self.provenances[*register]) = (Range::FULL, Provenance::Unknown);
        }
    }

    /// Determines the parameters that only move within their target.
    fn find_stable_parameters(&mut self, parameters: usize, sets: &[(Register, &E)]) {
        for register in 0..parameters {
            self.is_stable[register] = self.provenances[register].base().is_some();
        }
        for _ in 0..MAX_ITERATIONS {
            let mut is_unchanged = true;
            for (register, value) in sets {
                if self.is_stable[*register] && self.stable_base(value) != self.provenances[*register].base() {
                    self.is_stable[*register] = false;
                    is_unchanged = false;
                }
            }
            if is_unchanged {
                return;
            }
        }
        sets.iter().for_each(|(register, _)| self.is_stable[*register] = false);
    }

    /// The known base of a pointer that cannot be null.
    fn stable_base(&self, pointer: &E) -> Option<Base> {
        match pointer {
            E::Register(register) if self.is_stable[*register] => self.provenances[*register].base(),
            E::Object(object) => Some(Base::Object(*object)),
            E::Data(index) => Some(Base::Data(*index)),
            E::Element { pointer, .. } | E::Field(pointer, _) => self.stable_base(pointer),
            E::Sequence(_, value) | E::Set(_, value) => self.stable_base(value),
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
    fn provenance(&self, pointer: &E) -> Provenance {
        match pointer {
            E::Constant(0) => Provenance::Null,
            E::Register(register) => self.provenances[*register],
            E::Object(object) => Provenance::Base(Base::Object(*object)),
            E::Data(index) => Provenance::Base(Base::Data(*index)),
            E::Element { pointer, .. } | E::Field(pointer, _) | E::Copy(pointer, ..) => self.provenance(pointer),
            E::Sequence(_, value) | E::Set(_, value) | E::Store(_, _, value, _) => self.provenance(value),
            E::Conditional(_, one, other) => self.provenance(one).or(self.provenance(other)),
            _ => Provenance::Unknown,
        }
    }

    fn add_base(&mut self, provenance: Provenance) {
        if let Some(base) = provenance.base()
            && self.known_bases.insert(base)
        {
            self.bases.push(base);
        }
    }
}

/// Propagates host calls from callees to callers.
fn propagate_host_calls(all: &mut [FunctionFacts]) {
    let mut callers = vec![Vec::new(); all.len()];
    for (index, facts) in all.iter().enumerate() {
        facts.calls.iter().for_each(|called| callers[*called].push(index));
    }
    let mut found: Vec<usize> = (0..all.len()).filter(|index| all[*index].makes_host_calls).collect();
    while let Some(called) = found.pop() {
        for caller in std::mem::take(&mut callers[called]) {
            if !std::mem::replace(&mut all[caller].makes_host_calls, true) {
                found.push(caller);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VisitState {
    Unvisited,
    InProgress,
    Done,
}

/// Analyzes all functions, callees before callers. Call chains may be arbitrarily long, so the pending functions are
/// kept on an explicit stack.
fn analyze_call_graph(program: &Program, all: &mut [FunctionFacts]) {
    let mut states = vec![VisitState::Unvisited; all.len()];
    for first in 0..all.len() {
        let mut pending = vec![(first, 0)];
        while let Some((index, next)) = pending.pop() {
            if states[index] == VisitState::Done || (states[index] == VisitState::InProgress && next == 0) {
                continue;
            }
            states[index] = VisitState::InProgress;
            match all[index].calls.get(next) {
                Some(called) => pending.extend([(index, next + 1), (*called, 0)]),
                None => {
                    decide_inlining(index, program, all, &states);
                    states[index] = VisitState::Done;
                }
            }
        }
    }
}

/// Decides whether a function is inlined, and collects its bases, after its callees have been analyzed.
fn decide_inlining(index: usize, program: &Program, all: &mut [FunctionFacts], states: &[VisitState]) {
    let function = &program.functions[index];
    if function.depth > MAX_CALL_DEPTH {
        return;
    }
    collect_bases(index, function, all, states);
    let is_inlined_callee = |called: &usize| states[*called] == VisitState::Done && all[*called].is_inlined;
    let calls = &all[index].calls;
    let calls_only_inlined = calls.iter().all(is_inlined_callee);
    let inlined_callees = || calls.iter().filter(|called| is_inlined_callee(called)).map(|called| &all[*called]);
    let size = all[index].size + inlined_callees().map(|callee| callee.size).sum::<usize>();
    let statements = all[index].statements + inlined_callees().map(|callee| callee.statements).sum::<usize>();
    let host_call_sites = calls.iter().filter(|called| all[**called].makes_host_calls).count();
    let mut has_loops = false;
    each_statement(&function.body, &mut |statement| {
        has_loops |= matches!(statement, S::Loop { .. } | S::Switch { .. })
    });
    let facts = &mut all[index];
    (facts.size, facts.statements, facts.lookups) = (size, statements, facts.lookups + host_call_sites);
    facts.is_inlined = calls_only_inlined
        && size <= MAX_INLINED_EXPRESSIONS
        && !has_loops
        && !facts.makes_host_calls
        && function.objects.is_empty();
}

/// Collects the bases of a function's memory accesses.
fn collect_bases(index: usize, function: &Function, all: &mut [FunctionFacts], states: &[VisitState]) {
    let mut provenances = Vec::new();
    let facts = &all[index];
    each_expression(function, &mut |one| match one {
        E::Load(pointer, ..) | E::Store(pointer, ..) => provenances.push(facts.provenance(pointer)),
        E::Call(called, values, _) if states[*called] == VisitState::Done && all[*called].is_inlined => {
            provenances.extend(all[*called].bases.iter().map(|base| match base {
                Base::Parameter(parameter) => facts.provenance(&values[*parameter]),
                base => Provenance::Base(*base),
            }));
        }
        _ => {}
    });
    each_statement(&function.body, &mut |statement| {
        if let S::Clear(object) = statement
            && function.objects[*object] <= MAX_UNROLLED_CLEAR_BYTES
        {
            provenances.push(Provenance::Base(Base::Object(*object)));
        }
    });
    provenances.into_iter().for_each(|provenance| all[index].add_base(provenance));
}

//! Warnings about code that works but costs or reveals more than its author may think: look-ups that the kernel does
//! not cache, a lock held across requests to the lower layer, and constant initialization vectors.

use std::collections::HashMap;

use super::checker::{Checker, Symbol};
use crate::builtins::{self, BuiltIn};
use crate::diagnostic::Code;
use crate::idle;
use crate::operations::{OPERATIONS, Operation, Part};
use crate::program::Program;
use crate::reach;
use crate::text::Span;
use crate::tree::{Block, Expression, ExpressionKind as E, Initializer, UnaryOperator as U, Variable};
use crate::walk;

/// Operations that change nothing, but belong to changes: a lock across them is intended.
const PART_OF_CHANGES: [&str; 4] = ["open", "flush", "fsync", "release"];
/// Maximum number of operation names in a message.
const MAX_NAMED_OPERATIONS: usize = 4;

/// Uses of a variable in a function.
#[derive(Clone, Copy, Debug, Default)]
struct VariableUse {
    /// Number of occurrences.
    occurrences: u32,
    /// Number of occurrences that only receive or pass a known value.
    constant_occurrences: u32,
}

/// The role of a variable that should have a different value each time.
struct InitializationVector<'a> {
    name: &'a str,
    span: Span,
    function: BuiltIn,
}

impl Checker {
    /// Warns about rules that cost more than is apparent.
    pub(crate) fn warn_about_costs(&mut self, program: &Program) {
        self.warn_about_lookups(program);
        self.warn_about_held_lock(program);
    }

    /// Warns about post rules of look-up that see successful ones: for them alone the kernel caches no names.
    fn warn_about_lookups(&mut self, program: &Program) {
        let Some(lookup) = Operation::by_name("lookup") else { return };
        let rules = program.topmost().rules.iter().filter(|rule| rule.operations.contains(lookup));
        if rules.clone().any(|rule| rule.part != Part::PostCall) {
            return;
        }
        let seeing = rules.filter(|rule| !idle::without_error(program, rule.function));
        let spans: Vec<Span> = seeing.map(|rule| rule.span).collect();
        for span in spans {
            let what = "this rule sees each look-up: the kernel keeps no names, and every path is slower";
            self.warn(Code::SeesLookups, what, span).remedy =
                Some("if only those that fail are meant, begin it with `if (fistLastErr() == 0) return;`".into());
        }
    }

    /// Warns about `operations serial`, which makes all wait while one request to the lower layer is running, even if
    /// nothing is changed.
    fn warn_about_held_lock(&mut self, program: &Program) {
        if !self.level.is_serial {
            return;
        }
        // A replace rule that neither performs the operation nor makes any other request to the lower layer blocks
        // nobody.
        let sleeps =
            |function| reach::sites(program, [function]).into_iter().any(|site| program.sites[site].effects().sleeps);
        let changes_nothing = |operation: &Operation| {
            let kind = operation.kind();
            kind.changes == Some(false) && !PART_OF_CHANGES.contains(&kind.name)
        };
        let waiting = self.level.rules.iter().filter(|rule| rule.part != Part::Call || sleeps(rule.function));
        let rules = waiting.map(|rule| {
            let all = rule.operations.iter().filter(|operation| usize::from(operation.0) < OPERATIONS.len());
            let names: Vec<_> = all.filter(changes_nothing).map(|operation| operation.kind().name).collect();
            (rule.span, names)
        });
        let held: Vec<_> = rules.filter(|(_, names)| !names.is_empty()).collect();
        for (span, names) in held {
            let more = names.len().saturating_sub(MAX_NAMED_OPERATIONS);
            let mut listed = names[..names.len() - more].join(", ");
            if more > 0 {
                listed.push_str(&format!(" and {more} more"));
            }
            let what = format!("`operations serial` holds the lock of the mount while this is done below: {listed}");
            self.warn(Code::HeldLock, what, span).remedy = Some(
                "one that is slow keeps all others waiting: leave it out of the rule, or `operations serial` away"
                    .into(),
            );
        }
    }

    /// Finds initialization vectors of a function that are the same each time.
    pub(crate) fn warn_about_constant_vectors(&mut self, body: &Block, parameters: &[Variable]) {
        let mut declared: HashMap<&str, bool> = HashMap::new();
        walk::variables(body, &mut |variable| {
            if let Some(name) = &variable.name {
                let is_constant_value = variable.value.as_ref().is_none_or(|value| self.is_constant_initializer(value));
                declared.entry(&name.value).and_modify(|all| *all &= is_constant_value).or_insert(is_constant_value);
            }
        });
        for name in parameters.iter().filter_map(|parameter| parameter.name.as_ref()) {
            declared.insert(&name.value, false);
        }
        let mut uses: HashMap<&str, VariableUse> = HashMap::new();
        let mut vectors = Vec::new();
        walk::block(body, &mut |expression| self.note_use(expression, &declared, &mut uses, &mut vectors));
        let fixed: Vec<_> = vectors
            .iter()
            .filter(|vector| match declared.get(vector.name) {
                Some(is_constant_value) => {
                    *is_constant_value
                        && uses.get(vector.name).is_some_and(|one| one.occurrences == one.constant_occurrences)
                }
                None => self.is_fixed_data(vector.name),
            })
            .map(|vector| (vector.span, vector.function))
            .collect();
        for (span, function) in fixed {
            let (what, remedy) = match function {
                BuiltIn::Seal => (
                    "this nonce is always the same: of what is sealed with it twice, much can be read without the key",
                    "fill it with fistRandom, and keep it beside the data",
                ),
                _ => (
                    "this initialization vector is always the same: data that begin alike are enciphered alike, which shows",
                    "make it of what differs, as the number of the page, or use fistSeal",
                ),
            };
            self.warn(Code::FixedVector, what, span).remedy = Some(remedy.into());
        }
    }

    /// Records how an expression uses variables.
    fn note_use<'a>(
        &self,
        expression: &'a Expression,
        declared: &HashMap<&str, bool>,
        uses: &mut HashMap<&'a str, VariableUse>,
        vectors: &mut Vec<InitializationVector<'a>>,
    ) {
        let mut note_constant = |of: &'a Expression| {
            if let Some(name) = walk::root(lvalue_of(of)) {
                uses.entry(name).or_default().constant_occurrences += 1;
            }
        };
        match &expression.kind {
            E::Name(name) => uses.entry(name).or_default().occurrences += 1,
            E::Assign(None, target, value) if self.is_constant_value(value) => note_constant(target),
            E::SizeOfValue(of) => note_constant(of),
            E::Call { function, arguments } => {
                let function = builtins::function(&function.value).map(|signature| signature.function);
                match (function, &arguments[..]) {
                    (Some(BuiltIn::MemoryCopy), [to, from, ..]) if self.is_fixed(from, declared) => note_constant(to),
                    (Some(BuiltIn::MemorySet), [to, value, ..]) if self.is_constant_value(value) => note_constant(to),
                    (Some(BuiltIn::Unseal), [_, _, _, _, nonce, ..]) => note_constant(nonce),
                    (Some(function @ (BuiltIn::Seal | BuiltIn::BlowfishCfb)), [_, _, _, _, vector, ..]) => {
                        note_constant(vector);
                        let name = walk::root(lvalue_of(vector));
                        if let Some(name) = name.filter(|_| !is_deciphering(function, arguments)) {
                            vectors.push(InitializationVector { name, span: vector.span, function });
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Returns whether a value is known at check time.
    fn is_constant_value(&self, value: &Expression) -> bool {
        match &value.kind {
            E::Integer { .. } | E::Character(_) => true,
            E::Name(name) => matches!(self.symbols.get(name), Some((Symbol::Constant(..), _))),
            E::Unary(U::Plus | U::Negate | U::Not | U::Complement, _) | E::Binary(..) | E::Cast { .. } => {
                let mut all = true;
                value.kind.parts(&mut |part| all &= self.is_constant_value(part));
                all
            }
            _ => false,
        }
    }

    fn is_constant_initializer(&self, value: &Initializer) -> bool {
        match value {
            Initializer::Value(Expression { kind: E::Text(_), .. }) => true,
            Initializer::Value(value) => self.is_constant_value(value),
            Initializer::List(values, _) => values.iter().all(|value| self.is_constant_initializer(value)),
        }
    }

    /// Returns whether bytes come from a string, or from data that nothing writes to.
    fn is_fixed(&self, from: &Expression, declared: &HashMap<&str, bool>) -> bool {
        match (&from.kind, walk::root(lvalue_of(from))) {
            (E::Text(_), _) => true,
            (_, Some(name)) => !declared.contains_key(name) && self.is_fixed_data(name),
            _ => false,
        }
    }

    fn is_fixed_data(&self, name: &str) -> bool {
        matches!(self.symbols.get(name), Some((Symbol::Data(_), _))) && !self.written.contains(name)
    }
}

/// The operand of an address expression, or the expression itself.
fn lvalue_of(of: &Expression) -> &Expression {
    match &of.kind {
        E::Unary(U::AddressOf, of) => of,
        _ => of,
    }
}

fn is_deciphering(function: BuiltIn, arguments: &[Expression]) -> bool {
    let is_none = |direction: &Expression| match &direction.kind {
        E::Name(name) => name == "BF_DECRYPT",
        E::Integer { value, .. } => *value == 0,
        _ => false,
    };
    function == BuiltIn::BlowfishCfb && arguments.last().is_some_and(is_none)
}

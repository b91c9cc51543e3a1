//! Rules and filters: what fires when, and rules that can never take effect.

use std::rc::Rc;

use super::checker::{Checker, Symbol};
use super::functions::address_taken;
use super::scope::Scope;
use crate::diagnostic::Code;
use crate::ir::{Integer, Type};
use crate::limits::MAX_RULES;
use crate::operations::{self, OPERATIONS, Operation, Operations, Part};
use crate::program::Rule;
use crate::text::Span;
use crate::tree::{self, Access, Expression, ExpressionKind as E};
use crate::walk;

impl Checker {
    /// Checks the bodies of all rules.
    pub(crate) fn define_rules(&mut self, rules: &[tree::Rule]) {
        for rule in rules.iter().take(MAX_RULES) {
            let _ = self.define_rule(rule);
        }
        if let Some(rule) = rules.get(MAX_RULES) {
            let _ = self.check_count(rules.len(), MAX_RULES, "rules", rule.span);
        }
        self.warn_about_shadowed_rules();
    }

    fn define_rule(&mut self, rule: &tree::Rule) -> Option<()> {
        let set = operations::set(&rule.set.value)?;
        let Some(of_type) = operations::of_type(&rule.operation.value) else {
            let known = OPERATIONS.iter().map(|kind| kind.name).chain(["all", "data", "name"]);
            let near = super::expressions::nearest_name(&rule.operation.value, known);
            let what = format!("there is no operation `{}`", rule.operation.value);
            self.error(Code::UnknownOperation, what, rule.operation.span).remedy = Some(match near {
                Some(near) => format!("perhaps `{near}` is meant"),
                None => format!("there are {}", OPERATIONS.map(|kind| kind.name).join(", ")),
            });
            return None;
        };
        let operations = set.and(of_type);
        let part = match &rule.part {
            None => Part::Call,
            Some(part) => Part::by_name(&part.value)?,
        };
        let title_span = rule.set.span.to(rule.part.as_ref().map_or(rule.operation.span, |part| part.span));
        let ioctl = match &rule.ioctl {
            None => None,
            Some(name) => Some(self.ioctl_of(name)?),
        };
        if operations.is_empty() {
            let what = format!("`{}` is none of the {}: this rule never fires", rule.operation.value, rule.set.value);
            self.error(Code::NeverFires, what, title_span).remedy =
                Some(format!("write `%op:{}`", rule.operation.value));
        }
        self.warn_if_unreachable(operations, part, title_span);
        self.function = Scope {
            function: crate::ir::Function {
                comments: self.comments.before(rule.span),
                span: rule.span,
                ..crate::ir::Function::default()
            },
            operations: Some(operations),
            part: Some(part),
            address_taken: address_taken(&rule.body),
            ..Scope::default()
        };
        self.warn_about_permission_errors(rule, operations, part);
        let mut title = format!("%{}:{}", rule.set.value, rule.operation.value);
        for word in [&rule.ioctl, &rule.part].into_iter().flatten() {
            title.push(':');
            title.push_str(&word.value);
        }
        self.function.function.name = title.clone();
        let function = self.finish(Vec::new(), &rule.body);
        self.warn_about_constant_vectors(&rule.body, &[]);
        self.program.functions.push(function);
        let function = self.program.functions.len() - 1;
        self.level.rules.push(Rule { title, operations, ioctl, part, function, span: title_span });
        Some(())
    }

    fn ioctl_of(&mut self, name: &tree::Name) -> Option<usize> {
        let found = self.level.ioctls.iter().position(|ioctl| ioctl.name == name.value);
        if found.is_none() {
            let what = format!("no ioctl `{}` is declared", name.value);
            self.error(Code::UnknownName, what, name.span).remedy =
                Some(format!("declare `ioctl {} {{ … }};`", name.value));
        }
        found
    }

    /// Warns about rules that never fire: a read-only file system rejects changes before any rule is invoked.
    fn warn_if_unreachable(&mut self, operations: Operations, part: Part, span: Span) {
        let refused = match self.level.access {
            Some(Access::ReadOnly) => operations::set("writeops"),
            Some(Access::WriteOnly) => operations::of_type("read"),
            _ => None,
        };
        let Some(refused) = refused else { return };
        if part == Part::Call && !operations.is_empty() && operations.and(refused) == operations {
            self.warn(Code::NeverFires, "the access mode refuses these operations: this rule never fires", span)
                .remedy = Some("leave the rule away, or the access mode".into());
        }
    }

    /// Warns about a replace rule shadowed by a later one for the same operations: it is never invoked.
    fn warn_about_shadowed_rules(&mut self) {
        let rules = self.level.rules.clone();
        for (index, rule) in rules.iter().enumerate() {
            let mut others = rules[index + 1..].iter().filter(|other| {
                other.part == Part::Call
                    && other.ioctl == rule.ioctl
                    && other.operations.and(rule.operations) == rule.operations
            });
            let Some(other) = others.next_back().filter(|_| rule.part == Part::Call && !rule.operations.is_empty())
            else {
                continue;
            };
            let what = format!("`{}` never fires: `{}` takes its place", rule.title, other.title);
            self.warn(Code::NeverFires, what, rule.span)
                .and(other.span, "of several in the place of an operation the last fires");
        }
    }

    /// Warns about comparisons with `EPERM` after look-ups: Linux reports a denied search as EACCES.
    fn warn_about_permission_errors(&mut self, rule: &tree::Rule, operations: Operations, part: Part) {
        let looks_up = Operation::by_name("lookup").is_some_and(|lookup| operations.contains(lookup));
        if part != Part::PostCall || !looks_up {
            return;
        }
        let mut found = None;
        walk::block(&rule.body, &mut |expression| {
            if let E::Binary(tree::BinaryOperator::Equal, one, other) = &expression.kind {
                let is_error =
                    |of: &Expression| matches!(&of.kind, E::Call { function, .. } if function.value == "fistLastErr");
                let is_name = |of: &Expression| matches!(&of.kind, E::Name(name) if name == "EPERM");
                if is_error(one) && is_name(other) || is_error(other) && is_name(one) {
                    found = Some(expression.span);
                }
            }
        });
        if let Some(span) = found {
            self.warn(Code::PermissionError, "Linux answers EACCES, not EPERM, where a search is denied", span)
                .remedy = Some("write EACCES, or mount with the option `errno=EACCES:EPERM`".into());
        }
    }

    /// Finds the functions that encode and decode.
    pub(crate) fn find_filters(&mut self) {
        let filters = std::mem::take(&mut self.filters);
        self.level.filters.changes_size = filters.size.is_some();
        if let Some(span) = filters.data.or(filters.size) {
            self.level.filters.data = self.filter("data", span);
        }
        if let Some(span) = filters.name {
            self.level.filters.name = self.filter("name", span);
        }
        if let (Some(span), None) = (filters.size, filters.data) {
            let what = "`filter:size` is about data whose encoded form has another size";
            self.error(Code::MissingFilter, what, span).remedy = Some("declare `filter:data;` too".into());
        }
        self.warn_about_unused_filters(&filters);
    }

    /// Warns about functions that look like filters without a filter declaration.
    fn warn_about_unused_filters(&mut self, filters: &super::checker::Filters) {
        for (what, is_declared) in [("data", filters.data.is_some()), ("name", filters.name.is_some())] {
            let name = format!("{}_encode_{what}", self.level.name);
            if let (false, Some((Symbol::Function(index), _))) = (is_declared, self.symbols.get(&name)) {
                let span = self.signatures[*index].span;
                self.warn(Code::Useless, format!("`{name}` is never called"), span).remedy =
                    Some(format!("declare `filter:{what};`"));
            }
        }
    }

    fn filter(&mut self, what: &str, span: Span) -> Option<(usize, usize)> {
        let mut found = [None; 2];
        for (slot, direction) in found.iter_mut().zip(["encode", "decode"]) {
            let name = format!("{}_{direction}_{what}", self.level.name);
            let Some((Symbol::Function(index), _)) = self.symbols.get(&name) else {
                let problem = format!("`filter:{what}` needs a function `{name}`");
                let example = if what == "data" && self.level.filters.changes_size {
                    format!("int {name}(const char *in, int length, char *out, int room) {{ … }}")
                } else if what == "data" {
                    format!("int {name}(const page_t *in, page_t *out) {{ … return %pagesize; }}")
                } else {
                    format!("int {name}(const char *name, int length, char *out, int room) {{ … }}")
                };
                self.error(Code::MissingFilter, problem, span).remedy =
                    Some(format!("write {example} behind the rules"));
                continue;
            };
            let (index, signature) = (*index, Rc::clone(&self.signatures[*index]));
            *slot = self.is_filter(what, &signature).then_some(index);
            if slot.is_none() {
                let problem = format!("`{name}` is not given what a filter is");
                let changes_size = self.level.filters.changes_size;
                self.error(Code::MissingFilter, problem, signature.span).remedy = Some(
                    if what == "data" && changes_size {
                        "a filter that changes sizes is (const char *in, int length, char *out, int room), then perhaps \
                     (…, long number, int is_last)"
                        .into()
                    } else if what == "data" {
                        "a filter of data is (const page_t *in, page_t *out), then perhaps \
                     (…, int length, long page, int is_last)"
                            .into()
                    } else {
                        "a filter of names is (const char *name, int length, char *out, int room), or \
                     (const char *name, int length, char **out)"
                            .into()
                    },
                );
            }
        }
        found[0].zip(found[1])
    }

    fn is_filter(&self, what: &str, signature: &super::scope::Signature) -> bool {
        let is_bytes = |r#type: &Type| matches!(r#type, Type::Pointer { to, .. } if self.size(to) == Some(1));
        let is_pointers = |r#type: &Type| matches!(r#type, Type::Pointer { to, is_const: false } if is_bytes(to));
        let is_integer = |r#type: &Type| matches!(r#type, Type::Integer(Integer { bytes: 4 | 8, .. }));
        let answers = matches!(signature.result, Type::Integer(_));
        let fits = match (&signature.parameters[..], what) {
            ([from, length, to, room, rest @ ..], "data") if self.level.filters.changes_size => {
                let are_bytes = is_bytes(from) && is_bytes(to) && is_integer(length) && is_integer(room);
                are_bytes && rest.len() <= 2 && rest.iter().all(is_integer)
            }
            (_, "data") if self.level.filters.changes_size => false,
            ([from, to, rest @ ..], "data") => {
                is_bytes(from) && is_bytes(to) && rest.len() <= 3 && rest.iter().all(is_integer)
            }
            ([name, length, out, rest @ ..], _) => {
                let is_room = matches!(rest, [room] if is_integer(room)) && is_bytes(out);
                is_bytes(name) && is_integer(length) && (is_room || (rest.is_empty() && is_pointers(out)))
            }
            _ => false,
        };
        answers && fits
    }
}

//! Idle rules: those that do nothing when the operation succeeds, so a front end need not invoke them then.

use crate::arithmetic::compare;
use crate::builtins::BuiltIn;
use crate::code::{Expression as E, Operator, Site, Statement as S};
use crate::program::Program;

/// Returns whether a function has no observable effect if the operation has no error.
pub fn without_error(program: &Program, function: usize) -> bool {
    IdleAnalysis { program }.statements(&program.functions[function].body).is_some()
}

/// Evaluates a function as if `fistLastErr()` were 0. `None` means that it may have an effect or trap.
struct IdleAnalysis<'p> {
    program: &'p Program,
}

/// Whether the following statement is still reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    FallsThrough,
    Returns,
}

impl IdleAnalysis<'_> {
    fn statements(&self, statements: &[S]) -> Option<Flow> {
        for statement in statements {
            if self.statement(statement)? == Flow::Returns {
                return Some(Flow::Returns);
            }
        }
        Some(Flow::FallsThrough)
    }

    fn statement(&self, statement: &S) -> Option<Flow> {
        match statement {
            S::Expression(expression) => self.value(expression).map(|_| Flow::FallsThrough),
            S::Clear(_) => Some(Flow::FallsThrough),
            S::Block(statements) => self.statements(statements),
            S::If(condition, then, otherwise) => match self.value(condition)? {
                Some(0) => self.statement(otherwise),
                Some(_) => self.statement(then),
                None => {
                    let (one, other) = (self.statement(then)?, self.statement(otherwise)?);
                    Some(if one == other { one } else { Flow::FallsThrough })
                }
            },
            S::Return(value) => value.as_ref().map_or(Some(None), |value| self.value(value)).map(|_| Flow::Returns),
            S::Loop { .. } | S::Switch { .. } | S::Break | S::Continue => None,
        }
    }

    /// Evaluates an expression: `Some(Some(_))` if its value is known, `None` if it may have an effect.
    fn value(&self, expression: &E) -> Option<Option<i64>> {
        Some(match expression {
            E::Constant(value) => Some(*value),
            E::Register(_) | E::Object(_) | E::Data(_) => None,
            E::Set(_, value) => self.value(value)?,
            E::Convert(value, integer) => self.value(value)?.map(|value| integer.wrap(value)),
            E::Not(value) => self.value(value)?.map(|value| i64::from(value == 0)),
            E::Compare(comparison, integer, one, other) => match (self.value(one)?, self.value(other)?) {
                (Some(one), Some(other)) => Some(compare(*comparison, *integer, one, other).into()),
                _ => None,
            },
            E::And(one, other) => match self.value(one)? {
                Some(0) => Some(0),
                Some(_) => self.value(other)?.map(|value| i64::from(value != 0)),
                None => self.value(other)?.filter(|value| *value == 0),
            },
            E::Or(one, other) => match self.value(one)? {
                Some(0) => self.value(other)?.map(|value| i64::from(value != 0)),
                Some(_) => Some(1),
                None => self.value(other)?.filter(|value| *value != 0).map(|_| 1),
            },
            E::Conditional(condition, then, otherwise) => match self.value(condition)? {
                Some(0) => self.value(otherwise)?,
                Some(_) => self.value(then)?,
                None => {
                    let (one, other) = (self.value(then)?, self.value(otherwise)?);
                    one.filter(|_| one == other)
                }
            },
            E::Sequence(one, other) => {
                self.value(one)?;
                self.value(other)?
            }
            E::Binary(operator, _, one, other, _) => {
                if matches!(operator, Operator::Divide | Operator::Remainder) {
                    return None;
                }
                self.value(one)?;
                self.value(other)?;
                None
            }
            E::Site(site, values, _) => {
                for value in values {
                    self.value(value)?;
                }
                match &self.program.sites[*site] {
                    Site::BuiltIn(BuiltIn::LastError, _) => Some(0),
                    Site::Global(_) | Site::OperationValue(_) | Site::Attribute(..) | Site::Object(_) => None,
                    _ => return None,
                }
            }
            E::Load(..)
            | E::Element { .. }
            | E::Field(..)
            | E::Distance(..)
            | E::Store(..)
            | E::Copy(..)
            | E::Call(..) => {
                return None;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Loaded;

    fn is_idle(body: &str) -> bool {
        let text = format!("per_vfs {{ int n; }};\n%%\n%op:lookup:postcall {{ {body} }}\n");
        let program = Loaded::of("idle.fist", text).program.expect("nothing is wrong in it");
        without_error(&program, program.topmost().rules[0].function)
    }

    #[test]
    fn rules_that_return_without_an_error_are_idle() {
        for body in [
            "",
            "if (fistLastErr() == EACCES) fistPrintf(\"%d\", %uid);",
            "if ((fistLastErr() == EPERM || fistLastErr() == ENOENT) && $0.owner != %uid && %uid != 0) fistSetErr(EIO);",
            "if (fistLastErr() == 0) return; $vfs.n++;",
            "if (!fistLastErr()) return; fistSetErr(EIO);",
            "if (%uid != 0 && fistLastErr() > 0) { $vfs.n++; }",
            "int e = fistLastErr(); if (fistLastErr()) fistSetErr(ENOENT);",
        ] {
            assert!(is_idle(body), "{body}");
        }
    }

    #[test]
    fn others_are_not() {
        for body in [
            "$vfs.n++;",
            "fistSetErr(ENOENT);",
            "if (fistLastErr() != EACCES) fistSetErr(EIO);",
            "if (%uid != 0 || fistLastErr() > 0) $vfs.n++;",
            "if (%uid == 0) return; fistPrintf(\"x\");",
            "if (fistLastErr() == 0) { if (%uid == 7) return; $vfs.n = 1; }",
            "while (fistLastErr() == 0) fistPrintf(\"x\");",
            "int e = fistLastErr(); if (e) fistSetErr(ENOENT);",
            "if (%uid != 0 && fistLastErr() == 0) return; $vfs.n++;",
            "fistReturnErr(EIO);",
        ] {
            assert!(!is_idle(body), "{body}");
        }
    }
}

//! Printing of statements.

use super::Printer;
use super::names::Names;
use crate::ir::{Expression, Statement as S};

impl Printer<'_> {
    pub(crate) fn statements(&mut self, all: &[S], names: &Names<'_>) {
        for one in all {
            self.statement(one, names);
        }
    }

    /// Prints a statement in braces, after its header.
    fn braced(&mut self, begin: &str, one: &S, names: &Names<'_>) {
        self.line(format!("{begin} {{"));
        self.indent += 1;
        match one {
            S::Block(inner) => self.statements(inner, names),
            other => self.statement(other, names),
        }
        self.indent -= 1;
    }

    fn statement(&mut self, one: &S, names: &Names<'_>) {
        match one {
            S::Comment(text) => self.line(text),
            S::Expression(value) => self.line(format!("{};", self.expression(value, names))),
            S::Clear(object) => self.line(format!("clear {};", names.object(*object))),
            S::Block(inner) => {
                self.line("{");
                self.indent += 1;
                self.statements(inner, names);
                self.indent -= 1;
                self.line("}");
            }
            S::If(condition, then, otherwise) => {
                self.braced(&format!("if ({})", self.expression(condition, names)), then, names);
                if !matches!(&**otherwise, S::Block(nothing) if nothing.is_empty()) {
                    self.braced("} else", otherwise, names);
                }
                self.line("}");
            }
            S::Loop { before, body, step, after, .. } => {
                let text = |value: &Option<Expression>| {
                    value.as_ref().map(|value| self.expression(value, names)).unwrap_or_default()
                };
                let (before, step, after) = (text(before), text(step), text(after));
                match (after.is_empty(), step.is_empty()) {
                    (false, _) => self.braced("do", body, names),
                    (true, true) => self.braced(&format!("while ({before})"), body, names),
                    (true, false) => self.braced(&format!("for (; {before}; {step})"), body, names),
                }
                self.line(if after.is_empty() { "}".to_owned() } else { format!("}} while ({after});") });
            }
            S::Switch { value, cases, otherwise, parts, .. } => {
                self.line(format!("switch ({}) {{", self.expression(value, names)));
                for (index, part) in parts.iter().enumerate() {
                    for (case, _) in cases.iter().filter(|(_, part)| *part == index) {
                        self.line(format!("case {}:", self.expression(case, names)));
                    }
                    if *otherwise == index {
                        self.line("default:");
                    }
                    self.indent += 1;
                    self.statements(part, names);
                    self.indent -= 1;
                }
                self.line("}");
            }
            S::Break => self.line("break;"),
            S::Continue => self.line("continue;"),
            S::Return(None) => self.line("return;"),
            S::Return(Some(value)) => self.line(format!("return {};", self.expression(value, names))),
        }
    }
}

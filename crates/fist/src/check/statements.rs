//! Statements: control flow, and the variables of blocks.

use std::collections::HashSet;

use super::checker::{Checker, Understood, Wrong};
use super::scope::Local;
use crate::diagnostic::Code;
use crate::ir::{Expression as Made, Integer, Statement as Done, Type};
use crate::limits::OBJECT_BYTES_MAX;
use crate::text::Span;
use crate::tree::{Block, Expression, Initializer, Statement, StatementKind as S, SwitchPart, Variable};

impl Checker {
    /// Lowers the statements of a block in a scope of its own. An error in one does not hide those in others.
    pub(crate) fn block(&mut self, block: &Block) -> Vec<Done> {
        self.function.begin_block();
        let mut made = Vec::new();
        for statement in &block.statements {
            let _ = self.statement(statement, &mut made);
        }
        made.extend(self.comments.up_to(block.span.end));
        self.function.end_block();
        made
    }

    fn boxed_statement(&mut self, statement: &Statement) -> Box<Done> {
        let mut made = Vec::new();
        self.function.begin_block();
        let _ = self.statement(statement, &mut made);
        self.function.end_block();
        Box::new(match made.len() {
            1 => made.remove(0),
            _ => Done::Block(made),
        })
    }

    fn statement(&mut self, statement: &Statement, made: &mut Vec<Done>) -> Understood<()> {
        made.extend(self.comments.up_to(statement.span.start));
        match &statement.kind {
            S::Empty => {}
            S::Expression(expression) => {
                let value = self.effect(expression)?;
                self.useless(&value, expression.span);
                made.push(Done::Expression(value));
            }
            S::Declaration(variables) => {
                for variable in variables {
                    let _ = self.variable(variable, made);
                }
            }
            S::Block(block) => made.push(Done::Block(self.block(block))),
            S::If { condition, then, otherwise } => {
                let condition = self.condition(condition);
                let then = self.boxed_statement(then);
                let otherwise = match otherwise {
                    Some(otherwise) => self.boxed_statement(otherwise),
                    None => Box::new(Done::Block(Vec::new())),
                };
                made.push(Done::If(condition?, then, otherwise));
            }
            S::While { condition, body } => {
                let before = self.condition(condition);
                let body = self.looped(body);
                made.push(Done::Loop { before: Some(before?), body, step: None, after: None, span: statement.span });
            }
            S::DoWhile { body, condition } => {
                let body = self.looped(body);
                let after = Some(self.condition(condition)?);
                made.push(Done::Loop { before: None, body, step: None, after, span: statement.span });
            }
            S::For { first, condition, step, body } => {
                let done = self.for_loop(first, condition.as_ref(), step.as_ref(), body, statement.span)?;
                made.push(done);
            }
            S::Switch { value, body } => made.push(self.switch(value, body)?),
            S::Break => {
                self.within(self.function.breakable > 0, "break", "loop or switch", statement.span)?;
                made.push(Done::Break);
            }
            S::Continue => {
                self.within(self.function.loops > 0, "continue", "loop", statement.span)?;
                made.push(Done::Continue);
            }
            S::Return(value) => {
                let value = self.returned(value.as_ref(), statement.span)?;
                made.push(Done::Return(value));
            }
        }
        Ok(())
    }

    /// Warns about a value that is unused and has no side effects.
    fn useless(&mut self, value: &Made, span: Span) {
        let does_nothing = matches!(
            value,
            Made::Constant(_)
                | Made::Size(_)
                | Made::Register(_)
                | Made::Compare(..)
                | Made::Binary(..)
                | Made::Load(..)
                | Made::Not(_)
        );
        if does_nothing {
            self.warn(Code::Useless, "this does nothing", span).remedy = Some("`=` assigns, `==` compares".into());
        }
    }

    fn within(&mut self, is_within: bool, word: &str, what: &str, span: Span) -> Understood<()> {
        if is_within {
            return Ok(());
        }
        self.wrong(Code::Misplaced, format!("`{word}` stands in no {what}"), span);
        Err(Wrong)
    }

    fn looped(&mut self, body: &Statement) -> Box<Done> {
        self.function.loops += 1;
        self.function.breakable += 1;
        let body = self.boxed_statement(body);
        self.function.loops -= 1;
        self.function.breakable -= 1;
        body
    }

    fn for_loop(
        &mut self,
        first: &Statement,
        condition: Option<&Expression>,
        step: Option<&Expression>,
        body: &Statement,
        span: Span,
    ) -> Understood<Done> {
        self.function.begin_block();
        let mut made = Vec::new();
        let first = self.statement(first, &mut made);
        let before = condition.map(|condition| self.condition(condition)).transpose();
        let step = step.map(|step| self.effect(step)).transpose();
        let body = self.looped(body);
        self.function.end_block();
        first?;
        made.push(Done::Loop { before: before?, body, step: step?, after: None, span });
        Ok(Done::Block(made))
    }

    fn switch(&mut self, value: &Expression, body: &[SwitchPart]) -> Understood<Done> {
        let value = self.integer(value);
        let integer = value.as_ref().map_or(Integer::INT, |(_, integer)| integer.promoted());
        let (mut cases, mut known, mut parts) = (Vec::new(), HashSet::new(), Vec::new());
        let mut otherwise = None;
        self.function.breakable += 1;
        self.function.begin_block();
        for (index, part) in body.iter().enumerate() {
            for (label, span) in &part.labels {
                let is_twice = match label {
                    None => otherwise.replace(index).is_some(),
                    Some(label) => {
                        let Ok((value, _)) = self.constant(label) else { continue };
                        let is_new = known.insert(integer.wrap(self.known(&value).unwrap_or(0)));
                        cases.push((value, index));
                        !is_new
                    }
                };
                if is_twice {
                    self.wrong(Code::Twice, "this switch has two labels of this value", *span);
                }
            }
            let mut made = Vec::new();
            for statement in &part.statements {
                let _ = self.statement(statement, &mut made);
            }
            parts.push(made);
        }
        self.function.end_block();
        self.function.breakable -= 1;
        let (value, from) = value?;
        let value = super::operators::converted(value, from, integer);
        Ok(Done::Switch { value, integer, cases, otherwise: otherwise.unwrap_or(parts.len()), parts })
    }

    fn returned(&mut self, value: Option<&Expression>, span: Span) -> Understood<Option<Made>> {
        match (self.function.result.clone(), value) {
            (None, None) | (Some(Type::Void), None) => Ok(None),
            (None, Some(_)) => {
                self.wrong(Code::BadType, "a rule answers nothing", span).remedy =
                    Some("fistSetErr sets the error of the operation, and fistRetErr ends it with one".into());
                Err(Wrong)
            }
            (Some(Type::Void), Some(_)) => {
                self.wrong(Code::BadType, "this function answers nothing", span);
                Err(Wrong)
            }
            (Some(result), None) => {
                let what = format!("this function answers `{}`", self.describe(&result));
                self.wrong(Code::BadType, what, span);
                Err(Wrong)
            }
            (Some(result), Some(value)) => {
                let typed = self.value(value)?;
                Ok(Some(self.convert(typed, &result, value.span)?))
            }
        }
    }

    /// Lowers a variable declaration: it is initialized anew each time it is reached.
    fn variable(&mut self, variable: &Variable, made: &mut Vec<Done>) -> Understood<()> {
        let Some(name) = &variable.name else { return Ok(()) };
        let r#type = self.type_with_value(variable)?;
        let is_pointed = self.function.pointed.contains(&name.value);
        if r#type == Type::Void {
            self.wrong(Code::BadType, "nothing can be of the type `void`", name.span);
            return Err(Wrong);
        }
        let is_memory = is_pointed || matches!(r#type, Type::Array(..) | Type::Structure(_));
        let size = self.size(&r#type).unwrap_or(0);
        if is_memory && size <= OBJECT_BYTES_MAX {
            let object = self.function.object(&name.value, r#type.clone());
            self.declare_local(name, Local::Object(object, r#type.clone()));
            made.push(Done::Clear(object));
            return match &variable.value {
                Some(value) => self.initial_stores(Made::Object(object), &r#type, value, made),
                None => Ok(()),
            };
        }
        let register = self.function.register(&name.value, r#type.clone());
        // In its own initializer a variable is in scope, but not yet initialized, as in C.
        self.declare_local(name, Local::Register(register, r#type.clone()));
        let value = match &variable.value {
            None => Made::integer(0),
            Some(value) => {
                let value = match value {
                    Initializer::Value(value) => value,
                    Initializer::List(values, span) => match &values[..] {
                        [Initializer::Value(value)] => value,
                        _ => {
                            self.wrong(Code::BadType, "this has one value, not several", *span);
                            return Err(Wrong);
                        }
                    },
                };
                let typed = self.value(value)?;
                self.convert(typed, &r#type, value.span)?
            }
        };
        made.push(Done::Expression(Made::Set(register, Box::new(value))));
        Ok(())
    }

    fn declare_local(&mut self, name: &crate::tree::Name, local: Local) {
        if let Some(before) = self.function.declare(&name.value, local, name.span) {
            let what = format!("`{}` is declared twice in this block", name.value);
            self.wrong(Code::Twice, what, name.span).and(before, "the first is here");
        }
    }
}

//! Statements: control flow, and the variables of blocks.

use std::collections::HashSet;

use super::checker::{CheckResult, Checker, ErrorReported};
use super::scope::Local;
use crate::diagnostic::Code;
use crate::ir::{Expression as IrExpression, Integer, Statement as IrStatement, Type};
use crate::limits::MAX_OBJECT_BYTES;
use crate::text::Span;
use crate::tree::{Block, Expression, Initializer, Statement, StatementKind as S, SwitchPart, Variable};

impl Checker {
    /// Lowers the statements of a block in a scope of its own. An error in one does not hide those in others.
    pub(crate) fn block(&mut self, block: &Block) -> Vec<IrStatement> {
        self.function.begin_block();
        let mut lowered = Vec::new();
        for statement in &block.statements {
            let _ = self.statement(statement, &mut lowered);
        }
        lowered.extend(self.comments.up_to(block.span.end));
        self.function.end_block();
        lowered
    }

    fn boxed_statement(&mut self, statement: &Statement) -> Box<IrStatement> {
        let mut lowered = Vec::new();
        self.function.begin_block();
        let _ = self.statement(statement, &mut lowered);
        self.function.end_block();
        Box::new(match lowered.len() {
            1 => lowered.remove(0),
            _ => IrStatement::Block(lowered),
        })
    }

    fn statement(&mut self, statement: &Statement, lowered: &mut Vec<IrStatement>) -> CheckResult<()> {
        lowered.extend(self.comments.up_to(statement.span.start));
        match &statement.kind {
            S::Empty => {}
            S::Expression(expression) => {
                let value = self.effect(expression)?;
                self.warn_if_useless(&value, expression.span);
                lowered.push(IrStatement::Expression(value));
            }
            S::Declaration(variables) => {
                for variable in variables {
                    let _ = self.variable(variable, lowered);
                }
            }
            S::Block(block) => lowered.push(IrStatement::Block(self.block(block))),
            S::If { condition, then, otherwise } => {
                let condition = self.condition(condition);
                let then = self.boxed_statement(then);
                let otherwise = match otherwise {
                    Some(otherwise) => self.boxed_statement(otherwise),
                    None => Box::new(IrStatement::Block(Vec::new())),
                };
                lowered.push(IrStatement::If(condition?, then, otherwise));
            }
            S::While { condition, body } => {
                let before = self.condition(condition);
                let body = self.loop_body(body);
                lowered.push(IrStatement::Loop {
                    before: Some(before?),
                    body,
                    step: None,
                    after: None,
                    span: statement.span,
                });
            }
            S::DoWhile { body, condition } => {
                let body = self.loop_body(body);
                let after = Some(self.condition(condition)?);
                lowered.push(IrStatement::Loop { before: None, body, step: None, after, span: statement.span });
            }
            S::For { first, condition, step, body } => {
                let done = self.for_loop(first, condition.as_ref(), step.as_ref(), body, statement.span)?;
                lowered.push(done);
            }
            S::Switch { value, body } => lowered.push(self.switch(value, body)?),
            S::Break => {
                self.check_context(self.function.breakable > 0, "break", "loop or switch", statement.span)?;
                lowered.push(IrStatement::Break);
            }
            S::Continue => {
                self.check_context(self.function.loops > 0, "continue", "loop", statement.span)?;
                lowered.push(IrStatement::Continue);
            }
            S::Return(value) => {
                let value = self.return_value(value.as_ref(), statement.span)?;
                lowered.push(IrStatement::Return(value));
            }
        }
        Ok(())
    }

    /// Warns about a value that is unused and has no side effects.
    fn warn_if_useless(&mut self, value: &IrExpression, span: Span) {
        let does_nothing = matches!(
            value,
            IrExpression::Constant(_)
                | IrExpression::Size(_)
                | IrExpression::Register(_)
                | IrExpression::Compare(..)
                | IrExpression::Binary(..)
                | IrExpression::Load(..)
                | IrExpression::Not(_)
        );
        if does_nothing {
            self.warn(Code::Useless, "this does nothing", span).remedy = Some("`=` assigns, `==` compares".into());
        }
    }

    fn check_context(&mut self, is_within: bool, word: &str, what: &str, span: Span) -> CheckResult<()> {
        if is_within {
            return Ok(());
        }
        self.error(Code::Misplaced, format!("`{word}` stands in no {what}"), span);
        Err(ErrorReported)
    }

    fn loop_body(&mut self, body: &Statement) -> Box<IrStatement> {
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
    ) -> CheckResult<IrStatement> {
        self.function.begin_block();
        let mut lowered = Vec::new();
        let first = self.statement(first, &mut lowered);
        let before = condition.map(|condition| self.condition(condition)).transpose();
        let step = step.map(|step| self.effect(step)).transpose();
        let body = self.loop_body(body);
        self.function.end_block();
        first?;
        lowered.push(IrStatement::Loop { before: before?, body, step: step?, after: None, span });
        Ok(IrStatement::Block(lowered))
    }

    fn switch(&mut self, value: &Expression, body: &[SwitchPart]) -> CheckResult<IrStatement> {
        let value = self.integer(value);
        let integer = value.as_ref().map_or(Integer::INT, |(_, integer)| integer.promoted());
        let (mut cases, mut known, mut parts) = (Vec::new(), HashSet::new(), Vec::new());
        let mut otherwise = None;
        self.function.breakable += 1;
        self.function.begin_block();
        for (index, part) in body.iter().enumerate() {
            for (label, span) in &part.labels {
                let is_duplicate = match label {
                    None => otherwise.replace(index).is_some(),
                    Some(label) => {
                        let Ok((value, _)) = self.constant(label) else { continue };
                        let is_new = known.insert(integer.wrap(self.constant_value(&value).unwrap_or(0)));
                        cases.push((value, index));
                        !is_new
                    }
                };
                if is_duplicate {
                    self.error(Code::Twice, "this switch has two labels of this value", *span);
                }
            }
            let mut lowered = Vec::new();
            for statement in &part.statements {
                let _ = self.statement(statement, &mut lowered);
            }
            parts.push(lowered);
        }
        self.function.end_block();
        self.function.breakable -= 1;
        let (value, from) = value?;
        let value = super::operators::convert_integer(value, from, integer);
        Ok(IrStatement::Switch { value, integer, cases, otherwise: otherwise.unwrap_or(parts.len()), parts })
    }

    fn return_value(&mut self, value: Option<&Expression>, span: Span) -> CheckResult<Option<IrExpression>> {
        match (self.function.result.clone(), value) {
            (None, None) | (Some(Type::Void), None) => Ok(None),
            (None, Some(_)) => {
                self.error(Code::BadType, "a rule answers nothing", span).remedy =
                    Some("fistSetErr sets the error of the operation, and fistRetErr ends it with one".into());
                Err(ErrorReported)
            }
            (Some(Type::Void), Some(_)) => {
                self.error(Code::BadType, "this function answers nothing", span);
                Err(ErrorReported)
            }
            (Some(result), None) => {
                let what = format!("this function answers `{}`", self.describe(&result));
                self.error(Code::BadType, what, span);
                Err(ErrorReported)
            }
            (Some(result), Some(value)) => {
                let typed = self.value(value)?;
                Ok(Some(self.convert(typed, &result, value.span)?))
            }
        }
    }

    /// Lowers a variable declaration: it is initialized anew each time it is reached.
    fn variable(&mut self, variable: &Variable, lowered: &mut Vec<IrStatement>) -> CheckResult<()> {
        let Some(name) = &variable.name else { return Ok(()) };
        let r#type = self.type_with_value(variable)?;
        let is_address_taken = self.function.address_taken.contains(&name.value);
        if r#type == Type::Void {
            self.error(Code::BadType, "nothing can be of the type `void`", name.span);
            return Err(ErrorReported);
        }
        let is_memory = is_address_taken || matches!(r#type, Type::Array(..) | Type::Structure(_));
        let size = self.size(&r#type).unwrap_or(0);
        if is_memory && size <= MAX_OBJECT_BYTES {
            let object = self.function.object(&name.value, r#type.clone());
            self.declare_local(name, Local::Object(object, r#type.clone()));
            lowered.push(IrStatement::Clear(object));
            return match &variable.value {
                Some(value) => self.initial_stores(IrExpression::Object(object), &r#type, value, lowered),
                None => Ok(()),
            };
        }
        let register = self.function.register(&name.value, r#type.clone());
        // In its own initializer a variable is in scope, but not yet initialized, as in C.
        self.declare_local(name, Local::Register(register, r#type.clone()));
        let value = match &variable.value {
            None => IrExpression::integer(0),
            Some(value) => {
                let value = match value {
                    Initializer::Value(value) => value,
                    Initializer::List(values, span) => match &values[..] {
                        [Initializer::Value(value)] => value,
                        _ => {
                            self.error(Code::BadType, "this has one value, not several", *span);
                            return Err(ErrorReported);
                        }
                    },
                };
                let typed = self.value(value)?;
                self.convert(typed, &r#type, value.span)?
            }
        };
        lowered.push(IrStatement::Expression(IrExpression::Set(register, Box::new(value))));
        Ok(())
    }

    fn declare_local(&mut self, name: &crate::tree::Name, local: Local) {
        if let Some(before) = self.function.declare(&name.value, local, name.span) {
            let what = format!("`{}` is declared twice in this block", name.value);
            self.error(Code::Twice, what, name.span).and(before, "the first is here");
        }
    }
}

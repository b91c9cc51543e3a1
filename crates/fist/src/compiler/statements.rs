//! Translation of statements.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::{Block, Value, types};
use cranelift_frontend::Switch;

use super::translator::Translator;
use crate::code::{Expression as E, Statement as S};
use crate::text::Span;
use crate::visit::each;

/// Maximum number of expressions in a loop condition that is duplicated: before the loop, and after each iteration.
const MAX_DUPLICATED_CONDITION: usize = 24;

/// The only statement of a block.
fn only(statement: &S) -> Option<&S> {
    match statement {
        S::Block(all) => match &all[..] {
            [one] => only(one),
            _ => None,
        },
        one => Some(one),
    }
}

/// The value that a statement returns, if it does nothing else.
fn returned_value(statement: &S) -> Option<&E> {
    match only(statement)? {
        S::Return(Some(value)) => Some(value),
        _ => None,
    }
}

fn is_empty_block(statement: &S) -> bool {
    matches!(statement, S::Block(all) if all.is_empty())
}

impl<'a> Translator<'_, 'a> {
    pub(crate) fn statements(&mut self, mut statements: &'a [S]) {
        while let Some((first, rest)) = statements.split_first() {
            statements = rest;
            if let Some((condition, then, otherwise)) = self.simple_choice(first, rest) {
                let value = self.choose(condition, then, otherwise);
                let value = self.as_word(value);
                self.return_value(value);
                continue;
            }
            self.statement(first);
        }
    }

    /// Recognizes a choice between two simple return values, which needs no branches.
    fn simple_choice<'s>(&self, first: &'s S, rest: &'s [S]) -> Option<(&'s E, &'s E, &'s E)> {
        let S::If(condition, then, otherwise) = first else { return None };
        let otherwise = if is_empty_block(otherwise) { rest.first()? } else { otherwise };
        let (then, otherwise) = (returned_value(then)?, returned_value(otherwise)?);
        (self.is_simple(then) && self.is_simple(otherwise)).then_some((condition, then, otherwise))
    }

    fn statement(&mut self, statement: &'a S) {
        match statement {
            S::Expression(value) => {
                self.value(value);
            }
            S::Clear(object) => self.clear(*object),
            S::Block(all) => self.statements(all),
            S::If(condition, then, otherwise) => self.conditional_statement(condition, then, otherwise),
            S::Loop { before, body, step, after, weight, span } => {
                self.emit_loop(before.as_ref(), body, (step.as_ref(), after.as_ref()), (*weight, *span));
            }
            S::Switch { value, cases, otherwise, parts } => self.switch(value, cases, *otherwise, parts),
            S::Break => match self.scope.exits.last() {
                Some((end, _)) => self.jump(*end),
                // Outside a loop it ends the function, as in the interpreter.
                None => self.return_zero(),
            },
            S::Continue => match self.scope.exits.iter().rev().find_map(|(_, next)| *next) {
                Some(next) => self.jump(next),
                None => self.return_zero(),
            },
            S::Return(None) => self.return_zero(),
            S::Return(Some(value)) => {
                let value = self.value(value);
                let value = self.as_word(value);
                self.return_value(value);
            }
        }
    }

    fn return_zero(&mut self) {
        let nothing = self.constant(0);
        self.return_value(nothing);
    }

    /// Returns this value from the function.
    pub(crate) fn return_value(&mut self, value: Value) {
        if let Some(target) = self.scope.return_block {
            self.jump_with(target, value);
            return;
        }
        if !self.objects.is_empty() {
            self.call_back("leave", &[]);
        }
        let fuel = self.builder.use_var(self.fuel);
        self.builder.ins().return_(&[value, fuel]);
        self.begin_unreachable();
    }

    fn conditional_statement(&mut self, condition: &'a E, then: &'a S, otherwise: &'a S) {
        // A conditional assignment of a simple value to a register.
        if let (Some(S::Expression(E::Set(register, value))), true) = (only(then), is_empty_block(otherwise))
            && self.is_simple(value)
        {
            let value = self.choose(condition, value, &E::Register(*register));
            self.set(*register, value);
            return;
        }
        let (holds, fails, end) = (self.block(), self.block(), self.block());
        self.branch(condition, holds, fails);
        self.start(holds);
        self.statement(then);
        self.builder.ins().jump(end, &[]);
        self.start(fails);
        self.statement(otherwise);
        self.builder.ins().jump(end, &[]);
        self.start(end);
    }

    fn emit_loop(
        &mut self,
        before: Option<&'a E>,
        body: &'a S,
        (step, after): (Option<&'a E>, Option<&'a E>),
        (weight, span): (u32, Span),
    ) {
        self.emit_vectorized_prefix(before, body, step, after, weight);
        let (head, next, end) = (self.block(), self.block(), self.block());
        let is_short = before.is_some_and(|condition| self.is_short(condition));
        if let (Some(condition), true) = (before, is_short) {
            self.branch(condition, head, end);
        } else {
            self.builder.ins().jump(head, &[]);
        }
        self.scope.latest.clear();
        self.builder.switch_to_block(head);
        if let (Some(condition), false) = (before, is_short) {
            let first = self.block();
            self.branch(condition, first, end);
            self.start(first);
        }
        self.scope.exits.push((end, Some(next)));
        self.statement(body);
        self.scope.exits.pop();
        self.builder.ins().jump(next, &[]);
        self.start(next);
        if let Some(step) = step {
            self.value(step);
        }
        if let Some(after) = after {
            let again = self.block();
            self.branch(after, again, end);
            self.start(again);
        }
        self.consume_fuel(weight, span);
        if let (Some(condition), true) = (before, is_short) {
            self.branch(condition, head, end);
        } else {
            self.builder.ins().jump(head, &[]);
        }
        self.builder.seal_block(head);
        self.start(end);
    }

    /// Returns whether a condition is short enough to be duplicated.
    fn is_short(&self, condition: &E) -> bool {
        let (mut count, mut calls) = (0, false);
        each(condition, &mut |one| {
            count += 1;
            calls |= matches!(one, E::Call(..) | E::Site(..));
        });
        count <= MAX_DUPLICATED_CONDITION && !calls
    }

    fn switch(&mut self, value: &E, cases: &[(i64, usize)], otherwise: usize, parts: &'a [Vec<S>]) {
        let value = self.value(value);
        let value = self.as_word(value);
        let end = self.block();
        let blocks: Vec<Block> = parts.iter().map(|_| self.block()).collect();
        let part = |index: usize| blocks.get(index).copied().unwrap_or(end);
        let mut switch = Switch::new();
        for (case, index) in cases {
            let case = u128::from(*case as u64);
            if !switch.entries().contains_key(&case) {
                switch.set_entry(case, part(*index));
            }
        }
        switch.emit(&mut self.builder, value, part(otherwise));
        self.begin_unreachable();
        self.scope.exits.push((end, None));
        for (index, statements) in parts.iter().enumerate() {
            self.builder.ins().jump(blocks[index], &[]);
            self.start(blocks[index]);
            self.statements(statements);
        }
        self.scope.exits.pop();
        self.builder.ins().jump(end, &[]);
        self.start(end);
    }

    /// Branches to one block if a condition holds, and to the other if it does not.
    pub(crate) fn branch(&mut self, condition: &E, holds: Block, fails: Block) {
        match condition {
            E::Not(of) => self.branch(of, fails, holds),
            E::And(one, other) if !self.is_simple(other) => {
                let next = self.block();
                self.branch(one, next, fails);
                self.start(next);
                self.branch(other, holds, fails);
            }
            E::Or(one, other) if !self.is_simple(other) => {
                let next = self.block();
                self.branch(one, holds, next);
                self.start(next);
                self.branch(other, holds, fails);
            }
            _ => {
                let truth = self.truth_of(condition);
                debug_assert_eq!(self.builder.func.dfg.value_type(truth), types::I8);
                self.builder.ins().brif(truth, holds, &[], fails, &[]);
            }
        }
    }
}

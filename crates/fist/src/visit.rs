//! Visitors over code: the direct parts of expressions and statements, and everything in a function.

use crate::code::{Expression as E, Function, Statement as S};

/// Visits the direct operands of an expression.
pub(crate) fn each_operand<'e>(one: &'e E, visit: &mut dyn FnMut(&'e E)) {
    match one {
        E::Constant(_) | E::Register(_) | E::Object(_) | E::Data(_) => {}
        E::Load(of, ..) | E::Field(of, _) | E::Convert(of, _) | E::Not(of) | E::Set(_, of) => visit(of),
        E::Element { pointer: one, index: other, .. }
        | E::Distance(one, other, ..)
        | E::Binary(_, _, one, other, _)
        | E::Compare(_, _, one, other)
        | E::And(one, other)
        | E::Or(one, other)
        | E::Sequence(one, other)
        | E::Store(one, _, other, _)
        | E::Copy(one, other, ..) => {
            visit(one);
            visit(other);
        }
        E::Conditional(condition, then, otherwise) => {
            visit(condition);
            visit(then);
            visit(otherwise);
        }
        E::Call(_, values, _) | E::Site(_, values, _) => values.iter().for_each(visit),
    }
}

/// Visits an expression and all its operands, recursively.
pub(crate) fn each<'e>(one: &'e E, visit: &mut dyn FnMut(&'e E)) {
    visit(one);
    each_operand(one, &mut |part| each(part, visit));
}

/// Visits statements and those nested in them.
pub(crate) fn each_statement<'s>(statements: &'s [S], visit: &mut dyn FnMut(&'s S)) {
    for statement in statements {
        visit(statement);
        match statement {
            S::Block(all) => each_statement(all, visit),
            S::If(_, then, otherwise) => {
                each_statement(std::slice::from_ref(then), visit);
                each_statement(std::slice::from_ref(otherwise), visit);
            }
            S::Loop { body, .. } => each_statement(std::slice::from_ref(body), visit),
            S::Switch { parts, .. } => parts.iter().for_each(|part| each_statement(part, visit)),
            S::Expression(_) | S::Clear(_) | S::Break | S::Continue | S::Return(_) => {}
        }
    }
}

/// Visits all expressions of a function, including their operands.
pub(crate) fn each_expression<'s>(function: &'s Function, visit: &mut dyn FnMut(&'s E)) {
    each_part(&function.body, visit);
}

/// Visits all expressions of statements, including their operands.
pub(crate) fn each_part<'s>(statements: &'s [S], visit: &mut dyn FnMut(&'s E)) {
    each_statement(statements, &mut |statement| match statement {
        S::Expression(value) | S::Return(Some(value)) | S::If(value, ..) | S::Switch { value, .. } => {
            each(value, visit)
        }
        S::Loop { before, step, after, .. } => {
            [before, step, after].into_iter().flatten().for_each(|value| each(value, visit));
        }
        S::Clear(_) | S::Block(_) | S::Break | S::Continue | S::Return(None) => {}
    });
}

//! Visitors over expressions of the intermediate form.

use super::{Expression as E, Statement as S};

/// Visits the direct operands of an expression.
pub(crate) fn each_operand<'e>(one: &'e E, visit: &mut dyn FnMut(&'e E)) {
    match one {
        E::Constant(_) | E::Size(_) | E::Register(_) | E::Object(_) | E::Data(_) => {}
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

/// Visits the expressions of statements and of those nested in them: each as a whole, without its operands.
pub(crate) fn each_expression<'s>(statements: &'s [S], visit: &mut dyn FnMut(&'s E)) {
    for statement in statements {
        match statement {
            S::Comment(_) | S::Clear(_) | S::Break | S::Continue | S::Return(None) => {}
            S::Expression(value) | S::Return(Some(value)) => visit(value),
            S::Block(all) => each_expression(all, visit),
            S::If(condition, then, otherwise) => {
                visit(condition);
                each_expression(std::slice::from_ref(then), visit);
                each_expression(std::slice::from_ref(otherwise), visit);
            }
            S::Loop { before, body, step, after, span: _ } => {
                [before, step, after].into_iter().flatten().for_each(&mut *visit);
                each_expression(std::slice::from_ref(body), visit);
            }
            S::Switch { value, integer: _, cases, otherwise: _, parts } => {
                visit(value);
                cases.iter().for_each(|(case, _)| visit(case));
                parts.iter().for_each(|part| each_expression(part, visit));
            }
        }
    }
}

//! Visitors over expressions of the intermediate form.

use super::{Expression as E, Statement as S};

/// Visits the direct operands of an expression.
pub(crate) fn parts<'e>(one: &'e E, see: &mut dyn FnMut(&'e E)) {
    match one {
        E::Constant(_) | E::Size(_) | E::Register(_) | E::Object(_) | E::Data(_) => {}
        E::Load(of, ..) | E::Field(of, _) | E::Convert(of, _) | E::Not(of) | E::Set(_, of) => see(of),
        E::Element { pointer: one, index: other, .. }
        | E::Distance(one, other, ..)
        | E::Binary(_, _, one, other, _)
        | E::Compare(_, _, one, other)
        | E::And(one, other)
        | E::Or(one, other)
        | E::Sequence(one, other)
        | E::Store(one, _, other, _)
        | E::Copy(one, other, ..) => {
            see(one);
            see(other);
        }
        E::Conditional(condition, then, otherwise) => {
            see(condition);
            see(then);
            see(otherwise);
        }
        E::Call(_, values, _) | E::Site(_, values, _) => values.iter().for_each(see),
    }
}

/// Visits an expression and all its operands, recursively.
pub(crate) fn each<'e>(one: &'e E, see: &mut dyn FnMut(&'e E)) {
    see(one);
    parts(one, &mut |part| each(part, see));
}

/// Visits the expressions of statements and of those nested in them: each as a whole, without its operands.
pub(crate) fn each_expression<'s>(statements: &'s [S], see: &mut dyn FnMut(&'s E)) {
    for statement in statements {
        match statement {
            S::Comment(_) | S::Clear(_) | S::Break | S::Continue | S::Return(None) => {}
            S::Expression(value) | S::Return(Some(value)) => see(value),
            S::Block(all) => each_expression(all, see),
            S::If(condition, then, otherwise) => {
                see(condition);
                each_expression(std::slice::from_ref(then), see);
                each_expression(std::slice::from_ref(otherwise), see);
            }
            S::Loop { before, body, step, after, span: _ } => {
                [before, step, after].into_iter().flatten().for_each(&mut *see);
                each_expression(std::slice::from_ref(body), see);
            }
            S::Switch { value, integer: _, cases, otherwise: _, parts } => {
                see(value);
                cases.iter().for_each(|(case, _)| see(case));
                parts.iter().for_each(|part| each_expression(part, see));
            }
        }
    }
}

//! What a round of a loop, and a call of a function, count against the limit of a run: the more, the more is done in each.

use crate::code::{Expression as E, Function, Statement as S};
use crate::visit::parts;

/// So many expressions are done for each one that a round or a call counts.
const UNIT: u64 = 128;
/// Calls out of the program count as so many expressions.
const SITE: u64 = 16;
/// Bytes of a variable that are made zero for each expression that they count as.
const CLEARED: u64 = 64;
/// Bytes that are copied for each expression that they count as.
const COPIED: u64 = 16;
/// Registers of a function for each expression that they count as.
const REGISTERS: u64 = 8;

/// Weighs a function and its loops; the result is how many expressions it is made of.
pub(crate) fn weigh(function: &mut Function) -> u64 {
    let objects = std::mem::take(&mut function.objects);
    let made = all(&mut function.body, &objects);
    let room = function.registers as u64 / REGISTERS + objects.iter().sum::<u64>() / CLEARED;
    function.objects = objects;
    function.weight = weight(made + room);
    made
}

/// What so many expressions count.
fn weight(expressions: u64) -> u32 {
    u32::try_from(1 + expressions / UNIT).unwrap_or(u32::MAX)
}

fn all(statements: &mut [S], objects: &[u64]) -> u64 {
    statements.iter_mut().map(|one| statement(one, objects)).sum()
}

fn statement(one: &mut S, objects: &[u64]) -> u64 {
    1 + match one {
        S::Expression(value) | S::Return(Some(value)) => expression(value),
        S::Clear(object) => objects.get(*object).map_or(0, |bytes| bytes / CLEARED),
        S::Break | S::Continue | S::Return(None) => 0,
        S::Block(inner) => all(inner, objects),
        S::If(condition, then, otherwise) => {
            expression(condition) + statement(then, objects) + statement(otherwise, objects)
        }
        S::Loop { before, body, step, after, weight: weighs, .. } => {
            let asked: u64 = [before, step, after].into_iter().flatten().map(|value| expression(value)).sum();
            let round = asked + statement(body, objects);
            *weighs = weight(round);
            // A round may be left before it counts.
            round
        }
        S::Switch { value, parts, .. } => {
            expression(value) + parts.iter_mut().map(|part| all(part, objects)).sum::<u64>()
        }
    }
}

fn expression(one: &E) -> u64 {
    let mut count = match one {
        E::Site(..) => SITE,
        E::Copy(_, _, bytes, _) => 1 + bytes / COPIED,
        _ => 1,
    };
    parts(one, &mut |part| count += expression(part));
    count
}

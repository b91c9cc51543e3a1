//! Fuel costs of a loop iteration and of a function call: the more work it does, the more it costs.

use crate::code::{Expression as E, Function, Statement as S};
use crate::visit::each_operand;

/// Number of expressions per unit of fuel.
const EXPRESSIONS_PER_FUEL: u64 = 128;
/// Cost of an intrinsic or host call, in expressions.
const CALL_COST: u64 = 16;
/// Number of bytes zeroed for the cost of one expression.
const CLEARED_BYTES_PER_EXPRESSION: u64 = 64;
/// Number of bytes copied for the cost of one expression.
const COPIED_BYTES_PER_EXPRESSION: u64 = 16;
/// Number of registers of a function for the cost of one expression.
const REGISTERS_PER_EXPRESSION: u64 = 8;

/// Sets the fuel costs of a function and of its loops; returns the size of the function in expressions.
pub(crate) fn set_fuel_costs(function: &mut Function) -> u64 {
    let objects = std::mem::take(&mut function.objects);
    let expression_count = all(&mut function.body, &objects);
    let frame_cost = function.registers as u64 / REGISTERS_PER_EXPRESSION
        + objects.iter().sum::<u64>() / CLEARED_BYTES_PER_EXPRESSION;
    function.objects = objects;
    function.weight = fuel_cost(expression_count + frame_cost);
    expression_count
}

/// Returns the fuel cost of a number of expressions.
fn fuel_cost(expressions: u64) -> u32 {
    u32::try_from(1 + expressions / EXPRESSIONS_PER_FUEL).unwrap_or(u32::MAX)
}

fn all(statements: &mut [S], objects: &[u64]) -> u64 {
    statements.iter_mut().map(|one| statement(one, objects)).sum()
}

fn statement(one: &mut S, objects: &[u64]) -> u64 {
    1 + match one {
        S::Expression(value) | S::Return(Some(value)) => expression(value),
        S::Clear(object) => objects.get(*object).map_or(0, |bytes| bytes / CLEARED_BYTES_PER_EXPRESSION),
        S::Break | S::Continue | S::Return(None) => 0,
        S::Block(inner) => all(inner, objects),
        S::If(condition, then, otherwise) => {
            expression(condition) + statement(then, objects) + statement(otherwise, objects)
        }
        S::Loop { before, body, step, after, weight: loop_cost, .. } => {
            let conditions: u64 = [before, step, after].into_iter().flatten().map(|value| expression(value)).sum();
            let iteration = conditions + statement(body, objects);
            *loop_cost = fuel_cost(iteration);
            // An iteration may be left before it is charged.
            iteration
        }
        S::Switch { value, parts, .. } => {
            expression(value) + parts.iter_mut().map(|part| all(part, objects)).sum::<u64>()
        }
    }
}

fn expression(one: &E) -> u64 {
    let mut count = match one {
        E::Site(..) => CALL_COST,
        E::Copy(_, _, bytes, _) => 1 + bytes / COPIED_BYTES_PER_EXPRESSION,
        _ => 1,
    };
    each_operand(one, &mut |part| count += expression(part));
    count
}

//! Explains a program: what fires at each operation, in which order, and what the file system is like.

use crate::operations::{OPERATIONS, Operation, Part};
use crate::program::{Program, Rule};
use crate::tree::{Access, Direction};

/// What a description does, for people. `text` is what it was read from.
pub fn explain(program: &Program, text: &str) -> String {
    let mut lines = vec![format!("{}:", program.name)];
    lines.extend(declared(program).into_iter().map(|line| format!("  {line}")));
    lines.extend(ioctls(program, text));
    for index in 0..OPERATIONS.len() {
        let operation = Operation(index as u8);
        lines.extend(fires(program, text, operation));
    }
    if program.rules.is_empty() {
        lines.push("no rules: every operation is done below".to_owned());
    }
    lines.join("\n") + "\n"
}

/// What is declared, a sentence each.
fn declared(program: &Program) -> Vec<String> {
    let mut lines = Vec::new();
    match program.access {
        Some(Access::ReadOnly) => lines.push("nothing can be changed".to_owned()),
        Some(Access::WriteOnly) => lines.push("nothing can be read".to_owned()),
        _ => {}
    }
    if program.fan_out > 1 {
        lines.push(format!("lies on {} file systems", program.fan_out));
    }
    if program.is_overlay {
        lines.push("is mounted over its base".to_owned());
    }
    if program.traces {
        lines.push("logs each operation".to_owned());
    }
    if program.filters.data.is_some() {
        lines.push("encodes data".to_owned());
    }
    if program.filters.name.is_some() {
        lines.push("encodes names".to_owned());
    }
    for field in &program.mount_fields {
        let value = if field.is_flag { "yes|no" } else { "VALUE" };
        lines.push(format!("takes the option {}={value}", field.name));
    }
    lines
}

fn ioctls(program: &Program, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, ioctl) in program.ioctls.iter().enumerate() {
        let way = match ioctl.direction {
            Direction::FromUser => "takes",
            Direction::ToUser => "gives",
            Direction::Both => "takes and gives",
        };
        let fields: Vec<_> =
            program.structures[ioctl.structure].fields.iter().map(|field| field.name.as_str()).collect();
        lines.push(format!("ioctl {} ({:#010x}) {way} {}", ioctl.name, ioctl.command, fields.join(", ")));
        let rules: Vec<_> = program.rules.iter().filter(|rule| rule.ioctl == Some(index)).collect();
        lines.extend(rules.iter().map(|rule| line(rule, text)));
        if rules.is_empty() {
            lines.push("  no rule: nothing is done".to_owned());
        }
    }
    lines
}

/// What fires at an operation, in its order.
fn fires(program: &Program, text: &str, operation: Operation) -> Vec<String> {
    let of = |part| {
        let rules = program
            .rules
            .iter()
            .filter(move |rule| rule.part == part && rule.ioctl.is_none() && rule.operations.contains(operation));
        rules.collect::<Vec<_>>()
    };
    let (before, instead, behind) = (of(Part::PreCall), of(Part::Call), of(Part::PostCall));
    if before.is_empty() && instead.is_empty() && behind.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![operation.kind().name.to_owned()];
    lines.extend(before.iter().map(|rule| line(rule, text)));
    match instead.last() {
        Some(rule) if operation.kind().name == "readdir" => lines.push(line(rule, text) + ", for each name"),
        Some(rule) => lines.push(line(rule, text) + ", in its place"),
        None => lines.push("  the operation below".to_owned()),
    }
    lines.extend(behind.iter().map(|rule| line(rule, text)));
    lines
}

fn line(rule: &Rule, text: &str) -> String {
    let line = text[..(rule.span.start as usize).min(text.len())].matches('\n').count() + 1;
    format!("  {} (line {line})", rule.title)
}

//! Explains a program: what fires at each operation, in which order, and the properties of the file system.

use crate::lines::Lines;
use crate::operations::{OPERATIONS, Operation, Part};
use crate::program::{Level, Program, Rule};
use crate::tree::{Access, Direction};

/// Describes a program for people. `text` is its source.
pub fn explain(program: &Program, text: &str) -> String {
    let text = &Lines::of(text);
    let level = program.topmost();
    let mut lines = vec![format!("{}:", level.name)];
    lines.extend(declared(level).into_iter().map(|line| format!("  {line}")));
    lines.extend(ioctls(program, text));
    for index in 0..OPERATIONS.len() {
        let operation = Operation(index as u8);
        lines.extend(describe_firing(level, text, operation));
    }
    if level.rules.is_empty() {
        lines.push("no rules: every operation is done below".to_owned());
    }
    lines.join("\n") + "\n"
}

/// Describes for people what stacked FiST programs do at each operation: the topmost first, each with its source.
pub fn explain_together(levels: &[(&Program, &str)]) -> String {
    let levels: Vec<_> = levels.iter().map(|(program, text)| (program.topmost(), Lines::of(text))).collect();
    let mut lines = Vec::new();
    for index in 0..OPERATIONS.len() {
        let operation = Operation(index as u8);
        if levels.iter().any(|(level, _)| !FiringRules::at(level, operation).is_empty()) {
            lines.push(operation.kind().name.to_owned());
            describe_firing_through(&levels, operation, "  ", &mut lines);
        }
    }
    lines.join("\n") + "\n"
}

/// The declared properties, one sentence each.
fn declared(level: &Level) -> Vec<String> {
    let mut lines = Vec::new();
    match level.access {
        Some(Access::ReadOnly) => lines.push("nothing can be changed".to_owned()),
        Some(Access::WriteOnly) => lines.push("nothing can be read".to_owned()),
        _ => {}
    }
    if level.fan_out > 1 {
        lines.push(format!("lies on {} file systems", level.fan_out));
    }
    if level.is_overlay {
        lines.push("is mounted over its base".to_owned());
    }
    if level.is_serial {
        lines.push("does operations with rules one at a time".to_owned());
    }
    if level.traces {
        lines.push("logs each operation".to_owned());
    }
    if level.filters.data.is_some() {
        lines.push("encodes data".to_owned());
    }
    if level.filters.name.is_some() {
        lines.push("encodes names".to_owned());
    }
    for field in &level.mount_fields {
        let value = if field.is_flag { "yes|no" } else { "VALUE" };
        lines.push(format!("takes the option {}={value}", field.name));
    }
    lines
}

fn ioctls(program: &Program, text: &Lines) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, ioctl) in program.topmost().ioctls.iter().enumerate() {
        let way = match ioctl.direction {
            Direction::FromUser => "takes",
            Direction::ToUser => "gives",
            Direction::Both => "takes and gives",
        };
        let fields: Vec<_> =
            program.structures[ioctl.structure].fields.iter().map(|field| field.name.as_str()).collect();
        lines.push(format!("ioctl {} ({:#010x}) {way} {}", ioctl.name, ioctl.command, fields.join(", ")));
        let rules: Vec<_> = program.topmost().rules.iter().filter(|rule| rule.ioctl == Some(index)).collect();
        lines.extend(rules.iter().map(|rule| line(rule, text)));
        if rules.is_empty() {
            lines.push("  no rule: nothing is done".to_owned());
        }
    }
    lines
}

/// The rules and filters that fire at an operation, in order.
fn describe_firing(level: &Level, text: &Lines, operation: Operation) -> Vec<String> {
    let firing = FiringRules::at(level, operation);
    if firing.is_empty() {
        return Vec::new();
    }
    let FiringRules { pre, replace, post } = firing;
    let mut lines = vec![operation.kind().name.to_owned()];
    lines.extend(pre.iter().map(|rule| line(rule, text)));
    match replace {
        Some(rule) if operation.kind().name == "readdir" => lines.push(line(rule, text) + ", for each name"),
        Some(rule) => lines.push(line(rule, text) + ", in its place"),
        None => lines.push("  the operation below".to_owned()),
    }
    lines.extend(post.iter().map(|rule| line(rule, text)));
    lines
}

/// Appends what fires at an operation in the first level and in those below it.
fn describe_firing_through(levels: &[(&Level, Lines)], operation: Operation, indent: &str, lines: &mut Vec<String>) {
    let Some(((level, text), below)) = levels.split_first() else {
        lines.push(format!("{indent}the operation below"));
        return;
    };
    let name = &level.name;
    let describe = |rule: &Rule| format!("{indent}{name}: {}", line(rule, text).trim_start());
    let FiringRules { pre, replace, post } = FiringRules::at(level, operation);
    lines.extend(pre.iter().map(|rule| describe(rule)));
    match replace {
        Some(rule) if operation.kind().name == "readdir" => {
            describe_firing_through(below, operation, indent, lines);
            lines.push(describe(rule) + ", for each name");
        }
        Some(rule) => {
            lines.push(describe(rule) + ", in its place; where it does the operation:");
            describe_firing_through(below, operation, &format!("{indent}  "), lines);
        }
        None => describe_firing_through(below, operation, indent, lines),
    }
    lines.extend(post.iter().map(|rule| describe(rule)));
}

/// The rules that fire at an operation.
struct FiringRules<'p> {
    pre: Vec<&'p Rule>,
    replace: Option<&'p Rule>,
    post: Vec<&'p Rule>,
}

impl<'p> FiringRules<'p> {
    fn at(level: &'p Level, operation: Operation) -> FiringRules<'p> {
        let of = |part| {
            let is_one =
                move |rule: &&Rule| rule.part == part && rule.ioctl.is_none() && rule.operations.contains(operation);
            level.rules.iter().filter(is_one)
        };
        FiringRules {
            pre: of(Part::PreCall).collect(),
            replace: of(Part::Call).next_back(),
            post: of(Part::PostCall).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.pre.is_empty() && self.replace.is_none() && self.post.is_empty()
    }
}

fn line(rule: &Rule, lines: &Lines) -> String {
    format!("  {} (line {})", rule.title, lines.line(rule.span.start as usize) + 1)
}

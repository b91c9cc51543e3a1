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
        lines.extend(fires(level, text, operation));
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
        if levels.iter().any(|(level, _)| !Fired::at(level, operation).is_empty()) {
            lines.push(operation.kind().name.to_owned());
            fires_through(&levels, operation, "  ", &mut lines);
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
fn fires(level: &Level, text: &Lines, operation: Operation) -> Vec<String> {
    let fired = Fired::at(level, operation);
    if fired.is_empty() {
        return Vec::new();
    }
    let Fired { before, instead, behind } = fired;
    let mut lines = vec![operation.kind().name.to_owned()];
    lines.extend(before.iter().map(|rule| line(rule, text)));
    match instead {
        Some(rule) if operation.kind().name == "readdir" => lines.push(line(rule, text) + ", for each name"),
        Some(rule) => lines.push(line(rule, text) + ", in its place"),
        None => lines.push("  the operation below".to_owned()),
    }
    lines.extend(behind.iter().map(|rule| line(rule, text)));
    lines
}

/// Appends what fires at an operation in the first level and in those below it.
fn fires_through(levels: &[(&Level, Lines)], operation: Operation, indent: &str, lines: &mut Vec<String>) {
    let Some(((level, text), below)) = levels.split_first() else {
        lines.push(format!("{indent}the operation below"));
        return;
    };
    let name = &level.name;
    let told = |rule: &Rule| format!("{indent}{name}: {}", line(rule, text).trim_start());
    let Fired { before, instead, behind } = Fired::at(level, operation);
    lines.extend(before.iter().map(|rule| told(rule)));
    match instead {
        Some(rule) if operation.kind().name == "readdir" => {
            fires_through(below, operation, indent, lines);
            lines.push(told(rule) + ", for each name");
        }
        Some(rule) => {
            lines.push(told(rule) + ", in its place; where it does the operation:");
            fires_through(below, operation, &format!("{indent}  "), lines);
        }
        None => fires_through(below, operation, indent, lines),
    }
    lines.extend(behind.iter().map(|rule| told(rule)));
}

/// The rules that fire at an operation.
struct Fired<'p> {
    before: Vec<&'p Rule>,
    instead: Option<&'p Rule>,
    behind: Vec<&'p Rule>,
}

impl<'p> Fired<'p> {
    fn at(level: &'p Level, operation: Operation) -> Fired<'p> {
        let of = |part| {
            let is_one =
                move |rule: &&Rule| rule.part == part && rule.ioctl.is_none() && rule.operations.contains(operation);
            level.rules.iter().filter(is_one)
        };
        Fired {
            before: of(Part::PreCall).collect(),
            instead: of(Part::Call).next_back(),
            behind: of(Part::PostCall).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.instead.is_none() && self.behind.is_empty()
    }
}

fn line(rule: &Rule, lines: &Lines) -> String {
    format!("  {} (line {})", rule.title, lines.line(rule.span.start as usize) + 1)
}

//! Collapsing of FiST modules into one layer, permitted where nothing shows whether they are collapsed or stacked.
//!
//! Rules of both modules see an operation as it is above both, so rules of the lower module must not depend on what the
//! upper one makes of names and data; and operations that rules of the upper module perform by themselves bypass the
//! lower one, which must have nothing to do for them.

use ::fist::builtins::{Attribute, BuiltIn};
use ::fist::code::{Area, Argument, Operand, Site};
use ::fist::operations::OPERATIONS;
use ::fist::program::Program;

use super::loaded::Loaded;

/// Describes what keeps a module from collapsing with a module below it, if anything does.
pub(crate) fn barrier(upper: &Loaded, lower: &Loaded) -> Option<String> {
    let (over, under) = (&upper.level().filters, &lower.level().filters);
    let (name, other) = (upper.kind, lower.kind);
    let filters = over.name.is_some() || over.data.is_some();
    let has_rules = !lower.level().rules.is_empty();
    let met = met(upper, lower);
    let changes_size = over.changes_size || under.changes_size;
    let barriers = [
        (!upper.collapses, format!("{name} has the option collapse=no")),
        (!lower.collapses, format!("{other} has the option collapse=no")),
        (lower.level().fan_out > 1, format!("{other} lies on several file systems")),
        (lower.level().traces, format!("{other} tells of every operation")),
        (filters && has_rules, format!("{name} has a filter, and rules of {other} see what that makes")),
        (over.name.is_some() && lower.needs_places, format!("filters of {other} ask for names that {name} makes")),
        (over.data.is_some() && under.data.is_some() && changes_size, "both have filters, and sizes change".to_owned()),
        (
            over.data.is_some() && under.data.is_some() && upper.has_holes != lower.has_holes,
            "holes stay holes in one, and not in the other".to_owned(),
        ),
        (
            under.name.is_some() && gives_names(&upper.alone),
            format!("rules of {name} name files themselves, and {other} has other names"),
        ),
        (
            under.data.is_some() && copies(&upper.alone),
            format!("rules of {name} read or write files themselves, and {other} has a filter of data"),
        ),
        (
            under.changes_size && sees_sizes_below(&upper.alone),
            format!("rules of {name} ask for sizes below, and {other} changes them"),
        ),
        (met.is_some(), format!("rules of {name} do what {other} has rules for: {}", met.unwrap_or_default())),
    ];
    barriers.into_iter().find(|(holds, _)| *holds).map(|(_, words)| words)
}

/// Returns an operation that rules of the upper module perform by themselves, and that the lower module hooks.
fn met(upper: &Loaded, lower: &Loaded) -> Option<&'static str> {
    let watches_all = lower.level().access.is_some();
    reached(upper).into_iter().find(|name| {
        let index = OPERATIONS.iter().position(|kind| kind.name == *name);
        watches_all || index.is_some_and(|index| lower.with_rules() >> index & 1 != 0)
    })
}

/// Returns the operations that rules and filters of a module perform by themselves.
fn reached(loaded: &Loaded) -> Vec<&'static str> {
    let mut reached = if loaded.needs_places { vec!["lookup"] } else { Vec::new() };
    for site in &loaded.alone.sites {
        let sees_object = match site {
            Site::Attribute(..) | Site::Object(_) => true,
            Site::BuiltIn(_, operands) => operands.iter().any(is_object),
            Site::Load(shared, _) | Site::Store(shared, _) | Site::Update { shared, .. } => {
                matches!(shared.area, Area::Argument(_))
            }
            _ => false,
        };
        if sees_object {
            reached.extend(["lookup", "getattr"]);
        }
        match site {
            Site::BuiltIn(function, _) => reached.extend(done_by(*function)),
            // The lower file system is asked whether the caller may set it.
            Site::Assign(..) => reached.extend(["getattr", "access"]),
            _ => {}
        }
    }
    reached
}

fn is_object(operand: &Operand) -> bool {
    matches!(operand, Operand::Object | Operand::Argument(_) | Operand::Named)
}

/// Returns the operations that a built-in function performs by itself.
fn done_by(function: BuiltIn) -> &'static [&'static str] {
    match function {
        BuiltIn::ReadDirectory => &["opendir", "readdir"],
        BuiltIn::Rename => &["rename"],
        BuiltIn::Unlink => &["unlink"],
        BuiltIn::MakeDirectory => &["mkdir"],
        BuiltIn::CopyFile => {
            &["open", "read", "create", "write", "truncate", "copy_file_range", "rename", "unlink", "flush", "release"]
        }
        BuiltIn::GetFileData => &["open", "read", "flush", "release"],
        BuiltIn::SetFileData => &["open", "read", "create", "write", "truncate", "flush", "release"],
        _ => &[],
    }
}

fn gives_names(program: &Program) -> bool {
    operands(program).any(|(_, operand)| matches!(operand, Operand::Named))
}

fn copies(program: &Program) -> bool {
    operands(program)
        .any(|(function, _)| matches!(function, Some(BuiltIn::CopyFile | BuiltIn::GetFileData | BuiltIn::SetFileData)))
}

fn sees_sizes_below(program: &Program) -> bool {
    let is_below = |operand: &Operand| match operand {
        Operand::Argument(Argument { branch, .. }) => *branch > 0,
        _ => true,
    };
    program.sites.iter().any(|site| matches!(site, Site::Attribute(Attribute::Size, operand) if is_below(operand)))
}

/// Returns the operands of calls out of the program, with the built-in function that is called.
fn operands(program: &Program) -> impl Iterator<Item = (Option<BuiltIn>, &Operand)> {
    program.sites.iter().flat_map(|site| match site {
        Site::BuiltIn(function, operands) => operands.iter().map(|operand| (Some(*function), operand)).collect(),
        Site::Attribute(_, operand) => vec![(None, operand)],
        _ => Vec::new(),
    })
}

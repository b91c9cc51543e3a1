//! Collapsing of FiST modules into one layer, permitted where nothing shows whether they are collapsed or stacked.
//!
//! Rules of both modules see an operation as it is above both, so rules of the lower module must not depend on what the
//! upper one makes of names and data; and operations that rules of the upper module perform by themselves bypass the
//! lower one, which must have nothing to do for them.

use ::fist::builtins::{Attribute, BuiltIn};
use ::fist::code::{Area, Argument, Operand, Site};
use ::fist::operations::OPERATIONS;
use ::fist::program::Program;

use super::module::LoadedModule;

/// Describes what keeps a module from collapsing with a module below it, if anything does.
pub(crate) fn barrier(upper: &LoadedModule, lower: &LoadedModule) -> Option<String> {
    let (upper_filters, lower_filters) = (&upper.level().filters, &lower.level().filters);
    let (name, lower_name) = (upper.kind, lower.kind);
    let filters = upper_filters.name.is_some() || upper_filters.data.is_some();
    let has_rules = !lower.level().rules.is_empty();
    let shadowed_operation = shadowed_operation(upper, lower);
    let changes_size = upper_filters.changes_size || lower_filters.changes_size;
    let barriers = [
        (!upper.collapses, format!("{name} has the option collapse=no")),
        (!lower.collapses, format!("{lower_name} has the option collapse=no")),
        (lower.level().fan_out > 1, format!("{lower_name} lies on several file systems")),
        (lower.level().traces, format!("{lower_name} tells of every operation")),
        (filters && has_rules, format!("{name} has a filter, and rules of {lower_name} see what that makes")),
        (
            upper_filters.name.is_some() && lower.needs_lookup_location,
            format!("filters of {lower_name} ask for names that {name} makes"),
        ),
        (
            upper_filters.data.is_some() && lower_filters.data.is_some() && changes_size,
            "both have filters, and sizes change".to_owned(),
        ),
        (
            upper_filters.data.is_some() && lower_filters.data.is_some() && upper.has_holes != lower.has_holes,
            "holes stay holes in one, and not in the other".to_owned(),
        ),
        (
            lower_filters.name.is_some() && names_entries(&upper.own_program),
            format!("rules of {name} name files themselves, and {lower_name} has other names"),
        ),
        (
            lower_filters.data.is_some() && accesses_files(&upper.own_program),
            format!("rules of {name} read or write files themselves, and {lower_name} has a filter of data"),
        ),
        (
            lower_filters.changes_size && queries_lower_sizes(&upper.own_program),
            format!("rules of {name} ask for sizes below, and {lower_name} changes them"),
        ),
        (
            shadowed_operation.is_some(),
            format!("rules of {name} do what {lower_name} has rules for: {}", shadowed_operation.unwrap_or_default()),
        ),
    ];
    barriers.into_iter().find(|(holds, _)| *holds).map(|(_, message)| message)
}

/// Returns an operation that rules of the upper module perform by themselves, and that the lower module hooks.
fn shadowed_operation(upper: &LoadedModule, lower: &LoadedModule) -> Option<&'static str> {
    let hooks_all = lower.level().access.is_some();
    performed_operations(upper).into_iter().find(|name| {
        let index = OPERATIONS.iter().position(|kind| kind.name == *name);
        hooks_all || index.is_some_and(|index| lower.rule_mask() >> index & 1 != 0)
    })
}

/// Returns the operations that rules and filters of a module perform by themselves.
fn performed_operations(module: &LoadedModule) -> Vec<&'static str> {
    let mut performed_operations = if module.needs_lookup_location { vec!["lookup"] } else { Vec::new() };
    for site in &module.own_program.sites {
        let sees_object = match site {
            Site::Attribute(..) | Site::Object(_) => true,
            Site::BuiltIn(_, operands) => operands.iter().any(refers_to_object),
            Site::Load(shared, _) | Site::Store(shared, _) | Site::Update { shared, .. } => {
                matches!(shared.area, Area::Argument(_))
            }
            _ => false,
        };
        if sees_object {
            performed_operations.extend(["lookup", "getattr"]);
        }
        match site {
            Site::BuiltIn(function, _) => performed_operations.extend(operations_performed_by(*function)),
            // The lower file system is asked whether the caller may set it.
            Site::Assign(..) => performed_operations.extend(["getattr", "access"]),
            _ => {}
        }
    }
    performed_operations
}

fn refers_to_object(operand: &Operand) -> bool {
    matches!(operand, Operand::Object | Operand::Argument(_) | Operand::Named)
}

/// Returns the operations that a built-in function performs by itself.
fn operations_performed_by(function: BuiltIn) -> &'static [&'static str] {
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

fn names_entries(program: &Program) -> bool {
    operands(program).any(|(_, operand)| matches!(operand, Operand::Named))
}

fn accesses_files(program: &Program) -> bool {
    operands(program)
        .any(|(function, _)| matches!(function, Some(BuiltIn::CopyFile | BuiltIn::GetFileData | BuiltIn::SetFileData)))
}

fn queries_lower_sizes(program: &Program) -> bool {
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

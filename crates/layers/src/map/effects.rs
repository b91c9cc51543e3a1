//! Effects of operations: denying an operation also denies every other operation that has the same effect.

use vnode::AllocateMode;
use vnode::layer::Operation;

use super::view::is_acl;
use crate::ioctl;

/// An operation that has the effect of another.
struct IndirectEffect {
    /// Name of the operation whose effect it has.
    effect: &'static str,
    /// Name of the operation that has the effect.
    by: &'static str,
    /// Predicate for the cases in which it has the effect.
    when: fn(&Operation<'_>) -> bool,
}

const fn indirect(effect: &'static str, by: &'static str, when: fn(&Operation<'_>) -> bool) -> IndirectEffect {
    IndirectEffect { effect, by, when }
}

const INDIRECT_EFFECTS: &[IndirectEffect] = &[
    indirect("setattr", "setxattr", changes_acl),
    indirect("setattr", "removexattr", changes_acl),
    indirect("setattr", "truncate", always),
    indirect("setattr", "open", truncates),
    indirect("setattr", "create", truncates),
    indirect("setattr", "ioctl", ioctl_modifies),
    indirect("truncate", "setattr", changes_size),
    indirect("truncate", "open", truncates),
    indirect("truncate", "create", truncates),
    indirect("truncate", "fallocate", collapses_range),
    indirect("write", "setattr", changes_size),
    indirect("write", "truncate", always),
    indirect("write", "open", truncates),
    indirect("write", "create", truncates),
    indirect("write", "fallocate", always),
    indirect("write", "copy_file_range", always),
    indirect("write", "ioctl", ioctl_modifies),
    indirect("read", "copy_file_range", always),
    indirect("open", "create", may_open),
    indirect("create", "mknod", creates_file),
    indirect("create", "tmpfile", always),
];

/// Returns the operations whose effect an operation has, including its own, as a bit set by index.
pub(crate) fn effects(operation: &Operation<'_>) -> u64 {
    let name = operation.name();
    let others = INDIRECT_EFFECTS.iter().filter(|entry| entry.by == name && (entry.when)(operation));
    others.fold(1 << operation.index(), |set, entry| set | operation_bit(entry.effect))
}

fn operation_bit(name: &str) -> u64 {
    Operation::NAMES.iter().position(|candidate| *candidate == name).map_or(0, |index| 1 << index)
}

fn always(_: &Operation<'_>) -> bool {
    true
}

fn changes_acl(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::SetXattr { name, .. } | Operation::RemoveXattr(name) if is_acl(name))
}

fn truncates(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Open(flags) => flags.truncates(),
        Operation::Create { how, .. } => how.flags.truncates() && !how.flags.is_exclusive(),
        _ => false,
    }
}

fn may_open(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Create { how, .. } if !how.flags.is_exclusive())
}

fn changes_size(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::SetAttributes(changes) if changes.size.is_some())
}

fn collapses_range(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Allocate { mode, .. } if mode.contains(AllocateMode::COLLAPSE_RANGE))
}

fn ioctl_modifies(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Ioctl { command } if ioctl::changes(*command))
}

fn creates_file(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::MakeNode { kind: vnode::FileKind::Regular, .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vnode::{Creation, FileKind, Name, OpenFlags, SetAttributes};

    #[test]
    fn indirect_effects_name_operations() {
        for entry in INDIRECT_EFFECTS {
            assert!(
                operation_bit(entry.effect) != 0 && operation_bit(entry.by) != 0 && entry.effect != entry.by,
                "{} by {}",
                entry.effect,
                entry.by
            );
        }
    }

    #[test]
    fn operations_have_indirect_effects() {
        let list = b"system.posix_acl_access";
        let how = Creation { mode: 0, flags: OpenFlags::WRITE.with(OpenFlags::TRUNCATE) };
        let cut = SetAttributes { size: Some(0), ..SetAttributes::default() };
        let name = Name::new(b"x").unwrap();
        for (operation, others) in [
            (Operation::SetXattr { name: list, value: b"" }, &["setattr"][..]),
            (Operation::RemoveXattr(b"user.x"), &[]),
            (Operation::Open(how.flags), &["setattr", "truncate", "write"]),
            (Operation::Open(OpenFlags::WRITE), &[]),
            (Operation::Create { name, how: &how }, &["setattr", "truncate", "write", "open"]),
            (Operation::SetAttributes(&cut), &["truncate", "write"]),
            (Operation::SetAttributes(&SetAttributes::default()), &[]),
            (Operation::MakeNode { name, kind: FileKind::Regular, mode: 0 }, &["create"]),
            (Operation::MakeNode { name, kind: FileKind::Fifo, mode: 0 }, &[]),
            (Operation::CopyRange { offset: 0, to_offset: 0, length: 1 }, &["write", "read"]),
        ] {
            let expected = others.iter().fold(1 << operation.index(), |set, name| set | operation_bit(name));
            assert_eq!(effects(&operation), expected, "{}", operation.name());
        }
    }
}

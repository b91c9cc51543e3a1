//! Effects of operations: denying an operation also denies every other operation that has the same effect.

use vnode::AllocateMode;
use vnode::layer::Operation;

use super::view::is_acl;
use crate::ioctl;

/// An operation that has the effect of another.
struct Way {
    /// Name of the operation whose effect it has.
    effect: &'static str,
    /// Name of the operation that has the effect.
    by: &'static str,
    /// Predicate for the cases in which it has the effect.
    when: fn(&Operation<'_>) -> bool,
}

const fn way(effect: &'static str, by: &'static str, when: fn(&Operation<'_>) -> bool) -> Way {
    Way { effect, by, when }
}

const WAYS: &[Way] = &[
    way("setattr", "setxattr", changes_list),
    way("setattr", "removexattr", changes_list),
    way("setattr", "truncate", always),
    way("setattr", "open", truncates),
    way("setattr", "create", truncates),
    way("setattr", "ioctl", changes),
    way("truncate", "setattr", changes_size),
    way("truncate", "open", truncates),
    way("truncate", "create", truncates),
    way("truncate", "fallocate", cuts_out),
    way("write", "setattr", changes_size),
    way("write", "truncate", always),
    way("write", "open", truncates),
    way("write", "create", truncates),
    way("write", "fallocate", always),
    way("write", "copy_file_range", always),
    way("write", "ioctl", changes),
    way("read", "copy_file_range", always),
    way("open", "create", may_open),
    way("create", "mknod", makes_file),
    way("create", "tmpfile", always),
];

/// Returns the operations whose effect an operation has, including its own, as a bit set by index.
pub(crate) fn effects(operation: &Operation<'_>) -> u64 {
    let name = operation.name();
    let others = WAYS.iter().filter(|way| way.by == name && (way.when)(operation));
    others.fold(1 << operation.index(), |set, way| set | bit(way.effect))
}

fn bit(name: &str) -> u64 {
    Operation::NAMES.iter().position(|known| *known == name).map_or(0, |index| 1 << index)
}

fn always(_: &Operation<'_>) -> bool {
    true
}

fn changes_list(operation: &Operation<'_>) -> bool {
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

fn cuts_out(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Allocate { mode, .. } if mode.contains(AllocateMode::COLLAPSE_RANGE))
}

fn changes(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Ioctl { command } if ioctl::changes(*command))
}

fn makes_file(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::MakeNode { kind: vnode::FileKind::Regular, .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vnode::{Creation, FileKind, Name, OpenFlags, SetAttributes};

    #[test]
    fn every_way_names_operations() {
        for way in WAYS {
            assert!(bit(way.effect) != 0 && bit(way.by) != 0 && way.effect != way.by, "{} by {}", way.effect, way.by);
        }
    }

    #[test]
    fn an_operation_has_the_effects_of_others() {
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
            let expected = others.iter().fold(1 << operation.index(), |set, name| set | bit(name));
            assert_eq!(effects(&operation), expected, "{}", operation.name());
        }
    }
}

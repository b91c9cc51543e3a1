//! Log of a FiST module with `debug on`: each operation with its arguments and its result (FiST, section 2.2).
//!
//! Data read and written, values of extended attributes, and data of ioctls are logged by their lengths: they may be
//! secret.

use std::fmt::Write;

use vnode::layer::{LayerVnode, Operation as O};
use vnode::{Caller, Creation, Errno, Name, Result, SetAttributes, SetTime};

use super::layer::FistLayer;

/// Logs an operation and its result.
pub(crate) fn log(
    description: &str,
    (node, caller): (&LayerVnode<FistLayer>, &Caller),
    operation: &O<'_>,
    result: impl FnOnce() -> Result<String>,
) {
    if !is_enabled() {
        return;
    }
    let result = result().unwrap_or_else(error);
    tracing::debug!(target: "fist", description, user = caller.uid, process = caller.pid, path = ?path(node),
        "{} = {result}", format_call(operation));
}

/// Logs the arguments that rules have left an operation, where they differ.
pub(crate) fn log_assigned(description: &str, before: &O<'_>, now: &O<'_>) {
    if is_enabled() {
        let (before, now) = (format_call(before), format_call(now));
        if before != now {
            tracing::debug!(target: "fist", description, "{before}: rules have made it {now}");
        }
    }
}

fn is_enabled() -> bool {
    tracing::enabled!(target: "fist", tracing::Level::DEBUG)
}

/// Returns the path of an object, empty if it is unknown.
fn path(node: &LayerVnode<FistLayer>) -> String {
    vnode::Vnode::path(node).map(|path| String::from_utf8_lossy(&path).into_owned()).unwrap_or_default()
}

fn error(error: Errno) -> String {
    error.name().map_or_else(|| error.number().to_string(), str::to_owned)
}

/// Formats an operation as a call, such as `mkdir(name="new", mode=0755)`.
fn format_call(operation: &O<'_>) -> String {
    let mut arguments = CallArguments::default();
    if let Some(name) = operation.entry_name() {
        arguments.name("name", name);
    }
    match *operation {
        O::SetAttributes(changes) => arguments.changes(changes),
        O::Access(mode) => arguments.value("flags", mode.bits()),
        O::Create { how, .. } | O::TemporaryFile(how) => arguments.creation(how),
        O::MakeDirectory { mode, .. } => arguments.mode(mode),
        O::MakeNode { kind, mode, .. } => arguments.mode(kind.mode_bits() | mode),
        O::MakeSymlink { target, .. } => arguments.text("target", target),
        O::Rename { to_name, mode, .. } => {
            arguments.name("toname", to_name);
            arguments.word(format_args!("{mode:?}"));
        }
        O::Open(flags) => arguments.flags(flags.bits()),
        O::GetXattr(name) | O::RemoveXattr(name) => arguments.text("xattr", name),
        O::SetXattr { name, value } => {
            arguments.text("xattr", name);
            arguments.value("length", value.len());
        }
        O::Ioctl { command } => arguments.word(format_args!("command={command:#x}")),
        O::Read { offset, length } | O::Write { offset, length } => arguments.range(offset, length as u64),
        O::Truncate { size } => arguments.value("size", size),
        O::Fsync { data_only: true } => arguments.word(format_args!("data only")),
        O::Allocate { mode, offset, length } => {
            arguments.flags(mode.bits());
            arguments.range(offset, length);
        }
        O::Seek { offset, target } => {
            arguments.value("offset", offset);
            arguments.word(format_args!("{target:?}"));
        }
        O::CopyRange { offset, to_offset, length } => {
            arguments.range(offset, length);
            arguments.value("to", to_offset);
        }
        O::Lock(lock) | O::TestLock(lock) => {
            arguments.word(format_args!("{:?} {:?} {}..={}", lock.family, lock.kind, lock.start, lock.end));
        }
        _ => {}
    }
    format!("{}({})", operation.name(), arguments.0)
}

/// Arguments separated by commas.
#[derive(Default)]
struct CallArguments(String);

impl CallArguments {
    fn word(&mut self, word: std::fmt::Arguments<'_>) {
        if !self.0.is_empty() {
            self.0.push_str(", ");
        }
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(word);
    }

    fn value(&mut self, name: &str, value: impl std::fmt::Display) {
        self.word(format_args!("{name}={value}"));
    }

    /// Appends text in quotes, with escapes, so that nothing in a name affects the reader of the log.
    fn text(&mut self, name: &str, text: &[u8]) {
        self.word(format_args!("{name}={:?}", String::from_utf8_lossy(text)));
    }

    fn name(&mut self, what: &str, name: Name<'_>) {
        self.text(what, name.as_bytes());
    }

    fn mode(&mut self, mode: u32) {
        self.word(format_args!("mode=0{mode:o}"));
    }

    fn flags(&mut self, flags: u32) {
        self.word(format_args!("flags=0{flags:o}"));
    }

    fn range(&mut self, offset: u64, length: u64) {
        self.value("offset", offset);
        self.value("length", length);
    }

    fn creation(&mut self, how: &Creation) {
        self.mode(how.mode);
        self.flags(how.flags.bits());
    }

    fn changes(&mut self, changes: &SetAttributes) {
        changes.mode.into_iter().for_each(|mode| self.mode(mode));
        changes.uid.into_iter().for_each(|owner| self.value("owner", owner));
        changes.gid.into_iter().for_each(|group| self.value("group", group));
        changes.size.into_iter().for_each(|size| self.value("size", size));
        for (name, time) in [("atime", changes.atime), ("mtime", changes.mtime)] {
            match time {
                Some(SetTime::Now) => self.value(name, "now"),
                Some(SetTime::To(time)) => self.value(name, time.seconds),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use vnode::OpenFlags;

    use super::*;

    #[test]
    fn operations_are_logged_as_calls() {
        let name = |text: &'static [u8]| Name::new(text).unwrap();
        let how = Creation { mode: 0o644, flags: OpenFlags::READ };
        let changes =
            SetAttributes { mode: Some(0o600), size: Some(7), atime: Some(SetTime::Now), ..Default::default() };
        for (operation, expected) in [
            (O::GetAttributes, "getattr()".to_owned()),
            (O::Lookup(name(b"a\nb")), r#"lookup(name="a\nb")"#.to_owned()),
            (O::SetAttributes(&changes), "setattr(mode=0600, size=7, atime=now)".to_owned()),
            (
                O::Create { name: name(b"x"), how: &how },
                format!("create(name=\"x\", mode=0644, flags=0{:o})", OpenFlags::READ.bits()),
            ),
            (O::MakeDirectory { name: name(b"d"), mode: 0o755 }, r#"mkdir(name="d", mode=0755)"#.to_owned()),
            (O::SetXattr { name: b"user.key", value: b"secret" }, r#"setxattr(xattr="user.key", length=6)"#.to_owned()),
            (O::Write { offset: 4096, length: 10 }, "write(offset=4096, length=10)".to_owned()),
            (O::Ioctl { command: 0x4601 }, "ioctl(command=0x4601)".to_owned()),
        ] {
            assert_eq!(format_call(&operation), expected);
        }
    }
}

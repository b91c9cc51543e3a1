//! Events of `audit`, each written as one JSON object per line.

use jiff::Timestamp;
use vnode::layer::Operation;
use vnode::{AccessMode, AllocateMode, Caller, OpenFlags, RenameMode, Result, SeekTarget, SetAttributes, SetTime};

/// An operation with everything that its line contains: complete, since paths and processes change.
#[derive(Debug)]
pub(crate) struct AuditEvent {
    pub(crate) time: Timestamp,
    pub(crate) operation: &'static str,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
    pub(crate) process: Vec<u8>,
    pub(crate) result: Result<()>,
    /// Option by which `audit` itself refused the operation.
    pub(crate) refused_by: Option<&'static str>,
    /// Paths, the name, and the other arguments of the operation.
    pub(crate) details: Vec<(&'static str, Value)>,
}

/// The value of a detail.
#[derive(Debug)]
pub(crate) enum Value {
    Number(u64),
    /// Permission bits, written in octal.
    Mode(u32),
    Text(String),
    /// Names and paths, which are arbitrary bytes.
    Bytes(Vec<u8>),
}

impl AuditEvent {
    /// Formats the line, without its newline.
    pub(crate) fn line(&self) -> String {
        let mut line = JsonLine::at(self.time);
        line.text("operation", self.operation);
        for (key, value) in &self.details {
            match value {
                Value::Number(number) => line.number(key, *number),
                Value::Mode(mode) => line.text(key, &format!("{mode:04o}")),
                Value::Text(text) => line.text(key, text),
                Value::Bytes(bytes) => line.bytes(key, bytes),
            }
        }
        line.number("uid", u64::from(self.uid));
        line.number("gid", u64::from(self.gid));
        line.number("pid", u64::from(self.pid));
        line.bytes("process", &self.process);
        match self.result {
            Ok(()) => line.text("result", "ok"),
            Err(error) => line.text("result", &format!("{error:?}")),
        }
        if let Some(option) = self.refused_by {
            line.text("refused_by", option);
        }
        line.end()
    }
}

/// Formats the line that reports the number of lines lost before it.
pub(crate) fn dropped_line(time: Timestamp, count: u64) -> String {
    let mut line = JsonLine::at(time);
    line.number("dropped", count);
    line.end()
}

/// Returns the name of the caller's process, or an empty name if the process no longer exists.
pub(crate) fn process_name(caller: &Caller) -> Vec<u8> {
    if caller.pid == 0 {
        return Vec::new();
    }
    procfs::Process::Numbered(caller.pid).name().ok().flatten().unwrap_or_default()
}

/// A JSON object under construction.
struct JsonLine(String);

impl JsonLine {
    fn at(time: Timestamp) -> Self {
        Self(format!("{{\"time\":\"{time:.9}\""))
    }

    fn number(&mut self, key: &str, number: u64) {
        self.key(key);
        self.0.push_str(&number.to_string());
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.0.push_str(&serde_json::Value::from(text).to_string());
    }

    /// Appends bytes as text. Bytes that are not UTF-8 are written with replacement characters, for reading, and once
    /// more in hexadecimal, exactly.
    fn bytes(&mut self, key: &str, bytes: &[u8]) {
        self.text(key, &String::from_utf8_lossy(bytes));
        if std::str::from_utf8(bytes).is_err() {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            self.text(&format!("{key}_hex"), &digits);
        }
    }

    fn key(&mut self, key: &str) {
        self.0.push_str(",\"");
        self.0.push_str(key);
        self.0.push_str("\":");
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Appends the arguments of an operation other than names and paths to `details`.
pub(crate) fn arguments(operation: &Operation<'_>, details: &mut Vec<(&'static str, Value)>) {
    let range = |offset: u64, length: u64| [("offset", Value::Number(offset)), ("length", Value::Number(length))];
    match operation {
        Operation::SetAttributes(changes) => attributes(changes, details),
        Operation::Access(mode) => details.push(("access", Value::Text(access(*mode)))),
        Operation::Create { how, .. } | Operation::TemporaryFile(how) => {
            details.extend([("flags", Value::Text(flags(how.flags))), ("mode", Value::Mode(how.mode))]);
        }
        Operation::MakeDirectory { mode, .. } => details.push(("mode", Value::Mode(*mode))),
        Operation::MakeNode { kind, mode, .. } => {
            details.extend([("kind", Value::Text(format!("{kind:?}"))), ("mode", Value::Mode(*mode))]);
        }
        Operation::MakeSymlink { target, .. } => details.push(("target", Value::Bytes(target.to_vec()))),
        Operation::Rename { mode, .. } if *mode != RenameMode::Replace => {
            details.push(("rename_mode", Value::Text(format!("{mode:?}"))));
        }
        Operation::Open(how) => details.push(("flags", Value::Text(flags(*how)))),
        Operation::GetXattr(name) | Operation::RemoveXattr(name) => {
            details.push(("attribute", Value::Bytes(name.to_vec())));
        }
        Operation::SetXattr { name, value } => {
            details.extend([("attribute", Value::Bytes(name.to_vec())), ("length", Value::Number(value.len() as u64))])
        }
        Operation::Ioctl { command } => details.push(("command", Value::Text(format!("{command:#010x}")))),
        Operation::Read { offset, length } | Operation::Write { offset, length } => {
            details.extend(range(*offset, *length as u64));
        }
        Operation::Truncate { size } => details.push(("size", Value::Number(*size))),
        Operation::Allocate { mode, offset, length } => {
            details.push(("allocate_mode", Value::Text(allocate_mode(*mode))));
            details.extend(range(*offset, *length));
        }
        Operation::Seek { offset, target } => {
            let target = if *target == SeekTarget::Data { "SEEK_DATA" } else { "SEEK_HOLE" };
            details.extend([("offset", Value::Number(*offset)), ("seek", Value::Text(target.to_owned()))]);
        }
        Operation::CopyRange { offset, to_offset, length } => {
            details.extend(range(*offset, *length));
            details.push(("to_offset", Value::Number(*to_offset)));
        }
        Operation::Lock(lock) | Operation::TestLock(lock) => {
            details.push(("lock", Value::Text(format!("{:?}", lock.kind))));
            details.extend([("offset", Value::Number(lock.start)), ("end", Value::Number(lock.end))]);
        }
        _ => {}
    }
}

fn attributes(changes: &SetAttributes, details: &mut Vec<(&'static str, Value)>) {
    let id = |key, id: Option<u32>| id.map(|id| (key, Value::Number(u64::from(id))));
    let time = |key, time: Option<SetTime>| {
        time.map(|time| match time {
            SetTime::Now => (key, Value::Text("now".to_owned())),
            SetTime::To(time) => match Timestamp::new(time.seconds, time.nanoseconds as i32) {
                Ok(time) => (key, Value::Text(format!("{time:.9}"))),
                Err(_) => (key, Value::Text(format!("{} s", time.seconds))),
            },
        })
    };
    details.extend(changes.mode.map(|mode| ("mode", Value::Mode(mode))));
    details.extend(id("new_uid", changes.uid));
    details.extend(id("new_gid", changes.gid));
    details.extend(changes.size.map(|size| ("size", Value::Number(size))));
    details.extend(time("atime", changes.atime));
    details.extend(time("mtime", changes.mtime));
}

fn flags(flags: OpenFlags) -> String {
    let access = match (flags.reads(), flags.writes()) {
        (true, true) => "O_RDWR",
        (false, _) => "O_WRONLY",
        (true, false) => "O_RDONLY",
    };
    let others = [(flags.appends(), "|O_APPEND"), (flags.truncates(), "|O_TRUNC"), (flags.is_exclusive(), "|O_EXCL")];
    others.iter().filter(|(set, _)| *set).fold(access.to_owned(), |text, (_, name)| text + name)
}

fn access(mode: AccessMode) -> String {
    let bits = [(AccessMode::READ, 'r'), (AccessMode::WRITE, 'w'), (AccessMode::EXECUTE, 'x')];
    bits.iter().filter(|(bit, _)| mode.contains(*bit)).map(|(_, letter)| letter).collect()
}

fn allocate_mode(mode: AllocateMode) -> String {
    let names = [
        (AllocateMode::KEEP_SIZE, "KEEP_SIZE"),
        (AllocateMode::PUNCH_HOLE, "PUNCH_HOLE"),
        (AllocateMode::ZERO_RANGE, "ZERO_RANGE"),
        (AllocateMode::COLLAPSE_RANGE, "COLLAPSE_RANGE"),
        (AllocateMode::INSERT_RANGE, "INSERT_RANGE"),
    ];
    let set: Vec<&str> = names.iter().filter(|(bit, _)| mode.contains(*bit)).map(|(_, name)| *name).collect();
    if set.is_empty() { "ALLOCATE".to_owned() } else { set.join("|") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vnode::Errno;

    #[test]
    fn arbitrary_bytes_make_a_valid_line_and_can_be_recovered() {
        let event = AuditEvent {
            time: Timestamp::new(1, 5).unwrap(),
            operation: "open",
            uid: 1,
            gid: 2,
            pid: 3,
            process: b"a\"b\n".to_vec(),
            result: Err(Errno::EACCES),
            refused_by: None,
            details: vec![
                ("path", Value::Bytes(b"/a\xff\\\x01\x7f\"\n".to_vec())),
                ("flags", Value::Text(flags(OpenFlags::WRITE.with(OpenFlags::APPEND)))),
                ("mode", Value::Mode(0o4755)),
            ],
        };
        let line = event.line();
        assert!(!line.contains('\n'));
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["time"], "1970-01-01T00:00:01.000000005Z");
        assert_eq!(object["path_hex"], "2f61ff5c017f220a");
        assert_eq!(object["process"], "a\"b\n");
        assert_eq!((&object["result"], &object["mode"]), (&"EACCES".into(), &"4755".into()));
        assert_eq!(object["flags"], "O_WRONLY|O_APPEND");
        assert_eq!(dropped_line(event.time, 7), r#"{"time":"1970-01-01T00:00:01.000000005Z","dropped":7}"#);
    }
}

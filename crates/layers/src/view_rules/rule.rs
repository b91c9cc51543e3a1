//! Rules of views: each selects a user, a session, a process and its descendants, or the processes that run a program.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use vnode::Caller;

use super::process;
use super::process_tree::ProcessTree;
use super::session::Session;
use crate::options::number;

/// A rule that selects the processes of a view.
pub(crate) enum ViewRule {
    /// Processes that act as this user.
    User(u32),
    /// The processes of a session.
    Session(Arc<Session>),
    /// A process and all its descendants.
    Process(Arc<ProcessTree>),
    /// Processes that run the program at this path.
    Executable(Vec<u8>),
}

/// Subjects of rules, as they are written.
pub(crate) const RULE_SUBJECTS: [&str; 4] = ["uid", "session", "pid", "executable"];

impl ViewRule {
    /// A rule about one of [`RULE_SUBJECTS`].
    ///
    /// # Errors
    /// A description of a valid value.
    pub(crate) fn new(subject: &str, value: &str) -> Result<Self, String> {
        match subject {
            "uid" => Ok(Self::User(number(value)?)),
            "session" => {
                let session = Some(number(value)?).filter(|session| *session != 0).and_then(Session::of);
                session.map(Self::Session).ok_or("the number of a session with processes".to_owned())
            }
            "pid" => {
                ProcessTree::of(number(value)?).map(Self::Process).ok_or("the number of a running process".to_owned())
            }
            "executable" if value.starts_with('/') => {
                // The kernel reports programs' paths without symlinks.
                let path = std::fs::canonicalize(value).unwrap_or_else(|_| value.into());
                process::start_program_resolver();
                Ok(Self::Executable(path.as_os_str().as_bytes().to_vec()))
            }
            "executable" => Err("a path from /".to_owned()),
            _ => Err("one of uid:NUMBER, session:NUMBER, pid:NUMBER, executable:PATH".to_owned()),
        }
    }

    /// A rule as `SUBJECT:VALUE`.
    ///
    /// # Errors
    /// As [`ViewRule::new`].
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (subject, value) = text.split_once(':').unwrap_or((text, ""));
        Self::new(subject, value)
    }

    /// Returns whether the rule selects this caller.
    pub(crate) fn matches(&self, caller: &Caller) -> bool {
        match self {
            Self::User(uid) => caller.uid == *uid,
            _ if caller.pid == 0 => false,
            Self::Session(session) => session.contains(caller.pid),
            Self::Process(process_tree) => process_tree.contains(caller.pid),
            Self::Executable(path) => process::executable(caller.pid).is_some_and(|found| is_program(path, &found)),
        }
    }
}

/// Returns whether a process whose program is `found` according to the kernel runs the program at `path`, or ran it before it
/// was replaced.
fn is_program(path: &[u8], found: &[u8]) -> bool {
    const DELETED_SUFFIX: &[u8] = b" (deleted)";
    found.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest == DELETED_SUFFIX)
}

impl fmt::Display for ViewRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(formatter, "uid:{uid}"),
            Self::Session(session) => write!(formatter, "session:{}", session.number),
            Self::Process(process_tree) => write!(formatter, "pid:{}", process_tree.root.pid),
            Self::Executable(path) => write!(formatter, "executable:{}", String::from_utf8_lossy(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_round_trip() {
        let own = format!("pid:{}", std::process::id());
        let mut leader = std::process::Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap();
        while process::session(leader.id()) != Some(leader.id()) {
            std::thread::yield_now();
        }
        let session = format!("session:{}", leader.id());
        for text in ["uid:1000", &session, &own, "executable:/no/such/program"] {
            assert_eq!(ViewRule::parse(text).unwrap().to_string(), text);
        }
        leader.kill().unwrap();
        leader.wait().unwrap();
        for text in [
            "uid",
            "uid:x",
            "session:0",
            &session,
            "session:4294967295",
            "pid:4294967295",
            "executable:sh",
            "gid:1",
            "",
        ] {
            assert!(ViewRule::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn replaced_program_still_matches() {
        assert!(is_program(b"/bin/a", b"/bin/a") && is_program(b"/bin/a", b"/bin/a (deleted)"));
        assert!(!is_program(b"/bin/a", b"/bin/ab") && !is_program(b"/bin/a", b"/bin"));
    }

    #[test]
    fn rules_match_the_named_callers() {
        let (own, server) = (std::process::id(), Caller::process(0, 0, 0, 0));
        let caller = Caller::process(own, 1000, 1000, 0);
        for rule in [format!("pid:{own}"), "uid:1000".to_owned(), "executable:/proc/self/exe".to_owned()] {
            let rule = ViewRule::parse(&rule).unwrap();
            assert!(rule.matches(&caller) && !rule.matches(&server), "{rule}");
        }
    }
}

//! Performs calls as a user: by a thread with the user's credentials, or by a process in a user namespace.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use conformance::{Abilities, Ability, Client, Identity, Mounted, Subject};
use libtest_mimic::Failed;

use super::calls::{AccessRoute, CALLS, perform_call};
use super::users::User;

/// Name of the variable that makes this program a child process, with the directory in which it acts.
const DIRECTORY: &str = "PLYFS_HOSTILE_DIRECTORY";

pub(crate) enum Actor {
    Thread { subject: Mounted, identity: Identity },
    Process { child: Child, requests: ChildStdin, answers: BufReader<ChildStdout> },
}

impl Actor {
    /// Starts an actor for this user in a directory.
    pub(crate) fn start(user: &User, directory: &Path) -> Result<Self, Failed> {
        let identity = (user.identity)();
        if !user.has_namespace {
            return Ok(Self::Thread { subject: Mounted::new(directory)?, identity });
        }
        let (uid, gid) = (identity.uid.to_string(), identity.gid.to_string());
        let mut child = Command::new("setpriv")
            .args(["--reuid", &uid, "--regid", &gid, "--clear-groups", "unshare", "--user", "--map-root-user"])
            .arg(std::env::current_exe()?)
            .env(DIRECTORY, directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the process of a namespace has no pipes".into());
        };
        Ok(Self::Process { child, requests, answers: BufReader::new(answers) })
    }

    /// Performs a call in a directory of objects, and returns its result.
    pub(crate) fn perform(&mut self, directory: &str, call: usize, route: AccessRoute) -> Result<String, Failed> {
        match self {
            // One thread per call: its descriptors have known numbers, and its working directory is the compared
            // directory.
            Self::Thread { subject, identity } => Ok(result(&*subject.client(identity), directory, call, route)),
            Self::Process { requests, answers, .. } => {
                writeln!(requests, "{directory} {call} {}", route as usize)?;
                let mut line = String::new();
                answers.read_line(&mut line)?;
                if line.is_empty() {
                    return Err("the process of a namespace has ended".into());
                }
                Ok(line.trim_end().to_owned())
            }
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        if let Self::Process { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Performs the calls requested on standard input and then ends the process, if this is a child process.
pub(crate) fn serve_calls_if_requested() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let subject = Mounted::new(&directory).expect("the directory can be opened by all");
    let subject = subject.limited_to(Abilities::complete().without(Ability::Users));
    for line in std::io::stdin().lines() {
        let Ok(line) = line else { break };
        let words: Vec<&str> = line.split(' ').collect();
        let [directory, call, route] = words[..] else { break };
        let number = |word: &str| word.parse::<usize>().expect("numbers are written by this program");
        let route = super::calls::ROUTES[number(route)];
        println!("{}", result(&*subject.client(&Identity::ROOT), directory, number(call), route));
    }
    std::process::exit(0);
}

fn result(client: &dyn Client, directory: &str, call: usize, route: AccessRoute) -> String {
    match perform_call(client, directory, &CALLS[call], route) {
        Ok(answer) => format!("ok {answer}").trim_end().to_owned(),
        Err(error) => format!("{error:?}"),
    }
}

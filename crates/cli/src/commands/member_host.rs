//! What the commands of layers and bases use of this command line.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use stack::OpenBranch;
use stack::command::{CommandHost, MountAnswers, Print, ProgressBar};
use vnode::Control;

use super::{find_running, is_mounted, notify, print, progress, send_command};
use crate::control::Request;
use crate::control::client::{self, Mount};
use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;

/// Time for which all servers of other users together are queried; a query that has begun ends by itself.
const OTHER_USERS_TIMEOUT: Duration = Duration::from_secs(10);

/// The host of the commands of layers and bases.
pub(crate) struct MemberHost;

impl CommandHost for MemberHost {
    fn control(&self, mount_point: &Path, command: Control) -> Outcome<String> {
        send_command(&find_running(mount_point)?, command)
    }

    fn control_all(&self, target: &str, commands: &[&str]) -> Vec<MountAnswers> {
        let deadline = Instant::now() + OTHER_USERS_TIMEOUT;
        let answer = |mount: &Mount, name: &str| {
            // Their servers may be as slow as they like.
            if mount.report.uid != geteuid().as_raw() && Instant::now() > deadline {
                notify(&no_answer(mount, "other users' servers have used up their time"));
                return String::new();
            }
            let (target, name) = (target.to_owned(), name.to_owned());
            match mount.text(&Request::Control { target, name, arguments: Vec::new(), follows: false }) {
                Ok(text) => text,
                // Such as that its stack has no such member; or the mount has ended meanwhile, and a server that still ends has a
                // claim on the branches that it may change.
                Err(failure) if failure.exit != Exit::NoAnswer || !is_mounted(&mount.report.mount_point) => {
                    String::new()
                }
                Err(failure) => {
                    notify(&no_answer(mount, &failure.message));
                    String::new()
                }
            }
        };
        let answers = |mount: Mount| MountAnswers {
            answers: commands.iter().map(|command| answer(&mount, command)).collect(),
            uid: mount.report.uid,
            mount_point: mount.report.mount_point,
        };
        client::mounts().into_iter().map(answers).collect()
    }

    fn branch_text(&self, argument: &OsStr) -> Outcome<String> {
        let expression = match Expression::read_path(argument) {
            Some(expression) => expression?,
            None => Expression::read(argument)?,
        };
        if !expression.is_single_branch() {
            let message = format!("'{}' is not one branch; put a stack in parentheses", argument.display());
            return Err(Failure::new(Exit::Expression, message));
        }
        Ok(expression.canonical_form())
    }

    fn open_branches(&self, stack: &OsStr) -> Outcome<Vec<OpenBranch>> {
        Expression::read(stack)?.build_branches()
    }

    fn print(&self, text: &str) -> Outcome {
        print(text)
    }

    fn notify(&self, message: &dyn Display) {
        notify(message);
    }

    fn with_progress(&self, title: &str, work: &mut dyn FnMut(&Print<'_>)) {
        progress::with_progress(title, |line| {
            work(&|text| {
                line.hide();
                print(text)
            });
        });
    }

    fn progress_bar(&self, title: &str) -> Box<dyn ProgressBar> {
        Box::new(progress::Bar::new(title))
    }

    fn can_ask(&self) -> bool {
        stdin().is_terminal() && stderr().is_terminal()
    }

    fn ask(&self, question: &str) -> Option<String> {
        if !stdin().is_terminal() {
            return None;
        }
        let mut output = stderr().lock();
        // A question that nobody has seen must not be answered.
        output.write_all(question.as_bytes()).and_then(|()| output.flush()).ok()?;
        let mut line = String::new();
        match stdin().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim().to_owned()),
        }
    }
}

/// Returns the message about a mount that was not considered.
fn no_answer(mount: &Mount, reason: &str) -> String {
    format!("the mount on {} is not considered: {reason}", mount.report.mount_point)
}

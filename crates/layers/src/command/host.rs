//! What the command line offers to the commands of layers and bases.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use vnode::Control;

use super::Outcome;
use crate::branch::Branch;

/// Services of the command line for the commands of layers and bases.
pub trait CommandHost {
    /// Sends a control command to a member of the stack that is mounted on `mount_point`, and returns the answer. Shows the progress
    /// of the command on a terminal meanwhile.
    ///
    /// # Errors
    /// Fails if nothing is mounted there, if the server does not answer, or if it refuses the command.
    fn control(&self, mount_point: &Path, command: Control) -> Outcome<String>;

    /// Sends control commands without arguments to the members of the kind `target` in all mounts, and returns the answers. Leaves out
    /// mounts whose servers do not answer; where a mount has no such member, its answers are empty.
    fn control_all(&self, target: &str, commands: &[&str]) -> Vec<MountAnswers>;

    /// Returns a branch, with or without a mode, in its canonical form: it means the same to a server, whose working directory differs.
    ///
    /// # Errors
    /// Fails if the argument is not one branch of a stack expression.
    fn branch_text(&self, argument: &OsStr) -> Outcome<String>;

    /// Opens the branches of the stack whose first layer joins them, or, of a stack without layers, those that it names.
    ///
    /// # Errors
    /// Fails if the argument is not such a stack, or if a branch cannot be opened.
    fn open_branches(&self, stack: &OsStr) -> Outcome<Vec<Branch>>;

    /// Prints text on standard output. A closed pipe is not a failure.
    ///
    /// # Errors
    /// Fails if standard output cannot be written.
    fn print(&self, text: &str) -> Outcome;

    /// Prints a message on standard error.
    fn notify(&self, message: &dyn fmt::Display);

    /// Runs long work in this process, with a progress line on a terminal that begins with `title` and counts what the work reports to
    /// `vnode::progress`. The work prints by the function that it is called with, which removes the line first.
    fn with_progress(&self, title: &str, work: &mut dyn FnMut(&Print<'_>));

    /// Returns a progress bar on a terminal that begins with `title`, for long work of this process whose extent is known.
    fn progress_bar(&self, title: &str) -> Box<dyn ProgressBar>;

    /// Returns whether there is a person to ask: standard input and standard error are a terminal.
    fn can_ask(&self) -> bool;

    /// Prints a question on the terminal, and returns the line that is entered; `None` if standard input is no terminal, or has ended.
    fn ask(&self, question: &str) -> Option<String>;
}

/// A progress bar, which is removed from the terminal when it is dropped. Without a terminal, it shows nothing.
pub trait ProgressBar {
    /// Shows that `done` of `total` units of a phase of the work are done.
    fn show(&self, phase: &str, done: u64, total: u64);

    /// Removes the bar until it is shown again, so that something can be printed in its place.
    fn hide(&self);
}

/// Prints text on standard output, in place of a progress line.
pub type Print<'a> = dyn Fn(&str) -> Outcome + 'a;

/// Answers of one mount to the commands of [`CommandHost::control_all`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountAnswers {
    /// Path of the mount point.
    pub mount_point: String,
    /// User of its server, as the kernel has it.
    pub uid: u32,
    /// The answer to each command, in their order; empty if the mount refused it.
    pub answers: Vec<String>,
}

//! `plyfs shell`: work in an unmounted stack, with the permissions of its caller.

mod attributes;
mod content;
mod copy;
mod editor;
mod format;
mod listing;
mod naming;
mod session;
mod words;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;

use plyfs::own_caller;
use vnode::{Caller, Errno, FileSystemRef};

use crate::exit::{Exit, Failure, Outcome};
use session::{Command, Session};

/// Runs the given commands, or those of standard input. Fails if any command failed.
pub(crate) fn run(file_system: FileSystemRef, commands: Option<&OsStr>) -> Outcome {
    let mut output = io::stdout().lock();
    let mut errors = io::stderr();
    let mut session = Session::new(file_system.clone(), own_caller(), &COMMANDS, &mut output, &mut errors);
    session.is_terminal = io::stdout().is_terminal();
    match commands {
        Some(text) => session.run(text.as_bytes()),
        None if io::stdin().is_terminal() => editor::run_interactive(&mut session)?,
        None => session.run(&standard_input()?),
    }
    let failed = session.failed;
    let synced = file_system.end_of_use();
    match (failed, synced) {
        // Already reported, command by command.
        (true, _) => Err(Failure::silent(Exit::Failure)),
        (false, Err(errno)) if errno != Errno::EROFS => {
            Err(Failure::new(Exit::Failure, format!("cannot write everything to storage: {errno}; check the base")))
        }
        _ => Ok(()),
    }
}

/// Returns the output of the commands as a given caller, errors included. Failures are reported only there.
pub(crate) fn run_captured(file_system: FileSystemRef, caller: Caller, commands: &[u8]) -> Vec<u8> {
    let printed = RefCell::new(Vec::new());
    let (mut output, mut errors) = (CombinedWriter(&printed), CombinedWriter(&printed));
    Session::new(file_system, caller, &COMMANDS, &mut output, &mut errors).run(commands);
    printed.into_inner()
}

/// A writer that combines output and errors in the order in which they arrive.
struct CombinedWriter<'a>(&'a RefCell<Vec<u8>>);

impl Write for CombinedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All commands, in the order in which `help` lists them.
const COMMANDS: [Command; 28] = [
    Command { name: "ls", usage: "ls [-aldinR] [PATH...]", about: "list directories", run: listing::ls },
    Command {
        name: "tree",
        usage: "tree [-a] [PATH]",
        about: "list a directory with all below it",
        run: listing::tree,
    },
    Command { name: "stat", usage: "stat [-L] PATH...", about: "show all attributes", run: listing::stat },
    Command { name: "df", usage: "df", about: "show the space of the file system", run: listing::df },
    Command { name: "cd", usage: "cd [PATH]", about: "change the directory", run: listing::cd },
    Command { name: "pwd", usage: "pwd", about: "show the directory", run: listing::pwd },
    Command { name: "readlink", usage: "readlink PATH...", about: "show where symlinks point", run: listing::readlink },
    Command { name: "cat", usage: "cat PATH...", about: "show the contents of files", run: content::cat },
    Command {
        name: "echo",
        usage: "echo [-n] WORD... [> PATH | >> PATH]",
        about: "write words, to a file if told so",
        run: content::echo,
    },
    Command {
        name: "write",
        usage: "write PATH [TEXT]",
        about: "replace a file's content by the text",
        run: content::write,
    },
    Command {
        name: "append",
        usage: "append PATH TEXT",
        about: "add the text at the end of a file",
        run: content::append,
    },
    Command {
        name: "truncate",
        usage: "truncate -s SIZE PATH...",
        about: "set the size of files",
        run: content::truncate,
    },
    Command {
        name: "touch",
        usage: "touch [-c] PATH...",
        about: "make files, or set their times to now",
        run: content::touch,
    },
    Command { name: "get", usage: "get [-rp] PATH... LOCAL", about: "copy out of the stack", run: copy::get },
    Command { name: "put", usage: "put [-rp] LOCAL... PATH", about: "copy into the stack", run: copy::put },
    Command { name: "cp", usage: "cp [-rp] PATH... TARGET", about: "copy within the stack", run: copy::cp },
    Command { name: "mv", usage: "mv [-n] PATH... TARGET", about: "rename or move", run: naming::mv },
    Command { name: "mkdir", usage: "mkdir [-p] PATH...", about: "make directories", run: naming::mkdir },
    Command { name: "rm", usage: "rm [-rf] PATH...", about: "remove files; with -r directories too", run: naming::rm },
    Command { name: "rmdir", usage: "rmdir PATH...", about: "remove empty directories", run: naming::rmdir },
    Command { name: "ln", usage: "ln [-s] TARGET PATH", about: "make a link, with -s a symlink", run: naming::ln },
    Command {
        name: "chmod",
        usage: "chmod [-R] MODE PATH...",
        about: "change permissions: 755 or u+x,go-w",
        run: attributes::chmod,
    },
    Command {
        name: "chown",
        usage: "chown [-hR] OWNER[:GROUP] PATH...",
        about: "change owners",
        run: attributes::chown,
    },
    Command {
        name: "xattr",
        usage: "xattr list PATH | get NAME PATH | set NAME VALUE PATH | rm NAME PATH",
        about: "extended attributes",
        run: attributes::xattr,
    },
    Command { name: "sync", usage: "sync", about: "write everything to storage", run: listing::sync },
    Command {
        name: "umask",
        usage: "umask [MODE]",
        about: "show or set the mask of new files' permissions",
        run: attributes::umask,
    },
    Command { name: "help", usage: "help [COMMAND]", about: "list the commands", run: listing::help },
    Command { name: "exit", usage: "exit", about: "end the shell", run: listing::exit },
];

fn standard_input() -> Outcome<Vec<u8>> {
    let mut text = Vec::new();
    match io::stdin().read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::new(Exit::Failure, format!("cannot read the commands: {error}; give them with -c"))),
    }
}

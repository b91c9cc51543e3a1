//! `plyfs shell`: working in a stack that is not mounted, with the rights of whoever runs it.

mod attributes;
mod content;
mod copy;
mod editor;
mod format;
mod listing;
mod naming;
mod place;
mod words;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;

use stack::suggest;
use vnode::{Caller, Errno, FileSystemRef};

use crate::exit::{Exit, Failure, Outcome};
use place::{Place, Tree};

/// Runs the commands given, or those of standard input. Fails if any command failed.
pub fn run(file_system: FileSystemRef, commands: Option<&OsStr>) -> Outcome {
    let mut output = io::stdout().lock();
    let mut errors = io::stderr();
    let mut session = Session::new(file_system.clone(), own_caller(), &mut output, &mut errors);
    match commands {
        Some(text) => session.run(text.as_bytes()),
        None if io::stdin().is_terminal() => editor::converse(&mut session)?,
        None => session.run(&standard_input()?),
    }
    let failed = session.failed;
    let synced = file_system.sync();
    match (failed, synced) {
        // Told command by command.
        (true, _) => Err(Failure::silent(Exit::Failure)),
        (false, Err(errno)) if errno != Errno::EROFS => {
            Err(Failure::new(Exit::Failure, format!("cannot write everything to storage: {errno}; check the base")))
        }
        _ => Ok(()),
    }
}

/// What commands print as somebody, errors included. What failed is told there alone.
pub fn transcribe(file_system: FileSystemRef, caller: Caller, commands: &[u8]) -> Vec<u8> {
    let printed = RefCell::new(Vec::new());
    let (mut output, mut errors) = (Both(&printed), Both(&printed));
    Session::new(file_system, caller, &mut output, &mut errors).run(commands);
    printed.into_inner()
}

/// Output and errors in one, in the order in which they come.
struct Both<'a>(&'a RefCell<Vec<u8>>);

impl Write for Both<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One command of the shell.
struct Command {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(&mut Session<'_>, &[Vec<u8>]) -> Result<(), Problem>,
}

/// Every command, as `help` lists them.
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

/// Where the shell is, and how it has fared.
struct Session<'a> {
    tree: Tree,
    directory: Place,
    names: format::Names,
    output: &'a mut dyn Write,
    errors: &'a mut dyn Write,
    failed: bool,
    ended: bool,
}

/// Why a command failed.
#[derive(Debug)]
enum Problem {
    /// An operation on a path.
    Path(Vec<u8>, Errno),
    /// The command line, in words.
    Words(String),
    /// A wrong command line: the command's usage is shown.
    Usage,
    /// The output cannot be written.
    Output(io::Error),
    /// It was reported already.
    Reported,
}

impl<'a> Session<'a> {
    fn new(file_system: FileSystemRef, caller: Caller, output: &'a mut dyn Write, errors: &'a mut dyn Write) -> Self {
        let tree = Tree::new(file_system, caller);
        let directory = tree.root();
        Session { tree, directory, names: format::Names::default(), output, errors, failed: false, ended: false }
    }

    /// Runs a text of commands, to its end even if some fail.
    fn run(&mut self, text: &[u8]) {
        for command in words::commands(text) {
            if self.ended {
                return;
            }
            self.run_one(command);
        }
    }

    fn run_one(&mut self, text: &[u8]) {
        let Some(words) = words::words(text) else {
            let text = String::from_utf8_lossy(text.trim_ascii()).into_owned();
            return self.report("", &Problem::Words(format!("a quote is not closed in: {text}")));
        };
        let Some((name, operands)) = words.split_first() else { return };
        let name = String::from_utf8_lossy(name);
        let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
            let remedy = match suggest::nearest(&name, COMMANDS.iter().map(|command| command.name)) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => "help lists the commands".to_owned(),
            };
            return self.report("", &Problem::Words(format!("unknown command '{name}'; {remedy}")));
        };
        let done = (command.run)(self, operands).and_then(|()| self.output.flush().map_err(Problem::Output));
        match done {
            Ok(()) => {}
            Err(Problem::Usage) => {
                self.report(command.name, &Problem::Words(format!("wrong usage; write {}", command.usage)))
            }
            Err(problem) => self.report(command.name, &problem),
        }
    }

    /// Does `work` for each operand; those that fail are reported, and the others are done nevertheless.
    fn each(
        &mut self,
        command: &str,
        operands: &[Vec<u8>],
        mut work: impl FnMut(&mut Self, &[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut result = Ok(());
        for operand in operands {
            match work(self, operand) {
                Ok(()) => {}
                // Nobody reads: the other operands would not be seen either.
                Err(problem @ Problem::Output(_)) => return Err(problem),
                Err(problem) => {
                    self.report(command, &problem);
                    result = Err(Problem::Reported);
                }
            }
        }
        result
    }

    fn report(&mut self, command: &str, problem: &Problem) {
        self.failed = true;
        let prefix = if command.is_empty() { String::new() } else { format!("{command}: ") };
        match problem {
            Problem::Reported => {}
            Problem::Output(_) => self.ended = true,
            _ => {
                let _ = writeln!(self.errors, "plyfs: {prefix}{problem}");
            }
        }
    }

    /// The place that a path means.
    fn find(&self, path: &[u8], follow: bool) -> Result<Place, Problem> {
        self.tree.find(&self.directory, path, follow).at(path)
    }

    /// The directory that a path's last component is in, and that component.
    fn find_parent(&self, path: &[u8]) -> Result<(Place, vnode::NameBuf), Problem> {
        self.tree.find_parent(&self.directory, path).at(path)
    }

    fn caller(&self) -> &Caller {
        &self.tree.caller
    }

    fn print(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        self.output.write_all(bytes).map_err(Problem::Output)
    }
}

/// Says which path an error is about.
trait At<T> {
    /// The error with its path.
    fn at(self, path: &[u8]) -> Result<T, Problem>;
}

impl<T> At<T> for vnode::Result<T> {
    fn at(self, path: &[u8]) -> Result<T, Problem> {
        self.map_err(|errno| Problem::Path(path.to_vec(), errno))
    }
}

/// Splits options of one letter from operands. Every letter must be among `known`; `--` ends the options.
fn options(words: &[Vec<u8>], known: &str) -> Result<(Vec<char>, Vec<Vec<u8>>), Problem> {
    let mut letters = Vec::new();
    let mut operands = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_slice() {
            b"--" => {
                operands.extend(rest.cloned());
                break;
            }
            [b'-', options @ ..] if !options.is_empty() => {
                for letter in options.iter().copied().map(char::from) {
                    if !known.contains(letter) {
                        let list =
                            suggest::list(known.char_indices().map(|(at, letter)| &known[at..at + letter.len_utf8()]));
                        return Err(Problem::Words(format!("unknown option -{letter}; there are {list}")));
                    }
                    letters.push(letter);
                }
            }
            _ => operands.push(word.clone()),
        }
    }
    Ok((letters, operands))
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Path(path, errno) => {
                let text = errno.to_string();
                let text = text.split(" (os error").next().unwrap_or_default();
                write!(formatter, "{}: {text}", String::from_utf8_lossy(path).escape_debug())?;
                errno.name().map_or(Ok(()), |name| write!(formatter, " ({name})"))
            }
            Problem::Words(words) => formatter.write_str(words),
            Problem::Usage => formatter.write_str("wrong usage"),
            Problem::Output(error) => write!(formatter, "cannot write the output: {error}"),
            Problem::Reported => Ok(()),
        }
    }
}

/// The credentials of this process.
fn own_caller() -> Caller {
    // The mask can only be read by setting it.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    Caller::process(std::process::id(), uid.as_raw(), gid.as_raw(), umask.bits())
}

fn standard_input() -> Outcome<Vec<u8>> {
    let mut text = Vec::new();
    match io::stdin().read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::new(Exit::Failure, format!("cannot read the commands: {error}; give them with -c"))),
    }
}

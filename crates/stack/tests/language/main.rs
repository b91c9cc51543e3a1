//! What descriptions do, as the reference and the paper say it: on file systems in memory, in both tiers.

mod arguments;
mod copies;
mod examples;
mod paper;
mod reload;
mod samples;
mod trace;

use std::ops::ControlFlow;
use std::path::PathBuf;

use plyfs_stack::syntax;
use vnode::{
    Attributes, Caller, Control, ControlError, Cookie, Created, Creation, FileSystemRef, Name, OpenFlags, Result,
    VnodeRef,
};

/// How functions are run.
const TIERS: [&str; 2] = ["interpreted", "compiled"];

/// A description on file systems in memory.
struct Described {
    _directory: tempfile::TempDir,
    path: PathBuf,
    file_system: FileSystemRef,
    below: Vec<FileSystemRef>,
}

/// Puts a description that is called `name` on as many file systems in memory as it says, with these options.
fn described(name: &str, text: &str, options: &[(&str, &str)]) -> Described {
    let directory = tempfile::tempdir().expect("a directory is made");
    let path = directory.path().join(format!("{name}.fist"));
    std::fs::write(&path, text).expect("the description is written");
    let memory = syntax::parse("mem:").expect("an expression");
    let count = plyfs_stack::fan_out(&path).unwrap_or_else(|error| panic!("{text}\n{}", error.problem));
    let below: Vec<_> = (0..count).map(|_| plyfs_stack::build(&memory).expect("memory")).collect();
    let options: Vec<_> = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let file_system = plyfs_stack::build_description(&path, &options, below.clone());
    let file_system = file_system.unwrap_or_else(|error| panic!("{text}\n{}", error.problem));
    Described { _directory: directory, path, file_system, below }
}

/// Does the same in each tier.
fn in_both_tiers(name: &str, text: &str, test: impl Fn(&Described)) {
    for tier in TIERS {
        test(&described(name, text, &[("tier", tier)]));
    }
}

/// What is logged, at whatever level, while something is done.
fn logged(work: impl FnOnce()) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file is made");
    let writer = std::sync::Arc::new(file.reopen().expect("it is opened"));
    let subscriber =
        tracing_subscriber::fmt().with_writer(writer).with_ansi(false).with_max_level(tracing::Level::DEBUG);
    tracing::subscriber::with_default(subscriber.finish(), work);
    std::fs::read_to_string(file.path()).expect("text")
}

/// A user with a group of the same number.
fn user(number: u32) -> Caller {
    Caller::with_groups(number, number, &[], 0o022)
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).expect("a name")
}

/// The command of an ioctl that a description of this name declares.
fn command(called: &str, text: &str, ioctl: &str) -> u32 {
    let program = fist::load::Loaded::of(called, text.to_owned()).program.expect("nothing is wrong in it");
    program.topmost().ioctls.iter().find(|one| one.name == ioctl).expect("it is declared").command
}

/// The names in a directory, sorted.
fn names_in(directory: &VnodeRef) -> Vec<String> {
    let mut names = Vec::new();
    let opened = directory.open_directory(&Caller::server()).expect("it is opened");
    let read = opened.read(&Caller::server(), Cookie::START, &mut |entry| {
        names.push(String::from_utf8_lossy(entry.name.as_bytes()).into_owned());
        ControlFlow::Continue(())
    });
    read.expect("it is listed");
    names.sort();
    names
}

fn attributes(directory: &VnodeRef, at: &str) -> Attributes {
    directory
        .lookup(&Caller::server(), name(at))
        .and_then(|found| found.vnode.getattr(&Caller::server()))
        .expect("it is there")
}

/// Makes a file in a directory, with permissions for its owner and readers.
fn create(directory: &VnodeRef, caller: &Caller, at: &str) -> Result<Created> {
    directory.create(caller, name(at), &Creation { mode: 0o644, flags: OpenFlags::READ_WRITE })
}

/// Makes a file with this text.
fn write(directory: &VnodeRef, caller: &Caller, at: &str, text: &[u8]) -> Result<()> {
    create(directory, caller, at)?.file.write_at(caller, 0, text).map(drop)
}

/// All that a file holds.
fn read(directory: &VnodeRef, caller: &Caller, at: &str) -> Result<Vec<u8>> {
    let file = directory.lookup(caller, name(at))?.vnode.open(caller, OpenFlags::READ)?;
    let mut text = vec![0; 1 << 20];
    let length = file.read_at(caller, 0, &mut text)?;
    text.truncate(length);
    Ok(text)
}

impl Described {
    fn root(&self) -> VnodeRef {
        self.file_system.root()
    }

    /// The root of a file system below; the first is 0.
    fn root_below(&self, branch: usize) -> VnodeRef {
        self.below[branch].root()
    }

    /// Gives an object an ioctl.
    fn ioctl(&self, vnode: &VnodeRef, caller: &Caller, command: u32, data: &mut [u8]) -> Result<i32> {
        let given = data.to_vec();
        vnode.ioctl(caller, command, &given, data)
    }

    fn mkdir(&self, at: &str) -> Result<()> {
        self.root().mkdir(&Caller::server(), name(at), 0o755).map(drop)
    }

    /// Writes another description to the file, and has the mount read it.
    fn reload(&self, text: &str) -> std::result::Result<String, ControlError> {
        std::fs::write(&self.path, text).expect("the description is written");
        let target = self.path.file_name().expect("a name").to_string_lossy().into_owned();
        self.file_system.control(&Control { target, command: "reload".to_owned(), arguments: Vec::new() })
    }
}

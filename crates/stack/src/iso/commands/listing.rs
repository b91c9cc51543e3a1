//! `plyfs iso ls`: the objects of an image.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use bases::iso::{Walk, WalkEntry, WalkError};
use clap::Args;
use jiff::tz::TimeZone;
use layers::command::{CommandHost, Exit, Failure, Outcome};
use vnode::{Attributes, Caller, FileKind, Timestamp};

use super::image::{ImageArguments, shown, unreadable};

/// Arguments of the command.
#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Directories or other objects; by default, the root directory
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Also show modes, links, owners, groups, sizes or device numbers, times of the last change, and targets
    #[arg(short, long)]
    long: bool,
    /// List everything below a directory
    #[arg(short = 'R', long)]
    recursive: bool,
    /// List a directory itself rather than what is in it
    #[arg(short, long, conflicts_with = "recursive")]
    directory: bool,
}

/// Text is printed in pieces of about this size in bytes.
const PRINTED_AT_ONCE: usize = 64 << 10;

/// Runs the command.
pub(crate) fn run(arguments: &ListArguments, host: &dyn CommandHost) -> Outcome {
    let file_system = arguments.image.open()?;
    let mut listing = Listing { arguments, host, text: String::new(), errors: 0 };
    let root = [OsString::from("/")];
    for path in if arguments.paths.is_empty() { &root } else { &arguments.paths[..] } {
        match file_system.walk_at(path.as_bytes()) {
            Ok(walk) => listing.add(walk)?,
            Err(error) => listing.report(&error)?,
        }
    }
    listing.print()?;
    match listing.errors {
        0 => Ok(()),
        errors => Err(Failure::new(Exit::Failure, format!("{errors} objects could not be read; see the lines above"))),
    }
}

/// The list so far.
struct Listing<'a> {
    arguments: &'a ListArguments,
    host: &'a dyn CommandHost,
    /// What has not been printed.
    text: String,
    /// Number of errors.
    errors: u64,
}

impl Listing<'_> {
    /// Adds what a walk comes to.
    fn add(&mut self, walk: Walk) -> Outcome {
        let ListArguments { recursive, directory, .. } = *self.arguments;
        let depth = match (directory, recursive) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => usize::MAX,
        };
        for (index, entry) in walk.with_depth(depth).enumerate() {
            match entry {
                // A directory is listed by what is in it.
                Ok(start) if index == 0 && depth == 1 && start.attributes.is_directory() => {}
                Ok(entry) => self.add_entry(&entry)?,
                Err(error) => self.report(&error)?,
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: &WalkEntry) -> Outcome {
        if self.arguments.long {
            self.text.push_str(&attributes(&entry.attributes));
        }
        self.text.push_str(&shown(&entry.path));
        if self.arguments.long && entry.attributes.kind == FileKind::Symlink {
            let target = entry.vnode.readlink(&Caller::server());
            self.text.push_str(&target.map_or_else(|errno| format!(" ({errno})"), |it| format!(" -> {}", shown(&it))));
        }
        self.text.push('\n');
        if self.text.len() >= PRINTED_AT_ONCE { self.print() } else { Ok(()) }
    }

    fn report(&mut self, error: &WalkError) -> Outcome {
        self.print()?;
        self.errors += 1;
        self.host.notify(&unreadable(error));
        Ok(())
    }

    fn print(&mut self) -> Outcome {
        let text = std::mem::take(&mut self.text);
        if text.is_empty() { Ok(()) } else { self.host.print(&text) }
    }
}

/// Returns the attributes of an object as columns.
fn attributes(attributes: &Attributes) -> String {
    let Attributes { kind, nlink, uid, gid, size, rdev, mtime, .. } = attributes;
    let size = match kind {
        FileKind::CharacterDevice | FileKind::BlockDevice => format!("{}, {}", rdev.major, rdev.minor),
        _ => size.to_string(),
    };
    format!("{} {nlink:>3} {uid:>5} {gid:>5} {size:>12} {} ", attributes.mode_text(), time(*mtime))
}

/// Returns a time in the zone of this machine.
fn time(time: Timestamp) -> String {
    let zoned = jiff::Timestamp::from_second(time.seconds).map(|time| time.to_zoned(TimeZone::system()));
    zoned.map_or_else(|_| format!("@{}", time.seconds), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}

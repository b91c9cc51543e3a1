//! `plyfs iso extract`: writes the objects of an image into a directory.

mod copying;
mod error;
mod objects;
mod target;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use bases::iso::{IsoFileSystem, WalkEntry, WalkError};
use clap::{Args, ValueHint};
use layers::command::{CommandHost, Exit, Failure, Outcome};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vnode::progress::object_done;

use self::error::ExtractionError;
use self::objects::Restored;
use self::target::{Added, Target};
use super::image::{ImageArguments, shown, unreadable};

/// Arguments of the command.
#[derive(Args, Debug)]
pub(crate) struct ExtractArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Directory to write into; it is created if it does not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// Objects to extract, each with everything in it and the directories on the way; by default, all
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// For an image of others: everything belongs to you, and there are no set-id bits and no devices
    #[arg(long)]
    untrusted: bool,
}

/// Number of errors that are reported one by one.
const REPORTS_MAX: usize = 1_000;

/// Runs the command.
pub(crate) fn run(arguments: &ExtractArguments, host: &dyn CommandHost) -> Outcome {
    let file_system = arguments.image.open()?;
    let is_root = rustix::process::geteuid().is_root();
    let restored = Restored { owners: is_root && !arguments.untrusted, devices: !arguments.untrusted };
    // Modes are those of the image. Until an object is complete, nobody else has access to it.
    let umask = rustix::process::umask(Mode::empty());
    raise_descriptor_limit();
    let is_whole = arguments.paths.is_empty();
    let target = Target::open(&arguments.directory, restored, (!is_whole).then_some(umask)).map_err(|errno| {
        let name = arguments.directory.display();
        Failure::new(Exit::Failure, format!("cannot write into {name}: {errno}; give another directory"))
    })?;
    let mut extraction = Extraction { target, reports: Vec::new(), failed: 0, full: None };
    host.with_progress("iso extract", &mut |_| {
        match is_whole {
            true => extraction.add_all(file_system.walk()),
            false => extraction.add_paths(&file_system, &arguments.paths),
        }
        extraction.finish();
    });
    extraction.reports.iter().for_each(|report| host.notify(report));
    let more = extraction.failed - extraction.reports.len() as u64;
    if more > 0 {
        host.notify(&format!("and {more} more, most of them in directories that could not be extracted"));
    }
    extraction.summary()
}

/// Raises the limit of open files as far as it goes: each directory on the way to an object is open.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // What is not permitted is an error of the directory that cannot be opened.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// An extraction in progress.
struct Extraction {
    target: Target,
    /// Lines about what could not be extracted.
    reports: Vec<String>,
    /// Number of objects that could not be extracted.
    failed: u64,
    /// The error after which nothing more can be written.
    full: Option<String>,
}

impl Extraction {
    /// Extracts the objects at these paths, and everything in them.
    fn add_paths(&mut self, file_system: &IsoFileSystem, paths: &[OsString]) {
        let mut paths: Vec<Vec<&[u8]>> = paths.iter().map(|path| components(path.as_bytes()).collect()).collect();
        paths.sort();
        let mut previous: Option<Vec<&[u8]>> = None;
        for path in paths {
            // What is in an object that was extracted was extracted with it.
            if previous.as_ref().is_some_and(|previous| path.starts_with(previous)) {
                continue;
            }
            // In this order, directories on the way to several objects stay open between them.
            let shared = previous.map_or(0, |previous| 1 + shared_length(&previous, &path));
            for length in shared..path.len() {
                match file_system.walk_at(&path[..length].join(&b'/')) {
                    Ok(walk) => self.add_all(walk.with_depth(0)),
                    // It is an error of the object, too.
                    Err(_) => break,
                }
            }
            match file_system.walk_at(&path.join(&b'/')) {
                Ok(walk) => self.add_all(walk),
                Err(error) => self.report(unreadable(&error)),
            }
            previous = Some(path);
        }
    }

    /// Extracts what a walk comes to.
    fn add_all(&mut self, walk: impl Iterator<Item = Result<WalkEntry, WalkError>>) {
        for entry in walk {
            if self.full.is_some() {
                return;
            }
            match entry {
                Ok(entry) => self.add(&entry),
                Err(error) => self.report(unreadable(&error)),
            }
        }
    }

    fn add(&mut self, entry: &WalkEntry) {
        let path: Vec<&[u8]> = components(&entry.path).collect();
        self.leave(|target| target.leaves(&path));
        match self.target.add(&path, entry) {
            Ok(Added::Done | Added::Omitted) => object_done(),
            // That its directory is missing has been reported.
            Ok(Added::Unreachable) => self.failed += 1,
            Err(error) => self.fail(&entry.path, error),
        }
    }

    /// Leaves directories, each of which then gets its attributes, as long as the condition holds.
    fn leave(&mut self, condition: impl Fn(&Target) -> bool) {
        while condition(&self.target) {
            let path = self.target.path();
            if let Err(error) = self.target.leave() {
                self.fail(&path, error);
            }
        }
    }

    fn finish(&mut self) {
        self.leave(Target::is_open);
    }

    fn fail(&mut self, path: &[u8], error: ExtractionError) {
        let line = error.line(&shown(path));
        if error.is_final() && self.full.is_none() {
            self.full = Some(line);
        } else {
            self.report(line);
        }
    }

    fn report(&mut self, line: String) {
        self.failed += 1;
        if self.reports.len() < REPORTS_MAX {
            self.reports.push(line);
        }
    }

    /// Returns how the extraction ended.
    fn summary(self) -> Outcome {
        if let Some(line) = self.full {
            return Err(Failure::new(Exit::Failure, format!("{line}; make room, or give another directory")));
        }
        match self.failed {
            0 => Ok(()),
            1 => Err(Failure::new(Exit::Failure, "1 object was not extracted; see the line above")),
            failed => {
                Err(Failure::new(Exit::Failure, format!("{failed} objects were not extracted; see the lines above")))
            }
        }
    }
}

/// Returns the number of names at the beginning that two paths have in common.
fn shared_length(one: &[&[u8]], other: &[&[u8]]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns the names in a path.
fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|component| !component.is_empty())
}

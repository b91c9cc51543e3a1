//! Errors that prevent a stack from being built: the problem, its location and its remedy.

use std::fmt;
use std::path::PathBuf;

use bases::device::{self, PartitionError};
use bases::dir::OpenError;
use layers::OptionError;
use layers::options::{OptionProblem, Refusal};

use crate::search_path::MissingProgram;
use crate::suggest;
use crate::syntax::{Mode, Span, SyntaxError};

/// Reason why a stack cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The problem.
    pub problem: BuildProblem,
    /// Its location in the expression's text.
    pub span: Span,
}

/// A problem with a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildProblem {
    /// The text of the expression is invalid.
    Syntax(crate::syntax::SyntaxProblem),
    /// There is no such kind of base.
    UnknownBase {
        /// The name.
        name: String,
        /// The kinds that there are.
        bases: Vec<&'static str>,
    },
    /// A kind of base that needs a path has none.
    NoPath(&'static str),
    /// There is no such layer.
    UnknownLayer {
        /// The name.
        name: String,
        /// The layers that there are.
        layers: Vec<&'static str>,
        /// Where a FiST program of this name was searched for; `None` if one was added meanwhile.
        program: Option<Box<MissingProgram>>,
    },
    /// Several branches without a layer that joins them.
    SeveralBranches {
        /// Layers that join branches.
        joining: Vec<&'static str>,
    },
    /// A mode on the only branch, or on a branch of a FiST program.
    ModeOfOnlyBranch(Mode),
    /// A FiST program that cannot be read or has errors; the text says which.
    Description(String),
    /// A FiST program is stacked on a number of file systems other than the one it declares.
    FanOut {
        /// Its file.
        path: PathBuf,
        /// Number of file systems that it declares.
        needed: usize,
        /// Number of file systems that it is stacked on.
        given: usize,
    },
    /// An option of a layer or base is invalid.
    Option(OptionError),
    /// The value of an option is not text.
    NotUtf8 {
        /// The option.
        key: String,
    },
    /// The location of a base is invalid; the text names the cause.
    Location(String),
    /// A directory cannot be served.
    Directory(OpenError),
    /// Options for a kind of base that has none in parentheses.
    NoBaseOptions {
        /// The kind.
        kind: &'static str,
        /// Form of its location.
        location: &'static str,
    },
    /// A file or block device cannot be opened.
    Device(device::OpenError),
    /// The plain path of a file or block device that no kind of base recognises.
    Unrecognised {
        /// The path.
        path: PathBuf,
        /// Nouns for what is recognised, such as `a FAT file system`.
        contents: Vec<&'static str>,
        /// A kind of base that recognises contents.
        example: Option<&'static str>,
    },
    /// No partition, or none of several, is chosen on a file or block device.
    Volume {
        /// The path.
        path: PathBuf,
        /// The cause.
        error: PartitionError,
    },
    /// The contents of a base's location are not what the base presents; the text names the location, the cause and the remedy.
    Contents(String),
}

impl BuildError {
    pub(crate) fn new(problem: BuildProblem, span: Span) -> Self {
        BuildError { problem, span }
    }

    /// Returns whether the object to be opened does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(
            self.problem,
            BuildProblem::Directory(OpenError::Missing(_)) | BuildProblem::Device(device::OpenError::Missing(_))
        )
    }

    /// Returns whether others use the object to be opened, or a branch, in a way that excludes this use.
    pub fn is_in_use(&self) -> bool {
        match &self.problem {
            BuildProblem::Option(error) => error.is_in_use(),
            BuildProblem::Device(error) => error.is_in_use(),
            _ => false,
        }
    }

    /// Returns whether the message names the object itself, so that a location in the expression, whose text may be elsewhere, adds
    /// nothing.
    pub fn names_object(&self) -> bool {
        matches!(
            self.problem,
            BuildProblem::Directory(_)
                | BuildProblem::Device(_)
                | BuildProblem::Unrecognised { .. }
                | BuildProblem::Volume { .. }
                | BuildProblem::Contents(_)
        )
    }
}

impl From<SyntaxError> for BuildError {
    fn from(error: SyntaxError) -> Self {
        BuildError::new(BuildProblem::Syntax(error.problem), error.span)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.names_object() {
            write!(formatter, "column {}: ", self.span.column())?;
        }
        self.problem.fmt(formatter)
    }
}

impl std::error::Error for BuildError {}

impl fmt::Display for BuildProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildProblem::Syntax(problem) => problem.fmt(formatter),
            BuildProblem::UnknownBase { name, bases } => {
                let remedy = suggest::remedy(name, bases.iter().copied());
                write!(formatter, "there is no kind of base '{name}'; {remedy}")?;
                write!(formatter, " (a path with a colon in it is written ./{name}:... or in double quotes)")
            }
            BuildProblem::NoPath(kind) => write!(formatter, "'{kind}:' needs a path; write {kind}:PATH"),
            BuildProblem::UnknownLayer { name, layers, program } => {
                unknown_layer(formatter, name, layers, program.as_deref())
            }
            BuildProblem::SeveralBranches { joining } => {
                formatter.write_str("several branches need a layer that joins them; ")?;
                match joining.first() {
                    Some(first) => write!(formatter, "write | {first} after the last branch")?,
                    None => formatter.write_str("this program has none: give one base")?,
                }
                formatter.write_str(" (a path with a comma in it is written in double quotes)")
            }
            BuildProblem::ModeOfOnlyBranch(mode) => {
                let layer = if *mode == Mode::ReadWrite { "" } else { ", or add the layer readonly" };
                write!(
                    formatter,
                    "the mode '{mode}' is for one of several branches of a union; leave '={mode}' out{layer}"
                )
            }
            BuildProblem::Description(message) => formatter.write_str(message),
            BuildProblem::FanOut { path, needed, given } => {
                let path = path.display();
                write!(
                    formatter,
                    "{path} says `fanout {needed}`, and lies on {given}; give it as many, with commas between"
                )
            }
            BuildProblem::Option(error) => option(formatter, error),
            BuildProblem::NotUtf8 { key } => write!(formatter, "the value of '{key}' is not UTF-8; write it in UTF-8"),
            BuildProblem::Location(message) => write!(formatter, "{message}; correct what follows the colon"),
            BuildProblem::Directory(error) => error.fmt(formatter),
            BuildProblem::NoBaseOptions { kind, location } => write!(
                formatter,
                "`{kind}` takes no options in parentheses; write {kind}:{location} (a path with a parenthesis in it is written in \
                 double quotes)"
            ),
            BuildProblem::Device(error) => error.fmt(formatter),
            BuildProblem::Unrecognised { path, contents, example } => {
                let (path, contents) = (path.display(), contents.join(", nor "));
                write!(formatter, "`{path}` is neither a directory, nor {contents}; check the path")?;
                match example {
                    Some(kind) => write!(formatter, ", or name the kind of base, as in {kind}:{path}"),
                    None => Ok(()),
                }
            }
            BuildProblem::Volume { path, error } => write!(formatter, "cannot use `{}`: {error}", path.display()),
            BuildProblem::Contents(message) => formatter.write_str(message),
        }
    }
}

fn unknown_layer(
    formatter: &mut fmt::Formatter<'_>,
    name: &str,
    layers: &[&str],
    program: Option<&MissingProgram>,
) -> fmt::Result {
    write!(formatter, "there is no layer '{name}'; ")?;
    if let Some(distrust) = program.and_then(|missing| missing.distrusted.first()) {
        return write!(formatter, "{distrust}");
    }
    let programs = program.iter().flat_map(|missing| &missing.others).map(String::as_str);
    let mut all: Vec<&str> = layers.iter().copied().chain(programs).collect();
    all.sort_unstable();
    formatter.write_str(&suggest::remedy(name, all.iter().copied()))?;
    match program {
        // A misspelt name was not meant to be found.
        Some(missing) if suggest::nearest(name, all.iter().copied()).is_none() => write!(formatter, "; {missing}"),
        _ => Ok(()),
    }
}

fn option(formatter: &mut fmt::Formatter<'_>, error: &OptionError) -> fmt::Result {
    let remedy = match &error.problem {
        // The message lists the others.
        OptionProblem::UnknownKey { valid } => match suggest::nearest(&error.key, valid.iter().copied()) {
            Some(meant) => format!("; did you mean '{meant}'?"),
            None => String::new(),
        },
        OptionProblem::GivenTwice => "; give it once".to_owned(),
        OptionProblem::Missing | OptionProblem::MissingHere { .. } => format!("; add {}=...", error.key),
        OptionProblem::BadValue { .. } => String::new(),
        OptionProblem::Conflict { with } => format!("; leave {} or {with} out", error.key),
        OptionProblem::Unjoinable { .. } | OptionProblem::Unfinished { .. } => String::new(),
        OptionProblem::Branch { .. } => "; correct the branch, or leave it out".to_owned(),
        OptionProblem::RefusedBranch(Refusal::StateOfOthers) => {
            "; mount it as the user who owns that directory, or look into it and give it and what is directly in it to yours \
             (chown USER D D/*, and chmod 700 D D/*/, not -R: layers and links have the files of users)"
                .to_owned()
        }
        OptionProblem::RefusedBranch(Refusal::LaterVersion) => "; mount it with that version".to_owned(),
        OptionProblem::RefusedBranch(Refusal::UnknownRegister) => {
            "; bring it back from a backup, or remove it: objects get new inode numbers then".to_owned()
        }
        OptionProblem::RefusedBranch(Refusal::InUse) => {
            format!("; unmount the other, or write it as '{}=ro' to read it here", error.key)
        }
        // Only for a union that is already built.
        OptionProblem::RefusedBranch(Refusal::OtherSnapshots) => "; remove it and add it again".to_owned(),
        OptionProblem::RefusedBranch(Refusal::WithoutMarks) => {
            "; copy it again with them (cp -a or rsync -aX, as root), or remove .wh..wh.plyfs/metacopies in it if no file of it is \
             such"
                .to_owned()
        }
        OptionProblem::File { .. } => "; correct the path or its permissions".to_owned(),
        OptionProblem::FileLine { .. } => "; correct that line".to_owned(),
    };
    write!(formatter, "{error}{remedy}")
}

//! A kind of layer as stack builders see it: its name, what it does, its options, and how to stack it.

use std::fmt;

use vnode::FileSystemRef;

use crate::branch::{Branch, BranchOpener};
#[cfg(feature = "commands")]
use crate::command::{MemberCommand, MountTranslator};
use crate::control::ControlSpecification;
use crate::options::{OptionError, OptionSpecification, Options};

/// Registration of a kind of layer.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Name of the layer in stack expressions.
    pub name: &'static str,
    /// One-line summary of what the layer does.
    pub summary: &'static str,
    /// Options that the layer takes.
    pub options: &'static [OptionSpecification],
    /// Control commands that the running layer accepts. Default: none.
    pub controls: &'static [ControlSpecification],
    /// Commands that the layer adds to the command line. Default: none.
    #[cfg(feature = "commands")]
    pub commands: &'static [MemberCommand],
    /// Mount commands of other file systems that stacks with the layer replace. Default: none.
    #[cfg(feature = "commands")]
    pub mount_translators: &'static [MountTranslator],
    build: Build,
}

impl Kind {
    /// Returns the registration of a layer on one file system. `build` gets only options that are among `options`, each once.
    pub const fn over(
        name: &'static str,
        summary: &'static str,
        options: &'static [OptionSpecification],
        build: fn(&[Pair], FileSystemRef) -> Result<FileSystemRef, OptionError>,
    ) -> Self {
        Self::new(name, summary, options, Build::Over(build))
    }

    /// Returns the registration of a fan-out layer. `build` gets the layer's options as for [`Kind::over`], its branches, the labels of missing
    /// branches, and the opener of later ones. It should accept the control command [`BRANCHES_COMMAND`].
    pub const fn joining(
        name: &'static str,
        summary: &'static str,
        options: &'static [OptionSpecification],
        build: Join,
    ) -> Self {
        Self::new(name, summary, options, Build::Joining(build))
    }

    const fn new(
        name: &'static str,
        summary: &'static str,
        options: &'static [OptionSpecification],
        build: Build,
    ) -> Self {
        Self {
            name,
            summary,
            options,
            controls: &[],
            #[cfg(feature = "commands")]
            commands: &[],
            #[cfg(feature = "commands")]
            mount_translators: &[],
            build,
        }
    }

    /// Lists the control commands that the running layer accepts, by which its `control` checks what it receives
    /// ([`ControlSpecification::check`]).
    pub const fn with_controls(self, controls: &'static [ControlSpecification]) -> Self {
        Self { controls, ..self }
    }

    /// Adds commands to the command line: `plyfs NAME …` for each, where plyfs is the program that registers the layer.
    #[cfg(feature = "commands")]
    pub const fn with_commands(self, commands: &'static [MemberCommand]) -> Self {
        Self { commands, ..self }
    }

    /// Adds the mount commands of other file systems that stacks with the layer replace.
    #[cfg(feature = "commands")]
    pub const fn with_mount_translators(self, mount_translators: &'static [MountTranslator]) -> Self {
        Self { mount_translators, ..self }
    }
}

/// Constructor of a layer over its lower file systems.
#[derive(Clone, Copy, Debug)]
enum Build {
    /// Constructor over one file system.
    Over(fn(&[Pair], FileSystemRef) -> Result<FileSystemRef, OptionError>),
    /// Constructor over any number of branches.
    Joining(Join),
}

/// Builds a fan-out layer from its options, its branches, the labels of missing branches, and the opener of later ones.
pub type Join = fn(&[Pair], Vec<Branch>, Vec<String>, Option<BranchOpener>) -> Result<FileSystemRef, OptionError>;

/// Key and value of an option, as in a stack expression.
pub type Pair = (String, String);

/// Control command by which fan-out layers list their branches, one a line, so that the status of a mount shows them.
pub const BRANCHES_COMMAND: &str = "branches";

/// Key of the option that says what happens without some of the branches.
const MISSING: &str = "missing";

/// Returns whether the options of a fan-out layer say to leave out missing branches, rather than to fail.
///
/// # Errors
/// Fails if the option has an invalid value.
pub(crate) fn leaves_out_missing_branches(options: &Options<'_>) -> Result<bool, OptionError> {
    Ok(options.choice(MISSING, &[("fail", false), ("skip", true)])?.unwrap_or(false))
}

/// How a layer is written in a stack: `BASE | name(OPTION=VALUE, ...)` with [`Synopsis::to_string`](ToString::to_string), or in its
/// parts, for pages that set them in different fonts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synopsis {
    /// What the layer is on: a base, or several branches.
    pub lower: &'static str,
    /// Name of the layer.
    pub name: &'static str,
    /// Its options in parentheses; empty if it has none.
    pub options: &'static str,
}

impl fmt::Display for Synopsis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} | {}{}", self.lower, self.name, self.options)
    }
}

impl Kind {
    /// Returns how the layer is written in a stack.
    pub fn synopsis(&self) -> Synopsis {
        Synopsis {
            lower: if self.joins_branches() { "BRANCH[=MODE], ..." } else { "BASE" },
            name: self.name,
            options: if self.options.is_empty() { "" } else { "(OPTION=VALUE, ...)" },
        }
    }

    /// Returns whether the layer joins several branches.
    pub fn joins_branches(&self) -> bool {
        matches!(self.build, Build::Joining(_))
    }

    /// Returns whether the options say to leave out missing branches, rather than to fail.
    ///
    /// # Errors
    /// Fails if an option is unknown, or if this option has an invalid value.
    pub fn leaves_out_missing_branches(&self, options: &[(String, String)]) -> Result<bool, OptionError> {
        let given = Options::new(self.name, self.options, options)?;
        if !self.options.iter().any(|option| option.key == MISSING) {
            return Ok(false);
        }
        leaves_out_missing_branches(&given)
    }

    /// Builds the layer from its options and stacks it on `lower`, which for a fan-out layer is the only branch.
    ///
    /// # Errors
    /// Fails if an option is unknown or has an invalid value.
    pub fn stack(&self, options: &[(String, String)], lower: FileSystemRef) -> Result<FileSystemRef, OptionError> {
        Options::new(self.name, self.options, options)?;
        match self.build {
            Build::Over(build) => build(options, lower),
            Build::Joining(build) => build(
                options,
                vec![Branch { file_system: lower, mode: None, label: String::new(), minimum_free: None }],
                Vec::new(),
                None,
            ),
        }
    }

    /// Builds a fan-out layer from its options and joins the branches, the one with the highest priority first.
    /// Branches can be added later if an opener is given.
    ///
    /// # Errors
    /// Fails as [`Kind::stack`] does.
    ///
    /// # Panics
    /// Panics if the layer does not join branches, or if `branches` is empty.
    pub fn join(
        &self,
        options: &[(String, String)],
        branches: Vec<Branch>,
        opener: Option<BranchOpener>,
    ) -> Result<FileSystemRef, OptionError> {
        self.join_without(options, branches, Vec::new(), opener)
    }

    /// Joins branches as [`Kind::join`] does, without missing branches, which the layer reports by their labels.
    ///
    /// # Errors
    /// Fails as [`Kind::stack`] does.
    ///
    /// # Panics
    /// Panics as [`Kind::join`] does.
    pub fn join_without(
        &self,
        options: &[(String, String)],
        branches: Vec<Branch>,
        missing: Vec<String>,
        opener: Option<BranchOpener>,
    ) -> Result<FileSystemRef, OptionError> {
        assert!(!branches.is_empty(), "a fan-out layer has at least one branch");
        Options::new(self.name, self.options, options)?;
        match self.build {
            Build::Over(_) => panic!("`{}` does not join branches", self.name),
            Build::Joining(build) => build(options, branches, missing, opener),
        }
    }
}

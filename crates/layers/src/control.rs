//! Control commands of running layers: the specification that lists them, and the check of a command against it.

use std::fmt;

use vnode::{Control, ControlError};

use crate::options::{OptionSpecification, all_of};

/// A control command that a running layer accepts.
#[derive(Clone, Copy, Debug)]
pub struct ControlSpecification {
    /// Name of the command.
    pub name: &'static str,
    /// Arguments that it takes.
    pub arguments: ControlArguments,
    /// One-line summary of what the command does.
    pub summary: &'static str,
    /// What is reported if the storage below fails. Default: the name of the command, and the error.
    pub failure: Option<ControlFailure>,
}

/// Arguments of a control command.
#[derive(Clone, Copy, Debug)]
pub enum ControlArguments {
    /// These arguments, each at most once.
    List(&'static [ControlArgument]),
    /// These options of the layer, all optional.
    Options(&'static [OptionSpecification]),
}

/// An argument of a control command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlArgument {
    /// Key of the argument.
    pub key: &'static str,
    /// Form of the value, such as `FILE` or `yes|no`.
    pub value: &'static str,
    /// Set if the command cannot be executed without it.
    pub is_required: bool,
}

/// Message about a control command that failed because the storage below did: `WHAT: ERROR; REMEDY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlFailure {
    /// What could not be done.
    pub what: &'static str,
    /// State of the layer, and what to do.
    pub remedy: &'static str,
}

impl ControlArgument {
    /// Returns an argument without which the command cannot be executed.
    pub const fn required(key: &'static str, value: &'static str) -> Self {
        Self { key, value, is_required: true }
    }

    /// Returns an argument that may be left out.
    pub const fn optional(key: &'static str, value: &'static str) -> Self {
        Self { key, value, is_required: false }
    }
}

impl ControlSpecification {
    /// Returns the specification of a command without a failure message of its own.
    pub const fn new(name: &'static str, arguments: &'static [ControlArgument], summary: &'static str) -> Self {
        Self { name, arguments: ControlArguments::List(arguments), summary, failure: None }
    }

    /// Sets the message about failures of the storage below.
    pub const fn with_failure(self, what: &'static str, remedy: &'static str) -> Self {
        Self { failure: Some(ControlFailure { what, remedy }), ..self }
    }

    /// Checks that a command is among those specified, and has only arguments that it takes, each once, and those that it requires.
    ///
    /// # Errors
    /// [`ControlError::UnknownCommand`], [`ControlError::BadArgument`].
    pub fn check(specifications: &[Self], control: &Control) -> Result<(), ControlError> {
        let known = specifications.iter().find(|specification| specification.name == control.command);
        let specification = known.ok_or_else(|| {
            let (target, command) = (control.target.clone(), control.command.clone());
            ControlError::UnknownCommand { target, command }
        })?;
        specification.check_arguments(&control.arguments).map_err(ControlError::BadArgument)
    }

    fn check_arguments(&self, given: &[(String, String)]) -> Result<(), String> {
        let name = self.name;
        let keys = self.arguments.keys();
        for (index, (key, _)) in given.iter().enumerate() {
            if !keys.contains(&key.as_str()) {
                let remedy =
                    if keys.is_empty() { "leave it out".to_owned() } else { format!("it takes {}", all_of(&keys)) };
                return Err(format!("`{name}` takes no argument `{key}`; {remedy}"));
            }
            if given[..index].iter().any(|(earlier, _)| earlier == key) {
                return Err(format!("`{name}` takes the argument `{key}` once; leave one out"));
            }
        }
        let is_given = |argument: &&ControlArgument| given.iter().any(|(key, _)| key == argument.key);
        match self.arguments.required().find(|argument| !is_given(argument)) {
            Some(ControlArgument { key, value, .. }) => Err(format!("{key}= is missing; add {key}={value}")),
            None => Ok(()),
        }
    }
}

impl ControlArguments {
    fn keys(&self) -> Vec<&'static str> {
        match self {
            Self::List(arguments) => arguments.iter().map(|argument| argument.key).collect(),
            Self::Options(options) => options.iter().map(|option| option.key).collect(),
        }
    }

    /// Returns the arguments without which the command cannot be executed.
    pub fn required(&self) -> impl Iterator<Item = &'static ControlArgument> {
        let arguments: &[ControlArgument] = match self {
            Self::List(arguments) => arguments,
            Self::Options(_) => &[],
        };
        arguments.iter().filter(|argument| argument.is_required)
    }
}

/// Formats the command as it is used, such as `add branch=BRANCH [at=POSITION]`.
impl fmt::Display for ControlSpecification {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)?;
        match self.arguments {
            ControlArguments::Options(_) => formatter.write_str(" [OPTION=VALUE ...]"),
            ControlArguments::List(arguments) => arguments.iter().try_for_each(|argument| match argument {
                ControlArgument { key, value, is_required: true } => write!(formatter, " {key}={value}"),
                ControlArgument { key, value, is_required: false } => write!(formatter, " [{key}={value}]"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: ControlSpecification = ControlSpecification::new(
        "add",
        &[ControlArgument::required("branch", "BRANCH"), ControlArgument::optional("at", "POSITION")],
        "",
    );
    const LIST: ControlSpecification = ControlSpecification::new("list", &[], "");

    fn error(command: &str, arguments: &[&str]) -> String {
        let arguments = arguments.iter().map(|key| (key.to_string(), "1".to_owned())).collect();
        let control = Control { target: "x".to_owned(), command: command.to_owned(), arguments };
        ControlSpecification::check(&[ADD, LIST], &control).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn commands_and_arguments_are_checked() {
        assert_eq!(ADD.to_string(), "add branch=BRANCH [at=POSITION]");
        assert_eq!((error("add", &["branch"]), error("add", &["at", "branch"])), Default::default());
        assert_eq!(error("ad", &[]), "`x` has no command `ad`");
        assert_eq!(error("add", &["at"]), "branch= is missing; add branch=BRANCH");
        assert_eq!(error("add", &["branch", "to"]), "`add` takes no argument `to`; it takes branch and at");
        assert_eq!(error("add", &["branch", "branch"]), "`add` takes the argument `branch` once; leave one out");
        assert_eq!(error("list", &["at"]), "`list` takes no argument `at`; leave it out");
    }
}

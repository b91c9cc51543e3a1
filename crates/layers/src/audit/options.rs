//! The name of `audit`, its options and its control commands.

use std::path::{Path, PathBuf};

use super::parse;
use super::refusals::{ProtectedPaths, RefusalSettings};
use super::reporter::Reporter;
use super::rules::AuditRules;
use super::sink::{SYSLOG_SOCKET, Sink};
use crate::control::ControlSpecification;
use crate::is_only_described;
use crate::options::{OptionError, OptionProblem, OptionSpecification, Options, number};
use crate::rules::{self, RuleSource};
use crate::standard_error;

pub(crate) const NAME: &str = "audit";

pub(crate) const CONTROLS: &[ControlSpecification] = &[
    ControlSpecification::new("stats", &[], "print the number of lines written, dropped, unwritten and waiting"),
    ControlSpecification::new("reopen", &[], "close the file and open it again by its name, after it was renamed"),
];

pub(crate) const OPTIONS: &[OptionSpecification] = &[
    OptionSpecification {
        key: "to",
        value: "FILE|stderr|syslog",
        summary: "destination of the lines (default syslog, or stderr if there is none)",
    },
    OptionSpecification {
        key: "rules",
        value: "FILE",
        summary: "file of rules that select what is reported, one per line",
    },
    OptionSpecification { key: "operations", value: "NAME[:NAME]", summary: "report these operations, or `all`" },
    OptionSpecification { key: "path", value: "GLOB[:GLOB]", summary: "report operations on matching paths" },
    OptionSpecification {
        key: "uid",
        value: "USER[:USER]",
        summary: "report operations of these users: numbers, ranges, names",
    },
    OptionSpecification {
        key: "except-uid",
        value: "USER[:USER]",
        summary: "except these users, or `owner`, the owner of the object",
    },
    OptionSpecification {
        key: "result",
        value: "denied|failed|error|ok|all|ERRNO[:…]",
        summary: "report operations with these results (default all)",
    },
    OptionSpecification {
        key: "refuse-setuid",
        value: "yes|no",
        summary: "refuse set-user-id and set-group-id bits on files, except to root",
    },
    OptionSpecification {
        key: "protect",
        value: "GLOB[:GLOB]",
        summary: "refuse changes of matching files, also to root",
    },
    OptionSpecification { key: "queue", value: "COUNT", summary: "maximum number of queued events (default 8192)" },
];

const DEFAULT_QUEUE_CAPACITY: usize = 8192;

/// Settings read from the options.
pub(crate) struct Settings {
    pub(crate) rules: AuditRules,
    pub(crate) refusals: RefusalSettings,
    pub(crate) reporter: Reporter,
    /// The file that lines are written to, if they are written to a file.
    pub(crate) file: Option<PathBuf>,
}

/// Reads the options, and opens the file.
pub(crate) fn read(pairs: &[(String, String)]) -> Result<Settings, OptionError> {
    let options = Options::new(NAME, OPTIONS, pairs)?;
    let queue = options.read("queue", |value| match number(value) {
        Ok(count @ 1..=16_777_216) => Ok(count),
        _ => Err("a number from 1 to 16777216".to_owned()),
    })?;
    let refusals = RefusalSettings {
        refuse_setuid: options.flag("refuse-setuid")?,
        protected: options.read("protect", ProtectedPaths::parse)?,
    };
    let rules = rules(&options)?;
    let (sink, file) = sink(&options)?;
    Ok(Settings { rules, refusals, reporter: Reporter::new(sink, queue.unwrap_or(DEFAULT_QUEUE_CAPACITY)), file })
}

/// Returns the single rule that the options define, the rules of the file, or the default rules.
fn rules(options: &Options<'_>) -> Result<AuditRules, OptionError> {
    match rules::rule_source(options, &parse::RULE_KEYS, parse::rule)? {
        RuleSource::File(rules) => Ok(AuditRules::new(rules)),
        RuleSource::Options(keys) => {
            let mut rule = parse::match_all_rule();
            for key in keys {
                options.read(key, |value| parse::set_key(&mut rule, key, value))?;
            }
            Ok(AuditRules::new(vec![rule]))
        }
        RuleSource::None => Ok(AuditRules::new(parse::default_rules())),
    }
}

/// Why there is no default destination in a server in the background.
const NO_DESTINATION: &str =
    "there is no system log at /dev/log, and nobody reads the standard error of a mount in the background";

/// Opens the sink, and returns it with the path of the file if it is one: an absolute path, since the server may change
/// its working directory.
fn sink(options: &Options<'_>) -> Result<(Sink, Option<PathBuf>), OptionError> {
    let unusable = |path: &str, error: std::io::Error| {
        options.error("to", OptionProblem::File { path: path.to_owned(), error: error.into() })
    };
    match options.text("to") {
        Some("") => {
            let expected = "a file, stderr or syslog".to_owned();
            Err(options.error("to", OptionProblem::BadValue { value: String::new(), expected }))
        }
        Some("stderr") => Ok((Sink::StandardError, None)),
        Some("syslog") => {
            Ok((Sink::syslog(Path::new(SYSLOG_SOCKET)).map_err(|error| unusable(SYSLOG_SOCKET, error))?, None))
        }
        Some(path) => {
            let absolute = std::path::absolute(path).map_err(|error| unusable(path, error))?;
            // A description creates nothing, and says what would go wrong.
            let sink = match is_only_described() && !absolute.exists() {
                true => {
                    absolute.parent().map_or(Ok(()), |above| above.metadata().map(drop)).map(|()| Sink::StandardError)
                }
                false => Sink::file(&absolute),
            };
            Ok((sink.map_err(|error| unusable(path, error))?, Some(absolute)))
        }
        None => match Sink::syslog(Path::new(SYSLOG_SOCKET)) {
            Ok(syslog) => Ok((syslog, None)),
            Err(_) if !standard_error::is_discarded() => Ok((Sink::StandardError, None)),
            Err(_) => Err(options.error("to", OptionProblem::MissingHere { cause: NO_DESTINATION })),
        },
    }
}

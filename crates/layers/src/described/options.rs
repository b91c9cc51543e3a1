//! Options of a FiST module: those that it declares as `%mntdata` and `%mntflag`, and `errno`.

use std::path::Path;
use std::time::Duration;

use ::fist::meter::TIME_LIMIT;
use ::fist::program::{MountField, Program, Type};

use super::intern::intern;
use crate::options::{OptionError, OptionProblem, write};

/// Settings read from the options.
pub(crate) struct ModuleOptions {
    /// The mount data.
    pub(crate) mount: Vec<u8>,
    /// Lower errors that rules see as other errors.
    pub(crate) error_map: Vec<(i32, i32)>,
    /// Whether pages of zeros are holes below.
    pub(crate) has_holes: bool,
    /// Execution tier of the functions.
    pub(crate) tier: Tier,
    /// Whether the module may be collapsed with others.
    pub(crate) collapses: bool,
    /// Maximum computing time of an operation's rules, or of a filter.
    pub(crate) time_limit: Duration,
}

/// Execution tier of the functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Filters and functions with loops are compiled, others interpreted.
    #[default]
    Auto,
    /// All functions are interpreted.
    Interpreted,
    /// All functions are compiled to machine code.
    Compiled,
}

/// Option of every module: how rules see lower errors, as in `errno=EACCES:EPERM`.
const ERRNO_OPTION: &str = "errno";
/// Option of every module: the execution tier of its functions.
const TIER_OPTION: &str = "tier";
/// Option of every module: whether it may be collapsed with the modules above and below it.
const COLLAPSE_OPTION: &str = "collapse";
/// Option of every module: maximum computing time in seconds of an operation's rules, or of a filter.
const TIME_LIMIT_OPTION: &str = "time-limit";
/// Valid time limits in seconds.
const TIME_LIMIT_SECONDS: std::ops::RangeInclusive<f64> = 0.001..=3600.0;
/// Option of modules with a data filter: whether pages of zeros are holes below.
const HOLES_OPTION: &str = "holes";

/// Reads the options.
pub(crate) fn parse(
    layer: &'static str,
    program: &Program,
    pairs: &[(String, String)],
) -> Result<ModuleOptions, OptionError> {
    let level = program.topmost();
    let size = level.mount.map_or(0, |structure| program.structures[structure].size);
    let mut options = ModuleOptions {
        mount: vec![0; size as usize],
        error_map: Vec::new(),
        has_holes: !level.marks_last,
        tier: Tier::Auto,
        collapses: true,
        time_limit: TIME_LIMIT,
    };
    for (index, (key, value)) in pairs.iter().enumerate() {
        let error = |problem| Err(OptionError { member: layer, key: key.clone(), problem });
        if pairs[..index].iter().any(|(earlier, _)| earlier == key) {
            return error(OptionProblem::GivenTwice);
        }
        let result = match level.mount_fields.iter().find(|field| field.name == *key) {
            Some(field) => write_field(program, field, value, &mut options.mount),
            None if key == ERRNO_OPTION => parse_error_map(value).map(|errors| options.error_map = errors),
            None if key == TIER_OPTION => match value.as_str() {
                "auto" => Ok(Tier::Auto),
                "interpreted" => Ok(Tier::Interpreted),
                "compiled" => Ok(Tier::Compiled),
                _ => Err("auto, interpreted or compiled".to_owned()),
            }
            .map(|tier| options.tier = tier),
            None if key == COLLAPSE_OPTION => parse_yes_or_no(value).map(|collapses| options.collapses = collapses),
            None if key == TIME_LIMIT_OPTION => parse_time_limit(value).map(|limit| options.time_limit = limit),
            None if key == HOLES_OPTION && level.filters.data.is_some() => {
                match (parse_yes_or_no(value), level.marks_last) {
                    (Ok(true), true) => Err("no: the filter is told which part of a file is the last".to_owned()),
                    (has_holes, _) => has_holes.map(|has_holes| options.has_holes = has_holes),
                }
            }
            None => {
                let holes = level.filters.data.is_some().then_some(HOLES_OPTION);
                let known = level.mount_fields.iter().map(|field| intern(&field.name));
                return error(OptionProblem::UnknownKey {
                    valid: known
                        .chain([ERRNO_OPTION, TIER_OPTION, COLLAPSE_OPTION, TIME_LIMIT_OPTION])
                        .chain(holes)
                        .collect(),
                });
            }
        };
        if let Err(expected) = result {
            return error(OptionProblem::BadValue { value: value.clone(), expected });
        }
    }
    Ok(options)
}

fn parse_yes_or_no(value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("yes or no".to_owned()),
    }
}

/// Parses a time limit; the error describes what is expected.
fn parse_time_limit(value: &str) -> Result<Duration, String> {
    match value.parse() {
        Ok(seconds) if TIME_LIMIT_SECONDS.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("seconds from {} to {}, as 0.5", TIME_LIMIT_SECONDS.start(), TIME_LIMIT_SECONDS.end())),
    }
}

/// Writes a value to its field; the error describes what is expected.
fn write_field(program: &Program, field: &MountField, value: &str, mount: &mut [u8]) -> Result<(), String> {
    let Some(structure) = program.topmost().mount else { return Ok(()) };
    let field = (&program.structures[structure].fields[field.field], field.is_flag);
    let bytes = &mut mount[field.0.offset as usize..][..program.size(&field.0.r#type) as usize];
    match (&field.0.r#type, field.1) {
        (Type::Integer(integer), is_flag) => {
            let number = match (value, is_flag) {
                ("yes" | "", true) => 1,
                ("no", true) => 0,
                (_, true) => return Err("yes or no".to_owned()),
                _ => integer.read(value)?,
            };
            bytes.copy_from_slice(&number.to_le_bytes()[..bytes.len()]);
        }
        (Type::Array(of, _), _) if program.size(of) == 1 => {
            // A string includes its NUL byte.
            if value.len() >= bytes.len() {
                return Err(format!("at most {} bytes", bytes.len() - 1));
            }
            bytes[..value.len()].copy_from_slice(value.as_bytes());
        }
        (Type::Array(of, length), _) => {
            let Type::Integer(integer) = **of else { return Err("nothing: it cannot be given".to_owned()) };
            let numbers: Vec<_> = value.split(':').collect();
            if numbers.len() as u64 > *length {
                return Err(format!("at most {length} numbers with colons between them"));
            }
            for (number, bytes) in numbers.iter().zip(bytes.chunks_mut(integer.bytes.into())) {
                bytes.copy_from_slice(&integer.read(number)?.to_le_bytes()[..bytes.len()]);
            }
        }
        _ => return Err("nothing: it cannot be given".to_owned()),
    }
    Ok(())
}

/// Parses pairs such as `EACCES:EPERM`, separated by `+`: the lower error, and the error that rules see.
fn parse_error_map(value: &str) -> Result<Vec<(i32, i32)>, String> {
    let number = |name: &str| ::fist::check::error_number(name);
    let pair = |pair: &str| pair.split_once(':').and_then(|(below, seen)| Some((number(below)?, number(seen)?)));
    value
        .split('+')
        .map(|one| pair(one).ok_or_else(|| "errors as EACCES:EPERM, with + between several".to_owned()))
        .collect()
}

/// Formats the module's path and options in the syntax of stack expressions.
pub(crate) fn details(path: &Path, pairs: &[(String, String)]) -> String {
    let path = path.display();
    if pairs.is_empty() { path.to_string() } else { format!("{path}: {}", write(pairs)) }
}

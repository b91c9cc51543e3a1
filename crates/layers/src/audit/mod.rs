//! The layer `audit`: reports operations that are performed, attempted and refused, and refuses some by itself.
//!
//! The papers' Snoopfs grown up: rules by operation, path, user and result decide what becomes a line of JSON.

mod event;
mod layer;
mod options;
mod parse;
mod paths;
mod refusals;
mod reporter;
mod rules;
mod sink;

use crate::{Kind, OptionError, OptionProblem};
pub use layer::Audit;

/// Registration of this layer.
pub const KIND: Kind = Kind::over(
    options::NAME,
    "reports denied and failed operations, or those that rules select, as lines of JSON",
    options::OPTIONS,
    |pairs, lower| {
        let audit = create(pairs)?;
        if audit.needs_paths() && lower.root().path().is_err() {
            return Err(unsupported_paths_error(pairs));
        }
        Ok(vnode::layer::stack(audit, lower))
    },
)
.with_controls(options::CONTROLS);

/// Creates the layer and opens its file.
///
/// # Errors
/// Fails if an option is unknown or has an invalid value, or if a file cannot be used.
pub fn create(pairs: &[(String, String)]) -> Result<Audit, OptionError> {
    Ok(Audit::new(options::read(pairs)?, crate::options::write(pairs)))
}

/// Builds the error for patterns that could never match, which are an error rather than a rule that is silently void.
fn unsupported_paths_error(pairs: &[(String, String)]) -> OptionError {
    let by_path = |key: &str| ["protect", "path", "rules"].contains(&key);
    let (key, value) = pairs.iter().find(|(key, _)| by_path(key)).cloned().unwrap_or_default();
    let expected = "nothing by path, since the file system below does not know paths".to_owned();
    OptionError { member: options::NAME, key, problem: OptionProblem::BadValue { value, expected } }
}

//! Candidates for a completion: names, and what each is.

use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;

/// Returns the names that begin with what has been typed, each with its summary, which may be empty.
pub(crate) fn matching(names: Vec<(String, String)>, current: &OsStr) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy();
    let matching = names.into_iter().filter(|(name, _)| name.starts_with(&*typed));
    let candidate = |(name, summary): (String, String)| {
        let summary = Some(summary).filter(|summary| !summary.is_empty());
        CompletionCandidate::new(name).help(summary.map(Into::into))
    };
    matching.map(candidate).collect()
}

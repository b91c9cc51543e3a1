//! Completes the comma-separated list of mount options.

use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;

use crate::options::{PLYFS_OPTIONS, flags};

/// Options that have a value: the values to choose from, if they are words.
const VALUES: &[(&str, &[&str])] = &[
    ("attr_timeout", &[]),
    ("entry_timeout", &[]),
    ("fsname", &[]),
    ("locks", &["base", "kernel"]),
    ("log-file", &[]),
    ("log-level", &["off", "error", "warn", "info", "debug", "trace"]),
    ("max_read", &[]),
    ("read_ahead", &[]),
    ("stay_awake", &[]),
    ("uring", &["auto", "on", "off"]),
    ("without", &[]),
    ("writes", &["back", "through"]),
];

/// Returns the completions of the last option in a list.
pub(crate) fn complete(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(text) = current.to_str() else { return Vec::new() };
    let (before, word) = text.split_at(text.rfind(',').map_or(0, |comma| comma + 1));
    let mut words = words();
    words.sort_unstable();
    words.retain(|candidate| candidate.starts_with(word) && candidate != word);
    words.into_iter().map(|candidate| CompletionCandidate::new(before.to_owned() + &candidate)).collect()
}

/// Returns all options, those with a value as `KEY=`, and as `KEY=VALUE` for each value to choose from.
fn words() -> Vec<String> {
    let mut words: Vec<String> = flags::names().chain(["remount"]).map(str::to_owned).collect();
    for option in PLYFS_OPTIONS {
        match VALUES.iter().find(|(key, _)| *key == option) {
            None => words.push(option.to_owned()),
            Some((_, [])) => words.push(format!("{option}=")),
            Some((_, values)) => words.extend(values.iter().map(|value| format!("{option}={value}"))),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    #[test]
    fn every_completed_option_is_valid_or_lacks_only_its_value() {
        for word in words().iter().filter(|word| !word.ends_with('=')) {
            assert!(options::parse(word, false).is_ok(), "{word}");
        }
        assert!(VALUES.iter().all(|(key, _)| PLYFS_OPTIONS.contains(key)));
    }

    #[test]
    fn the_last_option_of_a_list_is_completed() {
        let completed = |text: &str| -> Vec<_> {
            let candidates = complete(OsStr::new(text));
            candidates.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(completed("ro,noe"), ["ro,noexec"]);
        assert_eq!(completed("attr"), ["attr_timeout="]);
        assert_eq!(completed("locks="), ["locks=base", "locks=kernel"]);
        assert_eq!(completed("ro,no-such"), Vec::<String>::new());
    }
}

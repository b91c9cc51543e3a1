//! Completes stack expressions: bases, layers and their options.

use std::ffi::OsStr;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use stack::{OptionSpecification, Registry};

use super::candidates::matching;

/// Returns the completions of an expression, whole expressions up to the word that is completed.
///
/// The word is determined by the last separator alone: an expression that is being typed is rarely valid yet.
pub(crate) fn complete(registry: &Registry, current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(text) = current.to_str() else { return Vec::new() };
    // Some shells pass the quote that the word begins with.
    let text = text.strip_prefix(['"', '\'']).unwrap_or(text);
    let position = text.rfind(['|', ',', '(']).map_or(0, |separator| separator + 1);
    let (before, rest) = text.split_at(position);
    let word = rest.trim_start();
    let space = match rest.len() > word.len() || !before.ends_with('|') {
        true => &rest[..rest.len() - word.len()],
        false => " ",
    };
    let completions = match options_before(registry, before) {
        Some(options) => complete_option(options, word),
        None if before.ends_with('|') => complete_layer(registry, word),
        None => complete_base(registry, word),
    };
    completions.into_iter().map(|candidate| candidate.add_prefix(format!("{before}{space}"))).collect()
}

/// Returns the names of all layers, and of the FiST programs on the search path, each with what it is.
pub(crate) fn layer_names(registry: &Registry) -> Vec<(String, String)> {
    let kinds = registry.layers().iter().map(|kind| (kind.name.to_owned(), kind.summary.to_owned()));
    let programs = registry.search_path().programs().into_iter();
    kinds.chain(programs.map(|program| (program.name, program.path.display().to_string()))).collect()
}

/// Returns the options of the layer or base in whose parentheses the text ends; `None` if it ends outside.
fn options_before<'a>(registry: &'a Registry, text: &str) -> Option<&'a [OptionSpecification]> {
    let (member, inside) = text.rsplit_once('(')?;
    // A parenthesis that follows no word begins a branch.
    let begins_branch = member.trim_end().is_empty() || member.trim_end().ends_with(['|', ',', '(']);
    if begins_branch || inside.contains(')') {
        return None;
    }
    let member = member.trim_end().rsplit(['|', ',', '(']).next().unwrap_or_default().trim();
    let kind = member.split(':').next().unwrap_or_default();
    let base = || registry.base(kind).map(|kind| kind.options);
    Some(registry.layer(member).map(|kind| kind.options).or_else(base).unwrap_or_default())
}

fn complete_layer(registry: &Registry, word: &str) -> Vec<CompletionCandidate> {
    let mut completions = matching(layer_names(registry), OsStr::new(word));
    if word.contains('/') {
        completions.extend(PathCompleter::any().complete(OsStr::new(word)));
    }
    completions
}

fn complete_base(registry: &Registry, word: &str) -> Vec<CompletionCandidate> {
    if let Some((name, location)) = word.split_once(':') {
        let is_path = registry.base(name).is_some_and(|kind| kind.location_is_path);
        let paths = if is_path { PathCompleter::any().complete(OsStr::new(location)) } else { Vec::new() };
        return paths.into_iter().map(|path| path.add_prefix(format!("{name}:"))).collect();
    }
    let kinds = registry.bases().iter().map(|kind| (format!("{}:", kind.name), kind.summary.to_owned())).collect();
    let mut completions = matching(kinds, OsStr::new(word));
    completions.extend(PathCompleter::any().complete(OsStr::new(word)));
    completions
}

fn complete_option(options: &[OptionSpecification], word: &str) -> Vec<CompletionCandidate> {
    let Some((key, value)) = word.split_once('=') else {
        let keys = options.iter().map(|option| (format!("{}=", option.key), option.summary.to_owned())).collect();
        return matching(keys, OsStr::new(word));
    };
    let Some(option) = options.iter().find(|option| option.key == key) else { return Vec::new() };
    // Capitals describe a value, such as NUMBER or FILE.
    let (forms, words): (Vec<&str>, Vec<&str>) =
        option.value.split('|').partition(|form| form.contains(|character: char| character.is_ascii_uppercase()));
    let words = words.iter().map(|word| ((*word).to_owned(), String::new())).collect();
    let mut completions = matching(words, OsStr::new(value));
    if forms.iter().any(|form| matches!(*form, "FILE" | "PATH" | "DIRECTORY")) {
        completions.extend(PathCompleter::any().complete(OsStr::new(value)));
    }
    completions.into_iter().map(|candidate| candidate.add_prefix(format!("{key}="))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::search_path::SearchPath;

    fn completions(text: &str) -> Vec<String> {
        let registry = Registry::default().with_search_path(SearchPath::new(Vec::<std::path::PathBuf>::new()));
        let candidates = complete(&registry, OsStr::new(text));
        candidates.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn layers_are_completed_after_a_bar() {
        assert_eq!(completions("/srv/data | aud"), ["/srv/data | audit"]);
        assert_eq!(completions("/srv/data|aud"), ["/srv/data| audit"]);
        assert_eq!(completions("\"/srv | readonly | uni"), ["/srv | readonly | union"]);
        assert_eq!(completions("(mem: | readonl"), ["(mem: | readonly"]);
        assert_eq!(completions("mem: | ").len(), Registry::default().layers().len());
    }

    #[test]
    fn options_and_their_words_are_completed_in_parentheses() {
        assert!(completions("mem: | audit(").contains(&"mem: | audit(to=".to_owned()));
        assert_eq!(completions("mem: | union(copyup=curr"), ["mem: | union(copyup=current"]);
        assert!(
            completions("/a=rw, /b | union(missing=fail, copyu")
                .contains(&"/a=rw, /b | union(missing=fail, copyup=".to_owned())
        );
        assert_eq!(completions("mem: | union() | readonl"), ["mem: | union() | readonly"]);
        assert!(completions("mem: | nothing(").is_empty());
    }

    #[test]
    fn bases_are_completed_as_kinds_and_paths() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("image"), "").unwrap();
        let path = directory.path().display().to_string();
        assert!(completions("me").contains(&"mem:".to_owned()));
        assert_eq!(completions(&format!("{path}/im")), [format!("{path}/image")]);
        assert_eq!(completions(&format!("/a=rw, iso:{path}/im")), [format!("/a=rw, iso:{path}/image")]);
        assert_eq!(completions(&format!("({path}/im")), [format!("({path}/image")]);
    }
}

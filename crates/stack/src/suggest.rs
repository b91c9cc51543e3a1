//! "Did you mean": the known word nearest to a misspelt one.

/// Returns the known word that `word` was most likely meant to be, if any is near enough.
///
/// Words of up to three letters may differ by one edit, longer ones by one more for every four letters.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = 1 + word.chars().count() / 4;
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word.to_lowercase(), candidate), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the remedy for an unknown word: the known word that it was most likely meant to be, or all known words.
pub fn remedy<'a, I: IntoIterator<Item = &'a str> + Clone>(word: &str, candidates: I) -> String {
    match nearest(word, candidates.clone()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("there are {}", list(candidates)),
    }
}

/// Joins words as `a, b and c`, for messages that list what exists.
pub fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.as_slice() {
        [] => "none".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANDIDATES: [&str; 4] = ["audit", "map", "readonly", "union"];

    #[test]
    fn nearest_finds_a_misspelling_and_nothing_far_away() {
        assert_eq!(nearest("audti", CANDIDATES), Some("audit"));
        assert_eq!(nearest("ReadOnly", CANDIDATES), Some("readonly"));
        assert_eq!(nearest("read-only", CANDIDATES), Some("readonly"));
        assert_eq!(nearest("mpa", CANDIDATES), Some("map"));
        assert_eq!(nearest("compress", CANDIDATES), None);
        assert_eq!(nearest("", CANDIDATES), None);
    }

    #[test]
    fn remedy_suggests_or_lists() {
        assert_eq!(remedy("audti", CANDIDATES), "did you mean 'audit'?");
        assert_eq!(remedy("compress", CANDIDATES), "there are audit, map, readonly and union");
    }

    #[test]
    fn list_reads_as_a_sentence() {
        assert_eq!(list(["rw"]), "rw");
        assert_eq!(list(["rw", "ro", "nc"]), "rw, ro and nc");
        assert_eq!(list([]), "none");
    }
}

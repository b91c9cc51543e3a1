//! What a command prints, compared with what the page shows: `…` matches anything within a line, and alone any lines.

/// The mark of what is not compared.
const ANYTHING: &str = "…";

/// Returns whether lines are those that are shown.
pub(crate) fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if *first == ANYTHING => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, others)| line_matches(first.trim_end(), line.trim_end()) && lines_match(rest, others)),
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let Some((begin, rest)) = shown.split_once(ANYTHING) else { return shown == printed };
    let Some(printed) = printed.strip_prefix(begin) else { return false };
    let ends = printed.char_indices().map(|(at, _)| at).chain([printed.len()]);
    ends.into_iter().any(|at| line_matches(rest, &printed[at..]))
}

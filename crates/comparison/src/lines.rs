//! Counting lines of code.

/// What marks comments and tests in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Rust: what follows `#[cfg(test)]` is not counted.
    Rust,
    /// FiST, whose comments are those of C.
    Fist,
}

/// How many lines are neither blank nor comments only.
pub fn count(text: &str, language: Language) -> usize {
    let mut is_in_comment = false;
    let lines = text.lines().map(str::trim).take_while(|line| language != Language::Rust || *line != "#[cfg(test)]");
    lines.filter(|line| has_code(line, &mut is_in_comment)).count()
}

/// Whether a line has anything outside comments. It may begin within one, and end within one.
fn has_code(mut rest: &str, is_in_comment: &mut bool) -> bool {
    loop {
        if *is_in_comment {
            let Some((_, behind)) = rest.split_once("*/") else { return false };
            (rest, *is_in_comment) = (behind.trim_start(), false);
        }
        match rest.strip_prefix("/*") {
            Some(behind) => (rest, *is_in_comment) = (behind, true),
            None => break,
        }
    }
    // A comment behind code that goes on in the next line is for nobody to write.
    !rest.is_empty() && !rest.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_comments_do_not_count() {
        assert_eq!(count("//! About it.\n\nfn main() {\n    // Nothing.\n}\n", Language::Rust), 2);
        assert_eq!(count("/* One\n * two\n */\n%%\nint a; /* why */\n/* what */ int b;\n/**/\n", Language::Fist), 3);
        assert_eq!(count("", Language::Fist), 0);
    }

    #[test]
    fn tests_of_a_rust_file_do_not_count() {
        let text = "fn one() {}\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!((count(text, Language::Rust), count(text, Language::Fist)), (1, 4));
    }
}

//! `fist fmt`: reformats a FiST program. Only spaces and line breaks change.

mod page;
mod spacing;
mod statements;
mod trivia;
mod writer;

use std::collections::HashSet;

use crate::diagnostic::Diagnostic;
use crate::lexed::Lexed;
use crate::lexer::lex;
use crate::limits::MAX_SOURCE_BYTES;
use crate::parser::parse;
use crate::token::TokenKind;
pub use page::MAX_LINE_COLUMNS;

/// Returns the text in the standard layout, with the line ending of its first line. A text with syntax errors is not
/// formatted: the errors are returned.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let parsed = parse(text);
    if !parsed.diagnostics.is_empty() {
        return Err(parsed.diagnostics);
    }
    let types = writer::type_names(&parsed.description);
    if !text.contains("\r\n") {
        return Ok(layout(text, types));
    }
    let formatted = layout(&text.replace("\r\n", "\n"), types);
    let is_first = text.find('\n').is_some_and(|end| text[..end].ends_with('\r'));
    Ok(if is_first { formatted.replace('\n', "\r\n") } else { formatted })
}

fn layout(text: &str, types: HashSet<String>) -> String {
    let lexed = lex(text);
    let formatted = writer::Writer::new(text, &lexed, types).write();
    // The output must mean the same as the input. Should it ever not, the text is better left as it is; so is one whose
    // formatted form would exceed the maximum length of a FiST program.
    let is_same = is_same(text, &lexed, &formatted);
    debug_assert!(
        is_same || formatted.len() > MAX_SOURCE_BYTES,
        "the layout has changed what the text means:\n{text}\n{formatted}"
    );
    if is_same { formatted } else { text.to_owned() }
}

/// Returns whether two texts have the same tokens and comments.
fn is_same(text: &str, lexed: &Lexed, other: &str) -> bool {
    let other_lexed = lex(other);
    tokens(text, lexed) == tokens(other, &other_lexed)
        && comments(text, lexed) == comments(other, &other_lexed)
        && parse(other).diagnostics.is_empty()
}

fn tokens<'a>(text: &'a str, lexed: &'a Lexed) -> Vec<(&'a TokenKind, &'a str)> {
    lexed.tokens.iter().map(|token| (&token.kind, token.span.of(text).trim_end())).collect()
}

/// The lines of all comments, trimmed.
fn comments<'a>(text: &'a str, lexed: &Lexed) -> Vec<&'a str> {
    lexed.comments.iter().flat_map(|comment| comment.span.of(text).lines().map(str::trim)).collect()
}

#[cfg(test)]
mod tests;

//! Names of others as they are printed on a terminal.

/// Replaces control characters, so that names cannot control the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

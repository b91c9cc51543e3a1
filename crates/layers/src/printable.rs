//! Names and messages of others as they are printed, so that they control neither the terminal nor the log.

/// Replaces control characters by question marks.
pub fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// Escapes control characters, which also keeps the text on one line.
pub fn escaped(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => printed.extend(character.escape_default()),
            false => printed.push(character),
        }
    }
    printed
}

#[cfg(test)]
mod tests {
    #[test]
    fn messages_are_one_line_without_control_characters() {
        assert_eq!(super::escaped("to file a\nsnoopfs \u{1b}[2Jé"), "to file a\\nsnoopfs \\u{1b}[2Jé");
    }
}

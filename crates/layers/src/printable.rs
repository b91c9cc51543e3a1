//! Names and messages of others as they are printed, so that they control neither the terminal nor the log.

use std::fmt::Display;

use vnode::is_terminal_control;

/// Replaces characters that control a terminal by question marks.
pub fn printable(text: &str) -> String {
    text.replace(is_terminal_control, "?")
}

/// Escapes characters that control a terminal, which also keeps the text on one line.
pub fn escaped(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for character in text.chars() {
        match is_terminal_control(character) {
            true => printed.extend(character.escape_default()),
            false => printed.push(character),
        }
    }
    printed
}

/// Returns a value of JSON as text of several lines, or such a text, with the characters escaped that control a terminal and that
/// JSON allows in strings.
pub fn json_text(value: &impl Display) -> String {
    let text = format!("{value:#}\n");
    let mut printed = String::with_capacity(text.len());
    for character in text.chars() {
        match is_terminal_control(character) && !character.is_ascii_whitespace() {
            true => printed.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => printed.push(character),
        }
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_without_control_characters() {
        assert_eq!(escaped("to file a\nsnoopfs \u{1b}[2Jé"), "to file a\\nsnoopfs \\u{1b}[2Jé");
        assert_eq!(printable("\u{9b}2J\u{202e}é"), "?2J?é");
    }

    #[test]
    fn json_keeps_its_meaning_and_lines() {
        let printed = json_text(&"{\n  \"a\": \"\u{7f}\u{9b}\u{2066}é\"\n}");
        assert_eq!(printed, "{\n  \"a\": \"\\u007f\\u009b\\u2066é\"\n}\n");
    }
}

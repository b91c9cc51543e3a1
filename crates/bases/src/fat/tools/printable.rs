//! Text from a disk in reports for people: whoever wrote the disk does not write to the terminal.

use vnode::is_terminal_control;

/// Returns the text with each control character replaced.
pub(crate) fn printable(text: &str) -> String {
    text.replace(is_terminal_control, "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\u{1b}[3\u{9b}ü\n\u{202e}"), "a\u{FFFD}[3\u{FFFD}ü\u{FFFD}\u{FFFD}");
    }
}

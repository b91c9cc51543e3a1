//! Splits input into commands, and commands into words.

/// Returns the commands of a text: separated by unquoted `;` and line breaks. `#` at the start of a word begins a comment that
/// lasts to the end of the line.
pub(crate) fn commands(text: &[u8]) -> Vec<&[u8]> {
    let mut commands = Vec::new();
    let mut start = 0;
    let mut position = 0;
    let mut quote = None;
    while position < text.len() {
        let byte = text[position];
        match (quote, byte) {
            (Some(b'"') | None, b'\\') => position += 1,
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b';' | b'\n') => {
                commands.push(&text[start..position]);
                start = position + 1;
            }
            (None, b'#') if position == start || text[position - 1].is_ascii_whitespace() => {
                commands.push(&text[start..position]);
                position += text[position..].iter().position(|byte| *byte == b'\n').unwrap_or(text.len() - position);
                start = (position + 1).min(text.len());
            }
            (None, _) => {}
        }
        position += 1;
    }
    commands.push(&text[start..]);
    commands.retain(|command| !command.trim_ascii().is_empty());
    commands
}

/// Returns the words of one command, with quotes and backslashes removed; `None` if a quote is not closed.
pub(crate) fn words(command: &[u8]) -> Option<Vec<Vec<u8>>> {
    shlex::bytes::split(command)
}

/// Returns whether the text ends within quotes or after a backslash, so that more must follow.
pub(crate) fn is_unfinished(text: &[u8]) -> bool {
    commands(text).last().is_some_and(|last| words(last).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_end_at_semicolons_and_line_breaks() {
        let text = b"ls -l; cat 'a;b'\n\n # all; of it\necho \"x\\\";y\" ;; echo a#b\\;c";
        let commands: Vec<&str> =
            commands(text).into_iter().map(|command| std::str::from_utf8(command).unwrap()).collect();
        assert_eq!(commands, ["ls -l", " cat 'a;b'", "echo \"x\\\";y\" ", " echo a#b\\;c"]);
        assert_eq!(words(b"echo a#b\\;c").unwrap(), [b"echo".to_vec(), b"a#b;c".to_vec()]);
    }

    #[test]
    fn unfinished_input_is_recognised() {
        assert!(is_unfinished(b"echo 'a"));
        assert!(is_unfinished(b"ls; echo \"a\n"));
        assert!(!is_unfinished(b"echo 'a'; ls # don't"));
        assert!(!is_unfinished(b""));
    }

    #[test]
    fn arbitrary_bytes_can_be_split() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let bytes = b"ab;\n#'\"\\ ";
            let text: Vec<u8> = (0..random.usize(0..10)).map(|_| bytes[random.usize(0..bytes.len())]).collect();
            for command in commands(&text) {
                assert!(!command.trim_ascii().is_empty(), "seed {seed}: {text:?}");
            }
        }
    }
}

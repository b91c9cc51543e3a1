//! Writes a syntax tree as text that parses to the same tree.

use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;

use super::lexer::{is_kind, is_special};
use super::tree::{Argument, Base, Branch, BranchTree, Layer, LayerName, Stack};

/// Writes one word: as it is if the lexer would read it back so, otherwise in double quotes.
pub(crate) fn quote(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if is_plain(text) => text.to_owned(),
        _ => quote_always(bytes),
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, branch) in self.source.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{}", branch.value)?;
        }
        for layer in &self.layers {
            write!(formatter, " | {}", layer.value)?;
        }
        Ok(())
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tree {
            BranchTree::Base(base) => write!(formatter, "{base}")?,
            BranchTree::Stack(stack) => write!(formatter, "({stack})")?,
        }
        match &self.mode {
            Some(mode) => write!(formatter, "={}", mode.value)?,
            None => return Ok(()),
        }
        write_arguments(formatter, &self.options)
    }
}

impl fmt::Display for Base {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = self.location.value.as_bytes();
        match &self.kind {
            Some(kind) if location.is_empty() => write!(formatter, "{}:", kind.value)?,
            Some(kind) => write!(formatter, "{}:{}", kind.value, quote(location))?,
            // A path that begins like a kind would be read as one.
            None if begins_with_kind(location) => formatter.write_str(&quote_always(location))?,
            None => formatter.write_str(&quote(location))?,
        }
        write_arguments(formatter, &self.arguments)
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name.value {
            LayerName::Name(name) => formatter.write_str(name)?,
            LayerName::Description(path) => formatter.write_str(&quote(path.as_os_str().as_bytes()))?,
        }
        write_arguments(formatter, &self.arguments)
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", quote(self.key.value.as_bytes()), quote(self.value.value.as_bytes()))
    }
}

/// Writes options in parentheses; nothing if there are none.
fn write_arguments(formatter: &mut fmt::Formatter<'_>, arguments: &[Argument]) -> fmt::Result {
    for (index, argument) in arguments.iter().enumerate() {
        let separator = if index == 0 { "(" } else { ", " };
        write!(formatter, "{separator}{argument}")?;
    }
    if arguments.is_empty() { Ok(()) } else { formatter.write_char(')') }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && !text.chars().any(|character| character.is_control() || u8::try_from(character).is_ok_and(is_special))
}

fn begins_with_kind(bytes: &[u8]) -> bool {
    bytes.iter().position(|byte| *byte == b':').is_some_and(|colon| is_kind(&bytes[..colon]))
}

/// Puts double quotes around the text, and escapes bytes that are not printable or not literal inside quotes.
pub(crate) fn quote_always(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => text.extend(['\\', character]),
                _ if character.is_control() => {
                    let mut encoded = [0; 4];
                    escape(&mut text, character.encode_utf8(&mut encoded).as_bytes());
                }
                _ => text.push(character),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text.push('"');
    text
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push_str(&format!("\\x{byte:02x}"));
    }
}

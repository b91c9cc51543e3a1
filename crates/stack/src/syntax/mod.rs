//! The text of stack expressions: parsing to a tree with byte-exact spans, and writing the tree back as text.
//!
//! ```text
//! stack   := source { "|" layer }                          /vault | crypt | audit
//! source  := branch { "," branch }                         /fast=rw, /slow=rw, /cd=ro | union
//! branch  := base [ "=" rw|ro|nc ] | "(" stack ")" [ "=" rw|ro|nc ]
//! base    := ( PATH | kind ":" location ) [ options ]      dir:/x  mem:  fat:usb.img(uid=1000)
//! layer   := ( name | PATH ".fist" ) [ options ]
//! options := "(" key "=" value { "," key "=" value } ")"
//! ```
//!
//! Words end at whitespace or at one of `| , = ( )`. Inside double quotes, and after a backslash, these are literal;
//! `\xNN` is the byte with that hexadecimal value, so that any file name can be written.

mod display;
mod error;
mod lexer;
mod parser;
mod tree;

pub use error::{Construct, FoundToken, SyntaxError, SyntaxProblem};
pub use parser::{parse, parse_layers};
pub use tree::{Argument, Base, Branch, BranchTree, Layer, LayerName, Mode, Span, Spanned, Stack};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Writes one word so that the parser reads it back as `text`: as it is where possible, otherwise in double quotes.
pub fn quote(text: &OsStr) -> String {
    display::quote(text.as_bytes())
}

/// Converts an expression from the command line to text: bytes that are not UTF-8 are written as `\xNN`.
pub fn from_argument(argument: &OsStr) -> String {
    let mut text = String::new();
    for chunk in argument.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        let backslashes = text.len() - text.trim_end_matches('\\').len();
        if !chunk.invalid().is_empty() && backslashes % 2 == 1 {
            // The backslash escapes the byte that follows, which `\xNN` does too.
            text.pop();
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests;

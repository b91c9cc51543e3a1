//! Trivia between tokens: comments and empty lines.

use crate::lexed::Lexed;
use crate::token::TokenKind;

/// Trivia before a token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trivia {
    /// The comments; adjacent ones on a line count as one.
    pub(crate) comments: Vec<Comment>,
    /// An empty line immediately precedes the token.
    pub(crate) is_after_blank: bool,
}

/// Adjacent comments.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) text: String,
    pub(crate) position: CommentPosition,
    /// An empty line precedes it.
    pub(crate) is_after_blank: bool,
}

/// The position of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommentPosition {
    /// After a token, at the end of its line.
    Trailing,
    /// On a line of its own.
    OwnLine,
    /// Before a token, on its line.
    Leading,
}

/// Returns the trivia before each token.
pub(crate) fn of(text: &str, lexed: &Lexed) -> Vec<Trivia> {
    let mut comments = lexed.comments.iter().peekable();
    let mut end = 0;
    let mut all = Vec::with_capacity(lexed.tokens.len());
    for token in &lexed.tokens {
        let mut trivia = Trivia::default();
        let (start, mut is_first) = (token.span.start as usize, end == 0);
        while let Some(comment) = comments.next_if(|comment| (comment.span.start as usize) < start) {
            let breaks = breaks(text, end, comment.span.start as usize);
            end = comment.span.end as usize;
            let written = comment.span.of(text).trim_end();
            match trivia.comments.last_mut().filter(|_| breaks == 0) {
                Some(before) => {
                    before.text.push(' ');
                    before.text.push_str(written);
                }
                None => {
                    if let Some(before) = trivia.comments.last_mut() {
                        before.ends_line();
                    }
                    // Assumes for now that the token follows on the same line.
                    let position =
                        if breaks > 0 || is_first { CommentPosition::Leading } else { CommentPosition::Trailing };
                    let is_after_blank = breaks > 1;
                    trivia.comments.push(Comment { text: written.to_owned(), position, is_after_blank });
                }
            }
            is_first = false;
        }
        let breaks = breaks(text, end, start);
        trivia.is_after_blank = breaks > 1;
        if let Some(last) = trivia.comments.last_mut() {
            if breaks > 0 || token.kind == TokenKind::End {
                last.ends_line();
            } else {
                last.position = CommentPosition::Leading;
            }
        }
        all.push(trivia);
        end = token.span.end as usize;
    }
    all
}

impl Comment {
    /// Nothing follows on its line: so it is alone there, or trails the preceding token.
    fn ends_line(&mut self) {
        if self.position == CommentPosition::Leading {
            self.position = CommentPosition::OwnLine;
        }
    }
}

/// Number of line breaks between two byte offsets.
fn breaks(text: &str, start: usize, end: usize) -> usize {
    text[start..end].bytes().filter(|byte| *byte == b'\n').count()
}

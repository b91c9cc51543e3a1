//! Conditional compilation (FiST, section 2.4): `#ifdef`, `#ifndef`, `#else` and `#endif` exclude tokens.
//!
//! Excluded text and the directive lines count as comments, so the formatter keeps them as they are.

use std::collections::HashSet;

use crate::diagnostic::{Code, Diagnostic};
use crate::lexed::Lexed;
use crate::numbers::{ERRORS, FLAGS, NUMBERS};
use crate::text::Span;
use crate::token::{Comment, Token, TokenKind};

/// Removes the tokens that conditions exclude, and reports malformed conditions.
pub(crate) fn resolve(text: &str, lexed: &mut Lexed) {
    let is_directive = |token: &Token| token.kind == TokenKind::Directive;
    if !lexed.tokens.iter().any(is_directive) {
        return;
    }
    let mut conditions = Conditions::new(text);
    lexed.tokens.retain(|token| conditions.includes(token));
    conditions.finish();
    let Conditions { excluded, diagnostics, .. } = conditions;
    let within = |span: Span| {
        let next = excluded.partition_point(|other| other.end <= span.start);
        excluded.get(next).is_some_and(|other| other.start <= span.start)
    };
    lexed.comments.retain(|comment| !within(comment.span));
    lexed.diagnostics.retain(|problem| !within(problem.span));
    lexed.comments.extend(excluded.iter().map(|span| Comment { span: *span, begins_line: true }));
    lexed.comments.sort_by_key(|comment| comment.span.start);
    lexed.diagnostics.extend(diagnostics);
}

/// Splits a directive line into the word after `#` and the rest.
pub(crate) fn directive(line: &str) -> (&str, &str) {
    let line = line.trim_start_matches('#').trim_start();
    line.split_at(line.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(line.len()))
}

/// Splits a line into its leading name and the rest.
fn name(rest: &str) -> Option<(&str, &str)> {
    let rest = rest.trim_start();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let (name, rest) = rest.split_at(rest.find(|letter| !is_part(letter)).unwrap_or(rest.len()));
    name.starts_with(|first: char| !first.is_ascii_digit()).then_some((name, rest))
}

/// A condition without its `#endif` so far.
struct Condition {
    /// The line of the directive.
    span: Span,
    /// The condition holds, so the text before `#else` is kept.
    holds: bool,
    /// Location of its `#else`, once seen.
    otherwise: Option<Span>,
}

impl Condition {
    /// Returns whether this condition keeps the text at the current position.
    fn includes(&self) -> bool {
        self.holds == self.otherwise.is_none()
    }
}

struct Conditions<'a> {
    text: &'a str,
    /// Constants defined so far.
    defined: HashSet<&'a str>,
    open: Vec<Condition>,
    /// Number of open conditions that exclude the current text.
    excluding: usize,
    /// Start of the text being excluded.
    excluded_from: Option<u32>,
    /// Directive lines and the text that they exclude, in source order.
    excluded: Vec<Span>,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> Conditions<'a> {
    fn new(text: &'a str) -> Conditions<'a> {
        let known = ERRORS.iter().map(|(name, _)| *name).chain(FLAGS.iter().chain(&NUMBERS).map(|(name, _)| *name));
        Conditions {
            text,
            defined: known.collect(),
            open: Vec::new(),
            excluding: 0,
            excluded_from: None,
            excluded: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    /// Returns whether a token is kept.
    fn includes(&mut self, token: &Token) -> bool {
        if token.kind == TokenKind::End {
            return true;
        }
        let is_included = self.excluding == 0;
        if token.kind != TokenKind::Directive {
            return is_included;
        }
        let (word, rest) = directive(token.span.of(self.text));
        match word {
            "ifdef" | "ifndef" => {
                let is_defined =
                    self.tested_name(word, rest, token.span).is_some_and(|name| self.defined.contains(name));
                self.begin(token.span, is_defined == (word == "ifdef"));
            }
            "if" | "elif" => {
                if is_included {
                    let remedy = "descriptions ask whether a name is defined: #ifdef";
                    self.error(format!("`#{word}` is not known"), token.span, remedy);
                }
                if word == "if" {
                    self.begin(token.span, true);
                }
            }
            "else" => self.otherwise(token.span),
            "endif" => match self.open.pop() {
                Some(condition) => self.excluding -= usize::from(!condition.includes()),
                None => self.error("`#endif` closes nothing".to_owned(), token.span, "leave it away"),
            },
            "define" => {
                if let Some((name, _)) = name(rest).filter(|_| is_included) {
                    self.defined.insert(name);
                }
                return is_included;
            }
            _ => return is_included,
        }
        self.record_directive(token.span);
        false
    }

    /// Returns the name that a condition tests.
    fn tested_name(&mut self, word: &str, rest: &'a str, span: Span) -> Option<&'a str> {
        match name(rest) {
            Some((name, rest)) if is_blank(rest) => Some(name),
            _ => {
                self.error(format!("`#{word}` is followed by one name"), span, "write the name of a constant");
                None
            }
        }
    }

    fn begin(&mut self, span: Span, holds: bool) {
        self.open.push(Condition { span, holds, otherwise: None });
        self.excluding += usize::from(!holds);
    }

    fn otherwise(&mut self, span: Span) {
        match self.open.last_mut() {
            None => self.error("`#else` belongs to no condition".to_owned(), span, "leave it away"),
            Some(Condition { otherwise: Some(before), .. }) => {
                let before = *before;
                self.error("a condition has two `#else`".to_owned(), span, "leave one away");
                if let Some(last) = self.diagnostics.last_mut() {
                    last.and(before, "the first is here");
                }
            }
            Some(condition) => {
                condition.otherwise = Some(span);
                match condition.holds {
                    true => self.excluding += 1,
                    false => self.excluding -= 1,
                }
            }
        }
    }

    /// Records a directive line, after which text may be excluded, or no longer is.
    fn record_directive(&mut self, line: Span) {
        let is_included = self.excluding == 0;
        match (self.excluded_from, is_included) {
            (None, true) => self.excluded.push(line),
            (None, false) => self.excluded_from = Some(line.start),
            (Some(start), true) => {
                self.excluded.push(Span { start, end: line.end });
                self.excluded_from = None;
            }
            (Some(_), false) => {}
        }
    }

    /// Ends the text.
    fn finish(&mut self) {
        if let Some(start) = self.excluded_from {
            self.excluded.push(Span { start, end: self.text.trim_end().len() as u32 });
        }
        for condition in std::mem::take(&mut self.open) {
            let what = "this condition is not closed";
            let mut problem = Diagnostic::error(Code::Unclosed, what, condition.span);
            problem.remedy("write `#endif` on a line of its own behind what it is about");
            self.diagnostics.push(problem);
        }
    }

    fn error(&mut self, what: String, span: Span, remedy: &str) {
        let mut problem = Diagnostic::error(Code::Directive, what, span);
        problem.remedy(remedy);
        self.diagnostics.push(problem);
    }
}

/// Returns whether the rest of a line is empty or a comment.
fn is_blank(rest: &str) -> bool {
    let rest = rest.trim();
    rest.is_empty() || rest.starts_with("//") || rest.starts_with("/*") && rest.ends_with("*/")
}

#[cfg(test)]
mod tests {
    use crate::lexer::lex;
    use crate::token::TokenKind;

    /// Returns the words that are kept and the text that is not.
    fn split(text: &str) -> (String, Vec<&str>) {
        let lexed = lex(text);
        assert!(lexed.diagnostics.is_empty(), "{text}\n{:#?}", lexed.diagnostics);
        let words = lexed.tokens.iter().filter(|token| token.kind != TokenKind::Directive);
        let words: Vec<_> = words.map(|token| token.span.of(text)).collect();
        (words.join(" ").trim_end().to_owned(), lexed.comments.iter().map(|comment| comment.span.of(text)).collect())
    }

    fn problems(text: &str) -> Vec<&'static str> {
        lex(text).diagnostics.iter().map(|problem| problem.code.name()).collect()
    }

    #[test]
    fn excluded_tokens_are_dropped() {
        for (text, expected) in [
            ("#define A\n#ifdef A\na\n#else\nb\n#endif\nc", "a c"),
            ("#ifdef A\na\n#else\nb\n#endif\nc", "b c"),
            ("#ifndef A\na\n#else\nb\n#endif\nc", "a c"),
            ("#ifdef A\n#ifdef EPERM\na\n#else\nb\n#endif\n#else\n#ifndef EPERM\nc\n#else\nd\n#endif\n#endif\n", "d"),
            ("#ifdef NODUPS // a flag\na\n#endif /* NODUPS */\n", "a"),
            ("#ifdef A\n#define B\n#endif\n#ifdef B\na\n#endif\nb", "b"),
            ("#ifdef A\n#define A\n#endif\n  # ifdef A\na\n#endif\nb\n#define A 0\n#ifdef A\nc\n#endif", "b c"),
            ("#ifdef A\n' @ \" %%\n%%\n/* no end\n*/\n#endif\nb", "b"),
            ("x\n#ifdef A_LONGER\na\n#endif\n#define A_LONGER_NAME\n", "x"),
        ] {
            assert_eq!(split(text).0, expected, "{text}");
        }
    }

    #[test]
    fn excluded_text_becomes_a_comment() {
        let text = "a // one\n#ifdef A\nb // two\n#ifdef B\n#endif\n#else\nc /* three */\n#endif\nd";
        let expected = ["// one", "#ifdef A\nb // two\n#ifdef B\n#endif\n#else", "/* three */", "#endif"];
        assert_eq!(split(text).1, expected);
    }

    #[test]
    fn malformed_conditions_are_reported() {
        for (text, expected) in [
            ("#ifdef A\na\n", "F0003"),
            ("#endif\n", "F0107"),
            ("#else\n", "F0107"),
            ("#ifdef A\n#else\n#else\n#endif\n", "F0107"),
            ("#ifdef\n#endif\n", "F0107"),
            ("#ifdef A B\n#endif\n", "F0107"),
            ("#ifdef 1\n#endif\n", "F0107"),
            ("#if 1\na\n#endif\n", "F0107"),
        ] {
            assert_eq!(problems(text), [expected], "{text}");
        }
    }
}

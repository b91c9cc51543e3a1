//! Diagnostics as text for people: each with its code, the source lines and the suggested fix.

use std::fmt::Write;

use annotate_snippets::{
    Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet, Title, normalize_untrusted_str,
};

use crate::diagnostic::{Diagnostic, Severity};
use crate::lines::Lines;
use crate::text::Span;

/// Maximum number of diagnostics reported: a reader with more of them at once has another problem.
pub const TOLD_MAX: usize = 100;

/// Maximum size of an excerpt in bytes; for a longer one only the location is named: a line of a generated file, or an
/// unclosed block.
const EXCERPT_BYTES_MAX: usize = 64 << 10;

/// Whether the output is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colours {
    /// Plain text.
    #[default]
    Never,
    /// With terminal escape sequences.
    Always,
}

/// Renders the diagnostics of a text, in source order, separated by empty lines; empty if there are none. `file` is the
/// name of the text.
pub fn report(file: &str, text: &str, diagnostics: &[Diagnostic], colours: Colours) -> String {
    let lines = Lines::of(text);
    let file = printable(file);
    let renderer = match colours {
        Colours::Never => Renderer::plain(),
        Colours::Always => Renderer::styled(),
    };
    let mut sorted: Vec<&Diagnostic> = diagnostics.iter().collect();
    sorted.sort_by_key(|diagnostic| diagnostic.span);
    let reported = sorted.iter().take(TOLD_MAX).map(|one| renderer.render(&[group(&file, text, &lines, one)]) + "\n");
    let mut all = reported.collect::<Vec<_>>().join("\n");
    if sorted.len() > TOLD_MAX {
        let _ = writeln!(all, "\n{file} has {} more problems that are not shown", sorted.len() - TOLD_MAX);
    }
    all
}

/// The number of errors and warnings, as `2 errors and 1 warning`; empty if there are none.
pub fn counts(diagnostics: &[Diagnostic]) -> String {
    let count = |severity| diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
    let some = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{count} {what}s")),
    };
    let parts = [some(count(Severity::Error), "error"), some(count(Severity::Warning), "warning")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

fn group<'a>(file: &'a str, text: &'a str, lines: &Lines, diagnostic: &'a Diagnostic) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&diagnostic.message).id(diagnostic.code.name());
    let related = diagnostic.related.iter().map(|(span, _)| *span);
    // Only the lines shown are read: a long text with many problems is reported as fast as a short one.
    let (first, shown) = lines.around(text, related.fold(diagnostic.span, Span::to));
    let group = if shown.of(text).len() > EXCERPT_BYTES_MAX {
        named(title, file, text, lines, diagnostic)
    } else {
        title.element(excerpt(file, text, first, shown, diagnostic))
    };
    group.elements(diagnostic.remedy.as_deref().map(|remedy| Level::HELP.message(trusted(remedy))))
}

/// The source lines of a problem, with labels.
fn excerpt<'a>(
    file: &'a str,
    text: &'a str,
    first: usize,
    shown: Span,
    diagnostic: &'a Diagnostic,
) -> Snippet<'a, Annotation<'a>> {
    let range = |span: Span| (span.start - shown.start) as usize..(span.end - shown.start) as usize;
    let primary = AnnotationKind::Primary.span(range(diagnostic.span)).label(diagnostic.label.as_deref().map(trusted));
    let related = diagnostic.related.iter();
    let others = related.map(|(span, label)| AnnotationKind::Context.span(range(*span)).label(trusted(label)));
    let snippet = Snippet::source(shown.of(text)).path(file).line_start(first + 1);
    snippet.annotation(primary).annotations(others)
}

/// The locations of a problem as line numbers, without an excerpt.
fn named<'a>(title: Title<'a>, file: &'a str, text: &str, lines: &Lines, diagnostic: &'a Diagnostic) -> Group<'a> {
    let place = |span: Span| lines.place(text, span.start as usize);
    let (line, column) = place(diagnostic.span);
    let label = diagnostic.label.iter().map(|label| trusted(label));
    let related = diagnostic.related.iter().map(|(span, label)| {
        let (line, column) = place(*span);
        format!("{} (line {line}, column {column})", trusted(label))
    });
    let notes = label.chain(related).map(|note| Level::NOTE.message(note));
    title.element(Origin::path(file).line(line).char_column(column)).elements(notes)
}

/// Neutralizes control characters, since messages quote the source text.
fn trusted(text: &str) -> String {
    normalize_untrusted_str(text)
}

/// The name of a file, without control characters.
fn printable(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Loaded;

    fn reported(text: &str, colours: Colours) -> String {
        let loaded = Loaded::of("test.fist", text.to_owned());
        report(&loaded.file, &loaded.text, &loaded.diagnostics, colours)
    }

    #[test]
    fn an_error_is_reported_with_location_and_remedy() {
        insta::assert_snapshot!(reported("%%\n\n%op:unlnik:precall {\n}\n", Colours::Never));
    }

    #[test]
    fn related_locations_are_shown() {
        insta::assert_snapshot!(reported(
            "fanout 2;\n\n\n\n\n\nfanout 3;\n%%\n%op:unlink { int a; int a; }\n",
            Colours::Never
        ));
    }

    #[test]
    fn diagnostics_are_reported_in_source_order() {
        let text =
            "fanout two;\n%%\n%op:lookup:postcall {\n    if (fistLastErr() == EPERM)\n        x = 1;\n    int y = ;\n";
        insta::assert_snapshot!(reported(text, Colours::Never));
    }

    #[test]
    fn premature_end_is_reported_at_the_end() {
        insta::assert_snapshot!(reported("%%\n%op:unlink {\n    fistSetErr(", Colours::Never));
        insta::assert_snapshot!(reported("fanout", Colours::Never));
        assert_eq!(reported("", Colours::Never), "");
    }

    #[test]
    fn colours_are_used_only_on_request() {
        let text = "%%\n%op:unlink { x = \"\u{1b}[31m\" @ }\n";
        assert!(!reported(text, Colours::Never).contains('\u{1b}'), "{}", reported(text, Colours::Never));
        assert!(reported(text, Colours::Always).contains("\u{1b}["));
        assert!(!reported(text, Colours::Always).contains("\u{1b}[31m\""));
    }

    #[test]
    fn number_of_reported_diagnostics_is_limited() {
        let text = format!("%%\n%op:unlink {{\n{}}}\n", "x = 1;\n".repeat(TOLD_MAX + 20));
        let reported = reported(&text, Colours::Never);
        assert_eq!(reported.matches("error[F0202]").count(), TOLD_MAX);
        assert!(reported.ends_with("\ntest.fist has 20 more problems that are not shown\n"), "{reported}");
    }

    #[test]
    fn overlong_lines_are_not_quoted() {
        let text = format!("fanout 2;\n{} fanout 3;", " ".repeat(EXCERPT_BYTES_MAX));
        insta::assert_snapshot!(reported(&text, Colours::Never));
    }

    #[test]
    fn diagnostics_are_counted() {
        let counted = |text: &str| counts(&Loaded::of("test.fist", text.to_owned()).diagnostics);
        assert_eq!(counted("%%\n"), "");
        assert_eq!(counted("fanout 0;\nfanout 0;\n"), "3 errors");
        assert_eq!(counted("%%\n%op:unlink { }\n%op:all { x = 1; }\n"), "1 error and 1 warning");
    }
}

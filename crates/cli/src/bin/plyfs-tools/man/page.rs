//! Parts of man pages: headings, paragraphs, definitions, examples and references.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// Begins a page with its title, its name and the heading of its synopsis.
pub(crate) fn begin(name: &str, section: &str, summary: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [name, section]);
    heading(&mut page, "NAME");
    page.text([roman(format!("{name} - {summary}"))]);
    heading(&mut page, "SYNOPSIS");
    page
}

/// Adds the heading of a section.
pub(crate) fn heading(page: &mut Roff, title: &str) {
    page.control("SH", [title]);
}

/// Adds a section of paragraphs.
pub(crate) fn section(page: &mut Roff, title: &str, paragraphs: &[&str]) {
    heading(page, title);
    for (index, paragraph) in paragraphs.iter().enumerate() {
        if index > 0 {
            page.control("PP", []);
        }
        page.text([roman(*paragraph)]);
    }
}

/// Adds a term and what it means.
pub(crate) fn definition(page: &mut Roff, term: impl Into<Vec<Inline>>, meaning: &str) {
    page.control("TP", []);
    page.text(term);
    page.text([roman(meaning)]);
}

/// Adds lines that are shown as they are.
pub(crate) fn literal(page: &mut Roff, lines: &str) {
    page.control("PP", []);
    page.control("RS", ["4"]);
    page.control("nf", []);
    for line in lines.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.control("RE", []);
}

/// Adds the section with examples, each with what it does; nothing if there are none.
pub(crate) fn examples(page: &mut Roff, examples: &[(String, String)]) {
    if examples.is_empty() {
        return;
    }
    heading(page, "EXAMPLES");
    for (index, (purpose, lines)) in examples.iter().enumerate() {
        if index > 0 {
            page.control("PP", []);
        }
        page.text([roman(format!("{purpose}:"))]);
        literal(page, lines);
    }
}

/// Adds the section with references to other pages, such as `plyfs(1)`.
pub(crate) fn see_also(page: &mut Roff, pages: &[String]) {
    heading(page, "SEE ALSO");
    let mut references = Vec::new();
    for (index, reference) in pages.iter().enumerate() {
        let (name, section) = reference.split_once('(').unwrap_or((reference, ""));
        references.push(bold(name));
        references.push(roman(format!("({section}{}", if index + 1 < pages.len() { ", " } else { "" })));
    }
    page.text(references);
}

/// Returns `KEY=VALUE` in the fonts of a literal and of what is to be replaced.
pub(crate) fn option(key: &str, value: &str) -> Vec<Inline> {
    vec![bold(key), roman("="), italic(value)]
}

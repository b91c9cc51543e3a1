//! Hover: help on the word under the cursor.

use fist::builtins::{self, ATTRIBUTES, GLOBALS, OPERATION_VALUES};
use fist::operations::{self, Operation};
use fist::text::Span;
use fist::token::TokenKind;
use fist::tree::Rule;
use fist::words;

use crate::document::{Document, Section};
use crate::symbols::DefinitionKind;

/// Returns the help at a byte, and the span that it applies to.
pub(crate) fn hover_at(document: &Document, byte: usize) -> Option<(Span, String)> {
    let word = if document.is_quoted(byte) { None } else { document.token_at(byte) };
    let help = word.and_then(|index| Some((document.tokens[index].span, help(document, index)?)));
    let mut problems = document.diagnostics.iter().filter(|one| {
        let (start, end) = (one.span.start as usize, one.span.end as usize);
        start <= byte && byte <= end
    });
    let Some((span, mut text)) = help else {
        let first = problems.next()?;
        return Some((first.span, problem(first)));
    };
    for one in problems {
        text.push_str(&format!("\n\n---\n\n{}", problem(one)));
    }
    Some((span, text))
}

/// Returns the code of a diagnostic, and its meaning.
fn problem(one: &fist::diagnostic::Diagnostic) -> String {
    let remedy = one.remedy.as_ref().map_or(String::new(), |remedy| format!("\n\nhelp: {remedy}"));
    format!("**{}**: {}{remedy}", one.code.name(), one.code.meaning())
}

/// Formats a word as it is written, with a one-sentence description.
fn entry(written: &str, summary: &str) -> String {
    format!("```fist\n{written}\n```\n\n{summary}")
}

fn help(document: &Document, index: usize) -> Option<String> {
    let token = &document.tokens[index];
    match &token.kind {
        TokenKind::Variable { name_length, branch } => {
            let name = &document.word(index)[1..=*name_length as usize];
            variable(document.word(index), name, *branch)
        }
        TokenKind::Mark("%") => {
            let next = document.tokens.get(index + 1).filter(|next| next.is_attached)?;
            matches!(next.kind, TokenKind::Name).then(|| help(document, index + 1))?
        }
        TokenKind::Name => name(document, index),
        _ => None,
    }
}

/// Returns the help on a variable: `$dir:1`, `$name`, `$0`.
pub(crate) fn variable(written: &str, name: &str, branch: Option<u32>) -> Option<String> {
    if let (Some((_, _, summary)), None) = (OPERATION_VALUES.iter().find(|(_, known, _)| *known == name), branch) {
        return Some(entry(written, summary));
    }
    let below = |branch: u32| format!("on file system {branch} below");
    if let Some(number) = name.parse::<u32>().ok().filter(|number| *number > 0) {
        return Some(entry(written, &format!("what the operation is done to, {}", below(number))));
    }
    let (_, summary) = words::objects().find(|(known, _)| *known == name)?;
    let place = branch.filter(|branch| *branch > 0).map_or(String::new(), |branch| format!(", {}", below(branch)));
    Some(entry(written, &format!("{summary}{place}")))
}

fn name(document: &Document, index: usize) -> Option<String> {
    let span = document.tokens[index].span;
    let holds = |other: Span| other.start <= span.start && span.end <= other.end;
    let rule = document.tree.rules.iter().find(|rule| holds(rule.span) && span.end <= rule.body.span.start);
    if let Some(rule) = rule {
        return title(document, rule, span);
    }
    let word = document.word(index);
    if let Some(dot) = document.preceding_punctuator(index, &[".", "->"]) {
        return member(document, dot, word);
    }
    if document.preceding_punctuator(index, &["%"]).is_some()
        && let Some((_, name, summary)) = GLOBALS.iter().find(|(_, name, _)| *name == word)
    {
        return Some(entry(&format!("%{name}"), summary));
    }
    if document.section(span.start as usize).0 == Section::Declarations
        && let Some(help) = declaration(document, word, span)
    {
        return Some(help);
    }
    if let Some(symbol) = document.symbol(word, span.start as usize) {
        return Some(entry(&symbol.detail, kind(&symbol.kind)));
    }
    known(word)
}

/// Returns the help on a word of a rule's title.
fn title(document: &Document, rule: &Rule, span: Span) -> Option<String> {
    let find = |table: &[(&str, &str)], name: &str| {
        let (name, summary) = *table.iter().find(|(known, _)| *known == name)?;
        Some(entry(name, summary))
    };
    if span == rule.set.span {
        return find(&words::SETS, &rule.set.value);
    }
    if span == rule.operation.span {
        let name = &rule.operation.value;
        let operation = Operation::by_name(name).map(|operation| entry(name, operation.kind().summary));
        return operation.or_else(|| find(&words::TYPES, name).map(|help| with_operations(help, rule)));
    }
    match &rule.ioctl {
        Some(ioctl) if ioctl.span == span => {
            let symbol =
                document.symbols.iter().find(|one| one.kind == DefinitionKind::Ioctl && one.name == ioctl.value)?;
            Some(entry(&symbol.detail, kind(&symbol.kind)))
        }
        _ => find(&words::PARTS, &rule.part.as_ref()?.value),
    }
}

/// Appends the operations that a rule applies to.
fn with_operations(help: String, rule: &Rule) -> String {
    let all = operations::set(&rule.set.value).zip(operations::of_type(&rule.operation.value));
    let Some((set, of_type)) = all else { return help };
    let names: Vec<_> =
        set.and(of_type).iter().filter(|one| usize::from(one.0) < operations::OPERATIONS.len()).collect();
    let names: Vec<_> = names.into_iter().map(|operation| operation.kind().name).collect();
    format!("{help}: {}", names.join(", "))
}

/// Returns the help on a word of a declaration.
fn declaration(document: &Document, word: &str, span: Span) -> Option<String> {
    if let Some(known) = words::DECLARATIONS.iter().find(|known| known.name == word) {
        return Some(entry(known.usage, known.summary));
    }
    let around =
        document.tree.declarations.iter().find(|one| one.span.start <= span.start && span.end <= one.span.end)?;
    let first = around.span.of(&document.closed).trim_start_matches(['%', ' ', '\t']);
    let declaration = words::DECLARATIONS.iter().find(|known| first.starts_with(known.name))?;
    let (choice, summary) = declaration.choices.iter().find(|(choice, _)| *choice == word)?;
    Some(entry(&format!("{}:{choice}", declaration.name), summary))
}

/// Returns the help on a member after `.`.
fn member(document: &Document, dot: usize, word: &str) -> Option<String> {
    let owner = match dot.checked_sub(1).map(|before| &document.tokens[before].kind) {
        Some(TokenKind::Variable { .. }) => Some(document.word(dot - 1)),
        _ => None,
    };
    let owners: &[&str] = match owner {
        Some("$vfs") => &["per_vfs", "mntdata"],
        Some("$mnt") => &["mntdata"],
        Some(_) => &["per_vnode"],
        None => &[],
    };
    let is_object = owner.is_some() && owners == ["per_vnode"];
    if let (true, Some((_, name, summary))) = (is_object, ATTRIBUTES.iter().find(|(_, name, _)| *name == word)) {
        return Some(entry(name, summary));
    }
    let belongs_to_owner = |field: &DefinitionKind| match field {
        DefinitionKind::Field(owner) => owners.is_empty() || owners.contains(&owner.as_str()),
        _ => false,
    };
    let symbol = document.symbols.iter().find(|symbol| symbol.name == word && belongs_to_owner(&symbol.kind))?;
    Some(entry(&symbol.detail, kind(&symbol.kind)))
}

/// Returns the description of a kind of symbol, in one sentence.
pub(crate) fn kind(kind: &DefinitionKind) -> &'static str {
    match kind {
        DefinitionKind::Constant => "a constant",
        DefinitionKind::Type => "a type",
        DefinitionKind::Data => "data of the description",
        DefinitionKind::Function => "a function of the description",
        DefinitionKind::Variable => "a variable",
        DefinitionKind::Error => "an error of the description",
        DefinitionKind::Ioctl => "a command that programs can give",
        DefinitionKind::Format => "what a file of auxiliary data holds",
        DefinitionKind::Field(owner) => match owner.as_str() {
            "per_vfs" => "a field of the mount's data: `$vfs.`",
            "per_vnode" => "a field of each object's data: `$0.`",
            "mntdata" => "what is given when the file system is mounted: `$mnt.`",
            _ => "a field",
        },
    }
}

/// Returns the help on a built-in word.
fn known(word: &str) -> Option<String> {
    if let Some(signature) = builtins::function(word) {
        return Some(entry(&words::usage(signature), signature.summary));
    }
    if let Some((name, number)) = words::errors().find(|(name, _)| *name == word) {
        return Some(entry(&format!("{name} = {number}"), "an error of Linux"));
    }
    if let Some((name, value)) = words::constants().find(|(name, _)| *name == word) {
        return Some(entry(&format!("{name} = {value}"), "a constant"));
    }
    match word {
        "page_t" => Some(entry(word, "a page: `%pagesize` bytes")),
        "vnode" | "vnode_t" => Some(entry(word, "an object of a file system")),
        _ => None,
    }
}

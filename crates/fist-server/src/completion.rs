//! Completion: proposals for the text at the cursor.

use fist::builtins::{self, ATTRIBUTES, GLOBALS, OPERATION_VALUES};
use fist::operations::OPERATIONS;
use fist::text::Span;
use fist::token::{Token, TokenKind};
use fist::words;
use lsp_types::CompletionItemKind as As;

use crate::document::{Document, Section};
use crate::symbols::{DefinitionKind, Symbol};

/// A proposal.
#[derive(Clone, Debug)]
pub(crate) struct CompletionProposal {
    /// The text to be inserted.
    pub label: String,
    pub kind: As,
    /// A short text beside it.
    pub detail: String,
    /// A one-sentence description.
    pub summary: String,
}

fn proposal(
    label: impl Into<String>,
    kind: As,
    detail: impl Into<String>,
    summary: impl Into<String>,
) -> CompletionProposal {
    CompletionProposal { label: label.into(), kind, detail: detail.into(), summary: summary.into() }
}

/// Returns all proposals at a byte, and the span of the word there that a proposal replaces.
pub(crate) fn proposals_at(document: &Document, byte: usize) -> (Span, Vec<CompletionProposal>) {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let text = &document.text;
    let start = byte - text[..byte].chars().rev().take_while(|character| is_part(*character)).count();
    let end = byte + text[byte..].chars().take_while(|character| is_part(*character)).count();
    let proposals = if document.is_quoted(byte) { Vec::new() } else { at(document, start) };
    (Span::new(start, end), proposals)
}

/// Returns all proposals that can begin at a byte.
fn at(document: &Document, start: usize) -> Vec<CompletionProposal> {
    let before = &document.text[..start];
    let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
    let (section, depth) = document.section(start);
    if let Some(title) = line.trim_start().strip_prefix('%').filter(|_| depth == 0 && section == Section::Rules) {
        return rule(document, title);
    }
    if before.ends_with('$') {
        return variables();
    }
    if before.ends_with('%') {
        return if line.trim() == "%" && depth == 0 { declarations() } else { globals() };
    }
    if before.ends_with('.') || before.ends_with("->") {
        return members(document, start);
    }
    match (section, depth) {
        (Section::Declarations, 0) => choices(document, start).unwrap_or_else(declarations),
        (Section::Declarations, _) => types(document).collect(),
        (Section::Rules, 0) => {
            sets().map(|set| CompletionProposal { label: format!("%{}", set.label), ..set }).collect()
        }
        (Section::Preamble | Section::Code, 0) => types(document).chain(statements()).collect(),
        _ => code(document, start),
    }
}

fn table(table: &'static [(&str, &str)], kind: As) -> impl Iterator<Item = CompletionProposal> {
    table.iter().map(move |(name, summary)| proposal(*name, kind, *summary, ""))
}

fn named<T>(table: &'static [(T, &str, &str)], kind: As) -> impl Iterator<Item = CompletionProposal> {
    table.iter().map(move |(_, name, summary)| proposal(*name, kind, *summary, ""))
}

fn sets() -> impl Iterator<Item = CompletionProposal> {
    table(&words::SETS, As::KEYWORD)
}

/// Returns the proposals for the next keyword of a rule's title, of which `title` has been typed, without `%`.
fn rule(document: &Document, title: &str) -> Vec<CompletionProposal> {
    let written: Vec<&str> = title.split(':').map(str::trim).collect();
    let parts = table(&words::PARTS, As::KEYWORD);
    match written[..] {
        [_] => sets().collect(),
        [_, _] => {
            let operations = OPERATIONS.iter().map(|kind| proposal(kind.name, As::EVENT, kind.summary, ""));
            operations.chain(table(&words::TYPES, As::KEYWORD)).collect()
        }
        [_, "ioctl", _] => of_kind(document, &DefinitionKind::Ioctl).chain(parts).collect(),
        [_, _, _] | [_, "ioctl", _, _] => parts.collect(),
        _ => Vec::new(),
    }
}

fn variables() -> Vec<CompletionProposal> {
    let objects = words::objects().map(|(name, summary)| proposal(name, As::VARIABLE, summary, ""));
    objects.chain(named(OPERATION_VALUES, As::VALUE)).collect()
}

fn globals() -> Vec<CompletionProposal> {
    named(GLOBALS, As::VARIABLE).collect()
}

fn declarations() -> Vec<CompletionProposal> {
    let all = words::DECLARATIONS.iter();
    all.map(|one| proposal(one.name, As::KEYWORD, one.usage, one.summary)).collect()
}

/// Returns the choices that can follow the keyword of a declaration.
fn choices(document: &Document, start: usize) -> Option<Vec<CompletionProposal>> {
    let is_before = |token: &Token| token.kind != TokenKind::End && (token.span.end as usize) <= start;
    let before = document.tokens.partition_point(is_before);
    let mut index = before.checked_sub(1)?;
    if document.tokens[index].kind == TokenKind::Mark(":") {
        index = index.checked_sub(1)?;
    }
    let word = document.word(index);
    let declaration = words::DECLARATIONS.iter().find(|declaration| declaration.name == word)?;
    Some(declaration.choices.iter().map(|(name, summary)| proposal(*name, As::ENUM_MEMBER, *summary, "")).collect())
}

/// Returns the attributes and fields of the expression before the `.`.
fn members(document: &Document, start: usize) -> Vec<CompletionProposal> {
    let dot = document.tokens.partition_point(|token| (token.span.end as usize) < start);
    let before =
        dot.checked_sub(1).filter(|before| matches!(document.tokens[*before].kind, TokenKind::Variable { .. }));
    let fields = |owners: &'static [&'static str]| {
        let belongs_to_owner = move |kind: &DefinitionKind| match kind {
            DefinitionKind::Field(owner) => owners.contains(&owner.as_str()),
            _ => false,
        };
        document.symbols.iter().filter(move |symbol| belongs_to_owner(&symbol.kind)).map(symbol)
    };
    match before.map(|before| document.word(before)) {
        Some("$vfs") => fields(&["per_vfs", "mntdata"]).collect(),
        Some("$mnt") => fields(&["mntdata"]).collect(),
        Some(_) => named(ATTRIBUTES, As::PROPERTY).chain(fields(&["per_vnode"])).collect(),
        None => {
            let is_field = |symbol: &&Symbol| matches!(symbol.kind, DefinitionKind::Field(_));
            document.symbols.iter().filter(is_field).map(symbol).collect()
        }
    }
}

fn of_kind<'a>(document: &'a Document, kind: &'a DefinitionKind) -> impl Iterator<Item = CompletionProposal> {
    document.symbols.iter().filter(move |symbol| symbol.kind == *kind).map(symbol)
}

fn symbol(symbol: &Symbol) -> CompletionProposal {
    let kind = match symbol.kind {
        DefinitionKind::Constant | DefinitionKind::Error => As::CONSTANT,
        DefinitionKind::Type | DefinitionKind::Format => As::STRUCT,
        DefinitionKind::Data | DefinitionKind::Variable => As::VARIABLE,
        DefinitionKind::Function => As::FUNCTION,
        DefinitionKind::Ioctl => As::EVENT,
        DefinitionKind::Field(_) => As::FIELD,
    };
    proposal(&symbol.name, kind, &symbol.detail, crate::hover::kind(&symbol.kind))
}

fn types(document: &Document) -> impl Iterator<Item = CompletionProposal> {
    let own = of_kind(document, &DefinitionKind::Type);
    own.chain(words::types().map(|name| proposal(name, As::STRUCT, "type", "")))
}

fn statements() -> impl Iterator<Item = CompletionProposal> {
    words::STATEMENTS.iter().map(|word| proposal(*word, As::KEYWORD, "", ""))
}

/// Returns all proposals inside a function or a rule.
fn code(document: &Document, start: usize) -> Vec<CompletionProposal> {
    let is_visible = |symbol: &&Symbol| symbol.is_in_scope_at(start) && symbol.kind != DefinitionKind::Type;
    let mut all: Vec<CompletionProposal> = document.symbols.iter().filter(is_visible).map(symbol).collect();
    for signature in builtins::SIGNATURES {
        let usage = words::usage(signature);
        all.extend(signature.names.iter().map(|name| proposal(*name, As::FUNCTION, &usage, signature.summary)));
    }
    all.extend(words::errors().map(|(name, number)| proposal(name, As::CONSTANT, number.to_string(), "")));
    all.extend(words::constants().map(|(name, value)| proposal(name, As::CONSTANT, value.to_string(), "")));
    all.extend(types(document).chain(statements()));
    all.sort_by(|one, other| one.label.cmp(&other.label));
    all.dedup_by(|one, other| one.label == other.label);
    all
}

//! The outline of a document: its declarations, rules, functions and data.

use fist::text::Span;
use fist::tree::{Declaration, DeclarationKind as D, Field, Item, ItemKind as I, Name, Rule, Variable};
use lsp_types::{DocumentSymbol, SymbolKind};

use crate::document::Document;
use crate::positions::Encoding;
use crate::symbols::{declaration_text, field_detail, field_span, single_line};

/// Returns the outline, in the order of the text.
pub(crate) fn of(document: &Document, encoding: Encoding) -> Vec<DocumentSymbol> {
    let outline = Outline { document, encoding };
    let tree = &document.tree;
    let mut all: Vec<DocumentSymbol> = tree.preamble.iter().flat_map(|item| outline.item(item)).collect();
    all.extend(tree.declarations.iter().map(|declaration| outline.declaration(declaration)));
    all.extend(tree.rules.iter().map(|rule| outline.rule(rule)));
    all.extend(tree.code.iter().flat_map(|item| outline.item(item)));
    all
}

struct Outline<'a> {
    document: &'a Document,
    encoding: Encoding,
}

impl Outline<'_> {
    #[allow(deprecated, reason = "the field has to be given a value")]
    fn symbol(&self, name: &str, kind: SymbolKind, detail: Option<String>, whole: Span, at: Span) -> DocumentSymbol {
        let range = |span| self.encoding.range(&self.document.text, &self.document.lines, span);
        DocumentSymbol {
            name: name.to_owned(),
            detail,
            kind,
            tags: None,
            deprecated: None,
            range: range(whole.to(at)),
            selection_range: range(at),
            children: None,
        }
    }

    fn with_fields(&self, symbol: DocumentSymbol, fields: &[Field]) -> DocumentSymbol {
        let text = &self.document.closed;
        let children = fields.iter().map(|field| {
            let detail = Some(field_detail(text, field));
            self.symbol(&field.name.value, SymbolKind::FIELD, detail, field_span(field), field.name.span)
        });
        DocumentSymbol { children: Some(children.collect()), ..symbol }
    }

    fn declaration(&self, declaration: &Declaration) -> DocumentSymbol {
        let (text, whole) = (&self.document.closed, declaration.span);
        let named = |name: &Name, kind| self.symbol(&name.value, kind, None, whole, name.span);
        let plain = |name: &str| self.symbol(name, SymbolKind::STRUCT, None, whole, whole);
        match &declaration.kind {
            D::ErrorCode(name, _) => named(name, SymbolKind::CONSTANT),
            D::FileFormat(name, fields) => self.with_fields(named(name, SymbolKind::STRUCT), fields),
            D::Ioctl(_, name, _, fields) => self.with_fields(named(name, SymbolKind::EVENT), fields),
            D::MountData(fields) => self.with_fields(plain("mntdata"), fields),
            D::MountFlag(name, fields) => self.with_fields(named(name, SymbolKind::STRUCT), fields),
            D::PerVfs(fields) => self.with_fields(plain("per_vfs"), fields),
            D::PerVnode(fields) => self.with_fields(plain("per_vnode"), fields),
            D::AccessMode(_) | D::Debug(_) | D::Operations(_) | D::FanOut(_) | D::MountStyle(_) | D::Filter(_) => {
                let name = single_line(whole.of(text).trim_start_matches('%').trim_end_matches(';'));
                self.symbol(&name, SymbolKind::PROPERTY, None, whole, whole)
            }
        }
    }

    fn rule(&self, rule: &Rule) -> DocumentSymbol {
        let last = rule.part.as_ref().or(rule.ioctl.as_ref()).unwrap_or(&rule.operation);
        let title = Span { start: rule.span.start, end: last.span.end };
        let name: String = title.of(&self.document.closed).split_whitespace().collect();
        self.symbol(&name, SymbolKind::EVENT, None, rule.span, title)
    }

    fn variable(&self, variable: &Variable, whole: Span, kind: SymbolKind) -> Option<DocumentSymbol> {
        let name = variable.name.as_ref()?;
        let detail = declaration_text(&self.document.closed, &variable.r#type, variable.span);
        Some(self.symbol(&name.value, kind, Some(detail), whole, name.span))
    }

    fn item(&self, item: &Item) -> Vec<DocumentSymbol> {
        let whole = item.span;
        let named = |name: &Name, kind| self.symbol(&name.value, kind, None, whole, name.span);
        match &item.kind {
            I::Include(_) => Vec::new(),
            I::Constant(name, _) => vec![named(name, SymbolKind::CONSTANT)],
            I::TypeAlias(variable) => self.variable(variable, whole, SymbolKind::CLASS).into_iter().collect(),
            I::Structure(name, fields) => vec![self.with_fields(named(name, SymbolKind::STRUCT), fields)],
            I::Enumeration(names) => {
                let name = |name: &Name| self.symbol(&name.value, SymbolKind::ENUM_MEMBER, None, name.span, name.span);
                names.iter().map(|(one, _)| name(one)).collect()
            }
            I::Data(variables) => {
                variables.iter().filter_map(|one| self.variable(one, one.span, SymbolKind::VARIABLE)).collect()
            }
            I::Function(function) => vec![named(&function.name, SymbolKind::FUNCTION)],
        }
    }
}

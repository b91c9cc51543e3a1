//! Symbols: the named items of a FiST program, and their scopes.

use fist::text::Span;
use fist::tree::{
    Block, DeclarationKind as D, Description, Field, Item, ItemKind as I, Name, Statement, StatementKind as S,
    TypeName, Variable,
};

/// A named item.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub name: String,
    pub kind: DefinitionKind,
    /// Its declaration, on one line.
    pub detail: String,
    /// The span of its name in the declaration.
    pub span: Span,
    /// Its scope; `None` if it is known everywhere.
    pub scope: Option<Span>,
}

/// The kind of a named item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DefinitionKind {
    Constant,
    Type,
    Data,
    Function,
    /// A variable local to a function or a rule.
    Variable,
    Error,
    Ioctl,
    Format,
    /// A field of the item with this name.
    Field(String),
}

impl Symbol {
    /// Returns whether it is known at a byte.
    pub(crate) fn is_in_scope_at(&self, byte: usize) -> bool {
        let byte = byte as u32;
        self.scope.is_none_or(|scope| self.span.start <= byte && byte <= scope.end)
    }

    /// Returns its rank for name resolution: of two symbols known at a byte, the one with the lower rank is used.
    pub(crate) fn rank(&self) -> (bool, u32, u32) {
        let size = self.scope.map_or(u32::MAX, |scope| scope.end - scope.start);
        (matches!(self.kind, DefinitionKind::Field(_)), size, u32::MAX - self.span.start)
    }
}

/// Returns all symbols of a FiST program.
pub(crate) fn of(text: &str, description: &Description) -> Vec<Symbol> {
    let mut collector = SymbolCollector { text, symbols: Vec::new() };
    collector.items(&description.preamble);
    collector.declarations(description);
    for rule in &description.rules {
        collector.block(&rule.body);
    }
    collector.items(&description.code);
    collector.symbols
}

/// Returns a type with its declarator on one line, without the initial value.
pub(crate) fn declaration_text(text: &str, r#type: &TypeName, span: Span) -> String {
    let declarator = span.of(text).split('=').next().unwrap_or_default();
    single_line(&format!("{} {declarator}", r#type.span.of(text)))
}

/// Returns a text on one line.
pub(crate) fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the span of a field, from its name to its last length.
pub(crate) fn field_span(field: &Field) -> Span {
    field.lengths.last().map_or(field.name.span, |length| field.name.span.to(length.span))
}

/// Returns a field as it is declared.
pub(crate) fn field_detail(text: &str, field: &Field) -> String {
    let lengths: String = field.lengths.iter().map(|length| format!("[{}]", length.span.of(text))).collect();
    single_line(&format!("{} {}{lengths}", field.r#type.span.of(text), field.name.value))
}

struct SymbolCollector<'a> {
    text: &'a str,
    symbols: Vec<Symbol>,
}

impl SymbolCollector<'_> {
    fn add(&mut self, name: &Name, kind: DefinitionKind, detail: String, scope: Option<Span>) {
        self.symbols.push(Symbol { name: name.value.clone(), kind, detail, span: name.span, scope });
    }

    fn fields(&mut self, owner: &str, fields: &[Field]) {
        for field in fields {
            let detail = field_detail(self.text, field);
            self.add(&field.name, DefinitionKind::Field(owner.to_owned()), detail, None);
        }
    }

    fn declarations(&mut self, description: &Description) {
        for declaration in &description.declarations {
            let detail = single_line(declaration.span.of(self.text));
            match &declaration.kind {
                D::ErrorCode(name, _) => self.add(name, DefinitionKind::Error, detail, None),
                D::FileFormat(name, fields) => {
                    self.add(name, DefinitionKind::Format, detail, None);
                    self.fields(&name.value, fields);
                }
                D::Ioctl(_, name, _, fields) => {
                    self.add(name, DefinitionKind::Ioctl, detail, None);
                    self.fields(&name.value, fields);
                }
                D::MountData(fields) | D::MountFlag(_, fields) => self.fields("mntdata", fields),
                D::PerVfs(fields) => self.fields("per_vfs", fields),
                D::PerVnode(fields) => self.fields("per_vnode", fields),
                D::AccessMode(_) | D::Debug(_) | D::Operations(_) | D::FanOut(_) | D::MountStyle(_) | D::Filter(_) => {}
            }
        }
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            let detail = single_line(item.span.of(self.text));
            match &item.kind {
                I::Include(_) => {}
                I::Constant(name, _) => self.add(name, DefinitionKind::Constant, detail, None),
                I::TypeAlias(variable) => {
                    if let Some(name) = &variable.name {
                        self.add(name, DefinitionKind::Type, detail, None);
                    }
                }
                I::Structure(name, fields) => {
                    self.add(name, DefinitionKind::Type, detail, None);
                    self.fields(&name.value, fields);
                }
                I::Enumeration(names) => {
                    for (name, _) in names {
                        self.add(name, DefinitionKind::Constant, detail.clone(), None);
                    }
                }
                I::Data(variables) => variables.iter().for_each(|one| self.variable(one, DefinitionKind::Data, None)),
                I::Function(function) => {
                    let head = match &function.body {
                        Some(body) => Span { start: item.span.start, end: body.span.start },
                        None => item.span,
                    };
                    let detail = single_line(head.of(self.text).trim_end_matches([';', ' ']));
                    self.add(&function.name, DefinitionKind::Function, detail, None);
                    for parameter in &function.parameters {
                        self.variable(parameter, DefinitionKind::Variable, Some(item.span));
                    }
                    function.body.iter().for_each(|body| self.block(body));
                }
            }
        }
    }

    fn variable(&mut self, variable: &Variable, kind: DefinitionKind, scope: Option<Span>) {
        if let Some(name) = &variable.name {
            let detail = declaration_text(self.text, &variable.r#type, variable.span);
            self.add(name, kind, detail, scope);
        }
    }

    fn block(&mut self, block: &Block) {
        self.statements(&block.statements, block.span);
    }

    fn statements(&mut self, statements: &[Statement], scope: Span) {
        statements.iter().for_each(|statement| self.statement(statement, scope));
    }

    fn statement(&mut self, statement: &Statement, scope: Span) {
        match &statement.kind {
            S::Empty | S::Expression(_) | S::Break | S::Continue | S::Return(_) => {}
            S::Declaration(variables) => {
                variables.iter().for_each(|one| self.variable(one, DefinitionKind::Variable, Some(scope)));
            }
            S::Block(block) => self.block(block),
            S::If { then, otherwise, .. } => {
                self.statement(then, scope);
                otherwise.iter().for_each(|otherwise| self.statement(otherwise, scope));
            }
            S::While { body, .. } | S::DoWhile { body, .. } => self.statement(body, scope),
            S::For { first, body, .. } => {
                self.statement(first, statement.span);
                self.statement(body, statement.span);
            }
            S::Switch { body, .. } => {
                body.iter().for_each(|part| self.statements(&part.statements, statement.span));
            }
        }
    }
}

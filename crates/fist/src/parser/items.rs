//! Items of the first and last sections: functions, data, types and constants.

use super::cursor::{ParseResult, Parser, SyntaxErrorReported};
use crate::conditional::directive;
use crate::diagnostic::Code;
use crate::lexer::lex;
use crate::text::{Span, Spanned};
use crate::token::{Token, TokenKind};
use crate::tree::{Expression, Function, Item, ItemKind as I, Name, TypeName, Variable};

impl Parser<'_> {
    /// Parses all items up to the end of the section.
    pub(crate) fn items(&mut self) -> Vec<Item> {
        let mut items = Vec::new();
        while !matches!(self.peek().kind, TokenKind::End | TokenKind::Separator | TokenKind::RawEnd) {
            let start = self.peek().span;
            match self.item() {
                Ok(Some(kind)) => items.push(Item { kind, span: self.span_since(start) }),
                Ok(None) => {}
                Err(SyntaxErrorReported) => {
                    if self.at_sync_point() && !matches!(self.peek().kind, TokenKind::End) && self.peek().span == start
                    {
                        self.next();
                    }
                    self.recover();
                }
            }
        }
        items
    }

    fn item(&mut self) -> ParseResult<Option<I>> {
        if matches!(self.peek().kind, TokenKind::Directive) {
            return self.directive();
        }
        if self.eat(";") {
            return Ok(None);
        }
        if self.eat_word("typedef") {
            return self.alias().map(Some);
        }
        if self.at_word("enum") && matches!(self.peek_at(1).kind, TokenKind::Mark("{")) {
            return self.enumeration().map(Some);
        }
        if self.at_word("struct") && matches!(self.peek_at(2).kind, TokenKind::Mark("{")) {
            self.next();
            let name = self.name("the name of a structure")?;
            let fields = self.fields()?;
            self.expect(";")?;
            return Ok(Some(I::Structure(name, fields)));
        }
        let is_announced = self.eat_word("extern");
        let r#type = self.type_name()?;
        let first = self.variable_or_function(&r#type)?;
        match first {
            VariableOrFunction::Function(function) => Ok(Some(I::Function(function))),
            VariableOrFunction::Variable(first) => {
                let mut variables = vec![first];
                while self.eat(",") {
                    variables.push(self.variable(&r#type, true)?);
                }
                self.expect(";")?;
                Ok((!is_announced).then_some(I::Data(variables)))
            }
        }
    }

    fn variable_or_function(&mut self, r#type: &TypeName) -> ParseResult<VariableOrFunction> {
        let before = self.position;
        let result_pointers = self.pointers()?;
        let name = self.name("the name of a function or of data")?;
        if !self.at("(") {
            self.position = before;
            return self.variable(r#type, true).map(VariableOrFunction::Variable);
        }
        let parameters = self.parameters()?;
        let body = if self.eat(";") { None } else { Some(self.block()?) };
        Ok(VariableOrFunction::Function(Function { result: r#type.clone(), result_pointers, name, parameters, body }))
    }

    fn parameters(&mut self) -> ParseResult<Vec<Variable>> {
        self.expect("(")?;
        let mut parameters = Vec::new();
        if self.at_word("void") && matches!(self.peek_at(1).kind, TokenKind::Mark(")")) {
            self.next();
        }
        while !self.at(")") {
            let r#type = self.type_name()?;
            parameters.push(self.variable(&r#type, false)?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(parameters)
    }

    fn alias(&mut self) -> ParseResult<I> {
        let r#type = self.type_name()?;
        let variable = self.variable(&r#type, true)?;
        self.expect(";")?;
        if let Some(name) = &variable.name {
            self.types.insert(name.value.clone());
        }
        Ok(I::TypeAlias(variable))
    }

    fn enumeration(&mut self) -> ParseResult<I> {
        self.next();
        self.expect("{")?;
        let mut values = Vec::new();
        while !self.at("}") {
            let name = self.name("the name of a constant")?;
            let value = if self.eat("=") { Some(self.assignment()?) } else { None };
            values.push((name, value));
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        self.expect(";")?;
        Ok(I::Enumeration(values))
    }

    /// Parses a preprocessor line: `#include` and constant `#define`s have a meaning. Conditions have been removed
    /// before.
    fn directive(&mut self) -> ParseResult<Option<I>> {
        let span = self.next().span;
        let (word, rest) = directive(span.of(self.text));
        match word {
            "include" => Ok(Some(I::Include(rest.trim().to_owned()))),
            "define" => self.constant(span, rest).map(Some),
            _ => {
                self.error_at(Code::Directive, format!("`#{word}` is not known"), span).remedy = Some(
                    "there are #include, which does nothing, #define of a constant, #ifdef, #ifndef, #else and #endif"
                        .into(),
                );
                // The line has been consumed: the text after it is fine.
                Ok(None)
            }
        }
    }

    /// Parses `#define NAME value`; the value defaults to 1.
    fn constant(&mut self, line: Span, rest: &str) -> ParseResult<I> {
        let offset = rest.as_ptr() as usize - self.text.as_ptr() as usize;
        let mut tokens = lex(rest).tokens;
        for Token { span, .. } in &mut tokens {
            *span = Span::new(span.start as usize + offset, span.end as usize + offset);
        }
        let Some(Token { kind: TokenKind::Name, span, .. }) = tokens.first() else {
            self.error_at(Code::Directive, "#define is followed by a name", line);
            return Err(SyntaxErrorReported);
        };
        let name: Name = Spanned::new(span.of(self.text).to_owned(), *span);
        if tokens[1].is_attached && tokens[1].kind == TokenKind::Mark("(") {
            self.error_at(Code::Directive, "a constant has no parameters", line).remedy =
                Some("write a function".into());
            return Err(SyntaxErrorReported);
        }
        if tokens[1].kind == TokenKind::End {
            let one = crate::tree::ExpressionKind::Integer { value: 1, is_unsigned: false, is_long: false };
            return Ok(I::Constant(name, Expression::new(one, line)));
        }
        let mut inner = Parser {
            text: self.text,
            tokens: &tokens,
            position: 1,
            depth: self.depth,
            types: std::mem::take(&mut self.types),
            diagnostics: std::mem::take(&mut self.diagnostics),
        };
        let value = inner.expression();
        if value.is_ok() && !matches!(inner.peek().kind, TokenKind::End) {
            let found = inner.describe_next();
            inner.expected("the end of the constant", found);
        }
        (self.types, self.diagnostics) = (inner.types, inner.diagnostics);
        Ok(I::Constant(name, value?))
    }
}

enum VariableOrFunction {
    Variable(Variable),
    Function(Function),
}

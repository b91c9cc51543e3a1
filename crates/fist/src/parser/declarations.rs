//! FiST declarations: the properties of the file system and its data.

use super::cursor::{ParseResult, Parser, SyntaxErrorReported};
use crate::diagnostic::Code;
use crate::text::Spanned;
use crate::token::TokenKind;
use crate::tree::{Access, Declaration, DeclarationKind as D, Direction, Filter, Name, Style};

/// The keywords that begin declarations.
pub(crate) const DECLARATION_KEYWORDS: [&str; 13] = [
    "accessmode",
    "debug",
    "errorcode",
    "fanout",
    "fileformat",
    "filter",
    "ioctl",
    "mntdata",
    "mntflag",
    "mntstyle",
    "operations",
    "per_vfs",
    "per_vnode",
];

impl Parser<'_> {
    /// All declarations, up to `%%`.
    pub(crate) fn declarations(&mut self) -> Vec<Declaration> {
        let mut declarations = Vec::new();
        loop {
            match self.peek().kind {
                TokenKind::End | TokenKind::Separator => return declarations,
                TokenKind::Directive => self.directive_outside(),
                _ if self.at_rule() => {
                    self.error(Code::Expected, "`%%` is expected before the first rule").remedy =
                        Some("write `%%` on a line of its own here".into());
                    return declarations;
                }
                _ => match self.declaration() {
                    Ok(declaration) => declarations.push(declaration),
                    Err(SyntaxErrorReported) => {
                        if matches!(self.peek().kind, TokenKind::RawEnd) {
                            self.next();
                        }
                        self.recover();
                    }
                },
            }
        }
    }

    fn directive_outside(&mut self) {
        self.error(Code::Directive, "lines for the preprocessor stand in the first or the last section").remedy =
            Some("put it between `%{` and `%}` at the beginning".into());
        self.next();
    }

    fn declaration(&mut self) -> ParseResult<Declaration> {
        let start = self.peek().span;
        self.eat("%");
        let word = self.name("a declaration")?;
        let kind = match word.value.as_str() {
            "accessmode" => D::AccessMode(self.choice(
                "readonly, writeonly or readwrite",
                &[("readonly", Access::ReadOnly), ("writeonly", Access::WriteOnly), ("readwrite", Access::ReadWrite)],
            )?),
            "debug" => D::Debug(self.choice("on or off", &[("on", true), ("off", false)])?),
            "mntstyle" => D::MountStyle(
                self.choice("regular or overlay", &[("regular", Style::Regular), ("overlay", Style::Overlay)])?,
            ),
            "operations" => D::Operations(self.choice("serial or parallel", &[("serial", true), ("parallel", false)])?),
            "filter" => D::Filter(self.choice(
                "data, name or size",
                &[("data", Filter::Data), ("name", Filter::Name), ("size", Filter::Size)],
            )?),
            "fanout" => {
                self.eat(":");
                D::FanOut(self.integer("how many file systems lie below")?)
            }
            "errorcode" => {
                self.eat(":");
                let name = self.name("the name of an error")?;
                let has_number = matches!(self.peek().kind, TokenKind::Integer { .. });
                D::ErrorCode(name, if has_number { Some(self.integer("a number")?) } else { None })
            }
            "fileformat" => {
                let name = self.named_data("the name of a format")?;
                D::FileFormat(name, self.fields()?)
            }
            "mntflag" => {
                let name = self.named_data("the name of a group")?;
                D::MountFlag(name, self.fields()?)
            }
            "ioctl" => self.ioctl()?,
            "mntdata" => D::MountData(self.data()?),
            "per_vfs" => D::PerVfs(self.data()?),
            "per_vnode" => D::PerVnode(self.data()?),
            unknown => {
                let (what, span) = (format!("there is no declaration `{unknown}`"), word.span);
                self.error_at(Code::UnknownDeclaration, what, span).remedy =
                    Some(format!("the declarations are {}", DECLARATION_KEYWORDS.join(", ")));
                return Err(SyntaxErrorReported);
            }
        };
        // After braces it is optional.
        let is_closed = self.tokens[self.position - 1].kind == TokenKind::Mark("}");
        if !self.eat(";") && !is_closed {
            self.expect(";")?;
        }
        Ok(Declaration { kind, span: self.span_since(start) })
    }

    fn choice<T: Copy>(&mut self, what: &str, choices: &[(&str, T)]) -> ParseResult<Spanned<T>> {
        self.eat(":");
        let word = self.name(what)?;
        match choices.iter().find(|(name, _)| *name == word.value) {
            Some((_, chosen)) => Ok(Spanned::new(*chosen, word.span)),
            None => {
                let label = format!("`{}` stands here", word.value);
                self.error_at(Code::Expected, format!("{what} is expected"), word.span).label = Some(label);
                Err(SyntaxErrorReported)
            }
        }
    }

    fn integer(&mut self, what: &str) -> ParseResult<Spanned<u64>> {
        let token = self.peek();
        let TokenKind::Integer { value, .. } = token.kind else {
            let found = self.describe_next();
            self.expected(what, found);
            return Err(SyntaxErrorReported);
        };
        self.next();
        Ok(Spanned::new(value, token.span))
    }

    fn named_data(&mut self, what: &str) -> ParseResult<Name> {
        self.eat(":");
        self.name(what)
    }

    fn data(&mut self) -> ParseResult<Vec<crate::tree::Field>> {
        self.eat(":");
        self.fields()
    }

    fn ioctl(&mut self) -> ParseResult<D> {
        self.eat(":");
        let directions = [("fromuser", Direction::FromUser), ("touser", Direction::ToUser), ("both", Direction::Both)];
        let given = self.word().and_then(|word| directions.iter().find(|(name, _)| *name == word));
        // An ioctl may have the name of a direction.
        let is_name = matches!(self.peek_at(1).kind, TokenKind::Mark("{") | TokenKind::Integer { .. });
        let is_direction = given.is_some() && !is_name;
        let direction = given.filter(|_| is_direction).map(|(_, direction)| *direction);
        if direction.is_some() {
            self.next();
            self.eat(":");
        }
        let name = self.name("the name of an ioctl")?;
        let has_number = matches!(self.peek().kind, TokenKind::Integer { .. });
        let number = if has_number { Some(self.integer("a number")?) } else { None };
        Ok(D::Ioctl(direction.unwrap_or_default(), name, number, self.fields()?))
    }
}

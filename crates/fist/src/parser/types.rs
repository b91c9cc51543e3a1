//! Types, and variables declared with them.

use std::collections::HashSet;

use super::cursor::{ParseResult, Parser, SyntaxErrorReported};
use crate::diagnostic::Code;
use crate::limits::MAX_TYPE_DEPTH;
use crate::text::Span;
use crate::token::TokenKind;
use crate::tree::{BaseType, Expression, Field, Initializer, TypeName, Variable};

/// Names of integer types, with their size in bytes and whether they are unsigned: those of C and of the system's
/// headers on 64-bit Linux.
pub(crate) const INTEGERS: [(&str, u8, bool); 34] = [
    ("int8_t", 1, false),
    ("uint8_t", 1, true),
    ("int16_t", 2, false),
    ("uint16_t", 2, true),
    ("int32_t", 4, false),
    ("uint32_t", 4, true),
    ("int64_t", 8, false),
    ("uint64_t", 8, true),
    ("u_int8_t", 1, true),
    ("u_int16_t", 2, true),
    ("u_int32_t", 4, true),
    ("u_int64_t", 8, true),
    ("u8", 1, true),
    ("u16", 2, true),
    ("u32", 4, true),
    ("u64", 8, true),
    ("u_char", 1, true),
    ("u_short", 2, true),
    ("u_int", 4, true),
    ("u_long", 8, true),
    ("uchar", 1, true),
    ("ushort", 2, true),
    ("uint", 4, true),
    ("ulong", 8, true),
    ("bool", 4, false),
    ("size_t", 8, true),
    ("ssize_t", 8, false),
    ("off_t", 8, false),
    ("uid_t", 4, true),
    ("gid_t", 4, true),
    ("pid_t", 4, false),
    ("mode_t", 4, true),
    ("time_t", 8, false),
    ("ino_t", 8, true),
];

/// Keywords that form types.
pub(crate) const TYPE_KEYWORDS: [&str; 12] =
    ["void", "char", "short", "int", "long", "signed", "unsigned", "const", "volatile", "struct", "float", "double"];

/// The names of predefined types.
pub(crate) fn predefined_type_names() -> HashSet<String> {
    let names = INTEGERS.iter().map(|(name, ..)| *name).chain(["page_t", "vnode", "vnode_t"]);
    names.map(str::to_owned).collect()
}

impl Parser<'_> {
    /// Returns whether a type begins with the token at this distance after the next.
    pub(crate) fn is_type_ahead(&self, count: usize) -> bool {
        let token = self.peek_at(count);
        let word = token.span.of(self.text);
        matches!(token.kind, TokenKind::Name) && (TYPE_KEYWORDS.contains(&word) || self.types.contains(word))
    }

    pub(crate) fn type_name(&mut self) -> ParseResult<TypeName> {
        let start = self.peek().span;
        let mut is_const = false;
        let mut words: Vec<&str> = Vec::new();
        let mut base = None;
        while let Some(word) = self.word() {
            match word {
                "const" => is_const = true,
                "volatile" | "static" | "inline" | "register" => {}
                "struct" if words.is_empty() && base.is_none() => {
                    self.next();
                    base = Some(BaseType::Structure(self.name("the name of a structure")?.value));
                    continue;
                }
                "float" | "double" => {
                    self.error(Code::NotSupported, format!("`{word}` is no type of a description")).remedy =
                        Some("a file system computes with integers: use `long`".into());
                    return Err(SyntaxErrorReported);
                }
                _ if TYPE_KEYWORDS.contains(&word) && base.is_none() => words.push(word),
                _ if words.is_empty() && base.is_none() && self.types.contains(word) => base = Some(named_type(word)),
                _ => break,
            }
            self.next();
        }
        let base = match base {
            Some(base) => base,
            None if words.is_empty() => {
                let found = self.describe_next();
                self.expected("a type", found);
                return Err(SyntaxErrorReported);
            }
            None => match type_of_keywords(&words) {
                Some(base) => base,
                None => {
                    let (what, span) = (format!("`{}` is no type", words.join(" ")), self.span_since(start));
                    self.error_at(Code::Expected, what, span);
                    return Err(SyntaxErrorReported);
                }
            },
        };
        Ok(TypeName { is_const, base, span: self.span_since(start) })
    }

    pub(crate) fn pointers(&mut self) -> ParseResult<u32> {
        let mut count = 0;
        while self.eat("*") {
            count += 1;
            self.check_type_depth(count)?;
            while self.eat_word("const") || self.eat_word("volatile") {}
        }
        Ok(count)
    }

    /// Checks the number of pointers or arrays in a type.
    fn check_type_depth(&mut self, count: u32) -> ParseResult<()> {
        if count <= MAX_TYPE_DEPTH {
            return Ok(());
        }
        let what = format!("a type is made of more than {MAX_TYPE_DEPTH} pointers and arrays");
        self.error(Code::TooDeep, what).remedy = Some("put a structure in between".into());
        Err(SyntaxErrorReported)
    }

    /// Parses one more length of an array.
    pub(crate) fn length<T>(
        &mut self,
        lengths: &mut Vec<T>,
        read: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<()> {
        let length = read(self)?;
        lengths.push(length);
        self.check_type_depth(lengths.len() as u32)?;
        self.expect("]").map(drop)
    }

    /// Parses the fields of declared data, including the braces.
    pub(crate) fn fields(&mut self) -> ParseResult<Vec<Field>> {
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.at("}") && !self.at_sync_point() {
            if self.field(&mut fields).is_err() {
                self.recover_in_block();
            }
        }
        self.expect("}")?;
        Ok(fields)
    }

    /// Parses one type and the names declared with it.
    fn field(&mut self, fields: &mut Vec<Field>) -> ParseResult<()> {
        let r#type = self.type_name()?;
        loop {
            if self.at("*") {
                self.error(Code::NotSupported, "declared data holds no pointers (FiST, section 2.2)").remedy =
                    Some("write an array, as `char key[16]`".into());
                return Err(SyntaxErrorReported);
            }
            let name = self.name("the name of a field")?;
            let mut lengths = Vec::new();
            while self.eat("[") {
                self.length(&mut lengths, Self::assignment)?;
            }
            fields.push(Field { r#type: r#type.clone(), name, lengths });
            if !self.eat(",") {
                break;
            }
        }
        self.expect(";").map(drop)
    }

    /// Parses the rest of a declarator after a type: pointers, a name, arrays and an initializer.
    pub(crate) fn variable(&mut self, r#type: &TypeName, needs_name: bool) -> ParseResult<Variable> {
        let start = self.peek().span;
        let pointers = self.pointers()?;
        let name = match self.word() {
            None if !needs_name => None,
            _ => Some(self.name("the name of a variable")?),
        };
        let lengths = self.lengths()?;
        let value = if self.eat("=") { Some(self.initializer()?) } else { None };
        Ok(Variable { r#type: r#type.clone(), pointers, name, lengths, value, span: self.span_since(start) })
    }

    fn lengths(&mut self) -> ParseResult<Vec<Option<Expression>>> {
        let mut lengths = Vec::new();
        while self.eat("[") {
            let read = |parser: &mut Self| if parser.at("]") { Ok(None) } else { parser.assignment().map(Some) };
            self.length(&mut lengths, read)?;
        }
        Ok(lengths)
    }

    fn initializer(&mut self) -> ParseResult<Initializer> {
        if !self.at("{") {
            return Ok(Initializer::Value(self.assignment()?));
        }
        self.nested(|parser| {
            let start: Span = parser.next().span;
            let mut values = Vec::new();
            while !parser.at("}") {
                values.push(parser.initializer()?);
                if !parser.eat(",") {
                    break;
                }
            }
            parser.expect("}")?;
            Ok(Initializer::List(values, parser.span_since(start)))
        })
    }
}

fn named_type(word: &str) -> BaseType {
    match INTEGERS.iter().find(|(name, ..)| *name == word) {
        Some((_, bytes, is_unsigned)) => BaseType::Integer { bytes: *bytes, is_unsigned: *is_unsigned },
        None if word == "vnode" || word == "vnode_t" => BaseType::Vnode,
        None => BaseType::Named(word.to_owned()),
    }
}

/// The type denoted by C keywords, in any order.
fn type_of_keywords(words: &[&str]) -> Option<BaseType> {
    let count = |word: &str| words.iter().filter(|other| **other == word).count();
    let is_unsigned = count("unsigned") == 1;
    if count("void") == 1 {
        return (words.len() == 1).then_some(BaseType::Void);
    }
    let bytes = match (count("char"), count("short"), count("long"), count("int")) {
        (1, 0, 0, 0) => 1,
        (0, 1, 0, 0 | 1) => 2,
        (0, 0, 1 | 2, 0 | 1) => 8,
        (0, 0, 0, 0 | 1) => 4,
        _ => return None,
    };
    let is_once = count("unsigned") + count("signed") <= 1;
    is_once.then_some(BaseType::Integer { bytes, is_unsigned })
}

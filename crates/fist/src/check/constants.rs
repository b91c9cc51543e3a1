//! Constants: the names that every description has, and expressions whose value is known when it is checked.

use std::collections::HashMap;

use super::expressions::converted;
use super::{Checker, Symbol, Understood, Wrong};
use crate::diagnostic::Code;
use crate::ir::{self, Comparison, Constant, Definition, Expression as Made, Integer, Operator, Type};
use crate::text::Span;
use crate::tree::{BinaryOperator as B, Expression, ExpressionKind as E, UnaryOperator as U};

/// Error numbers of Linux.
pub(crate) const ERRORS: [(&str, i32); 52] = [
    ("EPERM", libc::EPERM),
    ("ENOENT", libc::ENOENT),
    ("ESRCH", libc::ESRCH),
    ("EINTR", libc::EINTR),
    ("EIO", libc::EIO),
    ("ENXIO", libc::ENXIO),
    ("E2BIG", libc::E2BIG),
    ("EBADF", libc::EBADF),
    ("EAGAIN", libc::EAGAIN),
    ("EWOULDBLOCK", libc::EWOULDBLOCK),
    ("ENOMEM", libc::ENOMEM),
    ("EACCES", libc::EACCES),
    ("EFAULT", libc::EFAULT),
    ("EBUSY", libc::EBUSY),
    ("EEXIST", libc::EEXIST),
    ("EXDEV", libc::EXDEV),
    ("ENODEV", libc::ENODEV),
    ("ENOTDIR", libc::ENOTDIR),
    ("EISDIR", libc::EISDIR),
    ("EINVAL", libc::EINVAL),
    ("ENFILE", libc::ENFILE),
    ("EMFILE", libc::EMFILE),
    ("ENOTTY", libc::ENOTTY),
    ("ETXTBSY", libc::ETXTBSY),
    ("EFBIG", libc::EFBIG),
    ("ENOSPC", libc::ENOSPC),
    ("ESPIPE", libc::ESPIPE),
    ("EROFS", libc::EROFS),
    ("EMLINK", libc::EMLINK),
    ("EPIPE", libc::EPIPE),
    ("EDOM", libc::EDOM),
    ("ERANGE", libc::ERANGE),
    ("EDEADLK", libc::EDEADLK),
    ("ENAMETOOLONG", libc::ENAMETOOLONG),
    ("ENOLCK", libc::ENOLCK),
    ("ENOSYS", libc::ENOSYS),
    ("ENOTEMPTY", libc::ENOTEMPTY),
    ("ELOOP", libc::ELOOP),
    ("ENODATA", libc::ENODATA),
    ("ETIME", libc::ETIME),
    ("EPROTO", libc::EPROTO),
    ("EBADMSG", libc::EBADMSG),
    ("EOVERFLOW", libc::EOVERFLOW),
    ("EILSEQ", libc::EILSEQ),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("ENOTSUP", libc::ENOTSUP),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("ESTALE", libc::ESTALE),
    ("EDQUOT", libc::EDQUOT),
    ("ENOKEY", libc::ENOKEY),
    ("EKEYREJECTED", libc::EKEYREJECTED),
    ("ECANCELED", libc::ECANCELED),
];

/// Kinds of objects, permission bits and ways to open, of Linux.
pub(crate) const FLAGS: [(&str, i64); 31] = [
    ("S_IFMT", libc::S_IFMT as i64),
    ("S_IFREG", libc::S_IFREG as i64),
    ("S_IFDIR", libc::S_IFDIR as i64),
    ("S_IFLNK", libc::S_IFLNK as i64),
    ("S_IFBLK", libc::S_IFBLK as i64),
    ("S_IFCHR", libc::S_IFCHR as i64),
    ("S_IFIFO", libc::S_IFIFO as i64),
    ("S_IFSOCK", libc::S_IFSOCK as i64),
    ("S_ISUID", libc::S_ISUID as i64),
    ("S_ISGID", libc::S_ISGID as i64),
    ("S_ISVTX", libc::S_ISVTX as i64),
    ("S_IRUSR", libc::S_IRUSR as i64),
    ("S_IWUSR", libc::S_IWUSR as i64),
    ("S_IXUSR", libc::S_IXUSR as i64),
    ("S_IRGRP", libc::S_IRGRP as i64),
    ("S_IWGRP", libc::S_IWGRP as i64),
    ("S_IXGRP", libc::S_IXGRP as i64),
    ("S_IROTH", libc::S_IROTH as i64),
    ("S_IWOTH", libc::S_IWOTH as i64),
    ("S_IXOTH", libc::S_IXOTH as i64),
    ("O_RDONLY", libc::O_RDONLY as i64),
    ("O_WRONLY", libc::O_WRONLY as i64),
    ("O_RDWR", libc::O_RDWR as i64),
    ("O_ACCMODE", libc::O_ACCMODE as i64),
    ("O_APPEND", libc::O_APPEND as i64),
    ("O_TRUNC", libc::O_TRUNC as i64),
    ("O_CREAT", libc::O_CREAT as i64),
    ("O_EXCL", libc::O_EXCL as i64),
    ("FALLOC_FL_KEEP_SIZE", libc::FALLOC_FL_KEEP_SIZE as i64),
    ("FALLOC_FL_PUNCH_HOLE", libc::FALLOC_FL_PUNCH_HOLE as i64),
    ("FALLOC_FL_INSERT_RANGE", libc::FALLOC_FL_INSERT_RANGE as i64),
];

/// What built-in functions take, and limits: the same everywhere.
pub(crate) const NUMBERS: [(&str, i64); 7] = [
    ("NODUPS", 1),
    ("NOREPLACE", crate::calls::NO_REPLACE),
    ("BF_ENCRYPT", 1),
    ("BF_DECRYPT", 0),
    ("NAME_MAX", 255),
    ("PATH_MAX", 4096),
    ("NULL", 0),
];

/// The names that every description has.
pub(super) fn known() -> HashMap<String, (Symbol, Span)> {
    let errors = ERRORS.iter().map(|(name, _)| (*name, Constant::Error(name)));
    let flags = FLAGS.iter().map(|(name, _)| (*name, Constant::Flag(name)));
    let numbers = NUMBERS.iter().map(|(name, value)| (*name, Constant::Integer(*value)));
    let all = errors.chain(flags).chain(numbers);
    all.map(|(name, value)| (name.to_owned(), (Symbol::Constant(value, Integer::INT), Span::default()))).collect()
}

/// What an operator of the text is, if it computes.
pub(super) fn computing(operator: B) -> Option<Operator> {
    Some(match operator {
        B::Add => Operator::Add,
        B::Subtract => Operator::Subtract,
        B::Multiply => Operator::Multiply,
        B::Divide => Operator::Divide,
        B::Remainder => Operator::Remainder,
        B::ShiftLeft => Operator::ShiftLeft,
        B::ShiftRight => Operator::ShiftRight,
        B::BitAnd => Operator::And,
        B::BitOr => Operator::Or,
        B::BitXor => Operator::Xor,
        _ => return None,
    })
}

/// What an operator of the text is, if it compares.
pub(super) fn comparing(operator: B) -> Option<Comparison> {
    Some(match operator {
        B::Equal => Comparison::Equal,
        B::NotEqual => Comparison::NotEqual,
        B::Less => Comparison::Less,
        B::LessOrEqual => Comparison::LessOrEqual,
        B::Greater => Comparison::Greater,
        B::GreaterOrEqual => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// The type of an integer that is written out (C, "integer constants").
pub(super) fn type_of(value: u64, is_unsigned: bool, is_long: bool) -> Integer {
    let fits = |most: u64| value <= most;
    match (is_unsigned, is_long) {
        (false, false) if fits(i32::MAX as u64) => Integer::INT,
        (true, false) if fits(u32::MAX.into()) => Integer::UNSIGNED,
        (false, _) if fits(i64::MAX as u64) => Integer::LONG,
        _ => Integer::UNSIGNED_LONG,
    }
}

impl Checker {
    /// An expression that is made of constants, and its type.
    pub(super) fn constant(&mut self, expression: &Expression) -> Understood<(Made, Integer)> {
        let (made, r#type) = match &expression.kind {
            E::Integer { value, is_unsigned, is_long } => {
                let r#type = type_of(*value, *is_unsigned, *is_long);
                (Made::integer(r#type.wrap(*value as i64)), r#type)
            }
            E::Character(byte) => (Made::integer((*byte as i8).into()), Integer::INT),
            E::Name(name) => match self.symbols.get(name) {
                Some((Symbol::Constant(constant, r#type), _)) => (Made::Constant(*constant), *r#type),
                _ => return self.not_constant(expression),
            },
            E::Unary(U::AddressOf | U::Dereference, _) => return self.not_constant(expression),
            E::Unary(U::Not, of) => (Made::Not(Box::new(self.constant(of)?.0)), Integer::INT),
            E::Unary(operator, of) => {
                let (value, from) = self.constant(of)?;
                signed(*operator, value, from, expression.span)
            }
            E::Binary(operator, one, other) => self.constant_binary(expression, *operator, one, other)?,
            E::Conditional(condition, then, otherwise) => {
                let (condition, _) = self.constant(condition)?;
                let (then, otherwise) = (self.constant(then)?, self.constant(otherwise)?);
                let r#type = then.1.with(otherwise.1);
                let (then, otherwise) =
                    (converted(then.0, then.1, r#type), converted(otherwise.0, otherwise.1, r#type));
                (Made::Conditional(Box::new(condition), Box::new(then), Box::new(otherwise)), r#type)
            }
            E::SizeOfType { of, pointers, lengths } => {
                let mut known = Vec::new();
                for length in lengths {
                    known.push(self.length(length)?);
                }
                let base = self.base_type(of, *pointers)?;
                (size(self.array(base, &known, expression.span)?), Integer::UNSIGNED_LONG)
            }
            E::Cast { to, pointers: 0, value } => {
                let (value, from) = self.constant(value)?;
                match self.base_type(to, 0)? {
                    Type::Integer(r#type) => (converted(value, from, r#type), r#type),
                    _ => return self.not_constant(expression),
                }
            }
            E::Wrong => return Err(Wrong),
            _ => return self.not_constant(expression),
        };
        Ok((self.simplified(made), r#type))
    }

    /// An expression that is the same everywhere, as the number that it is.
    fn simplified(&self, made: Made) -> Made {
        let mut differs = false;
        ir::each(&made, &mut |one| match one {
            Made::Constant(Constant::Integer(_)) => {}
            Made::Constant(_) | Made::Size(_) => differs = true,
            _ => {}
        });
        match self.known(&made) {
            Some(value) if !differs => Made::integer(value),
            _ => made,
        }
    }

    /// The constant that an expression made of constants is; the name is for one that is new.
    pub(super) fn constant_of(&mut self, name: &str, made: Made) -> Constant {
        if let Made::Constant(constant) = made {
            return constant;
        }
        self.layout.define(self.known(&made).unwrap_or(0));
        self.program.constants.push(Definition { name: name.to_owned(), value: made });
        Constant::Defined(self.program.constants.len() - 1)
    }

    fn constant_binary(
        &mut self,
        whole: &Expression,
        operator: B,
        one: &Expression,
        other: &Expression,
    ) -> Understood<(Made, Integer)> {
        let (one, one_type) = self.constant(one)?;
        let (other, other_type) = self.constant(other)?;
        let r#type = one_type.with(other_type);
        let is_shift = matches!(operator, B::ShiftLeft | B::ShiftRight);
        let (one, other) = match operator {
            B::And => return Ok((Made::And(Box::new(one), Box::new(other)), Integer::INT)),
            B::Or => return Ok((Made::Or(Box::new(one), Box::new(other)), Integer::INT)),
            _ => (Box::new(converted(one, one_type, r#type)), Box::new(converted(other, other_type, r#type))),
        };
        if let Some(comparison) = comparing(operator) {
            return Ok((Made::Compare(comparison, r#type, one, other), Integer::INT));
        }
        let r#type = if is_shift { one_type.promoted() } else { r#type };
        let divides = matches!(operator, B::Divide | B::Remainder);
        match computing(operator).filter(|_| !divides || self.known(&other) != Some(0)) {
            Some(operator) => Ok((Made::Binary(operator, r#type, one, other, whole.span), r#type)),
            None => {
                self.wrong(Code::BadConstant, "this divides by zero", whole.span);
                Err(Wrong)
            }
        }
    }

    fn not_constant<T>(&mut self, expression: &Expression) -> Understood<T> {
        self.wrong(Code::BadConstant, "this is not known when the description is checked", expression.span).remedy =
            Some("write a number, or a name that #define or enum has given one".into());
        Err(Wrong)
    }
}

/// Bytes of a value of a type: 0 for one of nothing.
pub(super) fn size(r#type: Type) -> Made {
    if r#type == Type::Void { Made::integer(0) } else { Made::Size(r#type) }
}

/// `+`, `-` and `~` of a value.
pub(super) fn signed(operator: U, value: Made, from: Integer, span: Span) -> (Made, Integer) {
    let to = from.promoted();
    let value = converted(value, from, to);
    let made = match (operator, &value) {
        (U::Plus, _) => value,
        (U::Negate, Made::Constant(Constant::Integer(value))) => Made::integer(to.wrap(value.wrapping_neg())),
        (U::Negate, _) => Made::Binary(Operator::Subtract, to, Box::new(Made::integer(0)), Box::new(value), span),
        _ => Made::Binary(Operator::Xor, to, Box::new(value), Box::new(Made::integer(to.wrap(-1))), span),
    };
    (made, to)
}

//! Constants: the names that every description has, and expressions whose value is known when it is checked.

use std::collections::HashMap;

use super::{Checker, Symbol, Understood, Wrong};
use crate::arithmetic::{compare, compute};
use crate::diagnostic::Code;
use crate::ir::{Comparison, Integer, Operator};
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

/// Kinds of objects, permission bits, ways to open, and what built-in functions take.
pub(crate) const NUMBERS: [(&str, i64); 38] = [
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
    let errors = ERRORS.iter().map(|(name, number)| (*name, i64::from(*number)));
    let all = errors.chain(NUMBERS);
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
    /// The value of an expression that has to be known now.
    pub(super) fn constant(&mut self, expression: &Expression) -> Understood<i64> {
        self.constant_typed(expression).map(|(value, _)| value)
    }

    /// The same, with its type.
    pub(super) fn constant_typed(&mut self, expression: &Expression) -> Understood<(i64, Integer)> {
        match &expression.kind {
            E::Integer { value, is_unsigned, is_long } => {
                let r#type = type_of(*value, *is_unsigned, *is_long);
                Ok((r#type.wrap(*value as i64), r#type))
            }
            E::Character(byte) => Ok(((*byte as i8).into(), Integer::INT)),
            E::Name(name) => match self.symbols.get(name) {
                Some((Symbol::Constant(value, r#type), _)) => Ok((*value, *r#type)),
                _ => self.not_constant(expression),
            },
            E::Unary(operator, of) => {
                let (value, of) = self.constant_typed(of)?;
                let r#type = of.promoted();
                let value = match operator {
                    U::Plus => value,
                    U::Negate => value.wrapping_neg(),
                    U::Complement => !value,
                    U::Not => return Ok(((value == 0).into(), Integer::INT)),
                    U::AddressOf | U::Dereference => return self.not_constant(expression),
                };
                Ok((r#type.wrap(value), r#type))
            }
            E::Binary(operator, one, other) => self.constant_binary(expression, *operator, one, other),
            E::Conditional(condition, then, otherwise) => {
                let holds = self.constant(condition)? != 0;
                let (then, otherwise) = (self.constant_typed(then)?, self.constant_typed(otherwise)?);
                let r#type = then.1.with(otherwise.1);
                Ok((r#type.wrap(if holds { then.0 } else { otherwise.0 }), r#type))
            }
            E::SizeOfType { of, pointers, lengths } => {
                let mut known = Vec::new();
                for length in lengths {
                    known.push(self.length(length)?);
                }
                let base = self.base_type(of, *pointers)?;
                let r#type = self.array(base, &known, expression.span)?;
                Ok((self.size(&r#type).unwrap_or(0) as i64, Integer::UNSIGNED_LONG))
            }
            E::Cast { to, pointers: 0, value } => {
                let (value, _) = self.constant_typed(value)?;
                match self.base_type(to, 0)? {
                    crate::program::Type::Integer(r#type) => Ok((r#type.wrap(value), r#type)),
                    _ => self.not_constant(expression),
                }
            }
            E::Wrong => Err(Wrong),
            _ => self.not_constant(expression),
        }
    }

    fn constant_binary(
        &mut self,
        whole: &Expression,
        operator: B,
        one: &Expression,
        other: &Expression,
    ) -> Understood<(i64, Integer)> {
        let (one, one_type) = self.constant_typed(one)?;
        let (other, other_type) = self.constant_typed(other)?;
        let r#type = one_type.with(other_type);
        let (one, other) = (r#type.wrap(one), r#type.wrap(other));
        if let Some(comparison) = comparing(operator) {
            return Ok((compare(comparison, r#type, one, other).into(), Integer::INT));
        }
        match operator {
            B::And => return Ok(((one != 0 && other != 0).into(), Integer::INT)),
            B::Or => return Ok(((one != 0 || other != 0).into(), Integer::INT)),
            _ => {}
        }
        let r#type = if matches!(operator, B::ShiftLeft | B::ShiftRight) { one_type.promoted() } else { r#type };
        match computing(operator).and_then(|operator| compute(operator, r#type, one, other)) {
            Some(value) => Ok((value, r#type)),
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

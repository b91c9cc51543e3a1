//! Integer types, their conversions and operators.

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Integer {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// It has no negative values.
    pub is_unsigned: bool,
}

impl Integer {
    /// `char`.
    pub const CHAR: Integer = Integer { bytes: 1, is_unsigned: false };
    /// `unsigned char`.
    pub const BYTE: Integer = Integer { bytes: 1, is_unsigned: true };
    /// `int`.
    pub const INT: Integer = Integer { bytes: 4, is_unsigned: false };
    /// `unsigned`.
    pub const UNSIGNED: Integer = Integer { bytes: 4, is_unsigned: true };
    /// `long`.
    pub const LONG: Integer = Integer { bytes: 8, is_unsigned: false };
    /// `unsigned long`; the representation of a pointer in memory.
    pub const UNSIGNED_LONG: Integer = Integer { bytes: 8, is_unsigned: true };

    /// The name of the type in the language.
    pub const fn name(self) -> &'static str {
        match (self.bytes, self.is_unsigned) {
            (1, false) => "char",
            (1, true) => "unsigned char",
            (2, false) => "short",
            (2, true) => "unsigned short",
            (4, false) => "int",
            (4, true) => "unsigned int",
            (_, false) => "long",
            (_, true) => "unsigned long",
        }
    }

    /// Truncates a value to this type, then sign- or zero-extends it.
    pub const fn wrap(self, value: i64) -> i64 {
        match (self.bytes, self.is_unsigned) {
            (1, false) => value as i8 as i64,
            (1, true) => value as u8 as i64,
            (2, false) => value as i16 as i64,
            (2, true) => value as u16 as i64,
            (4, false) => value as i32 as i64,
            (4, true) => value as u32 as i64,
            _ => value,
        }
    }

    /// The type after integer promotion in C: at least an `int`.
    pub const fn promoted(self) -> Integer {
        if self.bytes < 4 { Integer::INT } else { self }
    }

    /// The common type of two operands (C, "usual arithmetic conversions").
    pub const fn with(self, other: Integer) -> Integer {
        let (one, other) = (self.promoted(), other.promoted());
        if one.bytes > other.bytes || (one.bytes == other.bytes && one.is_unsigned) { one } else { other }
    }

    /// Parses a value, decimal or hexadecimal with `0x`; the error is a phrase that says what is expected.
    ///
    /// # Errors
    /// For a text that is no value of this type.
    pub fn read(self, text: &str) -> Result<i64, String> {
        let bits = u32::from(self.bytes) * 8;
        let (least, most) =
            if self.is_unsigned { (0, (1 << bits) - 1) } else { (-(1 << (bits - 1)), (1_i128 << (bits - 1)) - 1) };
        let (digits, radix) = match text.strip_prefix("0x") {
            Some(digits) => (digits, 16),
            None => (text, 10),
        };
        match i128::from_str_radix(digits, radix) {
            Ok(value) if (least..=most).contains(&value) => Ok(value as i64),
            _ => Err(format!("a number from {least} to {most}")),
        }
    }

    /// Returns whether this type can represent every value of the other.
    pub const fn holds(self, other: Integer) -> bool {
        match (self.is_unsigned, other.is_unsigned) {
            (true, false) => false,
            (false, true) => self.bytes > other.bytes,
            _ => self.bytes >= other.bytes,
        }
    }
}

/// Operators on integers. Results wrap around; a division by zero traps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

//! Typed values.

use crate::ir::{Expression as Made, Integer, Type};

/// A value and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) made: Made,
    pub(crate) r#type: Type,
}

impl Typed {
    pub(crate) fn integer(made: Made, integer: Integer) -> Typed {
        Typed { made, r#type: Type::Integer(integer) }
    }

    /// Returns whether it is a null pointer constant, as written in C.
    pub(crate) fn is_null(&self) -> bool {
        self.made == Made::integer(0) && matches!(self.r#type, Type::Integer(_))
    }
}

/// The type of strings: a pointer to `char`.
pub(crate) fn string(is_const: bool) -> Type {
    Type::Pointer { to: Box::new(Type::Integer(Integer::CHAR)), is_const }
}

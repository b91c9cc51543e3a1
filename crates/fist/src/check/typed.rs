//! Typed values.

use crate::ir::{Expression as IrExpression, Integer, Type};

/// A value and its type.
#[derive(Clone, Debug)]
pub(crate) struct TypedExpression {
    pub(crate) lowered: IrExpression,
    pub(crate) r#type: Type,
}

impl TypedExpression {
    pub(crate) fn integer(lowered: IrExpression, integer: Integer) -> TypedExpression {
        TypedExpression { lowered, r#type: Type::Integer(integer) }
    }

    /// Returns whether it is a null pointer constant, as written in C.
    pub(crate) fn is_null(&self) -> bool {
        self.lowered == IrExpression::integer(0) && matches!(self.r#type, Type::Integer(_))
    }
}

/// The type of strings: a pointer to `char`.
pub(crate) fn string(is_const: bool) -> Type {
    Type::Pointer { to: Box::new(Type::Integer(Integer::CHAR)), is_const }
}

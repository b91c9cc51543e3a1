//! Expressions: lowering and type checking.

use std::rc::Rc;

use super::checker::{CheckResult, Checker, ErrorReported, Symbol};
use super::operators::{arithmetic_operator, comparison_operator, convert_integer, size, type_of, unary_arithmetic};
use super::typed::{TypedExpression, string};
use crate::diagnostic::Code;
use crate::ir::{Comparison, Constant, Expression as IrExpression, Integer, Operator, Site, Type};
use crate::limits::SUGGESTION_LIMITS;
use crate::text::Span;
use crate::tree::{BinaryOperator as B, Expression, ExpressionKind as E, UnaryOperator as U};

use super::lvalues::Lvalue;
use super::scope::Local;

fn boxed(lowered: IrExpression) -> Box<IrExpression> {
    Box::new(lowered)
}

impl Checker {
    /// Lowers an expression to a value; an array decays to a pointer to its first element.
    pub(crate) fn value(&mut self, expression: &Expression) -> CheckResult<TypedExpression> {
        let span = expression.span;
        self.count_visit(span)?;
        match &expression.kind {
            E::Invalid => Err(ErrorReported),
            E::Integer { value, is_unsigned, is_long } => {
                let integer = type_of(*value, *is_unsigned, *is_long);
                Ok(TypedExpression::integer(IrExpression::integer(integer.wrap(*value as i64)), integer))
            }
            E::Character(byte) => {
                Ok(TypedExpression::integer(IrExpression::integer((*byte as i8).into()), Integer::INT))
            }
            E::Text(text) => Ok(TypedExpression {
                lowered: IrExpression::Data(self.text(text.clone(), span)?),
                r#type: string(false),
            }),
            E::Global(name) => self.global(name, span),
            E::Argument { name, branch } => self.argument_value(name, *branch, span),
            E::Name(name) if self.is_constant(name) => {
                let (lowered, integer) = self.constant(expression)?;
                Ok(TypedExpression::integer(lowered, integer))
            }
            E::Member { of, name, .. } if self.is_object_attribute(expression) => self.attribute(of, name, span),
            E::Name(_) | E::Index(..) | E::Member { .. } | E::Unary(U::Dereference, _) => {
                let lvalue = self.lvalue(expression)?;
                self.load(lvalue, span)
            }
            E::Unary(operator, of) => self.unary(*operator, of, span),
            E::Binary(operator, one, other) => self.binary(*operator, one, other, span),
            E::Assign(operator, target, value) => self.assign(*operator, target, value, span),
            E::Step { target, is_increment, is_postfix } => self.step(target, *is_increment, *is_postfix, span),
            E::Conditional(condition, then, otherwise) => self.conditional(condition, then, otherwise, span),
            E::Call { function, arguments } => self.call(function, arguments, span),
            E::Cast { to, pointers, value } => {
                let to = self.base_type(to, *pointers)?;
                let value = self.value(value)?;
                self.cast(value, to, span)
            }
            E::SizeOfType { .. } => {
                let (lowered, integer) = self.constant(expression)?;
                Ok(TypedExpression::integer(lowered, integer))
            }
            E::SizeOfValue(of) => self.size_of(of),
            E::Sequence(one, other) => {
                let one = self.effect(one)?;
                let other = self.value(other)?;
                Ok(TypedExpression {
                    lowered: IrExpression::Sequence(boxed(one), boxed(other.lowered)),
                    r#type: other.r#type,
                })
            }
        }
    }

    /// Lowers an expression evaluated for its side effects: it may have no value.
    pub(crate) fn effect(&mut self, expression: &Expression) -> CheckResult<IrExpression> {
        Ok(self.value(expression)?.lowered)
    }

    fn is_constant(&self, name: &str) -> bool {
        self.function.local(name).is_none() && matches!(self.symbols.get(name), Some((Symbol::Constant(..), _)))
    }

    /// Lowers an expression of integer type.
    pub(crate) fn integer(&mut self, expression: &Expression) -> CheckResult<(IrExpression, Integer)> {
        let value = self.value(expression)?;
        self.as_integer(value, expression.span)
    }

    pub(crate) fn as_integer(&mut self, value: TypedExpression, span: Span) -> CheckResult<(IrExpression, Integer)> {
        match value.r#type {
            Type::Integer(integer) => Ok((value.lowered, integer)),
            other => {
                let what = format!("an integer is expected, and this is `{}`", self.describe(&other));
                self.error(Code::BadType, what, span);
                Err(ErrorReported)
            }
        }
    }

    /// Lowers an expression of integer type, converted to the given type.
    pub(crate) fn integer_as(&mut self, expression: &Expression, to: Integer) -> CheckResult<IrExpression> {
        let (lowered, from) = self.integer(expression)?;
        Ok(convert_integer(lowered, from, to))
    }

    /// Lowers a condition of any type except one without a value: it holds unless it is 0.
    pub(crate) fn condition(&mut self, expression: &Expression) -> CheckResult<IrExpression> {
        let value = self.value(expression)?;
        match value.r#type {
            Type::Integer(_) | Type::Pointer { .. } | Type::Vnode => Ok(value.lowered),
            other => {
                let what = format!("this is `{}`, by which nothing can be decided", self.describe(&other));
                self.error(Code::BadType, what, expression.span);
                Err(ErrorReported)
            }
        }
    }

    /// The integer that represents a type in memory and in registers.
    pub(crate) fn integer_of(&self, r#type: &Type) -> Option<Integer> {
        match r#type {
            Type::Integer(integer) => Some(*integer),
            Type::Pointer { .. } => Some(Integer::UNSIGNED_LONG),
            _ => None,
        }
    }

    /// Converts a value implicitly to another type.
    pub(crate) fn convert(&mut self, value: TypedExpression, to: &Type, span: Span) -> CheckResult<IrExpression> {
        let is_null = value.is_null();
        match (&value.r#type, to) {
            (Type::Integer(from), Type::Integer(to)) => Ok(convert_integer(value.lowered, *from, *to)),
            (_, Type::Pointer { .. } | Type::Vnode) if is_null => Ok(value.lowered),
            (Type::Vnode, Type::Vnode) => Ok(value.lowered),
            (Type::Pointer { to: from, is_const }, Type::Pointer { to, is_const: may_be_const }) => {
                if !self.are_pointers_compatible(from, to) {
                    return self.no_conversion(
                        &value.r#type,
                        &Type::Pointer { to: to.clone(), is_const: *may_be_const },
                        span,
                    );
                }
                if *is_const && !may_be_const {
                    self.error(Code::BadType, "what this points to is not written to", span).remedy =
                        Some("declare the pointer that it becomes `const` too".into());
                    return Err(ErrorReported);
                }
                Ok(value.lowered)
            }
            (from, to) => self.no_conversion(from, to, span),
        }
    }

    fn no_conversion<T>(&mut self, from: &Type, to: &Type, span: Span) -> CheckResult<T> {
        let what = format!("`{}` is expected, and this is `{}`", self.describe(to), self.describe(from));
        self.error(Code::BadType, what, span);
        Err(ErrorReported)
    }

    /// Returns whether a pointer to one type converts implicitly to a pointer to the other.
    fn are_pointers_compatible(&self, one: &Type, other: &Type) -> bool {
        match (one, other) {
            (Type::Void, _) | (_, Type::Void) => true,
            (Type::Integer(one), Type::Integer(other)) => one.bytes == other.bytes,
            (Type::Array(one, _), Type::Array(other, _)) => self.are_pointers_compatible(one, other),
            (Type::Array(one, _), other) => self.are_pointers_compatible(one, other),
            (Type::Pointer { to: one, .. }, Type::Pointer { to: other, .. }) => {
                self.are_pointers_compatible(one, other)
            }
            (one, other) => one == other,
        }
    }

    fn cast(&mut self, value: TypedExpression, to: Type, span: Span) -> CheckResult<TypedExpression> {
        let lowered = match (&value.r#type, &to) {
            (Type::Integer(from), Type::Integer(to)) => convert_integer(value.lowered, *from, *to),
            (Type::Pointer { .. }, Type::Pointer { .. }) => value.lowered,
            (_, Type::Void) => value.lowered,
            _ if value.is_null() => self.convert(value, &to, span)?,
            (from, to) => {
                let what = format!("`{}` cannot be made `{}`", self.describe(from), self.describe(to));
                self.error(Code::BadType, what, span).remedy =
                    Some("pointers are made of other pointers, and integers of integers".into());
                return Err(ErrorReported);
            }
        };
        Ok(TypedExpression { lowered, r#type: to })
    }

    fn size_of(&mut self, of: &Expression) -> CheckResult<TypedExpression> {
        // An array does not decay here.
        let r#type = match &of.kind {
            E::Text(text) => {
                Type::Array(Box::new(Type::Integer(Integer::CHAR)), Constant::Integer(text.len() as i64 + 1))
            }
            E::Name(_) | E::Index(..) | E::Member { .. } | E::Unary(U::Dereference, _)
                if !self.is_object_attribute(of) && !matches!(&of.kind, E::Name(name) if self.is_constant(name)) =>
            {
                self.lvalue(of)?.r#type().clone()
            }
            _ => self.value(of)?.r#type,
        };
        Ok(TypedExpression::integer(size(r#type), Integer::UNSIGNED_LONG))
    }

    fn unary(&mut self, operator: U, of: &Expression, span: Span) -> CheckResult<TypedExpression> {
        match operator {
            U::AddressOf => {
                let lvalue = self.lvalue(of)?;
                self.address(lvalue, span)
            }
            U::Not => Ok(TypedExpression::integer(IrExpression::Not(boxed(self.condition(of)?)), Integer::INT)),
            U::Plus | U::Negate | U::Complement | U::Dereference => {
                let (lowered, from) = self.integer(of)?;
                let (lowered, to) = unary_arithmetic(operator, lowered, from, span);
                Ok(TypedExpression::integer(lowered, to))
            }
        }
    }

    fn binary(
        &mut self,
        operator: B,
        one: &Expression,
        other: &Expression,
        span: Span,
    ) -> CheckResult<TypedExpression> {
        match operator {
            B::And | B::Or => {
                let (one, other) = (self.condition(one)?, self.condition(other)?);
                let both = (boxed(one), boxed(other));
                let lowered = if operator == B::And {
                    IrExpression::And(both.0, both.1)
                } else {
                    IrExpression::Or(both.0, both.1)
                };
                return Ok(TypedExpression::integer(lowered, Integer::INT));
            }
            _ => {}
        }
        let spans = (one.span, other.span);
        let (one, other) = (self.value(one), self.value(other));
        let (one, other) = (one?, other?);
        self.combine(operator, one, other, spans, span)
    }

    /// Applies an arithmetic or comparison operator to two values.
    pub(crate) fn combine(
        &mut self,
        operator: B,
        one: TypedExpression,
        other: TypedExpression,
        spans: (Span, Span),
        span: Span,
    ) -> CheckResult<TypedExpression> {
        if let Some(comparison) = comparison_operator(operator) {
            return self.compare(comparison, one, other, spans);
        }
        match (operator, &one.r#type, &other.r#type) {
            (B::Add | B::Subtract, Type::Pointer { .. }, Type::Integer(_)) => {
                self.offset(one, other, operator == B::Subtract, span)
            }
            (B::Add, Type::Integer(_), Type::Pointer { .. }) => self.offset(other, one, false, span),
            (B::Subtract, Type::Pointer { to, .. }, Type::Pointer { to: also, .. })
                if self.are_pointers_compatible(to, also) =>
            {
                let of = (**to).clone();
                let lowered = IrExpression::Distance(boxed(one.lowered), boxed(other.lowered), of, span);
                Ok(TypedExpression::integer(lowered, Integer::LONG))
            }
            _ => {
                let (one, one_type) = self.as_integer(one, spans.0)?;
                let (other, other_type) = self.as_integer(other, spans.1)?;
                let Some(arithmetic_operator) = arithmetic_operator(operator) else { return Err(ErrorReported) };
                Ok(self.compute(arithmetic_operator, (one, one_type), (other, other_type), span))
            }
        }
    }

    /// Applies an arithmetic operator to two integers.
    pub(crate) fn compute(
        &mut self,
        operator: Operator,
        (one, one_type): (IrExpression, Integer),
        (other, other_type): (IrExpression, Integer),
        span: Span,
    ) -> TypedExpression {
        let is_shift = matches!(operator, Operator::ShiftLeft | Operator::ShiftRight);
        let integer = if is_shift { one_type.promoted() } else { one_type.with(other_type) };
        let one = convert_integer(one, one_type, integer);
        let other = if is_shift { other } else { convert_integer(other, other_type, integer) };
        if let (IrExpression::Constant(Constant::Integer(one)), IrExpression::Constant(Constant::Integer(other))) =
            (&one, &other)
            && let Some(value) = crate::arithmetic::compute(operator, integer, *one, *other)
        {
            return TypedExpression::integer(IrExpression::integer(value), integer);
        }
        if matches!(operator, Operator::Divide | Operator::Remainder) && self.constant_value(&other) == Some(0) {
            self.error(Code::BadConstant, "this divides by zero", span);
        }
        TypedExpression::integer(IrExpression::Binary(operator, integer, boxed(one), boxed(other), span), integer)
    }

    fn offset(
        &mut self,
        pointer: TypedExpression,
        count: TypedExpression,
        is_back: bool,
        span: Span,
    ) -> CheckResult<TypedExpression> {
        let Type::Pointer { to, .. } = &pointer.r#type else { return Err(ErrorReported) };
        let of = (**to).clone();
        let (count, from) = self.as_integer(count, span)?;
        let mut index = convert_integer(count, from, Integer::LONG);
        if is_back {
            let nothing = IrExpression::integer(0);
            index = IrExpression::Binary(Operator::Subtract, Integer::LONG, boxed(nothing), boxed(index), span);
        }
        let lowered =
            IrExpression::Element { pointer: boxed(pointer.lowered), index: boxed(index), of, length: None, span };
        Ok(TypedExpression { lowered, r#type: pointer.r#type })
    }

    fn compare(
        &mut self,
        how: Comparison,
        one: TypedExpression,
        other: TypedExpression,
        spans: (Span, Span),
    ) -> CheckResult<TypedExpression> {
        let is_other = |r#type: &Type| matches!(r#type, Type::Pointer { .. } | Type::Vnode);
        let lowered = if is_other(&one.r#type) || is_other(&other.r#type) {
            if !one.is_null() && !other.is_null() {
                let alike = match (&one.r#type, &other.r#type) {
                    (Type::Pointer { to, .. }, Type::Pointer { to: also, .. }) => {
                        self.are_pointers_compatible(to, also)
                    }
                    (one, other) => one == other,
                };
                if !alike {
                    return self.no_conversion(&other.r#type, &one.r#type, spans.1);
                }
            }
            IrExpression::Compare(how, Integer::UNSIGNED_LONG, boxed(one.lowered), boxed(other.lowered))
        } else {
            let (one, one_type) = self.as_integer(one, spans.0)?;
            let (other, other_type) = self.as_integer(other, spans.1)?;
            let both = one_type.with(other_type);
            IrExpression::Compare(
                how,
                both,
                boxed(convert_integer(one, one_type, both)),
                boxed(convert_integer(other, other_type, both)),
            )
        };
        Ok(TypedExpression::integer(lowered, Integer::INT))
    }

    fn conditional(
        &mut self,
        condition: &Expression,
        then: &Expression,
        otherwise: &Expression,
        span: Span,
    ) -> CheckResult<TypedExpression> {
        let condition = self.condition(condition);
        let (then_value, otherwise_value) = (self.value(then), self.value(otherwise));
        let (condition, one, other) = (condition?, then_value?, otherwise_value?);
        let (one, other, r#type) = match (&one.r#type, &other.r#type) {
            (Type::Integer(one_type), Type::Integer(other_type)) => {
                let both = one_type.with(*other_type);
                let lowered =
                    (convert_integer(one.lowered, *one_type, both), convert_integer(other.lowered, *other_type, both));
                (lowered.0, lowered.1, Type::Integer(both))
            }
            (Type::Void, Type::Void) => (one.lowered, other.lowered, Type::Void),
            (_, Type::Pointer { .. } | Type::Vnode) if one.is_null() => (one.lowered, other.lowered, other.r#type),
            _ => {
                let r#type = one.r#type.clone();
                (one.lowered, self.convert(other, &r#type, span)?, r#type)
            }
        };
        Ok(TypedExpression { lowered: IrExpression::Conditional(boxed(condition), boxed(one), boxed(other)), r#type })
    }

    fn call(
        &mut self,
        function: &crate::tree::Name,
        arguments: &[Expression],
        span: Span,
    ) -> CheckResult<TypedExpression> {
        if let Some(signature) = crate::builtins::function(&function.value) {
            return self.call_built_in(signature, arguments, span);
        }
        let Some((Symbol::Function(index), _)) = self.symbols.get(&function.value) else {
            let what = format!("there is no function `{}`", function.value);
            let near = self.similar_function(&function.value);
            let diagnostic = self.error(Code::UnknownName, what, function.span);
            diagnostic.remedy = near.map(|near| format!("perhaps `{near}` is meant"));
            return Err(ErrorReported);
        };
        let index = *index;
        let signature = Rc::clone(&self.signatures[index]);
        if signature.parameters.len() != arguments.len() {
            let (needs, given) = (signature.parameters.len(), arguments.len());
            let what = format!("`{}` is given {given} values, and takes {needs}", function.value);
            self.error(Code::BadCall, what, span).and(signature.span, "it is declared here");
            return Err(ErrorReported);
        }
        if let Some(missing) = arguments.iter().find(|argument| super::operands::is_omitted(argument)) {
            let what = format!("an argument of `{}` is left out", function.value);
            self.error(Code::BadCall, what, missing.span).and(signature.span, "it is declared here");
            return Err(ErrorReported);
        }
        let mut values = Vec::new();
        for (argument, parameter) in arguments.iter().zip(&signature.parameters) {
            let value = self.value(argument)?;
            values.push(self.convert(value, parameter, argument.span)?);
        }
        Ok(TypedExpression { lowered: IrExpression::Call(index, values, span), r#type: signature.result.clone() })
    }

    /// A function with a similar name.
    fn similar_function(&self, name: &str) -> Option<String> {
        let own = self.program.functions.iter().map(|function| function.name.as_str());
        let built_in = crate::builtins::SIGNATURES.iter().flat_map(|signature| signature.names.iter().copied());
        self.suggest(name, own.chain(built_in))
    }

    /// The most similar name for a diagnostic that is shown, if the search is short.
    pub(crate) fn suggest<'a>(&self, name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
        if self.diagnostics.len() > SUGGESTION_LIMITS.0 {
            return None;
        }
        nearest_name(name, names)
    }

    /// Lowers an intrinsic or host call.
    pub(crate) fn external_call(&mut self, site: Site, values: Vec<IrExpression>, span: Span) -> IrExpression {
        let (all, next) = (&mut self.program.sites, self.sites.len());
        let index = *self.sites.entry(site).or_insert_with_key(|site| {
            all.push(site.clone());
            next
        });
        IrExpression::Site(index, values, span)
    }

    /// Resolves a name in an expression to a variable or data.
    pub(crate) fn named_lvalue(&mut self, name: &str, span: Span) -> CheckResult<Lvalue> {
        match self.function.local(name) {
            Some(Local::Register(register, r#type)) => return Ok(Lvalue::Register(*register, r#type.clone())),
            Some(Local::Object(object, r#type)) => {
                return Ok(Lvalue::Memory {
                    pointer: IrExpression::Object(*object),
                    r#type: r#type.clone(),
                    is_const: false,
                });
            }
            None => {}
        }
        match self.symbols.get(name) {
            Some((Symbol::Data(index), _)) => Ok(self.data_lvalue(*index)),
            Some((Symbol::Function(_), _)) => {
                self.error(Code::NotSupported, format!("`{name}` is a function"), span).remedy =
                    Some("functions can be called, and not be pointed to".into());
                Err(ErrorReported)
            }
            Some((Symbol::Constant(..), _)) => {
                self.error(Code::BadType, format!("`{name}` is a number, and not a variable"), span);
                Err(ErrorReported)
            }
            None => {
                let near = self.suggest(name, self.function.names().chain(self.symbols.keys().map(String::as_str)));
                let diagnostic = self.error(Code::UnknownName, format!("there is no `{name}` here"), span);
                diagnostic.remedy = near.map(|near| format!("perhaps `{near}` is meant"));
                Err(ErrorReported)
            }
        }
    }
}

/// The name with the smallest edit distance, if that is small.
pub(crate) fn nearest_name<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let (_, bytes, count) = SUGGESTION_LIMITS;
    if name.len() > bytes {
        return None;
    }
    let near = names
        .filter(|other| other.len() <= bytes)
        .take(count)
        .map(|other| (strsim::damerau_levenshtein(name, other), other));
    let (distance, near) = near.min_by_key(|(distance, _)| *distance)?;
    (distance <= name.len().div_ceil(4)).then(|| near.to_owned())
}

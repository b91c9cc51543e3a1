//! Expressions: lowering and type checking.

use std::rc::Rc;

use super::checker::{Checker, Symbol, Understood, Wrong};
use super::operators::{comparing, computing, converted, signed, size, type_of};
use super::typed::{Typed, string};
use crate::diagnostic::Code;
use crate::ir::{Comparison, Constant, Expression as Made, Integer, Operator, Site, Type};
use crate::limits::PROPOSED_MAX;
use crate::text::Span;
use crate::tree::{BinaryOperator as B, Expression, ExpressionKind as E, UnaryOperator as U};

use super::places::Place;
use super::scope::Local;

fn boxed(made: Made) -> Box<Made> {
    Box::new(made)
}

impl Checker {
    /// Lowers an expression to a value; an array decays to a pointer to its first element.
    pub(crate) fn value(&mut self, expression: &Expression) -> Understood<Typed> {
        let span = expression.span;
        self.looks_at(span)?;
        match &expression.kind {
            E::Wrong => Err(Wrong),
            E::Integer { value, is_unsigned, is_long } => {
                let integer = type_of(*value, *is_unsigned, *is_long);
                Ok(Typed::integer(Made::integer(integer.wrap(*value as i64)), integer))
            }
            E::Character(byte) => Ok(Typed::integer(Made::integer((*byte as i8).into()), Integer::INT)),
            E::Text(text) => Ok(Typed { made: Made::Data(self.text(text.clone(), span)?), r#type: string(false) }),
            E::Global(name) => self.global(name, span),
            E::Argument { name, branch } => self.argument_value(name, *branch, span),
            E::Name(name) if self.is_constant(name) => {
                let (made, integer) = self.constant(expression)?;
                Ok(Typed::integer(made, integer))
            }
            E::Member { of, name, .. } if self.is_object_attribute(expression) => self.attribute(of, name, span),
            E::Name(_) | E::Index(..) | E::Member { .. } | E::Unary(U::Dereference, _) => {
                let place = self.place(expression)?;
                self.load(place, span)
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
                let (made, integer) = self.constant(expression)?;
                Ok(Typed::integer(made, integer))
            }
            E::SizeOfValue(of) => self.size_of(of),
            E::Sequence(one, other) => {
                let one = self.effect(one)?;
                let other = self.value(other)?;
                Ok(Typed { made: Made::Sequence(boxed(one), boxed(other.made)), r#type: other.r#type })
            }
        }
    }

    /// Lowers an expression evaluated for its side effects: it may have no value.
    pub(crate) fn effect(&mut self, expression: &Expression) -> Understood<Made> {
        Ok(self.value(expression)?.made)
    }

    fn is_constant(&self, name: &str) -> bool {
        self.function.local(name).is_none() && matches!(self.symbols.get(name), Some((Symbol::Constant(..), _)))
    }

    /// Lowers an expression of integer type.
    pub(crate) fn integer(&mut self, expression: &Expression) -> Understood<(Made, Integer)> {
        let value = self.value(expression)?;
        self.as_integer(value, expression.span)
    }

    pub(crate) fn as_integer(&mut self, value: Typed, span: Span) -> Understood<(Made, Integer)> {
        match value.r#type {
            Type::Integer(integer) => Ok((value.made, integer)),
            other => {
                let what = format!("an integer is expected, and this is `{}`", self.describe(&other));
                self.wrong(Code::BadType, what, span);
                Err(Wrong)
            }
        }
    }

    /// Lowers an expression of integer type, converted to the given type.
    pub(crate) fn integer_as(&mut self, expression: &Expression, to: Integer) -> Understood<Made> {
        let (made, from) = self.integer(expression)?;
        Ok(converted(made, from, to))
    }

    /// Lowers a condition of any type except one without a value: it holds unless it is 0.
    pub(crate) fn condition(&mut self, expression: &Expression) -> Understood<Made> {
        let value = self.value(expression)?;
        match value.r#type {
            Type::Integer(_) | Type::Pointer { .. } | Type::Vnode => Ok(value.made),
            other => {
                let what = format!("this is `{}`, by which nothing can be decided", self.describe(&other));
                self.wrong(Code::BadType, what, expression.span);
                Err(Wrong)
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
    pub(crate) fn convert(&mut self, value: Typed, to: &Type, span: Span) -> Understood<Made> {
        let is_null = value.is_null();
        match (&value.r#type, to) {
            (Type::Integer(from), Type::Integer(to)) => Ok(converted(value.made, *from, *to)),
            (_, Type::Pointer { .. } | Type::Vnode) if is_null => Ok(value.made),
            (Type::Vnode, Type::Vnode) => Ok(value.made),
            (Type::Pointer { to: from, is_const }, Type::Pointer { to, is_const: may_be_const }) => {
                if !self.points_alike(from, to) {
                    return self.no_conversion(
                        &value.r#type,
                        &Type::Pointer { to: to.clone(), is_const: *may_be_const },
                        span,
                    );
                }
                if *is_const && !may_be_const {
                    self.wrong(Code::BadType, "what this points to is not written to", span).remedy =
                        Some("declare the pointer that it becomes `const` too".into());
                    return Err(Wrong);
                }
                Ok(value.made)
            }
            (from, to) => self.no_conversion(from, to, span),
        }
    }

    fn no_conversion<T>(&mut self, from: &Type, to: &Type, span: Span) -> Understood<T> {
        let what = format!("`{}` is expected, and this is `{}`", self.describe(to), self.describe(from));
        self.wrong(Code::BadType, what, span);
        Err(Wrong)
    }

    /// Returns whether a pointer to one type converts implicitly to a pointer to the other.
    fn points_alike(&self, one: &Type, other: &Type) -> bool {
        match (one, other) {
            (Type::Void, _) | (_, Type::Void) => true,
            (Type::Integer(one), Type::Integer(other)) => one.bytes == other.bytes,
            (Type::Array(one, _), Type::Array(other, _)) => self.points_alike(one, other),
            (Type::Array(one, _), other) => self.points_alike(one, other),
            (Type::Pointer { to: one, .. }, Type::Pointer { to: other, .. }) => self.points_alike(one, other),
            (one, other) => one == other,
        }
    }

    fn cast(&mut self, value: Typed, to: Type, span: Span) -> Understood<Typed> {
        let made = match (&value.r#type, &to) {
            (Type::Integer(from), Type::Integer(to)) => converted(value.made, *from, *to),
            (Type::Pointer { .. }, Type::Pointer { .. }) => value.made,
            (_, Type::Void) => value.made,
            _ if value.is_null() => self.convert(value, &to, span)?,
            (from, to) => {
                let what = format!("`{}` cannot be made `{}`", self.describe(from), self.describe(to));
                self.wrong(Code::BadType, what, span).remedy =
                    Some("pointers are made of other pointers, and integers of integers".into());
                return Err(Wrong);
            }
        };
        Ok(Typed { made, r#type: to })
    }

    fn size_of(&mut self, of: &Expression) -> Understood<Typed> {
        // An array does not decay here.
        let r#type = match &of.kind {
            E::Text(text) => {
                Type::Array(Box::new(Type::Integer(Integer::CHAR)), Constant::Integer(text.len() as i64 + 1))
            }
            E::Name(_) | E::Index(..) | E::Member { .. } | E::Unary(U::Dereference, _)
                if !self.is_object_attribute(of) && !matches!(&of.kind, E::Name(name) if self.is_constant(name)) =>
            {
                self.place(of)?.r#type().clone()
            }
            _ => self.value(of)?.r#type,
        };
        Ok(Typed::integer(size(r#type), Integer::UNSIGNED_LONG))
    }

    fn unary(&mut self, operator: U, of: &Expression, span: Span) -> Understood<Typed> {
        match operator {
            U::AddressOf => {
                let place = self.place(of)?;
                self.address(place, span)
            }
            U::Not => Ok(Typed::integer(Made::Not(boxed(self.condition(of)?)), Integer::INT)),
            U::Plus | U::Negate | U::Complement | U::Dereference => {
                let (made, from) = self.integer(of)?;
                let (made, to) = signed(operator, made, from, span);
                Ok(Typed::integer(made, to))
            }
        }
    }

    fn binary(&mut self, operator: B, one: &Expression, other: &Expression, span: Span) -> Understood<Typed> {
        match operator {
            B::And | B::Or => {
                let (one, other) = (self.condition(one)?, self.condition(other)?);
                let both = (boxed(one), boxed(other));
                let made = if operator == B::And { Made::And(both.0, both.1) } else { Made::Or(both.0, both.1) };
                return Ok(Typed::integer(made, Integer::INT));
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
        one: Typed,
        other: Typed,
        spans: (Span, Span),
        span: Span,
    ) -> Understood<Typed> {
        if let Some(comparison) = comparing(operator) {
            return self.compare(comparison, one, other, spans);
        }
        match (operator, &one.r#type, &other.r#type) {
            (B::Add | B::Subtract, Type::Pointer { .. }, Type::Integer(_)) => {
                self.offset(one, other, operator == B::Subtract, span)
            }
            (B::Add, Type::Integer(_), Type::Pointer { .. }) => self.offset(other, one, false, span),
            (B::Subtract, Type::Pointer { to, .. }, Type::Pointer { to: also, .. }) if self.points_alike(to, also) => {
                let of = (**to).clone();
                let made = Made::Distance(boxed(one.made), boxed(other.made), of, span);
                Ok(Typed::integer(made, Integer::LONG))
            }
            _ => {
                let (one, one_type) = self.as_integer(one, spans.0)?;
                let (other, other_type) = self.as_integer(other, spans.1)?;
                let Some(computing) = computing(operator) else { return Err(Wrong) };
                Ok(self.compute(computing, (one, one_type), (other, other_type), span))
            }
        }
    }

    /// Applies an arithmetic operator to two integers.
    pub(crate) fn compute(
        &mut self,
        operator: Operator,
        (one, one_type): (Made, Integer),
        (other, other_type): (Made, Integer),
        span: Span,
    ) -> Typed {
        let is_shift = matches!(operator, Operator::ShiftLeft | Operator::ShiftRight);
        let integer = if is_shift { one_type.promoted() } else { one_type.with(other_type) };
        let one = converted(one, one_type, integer);
        let other = if is_shift { other } else { converted(other, other_type, integer) };
        if let (Made::Constant(Constant::Integer(one)), Made::Constant(Constant::Integer(other))) = (&one, &other)
            && let Some(value) = crate::arithmetic::compute(operator, integer, *one, *other)
        {
            return Typed::integer(Made::integer(value), integer);
        }
        if matches!(operator, Operator::Divide | Operator::Remainder) && self.known(&other) == Some(0) {
            self.wrong(Code::BadConstant, "this divides by zero", span);
        }
        Typed::integer(Made::Binary(operator, integer, boxed(one), boxed(other), span), integer)
    }

    fn offset(&mut self, pointer: Typed, count: Typed, is_back: bool, span: Span) -> Understood<Typed> {
        let Type::Pointer { to, .. } = &pointer.r#type else { return Err(Wrong) };
        let of = (**to).clone();
        let (count, from) = self.as_integer(count, span)?;
        let mut index = converted(count, from, Integer::LONG);
        if is_back {
            let nothing = Made::integer(0);
            index = Made::Binary(Operator::Subtract, Integer::LONG, boxed(nothing), boxed(index), span);
        }
        let made = Made::Element { pointer: boxed(pointer.made), index: boxed(index), of, length: None, span };
        Ok(Typed { made, r#type: pointer.r#type })
    }

    fn compare(&mut self, how: Comparison, one: Typed, other: Typed, spans: (Span, Span)) -> Understood<Typed> {
        let is_other = |r#type: &Type| matches!(r#type, Type::Pointer { .. } | Type::Vnode);
        let made = if is_other(&one.r#type) || is_other(&other.r#type) {
            if !one.is_null() && !other.is_null() {
                let alike = match (&one.r#type, &other.r#type) {
                    (Type::Pointer { to, .. }, Type::Pointer { to: also, .. }) => self.points_alike(to, also),
                    (one, other) => one == other,
                };
                if !alike {
                    return self.no_conversion(&other.r#type, &one.r#type, spans.1);
                }
            }
            Made::Compare(how, Integer::UNSIGNED_LONG, boxed(one.made), boxed(other.made))
        } else {
            let (one, one_type) = self.as_integer(one, spans.0)?;
            let (other, other_type) = self.as_integer(other, spans.1)?;
            let both = one_type.with(other_type);
            Made::Compare(how, both, boxed(converted(one, one_type, both)), boxed(converted(other, other_type, both)))
        };
        Ok(Typed::integer(made, Integer::INT))
    }

    fn conditional(
        &mut self,
        condition: &Expression,
        then: &Expression,
        otherwise: &Expression,
        span: Span,
    ) -> Understood<Typed> {
        let condition = self.condition(condition);
        let (then_value, otherwise_value) = (self.value(then), self.value(otherwise));
        let (condition, one, other) = (condition?, then_value?, otherwise_value?);
        let (one, other, r#type) = match (&one.r#type, &other.r#type) {
            (Type::Integer(one_type), Type::Integer(other_type)) => {
                let both = one_type.with(*other_type);
                let made = (converted(one.made, *one_type, both), converted(other.made, *other_type, both));
                (made.0, made.1, Type::Integer(both))
            }
            (Type::Void, Type::Void) => (one.made, other.made, Type::Void),
            (_, Type::Pointer { .. } | Type::Vnode) if one.is_null() => (one.made, other.made, other.r#type),
            _ => {
                let r#type = one.r#type.clone();
                (one.made, self.convert(other, &r#type, span)?, r#type)
            }
        };
        Ok(Typed { made: Made::Conditional(boxed(condition), boxed(one), boxed(other)), r#type })
    }

    fn call(&mut self, function: &crate::tree::Name, arguments: &[Expression], span: Span) -> Understood<Typed> {
        if let Some(signature) = crate::builtins::function(&function.value) {
            return self.built_in(signature, arguments, span);
        }
        let Some((Symbol::Function(index), _)) = self.symbols.get(&function.value) else {
            let what = format!("there is no function `{}`", function.value);
            let near = self.near_function(&function.value);
            let diagnostic = self.wrong(Code::UnknownName, what, function.span);
            diagnostic.remedy = near.map(|near| format!("perhaps `{near}` is meant"));
            return Err(Wrong);
        };
        let index = *index;
        let signature = Rc::clone(&self.signatures[index]);
        if signature.parameters.len() != arguments.len() {
            let (needs, given) = (signature.parameters.len(), arguments.len());
            let what = format!("`{}` is given {given} values, and takes {needs}", function.value);
            self.wrong(Code::BadCall, what, span).and(signature.span, "it is declared here");
            return Err(Wrong);
        }
        if let Some(missing) = arguments.iter().find(|argument| super::operands::is_left_out(argument)) {
            let what = format!("an argument of `{}` is left out", function.value);
            self.wrong(Code::BadCall, what, missing.span).and(signature.span, "it is declared here");
            return Err(Wrong);
        }
        let mut values = Vec::new();
        for (argument, parameter) in arguments.iter().zip(&signature.parameters) {
            let value = self.value(argument)?;
            values.push(self.convert(value, parameter, argument.span)?);
        }
        Ok(Typed { made: Made::Call(index, values, span), r#type: signature.result.clone() })
    }

    /// A function with a similar name.
    fn near_function(&self, name: &str) -> Option<String> {
        let own = self.program.functions.iter().map(|function| function.name.as_str());
        let built_in = crate::builtins::SIGNATURES.iter().flat_map(|signature| signature.names.iter().copied());
        self.proposed(name, own.chain(built_in))
    }

    /// The most similar name for a diagnostic that is shown, if the search is short.
    pub(crate) fn proposed<'a>(&self, name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
        if self.diagnostics.len() > PROPOSED_MAX.0 {
            return None;
        }
        nearest(name, names)
    }

    /// Lowers an intrinsic or host call.
    pub(crate) fn site(&mut self, site: Site, values: Vec<Made>, span: Span) -> Made {
        let (all, next) = (&mut self.program.sites, self.sites.len());
        let index = *self.sites.entry(site).or_insert_with_key(|site| {
            all.push(site.clone());
            next
        });
        Made::Site(index, values, span)
    }

    /// Resolves a name in an expression to a variable or data.
    pub(crate) fn named_place(&mut self, name: &str, span: Span) -> Understood<Place> {
        match self.function.local(name) {
            Some(Local::Register(register, r#type)) => return Ok(Place::Register(*register, r#type.clone())),
            Some(Local::Object(object, r#type)) => {
                return Ok(Place::Memory { pointer: Made::Object(*object), r#type: r#type.clone(), is_const: false });
            }
            None => {}
        }
        match self.symbols.get(name) {
            Some((Symbol::Data(index), _)) => Ok(self.data_place(*index)),
            Some((Symbol::Function(_), _)) => {
                self.wrong(Code::NotSupported, format!("`{name}` is a function"), span).remedy =
                    Some("functions can be called, and not be pointed to".into());
                Err(Wrong)
            }
            Some((Symbol::Constant(..), _)) => {
                self.wrong(Code::BadType, format!("`{name}` is a number, and not a variable"), span);
                Err(Wrong)
            }
            None => {
                let near = self.proposed(name, self.function.names().chain(self.symbols.keys().map(String::as_str)));
                let diagnostic = self.wrong(Code::UnknownName, format!("there is no `{name}` here"), span);
                diagnostic.remedy = near.map(|near| format!("perhaps `{near}` is meant"));
                Err(Wrong)
            }
        }
    }
}

/// The name with the smallest edit distance, if that is small.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let (_, bytes, count) = PROPOSED_MAX;
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

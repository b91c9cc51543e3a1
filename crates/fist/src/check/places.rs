//! Places: lvalues and addressable locations, and how each is read and written.

use super::checker::{Checker, Understood, Wrong};
use super::operators::{computing, converted};
use super::typed::Typed;
use crate::builtins::OperationValue;
use crate::diagnostic::Code;
use crate::ir::{
    Area, Constant, Expression as Made, FieldOf, Integer, Operand, Operator, Register, Shared, Site, Step, Type,
};
use crate::text::Span;
use crate::tree::{BinaryOperator as B, Expression, ExpressionKind as E, UnaryOperator as U};

/// The location of a value.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In a register.
    Register(Register, Type),
    /// In memory.
    Memory { pointer: Made, r#type: Type, is_const: bool },
    /// An argument of the operation.
    Operation { value: OperationValue, r#type: Type },
    /// In shared data: the values are those of the indexes, and of an object if there is one.
    Shared { shared: Shared, values: Vec<Made> },
}

impl Place {
    pub(crate) fn r#type(&self) -> &Type {
        match self {
            Place::Register(_, r#type) | Place::Memory { r#type, .. } | Place::Operation { r#type, .. } => r#type,
            Place::Shared { shared, .. } => &shared.r#type,
        }
    }
}

fn boxed(made: Made) -> Box<Made> {
    Box::new(made)
}

/// An update of a value: `target += by`, `target++`.
struct Update {
    operator: B,
    by: Typed,
    /// The result is the previous value.
    is_postfix: bool,
    /// Locations of the target and of the operand.
    spans: (Span, Span),
    span: Span,
}

impl Checker {
    /// Resolves an expression to a place.
    pub(crate) fn place(&mut self, expression: &Expression) -> Understood<Place> {
        let span = expression.span;
        self.looks_at(span)?;
        match &expression.kind {
            E::Wrong => Err(Wrong),
            E::Name(name) => self.named_place(name, span),
            E::Argument { name, branch } => self.argument_place(name, *branch, span),
            E::Index(of, index) => self.element(of, index, span),
            E::Member { of, name, is_arrow } => self.member(of, name, *is_arrow, span),
            E::Unary(U::Dereference, of) => {
                let pointer = self.value(of)?;
                self.pointed_to(pointer, of.span)
            }
            _ => self.no_place(span),
        }
    }

    pub(crate) fn no_place<T>(&mut self, span: Span) -> Understood<T> {
        self.wrong(Code::BadType, "this is a value, and no place that has one", span);
        Err(Wrong)
    }

    /// Data of the program.
    pub(crate) fn data_place(&self, index: usize) -> Place {
        let data = self.data(index);
        let r#type = data.r#type.clone();
        if data.is_written {
            let shared = Shared { area: Area::Data(index), path: Vec::new(), r#type };
            return Place::Shared { shared, values: Vec::new() };
        }
        Place::Memory { pointer: Made::Data(index), r#type, is_const: true }
    }

    fn pointed_to(&mut self, pointer: Typed, span: Span) -> Understood<Place> {
        match pointer.r#type {
            Type::Pointer { to, is_const } if *to != Type::Void => {
                Ok(Place::Memory { pointer: pointer.made, r#type: *to, is_const })
            }
            other => {
                let what = format!("this is `{}`, and points to nothing", self.describe(&other));
                self.wrong(Code::BadType, what, span);
                Err(Wrong)
            }
        }
    }

    fn element(&mut self, of: &Expression, index: &Expression, span: Span) -> Understood<Place> {
        let is_place = matches!(of.kind, E::Name(_) | E::Index(..) | E::Member { .. } | E::Unary(U::Dereference, _))
            && !self.is_object_attribute(of);
        let place = is_place.then(|| self.place(of));
        let index_value = self.integer_as(index, Integer::LONG);
        let (place, index_value) = (place.transpose()?, index_value?);
        match place {
            Some(Place::Memory { pointer, r#type: Type::Array(element, length), is_const }) => {
                self.known_index(&index_value, length, index.span)?;
                let (pointer, index, of) = (boxed(pointer), boxed(index_value), (*element).clone());
                let pointer = Made::Element { pointer, index, of, length: Some(length), span };
                Ok(Place::Memory { pointer, r#type: *element, is_const })
            }
            Some(Place::Shared { shared: Shared { area, mut path, r#type: Type::Array(of, length) }, mut values }) => {
                self.known_index(&index_value, length, index.span)?;
                path.push(Step::Element { of: (*of).clone(), length });
                values.push(index_value);
                Ok(Place::Shared { shared: Shared { area, path, r#type: *of }, values })
            }
            other => {
                let pointer = match other {
                    Some(place) => self.load(place, of.span)?,
                    None => self.value(of)?,
                };
                let Type::Pointer { to, .. } = &pointer.r#type else {
                    let what = format!("this is `{}`, and has no elements", self.describe(&pointer.r#type));
                    self.wrong(Code::BadType, what, of.span);
                    return Err(Wrong);
                };
                let (to, index) = ((**to).clone(), boxed(index_value));
                let made = Made::Element { pointer: boxed(pointer.made), index, of: to, length: None, span };
                self.pointed_to(Typed { made, r#type: pointer.r#type }, of.span)
            }
        }
    }

    /// Checks a constant index.
    fn known_index(&mut self, index: &Made, length: Constant, span: Span) -> Understood<()> {
        let length = self.layout.length(length).unwrap_or(0);
        match self.known(index) {
            Some(index) if !(0..length as i64).contains(&index) => {
                let what = format!("this is element {index} of an array of {length}");
                self.wrong(Code::BadConstant, what, span).remedy = Some(format!("the last one is {}", length - 1));
                Err(Wrong)
            }
            _ => Ok(()),
        }
    }

    fn member(&mut self, of: &Expression, name: &crate::tree::Name, is_arrow: bool, span: Span) -> Understood<Place> {
        if let E::Argument { name: argument, branch: None } = &of.kind
            && matches!(argument.as_str(), "vfs" | "mnt")
        {
            return self.mount_field(argument, name, of.span);
        }
        if self.is_object(of) {
            return self.vnode_field(of, name, span);
        }
        let place = if is_arrow {
            let pointer = self.value(of)?;
            self.pointed_to(pointer, of.span)?
        } else {
            self.place(of)?
        };
        let Type::Structure(index) = *place.r#type() else {
            let what = format!("this is `{}`, and has no fields", self.describe(place.r#type()));
            self.wrong(Code::BadType, what, of.span);
            return Err(Wrong);
        };
        let (field, r#type) = self.field(index, name)?;
        Ok(match place {
            Place::Memory { pointer, is_const, .. } => {
                Place::Memory { pointer: Made::Field(boxed(pointer), field), r#type, is_const }
            }
            Place::Shared { shared: Shared { area, mut path, .. }, values } => {
                path.push(Step::Field(field));
                Place::Shared { shared: Shared { area, path, r#type }, values }
            }
            Place::Register(..) | Place::Operation { .. } => return Err(Wrong),
        })
    }

    /// Resolves a field of a structure; returns it with its type.
    pub(crate) fn field(&mut self, index: usize, name: &crate::tree::Name) -> Understood<(FieldOf, Type)> {
        let structure = self.structure(index);
        if let Some(field) = structure.fields.iter().position(|field| field.name == name.value) {
            return Ok((FieldOf { structure: index, field }, structure.fields[field].r#type.clone()));
        }
        let fields: Vec<_> = structure.fields.iter().take(10).map(|field| field.name.clone()).collect();
        let what = format!("`{}` has no field `{}`", structure.name, name.value);
        self.wrong(Code::UnknownName, what, name.span).remedy = Some(format!("its fields are {}", fields.join(", ")));
        Err(Wrong)
    }

    /// Loads the value at a place; an array decays to a pointer to its first element.
    pub(crate) fn load(&mut self, place: Place, span: Span) -> Understood<Typed> {
        match place {
            Place::Register(register, r#type) => Ok(Typed { made: Made::Register(register), r#type }),
            Place::Operation { value, r#type } => {
                Ok(Typed { made: self.site(Site::OperationValue(value), Vec::new(), span), r#type })
            }
            Place::Memory { pointer, r#type: Type::Array(of, _), is_const } => {
                Ok(Typed { made: pointer, r#type: Type::Pointer { to: of, is_const } })
            }
            Place::Memory { pointer, r#type, .. } => match self.integer_of(&r#type) {
                Some(_) => Ok(Typed { made: Made::Load(boxed(pointer), r#type.clone(), span), r#type }),
                None => self.whole_structure(span),
            },
            Place::Shared { shared, values } => match (&shared.r#type, self.integer_of(&shared.r#type)) {
                (r#type, Some(_)) => {
                    let r#type = r#type.clone();
                    Ok(Typed { made: self.site(Site::Load(shared), values, span), r#type })
                }
                (Type::Structure(_), None) => self.whole_structure(span),
                _ => self.shared_pointer(span),
            },
        }
    }

    fn whole_structure<T>(&mut self, span: Span) -> Understood<T> {
        self.wrong(Code::NotSupported, "a structure is not a value by itself", span).remedy =
            Some("use its fields, or its address".into());
        Err(Wrong)
    }

    fn shared_pointer<T>(&mut self, span: Span) -> Understood<T> {
        self.wrong(Code::NotSupported, "other operations use this at the same time: nothing points to it", span)
            .remedy = Some("copy it to a variable with fistMemCpy; built-in functions take it as it is".into());
        Err(Wrong)
    }

    /// Returns a pointer to a place.
    pub(crate) fn address(&mut self, place: Place, span: Span) -> Understood<Typed> {
        match place {
            Place::Memory { pointer, r#type, is_const } => {
                Ok(Typed { made: pointer, r#type: Type::Pointer { to: Box::new(r#type), is_const } })
            }
            Place::Shared { .. } => self.shared_pointer(span),
            Place::Operation { .. } => {
                self.wrong(Code::NotSupported, "nothing points to an argument of the operation", span).remedy =
                    Some("assign it, and use its value".into());
                Err(Wrong)
            }
            Place::Register(..) => {
                self.wrong(Code::NotSupported, "nothing points to an object of a file system", span);
                Err(Wrong)
            }
        }
    }

    /// Stores a value of the place's type; the expression yields that value.
    pub(crate) fn store(&mut self, place: Place, value: Made, span: Span) -> Understood<Made> {
        match place {
            Place::Register(register, _) => Ok(Made::Set(register, boxed(value))),
            Place::Operation { value: argument, r#type } => {
                let operand = match r#type {
                    Type::Integer(integer) => Operand::Integer(integer),
                    _ => Operand::Pointer(None),
                };
                Ok(self.site(Site::Assign(argument, operand), vec![value], span))
            }
            Place::Memory { is_const: true, .. } => {
                self.wrong(Code::BadType, "this is not written to: it is `const`", span);
                Err(Wrong)
            }
            Place::Memory { pointer, r#type, .. } => match self.integer_of(&r#type) {
                Some(_) => Ok(Made::Store(boxed(pointer), r#type, boxed(value), span)),
                None => self.no_assignment(&r#type, span),
            },
            Place::Shared { shared, mut values } => match self.integer_of(&shared.r#type) {
                Some(_) if shared.area == Area::Mount => {
                    self.wrong(Code::BadType, "what was given when it was mounted does not change", span);
                    Err(Wrong)
                }
                Some(_) => {
                    values.push(value);
                    Ok(self.site(Site::Store(shared), values, span))
                }
                None => self.no_assignment(&shared.r#type, span),
            },
        }
    }

    fn no_assignment<T>(&mut self, r#type: &Type, span: Span) -> Understood<T> {
        let what = format!("`{}` is not assigned whole", self.describe(r#type));
        self.wrong(Code::NotSupported, what, span).remedy = Some("copy it with fistMemCpy".into());
        Err(Wrong)
    }

    /// Lowers `target = value` and `target op= value`.
    pub(crate) fn assign(
        &mut self,
        operator: Option<B>,
        target: &Expression,
        value: &Expression,
        span: Span,
    ) -> Understood<Typed> {
        if self.is_object_attribute(target) {
            self.wrong(Code::NotSupported, "an attribute of an object is not assigned", target.span).remedy =
                Some("a rule for setattr changes what is set; fields of per_vnode can be assigned".into());
            return Err(Wrong);
        }
        let place = self.place(target);
        let value_span = value.span;
        let value = self.value(value);
        let (place, value) = (place?, value?);
        match operator {
            Some(operator) => {
                let spans = (target.span, value_span);
                self.update(place, Update { operator, by: value, is_postfix: false, spans, span })
            }
            None => match (&place, &value.r#type) {
                (Place::Memory { r#type: Type::Structure(_), .. }, _) => {
                    self.no_assignment(&place.r#type().clone(), span)
                }
                _ => {
                    let r#type = place.r#type().clone();
                    let made = self.convert(value, &r#type, value_span)?;
                    Ok(Typed { made: self.store(place, made, target.span)?, r#type })
                }
            },
        }
    }

    /// Lowers `target++` and the like.
    pub(crate) fn step(
        &mut self,
        target: &Expression,
        is_increment: bool,
        is_postfix: bool,
        span: Span,
    ) -> Understood<Typed> {
        let place = self.place(target)?;
        let operator = if is_increment { B::Add } else { B::Subtract };
        let one = Typed::integer(Made::integer(1), Integer::INT);
        self.update(place, Update { operator, by: one, is_postfix, spans: (target.span, span), span })
    }

    fn update(&mut self, place: Place, update: Update) -> Understood<Typed> {
        let r#type = place.r#type().clone();
        let place = match place {
            Place::Shared { shared, values } => return self.update_shared(shared, values, update),
            // The pointer is evaluated once.
            Place::Memory { pointer, r#type, is_const } => {
                let to = Type::Pointer { to: Box::new(r#type.clone()), is_const };
                let register = self.function.register("", to);
                let first = Made::Set(register, boxed(pointer));
                let again = Place::Memory { pointer: Made::Register(register), r#type: r#type.clone(), is_const };
                let done = self.update_private(again, &r#type, update)?;
                return Ok(Typed { made: Made::Sequence(boxed(first), boxed(done)), r#type });
            }
            register => register,
        };
        let made = self.update_private(place, &r#type, update)?;
        Ok(Typed { made, r#type })
    }

    fn update_private(&mut self, place: Place, r#type: &Type, update: Update) -> Understood<Made> {
        let Update { operator, by, is_postfix, spans, span } = update;
        let before = self.load(place.clone(), span)?;
        if !is_postfix {
            let new = self.combine(operator, before, by, spans, span)?;
            let new = self.convert(new, r#type, span)?;
            return self.store(place, new, spans.0);
        }
        let kept = self.function.register("", r#type.clone());
        let keep = Made::Set(kept, boxed(before.made));
        let before = Typed { made: Made::Register(kept), r#type: before.r#type };
        let new = self.combine(operator, before, by, spans, span)?;
        let new = self.convert(new, r#type, span)?;
        let stored = self.store(place, new, spans.0)?;
        let rest = Made::Sequence(boxed(stored), boxed(Made::Register(kept)));
        Ok(Made::Sequence(boxed(keep), boxed(rest)))
    }

    fn update_shared(&mut self, shared: Shared, mut values: Vec<Made>, update: Update) -> Understood<Typed> {
        let Update { operator, by, is_postfix, span, .. } = update;
        let Type::Integer(integer) = shared.r#type else { return self.no_assignment(&shared.r#type, span) };
        let Some(operator) = computing(operator) else { return Err(Wrong) };
        if shared.area == Area::Mount {
            self.wrong(Code::BadType, "what was given when it was mounted does not change", span);
            return Err(Wrong);
        }
        let (by, by_type) = self.as_integer(by, span)?;
        let is_shift = matches!(operator, Operator::ShiftLeft | Operator::ShiftRight);
        let computed = if is_shift { integer.promoted() } else { integer.with(by_type) };
        values.push(if is_shift { by } else { converted(by, by_type, computed) });
        let site = Site::Update { shared, operator, computed, is_postfix };
        Ok(Typed::integer(self.site(site, values, span), integer))
    }

    /// Stores an initial value to memory through a pointer.
    pub(crate) fn assign_to_memory(&mut self, pointer: Made, r#type: &Type, value: &Expression) -> Understood<Made> {
        let typed = self.value(value)?;
        let made = self.convert(typed, r#type, value.span)?;
        self.store(Place::Memory { pointer, r#type: r#type.clone(), is_const: false }, made, value.span)
    }
}

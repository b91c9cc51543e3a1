//! Lvalues: addressable locations, and how each is read and written.

use super::checker::{CheckResult, Checker, ErrorReported};
use super::operators::{arithmetic_operator, convert_integer};
use super::typed::TypedExpression;
use crate::builtins::OperationValue;
use crate::diagnostic::Code;
use crate::ir::{
    Area, Constant, Expression as IrExpression, FieldReference, Integer, Operand, Operator, Register, Shared, Site,
    Step, Type,
};
use crate::text::Span;
use crate::tree::{BinaryOperator as B, Expression, ExpressionKind as E, UnaryOperator as U};

/// The location of a value.
#[derive(Clone, Debug)]
pub(crate) enum Lvalue {
    /// In a register.
    Register(Register, Type),
    /// In memory.
    Memory { pointer: IrExpression, r#type: Type, is_const: bool },
    /// An argument of the operation.
    Operation { value: OperationValue, r#type: Type },
    /// In shared data: the values are those of the indexes, and of an object if there is one.
    Shared { shared: Shared, values: Vec<IrExpression> },
}

impl Lvalue {
    pub(crate) fn r#type(&self) -> &Type {
        match self {
            Lvalue::Register(_, r#type) | Lvalue::Memory { r#type, .. } | Lvalue::Operation { r#type, .. } => r#type,
            Lvalue::Shared { shared, .. } => &shared.r#type,
        }
    }
}

fn boxed(lowered: IrExpression) -> Box<IrExpression> {
    Box::new(lowered)
}

/// An update of a value: `target += by`, `target++`.
struct Update {
    operator: B,
    by: TypedExpression,
    /// The result is the previous value.
    is_postfix: bool,
    /// Locations of the target and of the operand.
    spans: (Span, Span),
    span: Span,
}

impl Checker {
    /// Resolves an expression to an lvalue.
    pub(crate) fn lvalue(&mut self, expression: &Expression) -> CheckResult<Lvalue> {
        let span = expression.span;
        self.count_visit(span)?;
        match &expression.kind {
            E::Invalid => Err(ErrorReported),
            E::Name(name) => self.named_lvalue(name, span),
            E::Argument { name, branch } => self.argument_lvalue(name, *branch, span),
            E::Index(of, index) => self.element(of, index, span),
            E::Member { of, name, is_arrow } => self.member(of, name, *is_arrow, span),
            E::Unary(U::Dereference, of) => {
                let pointer = self.value(of)?;
                self.dereference(pointer, of.span)
            }
            _ => self.not_an_lvalue(span),
        }
    }

    pub(crate) fn not_an_lvalue<T>(&mut self, span: Span) -> CheckResult<T> {
        self.error(Code::BadType, "this is a value, and no place that has one", span);
        Err(ErrorReported)
    }

    /// Returns data of the program as an lvalue.
    pub(crate) fn data_lvalue(&self, index: usize) -> Lvalue {
        let data = self.data(index);
        let r#type = data.r#type.clone();
        if data.is_written {
            let shared = Shared { area: Area::Data(index), path: Vec::new(), r#type };
            return Lvalue::Shared { shared, values: Vec::new() };
        }
        Lvalue::Memory { pointer: IrExpression::Data(index), r#type, is_const: true }
    }

    fn dereference(&mut self, pointer: TypedExpression, span: Span) -> CheckResult<Lvalue> {
        match pointer.r#type {
            Type::Pointer { to, is_const } if *to != Type::Void => {
                Ok(Lvalue::Memory { pointer: pointer.lowered, r#type: *to, is_const })
            }
            other => {
                let what = format!("this is `{}`, and points to nothing", self.describe(&other));
                self.error(Code::BadType, what, span);
                Err(ErrorReported)
            }
        }
    }

    fn element(&mut self, of: &Expression, index: &Expression, span: Span) -> CheckResult<Lvalue> {
        let is_lvalue = matches!(of.kind, E::Name(_) | E::Index(..) | E::Member { .. } | E::Unary(U::Dereference, _))
            && !self.is_object_attribute(of);
        let lvalue = is_lvalue.then(|| self.lvalue(of));
        let index_value = self.integer_as(index, Integer::LONG);
        let (lvalue, index_value) = (lvalue.transpose()?, index_value?);
        match lvalue {
            Some(Lvalue::Memory { pointer, r#type: Type::Array(element, length), is_const }) => {
                self.check_index(&index_value, length, index.span)?;
                let (pointer, index, of) = (boxed(pointer), boxed(index_value), (*element).clone());
                let pointer = IrExpression::Element { pointer, index, of, length: Some(length), span };
                Ok(Lvalue::Memory { pointer, r#type: *element, is_const })
            }
            Some(Lvalue::Shared { shared: Shared { area, mut path, r#type: Type::Array(of, length) }, mut values }) => {
                self.check_index(&index_value, length, index.span)?;
                path.push(Step::Element { of: (*of).clone(), length });
                values.push(index_value);
                Ok(Lvalue::Shared { shared: Shared { area, path, r#type: *of }, values })
            }
            other => {
                let pointer = match other {
                    Some(lvalue) => self.load(lvalue, of.span)?,
                    None => self.value(of)?,
                };
                let Type::Pointer { to, .. } = &pointer.r#type else {
                    let what = format!("this is `{}`, and has no elements", self.describe(&pointer.r#type));
                    self.error(Code::BadType, what, of.span);
                    return Err(ErrorReported);
                };
                let (to, index) = ((**to).clone(), boxed(index_value));
                let lowered =
                    IrExpression::Element { pointer: boxed(pointer.lowered), index, of: to, length: None, span };
                self.dereference(TypedExpression { lowered, r#type: pointer.r#type }, of.span)
            }
        }
    }

    /// Checks a constant index.
    fn check_index(&mut self, index: &IrExpression, length: Constant, span: Span) -> CheckResult<()> {
        let length = self.layout.length(length).unwrap_or(0);
        match self.constant_value(index) {
            Some(index) if !(0..length as i64).contains(&index) => {
                let what = format!("this is element {index} of an array of {length}");
                self.error(Code::BadConstant, what, span).remedy = Some(format!("the last one is {}", length - 1));
                Err(ErrorReported)
            }
            _ => Ok(()),
        }
    }

    fn member(&mut self, of: &Expression, name: &crate::tree::Name, is_arrow: bool, span: Span) -> CheckResult<Lvalue> {
        if let E::Argument { name: argument, branch: None } = &of.kind
            && matches!(argument.as_str(), "vfs" | "mnt")
        {
            return self.mount_field(argument, name, of.span);
        }
        if self.is_object(of) {
            return self.vnode_field(of, name, span);
        }
        let lvalue = if is_arrow {
            let pointer = self.value(of)?;
            self.dereference(pointer, of.span)?
        } else {
            self.lvalue(of)?
        };
        let Type::Structure(index) = *lvalue.r#type() else {
            let what = format!("this is `{}`, and has no fields", self.describe(lvalue.r#type()));
            self.error(Code::BadType, what, of.span);
            return Err(ErrorReported);
        };
        let (field, r#type) = self.field(index, name)?;
        Ok(match lvalue {
            Lvalue::Memory { pointer, is_const, .. } => {
                Lvalue::Memory { pointer: IrExpression::Field(boxed(pointer), field), r#type, is_const }
            }
            Lvalue::Shared { shared: Shared { area, mut path, .. }, values } => {
                path.push(Step::Field(field));
                Lvalue::Shared { shared: Shared { area, path, r#type }, values }
            }
            Lvalue::Register(..) | Lvalue::Operation { .. } => return Err(ErrorReported),
        })
    }

    /// Resolves a field of a structure; returns it with its type.
    pub(crate) fn field(&mut self, index: usize, name: &crate::tree::Name) -> CheckResult<(FieldReference, Type)> {
        let structure = self.structure(index);
        if let Some(field) = structure.fields.iter().position(|field| field.name == name.value) {
            return Ok((FieldReference { structure: index, field }, structure.fields[field].r#type.clone()));
        }
        let fields: Vec<_> = structure.fields.iter().take(10).map(|field| field.name.clone()).collect();
        let what = format!("`{}` has no field `{}`", structure.name, name.value);
        self.error(Code::UnknownName, what, name.span).remedy = Some(format!("its fields are {}", fields.join(", ")));
        Err(ErrorReported)
    }

    /// Loads the value of an lvalue; an array decays to a pointer to its first element.
    pub(crate) fn load(&mut self, lvalue: Lvalue, span: Span) -> CheckResult<TypedExpression> {
        match lvalue {
            Lvalue::Register(register, r#type) => {
                Ok(TypedExpression { lowered: IrExpression::Register(register), r#type })
            }
            Lvalue::Operation { value, r#type } => Ok(TypedExpression {
                lowered: self.external_call(Site::OperationValue(value), Vec::new(), span),
                r#type,
            }),
            Lvalue::Memory { pointer, r#type: Type::Array(of, _), is_const } => {
                Ok(TypedExpression { lowered: pointer, r#type: Type::Pointer { to: of, is_const } })
            }
            Lvalue::Memory { pointer, r#type, .. } => match self.integer_of(&r#type) {
                Some(_) => {
                    Ok(TypedExpression { lowered: IrExpression::Load(boxed(pointer), r#type.clone(), span), r#type })
                }
                None => self.no_structure_value(span),
            },
            Lvalue::Shared { shared, values } => match (&shared.r#type, self.integer_of(&shared.r#type)) {
                (r#type, Some(_)) => {
                    let r#type = r#type.clone();
                    Ok(TypedExpression { lowered: self.external_call(Site::Load(shared), values, span), r#type })
                }
                (Type::Structure(_), None) => self.no_structure_value(span),
                _ => self.no_shared_pointer(span),
            },
        }
    }

    fn no_structure_value<T>(&mut self, span: Span) -> CheckResult<T> {
        self.error(Code::NotSupported, "a structure is not a value by itself", span).remedy =
            Some("use its fields, or its address".into());
        Err(ErrorReported)
    }

    fn no_shared_pointer<T>(&mut self, span: Span) -> CheckResult<T> {
        self.error(Code::NotSupported, "other operations use this at the same time: nothing points to it", span)
            .remedy = Some("copy it to a variable with fistMemCpy; built-in functions take it as it is".into());
        Err(ErrorReported)
    }

    /// Returns a pointer to an lvalue.
    pub(crate) fn address(&mut self, lvalue: Lvalue, span: Span) -> CheckResult<TypedExpression> {
        match lvalue {
            Lvalue::Memory { pointer, r#type, is_const } => {
                Ok(TypedExpression { lowered: pointer, r#type: Type::Pointer { to: Box::new(r#type), is_const } })
            }
            Lvalue::Shared { .. } => self.no_shared_pointer(span),
            Lvalue::Operation { .. } => {
                self.error(Code::NotSupported, "nothing points to an argument of the operation", span).remedy =
                    Some("assign it, and use its value".into());
                Err(ErrorReported)
            }
            Lvalue::Register(..) => {
                self.error(Code::NotSupported, "nothing points to an object of a file system", span);
                Err(ErrorReported)
            }
        }
    }

    /// Stores a value of the lvalue's type; the expression yields that value.
    pub(crate) fn store(&mut self, lvalue: Lvalue, value: IrExpression, span: Span) -> CheckResult<IrExpression> {
        match lvalue {
            Lvalue::Register(register, _) => Ok(IrExpression::Set(register, boxed(value))),
            Lvalue::Operation { value: argument, r#type } => {
                let operand = match r#type {
                    Type::Integer(integer) => Operand::Integer(integer),
                    _ => Operand::Pointer(None),
                };
                Ok(self.external_call(Site::Assign(argument, operand), vec![value], span))
            }
            Lvalue::Memory { is_const: true, .. } => {
                self.error(Code::BadType, "this is not written to: it is `const`", span);
                Err(ErrorReported)
            }
            Lvalue::Memory { pointer, r#type, .. } => match self.integer_of(&r#type) {
                Some(_) => Ok(IrExpression::Store(boxed(pointer), r#type, boxed(value), span)),
                None => self.no_assignment(&r#type, span),
            },
            Lvalue::Shared { shared, mut values } => match self.integer_of(&shared.r#type) {
                Some(_) if shared.area == Area::Mount => {
                    self.error(Code::BadType, "what was given when it was mounted does not change", span);
                    Err(ErrorReported)
                }
                Some(_) => {
                    values.push(value);
                    Ok(self.external_call(Site::Store(shared), values, span))
                }
                None => self.no_assignment(&shared.r#type, span),
            },
        }
    }

    fn no_assignment<T>(&mut self, r#type: &Type, span: Span) -> CheckResult<T> {
        let what = format!("`{}` is not assigned whole", self.describe(r#type));
        self.error(Code::NotSupported, what, span).remedy = Some("copy it with fistMemCpy".into());
        Err(ErrorReported)
    }

    /// Lowers `target = value` and `target op= value`.
    pub(crate) fn assign(
        &mut self,
        operator: Option<B>,
        target: &Expression,
        value: &Expression,
        span: Span,
    ) -> CheckResult<TypedExpression> {
        if self.is_object_attribute(target) {
            self.error(Code::NotSupported, "an attribute of an object is not assigned", target.span).remedy =
                Some("a rule for setattr changes what is set; fields of per_vnode can be assigned".into());
            return Err(ErrorReported);
        }
        let lvalue = self.lvalue(target);
        let value_span = value.span;
        let value = self.value(value);
        let (lvalue, value) = (lvalue?, value?);
        match operator {
            Some(operator) => {
                let spans = (target.span, value_span);
                self.update(lvalue, Update { operator, by: value, is_postfix: false, spans, span })
            }
            None => match (&lvalue, &value.r#type) {
                (Lvalue::Memory { r#type: Type::Structure(_), .. }, _) => {
                    self.no_assignment(&lvalue.r#type().clone(), span)
                }
                _ => {
                    let r#type = lvalue.r#type().clone();
                    let lowered = self.convert(value, &r#type, value_span)?;
                    Ok(TypedExpression { lowered: self.store(lvalue, lowered, target.span)?, r#type })
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
    ) -> CheckResult<TypedExpression> {
        let lvalue = self.lvalue(target)?;
        let operator = if is_increment { B::Add } else { B::Subtract };
        let one = TypedExpression::integer(IrExpression::integer(1), Integer::INT);
        self.update(lvalue, Update { operator, by: one, is_postfix, spans: (target.span, span), span })
    }

    fn update(&mut self, lvalue: Lvalue, update: Update) -> CheckResult<TypedExpression> {
        let r#type = lvalue.r#type().clone();
        let lvalue = match lvalue {
            Lvalue::Shared { shared, values } => return self.update_shared(shared, values, update),
            // The pointer is evaluated once.
            Lvalue::Memory { pointer, r#type, is_const } => {
                let to = Type::Pointer { to: Box::new(r#type.clone()), is_const };
                let register = self.function.register("", to);
                let first = IrExpression::Set(register, boxed(pointer));
                let at_pointer =
                    Lvalue::Memory { pointer: IrExpression::Register(register), r#type: r#type.clone(), is_const };
                let updated = self.update_private(at_pointer, &r#type, update)?;
                return Ok(TypedExpression { lowered: IrExpression::Sequence(boxed(first), boxed(updated)), r#type });
            }
            register => register,
        };
        let lowered = self.update_private(lvalue, &r#type, update)?;
        Ok(TypedExpression { lowered, r#type })
    }

    fn update_private(&mut self, lvalue: Lvalue, r#type: &Type, update: Update) -> CheckResult<IrExpression> {
        let Update { operator, by, is_postfix, spans, span } = update;
        let before = self.load(lvalue.clone(), span)?;
        if !is_postfix {
            let new = self.combine(operator, before, by, spans, span)?;
            let new = self.convert(new, r#type, span)?;
            return self.store(lvalue, new, spans.0);
        }
        let previous = self.function.register("", r#type.clone());
        let save_previous = IrExpression::Set(previous, boxed(before.lowered));
        let before = TypedExpression { lowered: IrExpression::Register(previous), r#type: before.r#type };
        let new = self.combine(operator, before, by, spans, span)?;
        let new = self.convert(new, r#type, span)?;
        let stored = self.store(lvalue, new, spans.0)?;
        let rest = IrExpression::Sequence(boxed(stored), boxed(IrExpression::Register(previous)));
        Ok(IrExpression::Sequence(boxed(save_previous), boxed(rest)))
    }

    fn update_shared(
        &mut self,
        shared: Shared,
        mut values: Vec<IrExpression>,
        update: Update,
    ) -> CheckResult<TypedExpression> {
        let Update { operator, by, is_postfix, span, .. } = update;
        let Type::Integer(integer) = shared.r#type else { return self.no_assignment(&shared.r#type, span) };
        let Some(operator) = arithmetic_operator(operator) else { return Err(ErrorReported) };
        if shared.area == Area::Mount {
            self.error(Code::BadType, "what was given when it was mounted does not change", span);
            return Err(ErrorReported);
        }
        let (by, by_type) = self.as_integer(by, span)?;
        let is_shift = matches!(operator, Operator::ShiftLeft | Operator::ShiftRight);
        let computed = if is_shift { integer.promoted() } else { integer.with(by_type) };
        values.push(if is_shift { by } else { convert_integer(by, by_type, computed) });
        let site = Site::Update { shared, operator, computed, is_postfix };
        Ok(TypedExpression::integer(self.external_call(site, values, span), integer))
    }

    /// Stores an initial value to memory through a pointer.
    pub(crate) fn assign_to_memory(
        &mut self,
        pointer: IrExpression,
        r#type: &Type,
        value: &Expression,
    ) -> CheckResult<IrExpression> {
        let typed = self.value(value)?;
        let lowered = self.convert(typed, r#type, value.span)?;
        self.store(Lvalue::Memory { pointer, r#type: r#type.clone(), is_const: false }, lowered, value.span)
    }
}

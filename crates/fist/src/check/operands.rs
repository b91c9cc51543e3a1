//! FiST extensions of C: variables of operations, attributes of objects, globals, and built-in functions.

use super::checker::{CheckResult, Checker, ErrorReported};
use super::lvalues::Lvalue;
use super::typed::{TypedExpression, string};
use crate::builtins::{
    self, ATTRIBUTES, Attribute, BuiltIn, GLOBALS, OPERATION_VALUES, OperationValue, Parameter, ReturnKind, Signature,
};
use crate::diagnostic::Code;
use crate::ir::{
    Area, Argument, Constant, Expression as IrExpression, FieldReference, Integer, Operand, Role, Shared, Site, Step,
    Type,
};
use crate::operations::{self, Operation, Operations, Part};
use crate::text::Span;
use crate::tree::{Expression, ExpressionKind as E, Name, UnaryOperator as U};

/// The names of objects of operations.
pub(crate) const OBJECT_ROLES: [(&str, Role, &str); 7] = [
    ("this", Role::This, "what the operation is done to; of one with a name, what the name stands for"),
    ("dir", Role::Directory, "the directory that it is done in"),
    ("from", Role::From, "of a rename, what is moved"),
    ("fromdir", Role::FromDirectory, "of a rename, where it was"),
    ("to", Role::To, "of a rename, what is replaced"),
    ("todir", Role::ToDirectory, "of a rename, where it goes"),
    ("0", Role::This, "short for $this:0"),
];

/// Returns whether a value of an operation is a string.
fn is_text(value: OperationValue) -> bool {
    use OperationValue as V;
    matches!(value, V::Name | V::ToName | V::Target | V::Xattr)
}

/// The operations that have a value.
fn operations_with(value: OperationValue) -> Operations {
    use OperationValue as V;
    let names: &[&str] = match value {
        V::Name => return Operations(u64::MAX),
        V::ToName => &["rename"],
        V::Target => &["symlink"],
        V::Xattr => &["getxattr", "setxattr", "removexattr"],
        V::NewMode => &["create", "mkdir", "mknod", "tmpfile", "setattr"],
        V::NewOwner | V::NewGroup => &["setattr"],
        V::NewSize => &["setattr", "truncate"],
        V::Offset => &["read", "write", "fallocate", "lseek", "copy_file_range"],
        V::Length => &["read", "write", "fallocate", "copy_file_range"],
        V::Flags => &["open", "create", "tmpfile", "access", "fallocate"],
    };
    let bits = names.iter().filter_map(|name| Operation::by_name(name)).map(|operation| 1 << operation.0);
    Operations(bits.fold(0, |all, bit: u64| all | bit))
}

/// The operations in which rules can assign a value: it is passed to the lower layer as their argument.
fn assignable(value: OperationValue) -> Option<Operations> {
    use OperationValue as V;
    match value {
        V::Name => Some(operations::of_type("name")?.without(Operation::by_name("readdir")?)),
        V::ToName | V::Target | V::NewMode | V::NewOwner | V::NewGroup | V::NewSize => Some(operations_with(value)),
        V::Xattr | V::Offset | V::Length | V::Flags => None,
    }
}

impl Checker {
    /// `%uid`.
    pub(crate) fn global(&mut self, name: &str, span: Span) -> CheckResult<TypedExpression> {
        let Some(global) = builtins::find(GLOBALS, name) else {
            let names: Vec<_> = GLOBALS.iter().map(|(_, name, _)| format!("%{name}")).collect();
            let what = format!("there is no global variable `%{name}`");
            self.error(Code::UnknownName, what, span).remedy = Some(format!("there are {}", names.join(", ")));
            return Err(ErrorReported);
        };
        if global == builtins::Global::PageSize {
            return Ok(TypedExpression::integer(IrExpression::Constant(Constant::PageSize), Integer::INT));
        }
        Ok(TypedExpression::integer(self.external_call(Site::Global(global), Vec::new(), span), Integer::LONG))
    }

    /// The object denoted by `$name:branch`, if it is one.
    fn role(&self, name: &str, branch: Option<u32>) -> Option<Argument> {
        if let Ok(branch) = name.parse() {
            return Some(Argument { role: Role::This, branch });
        }
        let (_, role, _) = OBJECT_ROLES.iter().find(|(known, ..)| *known == name)?;
        Some(Argument { role: *role, branch: branch.unwrap_or(0) })
    }

    /// Returns whether an expression denotes an object of a file system.
    pub(crate) fn is_object(&self, expression: &Expression) -> bool {
        match &expression.kind {
            E::Argument { name, branch } => self.role(name, *branch).is_some(),
            E::Name(name) => {
                matches!(self.function.local(name), Some(super::scope::Local::Register(_, Type::Vnode)))
            }
            _ => false,
        }
    }

    /// Returns whether an expression denotes an attribute that every object has.
    pub(crate) fn is_object_attribute(&self, expression: &Expression) -> bool {
        match &expression.kind {
            E::Member { of, name, .. } => self.is_object(of) && builtins::find(ATTRIBUTES, &name.value).is_some(),
            _ => false,
        }
    }

    /// Resolves the object of `$name:branch`, which must exist in the operations of the rule.
    fn object_argument(&mut self, name: &str, branch: Option<u32>, span: Span) -> CheckResult<Argument> {
        let Some(argument) = self.role(name, branch) else {
            let roles = OBJECT_ROLES.iter().map(|(name, ..)| *name);
            let values = OPERATION_VALUES.iter().map(|(_, name, _)| *name);
            let near = self.suggest(name, roles.chain(values).chain(["vfs", "mnt"]));
            let what = format!("operations have no `${name}`");
            self.error(Code::UnknownName, what, span).remedy = near.map(|near| format!("perhaps `${near}` is meant"));
            return Err(ErrorReported);
        };
        if argument.branch > self.level.fan_out {
            let (branch, fan_out) = (argument.branch, self.level.fan_out);
            let what = format!("there is no file system {branch} below: the fan-out is {fan_out}");
            self.error(Code::BadConstant, what, span).remedy = Some(format!("declare `fanout {branch};`"));
            return Err(ErrorReported);
        }
        let is_renames = !matches!(argument.role, Role::This | Role::Directory);
        if is_renames {
            self.check_available(
                name,
                Operations(Operation::by_name("rename").map_or(0, |rename| 1 << rename.0)),
                span,
            );
        }
        Ok(argument)
    }

    /// Reports a variable that none of the rule's operations has.
    fn check_available(&mut self, name: &str, operations: Operations, span: Span) {
        let Some(own) = self.function.operations else { return };
        if own.and(operations).is_empty() {
            let having: Vec<_> = operations.iter().map(|operation| operation.kind().name).collect();
            let what = format!("the operations of this rule have no `${name}`");
            self.error(Code::NotHere, what, span).remedy = Some(format!("it is there in {}", having.join(", ")));
        }
    }

    /// Lowers `$0` as a value, or `$name`.
    pub(crate) fn argument_value(
        &mut self,
        name: &str,
        branch: Option<u32>,
        span: Span,
    ) -> CheckResult<TypedExpression> {
        if matches!(name, "vfs" | "mnt") {
            self.error(Code::BadType, format!("`${name}` is used by its fields"), span).remedy =
                Some(format!("write `${name}.` and the name of a field"));
            return Err(ErrorReported);
        }
        if let (Some(value), None) = (builtins::find(OPERATION_VALUES, name), branch) {
            self.check_available(name, operations_with(value), span);
            let lowered = self.external_call(Site::OperationValue(value), Vec::new(), span);
            let r#type = if is_text(value) { string(true) } else { Type::Integer(Integer::LONG) };
            return Ok(TypedExpression { lowered, r#type });
        }
        let argument = self.object_argument(name, branch, span)?;
        Ok(TypedExpression {
            lowered: self.external_call(Site::Object(argument), Vec::new(), span),
            r#type: Type::Vnode,
        })
    }

    /// Resolves `$name` as the target of an assignment: in a pre or replace rule.
    pub(crate) fn argument_lvalue(&mut self, name: &str, branch: Option<u32>, span: Span) -> CheckResult<Lvalue> {
        let (Some(value), None) = (builtins::find(OPERATION_VALUES, name), branch) else {
            return self.not_an_lvalue(span);
        };
        let Some(operations) = assignable(value) else {
            let all = OPERATION_VALUES.iter().filter(|(value, ..)| assignable(*value).is_some());
            let names: Vec<_> = all.map(|(_, name, _)| format!("${name}")).collect();
            self.error(Code::NotSupported, format!("`${name}` is not assigned"), span).remedy =
                Some(format!("what can be assigned is {}", names.join(", ")));
            return Err(ErrorReported);
        };
        let misplaced = match (self.function.operations, self.function.part) {
            (None, _) => Some((
                "in a function no argument of the operation is assigned",
                "assign what the function answers in the rule",
            )),
            (_, Some(Part::PostCall)) => Some((
                "behind the operation its arguments are what they were",
                "assign it in a rule for precall or call",
            )),
            _ => None,
        };
        if let Some((what, remedy)) = misplaced {
            self.error(Code::Misplaced, what, span).remedy = Some(remedy.into());
            return Err(ErrorReported);
        }
        if self.function.operations.is_some_and(|own| own.and(operations).is_empty()) {
            let having: Vec<_> = operations.iter().map(|operation| operation.kind().name).collect();
            let what = format!("the operations of this rule have no `${name}` that could be assigned");
            self.error(Code::NotHere, what, span).remedy = Some(format!("it is there in {}", having.join(", ")));
        }
        let r#type = if is_text(value) { string(true) } else { Type::Integer(Integer::LONG) };
        Ok(Lvalue::Operation { value, r#type })
    }

    /// Lowers an object as an operand of an intrinsic or host call.
    fn object(&mut self, expression: &Expression) -> CheckResult<(Operand, Vec<IrExpression>)> {
        if let E::Argument { name, branch } = &expression.kind
            && self.role(name, *branch).is_some()
        {
            let argument = self.object_argument(name, *branch, expression.span)?;
            return Ok((Operand::Argument(argument), Vec::new()));
        }
        let value = self.value(expression)?;
        match value.r#type {
            Type::Vnode => Ok((Operand::Object, vec![value.lowered])),
            Type::Pointer { ref to, .. } if self.size(to) == Some(1) => Ok((Operand::Named, vec![value.lowered])),
            other => {
                let what = format!("an object or its name is expected, and this is `{}`", self.describe(&other));
                self.error(Code::BadType, what, expression.span);
                Err(ErrorReported)
            }
        }
    }

    /// `$0.owner`.
    pub(crate) fn attribute(&mut self, of: &Expression, name: &Name, span: Span) -> CheckResult<TypedExpression> {
        let Some(attribute) = builtins::find(ATTRIBUTES, &name.value) else { return Err(ErrorReported) };
        let (operand, values) = self.object(of)?;
        let lowered = self.external_call(Site::Attribute(attribute, operand), values, span);
        let is_text = matches!(attribute, Attribute::Name | Attribute::FileSystem);
        let r#type = if is_text { string(true) } else { Type::Integer(Integer::LONG) };
        Ok(TypedExpression { lowered, r#type })
    }

    /// `$0.key`: a field of the per-vnode data.
    pub(crate) fn vnode_field(&mut self, of: &Expression, name: &Name, span: Span) -> CheckResult<Lvalue> {
        let Some(structure) = self
            .level
            .vnode
            .filter(|structure| self.structure(*structure).fields.iter().any(|field| field.name == name.value))
        else {
            let known = ATTRIBUTES.iter().map(|(_, name, _)| *name);
            let what = format!("objects have no attribute `{}`", name.value);
            let near = self.suggest(&name.value, known);
            self.error(Code::UnknownName, what, name.span).remedy = Some(match near {
                Some(near) => format!("perhaps `{near}` is meant"),
                None => "declare it in `per_vnode { … };`".into(),
            });
            return Err(ErrorReported);
        };
        let (field, r#type) = self.field(structure, name)?;
        let (operand, values) = self.object(of)?;
        let area = match operand {
            Operand::Argument(argument) if argument.branch > 0 => {
                let what = "fields of per_vnode belong to objects of this file system, not of those below";
                self.error(Code::BadType, what, span).remedy = Some("leave the number away".into());
                return Err(ErrorReported);
            }
            Operand::Argument(argument) => Area::Argument(argument),
            _ => Area::Object,
        };
        Ok(Lvalue::Shared { shared: Shared { area, path: vec![Step::Field(field)], r#type }, values })
    }

    /// `$vfs.key`: a field of the per-mount data; `$mnt.key`: a field of the mount data, which `$vfs` reaches as well.
    pub(crate) fn mount_field(&mut self, argument: &str, name: &Name, span: Span) -> CheckResult<Lvalue> {
        let has = |structure: &usize| self.structure(*structure).fields.iter().any(|field| field.name == name.value);
        let vfs = self.level.vfs.filter(|structure| argument == "vfs" && has(structure));
        let mount = self.level.mount.filter(has);
        let (area, structure) = match (vfs, mount) {
            (Some(vfs), _) => (Area::Vfs, vfs),
            (None, Some(mount)) => (Area::Mount, mount),
            (None, None) => {
                let what = format!("`${argument}` has no field `{}`", name.value);
                let declaration = if argument == "vfs" { "per_vfs" } else { "mntdata" };
                let diagnostic = self.error(Code::UnknownName, what, name.span.to(span));
                diagnostic.remedy = Some(format!("declare it in `{declaration} {{ … }};`"));
                return Err(ErrorReported);
            }
        };
        let (field, r#type) = self.field(structure, name)?;
        Ok(Lvalue::Shared { shared: Shared { area, path: vec![Step::Field(field)], r#type }, values: Vec::new() })
    }

    /// Lowers a call of a built-in function.
    pub(crate) fn call_built_in(
        &mut self,
        signature: &'static Signature,
        arguments: &[Expression],
        span: Span,
    ) -> CheckResult<TypedExpression> {
        let name = signature.names[0];
        let takes_any = matches!(signature.parameters.last(), Some((_, Parameter::Values)));
        let max_arguments = signature.parameters.len();
        if arguments.len() < signature.needed || (!takes_any && arguments.len() > max_arguments) {
            let parameters: Vec<_> = signature.parameters.iter().map(|(name, _)| *name).collect();
            let what = format!("`{name}` is given {} values, and takes {}", arguments.len(), takes(signature));
            self.error(Code::BadCall, what, span).remedy = Some(format!("write {name}({})", parameters.join(", ")));
            return Err(ErrorReported);
        }
        let mut call = PendingCall { operands: Vec::new(), values: Vec::new(), structure: None };
        for (index, argument) in arguments.iter().enumerate() {
            if is_omitted(argument) {
                // Another argument follows: this one is omitted, as at the end (FiST, section 2.3.2).
                self.check_omittable(signature, index, argument.span)?;
                call.operands.push(Operand::Missing);
                continue;
            }
            let parameter = signature.parameters.get(index).map_or(Parameter::Value, |(_, parameter)| *parameter);
            match parameter {
                Parameter::Values => self.operand(Parameter::Value, signature, argument, &mut call)?,
                Parameter::Format => {
                    let text = self.format(argument, &arguments[index + 1..], &mut call)?;
                    call.operands.insert(0, Operand::Text(text));
                    break;
                }
                parameter => self.operand(parameter, signature, argument, &mut call)?,
            }
        }
        let given = arguments.len();
        let missing = signature.parameters.iter().skip(given).filter(|(_, parameter)| *parameter != Parameter::Values);
        call.operands.extend(missing.map(|_| Operand::Missing));
        let lowered = self.external_call(Site::BuiltIn(signature.function, call.operands), call.values, span);
        self.finish_call(signature, lowered)
    }

    /// Checks that an argument may be omitted: it is neither required nor a value of a format.
    fn check_omittable(&mut self, signature: &Signature, index: usize, span: Span) -> CheckResult<()> {
        let parameter = signature.parameters.get(index);
        let may_be = index >= signature.needed && parameter.is_some_and(|(_, one)| *one != Parameter::Values);
        if may_be {
            return Ok(());
        }
        let what = match parameter {
            Some((name, _)) => format!("`{}` needs its argument `{name}`", signature.names[0]),
            None => format!("an argument of `{}` is left out", signature.names[0]),
        };
        self.error(Code::BadCall, what, span);
        Err(ErrorReported)
    }

    fn finish_call(&mut self, signature: &Signature, lowered: IrExpression) -> CheckResult<TypedExpression> {
        let r#type = match (signature.function, signature.return_kind) {
            (BuiltIn::Allocate, _) => Type::Pointer { to: Box::new(Type::Void), is_const: false },
            (_, ReturnKind::Nothing) => Type::Void,
            (_, ReturnKind::Integer) => Type::Integer(Integer::INT),
            (_, ReturnKind::Memory) => string(false),
        };
        Ok(TypedExpression { lowered, r#type })
    }

    fn operand(
        &mut self,
        parameter: Parameter,
        signature: &Signature,
        argument: &Expression,
        call: &mut PendingCall,
    ) -> CheckResult<()> {
        match parameter {
            Parameter::Integer => {
                let (lowered, integer) = self.integer(argument)?;
                call.push(Operand::Integer(integer), lowered);
            }
            Parameter::Object => {
                let (operand, values) = self.object(argument)?;
                call.operands.push(operand);
                call.values.extend(values);
            }
            Parameter::String | Parameter::Input => self.bytes(argument, false, call)?,
            Parameter::Output => self.bytes(argument, true, call)?,
            Parameter::OutInteger => self.out_parameter(argument, call)?,
            Parameter::Slot => match &argument.kind {
                E::Argument { name, branch } if self.role(name, *branch).is_some() => {
                    let argument = self.object_argument(name, *branch, argument.span)?;
                    call.operands.push(Operand::Argument(argument));
                }
                _ => {
                    let what = "what is found becomes an object of the operation, as `$1`";
                    self.error(Code::BadType, what, argument.span);
                    return Err(ErrorReported);
                }
            },
            Parameter::Ioctl | Parameter::FileFormat => self.structure_name(parameter, argument, call)?,
            Parameter::Field => self.field_name(argument, call)?,
            Parameter::Value => {
                let is_bytes = call.field_type(self).is_some_and(|r#type| !matches!(r#type, Type::Integer(_)));
                match is_bytes || self.is_bytes(argument)? {
                    true => self.bytes(argument, false, call)?,
                    false => {
                        let (lowered, integer) = self.integer(argument)?;
                        call.push(Operand::Integer(integer), lowered);
                    }
                }
            }
            Parameter::Format | Parameter::Values => {
                let what = format!("`{}` cannot be called so", signature.names[0]);
                self.error(Code::BadCall, what, argument.span);
                return Err(ErrorReported);
            }
        }
        Ok(())
    }

    /// Returns whether an argument is memory rather than an integer. Leaves no trace in the state of the check.
    fn is_bytes(&mut self, argument: &Expression) -> CheckResult<bool> {
        let (before, registers) = (self.diagnostics.len(), self.function.function.registers.len());
        let r#type = match self.shared_lvalue(argument)? {
            Some((shared, _)) => shared.r#type,
            None => self.value(argument)?.r#type,
        };
        self.diagnostics.truncate(before);
        self.function.function.registers.truncate(registers);
        Ok(!matches!(r#type, Type::Integer(_)))
    }

    /// Resolves shared data passed as a whole: `$vfs.key` or `&$vfs.key`.
    fn shared_lvalue(&mut self, argument: &Expression) -> CheckResult<Option<(Shared, Vec<IrExpression>)>> {
        let of = match &argument.kind {
            E::Unary(U::AddressOf, of) => of,
            _ => argument,
        };
        let is_lvalue = matches!(of.kind, E::Member { .. } | E::Index(..))
            || matches!(&of.kind, E::Name(name) if self.function.local(name).is_none()
                && matches!(self.symbols.get(name), Some((super::checker::Symbol::Data(_), _))));
        if !is_lvalue || self.is_object_attribute(of) || !self.is_rooted_in_data(of) {
            return Ok(None);
        }
        match self.lvalue(of)? {
            Lvalue::Shared { shared, values } => Ok(Some((shared, values))),
            _ => Ok(None),
        }
    }

    /// Returns whether an lvalue is in shared data, or may be.
    fn is_rooted_in_data(&self, of: &Expression) -> bool {
        match &of.kind {
            E::Member { of, is_arrow, .. } => {
                self.is_object(of) || matches!(of.kind, E::Argument { .. }) || (!is_arrow && self.is_rooted_in_data(of))
            }
            E::Index(of, _) => self.is_rooted_in_data(of),
            E::Name(name) => self.function.local(name).is_none(),
            _ => false,
        }
    }

    /// Lowers bytes that a built-in function reads or writes.
    fn bytes(&mut self, argument: &Expression, is_written: bool, call: &mut PendingCall) -> CheckResult<()> {
        if let Some((shared, values)) = self.shared_lvalue(argument)?
            && (!matches!(shared.r#type, Type::Integer(_)) || matches!(argument.kind, E::Unary(U::AddressOf, _)))
        {
            if is_written && shared.area == Area::Mount {
                let what = "what was given when it was mounted does not change";
                self.error(Code::BadType, what, argument.span);
                return Err(ErrorReported);
            }
            call.operands.push(Operand::Shared(shared));
            call.values.extend(values);
            return Ok(());
        }
        let value = self.value(argument)?;
        match &value.r#type {
            Type::Pointer { is_const: true, .. } if is_written => {
                self.error(Code::BadType, "this is written to, and is `const`", argument.span);
                Err(ErrorReported)
            }
            Type::Pointer { .. } => {
                call.push(Operand::Pointer(self.pointee_type(argument)), value.lowered);
                Ok(())
            }
            _ if value.lowered == IrExpression::integer(0) => {
                call.push(Operand::Pointer(None), value.lowered);
                Ok(())
            }
            other => {
                let what = format!("memory is expected, and this is `{}`", self.describe(other));
                self.error(Code::BadType, what, argument.span);
                Err(ErrorReported)
            }
        }
    }

    /// The type of the array, or of the operand of the address expression, that an argument consists of.
    fn pointee_type(&mut self, argument: &Expression) -> Option<Type> {
        let (of, is_address) = match &argument.kind {
            E::Unary(U::AddressOf, of) => (&**of, true),
            _ => (argument, false),
        };
        if !matches!(of.kind, E::Name(_) | E::Member { .. } | E::Index(..)) || self.is_object_attribute(of) {
            return None;
        }
        // Errors in it have been reported.
        let before = self.diagnostics.len();
        let lvalue = self.lvalue(of);
        self.diagnostics.truncate(before);
        match lvalue {
            // From an element on, the rest of the array.
            Ok(Lvalue::Memory { .. }) if matches!(of.kind, E::Index(..)) => None,
            Ok(Lvalue::Memory { r#type: r#type @ (Type::Array(..) | Type::Structure(_)), .. }) => Some(r#type),
            Ok(Lvalue::Memory { r#type, .. }) if is_address => Some(r#type),
            _ => None,
        }
    }

    /// Lowers an out-parameter: a variable, or its address.
    fn out_parameter(&mut self, argument: &Expression, call: &mut PendingCall) -> CheckResult<()> {
        let is_bytes = call.field_type(self).is_some_and(|r#type| !matches!(r#type, Type::Integer(_)));
        if is_bytes {
            return self.bytes(argument, true, call);
        }
        let of = match &argument.kind {
            E::Unary(U::AddressOf, of) => of,
            _ => argument,
        };
        match self.lvalue(of)? {
            Lvalue::Memory { pointer, r#type: Type::Integer(integer), is_const: false } => {
                call.push(Operand::OutInteger(integer), pointer);
                Ok(())
            }
            Lvalue::Memory { pointer, r#type: Type::Pointer { to, is_const: false }, .. } => match *to {
                Type::Integer(integer) => {
                    let to = Type::Pointer { to: to.clone(), is_const: false };
                    let lowered = IrExpression::Load(Box::new(pointer), to, argument.span);
                    call.push(Operand::OutInteger(integer), lowered);
                    Ok(())
                }
                _ => self.not_an_out_parameter(argument.span),
            },
            Lvalue::Register(register, Type::Pointer { to, is_const: false }) => match *to {
                Type::Integer(integer) => {
                    call.push(Operand::OutInteger(integer), IrExpression::Register(register));
                    Ok(())
                }
                _ => self.not_an_out_parameter(argument.span),
            },
            Lvalue::Shared { shared: shared @ Shared { r#type: Type::Integer(_), .. }, values } => {
                call.operands.push(Operand::SharedOutInteger(shared));
                call.values.extend(values);
                Ok(())
            }
            _ => self.not_an_out_parameter(argument.span),
        }
    }

    fn not_an_out_parameter<T>(&mut self, span: Span) -> CheckResult<T> {
        self.error(Code::BadType, "the answer goes to an integer variable", span);
        Err(ErrorReported)
    }

    fn structure_name(
        &mut self,
        parameter: Parameter,
        argument: &Expression,
        call: &mut PendingCall,
    ) -> CheckResult<()> {
        let E::Name(name) = &argument.kind else {
            self.error(Code::BadCall, "the name of declared data is expected", argument.span);
            return Err(ErrorReported);
        };
        let found = if parameter == Parameter::Ioctl {
            self.level.ioctls.iter().find(|ioctl| ioctl.name == *name).map(|ioctl| ioctl.structure)
        } else {
            self.level.formats.iter().copied().find(|format| self.structure(*format).name == *name)
        };
        let Some(structure) = found else {
            let kind = if parameter == Parameter::Ioctl { "ioctl" } else { "fileformat" };
            let what = format!("no {kind} `{name}` is declared");
            self.error(Code::UnknownName, what, argument.span).remedy =
                Some(format!("declare `{kind} {name} {{ … }};`"));
            return Err(ErrorReported);
        };
        call.structure = Some((structure, None));
        Ok(())
    }

    fn field_name(&mut self, argument: &Expression, call: &mut PendingCall) -> CheckResult<()> {
        let (E::Name(name), Some((structure, _))) = (&argument.kind, call.structure) else {
            self.error(Code::BadCall, "the name of a field is expected", argument.span);
            return Err(ErrorReported);
        };
        let (field, _) = self.field(structure, &Name::new(name.clone(), argument.span))?;
        call.structure = Some((structure, Some(field)));
        call.operands.push(Operand::Field(field));
        Ok(())
    }

    /// Checks the format of a message, which must be constant and match its values.
    fn format(&mut self, format: &Expression, values: &[Expression], call: &mut PendingCall) -> CheckResult<Vec<u8>> {
        let E::Text(text) = &format.kind else {
            self.error(Code::BadCall, "the format of a message is a string that is written here", format.span)
                .remedy("write fistPrintf(\"%s\", …) to print a string");
            return Err(ErrorReported);
        };
        let conversions = match crate::format::conversions(text) {
            Ok(conversions) => conversions,
            Err(what) => {
                self.error(Code::BadCall, what, format.span);
                return Err(ErrorReported);
            }
        };
        if let Some(missing) = values.iter().find(|value| is_omitted(value)) {
            self.error(Code::BadCall, "a value for the format is left out", missing.span);
            return Err(ErrorReported);
        }
        if conversions.len() != values.len() {
            let what =
                format!("the format has {} conversions, and there are {} values", conversions.len(), values.len());
            self.error(Code::BadCall, what, format.span);
            return Err(ErrorReported);
        }
        for (conversion, value) in conversions.iter().zip(values) {
            if conversion.is_text() {
                self.bytes(value, false, call)?;
            } else {
                let (lowered, integer) = self.integer(value)?;
                call.push(Operand::Integer(integer), lowered);
            }
        }
        Ok(text.clone())
    }
}

/// Returns whether an argument before another is omitted: the parser represents it as an empty name.
pub(crate) fn is_omitted(argument: &Expression) -> bool {
    matches!(&argument.kind, E::Name(name) if name.is_empty())
}

/// A call of a built-in function, as checked so far.
struct PendingCall {
    operands: Vec<Operand>,
    values: Vec<IrExpression>,
    /// The structure whose field is named, and the field.
    structure: Option<(usize, Option<FieldReference>)>,
}

impl PendingCall {
    fn push(&mut self, operand: Operand, value: IrExpression) {
        self.operands.push(operand);
        self.values.push(value);
    }

    /// The type of the named field.
    fn field_type(&self, checker: &Checker) -> Option<Type> {
        let (structure, field) = self.structure?;
        checker.structure(structure).fields.get(field?.field).map(|field| field.r#type.clone())
    }
}

fn takes(signature: &Signature) -> String {
    let max_arguments = signature.parameters.len();
    match signature.parameters.last() {
        Some((_, Parameter::Values)) => format!("{} or more", signature.needed),
        _ if signature.needed == max_arguments => max_arguments.to_string(),
        _ => format!("{} to {max_arguments}", signature.needed),
    }
}

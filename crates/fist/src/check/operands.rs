//! FiST extensions of C: variables of operations, attributes of objects, globals, and built-in functions.

use super::checker::{Checker, Understood, Wrong};
use super::places::Place;
use super::typed::{Typed, string};
use crate::builtins::{
    self, ATTRIBUTES, Answer, Attribute, BuiltIn, GLOBALS, OPERATION_VALUES, OperationValue, Parameter, Signature,
};
use crate::diagnostic::Code;
use crate::ir::{
    Area, Argument, Constant, Expression as Made, FieldOf, Integer, Operand, Role, Shared, Site, Step, Type,
};
use crate::operations::{self, Operation, Operations, Part};
use crate::text::Span;
use crate::tree::{Expression, ExpressionKind as E, Name, UnaryOperator as U};

/// The names of objects of operations.
pub(crate) const ROLES: [(&str, Role, &str); 7] = [
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
    pub(crate) fn global(&mut self, name: &str, span: Span) -> Understood<Typed> {
        let Some(global) = builtins::find(GLOBALS, name) else {
            let names: Vec<_> = GLOBALS.iter().map(|(_, name, _)| format!("%{name}")).collect();
            let what = format!("there is no global variable `%{name}`");
            self.wrong(Code::UnknownName, what, span).remedy = Some(format!("there are {}", names.join(", ")));
            return Err(Wrong);
        };
        if global == builtins::Global::PageSize {
            return Ok(Typed::integer(Made::Constant(Constant::PageSize), Integer::INT));
        }
        Ok(Typed::integer(self.site(Site::Global(global), Vec::new(), span), Integer::LONG))
    }

    /// The object denoted by `$name:branch`, if it is one.
    fn role(&self, name: &str, branch: Option<u32>) -> Option<Argument> {
        if let Ok(branch) = name.parse() {
            return Some(Argument { role: Role::This, branch });
        }
        let (_, role, _) = ROLES.iter().find(|(known, ..)| *known == name)?;
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
    fn object_argument(&mut self, name: &str, branch: Option<u32>, span: Span) -> Understood<Argument> {
        let Some(argument) = self.role(name, branch) else {
            let roles = ROLES.iter().map(|(name, ..)| *name);
            let values = OPERATION_VALUES.iter().map(|(_, name, _)| *name);
            let near = self.proposed(name, roles.chain(values).chain(["vfs", "mnt"]));
            let what = format!("operations have no `${name}`");
            self.wrong(Code::UnknownName, what, span).remedy = near.map(|near| format!("perhaps `${near}` is meant"));
            return Err(Wrong);
        };
        if argument.branch > self.level.fan_out {
            let (branch, fan_out) = (argument.branch, self.level.fan_out);
            let what = format!("there is no file system {branch} below: the fan-out is {fan_out}");
            self.wrong(Code::BadConstant, what, span).remedy = Some(format!("declare `fanout {branch};`"));
            return Err(Wrong);
        }
        let is_renames = !matches!(argument.role, Role::This | Role::Directory);
        if is_renames {
            self.available(name, Operations(Operation::by_name("rename").map_or(0, |rename| 1 << rename.0)), span);
        }
        Ok(argument)
    }

    /// Reports a variable that none of the rule's operations has.
    fn available(&mut self, name: &str, operations: Operations, span: Span) {
        let Some(own) = self.function.operations else { return };
        if own.and(operations).is_empty() {
            let having: Vec<_> = operations.iter().map(|operation| operation.kind().name).collect();
            let what = format!("the operations of this rule have no `${name}`");
            self.wrong(Code::NotHere, what, span).remedy = Some(format!("it is there in {}", having.join(", ")));
        }
    }

    /// Lowers `$0` as a value, or `$name`.
    pub(crate) fn argument_value(&mut self, name: &str, branch: Option<u32>, span: Span) -> Understood<Typed> {
        if matches!(name, "vfs" | "mnt") {
            self.wrong(Code::BadType, format!("`${name}` is used by its fields"), span).remedy =
                Some(format!("write `${name}.` and the name of a field"));
            return Err(Wrong);
        }
        if let (Some(value), None) = (builtins::find(OPERATION_VALUES, name), branch) {
            self.available(name, operations_with(value), span);
            let made = self.site(Site::OperationValue(value), Vec::new(), span);
            let r#type = if is_text(value) { string(true) } else { Type::Integer(Integer::LONG) };
            return Ok(Typed { made, r#type });
        }
        let argument = self.object_argument(name, branch, span)?;
        Ok(Typed { made: self.site(Site::Object(argument), Vec::new(), span), r#type: Type::Vnode })
    }

    /// Resolves `$name` as the target of an assignment: in a pre or replace rule.
    pub(crate) fn argument_place(&mut self, name: &str, branch: Option<u32>, span: Span) -> Understood<Place> {
        let (Some(value), None) = (builtins::find(OPERATION_VALUES, name), branch) else { return self.no_place(span) };
        let Some(operations) = assignable(value) else {
            let all = OPERATION_VALUES.iter().filter(|(value, ..)| assignable(*value).is_some());
            let names: Vec<_> = all.map(|(_, name, _)| format!("${name}")).collect();
            self.wrong(Code::NotSupported, format!("`${name}` is not assigned"), span).remedy =
                Some(format!("what can be assigned is {}", names.join(", ")));
            return Err(Wrong);
        };
        let wrong = match (self.function.operations, self.function.part) {
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
        if let Some((what, remedy)) = wrong {
            self.wrong(Code::Misplaced, what, span).remedy = Some(remedy.into());
            return Err(Wrong);
        }
        if self.function.operations.is_some_and(|own| own.and(operations).is_empty()) {
            let having: Vec<_> = operations.iter().map(|operation| operation.kind().name).collect();
            let what = format!("the operations of this rule have no `${name}` that could be assigned");
            self.wrong(Code::NotHere, what, span).remedy = Some(format!("it is there in {}", having.join(", ")));
        }
        let r#type = if is_text(value) { string(true) } else { Type::Integer(Integer::LONG) };
        Ok(Place::Operation { value, r#type })
    }

    /// Lowers an object as an operand of an intrinsic or host call.
    fn object(&mut self, expression: &Expression) -> Understood<(Operand, Vec<Made>)> {
        if let E::Argument { name, branch } = &expression.kind
            && self.role(name, *branch).is_some()
        {
            let argument = self.object_argument(name, *branch, expression.span)?;
            return Ok((Operand::Argument(argument), Vec::new()));
        }
        let value = self.value(expression)?;
        match value.r#type {
            Type::Vnode => Ok((Operand::Object, vec![value.made])),
            Type::Pointer { ref to, .. } if self.size(to) == Some(1) => Ok((Operand::Named, vec![value.made])),
            other => {
                let what = format!("an object or its name is expected, and this is `{}`", self.describe(&other));
                self.wrong(Code::BadType, what, expression.span);
                Err(Wrong)
            }
        }
    }

    /// `$0.owner`.
    pub(crate) fn attribute(&mut self, of: &Expression, name: &Name, span: Span) -> Understood<Typed> {
        let Some(attribute) = builtins::find(ATTRIBUTES, &name.value) else { return Err(Wrong) };
        let (operand, values) = self.object(of)?;
        let made = self.site(Site::Attribute(attribute, operand), values, span);
        let is_text = matches!(attribute, Attribute::Name | Attribute::FileSystem);
        let r#type = if is_text { string(true) } else { Type::Integer(Integer::LONG) };
        Ok(Typed { made, r#type })
    }

    /// `$0.key`: a field of the per-vnode data.
    pub(crate) fn vnode_field(&mut self, of: &Expression, name: &Name, span: Span) -> Understood<Place> {
        let Some(structure) = self
            .level
            .vnode
            .filter(|structure| self.structure(*structure).fields.iter().any(|field| field.name == name.value))
        else {
            let known = ATTRIBUTES.iter().map(|(_, name, _)| *name);
            let what = format!("objects have no attribute `{}`", name.value);
            let near = self.proposed(&name.value, known);
            self.wrong(Code::UnknownName, what, name.span).remedy = Some(match near {
                Some(near) => format!("perhaps `{near}` is meant"),
                None => "declare it in `per_vnode { … };`".into(),
            });
            return Err(Wrong);
        };
        let (field, r#type) = self.field(structure, name)?;
        let (operand, values) = self.object(of)?;
        let area = match operand {
            Operand::Argument(argument) if argument.branch > 0 => {
                let what = "fields of per_vnode belong to objects of this file system, not of those below";
                self.wrong(Code::BadType, what, span).remedy = Some("leave the number away".into());
                return Err(Wrong);
            }
            Operand::Argument(argument) => Area::Argument(argument),
            _ => Area::Object,
        };
        Ok(Place::Shared { shared: Shared { area, path: vec![Step::Field(field)], r#type }, values })
    }

    /// `$vfs.key`: a field of the per-mount data; `$mnt.key`: a field of the mount data, which `$vfs` reaches as well.
    pub(crate) fn mount_field(&mut self, argument: &str, name: &Name, span: Span) -> Understood<Place> {
        let has = |structure: &usize| self.structure(*structure).fields.iter().any(|field| field.name == name.value);
        let vfs = self.level.vfs.filter(|structure| argument == "vfs" && has(structure));
        let mount = self.level.mount.filter(has);
        let (area, structure) = match (vfs, mount) {
            (Some(vfs), _) => (Area::Vfs, vfs),
            (None, Some(mount)) => (Area::Mount, mount),
            (None, None) => {
                let what = format!("`${argument}` has no field `{}`", name.value);
                let declaration = if argument == "vfs" { "per_vfs" } else { "mntdata" };
                let diagnostic = self.wrong(Code::UnknownName, what, name.span.to(span));
                diagnostic.remedy = Some(format!("declare it in `{declaration} {{ … }};`"));
                return Err(Wrong);
            }
        };
        let (field, r#type) = self.field(structure, name)?;
        Ok(Place::Shared { shared: Shared { area, path: vec![Step::Field(field)], r#type }, values: Vec::new() })
    }

    /// Lowers a call of a built-in function.
    pub(crate) fn built_in(
        &mut self,
        signature: &'static Signature,
        arguments: &[Expression],
        span: Span,
    ) -> Understood<Typed> {
        let name = signature.names[0];
        let takes_any = matches!(signature.parameters.last(), Some((_, Parameter::Values)));
        let most = signature.parameters.len();
        if arguments.len() < signature.needed || (!takes_any && arguments.len() > most) {
            let parameters: Vec<_> = signature.parameters.iter().map(|(name, _)| *name).collect();
            let what = format!("`{name}` is given {} values, and takes {}", arguments.len(), takes(signature));
            self.wrong(Code::BadCall, what, span).remedy = Some(format!("write {name}({})", parameters.join(", ")));
            return Err(Wrong);
        }
        let mut call = Call { operands: Vec::new(), values: Vec::new(), structure: None };
        for (index, argument) in arguments.iter().enumerate() {
            if is_left_out(argument) {
                // Another argument follows: this one is omitted, as at the end (FiST, section 2.3.2).
                self.may_be_left_out(signature, index, argument.span)?;
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
        let made = self.site(Site::BuiltIn(signature.function, call.operands), call.values, span);
        self.finish_call(signature, made)
    }

    /// Checks that an argument may be omitted: it is neither required nor a value of a format.
    fn may_be_left_out(&mut self, signature: &Signature, index: usize, span: Span) -> Understood<()> {
        let parameter = signature.parameters.get(index);
        let may_be = index >= signature.needed && parameter.is_some_and(|(_, one)| *one != Parameter::Values);
        if may_be {
            return Ok(());
        }
        let what = match parameter {
            Some((name, _)) => format!("`{}` needs its argument `{name}`", signature.names[0]),
            None => format!("an argument of `{}` is left out", signature.names[0]),
        };
        self.wrong(Code::BadCall, what, span);
        Err(Wrong)
    }

    fn finish_call(&mut self, signature: &Signature, made: Made) -> Understood<Typed> {
        let r#type = match (signature.function, signature.answer) {
            (BuiltIn::Allocate, _) => Type::Pointer { to: Box::new(Type::Void), is_const: false },
            (_, Answer::Nothing) => Type::Void,
            (_, Answer::Integer) => Type::Integer(Integer::INT),
            (_, Answer::Memory) => string(false),
        };
        Ok(Typed { made, r#type })
    }

    fn operand(
        &mut self,
        parameter: Parameter,
        signature: &Signature,
        argument: &Expression,
        call: &mut Call,
    ) -> Understood<()> {
        match parameter {
            Parameter::Integer => {
                let (made, integer) = self.integer(argument)?;
                call.push(Operand::Integer(integer), made);
            }
            Parameter::Object => {
                let (operand, values) = self.object(argument)?;
                call.operands.push(operand);
                call.values.extend(values);
            }
            Parameter::String | Parameter::Input => self.bytes(argument, false, call)?,
            Parameter::Output => self.bytes(argument, true, call)?,
            Parameter::Answer => self.answer(argument, call)?,
            Parameter::Slot => match &argument.kind {
                E::Argument { name, branch } if self.role(name, *branch).is_some() => {
                    let argument = self.object_argument(name, *branch, argument.span)?;
                    call.operands.push(Operand::Argument(argument));
                }
                _ => {
                    let what = "what is found becomes an object of the operation, as `$1`";
                    self.wrong(Code::BadType, what, argument.span);
                    return Err(Wrong);
                }
            },
            Parameter::Ioctl | Parameter::FileFormat => self.structure_name(parameter, argument, call)?,
            Parameter::Field => self.field_name(argument, call)?,
            Parameter::Value => {
                let is_bytes = call.field_type(self).is_some_and(|r#type| !matches!(r#type, Type::Integer(_)));
                match is_bytes || self.is_bytes(argument)? {
                    true => self.bytes(argument, false, call)?,
                    false => {
                        let (made, integer) = self.integer(argument)?;
                        call.push(Operand::Integer(integer), made);
                    }
                }
            }
            Parameter::Format | Parameter::Values => {
                let what = format!("`{}` cannot be called so", signature.names[0]);
                self.wrong(Code::BadCall, what, argument.span);
                return Err(Wrong);
            }
        }
        Ok(())
    }

    /// Returns whether an argument is memory rather than an integer. Leaves no trace in the state of the check.
    fn is_bytes(&mut self, argument: &Expression) -> Understood<bool> {
        let (before, registers) = (self.diagnostics.len(), self.function.function.registers.len());
        let r#type = match self.shared_place(argument)? {
            Some((shared, _)) => shared.r#type,
            None => self.value(argument)?.r#type,
        };
        self.diagnostics.truncate(before);
        self.function.function.registers.truncate(registers);
        Ok(!matches!(r#type, Type::Integer(_)))
    }

    /// Resolves shared data passed as a whole: `$vfs.key` or `&$vfs.key`.
    fn shared_place(&mut self, argument: &Expression) -> Understood<Option<(Shared, Vec<Made>)>> {
        let of = match &argument.kind {
            E::Unary(U::AddressOf, of) => of,
            _ => argument,
        };
        let is_place = matches!(of.kind, E::Member { .. } | E::Index(..))
            || matches!(&of.kind, E::Name(name) if self.function.local(name).is_none()
                && matches!(self.symbols.get(name), Some((super::checker::Symbol::Data(_), _))));
        if !is_place || self.is_object_attribute(of) || !self.is_rooted_in_data(of) {
            return Ok(None);
        }
        match self.place(of)? {
            Place::Shared { shared, values } => Ok(Some((shared, values))),
            _ => Ok(None),
        }
    }

    /// Returns whether a place is in shared data, or may be.
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
    fn bytes(&mut self, argument: &Expression, is_written: bool, call: &mut Call) -> Understood<()> {
        if let Some((shared, values)) = self.shared_place(argument)?
            && (!matches!(shared.r#type, Type::Integer(_)) || matches!(argument.kind, E::Unary(U::AddressOf, _)))
        {
            if is_written && shared.area == Area::Mount {
                let what = "what was given when it was mounted does not change";
                self.wrong(Code::BadType, what, argument.span);
                return Err(Wrong);
            }
            call.operands.push(Operand::Shared(shared));
            call.values.extend(values);
            return Ok(());
        }
        let value = self.value(argument)?;
        match &value.r#type {
            Type::Pointer { is_const: true, .. } if is_written => {
                self.wrong(Code::BadType, "this is written to, and is `const`", argument.span);
                Err(Wrong)
            }
            Type::Pointer { .. } => {
                call.push(Operand::Pointer(self.whole_of(argument)), value.made);
                Ok(())
            }
            _ if value.made == Made::integer(0) => {
                call.push(Operand::Pointer(None), value.made);
                Ok(())
            }
            other => {
                let what = format!("memory is expected, and this is `{}`", self.describe(other));
                self.wrong(Code::BadType, what, argument.span);
                Err(Wrong)
            }
        }
    }

    /// The type of the array, or of the operand of the address expression, that an argument consists of.
    fn whole_of(&mut self, argument: &Expression) -> Option<Type> {
        let (of, is_address) = match &argument.kind {
            E::Unary(U::AddressOf, of) => (&**of, true),
            _ => (argument, false),
        };
        if !matches!(of.kind, E::Name(_) | E::Member { .. } | E::Index(..)) || self.is_object_attribute(of) {
            return None;
        }
        // Errors in it have been reported.
        let before = self.diagnostics.len();
        let place = self.place(of);
        self.diagnostics.truncate(before);
        match place {
            // From an element on, the rest of the array.
            Ok(Place::Memory { .. }) if matches!(of.kind, E::Index(..)) => None,
            Ok(Place::Memory { r#type: r#type @ (Type::Array(..) | Type::Structure(_)), .. }) => Some(r#type),
            Ok(Place::Memory { r#type, .. }) if is_address => Some(r#type),
            _ => None,
        }
    }

    /// Lowers an out-parameter: a variable, or its address.
    fn answer(&mut self, argument: &Expression, call: &mut Call) -> Understood<()> {
        let is_bytes = call.field_type(self).is_some_and(|r#type| !matches!(r#type, Type::Integer(_)));
        if is_bytes {
            return self.bytes(argument, true, call);
        }
        let of = match &argument.kind {
            E::Unary(U::AddressOf, of) => of,
            _ => argument,
        };
        match self.place(of)? {
            Place::Memory { pointer, r#type: Type::Integer(integer), is_const: false } => {
                call.push(Operand::Answer(integer), pointer);
                Ok(())
            }
            Place::Memory { pointer, r#type: Type::Pointer { to, is_const: false }, .. } => match *to {
                Type::Integer(integer) => {
                    let to = Type::Pointer { to: to.clone(), is_const: false };
                    let made = Made::Load(Box::new(pointer), to, argument.span);
                    call.push(Operand::Answer(integer), made);
                    Ok(())
                }
                _ => self.no_answer(argument.span),
            },
            Place::Register(register, Type::Pointer { to, is_const: false }) => match *to {
                Type::Integer(integer) => {
                    call.push(Operand::Answer(integer), Made::Register(register));
                    Ok(())
                }
                _ => self.no_answer(argument.span),
            },
            Place::Shared { shared: shared @ Shared { r#type: Type::Integer(_), .. }, values } => {
                call.operands.push(Operand::SharedAnswer(shared));
                call.values.extend(values);
                Ok(())
            }
            _ => self.no_answer(argument.span),
        }
    }

    fn no_answer<T>(&mut self, span: Span) -> Understood<T> {
        self.wrong(Code::BadType, "the answer goes to an integer variable", span);
        Err(Wrong)
    }

    fn structure_name(&mut self, parameter: Parameter, argument: &Expression, call: &mut Call) -> Understood<()> {
        let E::Name(name) = &argument.kind else {
            self.wrong(Code::BadCall, "the name of declared data is expected", argument.span);
            return Err(Wrong);
        };
        let found = if parameter == Parameter::Ioctl {
            self.level.ioctls.iter().find(|ioctl| ioctl.name == *name).map(|ioctl| ioctl.structure)
        } else {
            self.level.formats.iter().copied().find(|format| self.structure(*format).name == *name)
        };
        let Some(structure) = found else {
            let kind = if parameter == Parameter::Ioctl { "ioctl" } else { "fileformat" };
            let what = format!("no {kind} `{name}` is declared");
            self.wrong(Code::UnknownName, what, argument.span).remedy =
                Some(format!("declare `{kind} {name} {{ … }};`"));
            return Err(Wrong);
        };
        call.structure = Some((structure, None));
        Ok(())
    }

    fn field_name(&mut self, argument: &Expression, call: &mut Call) -> Understood<()> {
        let (E::Name(name), Some((structure, _))) = (&argument.kind, call.structure) else {
            self.wrong(Code::BadCall, "the name of a field is expected", argument.span);
            return Err(Wrong);
        };
        let (field, _) = self.field(structure, &Name::new(name.clone(), argument.span))?;
        call.structure = Some((structure, Some(field)));
        call.operands.push(Operand::Field(field));
        Ok(())
    }

    /// Checks the format of a message, which must be constant and match its values.
    fn format(&mut self, format: &Expression, values: &[Expression], call: &mut Call) -> Understood<Vec<u8>> {
        let E::Text(text) = &format.kind else {
            self.wrong(Code::BadCall, "the format of a message is a string that is written here", format.span)
                .remedy("write fistPrintf(\"%s\", …) to print a string");
            return Err(Wrong);
        };
        let conversions = match crate::format::conversions(text) {
            Ok(conversions) => conversions,
            Err(what) => {
                self.wrong(Code::BadCall, what, format.span);
                return Err(Wrong);
            }
        };
        if let Some(missing) = values.iter().find(|value| is_left_out(value)) {
            self.wrong(Code::BadCall, "a value for the format is left out", missing.span);
            return Err(Wrong);
        }
        if conversions.len() != values.len() {
            let what =
                format!("the format has {} conversions, and there are {} values", conversions.len(), values.len());
            self.wrong(Code::BadCall, what, format.span);
            return Err(Wrong);
        }
        for (conversion, value) in conversions.iter().zip(values) {
            if conversion.is_text() {
                self.bytes(value, false, call)?;
            } else {
                let (made, integer) = self.integer(value)?;
                call.push(Operand::Integer(integer), made);
            }
        }
        Ok(text.clone())
    }
}

/// Returns whether an argument before another is omitted: the parser represents it as an empty name.
pub(crate) fn is_left_out(argument: &Expression) -> bool {
    matches!(&argument.kind, E::Name(name) if name.is_empty())
}

/// A call of a built-in function, as checked so far.
struct Call {
    operands: Vec<Operand>,
    values: Vec<Made>,
    /// The structure whose field is named, and the field.
    structure: Option<(usize, Option<FieldOf>)>,
}

impl Call {
    fn push(&mut self, operand: Operand, value: Made) {
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
    let most = signature.parameters.len();
    match signature.parameters.last() {
        Some((_, Parameter::Values)) => format!("{} or more", signature.needed),
        _ if signature.needed == most => most.to_string(),
        _ => format!("{} to {most}", signature.needed),
    }
}

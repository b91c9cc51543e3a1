//! Functions: their signatures, the scopes of their variables, and their bodies.

use std::collections::HashSet;
use std::rc::Rc;

use super::checker::{CheckResult, Checker, Symbol};
use super::scope::{Local, Scope, Signature};
use crate::builtins::{self, Parameter};
use crate::diagnostic::Code;
use crate::interpreter::MAX_CALL_DEPTH;
use crate::ir::{self, Constant, Register, Type};
use crate::limits::{MAX_FUNCTIONS, MAX_LOWERED_EXPRESSIONS, MAX_PARAMETERS};
use crate::prepare;
use crate::text::Span;
use crate::tree::{Block, Expression, ExpressionKind as E, Function, Item, ItemKind, UnaryOperator, Variable};
use crate::walk;
use crate::weight::set_fuel_costs;

/// Maximum total size of the objects of a function in bytes.
const MAX_FUNCTION_OBJECT_BYTES: u64 = 1 << 20;

impl Checker {
    /// Declares a function, so that code before it can call it.
    pub(crate) fn declare_function(&mut self, function: &Function) -> CheckResult<()> {
        let result = self.base_type(&function.result, function.result_pointers)?;
        if matches!(result, Type::Structure(_) | Type::Array(..)) {
            self.error(Code::NotSupported, "a function cannot answer a structure", function.name.span).remedy =
                Some("give it a pointer to where the answer goes".into());
        }
        let name_span = function.name.span;
        self.check_count(function.parameters.len(), MAX_PARAMETERS, "parameters of a function", name_span)?;
        let mut parameters = Vec::new();
        for parameter in &function.parameters {
            parameters.push(self.parameter_type(parameter)?);
        }
        let is_defined = function.body.is_some();
        let signature = Signature { parameters, result, span: function.name.span };
        let name = &function.name.value;
        if let Some((Symbol::Function(index), _)) = self.symbols.get(name) {
            let (index, before) = (*index, Rc::clone(&self.signatures[*index]));
            if (before.parameters != signature.parameters || before.result != signature.result)
                || (self.defined[index] && is_defined)
            {
                let what = format!("`{name}` is defined twice, or not as it was announced");
                self.error(Code::Twice, what, function.name.span).and(before.span, "the first is here");
            }
            self.defined[index] |= is_defined;
            return Ok(());
        }
        if builtins::function(name).is_some() {
            let what = format!("`{name}` is a function of the language");
            self.error(Code::Twice, what, function.name.span).remedy = Some("give it another name".into());
        }
        self.check_count(self.signatures.len() + 1, MAX_FUNCTIONS, "functions", function.name.span)?;
        self.define_name(name, Symbol::Function(self.signatures.len()), function.name.span);
        self.signatures.push(Rc::new(signature));
        self.defined.push(is_defined);
        self.program.functions.push(ir::Function { name: name.clone(), ..ir::Function::default() });
        Ok(())
    }

    /// Adjusts an array parameter to a pointer to its elements, as in C; but `page_t` is a type of its own.
    fn parameter_type(&mut self, parameter: &Variable) -> CheckResult<Type> {
        let is_const = parameter.r#type.is_const;
        let span = parameter.span;
        let mut base = self.base_type(&parameter.r#type, parameter.pointers)?;
        if parameter.lengths.is_empty() {
            if matches!(base, Type::Structure(_) | Type::Array(..)) {
                self.error(Code::NotSupported, "a function is not given a structure whole", parameter.span).remedy =
                    Some("give it a pointer to it".into());
            }
            return Ok(base);
        }
        self.check_type_depth(&base, parameter.lengths.len(), span)?;
        for length in parameter.lengths[1..].iter().rev() {
            let length = match length {
                Some(length) => self.length(length)?,
                None => Constant::Integer(1),
            };
            base = Type::Array(Box::new(base), length);
        }
        Ok(Type::Pointer { to: Box::new(base), is_const })
    }

    /// Checks the bodies of all functions.
    pub(crate) fn define_functions(&mut self, items: &[Item]) {
        for item in items {
            if let ItemKind::Function(function) = &item.kind
                && let Some(body) = &function.body
                && let Some((Symbol::Function(index), _)) = self.symbols.get(&function.name.value)
            {
                let index = *index;
                self.define_function(index, function, body, item.span);
            }
        }
    }

    fn define_function(&mut self, index: usize, function: &Function, body: &Block, span: Span) {
        let signature = Rc::clone(&self.signatures[index]);
        let parameters = function.parameters.iter().zip(&signature.parameters);
        let registers = parameters.map(|(parameter, r#type)| ir::Variable {
            name: parameter.name.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
            r#type: r#type.clone(),
        });
        self.function = Scope {
            function: ir::Function {
                name: function.name.value.clone(),
                comments: self.comments.before(span),
                result: signature.result.clone(),
                parameters: function.parameters.len(),
                registers: registers.collect(),
                span,
                ..ir::Function::default()
            },
            result: Some(signature.result.clone()),
            address_taken: address_taken(body),
            blocks: vec![Vec::new()],
            ..Scope::default()
        };
        let mut begin = Vec::new();
        for (register, parameter) in function.parameters.iter().enumerate() {
            let Some(r#type) = signature.parameters.get(register) else { continue };
            let Some(name) = &parameter.name else { continue };
            let local = self.parameter(register, r#type.clone(), &name.value, &mut begin);
            self.function.declare(&name.value, local, name.span);
        }
        let lowered = self.finish(begin, body);
        self.program.functions[index] = lowered;
        self.warn_about_constant_vectors(body, &function.parameters);
    }

    /// Copies a parameter to memory if its address is taken.
    fn parameter(&mut self, register: Register, r#type: Type, name: &str, begin: &mut Vec<ir::Statement>) -> Local {
        if self.integer_of(&r#type).is_none() || !self.function.address_taken.contains(name) {
            return Local::Register(register, r#type);
        }
        let object = self.function.object(name, r#type.clone());
        let (pointer, value) = (ir::Expression::Object(object), ir::Expression::Register(register));
        let store = ir::Expression::Store(Box::new(pointer), r#type.clone(), Box::new(value), Span::default());
        begin.push(ir::Statement::Expression(store));
        Local::Object(object, r#type)
    }

    /// Checks the body of the current function.
    pub(crate) fn finish(&mut self, mut begin: Vec<ir::Statement>, body: &Block) -> ir::Function {
        self.comments.begin(body.span);
        begin.extend(self.block(body));
        let mut lowered = std::mem::take(&mut self.function).function;
        lowered.body = begin;
        // Errors in it have been reported: it may not be lowerable to code then.
        let Ok(mut code) = prepare::function(&lowered, &self.layout) else { return lowered };
        if code.objects.iter().sum::<u64>() > MAX_FUNCTION_OBJECT_BYTES {
            let what =
                format!("the variables of `{}` take more than {} MiB", lowered.name, MAX_FUNCTION_OBJECT_BYTES >> 20);
            self.error(Code::BadType, what, lowered.span).remedy = Some("use fistMalloc for what is large".into());
        }
        self.lowered_count = self.lowered_count.saturating_add(set_fuel_costs(&mut code));
        if self.lowered_count > MAX_LOWERED_EXPRESSIONS {
            let _ = self.check_count(
                usize::MAX,
                MAX_LOWERED_EXPRESSIONS as usize,
                "expressions in all functions",
                lowered.span,
            );
        }
        if code.depth > MAX_CALL_DEPTH {
            self.error(Code::TooDeep, format!("`{}` is nested too deeply to be run", lowered.name), lowered.span)
                .remedy = Some("make a function of a part of it".into());
        }
        lowered
    }

    /// Reports functions that are declared, and perhaps called, but nowhere defined.
    pub(crate) fn report_undefined_functions(&mut self) {
        for index in 0..self.signatures.len() {
            if !self.defined[index] {
                let what = format!("`{}` is announced and nowhere defined", self.program.functions[index].name);
                self.error(Code::UnknownName, what, self.signatures[index].span);
            }
        }
    }
}

/// The names of a function's variables whose address is taken, or that built-in functions write results to.
pub(crate) fn address_taken(body: &Block) -> HashSet<String> {
    let mut names = HashSet::new();
    walk::block(body, &mut |expression| match &expression.kind {
        E::Unary(UnaryOperator::AddressOf, of) => names.extend(walk::root(of).map(str::to_owned)),
        E::Call { function, arguments } => {
            each_argument(&function.value, arguments, |parameter, argument| {
                if parameter == Parameter::OutInteger {
                    names.extend(walk::root(argument).map(str::to_owned));
                }
            });
        }
        _ => {}
    });
    names
}

/// The arguments of a call of a built-in function, each with its parameter.
pub(crate) fn each_argument<'a>(
    name: &str,
    arguments: &'a [Expression],
    mut visit: impl FnMut(Parameter, &'a Expression),
) {
    let Some(signature) = builtins::function(name) else { return };
    let last = signature.parameters.last().map(|(_, parameter)| *parameter);
    for (index, argument) in arguments.iter().enumerate() {
        let parameter = signature.parameters.get(index).map(|(_, parameter)| *parameter);
        if let Some(parameter) = parameter.or(last.filter(|last| *last == Parameter::Values)) {
            visit(parameter, argument);
        }
    }
}

/// Collects the names of data that this block writes to.
pub(crate) fn written_names(body: &Block, names: &mut HashSet<String>) {
    walk::block(body, &mut |expression| match &expression.kind {
        E::Assign(_, target, _) | E::Step { target, .. } => names.extend(walk::root(target).map(str::to_owned)),
        E::Call { function, arguments } => each_argument(&function.value, arguments, |parameter, argument| {
            if matches!(parameter, Parameter::OutInteger | Parameter::Output) {
                let argument = match &argument.kind {
                    E::Unary(UnaryOperator::AddressOf, of) => of,
                    _ => argument,
                };
                names.extend(walk::root(argument).map(str::to_owned));
            }
        }),
        _ => {}
    });
}

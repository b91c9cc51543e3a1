//! The state of a check: declarations and lowered code so far, and the diagnostics.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::comments::Comments;
use super::scope::{Scope, Signature};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{self, Constant, Data, Expression as IrExpression, Integer, Site, Structure, Type};
use crate::limits::{MAX_DATA_BYTES, MAX_DATA_OBJECTS, MAX_EXPRESSION_VISITS};
use crate::prepare::Layout;
use crate::target::Target;
use crate::text::Span;

/// A semantic error that has already been reported.
pub(crate) struct ErrorReported;

pub(crate) type CheckResult<T> = Result<T, ErrorReported>;

/// The meaning of a name at file scope.
#[derive(Clone, Debug)]
pub(crate) enum Symbol {
    /// A number, and its type.
    Constant(Constant, Integer),
    /// Data of the program, by index.
    Data(usize),
    /// A function, by its index.
    Function(usize),
}

/// Locations of the filter declarations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filters {
    pub(crate) data: Option<Span>,
    pub(crate) name: Option<Span>,
    pub(crate) size: Option<Span>,
}

pub(crate) struct Checker {
    pub(crate) program: ir::Program,
    /// The declarations and rules.
    pub(crate) level: ir::Level,
    /// Sizes and constants on this machine, used for checking.
    pub(crate) layout: Layout,
    pub(crate) filters: Filters,
    /// Names of data that the program writes to.
    pub(crate) written: HashSet<String>,
    /// Error numbers that the program assigns explicitly.
    pub(crate) explicit_error_numbers: Vec<i32>,
    /// Ioctl numbers that the program assigns explicitly.
    pub(crate) explicit_ioctl_numbers: HashSet<u32>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) comments: Comments,
    pub(crate) symbols: HashMap<String, (Symbol, Span)>,
    pub(crate) aliases: HashMap<String, Type>,
    pub(crate) structures: HashMap<String, usize>,
    /// Signatures of the functions, in the order of the program's functions.
    pub(crate) signatures: Vec<Rc<Signature>>,
    /// Whether each of them has a body.
    pub(crate) defined: Vec<bool>,
    /// Index of each intrinsic or host call in the program.
    pub(crate) sites: HashMap<Site, usize>,
    /// Index of the data object of each string, by its bytes.
    pub(crate) strings: HashMap<Vec<u8>, usize>,
    /// Total size of the data in bytes.
    pub(crate) data_bytes: u64,
    /// Number of expressions visited, and number lowered.
    pub(crate) visited_count: u32,
    pub(crate) lowered_count: u64,
    /// Exceeded limits, each reported once; kept apart from the other diagnostics, which may be rolled back.
    pub(crate) exceeded_limits: Vec<(&'static str, Diagnostic)>,
    /// The function that is being checked.
    pub(crate) function: Scope,
}

impl Checker {
    /// Creates the state for a program of this name, with the predefined names and types.
    pub(crate) fn new(name: &str, symbols: HashMap<String, (Symbol, Span)>, aliases: HashMap<String, Type>) -> Checker {
        Checker {
            program: ir::Program::default(),
            level: ir::Level::new(name),
            layout: Layout::new(&Target::host()),
            filters: Filters::default(),
            written: HashSet::new(),
            explicit_error_numbers: Vec::new(),
            explicit_ioctl_numbers: HashSet::new(),
            diagnostics: Vec::new(),
            comments: Comments::default(),
            symbols,
            aliases,
            structures: HashMap::new(),
            signatures: Vec::new(),
            defined: Vec::new(),
            sites: HashMap::new(),
            strings: HashMap::new(),
            data_bytes: 0,
            visited_count: 0,
            lowered_count: 0,
            exceeded_limits: Vec::new(),
            function: Scope::default(),
        }
    }

    /// Evaluates a constant expression for this machine.
    pub(crate) fn constant_value(&self, lowered: &IrExpression) -> Option<i64> {
        self.layout.value(lowered)
    }

    pub(crate) fn error(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::error(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    pub(crate) fn warn(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::warning(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    /// Checks a count against a limit; reports the first excess.
    pub(crate) fn check_count(&mut self, count: usize, most: usize, what: &'static str, span: Span) -> CheckResult<()> {
        if count <= most {
            return Ok(());
        }
        if self.exceeded_limits.iter().all(|(other, _)| *other != what) {
            let mut problem = Diagnostic::error(Code::TooMany, format!("there are more than {most} {what}"), span);
            problem.remedy("make several descriptions of it, and stack them");
            self.exceeded_limits.push((what, problem));
        }
        Err(ErrorReported)
    }

    /// Counts a visited expression. Some are visited more than once, including their operands: hence the limit.
    pub(crate) fn count_visit(&mut self, span: Span) -> CheckResult<()> {
        self.visited_count = self.visited_count.saturating_add(1);
        self.check_count(
            self.visited_count as usize,
            MAX_EXPRESSION_VISITS as usize,
            "expressions, as often as they are looked at",
            span,
        )
    }

    /// Checks that there is room for data of this size.
    pub(crate) fn reserve_data(&mut self, bytes: u64, span: Span) -> CheckResult<()> {
        self.check_count(self.program.data.len() + 1, MAX_DATA_OBJECTS, "data and strings", span)?;
        let all = self.data_bytes.saturating_add(bytes);
        self.check_count(all as usize, MAX_DATA_BYTES as usize, "bytes of data and strings", span)?;
        self.data_bytes = all;
        Ok(())
    }

    /// Defines a name at file scope; reports a duplicate.
    pub(crate) fn define_name(&mut self, name: &str, symbol: Symbol, span: Span) {
        if let Some((_, before)) = self.symbols.insert(name.to_owned(), (symbol, span)) {
            let what = format!("`{name}` has two meanings");
            let diagnostic = self.error(Code::Twice, what, span);
            match before == Span::default() {
                true => diagnostic.label = Some("every description has one of this name".into()),
                false => diagnostic.related.push((before, "the first is here".into())),
            }
        }
    }

    pub(crate) fn structure(&self, index: usize) -> &Structure {
        &self.program.structures[index]
    }

    pub(crate) fn data(&self, index: usize) -> &Data {
        &self.program.data[index]
    }
}

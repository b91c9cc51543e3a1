//! The state of a check: declarations and lowered code so far, and the diagnostics.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::comments::Comments;
use super::scope::{Scope, Signature};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{self, Constant, Data, Expression as Made, Integer, Site, Structure, Type};
use crate::limits::{CHECKS_MAX, DATA_BYTES_MAX, DATA_MAX};
use crate::prepare::Layout;
use crate::target::Target;
use crate::text::Span;

/// A semantic error that has already been reported.
pub(crate) struct Wrong;

pub(crate) type Understood<T> = Result<T, Wrong>;

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
    pub(crate) given_errors: Vec<i32>,
    /// Ioctl numbers that the program assigns explicitly.
    pub(crate) given_ioctls: HashSet<u32>,
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
    pub(crate) looked_at: u32,
    pub(crate) made: u64,
    /// Exceeded limits, each reported once; kept apart from the other diagnostics, which may be rolled back.
    pub(crate) too_many: Vec<(&'static str, Diagnostic)>,
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
            given_errors: Vec::new(),
            given_ioctls: HashSet::new(),
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
            looked_at: 0,
            made: 0,
            too_many: Vec::new(),
            function: Scope::default(),
        }
    }

    /// Evaluates a constant expression for this machine.
    pub(crate) fn known(&self, made: &Made) -> Option<i64> {
        self.layout.value(made)
    }

    pub(crate) fn wrong(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::error(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    pub(crate) fn warn(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::warning(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    /// Checks a count against a limit; reports the first excess.
    pub(crate) fn not_too_many(&mut self, count: usize, most: usize, what: &'static str, span: Span) -> Understood<()> {
        if count <= most {
            return Ok(());
        }
        if self.too_many.iter().all(|(other, _)| *other != what) {
            let mut problem = Diagnostic::error(Code::TooMany, format!("there are more than {most} {what}"), span);
            problem.remedy("make several descriptions of it, and stack them");
            self.too_many.push((what, problem));
        }
        Err(Wrong)
    }

    /// Counts a visited expression. Some are visited more than once, including their operands: hence the limit.
    pub(crate) fn looks_at(&mut self, span: Span) -> Understood<()> {
        self.looked_at = self.looked_at.saturating_add(1);
        self.not_too_many(
            self.looked_at as usize,
            CHECKS_MAX as usize,
            "expressions, as often as they are looked at",
            span,
        )
    }

    /// Checks that there is room for data of this size.
    pub(crate) fn has_room(&mut self, bytes: u64, span: Span) -> Understood<()> {
        self.not_too_many(self.program.data.len() + 1, DATA_MAX, "data and strings", span)?;
        let all = self.data_bytes.saturating_add(bytes);
        self.not_too_many(all as usize, DATA_BYTES_MAX as usize, "bytes of data and strings", span)?;
        self.data_bytes = all;
        Ok(())
    }

    /// Defines a name at file scope; reports a duplicate.
    pub(crate) fn name(&mut self, name: &str, symbol: Symbol, span: Span) {
        if let Some((_, before)) = self.symbols.insert(name.to_owned(), (symbol, span)) {
            let what = format!("`{name}` has two meanings");
            let diagnostic = self.wrong(Code::Twice, what, span);
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

//! The state of a check: what has been declared and made so far, and what has been told.

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

/// Something could not be understood; it has been told.
pub(super) struct Wrong;

pub(super) type Understood<T> = Result<T, Wrong>;

/// What a name outside of functions stands for.
#[derive(Clone, Debug)]
pub(super) enum Symbol {
    /// A number, and its type.
    Constant(Constant, Integer),
    /// Data of the description, by their index.
    Data(usize),
    /// A function, by its index.
    Function(usize),
}

/// Where filters are declared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filters {
    pub(super) data: Option<Span>,
    pub(super) name: Option<Span>,
    pub(super) size: Option<Span>,
}

pub(super) struct Checker {
    pub(super) program: ir::Program,
    /// What is declared, and the rules.
    pub(super) level: ir::Level,
    /// What sizes and constants are on this machine, for what is checked.
    pub(super) layout: Layout,
    pub(super) filters: Filters,
    /// Names of data that something writes to.
    pub(super) written: HashSet<String>,
    /// Numbers that the description gives errors.
    pub(super) given_errors: Vec<i32>,
    /// Numbers that the description gives ioctls.
    pub(super) given_ioctls: HashSet<u32>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) comments: Comments,
    pub(super) symbols: HashMap<String, (Symbol, Span)>,
    pub(super) aliases: HashMap<String, Type>,
    pub(super) structures: HashMap<String, usize>,
    /// What functions are given and answer, in the order of the program's functions.
    pub(super) signatures: Vec<Rc<Signature>>,
    /// Which of them have a body.
    pub(super) defined: Vec<bool>,
    /// The program's sites, by what they ask for.
    pub(super) sites: HashMap<Site, usize>,
    /// Strings, by their bytes: the data that they are.
    pub(super) strings: HashMap<Vec<u8>, usize>,
    /// Bytes of data.
    pub(super) data_bytes: u64,
    /// How many expressions have been looked at, and made.
    pub(super) looked_at: u32,
    pub(super) made: u64,
    /// What there is too much of, each told once: beside the others, which may be taken back.
    pub(super) too_many: Vec<(&'static str, Diagnostic)>,
    /// The function that is being checked.
    pub(super) function: Scope,
}

impl Checker {
    /// For a description of this name, with the names and types that every description has.
    pub(super) fn new(name: &str, symbols: HashMap<String, (Symbol, Span)>, aliases: HashMap<String, Type>) -> Checker {
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

    /// What an expression is on this machine, if it is made of constants.
    pub(super) fn known(&self, made: &Made) -> Option<i64> {
        self.layout.value(made)
    }

    pub(super) fn wrong(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::error(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    pub(super) fn warn(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::warning(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    /// Whether there may be so many of something; the first that is too much is told.
    pub(super) fn not_too_many(&mut self, count: usize, most: usize, what: &'static str, span: Span) -> Understood<()> {
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

    /// Counts an expression that is looked at. Some are looked at more than once, and those in them too: so there is a limit.
    pub(super) fn looks_at(&mut self, span: Span) -> Understood<()> {
        self.looked_at = self.looked_at.saturating_add(1);
        self.not_too_many(
            self.looked_at as usize,
            CHECKS_MAX as usize,
            "expressions, as often as they are looked at",
            span,
        )
    }

    /// Whether there is room for data of so many bytes.
    pub(super) fn has_room(&mut self, bytes: u64, span: Span) -> Understood<()> {
        self.not_too_many(self.program.data.len() + 1, DATA_MAX, "data and strings", span)?;
        let all = self.data_bytes.saturating_add(bytes);
        self.not_too_many(all as usize, DATA_BYTES_MAX as usize, "bytes of data and strings", span)?;
        self.data_bytes = all;
        Ok(())
    }

    /// Gives a name outside of functions its meaning; another that it had is told.
    pub(super) fn name(&mut self, name: &str, symbol: Symbol, span: Span) {
        if let Some((_, before)) = self.symbols.insert(name.to_owned(), (symbol, span)) {
            let what = format!("`{name}` has two meanings");
            let diagnostic = self.wrong(Code::Twice, what, span);
            match before == Span::default() {
                true => diagnostic.label = Some("every description has one of this name".into()),
                false => diagnostic.related.push((before, "the first is here".into())),
            }
        }
    }

    pub(super) fn structure(&self, index: usize) -> &Structure {
        &self.program.structures[index]
    }

    pub(super) fn data(&self, index: usize) -> &Data {
        &self.program.data[index]
    }
}

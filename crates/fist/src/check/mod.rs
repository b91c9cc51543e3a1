//! The checker: from the tree to the intermediate form, with everything told that is wrong.

mod cautions;
mod comments;
pub(crate) mod constants;
mod declarations;
mod expressions;
mod functions;
mod initial;
pub(crate) mod operands;
mod places;
mod rules;
mod statements;
mod types;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::ir::{self, Constant, Data, Expression as Made, Integer, Site, Structure, Type};
use crate::limits::{CHECKS_MAX, DATA_BYTES_MAX, DATA_MAX};
use crate::prepare::Layout;
use crate::program::Program;
use crate::target::Target;
use crate::text::{Span, Spanned};
use crate::tree::{Description, ItemKind};
use comments::Comments;

/// What became of a description.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What it says, if nothing is wrong.
    pub ir: Option<ir::Program>,
    /// The same, prepared for this machine: what can be run.
    pub program: Option<Program>,
    /// What is wrong, and what may be, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks a description that is called `name`: its filter functions begin with that.
pub fn check(description: &Description, name: &str) -> Checked {
    check_commented(description, name, Vec::new())
}

/// The same, of a description with these comments, in the order of the text: they are kept.
pub fn check_commented(description: &Description, name: &str, comments: Vec<Spanned<String>>) -> Checked {
    let mut checker = Checker::new(name);
    checker.comments = Comments::new(comments, description);
    checker.level.comments = checker.comments.of_declarations(description);
    checker.declare(description);
    checker.define(description);
    let too_many = std::mem::take(&mut checker.too_many).into_iter().map(|(_, problem)| problem);
    checker.diagnostics.extend(too_many);
    let program = checker.prepare();
    if let Some(program) = &program {
        checker.find_costs(program);
    }
    let Checker { program: ir, mut diagnostics, .. } = checker;
    diagnostics.sort_by_key(|diagnostic| diagnostic.span);
    Checked { ir: program.is_some().then_some(ir), program, diagnostics }
}

/// The number of an error by its name on Linux: `EACCES`.
pub fn error_number(name: &str) -> Option<i32> {
    constants::ERRORS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// Something could not be understood; it has been told.
struct Wrong;

type Understood<T> = Result<T, Wrong>;

/// What a name outside of functions stands for.
#[derive(Clone, Debug)]
enum Symbol {
    /// A number, and its type.
    Constant(Constant, Integer),
    /// Data of the description, by their index.
    Data(usize),
    /// A function, by its index.
    Function(usize),
}

/// Where filters are declared.
#[derive(Clone, Copy, Debug, Default)]
struct Filters {
    data: Option<Span>,
    name: Option<Span>,
    size: Option<Span>,
}

struct Checker {
    program: ir::Program,
    /// What is declared, and the rules.
    level: ir::Level,
    /// What sizes and constants are on this machine, for what is checked.
    layout: Layout,
    filters: Filters,
    /// Names of data that something writes to.
    written: HashSet<String>,
    /// Numbers that the description gives errors.
    given_errors: Vec<i32>,
    /// Numbers that the description gives ioctls.
    given_ioctls: HashSet<u32>,
    diagnostics: Vec<Diagnostic>,
    comments: Comments,
    symbols: HashMap<String, (Symbol, Span)>,
    aliases: HashMap<String, Type>,
    structures: HashMap<String, usize>,
    /// What functions are given and answer, in the order of the program's functions.
    signatures: Vec<Rc<functions::Signature>>,
    /// Which of them have a body.
    defined: Vec<bool>,
    /// The program's sites, by what they ask for.
    sites: HashMap<Site, usize>,
    /// Strings, by their bytes: the data that they are.
    strings: HashMap<Vec<u8>, usize>,
    /// Bytes of data.
    data_bytes: u64,
    /// How many expressions have been looked at, and made.
    looked_at: u32,
    made: u64,
    /// What there is too much of, each told once: beside the others, which may be taken back.
    too_many: Vec<(&'static str, Diagnostic)>,
    /// The function that is being checked.
    function: functions::Scope,
}

impl Checker {
    fn new(name: &str) -> Checker {
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
            symbols: constants::known(),
            aliases: types::known(),
            structures: HashMap::new(),
            signatures: Vec::new(),
            defined: Vec::new(),
            sites: HashMap::new(),
            strings: HashMap::new(),
            data_bytes: 0,
            looked_at: 0,
            made: 0,
            too_many: Vec::new(),
            function: functions::Scope::default(),
        }
    }

    /// What is declared in any section: rules and functions may use what stands behind them.
    fn declare(&mut self, description: &Description) {
        for rule in &description.rules {
            functions::written(&rule.body, &mut self.written);
        }
        for item in description.preamble.iter().chain(&description.code) {
            if let ItemKind::Function(tree) = &item.kind {
                tree.body.iter().for_each(|body| functions::written(body, &mut self.written));
            }
        }
        self.declare_items(&description.preamble);
        self.declare_declarations(description);
        self.declare_items(&description.code);
    }

    fn define(&mut self, description: &Description) {
        self.define_functions(&description.preamble);
        self.define_functions(&description.code);
        self.define_rules(&description.rules);
        self.find_filters();
        self.find_undefined();
    }

    /// What can be run on this machine, if nothing is wrong.
    fn prepare(&mut self) -> Option<Program> {
        if self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            return None;
        }
        self.program = std::mem::take(&mut self.program).with_level(self.level.clone());
        match self.program.prepare(&self.layout.target) {
            Ok(program) => Some(program),
            Err(unfit) => {
                self.wrong(Code::BadConstant, unfit.to_string(), Span::default());
                None
            }
        }
    }

    /// What an expression is on this machine, if it is made of constants.
    fn known(&self, made: &Made) -> Option<i64> {
        self.layout.value(made)
    }

    fn wrong(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::error(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    fn warn(&mut self, code: Code, message: impl Into<String>, span: Span) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::warning(code, message, span));
        self.diagnostics.last_mut().expect("one was just put there")
    }

    /// Whether there may be so many of something; the first that is too much is told.
    fn not_too_many(&mut self, count: usize, most: usize, what: &'static str, span: Span) -> Understood<()> {
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
    fn looks_at(&mut self, span: Span) -> Understood<()> {
        self.looked_at = self.looked_at.saturating_add(1);
        self.not_too_many(
            self.looked_at as usize,
            CHECKS_MAX as usize,
            "expressions, as often as they are looked at",
            span,
        )
    }

    /// Whether there is room for data of so many bytes.
    fn has_room(&mut self, bytes: u64, span: Span) -> Understood<()> {
        self.not_too_many(self.program.data.len() + 1, DATA_MAX, "data and strings", span)?;
        let all = self.data_bytes.saturating_add(bytes);
        self.not_too_many(all as usize, DATA_BYTES_MAX as usize, "bytes of data and strings", span)?;
        self.data_bytes = all;
        Ok(())
    }

    /// Gives a name outside of functions its meaning; another that it had is told.
    fn name(&mut self, name: &str, symbol: Symbol, span: Span) {
        if let Some((_, before)) = self.symbols.insert(name.to_owned(), (symbol, span)) {
            let what = format!("`{name}` has two meanings");
            let diagnostic = self.wrong(Code::Twice, what, span);
            match before == Span::default() {
                true => diagnostic.label = Some("every description has one of this name".into()),
                false => diagnostic.related.push((before, "the first is here".into())),
            }
        }
    }

    fn structure(&self, index: usize) -> &Structure {
        &self.program.structures[index]
    }

    fn data(&self, index: usize) -> &Data {
        &self.program.data[index]
    }
}

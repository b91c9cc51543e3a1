//! A loaded FiST module, ready to run: its rules by operation, its data, and its declarations.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::fist::budget::Budget;
use ::fist::calls::{Calls, Host};
use ::fist::code::{Argument, Integer, Operand, Role, Site};
use ::fist::compiler::Compiled;
use ::fist::idle;
use ::fist::ir;
use ::fist::memory::Memory;
use ::fist::operations::{self, OPERATIONS, Part};
use ::fist::program::{Field, Level, Program, Rule, Type};
use ::fist::reach;
use ::fist::target::Target;
use ::fist::trap::{Trap, TrapKind};
use ::fist::tree::{Access, Direction};
use vnode::layer::Operation;
use vnode::{AccessControl, Errno, Needs, Promises, Properties, Result, TimesTell};

use super::intern::intern;
use super::options::{self, Tier};
use crate::OptionError;

/// Maximum number of bytes that all runs of a module on a mount have allocated at a time, besides the first 64 KiB of
/// each.
const MAX_HEAP_BYTES: u64 = 256 << 20;
/// Maximum number of bytes of the `%per_vnode` fields of all objects in use.
const MAX_OBJECT_STATE_BYTES: u64 = 256 << 20;

/// Data that operations share; each access is atomic.
pub(crate) type SharedData = Arc<Mutex<Vec<u8>>>;

/// A loaded FiST module, ready to run.
#[derive(Clone)]
pub(crate) struct LoadedModule {
    /// IR of the module alone.
    ir: ir::Program,
    /// Prepared IR of the module alone, which answers queries about it.
    pub(crate) own_program: Arc<Program>,
    /// The program that runs: the one of the whole layer.
    pub(crate) program: Arc<Program>,
    /// Index of the module in the levels of the program; 0 is the topmost.
    level_index: usize,
    /// Execution tier of the functions.
    tier: Tier,
    /// Machine code of the functions, where compiling pays.
    compiled: Option<Arc<Compiled>>,
    pub(crate) path: PathBuf,
    pub(crate) pairs: Vec<(String, String)>,
    /// Number of other modules of the layer below this one.
    pub(crate) modules_below: usize,
    /// Whether the module may be collapsed with others.
    pub(crate) collapses: bool,
    /// Number of the layout of objects' fields; each layout that differs has another number.
    pub(crate) layout: u64,
    /// Name of the module in messages, without a directory.
    pub(crate) kind: &'static str,
    /// Path and options, for display.
    pub(crate) details: String,
    /// Kinds of the lower file systems.
    pub(crate) lower_kinds: Vec<String>,
    /// Whether lower objects have persistent handles.
    pub(crate) has_persistent_handles: bool,
    pub(crate) properties: Properties,
    pub(crate) keeps_state: bool,
    /// Whether objects keep their lookup location.
    pub(crate) needs_lookup_location: bool,
    /// Lower errors that rules see as other errors.
    pub(crate) error_map: Vec<(i32, i32)>,
    /// Whether pages of zeros are holes below.
    pub(crate) has_holes: bool,
    /// Rule functions of each operation.
    rules: Vec<OperationRules>,
    /// Rule functions of each declared ioctl.
    ioctl_rules: Vec<OperationRules>,
    /// The `%per_vfs` fields, shared with the module from before a reload, whose operations may still be running.
    pub(crate) vfs: SharedData,
    pub(crate) mount: SharedData,
    /// Data of the module that are written to, shared as the fields are; empty for other data.
    pub(crate) data: Vec<SharedData>,
    /// Budget of the memory that runs allocate.
    pub(crate) heap_budget: Arc<Budget>,
    /// Budget of the state kept for objects.
    pub(crate) object_budget: Arc<Budget>,
    /// Maximum computing time of an operation's rules, or of a filter.
    pub(crate) time_limit: Duration,
    /// Lock by which files of auxiliary data are changed one at a time.
    pub(crate) file_data: Arc<Mutex<()>>,
    /// Offsets at which the lines of the text begin.
    lines: Vec<u32>,
}

/// Pre, replace and post rule functions of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperationRules {
    pub(crate) pre: Vec<usize>,
    pub(crate) replace: Option<usize>,
    pub(crate) post: Vec<usize>,
}

impl OperationRules {
    fn is_empty(&self) -> bool {
        self.pre.is_empty() && self.replace.is_none() && self.post.is_empty()
    }

    fn add(&mut self, part: Part, function: usize) {
        match part {
            Part::PreCall => self.pre.push(function),
            Part::Call => self.replace = Some(function),
            Part::PostCall => self.post.push(function),
        }
    }
}

impl LoadedModule {
    pub(crate) fn new(
        ir: ir::Program,
        text: &str,
        path: &Path,
        pairs: &[(String, String)],
    ) -> std::result::Result<LoadedModule, OptionError> {
        let kind = intern(&path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default());
        let program = Arc::new(prepare(&ir));
        let options = options::parse(kind, &program, pairs)?;
        let level = program.topmost();
        let (rules, ioctl_rules) = rules_of(level);
        let needs_lookup_location = needs_lookup_location(&program);
        let zeros =
            |structure: Option<usize>| vec![0; structure.map_or(0, |index| program.structures[index].size as usize)];
        let data = program.data.iter().map(|data| if data.is_written { data.bytes.clone() } else { Vec::new() });
        Ok(LoadedModule {
            tier: options.tier,
            compiled: None,
            kind,
            lower_kinds: Vec::new(),
            has_persistent_handles: false,
            details: options::details(path, pairs),
            path: path.to_owned(),
            pairs: pairs.to_vec(),
            modules_below: 0,
            collapses: options.collapses,
            layout: 0,
            properties: properties(&program, &rules),
            keeps_state: needs_lookup_location || level.vnode.is_some(),
            needs_lookup_location,
            error_map: options.error_map,
            has_holes: options.has_holes,
            rules,
            ioctl_rules,
            vfs: Arc::new(Mutex::new(zeros(level.vfs))),
            mount: Arc::new(Mutex::new(options.mount)),
            data: data.map(|bytes| Arc::new(Mutex::new(bytes))).collect(),
            heap_budget: Budget::new(MAX_HEAP_BYTES),
            object_budget: Budget::new(MAX_OBJECT_STATE_BYTES),
            time_limit: options.time_limit,
            file_data: Arc::default(),
            lines: std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at as u32 + 1)).collect(),
            level_index: 0,
            own_program: Arc::clone(&program),
            program,
            ir,
        })
    }

    /// Builds one program from the modules of one layer, the topmost first, and machine code where compiling pays.
    pub(crate) fn merge_programs(all: &[Arc<LoadedModule>]) -> Vec<Arc<LoadedModule>> {
        let program = match all {
            [one] => Arc::clone(&one.own_program),
            _ => Arc::new(prepare(&ir::Program::merge(all.iter().map(|module| module.ir.clone())))),
        };
        all.iter()
            .enumerate()
            .map(|(level_index, module)| Arc::new(module.as_level_of(&program, level_index)))
            .collect()
    }

    /// Returns the module as a level of another program.
    fn as_level_of(&self, program: &Arc<Program>, level_index: usize) -> LoadedModule {
        let level = &program.levels[level_index];
        let own = &self.data[self.level().data.clone()];
        let mut data: Vec<SharedData> = program.data.iter().map(|_| SharedData::default()).collect();
        data[level.data.clone()].clone_from_slice(own);
        let (rules, ioctl_rules) = rules_of(level);
        LoadedModule {
            compiled: compile(program, level, self.tier, self.kind).map(Arc::new),
            program: Arc::clone(program),
            level_index,
            data,
            rules,
            ioctl_rules,
            ..self.clone()
        }
    }

    /// Returns the declarations and rules of the module.
    pub(crate) fn level(&self) -> &Level {
        &self.program.levels[self.level_index]
    }

    /// Returns the bit set of the operations that have rules.
    pub(crate) fn rule_mask(&self) -> u64 {
        let bits = self.rules.iter().enumerate().filter(|(_, rules)| !rules.is_empty()).map(|(index, _)| 1 << index);
        bits.fold(0, |all, bit: u64| all | bit)
    }

    /// Checks whether the module permits the operation.
    pub(crate) fn check_access(&self, operation: &Operation<'_>) -> Result<()> {
        match (self.level().access, operation) {
            (None, _) => Ok(()),
            (Some(Access::ReadOnly), Operation::Ioctl { command }) if crate::ioctl::changes(*command) => {
                if self.declared_ioctl(*command).is_some() { Ok(()) } else { Err(Errno::EROFS) }
            }
            (Some(Access::ReadOnly), _) if operation.modifies() => Err(Errno::EROFS),
            (Some(Access::WriteOnly), Operation::Open(flags)) if flags.reads() => Err(Errno::EACCES),
            (Some(Access::WriteOnly), Operation::Create { how, .. }) if how.flags.reads() => Err(Errno::EACCES),
            (Some(Access::WriteOnly), Operation::Read { .. } | Operation::CopyRange { .. }) => Err(Errno::EACCES),
            _ => Ok(()),
        }
    }

    /// Returns whether an operation other than a declared ioctl has rules to run.
    pub(crate) fn has_rules(&self, operation: &Operation<'_>) -> bool {
        !self.rules[operation.index()].is_empty()
    }

    /// Returns the rule functions of an operation.
    pub(crate) fn rules(&self, operation: &Operation<'_>) -> &OperationRules {
        &self.rules[operation.index()]
    }

    /// Returns the rule functions of a declared ioctl: those for all ioctls around its own.
    pub(crate) fn rules_of_ioctl(&self, ioctl: usize) -> OperationRules {
        let (all, own) = (&self.rules[Operation::Ioctl { command: 0 }.index()], &self.ioctl_rules[ioctl]);
        OperationRules {
            pre: all.pre.iter().chain(&own.pre).copied().collect(),
            replace: own.replace.or(all.replace),
            post: own.post.iter().chain(&all.post).copied().collect(),
        }
    }

    /// Returns the index of the declared ioctl with this command number.
    pub(crate) fn declared_ioctl(&self, command: u32) -> Option<usize> {
        self.level().ioctls.iter().position(|ioctl| ioctl.command == command)
    }

    /// Returns the declared ioctls as JSON.
    pub(crate) fn declared_ioctls_json(&self) -> String {
        let program = &self.program;
        let field = |field: &Field| {
            let (integer, length) = match &field.r#type {
                Type::Integer(integer) => (*integer, None),
                Type::Array(of, length) => match **of {
                    Type::Integer(integer) => (integer, Some(*length)),
                    // As raw bytes.
                    _ => (Integer::BYTE, Some(program.size(&field.r#type))),
                },
                other => (Integer::BYTE, Some(program.size(other))),
            };
            serde_json::json!({
                "name": field.name, "offset": field.offset, "bytes": integer.bytes, "unsigned": integer.is_unsigned,
                "length": length,
            })
        };
        let ioctls = self.level().ioctls.iter().map(|ioctl| {
            let structure = &program.structures[ioctl.structure];
            serde_json::json!({
                "name": ioctl.name, "command": ioctl.command, "bytes": structure.size,
                "answers": ioctl.direction != Direction::FromUser,
                "fields": structure.fields.iter().map(field).collect::<Vec<_>>(),
            })
        });
        serde_json::Value::Array(ioctls.collect()).to_string()
    }

    /// Runs a function. If it traps, logs where; the error is `EIO`.
    pub(crate) fn run(
        &self,
        host: &mut dyn Host,
        function: usize,
        values: &[i64],
        memory: &mut Memory<'_>,
    ) -> std::result::Result<i64, TrapKind> {
        let mut calls = Calls { program: &self.program, host };
        let result = match &self.compiled {
            Some(compiled) => compiled.run(&self.program, memory, &mut calls, function, values),
            None => ::fist::interpreter::run(&self.program, memory, &mut calls, function, values),
        };
        result.map_err(|stop| self.log_trap(function, stop))
    }

    /// Logs where a function trapped, and the trap kind.
    pub(crate) fn log_trap(&self, function: usize, Trap { kind, span }: Trap) -> TrapKind {
        if kind != TrapKind::Finished {
            let name = &self.program.functions[function].name;
            let line = self.lines.partition_point(|start| *start <= span.start);
            tracing::error!(target: "fist", "{}:{line}: {name} was stopped: {kind}", self.kind);
        }
        kind
    }
}

/// Prepares the IR of one module, or of several together, for running.
fn prepare(ir: &ir::Program) -> Program {
    ir.prepare(&Target::host()).expect("checked descriptions fit this machine, by themselves and together")
}

/// Returns the rule functions of each operation, and of each declared ioctl.
fn rules_of(level: &Level) -> (Vec<OperationRules>, Vec<OperationRules>) {
    let mut rules = vec![OperationRules::default(); OPERATIONS.len()];
    let mut ioctl_rules = vec![OperationRules::default(); level.ioctls.len()];
    for rule in &level.rules {
        match rule.ioctl {
            Some(ioctl) => ioctl_rules[ioctl].add(rule.part, rule.function),
            None => {
                for operation in rule.operations.iter() {
                    rules[usize::from(operation.0)].add(rule.part, rule.function);
                }
            }
        }
    }
    (rules, ioctl_rules)
}

/// Returns whether rules query the lookup location of an object that an operation does not name.
fn needs_lookup_location(program: &Program) -> bool {
    let names_object = |rule: &Rule| {
        let lists = Operation::ReadDirectory.index();
        rule.operations.iter().all(|one| one.kind().about.is_name() || usize::from(one.0) == lists)
    };
    let level = program.topmost();
    let filters = [level.filters.data, level.filters.name].into_iter().flatten().flat_map(|(one, other)| [one, other]);
    let rules = level.rules.iter().filter(|rule| !names_object(rule)).map(|rule| rule.function);
    reach::sites(program, rules.chain(filters)).into_iter().any(|site| {
        use ::fist::builtins::{Attribute, BuiltIn, OperationValue};
        match &program.sites[site] {
            Site::Attribute(Attribute::Name, _) | Site::OperationValue(OperationValue::Name) => true,
            Site::BuiltIn(BuiltIn::CopyFile, _) => true,
            Site::BuiltIn(_, operands) => operands.iter().any(is_in_directory),
            Site::Attribute(_, operand) => is_in_directory(operand),
            Site::Object(argument) => argument.role == Role::Directory,
            _ => false,
        }
    })
}

/// Returns whether an operand of a call is found in the operation's directory, or is that directory.
fn is_in_directory(operand: &Operand) -> bool {
    matches!(operand, Operand::Named | Operand::Argument(Argument { role: Role::Directory, .. }))
}

/// Compiles a level of a program to machine code if it has much to do: filters, or loops. Levels that cannot be
/// compiled are interpreted.
fn compile(program: &Program, level: &Level, tier: Tier, kind: &str) -> Option<Compiled> {
    let has_filters = level.filters.data.is_some() || level.filters.name.is_some();
    let mut functions = program.functions[level.functions.clone()].iter();
    let should_compile = match tier {
        Tier::Auto => has_filters || functions.any(|function| reach::has_loop(&function.body)),
        Tier::Interpreted => false,
        Tier::Compiled => true,
    };
    let compiled = should_compile.then(|| Compiled::of(program, level.functions.clone()))?;
    compiled.inspect_err(|error| tracing::warn!(target: "fist", "{kind} is interpreted: {error}")).ok()
}

/// Returns what a module promises and needs.
fn properties(program: &Program, rules: &[OperationRules]) -> Properties {
    let has = |name: &str| OPERATIONS.iter().zip(rules).any(|(kind, rules)| kind.name == name && !rules.is_empty());
    let is_replaced =
        |name: &str| OPERATIONS.iter().zip(rules).any(|(kind, rules)| kind.name == name && rules.replace.is_some());
    let has_any = rules.iter().any(|rules| !rules.is_empty());
    let data = operations::of_type("data");
    let sees_data = OPERATIONS.iter().enumerate().any(|(index, kind)| {
        let is_data = data.is_some_and(|data| data.0 >> index & 1 != 0) && kind.name != "lseek";
        is_data && !rules[index].is_empty()
    });
    // Rules change names without the front end, which would keep its cached data about them.
    let changes_names = program.sites.iter().any(|site| {
        use ::fist::builtins::{BuiltIn as B, OperationValue as V};
        match site {
            Site::BuiltIn(function, _) => {
                matches!(function, B::Rename | B::Unlink | B::MakeDirectory | B::CopyFile | B::SetFileData | B::Operate)
            }
            Site::Assign(value, _) => matches!(value, V::Name | V::ToName),
            _ => false,
        }
    });
    let level = program.topmost();
    let filters = &level.filters;
    let names_change = filters.name.is_some() && !level.ioctls.is_empty();
    let sees_lookups = has("lookup") && !runs_only_on_errors(program, rules);
    // A rule may refuse what its operation asks, and has to run where the kernel would refuse.
    let access_control = match (sees_lookups, has_any) {
        (true, _) => AccessControl::NotShown,
        (false, true) => AccessControl::OpenAsShown,
        (false, false) => AccessControl::AsShown,
    };
    let promises = Promises {
        exclusive: !changes_names,
        data_untouched: filters.data.is_none(),
        names_untouched: filters.name.is_none(),
        access_control,
        opens_share_data: level.fan_out <= 1 || !is_replaced("open"),
        // Settings made by an ioctl, such as a key, may change what names and data are.
        times_tell_changes: match filters.data.is_none() || level.ioctls.is_empty() {
            true => TimesTell::OfAll,
            false => TimesTell::OfNone,
        },
        ..Promises::TRANSPARENT
    };
    let needs = Needs {
        every_lookup: sees_lookups || changes_names || names_change,
        failed_lookups: has("lookup") || changes_names || names_change,
        every_data_operation: sees_data || level.access == Some(Access::WriteOnly),
        fresh_attributes: has("getattr") || has("access") || has("readlink"),
        every_close: has("flush"),
        every_poll: has("poll"),
        overlay: level.is_overlay,
        read_only: level.access == Some(Access::ReadOnly),
        ..Needs::NONE
    };
    Properties { promises, needs }
}

/// Returns whether all rules for lookup are post rules, and do nothing unless the lookup has failed.
fn runs_only_on_errors(program: &Program, rules: &[OperationRules]) -> bool {
    let lookup = OPERATIONS.iter().zip(rules).find(|(kind, _)| kind.name == "lookup");
    lookup.is_some_and(|(_, OperationRules { pre, replace, post })| {
        let post_rules_are_idle = || post.iter().all(|function| idle::without_error(program, *function));
        pre.is_empty() && replace.is_none() && post_rules_are_idle()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_descriptions_are_those_of_layers() {
        assert_eq!(OPERATIONS.map(|kind| kind.name), Operation::NAMES);
    }
}

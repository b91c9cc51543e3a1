//! Host calls of rules and filters while they run: objects, attributes, shared data, and lower operations.

mod copy;
mod files;
mod objects;
mod values;

use std::sync::PoisonError;

use ::fist::builtins::{Attribute, Global, OperationValue};
use ::fist::calls::{DataOwner, Host, Object};
use ::fist::code::{Argument, Role};
use ::fist::memory::Memory;
use ::fist::meter::Meter;
use ::fist::trap::{Trap, TrapKind};
use vnode::layer::{LayerVnode, Operation};
use vnode::{Attributes, Caller, Entry, Errno, Name, RenameMode, Result, VnodeRef};

use super::arguments::AssignedArguments;
use super::block_sizes::PAGE_BYTES;
use super::collected_names::CollectedNames;
use super::layer::FistLayer;
use super::module::{LoadedModule, OperationRules};
use super::trace;
use crate::printable::escaped;

/// Number of rule runs of an operation after which the clock is checked before each further one, since each by itself
/// may be too short for the clock to be checked.
const MAX_RUNS_WITHOUT_CLOCK_CHECK: u32 = 8;

/// A request that rules make to the operation.
pub(crate) enum RuleRequest<'w> {
    /// Performs the operation on an object, as a caller, with its current arguments.
    Perform(&'w LayerVnode<FistLayer>, &'w Caller, &'w Operation<'w>),
    /// Takes this entry as the result of the lookup.
    UseEntry(Entry),
}

/// Performs the request, and returns the entry of the result, if it has one.
pub(crate) type PerformRequest<'p> = &'p mut dyn FnMut(RuleRequest<'_>) -> Result<Option<Entry>>;

/// A lower object, and its attributes when it was found.
#[derive(Clone)]
pub(crate) struct LowerObject {
    pub(crate) lower: VnodeRef,
    pub(crate) attributes: Option<Attributes>,
}

/// Rule context: the state of an operation's rules, or of a filter, while they run.
pub(crate) struct RuleContext<'a> {
    pub(crate) module: &'a LoadedModule,
    pub(crate) node: &'a LayerVnode<FistLayer>,
    pub(crate) caller: &'a Caller,
    pub(crate) operation: Option<&'a Operation<'a>>,
    /// Arguments of the operation that rules have assigned.
    assigned: AssignedArguments,
    pub(crate) perform: Option<PerformRequest<'a>>,
    /// Error of the operation so far, as rules see it.
    pub(crate) error: i32,
    /// Whether a rule has ended the operation.
    pub(crate) is_finished: bool,
    /// Lower errors, as rules see them and as they are.
    lower_errors: Vec<(i32, Errno)>,
    /// Whether a replace rule is running.
    in_replace_rule: bool,
    /// The object that the operation's name refers to; `None` until it is first queried.
    named_object: Option<Option<LowerObject>>,
    /// The object that a rename replaces.
    replaced_object: Option<Option<LowerObject>>,
    /// The error because of which a rule's query cannot be answered.
    query_error: Option<Errno>,
    /// Objects that rules hold as values.
    values: Vec<VnodeRef>,
    /// Structure and data of the current ioctl.
    pub(crate) ioctl: Option<(usize, Vec<u8>)>,
    /// Names of the current listing.
    pub(crate) listing: Option<&'a mut CollectedNames>,
    /// Meter of the work and time left for all rules of the operation.
    meter: Meter,
    /// Number of rules that have run.
    run_count: u32,
}

impl<'a> RuleContext<'a> {
    pub(crate) fn new(
        module: &'a LoadedModule,
        node: &'a LayerVnode<FistLayer>,
        caller: &'a Caller,
    ) -> RuleContext<'a> {
        RuleContext {
            module,
            node,
            caller,
            operation: None,
            assigned: AssignedArguments::default(),
            perform: None,
            error: 0,
            is_finished: false,
            lower_errors: Vec::new(),
            in_replace_rule: false,
            named_object: None,
            replaced_object: None,
            query_error: None,
            values: Vec::new(),
            ioctl: None,
            listing: None,
            meter: Meter::new(module.time_limit),
            run_count: 0,
        }
    }

    /// Runs all rules, and the operation.
    pub(crate) fn run_all(&mut self, rules: &OperationRules) {
        self.run_around(rules, |context| match rules.replace {
            Some(function) => context.run_replace_rule(function),
            None => {
                context.operate_on(None);
            }
        });
    }

    /// Runs the pre and post rules around `work`, which they may refuse.
    pub(crate) fn run_around(&mut self, rules: &OperationRules, body: impl FnOnce(&mut Self)) {
        self.run_pre_rules(&rules.pre);
        if !self.is_finished && self.error == 0 {
            body(self);
        }
        self.run_post_rules(&rules.post);
    }

    /// Runs the pre rules: an error refuses the operation.
    fn run_pre_rules(&mut self, functions: &[usize]) {
        for function in functions {
            if !self.is_finished && self.error == 0 {
                self.run_rule(*function);
            }
        }
    }

    /// Runs the post rules.
    fn run_post_rules(&mut self, functions: &[usize]) {
        for function in functions {
            if !self.is_finished {
                self.run_rule(*function);
            }
        }
    }

    /// Runs a rule.
    pub(crate) fn run_rule(&mut self, function: usize) {
        let module = self.module;
        let mut memory = Memory::new(&module.program.data, &[], &mut []);
        memory = memory.within(&module.heap_budget).metered(std::mem::take(&mut self.meter));
        memory.meter().resume();
        self.run_count += 1;
        let is_late = self.run_count > MAX_RUNS_WITHOUT_CLOCK_CHECK && memory.meter().look().is_err();
        let done = match is_late {
            true => Err(module
                .log_trap(function, Trap { kind: TrapKind::TimeLimit, span: module.program.functions[function].span })),
            false => module.run(self, function, &[], &mut memory),
        };
        memory.meter().pause();
        self.meter = memory.meter().clone();
        if let Err(kind) = done {
            self.is_finished = true;
            if kind != TrapKind::Finished {
                self.error = Errno::EIO.number();
            }
        }
    }

    /// Resets the meter, so that what follows has all the work and time of an operation.
    pub(crate) fn reset_meter(&mut self) {
        (self.meter, self.run_count) = (Meter::new(self.module.time_limit), 0);
    }

    /// Runs a replace rule, for the operation or for one listed name.
    pub(crate) fn run_replace_rule(&mut self, function: usize) {
        self.in_replace_rule = true;
        self.run_rule(function);
        self.in_replace_rule = false;
    }

    /// Records the error of reading a directory, unless a rule has set one.
    pub(crate) fn record_listing_error(&mut self, read: Result<()>) {
        if let (Err(error), 0) = (read, self.error) {
            self.error = self.map_lower_error(error);
        }
    }

    /// Returns the error of the operation, if it has one.
    pub(crate) fn final_error(&self) -> Option<Errno> {
        if self.error == 0 {
            return None;
        }
        // A lower error that rules saw as another one, and left unchanged.
        let below = self.lower_errors.iter().find(|(seen, _)| *seen == self.error);
        Some(below.map_or(Errno::new(self.error), |(_, error)| *error))
    }

    /// Records a lower error, and returns it as rules see it.
    fn map_lower_error(&mut self, error: Errno) -> i32 {
        let number = error.number();
        let mapped = self.module.error_map.iter().find(|(below, _)| *below == number);
        let seen = mapped.map_or(number, |(_, seen)| *seen);
        // The last lower error that rules see as this one counts.
        self.lower_errors.retain(|(other, _)| *other != seen);
        self.lower_errors.push((seen, error));
        seen
    }

    /// Performs the operation, on another object if one is given; an error is the operation's.
    fn operate_on(&mut self, node: Option<&LayerVnode<FistLayer>>) -> i32 {
        let (node, caller) = (node.unwrap_or(self.node), self.caller);
        let (Some(perform), Some(operation)) = (&mut self.perform, self.operation) else { return -libc::ENOTSUP };
        let operation = self.assigned.apply_to(operation);
        self.error = match perform(RuleRequest::Perform(node, caller, &operation)) {
            Ok(entry) => {
                if let Some(entry) = entry {
                    self.named_object = Some(self.lower_object_of(&entry));
                }
                0
            }
            Err(error) => {
                if matches!(self.operation, Some(Operation::Lookup(_))) {
                    self.named_object = Some(None);
                }
                self.map_lower_error(error)
            }
        };
        -self.error
    }

    /// Logs the arguments that rules have assigned.
    pub(crate) fn log_assigned(&self) {
        if let (Some(before), Some(now)) = (self.operation, self.current()) {
            trace::log_assigned(self.module.kind, before, &now);
        }
    }

    /// Returns the operation with its current arguments.
    fn current(&self) -> Option<Operation<'_>> {
        self.operation.map(|operation| self.assigned.apply_to(operation))
    }

    fn lower_object_of(&self, entry: &Entry) -> Option<LowerObject> {
        let lower = self.node.lower_of(&entry.vnode).ok()?;
        Some(LowerObject { lower: VnodeRef::clone(lower), attributes: Some(entry.attributes) })
    }
}

impl Host for RuleContext<'_> {
    fn global(&mut self, global: Global) -> i64 {
        match global {
            Global::User => self.caller.uid.into(),
            Global::Group => self.caller.gid.into(),
            Global::Process => self.caller.pid.into(),
            Global::Session => self.caller.session().into(),
            Global::Time => vnode::Timestamp::now().seconds,
            Global::PageSize => PAGE_BYTES as i64,
            Global::BlockSize => {
                self.node.lower().statfs(&Caller::server()).map_or(4096, |statfs| i64::from(statfs.block_size))
            }
        }
    }

    fn operation_number(&mut self, value: OperationValue) -> i64 {
        self.current().map_or(-1, |operation| values::number(&operation, value))
    }

    fn operation_text(&mut self, value: OperationValue) -> Vec<u8> {
        let listed = self.listing.as_ref().and_then(|names| names.current()).map(<[u8]>::to_vec);
        let text = match (self.current(), value) {
            (_, OperationValue::Name) if listed.is_some() => listed,
            (Some(operation), OperationValue::Name) => operation.entry_name().map(|name| name.as_bytes().to_vec()),
            (Some(Operation::Rename { to_name, .. }), OperationValue::ToName) => Some(to_name.as_bytes().to_vec()),
            (Some(Operation::MakeSymlink { target, .. }), OperationValue::Target) => Some(target.to_vec()),
            (
                Some(Operation::GetXattr(name) | Operation::SetXattr { name, .. } | Operation::RemoveXattr(name)),
                OperationValue::Xattr,
            ) => Some(name.to_vec()),
            _ => None,
        };
        match (text, value) {
            (Some(text), _) => text,
            (None, OperationValue::Name) => self.own_name(),
            _ => Vec::new(),
        }
    }

    fn set_operation_number(&mut self, value: OperationValue, number: i64) -> std::result::Result<(), i32> {
        let Some(operation) = self.operation else { return Ok(()) };
        let assigned =
            self.check_assignment(value, number).and_then(|()| self.assigned.set_number(operation, value, number));
        assigned.map_err(Errno::number)
    }

    fn set_operation_text(&mut self, value: OperationValue, text: &[u8]) -> std::result::Result<(), i32> {
        let Some(operation) = self.operation else { return Ok(()) };
        self.assigned.set_text(operation, value, text).map_err(Errno::number)?;
        // The object that the name refers to is looked up anew.
        match value {
            OperationValue::Name => self.named_object = None,
            OperationValue::ToName => self.replaced_object = None,
            _ => {}
        }
        Ok(())
    }

    fn ends(&mut self) -> bool {
        let Some(error) = self.query_error.take() else { return false };
        self.error = self.map_lower_error(error);
        true
    }

    fn object(&mut self, argument: Argument) -> i64 {
        match self.find(&Object::Argument(argument)) {
            Some(found) => {
                self.values.push(found.lower);
                self.values.len() as i64
            }
            None => 0,
        }
    }

    fn attribute(&mut self, attribute: Attribute, object: &Object) -> i64 {
        if attribute == Attribute::Identity {
            return self.identity(object).unwrap_or(-1);
        }
        let Some(attributes) = self.attributes(object) else { return -1 };
        values::attribute(attribute, &attributes)
    }

    fn attribute_text(&mut self, attribute: Attribute, object: &Object) -> Vec<u8> {
        match (attribute, object) {
            (Attribute::FileSystem, Object::Argument(Argument { branch: branch @ 1.., .. })) => {
                self.module.lower_kinds.get(*branch as usize - 1).cloned().unwrap_or_default().into_bytes()
            }
            (Attribute::FileSystem, _) => self.module.kind.as_bytes().to_vec(),
            (_, Object::Named(name)) => name.clone(),
            (_, Object::Argument(Argument { role: Role::To, .. })) => self.operation_text(OperationValue::ToName),
            (_, Object::Argument(Argument { role: Role::This | Role::From, .. })) => {
                self.operation_text(OperationValue::Name)
            }
            (_, object) => self.find(object).map(|found| self.name_of(&found.lower)).unwrap_or_default(),
        }
    }

    fn shared(&mut self, location: DataOwner, access: &mut dyn FnMut(&mut [u8])) -> std::result::Result<(), TrapKind> {
        let shared = match location {
            DataOwner::Vfs => &self.module.vfs,
            DataOwner::Mount => &self.module.mount,
            DataOwner::Data(index) => &self.module.data[index],
            DataOwner::Argument(argument) => return self.with_vnode_fields(&Object::Argument(argument), access),
            DataOwner::Object(value) => return self.with_vnode_fields(&Object::Value(value), access),
        };
        access(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    fn last_error(&mut self) -> i32 {
        self.error
    }

    fn set_error(&mut self, error: i32) {
        self.error = error;
    }

    fn print(&mut self, message: &[u8]) {
        let message = String::from_utf8_lossy(message);
        tracing::warn!(target: "fist", "{}: {}", self.module.kind, escaped(message.trim_end_matches('\n')));
    }

    fn lookup(
        &mut self,
        directory: &Object,
        name: &[u8],
        slot: Option<Argument>,
        user: Option<u32>,
        group: Option<u32>,
    ) -> i32 {
        let lookup_result = self.lookup_as(directory, name, user, group);
        let is_operation = matches!(self.operation, Some(Operation::Lookup(_)));
        let is_named = slot.is_none_or(|slot| slot.role == Role::This);
        match lookup_result {
            Ok(entry) => {
                let found = self.lower_object_of(&entry);
                match slot.map(|slot| slot.role) {
                    Some(Role::To) => self.replaced_object = Some(found),
                    _ => self.named_object = Some(found),
                }
                if is_operation && is_named {
                    self.error = 0;
                    if let Some(perform) = &mut self.perform {
                        // Taking an entry that was found cannot fail.
                        let _ = perform(RuleRequest::UseEntry(entry));
                    }
                }
                0
            }
            Err(error) => {
                let seen = self.map_lower_error(error);
                if is_operation && is_named {
                    self.error = seen;
                }
                -seen
            }
        }
    }

    fn read_directory(&mut self, directory: &Object, skips_seen: bool) -> i32 {
        let Some(found) = self.find(directory) else { return -libc::ENOENT };
        let (node, caller) = (self.node.wrap(found.lower), self.caller);
        match &mut self.listing {
            None => -libc::EINVAL,
            Some(names) => match names.read(&node, caller, skips_seen) {
                Ok(()) => 0,
                Err(error) => -self.map_lower_error(error),
            },
        }
    }

    fn skip_name(&mut self, name: Option<&[u8]>) {
        if let Some(names) = &mut self.listing {
            names.skip(name);
        }
    }

    fn operate(&mut self, object: &Object) -> i32 {
        let before = self.error;
        let target = match object {
            Object::Argument(Argument { role: Role::This, branch: 0 }) => Some(None),
            Object::Argument(Argument { role: Role::This, branch }) if self.is_on_open_file() => {
                (*branch == self.own_branch()).then_some(None)
            }
            Object::Argument(Argument { role: Role::This, branch }) => self.target_in_branch(*branch).map(Some),
            object => self.target(object).map(Some),
        };
        let Some(target) = target else {
            if self.in_replace_rule {
                self.error = libc::ENOENT;
            }
            // In a post rule, a missing object is no error.
            return -self.error;
        };
        let done = self.operate_on(target.as_deref());
        if !self.in_replace_rule {
            self.error = before;
        }
        done
    }

    fn rename(&mut self, from: &Object, name: &[u8], to: &Object, to_name: &[u8], replaces: bool) -> i32 {
        let mode = if replaces { RenameMode::Replace } else { RenameMode::NoReplace };
        let done = self.rename_below(from, name, to, to_name, mode);
        self.result_number(done)
    }

    fn unlink(&mut self, directory: &Object, name: &[u8]) -> i32 {
        let done = self.directory(directory).and_then(|node| node.forward_unlink(self.caller, Name::new(name)?));
        self.result_number(done)
    }

    fn make_directory(&mut self, directory: &Object, name: &[u8], mode: u32) -> i32 {
        let made = self.directory(directory).and_then(|node| node.forward_mkdir(self.caller, Name::new(name)?, mode));
        self.result_number(made.map(drop))
    }

    fn copy_file(&mut self, from: &Object, to: &[u8], directory: Option<&Object>) -> i32 {
        // The caller was informed once, possibly by the copy before; a copy undoes nothing, so no further copy begins.
        let copied = match self.caller.cancellation().is_cancelled() {
            true => Err(Errno::EINTR),
            false => self.copy(from, to, directory),
        };
        self.result_number(copied)
    }

    fn ioctl_data(&mut self, structure: usize, access: &mut dyn FnMut(&mut [u8])) -> bool {
        match &mut self.ioctl {
            Some((index, data)) if *index == structure => {
                access(data);
                true
            }
            _ => false,
        }
    }

    fn read_file_data(&mut self, file: &Object, bytes: usize) -> std::result::Result<Vec<u8>, i32> {
        self.read_auxiliary(file, bytes).map_err(|error| -error.number())
    }

    fn write_file_data(&mut self, file: &Object, bytes: usize, offset: usize, data: &[u8]) -> i32 {
        let written = self.write_auxiliary(file, bytes, offset, data);
        self.result_number(written)
    }
}

impl RuleContext<'_> {
    /// Converts a result to what rules see: 0, or a negative error number. It is not the operation's error.
    fn result_number(&mut self, done: Result<()>) -> i32 {
        match done {
            Ok(()) => 0,
            Err(error) => -self.map_lower_error(error),
        }
    }
}

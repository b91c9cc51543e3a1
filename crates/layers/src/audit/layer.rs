//! The layer `audit`: the guard checks each operation, and the operation is reported where a rule says so.

use std::cell::OnceCell;
use std::path::PathBuf;

use jiff::Timestamp;
use vnode::layer::{Layer, LayerVnode, Operation};
use vnode::{
    AccessControl, Caller, Control, ControlError, Created, Creation, Device, Entry, Errno, FileKind, Name, Needs,
    Promises, RenameMode, Result, VnodeRef,
};

use super::event::{self, AuditEvent, Value};
use super::options::{CONTROLS, NAME, Settings};
use super::paths::{LastLocation, Paths};
use super::refusals::RefusalSettings;
use super::reporter::Reporter;
use super::rules::{self, AuditRules, OK, OperationFacts};
use super::sink::Sink;
use crate::ControlSpecification;
use crate::globs::Globs;

/// Reports operations by rules, and refuses some.
#[derive(Debug)]
pub struct Audit {
    rules: AuditRules,
    refusals: RefusalSettings,
    reporter: Reporter,
    /// The file that lines are written to, if they are written to a file.
    file: Option<PathBuf>,
    /// Whether any decision depends on a path.
    needs_paths: bool,
    details: String,
}

impl Layer for Audit {
    type State = LastLocation;

    fn keeps_state(&self) -> bool {
        self.needs_paths
    }

    fn kind(&self) -> &'static str {
        NAME
    }

    fn details(&self) -> String {
        self.details.clone()
    }

    fn promises(&self) -> Promises {
        Promises {
            // Nobody would report what the kernel refuses.
            access_control: match !self.refusals.is_disabled() || self.rules.reports_for_any_operation(rules::DENIED) {
                true => AccessControl::OpenAsShown,
                false => AccessControl::AsShown,
            },
            ..Promises::TRANSPARENT
        }
    }

    fn needs(&self) -> Needs {
        let any = rules::OK | rules::DENIED | rules::FAILED | rules::OTHER;
        let cached = ["getattr", "access", "readlink", "getxattr", "listxattr"];
        Needs {
            every_lookup: self.rules.reports_classes("lookup", OK),
            failed_lookups: self.rules.reports_classes("lookup", any & !OK),
            every_data_operation: ["read", "write"].iter().any(|data| self.rules.reports_classes(data, any)),
            every_close: self.rules.reports_classes("flush", any),
            every_poll: self.rules.reports_classes("poll", any),
            fresh_attributes: cached.iter().any(|operation| self.rules.reports_classes(operation, OK)),
            ..Needs::NONE
        }
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        ControlSpecification::check(CONTROLS, command)?;
        match command.command.as_str() {
            "stats" => {
                let counts = self.reporter.counts();
                Ok(format!(
                    "written={} dropped={} unwritten={} waiting={}",
                    counts.written, counts.dropped, counts.unwritten, counts.waiting
                ))
            }
            "reopen" => {
                let Some(path) = &self.file else {
                    return Err(ControlError::BadArgument("audit does not write to a file".to_owned()));
                };
                let sink = Sink::file(path).map_err(|error| ControlError::Failed(error.into()))?;
                self.reporter.replace(sink);
                Ok(String::new())
            }
            _ => {
                let (target, command) = (command.target.clone(), command.command.clone());
                Err(ControlError::UnknownCommand { target, command })
            }
        }
    }

    fn around<T>(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        operation: &Operation<'_>,
        body: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if !self.refusals.is_disabled()
            && let Some(option) = self.refusals.refusing_option(node, caller, operation)
        {
            let result = Err(Errno::EPERM);
            self.report(&ObservedOperation::new(node, caller, operation, result), Some(option));
            return Err(Errno::EPERM);
        }
        let outcome = body();
        let result = outcome.as_ref().map(drop).map_err(|error| *error);
        if self.rules.may_report(operation.index(), result) && !self.is_own(caller) {
            let subject = ObservedOperation::new(node, caller, operation, result);
            if self.rules.reports(&subject) {
                self.report(&subject, None);
            }
        }
        outcome
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        Ok(self.with_recorded_location(node, name, node.forward_lookup(caller, name)?))
    }

    fn create(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        let created = node.forward_create(caller, name, how)?;
        Ok(Created { entry: self.with_recorded_location(node, name, created.entry), ..created })
    }

    fn mknod(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        Ok(self.with_recorded_location(node, name, node.forward_mknod(caller, name, kind, mode, device)?))
    }

    fn symlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        Ok(self.with_recorded_location(node, name, node.forward_symlink(caller, name, target)?))
    }

    fn link(&self, node: &LayerVnode<Self>, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        Ok(self.with_recorded_location(node, name, node.forward_link(caller, target, name)?))
    }

    fn rename(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        node.forward_rename(caller, name, to, to_name, mode)?;
        if self.needs_paths {
            // Holders of the moved object hold the vnode that these lookups find.
            let _ = to.lookup(&Caller::server(), to_name);
            let _ = (mode == RenameMode::Exchange).then(|| self.lookup(node, &Caller::server(), name));
        }
        Ok(())
    }
}

impl Audit {
    /// Creates a layer with these settings, shown to users as `details`.
    pub(crate) fn new(settings: Settings, details: String) -> Self {
        let Settings { rules, refusals, reporter, file } = settings;
        let needs_paths = rules.depend_on_paths() || refusals.protected.is_some();
        Self { rules, refusals, reporter, file, needs_paths, details }
    }

    /// Returns whether any decision depends on a path.
    pub(crate) fn needs_paths(&self) -> bool {
        self.needs_paths
    }

    /// Records where an object was seen, if any decision depends on a path.
    fn with_recorded_location(&self, directory: &LayerVnode<Self>, name: Name<'_>, entry: Entry) -> Entry {
        if self.needs_paths {
            LastLocation::record(&entry.vnode, directory, name);
        }
        entry
    }

    /// Returns whether the operation is the server's own, or results from writing lines.
    fn is_own(&self, caller: &Caller) -> bool {
        caller.is_server_alone() || self.reporter.is_writer(caller.pid)
    }

    fn report(&self, subject: &ObservedOperation<'_>, refused_by: Option<&'static str>) {
        let ObservedOperation { caller, operation, .. } = *subject;
        let mut details = Vec::new();
        let paths = subject.paths();
        let rooted = |path: &Vec<u8>| Value::Bytes([b"/", path.as_slice()].concat());
        details.extend(paths.path.as_ref().map(|path| ("path", rooted(path))));
        details.extend(operation.entry_name().map(|name| ("name", Value::Bytes(name.as_bytes().to_vec()))));
        let other = if matches!(operation, Operation::Rename { .. }) { "new_path" } else { "target_path" };
        details.extend(paths.other.as_ref().map(|path| (other, rooted(path))));
        event::arguments(operation, &mut details);
        self.reporter.report(AuditEvent {
            time: Timestamp::now(),
            operation: operation.name(),
            uid: caller.uid,
            gid: caller.gid,
            pid: caller.pid,
            process: event::process_name(caller),
            result: subject.result,
            refused_by,
            details,
        });
    }
}

/// An operation, as rules and reports query it.
struct ObservedOperation<'a> {
    node: &'a LayerVnode<Audit>,
    caller: &'a Caller,
    operation: &'a Operation<'a>,
    result: Result<()>,
    paths: OnceCell<Paths>,
}

impl<'a> ObservedOperation<'a> {
    fn new(node: &'a LayerVnode<Audit>, caller: &'a Caller, operation: &'a Operation<'a>, result: Result<()>) -> Self {
        Self { node, caller, operation, result, paths: OnceCell::new() }
    }

    fn paths(&self) -> &Paths {
        self.paths.get_or_init(|| Paths::of(self.node, self.operation))
    }

    /// Returns the owner of the object that the operation's name refers to; if it refers to none, and for operations
    /// without a name, the owner of the vnode.
    fn owner(&self) -> Result<u32> {
        let below = self.node.lower();
        if let Some(name) = self.operation.entry_name()
            && self.result != Err(Errno::ENOENT)
            && let Ok(entry) = below.lookup(&Caller::server(), name)
        {
            return Ok(entry.attributes.uid);
        }
        // Everybody may query this, so it is queried as the caller: changing credentials would cost more than the
        // result.
        Ok(below.getattr(self.caller)?.uid)
    }
}

impl OperationFacts for ObservedOperation<'_> {
    fn operation(&self) -> usize {
        self.operation.index()
    }

    fn result(&self) -> Result<()> {
        self.result
    }

    fn user(&self) -> u32 {
        self.caller.uid
    }

    fn is_owner(&self) -> bool {
        self.owner() == Ok(self.caller.uid)
    }

    fn has_path(&self, globs: &Globs) -> bool {
        let paths = self.paths();
        [&paths.path, &paths.other].into_iter().flatten().any(|path| globs.matches(path))
    }
}

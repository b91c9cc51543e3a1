//! Directory listings that rules control: collected in full when reading begins, each name passed to the rules.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use vnode::layer::{LayerVnode, Operation};
use vnode::{Caller, Cookie, DirectoryEntry, OpenDirectory, OpenDirectoryRef, Result};

use super::collected_names::{CollectedNames, ListedName};
use super::host::RuleContext;
use super::layer::FistLayer;
use super::module::LoadedModule;

/// An open directory whose listing rules control.
pub(crate) struct RuledDirectory {
    module: Arc<LoadedModule>,
    node: Arc<LayerVnode<FistLayer>>,
    opened: OpenDirectoryRef,
    /// Names collected when reading last began.
    names: Mutex<Option<Arc<Vec<ListedName>>>>,
}

impl RuledDirectory {
    /// Wraps a directory that the template opened.
    pub(crate) fn open(
        module: Arc<LoadedModule>,
        node: Arc<LayerVnode<FistLayer>>,
        opened: OpenDirectoryRef,
    ) -> OpenDirectoryRef {
        Arc::new(RuledDirectory { module, node, opened, names: Mutex::new(None) })
    }

    fn collect(&self, caller: &Caller) -> Result<Vec<ListedName>> {
        let layer = self.node.layer();
        let members = layer.members.load();
        let _serial = layer.lock_serial(&members, caller)?;
        let rules = self.module.rules(&Operation::ReadDirectory);
        let mut names = CollectedNames::default();
        let mut context = RuleContext::new(&self.module, &self.node, caller);
        context.operation = Some(&Operation::ReadDirectory);
        context.listing = Some(&mut names);
        context.run_around(rules, |context| {
            let read = self.read_all(caller, rules.replace, context);
            context.record_listing_error(read);
        });
        match context.final_error() {
            Some(error) => Err(error),
            None => Ok(names.into_cookie_order()),
        }
    }

    /// Passes each name of the directory to the replace rule.
    fn read_all(&self, caller: &Caller, rule: Option<usize>, context: &mut RuleContext<'_>) -> Result<()> {
        let mut cancelled = Ok(());
        self.opened.read(caller, Cookie::START, &mut |entry| {
            cancelled = caller.cancellation().check();
            if cancelled.is_err() {
                return ControlFlow::Break(());
            }
            // To the rules, each name is an operation of its own.
            context.reset_meter();
            if let Some(names) = &mut context.listing {
                names.begin(entry.name.to_owned());
            }
            if let Some(rule) = rule {
                context.run_replace_rule(rule);
            }
            if let Some(names) = &mut context.listing {
                names.end(entry);
            }
            if context.is_finished { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        cancelled
    }
}

impl OpenDirectory for RuledDirectory {
    fn read(
        &self,
        caller: &Caller,
        cookie: Cookie,
        sink: &mut dyn FnMut(DirectoryEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let collected = self.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let names = match collected.filter(|_| cookie != Cookie::START) {
            Some(names) => names,
            None => {
                let names = Arc::new(self.collect(caller)?);
                *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&names));
                names
            }
        };
        let first = names.partition_point(|listed| listed.cookie <= cookie);
        for ListedName { cookie, name, ino, kind } in &names[first..] {
            let entry = DirectoryEntry { name: name.as_name(), ino: *ino, kind: *kind, cookie: *cookie };
            if sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn fsync(&self, caller: &Caller, data_only: bool) -> Result<()> {
        self.opened.fsync(caller, data_only)
    }
}

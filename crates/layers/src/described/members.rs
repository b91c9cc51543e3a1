//! Collapsed members of one layer, the topmost first.

use std::sync::Arc;

use vnode::layer::{DataShape, Holes, Operation};
use vnode::{Description, Properties, Result};

use super::block_sizes::{CHUNK_BYTES, MAX_CHUNK_OVERHEAD, PAGE_BYTES};
use super::hooks::Hook;
use super::intern::intern;
use super::module::LoadedModule;

/// FiST modules collapsed into one layer.
pub(crate) struct CollapsedMembers {
    /// Members, the topmost first; never empty.
    pub(crate) modules: Vec<Arc<LoadedModule>>,
    pub(crate) kind: &'static str,
    /// Whether a member has its operations with rules performed one at a time.
    pub(crate) is_serial: bool,
    /// Bit set of the operations for which a member has rules.
    rule_mask: u64,
    /// Whether objects keep state.
    pub(crate) keeps_state: bool,
    pub(crate) properties: Properties,
}

impl CollapsedMembers {
    /// Joins modules that [`super::collapse::barrier`] does not keep apart.
    pub(crate) fn new(modules: Vec<Arc<LoadedModule>>) -> CollapsedMembers {
        let modules = LoadedModule::merge_programs(&modules);
        let kinds: Vec<_> = modules.iter().map(|module| module.kind).collect();
        let properties = modules.iter().map(|module| module.properties);
        let properties = properties.reduce(Properties::stacked_on).unwrap_or(Properties::TRANSPARENT);
        CollapsedMembers {
            kind: intern(&kinds.join("+")),
            is_serial: modules.iter().any(|module| module.level().is_serial),
            rule_mask: modules.iter().fold(0, |all, module| all | module.rule_mask()),
            keeps_state: modules.iter().any(|module| module.keeps_state),
            properties,
            modules,
        }
    }

    /// Returns the member that logs operations: the topmost, since no module that logs can be below another.
    pub(crate) fn logging_member(&self) -> Option<&Arc<LoadedModule>> {
        self.modules.iter().find(|module| module.level().traces)
    }

    /// Returns the member of this kind, the topmost if there are several.
    pub(crate) fn find_by_kind(&self, kind: &str) -> Option<&Arc<LoadedModule>> {
        self.modules.iter().find(|module| module.kind == kind)
    }

    /// Describes the members for display, the lowest first, as for layers.
    pub(crate) fn describe(&self) -> Vec<Description> {
        let mut lower: Option<&str> = None;
        let mut descriptions = Vec::with_capacity(self.modules.len());
        for module in self.modules.iter().rev() {
            let details = match lower {
                Some(lower) => format!("{}, in one layer with {lower}", module.details),
                None => module.details.clone(),
            };
            descriptions.push(Description { kind: module.kind.to_owned(), details, properties: module.properties });
            lower = Some(module.kind);
        }
        descriptions
    }

    /// Returns the hook mask.
    pub(crate) fn hook_mask(&self) -> u64 {
        let any = |predicate: &dyn Fn(&LoadedModule) -> bool| self.modules.iter().any(|module| predicate(module));
        self.rule_mask
            | Hook::Trace.bit_if(any(&|module| module.level().traces))
            | Hook::AccessCheck.bit_if(any(&|module| module.level().access.is_some()))
            | Hook::NameFilter.bit_if(any(&|module| module.level().filters.name.is_some()))
            | Hook::DataFilter.bit_if(any(&|module| module.level().filters.data.is_some()))
            | Hook::LookupLocation.bit_if(any(&|module| module.needs_lookup_location))
    }

    /// Returns whether an operation other than a declared ioctl has rules to run.
    fn has_rules(&self, operation: &Operation<'_>) -> bool {
        self.rule_mask >> operation.index() & 1 != 0
    }

    /// Checks whether the operation is permitted: where rules run in between, the lower members are checked after those
    /// rules.
    pub(crate) fn check_access(&self, operation: &Operation<'_>) -> Result<()> {
        let checks_topmost_only = self.has_rules(operation) || matches!(operation, Operation::Ioctl { .. });
        let checked = if checks_topmost_only { &self.modules[..1] } else { &self.modules[..] };
        checked.iter().try_for_each(|module| module.check_access(operation))
    }

    /// Returns a member, if it exists and permits the operation. The topmost has been checked before.
    pub(crate) fn checked_member(&self, index: usize, operation: &Operation<'_>) -> Result<Option<&Arc<LoadedModule>>> {
        match self.modules.get(index) {
            Some(module) if index > 0 => module.check_access(operation).map(|()| Some(module)),
            topmost => Ok(topmost),
        }
    }

    /// Returns the members with a data filter.
    pub(crate) fn filtering_members(&self) -> impl DoubleEndedIterator<Item = &Arc<LoadedModule>> {
        self.modules.iter().filter(|module| module.level().filters.data.is_some())
    }

    /// Returns whether a filter needs to know which block is the last.
    pub(crate) fn needs_last_block(&self) -> bool {
        self.filtering_members().any(|module| module.level().marks_last)
    }

    pub(crate) fn data_shape(&self) -> Option<DataShape> {
        self.filtering_members().next()?;
        let changes_size = self.filtering_members().any(|module| module.level().filters.changes_size);
        // It is unknown what a filter makes of zeros, but blocks of which it makes zeros are checked.
        let have_holes = self.filtering_members().all(|module| module.has_holes);
        Some(DataShape {
            block_size: if changes_size { CHUNK_BYTES } else { PAGE_BYTES },
            overhead: if changes_size { MAX_CHUNK_OVERHEAD } else { 0 },
            holes: if have_holes { Holes::ZeroBlock } else { Holes::Filled },
            sparse: changes_size,
        })
    }
}

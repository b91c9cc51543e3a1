//! Collapsed members of one layer, the topmost first: an operation goes through the rules of each as if they were
//! stacked.

use std::borrow::Cow;
use std::sync::Arc;

use vnode::layer::{Block, DataShape, Holes, LayerFile, LayerVnode, Operation};
use vnode::{Caller, Description, Errno, Name, OpenDirectoryRef, Properties, Result, zeros};

use super::FistLayer;
use super::filters::{CHUNK_BYTES, MAX_CHUNK_OVERHEAD, PAGE_BYTES};
use super::hooks::Hook;
use super::intern::intern;
use super::invocation::{Forward, Invocation};
use super::listing::RuledDirectory;
use super::module::LoadedModule;
use super::outcome::Outcome;

type Node = LayerVnode<FistLayer>;

/// Forwards an ioctl that no member declares to the lower file system.
type ForwardIoctl<'f> = &'f mut dyn FnMut(&Node, &Caller, &mut [u8]) -> Result<i32>;

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

    /// Performs an operation as the rules of a member and those below it say; returns `nothing` where a rule reports
    /// success without performing it.
    pub(crate) fn invoke<T: Outcome>(
        &self,
        index: usize,
        (node, caller): (&Node, &Caller),
        operation: &Operation<'_>,
        default_result: &dyn Fn() -> Option<T>,
        forward: Forward<'_, T>,
    ) -> Result<T> {
        let Some(module) = self.checked_member(index, operation)? else { return forward(node, caller, operation) };
        if !module.has_rules(operation) {
            return self.invoke(index + 1, (node, caller), operation, default_result, forward);
        }
        let below = &mut |node: &Node, caller: &Caller, operation: &Operation<'_>| {
            self.invoke(index + 1, (node, caller), operation, default_result, forward)
        };
        Invocation::new(module, node, caller, operation).run_or(default_result(), below)
    }

    /// Opens a directory as the rules of a member and those below it say, and lets these rules see the names.
    pub(crate) fn open_directory(&self, index: usize, node: &Node, caller: &Caller) -> Result<OpenDirectoryRef> {
        let operation = Operation::OpenDirectory;
        let Some(module) = self.checked_member(index, &operation)? else {
            return node.forward_open_directory(caller);
        };
        let opened = match module.has_rules(&operation) {
            true => Invocation::new(module, node, caller, &operation)
                .run(&mut |node, caller, _| self.open_directory(index + 1, node, caller))?,
            false => self.open_directory(index + 1, node, caller)?,
        };
        let sees_names = module.has_rules(&Operation::ReadDirectory);
        Ok(if sees_names { RuledDirectory::open(Arc::clone(module), node.shared(), opened) } else { opened })
    }

    /// Passes an ioctl to the first member that declares it, starting at `level`, or forwards it.
    pub(crate) fn run_ioctl(
        &self,
        index: usize,
        (node, caller): (&Node, &Caller),
        command: u32,
        (input, output): (&[u8], &mut [u8]),
        forward: ForwardIoctl<'_>,
    ) -> Result<i32> {
        let operation = Operation::Ioctl { command };
        let Some(module) = self.checked_member(index, &operation)? else { return forward(node, caller, output) };
        if let Some(ioctl) = module.declared_ioctl(command) {
            return Invocation::new(module, node, caller, &operation).run_ioctl(ioctl, input, output);
        }
        let mut below = |node: &Node, caller: &Caller| {
            self.run_ioctl(index + 1, (node, caller), command, (input, &mut *output), forward)
        };
        if !module.has_rules(&operation) {
            return below(node, caller);
        }
        Invocation::new(module, node, caller, &operation).run(&mut |node, caller, _| below(node, caller))
    }

    /// Runs the rules for closing an open file.
    pub(crate) fn release(&self, file: &LayerFile<FistLayer>) {
        for module in &self.modules {
            if module.has_rules(&Operation::Release) {
                // Nobody waits for an error.
                let _ = Invocation::new(module, file.node(), &Caller::server(), &Operation::Release)
                    .run(&mut |_, _, _| Ok(()));
            }
        }
    }

    /// Returns a member, if it exists and permits the operation. The topmost has been checked before.
    fn checked_member(&self, index: usize, operation: &Operation<'_>) -> Result<Option<&Arc<LoadedModule>>> {
        match self.modules.get(index) {
            Some(module) if index > 0 => module.check_access(operation).map(|()| Some(module)),
            topmost => Ok(topmost),
        }
    }

    /// Encodes a name through all members.
    pub(crate) fn encode_name<'a>(&self, directory: &Node, caller: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        let mut name_bytes = Cow::Borrowed(name.as_bytes());
        for module in &self.modules {
            if let Some((encode, _)) = module.level().filters.name {
                name_bytes = module.filter_name(encode, directory, caller, Name::new(&name_bytes)?)?.into();
            }
        }
        Ok(name_bytes)
    }

    /// Decodes a lower name through all members; returns `None` for a name that no member could have encoded.
    pub(crate) fn decode_name<'a>(&self, directory: &Node, name: Name<'a>) -> Option<Cow<'a, [u8]>> {
        let mut name_bytes = Cow::Borrowed(name.as_bytes());
        for module in self.modules.iter().rev() {
            if let Some((_, decode)) = module.level().filters.name {
                name_bytes =
                    module.filter_name(decode, directory, &Caller::server(), Name::new(&name_bytes).ok()?).ok()?.into();
            }
        }
        Some(name_bytes)
    }

    /// Returns the members with a data filter.
    fn filtering_members(&self) -> impl DoubleEndedIterator<Item = &Arc<LoadedModule>> {
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

    /// Encodes a block of data through all members.
    pub(crate) fn encode_data(
        &self,
        (node, caller): (&Node, &Caller),
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        let mut filtering_members = self.filtering_members();
        let topmost = filtering_members.next().ok_or(Errno::EIO)?;
        topmost.encode_block(node, caller, block, plain, encoded)?;
        for module in filtering_members {
            let mut upper = zeros(encoded.len())?;
            upper.copy_from_slice(encoded);
            module.encode_block(node, caller, block, &upper, encoded)?;
        }
        Ok(())
    }

    /// Decodes a block of data through all members.
    pub(crate) fn decode_data(
        &self,
        (node, caller): (&Node, &Caller),
        block: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        let mut filtering_members = self.filtering_members().rev();
        let lowest = filtering_members.next().ok_or(Errno::EIO)?;
        lowest.decode_block(node, caller, block, encoded, plain)?;
        for module in filtering_members {
            let mut lower = zeros(plain.len())?;
            lower.copy_from_slice(plain);
            // A block that the member below shows as a hole is one.
            let is_hole = module.has_holes && lower.len() == PAGE_BYTES && lower.iter().all(|byte| *byte == 0);
            if !is_hole {
                module.decode_block(node, caller, block, &lower, plain)?;
            }
        }
        Ok(())
    }
}

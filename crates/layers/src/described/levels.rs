//! Collapsed members of one layer, the topmost first: an operation goes through the rules of each as if they were
//! stacked.

use std::borrow::Cow;
use std::sync::Arc;

use vnode::layer::{Block, DataShape, Holes, LayerFile, LayerVnode, Operation};
use vnode::{Caller, Description, Errno, Name, OpenDirectoryRef, Properties, Result, zeros};

use super::Described;
use super::act::{Act, Forward};
use super::duties::Duty;
use super::filters::{CHUNK_BYTES, CHUNK_ROOM, PAGE_BYTES};
use super::intern::intern;
use super::listing::Listing;
use super::loaded::Loaded;
use super::outcome::Outcome;

type Node = LayerVnode<Described>;

/// Forwards an ioctl that no member declares to the lower file system.
type ForwardCommand<'f> = &'f mut dyn FnMut(&Node, &Caller, &mut [u8]) -> Result<i32>;

/// FiST modules collapsed into one layer.
pub(crate) struct Levels {
    /// Members, the topmost first; never empty.
    pub(crate) loaded: Vec<Arc<Loaded>>,
    pub(crate) kind: &'static str,
    /// Whether a member has its operations with rules performed one at a time.
    pub(crate) is_serial: bool,
    /// Bit set of the operations for which a member has rules.
    with_rules: u64,
    /// Whether objects keep state.
    pub(crate) keeps_state: bool,
    pub(crate) properties: Properties,
}

impl Levels {
    /// Joins modules that [`super::collapse::barrier`] does not keep apart.
    pub(crate) fn new(loaded: Vec<Arc<Loaded>>) -> Levels {
        let loaded = Loaded::join(&loaded);
        let kinds: Vec<_> = loaded.iter().map(|loaded| loaded.kind).collect();
        let properties = loaded.iter().map(|loaded| loaded.properties);
        let properties = properties.reduce(Properties::stacked_on).unwrap_or(Properties::TRANSPARENT);
        Levels {
            kind: intern(&kinds.join("+")),
            is_serial: loaded.iter().any(|loaded| loaded.level().is_serial),
            with_rules: loaded.iter().fold(0, |all, loaded| all | loaded.with_rules()),
            keeps_state: loaded.iter().any(|loaded| loaded.keeps_state),
            properties,
            loaded,
        }
    }

    /// Returns the member that logs operations: the topmost, since no module that logs can be below another.
    pub(crate) fn tracing(&self) -> Option<&Arc<Loaded>> {
        self.loaded.iter().find(|loaded| loaded.level().traces)
    }

    /// Returns the member of this kind, the topmost if there are several.
    pub(crate) fn at_kind(&self, kind: &str) -> Option<&Arc<Loaded>> {
        self.loaded.iter().find(|loaded| loaded.kind == kind)
    }

    /// Describes the members for display, the lowest first, as for layers.
    pub(crate) fn describe(&self) -> Vec<Description> {
        let mut lower: Option<&str> = None;
        let mut described = Vec::with_capacity(self.loaded.len());
        for loaded in self.loaded.iter().rev() {
            let details = match lower {
                Some(lower) => format!("{}, in one layer with {lower}", loaded.details),
                None => loaded.details.clone(),
            };
            described.push(Description { kind: loaded.kind.to_owned(), details, properties: loaded.properties });
            lower = Some(loaded.kind);
        }
        described
    }

    /// Returns the hook mask.
    pub(crate) fn duties(&self) -> u64 {
        let any = |is_one: &dyn Fn(&Loaded) -> bool| self.loaded.iter().any(|loaded| is_one(loaded));
        self.with_rules
            | Duty::Traces.of(any(&|loaded| loaded.level().traces))
            | Duty::Admission.of(any(&|loaded| loaded.level().access.is_some()))
            | Duty::Names.of(any(&|loaded| loaded.level().filters.name.is_some()))
            | Duty::Data.of(any(&|loaded| loaded.level().filters.data.is_some()))
            | Duty::Places.of(any(&|loaded| loaded.needs_places))
    }

    /// Returns whether an operation other than a declared ioctl has rules to run.
    fn have_rules(&self, operation: &Operation<'_>) -> bool {
        self.with_rules >> operation.index() & 1 != 0
    }

    /// Checks whether the operation is permitted: where rules run in between, the lower members are checked after those
    /// rules.
    pub(crate) fn admit(&self, operation: &Operation<'_>) -> Result<()> {
        let asks_one = self.have_rules(operation) || matches!(operation, Operation::Ioctl { .. });
        let asked = if asks_one { &self.loaded[..1] } else { &self.loaded[..] };
        asked.iter().try_for_each(|loaded| loaded.admit(operation))
    }

    /// Performs an operation as the rules of a member and those below it say; returns `nothing` where a rule reports
    /// success without performing it.
    pub(crate) fn act<T: Outcome>(
        &self,
        level: usize,
        (node, caller): (&Node, &Caller),
        operation: &Operation<'_>,
        nothing: &dyn Fn() -> Option<T>,
        forward: Forward<'_, T>,
    ) -> Result<T> {
        let Some(loaded) = self.at(level, operation)? else { return forward(node, caller, operation) };
        if !loaded.has_rules(operation) {
            return self.act(level + 1, (node, caller), operation, nothing, forward);
        }
        let below = &mut |node: &Node, caller: &Caller, operation: &Operation<'_>| {
            self.act(level + 1, (node, caller), operation, nothing, forward)
        };
        Act::new(loaded, node, caller, operation).run_or(nothing(), below)
    }

    /// Opens a directory as the rules of a member and those below it say, and lets these rules see the names.
    pub(crate) fn open_directory(&self, level: usize, node: &Node, caller: &Caller) -> Result<OpenDirectoryRef> {
        let operation = Operation::OpenDirectory;
        let Some(loaded) = self.at(level, &operation)? else {
            return node.forward_open_directory(caller);
        };
        let opened = match loaded.has_rules(&operation) {
            true => Act::new(loaded, node, caller, &operation)
                .run(&mut |node, caller, _| self.open_directory(level + 1, node, caller))?,
            false => self.open_directory(level + 1, node, caller)?,
        };
        let sees_names = loaded.has_rules(&Operation::ReadDirectory);
        Ok(if sees_names { Listing::open(Arc::clone(loaded), node.shared(), opened) } else { opened })
    }

    /// Passes an ioctl to the first member that declares it, starting at `level`, or forwards it.
    pub(crate) fn command(
        &self,
        level: usize,
        (node, caller): (&Node, &Caller),
        command: u32,
        (input, output): (&[u8], &mut [u8]),
        forward: ForwardCommand<'_>,
    ) -> Result<i32> {
        let operation = Operation::Ioctl { command };
        let Some(loaded) = self.at(level, &operation)? else { return forward(node, caller, output) };
        if let Some(ioctl) = loaded.ioctl(command) {
            return Act::new(loaded, node, caller, &operation).run_ioctl(ioctl, input, output);
        }
        let mut below = |node: &Node, caller: &Caller| {
            self.command(level + 1, (node, caller), command, (input, &mut *output), forward)
        };
        if !loaded.has_rules(&operation) {
            return below(node, caller);
        }
        Act::new(loaded, node, caller, &operation).run(&mut |node, caller, _| below(node, caller))
    }

    /// Runs the rules for closing an open file.
    pub(crate) fn release(&self, file: &LayerFile<Described>) {
        for loaded in &self.loaded {
            if loaded.has_rules(&Operation::Release) {
                // Nobody waits for an error.
                let _ =
                    Act::new(loaded, file.node(), &Caller::server(), &Operation::Release).run(&mut |_, _, _| Ok(()));
            }
        }
    }

    /// Returns a member, if it exists and permits the operation. The topmost has been checked before.
    fn at(&self, level: usize, operation: &Operation<'_>) -> Result<Option<&Arc<Loaded>>> {
        match self.loaded.get(level) {
            Some(loaded) if level > 0 => loaded.admit(operation).map(|()| Some(loaded)),
            topmost => Ok(topmost),
        }
    }

    /// Encodes a name through all members.
    pub(crate) fn encode_name<'a>(&self, directory: &Node, caller: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        let mut made = Cow::Borrowed(name.as_bytes());
        for loaded in &self.loaded {
            if let Some((encode, _)) = loaded.level().filters.name {
                made = loaded.filter_name(encode, directory, caller, Name::new(&made)?)?.into();
            }
        }
        Ok(made)
    }

    /// Decodes a lower name through all members; returns `None` for a name that no member has made.
    pub(crate) fn decode_name<'a>(&self, directory: &Node, name: Name<'a>) -> Option<Cow<'a, [u8]>> {
        let mut made = Cow::Borrowed(name.as_bytes());
        for loaded in self.loaded.iter().rev() {
            if let Some((_, decode)) = loaded.level().filters.name {
                made = loaded.filter_name(decode, directory, &Caller::server(), Name::new(&made).ok()?).ok()?.into();
            }
        }
        Some(made)
    }

    /// Returns the members with a data filter.
    fn filtering(&self) -> impl DoubleEndedIterator<Item = &Arc<Loaded>> {
        self.loaded.iter().filter(|loaded| loaded.level().filters.data.is_some())
    }

    /// Returns whether a filter needs to know which block is the last.
    pub(crate) fn marks_last(&self) -> bool {
        self.filtering().any(|loaded| loaded.level().marks_last)
    }

    pub(crate) fn data_shape(&self) -> Option<DataShape> {
        self.filtering().next()?;
        let changes_size = self.filtering().any(|loaded| loaded.level().filters.changes_size);
        // It is unknown what a filter makes of zeros, but blocks of which it makes zeros are checked.
        let have_holes = self.filtering().all(|loaded| loaded.has_holes);
        Some(DataShape {
            block_size: if changes_size { CHUNK_BYTES } else { PAGE_BYTES },
            overhead: if changes_size { CHUNK_ROOM } else { 0 },
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
        let mut filtering = self.filtering();
        let topmost = filtering.next().ok_or(Errno::EIO)?;
        topmost.encode_block(node, caller, block, plain, encoded)?;
        for loaded in filtering {
            let mut upper = zeros(encoded.len())?;
            upper.copy_from_slice(encoded);
            loaded.encode_block(node, caller, block, &upper, encoded)?;
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
        let mut filtering = self.filtering().rev();
        let lowest = filtering.next().ok_or(Errno::EIO)?;
        lowest.decode_block(node, caller, block, encoded, plain)?;
        for loaded in filtering {
            let mut lower = zeros(plain.len())?;
            lower.copy_from_slice(plain);
            // A block that the member below shows as a hole is one.
            let is_hole = loaded.has_holes && lower.len() == PAGE_BYTES && lower.iter().all(|byte| *byte == 0);
            if !is_hole {
                loaded.decode_block(node, caller, block, &lower, plain)?;
            }
        }
        Ok(())
    }
}

//! Operations on collapsed members: each goes through the rules of every member as if they were stacked.

use std::borrow::Cow;
use std::sync::Arc;

use vnode::layer::{Block, LayerFile, LayerVnode, Operation};
use vnode::{Caller, Errno, Name, OpenDirectoryRef, Result, zeros};

use super::block_sizes::PAGE_BYTES;
use super::invocation::{Forward, Invocation};
use super::layer::FistLayer;
use super::listing::RuledDirectory;
use super::members::CollapsedMembers;
use super::outcome::Outcome;

type Node = LayerVnode<FistLayer>;

/// Forwards an ioctl that no member declares to the lower file system.
type ForwardIoctl<'f> = &'f mut dyn FnMut(&Node, &Caller, &mut [u8]) -> Result<i32>;

impl CollapsedMembers {
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

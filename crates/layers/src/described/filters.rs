//! Filters: names and pages of data, encoded and decoded by the functions of a FiST module.

use ::fist::memory::Memory;
use ::fist::meter::Meter;
use vnode::layer::{Block, LayerVnode};
use vnode::{Caller, Errno, Name, Result};

use super::block_sizes::PAGE_BYTES;
use super::host::RuleContext;
use super::layer::FistLayer;
use super::module::LoadedModule;

/// Size in bytes of the prefix with the length of an encoded chunk: one more than its length, little-endian.
const LENGTH_PREFIX_BYTES: usize = 4;
/// Number of bytes that an encoded name may take before it is rejected as too long.
const MAX_ENCODED_NAME_BYTES: usize = 4096;

impl LoadedModule {
    /// Encodes a block of data.
    pub(crate) fn encode_block(
        &self,
        node: &LayerVnode<FistLayer>,
        caller: &Caller,
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        let (encode, _) = self.level().filters.data.ok_or(Errno::EIO)?;
        if self.level().filters.changes_size {
            return self.encode_chunk(encode, node, caller, block, plain, encoded);
        }
        self.filter_data(encode, node, caller, block, plain, encoded)?;
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let is_whole = plain.len() == PAGE_BYTES;
        if self.has_holes && is_whole && is_zero(encoded) && !is_zero(plain) {
            tracing::error!(target: "fist", "{}: a page of data became zeros, which stand for a hole: mount it with holes=no",
                self.kind);
            return Err(Errno::EIO);
        }
        Ok(())
    }

    /// Decodes a block of data.
    pub(crate) fn decode_block(
        &self,
        node: &LayerVnode<FistLayer>,
        caller: &Caller,
        block: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        let (_, decode) = self.level().filters.data.ok_or(Errno::EIO)?;
        if self.level().filters.changes_size {
            return self.decode_chunk(decode, node, caller, block, encoded, plain);
        }
        self.filter_data(decode, node, caller, block, encoded, plain)
    }

    /// Encodes or decodes a page, or the shorter last page of a file, after which a filter without a length parameter
    /// sees zeros.
    pub(crate) fn filter_data(
        &self,
        function: usize,
        node: &LayerVnode<FistLayer>,
        caller: &Caller,
        page: Block,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        let takes_length = self.program.functions[function].parameters > 2;
        let length = from.len();
        let values = [Memory::INPUT, Memory::OUTPUT, length as i64, page.number as i64, page.is_last.into()];
        let values = &values[..self.program.functions[function].parameters];
        if length == PAGE_BYTES || takes_length {
            return self.filter_bytes(function, node, caller, values, from, to);
        }
        let (mut padded, mut produced) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
        padded[..length].copy_from_slice(from);
        self.filter_bytes(function, node, caller, values, &padded, &mut produced)?;
        to.copy_from_slice(&produced[..length]);
        Ok(())
    }

    /// Encodes a chunk, whose encoded form may have any length that fits.
    pub(crate) fn encode_chunk(
        &self,
        function: usize,
        node: &LayerVnode<FistLayer>,
        caller: &Caller,
        number: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        let (length, capacity) = encoded.split_at_mut(LENGTH_PREFIX_BYTES);
        let produced = self.filter_chunk(function, node, caller, number, plain, capacity)?;
        capacity[produced..].fill(0);
        length.copy_from_slice(&(produced as u32 + 1).to_le_bytes());
        Ok(())
    }

    /// Decodes a chunk. Bytes that the filter does not produce are zero.
    pub(crate) fn decode_chunk(
        &self,
        function: usize,
        node: &LayerVnode<FistLayer>,
        caller: &Caller,
        number: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        let (length, capacity) = encoded.split_at(LENGTH_PREFIX_BYTES);
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let payload = length.checked_sub(1).and_then(|length| capacity.get(..length)).ok_or(Errno::EBADMSG)?;
        let produced = self.filter_chunk(function, node, caller, number, payload, plain)?;
        plain[produced..].fill(0);
        Ok(())
    }

    /// Creates the memory of a separate run.
    fn memory<'m>(&'m self, from: &'m [u8], to: &'m mut [u8]) -> Memory<'m> {
        Memory::new(&self.program.data, from, to).within(&self.heap_budget).metered(Meter::new(self.time_limit))
    }

    fn filter_chunk(
        &self,
        function: usize,
        node: &LayerVnode<FistLayer>,
        caller: &Caller,
        number: Block,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<usize> {
        let capacity = to.len();
        let values = [
            Memory::INPUT,
            from.len() as i64,
            Memory::OUTPUT,
            capacity as i64,
            number.number as i64,
            number.is_last.into(),
        ];
        let values = &values[..self.program.functions[function].parameters];
        let mut memory = self.memory(from, to);
        let mut context = RuleContext::new(self, node, caller);
        match self.run(&mut context, function, values, &mut memory) {
            Ok(produced) if (0..=capacity as i64).contains(&produced) => Ok(produced as usize),
            Ok(error @ -4095..=-1) => Err(Errno::new(-error as i32)),
            Ok(_) => Err(Errno::EIO),
            Err(_) => Err(context.final_error().unwrap_or(Errno::EIO)),
        }
    }

    fn filter_bytes(
        &self,
        function: usize,
        node: &LayerVnode<FistLayer>,
        caller: &Caller,
        values: &[i64],
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        // Bytes that a filter does not write are zero.
        to.fill(0);
        let mut memory = self.memory(from, to);
        let mut context = RuleContext::new(self, node, caller);
        match self.run(&mut context, function, values, &mut memory) {
            Ok(done) if done == from.len() as i64 => Ok(()),
            Ok(error @ -4095..=-1) => Err(Errno::new(-error as i32)),
            Ok(done) => {
                let name = &self.program.functions[function].name;
                tracing::error!(target: "fist", "{}: {name} answers {done} for {} bytes", self.kind, from.len());
                Err(Errno::EIO)
            }
            Err(_) => Err(context.final_error().unwrap_or(Errno::EIO)),
        }
    }

    /// Encodes or decodes a name.
    pub(crate) fn filter_name(
        &self,
        function: usize,
        directory: &LayerVnode<FistLayer>,
        caller: &Caller,
        name: Name<'_>,
    ) -> Result<Vec<u8>> {
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        let mut out = [0; MAX_ENCODED_NAME_BYTES];
        let length = name.as_bytes().len() as i64;
        let mut context = RuleContext::new(self, directory, caller);
        let takes_capacity = self.program.functions[function].parameters == 4;
        let mut memory = self.memory(&text, &mut out);
        let result = if takes_capacity {
            let values = [Memory::INPUT, length, Memory::OUTPUT, MAX_ENCODED_NAME_BYTES as i64];
            self.run(&mut context, function, &values, &mut memory).map(|done| (done, Memory::OUTPUT))
        } else {
            let pointer_slot = memory.allocate(vec![0; 8]).map_err(|_| Errno::ENOMEM)?;
            self.run(&mut context, function, &[Memory::INPUT, length, pointer_slot], &mut memory)
                .map(|done| (done, memory.load(pointer_slot, ::fist::code::Integer::UNSIGNED_LONG).unwrap_or(0)))
        };
        match result {
            Ok((error @ -4095..=-1, _)) => Err(Errno::new(-error as i32)),
            Ok((done @ 1.., pointer)) => match memory.read(pointer, done as usize) {
                Ok(bytes) => Ok(bytes.to_vec()),
                Err(why) => {
                    let name = &self.program.functions[function].name;
                    tracing::error!(target: "fist", "{}: {name} answers {done} bytes: {why}", self.kind);
                    Err(Errno::EIO)
                }
            },
            Ok(_) => Err(Errno::EIO),
            Err(_) => Err(context.final_error().unwrap_or(Errno::EIO)),
        }
    }
}

//! Filters: names and pages of data, encoded and decoded by the functions of a FiST module.

use ::fist::memory::Memory;
use ::fist::meter::Meter;
use vnode::layer::{Block, LayerVnode};
use vnode::{Caller, Errno, Name, Result};

use super::Described;
use super::host::Running;
use super::loaded::Loaded;

/// Size of a page of data in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Size of a chunk of data in bytes, for filters that change sizes.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// Maximum number of bytes by which encoding may lengthen a chunk, including its length prefix.
pub(crate) const CHUNK_ROOM: usize = 64 << 10;
/// Size in bytes of the prefix with the length of an encoded chunk: one more than its length, little-endian.
const LENGTH_BYTES: usize = 4;
/// Number of bytes that an encoded name may take before it is rejected as too long.
const NAME_BYTES_MAX: usize = 4096;

impl Loaded {
    /// Encodes a block of data.
    pub(crate) fn encode_block(
        &self,
        node: &LayerVnode<Described>,
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
        node: &LayerVnode<Described>,
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
        node: &LayerVnode<Described>,
        caller: &Caller,
        page: Block,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        let is_told = self.program.functions[function].parameters > 2;
        let length = from.len();
        let values = [Memory::INPUT, Memory::OUTPUT, length as i64, page.number as i64, page.is_last.into()];
        let values = &values[..self.program.functions[function].parameters];
        if length == PAGE_BYTES || is_told {
            return self.filter_bytes(function, node, caller, values, from, to);
        }
        let (mut whole, mut made) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
        whole[..length].copy_from_slice(from);
        self.filter_bytes(function, node, caller, values, &whole, &mut made)?;
        to.copy_from_slice(&made[..length]);
        Ok(())
    }

    /// Encodes a chunk, whose encoded form may have any length that fits.
    pub(crate) fn encode_chunk(
        &self,
        function: usize,
        node: &LayerVnode<Described>,
        caller: &Caller,
        number: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        let (length, room) = encoded.split_at_mut(LENGTH_BYTES);
        let made = self.filter_chunk(function, node, caller, number, plain, room)?;
        room[made..].fill(0);
        length.copy_from_slice(&(made as u32 + 1).to_le_bytes());
        Ok(())
    }

    /// Decodes a chunk. Bytes that the filter does not produce are zero.
    pub(crate) fn decode_chunk(
        &self,
        function: usize,
        node: &LayerVnode<Described>,
        caller: &Caller,
        number: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        let (length, room) = encoded.split_at(LENGTH_BYTES);
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let coded = length.checked_sub(1).and_then(|length| room.get(..length)).ok_or(Errno::EBADMSG)?;
        let made = self.filter_chunk(function, node, caller, number, coded, plain)?;
        plain[made..].fill(0);
        Ok(())
    }

    /// Creates the memory of a separate run.
    fn memory<'m>(&'m self, from: &'m [u8], to: &'m mut [u8]) -> Memory<'m> {
        Memory::new(&self.program.data, from, to).within(&self.heap).metered(Meter::new(self.time_limit))
    }

    fn filter_chunk(
        &self,
        function: usize,
        node: &LayerVnode<Described>,
        caller: &Caller,
        number: Block,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<usize> {
        let room = to.len();
        let values = [
            Memory::INPUT,
            from.len() as i64,
            Memory::OUTPUT,
            room as i64,
            number.number as i64,
            number.is_last.into(),
        ];
        let values = &values[..self.program.functions[function].parameters];
        let mut memory = self.memory(from, to);
        let mut host = Running::new(self, node, caller);
        match self.run(&mut host, function, values, &mut memory) {
            Ok(made) if (0..=room as i64).contains(&made) => Ok(made as usize),
            Ok(error @ -4095..=-1) => Err(Errno::new(-error as i32)),
            Ok(_) => Err(Errno::EIO),
            Err(_) => Err(host.answer().unwrap_or(Errno::EIO)),
        }
    }

    fn filter_bytes(
        &self,
        function: usize,
        node: &LayerVnode<Described>,
        caller: &Caller,
        values: &[i64],
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        // Bytes that a filter does not write are zero.
        to.fill(0);
        let mut memory = self.memory(from, to);
        let mut host = Running::new(self, node, caller);
        match self.run(&mut host, function, values, &mut memory) {
            Ok(done) if done == from.len() as i64 => Ok(()),
            Ok(error @ -4095..=-1) => Err(Errno::new(-error as i32)),
            Ok(done) => {
                let name = &self.program.functions[function].name;
                tracing::error!(target: "fist", "{}: {name} answers {done} for {} bytes", self.kind, from.len());
                Err(Errno::EIO)
            }
            Err(_) => Err(host.answer().unwrap_or(Errno::EIO)),
        }
    }

    /// Encodes or decodes a name.
    pub(crate) fn filter_name(
        &self,
        function: usize,
        directory: &LayerVnode<Described>,
        caller: &Caller,
        name: Name<'_>,
    ) -> Result<Vec<u8>> {
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        let mut out = [0; NAME_BYTES_MAX];
        let length = name.as_bytes().len() as i64;
        let mut host = Running::new(self, directory, caller);
        let is_given_room = self.program.functions[function].parameters == 4;
        let mut memory = self.memory(&text, &mut out);
        let answer = if is_given_room {
            let values = [Memory::INPUT, length, Memory::OUTPUT, NAME_BYTES_MAX as i64];
            self.run(&mut host, function, &values, &mut memory).map(|done| (done, Memory::OUTPUT))
        } else {
            let place = memory.allocate(vec![0; 8]).map_err(|_| Errno::ENOMEM)?;
            self.run(&mut host, function, &[Memory::INPUT, length, place], &mut memory)
                .map(|done| (done, memory.load(place, ::fist::code::Integer::UNSIGNED_LONG).unwrap_or(0)))
        };
        match answer {
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
            Err(_) => Err(host.answer().unwrap_or(Errno::EIO)),
        }
    }
}

//! Filters: names and pages of data through the functions of a description.

use ::fist::memory::Memory;
use vnode::layer::LayerVnode;
use vnode::{Caller, Errno, Name, Result};

use super::Described;
use super::host::Running;
use super::loaded::Loaded;

/// Bytes of a page of data.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes that an encoded name may take, before it is found too long.
const NAME_BYTES_MAX: usize = 4096;

impl Loaded {
    /// Encodes or decodes a page, or the shorter last one of a file, for which a filter that is not told its length sees
    /// zeros behind it.
    pub(super) fn filter_data(
        &self,
        function: usize,
        node: &LayerVnode<Described>,
        caller: &Caller,
        page: u64,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        let is_told = self.program.functions[function].parameters > 2;
        let length = from.len();
        let values = [Memory::INPUT, Memory::OUTPUT, length as i64, page as i64];
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

    fn filter_bytes(
        &self,
        function: usize,
        node: &LayerVnode<Described>,
        caller: &Caller,
        values: &[i64],
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        // What a filter leaves as it was is zero.
        to.fill(0);
        let mut memory = Memory::new(&self.program.data, from, to);
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
    pub(super) fn filter_name(
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
        let mut memory = Memory::new(&self.program.data, &text, &mut out);
        let answer = if is_given_room {
            let values = [Memory::INPUT, length, Memory::OUTPUT, NAME_BYTES_MAX as i64];
            self.run(&mut host, function, &values, &mut memory).map(|done| (done, Memory::OUTPUT))
        } else {
            let place = memory.allocate(vec![0; 8]).map_err(|_| Errno::ENOMEM)?;
            self.run(&mut host, function, &[Memory::INPUT, length, place], &mut memory).map(|done| {
                (done, memory.load(place, ::fist::ir::Integer::UNSIGNED_LONG).unwrap_or(0))
            })
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

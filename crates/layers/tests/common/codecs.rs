//! Data layers for tests: one for each way to keep holes, with overhead and without.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vnode::layer::{Block, BlockForm, DataShape, Holes, Layer, LayerFile, LayerVnode, MappedBlock, Operation, stack};
use vnode::{Caller, Errno, FileSystemRef, Promises, Result, SeekTarget};

/// Every data layer of the tests, as its name and how to put it on with a block size.
pub(crate) const CODECS: [(&str, PutOn); 7] = [
    ("plain", |block_size, lower| stack(Plain { block_size }, lower)),
    ("rot13", |block_size, lower| super::layer("rot13", &[("block-size", &block_size.to_string())], lower)),
    ("xor", |block_size, lower| stack(Xor { block_size }, lower)),
    ("checksum", |block_size, lower| stack(Checksum { block_size }, lower)),
    ("packed", |block_size, lower| stack(Packed { block_size }, lower)),
    ("ended", |block_size, lower| stack(Ended { block_size }, lower)),
    ("mapped", |block_size, lower| stack(Mapped { block_size }, lower)),
];

/// Puts a layer with blocks of this size on a file system.
pub(crate) type PutOn = fn(usize, FileSystemRef) -> FileSystemRef;

/// Bytes that [`Checksum`] adds to a block.
pub(crate) const CHECKSUM_SIZE: usize = 8;

/// Copies blocks: what the template does by itself.
pub(crate) struct Plain {
    pub block_size: usize,
}

impl Layer for Plain {
    type State = ();

    fn kind(&self) -> &'static str {
        "plain"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: self.block_size, overhead: 0, holes: Holes::Filled, sparse: false })
    }
}

/// Mixes each byte with a key of the block's: zeros are not zeros below, so files have no holes.
pub(crate) struct Xor {
    pub block_size: usize,
}

impl Xor {
    fn mix(block: u64, from: &[u8], to: &mut [u8]) {
        let key = 0x5a ^ (block as u8).wrapping_mul(31);
        from.iter().zip(to).enumerate().for_each(|(index, (from, to))| *to = from ^ key.wrapping_add(index as u8));
    }
}

impl Layer for Xor {
    type State = ();

    fn kind(&self) -> &'static str {
        "xor"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: self.block_size, overhead: 0, holes: Holes::Filled, sparse: false })
    }

    fn encode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        Self::mix(block.number, plain, encoded);
        Ok(())
    }

    fn decode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        Self::mix(block.number, encoded, plain);
        Ok(())
    }
}

/// Puts a checksum before each block, and answers `EBADMSG` where it does not hold. Blocks of zeros are holes.
pub(crate) struct Checksum {
    pub block_size: usize,
}

impl Checksum {
    /// Depends on the block's number and length too, and is never 0.
    fn sum(block: u64, plain: &[u8]) -> [u8; CHECKSUM_SIZE] {
        let start = 0xcbf2_9ce4_8422_2325 ^ block ^ ((plain.len() as u64) << 32);
        let sum = plain.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        (sum | 1).to_le_bytes()
    }
}

impl Layer for Checksum {
    type State = ();

    fn kind(&self) -> &'static str {
        "checksum"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: self.block_size, overhead: CHECKSUM_SIZE, holes: Holes::ZeroBlock, sparse: false })
    }

    fn encode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        encoded[..CHECKSUM_SIZE].copy_from_slice(&Self::sum(block.number, plain));
        encoded[CHECKSUM_SIZE..].copy_from_slice(plain);
        Ok(())
    }

    fn decode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        plain.copy_from_slice(&encoded[CHECKSUM_SIZE..]);
        if encoded[..CHECKSUM_SIZE] == Self::sum(block.number, plain) { Ok(()) } else { Err(Errno::EBADMSG) }
    }
}

/// Makes blocks of a size that depends on the data: bytes from 224 on become two, long runs
/// become short, and zeros at the end go. In front are the
/// length and a checksum, which answers `EBADMSG` where it does not hold. Blocks of zeros are holes.
pub(crate) struct Packed {
    pub block_size: usize,
}

impl Packed {
    const HEADER_SIZE: usize = 12;
    /// The first of the bytes that become two, and what stands before each of them.
    const ESCAPE: u8 = 224;
    /// Stands before a byte and how often it comes.
    const RUN: u8 = 225;

    fn pack_run(run: &[u8]) -> Vec<u8> {
        match run {
            [] => Vec::new(),
            [byte, ..] if run.len() > 100 => {
                run.chunks(255).flat_map(|part| [Self::RUN, *byte, part.len() as u8]).collect()
            }
            [byte, ..] if *byte >= Self::ESCAPE => run.iter().flat_map(|byte| [Self::ESCAPE, *byte]).collect(),
            _ => run.to_vec(),
        }
    }

    fn overhead(&self) -> usize {
        if self.block_size.is_multiple_of(4096) { self.block_size + 4096 } else { self.block_size + Self::HEADER_SIZE }
    }
}

impl Layer for Packed {
    type State = ();

    fn kind(&self) -> &'static str {
        "packed"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        let overhead = self.overhead();
        Some(DataShape { block_size: self.block_size, overhead, holes: Holes::ZeroBlock, sparse: true })
    }

    fn encode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        let kept = plain.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let packed: Vec<u8> = plain[..kept].chunk_by(|one, next| one == next).flat_map(Self::pack_run).collect();
        encoded.fill(0);
        encoded[..4].copy_from_slice(&(packed.len() as u32 + 1).to_le_bytes());
        encoded[4..Self::HEADER_SIZE].copy_from_slice(&Checksum::sum(block.number, &packed));
        encoded[Self::HEADER_SIZE..Self::HEADER_SIZE + packed.len()].copy_from_slice(&packed);
        Ok(())
    }

    fn decode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        let length = u32::from_le_bytes(encoded[..4].try_into().unwrap()) as usize;
        let packed = encoded[Self::HEADER_SIZE..].get(..length.wrapping_sub(1)).ok_or(Errno::EBADMSG)?;
        if encoded[4..Self::HEADER_SIZE] != Checksum::sum(block.number, packed) {
            return Err(Errno::EBADMSG);
        }
        let (mut bytes, mut packed) = (Vec::new(), packed.iter());
        while let Some(&first) = packed.next() {
            let mut next = || packed.next().copied().ok_or(Errno::EBADMSG);
            match first {
                Self::ESCAPE => bytes.push(next()?),
                Self::RUN => bytes.extend(std::iter::repeat_n(next()?, usize::from(next()?))),
                _ => bytes.push(first),
            }
        }
        let made = plain.get_mut(..bytes.len()).ok_or(Errno::EBADMSG)?;
        made.copy_from_slice(&bytes);
        plain[bytes.len()..].fill(0);
        Ok(())
    }
}

/// Puts a checksum before each block, another if the file ends with it, and answers `EBADMSG` where it does not hold: so it
/// tells where blocks were cut off or added.
pub(crate) struct Ended {
    pub block_size: usize,
}

impl Ended {
    /// Another number for the block if it is the last.
    fn number(block: Block) -> u64 {
        block.number | u64::from(block.is_last) << 63
    }
}

impl Layer for Ended {
    type State = ();

    fn kind(&self) -> &'static str {
        "ended"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: self.block_size, overhead: CHECKSUM_SIZE, holes: Holes::Filled, sparse: false })
    }

    fn marks_last_block(&self) -> bool {
        true
    }

    fn encode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        encoded[..CHECKSUM_SIZE].copy_from_slice(&Checksum::sum(Self::number(block), plain));
        encoded[CHECKSUM_SIZE..].copy_from_slice(plain);
        Ok(())
    }

    fn decode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: Block,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        plain.copy_from_slice(&encoded[CHECKSUM_SIZE..]);
        if encoded[..CHECKSUM_SIZE] == Checksum::sum(Self::number(block), plain) { Ok(()) } else { Err(Errno::EBADMSG) }
    }
}

/// Stores blocks of any length with a block map: those that begin with an odd byte become one byte longer, others lose the zeros at
/// their ends, and those that begin with a multiple of 7 are refused.
pub(crate) struct Mapped {
    pub block_size: usize,
}

impl Layer for Mapped {
    type State = ();

    fn kind(&self) -> &'static str {
        "mapped"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn block_map(&self) -> Option<usize> {
        Some(self.block_size)
    }

    fn new_file_header(&self, _: &LayerVnode<Self>, _: &Caller) -> Result<Vec<u8>> {
        Ok(vec![fastrand::u8(..); 100])
    }

    fn encode_block(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: MappedBlock<'_>,
        plain: &[u8],
        encoded: &mut Vec<u8>,
    ) -> Result<BlockForm> {
        if plain[0].is_multiple_of(7) {
            encoded.push(1);
            return Ok(BlockForm::Verbatim);
        }
        let used = plain.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        encoded.push(tag(block));
        encoded.extend(plain[..used].iter().map(|byte| byte ^ 0x55));
        if plain[0].is_multiple_of(2) {
            encoded.push(tag(block));
        }
        Ok(BlockForm::Encoded)
    }

    fn decode_block(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: MappedBlock<'_>,
        form: BlockForm,
        stored: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        if form == BlockForm::Verbatim {
            plain.copy_from_slice(stored);
            return Ok(());
        }
        assert_eq!(stored[0], tag(block), "a block is decoded under its own number, with the header of its file");
        let is_odd = stored.get(1).is_none_or(|first| (first ^ 0x55).is_multiple_of(2));
        let used = &stored[1..stored.len() - usize::from(is_odd)];
        plain[..used.len()].iter_mut().zip(used).for_each(|(to, from)| *to = from ^ 0x55);
        plain[used.len()..].fill(0);
        Ok(())
    }
}

fn tag(block: MappedBlock<'_>) -> u8 {
    block.number as u8 ^ block.file_header[99]
}

/// Changes nothing, but takes its time before each write, so that what may happen in between does.
pub(crate) struct Slow;

impl Layer for Slow {
    type State = ();

    fn kind(&self) -> &'static str {
        "slow"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        std::thread::sleep(std::time::Duration::from_micros(50));
        file.forward_write_at(caller, offset, data)
    }
}

/// Fails what would make files shorter, as a device may.
pub(crate) struct Stuck;

impl Layer for Stuck {
    type State = ();

    fn kind(&self) -> &'static str {
        "stuck"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn truncate(&self, file: &LayerFile<Self>, caller: &Caller, size: u64) -> Result<()> {
        if size <= file.lower().getattr(caller)?.size { Err(Errno::EIO) } else { file.forward_truncate(caller, size) }
    }
}

/// Makes a file shorter before a search for data or a hole, as others may do below: which search that is, counted down to 0, and
/// the size.
pub(crate) struct Cutting {
    pub left: AtomicUsize,
    pub size: u64,
}

impl Layer for Cutting {
    type State = ();

    fn kind(&self) -> &'static str {
        "cutting"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn seek(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, target: SeekTarget) -> Result<u64> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            file.forward_truncate(caller, self.size)?;
        }
        file.forward_seek(caller, offset, target)
    }
}

/// Fails calls as it is told by its `Breaks`.
pub(crate) struct Breaking(pub Arc<Breaks>);

/// Which call to [`Breaking`] fails, and how.
#[derive(Default)]
pub(crate) struct Breaks {
    /// Number of calls until one fails: 1 for the next, 0 for none.
    pub left: AtomicUsize,
    /// Bytes that a write which fails has written before it: it returns them, and the next write fails.
    pub short: AtomicUsize,
}

impl Breaks {
    /// Counts a call, and fails it if its turn has come.
    fn count(&self) -> Result<()> {
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if before == Ok(1) { Err(Errno::EIO) } else { Ok(()) }
    }
}

impl Layer for Breaking {
    type State = ();

    fn kind(&self) -> &'static str {
        "breaking"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Read { .. } | Operation::Truncate { .. } | Operation::Allocate { .. } => self.0.count(),
            _ => Ok(()),
        }
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let Err(error) = self.0.count() else { return file.forward_write_at(caller, offset, data) };
        match self.0.short.swap(0, Ordering::Relaxed) {
            0 => Err(error),
            short => {
                self.0.left.store(1, Ordering::Relaxed);
                file.forward_write_at(caller, offset, &data[..short.min(data.len())])
            }
        }
    }
}

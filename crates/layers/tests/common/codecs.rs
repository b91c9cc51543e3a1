//! Data layers for tests: one for each way to keep holes, with overhead and without.

use vnode::layer::{DataShape, Holes, Layer, LayerFile, LayerVnode, stack};
use vnode::{Caller, Errno, FileSystemRef, Properties, Result};

/// Every data layer of the tests, as its name and how to put it on with a block size.
pub const CODECS: [(&str, PutOn); 4] = [
    ("plain", |block_size, lower| stack(Plain { block_size }, lower)),
    ("rot13", |block_size, lower| super::layer("rot13", &[("block-size", &block_size.to_string())], lower)),
    ("xor", |block_size, lower| stack(Xor { block_size }, lower)),
    ("checksum", |block_size, lower| stack(Checksum { block_size }, lower)),
];

/// Puts a layer with blocks of this size on a file system.
pub type PutOn = fn(usize, FileSystemRef) -> FileSystemRef;

/// Bytes that [`Checksum`] adds to a block.
pub const CHECKSUM_SIZE: usize = 8;

/// Copies blocks: what the template does by itself.
pub struct Plain {
    pub block_size: usize,
}

impl Layer for Plain {
    type State = ();

    fn kind(&self) -> &'static str {
        "plain"
    }

    fn properties(&self) -> Properties {
        Properties { data_untouched: false, ..Properties::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: self.block_size, overhead: 0, holes: Holes::Filled, sparse: false })
    }
}

/// Mixes each byte with a key of the block's: zeros are not zeros below, so files have no holes.
pub struct Xor {
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

    fn properties(&self) -> Properties {
        Properties { data_untouched: false, ..Properties::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: self.block_size, overhead: 0, holes: Holes::Filled, sparse: false })
    }

    fn encode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: u64,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        Self::mix(block, plain, encoded);
        Ok(())
    }

    fn decode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: u64,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        Self::mix(block, encoded, plain);
        Ok(())
    }
}

/// Puts a checksum before each block, and answers `EBADMSG` where it does not hold. Blocks of zeros are holes.
pub struct Checksum {
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

    fn properties(&self) -> Properties {
        Properties { data_untouched: false, ..Properties::TRANSPARENT }
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: self.block_size, overhead: CHECKSUM_SIZE, holes: Holes::ZeroBlock, sparse: false })
    }

    fn encode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: u64,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        encoded[..CHECKSUM_SIZE].copy_from_slice(&Self::sum(block, plain));
        encoded[CHECKSUM_SIZE..].copy_from_slice(plain);
        Ok(())
    }

    fn decode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: u64,
        encoded: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        plain.copy_from_slice(&encoded[CHECKSUM_SIZE..]);
        if encoded[..CHECKSUM_SIZE] == Self::sum(block, plain) { Ok(()) } else { Err(Errno::EBADMSG) }
    }
}

/// Changes nothing, but takes its time before each write, so that what may happen in between does.
pub struct Slow;

impl Layer for Slow {
    type State = ();

    fn kind(&self) -> &'static str {
        "slow"
    }

    fn write_at(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        offset: u64,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<usize> {
        std::thread::sleep(std::time::Duration::from_micros(50));
        file.forward_write_at(caller, offset, data, kill_privileges)
    }
}

/// Fails what would make files shorter, as a device may.
pub struct Stuck;

impl Layer for Stuck {
    type State = ();

    fn kind(&self) -> &'static str {
        "stuck"
    }

    fn truncate(&self, _: &LayerFile<Self>, _: &Caller, _: u64, _: bool) -> Result<()> {
        Err(Errno::EIO)
    }
}

//! The layer `zstd`: stores the data of files compressed, over a block map.

use layers::Kind;
use layers::options::{OptionSpecification, Options, number};
use vnode::layer::{BlockForm, Layer, LayerVnode, MappedBlock, stack};
use vnode::{Caller, Errno, Promises, Result};

/// Registration of this layer.
pub const KIND: Kind = Kind::over("zstd", "stores data compressed", OPTIONS, |pairs, lower| {
    let options = Options::new("zstd", OPTIONS, pairs)?;
    let level = options.read("level", |text| match number(text) {
        Ok(level @ 1..=19) => Ok(level),
        _ => Err("a level from 1 to 19".to_owned()),
    })?;
    let kibibytes: Option<usize> = options.read("block-size", |text| match number(text) {
        Ok(size @ 4..=1024) => Ok(size),
        _ => Err("a number of KiB from 4 to 1024".to_owned()),
    })?;
    Ok(stack(Zstd { level: level.unwrap_or(3), block_size: kibibytes.unwrap_or(64) << 10 }, lower))
});

const OPTIONS: &[OptionSpecification] = &[
    OptionSpecification { key: "level", value: "LEVEL", summary: "how hard to try, from 1 to 19 (default 3)" },
    OptionSpecification { key: "block-size", value: "KIB", summary: "how much is compressed at a time (default 64)" },
];

struct Zstd {
    level: i32,
    block_size: usize,
}

impl Layer for Zstd {
    type State = ();

    fn kind(&self) -> &'static str {
        "zstd"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn details(&self) -> String {
        format!("level={},block-size={}", self.level, self.block_size >> 10)
    }

    fn block_map(&self) -> Option<usize> {
        Some(self.block_size)
    }

    fn encode_block(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        _: MappedBlock<'_>,
        plain: &[u8],
        encoded: &mut Vec<u8>,
    ) -> Result<BlockForm> {
        // What would not become shorter by an eighth is not worth the time of its readers.
        encoded.resize(plain.len() - plain.len() / 8, 0);
        match ::zstd::bulk::compress_to_buffer(plain, encoded, self.level) {
            Ok(length) => {
                encoded.truncate(length);
                Ok(BlockForm::Encoded)
            }
            Err(_) => Ok(BlockForm::Verbatim),
        }
    }

    fn decode_block(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        _: MappedBlock<'_>,
        form: BlockForm,
        stored: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        if form == BlockForm::Verbatim {
            plain.copy_from_slice(stored);
            return Ok(());
        }
        match ::zstd::bulk::decompress_to_buffer(stored, plain) {
            Ok(length) if length == plain.len() => Ok(()),
            _ => Err(Errno::EBADMSG),
        }
    }
}

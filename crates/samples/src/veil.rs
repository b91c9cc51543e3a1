//! The layer `veil`: hides names, symlink targets, extended attributes and data, by values of its own in each directory.
//!
//! What an encrypting layer does, without the cryptography: whoever reads the lower files can undo it.

use std::borrow::Cow;

use layers::Kind;
use layers::options::{OptionProblem, OptionSpecification, Options, number};
use once_cell::sync::OnceCell;
use vnode::layer::{
    BlockForm, EntryOrigin, Layer, LayerVnode, MappedBlock, OwnEntries, read_own_file, stack, write_own_file,
};
use vnode::{Caller, Errno, FileSystemRef, NAME_MAX, Name, Result, StatFs, VnodeRef};

/// Registration of this layer.
pub const KIND: Kind = Kind::over("veil", "hides names and data from a glance", OPTIONS, |pairs, lower| {
    let options = Options::new("veil", OPTIONS, pairs)?;
    let key: Option<u64> = options.read("key", number)?;
    prepare_root(&lower).map_err(|error| options.error("key", OptionProblem::Branch { error }))?;
    Ok(stack(Veil { key: key.unwrap_or(1) }, lower))
});

const OPTIONS: &[OptionSpecification] =
    &[OptionSpecification { key: "key", value: "NUMBER", summary: "what it is hidden by (default 1)" }];

/// Own entry of each directory, with its value.
const VALUE: &[u8] = b".veil";
/// Begins a name whose veiled form is in an own entry beside it, since it is too long.
const LONG: u8 = b'+';
const SIDE_FILE: &[u8] = b".name";
/// Extended attributes that are veiled.
const USER: &[u8] = b"user.";

type Value = [u8; 8];

struct Veil {
    key: u64,
}

fn name(bytes: &[u8]) -> Result<Name<'_>> {
    Name::new(bytes)
}

fn make_value(directory: &VnodeRef, caller: &Caller) -> Result<()> {
    write_own_file("veil", directory, caller, name(VALUE)?, &fastrand::u64(..).to_le_bytes())
}

fn prepare_root(lower: &FileSystemRef) -> Result<()> {
    match lower.root().lookup(&Caller::server(), name(VALUE)?) {
        Err(Errno::ENOENT) => make_value(&lower.root(), &Caller::server()),
        result => result.map(drop),
    }
}

impl Veil {
    /// Veils or unveils bytes.
    fn apply(&self, value: u64, bytes: &mut [u8]) {
        let mut stream = fastrand::Rng::with_seed(self.key ^ value);
        bytes.iter_mut().for_each(|byte| *byte ^= stream.u8(..));
    }

    /// Veils or, the other way round, unveils bytes none of which is NUL.
    fn rotate(&self, bytes: &mut [u8], by: impl Fn(u8) -> u8) {
        let mut stream = fastrand::Rng::with_seed(self.key);
        for byte in bytes {
            *byte = ((u16::from(*byte) + 254 + u16::from(by(stream.u8(..255)))) % 255) as u8 + 1;
        }
    }

    fn rotated(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        self.rotate(&mut bytes, |step| step);
        bytes
    }

    fn rotated_back(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        self.rotate(&mut bytes, |step| 255 - step);
        bytes
    }

    fn hide(&self, value: u64, plain: &[u8]) -> Vec<u8> {
        let mut veiled = plain.to_vec();
        self.apply(value, &mut veiled);
        veiled.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
    }

    fn show(&self, value: u64, hidden: &[u8]) -> Result<Vec<u8>> {
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(Errno::EBADMSG);
        if !hidden.len().is_multiple_of(2) {
            return Err(Errno::EBADMSG);
        }
        let pairs = hidden.chunks(2).map(|pair| Ok((digit(pair[0])? * 16 + digit(pair[1])?) as u8));
        let mut plain = pairs.collect::<Result<Vec<u8>>>()?;
        self.apply(value, &mut plain);
        Ok(plain)
    }

    /// Returns the value of a directory, read once for as long as anybody refers to it.
    fn value(directory: &LayerVnode<Self>) -> Result<u64> {
        let read = || {
            let mut value = Value::default();
            match read_own_file(directory.lower(), name(VALUE)?, &mut value)? {
                8 => Ok(u64::from_le_bytes(value)),
                _ => Err(Errno::EBADMSG),
            }
        };
        directory.state().get_or_try_init(read).copied()
    }
}

/// Returns the name for a veiled one that is too long.
fn short(hidden: &[u8]) -> Vec<u8> {
    let hash = hidden
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    format!("{}{hash:016x}", char::from(LONG)).into_bytes()
}

fn side_file(short: &[u8]) -> Vec<u8> {
    [short, SIDE_FILE].concat()
}

/// Returns the value that a block is veiled by: that of its file, in which no two blocks have the same.
fn of_block(block: MappedBlock<'_>) -> Result<u64> {
    let value: Value = block.file_header.try_into().map_err(|_| Errno::EBADMSG)?;
    Ok(u64::from_le_bytes(value) ^ block.number)
}

impl Layer for Veil {
    type State = OnceCell<u64>;

    fn kind(&self) -> &'static str {
        "veil"
    }

    fn details(&self) -> String {
        format!("key={}", self.key)
    }

    fn own_entries(&self) -> OwnEntries {
        OwnEntries { exist: true, in_new_directories: true, beside_others: true }
    }

    fn is_own_entry(&self, name: Name<'_>) -> bool {
        let name = name.as_bytes();
        name == VALUE || name.first() == Some(&LONG) && name.ends_with(SIDE_FILE)
    }

    fn fill_directory(&self, lower: &VnodeRef, caller: &Caller) -> Result<()> {
        make_value(lower, caller)
    }

    fn prepare_entry(
        &self,
        directory: &LayerVnode<Self>,
        caller: &Caller,
        plain: Name<'_>,
        _: EntryOrigin<'_, LayerVnode<Self>>,
    ) -> Result<()> {
        let hidden = self.hide(Self::value(directory)?, plain.as_bytes());
        if hidden.len() <= NAME_MAX {
            return Ok(());
        }
        let (side_file, mut stored) = (side_file(&short(&hidden)), [0; 2 * NAME_MAX]);
        // One that is there is not written again: a server that stops then would leave the object that has it without a name.
        match read_own_file(directory.lower(), name(&side_file)?, &mut stored) {
            Ok(length) if stored[..length] == hidden => Ok(()),
            _ => write_own_file("veil", directory.lower(), caller, name(&side_file)?, &hidden),
        }
    }

    fn forget_entry(&self, directory: &LayerVnode<Self>, plain: Name<'_>) -> Result<()> {
        let hidden = self.hide(Self::value(directory)?, plain.as_bytes());
        if hidden.len() <= NAME_MAX {
            return Ok(());
        }
        directory.lower().unlink(&Caller::server(), name(&side_file(&short(&hidden)))?)
    }

    fn encode_name<'a>(&self, directory: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        let hidden = self.hide(Self::value(directory)?, name.as_bytes());
        Ok(if hidden.len() > NAME_MAX { short(&hidden) } else { hidden }.into())
    }

    fn decode_name<'a>(
        &self,
        directory: &LayerVnode<Self>,
        _: &Caller,
        stored: Name<'a>,
    ) -> Result<Option<Cow<'a, [u8]>>> {
        let value = Self::value(directory)?;
        if stored.as_bytes().first() != Some(&LONG) {
            return self.show(value, stored.as_bytes()).map(|plain| Some(plain.into()));
        }
        let mut hidden = [0; 2 * NAME_MAX];
        let length = read_own_file(directory.lower(), name(&side_file(stored.as_bytes()))?, &mut hidden)?;
        self.show(value, &hidden[..length]).map(|plain| Some(plain.into()))
    }

    fn encodes_targets(&self) -> bool {
        true
    }

    fn encode_target<'a>(&self, _: &LayerVnode<Self>, _: &Caller, target: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        Ok(self.rotated(target).into())
    }

    fn decode_target(&self, _: &LayerVnode<Self>, _: &Caller, target: Vec<u8>) -> Result<Vec<u8>> {
        Ok(self.rotated_back(&target))
    }

    fn encodes_xattrs(&self) -> bool {
        true
    }

    fn encode_xattr_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        Ok(match name.strip_prefix(USER) {
            Some(plain) => [USER, &self.rotated(plain)].concat().into(),
            None => name.into(),
        })
    }

    fn decode_xattr_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(Some(match name.strip_prefix(USER) {
            Some(hidden) => [USER, &self.rotated_back(hidden)].concat().into(),
            None => name.into(),
        }))
    }

    fn encode_xattr_value<'a>(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        name: &[u8],
        value: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        let mut veiled = value.to_vec();
        if name.starts_with(USER) {
            self.apply(0, &mut veiled);
        }
        Ok(veiled.into())
    }

    fn decode_xattr_value(&self, _: &LayerVnode<Self>, _: &Caller, name: &[u8], mut value: Vec<u8>) -> Result<Vec<u8>> {
        if name.starts_with(USER) {
            self.apply(0, &mut value);
        }
        Ok(value)
    }

    fn block_map(&self) -> Option<usize> {
        Some(16 << 10)
    }

    fn new_file_header(&self, _: &LayerVnode<Self>, _: &Caller) -> Result<Vec<u8>> {
        Ok(fastrand::u64(..).to_le_bytes().to_vec())
    }

    fn encode_block(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: MappedBlock<'_>,
        plain: &[u8],
        encoded: &mut Vec<u8>,
    ) -> Result<BlockForm> {
        encoded.extend_from_slice(plain);
        self.apply(of_block(block)?, encoded);
        Ok(BlockForm::Encoded)
    }

    fn decode_block(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: MappedBlock<'_>,
        _: BlockForm,
        stored: &[u8],
        plain: &mut [u8],
    ) -> Result<()> {
        plain.copy_from_slice(stored.get(..plain.len()).ok_or(Errno::EBADMSG)?);
        self.apply(of_block(block)?, plain);
        Ok(())
    }

    fn map_statfs(&self, statfs: &mut StatFs) {
        statfs.name_max = statfs.name_max.min(NAME_MAX as u32);
    }
}

//! Cryptfs enciphers data and names with Blowfish. The key is set by an ioctl: before, there are no names and no data.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use blowfish::Blowfish;
use blowfish::cipher::{BlockEncrypt, KeyInit};
use vnode::layer::{Block, DataShape, Holes, Layer, LayerFile, LayerVnode, Operation};
use vnode::{Caller, Errno, FileKind, Name, Needs, Promises, Result, StatFs, TimesTell};

use super::ioctl;

/// The bytes of a key.
const KEY_BYTES: usize = 16;
/// The command that sets it.
const SET_KEY: u32 = ioctl::giving(KEY_BYTES);
/// The bytes of a page of data.
const PAGE_BYTES: usize = 4096;
/// One for all pages and names.
const INITIALIZATION_VECTOR: [u8; 8] = [0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10];
/// The key has not been set.
const NO_KEY: Errno = Errno::new(libc::ENOKEY);

/// Enciphers data and names.
#[derive(Default)]
pub struct Cryptfs {
    cipher: RwLock<Option<Blowfish>>,
}

impl Cryptfs {
    /// The layer without a key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cipher feedback of 64 bits: the encrypted form of each 8 bytes goes into that of the next.
    fn apply(&self, is_encrypting: bool, from: &[u8], to: &mut [u8]) -> Result<()> {
        let cipher = self.cipher.read().unwrap_or_else(PoisonError::into_inner);
        let cipher = cipher.as_ref().ok_or(NO_KEY)?;
        let mut feedback = INITIALIZATION_VECTOR;
        for (from, to) in from.chunks(feedback.len()).zip(to.chunks_mut(feedback.len())) {
            cipher.encrypt_block((&mut feedback).into());
            for ((from, to), feedback) in from.iter().zip(&mut *to).zip(&mut feedback) {
                *to = from ^ *feedback;
                *feedback = if is_encrypting { *to } else { *from };
            }
        }
        Ok(())
    }
}

fn cipher(key: &[u8; KEY_BYTES]) -> Blowfish {
    Blowfish::new_from_slice(key).expect("a key may have 16 bytes")
}

impl Layer for Cryptfs {
    type State = ();

    fn kind(&self) -> &'static str {
        "cryptfs"
    }

    fn promises(&self) -> Promises {
        Promises {
            data_untouched: false,
            names_untouched: false,
            times_tell_changes: TimesTell::OfNone,
            ..Promises::TRANSPARENT
        }
    }

    fn needs(&self) -> Needs {
        Needs {
            // Another key makes other names and data of what is below.
            every_lookup: true,
            failed_lookups: true,
            ..Needs::NONE
        }
    }

    fn admit(&self, node: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        let needs_key = match operation {
            Operation::Open(_) => node.lower().kind() == FileKind::Regular,
            Operation::TemporaryFile(_) => true,
            _ => false,
        };
        match needs_key && self.cipher.read().unwrap_or_else(PoisonError::into_inner).is_none() {
            true => Err(NO_KEY),
            false => Ok(()),
        }
    }

    fn ioctl(
        &self,
        node: &LayerVnode<Self>,
        file: Option<&LayerFile<Self>>,
        caller: &Caller,
        command: u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<i32> {
        if command != SET_KEY {
            return match file {
                Some(file) => file.forward_ioctl(caller, command, input, output),
                None => node.forward_ioctl(caller, command, input, output),
            };
        }
        if caller.uid != 0 {
            return Err(Errno::EPERM);
        }
        let key = input.try_into().map_err(|_| Errno::EFAULT)?;
        *self.cipher.write().unwrap_or_else(PoisonError::into_inner) = Some(cipher(key));
        Ok(0)
    }

    /// Enciphered names are written with hexadecimal digits: so they take twice the room.
    fn encode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        let mut coded = vec![0; name.as_bytes().len()];
        self.apply(true, name.as_bytes(), &mut coded)?;
        Ok(Cow::Owned(coded.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()))
    }

    fn decode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        let digit = |digit: &u8| char::from(*digit).to_digit(16).filter(|_| !digit.is_ascii_uppercase());
        let digits: Option<Vec<_>> = name.as_bytes().iter().map(digit).collect();
        let Some(digits) = digits.filter(|digits| digits.len() % 2 == 0) else { return Ok(None) };
        let coded: Vec<_> = digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
        let mut plain = vec![0; coded.len()];
        self.apply(false, &coded, &mut plain)?;
        Ok(Some(Cow::Owned(plain)))
    }

    fn map_statfs(&self, statfs: &mut StatFs) {
        statfs.name_max /= 2;
    }

    fn data_shape(&self) -> Option<DataShape> {
        Some(DataShape { block_size: PAGE_BYTES, overhead: 0, holes: Holes::ZeroBlock, sparse: false })
    }

    fn encode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, plain: &[u8], encoded: &mut [u8]) -> Result<()> {
        self.apply(true, plain, encoded)?;
        // A page of zeros below stands for a hole: data that become one are refused.
        let is_hole = encoded.len() == PAGE_BYTES && encoded.iter().all(|byte| *byte == 0);
        if is_hole { Err(Errno::EIO) } else { Ok(()) }
    }

    fn decode_data(&self, _: &LayerVnode<Self>, _: &Caller, _: Block, encoded: &[u8], plain: &mut [u8]) -> Result<()> {
        self.apply(false, encoded, plain)
    }
}

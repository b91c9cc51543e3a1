//! Cryptfs enciphers data and names with Blowfish. The superuser sets the key by an ioctl: before,
//! there are no names and no data.
//!
//! One initialization vector for all pages shows which pages are the same: see sealfs for a file system that keeps
//! secrets.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{PoisonError, RwLock};

use blowfish::Blowfish;
use blowfish::cipher::{BlockEncrypt, KeyInit};
use rustix::io::Errno;

use super::filtered::{Code, Filtered};
use super::pass_through::{Caller, Operations, PassThrough, Result, write_command};

/// The bytes of a key.
const KEY_BYTES: usize = 16;
/// Where the cipher starts, for each page and each name.
const START: [u8; 8] = [0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10];

/// The code.
pub struct Cipher {
    key: RwLock<Option<Blowfish>>,
}

/// The file system.
pub struct Cryptfs {
    below: Filtered<Cipher>,
}

impl Cryptfs {
    /// Shows what lies there, when a key has been set.
    pub fn new(below: PassThrough) -> Self {
        Self { below: Filtered::over(below, Cipher { key: RwLock::default() }) }
    }
}

impl Cipher {
    /// Enciphers, or deciphers, with cipher feedback.
    fn run(&self, data: &[u8], is_enciphering: bool) -> Result<Vec<u8>> {
        let key = self.key.read().unwrap_or_else(PoisonError::into_inner);
        let key = key.as_ref().ok_or(Errno::NOKEY)?;
        let (mut state, mut result) = (START, data.to_vec());
        for block in result.chunks_mut(state.len()) {
            key.encrypt_block((&mut state).into());
            for (byte, state) in block.iter_mut().zip(&mut state) {
                let input = *byte;
                *byte ^= *state;
                *state = if is_enciphering { *byte } else { input };
            }
        }
        Ok(result)
    }
}

impl Code for Cipher {
    const BLOCK: usize = 4096;
    const ROOM: usize = 0;

    fn encode(&self, _number: u64, plain: &[u8]) -> Result<Vec<u8>> {
        self.run(plain, true)
    }

    fn decode(&self, _number: u64, coded: &[u8], _length: usize) -> Result<Vec<u8>> {
        self.run(coded, false)
    }
}

/// The byte that two hexadecimal digits write, small ones only.
fn from_hexadecimal(digits: &[u8]) -> Option<u8> {
    let digit = |index| match digits.get(index)? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    Some(digit(0)? << 4 | digit(1)?)
}

impl Operations for Cryptfs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    // Enciphered names are written with hexadecimal digits: so they take twice the room.
    fn encode_name<'a>(&self, name: &'a OsStr) -> Result<Cow<'a, OsStr>> {
        let coded = self.below.code.run(name.as_bytes(), true)?;
        let digits: String = coded.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Cow::Owned(digits.into()))
    }

    fn decode_name(&self, name: OsString) -> Option<OsString> {
        let coded = name.as_bytes().chunks(2).map(from_hexadecimal).collect::<Option<Vec<_>>>()?;
        let name = self.below.code.run(&coded, false).ok()?;
        // Under another key it may be what no name can be.
        let is_name = !name.is_empty() && !name.iter().any(|byte| matches!(byte, 0 | b'/'));
        is_name.then(|| OsString::from_vec(name))
    }

    fn ioctl(&self, caller: &Caller, number: u64, command: u32, data: &[u8]) -> Result<Vec<u8>> {
        if command != write_command(KEY_BYTES) {
            return self.below.ioctl(caller, number, command, data);
        }
        if caller.user != 0 {
            return Err(Errno::PERM);
        }
        let key = Blowfish::new_from_slice(data).map_err(|_| Errno::INVAL)?;
        *self.below.code.key.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
        Ok(Vec::new())
    }
}

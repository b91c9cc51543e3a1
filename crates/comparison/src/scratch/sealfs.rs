//! Sealfs keeps data secret and unchanged: each 64 KiB are enciphered with XChaCha20-Poly1305 under a nonce of their
//! own, and what was changed below, or moved to another place in its file, answers EBADMSG. Names are not enciphered.
//! The key is that of the superuser's ioctl, hashed; before it is set, nothing can be read or written. Unlike those of the
//! description, seals are bound to neither the file nor its end.

use std::ffi::OsStr;
use std::sync::{PoisonError, RwLock};

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use fuser::FileAttr;
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::filtered::{Code, Filtered};
use super::pass_through::{Caller, Operations, PassThrough, Result, write_command};

/// The bytes that a key is made of.
const SECRET_BYTES: usize = 64;
/// The nonce in front of each block, bytes.
const NONCE_BYTES: usize = 24;

/// The code.
#[derive(Default)]
pub struct Seal {
    key: RwLock<Option<XChaCha20Poly1305>>,
}

/// The file system.
pub struct Sealfs {
    below: Filtered<Seal>,
}

impl Sealfs {
    /// Shows what lies there.
    pub fn new(below: PassThrough) -> Self {
        Self { below: Filtered::over(below, Seal::default()) }
    }
}

impl Seal {
    /// The cipher under the key, if that is set.
    fn cipher(&self) -> Result<XChaCha20Poly1305> {
        self.key.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Errno::NOKEY)
    }
}

impl Code for Seal {
    const BLOCK: usize = 64 << 10;
    const ROOM: usize = 64 << 10;

    fn encode(&self, number: u64, plain: &[u8]) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| Errno::IO)?;
        let payload = Payload { msg: plain, aad: &number.to_le_bytes() };
        let sealed = self.cipher()?.encrypt(XNonce::from_slice(&nonce), payload).map_err(|_| Errno::IO)?;
        Ok([&nonce, &sealed[..]].concat())
    }

    fn decode(&self, number: u64, coded: &[u8], _length: usize) -> Result<Vec<u8>> {
        let (nonce, sealed) = coded.split_first_chunk::<NONCE_BYTES>().ok_or(Errno::BADMSG)?;
        let payload = Payload { msg: sealed, aad: &number.to_le_bytes() };
        self.cipher()?.decrypt(XNonce::from_slice(nonce), payload).map_err(|_| Errno::BADMSG)
    }
}

impl Operations for Sealfs {
    fn below(&self) -> &dyn Operations {
        &self.below
    }

    fn open(&self, caller: &Caller, number: u64, flags: i32) -> Result<u64> {
        self.below.code.cipher()?;
        self.below.open(caller, number, flags)
    }

    fn create(&self, caller: &Caller, parent: u64, name: &OsStr, mode: u32, flags: i32) -> Result<(FileAttr, u64)> {
        self.below.code.cipher()?;
        self.below.create(caller, parent, name, mode, flags)
    }

    fn ioctl(&self, caller: &Caller, number: u64, command: u32, data: &[u8]) -> Result<Vec<u8>> {
        if command != write_command(SECRET_BYTES) {
            return self.below.ioctl(caller, number, command, data);
        }
        if caller.user != 0 {
            return Err(Errno::PERM);
        }
        let key = XChaCha20Poly1305::new(&Sha256::digest(data));
        *self.below.code.key.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
        Ok(Vec::new())
    }
}

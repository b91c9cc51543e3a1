//! Sealfs keeps data secret and unchanged: each 64 KiB are enciphered with XChaCha20-Poly1305 under a nonce of their own,
//! and what was changed below, or moved to another place in its file, answers EBADMSG. The superuser sets the key by an
//! ioctl. Unlike those of the description, seals are bound to neither the file nor its end.

use std::sync::{PoisonError, RwLock};

use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};
use vnode::layer::{Block, DataShape, Holes, Layer, LayerFile, LayerVnode, Operation};
use vnode::{Caller, Errno, Promises, Result, TimesTell};

use super::ioctl;

/// The bytes of the secret that the key is made of.
const SECRET_BYTES: usize = 64;
/// The command that sets it.
const SET_KEY: u32 = ioctl::giving(SECRET_BYTES);
/// In front of each chunk stands its nonce, and behind it what tells of changes.
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// The key has not been set.
const NO_KEY: Errno = Errno::new(libc::ENOKEY);

/// Enciphers and authenticates data.
#[derive(Default)]
pub struct Sealfs {
    cipher: RwLock<Option<XChaCha20Poly1305>>,
}

impl Sealfs {
    /// The layer without a key: nothing can be read or written.
    pub fn new() -> Self {
        Self::default()
    }

    fn with_cipher<T>(&self, work: impl FnOnce(&XChaCha20Poly1305) -> Result<T>) -> Result<T> {
        let cipher = self.cipher.read().unwrap_or_else(PoisonError::into_inner);
        work(cipher.as_ref().ok_or(NO_KEY)?)
    }
}

impl Layer for Sealfs {
    type State = ();

    fn kind(&self) -> &'static str {
        "sealfs"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, times_tell_changes: TimesTell::OfNone, ..Promises::TRANSPARENT }
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Open(_) | Operation::Create { .. } => self.with_cipher(|_| Ok(())),
            _ => Ok(()),
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
        let cipher = XChaCha20Poly1305::new(&Sha256::digest(input));
        *self.cipher.write().unwrap_or_else(PoisonError::into_inner) = Some(cipher);
        Ok(0)
    }

    fn data_shape(&self) -> Option<DataShape> {
        let overhead = NONCE_BYTES + TAG_BYTES;
        Some(DataShape { block_size: 64 << 10, overhead, holes: Holes::ZeroBlock, sparse: false })
    }

    fn encode_data(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        block: Block,
        plain: &[u8],
        encoded: &mut [u8],
    ) -> Result<()> {
        let (nonce, sealed) = encoded.split_at_mut(NONCE_BYTES);
        let (text, tag) = sealed.split_at_mut(plain.len());
        getrandom::fill(nonce).map_err(|_| Errno::EIO)?;
        text.copy_from_slice(plain);
        let made = self.with_cipher(|cipher| {
            let place = block.number.to_le_bytes();
            cipher.encrypt_in_place_detached(XNonce::from_slice(nonce), &place, text).map_err(|_| Errno::EIO)
        })?;
        tag.copy_from_slice(&made);
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
        let (nonce, sealed) = encoded.split_at(NONCE_BYTES);
        let (text, tag) = sealed.split_at(plain.len());
        plain.copy_from_slice(text);
        let (nonce, place, tag) = (XNonce::from_slice(nonce), block.number.to_le_bytes(), Tag::from_slice(tag));
        self.with_cipher(|cipher| {
            cipher.decrypt_in_place_detached(nonce, &place, plain, tag).map_err(|_| Errno::EBADMSG)
        })
    }
}

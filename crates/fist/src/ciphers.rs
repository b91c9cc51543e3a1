//! Ciphers, hashes and compression available to FiST programs, each taken from a library.

use std::cell::RefCell;

use blowfish::Blowfish;
use blowfish::cipher::{BlockEncrypt, KeyInit};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};

/// Maximum length of a Blowfish key in bytes.
pub const MAX_BLOWFISH_KEY_BYTES: usize = 56;
/// Minimum length of a Blowfish key in bytes.
const MIN_BLOWFISH_KEY_BYTES: usize = 4;
/// Length of a `fistSeal` key in bytes.
pub const KEY_BYTES: usize = 32;
/// Length of a `fistSeal` nonce in bytes.
pub const NONCE_BYTES: usize = 24;

/// Number of recently used key schedules cached per thread; computing one costs more than encrypting a page.
const MAX_CACHED_SCHEDULES: usize = 4;

thread_local! {
    static RECENT_SCHEDULES: RefCell<Vec<(Vec<u8>, Blowfish)>> = const { RefCell::new(Vec::new()) };
}

/// Blowfish in 64-bit cipher feedback mode, as implemented by OpenSSL's `BF_cfb64_encrypt`: `iv` and the position in
/// it, which is returned, carry over from call to call.
pub fn blowfish_cfb(key: &[u8], iv: &mut [u8; 8], mut position: usize, is_encrypting: bool, data: &mut [u8]) -> usize {
    with_schedule(key, |cipher| {
        for byte in data {
            if position == 0 {
                cipher.encrypt_block(iv.into());
            }
            let input = *byte;
            *byte ^= iv[position];
            iv[position] = if is_encrypting { *byte } else { input };
            position = (position + 1) % 8;
        }
        position
    })
}

fn with_schedule<T>(key: &[u8], body: impl FnOnce(&Blowfish) -> T) -> T {
    // A key that is too short is padded with zeros.
    let mut key = key[..key.len().min(MAX_BLOWFISH_KEY_BYTES)].to_vec();
    key.resize(key.len().max(MIN_BLOWFISH_KEY_BYTES), 0);
    RECENT_SCHEDULES.with_borrow_mut(|recent| {
        let index = recent.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            recent.truncate(MAX_CACHED_SCHEDULES - 1);
            let cipher = Blowfish::new_from_slice(&key).expect("a key of 4 to 56 bytes");
            recent.insert(0, (key, cipher));
            0
        });
        body(&recent[index].1)
    })
}

/// Encrypts with XChaCha20-Poly1305; `number` is authenticated as well.
pub fn seal(key: &[u8], nonce: &[u8], number: u64, data: &[u8]) -> Option<Vec<u8>> {
    let payload = Payload { msg: data, aad: &number.to_le_bytes() };
    cipher(key).encrypt(XNonce::from_slice(nonce), payload).ok()
}

/// Decrypts the output of [`seal`]; returns `None` if anything was changed.
pub fn unseal(key: &[u8], nonce: &[u8], number: u64, data: &[u8]) -> Option<Vec<u8>> {
    let payload = Payload { msg: data, aad: &number.to_le_bytes() };
    cipher(key).decrypt(XNonce::from_slice(nonce), payload).ok()
}

fn cipher(key: &[u8]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(Key::from_slice(key))
}

/// SHA-256.
pub fn hash(data: &[u8]) -> [u8; 32] {
    Sha256::digest(data).into()
}

/// Fills a buffer with cryptographically secure random bytes.
///
/// # Panics
/// If the system has no source of randomness, which Linux always has.
pub fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has random bytes");
}

/// Compresses with Zstandard into a buffer and returns the length; `None` if the result does not fit.
pub fn compress(data: &[u8], compressed: &mut [u8]) -> Option<usize> {
    zstd::bulk::compress_to_buffer(data, compressed, zstd::DEFAULT_COMPRESSION_LEVEL).ok()
}

/// Reverses [`compress`] into a buffer and returns the length; `None` for input that `compress` did not produce or that
/// does not fit.
pub fn decompress(data: &[u8], plain: &mut [u8]) -> Option<usize> {
    zstd::bulk::decompress_to_buffer(data, plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blowfish_continues_across_calls_and_decrypts() {
        let key = b"0123456789abcdef";
        let (mut whole, mut parts) =
            (*b"a page of some text, longer than a block", *b"a page of some text, longer than a block");
        let mut iv = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(blowfish_cfb(key, &mut iv, 0, true, &mut whole), 0);
        let mut iv = [1, 2, 3, 4, 5, 6, 7, 8];
        let position = blowfish_cfb(key, &mut iv, 0, true, &mut parts[..13]);
        assert_eq!((position, blowfish_cfb(key, &mut iv, position, true, &mut parts[13..])), (5, 0));
        assert_eq!(whole, parts);
        let mut iv = [1, 2, 3, 4, 5, 6, 7, 8];
        blowfish_cfb(key, &mut iv, 0, false, &mut whole);
        assert_eq!(&whole, b"a page of some text, longer than a block");
        // The first test vector of the cipher: the encryption of zeros under a key of zeros.
        let (mut data, mut iv) = ([0; 8], [0; 8]);
        blowfish_cfb(&[0; 8], &mut iv, 0, true, &mut data);
        assert_eq!(data, [0x4e, 0xf9, 0x97, 0x45, 0x61, 0x98, 0xdd, 0x78]);
    }

    #[test]
    fn unsealing_rejects_modified_input() {
        let (key, nonce) = ([7; KEY_BYTES], [9; NONCE_BYTES]);
        let mut sealed = seal(&key, &nonce, 3, b"secret").unwrap();
        assert_eq!(sealed.len(), 6 + 16);
        assert_eq!(unseal(&key, &nonce, 3, &sealed).as_deref(), Some(&b"secret"[..]));
        assert_eq!(unseal(&key, &nonce, 4, &sealed), None);
        sealed[0] ^= 1;
        assert_eq!(unseal(&key, &nonce, 3, &sealed), None);
    }

    #[test]
    fn compression_round_trips() {
        let data = b"again and again and again and again and again and again";
        let (mut compressed, mut plain) = ([0; 55], [0; 55]);
        let length = compress(data, &mut compressed).unwrap();
        assert!(length < data.len());
        let compressed = &compressed[..length];
        assert_eq!(decompress(compressed, &mut plain), Some(data.len()));
        assert_eq!(plain, *data);
        assert_eq!((compress(data, &mut [0; 3]), decompress(data, &mut plain)), (None, None));
        assert_eq!(decompress(compressed, &mut [0; 5]), None);
    }
}

//! Damage by chance, for tests that no coverage guides.

use fastrand::Rng;

/// Numbers at which programs go wrong.
const INTERESTING: [u32; 14] =
    [0, 1, 2, 3, 16, 255, 512, 2048, 0xfff, 0xfff7, 0xfff8, 0x0fff_fff8, 0x7fff_ffff, 0xffff_ffff];

/// Damages an input of [`Input`](crate::Input) in up to twelve places, or mixes it with another one.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    for _ in 0..random.usize(1..=12) {
        damage(bytes, other, random);
    }
}

fn damage(bytes: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    let length = bytes.len();
    if length < 64 {
        bytes.resize(64, 0);
        return;
    }
    // Most structures are at the beginning.
    let end = if random.bool() { length } else { length.min(4096) };
    let at = random.usize(..end - 4);
    match random.u8(..10) {
        0 => bytes[at] = random.u8(..),
        1 => bytes[at] ^= 1 << random.u8(..8),
        2 => bytes[at..at + 4].copy_from_slice(&INTERESTING[random.usize(..INTERESTING.len())].to_le_bytes()),
        3 => bytes[at..at + 2].copy_from_slice(&random.u16(..64).to_le_bytes()),
        4 => bytes[at] = bytes[at].wrapping_add(random.u8(..5)).wrapping_sub(2),
        5 => copy(bytes, 32, random),
        6 => copy(bytes, 512, random),
        7 => {
            let size = random.usize(..64).min(length - at);
            bytes[at..at + size].fill(random.choice([0, 0xff, 0xe5, b' ']).unwrap_or(0));
        }
        8 if other.len() > at => {
            let end = (at + random.usize(1..2048)).min(other.len()).min(length);
            bytes[at..end].copy_from_slice(&other[at..end]);
        }
        _ if random.u8(..16) == 0 => bytes.truncate(at.max(64)),
        _ => bytes[random.usize(6..16)] = random.u8(..),
    }
}

/// Copies a piece of this size, at a multiple of it after the header, to another place.
fn copy(bytes: &mut [u8], size: usize, random: &mut Rng) {
    const HEADER: usize = 16;
    let pieces = (bytes.len() - HEADER) / size;
    if pieces > 1 {
        let (from, to) = (random.usize(..pieces), random.usize(..pieces));
        let start = HEADER + from * size;
        bytes.copy_within(start..start + size, HEADER + to * size);
    }
}

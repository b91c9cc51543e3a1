//! The log: items one after the other, each with its length and a checksum.
//!
//! After a header, each item starts at a multiple of eight bytes with a mark, the length of its encoding and a checksum of that. The
//! first bytes that are no valid item end the log: an append is stable before the next one begins, so only the last one can be torn, and
//! values of attributes, which users choose, never count as items. Checksums depend on a random number in the header, so that a value
//! cannot be made up to look like one.

use std::hash::{BuildHasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::record::LogItem;

/// The first bytes of a log of any version.
pub(crate) const MAGIC: [u8; 8] = *b"PLYFSATR";

/// Size of the header in bytes: [`MAGIC`], the version, and the seed of checksums.
pub(crate) const HEADER_SIZE: usize = 16;

const VERSION: [u8; 4] = 1_u32.to_le_bytes();
const MARK: u32 = u32::from_le_bytes(*b"PLAT");
const FRAME_SIZE: usize = 16;
const ALIGNMENT: usize = 8;

/// Maximum size of the encoding of an item in bytes: more than the longest name, lists and attributes take.
const ITEM_MAX: usize = 1 << 20;

/// Bytes that an item takes in the log besides its encoding, at most.
pub(crate) const FRAME_MAX: u64 = (FRAME_SIZE + ALIGNMENT) as u64;

/// The number in the header of a log that its checksums depend on; 0 in logs of versions that had none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u32);

/// What a log contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParsedLog {
    pub(crate) seed: Seed,
    /// Items in order, with their offsets.
    pub(crate) items: Vec<(u64, LogItem)>,
    /// Offset after the last item in bytes.
    pub(crate) end: u64,
    /// Something other than zeros follows.
    pub(crate) is_torn: bool,
}

impl Seed {
    /// Returns the seed of a new log, which nobody can foresee.
    pub(crate) fn random() -> Self {
        Self(RandomState::new().hash_one(MARK) as u32 | 1)
    }

    /// Returns the seed in the header of a log; `None` if it is no log of the known version.
    pub(crate) fn of_log(log: &[u8]) -> Option<Self> {
        let seed = log.strip_prefix(&MAGIC)?.strip_prefix(&VERSION)?.first_chunk()?;
        Some(Self(u32::from_le_bytes(*seed)))
    }

    /// Returns the header of a log with this seed.
    pub(crate) fn header(self) -> Vec<u8> {
        [&MAGIC[..], &VERSION, &self.0.to_le_bytes()].concat()
    }

    fn checksum(self, encoded: &[u8]) -> u64 {
        xxh3_64_with_seed(encoded, self.0.into())
    }
}

/// Returns an item as a log with this seed has it.
pub(crate) fn frame(item: &LogItem, seed: Seed) -> Vec<u8> {
    let encoded = item.encode();
    let mut bytes = Vec::with_capacity(FRAME_SIZE + encoded.len() + ALIGNMENT);
    bytes.extend(MARK.to_le_bytes());
    bytes.extend((encoded.len() as u32).to_le_bytes());
    bytes.extend(seed.checksum(&encoded).to_le_bytes());
    bytes.extend(encoded);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes
}

/// Returns what a log contains up to the first bytes that are no item; `None` if it is no log of the known version.
pub(crate) fn parse(log: &[u8]) -> Option<ParsedLog> {
    let seed = Seed::of_log(log)?;
    let mut items = Vec::new();
    let mut end = HEADER_SIZE;
    while let Some((item, length)) = item_at(log, end, seed) {
        items.extend(item.map(|item| (end as u64, item)));
        end += length;
    }
    let is_torn = log.get(end..).is_some_and(|rest| rest.iter().any(|&byte| byte != 0));
    Some(ParsedLog { seed, items, end: end as u64, is_torn })
}

/// Returns the item at an offset, and the number of bytes that it takes; `None` if there is none. An item of an unknown kind is only
/// skipped.
fn item_at(log: &[u8], at: usize, seed: Seed) -> Option<(Option<LogItem>, usize)> {
    let (frame, rest) = log.get(at..)?.split_first_chunk::<FRAME_SIZE>()?;
    let word = |at: usize| Some(u32::from_le_bytes(*frame.get(at..)?.first_chunk()?));
    let (mark, length) = (word(0)?, usize::try_from(word(4)?).ok()?);
    let checksum = u64::from_le_bytes(*frame.last_chunk()?);
    let encoded = rest.get(..length).filter(|_| mark == MARK && length <= ITEM_MAX)?;
    let is_valid = seed.checksum(encoded) == checksum;
    is_valid.then(|| (LogItem::decode(encoded), (FRAME_SIZE + length).next_multiple_of(ALIGNMENT)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fat::format::DosDateTime;
    use crate::fat::sidecar::record::Identity;

    const SEED: Seed = Seed(0x1234_5678);

    /// A change of an item.
    type Damage = dyn Fn(&mut [u8]);

    fn item(number: u16) -> LogItem {
        let name = vec![number; usize::from(number)];
        LogItem::Removal(Identity { name, created: DosDateTime::default(), cluster: number.into() }, 0)
    }

    fn items(log: &[u8]) -> Vec<LogItem> {
        parse(log).unwrap().items.into_iter().map(|(_, item)| item).collect()
    }

    fn log_with(numbers: &[u16], seed: Seed) -> Vec<u8> {
        let frames = numbers.iter().flat_map(|&number| frame(&item(number), seed));
        seed.header().into_iter().chain(frames).chain([0; 100]).collect()
    }

    fn log(numbers: &[u16]) -> Vec<u8> {
        log_with(numbers, SEED)
    }

    #[test]
    fn items_are_found_in_order() {
        let found = parse(&log(&[100, 101, 150])).unwrap();
        assert_eq!(items(&log(&[100, 101, 150])), [item(100), item(101), item(150)]);
        assert_eq!((found.items[0].0, found.items[1].0), (16, 16 + frame(&item(100), SEED).len() as u64));
        assert_eq!((found.end as usize, found.is_torn), (log(&[100, 101, 150]).len() - 100, false));
        assert_eq!(parse(&log(&[])), Some(ParsedLog { seed: SEED, items: vec![], end: 16, is_torn: false }));
        assert_eq!(parse(&[0; 100]), None);
        assert_eq!(items(&log_with(&[100], Seed(0))), [item(100)], "of a version without seeds");
    }

    #[test]
    fn a_torn_item_ends_the_log() {
        let whole = log(&[100, 101, 150]);
        let second = HEADER_SIZE + frame(&item(100), SEED).len();
        let damages: [&Damage; 3] = [
            &|item| item[40] ^= 1,
            &|item| item[4..8].fill(0xFF),
            // The beginning did not reach the disk.
            &|item| item[..64].fill(0),
        ];
        for damage in damages {
            let mut torn = whole.clone();
            damage(&mut torn[second..]);
            let parsed = parse(&torn).unwrap();
            assert_eq!((items(&torn), parsed.end, parsed.is_torn), (vec![item(100)], second as u64, true));
        }
    }

    #[test]
    fn items_of_another_seed_are_none() {
        let mut log = log(&[100]);
        let end = log.len() - 100;
        log.splice(end.., frame(&item(101), Seed(0)));
        assert_eq!((items(&log), parse(&log).unwrap().is_torn), (vec![item(100)], true));
        assert_ne!(Seed::random(), Seed::random());
    }
}

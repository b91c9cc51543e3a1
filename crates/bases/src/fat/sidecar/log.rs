//! The log: items one after the other, each with its length and a checksum.
//!
//! After a header, each item starts at a multiple of eight bytes with a mark, the length of its encoding and a checksum of that. What
//! is between valid items, such as an item that a power failure tore, is skipped.

use xxhash_rust::xxh3::xxh3_64;

use super::record::LogItem;

/// The first bytes of a log, with the version.
pub(crate) const HEADER: [u8; 16] = *b"PLYFSATR\x01\0\0\0\0\0\0\0";

const MARK: u32 = u32::from_le_bytes(*b"PLAT");
const FRAME_SIZE: usize = 16;
const ALIGNMENT: usize = 8;

/// Bytes that an item takes in the log besides its encoding, at most.
pub(crate) const FRAME_MAX: u64 = (FRAME_SIZE + ALIGNMENT) as u64;

/// Returns an item as the log has it.
pub(crate) fn frame(item: &LogItem) -> Vec<u8> {
    let encoded = item.encode();
    let mut bytes = Vec::with_capacity(FRAME_SIZE + encoded.len() + ALIGNMENT);
    bytes.extend(MARK.to_le_bytes());
    bytes.extend((encoded.len() as u32).to_le_bytes());
    bytes.extend(xxh3_64(&encoded).to_le_bytes());
    bytes.extend(encoded);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes
}

/// Returns the items of a log in order with their offsets, and the offset after the last one; `None` if it is no log.
pub(crate) fn parse(log: &[u8]) -> Option<(Vec<(u64, LogItem)>, u64)> {
    if !log.starts_with(&HEADER) {
        return None;
    }
    let mut items = Vec::new();
    let mut at = HEADER.len();
    let mut end = at;
    while at + FRAME_SIZE <= log.len() {
        match item_at(log, at) {
            Some((item, length)) => {
                items.extend(item.map(|item| (at as u64, item)));
                at += length;
                end = at;
            }
            None => at += ALIGNMENT,
        }
    }
    Some((items, end as u64))
}

/// Returns the item at an offset, and the number of bytes that it takes; `None` if there is none. An item of an unknown kind is only
/// skipped.
fn item_at(log: &[u8], at: usize) -> Option<(Option<LogItem>, usize)> {
    let (frame, rest) = log.get(at..)?.split_first_chunk::<FRAME_SIZE>()?;
    let word = |at: usize| Some(u32::from_le_bytes(*frame.get(at..)?.first_chunk()?));
    let (mark, length) = (word(0)?, usize::try_from(word(4)?).ok()?);
    let checksum = u64::from_le_bytes(*frame.last_chunk()?);
    let encoded = rest.get(..length).filter(|_| mark == MARK)?;
    let is_valid = xxh3_64(encoded) == checksum;
    is_valid.then(|| (LogItem::decode(encoded), (FRAME_SIZE + length).next_multiple_of(ALIGNMENT)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fat::format::DosDateTime;
    use crate::fat::sidecar::record::Identity;

    fn item(number: u16) -> LogItem {
        let name = vec![number; usize::from(number)];
        LogItem::Removal(Identity { name, created: DosDateTime::default(), cluster: number.into() }, 0)
    }

    fn items(log: &[u8]) -> Vec<LogItem> {
        parse(log).unwrap().0.into_iter().map(|(_, item)| item).collect()
    }

    fn log(numbers: &[u16]) -> Vec<u8> {
        let frames = numbers.iter().flat_map(|&number| frame(&item(number)));
        HEADER.into_iter().chain(frames).chain([0; 100]).collect()
    }

    #[test]
    fn items_are_found_in_order() {
        let (found, end) = parse(&log(&[100, 101, 150])).unwrap();
        assert_eq!(items(&log(&[100, 101, 150])), [item(100), item(101), item(150)]);
        assert_eq!((found[0].0, found[1].0), (16, 16 + frame(&item(100)).len() as u64));
        assert_eq!(end as usize, log(&[100, 101, 150]).len() - 100);
        assert_eq!(parse(&log(&[])), Some((vec![], 16)));
        assert_eq!(parse(&[0; 100]), None);
    }

    #[test]
    fn torn_items_are_skipped() {
        let mut log = log(&[100, 101, 150]);
        let second = HEADER.len() + frame(&item(100)).len();
        log[second + 40] ^= 1;
        assert_eq!(items(&log), [item(100), item(150)]);
        log[second + 4..second + 8].fill(0xFF);
        assert_eq!(items(&log), [item(100), item(150)]);
    }
}

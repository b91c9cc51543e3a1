//! Slots of long names: directory entries before a file's own, each with 13 code units of its name.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use super::attributes::EntryAttributes;
use super::short_name::ShortName;

/// Maximum length of a long name in UTF-16 code units.
pub const LONG_NAME_MAX: usize = 255;

/// Code units in a slot.
pub const UNITS_PER_SLOT: usize = 13;

/// Maximum number of slots of a name.
pub const LONG_SLOTS_MAX: usize = LONG_NAME_MAX.div_ceil(UNITS_PER_SLOT);

/// Bit of the sequence number of the slot that comes first and holds the end of the name.
const LAST: u8 = 0x40;

/// A slot as it is stored.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSlot {
    order: u8,
    first: [U16; 5],
    attributes: u8,
    kind: u8,
    checksum: u8,
    middle: [U16; 6],
    cluster: U16,
    last: [U16; 2],
}

const _: () = assert!(size_of::<RawSlot>() == 32);

/// A part of a long name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongNameSlot {
    /// Sequence number from 1, with 0x40 added in the slot that comes first.
    pub order: u8,
    /// Code units; after the end of the name a 0, then 0xFFFF.
    pub units: [u16; UNITS_PER_SLOT],
    /// Kind of the slot, always 0.
    pub kind: u8,
    /// Checksum of the short name that the long one belongs to.
    pub checksum: u8,
    /// Where an entry has its first cluster; always 0.
    pub cluster: u16,
}

impl LongNameSlot {
    /// Decodes a slot whose attributes are those of a long name.
    pub fn decode(bytes: &[u8; 32]) -> Self {
        let raw: &RawSlot = transmute_ref!(bytes);
        let mut units = [0; UNITS_PER_SLOT];
        for (unit, stored) in units.iter_mut().zip(raw.first.iter().chain(&raw.middle).chain(&raw.last)) {
            *unit = stored.get();
        }
        Self { order: raw.order, units, kind: raw.kind, checksum: raw.checksum, cluster: raw.cluster.get() }
    }

    /// Returns the slot as it is stored.
    pub fn encode(&self) -> [u8; 32] {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m] = self.units.map(U16::new);
        transmute!(RawSlot {
            order: self.order,
            first: [a, b, c, d, e],
            attributes: EntryAttributes::LONG_NAME.0,
            kind: self.kind,
            checksum: self.checksum,
            middle: [f, g, h, i, j, k],
            cluster: self.cluster.into(),
            last: [l, m],
        })
    }

    /// Returns whether this slot is the first of its name on the disk.
    pub fn is_first(&self) -> bool {
        self.order & LAST != 0
    }

    /// Returns whether a field that is always 0 is not. Readers ignore it.
    pub fn has_reserved(&self) -> bool {
        self.kind != 0 || self.cluster != 0
    }

    /// Returns the sequence number: 1 for the slot before the entry.
    pub fn number(&self) -> u8 {
        self.order & !LAST
    }
}

/// Returns the slots of a name in the order of the disk, or none if the name is empty or longer than [`LONG_NAME_MAX`].
pub fn long_name_slots(units: &[u16], short_name: &ShortName) -> Vec<LongNameSlot> {
    if units.len() > LONG_NAME_MAX {
        return Vec::new();
    }
    let count = units.len().div_ceil(UNITS_PER_SLOT);
    let slot = |(index, part): (usize, &[u16])| {
        let mut units = [0xFFFF; UNITS_PER_SLOT];
        let ended = part.iter().copied().chain([0]);
        units.iter_mut().zip(ended).for_each(|(unit, value)| *unit = value);
        let last = if index + 1 == count { LAST } else { 0 };
        LongNameSlot { order: (index + 1) as u8 | last, units, kind: 0, checksum: short_name.checksum(), cluster: 0 }
    };
    units.chunks(UNITS_PER_SLOT).enumerate().map(slot).rev().collect()
}

/// What is wrong with the slots before an entry. They are ignored then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongNameFault {
    /// A slot that continues a name does not follow one that starts it.
    NoStart,
    /// A name starts before the one before it has ended.
    StartInside,
    /// A sequence number is 0, too large, or not the one that is expected.
    Sequence,
    /// The slots of a name have different checksums.
    ChecksumDiffers,
    /// The checksum is not that of the short name, which other software has changed.
    WrongChecksum,
    /// The name does not end in its last slot, or it is empty.
    Padding,
    /// The slot with the number 1 is missing.
    Unfinished,
    /// No entry follows.
    Orphan,
}

/// Collects the slots of one long name after the other.
#[derive(Clone, Debug, Default)]
pub struct LongNameReader {
    /// Units of the slots so far, from the end of the name.
    slots: Vec<[u16; UNITS_PER_SLOT]>,
    checksum: u8,
    /// Sequence number of the next slot; 0 if the name is complete.
    expected: u8,
}

impl LongNameReader {
    /// Returns the number of slots that the name consists of so far.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds a slot.
    ///
    /// # Errors
    /// If the slot does not continue those before it: they are forgotten, and so is the slot, unless it starts a name.
    pub fn push(&mut self, slot: &LongNameSlot) -> Result<(), LongNameFault> {
        if slot.is_first() {
            return self.start(slot);
        }
        let fault = if self.slots.is_empty() {
            LongNameFault::NoStart
        } else if slot.number() != self.expected || self.expected == 0 {
            LongNameFault::Sequence
        } else if slot.checksum != self.checksum {
            LongNameFault::ChecksumDiffers
        } else {
            self.slots.push(slot.units);
            self.expected -= 1;
            return Ok(());
        };
        self.clear();
        Err(fault)
    }

    fn start(&mut self, slot: &LongNameSlot) -> Result<(), LongNameFault> {
        let was_inside = !self.slots.is_empty();
        self.clear();
        if !(1..=LONG_SLOTS_MAX).contains(&usize::from(slot.number())) {
            return Err(LongNameFault::Sequence);
        }
        self.slots.push(slot.units);
        (self.checksum, self.expected) = (slot.checksum, slot.number() - 1);
        if was_inside { Err(LongNameFault::StartInside) } else { Ok(()) }
    }

    /// Forgets all slots. Returns whether there were any.
    pub fn clear(&mut self) -> bool {
        let had_slots = !self.slots.is_empty();
        *self = Self { slots: std::mem::take(&mut self.slots), ..Self::default() };
        self.slots.clear();
        had_slots
    }

    /// Returns the long name of an entry that follows the slots, and forgets them; `None` if there are no slots.
    ///
    /// # Errors
    /// If the slots are not a name of this entry.
    pub fn finish(&mut self, short_name: &ShortName) -> Result<Option<Vec<u16>>, LongNameFault> {
        let (is_complete, checksum) = (self.expected == 0, self.checksum);
        let units: Vec<u16> = self.slots.iter().rev().flatten().copied().collect();
        if !self.clear() {
            return Ok(None);
        }
        if !is_complete {
            return Err(LongNameFault::Unfinished);
        }
        if checksum != short_name.checksum() {
            return Err(LongNameFault::WrongChecksum);
        }
        unpadded(units).map(Some)
    }
}

/// Returns a name without what follows its end.
fn unpadded(mut units: Vec<u16>) -> Result<Vec<u16>, LongNameFault> {
    let length = units.iter().position(|&unit| unit == 0).unwrap_or(units.len());
    let fills_slots = length.div_ceil(UNITS_PER_SLOT) == units.len() / UNITS_PER_SLOT;
    if !fills_slots || length == 0 || length > LONG_NAME_MAX {
        return Err(LongNameFault::Padding);
    }
    units.truncate(length);
    Ok(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: ShortName = ShortName(*b"LONGNA~1TXT");

    fn slots(text: &str) -> Vec<LongNameSlot> {
        long_name_slots(&text.encode_utf16().collect::<Vec<_>>(), &SHORT)
    }

    fn read(slots: &[LongNameSlot]) -> Result<Option<Vec<u16>>, LongNameFault> {
        let mut reader = LongNameReader::default();
        slots.iter().try_for_each(|slot| reader.push(&LongNameSlot::decode(&slot.encode())))?;
        reader.finish(&SHORT)
    }

    #[test]
    fn names_survive_encoding() {
        for length in 1..=LONG_NAME_MAX {
            let units: Vec<u16> = (1..=length as u16).map(|unit| unit * 257).collect();
            let slots = long_name_slots(&units, &SHORT);
            assert_eq!(slots.len(), length.div_ceil(13));
            assert_eq!(read(&slots), Ok(Some(units)));
        }
        assert_eq!((slots("").len(), slots(&"a".repeat(256)).len()), (0, 0));
        assert_eq!(read(&[]), Ok(None));
    }

    #[test]
    fn slots_have_the_bytes_of_the_format() {
        let slot = slots("A file")[0].encode();
        assert_eq!(&slot[..14], b"A\x41\0 \0f\0i\0l\0\x0F\0\xF4".as_slice());
        assert_eq!(&slot[14..], b"e\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\xFF\xFF\xFF\xFF".as_slice());
    }

    #[test]
    fn faults_are_told_apart() {
        let good = slots("a name of more than thirteen units");
        let with = |change: &dyn Fn(&mut Vec<LongNameSlot>)| {
            let mut slots = good.clone();
            change(&mut slots);
            read(&slots).unwrap_err()
        };
        assert_eq!(with(&|slots| _ = slots.remove(0)), LongNameFault::NoStart);
        assert_eq!(with(&|slots| slots.insert(1, slots[0])), LongNameFault::StartInside);
        assert_eq!(with(&|slots| _ = slots.remove(1)), LongNameFault::Sequence);
        assert_eq!(with(&|slots| slots.push(slots[2])), LongNameFault::Sequence);
        assert_eq!(with(&|slots| slots[0].order = 0x40), LongNameFault::Sequence);
        assert_eq!(with(&|slots| slots[0].order = 0x40 | 21), LongNameFault::Sequence);
        assert_eq!(with(&|slots| slots[1].checksum ^= 1), LongNameFault::ChecksumDiffers);
        assert_eq!(with(&|slots| slots.iter_mut().for_each(|slot| slot.checksum ^= 1)), LongNameFault::WrongChecksum);
        assert_eq!(with(&|slots| _ = slots.pop()), LongNameFault::Unfinished);
        assert_eq!(with(&|slots| slots[0].units = [0; 13]), LongNameFault::Padding);
        assert_eq!(with(&|slots| slots[1].units[12] = 0), LongNameFault::Padding);
    }

    #[test]
    fn reserved_fields_and_what_follows_the_end_are_ignored() {
        let mut slots = slots("a name");
        (slots[0].cluster, slots[0].kind, slots[0].units[12]) = (1, 1, 0x61);
        assert!(slots[0].has_reserved());
        assert_eq!(read(&slots), Ok(Some("a name".encode_utf16().collect())));
    }

    #[test]
    fn a_start_inside_of_a_name_starts_another() {
        let (first, second) = (slots("a name of more than thirteen units"), slots("another"));
        let mut reader = LongNameReader::default();
        reader.push(&first[0]).unwrap();
        assert_eq!(reader.push(&second[0]), Err(LongNameFault::StartInside));
        assert_eq!(reader.len(), 1);
        assert_eq!(reader.finish(&SHORT), Ok(Some("another".encode_utf16().collect())));
        assert!(reader.is_empty());
    }
}

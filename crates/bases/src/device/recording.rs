//! A device in memory that records all changes, and returns what a power failure could have left, for tests.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vnode::Result;

use super::{Device, MemoryDevice};

/// A change of a device, or a flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A write.
    Write {
        /// Offset of the first byte.
        offset: u64,
        /// What was written.
        data: Vec<u8>,
    },
    /// A discard.
    Discard {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// A flush.
    Flush,
}

/// What a power failure made of a change that no flush has followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It reached the storage.
    Kept,
    /// It did not.
    Lost,
    /// Of the sectors that it touches, only these reached the storage, counted from 0.
    Torn(Range<u64>),
}

impl Event {
    /// Returns the number of sectors that a change touches; 0 for a flush.
    pub fn sectors(&self, sector_size: u32) -> u64 {
        let (offset, length) = self.range();
        let sector_size = u64::from(sector_size);
        if length == 0 { 0 } else { (offset + length).div_ceil(sector_size) - offset / sector_size }
    }

    fn range(&self) -> (u64, u64) {
        match self {
            Event::Write { offset, data } => (*offset, data.len() as u64),
            Event::Discard { offset, length } => (*offset, *length),
            Event::Flush => (0, 0),
        }
    }
}

/// A device in memory that records its writes, discards and flushes in the order of their completion, for tests of power failures:
/// [`RecordingDevice::image`] returns what the storage may contain after one.
pub struct RecordingDevice {
    initial: MemoryDevice,
    current: MemoryDevice,
    events: Mutex<Vec<Event>>,
}

impl RecordingDevice {
    /// Returns a device with the contents and the sector size of another, which are stable.
    pub fn new(contents: &MemoryDevice) -> Self {
        Self { initial: contents.clone(), current: contents.clone(), events: Mutex::default() }
    }

    /// Returns the number of events so far.
    pub fn event_count(&self) -> usize {
        self.events().len()
    }

    /// Returns the events so far.
    pub fn recorded(&self) -> Vec<Event> {
        self.events().clone()
    }

    /// Returns the positions, among the first `count` events, of the changes since the last flush among them.
    ///
    /// # Panics
    /// Panics if there are fewer events.
    pub fn unflushed(&self, count: usize) -> Range<usize> {
        unflushed(&self.events()[..count])
    }

    /// Returns the contents after all events so far.
    pub fn current(&self) -> MemoryDevice {
        let _events = self.events();
        self.current.clone()
    }

    /// Returns what a power failure after the first `count` events leaves. `fate` decides for each change since the last flush among
    /// them, by its position.
    ///
    /// # Panics
    /// Panics if there are fewer events.
    pub fn image(&self, count: usize, mut fate: impl FnMut(usize, &Event) -> Fate) -> MemoryDevice {
        let events = self.events();
        let events = &events[..count];
        let unflushed = unflushed(events);
        let image = self.initial.clone();
        for (position, event) in events.iter().enumerate() {
            let fate = if unflushed.contains(&position) { fate(position, event) } else { Fate::Kept };
            apply(&image, event, fate).expect("the range was within the device when it was recorded");
        }
        image
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unflushed(events: &[Event]) -> Range<usize> {
    let flushed = events.iter().rposition(|event| *event == Event::Flush).map_or(0, |flush| flush + 1);
    flushed..events.len()
}

/// Applies to a device what is left of a change.
fn apply(device: &MemoryDevice, event: &Event, fate: Fate) -> Result<()> {
    let (start, length) = event.range();
    let end = start + length;
    let part = match fate {
        Fate::Kept => start..end,
        Fate::Lost => return Ok(()),
        Fate::Torn(sectors) => {
            let sector_size = u64::from(device.sector_size());
            let boundary = |sector: u64| (start / sector_size).saturating_add(sector).saturating_mul(sector_size);
            boundary(sectors.start).clamp(start, end)..boundary(sectors.end).clamp(start, end)
        }
    };
    if part.is_empty() {
        return Ok(());
    }
    match event {
        Event::Write { data, .. } => {
            device.write_at(part.start, &data[(part.start - start) as usize..(part.end - start) as usize])
        }
        Event::Discard { .. } => device.discard(part.start, part.end - part.start),
        Event::Flush => Ok(()),
    }
}

impl fmt::Debug for RecordingDevice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RecordingDevice").field("events", &self.event_count()).finish_non_exhaustive()
    }
}

impl Device for RecordingDevice {
    fn size(&self) -> u64 {
        self.current.size()
    }

    fn sector_size(&self) -> u32 {
        self.current.sector_size()
    }

    fn logical_sector_size(&self) -> Option<u32> {
        self.current.logical_sector_size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.current.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut events = self.events();
        self.current.write_at(offset, data)?;
        events.push(Event::Write { offset, data: data.to_vec() });
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.events().push(Event::Flush);
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let mut events = self.events();
        self.current.discard(offset, length)?;
        events.push(Event::Discard { offset, length });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a device of four sectors with the events: write of 1 to all, flush, write of 2 to the middle, discard of the last
    /// sector, write of 3 to the first.
    fn recorded() -> RecordingDevice {
        let device = RecordingDevice::new(&MemoryDevice::new(2048));
        device.write_at(0, &[1; 2048]).unwrap();
        device.flush().unwrap();
        device.write_at(500, &[2; 1000]).unwrap();
        device.discard(1536, 512).unwrap();
        device.write_at(0, &[3; 512]).unwrap();
        device
    }

    /// Returns the bytes at the start of each sector, and of the byte before the second.
    fn shown(image: &MemoryDevice) -> [u8; 5] {
        let contents = image.contents();
        [contents[0], contents[511], contents[512], contents[1024], contents[1536]]
    }

    #[test]
    fn images_of_prefixes_have_what_came_before() {
        let device = recorded();
        let kept = |count| shown(&device.image(count, |_, _| Fate::Kept));
        assert_eq!(kept(0), [0; 5]);
        assert_eq!(kept(1), [1; 5]);
        assert_eq!(kept(3), [1, 2, 2, 2, 1]);
        assert_eq!(kept(5), [3, 3, 2, 2, 0]);
        assert_eq!(device.image(5, |_, _| Fate::Kept).contents(), device.current().contents());
    }

    #[test]
    fn changes_before_a_flush_cannot_be_lost() {
        let device = recorded();
        assert_eq!((device.event_count(), device.recorded()[1].clone()), (5, Event::Flush));
        assert_eq!([1, 2, 3, 5].map(|count| device.unflushed(count)), [0..1, 2..2, 2..3, 2..5]);
        assert_eq!(shown(&device.image(1, |_, _| Fate::Lost)), [0; 5]);
        assert_eq!(shown(&device.image(5, |_, _| Fate::Lost)), [1; 5]);
        let only = |kept| device.image(5, move |position, _| if position == kept { Fate::Kept } else { Fate::Lost });
        assert_eq!(shown(&only(2)), [1, 2, 2, 2, 1]);
        assert_eq!(shown(&only(3)), [1, 1, 1, 1, 0]);
        assert_eq!(shown(&only(4)), [3, 3, 1, 1, 1]);
    }

    #[test]
    fn writes_are_torn_between_sectors() {
        let device = recorded();
        assert_eq!(device.recorded().iter().map(|event| event.sectors(512)).collect::<Vec<_>>(), [4, 0, 3, 1, 1]);
        let torn = |sectors: Range<u64>| shown(&device.image(3, move |_, _| Fate::Torn(sectors.clone())));
        assert_eq!(torn(0..0), [1; 5]);
        assert_eq!(torn(0..1), [1, 2, 1, 1, 1]);
        assert_eq!(torn(1..2), [1, 1, 2, 1, 1]);
        assert_eq!(torn(0..u64::MAX), [1, 2, 2, 2, 1]);
        let large = RecordingDevice::new(&MemoryDevice::new(8192).with_sector_size(4096));
        large.write_at(4095, &[1; 2]).unwrap();
        let image = large.image(1, |_, event| Fate::Torn(1..event.sectors(4096))).contents();
        assert_eq!((image[4095], image[4096]), (0, 1));
    }
}

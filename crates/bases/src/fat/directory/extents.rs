//! Extents: where the slots of a directory are on the device.

/// Ranges of the device that hold a directory, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    /// Offset on the device and length, in bytes.
    ranges: Vec<(u64, u64)>,
    length: u64,
}

impl Extents {
    /// Adds a range at the end.
    pub(crate) fn push(&mut self, offset: u64, length: u64) {
        match self.ranges.last_mut() {
            Some((start, before)) if *start + *before == offset => *before += length,
            _ => self.ranges.push((offset, length)),
        }
        self.length += length;
    }

    /// Returns the ranges.
    pub(crate) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// Returns the size of all ranges in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Returns where a byte of the directory is on the device.
    pub(crate) fn offset_of(&self, position: u64) -> Option<u64> {
        let mut start = 0;
        for &(offset, length) in &self.ranges {
            if position < start + length {
                return Some(offset + (position - start));
            }
            start += length;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_in_their_range() {
        let mut extents = Extents::default();
        extents.push(4096, 512);
        extents.push(4608, 512);
        extents.push(512, 512);
        assert_eq!((extents.ranges().len(), extents.length()), (2, 1536));
        assert_eq!([0, 1023, 1024, 1536].map(|at| extents.offset_of(at)), [Some(4096), Some(5119), Some(512), None]);
    }
}

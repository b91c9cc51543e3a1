//! A set of byte ranges, merged where they touch.

use std::collections::BTreeMap;
use std::ops::Range;

/// Byte ranges, by their beginnings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.0.remove(&other);
            (start, end) = (start.min(other), end.max(other_end));
        }
        self.0.insert(start, end);
    }

    /// Removes and returns the parts of the ranges that are whole pages of this many bytes.
    pub(crate) fn take_pages(&mut self, page_size: u64) -> Vec<Range<u64>> {
        let pages = |(start, end): (&u64, &u64)| {
            let pages = start.next_multiple_of(page_size)..end / page_size * page_size;
            (!pages.is_empty()).then_some(pages)
        };
        let taken: Vec<Range<u64>> = self.0.iter().filter_map(pages).collect();
        for pages in &taken {
            let (start, end) =
                self.0.range(..=pages.start).next_back().map(|(start, end)| (*start, *end)).expect("taken");
            self.0.remove(&start);
            // The rest of a page may become free with its neighbour.
            self.add(start..pages.start);
            self.add(pages.end..end);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_whole_pages_are_taken() {
        let mut ranges = Ranges::default();
        for range in [10..20, 30..40, 20..25, 100..150, 5..12] {
            ranges.add(range);
        }
        assert_eq!(
            ranges.0.iter().map(|(start, end)| (*start, *end)).collect::<Vec<_>>(),
            [(5, 25), (30, 40), (100, 150)]
        );
        assert_eq!(ranges.take_pages(10), [10..20, 30..40, 100..150]);
        ranges.add(3..5);
        ranges.add(25..31);
        assert_eq!(ranges.take_pages(10).first(), Some(&(20..30)));
        assert!(ranges.take_pages(10).is_empty());
    }
}

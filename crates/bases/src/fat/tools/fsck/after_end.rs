//! Entries after the end of a directory: what a lost byte has hidden, or what was there before.

use std::collections::HashSet;

use super::checker::Checker;
use super::context::DirectoryContext;
use super::problem::Problem;
use crate::fat::format::{ENTRY_SIZE, Entry, EntrySlot};
use crate::fat::tools::allocate::DIRECTORY_SLOTS_MAX;
use crate::fat::tools::chain::ChainEnd;
use crate::fat::tools::directory::PositionedSlot;
use crate::fat::tools::error::ToolError;

/// What is after the end of a directory.
#[derive(Default)]
struct AfterEnd {
    /// Number of slots that are neither free nor deleted.
    slots: u32,
    /// Number of entries with clusters that are nobody else's so far, and as many as the size needs.
    sound: u32,
    /// Whether other entries are there.
    has_unsound: bool,
}

impl Checker<'_> {
    /// Reports entries after the end of a directory. If all of them are sound, the end was set by mistake, and they are shown
    /// again. Returns whether there are more entries now.
    pub(crate) fn check_after_end(&mut self, context: &DirectoryContext) -> Result<bool, ToolError> {
        let after = self.after_end(context)?;
        if after.slots == 0 {
            return Ok(false);
        }
        let is_hidden = after.sound > 0 && !after.has_unsound;
        let problem = match is_hidden {
            true => Problem::EntriesHidden(after.slots),
            false => Problem::EntriesAfterEnd(after.slots),
        };
        let repair = &mut |checker: &mut Self| checker.change_after_end(context, is_hidden);
        let is_repaired = self.found(problem, Some(context.shown()), Vec::new(), repair)?;
        Ok(is_repaired && is_hidden)
    }

    fn after_end(&mut self, context: &DirectoryContext) -> Result<AfterEnd, ToolError> {
        let mut after = AfterEnd::default();
        let mut has_ended = false;
        // First clusters of the entries before the end, which are not claimed yet.
        let mut starts = HashSet::new();
        let mut reader = context.range.reader();
        let width = self.volume.geometry.width();
        while let Some(slot) = reader.next(&mut self.volume)? {
            let kind = EntrySlot::decode(&slot.bytes);
            has_ended |= kind == EntrySlot::End;
            if !has_ended || !is_used(&slot) {
                if let EntrySlot::Entry(entry) = kind
                    && starts.len() < DIRECTORY_SLOTS_MAX as usize
                {
                    starts.insert(entry.first_cluster(width));
                }
                continue;
            }
            after.slots = after.slots.saturating_add(1);
            match kind {
                EntrySlot::Entry(entry) if !after.has_unsound => {
                    let start = entry.first_cluster(width);
                    let is_new = start == 0 || starts.insert(start);
                    match is_new && self.is_sound(context, &entry)? {
                        true => after.sound += 1,
                        false => after.has_unsound = true,
                    }
                }
                EntrySlot::LongName(slot) => after.has_unsound |= !(1..=20).contains(&slot.number()),
                _ => after.has_unsound = true,
            }
        }
        Ok(after)
    }

    /// Returns whether an entry has exactly the clusters that it needs, and is not claimed by another one so far.
    fn is_sound(&mut self, context: &DirectoryContext, entry: &Entry) -> Result<bool, ToolError> {
        let start = entry.first_cluster(self.volume.geometry.width());
        if entry.name.is_dots() || entry.name.check(self.options.page).is_err() {
            return Ok(false);
        }
        if entry.is_directory() {
            let own = if context.is_root() { 0 } else { context.range.start.cluster() };
            let is_owned = !self.volume.geometry.contains(start) || self.used.contains(start);
            return Ok(!is_owned && self.above(start)? == Some(own));
        }
        let needed = entry.size.div_ceil(self.volume.geometry.cluster_size());
        if start == 0 || needed == 0 || needed > self.hidden_clusters {
            return Ok(start == 0 && needed == 0);
        }
        self.hidden_clusters -= needed;
        let (clusters, end) = self.volume.chain(start, needed + 1)?;
        let is_free = clusters.iter().all(|&cluster| !self.used.contains(cluster));
        Ok(is_free && end == ChainEnd::Marked && clusters.len() == needed as usize)
    }

    /// Makes the end of a directory a deleted slot, so that the entries after it are shown; or removes those entries.
    fn change_after_end(&mut self, context: &DirectoryContext, is_hidden: bool) -> Result<(), ToolError> {
        let mut free = Vec::new();
        let mut has_ended = false;
        let mut reader = context.range.reader();
        while let Some(slot) = reader.next(&mut self.volume)? {
            let is_end = EntrySlot::decode(&slot.bytes) == EntrySlot::End;
            has_ended |= is_end;
            if is_end && is_hidden {
                free.push(slot.position);
            } else if has_ended && is_used(&slot) {
                match is_hidden {
                    true => self.delete_slots(&std::mem::take(&mut free))?,
                    false => self.volume.disk.write(slot.position, &[0; ENTRY_SIZE])?,
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a slot is neither the end nor deleted.
fn is_used(slot: &PositionedSlot) -> bool {
    !matches!(EntrySlot::decode(&slot.bytes), EntrySlot::End | EntrySlot::Deleted)
}

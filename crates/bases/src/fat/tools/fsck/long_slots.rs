//! Slots of long names in a directory that is being checked: which belong to an entry, and which to none.

use super::checker::Checker;
use super::problem::Problem;
use crate::fat::format::{EntryAttributes, LongNameFault, LongNameReader, LongNameSlot, ShortName};
use crate::fat::tools::directory::PositionedSlot;
use crate::fat::tools::error::ToolError;

/// Number of stray slots that are reported together.
const STRAY_MAX: usize = 64;

/// The slots since the last entry.
#[derive(Default)]
pub(crate) struct LongSlots {
    reader: LongNameReader,
    /// Positions of the slots in the reader.
    positions: Vec<u64>,
    /// Whether one of them has a field that should be 0, or attributes beside those of long names.
    has_reserved: bool,
    /// Slots that belong to no entry, and what is wrong with the first of them.
    stray: Option<(LongNameFault, Vec<u64>)>,
}

/// The long name of an entry.
#[derive(Default)]
pub(crate) struct LongName {
    /// The name, if there is a valid one.
    pub(crate) units: Option<Vec<u16>>,
    /// Positions of its slots.
    pub(crate) positions: Vec<u64>,
    /// Whether one of the slots has a field that should be 0.
    pub(crate) has_reserved: bool,
}

impl Checker<'_> {
    /// Adds a slot of a long name.
    pub(crate) fn add_long_slot(
        &mut self,
        slots: &mut LongSlots,
        slot: &LongNameSlot,
        stored: &PositionedSlot,
        directory: &str,
    ) -> Result<(), ToolError> {
        let position = stored.position;
        // Some systems take only exact attributes for those of a long name.
        let has_reserved = slot.has_reserved() || stored.attributes() != EntryAttributes::LONG_NAME;
        let fault = slots.reader.push(slot).err();
        let was_pending = std::mem::take(&mut slots.has_reserved);
        match fault {
            None if !slot.is_first() => {
                slots.positions.push(position);
                slots.has_reserved = was_pending | has_reserved;
                return Ok(());
            }
            None | Some(LongNameFault::StartInside) => {
                let before = std::mem::replace(&mut slots.positions, vec![position]);
                if let Some(fault) = fault {
                    stray(slots, fault, before);
                }
                slots.has_reserved = has_reserved;
            }
            Some(fault) => {
                let mut before = std::mem::take(&mut slots.positions);
                before.push(position);
                stray(slots, fault, before);
                let is_full = slots.stray.as_ref().is_some_and(|(_, positions)| positions.len() >= STRAY_MAX);
                return if is_full { self.report_stray(slots, directory) } else { Ok(()) };
            }
        }
        self.report_stray(slots, directory)
    }

    /// Ends a long name that no entry follows.
    pub(crate) fn end_long_slots(&mut self, slots: &mut LongSlots, directory: &str) -> Result<(), ToolError> {
        if slots.reader.clear() {
            let positions = std::mem::take(&mut slots.positions);
            stray(slots, LongNameFault::Orphan, positions);
        }
        slots.has_reserved = false;
        self.report_stray(slots, directory)
    }

    /// Ends a long name with the entry that it belongs to.
    pub(crate) fn take_long_name(
        &mut self,
        slots: &mut LongSlots,
        short_name: &ShortName,
        directory: &str,
    ) -> Result<LongName, ToolError> {
        let positions = std::mem::take(&mut slots.positions);
        let has_reserved = std::mem::take(&mut slots.has_reserved);
        let name = match slots.reader.finish(short_name) {
            Ok(units) => LongName { units, positions, has_reserved },
            Err(fault) => {
                stray(slots, fault, positions);
                LongName::default()
            }
        };
        self.report_stray(slots, directory)?;
        Ok(name)
    }

    fn report_stray(&mut self, slots: &mut LongSlots, directory: &str) -> Result<(), ToolError> {
        let Some((fault, positions)) = slots.stray.take() else { return Ok(()) };
        let repair = &mut |checker: &mut Self| checker.delete_slots(&positions);
        self.found(Problem::LongNameSlots(fault), Some(directory), Vec::new(), repair).map(drop)
    }

    /// Reports a long name with fields that should be 0.
    pub(crate) fn check_reserved(&mut self, name: &LongName, path: &str) -> Result<(), ToolError> {
        if !name.has_reserved {
            return Ok(());
        }
        let repair = &mut |checker: &mut Self| {
            checker.edit_long_slots(&name.positions, &|slot| (slot.kind, slot.cluster) = (0, 0))
        };
        self.found(Problem::LongNameReserved, Some(path), Vec::new(), repair).map(drop)
    }

    /// Changes the slots of a long name.
    pub(crate) fn edit_long_slots(
        &mut self,
        positions: &[u64],
        edit: &dyn Fn(&mut LongNameSlot),
    ) -> Result<(), ToolError> {
        for &position in positions {
            let mut bytes = [0; 32];
            self.volume.disk.read(position, &mut bytes)?;
            let mut slot = LongNameSlot::decode(&bytes);
            edit(&mut slot);
            self.volume.disk.write(position, &slot.encode())?;
        }
        Ok(())
    }
}

/// Adds slots to those that belong to no entry.
fn stray(slots: &mut LongSlots, fault: LongNameFault, positions: Vec<u64>) {
    slots.stray.get_or_insert_with(|| (fault, Vec::new())).1.extend(positions);
}

//! The values of extended attributes of one object, and the pages that they take from the budget.

use std::collections::BTreeMap;

use vnode::{Errno, Result, XattrMode};

use crate::unix::extended_attributes::{CAPABILITY, LIST_MAX};

use super::budget::Budget;
use super::data::PAGE_SIZE;
use super::memory;

/// The extended attributes of one object.
///
/// Invariant: `page_count` pages are taken from the volume's budget for them.
#[derive(Default)]
pub(crate) struct XattrStore {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    bytes: u64,
    taken: u64,
}

impl XattrStore {
    /// Returns the value of an attribute.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.values.get(name).map(|value| &**value)
    }

    /// Returns the names of all attributes, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.values.keys().map(|name| &**name)
    }

    /// Returns the number of pages taken from the budget.
    pub(crate) fn page_count(&self) -> u64 {
        self.taken
    }

    /// Removes `security.capability`, unless it has no bytes: Linux takes that for nothing to remove. Its space is returned at the
    /// next change.
    pub(crate) fn forget_capability(&mut self) {
        if self.get(CAPABILITY).is_some_and(|value| !value.is_empty())
            && let Some(value) = self.values.remove(CAPABILITY)
        {
            self.bytes -= (CAPABILITY.len() + value.len()) as u64;
        }
    }

    /// Sets a value, with the pages that it takes from `space`.
    ///
    /// # Errors
    /// `EEXIST` and `ENODATA` as the mode says; `ENOSPC` without space or memory, or for names longer than a list can be.
    pub(crate) fn set(&mut self, space: &Budget, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let old = self.values.get(name).map(|value| value.len());
        match (mode, old) {
            (XattrMode::Create, Some(_)) => return Err(Errno::EEXIST),
            (XattrMode::Replace, None) => return Err(Errno::ENODATA),
            _ => {}
        }
        let names: usize = self.values.keys().map(|name| name.len() + 1).sum();
        if old.is_none() && names + name.len() + 1 > LIST_MAX {
            return Err(Errno::ENOSPC);
        }
        let without = self.bytes - old.map_or(0, |length| (name.len() + length) as u64);
        memory::check_available(memory::ENTRY_BYTES)?;
        let (name, value) = (memory::copy(name)?, memory::copy(value)?);
        self.charge(space, without + (name.len() + value.len()) as u64)?;
        self.values.insert(name, value);
        Ok(())
    }

    /// Removes a value, and returns its pages to `space`.
    ///
    /// # Errors
    /// `ENODATA` if there is none.
    pub(crate) fn remove(&mut self, space: &Budget, name: &[u8]) -> Result<()> {
        let value = self.values.remove(name).ok_or(Errno::ENODATA)?;
        self.charge(space, self.bytes - (name.len() + value.len()) as u64)
    }

    /// Takes pages from the budget or returns them, so that they hold `bytes`.
    fn charge(&mut self, space: &Budget, bytes: u64) -> Result<()> {
        let pages = bytes.div_ceil(PAGE_SIZE);
        match pages.checked_sub(self.taken) {
            Some(more) => space.take(more)?,
            None => space.release(self.taken - pages),
        }
        (self.bytes, self.taken) = (bytes, pages);
        Ok(())
    }
}

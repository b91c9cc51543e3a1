//! Names in a directory that is being checked: their rules, and that no two entries have the same.

use std::collections::HashSet;

use super::checker::Checker;
use super::long_slots::LongName;
use super::problem::Problem;
use crate::fat::format::{CaseBits, CodePage, Entry, LongNameError, ShortName, check_long_name, upcased};
use crate::fat::tools::allocate::DIRECTORY_SLOTS_MAX;
use crate::fat::tools::error::ToolError;

/// Number of entries of a directory that get names like their old ones; others get a number.
const RENAMED_MAX: u32 = 64;

/// The names of a directory.
#[derive(Default)]
pub(crate) struct Names {
    /// Short names of all entries, also of those that are not yet checked.
    all_short: HashSet<ShortName>,
    /// Short names of the entries so far.
    short: HashSet<ShortName>,
    /// Names of the entries so far as they are shown, in upper case.
    shown: HashSet<Vec<u16>>,
    /// Number of entries that are renamed.
    renamed: u32,
}

/// An entry whose name is checked.
pub(crate) struct CheckedName<'a> {
    /// The entry.
    pub(crate) entry: &'a mut Entry,
    /// Its position.
    pub(crate) position: u64,
    /// Its long name.
    pub(crate) long_name: &'a mut LongName,
    /// Path of the entry.
    pub(crate) path: &'a str,
}

impl Names {
    /// Adds a short name before the names are checked, so that a renamed entry does not get it.
    pub(crate) fn announce(&mut self, name: ShortName) {
        if self.all_short.len() < DIRECTORY_SLOTS_MAX as usize {
            self.all_short.insert(name);
        }
    }

    fn is_taken(&self, name: &ShortName, page: CodePage) -> bool {
        self.all_short.contains(name) || self.short.contains(name) || self.shown.contains(&shown_upcased(name, page))
    }

    /// Returns whether an entry so far has one of the names.
    fn is_duplicate(&self, name: &ShortName, long_name: Option<&[u16]>, page: CodePage) -> bool {
        self.short.contains(name)
            || self.shown.contains(&shown_upcased(name, page))
            || long_name.is_some_and(|units| self.shown.contains(&upcased(units)))
    }

    fn insert(&mut self, name: ShortName, long_name: Option<&[u16]>, page: CodePage) {
        // A directory with more entries than the format allows is reported, and its other names are not compared.
        if self.short.len() < DIRECTORY_SLOTS_MAX as usize {
            self.short.insert(name);
            self.shown.insert(shown_upcased(&name, page));
            self.shown.extend(long_name.map(upcased));
        }
    }
}

fn shown_upcased(name: &ShortName, page: CodePage) -> Vec<u16> {
    upcased(&name.decode(page, CaseBits::default()).encode_utf16().collect::<Vec<_>>())
}

impl Checker<'_> {
    /// Checks the names of an entry.
    pub(crate) fn check_names(&mut self, names: &mut Names, checked: &mut CheckedName<'_>) -> Result<(), ToolError> {
        let page = self.options.page;
        self.check_reserved(checked.long_name, checked.path)?;
        let error = checked.long_name.units.as_deref().and_then(|units| check_long_name(units).err());
        if let Some(error) = error.filter(|&error| error != LongNameError::Trailing) {
            let positions = std::mem::take(&mut checked.long_name.positions);
            let repair = &mut |checker: &mut Self| checker.delete_slots(&positions);
            self.found(Problem::LongName(error), Some(checked.path), Vec::new(), repair)?;
            checked.long_name.units = None;
        }
        let is_dosfs = self.options.dosfs && checked.entry.attributes.has_reserved();
        if !is_dosfs {
            self.check_case_bits(checked.position, checked.entry, checked.path)?;
        }
        if let Err(error) = checked.entry.name.check(page)
            && !is_dosfs
        {
            self.rename(names, checked, Problem::ShortName(error), true)?;
        }
        let has_long_duplicate =
            checked.long_name.units.as_deref().is_some_and(|units| names.shown.contains(&upcased(units)));
        if names.is_duplicate(&checked.entry.name, checked.long_name.units.as_deref(), page) {
            self.rename(names, checked, Problem::DuplicateName, !has_long_duplicate)?;
        }
        names.insert(checked.entry.name, checked.long_name.units.as_deref(), page);
        Ok(())
    }

    /// Checks the bits beside those of lower case. Some say that the entry is encrypted; others mean nothing.
    pub(crate) fn check_case_bits(&mut self, position: u64, entry: &Entry, path: &str) -> Result<(), ToolError> {
        let reserved = entry.case.0 & !(CaseBits::LOWER_BASE | CaseBits::LOWER_EXTENSION | CaseBits::ENCRYPTED);
        if reserved == 0 {
            return Ok(());
        }
        let repair = &mut |checker: &mut Self| checker.edit_entry(position, &|entry| entry.case.0 &= !reserved);
        self.found(Problem::ReservedBits(reserved), Some(path), Vec::new(), repair).map(drop)
    }

    /// Reports a problem, and repairs it by giving the entry another short name; it keeps its long one if that is not the reason.
    pub(crate) fn rename(
        &mut self,
        names: &mut Names,
        checked: &mut CheckedName<'_>,
        problem: Problem,
        keeps_long_name: bool,
    ) -> Result<(), ToolError> {
        let page = self.options.page;
        let units = match &checked.long_name.units {
            // Many entries of one name would take longer and longer.
            _ if names.renamed >= RENAMED_MAX => format!("FSCK{:04}", names.renamed).encode_utf16().collect(),
            Some(units) => units.clone(),
            None => checked.entry.name.decode(page, CaseBits::default()).encode_utf16().collect(),
        };
        let generated = ShortName::generate(&units, page, &mut |name| names.is_taken(name, page));
        let position = checked.position;
        let slots = &checked.long_name.positions;
        let repair = &mut |checker: &mut Self| {
            let name = generated.ok_or(ToolError::DirectoryFull)?.name;
            if keeps_long_name {
                checker.edit_long_slots(slots, &|slot| slot.checksum = name.checksum())?;
            }
            checker.edit_entry(position, &|entry| {
                entry.name = name;
                entry.case.0 &= !(CaseBits::LOWER_BASE | CaseBits::LOWER_EXTENSION);
            })?;
            if keeps_long_name { Ok(()) } else { checker.delete_slots(slots) }
        };
        let is_renamed = self.found(problem, Some(checked.path), Vec::new(), repair)?;
        names.renamed = names.renamed.saturating_add(1);
        if let Some(generated) = generated.filter(|_| is_renamed) {
            names.announce(generated.name);
            checked.entry.name = generated.name;
            if !keeps_long_name {
                *checked.long_name = LongName::default();
            }
        }
        Ok(())
    }
}

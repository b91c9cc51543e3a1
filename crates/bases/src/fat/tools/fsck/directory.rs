//! One directory: a survey of its slots, then each entry.

use super::checker::Checker;
use super::context::{DirectoryContext, PendingDirectory};
use super::long_slots::{LongName, LongSlots};
use super::names::{CheckedName, Names};
use super::own_files::OWN;
use super::owner::Owner;
use super::problem::Problem;
use crate::fat::format::{Entry, EntryAttributes, EntrySlot, Label, units_to_name};
use crate::fat::sidecar::store::SIDECAR_NAME;
use crate::fat::tools::allocate::DIRECTORY_SLOTS_MAX;
use crate::fat::tools::directory::{DirectoryRange, DirectoryStart, NamedEntry};
use crate::fat::tools::error::ToolError;

/// What a directory contains at a first look.
#[derive(Default)]
struct Survey {
    names: Names,
    /// Number of slots with entries or long names.
    slots: u32,
    /// Number of those that make no sense.
    bad: u32,
    /// Whether the first two entries have the names `.` and `..`.
    dots: [bool; 2],
    /// Clusters that cannot be read.
    unreadable: Vec<u32>,
}

impl Checker<'_> {
    /// Checks a directory. Returns the directories in it that are to be checked.
    pub(crate) fn check_directory(
        &mut self,
        context: &mut DirectoryContext,
    ) -> Result<Vec<PendingDirectory>, ToolError> {
        let mut survey = self.survey(context)?;
        if !survey.unreadable.is_empty() {
            self.check_unreadable(context, &survey.unreadable)?;
            survey = self.survey(context)?;
        }
        if survey.slots > DIRECTORY_SLOTS_MAX {
            let path = context.shown().to_owned();
            self.found(Problem::DirectoryTooLarge, Some(&path), Vec::new(), &mut |_| Ok(()))?;
        }
        if !context.is_root() {
            if self.is_corrupt(context, &survey)? {
                return Ok(Vec::new());
            }
            self.check_dots(context)?;
        }
        if self.check_after_end(context)? {
            survey = self.survey(context)?;
        }
        self.check_entries(context, survey.names)
    }

    fn survey(&mut self, context: &DirectoryContext) -> Result<Survey, ToolError> {
        let (geometry, page) = (self.volume.geometry, self.options.page);
        let mut survey = Survey::default();
        let mut reader = context.range.reader();
        let mut index = 0;
        while let Some(slot) = reader.next(&mut self.volume)? {
            let is_bad = match EntrySlot::decode(&slot.bytes) {
                EntrySlot::End => break,
                EntrySlot::Deleted => None,
                EntrySlot::LongName(slot) => Some(!(1..=20).contains(&slot.number())),
                EntrySlot::Label(_) => Some(!context.is_root()),
                EntrySlot::Entry(entry) => {
                    if let Some(dots) = survey.dots.get_mut(index) {
                        *dots = entry.name.is_dots();
                    }
                    survey.names.announce(entry.name);
                    let start = entry.first_cluster(geometry.width());
                    let is_named = self.is_dosfs(&entry) || entry.name.check(page).is_ok();
                    Some(!is_named || start != 0 && !geometry.contains(start))
                }
            };
            survey.slots = survey.slots.saturating_add(u32::from(is_bad.is_some()));
            survey.bad = survey.bad.saturating_add(u32::from(is_bad == Some(true)));
            index += 1;
        }
        survey.unreadable = reader.unreadable().to_vec();
        Ok(survey)
    }

    /// Reports a directory that is none: it has neither of the first two entries, and half of the others make no sense.
    fn is_corrupt(&mut self, context: &DirectoryContext, survey: &Survey) -> Result<bool, ToolError> {
        let (bad, slots) = (survey.bad, survey.slots);
        let Some(owner) = &context.owner else { return Ok(false) };
        if survey.dots != [false; 2] || bad == 0 || u64::from(bad) * 2 < u64::from(slots) {
            return Ok(false);
        }
        let size = u64::from(context.range.clusters) * u64::from(self.volume.geometry.cluster_size());
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let repair = &mut |checker: &mut Self| match owner.position {
            Some(position) => checker.edit_entry(position, &|entry| {
                entry.make_file(size);
                if entry.name == SIDECAR_NAME {
                    // It is no log, and must not be taken for one.
                    entry.attributes = entry.attributes.with(OWN, false);
                }
            }),
            None => Ok(()),
        };
        self.found(Problem::DirectoryCorrupt(bad, slots), Some(context.shown()), Vec::new(), repair)?;
        Ok(true)
    }

    /// Returns whether an entry has the marks of DosFs, which this file system may have.
    pub(crate) fn is_dosfs(&self, entry: &Entry) -> bool {
        self.options.dosfs && entry.attributes.has_reserved()
    }

    /// Checks the entries one after the other.
    fn check_entries(
        &mut self,
        context: &DirectoryContext,
        mut names: Names,
    ) -> Result<Vec<PendingDirectory>, ToolError> {
        let mut pending = Vec::new();
        let mut long_slots = LongSlots::default();
        let mut reader = context.range.reader();
        let (mut index, mut has_label, mut is_continued) = (0_u64, false, false);
        while let Some(slot) = reader.next(&mut self.volume)? {
            let kind = EntrySlot::decode(&slot.bytes);
            let was_continued = std::mem::take(&mut is_continued);
            match kind {
                EntrySlot::End => break,
                EntrySlot::Label(_) if was_continued => (),
                EntrySlot::LongName(long) => {
                    self.add_long_slot(&mut long_slots, &long, &slot, context.shown())?;
                }
                EntrySlot::Deleted => self.end_long_slots(&mut long_slots, context.shown())?,
                EntrySlot::Label(entry) => {
                    self.end_long_slots(&mut long_slots, context.shown())?;
                    // The first two slots may still have wrong attributes, of which a finding was made.
                    if !(entry.name.is_dots() && index < 2 && !context.is_root()) {
                        self.check_label_entry(context, slot.position, &entry, &mut has_label)?;
                    }
                }
                EntrySlot::Entry(entry) if entry.name.is_dots() => {
                    self.end_long_slots(&mut long_slots, context.shown())?;
                    self.check_misplaced_dots(context, slot.position, index)?;
                }
                EntrySlot::Entry(entry) => {
                    is_continued = self.is_dosfs(&entry);
                    let name = self.take_long_name(&mut long_slots, &entry.name, context.shown())?;
                    let named = NamedEntry {
                        entry,
                        position: slot.position,
                        slots: name.positions.clone(),
                        long_name: name.units.clone(),
                        is_label: false,
                    };
                    pending.extend(self.check_entry(context, &mut names, named, name.has_reserved)?);
                }
            }
            index += 1;
        }
        self.end_long_slots(&mut long_slots, context.shown())?;
        Ok(pending)
    }

    fn check_misplaced_dots(&mut self, context: &DirectoryContext, position: u64, index: u64) -> Result<(), ToolError> {
        if index < 2 && !context.is_root() {
            return Ok(());
        }
        let repair = &mut |checker: &mut Self| checker.delete_slots(&[position]);
        self.found(Problem::DotMisplaced, Some(context.shown()), Vec::new(), repair).map(drop)
    }

    fn check_label_entry(
        &mut self,
        context: &DirectoryContext,
        position: u64,
        entry: &Entry,
        has_label: &mut bool,
    ) -> Result<(), ToolError> {
        let label = Label(entry.name.0);
        let problem = if !context.is_root() {
            Problem::LabelMisplaced
        } else if *has_label {
            Problem::LabelDuplicate
        } else if !label.is_valid(self.options.page) || self.has_contents(entry) {
            Problem::LabelInvalid
        } else {
            *has_label = true;
            self.root_label = Some(label);
            return Ok(());
        };
        let repair = &mut |checker: &mut Self| checker.delete_slots(&[position]);
        self.found(problem, Some(context.shown()), Vec::new(), repair).map(drop)
    }

    /// Returns whether the entry of a label has what only those of files and directories have.
    fn has_contents(&self, entry: &Entry) -> bool {
        let is_directory = entry.attributes.contains(EntryAttributes::DIRECTORY);
        is_directory || entry.size != 0 || entry.first_cluster(self.volume.geometry.width()) != 0
    }

    /// Checks a file or directory. Returns it if it is a directory to be checked.
    fn check_entry(
        &mut self,
        context: &DirectoryContext,
        names: &mut Names,
        named: NamedEntry,
        has_reserved: bool,
    ) -> Result<Option<PendingDirectory>, ToolError> {
        let page = self.options.page;
        let path = format!("{}{}", context.path, named.shown(page));
        let mut entry = named.entry;
        let mut long_name = LongName { units: named.long_name, positions: named.slots, has_reserved };
        let mut checked =
            CheckedName { entry: &mut entry, position: named.position, long_name: &mut long_name, path: &path };
        self.check_names(names, &mut checked)?;
        self.check_own_file(names, &mut checked)?;
        self.count_name(context.range.start, &entry);
        let is_directory = entry.is_directory();
        if is_directory && entry.size != 0 {
            let repair = &mut |checker: &mut Self| checker.edit_entry(named.position, &|entry| entry.size = 0);
            self.found(Problem::DirectorySize(entry.size), Some(&path), Vec::new(), repair)?;
        }
        let name = match &long_name.units {
            Some(units) => String::from_utf8_lossy(&units_to_name(units)).into_owned(),
            None => entry.name.decode(page, entry.case),
        };
        let owner = Owner {
            path,
            position: Some(named.position),
            slots: long_name.positions,
            is_directory,
            may_own_cluster: self.is_dosfs(&entry),
            size: entry.size,
            start: entry.first_cluster(self.volume.geometry.width()),
            parent: if context.is_root() { 0 } else { context.range.start.cluster() },
        };
        let (clusters, may_grow) = self.check_chain(&owner)?;
        let count = if is_directory { &mut self.report.directories } else { &mut self.report.files };
        *count += 1;
        let range = DirectoryRange { start: DirectoryStart::Cluster(owner.start), clusters, may_grow };
        let is_pending = is_directory && clusters > 0;
        Ok(is_pending.then(|| PendingDirectory { owner, name: name.into_boxed_str(), range }))
    }
}

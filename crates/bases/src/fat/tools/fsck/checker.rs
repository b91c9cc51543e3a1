//! The state of a check, and the decision about each repair.

use std::collections::HashSet;

use super::context::SuspendedAbove;
use super::options::{FsckMode, FsckOptions};
use super::owner::{Owner, SharedChain};
use super::problem::{Problem, RepairKind};
use super::question::{Question, RepairChoice, RepairChoiceCallback};
use super::report::{Finding, FsckReport, Repair};
use super::saved::SavedDirectory;
use super::stored_links::StoredLinks;
use crate::fat::format::{ENTRY_SIZE, Entry, EntrySlot, Label, Link, ShortName, VolumeFlags};
use crate::fat::tools::chain::Run;
use crate::fat::tools::cluster_map::ClusterMap;
use crate::fat::tools::directory::{DirectoryRange, DirectoryStart};
use crate::fat::tools::error::ToolError;
use crate::fat::tools::progress::ProgressCallback;
use crate::fat::tools::volume::Volume;

/// Number of directories that are searched for another entry of one with a wrong `..`.
const OTHER_PARENTS_MAX: u32 = 1000;

/// Number of clusters that are followed for entries after the end of their directory.
const HIDDEN_CLUSTERS_MAX: u32 = 1 << 24;

/// Number of times that a check starts again after a repair that changes what was seen before.
const RESTARTS_MAX: u32 = 10_000;

/// A check in progress.
pub(crate) struct Checker<'a> {
    /// The file system.
    pub(crate) volume: Volume,
    /// The options.
    pub(crate) options: &'a FsckOptions,
    /// The report so far.
    pub(crate) report: FsckReport,
    /// Clusters that an owner needs.
    pub(crate) used: ClusterMap,
    /// Clusters of chains after the ends of their files. None is in `used`.
    pub(crate) excess: ClusterMap,
    /// Clusters that become the last ones of their chains when the excess is freed.
    pub(crate) ends: ClusterMap,
    /// Findings about excess, repaired at the end.
    pub(crate) excess_findings: Vec<usize>,
    /// Number of findings about excess.
    pub(crate) excess_count: u64,
    /// Clusters of the directories from the root to the one that is being checked, without those of the root.
    pub(crate) above: ClusterMap,
    /// Chains that run into others.
    pub(crate) shared: Vec<SharedChain>,
    /// Whether chains still share clusters, of which some may be excess of one of them.
    pub(crate) is_sharing: bool,
    /// Where the slots of the root directory are.
    pub(crate) root_range: DirectoryRange,
    /// Names of saved files that are taken.
    pub(crate) saved_names: Option<HashSet<ShortName>>,
    /// The directory for saved files, if the root directory has no room for them.
    pub(crate) saved_directory: Option<SavedDirectory>,
    /// State in which the file system was found.
    pub(crate) found_state: VolumeFlags,
    /// Entries `..` that may be right.
    pub(crate) suspended: Vec<SuspendedAbove>,
    /// Number of directories that may still be searched for another entry of one with a wrong `..`.
    pub(crate) other_parents: u32,
    /// Number of clusters that may still be followed for entries after the end of their directory.
    pub(crate) hidden_clusters: u32,
    /// Number of times that the check may still start again.
    pub(crate) restarts: u32,
    /// Whether a repair has failed.
    pub(crate) has_failed: bool,
    /// Objects with several names.
    pub(crate) links: StoredLinks,
    /// The label of the root directory.
    pub(crate) root_label: Option<Label>,
    /// Reports progress.
    pub(crate) progress: ProgressCallback<'a>,
    answer: RepairChoiceCallback<'a>,
    is_writing: bool,
}

impl<'a> Checker<'a> {
    /// Begins a check of a volume.
    pub(crate) fn new(
        volume: Volume,
        report: FsckReport,
        options: &'a FsckOptions,
        answer: RepairChoiceCallback<'a>,
        progress: ProgressCallback<'a>,
    ) -> Self {
        let map = || ClusterMap::new(&volume.geometry);
        Self {
            used: map(),
            excess: map(),
            ends: map(),
            excess_findings: Vec::new(),
            excess_count: 0,
            above: map(),
            shared: Vec::new(),
            is_sharing: false,
            root_range: DirectoryRange::whole(DirectoryStart::root(&volume.geometry), &volume.geometry),
            saved_names: None,
            saved_directory: None,
            found_state: VolumeFlags { is_dirty: false, had_errors: false },
            suspended: Vec::new(),
            other_parents: OTHER_PARENTS_MAX,
            hidden_clusters: HIDDEN_CLUSTERS_MAX,
            restarts: RESTARTS_MAX,
            has_failed: false,
            links: StoredLinks::default(),
            root_label: None,
            volume,
            options,
            report,
            progress,
            answer,
            is_writing: false,
        }
    }

    /// Forgets what is not repaired, to find it again after a repair that changes what was seen before.
    pub(crate) fn restart(&mut self) {
        self.restarts = self.restarts.saturating_sub(1);
        let map = || ClusterMap::new(&self.volume.geometry);
        (self.used, self.excess, self.ends, self.above) = (map(), map(), map(), map());
        self.excess_findings.clear();
        self.excess_count = 0;
        self.shared.clear();
        self.suspended.clear();
        (self.is_sharing, self.has_failed) = (false, false);
        self.hidden_clusters = HIDDEN_CLUSTERS_MAX;
        self.other_parents = OTHER_PARENTS_MAX;
        (self.root_label, self.saved_names, self.saved_directory) = (None, None, None);
        self.root_range = DirectoryRange::whole(DirectoryStart::root(&self.volume.geometry), &self.volume.geometry);
        let report = &mut self.report;
        report.findings.retain(|finding| finding.repair == Repair::Done);
        report.counts.values_mut().for_each(|count| count.found = count.repaired);
        report.counts.retain(|_, count| count.found > 0);
        (report.files, report.directories) = (0, 0);
    }

    /// Reports a problem, and repairs it if the mode allows that. Returns whether it is repaired.
    ///
    /// # Errors
    /// If nothing more can be written. A repair that fails by itself is only reported.
    pub(crate) fn found(
        &mut self,
        problem: Problem,
        path: Option<&str>,
        clusters: Vec<Run>,
        repair: &mut dyn FnMut(&mut Self) -> Result<(), ToolError>,
    ) -> Result<bool, ToolError> {
        let result = match (problem.repair_kind(), self.options.mode) {
            (RepairKind::None, _) => Repair::Impossible,
            (_, FsckMode::Check) => Repair::Possible,
            (RepairKind::Safe, FsckMode::Preen) | (RepairKind::Safe | RepairKind::Full, FsckMode::Repair) => {
                self.attempt(repair)?
            }
            (RepairKind::Full | RepairKind::Asked, FsckMode::Preen) | (RepairKind::Asked, FsckMode::Repair) => {
                Repair::Left
            }
        };
        let is_done = result == Repair::Done;
        self.list(problem, path, clusters, result);
        Ok(is_done)
    }

    /// Reports a problem that is repaired by the answer to a question. Returns the answer if it is repaired.
    pub(crate) fn asked(
        &mut self,
        question: Question,
        clusters: Vec<Run>,
        repair: &mut dyn FnMut(&mut Self, RepairChoice) -> Result<(), ToolError>,
    ) -> Result<Option<RepairChoice>, ToolError> {
        let (result, answer) = match self.options.mode {
            FsckMode::Check => (Repair::Possible, None),
            FsckMode::Preen => (Repair::Left, None),
            FsckMode::Repair => match (self.answer)(&question) {
                answer if answer == RepairChoice::Leave || !question.answers.contains(&answer) => (Repair::Left, None),
                answer => (self.attempt(&mut |checker| repair(checker, answer))?, Some(answer)),
            },
        };
        let answer = answer.filter(|_| result == Repair::Done);
        self.list(question.problem, Some(&question.path), clusters, result);
        Ok(answer)
    }

    /// Makes a repair.
    fn attempt(&mut self, repair: &mut dyn FnMut(&mut Self) -> Result<(), ToolError>) -> Result<Repair, ToolError> {
        self.begin_writing()?;
        match repair(self) {
            Ok(()) => Ok(Repair::Done),
            Err(error @ (ToolError::ReadOnly | ToolError::Flush(_))) => Err(error),
            Err(error) => {
                self.has_failed = true;
                Ok(Repair::Failed(error))
            }
        }
    }

    /// Marks the volume as not unmounted before the first change.
    pub(crate) fn begin_writing(&mut self) -> Result<(), ToolError> {
        if self.is_writing {
            return Ok(());
        }
        if self.volume.disk.0.is_read_only() {
            return Err(ToolError::ReadOnly);
        }
        self.is_writing = true;
        self.volume.set_dirty(true)
    }

    /// Returns whether anything was changed.
    pub(crate) fn has_written(&self) -> bool {
        self.is_writing
    }

    /// Adds a finding to the report. Returns its index if it is listed.
    pub(crate) fn list(
        &mut self,
        problem: Problem,
        path: Option<&str>,
        clusters: Vec<Run>,
        repair: Repair,
    ) -> Option<usize> {
        let count = self.report.counts.entry(problem.code()).or_default();
        count.found += 1;
        count.repaired += u64::from(repair == Repair::Done);
        let index = self.report.findings.len();
        (index < self.options.findings_max).then(|| {
            self.report.findings.push(Finding { problem, path: path.map(str::to_owned), clusters, repair });
            index
        })
    }

    /// Changes an entry.
    pub(crate) fn edit_entry(&mut self, position: u64, edit: &dyn Fn(&mut Entry)) -> Result<(), ToolError> {
        let mut bytes = [0; ENTRY_SIZE];
        self.volume.disk.read(position, &mut bytes)?;
        let mut entry = Entry::decode(&bytes);
        edit(&mut entry);
        self.volume.disk.write(position, &entry.encode())
    }

    /// Marks slots as deleted.
    pub(crate) fn delete_slots(&mut self, positions: &[u64]) -> Result<(), ToolError> {
        positions.iter().try_for_each(|&position| self.volume.disk.write(position, &[EntrySlot::DELETED]))
    }

    /// Deletes an entry and its long name.
    pub(crate) fn delete_entry(&mut self, owner: &Owner) -> Result<(), ToolError> {
        self.delete_slots(owner.position.as_slice())?;
        self.delete_slots(&owner.slots)
    }

    /// Ends a chain with this cluster.
    pub(crate) fn end_chain(&mut self, cluster: u32) -> Result<(), ToolError> {
        self.volume.table.set(cluster, Link::End)
    }
}

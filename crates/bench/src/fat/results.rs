//! The contents of fat.json.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::subject::FatSubjectDescription;
use super::utilisation::Utilisation;
use crate::measure::WorkloadResult;
use crate::report::Machine;

/// The figures of a run; those of a part that was not run are missing.
#[derive(Serialize, Deserialize)]
pub(crate) struct FatResults {
    /// The machine that the figures were measured on.
    pub machine: Machine,
    /// The subjects in the order of the tables.
    pub subjects: Vec<FatSubjectDescription>,
    /// Subjects that could not be measured, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Table 2.
    pub utilisation: Option<Utilisation>,
    /// Table 4.
    pub transfers: Option<Transfers>,
    /// The same on a device whose transfer rate is limited.
    pub limited: Option<Transfers>,
    /// Table 3.
    pub operations: Option<WorkloadResult>,
}

/// Sequential transfers.
#[derive(Serialize, Deserialize)]
pub(crate) struct Transfers {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Durations, with ratios to the raw device.
    pub result: WorkloadResult,
}

impl FatResults {
    /// Returns results without figures.
    pub(crate) fn new(
        machine: Machine,
        subjects: Vec<FatSubjectDescription>,
        left_out: BTreeMap<String, String>,
    ) -> Self {
        Self { machine, subjects, left_out, utilisation: None, transfers: None, limited: None, operations: None }
    }

    /// Takes the parts that were not run from older results of the same subjects on the same machine.
    pub(crate) fn keep_older(&mut self, older: Self) {
        if older.machine == self.machine && older.subjects == self.subjects {
            self.utilisation = self.utilisation.take().or(older.utilisation);
            self.transfers = self.transfers.take().or(older.transfers);
            self.limited = self.limited.take().or(older.limited);
            self.operations = self.operations.take().or(older.operations);
        }
    }

    /// Returns whether nothing failed.
    pub(crate) fn is_complete(&self) -> bool {
        let utilisation = self.utilisation.iter().all(|part| part.failures.is_empty());
        let transfers = self.transfers.iter().chain(&self.limited);
        let results = transfers.map(|part| &part.result).chain(&self.operations);
        utilisation && results.into_iter().all(|result| result.failures.is_empty())
    }
}

//! The data that is kept of a run: the machine, the subjects, and the figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::WorkloadResult;
use crate::subjects::Subject;
use crate::workloads;

/// The contents of results.json.
#[derive(Serialize, Deserialize)]
pub(crate) struct BenchResults {
    /// The machine that the figures were measured on.
    pub machine: Machine,
    /// The subjects in the order of the tables.
    pub subjects: Vec<SubjectDescription>,
    /// The figures by workload name.
    pub workloads: BTreeMap<String, WorkloadResult>,
}

/// The relevant properties of a machine, none of which identifies it.
#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Number of CPUs in use.
    pub cores: usize,
    /// Size of main memory in GiB.
    pub memory_gib: u64,
    /// The file system that contains the measured directories.
    pub file_system: String,
}

/// The description of a subject.
#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct SubjectDescription {
    /// Name of the subject, as in the figures.
    pub name: String,
    /// Version that the program reports.
    pub version: Option<String>,
    /// The command that mounts it.
    pub command: String,
    /// Its position in a series with different numbers of branches, if such a series was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<SeriesMember>,
}

/// A subject in a series that differs only in the number of branches.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SeriesMember {
    /// The common name of the series.
    pub series: String,
    /// Number of branches that this subject joins.
    pub branches: usize,
}

impl Machine {
    /// Returns the machine that this runs on.
    pub(crate) fn current() -> Self {
        let information = rustix::system::sysinfo();
        let bytes = information.totalram as u64 * u64::from(information.mem_unit.max(1));
        Self {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (bytes + (1 << 29)) >> 30,
            file_system: "ext4 on a loop device, its image on a tmpfs".to_owned(),
        }
    }
}

impl BenchResults {
    /// Returns results without figures.
    pub(crate) fn new(subjects: &[Subject]) -> Self {
        let note = |subject: &Subject| SubjectDescription {
            name: subject.name.clone(),
            version: subject.version(),
            command: if subject.arguments.is_empty() { "-".to_owned() } else { subject.shown_command() },
            member: subject.series.clone().map(|series| SeriesMember { series, branches: subject.branches }),
        };
        Self { machine: Machine::current(), subjects: subjects.iter().map(note).collect(), workloads: BTreeMap::new() }
    }

    /// Returns the names of the subjects in the order of the tables.
    pub(crate) fn subject_names(&self) -> Vec<&str> {
        self.subjects.iter().map(|subject| subject.name.as_str()).collect()
    }

    /// Returns the workloads in their order.
    pub(crate) fn ordered(&self) -> impl Iterator<Item = (&'static str, &WorkloadResult)> {
        workloads::ALL
            .iter()
            .chain(workloads::LAYOUTS)
            .filter_map(|workload| Some((workload.name, self.workloads.get(workload.name)?)))
    }

    /// Keeps the older figures of workloads that were not run now, if they were measured under the same conditions.
    pub(crate) fn keep_older(&mut self, older: Self) {
        let own_entry = |note: &SubjectDescription| self.subjects.iter().find(|own| own.name == note.name);
        let same = older.subjects.iter().all(|note| own_entry(note).is_none_or(|own| own == note));
        if older.machine != self.machine || !same {
            return;
        }
        for (position, note) in older.subjects.into_iter().enumerate() {
            if !self.subjects.iter().any(|own| own.name == note.name) {
                self.subjects.insert(position.min(self.subjects.len()), note);
            }
        }
        for (name, result) in older.workloads {
            self.workloads.entry(name).or_insert(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(subjects: &[(&str, &str)], workload: &str) -> BenchResults {
        let note = |(name, version): &(&str, &str)| SubjectDescription {
            name: (*name).to_owned(),
            version: Some((*version).to_owned()),
            command: String::new(),
            member: None,
        };
        BenchResults {
            machine: Machine::current(),
            subjects: subjects.iter().map(note).collect(),
            workloads: BTreeMap::from([(workload.to_owned(), WorkloadResult::default())]),
        }
    }

    #[test]
    fn older_workloads_of_the_same_subjects_are_kept() {
        let mut new = results(&[("native", "1"), ("b", "1")], "tree");
        new.keep_older(results(&[("native", "1"), ("a", "1"), ("b", "1")], "build"));
        assert_eq!(new.subject_names(), ["native", "a", "b"]);
        assert_eq!(new.workloads.len(), 2);
    }

    #[test]
    fn figures_of_another_version_are_dropped() {
        let mut new = results(&[("native", "1"), ("b", "2")], "tree");
        new.keep_older(results(&[("native", "1"), ("b", "1")], "build"));
        assert_eq!(new.workloads.keys().collect::<Vec<_>>(), ["tree"]);
    }
}

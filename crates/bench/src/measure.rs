//! Times, medians, and ratios to the lower file system.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::subjects::NATIVE;

/// One timed step of one workload in one round.
pub(crate) struct Sample {
    /// Name of the step within the workload.
    pub step: &'static str,
    /// Number of equal operations that it performed; 0 where that is not meaningful.
    pub operations: u64,
    /// Duration of the step in seconds.
    pub seconds: f64,
    /// CPU time in seconds for which all CPUs of the machine were busy meanwhile, in total; `None` if it was not measured.
    pub processor_seconds: Option<f64>,
    /// Number of requests that the server answered meanwhile; `None` if the server does not report it.
    pub requests: Option<u64>,
}

/// All figures of one workload.
#[derive(Serialize, Deserialize)]
pub(crate) struct WorkloadResult {
    /// The subject that the ratios refer to.
    #[serde(skip, default = "native")]
    pub reference: String,
    /// Number of rounds that each subject completed.
    pub rounds: u32,
    /// The small sizes were used.
    pub quick: bool,
    /// The machine's load average just before; `None` if it was not recorded.
    #[serde(default)]
    pub load_average: Option<f64>,
    /// The steps in the order in which they were measured.
    pub steps: Vec<StepResult>,
    /// The subjects that failed, with the reason; they have no figures.
    pub failures: BTreeMap<String, String>,
}

fn native() -> String {
    NATIVE.to_owned()
}

impl Default for WorkloadResult {
    fn default() -> Self {
        Self {
            reference: native(),
            rounds: 0,
            quick: false,
            load_average: None,
            steps: Vec::new(),
            failures: BTreeMap::new(),
        }
    }
}

/// The figures of one step.
#[derive(Serialize, Deserialize)]
pub(crate) struct StepResult {
    /// Name of the step within the workload.
    pub step: String,
    /// Number of equal operations that it performed; 0 where that is not meaningful.
    pub operations: u64,
    /// The figures by subject.
    pub subjects: BTreeMap<String, StepFigures>,
}

/// The figures of one subject in one step.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct StepFigures {
    /// One duration in seconds per round; for the lower file system, several.
    pub seconds: Vec<f64>,
    /// One CPU time of the whole machine per round, in seconds; empty if it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processor_seconds: Vec<f64>,
    /// Number of requests that the server answered in each round; empty if the server does not report it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<u64>,
    /// Each duration divided by the preceding one of the lower file system.
    #[serde(skip)]
    ratios: Vec<f64>,
    /// Median of the durations.
    pub seconds_median: f64,
    /// Median over the rounds of this subject's duration divided by the preceding one of the lower file system.
    pub ratio: Option<f64>,
}

impl StepFigures {
    /// Returns the median of the CPU time of the whole machine, if it was measured.
    pub(crate) fn processor_seconds_median(&self) -> Option<f64> {
        (!self.processor_seconds.is_empty()).then(|| median(self.processor_seconds.clone()))
    }

    /// Returns the median of the requests that the server answered, if the server reports it.
    pub(crate) fn requests_median(&self) -> Option<u64> {
        let requests: Vec<f64> = self.requests.iter().map(|count| *count as f64).collect();
        (!requests.is_empty()).then(|| median(requests) as u64)
    }
}

impl WorkloadResult {
    /// Adds the samples of one subject in one round.
    pub(crate) fn add(&mut self, subject: &str, samples: &[Sample]) {
        for sample in samples {
            let step = match self.steps.iter_mut().position(|step| step.step == sample.step) {
                Some(position) => &mut self.steps[position],
                None => {
                    self.steps.push(StepResult {
                        step: sample.step.to_owned(),
                        operations: sample.operations,
                        subjects: BTreeMap::new(),
                    });
                    self.steps.last_mut().expect("one was pushed")
                }
            };
            let figures = step.subjects.entry(subject.to_owned()).or_default();
            figures.seconds.push(sample.seconds);
            figures.processor_seconds.extend(sample.processor_seconds);
            figures.requests.extend(sample.requests);
            let reference = step.subjects.get(&self.reference).and_then(|figures| figures.seconds.last().copied());
            if let (Some(reference), Some(figures)) = (reference, step.subjects.get_mut(subject)) {
                figures.ratios.push(sample.seconds / reference);
            }
        }
    }

    /// Removes a failed subject from the figures.
    pub(crate) fn fail(&mut self, subject: &str, reason: String) {
        for step in &mut self.steps {
            step.subjects.remove(subject);
        }
        self.failures.insert(subject.to_owned(), reason);
    }

    /// Computes medians and ratios from the durations measured so far.
    pub(crate) fn compute_medians(&mut self) {
        for step in &mut self.steps {
            for figures in step.subjects.values_mut() {
                figures.seconds_median = median(figures.seconds.clone());
                figures.ratio = (!figures.ratios.is_empty()).then(|| median(figures.ratios.clone()));
            }
        }
    }
}

/// Returns the middle value, or the mean of the two middle ones; 0 for an empty list.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64) -> Sample {
        Sample { step: "step", operations: 0, seconds, processor_seconds: None, requests: None }
    }

    #[test]
    fn median_takes_the_middle() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn ratio_compares_with_the_lower_file_system_just_before() {
        let mut result = WorkloadResult::default();
        // The machine was three times slower for a while, which does not affect the ratio.
        for (native, own) in [(1.0, 2.0), (3.0, 6.0), (1.0, 2.0)] {
            result.add(NATIVE, &[sample(native)]);
            result.add("own", &[sample(own)]);
        }
        result.compute_medians();
        assert_eq!(result.steps[0].subjects["own"].ratio, Some(2.0));
        assert_eq!(result.steps[0].subjects["own"].seconds_median, 2.0);
    }

    #[test]
    fn a_failed_subject_has_no_figures() {
        let mut result = WorkloadResult::default();
        result.add(NATIVE, &[sample(1.0)]);
        result.add("own", &[sample(1.0)]);
        result.fail("own", "reason".to_owned());
        result.compute_medians();
        assert!(!result.steps[0].subjects.contains_key("own"));
        assert_eq!(result.failures["own"], "reason");
    }
}

//! Times, medians, and ratios to the lower file system.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::subjects::NATIVE;

/// One timed step of one workload in one round.
pub struct Sample {
    /// Its name within the workload.
    pub step: &'static str,
    /// How many equal operations it did; 0 where that means nothing.
    pub operations: u64,
    /// How long it took.
    pub seconds: f64,
    /// For how long all processors of the machine together were busy meanwhile; `None` if that was not measured.
    pub processor_seconds: Option<f64>,
    /// How many requests the server answered meanwhile; `None` if it does not say.
    pub requests: Option<u64>,
}

/// All figures of one workload.
#[derive(Serialize, Deserialize)]
pub struct WorkloadResult {
    /// The subject that the ratios refer to.
    #[serde(skip, default = "native")]
    pub reference: String,
    /// How often each subject did it.
    pub rounds: u32,
    /// Whether the small sizes were used.
    pub quick: bool,
    /// The machine's load average just before; `None` where it was not noted.
    #[serde(default)]
    pub load_average: Option<f64>,
    /// In the order they were taken.
    pub steps: Vec<StepResult>,
    /// Subjects that failed, with the reason; they have no figures.
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
pub struct StepResult {
    /// Its name within the workload.
    pub step: String,
    /// How many equal operations it did; 0 where that means nothing.
    pub operations: u64,
    /// Per subject.
    pub subjects: BTreeMap<String, Figures>,
}

/// The figures of one subject in one step.
#[derive(Default, Serialize, Deserialize)]
pub struct Figures {
    /// One time per round; of the lower file system several.
    pub seconds: Vec<f64>,
    /// One time of all processors per round; empty if it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processor_seconds: Vec<f64>,
    /// How many requests the server answered in each round; empty if it does not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<u64>,
    /// Each of them divided by the lower file system's just before.
    #[serde(skip)]
    ratios: Vec<f64>,
    /// Their median.
    pub seconds_median: f64,
    /// The median over the rounds of this subject's time divided by the lower file system's just before.
    pub ratio: Option<f64>,
}

impl Figures {
    /// The median of the time of all processors, if it was measured.
    pub fn processor_seconds_median(&self) -> Option<f64> {
        (!self.processor_seconds.is_empty()).then(|| median(self.processor_seconds.clone()))
    }

    /// The median of the requests that the server answered, if it says how many.
    pub fn requests_median(&self) -> Option<u64> {
        let requests: Vec<f64> = self.requests.iter().map(|count| *count as f64).collect();
        (!requests.is_empty()).then(|| median(requests) as u64)
    }
}

impl WorkloadResult {
    /// Takes the samples of one subject in one round.
    pub fn add(&mut self, subject: &str, samples: &[Sample]) {
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

    /// Takes a subject that failed out of the figures.
    pub fn fail(&mut self, subject: &str, reason: String) {
        for step in &mut self.steps {
            step.subjects.remove(subject);
        }
        self.failures.insert(subject.to_owned(), reason);
    }

    /// Computes medians and ratios from the times taken so far.
    pub fn conclude(&mut self) {
        for step in &mut self.steps {
            for figures in step.subjects.values_mut() {
                figures.seconds_median = median(figures.seconds.clone());
                figures.ratio = (!figures.ratios.is_empty()).then(|| median(figures.ratios.clone()));
            }
        }
    }
}

/// The middle value, or the mean of the two middle ones; 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
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
        // The machine was three times slower for a while: the ratio does not see it.
        for (native, own) in [(1.0, 2.0), (3.0, 6.0), (1.0, 2.0)] {
            result.add(NATIVE, &[sample(native)]);
            result.add("own", &[sample(own)]);
        }
        result.conclude();
        assert_eq!(result.steps[0].subjects["own"].ratio, Some(2.0));
        assert_eq!(result.steps[0].subjects["own"].seconds_median, 2.0);
    }

    #[test]
    fn a_failed_subject_has_no_figures() {
        let mut result = WorkloadResult::default();
        result.add(NATIVE, &[sample(1.0)]);
        result.add("own", &[sample(1.0)]);
        result.fail("own", "reason".to_owned());
        result.conclude();
        assert!(!result.steps[0].subjects.contains_key("own"));
        assert_eq!(result.failures["own"], "reason");
    }
}

//! Trials that report their duration, which libtest-mimic does not.

use std::time::Instant;

use libtest_mimic::{Arguments, Failed, FormatSetting, Trial};

/// Returns a trial. When events are printed, an additional event follows the trial: `{"type": "time", "name": …, "exec_time":
/// SECONDS}`.
pub fn timed_trial(
    arguments: &Arguments,
    name: String,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let prints = arguments.format == Some(FormatSetting::Json);
    let title = name.clone();
    Trial::test(name, move || {
        let started = Instant::now();
        let result = test();
        if prints {
            let event = serde_json::json!({
                "type": "time", "name": title, "exec_time": started.elapsed().as_secs_f64()
            });
            println!("{event}");
        }
        result
    })
}

//! Postmark: many small files created, read, appended to and deleted, as a mail server does.
use std::process::Command;

use anyhow::{Result, bail};

use super::sizes::Sizes;
use crate::session::Session;

/// One step: postmark.
pub(crate) fn run(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    session.mount()?;
    let report = session.auxiliary_directory().join("report");
    let script = session.auxiliary_directory().join("script");
    // Postmark refuses to write a report where its files are, and continues after errors: the report states what was done.
    std::fs::write(
        &script,
        format!(
            "set number {}\nset transactions {}\nset subdirectories {}\nset location {}\nset report terse\nrun {}\nquit\n",
            sizes.postmark_files,
            sizes.postmark_transactions,
            sizes.postmark_directories,
            session.directory().display(),
            report.display()
        ),
    )?;
    let run = session.runner();
    session.time("postmark", |_| run(Command::new("postmark").arg(&script)))?;
    check(&std::fs::read_to_string(&report)?, sizes)?;
    if std::fs::read_dir(session.directory())?.next().is_some() {
        bail!("postmark left files behind");
    }
    Ok(())
}

/// Checks the terse report, one line: seconds, seconds of transactions, transactions per second, files created per second, …
fn check(report: &str, sizes: &Sizes) -> Result<()> {
    let numbers: Vec<f64> = report.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[seconds, _, _, created_per_second, ..] = numbers.as_slice() else { bail!("postmark reports {report:?}") };
    let created = seconds.max(1.0) * created_per_second;
    // Half of the transactions create or delete, with equal probability.
    let expected = f64::from(sizes.postmark_files) + f64::from(sizes.postmark_transactions) / 8.0;
    if created < expected {
        bail!("postmark created {created:.0} files, fewer than the {expected:.0} it has to");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_too_few_files_is_refused() {
        let sizes = Sizes::full(None);
        let complete = "9 9 22222.22 13377.11 20000.00 11154.89 11092.67 11064.56 13377.11 20788.00";
        assert!(check(complete, &sizes).is_ok());
        assert!(check("9 9 22222.22 1337.71 20000.00", &sizes).is_err());
        assert!(check("", &sizes).is_err());
    }
}

//! Postmark: many small files created, read, appended to and deleted, as a mail server does.
use std::process::Command;

use anyhow::{Result, bail};

use super::Sizes;
use crate::session::Session;

/// One step: postmark.
pub fn run(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    session.mount()?;
    let report = session.data().with_file_name("report");
    let script = session.data().with_file_name("script");
    // Postmark refuses a report where its files are, and goes on past errors: the report tells what was done.
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

/// The terse report is one line: seconds, seconds of transactions, transactions per second, files created, …
fn check(report: &str, sizes: &Sizes) -> Result<()> {
    let numbers: Vec<f64> = report.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let created = numbers.get(3).copied().unwrap_or_default();
    // Half of the transactions create or delete, each with the same chance.
    let expected = f64::from(sizes.postmark_files) + f64::from(sizes.postmark_transactions) / 8.0;
    if created < expected {
        bail!("postmark created {created} files, fewer than the {expected} it has to: {report:?}");
    }
    Ok(())
}

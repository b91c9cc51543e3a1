//! The tables of FAT file systems, for the terminal and as a Markdown page.
use std::fmt::Write;

use super::table;
use crate::fat::device_limit::LIMIT;
use crate::fat::results::{FatResults, Transfers};
use crate::fat::utilisation::{SERIES, Utilisation, UtilisationRow};
use crate::measure::WorkloadResult;

/// A table: its title, the heading of each column, and the cells of each row.
struct Table {
    title: String,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Lines below it.
    notes: Vec<String>,
}

/// Returns all tables for the terminal.
pub(crate) fn text(results: &FatResults) -> String {
    tables(results).iter().map(plain).collect()
}

/// Returns the contents of fat.md.
pub(crate) fn markdown(results: &FatResults) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "# FAT file systems\n\nWritten by `bench fat`; how to read it: [README.md](README.md#fat-file-systems).\n\nLinux {}, {} \
         cores, {} GiB of memory, {}.\n\n![Free space on a floppy disk, and the formulas](fat-utilisation.svg)\n\n![Times as \
         ratios](fat-transfers.svg)\n",
        machine.kernel, machine.cores, machine.memory_gib, machine.file_system
    );
    for table in tables(results) {
        line(&mut text, format!("\n## {}\n\n| {} |", table.title, table.headings.join(" | ")));
        line(&mut text, format!("|---|{}", "--:|".repeat(table.headings.len() - 1)));
        table.rows.iter().for_each(|row| line(&mut text, format!("| {} |", row.join(" | "))));
        table.notes.iter().for_each(|note| line(&mut text, format!("\n{note}")));
    }
    line(&mut text, "\n## Subjects\n\n| subject | version | command |\n|---|---|---|".to_owned());
    for subject in &results.subjects {
        let version = subject.version.as_deref().unwrap_or("-");
        line(&mut text, format!("| {} | {version} | `{}` |", subject.name, subject.command));
    }
    for (subject, reason) in &results.left_out {
        line(&mut text, format!("\n{subject} is left out: {reason}."));
    }
    text
}

fn tables(results: &FatResults) -> Vec<Table> {
    let names: Vec<&str> = results.subjects.iter().map(|subject| subject.name.as_str()).collect();
    let utilisation = results.utilisation.as_ref().map(utilisation_table);
    let transfers = results.transfers.as_ref().map(|part| transfers_table(part, "", &names));
    let device = format!(" on a device of {} MB/s", LIMIT / 1_000_000);
    let limited = results.limited.as_ref().map(|part| transfers_table(part, &device, &names));
    let operations = results.operations.as_ref().map(|result| operations_table(result, &names));
    [utilisation, transfers, limited, operations].into_iter().flatten().collect()
}

fn utilisation_table(part: &Utilisation) -> Table {
    let mut headings = vec!["allocation size".to_owned(), "waste".to_owned()];
    headings.extend(SERIES.map(|name| format!("{name} free")));
    headings.extend(SERIES[1..].iter().map(|name| format!("difference of {name}")));
    let row = |row: &UtilisationRow| {
        let free = |name: &&str| row.free.get(*name).copied();
        let first = free(&SERIES[0]);
        let mut cells = vec![row.allocation.to_string(), kibibytes(row.waste as i64)];
        cells.extend(SERIES.iter().map(|name| free(name).map_or("-".to_owned(), kibibytes)));
        cells.extend(SERIES[1..].iter().map(|name| difference(first, free(name))));
        cells
    };
    let rows = part.rows.iter().map(row).collect();
    let mut notes = vec!["ext4 has no blocks of 512 bytes. A negative number: what did not fit.".to_owned()];
    notes.extend(part.failures.iter().map(|(name, reason)| format!("FAILED {name}: {reason}")));
    Table {
        title: "Free on a floppy disk after unpacking 978,634 bytes in 194 files".to_owned(),
        headings,
        rows,
        notes,
    }
}

fn transfers_table(part: &Transfers, device: &str, names: &[&str]) -> Table {
    let result = &part.result;
    let mut headings = vec!["subject".to_owned()];
    for step in &result.steps {
        let columns = ["MB/s", "seconds", &format!("ratio to {}", result.reference), "CPU seconds"];
        headings.extend(columns.map(|column| format!("{}: {column}", step.step)));
    }
    let row = |name: &&str| {
        let mut cells = vec![(*name).to_owned()];
        for step in &result.steps {
            let Some(figures) = step.subjects.get(*name) else {
                cells.extend(["-"; 4].map(str::to_owned));
                continue;
            };
            let speed = part.bytes as f64 / figures.seconds_median.max(1e-9) / 1e6;
            cells.push(format!("{speed:.0}"));
            cells.push(format!("{:.3}", figures.seconds_median));
            cells.push(figures.ratio.map_or("-".to_owned(), table::ratio));
            cells.push(figures.processor_seconds_median().map_or("-".to_owned(), |busy| format!("{busy:.2}")));
        }
        cells
    };
    let (size, rounds) = (part.bytes >> 20, result.rounds);
    let title = format!("Sequential transfers of {size} MiB{device}, not cached (median of {rounds})");
    Table { title, headings, rows: names.iter().map(row).collect(), notes: notes(result) }
}

fn operations_table(result: &WorkloadResult, names: &[&str]) -> Table {
    let headings = std::iter::once("test").chain(names.iter().copied()).map(str::to_owned).collect();
    let row = |step: &crate::measure::StepResult| {
        let cell = |name: &&str| match step.subjects.get(*name) {
            Some(figures) => {
                let ratio = figures.ratio.map_or(String::new(), |ratio| format!(" ({})", table::ratio(ratio)));
                format!("{:.2}{ratio}", figures.seconds_median * 1e6)
            }
            None => "-".to_owned(),
        };
        std::iter::once(step.step.clone()).chain(names.iter().map(cell)).collect()
    };
    let (rounds, reference) = (result.rounds, &result.reference);
    let title = format!("Ousterhout's tests: microseconds per operation (median of {rounds}; ratio to {reference})");
    Table { title, headings, rows: result.steps.iter().map(row).collect(), notes: notes(result) }
}

fn notes(result: &WorkloadResult) -> Vec<String> {
    let load = result.load_average.map(|load| format!("Load average of the machine before it: {load:.1}."));
    let failures = result.failures.iter().map(|(subject, reason)| format!("FAILED {subject}: {reason}"));
    load.into_iter().chain(failures).collect()
}

fn kibibytes(bytes: i64) -> String {
    format!("{:.0} KiB", bytes as f64 / 1024.0)
}

/// Returns by how much more is free, if both have something free.
fn difference(first: Option<i64>, other: Option<i64>) -> String {
    match first.zip(other) {
        Some((first, other)) if first > 0 && other > 0 => {
            format!("{:+.0} %", (other as f64 / first as f64 - 1.0) * 100.0)
        }
        _ => "n/a".to_owned(),
    }
}

fn plain(table: &Table) -> String {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column)).chain(table.headings.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.headings.len()).map(width).collect();
    let mut text = format!("\n{}\n", table.title);
    for row in std::iter::once(&table.headings).chain(&table.rows) {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            text.push_str(&cell);
        }
        text.push('\n');
    }
    table.notes.iter().for_each(|note| line(&mut text, note.clone()));
    text
}

fn line(text: &mut String, line: String) {
    writeln!(text, "{line}").expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_needs_free_space_on_both() {
        assert_eq!(difference(Some(100), Some(129)), "+29 %");
        assert_eq!(difference(Some(-100), Some(4)), "n/a");
        assert_eq!(difference(None, Some(4)), "n/a");
    }

    #[test]
    fn columns_are_aligned() {
        let table = Table {
            title: "t".to_owned(),
            headings: vec!["a".to_owned(), "long".to_owned()],
            rows: vec![vec!["row".to_owned(), "1".to_owned()]],
            notes: Vec::new(),
        };
        assert_eq!(plain(&table), "\nt\na    long\nrow     1\n");
    }
}

//! The table in docs/unions-compared.md, read as its text is.

use std::collections::BTreeSet;

use libtest_mimic::Failed;

use crate::subject::Subject;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/unions-compared.md"));

/// What stands for yes. No is an empty cell. Notes may follow.
const TICK: &str = "✓";

/// The cells of the page's first table: the rows that are as long as its heading.
pub(crate) struct Table {
    rows: Vec<Vec<&'static str>>,
}

impl Table {
    pub(crate) fn read() -> Self {
        let row = |line: &'static str| -> Option<Vec<_>> {
            let cells = line.strip_prefix('|')?.strip_suffix('|')?;
            Some(cells.split('|').map(str::trim).collect())
        };
        let mut rows: Vec<_> = PAGE.lines().filter_map(row).collect();
        let length = rows.first().map_or(0, Vec::len);
        rows.retain(|row| row.len() == length);
        Self { rows }
    }

    /// Whether the row that names this test has a tick for the subject.
    pub(crate) fn ticks(&self, test: &str, subject: Subject) -> Result<bool, Failed> {
        let row = self.rows.iter().find(|row| named(row) == Some(test)).ok_or("no row of the table names the test")?;
        let cell = self.cell(row, subject)?;
        let note = cell.strip_prefix(TICK).unwrap_or(cell).trim();
        match note.is_empty() || note.starts_with('[') && note.ends_with("](#notes)") {
            true => Ok(cell.starts_with(TICK)),
            false => Err(format!("{cell:?} is neither a tick nor empty").into()),
        }
    }

    /// The version that the table is about.
    pub(crate) fn version(&self, subject: Subject) -> Result<&'static str, Failed> {
        let row = self.rows.iter().find(|row| row.contains(&"Version")).ok_or("there is no row of versions")?;
        self.cell(row, subject)
    }

    /// Whether every test is named by one row, and every row names a test that there is.
    pub(crate) fn names_exactly(&self, tests: impl Iterator<Item = &'static str>) -> Result<(), Failed> {
        let tests: BTreeSet<_> = tests.collect();
        let rows: Vec<_> = self.rows.iter().filter_map(|row| named(row)).collect();
        let named: BTreeSet<_> = rows.iter().copied().collect();
        if named == tests && rows.len() == named.len() {
            return Ok(());
        }
        let odd: Vec<_> = named.symmetric_difference(&tests).collect();
        Err(format!("rows and tests do not go together, or a row is there twice: {odd:?}").into())
    }

    /// Of the row, under the heading with the subject's name in the table's first row.
    fn cell(&self, row: &[&'static str], subject: Subject) -> Result<&'static str, Failed> {
        let name = subject.to_string();
        let place = self.rows.iter().find_map(|row| row.iter().position(|cell| *cell == name));
        let place = place.ok_or_else(|| format!("no column is about {subject}"))?;
        Ok(row.get(place).copied().ok_or("the row is too short")?)
    }
}

/// The test that the last cell of a row names.
fn named(row: &[&'static str]) -> Option<&'static str> {
    row.last()?.strip_prefix('`')?.strip_suffix('`')
}

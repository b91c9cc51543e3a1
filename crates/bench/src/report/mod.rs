//! The results: the data that is kept of a run, and the files that contain it.

pub(crate) mod chart;
pub(crate) mod fat;
pub(crate) mod markdown;
mod results;
pub(crate) mod table;
pub(crate) mod union;

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::fat::results::FatResults;

pub(crate) use results::{BenchResults, Machine};

/// Writes results.json, results.md and chart.svg. Workloads that were not run this time keep their figures in the files.
pub(crate) fn write(directory: &Path, results: &mut BenchResults) -> Result<()> {
    merge_json(directory, "results.json", results)?;
    write_text(directory, "results.md", &markdown::render(results))?;
    write_text(directory, "chart.svg", &chart::ratios::render(results))
}

/// Writes the files for unions in the same way: union.json, union.md, union.svg and union-tree.svg.
pub(crate) fn write_union(directory: &Path, results: &mut BenchResults) -> Result<()> {
    merge_json(directory, "union.json", results)?;
    write_text(directory, "union.md", &union::markdown(results))?;
    write_text(directory, "union.svg", &chart::union::lines(results))?;
    write_text(directory, "union-tree.svg", &chart::union::bars(results))
}

/// Writes the files for FAT in the same way: fat.json, fat.md, fat-utilisation.svg and fat-transfers.svg.
pub(crate) fn write_fat(directory: &Path, results: &mut FatResults) -> Result<()> {
    let older = std::fs::read(directory.join("fat.json")).ok();
    if let Some(older) = older.and_then(|text| serde_json::from_slice(&text).ok()) {
        results.keep_older(older);
    }
    write_json(directory, "fat.json", results)?;
    write_text(directory, "fat.md", &fat::markdown(results))?;
    write_text(directory, "fat-utilisation.svg", &chart::fat::utilisation(results))?;
    write_text(directory, "fat-transfers.svg", &chart::fat::transfers(results))
}

fn merge_json(directory: &Path, name: &str, results: &mut BenchResults) -> Result<()> {
    let older = std::fs::read(directory.join(name)).ok();
    if let Some(older) = older.and_then(|text| serde_json::from_slice(&text).ok()) {
        results.keep_older(older);
    }
    write_json(directory, name, results)
}

/// Writes one file of figures.
pub(crate) fn write_json(directory: &Path, name: &str, results: &impl Serialize) -> Result<()> {
    write_text(directory, name, &(serde_json::to_string_pretty(results)? + "\n"))
}

/// Writes one file of text.
pub(crate) fn write_text(directory: &Path, name: &str, text: &str) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let path = directory.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("bench: wrote {}", path.display());
    Ok(())
}

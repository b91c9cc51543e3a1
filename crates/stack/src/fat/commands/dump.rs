//! `plyfs fat dump`: shows what is on the disk.

use std::fmt::Write;
use std::ops::Range;

use bases::device::Access;
use bases::fat::tools::{Dump, ToolError, dump_boot, dump_chain, dump_directory, dump_info, dump_table};
use clap::Args;
use layers::command::{CommandHost, Outcome};
use layers::printable::{escaped, json_text};
use serde_json::{Map, Value};

use super::failure;
use super::image::{Contents, Image, ImageArguments};
use super::values::NameArguments;

/// Arguments of dump.
#[derive(Args, Debug)]
pub(crate) struct DumpArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Show the boot sector, and where the tables, the root directory and the clusters are
    #[arg(short = 'b', long)]
    boot: bool,
    /// Show the free space according to the information sector and to the tables, and the marks of the state
    #[arg(short = 'i', long)]
    info: bool,
    /// Show the file allocation table: all clusters, or those of a range such as 2-100
    #[arg(short = 't', long, value_name = "CLUSTERS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = clusters)]
    table: Option<Range<u32>>,
    /// Show all slots of a directory, also deleted ones; / is the root directory
    #[arg(short = 'd', long, value_name = "PATH")]
    directory: Option<String>,
    /// Show the clusters of a file or directory, and where they are
    #[arg(short = 'c', long, value_name = "PATH")]
    chain: Option<String>,
    /// Print as JSON: an object with a list of names and values for each part
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: NameArguments,
}

/// Prints the parts that are requested.
pub(crate) fn run(arguments: &DumpArguments, host: &dyn CommandHost) -> Outcome {
    let contents = if arguments.boot { Contents::DamagedFileSystem } else { Contents::FileSystem };
    let image = arguments.image.open(Access::Examine, contents)?;
    let parts = parts(&image, arguments).map_err(|error| failure::of_tool("show", &image.name, &error))?;
    host.print(&if arguments.json { json(&parts) } else { text(&parts) })
}

/// A part of the disk: its key in JSON, its heading, and its rows.
type Part = (&'static str, String, Dump);

fn parts(image: &Image, arguments: &DumpArguments) -> Result<Vec<Part>, ToolError> {
    let DumpArguments { boot, info, table, directory, chain, .. } = arguments;
    let (device, page) = (|| image.device.clone(), arguments.names.codepage);
    let is_default = !boot && !info && table.is_none() && directory.is_none() && chain.is_none();
    let mut parts: Vec<Part> = Vec::new();
    if *boot || is_default {
        parts.push(("boot", "Boot sector".into(), dump_boot(device(), page)?));
    }
    if *info || is_default {
        parts.push(("info", "Free space and state".into(), dump_info(device())?));
    }
    if let Some(clusters) = table {
        parts.push(("table", "File allocation table".into(), dump_table(device(), clusters.clone())?));
    }
    if let Some(path) = directory {
        let heading = format!("Directory {}", escaped(path));
        parts.push(("directory", heading, dump_directory(device(), path, page)?));
    }
    if let Some(path) = chain {
        parts.push(("chain", format!("Clusters of {}", escaped(path)), dump_chain(device(), path, page)?));
    }
    Ok(parts)
}

/// Returns the parts below their headings; one alone has none.
fn text(parts: &[Part]) -> String {
    let mut text = String::new();
    for (index, (_, heading, dump)) in parts.iter().enumerate() {
        let separator = if index > 0 { "\n" } else { "" };
        let _ = match parts.len() {
            1 => write!(text, "{dump}"),
            _ => write!(text, "{separator}{heading}:\n{dump}"),
        };
    }
    text
}

fn json(parts: &[Part]) -> String {
    let object: Map<String, Value> = parts.iter().map(|(key, _, dump)| ((*key).to_owned(), dump.to_json())).collect();
    json_text(&Value::from(object))
}

/// Returns a range of clusters; all for an empty text.
fn clusters(text: &str) -> Result<Range<u32>, &'static str> {
    let expected = "give a cluster or a range, such as 5 or 2-100";
    if text.is_empty() {
        return Ok(0..u32::MAX);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().map_err(|_| expected)?, last.parse::<u32>().map_err(|_| expected)?);
    if first <= last { Ok(first..last.saturating_add(1)) } else { Err("the range ends before it begins") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_all_one_or_a_range() {
        assert_eq!(["", "5", "2-100"].map(clusters), [Ok(0..u32::MAX), Ok(5..6), Ok(2..101)]);
        assert!(["x", "5-2", "-", "1-", "-1", "4294967296"].iter().all(|text| clusters(text).is_err()));
    }
}

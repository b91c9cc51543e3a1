//! `plyfs fat badsect`: looks for bad sectors, and marks them.

use std::path::PathBuf;

use bases::device::Access;
use bases::fat::tools::{BadsectOptions, Progress, badsect};
use clap::{Args, ValueHint};
use layers::command::{CommandHost, Exit, Failure, Outcome};
use layers::printable::json_text;

use super::image::{Contents, ImageArguments};
use super::values::NameArguments;
use super::{failure, sectors};

/// Arguments of badsect.
#[derive(Args, Debug)]
pub(crate) struct BadsectArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Only report: write nothing
    #[arg(short = 'n', long, alias = "no-change", conflicts_with_all = ["write_test", "relocate"])]
    dry_run: bool,
    /// Also write back what is read, and compare it: finds sectors that can only be read. Contents do not change, but a power failure during it may tear a sector
    #[arg(short = 'w', long)]
    write_test: bool,
    /// Give files and directories other clusters in place of bad ones: what cannot be read becomes zeros in a file, and deleted entries in a directory
    #[arg(long)]
    relocate: bool,
    /// Sector that is known to be bad, counted from the beginning of the file system; can be given several times
    #[arg(short = 's', long = "sector", value_name = "NUMBER")]
    sectors: Vec<u64>,
    /// File with the numbers of bad sectors, one a line, as badblocks(8) writes them with the size of sectors
    #[arg(short = 'l', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    list: Option<PathBuf>,
    /// Do not read the whole file system, but only take the sectors that are given
    #[arg(long)]
    no_scan: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: NameArguments,
}

/// Looks for bad sectors, and prints what was found.
pub(crate) fn run(arguments: &BadsectArguments, host: &dyn CommandHost) -> Outcome {
    let mut sectors = arguments.sectors.clone();
    if let Some(list) = &arguments.list {
        sectors.extend(sectors::read_list(list)?);
    }
    let options = BadsectOptions {
        scan: !arguments.no_scan,
        write_test: arguments.write_test,
        sectors,
        mark: !arguments.dry_run,
        relocate: arguments.relocate,
        page: arguments.names.codepage,
    };
    let access = if arguments.dry_run { Access::Read } else { Access::Write };
    let image = arguments.image.open(access, Contents::FileSystem)?;
    let bar = host.progress_bar("fat badsect");
    let progress = &mut |step: Progress| bar.show(&step.phase.to_string(), step.done, step.total);
    let report = badsect(image.device.clone(), &options, progress)
        .map_err(|error| failure::of_tool("look for bad sectors on", &image.name, &error))?;
    bar.hide();
    host.print(&if arguments.json { json_text(&report.to_json()) } else { report.to_string() })?;
    let remedy = match arguments.dry_run {
        _ if report.left == 0 => return Ok(()),
        true => "to mark those that are free, leave -n out",
        false => "see the lines above; --relocate gives files others",
    };
    Err(Failure::new(
        Exit::Failure,
        format!("bad places on `{}` that are not out of use: {}; {remedy}", image.name, report.left),
    ))
}

//! `plyfs fat tune`: makes files and the free space contiguous.

use bases::device::Access;
use bases::fat::tools::tune::{TuneOptions, TuneReport, estimate, tune};
use bases::fat::tools::{Progress, ToolError};
use clap::Args;
use layers::command::{CommandHost, Outcome};
use layers::printable::json_text;

use super::failure;
use super::image::{Contents, Image, ImageArguments};
use super::values::NameArguments;

/// Arguments of tune.
#[derive(Args, Debug)]
pub(crate) struct TuneArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Only report how fragmented the file system is, and how much would be moved; also while it is mounted
    #[arg(short = 'n', long, visible_alias = "dry-run")]
    estimate: bool,
    /// Treat entries with reserved attribute bits as those of DosFs
    #[arg(long)]
    dosfs: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: NameArguments,
}

/// Tunes the file system, and prints how fragmented it was and is.
pub(crate) fn run(arguments: &TuneArguments, host: &dyn CommandHost) -> Outcome {
    // Others may write while an estimate reads.
    let access = if arguments.estimate { Access::Examine } else { Access::Write };
    let image = arguments.image.open(access, Contents::FileSystem)?;
    let report = run_on(&image, arguments, host)
        .map_err(|error| failure::of_tool(if arguments.estimate { "examine" } else { "tune" }, &image.name, &error))?;
    host.print(&if arguments.json { json_text(&report.to_json()) } else { report.to_string() })
}

fn run_on(image: &Image, arguments: &TuneArguments, host: &dyn CommandHost) -> Result<TuneReport, ToolError> {
    let bar = host.progress_bar("fat tune");
    let progress = &mut |step: Progress| bar.show(&step.phase.to_string(), step.done, step.total);
    let options = TuneOptions { page: arguments.names.codepage, dosfs: arguments.dosfs };
    match arguments.estimate {
        true => estimate(image.device.clone(), &options, progress),
        false => tune(image.device.clone(), &options, progress),
    }
}

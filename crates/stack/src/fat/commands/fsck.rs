//! `plyfs fat fsck`: checks a file system, and repairs it.

use bases::device::Access;
use bases::fat::complete_journal;
use bases::fat::tools::Progress;
use bases::fat::tools::fsck::{FsckMode, FsckOptions, FsckReport, LostChains, Question, RepairChoice, fsck};
use clap::{Args, ValueEnum};
use layers::command::{CommandHost, Exit, Failure, Outcome};
use layers::printable::json_text;

use super::image::{Contents, Image, ImageArguments};
use super::values::{NameArguments, TimeArguments, current_time};
use super::{failure, question};

/// Arguments of fsck.
#[derive(Args, Debug)]
pub(crate) struct FsckArguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Only report: write nothing, ask nothing
    #[arg(short = 'n', long = "dry-run", alias = "no-change", conflicts_with_all = ["preen", "yes"])]
    no_change: bool,
    /// Make only the repairs that lose nothing, without questions, as at the start of a machine
    #[arg(short = 'p', long, visible_short_alias = 'a', conflicts_with = "yes")]
    preen: bool,
    /// Make all repairs without questions: the answer is the one that loses the least
    #[arg(short = 'y', long)]
    yes: bool,
    /// What becomes of clusters that belong to no file: save makes files and directories of them, free discards them
    #[arg(long, value_name = "WHAT", default_value = "save")]
    lost: Lost,
    /// Treat entries with reserved attribute bits as those of DosFs, which kept long names and owners there
    #[arg(long)]
    dosfs: bool,
    /// Number of findings that are listed; further ones are only counted
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
    findings_max: usize,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    names: NameArguments,
    #[command(flatten)]
    times: TimeArguments,
}

/// What becomes of lost clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lost {
    Save,
    Free,
}

/// Checks the file system, and prints the report.
pub(crate) fn run(arguments: &FsckArguments, host: &dyn CommandHost) -> Outcome {
    let access = if arguments.no_change { Access::Read } else { Access::Write };
    let image = arguments.image.open(access, Contents::DamagedFileSystem)?;
    let report = check(&image, arguments, host)?;
    let text = if arguments.json { json_text(&report.to_json()) } else { report.to_string() };
    host.print(&text)?;
    outcome(&report, arguments.no_change)
}

fn check(image: &Image, arguments: &FsckArguments, host: &dyn CommandHost) -> Outcome<FsckReport> {
    let options = FsckOptions {
        mode: match arguments {
            FsckArguments { no_change: true, .. } => FsckMode::Check,
            FsckArguments { preen: true, .. } => FsckMode::Preen,
            _ => FsckMode::Repair,
        },
        lost: match arguments.lost {
            Lost::Save => LostChains::Save,
            Lost::Free => LostChains::Free,
        },
        page: arguments.names.codepage,
        dosfs: arguments.dosfs,
        findings_max: arguments.findings_max,
        time: current_time(),
        offset_minutes: arguments.times.offset_minutes(),
    };
    if options.mode != FsckMode::Check {
        // Otherwise changes of which a part is in place would look like damage. What prevents it, the check reports.
        let _ = complete_journal(image.device.clone(), &image.name);
    }
    let bar = host.progress_bar("fat fsck");
    let answer = &mut |question: &Question| {
        bar.hide();
        if arguments.yes { question.suggested } else { question::ask(question, host) }
    };
    let answer: &mut dyn FnMut(&Question) -> RepairChoice = answer;
    let progress = &mut |step: Progress| bar.show(&step.phase.to_string(), step.done, step.total);
    fsck(image.device.clone(), &options, answer, progress)
        .map_err(|error| failure::of_tool("check", &image.name, &error))
}

/// Fails if problems are left.
fn outcome(report: &FsckReport, is_dry_run: bool) -> Outcome {
    let (found, left) = (report.found(), report.unrepaired());
    let problems = |count: u64| if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
    let message = match (left, is_dry_run) {
        (0, _) => return Ok(()),
        (_, true) => format!("{} found; to repair them, leave -n out", problems(found)),
        (_, false) => format!("{} of {found} not repaired; see the lines above", problems(left)),
    };
    Err(Failure::new(Exit::Failure, message))
}

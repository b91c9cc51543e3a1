//! `plyfs fat`: tools for FAT file systems in images and on block devices.

mod badsect;
mod dump;
mod failure;
mod fsck;
mod image;
mod label;
mod mkfs;
mod question;
mod sectors;
mod tune;
mod values;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use layers::command::{CommandHost, MemberCommand, Outcome};

/// The commands of the base `fat`.
pub(crate) const COMMANDS: &[MemberCommand] = &[MemberCommand { name: "fat", command: FatArguments::command, run }];

/// Make, check, show and tune FAT file systems in images and on block devices
///
/// All but dump and an estimate of tune refuse what is in use: unmount it first.
#[derive(Debug, Parser)]
struct FatArguments {
    #[command(subcommand)]
    command: FatCommand,
}

#[derive(Debug, Subcommand)]
enum FatCommand {
    /// Make an empty file system
    ///
    /// What is not given is chosen by the size, as Windows and DOS do it. With --size, an image that does not exist is created.
    Mkfs(Box<mkfs::MkfsArguments>),
    /// Check a file system, and repair it
    ///
    /// Repairs what is found. Asks on the terminal what to do where a chain of clusters leads back into itself or into another one; without a terminal and without -y, these are left. Lost clusters become files FSCK0000.REC and directories FSCK0000.DIR in the root directory. Exits with 1 if problems are left.
    Fsck(fsck::FsckArguments),
    /// Look for bad sectors, and mark them so that nothing uses them
    Badsect(badsect::BadsectArguments),
    /// Show what is on the disk: boot sector, tables, directories, chains of clusters
    ///
    /// Shows the boot sector and the free space if nothing else is requested. Changes nothing, also if the file system is mounted.
    Dump(dump::DumpArguments),
    /// Make each file and the free space contiguous
    ///
    /// A power failure at any moment loses no file: plyfs fat fsck then completes the interrupted step.
    Tune(tune::TuneArguments),
    /// Show or change the label and the serial number
    Label(label::LabelArguments),
}

fn run(matches: &ArgMatches, host: &dyn CommandHost) -> Outcome {
    match FatArguments::from_arg_matches(matches)?.command {
        FatCommand::Mkfs(arguments) => mkfs::run(&arguments, host),
        FatCommand::Fsck(arguments) => fsck::run(&arguments, host),
        FatCommand::Badsect(arguments) => badsect::run(&arguments, host),
        FatCommand::Dump(arguments) => dump::run(&arguments, host),
        FatCommand::Tune(arguments) => tune::run(&arguments, host),
        FatCommand::Label(arguments) => label::run(&arguments, host),
    }
}

//! `plyfs iso`: what an image is, what is in it, and getting that out of it without a mount.

mod extract;
mod image;
mod information;
mod listing;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use layers::command::{CommandHost, MemberCommand, Outcome};

pub(crate) const COMMANDS: &[MemberCommand] = &[MemberCommand { name: "iso", command: IsoArguments::command, run }];

/// Show, list and extract images of CDs, DVDs and Blu-ray discs
#[derive(Debug, Parser)]
struct IsoArguments {
    #[command(subcommand)]
    command: IsoCommand,
}

#[derive(Debug, Subcommand)]
enum IsoCommand {
    /// Show what is known of an image: volume, extensions, sessions, boot images
    Info(information::InformationArguments),
    /// List the objects in an image
    ///
    /// Lists a directory, or everything below it with --recursive. Paths are those of the mounted image. Control characters in names are printed as escape sequences.
    #[command(alias = "list")]
    Ls(listing::ListArguments),
    /// Write the objects of an image into a directory
    ///
    /// Restores times, modes and symbolic links; as root also owners, set-id bits and devices. Nothing is written outside of the directory, and nothing that exists is replaced. What cannot be read or written is reported, and everything else is extracted; a full disk ends the command.
    Extract(extract::ExtractArguments),
}

fn run(matches: &ArgMatches, host: &dyn CommandHost) -> Outcome {
    match IsoArguments::from_arg_matches(matches)?.command {
        IsoCommand::Info(arguments) => information::run(&arguments, host),
        IsoCommand::Ls(arguments) => listing::run(&arguments, host),
        IsoCommand::Extract(arguments) => extract::run(&arguments, host),
    }
}

//! `plyfs-overlayfs`, which takes the command line of fuse-overlayfs, and the options of overlayfs for mount(8).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use stack::overlay::{self, Overlay};

use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;

/// Mount directories over each other, with the command line of fuse-overlayfs
#[derive(Debug, Parser)]
#[command(name = "plyfs-overlayfs", version, disable_version_flag = true)]
pub(crate) struct OverlayArguments {
    /// Directory to mount on
    #[arg(value_name = "MOUNTPOINT")]
    pub mount_point: PathBuf,
    /// Stay in the foreground
    #[arg(short)]
    pub foreground: bool,
    /// Log each operation; implies -f
    #[arg(short, long)]
    pub debug: bool,
    /// Serve one request at a time (accepted: requests are always served in parallel)
    #[arg(short)]
    pub single_threaded: bool,
    /// Options, separated by commas: lowerdir=DIR[:DIR...], upperdir=DIR, workdir=DIR; the options of fuse-overlayfs; mount options
    #[arg(short, value_name = "OPTIONS")]
    pub options: Vec<OsString>,
    /// Print the version
    #[arg(short = 'V', long = "version", action = clap::ArgAction::Version)]
    version: (),
}

/// A mount that overlayfs's options describe.
pub(crate) struct OverlayMount {
    /// The stack.
    pub expression: Expression,
    /// The mount options, for [`crate::options::parse`].
    pub mount_options: String,
}

/// Returns whether a program is called by the name of this command, or as the program that it replaces.
pub(crate) fn is_called(program: &OsString) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default();
    name == "plyfs-overlayfs" || name == "fuse-overlayfs"
}

/// Reads the options of an overlay, if a list of mount options describes one.
pub(crate) fn read_if_described(options: &[u8]) -> Outcome<Option<OverlayMount>> {
    overlay::is_described(options).then(|| read(options)).transpose()
}

/// Reads the options of an overlay, without those that describe it.
pub(crate) fn read(options: &[u8]) -> Outcome<OverlayMount> {
    let Overlay { stack, mount_options } =
        overlay::read(options).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    Ok(OverlayMount { expression: Expression::read(stack.to_string().as_ref())?, mount_options })
}

/// Returns the options that fuse-overlayfs sets by itself: those of the superuser let others use the mount and its set-id programs.
pub(crate) fn default_options() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => "allow_other,suid,noatime",
        false => "noatime",
    }
}

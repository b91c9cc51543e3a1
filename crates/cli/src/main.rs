//! The `plyfs` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    plyfs_cli::main()
}

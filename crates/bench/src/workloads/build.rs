//! Building a real C package: openssh is unpacked, configured, compiled and removed.
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::sizes::Sizes;
use crate::session::Session;

/// Steps: untar, configure, make, remove.
pub(crate) fn run(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    let archive = sizes.archive()?;
    session.mount()?;
    let run = session.runner();
    session.time("untar", |directory| run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(directory)))?;
    let source = only_entry(session.directory())?;
    if sizes.compile {
        session.time("configure", |_| run(Command::new("./configure").current_dir(&source)))?;
        session.time("make", |_| run(Command::new("make").arg("-j2").current_dir(&source)))?;
        // The server refuses to print its version without a host key in some releases; the client always prints it.
        session.run(Command::new("./ssh").arg("-V").current_dir(&source)).context("what was built does not run")?;
        if !source.join("sshd").is_file() {
            bail!("make built no sshd");
        }
    }
    session.time("remove", |_| run(Command::new("rm").arg("-r").arg(&source)))?;
    if std::fs::read_dir(session.directory())?.next().is_some() {
        bail!("rm left something behind");
    }
    Ok(())
}

fn only_entry(directory: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    match entries.as_slice() {
        [entry] => Ok(entry.path()),
        _ => bail!("the archive unpacked to {} entries, not to one directory", entries.len()),
    }
}

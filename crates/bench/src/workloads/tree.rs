//! Copies of a source tree: attributes of everything, listing everything, removing everything.
use std::process::Command;

use anyhow::{Result, bail};

use super::sizes::Sizes;
use crate::session::Session;
use crate::tree::{Tree, TreeLayout, open_directory, walk};

/// Steps: stat first and again, readdir, unlink; each but "again" on a new mount. With several branches, each object is in one
/// of them.
pub(crate) fn run(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    run_in(session, sizes, TreeLayout::Distributed)
}

/// Runs the same steps with each object in every branch.
pub(crate) fn run_duplicated(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    run_in(session, sizes, TreeLayout::Duplicated)
}

fn run_in(session: &mut Session<'_>, sizes: &Sizes, layout: TreeLayout) -> Result<()> {
    let template = session.auxiliary_directory().join("template");
    std::fs::create_dir(&template)?;
    session.run(Command::new("tar").arg("-xzf").arg(sizes.archive()?).arg("-C").arg(&template))?;
    let paths = Tree::read(&template)?.write_copies(&session.branches(), sizes.copies, layout)?;
    std::fs::remove_dir_all(&template)?;

    session.mount()?;
    let top = open_directory(session.directory())?;
    session.time_operations("stat, first", paths.count(), |_| paths.stat(&top))?;
    session.time_operations("stat, again", paths.count(), |_| paths.stat(&top))?;
    drop(top);

    session.remount()?;
    let top = open_directory(session.directory())?;
    let found = session.time_operations("readdir", paths.count(), |_| walk(&top, false))?;
    if found != paths.count() {
        bail!("the directories list {found} entries, not {}", paths.count());
    }
    drop(top);

    session.remount()?;
    let top = open_directory(session.directory())?;
    session.time_operations("unlink", paths.count(), |_| paths.unlink(&top))?;
    if std::fs::read_dir(session.directory())?.next().is_some() {
        bail!("something was not removed");
    }
    Ok(())
}

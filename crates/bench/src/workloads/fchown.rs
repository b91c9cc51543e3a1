//! The cost of one small change of attributes: repeated changes of the owner of an open file.
use std::fs::File;
use std::os::unix::fs::MetadataExt;

use anyhow::{Result, bail};
use rustix::fs::{Gid, Uid, fchown};

use super::sizes::Sizes;
use crate::session::Session;

/// One step: fchown.
pub(crate) fn run(session: &mut Session<'_>, sizes: &Sizes) -> Result<()> {
    session.mount()?;
    let file = File::create(session.directory().join("file"))?;
    let operations = sizes.fchown_operations;
    session.time_operations("fchown", operations, |_| {
        (0..operations).try_for_each(|number| {
            // Every call changes something.
            let id = 1000 + (number % 2) as u32;
            Ok(fchown(&file, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)))?)
        })
    })?;
    let expected = 1000 + ((operations - 1) % 2) as u32;
    if std::fs::metadata(session.data().join("file"))?.uid() != expected {
        bail!("the owner below is not the one that was set");
    }
    Ok(())
}

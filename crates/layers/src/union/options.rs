//! The options of `union`.

use vnode::FileSystemRef;

use super::UnionFileSystem;
use super::settings::{Deletion, Settings};
use super::whiteout::Format;
use crate::options::{OptionError, OptionSpecification, Options};
use crate::{Branch, BranchOpener};

pub(super) const KNOWN: &[OptionSpecification] = &[
    OptionSpecification {
        key: "delete",
        value: "whiteout|all",
        summary: "what is deleted is hidden, or removed from all branches (default whiteout)",
    },
    OptionSpecification {
        key: "whiteouts",
        value: "names|overlay",
        summary: "how whiteouts are written: `.wh.` files, or as overlayfs does (default names)",
    },
];

/// Makes the union.
///
/// # Errors
/// For an option that does not exist or cannot have that value.
pub fn create(
    pairs: &[(String, String)],
    branches: Vec<Branch>,
    opener: Option<BranchOpener>,
) -> Result<FileSystemRef, OptionError> {
    let settings = settings(&Options::new(super::KIND.name, KNOWN, pairs)?)?;
    Ok(std::sync::Arc::new(UnionFileSystem::with_settings(branches, opener, settings)))
}

fn settings(options: &Options<'_>) -> Result<Settings, OptionError> {
    let deletions = [("whiteout", Deletion::Whiteout), ("all", Deletion::All)];
    let formats = [("names", Format::Names), ("overlay", Format::Overlay)];
    Ok(Settings {
        deletion: options.choice("delete", &deletions)?.unwrap_or_default(),
        whiteouts: options.choice("whiteouts", &formats)?.unwrap_or_default(),
    })
}

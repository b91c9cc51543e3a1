//! The options of `union`.

use vnode::FileSystemRef;

use super::UnionFileSystem;
use super::settings::{Deletion, Policy, Settings};
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
    OptionSpecification {
        key: "create",
        value: "first|most-free|least-used|random|round-robin|existing-path",
        summary: "which writable branch new objects go to (default first)",
    },
    OptionSpecification {
        key: "minimum-free",
        value: "SIZE",
        summary: "pass over branches with less free space, unless all have less (default 0)",
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
    let policies = [
        ("first", Policy::First),
        ("most-free", Policy::MostFree),
        ("least-used", Policy::LeastUsed),
        ("random", Policy::Random),
        ("round-robin", Policy::RoundRobin),
        ("existing-path", Policy::ExistingPath),
    ];
    let formats = [("names", Format::Names), ("overlay", Format::Overlay)];
    Ok(Settings {
        deletion: options.choice("delete", &deletions)?.unwrap_or_default(),
        whiteouts: options.choice("whiteouts", &formats)?.unwrap_or_default(),
        create: options.choice("create", &policies)?.unwrap_or_default(),
        minimum_free: options.read("minimum-free", size)?.unwrap_or_default(),
    })
}

/// A number of bytes, with a unit of 1,024 bytes or a power of that.
fn size(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => Some(0),
        "k" => Some(10),
        "m" => Some(20),
        "g" => Some(30),
        "t" => Some(40),
        _ => None,
    };
    let bytes = shift.and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
    bytes.ok_or_else(|| "a number of bytes such as 512m, 4g or 1t".to_owned())
}

//! The options of `union`.

use vnode::{ControlError, FileSystemRef};

use super::branch::claim;
use super::branch::whiteout::WhiteoutFormat;
use super::file_system::UnionFileSystem;
use super::policies::{ActionPolicy, BranchOrder, CreatePolicy, check_search_policy};
use super::settings::{CopyOwnership, CopyPermissions, DeletionPolicy, NAME, ReportedSpace, UnionSettings};
use crate::kind::leaves_out_missing_branches;
use crate::options::{OptionError, OptionProblem, OptionSpecification, Options, number};
use crate::sizes::parse_size;
use crate::view_rules::ViewRule;
use crate::views::ViewDefinition;
use crate::{Branch, BranchOpener};

pub(crate) const OPTIONS: &[OptionSpecification] = &[
    OptionSpecification {
        key: "delete",
        value: "whiteout|all",
        summary: "hide deleted objects, or delete them from all branches (default whiteout; all with action=all)",
    },
    OptionSpecification {
        key: "whiteouts",
        value: "names|overlay",
        summary: "format of whiteouts: `.wh.` files, or that of overlayfs (default names)",
    },
    OptionSpecification {
        key: "copyup",
        value: "owner|const|current",
        summary: "owner of copied-up files: that of the original, a fixed one, or the caller (default owner)",
    },
    OptionSpecification { key: "copyup-owner", value: "UID:GID", summary: "owner and group for copyup=const" },
    OptionSpecification { key: "copyup-mode", value: "MODE", summary: "permission bits for copyup=const, in octal" },
    OptionSpecification {
        key: "metacopy",
        value: "on|off",
        summary: "copy up files without their data until it is changed (default off)",
    },
    OptionSpecification {
        key: "create",
        value: "POLICY",
        summary: "writable branch for new objects: first, leftmost, most-free, least-free, least-used, random, weighted-random, \
                  round-robin, newest, existing-path; or existing-path- or shared-path- before one of leftmost to newest (default \
                  first)",
    },
    OptionSpecification {
        key: "action",
        value: "first|all",
        summary: "apply changes of names and attributes to the visible object, or to all of its name (default first)",
    },
    OptionSpecification {
        key: "search",
        value: "first",
        summary: "visible object of a name: that of the leftmost branch; other policies are refused",
    },
    OptionSpecification {
        key: "statfs",
        value: "sum|first",
        summary: "reported space: total of all writable branches, or that of the first (default sum if create spreads objects)",
    },
    OptionSpecification {
        key: "minimum-free",
        value: "SIZE",
        summary: "skip branches with less free space, unless all have less (default 0)",
    },
    OptionSpecification {
        key: "when-full",
        value: "fail|move|move-ORDER",
        summary: "on a full branch, fail, or move the file to the nearest on the left, or to the best by an order of create (default \
                  fail)",
    },
    OptionSpecification {
        key: "mergerfs-xattrs",
        value: "yes|no",
        summary: "report where a file is by the attributes of mergerfs, such as user.mergerfs.fullpath (default no)",
    },
    OptionSpecification {
        key: "missing",
        value: "fail|skip",
        summary: "fail if a branch is missing, or leave it out (default fail)",
    },
    OptionSpecification {
        key: "views",
        value: "RULE=BRANCH[;...]",
        summary: "private branches for processes that match uid:N, session:N, pid:N or executable:PATH",
    },
];

/// Creates the union.
///
/// # Errors
/// An unknown option or an invalid value.
pub fn create(
    pairs: &[(String, String)],
    branches: Vec<Branch>,
    missing: Vec<String>,
    opener: Option<BranchOpener>,
) -> Result<FileSystemRef, OptionError> {
    let options = Options::new(NAME, OPTIONS, pairs)?;
    // The opener of the branches leaves missing ones out; here only the value is checked.
    leaves_out_missing_branches(&options)?;
    let (settings, views) = (settings(&options)?, options.read("views", views)?.unwrap_or_default());
    let file_system = UnionFileSystem::with_settings(branches, opener, settings, claim::CLAIM_TIMEOUT)?;
    file_system.union.record_missing(missing);
    for ViewDefinition { rule, branch } in views {
        let bad = |error: ControlError| {
            let problem = OptionProblem::BadValue { value: branch.clone(), expected: format!("a branch: {error}") };
            options.error("views", problem)
        };
        file_system.union.add_view(rule, &branch).map_err(bad)?;
    }
    Ok(std::sync::Arc::new(file_system))
}

/// Views, each written as a rule and a branch.
fn views(text: &str) -> Result<Vec<ViewDefinition>, String> {
    let definition = |text: &str| {
        let (rule, branch) = text.trim().split_once('=').ok_or("RULE=BRANCH, such as uid:1000=/srv/private")?;
        let (rule, branch) = (ViewRule::parse(rule.trim_end())?, branch.trim_start().to_owned());
        Ok(ViewDefinition { rule, branch })
    };
    text.split(';').filter(|text| !text.trim().is_empty()).map(definition).collect()
}

fn settings(options: &Options<'_>) -> Result<UnionSettings, OptionError> {
    let deletions = [("whiteout", DeletionPolicy::Whiteout), ("all", DeletionPolicy::All)];
    let spaces = [("sum", ReportedSpace::Sum), ("first", ReportedSpace::First)];
    let create = options.read("create", CreatePolicy::parse)?.unwrap_or_default();
    let action = options.read("action", ActionPolicy::parse)?.unwrap_or_default();
    options.read("search", check_search_policy)?;
    let when_full = options.read("when-full", when_full)?.flatten();
    let formats = [("names", WhiteoutFormat::Names), ("overlay", WhiteoutFormat::Overlay)];
    Ok(UnionSettings {
        deletion: options.choice("delete", &deletions)?.unwrap_or(match action {
            ActionPolicy::First => DeletionPolicy::Whiteout,
            ActionPolicy::All => DeletionPolicy::All,
        }),
        whiteouts: options.choice("whiteouts", &formats)?.unwrap_or_default(),
        copy_up: ownership(options)?,
        metacopy: options.choice("metacopy", &[("on", true), ("off", false)])?.unwrap_or_default(),
        create,
        action,
        reported_space: options.choice("statfs", &spaces)?.unwrap_or(match create.spreads() {
            true => ReportedSpace::Sum,
            false => ReportedSpace::First,
        }),
        has_mergerfs_attributes: options.flag("mergerfs-xattrs")?,
        minimum_free: options.read("minimum-free", parse_size)?.unwrap_or_default(),
        moves_when_full: when_full.is_some(),
        when_full_order: when_full.flatten(),
    })
}

/// Order in which branches are tried for files that are written in a full one, if they move at all; within it `None` for the
/// nearest branch on the left.
fn when_full(text: &str) -> Result<Option<Option<BranchOrder>>, String> {
    match text {
        "fail" => Ok(None),
        "move" => Ok(Some(None)),
        _ => {
            let order = text.strip_prefix("move-").and_then(BranchOrder::parse);
            order.map(|order| Some(Some(order))).ok_or_else(|| "fail, move, or move-most-free and the like".to_owned())
        }
    }
}

/// Owner of copies.
fn ownership(options: &Options<'_>) -> Result<CopyOwnership, OptionError> {
    let owner = options.read("copyup-owner", |value| {
        let (uid, gid) = value.split_once(':').ok_or("two numbers such as 1000:1000")?;
        Ok((number(uid)?, number(gid)?))
    })?;
    let mode = options.read("copyup-mode", |value| match u32::from_str_radix(value, 8) {
        Ok(mode @ 0..=0o7777) => Ok(mode),
        _ => Err("permission bits such as 0640".to_owned()),
    })?;
    let choices = [
        ("owner", CopyOwnerChoice::Owner),
        ("const", CopyOwnerChoice::Constant),
        ("current", CopyOwnerChoice::Current),
    ];
    match options.choice("copyup", &choices)?.unwrap_or(CopyOwnerChoice::Owner) {
        CopyOwnerChoice::Constant => {
            let (uid, gid) = owner.ok_or_else(|| options.error("copyup-owner", OptionProblem::Missing))?;
            let mode = mode.ok_or_else(|| options.error("copyup-mode", OptionProblem::Missing))?;
            Ok(CopyOwnership::Constant(CopyPermissions { uid, gid, mode }))
        }
        other => {
            let useless = [("copyup-owner", owner.is_some()), ("copyup-mode", mode.is_some())];
            if let Some((key, _)) = useless.into_iter().find(|(_, given)| *given) {
                let expected = "only together with copyup=const".to_owned();
                let value = options.text(key).unwrap_or_default().to_owned();
                return Err(options.error(key, OptionProblem::BadValue { value, expected }));
            }
            Ok(if matches!(other, CopyOwnerChoice::Current) { CopyOwnership::Current } else { CopyOwnership::Original })
        }
    }
}

#[derive(Clone, Copy)]
enum CopyOwnerChoice {
    Owner,
    Constant,
    Current,
}

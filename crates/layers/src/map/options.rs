//! The name of `map` and its options.

use vnode::layer::Operation;

use super::accounts::{self, AccountFiles};
use super::ids::IdMapping;
use super::permissions::PermissionChanges;
use super::policies::{ChangePolicies, ChangePolicy, XattrAccess};
use super::settings::{self, CreationSettings, Mirror, Settings, Squash, UsersAndGroups};
use crate::globs::Globs;
use crate::options::{OptionError, OptionProblem, OptionSpecification, Options, one_of, option};
use crate::users::{group, user};

pub(crate) const NAME: &str = "map";

pub(crate) const OPTIONS: &[OptionSpecification] = &[
    option("owner", "USER", "owner shown for all objects"),
    option("group", "GROUP", "group shown for all objects"),
    option(
        "user-map",
        "BELOW/ABOVE[/COUNT][:…]",
        "map lower owners to shown owners, COUNT of them from each (default 1)",
    ),
    option("group-map", "BELOW/ABOVE[/COUNT][:…]", "map lower groups to shown groups, likewise"),
    option("id-offset", "NUMBER", "offset added to lower owner and group ids"),
    option("user-offset", "NUMBER", "offset added to lower owner ids"),
    option("group-offset", "NUMBER", "offset added to lower group ids"),
    option(
        "passwd-below",
        "FILE",
        "passwd(5) file of the lower owners, which are shown as the users of the same names",
    ),
    option("passwd-above", "FILE", "passwd(5) file of the owners shown for the lower users of the same names"),
    option("groups-below", "FILE", "group(5) file of the lower groups, likewise"),
    option("groups-above", "FILE", "group(5) file of the groups shown, likewise"),
    option("mirror", "USER|@GROUP[:…]", "show these users as the owner of all objects to themselves"),
    option("mirror-only", "USER|@GROUP[:…]", "likewise, and deny access to all others"),
    option("perms", "CHMOD[:CHMOD]", "changes to the permission bits shown, such as 0640:a+X"),
    option("squash", "root|all", "treat these callers as another user"),
    option("squash-user", "USER", "user that squashed callers are treated as (default 65534)"),
    option("squash-group", "GROUP", "group that squashed callers are treated as (default 65534)"),
    option("create-owner", "USER", "lower owner of new objects"),
    option("create-group", "GROUP", "lower group of new objects"),
    option("create-perms", "CHMOD[:CHMOD]", "changes to the permission bits of new objects"),
    option("chown", "normal|ignore|deny", "perform, ignore or deny changes of the owner"),
    option("chgrp", "normal|ignore|deny", "perform, ignore or deny changes of the group"),
    option("chmod", "normal|ignore|deny|filter", "perform, ignore, deny or filter changes of permission bits"),
    option("chmod-filter", "CHMOD[:CHMOD]", "changes to new permission bits, for chmod=filter"),
    option("chmod-allow-x", "yes|no", "let execute permissions of files change where chmod= does not (default no)"),
    option("xattr", "none|ro|rw", "access to extended attributes"),
    option("ctime-from-mtime", "yes|no", "show the time of the last change of data as that of any change (default no)"),
    option("hide-hard-links", "yes|no", "show one link for each file (default no)"),
    option("hide", "GLOB[:GLOB]", "names to hide"),
    option(
        "deny",
        "OPERATION[:…]",
        "operations to refuse to all callers; delete: unlink, rmdir and renaming over files",
    ),
];

/// ID of the user and the group that nobody is in.
const NOBODY: u32 = 65534;

const CHANGE_POLICIES: [(&str, ChangePolicy); 3] =
    [("normal", ChangePolicy::Normal), ("ignore", ChangePolicy::Ignore), ("deny", ChangePolicy::Deny)];

/// Reads the settings from the options.
pub(crate) fn read(pairs: &[(String, String)]) -> Result<Settings, OptionError> {
    let options = Options::new(NAME, OPTIONS, pairs)?;
    let user_of = |key| options.read(key, |text| user(text).ok_or("a user: a number or a name that exists".to_owned()));
    let group_of =
        |key| options.read(key, |text| group(text).ok_or("a group: a number or a name that exists".to_owned()));
    Ok(Settings {
        users: mapping(&options, &USERS, user)?,
        groups: mapping(&options, &GROUPS, group)?,
        mirror: mirror(&options)?,
        permissions: options.read("perms", PermissionChanges::parse)?,
        squash: squash(&options)?,
        created: CreationSettings {
            owner: user_of("create-owner")?,
            group: group_of("create-group")?,
            permissions: options.read("create-perms", PermissionChanges::parse)?,
        },
        policies: policies(&options)?,
        ctime_from_mtime: options.flag("ctime-from-mtime")?,
        hides_links: options.flag("hide-hard-links")?,
        hidden: options.read("hide", Globs::names)?,
        denied: options.read("deny", denied)?.unwrap_or_default(),
    })
}

/// Keys of the options that map IDs of one kind.
struct MappingKeys {
    fixed: &'static str,
    ranges: &'static str,
    offset: &'static str,
    files: AccountFiles,
}

const USERS: MappingKeys = MappingKeys {
    fixed: "owner",
    ranges: "user-map",
    offset: "user-offset",
    files: AccountFiles { below: "passwd-below", above: "passwd-above" },
};

const GROUPS: MappingKeys = MappingKeys {
    fixed: "group",
    ranges: "group-map",
    offset: "group-offset",
    files: AccountFiles { below: "groups-below", above: "groups-above" },
};

/// Reads how IDs of one kind are mapped; `id` finds the ID of a name.
fn mapping(options: &Options<'_>, keys: &MappingKeys, id: fn(&str) -> Option<u32>) -> Result<IdMapping, OptionError> {
    let of_pairs = [keys.ranges, keys.files.below, keys.files.above];
    let excluded = of_pairs.iter().flat_map(|pairs| ["id-offset", keys.offset, keys.fixed].map(|one| (one, *pairs)));
    for (one, other) in excluded.chain([("id-offset", keys.offset)]) {
        if options.text(one).is_some() && options.text(other).is_some() {
            return Err(options.error(one, OptionProblem::Conflict { with: other }));
        }
    }
    let expected =
        || format!("a {}: a number or a name that exists", if keys.fixed == "owner" { "user" } else { "group" });
    let offset = match options.read("id-offset", IdMapping::parse_offset)? {
        None => options.read(keys.offset, IdMapping::parse_offset)?,
        both => both,
    };
    let ranges = options.read(keys.ranges, |text| IdMapping::parse_ranges(text, id))?.unwrap_or_default();
    Ok(IdMapping {
        fixed: options.read(keys.fixed, |text| id(text).ok_or_else(expected))?,
        ranges: ranges.with_pairs(accounts::pairs(options, keys.files, id)?),
        offset: offset.unwrap_or_default(),
    })
}

/// Reads who is shown as the owner of everything.
fn mirror(options: &Options<'_>) -> Result<Option<Mirror>, OptionError> {
    let (open, exclusive) = (options.read("mirror", users_and_groups)?, options.read("mirror-only", users_and_groups)?);
    match (open, exclusive) {
        (Some(_), Some(_)) => Err(options.error("mirror", OptionProblem::Conflict { with: "mirror-only" })),
        (Some(users), None) => Ok(Some(Mirror { users, denies_others: false })),
        (None, Some(users)) => Ok(Some(Mirror { users, denies_others: true })),
        (None, None) => Ok(None),
    }
}

fn users_and_groups(list: &str) -> Result<UsersAndGroups, String> {
    let mut users = UsersAndGroups::default();
    for word in list.split(':') {
        let found = match word.strip_prefix('@') {
            Some(name) => group(name).map(|group| users.groups.push(group)),
            None => user(word).map(|user| users.users.push(user)),
        };
        found.ok_or("a list of users and, behind `@`, groups: numbers or names that exist")?;
    }
    Ok(users)
}

fn squash(options: &Options<'_>) -> Result<Option<Squash>, OptionError> {
    let Some(all) = options.choice("squash", &[("root", false), ("all", true)])? else {
        let surplus = ["squash-user", "squash-group"].into_iter().find(|key| options.text(key).is_some());
        return surplus.map_or(Ok(None), |_| Err(options.error("squash", OptionProblem::Missing)));
    };
    let id = |key, id: fn(&str) -> Option<u32>| {
        options.read(key, |text| id(text).ok_or("a number or a name that exists".to_owned()))
    };
    let (uid, gid) = (id("squash-user", user)?.unwrap_or(NOBODY), id("squash-group", group)?.unwrap_or(NOBODY));
    Ok(Some(Squash { all, uid, gid }))
}

fn policies(options: &Options<'_>) -> Result<ChangePolicies, OptionError> {
    let filter = options.read("chmod-filter", PermissionChanges::parse)?;
    let chmod = options.choice(
        "chmod",
        &[
            ("normal", Some(ChangePolicy::Normal)),
            ("ignore", Some(ChangePolicy::Ignore)),
            ("deny", Some(ChangePolicy::Deny)),
            ("filter", None),
        ],
    )?;
    match (chmod, &filter) {
        (Some(None), None) => return Err(options.error("chmod-filter", OptionProblem::Missing)),
        (Some(Some(_)), Some(_)) => {
            return Err(options.error("chmod-filter", OptionProblem::Conflict { with: "chmod" }));
        }
        (None, Some(_)) => return Err(options.error("chmod", OptionProblem::Missing)),
        _ => {}
    }
    let allows_execute = options.flag("chmod-allow-x")?;
    if allows_execute && matches!(chmod, None | Some(Some(ChangePolicy::Normal))) {
        return Err(options.error("chmod", OptionProblem::Missing));
    }
    Ok(ChangePolicies {
        chown: options.choice("chown", &CHANGE_POLICIES)?.unwrap_or_default(),
        chgrp: options.choice("chgrp", &CHANGE_POLICIES)?.unwrap_or_default(),
        chmod: chmod.flatten().unwrap_or_default(),
        chmod_filter: filter,
        allows_execute,
        xattrs: options
            .choice(
                "xattr",
                &[("none", XattrAccess::None), ("ro", XattrAccess::ReadOnly), ("rw", XattrAccess::ReadWrite)],
            )?
            .unwrap_or_default(),
    })
}

/// Parses a list of operations into a bit set by index.
fn denied(list: &str) -> Result<u64, String> {
    let bit = |name: &str| Operation::NAMES.iter().position(|candidate| *candidate == name).map(|index| 1 << index);
    list.split(':').try_fold(0, |set, word| {
        let bits = if word == "delete" { Some(settings::delete_operations()) } else { bit(word) };
        bits.filter(|_| word != "release").map(|bits| set | bits).ok_or_else(|| {
            let names = Operation::NAMES.iter().copied().filter(|name| *name != "release");
            format!("a list of delete, {}", one_of(names))
        })
    })
}

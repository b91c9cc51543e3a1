//! Mounts of bindfs as mounts of `map`: its directory and options, translated.

use std::collections::BTreeMap;

use rustix::process::{getgid, getuid};

use super::options::NAME;
use crate::command::{MountTranslator, TranslatedMount};
use crate::options::quote;

/// The translator, for the command line.
pub(crate) const TRANSLATOR: MountTranslator = MountTranslator {
    name: "bindfs",
    letters: &[('u', "force-user"), ('g', "force-group"), ('m', "mirror"), ('M', "mirror-only"), ('p', "perms")],
    switches: &[('n', "no-allow-other")],
    translate,
};

/// Options with a value, in any of their spellings, and the option of `map` with the same value.
const WITH_VALUE: &[(&[&str], &str)] = &[
    (&["force-user", "user", "owner"], "owner"),
    (&["force-group", "group"], "group"),
    (&["perms"], "perms"),
    (&["map-passwd"], "passwd-below"),
    (&["map-passwd-rev"], "passwd-above"),
    (&["map-group"], "groups-below"),
    (&["map-group-rev"], "groups-above"),
    (&["uid-offset"], "user-offset"),
    (&["gid-offset"], "group-offset"),
    (&["create-for-user"], "create-owner"),
    (&["create-for-group"], "create-group"),
    (&["create-with-perms"], "create-perms"),
];

/// Options without a value, and the option of `map` with its value.
const WITHOUT_VALUE: &[(&str, &str, &str)] = &[
    ("chown-normal", "chown", "normal"),
    ("chown-ignore", "chown", "ignore"),
    ("chown-deny", "chown", "deny"),
    ("chgrp-normal", "chgrp", "normal"),
    ("chgrp-ignore", "chgrp", "ignore"),
    ("chgrp-deny", "chgrp", "deny"),
    ("chmod-normal", "chmod", "normal"),
    ("chmod-ignore", "chmod", "ignore"),
    ("chmod-deny", "chmod", "deny"),
    ("chmod-allow-x", "chmod-allow-x", "yes"),
    ("xattr-none", "xattr", "none"),
    ("xattr-ro", "xattr", "ro"),
    ("xattr-rw", "xattr", "rw"),
    ("ctime-from-mtime", "ctime-from-mtime", "yes"),
    ("hide-hard-links", "hide-hard-links", "yes"),
];

/// Options without a meaning here, or whose effect is always there: what applies instead.
const WITHOUT_EFFECT: &[(&[&str], &str)] = &[
    (&["create-as-user", "multithreaded", "enable-ioctl"], ""),
    (&["nonempty", "big_writes", "use_ino", "readdir_ino", "hard_remove", "noforget", "async_read"], ""),
    (&["auto_cache", "kernel_cache", "atomic_o_trunc", "splice_read", "splice_write", "splice_move"], ""),
    (&["direct-io", "no-direct-io", "forward-odirect"], "files are cached as far as that is correct"),
    (&["realistic-permissions"], "what the server may not do below fails, whatever the permission bits show"),
    (&["debug"], "see --log-file and plyfs stats"),
];

/// Options that request what `map` does not do: the reason.
const IMPOSSIBLE: &[(&str, &str)] = &[
    ("resolve-symlinks", SYMLINKS_STAY),
    ("resolved-symlink-deletion", SYMLINKS_STAY),
    (
        "block-devices-as-files",
        "devices are opened by the programs that use them; mount an image in a device as a base",
    ),
];

const SYMLINKS_STAY: &str = "symlinks are resolved by the programs that use them, with their own rights";

/// Options of bindfs, as given.
#[derive(Default)]
struct BindfsOptions {
    /// Options of `map`: of one that is given several times, the last.
    map: BTreeMap<&'static str, String>,
    denied: Vec<&'static str>,
    /// Options of `throttle`.
    rates: BTreeMap<&'static str, String>,
    translated: TranslatedMount,
    problems: Vec<String>,
}

/// Translates a directory, and options.
fn translate(directory: &str, words: &[String]) -> Result<TranslatedMount, String> {
    let mut options = BindfsOptions::default();
    words.iter().for_each(|word| options.add(word));
    let BindfsOptions { mut map, denied, rates, mut translated, problems } = options;
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    if !denied.is_empty() {
        map.insert("deny", denied.join(":"));
    }
    // Where all changes of modes pass, those of execute permissions do.
    if map.get("chmod").is_none_or(|chmod| chmod == "normal") {
        map.remove("chmod-allow-x");
    }
    // A name without a slash is that of a kind of base, or of a FiST program.
    let directory = if directory.contains('/') { directory.to_owned() } else { format!("./{directory}") };
    translated.stack = quote(&directory) + &layer(NAME, &map) + &layer("throttle", &rates);
    Ok(translated)
}

/// Returns a layer as a stack expression continues with it; nothing if it has no options.
fn layer(name: &str, options: &BTreeMap<&str, String>) -> String {
    let pairs: Vec<String> = options.iter().map(|(key, value)| format!("{key}={}", quote(value))).collect();
    if pairs.is_empty() { String::new() } else { format!(" | {name}({})", pairs.join(", ")) }
}

impl BindfsOptions {
    fn set(&mut self, key: &'static str, value: impl Into<String>) {
        self.map.insert(key, value.into());
    }

    fn add(&mut self, word: &str) {
        let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
        let with_value = WITH_VALUE.iter().find(|(keys, _)| keys.contains(&key)).map(|(_, option)| *option);
        let without_value = WITHOUT_VALUE.iter().find(|(known, ..)| *known == key);
        match (key, value) {
            (_, Some(value)) if with_value.is_some() => with_value.into_iter().for_each(|key| self.set(key, value)),
            ("map", Some(value)) => self.add_map(word, value),
            ("mirror" | "mirror-only", Some(value)) => {
                let key = if key == "mirror" { "mirror" } else { "mirror-only" };
                self.set(key, value.replace(',', ":"));
            }
            ("chmod-filter", Some(value)) => {
                self.set("chmod", "filter");
                self.set("chmod-filter", value);
            }
            ("read-rate", Some(value)) => drop(self.rates.insert("read", value.to_owned())),
            ("write-rate", Some(value)) => drop(self.rates.insert("write", value.to_owned())),
            ("map" | "mirror" | "mirror-only" | "chmod-filter" | "read-rate" | "write-rate", None) => {
                self.problems.push(format!("{word}: a value is expected, as in {key}=VALUE"));
            }
            (_, None) if with_value.is_some() => {
                self.problems.push(format!("{word}: a value is expected, as in {key}=VALUE"));
            }
            (_, None) => match without_value {
                Some((_, option, value)) => self.set_policy(option, value),
                None => self.add_other(word, key),
            },
            _ => self.add_other(word, key),
        }
    }

    /// Sets an option of a word without a value. A later policy for changes of modes replaces a filter.
    fn set_policy(&mut self, option: &'static str, value: &'static str) {
        if option == "chmod" {
            self.map.remove("chmod-filter");
        }
        self.set(option, value);
    }

    /// Adds an option that has no equivalent of its own, or one of all mounts.
    fn add_other(&mut self, word: &str, key: &str) {
        match key {
            "create-as-mounter" => {
                // Other options name the owner of new objects whatever the order.
                let (uid, gid) = (getuid().as_raw().to_string(), getgid().as_raw().to_string());
                self.map.entry("create-owner").or_insert(uid);
                self.map.entry("create-group").or_insert(gid);
            }
            "delete-deny" => self.deny("delete"),
            "rename-deny" => self.deny("rename"),
            "no-allow-other" => self.translated.options.push("noallow_other".to_owned()),
            "enable-lock-forwarding" => self.translated.options.push("locks=base".to_owned()),
            "disable-lock-forwarding" => self.translated.options.push("locks=kernel".to_owned()),
            _ => self.add_remaining(word, key),
        }
    }

    fn add_remaining(&mut self, word: &str, key: &str) {
        if let Some((_, note)) = WITHOUT_EFFECT.iter().find(|(keys, _)| keys.contains(&key)) {
            if !note.is_empty() {
                self.translated.notes.push(format!("{word}: no effect: {note}"));
            }
        } else if let Some((_, reason)) = IMPOSSIBLE.iter().find(|(known, _)| *known == key) {
            self.problems.push(format!("{word}: {reason}"));
        } else {
            self.translated.options.push(word.to_owned());
        }
    }

    fn deny(&mut self, operation: &'static str) {
        if !self.denied.contains(&operation) {
            self.denied.push(operation);
        }
    }

    /// Adds pairs such as `alice/bob:@staff/@guests`.
    fn add_map(&mut self, word: &str, pairs: &str) {
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        for pair in pairs.split([':', ',']) {
            match pair.split_once('/') {
                Some((below, above)) if !below.starts_with('@') && !above.starts_with('@') => {
                    users.push(format!("{below}/{above}"));
                }
                Some((below, above)) if below.starts_with('@') && above.starts_with('@') => {
                    groups.push(format!("{}/{}", &below[1..], &above[1..]));
                }
                _ => {
                    let expected = "pairs of users or of groups are expected, such as alice/bob:@staff/@guests";
                    return self.problems.push(format!("{word}: {expected}"));
                }
            }
        }
        if !users.is_empty() {
            self.set("user-map", users.join(":"));
        }
        if !groups.is_empty() {
            self.set("group-map", groups.join(":"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(options: &[&str]) -> Result<TranslatedMount, String> {
        translate("/srv/a", &options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_translated() {
        for (options, layers) in [
            (&["ro"][..], ""),
            (&["force-user=alice", "force-group=www-data"], "map(group=www-data, owner=alice)"),
            (&["map=1000/1001:@100/@101:5/6"], "map(group-map=100/101, user-map=1000/1001:5/6)"),
            (&["mirror=alice,@staff", "uid-offset=-5"], "map(mirror=alice:@staff, user-offset=-5)"),
            (&["mirror-only=alice:bob"], "map(mirror-only=alice:bob)"),
            (&["perms=u=rwX,go=rD"], "map(perms=\"u=rwX,go=rD\")"),
            (&["map-passwd=/p", "map-group-rev=/g"], "map(groups-above=/g, passwd-below=/p)"),
            (&["chmod-deny", "chmod-allow-x"], "map(chmod=deny, chmod-allow-x=yes)"),
            (&["chmod-allow-x", "chmod-deny", "chmod-normal"], "map(chmod=normal)"),
            (&["chmod-filter=g-w"], "map(chmod=filter, chmod-filter=g-w)"),
            (&["chmod-filter=g-w", "chmod-ignore"], "map(chmod=ignore)"),
            (&["delete-deny", "rename-deny", "delete-deny"], "map(deny=delete:rename)"),
            (&["xattr-ro", "ctime-from-mtime", "hide-hard-links"], {
                "map(ctime-from-mtime=yes, hide-hard-links=yes, xattr=ro)"
            }),
            (&["create-as-mounter", "create-for-user=7", "create-for-group=8"], "map(create-group=8, create-owner=7)"),
            (&["read-rate=1M", "user=3"], "map(owner=3) | throttle(read=1M)"),
        ] {
            let expected = if layers.is_empty() { String::new() } else { format!(" | {layers}") };
            assert_eq!(translated(options).unwrap().stack, format!("/srv/a{expected}"), "{options:?}");
        }
        assert_eq!(translate("a b", &[]).unwrap().stack, "\"./a b\"");
    }

    #[test]
    fn mount_options_are_passed_on_and_options_without_effect_are_noted() {
        let mount = translated(&["ro", "no-allow-other", "multithreaded", "direct-io", "bogus=1"]).unwrap();
        assert_eq!(mount.options, ["ro", "noallow_other", "bogus=1"]);
        assert_eq!(mount.notes, ["direct-io: no effect: files are cached as far as that is correct"]);
    }

    #[test]
    fn what_has_no_equivalent_is_named_with_the_reason() {
        let error = translated(&["resolve-symlinks", "map=a/@b", "mirror", "block-devices-as-files"]).unwrap_err();
        for part in [
            "resolve-symlinks: symlinks are resolved",
            "map=a/@b: pairs of users or of groups",
            "mirror: a value is expected, as in mirror=VALUE",
            "block-devices-as-files: devices",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}

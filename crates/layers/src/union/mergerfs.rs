//! Mounts of mergerfs as mounts of unions: its branches and options, translated.

use super::policies::{ActionPolicy, CreatePolicy, check_search_policy};
use super::settings::NAME;
use crate::command::{MountTranslator, TranslatedMount};
use crate::options::quote;
use crate::sizes::parse_size;

/// The translator, for the command line.
pub(crate) const TRANSLATOR: MountTranslator =
    MountTranslator { name: "mergerfs", letters: &[], switches: &[], translate };

/// Defaults of mergerfs 2.33 where they differ from those of a union.
const DEFAULT_CREATE_POLICY: &str = "epmfs";
const DEFAULT_ACTION_POLICY: &str = "epall";
const DEFAULT_MINIMUM_FREE: &str = "4G";

/// Options without a meaning here, or whose effect is always there: what applies instead.
const WITHOUT_EFFECT: &[(&[&str], &str)] = &[
    (
        &[
            "use_ino",
            "readdir_ino",
            "hard_remove",
            "nonempty",
            "big_writes",
            "async_read",
            "sync_read",
            "noforget",
            "remember",
            "export-support",
            "remember-nodes",
            "allow-idmap",
        ],
        "",
    ),
    (
        &["atomic_o_trunc", "auto_cache", "noauto_cache", "kernel_cache", "splice_move", "splice_read", "splice_write"],
        "",
    ),
    (
        &["direct_io", "cache.files", "cache.files.process-names", "dropcacheonclose"],
        "files are cached as far as that is correct",
    ),
    (
        &["cache.open", "cache.negative_entry", "cache.readdir", "cache.statfs", "cache.symlinks"],
        "caches are chosen by what can change",
    ),
    (&["threads", "read-thread-count", "process-thread-count"], "threads are started as they are needed"),
    (&["process-thread-queue-depth", "pin-threads", "scheduling-priority"], "threads are started as they are needed"),
    (&["fuse_msg_size", "parallel-direct-writes"], "the largest messages that the kernel offers are used"),
    (&["inodecalc"], "inode numbers are those of the branches with a tag, and persistent"),
    (&["posix_acl", "security_capability"], "access control lists and capabilities are always in force"),
    (&["xattr"], "extended attributes are passed through"),
    (&["ignorepponrename", "rename-exdev", "link-exdev"], "renames and links do not depend on the create policy"),
    (&["nfsopenhack", "flush-on-close"], "not needed"),
    (&["lazy-umount-mountpoint"], "unmount what is mounted there first"),
    (
        &["branches-mount-timeout", "branches-mount-timeout-fail"],
        "wait for branches with x-systemd.requires-mounts-for=PATH",
    ),
    (&["log.file", "log.metrics", "debug"], "see the mount option log-file, and plyfs stats"),
];

/// Options that request what a union does not do, unless they have one of these values: the reason.
const IMPOSSIBLE: &[(&str, &[&str], &str)] = &[
    ("symlinkify", &["false"], "files are never shown as symlinks"),
    ("symlinkify_timeout", &[], "files are never shown as symlinks"),
    ("nullrw", &["false"], "reads and writes always reach the branches"),
    ("link_cow", &["false"], "a file with several names stays one file"),
    ("follow-symlinks", &["never"], "symlinks are resolved by the programs that use them"),
    ("cache.writeback", &["false"], "what is written must reach the branches before they change; leave it out"),
    ("async_umount", &["false"], "plyfs umount waits until everything is stored"),
];

/// Options of mergerfs, as given.
struct MergerfsOptions {
    create: String,
    action: String,
    minimum_free: String,
    when_full: Option<String>,
    translated: TranslatedMount,
    problems: Vec<String>,
}

/// Translates branches such as `/mnt/a=RW,10G:/mnt/disk*=RO`, and options.
fn translate(branches: &str, words: &[String]) -> Result<TranslatedMount, String> {
    let mut options = MergerfsOptions {
        create: DEFAULT_CREATE_POLICY.to_owned(),
        action: DEFAULT_ACTION_POLICY.to_owned(),
        minimum_free: DEFAULT_MINIMUM_FREE.to_owned(),
        when_full: None,
        translated: TranslatedMount::default(),
        problems: Vec::new(),
    };
    let source = branches.split(':').filter(|branch| !branch.is_empty());
    let source: Vec<String> = source.filter_map(|branch| options.check(branch, translate_branch(branch))).collect();
    if source.is_empty() && options.problems.is_empty() {
        options.problems.push("no branches are given; write them with colons between: /mnt/a:/mnt/b".to_owned());
    }
    words.iter().for_each(|word| options.add(word));
    // Options of single functions are compared with what applies to their category in the end.
    words.iter().for_each(|word| options.check_function(word));
    let MergerfsOptions { create, action, minimum_free, when_full, mut translated, problems } = options;
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    let mut given = vec![
        ("create", create),
        ("action", action),
        ("minimum-free", minimum_free),
        ("statfs", "sum".to_owned()),
        ("mergerfs-xattrs", "yes".to_owned()),
    ];
    given.extend(when_full.map(|when_full| ("when-full", when_full)));
    let given: Vec<String> = given.iter().map(|(key, value)| format!("{key}={}", quote(value))).collect();
    translated.stack = format!("{} | {NAME}({})", source.join(", "), given.join(", "));
    Ok(translated)
}

/// Translates a branch with its mode and its minimum of free space, such as `/mnt/a=RW,10G`.
fn translate_branch(text: &str) -> Result<String, String> {
    let (path, mode, minimum) = match text.rsplit_once('=') {
        None => (text, "rw", None),
        Some((path, mode)) => {
            let (mode, minimum) = mode.split_once(',').map_or((mode, None), |(mode, minimum)| (mode, Some(minimum)));
            let known = ["rw", "ro", "nc"].into_iter().find(|known| mode.eq_ignore_ascii_case(known));
            (path, known.ok_or("the mode of a branch is RW, RO or NC")?, minimum)
        }
    };
    let options = match minimum {
        Some(minimum) => parse_size(minimum).map(|_| format!("(minimum-free={})", quote(minimum)))?,
        None => String::new(),
    };
    Ok(format!("{}={mode}{options}", quote(path)))
}

impl MergerfsOptions {
    /// Returns a value, or records why there is none.
    fn check<T>(&mut self, word: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|reason| self.problems.push(format!("{word}: {reason}"))).ok()
    }

    fn note(&mut self, word: &str, note: &str) {
        self.translated.notes.push(format!("{word}: {note}"));
    }

    fn add(&mut self, word: &str) {
        let (key, value) = word.split_once('=').unwrap_or((word, "true"));
        let pass = |options: &mut Self, word: String| options.translated.options.push(word);
        match key {
            "category.create" => {
                if self.check(word, CreatePolicy::parse(value).map_err(expecting)).is_some() {
                    self.create = value.to_owned();
                }
            }
            "category.action" => {
                if self.check(word, ActionPolicy::parse(value).map_err(expecting)).is_some() {
                    self.action = value.to_owned();
                }
            }
            "category.search" => drop(self.check(word, check_search_policy(value).map_err(expecting))),
            "minfreespace" => {
                if self.check(word, parse_size(value).map_err(expecting)).is_some() {
                    self.minimum_free = value.to_owned();
                }
            }
            "moveonenospc" => self.when_full = self.check(word, when_full(value)).flatten(),
            "statfs" if value == "full" => {
                self.note(word, "branches count whether they have the path or not, as with statfs=base")
            }
            "statfs" => {}
            "statfs_ignore" if value == "none" => self.note(word, "only rw branches count"),
            "statfs_ignore" => {}
            "cache.attr" => pass(self, format!("attr_timeout={value}")),
            "cache.entry" => pass(self, format!("entry_timeout={value}")),
            "readahead" => {
                let kibibytes = value.parse::<u64>().ok().and_then(|kibibytes| kibibytes.checked_mul(1024));
                if let Some(bytes) = self.check(word, kibibytes.ok_or("a number of KiB is expected".to_owned())) {
                    pass(self, format!("read_ahead={bytes}"));
                }
            }
            "passthrough.io" if value == "off" => pass(self, "nopassthrough".to_owned()),
            "passthrough.io" => {}
            _ if key.starts_with("func.") => {}
            _ => self.add_other(word, key, value),
        }
    }

    /// Adds an option that a union always or never has, or one of all mounts.
    fn add_other(&mut self, word: &str, key: &str, value: &str) {
        if let Some((_, note)) = WITHOUT_EFFECT.iter().find(|(keys, _)| keys.contains(&key)) {
            if !note.is_empty() {
                self.note(word, &format!("no effect: {note}"));
            }
        } else if let Some((_, harmless, reason)) = IMPOSSIBLE.iter().find(|(known, ..)| *known == key) {
            if !harmless.contains(&value) {
                self.problems.push(format!("{word}: {reason}"));
            }
        } else {
            self.translated.options.push(word.to_owned());
        }
    }

    /// Checks the option of a single function, which must not differ from that of its category.
    fn check_function(&mut self, word: &str) {
        let Some((function, value)) = word.strip_prefix("func.").and_then(|rest| rest.split_once('=')) else { return };
        let agrees = match function {
            "create" | "mkdir" | "mknod" | "symlink" => {
                CreatePolicy::parse(value).is_ok_and(|policy| Ok(policy) == CreatePolicy::parse(&self.create))
            }
            "access" | "getattr" | "getxattr" | "listxattr" | "open" | "readlink" => check_search_policy(value).is_ok(),
            // Where a file is decides where its new name goes.
            "readdir" | "link" | "ioctl.file" => true,
            "chmod" | "chown" | "removexattr" | "rename" | "rmdir" | "setxattr" | "truncate" | "unlink" | "utimens" => {
                ActionPolicy::parse(value).is_ok_and(|policy| Ok(policy) == ActionPolicy::parse(&self.action))
            }
            _ => false,
        };
        if !agrees {
            self.problems.push(format!(
                "{word}: a function has the policy of its category; set category.create, category.action or category.search"
            ));
        }
    }
}

/// The value of `when-full` for one of `moveonenospc`; `None` for the default.
fn when_full(value: &str) -> Result<Option<String>, String> {
    let order = match value {
        "false" => return Ok(None),
        "true" | "mfs" | "epmfs" | "mspmfs" => "most-free",
        "ff" | "epff" => "leftmost",
        "lfs" | "eplfs" | "msplfs" => "least-free",
        "lus" | "eplus" | "msplus" => "least-used",
        "rand" | "eprand" => "random",
        "pfrd" | "eppfrd" | "msppfrd" => "weighted-random",
        _ => return Err("true, false, or a policy such as mfs is expected".to_owned()),
    };
    Ok(Some(format!("move-{order}")))
}

/// Completes the description of what is expected instead of a value.
fn expecting(expected: String) -> String {
    format!("expected {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(branches: &str, options: &[&str]) -> Result<TranslatedMount, String> {
        translate(branches, &options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>())
    }

    const DEFAULTS: &str = "create=epmfs, action=epall, minimum-free=4G, statfs=sum, mergerfs-xattrs=yes";

    #[test]
    fn branches_keep_their_modes_and_minimums() {
        let mount = translated("/mnt/a=RW,10G:/mnt/disk*=NC:/srv/x y=ro:/mnt/b", &[]).unwrap();
        let branches = "/mnt/a=rw(minimum-free=10G), /mnt/disk*=nc, \"/srv/x y\"=ro, /mnt/b=rw";
        assert_eq!(mount.stack, format!("{branches} | union({DEFAULTS})"));
        assert_eq!((mount.options, mount.notes), (vec![], vec![]));
    }

    #[test]
    fn options_are_translated() {
        let given =
            ["category.create=mfs", "func.mkdir=mfs", "func.unlink=ff", "category.action=epff", "minfreespace=20G"];
        let others =
            ["moveonenospc=true", "cache.attr=5", "readahead=2048", "allow_other", "fsname=pool", "use_ino", "ro"];
        let mount = translated("/a:/b", &[given.as_slice(), &others].concat()).unwrap();
        let options =
            "create=mfs, action=epff, minimum-free=20G, statfs=sum, mergerfs-xattrs=yes, when-full=move-most-free";
        assert_eq!(mount.stack, format!("/a=rw, /b=rw | union({options})"));
        assert_eq!(mount.options, ["attr_timeout=5", "read_ahead=2097152", "allow_other", "fsname=pool", "ro"]);
        assert!(mount.notes.is_empty(), "{:?}", mount.notes);
    }

    #[test]
    fn options_without_effect_are_noted() {
        let mount = translated("/a", &["cache.files=off", "inodecalc=path-hash", "nullrw=false", "threads=8"]).unwrap();
        let noted: Vec<&str> = mount.notes.iter().map(|note| note.split(':').next().unwrap()).collect();
        assert_eq!(noted, ["cache.files=off", "inodecalc=path-hash", "threads=8"]);
        assert!(mount.options.is_empty());
    }

    #[test]
    fn what_has_no_equivalent_is_named_with_the_reason() {
        let error = |options: &[&str]| translated("/a", options).unwrap_err();
        for (options, reason) in [
            (&["category.create=all"][..], "copies of one file"),
            (&["category.search=newest"], "leftmost object"),
            (&["symlinkify=true"], "never shown as symlinks"),
            (&["cache.writeback=true"], "leave it out"),
            (&["func.mkdir=epall"], "policy of its category"),
            (&["func.chmod=ff"], "policy of its category"),
            (&["func.nothing=ff"], "policy of its category"),
            (&["minfreespace=much"], "expected a number of bytes"),
            (&["moveonenospc=newest"], "a policy such as mfs"),
        ] {
            let message = error(options);
            assert!(message.starts_with(options[0]) && message.contains(reason), "{message}");
        }
        let both = error(&["nullrw=true", "link_cow=true"]);
        assert!(both.contains("nullrw") && both.contains("link_cow"), "{both}");
        assert!(translated("/a=RX", &[]).unwrap_err().contains("RW, RO or NC"));
        assert!(translated(":", &[]).unwrap_err().contains("no branches"));
    }
}

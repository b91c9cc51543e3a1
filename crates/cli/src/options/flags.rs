//! The mount options that are flags, as mount(8) defines them.

use frontends::fuse::{AccessTimes, MountFlags};

/// The change that one option makes to the flags.
type FlagEffect = fn(&mut MountFlags);

/// Every option that changes flags; later options override earlier ones.
const FLAG_EFFECTS: [(&str, FlagEffect); 30] = [
    ("ro", |flags| flags.read_only = true),
    ("rw", |flags| flags.read_only = false),
    ("suid", |flags| flags.no_suid = false),
    ("nosuid", |flags| flags.no_suid = true),
    ("dev", |flags| flags.no_devices = false),
    ("nodev", |flags| flags.no_devices = true),
    ("exec", |flags| flags.no_exec = false),
    ("noexec", |flags| flags.no_exec = true),
    ("sync", |flags| flags.synchronous = true),
    ("async", |flags| flags.synchronous = false),
    ("dirsync", |flags| flags.synchronous_directories = true),
    ("noatime", |flags| flags.access_times = AccessTimes::Never),
    ("atime", |flags| reset_access_times(flags, AccessTimes::Never)),
    ("strictatime", |flags| flags.access_times = AccessTimes::Strict),
    ("nostrictatime", |flags| reset_access_times(flags, AccessTimes::Strict)),
    ("relatime", |flags| flags.access_times = AccessTimes::Relative),
    // The kernel's default behaviour without any of them.
    ("norelatime", |_| {}),
    ("nodiratime", |flags| flags.no_directory_access_times = true),
    ("diratime", |flags| flags.no_directory_access_times = false),
    ("lazytime", |flags| flags.lazy_times = true),
    ("nolazytime", |flags| flags.lazy_times = false),
    ("user", secure),
    ("users", secure),
    ("owner", secure_but_executable),
    ("group", secure_but_executable),
    // These permit nothing, and revoke nothing that another option has set.
    ("nouser", |_| {}),
    ("noowner", |_| {}),
    ("nogroup", |_| {}),
    // Changes none of the flags here, which differ between mounts.
    ("defaults", |_| {}),
    // Controls kernel messages, which a FUSE mount does not produce.
    ("silent", |_| {}),
];

fn reset_access_times(flags: &mut MountFlags, access_times: AccessTimes) {
    if flags.access_times == access_times {
        flags.access_times = AccessTimes::Relative;
    }
}

fn secure(flags: &mut MountFlags) {
    flags.no_exec = true;
    secure_but_executable(flags);
}

fn secure_but_executable(flags: &mut MountFlags) {
    flags.no_suid = true;
    flags.no_devices = true;
}

/// Returns the names of the options that change flags.
pub fn names() -> impl Iterator<Item = &'static str> {
    FLAG_EFFECTS.iter().map(|(name, _)| *name)
}

/// Applies the option to the flags; returns `false` if it is not an option that changes flags.
pub fn apply(flags: &mut MountFlags, name: &str) -> bool {
    let effect = FLAG_EFFECTS.iter().find(|(other, _)| *other == name);
    effect.inspect(|(_, effect)| effect(flags)).is_some()
}

/// Returns the options that turn the default flags into these.
pub fn words(flags: &MountFlags) -> Vec<String> {
    let words = [
        (flags.read_only, "ro"),
        (!flags.no_suid, "suid"),
        (!flags.no_devices, "dev"),
        (flags.no_exec, "noexec"),
        (flags.synchronous, "sync"),
        (flags.synchronous_directories, "dirsync"),
        (flags.access_times == AccessTimes::Never, "noatime"),
        (flags.access_times == AccessTimes::Strict, "strictatime"),
        (flags.no_directory_access_times, "nodiratime"),
        (flags.lazy_times, "lazytime"),
    ];
    words.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| (*word).to_owned()).collect()
}

/// Returns the flags for the words that the mount table shows.
pub fn from_mount_table(shown: &[String]) -> MountFlags {
    // The table omits what is the default for other file systems; without a word about access times, it is strictatime.
    let mut flags =
        MountFlags { no_suid: false, no_devices: false, access_times: AccessTimes::Strict, ..MountFlags::default() };
    shown.iter().for_each(|word| match word.as_str() {
        // May stem from the mount or its file system alone; `ro` of either makes it read-only.
        "rw" => {}
        word => {
            apply(&mut flags, word);
        }
    });
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> MountFlags {
        let mut flags = MountFlags::default();
        words.iter().for_each(|word| assert!(apply(&mut flags, word), "{word}"));
        flags
    }

    #[test]
    fn options_match_mount() {
        assert_eq!(flags(&["defaults", "rw", "async", "nouser", "relatime", "silent"]), MountFlags::default());
        assert_eq!(words(&flags(&["user"])), ["noexec"]);
        assert_eq!(words(&flags(&["suid", "dev", "users", "exec"])), [""; 0]);
        assert_eq!(words(&flags(&["suid", "dev", "owner"])), [""; 0]);
        assert_eq!(words(&flags(&["user", "exec", "suid", "dev", "noowner"])), ["suid", "dev"]);
        assert_eq!(words(&flags(&["noatime", "nostrictatime"])), ["noatime"]);
        assert_eq!(words(&flags(&["noatime", "atime", "strictatime", "nodiratime"])), ["strictatime", "nodiratime"]);
        assert_eq!(words(&flags(&["sync", "dirsync", "async", "lazytime"])), ["dirsync", "lazytime"]);
    }

    #[test]
    fn flags_are_read_from_the_mount_table() {
        let shown = |text: &str| from_mount_table(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(shown("rw,nosuid,nodev,relatime,rw,user_id=0"), MountFlags::default());
        assert_eq!(words(&shown("ro,noatime,rw,sync")), ["ro", "suid", "dev", "sync", "noatime"]);
        assert_eq!(words(&shown("rw,nosuid,nodev,nodiratime,ro")), ["ro", "strictatime", "nodiratime"]);
    }
}

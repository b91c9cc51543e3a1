//! The examples of the man pages.

/// Examples of a page: the purpose, and the lines that serve it.
type Examples = &'static [(&'static str, &'static str)];

/// Returns the examples of a page; none if it has none.
pub(crate) fn of(page: &str) -> Examples {
    EXAMPLES.iter().find(|(name, _)| *name == page).map_or(&[], |(_, examples)| *examples)
}

const EXAMPLES: &[(&str, Examples)] = &[
    (
        "plyfs",
        &[
            (
                "A read-only view of a directory",
                "plyfs mount \"/srv/data | readonly\" /mnt\nplyfs status\nplyfs umount /mnt",
            ),
            ("A file system in which deleted files are kept", "plyfs mount \"/srv/data | trashfs\" /mnt"),
            ("An image of a disc, made writable", "plyfs mount \"/changes=rw, disc.iso=ro | union\" /mnt"),
            ("A command in a fork of the whole tree", "plyfs run --stack / -- make install"),
        ],
    ),
    (
        "plyfs-mount",
        &[
            ("Two directories as one; changes go to the first", "plyfs mount \"/rw=rw, /cd=ro | union\" /mnt"),
            ("Layers over the directory itself, so that nothing bypasses them", "plyfs mount --over /usr audit"),
            ("With options, and a description of the stack first", "plyfs mount --explain -o ro,noexec mem: /mnt"),
            ("Change the options of a mount", "plyfs mount -o remount,ro /mnt"),
            (
                "In the foreground, as a service of systemd of Type=notify",
                "plyfs mount -f \"/srv/data | readonly\" /mnt",
            ),
        ],
    ),
    (
        "plyfs-umount",
        &[
            ("Unmount, and wait until everything is stored", "plyfs umount /mnt"),
            ("Detach a mount that is in use", "plyfs umount --lazy /mnt"),
            ("Clear a mount whose server does not answer", "plyfs umount --force /mnt"),
            ("Unmount everything, as before a shutdown", "plyfs umount --all"),
        ],
    ),
    ("plyfs-status", &[("All mounts, and one in detail", "plyfs status\nplyfs status /mnt")]),
    (
        "plyfs-stats",
        &[("Latencies of one mount, and of all for Prometheus", "plyfs stats /mnt\nplyfs stats --prometheus")],
    ),
    ("plyfs-top", &[("Two updates of all mounts, five seconds apart", "plyfs top --interval 5 --times 2")]),
    ("plyfs-log-level", &[("Log every request of a mount", "plyfs log-level /mnt info,plyfs::request=trace")]),
    (
        "plyfs-control",
        &[("After its file was renamed, have an audit log write a new one", "plyfs control /mnt audit reopen")],
    ),
    (
        "plyfs-run",
        &[
            ("See what a script would change in the current directory", "plyfs run --discard -- ./clean-up.sh"),
            ("Commit the changes of a command if it succeeds", "plyfs run --commit -- sed -i s/old/new/ hosts"),
        ],
    ),
    ("plyfs-explain", &[("What a stack consists of", "plyfs explain \"/srv/data | audit | readonly\"")]),
    ("plyfs-layers", &[("All layers, and the options of one", "plyfs layers\nplyfs layers union")]),
    ("plyfs-bases", &[("All kinds of bases, and the options of one", "plyfs bases\nplyfs bases fat")]),
    (
        "plyfs-shell",
        &[(
            "Look into an image without mounting it",
            "plyfs shell disc.iso -c \"ls -l; cat readme\"\nplyfs shell \"/srv/data | readonly\"",
        )],
    ),
    ("plyfs-fist-check", &[("Check a program", "plyfs fist check trashfs.fist")]),
    ("plyfs-fist-fmt", &[("List the programs that are not formatted", "plyfs fist fmt --check one.fist two.fist")]),
    ("plyfs-fist-new", &[("Begin with a template", "plyfs fist new trashfs")]),
    ("plyfs-fist-test", &[("Run the transcript of a program", "plyfs fist test trashfs.fist.test")]),
    ("plyfs-fist-explain", &[("The rules of a program, by operation", "plyfs fist explain trashfs.fist")]),
    ("plyfs-fist-collapse", &[("What two programs are in one layer", "plyfs fist collapse rot13fs.fist snoopfs.fist")]),
    ("plyfs-fist-reload", &[("Have a mount use the changed program", "plyfs fist reload /mnt")]),
    ("plyfs-ioctl", &[("Set the key of a program that encrypts, from a file", "plyfs ioctl /mnt SETKEY ukey=@key")]),
    (
        "plyfs-completions",
        &[
            (
                "For bash, for the current user",
                "plyfs completions bash >~/.local/share/bash-completion/completions/plyfs",
            ),
            ("For fish, for the current user", "plyfs completions fish >~/.config/fish/completions/plyfs.fish"),
        ],
    ),
    ("plyfs-man", &[("Write the pages into a directory of the current one", "plyfs man pages\nman pages/plyfs.1")]),
    ("plyfs-union-list", &[("The branches of a union", "plyfs union list /mnt")]),
    ("plyfs-union-add", &[("Add a branch of lowest priority", "plyfs union add /mnt /srv/more=ro")]),
    ("plyfs-union-remove", &[("Remove the branch with number 2", "plyfs union remove /mnt 2")]),
    ("plyfs-union-mode", &[("Make a branch read-only", "plyfs union mode /mnt /srv/more ro")]),
    ("plyfs-union-move", &[("Give a branch the highest priority", "plyfs union move /mnt /srv/more 0")]),
    ("plyfs-union-view-add", &[("Give a user a branch", "plyfs union view add --uid 1000 /mnt /srv/private")]),
    ("plyfs-union-view-list", &[("The views of a union", "plyfs union view list /mnt")]),
    ("plyfs-union-view-remove", &[("Remove the view with a branch", "plyfs union view remove /mnt /srv/private")]),
    (
        "plyfs-union-check",
        &[("Check branches, and repair what is found", "plyfs union check --repair \"/rw=rw, /cd=ro | union\"")],
    ),
    ("plyfs-snapshot-take", &[("Take a snapshot before an upgrade", "plyfs snapshot take /mnt before")]),
    ("plyfs-snapshot-list", &[("The snapshots of a union", "plyfs snapshot list /mnt")]),
    ("plyfs-snapshot-diff", &[("What has changed since a snapshot", "plyfs snapshot diff /mnt before")]),
    ("plyfs-snapshot-restore", &[("Go back to a snapshot", "plyfs snapshot restore /mnt before")]),
    ("plyfs-snapshot-merge", &[("Drop the snapshots before one", "plyfs snapshot merge /mnt before")]),
    ("plyfs-snapshot-drop", &[("Drop a snapshot", "plyfs snapshot drop /mnt before")]),
    ("plyfs-fat-mkfs", &[("Make a file system in a new image", "plyfs fat mkfs --size 64m disk.img")]),
    ("plyfs-fat-fsck", &[("Report errors, and change nothing", "plyfs fat fsck --dry-run disk.img")]),
    ("plyfs-iso-info", &[("What is known of an image", "plyfs iso info disc.iso")]),
    ("plyfs-iso-ls", &[("All objects of an image", "plyfs iso ls -lR disc.iso")]),
    ("plyfs-iso-extract", &[("Extract one directory", "plyfs iso extract disc.iso target doc")]),
    ("plyfs-tools", &[("A language server for an editor", "plyfs-tools lsp")]),
    (
        "mount.plyfs",
        &[
            ("A mount by mount(8)", "mount -t plyfs \"/srv/data | readonly\" /mnt"),
            ("A line of fstab(5)", "/srv/data|readonly /mnt plyfs nofail 0 0"),
        ],
    ),
    (
        "plyfs-stack",
        &[
            ("A directory with two layers", "/srv/data | audit(to=/var/log/access.json) | readonly"),
            ("A union of three branches, one of them a stack", "/fast=rw, (/secret | rot13)=ro, /cd=ro | union"),
            ("A directory whose name has a comma and a space", "\"/srv/one, two\" | readonly"),
            ("A FiST program by its path, and one by its name", "/srv/data | ./rules.fist | trashfs"),
        ],
    ),
    (
        "plyfs-layer-audit",
        &[("A log of denied accesses", "plyfs mount \"/srv/data | audit(to=/var/log/access.json)\" /mnt")],
    ),
    (
        "plyfs-layer-faulty",
        &[("Every tenth write fails", "plyfs mount \"mem: | faulty(operations=write, every=10, error=EIO)\" /mnt")],
    ),
    (
        "plyfs-layer-longnames",
        &[("Names with a suffix below", "plyfs mount \"/srv/data | longnames(suffix=.x)\" /mnt")],
    ),
    (
        "plyfs-layer-map",
        &[("Everything belongs to a user", "plyfs mount \"/srv/data | map(owner=1000, group=1000)\" /mnt")],
    ),
    ("plyfs-layer-readonly", &[("A read-only view of a directory", "plyfs mount \"/srv/data | readonly\" /mnt")]),
    ("plyfs-layer-rot13", &[("Text that is not readable below", "plyfs mount \"/srv/data | rot13\" /mnt")]),
    (
        "plyfs-layer-throttle",
        &[("At most 5 MiB are written a second", "plyfs mount \"/srv/backup | throttle(write=5m)\" /mnt")],
    ),
    (
        "plyfs-layer-union",
        &[("Two directories as one; changes go to the first", "plyfs mount \"/rw=rw, /cd=ro | union\" /mnt")],
    ),
    (
        "plyfs-base-dir",
        &[("The same directory, written in two ways", "plyfs explain /srv/data\nplyfs explain dir:/srv/data")],
    ),
    ("plyfs-base-fat", &[("The second partition of an image", "plyfs mount \"fat:disk.img(partition=2)\" /mnt")]),
    ("plyfs-base-iso", &[("An image of a disc", "plyfs mount disc.iso /mnt")]),
    ("plyfs-base-mem", &[("At most 64 MiB in memory", "plyfs mount 'mem:\"size=64m\"' /mnt")]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;
    use plyfs_cli::{Registry, command_line};

    #[test]
    fn commands_in_examples_are_valid() {
        let command = command_line::command(&Registry::default());
        let lines = EXAMPLES.iter().flat_map(|(_, examples)| examples.iter()).flat_map(|(_, lines)| lines.lines());
        let mut number = 0;
        for line in lines.filter(|line| line.starts_with("plyfs ")) {
            // A redirection is the shell's.
            let line = line.split(" >").next().unwrap_or(line);
            let parsed = command.clone().try_get_matches_from(shlex::split(line).unwrap());
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            number += 1;
        }
        assert!(number > 50, "{number}");
    }

    #[test]
    fn every_command_layer_and_base_has_an_example() {
        fn check(command: &Command, name: &str) {
            for below in command.get_subcommands() {
                check(below, &format!("{name}-{}", below.get_name()));
            }
            // Those of the FAT tools that a page of the documentation shows are not repeated, nor is the language server, which
            // editors start.
            let is_left_out = ["badsect", "dump", "tune", "label", "lsp"].contains(&command.get_name());
            assert!(command.has_subcommands() || is_left_out || !of(name).is_empty(), "{name}");
        }
        let registry = Registry::default();
        check(&command_line::command(&registry), "plyfs");
        assert!(registry.layers().iter().all(|kind| !of(&format!("plyfs-layer-{}", kind.name)).is_empty()));
        assert!(registry.bases().iter().all(|kind| !of(&format!("plyfs-base-{}", kind.name)).is_empty()));
    }
}

//! Images of containers: what buildah and podman build with `plyfs-overlayfs` is what they build with overlayfs.

#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use support::{Scratch, can_mount, finish, plyfs, run, umount};

/// Runs a script with storage of its own, whose overlays a program mounts, or the kernel. What it makes and mounts ends with it.
fn in_storage(script: &str, user: &str, program: &str) -> String {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/containers");
    let scratch = Scratch::new();
    let mut command = Command::new("timeout");
    command.args([
        "--kill-after=5",
        "300",
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
    ]);
    // A directory that the user `builder` can read, unlike that of the sources.
    fs::copy(scripts.join(script), scratch.path("script")).unwrap();
    command.arg(scripts.join("machine.sh")).arg(scratch.mount());
    command.arg(user).arg(scratch.path("script")).arg(program);
    let ended = finish(command.output());
    assert!(ended.code == 0, "{script} as {user} with {program}: {}\n{}", ended.output, ended.errors);
    ended.output
}

/// Runs a script as both users with `plyfs-overlayfs`, and returns what differs from what it prints with overlayfs.
fn is_as_with_overlayfs(script: &str, users: &[&str]) {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::copy(env!("CARGO_BIN_EXE_plyfs"), scratch.path("plyfs")).unwrap();
    symlink("plyfs", scratch.path("plyfs-overlayfs")).unwrap();
    let expected = in_storage(script, "root", "kernel");
    assert!(expected.lines().count() > 30, "{expected}");
    for user in users {
        let printed = in_storage(script, user, &scratch.name("plyfs-overlayfs"));
        let lost: Vec<_> = expected.lines().filter(|line| !printed.lines().any(|other| other == *line)).collect();
        let added: Vec<_> = printed.lines().filter(|line| !expected.lines().any(|other| other == *line)).collect();
        assert!(lost.is_empty() && added.is_empty(), "as {user}: not printed: {lost:#?}, printed: {added:#?}");
    }
}

#[test]
fn images_that_buildah_builds_are_those_of_overlayfs() {
    is_as_with_overlayfs("buildah.sh", &["root", "builder"]);
}

#[test]
fn containers_and_images_of_podman_are_those_of_overlayfs() {
    is_as_with_overlayfs("podman.sh", &["root", "builder"]);
}

/// A directory on a file system that cannot synchronize.
#[test]
fn what_is_volatile_is_not_synchronized() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (base, merged) = (scratch.name("base"), scratch.name("merged"));
    ["base", "merged"].iter().for_each(|name| fs::create_dir(scratch.path(name)).unwrap());
    run(["mount", "mem: | faulty(operations=fsync, error=EIO)", &base]).succeeded();
    ["lower", "upper", "work"].iter().for_each(|name| fs::create_dir(scratch.path("base").join(name)).unwrap());
    fs::write(scratch.path("base/lower/file"), "text").unwrap();
    let options = format!("lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work");
    let synchronize = || {
        let file = fs::OpenOptions::new().append(true).open(scratch.path("merged/file"))?;
        file.sync_all()
    };
    run(["mount", "-o", &options, &merged]).succeeded();
    assert_eq!(synchronize().unwrap_err().raw_os_error(), Some(libc::EIO));
    umount(&merged);
    for option in ["volatile", "fsync=0"] {
        run(["mount", "-o", &format!("{options},{option}"), &merged]).succeeded();
        synchronize().unwrap();
        assert_eq!(finish(Command::new("sync").args(["-f", &merged]).output()).succeeded(), "");
        umount(&merged);
    }
    umount(&base);
}

/// As images with many layers have.
#[test]
fn hundreds_of_lower_directories_are_mounted() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    ["upper", "work", "merged"].iter().for_each(|name| fs::create_dir(scratch.path(name)).unwrap());
    let lower: Vec<String> = (0..200).map(|number| scratch.name(&format!("layer-{number:060}"))).collect();
    lower.iter().for_each(|path| fs::create_dir(path).unwrap());
    fs::write(scratch.path(&format!("layer-{:060}/last", 199)), "").unwrap();
    let [upper, work, merged] = ["upper", "work", "merged"].map(|name| scratch.name(name));
    run(["mount", "-o", &format!("lowerdir={},upperdir={upper},workdir={work}", lower.join(":")), &merged]).succeeded();
    assert!(scratch.path("merged/last").exists());
    umount(&merged);
}

/// The first number is that of the directory, as with fuse-overlayfs.
#[test]
fn owners_are_mapped_as_by_fuse_overlayfs() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    ["lower", "upper", "work", "merged"].iter().for_each(|name| fs::create_dir(scratch.path(name)).unwrap());
    fs::write(scratch.path("lower/file"), "").unwrap();
    std::os::unix::fs::chown(scratch.path("lower/file"), Some(5), Some(6)).unwrap();
    let owners = |name: &str| fs::metadata(scratch.path(name)).map(|file| (file.uid(), file.gid())).unwrap();
    let options = ["lowerdir=", ",upperdir=", ",workdir="];
    let options = std::iter::zip(options, ["lower", "upper", "work"])
        .map(|(option, name)| option.to_owned() + &scratch.name(name));
    let options = options.collect::<String>() + ",uidmapping=0:0:1:5:1005:1,gidmapping=0:0:1:6:1006:1";
    for program in ["fuse-overlayfs", "plyfs-overlayfs"] {
        let mut command = if program == "fuse-overlayfs" { Command::new(program) } else { plyfs() };
        if program != "fuse-overlayfs" {
            std::os::unix::process::CommandExt::arg0(&mut command, program);
        }
        assert_eq!(finish(command.args(["-o", &options]).arg(scratch.path("merged")).output()).code, 0);
        assert_eq!(owners("merged/file"), (1005, 1006), "{program}");
        fs::write(scratch.path("merged/new"), "").unwrap();
        std::os::unix::fs::chown(scratch.path("merged/new"), Some(1005), Some(1006)).unwrap();
        assert_eq!(owners("upper/new"), (5, 6), "{program}");
        fs::remove_file(scratch.path("merged/new")).unwrap();
        rustix::mount::unmount(scratch.path("merged"), rustix::mount::UnmountFlags::empty()).unwrap();
    }
}

/// For others, who do not know where the union keeps the copy of a file with several names.
#[test]
fn the_name_by_which_a_file_was_changed_is_in_the_upper_directory() {
    if !can_mount() {
        return;
    }
    type Change = fn(&Path, &Path) -> std::io::Result<()>;
    let changes: [(&str, Change); 4] = [
        ("the other name was removed", |one, _| fs::remove_file(one)),
        ("the other name was written", |one, _| fs::write(one, "by one")),
        ("both names were seen", |one, other| fs::metadata(one).and(fs::metadata(other)).map(drop)),
        ("the other name was moved", |one, _| fs::rename(one, one.with_extension("moved"))),
    ];
    for (what, change) in changes {
        let scratch = Scratch::new();
        ["lower", "upper", "work", "merged"].iter().for_each(|name| fs::create_dir(scratch.path(name)).unwrap());
        fs::write(scratch.path("lower/one"), "lower").unwrap();
        fs::hard_link(scratch.path("lower/one"), scratch.path("lower/other")).unwrap();
        let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| scratch.name(name));
        run(["mount", "-o", &format!("lowerdir={lower},upperdir={upper},workdir={work}"), &merged]).succeeded();
        change(&scratch.path("merged/one"), &scratch.path("merged/other")).unwrap();
        fs::write(scratch.path("merged/other"), "changed").unwrap();
        umount(&merged);
        assert_eq!(fs::read_to_string(scratch.path("upper/other")).unwrap(), "changed", "{what}");
    }
}

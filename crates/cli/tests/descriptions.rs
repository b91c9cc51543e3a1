//! The sample descriptions, each through a real mount: what its users would see.

mod support;

use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use support::{Scratch, can_mount, run, umount, wait_until};

/// A user without a name.
const USER: u32 = 54_321;

/// A sample.
fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fist").join(name);
    path.canonicalize().expect("the sample is there").to_str().expect("a path of text").to_owned()
}

/// A sample mounted on a directory `base`, for all users.
fn mounted(scratch: &Scratch, name: &str, options: &str) -> PathBuf {
    let base = scratch.path("base");
    fs::create_dir_all(&base).unwrap();
    fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
    let stack = format!("{} | {}{options}", base.display(), sample(name));
    let log = scratch.name("log");
    run(["mount", "--log-file", &log, "-o", "allow_other", &stack, &scratch.name("mount")]).succeeded();
    scratch.mount()
}

/// What a shell prints as another user, or `None` if it fails.
fn as_user(commands: &str) -> Option<String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", commands]).stdin(Stdio::null()).uid(USER).gid(USER);
    let output = shell.output().expect("a shell runs");
    output.status.success().then(|| String::from_utf8(output.stdout).expect("text").trim_end().to_owned())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// An ioctl that gives data: `F`, the first that is declared.
fn set(path: &Path, data: &[u8]) -> std::io::Result<()> {
    let file = fs::File::open(path)?;
    let command = 1 << 30 | (data.len() as u64) << 16 | u64::from(b'F') << 8 | 1;
    // SAFETY: the command says how many bytes are read, and so many are there.
    match unsafe { libc::ioctl(file.as_raw_fd(), command, data.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn snoopfs_tells_of_users_who_reach_for_files_of_others() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "snoopfs.fist", "(errno=EACCES:EPERM)");
    fs::create_dir(mount.join("private")).unwrap();
    fs::set_permissions(mount.join("private"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(mount.join("private/file"), "secret").unwrap();
    assert_eq!(as_user(&format!("cat {}/private/file", mount.display())), None);
    let log = scratch.path("log");
    let expected = format!("snoopfs detected access by uid {USER},pid ");
    wait_until("snoopfs tells of it", || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.lines().any(|line| line.contains(&expected) && line.contains("to file file"))
    });
    assert_eq!(fs::read_to_string(mount.join("private/file")).unwrap(), "secret");
}

#[test]
fn cryptfs_enciphers_names_and_data_by_the_key_that_was_set() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "cryptfs.fist", "");
    set(&mount, b"0123456789abcdef").unwrap();
    let text = "a text that is longer than a block\n".repeat(300);
    fs::create_dir(mount.join("directory")).unwrap();
    fs::write(mount.join("directory/name"), &text).unwrap();
    assert_eq!(names(&mount.join("directory")), ["name"]);
    assert_eq!(fs::read_to_string(mount.join("directory/name")).unwrap(), text);
    let below = names(&scratch.path("base"));
    assert!(below.len() == 1 && below[0].len() == 2 * "directory".len(), "{below:?}");
    let directory = scratch.path("base").join(&below[0]);
    let file = fs::read(directory.join(&names(&directory)[0])).unwrap();
    assert_eq!(file.len(), text.len());
    assert!(!file.windows(5).any(|bytes| bytes == b"block"));
    // Under another key the names are not those.
    umount(&scratch.name("mount"));
    let mount = mounted(&scratch, "cryptfs.fist", "");
    set(&mount, b"another key here").unwrap();
    assert!(!names(&mount).contains(&"directory".to_owned()));
    set(&mount, b"0123456789abcdef").unwrap();
    assert_eq!(fs::read_to_string(mount.join("directory/name")).unwrap(), text);
}

#[test]
fn aclfs_lets_one_more_user_search_a_directory() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (base, layers) = (scratch.path("base"), format!("{}(errno=EACCES:EPERM)", sample("aclfs.fist")));
    fs::create_dir(&base).unwrap();
    let elsewhere = run(["mount", &format!("{} | {layers}", base.display()), &scratch.name("mount")]);
    assert!(elsewhere.code == 2 && elsewhere.errors.contains("--over"), "{elsewhere:?}");
    run(["mount", "--over", &scratch.name("base"), &layers]).succeeded();
    let private = base.join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(private.join("file"), "for friends").unwrap();
    let read = format!("cat {}/file", private.display());
    assert_eq!(as_user(&read), None);
    let data = [USER.to_ne_bytes(), USER.to_ne_bytes()].concat();
    assert!(as_user(&format!("ls {}/.acl", private.display())).is_none());
    set(&private, &data).unwrap();
    assert_eq!(as_user(&read).as_deref(), Some("for friends"));
    assert_eq!(names(&private), ["file"], "the list of users is hidden");
    assert_eq!(as_user(&format!("cat {}/.acl", private.display())), None);
    umount(&scratch.name("base"));
    assert_eq!(fs::read(private.join(".acl")).unwrap(), data);
}

#[test]
fn rot13fs_rotates_letters() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "rot13fs.fist", "");
    let text = "Hello, FiST!\n".repeat(1000);
    fs::write(mount.join("file"), &text).unwrap();
    assert_eq!(fs::read_to_string(mount.join("file")).unwrap(), text);
    assert!(fs::read_to_string(scratch.path("base/file")).unwrap().starts_with("Uryyb, SvFG!\nUryyb"));
}

#[test]
fn trashfs_renames_what_is_deleted() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "trashfs.fist", "");
    fs::write(mount.join("file"), "kept").unwrap();
    assert!(!mount.join("file.deleted").exists());
    fs::remove_file(mount.join("file")).unwrap();
    assert_eq!(names(&mount), ["file.deleted"]);
    assert_eq!(fs::read_to_string(mount.join("file.deleted")).unwrap(), "kept");
    fs::remove_file(mount.join("file.deleted")).unwrap();
    assert_eq!(names(&mount), [""; 0]);
}

#[test]
fn keepfs_copies_what_is_deleted() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "keepfs.fist", "");
    fs::write(mount.join("file"), "content").unwrap();
    fs::remove_file(mount.join("file")).unwrap();
    assert_eq!(names(&mount), [".kept.file"]);
    assert_eq!(fs::read_to_string(mount.join(".kept.file")).unwrap(), "content");
    // What cannot be copied is not deleted.
    fs::write(mount.join("x".repeat(255)), "").unwrap();
    assert_eq!(fs::remove_file(mount.join("x".repeat(255))).unwrap_err().raw_os_error(), Some(libc::ENAMETOOLONG));
    assert_eq!(names(&mount).len(), 2);
}

#[test]
fn quotafs_limits_what_the_files_of_a_user_grow_by() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "quotafs.fist", "(limit=10000)");
    let mount = mount.display();
    assert!(as_user(&format!("head -c 8000 /dev/zero > {mount}/one")).is_some());
    assert!(as_user(&format!("head -c 8000 /dev/zero > {mount}/two")).is_none(), "16,000 bytes are too many");
    assert!(as_user(&format!("rm {mount}/one")).is_some());
    // The kernel reports the last close of a file after close(2) has returned, and its data are in use until then.
    wait_until("the space is free", || as_user(&format!("head -c 8000 /dev/zero > {mount}/three")).is_some());
    fs::write(format!("{mount}/root"), vec![0; 100_000]).unwrap();
}

#[test]
fn hidefs_shows_no_names_with_dots_and_lets_nobody_change_anything() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("base")).unwrap();
    fs::write(scratch.path("base/.hidden"), "").unwrap();
    fs::write(scratch.path("base/shown"), "text").unwrap();
    let mount = mounted(&scratch, "hidefs.fist", "");
    assert_eq!(names(&mount), ["shown"]);
    assert!(!mount.join(".hidden").exists());
    assert_eq!(fs::read_to_string(mount.join("shown")).unwrap(), "text");
    assert_eq!(fs::write(mount.join("shown"), "").unwrap_err().raw_os_error(), Some(libc::EROFS));
    assert_eq!(fs::remove_file(mount.join("shown")).unwrap_err().raw_os_error(), Some(libc::EROFS));
}

#[test]
fn versionfs_keeps_the_last_versions() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "versionfs.fist", "(versions=2)");
    for text in ["one", "two", "three", "four"] {
        fs::write(mount.join("file"), text).unwrap();
    }
    assert_eq!(names(&mount), ["file", "file.~1~", "file.~2~"]);
    let read = |name: &str| fs::read_to_string(mount.join(name)).unwrap();
    assert_eq!((read("file"), read("file.~1~"), read("file.~2~")), ("four".into(), "three".into(), "two".into()));
    // As editors write: a new file takes the place of the old.
    fs::write(mount.join("new"), "five").unwrap();
    fs::rename(mount.join("new"), mount.join("file")).unwrap();
    assert_eq!((read("file"), read("file.~1~"), read("file.~2~")), ("five".into(), "four".into(), "three".into()));
    assert_eq!(fs::metadata(mount.join("file.~1~")).unwrap().mode() & 0o777, 0o644);
}

/// A file of so many bytes of text, written, read, and changed in the middle, whose form below is another.
fn has_another_size_below(scratch: &Scratch, mount: &Path) -> u64 {
    let mut text = "again and again the same words\n".repeat(20_000).into_bytes();
    fs::write(mount.join("file"), &text).unwrap();
    assert_eq!(fs::metadata(mount.join("file")).unwrap().len(), text.len() as u64);
    assert_eq!(fs::read(mount.join("file")).unwrap(), text);
    let file = fs::File::options().write(true).open(mount.join("file")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"CHANGED", 100_000).unwrap();
    text[100_000..100_007].copy_from_slice(b"CHANGED");
    file.set_len(300_001).unwrap();
    text.truncate(300_001);
    drop(file);
    assert_eq!(fs::read(mount.join("file")).unwrap(), text);
    let below = fs::read(scratch.path("base/file")).unwrap();
    let plain = b"the same words\nagain and again the same words";
    assert!(!below.windows(plain.len()).any(|bytes| bytes == plain));
    fs::metadata(scratch.path("base/file")).unwrap().blocks() * 512
}

#[test]
fn zstdfs_takes_less_room_below() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "zstdfs.fist", "");
    let taken = has_another_size_below(&scratch, &mount);
    assert!(taken < 100_000, "{taken} bytes for 300,001");
}

#[test]
fn uuencodefs_writes_printable_characters() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "uuencodefs.fist", "");
    has_another_size_below(&scratch, &mount);
    let below = fs::read(scratch.path("base/file")).unwrap();
    assert!(below[4..60_000].iter().all(|byte| (b' '..=b'_').contains(byte)));
}

#[test]
fn sealfs_keeps_data_secret_and_unchanged() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "sealfs.fist", "");
    assert_eq!(fs::write(mount.join("file"), "x").unwrap_err().raw_os_error(), Some(libc::ENOKEY));
    set(&mount, &[7; 64]).unwrap();
    has_another_size_below(&scratch, &mount);
    let text = fs::read(mount.join("file")).unwrap();
    umount(&scratch.name("mount"));
    let mount = mounted(&scratch, "sealfs.fist", "");
    set(&mount, &[8; 64]).unwrap();
    assert_eq!(fs::read(mount.join("file")).unwrap_err().raw_os_error(), Some(libc::EBADMSG));
    umount(&scratch.name("mount"));
    let mount = mounted(&scratch, "sealfs.fist", "");
    set(&mount, &[7; 64]).unwrap();
    assert_eq!(fs::read(mount.join("file")).unwrap(), text);
    umount(&scratch.name("mount"));
    let file = fs::File::options().read(true).write(true).open(scratch.path("base/file")).unwrap();
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, 1000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[byte[0] ^ 1], 1000).unwrap();
    let mount = mounted(&scratch, "sealfs.fist", "");
    set(&mount, &[7; 64]).unwrap();
    assert_eq!(fs::read(mount.join("file")).unwrap_err().raw_os_error(), Some(libc::EBADMSG));
}

/// A sample mounted on the directories `first` and `second`.
fn mounted_on_two(scratch: &Scratch, name: &str) -> PathBuf {
    let (first, second) = (scratch.name("first"), scratch.name("second"));
    run(["mount", &format!("{first}, {second} | {}", sample(name)), &scratch.name("mount")]).succeeded();
    scratch.mount()
}

#[test]
fn unionfs_joins_two_file_systems() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for (file, text) in [
        ("first/both", "of the first"),
        ("second/both", "of the second"),
        ("second/lower", "lower"),
        ("first/directory/one", "1"),
        ("second/directory/two", "2"),
    ] {
        fs::create_dir_all(scratch.path(file).parent().unwrap()).unwrap();
        fs::write(scratch.path(file), text).unwrap();
    }
    let mount = mounted_on_two(&scratch, "unionfs.fist");
    let read = |name: &str| fs::read_to_string(mount.join(name)).unwrap();
    assert_eq!(names(&mount), ["both", "directory", "lower"]);
    assert_eq!(names(&mount.join("directory")), ["one", "two"]);
    assert_eq!((read("both"), read("lower")), ("of the first".into(), "lower".into()));
    assert_eq!((read("directory/one"), read("directory/two")), ("1".into(), "2".into()));
    // What is new is in the first.
    fs::write(mount.join("directory/new"), "new").unwrap();
    fs::create_dir(mount.join("empty")).unwrap();
    assert_eq!(fs::read_to_string(scratch.path("first/directory/new")).unwrap(), "new");
    assert!(scratch.path("first/empty").exists() && !scratch.path("second/empty").exists());
    fs::write(mount.join("both"), "changed").unwrap();
    assert_eq!(fs::read_to_string(scratch.path("first/both")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(scratch.path("second/both")).unwrap(), "of the second");
    // What is deleted goes from both.
    fs::remove_file(mount.join("both")).unwrap();
    assert!(!mount.join("both").exists());
    assert!(!scratch.path("first/both").exists() && !scratch.path("second/both").exists());
    fs::remove_dir(mount.join("empty")).unwrap();
    fs::rename(mount.join("directory/one"), mount.join("directory/renamed")).unwrap();
    assert_eq!(names(&mount.join("directory")), ["new", "renamed", "two"]);
    // Writing goes to the first only, where this is not.
    assert_eq!(fs::write(mount.join("lower"), "").unwrap_err().raw_os_error(), Some(libc::ENOENT));
    assert_eq!(read("lower"), "lower");
}

#[test]
fn lb2fs_reads_from_both_in_turn() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    for branch in ["first", "second"] {
        fs::create_dir(scratch.path(branch)).unwrap();
        fs::write(scratch.path(branch).join("file"), branch).unwrap();
    }
    let mount = mounted_on_two(&scratch, "lb2fs.fist");
    let mut served: Vec<_> = (0..4).map(|_| fs::read(mount.join("file")).unwrap().len()).collect();
    served.sort();
    assert_eq!(served, ["first", "first", "second", "second"].map(str::len));
    // Also of files that are open at one time each is read from where it was opened.
    let open: Vec<_> = (0..4).map(|_| fs::File::open(mount.join("file")).unwrap()).collect();
    let mut served: Vec<_> = open.iter().map(|file| io::read_to_string(file).unwrap()).collect();
    served.sort();
    assert_eq!(served, ["first", "first", "second", "second"]);
    fs::remove_file(scratch.path("first/file")).unwrap();
    assert_eq!(fs::write(mount.join("new"), "").unwrap_err().raw_os_error(), Some(libc::EROFS));
}

#[test]
fn usenetfs_breaks_large_directories_into_small_ones() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch, "usenetfs.fist", "");
    let group = mount.join("group");
    fs::create_dir(&group).unwrap();
    fs::set_permissions(&group, fs::Permissions::from_mode(0o4755)).unwrap();
    for article in [7, 1007, 2007, 3123] {
        fs::write(group.join(article.to_string()), article.to_string()).unwrap();
    }
    assert_eq!(names(&group), ["1007", "2007", "3123", "7"]);
    assert_eq!(names(&scratch.path("base/group/007")), ["1007", "2007", "7"]);
    assert_eq!(fs::read_to_string(group.join("2007")).unwrap(), "2007");
    fs::remove_file(group.join("7")).unwrap();
    assert!(!group.join("7").exists() && names(&group).len() == 3);
    assert_eq!(fs::rename(group.join("1007"), group.join("8")).unwrap_err().raw_os_error(), Some(libc::EXDEV));
}

#[test]
fn the_transcripts_of_the_samples_are_as_they_should_be() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fist");
    let mut count = 0;
    for entry in fs::read_dir(samples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "test") {
            let told = run(["fist", "test", path.to_str().unwrap()]).succeeded();
            assert!(told.contains("commands passed"), "{told}");
            count += 1;
        }
    }
    assert!(count >= 5);
}

#[test]
fn a_transcript_that_is_wrong_is_told_with_its_lines() {
    let scratch = Scratch::new();
    let transcript = scratch.name("x.fist.test");
    let failed = |text: &str| {
        fs::write(&transcript, text).unwrap();
        let failed = run(["fist", "test", &transcript]);
        assert_eq!((failed.code, &failed.output[..]), (1, ""), "{failed:?}");
        failed.errors
    };
    assert!(failed("$ ls\n").contains("x.fist"), "there is no description");
    fs::write(scratch.path("x.fist"), "mntdata { int size; };\n%%\n%op:mkdir { fistSetErr(EPERM); }\n").unwrap();
    let errors = failed("# about it\n$ mkdir d\n$ ls\nd\nbelow$ ls\n");
    assert!(errors.contains("x.fist.test:2: $ mkdir d\n  expected: nothing\n  printed:  plyfs: mkdir: d"), "{errors}");
    assert!(errors.contains("x.fist.test:3: $ ls\n  expected: d\n  printed:  nothing"), "{errors}");
    assert!(errors.contains("2 of 3 commands"), "{errors}");
    assert!(failed("ls\n").contains("x.fist.test:1:"));
    assert!(failed("below3$ ls\n").contains("there are 1 file systems below"));
    assert!(failed("options size=much\n$ ls\n").contains("a number"));
    assert!(run(["fist", "test", &scratch.name("x.fist")]).errors.contains("is not a transcript"));
}

#[test]
fn declared_commands_are_given_by_their_names() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (base, description) = (scratch.path("base"), scratch.path("counts.fist"));
    fs::create_dir(&base).unwrap();
    let text = "per_vfs { long count; char label[8]; };\nioctl:fromuser SET { char label[8]; };\n\
        ioctl:touser COUNT { long count; char label[8]; };\nioctl ADD { int by; long sum; };\n%%\n\
        %op:ioctl:SET { fistGetIoctlData(SET, label, $vfs.label); }\n\
        %op:ioctl:COUNT { fistSetIoctlData(COUNT, count, $vfs.count); fistSetIoctlData(COUNT, label, $vfs.label); }\n\
        %op:ioctl:ADD { int by; if (fistGetIoctlData(ADD, by, &by) < 0 || by < 0) fistRetErr(EINVAL); $vfs.count += by; fistSetIoctlData(ADD, sum, $vfs.count); }\n";
    fs::write(&description, text).unwrap();
    run(["mount", &format!("{} | {}", base.display(), description.display()), &scratch.name("mount")]).succeeded();
    let mount = scratch.name("mount");
    assert_eq!(run(["ioctl", &mount, "SET", "label=a name"]).succeeded(), "");
    fs::write(scratch.mount().join("file"), "").unwrap();
    assert_eq!(run(["ioctl", &format!("{mount}/file"), "ADD", "by=40"]).succeeded(), "by=40\nsum=40\n");
    assert_eq!(run(["ioctl", &mount, "COUNT"]).succeeded(), "count=40\nlabel=a name\n");
    for (words, code, expected) in [
        (["ioctl", &mount, "ADD", "by=-1"], 1, "Invalid argument"),
        (["ioctl", &mount, "ADD", "by=x"], 2, "a number from"),
        (["ioctl", &mount, "ADD", "to=1"], 2, "by, sum"),
        (["ioctl", &mount, "SUB", "by=1"], 2, "SET, COUNT, ADD"),
        (["ioctl", &scratch.name("base"), "ADD", "by=1"], 11, "is not in a mount of Plyfs"),
    ] {
        let failed = run(words);
        assert!(failed.code == code && failed.errors.contains(expected), "{failed:?}");
    }
}

/// Names are found, made, moved and removed as rules make them, whatever the kernel has kept.
#[test]
fn rules_assign_names_through_a_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let path = scratch.path("lower.fist");
    let rules = "%%\n%op:name:precall { $name = lower($name); }\n%op:rename:precall { $toname = lower($toname); }\n\
        %createops:all:precall { $mode &= ~077; }\n%%\nstatic char *lower(const char *name)\n{\n    \
        char *made = fistStrAdd(name, \"\");\n    for (int i = 0; made[i]; i++)\n        \
        if (made[i] >= 'A' && made[i] <= 'Z')\n            made[i] += 'a' - 'A';\n    return made;\n}\n";
    fs::write(&path, rules).unwrap();
    fs::create_dir(scratch.path("base")).unwrap();
    run(["mount", &format!("{} | {}", scratch.name("base"), path.display()), &scratch.name("mount")]).succeeded();
    let mount = scratch.mount();
    assert!(!mount.join("readme").exists() && !mount.join("README").exists());
    fs::write(mount.join("README"), "text").unwrap();
    assert_eq!(names(&scratch.path("base")), ["readme"]);
    assert_eq!(fs::metadata(scratch.path("base/readme")).unwrap().mode() & 0o777, 0o600);
    for name in ["readme", "ReadMe", "README"] {
        assert_eq!(fs::read_to_string(mount.join(name)).unwrap(), "text", "{name}");
    }
    fs::create_dir(mount.join("Directory")).unwrap();
    fs::rename(mount.join("ReadMe"), mount.join("DIRECTORY/New")).unwrap();
    assert!(!mount.join("README").exists() && !mount.join("readme").exists());
    assert_eq!(fs::read_to_string(mount.join("directory/NEW")).unwrap(), "text");
    fs::hard_link(mount.join("directory/new"), mount.join("LINK")).unwrap();
    fs::remove_file(mount.join("Directory/nEW")).unwrap();
    assert_eq!(fs::read_to_string(mount.join("link")).unwrap(), "text");
    assert_eq!(fs::read_dir(mount.join("directory")).unwrap().count(), 0);
    fs::remove_dir(mount.join("DIRECTORY")).unwrap();
    assert!(!mount.join("Directory").exists());
    assert_eq!(names(&mount), ["link"]);
}

/// Descriptions that are one layer are still told of, given commands, and read again, each by itself.
#[test]
fn each_description_of_a_layer_is_reached_by_its_name() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let text = |refused: &str| format!("%%\n%op:rmdir:precall {{ fistSetErr({refused}); }}\n");
    let path = scratch.path("refuse.fist");
    fs::write(&path, text("EPERM")).unwrap();
    fs::create_dir(scratch.path("base")).unwrap();
    let stack = format!("{} | {} | {}", scratch.name("base"), sample("cryptfs.fist"), path.display());
    let explained = run(["mount", "--explain", &stack, &scratch.name("mount")]).succeeded();
    assert!(explained.contains("refuse.fist, in one layer with cryptfs.fist\n"), "{explained}");
    let mount = scratch.mount();
    set(&mount, &[1; 16]).unwrap();
    fs::create_dir(mount.join("directory")).unwrap();
    assert_eq!(names(&mount), ["directory"]);
    assert_ne!(names(&scratch.path("base")), ["directory"]);
    let error = || fs::remove_dir(mount.join("directory")).unwrap_err().raw_os_error();
    assert_eq!(error(), Some(libc::EPERM));
    fs::write(&path, text("EBUSY")).unwrap();
    run(["fist", "reload", mount.to_str().unwrap(), "refuse.fist"]).succeeded();
    assert_eq!(error(), Some(libc::EBUSY));
    // One that could not be in the layer is refused, and the old one goes on.
    fs::write(&path, "%%\n%op:rmdir:precall { fistSetErr(fistCopyFile($1, \"x\")); }\n").unwrap();
    let refused = run(["fist", "reload", mount.to_str().unwrap(), "refuse.fist"]);
    assert!(refused.code != 0 && refused.errors.contains("cryptfs.fist has a filter of data"), "{refused:?}");
    assert_eq!(error(), Some(libc::EBUSY));
}

#[test]
fn another_description_takes_over_under_a_running_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (base, mount, description) = (scratch.path("base"), scratch.mount(), scratch.path("rules.fist"));
    fs::create_dir(&base).unwrap();
    fs::write(base.join("file"), "content").unwrap();
    let write = |rules: &str| fs::write(&description, format!("per_vfs {{ int count; }};\n%%\n{rules}\n")).unwrap();
    write("%op:mkdir:precall { $vfs.count++; fistRetErr(EPERM); }");
    run(["mount", &format!("{} | {}", base.display(), description.display()), &scratch.name("mount")]).succeeded();
    let mut open = fs::File::open(mount.join("file")).unwrap();
    assert_eq!(fs::create_dir(mount.join("new")).unwrap_err().raw_os_error(), Some(libc::EPERM));
    assert!(fs::metadata(mount.join("hidden")).is_err() && fs::metadata(mount.join("file")).is_ok());
    write(
        "%op:mkdir:precall { if ($vfs.count != 1) fistRetErr(EIO); }\n%op:lookup:precall { if (fistStrEq($name, \"file\")) fistRetErr(ENOENT); }",
    );
    let start = std::time::Instant::now();
    let answer = run(["fist", "reload", &scratch.name("mount")]).succeeded();
    println!("reloaded in {:?}", start.elapsed());
    assert_eq!(answer, "rules.fist is read again\n");
    fs::create_dir(mount.join("new")).unwrap();
    assert!(fs::metadata(mount.join("file")).is_err(), "the new rule hides it, cached or not");
    let mut content = String::new();
    std::io::Read::read_to_string(&mut open, &mut content).unwrap();
    assert_eq!(content, "content");
    for (rules, expected) in
        [("%op:mkdir { x", "the old one goes on"), ("%op:write:precall { }", "unmount, and mount it again")]
    {
        write(rules);
        let refused = run(["fist", "reload", &scratch.name("mount")]);
        assert!(refused.code == 1 && refused.errors.contains(expected), "{refused:?}");
    }
    fs::create_dir(mount.join("another")).unwrap();
    let unknown = run(["fist", "reload", &scratch.name("mount"), "other.fist"]);
    assert!(unknown.code == 2 && unknown.errors.contains("other.fist"), "{unknown:?}");
}

#[test]
fn a_description_that_is_wrong_is_told_with_its_lines_and_mounts_nothing() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("base")).unwrap();
    let (base, mount) = (scratch.name("base"), scratch.name("mount"));
    let description = scratch.name("wrong.fist");
    for (text, expected) in [
        (
            "%%\n%op:unlink {\n    x = 1;\n}\n%op:rmdir { return 1; }\n",
            &["error[F0202]", "wrong.fist:3:5", "error[F0203]", "wrong.fist:5"][..],
        ),
        ("fanout 2;\n%%\n", &["fanout 2"]),
        ("\u{0}", &["F0002"]),
    ] {
        fs::write(&description, text).unwrap();
        let failed = run(["mount", &format!("{base} | {description}"), &mount]);
        assert!(failed.code != 0 && expected.iter().all(|part| failed.errors.contains(part)), "{failed:?}");
        assert!(!support::is_mounted(&scratch.mount()));
    }
    let missing = run(["mount", &format!("{base} | {}", scratch.name("none.fist")), &mount]);
    assert!(missing.code != 0 && missing.errors.contains("none.fist"), "{missing:?}");
    let option = run(["mount", &format!("{base} | {}(size=1)", sample("quotafs.fist")), &mount]);
    assert!(option.code != 0 && option.errors.contains("limit"), "{option:?}");
    let value = run(["mount", &format!("{base} | {}(limit=much)", sample("quotafs.fist")), &mount]);
    assert!(value.code != 0 && value.errors.contains("a number"), "{value:?}");
}

//! `plyfs run`: a command in a fork, and what becomes of its changes.
//!
//! `RUN_SEED` replays a failure of the random test.

mod support;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fastrand::Rng;
use support::{Run, Scratch, can_mount, copy_program, finish, plyfs, wait_until};

/// A directory to be forked, beside one for the changes.
struct Scene {
    scratch: Scratch,
}

impl Scene {
    /// With these files, which hold their paths.
    fn with(paths: &[&str]) -> Self {
        let scene = Self { scratch: Scratch::new() };
        fs::create_dir(scene.base()).unwrap();
        for path in paths {
            let path = scene.base().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, path.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        scene
    }

    fn base(&self) -> PathBuf {
        self.scratch.path("base")
    }

    fn kept(&self) -> PathBuf {
        self.scratch.path("kept")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base().join(path)
    }

    /// What is said before the command starts.
    fn notice(&self) -> String {
        notice(&self.base())
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// `plyfs run` in the base.
    fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        let mut command = plyfs();
        command.arg("run").args(words).current_dir(self.base()).stdin(Stdio::null());
        command
    }

    fn run<S: AsRef<OsStr>>(&self, words: &[S]) -> Run {
        finish(self.command(words).output())
    }

    /// Runs shell commands in a fork of the base; what is to become of it is said by `how`.
    fn shell(&self, how: &str, script: &str) -> Run {
        let (base, kept) = (self.base(), self.kept());
        let fixed = ["--stack", base.to_str().unwrap(), "--scratch", kept.to_str().unwrap()];
        let how = how.split_whitespace();
        let words: Vec<&str> = fixed.into_iter().chain(how).chain(["--", "sh", "-c", script]).collect();
        self.run(&words)
    }

    /// Decides on what is kept.
    fn decide(&self, how: &str) -> Run {
        let kept = self.kept();
        let words: Vec<&str> =
            ["--scratch", kept.to_str().unwrap()].into_iter().chain(how.split_whitespace()).collect();
        self.run(&words)
    }

    /// The tree as it is.
    fn tree(&self) -> Vec<String> {
        tree(&finish(Command::new("sh").args(["-c", LIST]).current_dir(self.base()).output()).succeeded())
    }
}

/// What is said before a command starts in a fork of this directory.
fn notice(fork: &Path) -> String {
    format!("plyfs: only {} is forked: changes elsewhere are permanent\n", fork.display())
}

/// Prints a tree, with all that users see of it but access times.
const LIST: &str = r"
    find . -printf '%y %m %U:%G %T@ %n %i %s %l %p\n' | sort -k 9
    find . -type f | sort | xargs -d '\n' -r sha256sum
";

/// A tree as it was printed, without what differs between a fork and its base: numbers of inodes, but which are one, and
/// the sizes of directories and how many are in them.
fn tree(printed: &str) -> Vec<String> {
    let mut names = HashMap::new();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        if words.len() < 9 {
            return line.to_owned();
        }
        let is_directory = words[0] == "d";
        let first = names.entry(words[5].to_owned()).or_insert_with(|| words[8..].join(" ")).clone();
        let (links, number, size) = if is_directory { ("", String::new(), "") } else { (words[4], first, words[6]) };
        format!("{} {links} {number} {size} {}", words[..4].join(" "), words[7..].join(" "))
    };
    printed.lines().map(line).collect()
}

/// Without the times of directories, which who is killed may not have put back.
fn without_times(tree: &[String]) -> Vec<String> {
    let line = |line: &String| match line.strip_prefix("d ") {
        Some(_) => line.split(' ').enumerate().filter(|(index, _)| *index != 3).map(|(_, word)| word).collect(),
        None => line.clone(),
    };
    tree.iter().map(line).collect()
}

fn same(seen: &[String], found: &[String], when: &str) {
    let only_in = |one: &[String], other: &[String]| -> Vec<String> {
        one.iter().filter(|line| !other.contains(line)).cloned().collect()
    };
    let (missing, surplus) = (only_in(seen, found), only_in(found, seen));
    assert!(missing.is_empty() && surplus.is_empty(), "{when}:\nin the fork {missing:#?}\nin the base {surplus:#?}");
}

/// The process ends within some time.
fn code(child: &mut Child) -> Option<i32> {
    wait_until("the command ends", {
        let pid = child.id();
        move || !support::is_alive(pid)
    });
    child.wait().unwrap().code()
}

#[test]
fn changes_are_committed_discarded_or_kept() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f", "d/g", "gone"]);
    let script = "echo changed > f; rm gone; mkdir new; mv d moved; pwd; cat moved/g";
    let before = scene.tree();
    let discarded = scene.shell("--discard", script);
    assert_eq!((discarded.code, discarded.output), (0, format!("{}\ng", scene.base().display())));
    assert_eq!(discarded.errors, scene.notice() + "- d/\n~ f\n- gone\n+ moved/\n+ moved/g\n+ new/\n");
    same(&before, &scene.tree(), "discarded");
    assert!(!scene.kept().exists());
    let kept = scene.shell("", script);
    let path = scene.kept().display().to_string();
    assert!(
        kept.errors
            .ends_with(&format!("the changes are kept; to commit or discard them: plyfs run --scratch {path}\n"))
    );
    same(&before, &scene.tree(), "kept");
    let shown = scene.decide("--keep --json");
    assert!(shown.output.contains(r#"{"change":"deleted","kind":"regular","path":"gone"}"#), "{shown:?}");
    let more = finish(
        plyfs()
            .args(["run", "--scratch", &path, "--keep", "--", "sh", "-c"])
            .arg(format!("cat {0}/f; echo more >> {0}/moved/g", scene.base().display()))
            .current_dir(scene.base())
            .output(),
    );
    assert_eq!((more.code, more.output.as_str()), (0, "changed\n"));
    assert_eq!(scene.decide("--commit").code, 0);
    assert_eq!((scene.read("f"), scene.read("moved/g")), ("changed\n".into(), "gmore\n".into()));
    assert!(!scene.at("gone").exists() && !scene.at("d").exists() && scene.at("new").is_dir());
    assert!(!scene.kept().exists());
    let committed = scene.shell("--commit", "rm -r moved");
    assert_eq!((committed.code, scene.at("moved").exists()), (0, false));
}

#[test]
fn a_command_that_fails_is_not_committed() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let failed = scene.shell("--commit", "echo changed > f; exit 3");
    assert_eq!((failed.code, scene.read("f").as_str()), (3, "f"));
    assert!(failed.errors.contains("the command has failed, so its changes are not committed"), "{failed:?}");
    assert_eq!(scene.decide("--discard").code, 0);
    assert!(!scene.kept().exists());
}

#[test]
fn codes_tell_how_the_command_ended_or_that_it_could_not_be_started() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["text"]);
    let run = |words: &[&str]| scene.run(&[&["--discard", "--"], words].concat());
    for (words, expected) in [
        (vec!["true"], 0),
        (vec!["sh", "-c", "exit 7"], 7),
        (vec!["sh", "-c", "exit 125"], 125),
        (vec!["sh", "-c", "kill -KILL $$"], 128 + 9),
        (vec!["sh", "-c", "kill -TERM $$"], 128 + 15),
        (vec!["no-such-command"], 127),
        (vec!["./text"], 126),
        (vec!["./no-such-file"], 127),
    ] {
        let ended = run(&words);
        assert_eq!(ended.code, expected, "{words:?}: {ended:?}");
        assert_eq!(ended.errors == scene.notice(), !matches!(expected, 126 | 127), "{words:?}: {ended:?}");
    }
}

#[test]
fn wrong_calls_tell_what_is_wrong_and_leave_nothing() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["d/f"]);
    let (base, within) = (scene.scratch.name("base"), scene.scratch.name("base/d/scratch"));
    let (kept, other) = (scene.scratch.name("kept"), scene.scratch.name("mount"));
    for (words, expected) in [
        (vec![], "there is no command to run"),
        (vec!["--scratch", &kept], "there is no fork in"),
        (vec!["--scratch", &base, "--", "true"], "is not empty and contains no fork"),
        (vec!["--scratch", &within, "--", "true"], "lies within"),
        (vec!["--stack", "/no/such", "--", "true"], "there is no directory `/no/such`"),
        (vec!["--stack", "mem:", "--", "true"], "give the mount point of the fork with --at DIR"),
        (vec!["--stack", "mem:", "--at", "/no/such", "--", "true"], "cannot use /no/such"),
        (
            vec!["--stack", &other, "--discard", "--", "true"],
            &format!(
                "plyfs: the current directory {base} is not in the fork of {other}, so changes in it would be permanent; \
                 change to {other}, or fork everything with --stack /\n"
            ),
        ),
        (vec!["--stack", "/tmp | no-such", "--", "true"], "there is no layer 'no-such'"),
        (vec!["--commit", "--discard", "--", "true"], "cannot be used with"),
        (vec!["--no-such-option", "--", "true"], "unexpected argument"),
    ] {
        let refused = scene.run(&words);
        assert_eq!(refused.code, 125, "{words:?}: {refused:?}");
        assert!(refused.errors.contains(expected), "{words:?}: {refused:?}");
        assert!(!scene.kept().exists() && !Path::new(&within).exists(), "{words:?}");
    }
    assert_eq!(scene.shell("--keep", "touch n").code, 0);
    let elsewhere = scene.run(&["--scratch", &kept, "--stack", &other, "--", "true"]);
    assert!(elsewhere.code == 125 && elsewhere.errors.contains("has a fork of"), "{elsewhere:?}");
    std::os::unix::fs::chown(scene.kept().join("fork.json"), Some(1234), None).unwrap();
    let strange = scene.decide("--commit");
    assert!(strange.code == 125 && strange.errors.contains("belongs to another user"), "{strange:?}");
    let without =
        finish(plyfs().args(["run", "--stack", &other, "--discard", "--", "true"]).current_dir(&other).output());
    assert_eq!((without.code, without.errors), (0, notice(Path::new(&other))), "another directory");
}

/// What a user without privileges gets from a shell command, and whether it succeeds.
fn as_user(script: &str) -> (bool, String) {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "61234", "--regid", "61234", "--clear-groups", "sh", "-c", script]);
    let output = command.current_dir("/").output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Whatever the umask of the caller is, and whatever is forked: here the directory of a user.
#[test]
fn others_can_neither_change_nor_read_a_fork_that_is_kept() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f", "g"]);
    std::os::unix::fs::chown(scene.base(), Some(61_234), Some(61_234)).unwrap();
    let kept = scene.scratch.name("kept");
    fs::create_dir(&kept).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o755)).unwrap();
    let (base, program) = (scene.scratch.name("base"), env!("CARGO_BIN_EXE_plyfs"));
    let script = format!("umask 0; exec {program} run --stack {base} --scratch {kept} --keep -- sh -c 'echo new > f'");
    let begun = finish(Command::new("sh").args(["-c", &script]).current_dir(&base).output());
    assert_eq!(begun.code, 0, "{begun:?}");
    assert_eq!((mode(&scene.kept()), mode(&scene.kept().join("fork.json"))), (0o700, 0o600));
    for attempt in ["echo x >> fork.json", "cat fork.json", "echo x > changes/planted", "mv changes other", "rm -f *"] {
        assert!(!as_user(&format!("cd {kept} && {attempt}")).0, "{attempt}");
    }
    assert_eq!(scene.decide("--commit").code, 0);
    assert_eq!((scene.read("f").as_str(), scene.at("planted").exists()), ("new\n", false));
}

#[test]
fn what_others_may_have_changed_is_not_committed() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let (base, kept) = (scene.scratch.name("base"), scene.kept());
    let refused = |words: &[&str], message: &str, case: &str| {
        let path = kept.to_str().unwrap();
        let refused = scene.run(&[&["--scratch", path], words].concat());
        assert_eq!(refused.code, 125, "{case}: {refused:?}");
        assert!(refused.errors.contains(message), "{case}: {refused:?}");
        assert_eq!(scene.read("f"), "f", "{case}");
    };
    let begin = ["--stack", &base, "--keep", "--", "sh", "-c", "echo new > f"];
    let owner = |path: &Path, user| std::os::unix::fs::chown(path, Some(user), None).unwrap();
    let permit = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    // Before it begins.
    fs::create_dir(&kept).unwrap();
    owner(&kept, 61_234);
    refused(&begin, "belongs to another user", "an empty directory of another user");
    owner(&kept, 0);
    permit(&kept, 0o777);
    refused(&begin, "other users have access to", "an empty directory that others may write in");
    assert_eq!((mode(&kept), fs::read_dir(&kept).unwrap().count()), (0o777, 0), "it stays as it was");
    permit(&kept, 0o755);
    // Once it is kept.
    assert_eq!(scene.run(&[&["--scratch", kept.to_str().unwrap()], &begin[..]].concat()).code, 0);
    let description = kept.join("fork.json");
    permit(&description, 0o666);
    refused(&["--commit"], "fork.json", "a description that others may write");
    permit(&description, 0o600);
    permit(&kept, 0o755);
    refused(&["--commit"], "other users have access to", "a directory that others may search");
    permit(&kept, 0o700);
    owner(&kept, 61_234);
    refused(&["--commit"], "belongs to another user", "a directory that has become another user's");
    // A user's own, in which the removal of a fork was stopped.
    fs::rename(&description, kept.join("removed.json")).unwrap();
    refused(&["--commit"], "belongs to another user", "a removal of another user's");
    assert!(kept.join("changes").exists());
    fs::rename(kept.join("removed.json"), &description).unwrap();
    owner(&kept, 0);
    assert_eq!((scene.decide("--commit").code, scene.read("f").as_str()), (0, "new\n"));
}

#[test]
fn signals_reach_the_command_and_nothing_stays_mounted() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let ready = scene.scratch.path("ready");
    let script = format!("trap 'echo got it; exit 9' TERM; echo > {}; while :; do sleep 0.05; done", ready.display());
    let mut child = scene
        .command(&["--discard", "--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the command runs", || ready.exists());
    assert!(!support::is_mounted(&scene.base()), "the mount is in a name space of its own");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(code(&mut child), Some(9));
    assert_eq!(std::io::read_to_string(child.stdout.take().unwrap()).unwrap(), "got it\n");
}

/// Umask, limits, and which signals are ignored or blocked are as without `plyfs run`.
#[test]
fn the_command_inherits_everything() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let shown = "umask; ulimit -n; ulimit -Hn; ulimit -f; ulimit -Hf; echo > new; mkdir -p directory";
    let prepare = "umask 027; ulimit -Sn 300; ulimit -Hn 2000; ulimit -Sf 3000; ulimit -Hf 4000; exec \"$@\"";
    let run = |command: &[&str]| {
        let mut process = Command::new("sh");
        process.args(["-c", prepare, "sh"]).args(command).args(["sh", "-c", shown]);
        finish(process.current_dir(scene.base()).output())
    };
    let without = run(&[]);
    let modes = || ["new", "directory"].map(|name| fs::metadata(scene.at(name)).unwrap().mode() & 0o777);
    assert_eq!((without.code, modes()), (0, [0o640, 0o750]), "{without:?}");
    fs::remove_file(scene.at("new")).unwrap();
    fs::remove_dir(scene.at("directory")).unwrap();
    let with = run(&[env!("CARGO_BIN_EXE_plyfs"), "run", "--commit", "--"]);
    assert_eq!((with.code, &with.output), (0, &without.output), "{with:?}");
    assert_eq!(modes(), [0o640, 0o750]);
    let chosen = ["--ignore-signal=HUP,USR1,PIPE,URG", "--block-signal=USR2,WINCH"];
    for chosen in [&[][..], &chosen] {
        let signals = |command: &[&str]| {
            let mut process = Command::new("env");
            process.args(chosen).args(command).args(["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"]);
            signals(&finish(process.current_dir(scene.base()).output()).output)
        };
        let without = signals(&[]);
        let expected = if chosen.is_empty() { 0 } else { 6 };
        assert!(without.iter().map(|set| set.count_ones()).sum::<u32>() >= expected, "{without:x?}");
        assert_eq!(signals(&[env!("CARGO_BIN_EXE_plyfs"), "run", "--discard", "--"]), without, "{chosen:?}");
    }
}

/// The sets of signals in lines of proc(5), without the two that the C library keeps for itself.
fn signals(lines: &str) -> Vec<u64> {
    let set = |line: &str| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
    lines.lines().map(|line| set(line) & !(0b11 << 31)).collect()
}

/// What lies outside the fork is said first: before the command does anything.
#[test]
fn what_is_not_forked_is_said_before_the_command_starts() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let outside = scene.scratch.name("mount");
    let script = format!("echo begun >&2; echo installed > {outside}/file; echo here > f");
    let ended = scene.run(&["--discard", "--", "sh", "-c", &script]);
    assert_eq!((ended.code, ended.errors), (0, scene.notice() + "begun\n~ f\n"));
    assert_eq!(fs::read_to_string(scene.scratch.path("mount/file")).unwrap(), "installed\n");
    fs::remove_file(scene.scratch.path("mount/file")).unwrap();
    let whole = scene.run(&["--stack", "/", "--discard", "--", "sh", "-c", &script]);
    let (outside, base) = (outside.trim_start_matches('/'), scene.scratch.name("base"));
    let base = base.trim_start_matches('/');
    assert_eq!((whole.code, whole.errors), (0, format!("begun\n~ {base}/f\n+ {outside}/file\n")));
    assert!(!scene.scratch.path("mount/file").exists());
}

/// In a mount name space of its own, with a FUSE file system in the directory whose server never reads a request.
#[test]
fn a_mount_that_does_not_answer_is_not_waited_for() {
    if !can_mount() {
        return;
    }
    const SCRIPT: &str = r#"
        exec 3<>/dev/fuse
        mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0,allow_other never "$1/silent" || exit 99
        shift
        exec timeout --signal KILL 30 "$@"
    "#;
    let scene = Scene::with(&["f", "silent/below", "directory/inner"]);
    let base = scene.scratch.name("base");
    let script = "echo new > f; rm directory/inner; echo other > directory/added";
    let run = scene.command(&["--stack", &base, "--commit", "--", "sh", "-c", script]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh", &base]);
    command.arg(run.get_program()).args(run.get_args()).current_dir(scene.base()).stdin(Stdio::null());
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{:?} {said}", ended.status);
    assert_eq!(said, scene.notice() + "+ directory/added\n- directory/inner\n~ f\n");
    assert_eq!((scene.read("f"), scene.read("directory/added")), ("new\n".to_owned(), "other\n".to_owned()));
}

#[test]
fn a_fork_is_used_by_one_command_at_a_time() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    assert_eq!(scene.shell("--keep", "echo first > f").code, 0);
    let kept = scene.scratch.name("kept");
    let ready = scene.scratch.path("ready");
    let script = format!("touch {}; sleep 1; echo second > f", ready.display());
    let mut running = scene
        .command(&["--scratch", &kept, "--keep", "--", "sh", "-c", &script])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the command runs", || ready.exists());
    for words in [&["--commit"][..], &["--discard"], &["--keep"], &["--keep", "--", "true"]] {
        let refused = scene.run(&[&["--scratch", &kept], words].concat());
        assert_eq!(refused.code, 125, "{words:?}: {refused:?}");
        assert!(refused.errors.contains("another command is using the fork"), "{words:?}: {refused:?}");
    }
    assert_eq!(code(&mut running), Some(0));
    assert_eq!((scene.decide("--commit").code, scene.read("f").as_str()), (0, "second\n"));
}

#[test]
fn processes_that_stay_behind_lose_the_fork() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let script = "echo now > f; (exec > /dev/null 2>&1; sleep 1; echo late > f; echo late > g) &";
    assert_eq!(scene.shell("--commit", script).code, 0);
    assert_eq!(scene.read("f"), "now\n");
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!((scene.read("f").as_str(), scene.at("g").exists()), ("now\n", false));
}

/// What is left behind may see the fork where it is not taken away, or have files of it open that the kernel writes by itself.
#[test]
fn a_fork_that_processes_can_go_on_changing_is_kept() {
    if !can_mount() {
        return;
    }
    let holds = ["exec unshare -m sleep 15", "exec sleep 15 >> f"];
    for hold in holds {
        let scene = Scene::with(&["f"]);
        let script = format!("echo now > f; (exec > /dev/null 2>&1; {hold}) & sleep 0.5; echo $! > pid");
        let left = scene.shell("--commit", &script);
        let seen = scene.read("f");
        let pid: i32 = fs::read_to_string(scene.kept().join("changes/pid")).unwrap().trim().parse().unwrap();
        let process = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        assert!(left.errors.contains("processes started by the command still use the fork"), "{hold}: {left:?}");
        assert_eq!((left.code, seen.as_str()), (0, "f"), "{hold}: {left:?}");
        assert_eq!((scene.decide("--commit").code, scene.read("f").as_str()), (0, "now\n"), "{hold}");
    }
}

/// What is committed is shown: also rights of the root, and data with the size and the time that they had.
#[test]
fn whatever_a_commit_would_change_is_shown() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["program", "d/f"]);
    let before = mode(&scene.base());
    let kept =
        scene.shell("--keep", "chmod 700 .; touch -r program ../t; printf PROGRAM > program; touch -r ../t program");
    assert!(kept.errors.starts_with(&(scene.notice() + "~ .\n~ program\n")), "{kept:?}");
    assert_eq!(scene.decide("--discard").code, 0);
    assert_eq!((mode(&scene.base()), scene.read("program").as_str()), (before, "program"));
    // Nothing is thrown away unasked.
    let asked = scene.shell("", "chmod 700 .");
    assert!(asked.errors.contains("the changes are kept"), "{asked:?}");
    assert_eq!((scene.decide("--commit").code, mode(&scene.base()) & 0o777), (0, 0o700));
    let unchanged = scene.shell("", "cat program > /dev/null; exec 3>> program; chmod 644 d/f");
    assert_eq!(unchanged.errors, scene.notice());
    assert!(!scene.kept().exists());
}

/// As of who is started by a program that ignores the ends of its children.
#[test]
fn changes_are_kept_where_ends_of_children_are_ignored() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let program = env!("CARGO_BIN_EXE_plyfs");
    let kept = scene.kept().display().to_string();
    let script = format!("trap '' CHLD; exec {program} run --scratch {kept} --keep -- sh -c 'echo now > f; exit 3'");
    let run = finish(Command::new("sh").args(["-c", &script]).current_dir(scene.base()).output());
    assert_eq!(run.code, 3, "{run:?}");
    assert_eq!((scene.decide("--commit").code, scene.read("f").as_str()), (0, "now\n"));
}

/// A file system that is mounted for a test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Ramfs has no extended attributes.
#[test]
fn what_the_stack_does_not_keep_is_named_and_stays_in_the_fork() {
    if !can_mount() {
        return;
    }
    for force in ["", " --force"] {
        let scene = Scene::with(&[]);
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", scene.base(), "ramfs", flags, c"").unwrap();
        let _mounted = Mounted(scene.base());
        assert_eq!(
            scene.shell("--keep", "mkdir d; echo text > d/f; setfattr -n user.kept -v value d/f; echo > g").code,
            0
        );
        let committed = scene.decide(&format!("--commit{force}"));
        let named = "/d/f was committed without metadata that the stack cannot store: attributes\n";
        assert!(committed.errors.contains(named), "{committed:?}");
        assert_eq!((scene.read("d/f").as_str(), scene.read("g").as_str()), ("text\n", "\n"));
        assert_eq!((committed.code, scene.kept().exists()), if force.is_empty() { (125, true) } else { (0, false) });
        if force.is_empty() {
            assert!(committed.errors.contains("the fork, which has it, is kept"), "{committed:?}");
            assert_eq!(scene.decide("--discard").code, 0);
            assert_eq!((scene.read("d/f").as_str(), scene.kept().exists()), ("text\n", false));
        }
    }
}

/// Where a commit stops between taking a directory away and bringing it to its place, the fork alone knows whose it is.
#[test]
fn directories_on_their_way_are_not_discarded() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["d/f", "e/g"]);
    let stack = format!("{} | faulty(operations=rename, from=2, times=1, error=EIO)", scene.base().display());
    let run = |words: &[&str]| {
        let mut command = plyfs();
        command.args(["run", "--scratch"]).arg(scene.kept()).args(words).current_dir(scene.base());
        finish(command.stdin(Stdio::null()).output())
    };
    let moved = run(&["--stack", &stack, "--keep", "--", "sh", "-c", "mv d t; mv e d; mv t e"]);
    assert_eq!(moved.code, 0, "{moved:?}");
    let stopped = run(&["--commit"]);
    assert_eq!(stopped.code, 125, "{stopped:?}");
    assert!(!scene.at("d/f").exists() && !scene.at("e/f").exists(), "it is on its way: {stopped:?}");
    for words in [&["--discard"][..], &["--", "true"]] {
        let refused = run(words);
        assert_eq!(refused.code, 125, "{refused:?}");
        assert!(refused.errors.contains("to complete it: plyfs run --scratch"), "{refused:?}");
    }
    let is_done = (0..5).any(|_| run(&["--commit"]).code == 0);
    assert!(is_done && !scene.kept().exists());
    assert_eq!((scene.read("e/f").as_str(), scene.read("d/g").as_str()), ("f", "g"));
}

#[test]
fn what_others_have_changed_is_named_and_nothing_is_committed() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f", "g", "h", "d/x"]);
    assert_eq!(scene.shell("--keep", "echo fork > f; rm h; rm -r d; echo fork > new").code, 0);
    fs::write(scene.at("f"), "others").unwrap();
    fs::write(scene.at("g"), "others").unwrap();
    fs::write(scene.at("d/y"), "others").unwrap();
    fs::write(scene.at("new"), "others").unwrap();
    let before = scene.tree();
    let refused = scene.decide("--commit");
    assert_eq!(refused.code, 125);
    for line in ["/d/y was changed by others", "/f was changed by others", "/new was changed by others", "--force"] {
        assert!(refused.errors.contains(line), "{line}: {refused:?}");
    }
    assert!(!refused.errors.contains("/g was") && !refused.errors.contains("/h was"), "{refused:?}");
    same(&before, &scene.tree(), "with conflicts");
    assert_eq!(scene.decide("--commit --force").code, 0);
    assert_eq!(
        (scene.read("f"), scene.read("g"), scene.read("new")),
        ("fork\n".into(), "others".into(), "fork\n".into())
    );
    assert!(!scene.at("h").exists() && !scene.at("d").exists());
}

#[test]
fn a_commit_goes_through_the_layers_of_the_stack() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let stack = format!("{} | rot13", scene.base().display());
    let committed = scene.run(&["--stack", &stack, "--commit", "--", "sh", "-c", "cat f; echo hello > g"]);
    assert_eq!((committed.code, committed.output.as_str()), (0, "s"));
    assert_eq!(scene.read("g"), "uryyb\n");
    let kept = scene.scratch.name("kept");
    let stack = format!("{} | readonly", scene.base().display());
    let refused = scene.run(&["--stack", &stack, "--commit", "--scratch", &kept, "--", "sh", "-c", "echo > n"]);
    assert_eq!(refused.code, 125);
    assert!(
        refused.errors.contains("cannot commit /") && refused.errors.contains("nothing is committed"),
        "{refused:?}"
    );
    assert!(scene.kept().exists() && !scene.at("n").exists());
}

#[test]
fn a_union_is_forked_and_takes_the_commit_where_it_writes() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f", "d/g", "t"]);
    fs::create_dir(scene.scratch.path("upper")).unwrap();
    let (upper, base, mount) = (scene.scratch.name("upper"), scene.scratch.name("base"), scene.scratch.name("mount"));
    let stack = format!("{upper}=rw, {base}=ro | union");
    let script = format!("cd {mount}; echo more >> f; mv d e; rm t; mkdir t; echo new > t/n");
    let before = scene.tree();
    let words = ["--stack", &stack, "--at", &mount, "--commit", "--", "sh", "-c", &script];
    let ended = finish(scene.command(&words).current_dir(&mount).output());
    assert_eq!(ended.code, 0, "{ended:?}");
    same(&before, &scene.tree(), "the branch that is only read");
    let shown = finish(plyfs().args(["shell", &stack, "-c", "cat f; cat e/g; cat t/n"]).output());
    assert_eq!(shown.succeeded(), "fmore\ngnew\n");
    assert_eq!(support::run(["union", "check", &stack]).succeeded(), "");
}

#[test]
fn a_fork_is_seen_elsewhere_if_asked() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let (base, mount) = (scene.scratch.name("base"), scene.scratch.name("mount"));
    let script = format!("echo fork > {mount}/f; cat {base}/f; echo late > {base}/g");
    let words = ["--stack", &base, "--at", &mount, "--commit", "--", "sh", "-c", &script];
    let ended = finish(scene.command(&words).current_dir(&mount).output());
    assert_eq!((ended.code, ended.output.as_str()), (0, "f"));
    assert_eq!((scene.read("f"), scene.read("g")), ("fork\n".into(), "late\n".into()));
    assert_eq!(fs::read_dir(&mount).unwrap().count(), 0);
}

#[test]
fn everything_that_replaces_something_is_committed() {
    if !can_mount() {
        return;
    }
    let scene =
        Scene::with(&["file", "dir/a/b", "gone/x", "again/old", "again/sub/old", "swap1/1", "swap2/2", "one", "h1"]);
    fs::hard_link(scene.at("h1"), scene.at("dir/h2")).unwrap();
    symlink("one", scene.at("link")).unwrap();
    fs::set_permissions(scene.at("one"), fs::Permissions::from_mode(0o4711)).unwrap();
    let script = format!(
        "set -e
        rm file; mkdir file; echo x > file/x
        rm -r dir/a; echo file > dir/a
        rm -r gone
        rm -r again; mkdir again; echo new > again/new; mkdir again/sub; chmod 2750 again/sub
        mv swap1 t; mv swap2 swap1; mv t swap2; mkdir deep; mv swap2 deep/swap2; echo 3 > deep/swap2/3
        echo more >> h1; ln h1 h3; ln one one-too; touch -d 2001-02-03 one
        ln -sfn dir link; mkfifo pipe; mknod null c 1 3; chown 12:34 null
        truncate -s 1M hole; echo end >> hole; mv file renamed; : > '.wh.name'
        {LIST}"
    );
    let kept = scene.shell("--keep", &script);
    assert_eq!(kept.code, 0, "{kept:?}");
    assert_eq!(scene.decide("--commit").code, 0);
    same(&tree(&kept.output), &scene.tree(), "committed");
    assert!(fs::metadata(scene.at("hole")).unwrap().blocks() < 256, "the hole stays");
    assert_eq!(fs::metadata(scene.at("dir/h2")).unwrap().nlink(), 3);
}

/// Shell commands that mostly can be done, on a few names.
fn random_script(random: &mut Rng, steps: usize) -> String {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e e"];
    let path = |random: &mut Rng| {
        let depth = random.usize(1..4);
        let parts: Vec<&str> = (0..depth).map(|_| NAMES[random.usize(..NAMES.len())]).collect();
        format!("'{}'", parts.join("/"))
    };
    let mut script = String::from("exec 2> /dev/null\n");
    for step in 0..steps {
        let (one, other) = (path(random), path(random));
        script += &match random.u8(..14) {
            0..=2 => format!("mkdir {one}\n"),
            3..=4 => format!("echo {step} > {one}\n"),
            5 => format!("echo {step} >> {one}\n"),
            6..=8 => format!("mv -T {one} {other}\n"),
            9 => format!("ln {one} {other}\n"),
            10 => format!("rm -r {one}\n"),
            11 => format!("chmod {:o} {one}\n", 0o700 | random.u32(..0o100)),
            12 => format!("ln -s {step} {one}; chown -h {}:7 {one}\n", random.u32(..9)),
            _ => format!("mkdir -p {one}; touch -d @{} {one}\n", random.u32(..)),
        };
    }
    script
}

#[test]
fn whatever_is_done_is_committed_also_by_commits_that_are_killed() {
    if !can_mount() {
        return;
    }
    let given = std::env::var("RUN_SEED").ok().and_then(|seed| seed.parse().ok());
    let first = given.unwrap_or_else(|| fastrand::u64(..1 << 32));
    for seed in first..first + if given.is_some() { 1 } else { 8 } {
        println!("RUN_SEED={seed}");
        let mut random = Rng::with_seed(seed);
        let scene = Scene::with(&["a/b/c", "b/a", "c", "d/d/d"]);
        let before = random_script(&mut random, 60);
        finish(Command::new("sh").args(["-c", &before]).current_dir(scene.base()).output());
        let script = format!("{}{LIST}", random_script(&mut random, 60));
        let kept = scene.shell("--keep", &script);
        assert_eq!(kept.code, 0, "RUN_SEED={seed}: {kept:?}");
        let seen = tree(&kept.output);
        let path = scene.kept();
        for _ in 0..10 {
            let mut commit = plyfs()
                .args([OsStr::new("run"), OsStr::new("--scratch"), path.as_os_str(), OsStr::new("--commit")])
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(random.u64(..60)));
            commit.kill().unwrap();
            commit.wait().unwrap();
        }
        let committed = if path.join("fork.json").exists() { Some(scene.decide("--commit")) } else { None };
        assert!(committed.as_ref().is_none_or(|run| run.code == 0), "RUN_SEED={seed}: {committed:?}");
        same(&without_times(&seen), &without_times(&scene.tree()), &format!("RUN_SEED={seed}"));
    }
}

#[test]
fn on_a_terminal_it_is_asked() {
    if !can_mount() || !Path::new("/usr/bin/script").exists() {
        eprintln!("skipped: needs script(1)");
        return;
    }
    for (answers, is_committed, is_kept) in
        [("x\\nc\\n", true, false), ("discard\\n", false, false), ("k\\n", false, true)]
    {
        let scene = Scene::with(&["f"]);
        let (base, kept) = (scene.scratch.name("base"), scene.scratch.name("kept"));
        let command =
            format!("{} run --stack {base} --scratch {kept} -- touch {base}/new", env!("CARGO_BIN_EXE_plyfs"));
        let typed = format!("(sleep 1; printf '{answers}'; sleep 1) | script -qec '{command}' /dev/null");
        let asked = finish(Command::new("sh").args(["-c", &typed]).current_dir(&base).output());
        assert!(asked.output.contains("commit, discard or keep them?"), "{asked:?}");
        assert_eq!((scene.at("new").exists(), scene.kept().exists()), (is_committed, is_kept), "{asked:?}");
    }
}

#[test]
fn the_whole_tree_can_be_forked() {
    if !can_mount() {
        return;
    }
    let scene = Scene::with(&["f"]);
    let kept = scene.scratch.name("kept");
    let script = format!(
        "set -e; pwd; echo new > n; rm f; test -d /proc/$$; : > /dev/null; test ! -e {kept}/changes
        echo no > /plyfs-test-of-a-fork; cat /plyfs-test-of-a-fork; rm /plyfs-test-of-a-fork"
    );
    let run = scene.run(&["--stack", "/", "--scratch", &kept, "--keep", "--", "sh", "-c", &script]);
    assert_eq!((run.code, run.output), (0, format!("{}\nno\n", scene.base().display())), "{}", run.errors);
    assert!(scene.at("f").exists() && !scene.at("n").exists() && !Path::new("/plyfs-test-of-a-fork").exists());
    let base = scene.scratch.name("base");
    let base = base.strip_prefix('/').unwrap();
    let shown = scene.decide("--commit");
    assert_eq!((shown.code, shown.errors), (0, format!("- {base}/f\n+ {base}/n\n")));
    assert_eq!((scene.at("f").exists(), scene.read("n").as_str()), (false, "new\n"));
}

/// A user who may make name spaces needs no other rights.
#[test]
fn users_have_forks_of_their_own() {
    if !can_mount() || !Path::new("/usr/bin/setpriv").exists() {
        eprintln!("skipped: needs setpriv(1)");
        return;
    }
    let scene = Scene::with(&["f", "d/g", "h"]);
    let path = |name: &str| scene.scratch.name(name);
    copy_program(env!("CARGO_BIN_EXE_plyfs"), path("plyfs"));
    fs::create_dir(scene.kept()).unwrap();
    fs::create_dir(path("device")).unwrap();
    // Where users may not open /dev/fuse, one that they may open takes its place.
    let script = format!(
        "chown -R 1234:1234 {base} {kept} && mount --make-rprivate / && mount -t tmpfs none {place} &&
        mknod -m 666 {place}/fuse c 10 229 && mount --bind {place}/fuse /dev/fuse && cd {base} &&
        setpriv --reuid 1234 --regid 1234 --clear-groups {plyfs} run --scratch {kept} --commit -- \\
            sh -c 'id -u; id -g; echo more >> f; ln f l; mv d e; rm h; ln -s f s; stat -c %u:%g f'",
        base = path("base"),
        kept = path("kept"),
        place = path("device"),
        plyfs = path("plyfs"),
    );
    let as_user = |script: &str| finish(Command::new("unshare").args(["--mount", "sh", "-c", script]).output());
    let ended = as_user(&script);
    if ended.errors.contains("does not let users create user namespaces") {
        eprintln!("skipped: {}", ended.errors);
        return;
    }
    assert_eq!((ended.code, ended.output.as_str()), (0, "1234\n1234\n1234:1234\n"), "{ended:?}");
    assert_eq!((scene.read("f"), scene.read("e/g")), ("fmore\n".into(), "g".into()));
    let attributes = |name: &str| fs::symlink_metadata(scene.at(name)).unwrap();
    assert_eq!(
        (attributes("f").ino(), attributes("l").nlink(), attributes("s").uid()),
        (attributes("l").ino(), 2, 1234)
    );
    assert!(!scene.at("h").exists() && !scene.at("d").exists());
    let outside = as_user(&format!(
        "cd / && setpriv --reuid 1234 --regid 1234 --clear-groups {} run --stack {} --discard -- true",
        path("plyfs"),
        path("base")
    ));
    let message = format!("so changes in it would be permanent; change to {}\n", path("base"));
    assert!(outside.code == 125 && outside.errors.ends_with(&message), "{outside:?}");
    let others = as_user(&format!(
        "cd /usr && setpriv --reuid 1234 --regid 1234 --clear-groups {} run --scratch {} --discard -- true",
        path("plyfs"),
        path("kept")
    ));
    assert!(others.code == 125 && others.errors.contains("belongs to another user"), "{others:?}");
}

/// A user's name space has no number for others, whom lists name all the same.
#[test]
fn files_whose_lists_name_others_can_be_changed_in_a_users_fork() {
    if !can_mount() || !Path::new("/usr/bin/setpriv").exists() || !Path::new("/usr/bin/setfacl").exists() {
        eprintln!("skipped: needs setpriv(1) and setfacl(1)");
        return;
    }
    let scene = Scene::with(&["f", "g", "d/old"]);
    let path = |name: &str| scene.scratch.name(name);
    copy_program(env!("CARGO_BIN_EXE_plyfs"), path("plyfs"));
    fs::create_dir(path("device")).unwrap();
    let shell = |script: &str| finish(Command::new("sh").args(["-c", script]).current_dir(scene.base()).output());
    shell(&format!(
        "set -e; mkdir {kept}; setfacl -m u:4321:rw,u:1234:r f g; setfacl -m u:4321:rwx,d:u:4321:rwx d
        chown -R 1234:1234 . {kept}",
        kept = path("kept")
    ))
    .succeeded();
    let lists = |names: &str| shell(&format!("getfacl -pcn {names}")).succeeded();
    let run_with = |start: &str, how: &str, script: &str| {
        let script = format!(
            "mount --make-rprivate / && mount -t tmpfs none {place} && mknod -m 666 {place}/fuse c 10 229 &&
            mount --bind {place}/fuse /dev/fuse && cd {base} && setpriv --reuid 1234 --regid 1234 --clear-groups \\
                {start} {plyfs} run --scratch {kept} {how} {script}",
            place = path("device"),
            base = path("base"),
            plyfs = path("plyfs"),
            kept = path("kept"),
        );
        finish(Command::new("unshare").args(["--mount", "sh", "-c", &script]).output())
    };
    let run = |how: &str, script: &str| run_with("", how, script);
    let (of_files, of_directory) = (lists("f g"), lists("d"));
    // What is only read, in a directory that changes, keeps its list; so does what comes to be there.
    let ended =
        run("--commit", "-- sh -c 'cat f; getfacl -pcn f | grep -c user:; echo new > d/new; rm d/old; chmod 700 d'");
    if ended.errors.contains("does not let users create user namespaces") {
        eprintln!("skipped: {}", ended.errors);
        return;
    }
    assert_eq!((ended.code, ended.output.as_str()), (0, "f2\n"), "{ended:?}");
    assert_eq!(lists("f g"), of_files);
    assert!(of_directory.contains("default:user:4321:rwx") && lists("d").contains("default:user:4321:rwx"));
    assert!(lists("d").contains("\nuser:4321:rwx") && lists("d").contains("\nmask::---"), "{}", lists("d"));
    let new = lists("d/new");
    assert!(new.contains("user:4321:rwx") && new.contains("mask::rw-"), "{new}");

    // Root of a container has no more numbers.
    let start = "unshare --user --map-root-user --mount";
    let contained = run_with(start, "--discard", "-- sh -c 'echo more >> f; cat f'");
    assert_eq!((contained.code, contained.output.as_str()), (0, "fmore\n"), "{contained:?}");

    // To commit another file in the place of one would take from others what they have.
    let refused = run("--commit", "-- sh -c 'echo more >> f; chmod 640 g; mv g moved'");
    assert_eq!((refused.code, scene.read("f").as_str()), (125, "f"), "{refused:?}");
    for line in ["plyfs: /f has an access", "plyfs: /moved has an access", "nothing is committed; the fork is kept; "] {
        assert!(refused.errors.contains(line), "{line}: {refused:?}");
    }
    assert_eq!(lists("f g"), of_files);
    let forced = run("--commit --force", "");
    assert_eq!((forced.code, scene.read("f").as_str()), (0, "fmore\n"), "{forced:?}");
    let left = lists("f moved");
    assert!(!left.contains("4321") && left.matches("user:1234:r--").count() == 2, "{left}");
    assert!(!scene.at("g").exists() && fs::read_dir(scene.kept()).unwrap().next().is_none());
}

/// With a full standard output, the changes cannot be shown: they are discarded if that is requested, and otherwise kept, not
/// committed.
#[test]
fn changes_that_cannot_be_shown_are_not_committed() {
    if !can_mount() {
        return;
    }
    for (how, is_kept) in [("--commit", true), ("--keep", true), ("--discard", false)] {
        let scene = Scene::with(&["a"]);
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let kept = scene.kept().display().to_string();
        let words = ["--json", how, "--scratch", &kept, "--", "sh", "-c", "echo new > b"];
        let result = finish(scene.command(&words).stdout(full).output());
        assert!(result.code == 125 && result.errors.contains("No space left on device"), "{how}: {result:?}");
        assert!(!scene.at("b").exists(), "{how}");
        assert_eq!((scene.kept().exists(), result.errors.contains(&kept)), (is_kept, is_kept), "{how}: {result:?}");
    }
}

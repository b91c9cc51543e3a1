//! What users can make of a command of root's by renaming what it uses while it runs: nothing.
//!
//! Each test runs in a mount name space of its own, with a directory of control sockets that no other test uses.

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock};
use rustix::mount::MountFlags;
use rustix::process::{Pid, Signal, kill_process};
use support::{Scratch, can_mount, copy_program, finish, is_alive, is_mounted, plyfs, run, stop, wait_until};

/// Whether this is the process in which the test is to run; elsewhere it has run on return, if that is possible.
fn is_apart(test: &str) -> bool {
    const MARK: &str = "PLYFS_TEST_IS_APART";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    if !can_mount() {
        return false;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("device")).unwrap();
    let script = format!(
        "set -e; mkdir -p /run/plyfs; mount -t tmpfs -o mode=700 none /run/plyfs
        mount -t tmpfs none {place}; mknod -m 666 {place}/fuse c 10 229; mount --bind {place}/fuse /dev/fuse
        exec \"$0\" --exact {test} --show-output",
        place = scratch.name("device"),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(std::env::current_exe().unwrap()).env(MARK, "yes");
    let result = finish(command.output());
    assert_eq!(result.code, 0, "{}{}", result.output, result.errors);
    assert!(result.output.contains("test result: ok. 1 passed"), "{}", result.output);
    false
}

/// A mount point below a directory that a user can rename, and a mount of root's with the same name elsewhere.
struct Scene {
    scratch: Scratch,
}

impl Scene {
    fn new() -> Self {
        let scratch = Scratch::new();
        for directory in ["way/point", "innocent/point"] {
            fs::create_dir_all(scratch.path(directory)).unwrap();
        }
        rustix::mount::mount("none", scratch.path("innocent/point"), "tmpfs", MountFlags::empty(), None).unwrap();
        Self { scratch }
    }

    fn point(&self) -> String {
        self.scratch.name("way/point")
    }

    /// The user's trick.
    fn trick(&self) -> impl Fn() + Send + use<> {
        let path = |name: &str| self.scratch.path(name);
        let (way, moved, innocent) = (path("way"), path("moved"), path("innocent"));
        move || {
            fs::rename(&way, &moved).unwrap();
            symlink(&innocent, &way).unwrap();
        }
    }

    /// The types and options of what is mounted on a path, the topmost last.
    fn mounted_on(&self, name: &str) -> Vec<String> {
        let (table, path) = (fs::read_to_string("/proc/self/mountinfo").unwrap(), self.scratch.name(name));
        let lines = table.lines().filter(|line| line.split(' ').nth(4) == Some(&path));
        lines.map(|line| format!("{} {}", line.split(" - ").nth(1).unwrap(), line.split(' ').nth(5).unwrap())).collect()
    }

    fn is_innocent_untouched(&self) {
        let mounted = self.mounted_on("innocent/point");
        assert!(
            mounted.len() == 1 && mounted[0].starts_with("tmpfs ") && mounted[0].ends_with(" rw,relatime"),
            "{mounted:?}"
        );
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for name in ["way/point", "moved/point", "innocent/point"] {
            while rustix::mount::unmount(self.scratch.path(name), rustix::mount::UnmountFlags::DETACH).is_ok() {}
        }
    }
}

/// Listens on a socket as a server would, and does something when it is asked first.
fn lie_in_wait(socket: &Path, trick: impl Fn() + Send + 'static) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let asked = listener.accept().unwrap();
        trick();
        drop(asked);
    });
}

#[test]
fn the_mount_that_was_named_is_unmounted_and_no_other() {
    if !is_apart("the_mount_that_was_named_is_unmounted_and_no_other") {
        return;
    }
    for lazy in [&[][..], &["--lazy"]] {
        // The server itself may answer first, which teaches nothing.
        assert!((0..50).any(|_| is_tricked_while_unmounting(lazy)), "nobody was asked: this tests nothing");
    }
}

/// Unmounts while the path is exchanged, and checks what is unmounted. Returns whether it was exchanged in time.
fn is_tricked_while_unmounting(lazy: &[&str]) -> bool {
    let scene = Scene::new();
    run(["mount", "mem:", &scene.point()]).succeeded();
    let socket = Path::new("/run/plyfs/a.sock");
    lie_in_wait(socket, scene.trick());
    finish(plyfs().arg("umount").args(lazy).arg(scene.point()).output()).succeeded();
    fs::remove_file(socket).unwrap();
    let is_tricked = scene.scratch.path("moved").exists();
    if is_tricked {
        scene.is_innocent_untouched();
        assert_eq!(scene.mounted_on("moved/point"), [""; 0]);
    }
    is_tricked
}

#[test]
fn the_mount_that_was_named_is_changed_and_no_other() {
    if !is_apart("the_mount_that_was_named_is_changed_and_no_other") {
        return;
    }
    let scene = Scene::new();
    run(["mount", "mem:", &scene.point()]).succeeded();
    lie_in_wait(Path::new("/run/plyfs/a.sock"), scene.trick());
    run(["mount", "-o", "remount,ro,noexec", &scene.point()]).succeeded();
    scene.is_innocent_untouched();
    let mounted = scene.mounted_on("moved/point");
    assert!(mounted.len() == 1 && mounted[0].contains("ro,nosuid,nodev,noexec"), "{mounted:?}");
}

#[test]
fn the_directory_that_was_named_is_mounted_on_and_no_other_and_its_server_ends_its_own_mount() {
    if !is_apart("the_directory_that_was_named_is_mounted_on_and_no_other_and_its_server_ends_its_own_mount") {
        return;
    }
    for is_over in [false, true] {
        let scene = Scene::new();
        let turn = File::open("/run/plyfs").unwrap();
        flock(&turn, FlockOperation::LockExclusive).unwrap();
        let point = scene.point();
        let words: &[&str] = if is_over { &["--over", &point, "readonly"] } else { &["mem:", &point] };
        let mut command = plyfs();
        command.args(["mount", "--explain", "--foreground"]).args(words);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // It explains the stack, and then waits until nobody else mounts.
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        scene.trick()();
        drop(turn);
        wait_until("something is mounted", || {
            ["moved/point", "innocent/point"].iter().map(|name| scene.mounted_on(name).len()).sum::<usize>() == 2
        });
        scene.is_innocent_untouched();
        assert!(scene.mounted_on("moved/point")[0].starts_with("fuse.plyfs "));
        wait_until("the control socket", || fs::read_dir("/run/plyfs").unwrap().count() == 1);
        kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
        assert!(server.wait().unwrap().success());
        scene.is_innocent_untouched();
        assert_eq!(scene.mounted_on("moved/point"), [""; 0], "over: {is_over}");
    }
}

/// A user of no other test, and their directory of control sockets below /tmp, which is removed at the end.
struct User {
    id: u32,
    directory: PathBuf,
}

impl User {
    fn new() -> Self {
        let id = 4_100_000_000 + std::process::id();
        Self { id, directory: Path::new("/tmp").join(format!("plyfs-{id}")) }
    }

    fn make_directory(&self) {
        fs::create_dir(&self.directory).unwrap();
        fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o700)).unwrap();
        chown(&self.directory, Some(self.id), Some(self.id)).unwrap();
    }

    /// What is named after this directory.
    fn others(&self) -> Vec<PathBuf> {
        let start = format!("{}-", self.directory.display());
        let paths = fs::read_dir("/tmp").unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_string_lossy().starts_with(&start)).collect()
    }

    fn remove(path: &Path) {
        match fs::symlink_metadata(path).is_ok_and(|status| status.is_dir()) {
            true => drop(fs::remove_dir_all(path)),
            false => drop(fs::remove_file(path)),
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        Self::remove(&self.directory);
        self.others().iter().for_each(|path| Self::remove(path));
    }
}

#[test]
fn asking_all_servers_removes_no_file_of_anybody() {
    if !is_apart("asking_all_servers_removes_no_file_of_anybody") {
        return;
    }
    const NAMES: std::ops::Range<u32> = 0..30;
    for words in [&["status"][..], &["stats"], &["top", "-n", "1", "-i", "0.1"]] {
        let (scratch, user) = (Scratch::new(), User::new());
        user.make_directory();
        // Files, and sockets that nobody listens to, as they are left by servers that were killed.
        fs::create_dir(scratch.path("roots")).unwrap();
        fs::set_permissions(scratch.path("roots"), fs::Permissions::from_mode(0o700)).unwrap();
        for directory in [&user.directory, &scratch.path("roots")] {
            for number in NAMES {
                let path = directory.join(format!("{number}.sock"));
                if number % 2 == 0 { fs::write(path, "").unwrap() } else { drop(UnixListener::bind(path).unwrap()) }
            }
        }
        let (directory, aside, roots) = (user.directory.clone(), scratch.path("aside"), scratch.path("roots"));
        for name in ["a.sock", "b.sock"] {
            let (directory, aside, roots) = (directory.clone(), aside.clone(), roots.clone());
            lie_in_wait(&user.directory.join(name), move || {
                if fs::rename(&directory, &aside).is_ok() {
                    symlink(&roots, &directory).unwrap();
                }
            });
        }
        plyfs().args(words).output().unwrap();
        // Who was asked may answer a moment later; if nobody was, this tests nothing.
        wait_until("somebody was asked", || directory.is_symlink() && aside.exists());
        assert_eq!(fs::read_dir(&roots).unwrap().count(), NAMES.len(), "{words:?} removed files of root");
        assert_eq!(fs::read_dir(&aside).unwrap().count(), NAMES.len() + 2, "{words:?} removed files of the user");
    }
}

#[test]
fn a_directory_whose_name_others_have_taken_keeps_nobody_from_mounting() {
    if !is_apart("a_directory_whose_name_others_have_taken_keeps_nobody_from_mounting") {
        return;
    }
    if !Path::new("/usr/bin/fusermount3").exists() {
        eprintln!("skipped: needs fusermount3");
        return;
    }
    let (scratch, user) = (Scratch::new(), User::new());
    let (mount, program) = (scratch.name("mount"), scratch.path("plyfs"));
    // fusermount3 wants users to have a name.
    let names = fs::read_to_string("/etc/passwd").unwrap() + &format!("tester:x:{0}:{0}::/:/bin/sh\n", user.id);
    fs::write(scratch.path("passwd"), names).unwrap();
    rustix::mount::mount_bind(scratch.path("passwd"), "/etc/passwd").unwrap();
    chown(&mount, Some(user.id), Some(user.id)).unwrap();
    copy_program(env!("CARGO_BIN_EXE_plyfs"), &program);
    let as_user = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={}", user.id), format!("--regid={}", user.id), "--clear-groups".to_owned()]);
        let patience = ["timeout", "--signal=KILL", "20"];
        command.args(patience).arg(&program).args(words).env_remove("XDG_RUNTIME_DIR").current_dir("/");
        finish(command.output())
    };
    // A directory, a link to one that is the user's own, a file, and a FIFO, which nobody writes to.
    type Taker<'a> = &'a dyn Fn();
    let takers: [Taker<'_>; 4] = [
        &|| {
            fs::create_dir(&user.directory).unwrap();
            chown(&user.directory, Some(65_534), None).unwrap();
        },
        &|| symlink(&mount, &user.directory).unwrap(),
        &|| drop(File::create(&user.directory).unwrap()),
        &|| rustix::fs::mknodat(CWD, &user.directory, FileType::Fifo, Mode::from(0o666), 0).unwrap(),
    ];
    for take in takers {
        User::remove(&user.directory);
        take();
        as_user(&["mount", "mem:", &mount]).succeeded();
        assert_eq!(user.others().len(), 1, "the second mount does not find the directory of the first");
        for _ in 0..2 {
            assert_eq!(as_user(&["log-level", &mount]).succeeded(), "info\n");
        }
        assert_eq!(run(["log-level", &mount]).succeeded(), "info\n", "root finds it");
        as_user(&["umount", &mount]).succeeded();
        assert!(!is_mounted(Path::new(&mount)));
    }
}

/// The device of a user's own server, which never answers but at the beginning.
const SILENT_SERVER: &str = r#"
    exec 3<>/dev/fuse
    mount -i -t fuse.plyfs -o fd=3,rootmode=40000,user_id=0,group_id=0,allow_other never "$1" || exit 99
    echo mounted
    exec sleep 100
"#;

#[test]
fn a_server_that_never_answers_does_not_hold_up_a_remount() {
    if !is_apart("a_server_that_never_answers_does_not_hold_up_a_remount") {
        return;
    }
    let scene = Scene::new();
    let point = scene.point();
    let mut server = Command::new("sh");
    let mut server = server.args(["-c", SILENT_SERVER, "sh", &point]).stdout(Stdio::piped()).spawn().unwrap();
    let mut mounted = [0; 8];
    server.stdout.as_mut().unwrap().read_exact(&mut mounted).unwrap();
    // It says to the command what a server says, but is silent to the kernel.
    let report = serde_json::json!({"status": {
        "mount_point": point, "stack": "never", "branches": [], "pid": 1, "uid": 0, "version": "", "uptime_seconds": 0,
        "options": [], "log_level": "", "requests": 0, "requests_by_operation": {}, "objects": 0, "memory_bytes": 0,
    }});
    let listener = UnixListener::bind("/run/plyfs/a.sock").unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut line) = (stream.unwrap(), String::new());
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
                let answer = if line.contains("status") { report.to_string() } else { r#"{"text":""}"#.to_owned() };
                std::io::Write::write_all(&mut stream, format!("{answer}\n").as_bytes()).unwrap();
                line.clear();
            }
        }
    });
    let begin = Instant::now();
    let mut remount = plyfs();
    let remount = remount.args(["mount", "-o", "remount,noexec", &point]).stderr(Stdio::piped()).spawn().unwrap();
    let pid = remount.id();
    let end = begin + Duration::from_secs(60);
    while is_alive(pid) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
    let is_waiting = is_alive(pid);
    kill_process(Pid::from_child(&server), Signal::KILL).unwrap();
    server.wait().unwrap();
    let ended = finish(remount.wait_with_output());
    assert!(!is_waiting, "it waits for the server for ever");
    assert_eq!(ended.code, 13, "{ended:?}");
    assert!(ended.errors.contains("does not answer; the mount options are unchanged"), "{ended:?}");
}

/// Root asks the servers of all users. A user's runtime directory that is a mount of the user's, which never answers, keeps no
/// command about another mount waiting.
#[test]
fn a_runtime_directory_that_does_not_answer_keeps_no_command_waiting() {
    if !is_apart("a_runtime_directory_that_does_not_answer_keeps_no_command_waiting") {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("mount")).unwrap();
    let user = 4_000_000_000 + std::process::id();
    let place = PathBuf::from(format!("/tmp/plyfs-{user}"));
    fs::create_dir(&place).unwrap();
    chown(&place, Some(user), Some(user)).unwrap();
    run(["mount", "mem:", &scratch.name("mount")]).succeeded();
    let mut words = plyfs();
    words.args(["mount", "-f", "mem: | faulty(operations=getattr, stop=yes)"]).arg(&place);
    let mut silent = words.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it is mounted", || is_mounted(&place));
    let mount = scratch.name("mount");
    let commands: [&[&str]; 4] =
        [&["status", &mount], &["stats", &mount], &["mount", "-o", "remount,ro", &mount], &["umount", &mount]];
    let mut hanging = Vec::new();
    for words in commands {
        let mut command = plyfs().args(words).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        let ended = loop {
            match command.try_wait().unwrap() {
                None if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
                ended => break ended,
            }
        };
        if !ended.is_some_and(|status| status.success()) {
            hanging.push(words);
        }
    }
    silent.kill().unwrap();
    silent.wait().unwrap();
    rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH).unwrap();
    fs::remove_dir(&place).unwrap();
    assert!(hanging.is_empty(), "{hanging:?}");
}

/// Servers that are stopped, or that accept connections and never answer, keep no command about another mount waiting.
#[test]
fn servers_that_hang_keep_no_command_about_another_mount_waiting() {
    if !is_apart("servers_that_hang_keep_no_command_about_another_mount_waiting") {
        return;
    }
    let scratch = Scratch::new();
    let points = ["a", "b", "c", "d"].map(|name| {
        fs::create_dir(scratch.path(name)).unwrap();
        assert_eq!(run(["mount", "mem:", &scratch.name(name)]).code, 0);
        scratch.name(name)
    });
    let servers: Vec<Pid> = [&points[0], &points[3]].iter().map(|point| server_of(point)).collect();
    let _stopped: Vec<_> = servers.iter().map(|server| stop(server.as_raw_nonzero().get().unsigned_abs())).collect();
    // Before and after all others in any order.
    let silent = ["0.sock", "zz.sock"].map(|name| UnixListener::bind(Path::new("/run/plyfs").join(name)).unwrap());
    let (mut tried, mut wrong) = (0, Vec::new());
    for point in &points[1..3] {
        for words in ["log-level", "status", "stats", "umount"] {
            let begin = Instant::now();
            let result = run([words, point]);
            tried += 1;
            if result.code != 0 || begin.elapsed() > Duration::from_secs(4) {
                wrong.push(format!("{words:?} took {:?}: {result:?}", begin.elapsed()));
            }
        }
    }
    servers.iter().for_each(|server| kill_process(*server, Signal::CONT).unwrap());
    drop(silent);
    for point in [&points[0], &points[3]] {
        assert_eq!(run(["umount", point]).code, 0);
    }
    assert_eq!((tried, wrong), (8, Vec::<String>::new()));
}

fn server_of(point: &str) -> Pid {
    let status = run(["status", point]).output;
    let line = status.lines().find_map(|line| line.strip_prefix("server")).unwrap_or_else(|| panic!("{status}"));
    let number = line.split(|character: char| !character.is_ascii_digit()).find(|word| !word.is_empty());
    Pid::from_raw(number.unwrap().parse().unwrap()).unwrap()
}

/// A shared directory below a stack, with a directory in it that another server is mounted on.
struct Shared {
    scratch: Scratch,
    nested: std::process::Child,
}

impl Shared {
    /// What is mounted on what users see as `M`, and on `fm` in the directory below that.
    fn new(stack: &str, options: &str, nested: &str) -> Self {
        let scratch = Scratch::new();
        for name in ["base", "base/sub", "base/fm", "base/fm/covered", "lower", "nested", "mount"] {
            fs::create_dir_all(scratch.path(name)).unwrap();
            fs::set_permissions(scratch.path(name), fs::Permissions::from_mode(0o1777)).unwrap();
        }
        fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["base/sub/q", "base/f", "nested/a"] {
            fs::write(scratch.path(name), "data").unwrap();
            chown(scratch.path(name), Some(7003), Some(7003)).unwrap();
        }
        let words = |text: &str| text.replace("BASE", &scratch.name("base")).replace("LOWER", &scratch.name("lower"));
        finish(plyfs().args(["mount", "-o", options, &words(stack), &scratch.name("mount")]).output()).succeeded();
        chown(scratch.path("nested"), Some(7001), Some(7001)).unwrap();
        fs::set_permissions(scratch.path("nested"), fs::Permissions::from_mode(0o750)).unwrap();
        let mut server = plyfs();
        server.args(["mount", "-f", &nested.replace("NESTED", &scratch.name("nested"))]).arg(scratch.path("base/fm"));
        let nested = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it is mounted", || is_mounted(&scratch.path("base/fm")));
        Self { scratch, nested }
    }

    /// A user's command, in the mounted directory.
    fn command(&self, user: u32, script: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()]);
        command.args(["sh", "-c", &format!("cd {}; {script}", self.scratch.name("mount"))]).stdin(Stdio::null());
        command
    }

    /// Whether the command ends by itself in time.
    fn ends(&self, user: u32, script: &str) -> bool {
        let mut child = self.command(user, script).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(3);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.nested.kill();
        let _ = self.nested.wait();
        let _ = rustix::mount::unmount(self.scratch.path("base/fm"), rustix::mount::UnmountFlags::DETACH);
    }
}

/// The stacks that a shared directory is seen by, and the ways to serve them here.
fn shared_stacks() -> Vec<(&'static str, &'static str)> {
    let has_rings = fs::read("/sys/module/fuse/parameters/enable_uring").is_ok_and(|switch| switch.starts_with(b"Y"));
    let ways = if has_rings { &["uring=off", "uring=on"][..] } else { &["uring=off"] };
    let stacks = ["BASE", "BASE | audit(to=/dev/null)", "BASE=rw, LOWER=ro | union", "LOWER=rw, BASE=ro | union"];
    stacks.into_iter().flat_map(|stack| ways.iter().map(move |way| (stack, *way))).collect()
}

/// The kernel lets nobody change a directory while a name in it is looked up.
#[test]
fn a_server_that_does_not_answer_in_a_shared_directory_keeps_nobody_else_waiting() {
    if !is_apart("a_server_that_does_not_answer_in_a_shared_directory_keeps_nobody_else_waiting") {
        return;
    }
    let mut hanging = Vec::new();
    for (stack, way) in shared_stacks() {
        for silent in ["getattr", "getattr:statfs:lookup:opendir:getxattr:listxattr"] {
            let shared = Shared::new(stack, way, &format!("mem: | faulty(operations={silent}, stop=yes)"));
            let asking = ["stat fm", "ls -l", "ls fm", "rmdir fm", "mkdir fm", "rmdir sub/../fm", "mv -T sub fm"];
            let mut askers: Vec<_> = asking
                .iter()
                .map(|script| shared.command(7001, script).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
                .collect();
            std::thread::sleep(Duration::from_millis(500));
            for script in [
                "ls",
                "ls",
                "cat f",
                "touch new",
                "mkdir d",
                "rmdir d",
                "mv sub/q q",
                "mv q sub/r",
                "ln new newer",
                "rm new",
                "rmdir fm",
                "mkdir fm",
                "stat nothing",
                "ls sub",
            ] {
                if !shared.ends(7003, script) {
                    hanging.push(format!("{stack} {way} {silent}: {script}"));
                    break;
                }
            }
            // Programs ask what the target is first, and wait for that themselves.
            for (from, to) in [("newer", "fm"), ("sub", "fm"), ("fm", "moved"), ("newer", "sub/newer")] {
                let [from, to] = [from, to].map(|name| shared.scratch.path("mount").join(name));
                let (done, renamed) = std::sync::mpsc::channel();
                let named = format!("{stack} {way} {silent}: {} to {}", from.display(), to.display());
                std::thread::spawn(move || done.send(fs::rename(from, to)));
                if renamed.recv_timeout(Duration::from_secs(3)).is_err() {
                    hanging.push(named);
                    break;
                }
            }
            drop(shared);
            for asker in &mut askers {
                asker.wait().unwrap();
            }
        }
    }
    assert!(hanging.is_empty(), "{hanging:#?}");
}

#[test]
fn what_is_mounted_in_a_directory_has_the_owner_and_mode_that_its_server_says_from_the_first_use_on() {
    if !is_apart("what_is_mounted_in_a_directory_has_the_owner_and_mode_that_its_server_says_from_the_first_use_on") {
        return;
    }
    for (stack, way) in shared_stacks() {
        for (user, script, expected) in [
            (7003, "ls fm 2>&1", "ls: cannot open directory 'fm': Permission denied\n"),
            (7003, "ls >/dev/null; cat fm/a 2>&1", "cat: fm/a: Permission denied\n"),
            (7001, "cat fm/a", "data"),
            (7001, "ls -l >/dev/null; ls fm; cat fm/a; ls fm", "a\ndataa\n"),
            (7003, "stat -c '%F %a %u %g' fm; ls -ld fm | cut -c1-10", "directory 750 7001 7001\ndrwxr-x---\n"),
            (7003, "ls -l | grep fm | cut -c1-10", "drwxr-x---\n"),
            (7001, "stat -c %i fm . | sort -u | wc -l; touch fm/b && mv fm/b fm/c && ls fm", "2\na\nc\n"),
        ] {
            let shared = Shared::new(stack, way, "NESTED");
            if stack.starts_with("LOWER") && script.contains("touch") {
                continue;
            }
            let output = shared.command(user, script).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{stack} {way}: {script}: {output:?}");
        }
    }
}

/// A mount in a branch of a user who lets nobody else in is named; everything else is checked and compared.
#[test]
fn a_users_mount_in_a_branch_keeps_nothing_else_from_being_checked_and_compared() {
    if !is_apart("a_users_mount_in_a_branch_keeps_nothing_else_from_being_checked_and_compared") {
        return;
    }
    let scratch = Scratch::new();
    for name in ["upper/home/theirs", "upper/home/covers/x", "lower/home/covers", "mount"] {
        fs::create_dir_all(scratch.path(name)).unwrap();
    }
    fs::write(scratch.path("upper/home/covers/.wh.x"), "").unwrap();
    fs::write(scratch.path("upper/home/.wh.mine"), "").unwrap();
    fs::write(scratch.path("upper/home/mine"), "").unwrap();
    let (upper, lower, mount) = (scratch.name("upper"), scratch.name("lower"), scratch.name("mount"));
    run(["mount", &format!("{upper}=rw, {lower}=ro | union"), &mount]).succeeded();
    run(["snapshot", "take", &mount, "first"]).succeeded();
    for name in ["home/new", "home/other"] {
        fs::create_dir(scratch.path("mount").join(name)).unwrap();
    }
    let silent = |point: &str| {
        let script = SILENT_SERVER.replace("user_id=0,group_id=0,allow_other", "user_id=4000,group_id=4000");
        let mut server = Command::new("sh");
        let mut server = server.args(["-c", &script, "sh", point]).stdout(Stdio::piped()).spawn().unwrap();
        server.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
        server
    };
    let points = ["upper/.wh..wh.plyfs/layers/1/home/other", "upper/home/theirs", "lower/home/covers"];
    let points = points.map(|point| scratch.name(point));
    let mut servers = points.each_ref().map(|point| silent(point));
    let differences = run(["snapshot", "diff", &mount, "first"]);
    run(["umount", &mount]).succeeded();
    let checked = run(["union", "check", &upper, &lower]);
    for (server, point) in servers.iter_mut().zip(&points) {
        server.kill().unwrap();
        server.wait().unwrap();
        rustix::mount::unmount(point.as_str(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
    assert_eq!((differences.code, &*differences.output), (0, "+ home/new/\n~ home/other/\n"), "{differences:?}");
    let is_named = |path: &str| checked.output.lines().any(|line| line.contains(path) && line.contains("not checked"));
    assert!(is_named("home/theirs") && is_named("layers/1/home/other"), "{checked:?}");
    assert!(checked.output.contains("mine stands beside its own whiteout"), "{checked:?}");
    assert!(is_named("home/covers"), "{checked:?}");
    assert!(checked.code == 1 && checked.output.lines().count() == 4, "{checked:?}");
}

/// Whatever the path of a mount point is, commands find its server, and print nothing of it that controls the terminal.
#[test]
fn a_mount_point_with_control_characters_is_used_by_every_command() {
    if !is_apart("a_mount_point_with_control_characters_is_used_by_every_command") {
        return;
    }
    let scratch = Scratch::new();
    let mount = scratch.name("mount/\u{1b}[31m\nplyfs: x\u{9b}");
    fs::create_dir(&mount).unwrap();
    let checked = |words: &[&str], code: i32| {
        let result = finish(plyfs().args(words).output());
        assert_eq!(result.code, code, "{words:?}: {result:?}");
        let shown = [result.output, result.errors].concat();
        let is_bad = |character: char| character.is_control() && character != '\n';
        assert!(!shown.contains(is_bad) && !shown.contains("\nplyfs: x"), "{words:?}: {shown:?}");
    };
    checked(&["mount", "mem:", &mount], 0);
    let commands: [&[&str]; 11] = [
        &["status", &mount],
        &["status"],
        &["status", "--json"],
        &["stats", &mount],
        &["stats"],
        &["stats", "--json"],
        &["stats", "--prometheus"],
        &["log-level", &mount],
        &["top", "--times", "1", &mount],
        &["mount", "-o", "remount,ro", &mount],
        &["mount", "-o", "remount,rw", &mount],
    ];
    commands.iter().for_each(|words| checked(words, 0));
    checked(&["control", &mount, "mem", "nonsense"], 1);
    checked(&["union", "list", &mount], 1);
    checked(&["mount", "-o", "remount,ro", &mount], 0);
    let held = File::open(&mount).unwrap();
    checked(&["umount", &mount], 12);
    drop(held);
    checked(&["umount", &mount], 0);
    checked(&["umount", &mount], 11);
    fs::write(Path::new(&mount).join("hidden"), "").unwrap();
    checked(&["mount", "mem:", &mount], 0);
    checked(&["umount", &mount], 0);
}

/// Another user's server can say that it uses a branch; that keeps nobody but that user from checking it. Nor is a server
/// that has ended meanwhile reported.
#[test]
fn a_branch_is_not_in_use_because_another_users_server_says_so() {
    if !is_apart("a_branch_is_not_in_use_because_another_users_server_says_so") {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("branch")).unwrap();
    let branch = scratch.name("branch");
    let other = 4_000_000_000 + std::process::id();
    for (user, answers, code) in [(other, "yes", 0), (0, "yes", 12), (0, "no", 0), (other, "for ever", 0)] {
        let place = PathBuf::from(if user == 0 { "/run/plyfs".to_owned() } else { format!("/tmp/plyfs-{user}") });
        if user != 0 {
            fs::create_dir(&place).unwrap();
            fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
            chown(&place, Some(user), Some(user)).unwrap();
        }
        let socket = place.join("1.sock");
        let script = r#"
import json, os, socket, sys
path, branch, user, answers = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
if user: os.setgid(user); os.setuid(user)
listening = socket.socket(socket.AF_UNIX); listening.bind(path); listening.listen()
print("ready", flush=True)
status = {"mount_point": "/nowhere", "stack": "x", "branches": [], "pid": 1, "uid": 0, "version": "", "uptime_seconds": 0,
    "options": [], "log_level": "", "requests": 0, "requests_by_operation": {}, "objects": 0, "memory_bytes": 0}
while True:
    connection, _ = listening.accept()
    for line in connection.makefile():
        if '"status"' in line: answer = {"status": status}
        elif answers == "yes": answer = {"text": branch + "=rw\n"}
        elif answers == "no": break
        else:
            try:
                while True: connection.sendall(b'{"part":"x"}\n')
            except OSError: break
        connection.sendall((json.dumps(answer) + "\n").encode())
    connection.close()
"#;
        let mut server = Command::new("python3");
        server.args(["-c", script]).arg(&socket).args([&branch, &user.to_string(), answers]);
        let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
        server.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        let checked = run(["union", "check", &branch]);
        server.kill().unwrap();
        server.wait().unwrap();
        fs::remove_file(&socket).unwrap();
        if user != 0 {
            fs::remove_dir(&place).unwrap();
        }
        assert_eq!(checked.code, code, "{user} {answers}: {checked:?}");
        assert!(code == 12 || checked.errors.is_empty(), "{user} {answers}: {checked:?}");
    }
}

/// A mount whose server does not answer is named, not left out.
#[test]
fn statistics_name_the_mounts_whose_servers_do_not_answer() {
    if !is_apart("statistics_name_the_mounts_whose_servers_do_not_answer") {
        return;
    }
    assert_eq!(run(["stats"]).succeeded(), "no mounts\n");
    let scratch = Scratch::new();
    let mount = scratch.name("mount");
    run(["mount", "mem:", &mount]).succeeded();
    kill_process(server_of(&mount), Signal::KILL).unwrap();
    wait_until("the server has ended", || fs::read_dir(&mount).is_err());
    for words in [&["stats"][..], &["stats", "--json"], &["stats", "--prometheus"]] {
        let result = finish(plyfs().args(words).output());
        assert!(result.code == 13 && result.errors.contains(&mount), "{words:?}: {result:?}");
        assert!(!result.output.contains("no mounts"), "{words:?}: {result:?}");
    }
    let result = run(["top", "--times", "1", "--interval", "0.1"]);
    assert!(result.output.contains(&mount), "{result:?}");
    run(["umount", &mount]).succeeded();
    // One that answers is not silent where else it is mounted, nor if its path is not text.
    let point = scratch.path("mount").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&point).unwrap();
    fs::create_dir(scratch.path("merged")).unwrap();
    assert_eq!(finish(plyfs().args(["mount", "mem:"]).arg(&point).output()).code, 0);
    rustix::mount::mount_bind(&point, scratch.path("merged")).unwrap();
    let result = run(["stats"]);
    rustix::mount::unmount(scratch.path("merged"), rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(finish(plyfs().arg("umount").arg(&point).output()).code, 0);
    assert!(result.code == 0 && result.errors.is_empty() && result.output.contains("mem:"), "{result:?}");
}

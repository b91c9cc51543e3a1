//! Servers that may have only so much: memory, processes, descriptors. What is refused is one caller's request, and nothing else.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use support::{Scratch, can_mount, finish, run, umount};

/// Mounts by a server that is started through another command, as one that sets limits.
fn mount_through(command: &[&str], stack: &str, mount: &str) {
    let mut server = Command::new(command[0]);
    server.args(&command[1..]).arg(env!("CARGO_BIN_EXE_plyfs")).args(["mount", stack, mount]);
    let made = finish(server.stdin(Stdio::null()).output());
    assert_eq!(made.code, 0, "{made:?}");
}

/// Many read large pieces at a time, through a layer that decodes them, from a server that has little memory: it may refuse
/// some, and serves on.
#[test]
fn a_limit_of_memory_refuses_single_requests() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("base")).unwrap();
    let mount = &scratch.name("mount");
    let stack = format!("{} | rot13 | rot13 | rot13", scratch.name("base"));
    mount_through(&["prlimit", "--as=700000000"], &stack, mount);
    let text = vec![b'x'; 4 << 20];
    for file in 0..8 {
        fs::write(scratch.path(&format!("mount/{file}")), &text).unwrap();
    }
    thread::scope(|scope| {
        for reader in 0..24 {
            let path = scratch.path(&format!("mount/{}", reader % 8));
            scope.spawn(move || {
                let mut dd = Command::new("dd");
                dd.args(["bs=4M", "iflag=direct", "of=/dev/null"]).arg(format!("if={}", path.display()));
                dd.stderr(Stdio::null()).status().unwrap();
            });
        }
    });
    assert_eq!(fs::read(scratch.path("mount/0")).unwrap(), text, "the server is gone");
    umount(mount);
}

/// The control group of one test, for the number of its processes and threads.
struct Processes(std::path::PathBuf);

impl Processes {
    fn new(name: &str) -> Option<Self> {
        let group = Path::new("/sys/fs/cgroup/pids").join(format!("plyfs-{name}-{}", std::process::id()));
        match fs::create_dir(&group) {
            Ok(()) => Some(Self(group)),
            Err(error) => {
                eprintln!("skipped: no control group of processes ({error})");
                None
            }
        }
    }

    fn allow_no_more(&self) {
        let count = fs::read_to_string(self.0.join("pids.current")).unwrap();
        fs::write(self.0.join("pids.max"), count.trim()).unwrap();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A server that can start no further thread answers what it is asked, and serves many requests at a time.
#[test]
fn a_limit_of_processes_ends_nothing() {
    if !can_mount() {
        return;
    }
    let Some(group) = Processes::new("limits") else { return };
    let scratch = Scratch::new();
    for branch in ["one", "two"] {
        fs::create_dir(scratch.path(branch)).unwrap();
    }
    let mount = &scratch.name("mount");
    let stack = format!("{} =rw, {} =ro | union", scratch.name("one"), scratch.name("two"));
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
    mount_through(&["sh", "-c", &enter, "sh"], &stack, mount);
    fs::write(scratch.path("mount/file"), "text").unwrap();
    group.allow_no_more();
    run(["status", mount]).succeeded();
    run(["snapshot", "take", mount, "first"]).succeeded();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for number in 0..100 {
                    assert_eq!(fs::read(scratch.path("mount/file")).unwrap(), b"text");
                    if number % 20 == 0 {
                        assert_eq!(run(["log-level", mount]).succeeded(), "info\n");
                    }
                }
            });
        }
    });
    umount(mount);
}

/// One user opens until it is refused; others, and the server itself, have what they need.
#[test]
fn a_user_that_opens_all_it_may_leaves_descriptors_to_others() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let base = scratch.path("base");
    fs::create_dir_all(base.join("a/b/c")).unwrap();
    fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(base.join("file"), "text").unwrap();
    fs::write(base.join("a/b/c/deep"), "text").unwrap();
    let mount = &scratch.name("mount");
    let limited = ["setpriv", "--bounding-set=-sys_resource", "prlimit", "--nofile=400:400"];
    mount_through(&limited, &scratch.name("base"), mount);
    let script = "import errno, os, sys\n\
                  held = []\n\
                  try:\n\
                  \x20   while len(held) < 1000: held.append(os.open(sys.argv[1], os.O_RDONLY))\n\
                  except OSError as error: print(len(held), errno.errorcode[error.errno], flush=True)\n\
                  sys.stdin.read()";
    let mut greedy = Command::new("python3");
    greedy.args(["-c", script]).arg(scratch.path("mount/file")).uid(1000).gid(1000);
    let mut greedy = greedy.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(greedy.stdout.take().unwrap()), &mut line).unwrap();
    let (count, error) = line.trim().split_once(' ').unwrap();
    assert!(error == "EMFILE" && count.parse::<usize>().unwrap() >= 50, "{line}");
    let another = "cat a/b/c/deep && echo new > by-another && ls -lR && cat by-another";
    let mut another_user = Command::new("sh");
    another_user.args(["-c", another]).current_dir(scratch.path("mount")).uid(1001).gid(1001);
    let done = finish(another_user.output());
    assert_eq!(done.code, 0, "{done:?}");
    let own: Vec<File> = (0..50).map(|_| File::open(scratch.path("mount/a/b/c/deep")).unwrap()).collect();
    fs::write(scratch.path("mount/by-root"), "text").unwrap();
    assert_eq!(fs::read_dir(scratch.path("mount")).unwrap().count(), 4);
    run(["status", mount]).succeeded();
    drop((own, greedy.stdin.take()));
    greedy.wait().unwrap();
    let mut again = Command::new("cat");
    again.arg(scratch.path("mount/file")).uid(1000).gid(1000);
    assert_eq!(finish(again.output()).output, "text");
    umount(mount);
}

/// A server that was started with a limit of a file's size lifts it, or refuses what passes it: by nothing that a user writes
/// does it end.
#[test]
fn a_limit_of_a_files_size_ends_nothing() {
    if !can_mount() {
        return;
    }
    let lifted = ["prlimit", "--fsize=100000:unlimited"].as_slice();
    let kept = ["setpriv", "--bounding-set=-sys_resource", "prlimit", "--fsize=100000:100000"].as_slice();
    for (limited, is_lifted) in [(lifted, true), (kept, false)] {
        let scratch = Scratch::new();
        let mount = &scratch.name("mount");
        let bases = ["base", "upper", "lower"].map(|name| {
            fs::create_dir(scratch.path(name)).unwrap();
            scratch.name(name)
        });
        fs::write(scratch.path("lower/copied"), vec![b'y'; 200_000]).unwrap();
        let [base, upper, lower] = &bases;
        for stack in [base.clone(), format!("{base} | rot13"), format!("{upper}=rw, {lower}=ro | union")] {
            mount_through(limited, &stack, mount);
            let written = fs::write(scratch.path("mount/file"), vec![b'x'; 200_000]);
            let appended = File::options().append(true).open(scratch.path("mount/copied")).map(drop);
            fs::write(scratch.path("mount/small"), "text").unwrap();
            assert_eq!(fs::read_to_string(scratch.path("mount/small")).unwrap(), "text", "{stack}: the server is gone");
            // Where the kernel writes, the server's limit is none.
            if is_lifted {
                written.unwrap();
            } else if let Err(error) = written {
                assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge, "{stack}");
            }
            if stack.ends_with("union") {
                assert_eq!(appended.is_ok(), is_lifted, "{appended:?}");
            }
            umount(mount);
        }
    }
}

/// A server that has hardly any descriptors leaves none of the caller's streams open, or is not mounted.
#[test]
fn a_server_with_few_descriptors_keeps_no_stream_of_the_caller() {
    if !can_mount() {
        return;
    }
    let mut mounted = 0;
    for limit in (8..40).rev() {
        let scratch = Scratch::new();
        let mount = &scratch.name("mount");
        let script = format!("prlimit --nofile={limit}:{limit} timeout 20 \"$0\" mount mem: \"$1\" 2>&1 | cat");
        let mut shell = Command::new("setpriv");
        shell.args(["--bounding-set=-sys_resource", "sh", "-c", &script]).arg(env!("CARGO_BIN_EXE_plyfs")).arg(mount);
        let begin = std::time::Instant::now();
        let result = finish(shell.stdin(Stdio::null()).output());
        assert!(begin.elapsed() < std::time::Duration::from_secs(15), "limit {limit}: a stream stays open: {result:?}");
        if support::is_mounted(&scratch.mount()) {
            mounted += 1;
            umount(mount);
        } else {
            assert_ne!(result.output, "", "limit {limit}: not mounted, without a message");
        }
    }
    assert!(mounted > 5, "{mounted} mounted");
}

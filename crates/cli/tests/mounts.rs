//! The life of a mount: made in the background or foreground, asked, ended in every way there is.

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use support::{
    Run, Scratch, asked_of_all, can_mount, copy_program, finish, is_alive, is_mounted, plyfs, run, send, stop, umount,
    wait_until,
};

/// What `status --json` tells of this mount point.
fn status(mount: &str) -> Value {
    let lines: Value = serde_json::from_str(&run(["status", "--json", mount]).succeeded()).expect("it is JSON");
    lines[0].clone()
}

fn pid_of(mount: &str) -> u32 {
    u32::try_from(status(mount)["pid"].as_u64().expect("a pid")).expect("a pid")
}

#[test]
fn a_mount_is_made_used_asked_and_ended() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem: | audit(to=stderr)", mount, "-o", "noexec,noauto,x-systemd.automount"]).succeeded();
    assert!(is_mounted(&scratch.mount()), "the mount is not there when the command returns");
    fs::write(scratch.path("mount/file"), "text").unwrap();
    assert_eq!(fs::read(scratch.path("mount/file")).unwrap(), b"text");

    let status = status(mount);
    assert_eq!(status["state"], "serving");
    assert_eq!(status["mount_point"], mount.as_str());
    assert_eq!(status["stack"], "mem: | audit(to=stderr)");
    assert_eq!(status["options"], serde_json::json!(["noexec"]));
    assert!(status["requests"].as_u64().unwrap() >= 2, "{status}");
    assert_eq!(status["requests_by_operation"]["create"], 1, "{status}");
    let table = asked_of_all(["status"], mount);
    assert!(table.lines().any(|line| line.contains(mount) && line.contains("mem: | audit")), "{table}");
    assert!(run(["status", mount]).succeeded().contains("stack        mem: | audit(to=stderr)\n"));

    assert_eq!(run(["log-level", mount]).succeeded(), "info\n");
    run(["log-level", mount, "debug,frontends=trace"]).succeeded();
    assert_eq!(run(["log-level", mount]).succeeded(), "debug,frontends=trace\n");
    let wrong = run(["control", mount, "nothing", "command"]);
    assert_eq!(wrong.code, 1, "{wrong:?}");

    let pid = pid_of(mount);
    let socket = format!("/run/plyfs/{pid}.sock");
    assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata("/run/plyfs").unwrap().mode() & 0o777, 0o700);
    umount(mount);
    assert!(!is_mounted(&scratch.mount()));
    assert!(!is_alive(pid), "the server outlives the unmount");
    assert!(!Path::new(&socket).exists());
}

#[test]
fn what_a_mount_does_is_counted_and_timed() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem: | audit(to=/dev/null)", mount]).succeeded();
    (0..50).for_each(|number| fs::write(scratch.path(&format!("mount/{number}")), "text").unwrap());
    assert!(fs::remove_dir(scratch.path("mount/absent")).is_err());

    let lines: Value = serde_json::from_str(&run(["stats", "--json", mount]).succeeded()).expect("it is JSON");
    let create = &lines[0]["operations"]["create"];
    assert_eq!((&lines[0]["mount_point"], &create["requests"]), (&Value::from(mount.as_str()), &Value::from(50)));
    let seconds = |key: &str| create["seconds"][key].as_f64().expect("a number of seconds");
    assert!(seconds("p50") > 0.0 && seconds("p50") <= seconds("p99") && seconds("p99") <= seconds("longest"));
    let parts = |key: &str| ["fuse", "audit", "mem"].map(|part| lines[0]["parts"][part][key].clone());
    assert!(parts("requests_watched").iter().all(|count| count.as_u64().unwrap_or(0) >= 1), "{lines}");
    assert!((parts("share").iter().filter_map(Value::as_f64).sum::<f64>() - 1.0).abs() < 1e-6, "{lines}");
    assert!((seconds("mean") * 50.0 / seconds("total") - 1.0).abs() < 0.02, "{create}");
    assert!(lines[0]["failures"].as_u64().unwrap() >= 1, "{lines}");

    let table = run(["stats", mount]).succeeded();
    assert!(table.lines().any(|line| line.trim_start().starts_with("create") && line.contains(" 50 ")), "{table}");
    assert!(table.lines().any(|line| line.trim_start().starts_with("audit") && line.ends_with(" %")), "{table}");
    let exposition = asked_of_all(["stats", "--prometheus"], mount);
    let count = format!("plyfs_request_seconds_count{{mount_point=\"{mount}\",operation=\"create\"}} 50");
    assert!(exposition.lines().any(|line| line == count), "{exposition}");

    let top = run(["top", mount, "--interval", "0.1", "--times", "2"]).succeeded();
    assert_eq!(top.matches(&format!("{mount}: mem:")).count(), 2, "{top}");
    assert!(asked_of_all(["top", "-i", "0.1", "-n", "1"], mount).contains(mount));
    umount(mount);
    for words in [["stats", mount], ["top", mount]] {
        let gone = run(words);
        assert!(gone.code != 0 && gone.errors.contains("there is no mount of Plyfs on"), "{gone:?}");
    }
    for wrong in [["top", "-i", "0"], ["top", "-i", "x"], ["stats", "--json", "--prometheus"]] {
        assert_eq!(run(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn others_are_let_in_by_root_unless_told_otherwise() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    let as_nobody = |mount: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "ls", mount]);
        finish(command.output()).code
    };
    run(["mount", "mem:", mount]).succeeded();
    assert_eq!(as_nobody(mount), 0);
    umount(mount);
    run(["mount", "mem:", mount, "-o", "noallow_other"]).succeeded();
    assert_ne!(as_nobody(mount), 0);
    umount(mount);
}

#[test]
fn mount_options_act() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount, "-o", "ro,nodev,noexec,fsname=my source"]).succeeded();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.contains(mount.as_str())).unwrap();
    for word in ["ro,", "nodev", "noexec", "fuse.plyfs my\\040source"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    assert_eq!(fs::write(scratch.path("mount/x"), "").unwrap_err().raw_os_error(), Some(libc::EROFS));
    umount(mount);

    run(["mount", "mem:", mount, "-o", "without=MAX_PAGES:posix-locks"]).succeeded();
    assert_eq!(status(mount)["options"], serde_json::json!(["without=posix-locks:max-pages"]));
    fs::write(scratch.path("mount/x"), vec![0; 1 << 20]).unwrap();
    let writes = status(mount)["requests_by_operation"]["write"].as_u64().unwrap();
    assert!(writes >= 8, "{writes} writes");
    umount(mount);
}

#[test]
fn an_explanation_follows_from_the_options() {
    let scratch = Scratch::new();
    let base = &scratch.name("mount");
    let explained = run(["mount", "--explain", base, "-o", "without=passthrough"]).succeeded();
    assert!(explained.contains("data read and written: by the stack, through the page cache: "), "{explained}");
    assert!(explained.contains("features of the kernel left unused: passthrough"), "{explained}");
    let refused = run(["mount", "--explain", base, "-o", "writes=back,without=writeback-cache"]).succeeded();
    assert!(refused.contains("mounting fails: the kernel cannot keep writes: turned off by an option; "), "{refused}");
}

#[test]
fn a_directory_is_mounted_elsewhere_and_over_itself() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base) = (&scratch.name("mount"), &scratch.name("base"));
    fs::create_dir(base).unwrap();
    fs::write(scratch.path("base/file"), "below").unwrap();
    // A relative path counts from where the command is started.
    finish(plyfs().args(["mount", "base", "mount"]).current_dir(scratch.path("")).output()).succeeded();
    assert_eq!(fs::read(scratch.path("mount/file")).unwrap(), b"below");
    fs::write(scratch.path("mount/new"), "through").unwrap();
    assert_eq!(fs::read(scratch.path("base/new")).unwrap(), b"through");
    assert_eq!(status(mount)["stack"], base.as_str());
    umount(mount);

    let explained = run(["mount", "--over", base, "readonly", "--explain"]).succeeded();
    assert!(
        explained.starts_with(&format!("{base} | readonly\n")) && explained.contains("attributes cached"),
        "{explained}"
    );
    assert!(is_mounted(&scratch.path("base")));
    assert_eq!(fs::read(scratch.path("base/file")).unwrap(), b"below");
    assert_eq!(fs::write(scratch.path("base/file"), "x").unwrap_err().raw_os_error(), Some(libc::EROFS));
    assert_eq!(status(base)["options"], serde_json::json!(["over"]));
    umount(base);
    fs::write(scratch.path("base/file"), "x").unwrap();
    run(["mount", "--over", base, ""]).succeeded();
    assert_eq!(fs::read(scratch.path("base/file")).unwrap(), b"x");
    umount(base);
}

#[test]
fn of_two_mounts_at_once_one_is_refused() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    for round in 0..5 {
        let start = || plyfs().args(["mount", "mem:", mount]).stderr(Stdio::null()).spawn().unwrap();
        let mut both = [start(), start()];
        let mut codes = both.each_mut().map(|child| child.wait().unwrap().code().unwrap());
        codes.sort();
        assert_eq!(codes, [0, 7], "round {round}");
        umount(mount);
        assert!(!is_mounted(&scratch.mount()), "round {round}");
    }
}

#[test]
fn a_server_lets_go_of_what_its_parent_had_open() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    let program = env!("CARGO_BIN_EXE_plyfs");
    // The reader of the pipe ends only when nobody has it open any more, as standard output or as another descriptor.
    let script = format!("{{ {program} mount mem: {mount} 7>&1; echo mounted; }} | cat");
    let result = finish(Command::new("timeout").args(["20", "sh", "-c", &script]).output());
    assert_eq!((result.code, result.output.as_str()), (0, "mounted\n"), "{result:?}");
    assert_eq!(fs::read_link(format!("/proc/{}/cwd", pid_of(mount))).unwrap(), Path::new("/"));
    umount(mount);
}

#[test]
fn mount_points_and_bases_with_blanks_and_links() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let base = scratch.path("a base, with | all = of (it)");
    fs::create_dir(&base).unwrap();
    fs::write(base.join("file"), "text").unwrap();
    fs::create_dir(scratch.path("mount/a mount point")).unwrap();
    let mount = scratch.name("mount/a mount point");
    symlink(&mount, scratch.path("link")).unwrap();
    let stack = format!("\"{}\" | readonly", base.display());
    run(["mount", &stack, &scratch.name("link")]).succeeded();
    assert!(scratch.path("link/file").exists());
    assert_eq!(status(&mount)["stack"], stack.as_str());
    assert_eq!(status(&scratch.name("link"))["mount_point"], mount.as_str());
    let again = run(["mount", "mem:", &scratch.name("link")]);
    assert_eq!(again.code, 7, "{again:?}");
    umount(&scratch.name("link"));
    assert!(!scratch.path("link/file").exists());
}

#[test]
fn signals_end_a_mount_in_the_foreground() {
    if !can_mount() {
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let scratch = Scratch::new();
        let mount = scratch.mount();
        let mut child = plyfs().args(["mount", "-f", "mem:"]).arg(&mount).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the mount", || is_mounted(&mount));
        let name = mount.to_string_lossy();
        wait_until("the control socket", || asked_of_all(["status"], &name).contains(&*name));
        send(child.id(), signal);
        assert!(child.wait().unwrap().success(), "{signal:?}");
        assert!(!is_mounted(&mount), "{signal:?}");
    }
}

#[test]
fn a_mount_in_use_ends_when_told_twice() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    let mut file = File::create(scratch.path("mount/open")).unwrap();
    let busy = run(["umount", mount]);
    assert_eq!(busy.code, 12, "{busy:?}");
    assert!(busy.errors.contains("is in use; "), "{busy:?}");
    assert!(is_mounted(&scratch.mount()));
    let pid = pid_of(mount);
    send(pid, Signal::TERM);
    wait_until("the mount to be detached", || !is_mounted(&scratch.mount()));
    assert!(is_alive(pid), "those who use the mount get no time");
    send(pid, Signal::TERM);
    wait_until("the server to end", || !is_alive(pid));
    // A kernel may still know the attributes.
    assert!(file.write_all(b"for nobody").is_err());
}

#[test]
fn what_is_written_before_a_signal_is_below_when_the_server_has_ended() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("lower")).unwrap();
    let mount = &scratch.name("mount");
    run(["mount", &scratch.name("lower"), mount, "-o", "writes=back"]).succeeded();
    let below = || fs::read_to_string(scratch.path("lower/open")).unwrap();
    let mut file = File::create(scratch.path("mount/open")).unwrap();
    file.write_all(b"before").unwrap();
    assert_eq!(below(), "", "the kernel keeps nothing: this tests nothing");
    let pid = pid_of(mount);
    send(pid, Signal::TERM);
    wait_until("the mount to be detached", || !is_mounted(&scratch.mount()));
    assert_eq!(below(), "before");
    file.write_all(b" and in the time that is left").unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while is_alive(pid) {
        assert!(Instant::now() < end, "the server does not end");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(below(), "before and in the time that is left");
}

#[test]
fn a_lazy_unmount_serves_until_the_last_file_is_closed() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    let pid = pid_of(mount);
    let file = File::create(scratch.path("mount/open")).unwrap();
    run(["umount", "--lazy", mount]).succeeded();
    assert!(!is_mounted(&scratch.mount()));
    assert_eq!(status(mount)["state"], "detached");
    assert_eq!(file.metadata().unwrap().len(), 0);
    drop(file);
    wait_until("the server to end", || !is_alive(pid));
}

#[test]
fn a_dead_server_is_told_and_cleaned_up() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    let pid = pid_of(mount);
    send(pid, Signal::KILL);
    wait_until("the server to end", || !is_alive(pid));
    assert!(is_mounted(&scratch.mount()));
    assert_eq!(status(mount)["state"], "dead");
    assert!(!Path::new(&format!("/run/plyfs/{pid}.sock")).exists(), "a stale socket stays");
    let again = run(["mount", "mem:", mount]);
    assert_eq!(again.code, 7, "{again:?}");
    assert!(again.errors.contains("plyfs umount"), "{again:?}");
    let level = run(["log-level", mount]);
    assert_eq!(level.code, 13, "{level:?}");
    let ended = run(["umount", mount]);
    assert_eq!((ended.code, ended.errors.as_str()), (0, ""));
    assert!(!is_mounted(&scratch.mount()));
}

#[test]
fn a_server_that_umount_cannot_wait_for_is_reported() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    let pid = pid_of(mount);
    let _stopped = stop(pid);
    let ended = run(["umount", mount]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.errors.contains("was not waited for"), "{ended:?}");
    assert!(!is_mounted(&scratch.mount()));
    send(pid, Signal::CONT);
    wait_until("the server to end", || !is_alive(pid));
}

#[test]
fn a_stopped_server_is_named_without_waiting_for_it() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    let pid = pid_of(mount);
    if !reports_connections(pid) {
        return run(["umount", mount]).succeeded().clear();
    }
    let _stopped = stop(pid);
    let begin = Instant::now();
    let (details, seen) = (run(["status", mount]), status(mount));
    let took = begin.elapsed();
    send(pid, Signal::CONT);
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!((&seen["state"], &seen["pid"]), (&"stopped".into(), &pid.into()));
    assert!(
        details.output.contains("stopped: kill -CONT PID") && details.output.contains(&pid.to_string()),
        "{details:?}"
    );
    run(["umount", mount]).succeeded();
}

#[test]
fn a_silent_server_of_another_mount_is_not_waited_for_nor_reported() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (silent, dead) = (&scratch.name("silent"), &scratch.name("dead"));
    [silent, dead].into_iter().for_each(|mount| fs::create_dir(mount).unwrap());
    run(["mount", "mem:", silent]).succeeded();
    run(["mount", "mem:", dead]).succeeded();
    let (silent_pid, dead_pid) = (pid_of(silent), pid_of(dead));
    let _stopped = stop(silent_pid);
    send(dead_pid, Signal::KILL);
    wait_until("the server to end", || !is_alive(dead_pid));
    let ended = run(["umount", dead]);
    send(silent_pid, Signal::CONT);
    assert_eq!(ended.code, 0, "{ended:?}");
    // Older kernels cannot tell the two servers apart.
    if reports_connections(silent_pid) {
        assert_eq!(ended.errors, "");
    }
    run(["umount", silent]).succeeded();
}

/// Whether the kernel reports which FUSE connections a process has open.
fn reports_connections(pid: u32) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    descriptors.flatten().any(|file| fs::read_to_string(file.path()).is_ok_and(|text| text.contains("fuse_connection")))
}

#[test]
fn umount_of_the_system_ends_the_server_too() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    let pid = pid_of(mount);
    assert!(Command::new("umount").arg(mount).status().unwrap().success());
    wait_until("the server to end", || !is_alive(pid));
}

/// A server that does not end as long as nobody reads this pipe: its last words do not fit into it.
fn mounted_with_full_log(scratch: &Scratch) -> (u32, File) {
    let (mount, log) = (&scratch.name("mount"), &scratch.path("log"));
    rustix::fs::mkfifoat(rustix::fs::CWD, log, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let pipe = File::options().read(true).write(true).open(log).unwrap();
    run(["mount", "mem:", mount, "--log-file", log.to_str().unwrap()]).succeeded();
    rustix::io::ioctl_fionbio(&pipe, true).unwrap();
    while (&pipe).write(&[b'.'; 4096]).is_ok() {}
    (pid_of(mount), pipe)
}

/// Reads the pipe until the server has ended.
fn end_of_server(pid: u32, mut pipe: &File) {
    let mut written = [0; 4096];
    while is_alive(pid) {
        let _ = pipe.read(&mut written);
    }
}

/// Starts `plyfs umount`, and returns it with what it reports when it has waited for a while.
fn waiting_umount(mount: &str) -> (Child, BufReader<ChildStderr>, String) {
    let mut waiting = plyfs().args(["umount", mount]).stderr(Stdio::piped()).spawn().unwrap();
    let (mut errors, mut notice) = (BufReader::new(waiting.stderr.take().unwrap()), String::new());
    errors.read_line(&mut notice).unwrap();
    (waiting, errors, notice)
}

/// However long that takes.
#[test]
fn umount_waits_until_a_slow_server_has_ended() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (pid, pipe) = mounted_with_full_log(&scratch);
    let (mut waiting, _errors, notice) = waiting_umount(&scratch.name("mount"));
    assert!(notice.contains(&format!("waiting for its server (process {pid})")), "{notice:?}");
    assert!(!is_mounted(&scratch.mount()) && is_alive(pid) && waiting.try_wait().unwrap().is_none());
    end_of_server(pid, &pipe);
    assert!(waiting.wait().unwrap().success());
}

#[test]
fn umount_does_not_wait_for_a_server_that_is_stopped_meanwhile() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (pid, pipe) = mounted_with_full_log(&scratch);
    let (mut waiting, mut errors, _) = waiting_umount(&scratch.name("mount"));
    let _stopped = stop(pid);
    let mut notice = String::new();
    errors.read_line(&mut notice).unwrap();
    assert!(notice.contains("was not waited for") && notice.contains(&format!("kill -CONT {pid}")), "{notice:?}");
    assert!(waiting.wait().unwrap().success());
    send(pid, Signal::CONT);
    end_of_server(pid, &pipe);
}

/// The kernel gives the number of its connection, which it still has open, to the next mount.
#[test]
fn the_stopped_server_of_a_mount_is_told_from_that_of_a_former_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (former, mount) = (&scratch.name("former"), &scratch.name("mount"));
    fs::create_dir(former).unwrap();
    run(["mount", "mem:", former]).succeeded();
    let former_pid = pid_of(former);
    let _former = stop(former_pid);
    assert_eq!(run(["umount", former]).code, 0);
    run(["mount", "mem:", mount]).succeeded();
    let pid = pid_of(mount);
    let _stopped = stop(pid);
    let seen = status(mount);
    [pid, former_pid].into_iter().for_each(|pid| send(pid, Signal::CONT));
    umount(mount);
    // Older kernels do not tell whose it is.
    if seen["state"] == "stopped" {
        assert_eq!(seen["pid"], pid, "{seen}");
    }
    wait_until("the server to end", || !is_alive(former_pid));
}

#[test]
fn every_operation_is_traced_on_demand() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, log) = (&scratch.name("mount"), &scratch.name("log"));
    run(["mount", "mem:", mount, "--trace", "--log-file", log]).succeeded();
    fs::create_dir(scratch.path("mount/made-by-the-test")).unwrap();
    umount(mount);
    let text = fs::read_to_string(log).unwrap();
    assert_eq!(fs::metadata(log).unwrap().mode() & 0o777, 0o600);
    assert!(
        text.lines().any(|line| line.to_lowercase().contains("mkdir") && line.contains("made-by-the-test")),
        "{text}"
    );
    assert!(text.lines().last().unwrap().contains("unmounted"), "{text}");
    fs::remove_file(log).unwrap();
    run(["mount", "mem:", mount, "--log-file", log]).succeeded();
    fs::create_dir(scratch.path("mount/made-by-the-test")).unwrap();
    umount(mount);
    let text = fs::read_to_string(log).unwrap();
    assert!(!text.contains("made-by-the-test"), "requests are logged unasked: {text}");
}

#[test]
fn the_helper_of_mount_does_as_mount_expects() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, helper) = (&scratch.name("mount"), scratch.path("mount.plyfs"));
    symlink(env!("CARGO_BIN_EXE_plyfs"), &helper).unwrap();
    let call = |words: &[&str]| -> Run { finish(Command::new(&helper).args(words).output()) };
    call(&["mem:", mount, "-n", "-o", "rw,noauto,user,_netdev,x-mount.mkdir,exec"]).succeeded();
    assert_eq!(status(mount)["options"], serde_json::json!([]));
    assert_eq!(call(&["mem:", mount]).code, 32);
    umount(mount);
    let said = call(&["mem: | readonly", mount, "-v", "-f", "-t", "fuse.plyfs"]).succeeded();
    assert_eq!(said, format!("plyfs: mem: | readonly mounted on {mount}\n"));
    assert!(!is_mounted(&scratch.mount()), "a fake mount was made");
    let unknown = call(&["mem:", mount, "-o", "rw,bogus"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    call(&["mem:", mount, "-s", "-o", "rw,bogus"]).succeeded();
    umount(mount);
    assert_eq!(call(&["mem: | nonsense", mount]).code, 32);
    assert_eq!(call(&["mem:", mount, "-t", "ext4"]).code, 1);
    // As mount.fuse calls the program itself.
    finish(plyfs().args(["mem:", mount, "-o", "rw"]).output()).succeeded();
    umount(mount);
}

#[test]
fn what_a_mount_below_forbids_is_forbidden_above() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, stick) = (&scratch.name("mount"), scratch.path("base/stick"));
    let mount_tmpfs = |point: &Path, options: &str| {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(point).status();
        assert!(mounted.expect("mount is started").success(), "nothing is mounted on {}", point.display());
    };
    fs::create_dir(scratch.path("base")).unwrap();
    mount_tmpfs(&scratch.path("base"), "mode=755");
    fs::create_dir(&stick).unwrap();
    mount_tmpfs(&stick, "nosuid,nodev,mode=755");
    copy_program("/usr/bin/id", stick.join("id"));
    fs::set_permissions(stick.join("id"), fs::Permissions::from_mode(0o4755)).unwrap();
    let device = rustix::fs::makedev(1, 3);
    let (kind, mode) = (rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::from_raw_mode(0o666));
    rustix::fs::mknodat(rustix::fs::CWD, stick.join("null"), kind, mode, device).unwrap();

    for stack in [scratch.name("base"), format!("{} | map(owner=nobody, perms=\"u=rwX,go=rX\")", scratch.name("base"))]
    {
        run(["mount", &stack, mount, "-o", "suid,dev,allow_other"]).succeeded();
        let program = scratch.path("mount/stick/id");
        let mut as_user = Command::new("setpriv");
        as_user.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).arg("-u");
        assert_eq!(finish(as_user.output()).succeeded(), "65534\n", "{stack}");
        let opened = File::open(scratch.path("mount/stick/null"));
        assert_eq!(opened.err().and_then(|error| error.raw_os_error()), Some(rustix::io::Errno::NXIO.raw_os_error()));
        let remount = |option| {
            let remounted = Command::new("mount").args(["-o", &format!("remount,bind,{option}")]).arg(&stick).status();
            assert!(remounted.expect("mount is started").success(), "{option}");
        };
        remount("nosuid,nodev,noexec");
        let started = Command::new(&program).output().map(drop).map_err(|error| error.kind());
        assert_eq!(started, Err(std::io::ErrorKind::PermissionDenied), "{stack}, also for root");
        remount("nosuid,nodev,exec,ro");
        let written = File::options().append(true).open(&program).map(drop).map_err(|error| error.kind());
        assert_eq!(written, Err(std::io::ErrorKind::ReadOnlyFilesystem), "{stack}");
        remount("nosuid,nodev,exec,rw");
        umount(mount);
    }
}

/// What a user without privileges gets from a shell command, and whether it succeeds.
fn as_user(directory: &Path, command: &str) -> (bool, String) {
    let mut shell = Command::new("setpriv");
    shell.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "timeout", "60", "sh", "-c", command]);
    let output = shell.current_dir(directory).output().expect("setpriv is started");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn users_are_as_powerful_as_beside_the_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base) = (&scratch.name("mount"), scratch.path("base"));
    fs::create_dir(&base).unwrap();
    File::create(scratch.path("image")).unwrap().set_len(64 << 20).unwrap();
    let call = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).args(arguments).status().expect("it is started").success(), "{arguments:?}");
    };
    // A quarter is reserved for the superuser.
    call("mkfs.ext4", &["-q", "-F", "-b", "4096", "-m", "25", &scratch.name("image")]);
    call("mount", &["-o", "loop", &scratch.name("image"), base.to_str().unwrap()]);
    fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
    let free = || rustix::fs::statvfs(&base).unwrap().f_bfree;
    let (before, reserve) = (free(), free() / 5);
    for options in ["allow_other", "allow_other,nopassthrough"] {
        for stack in [scratch.name("base"), format!("{} | audit(to=/dev/null)", scratch.name("base"))] {
            run(["mount", &stack, mount, "-o", options]).succeeded();
            // A file that root has written to: its thread had all capabilities.
            fs::write(scratch.path("mount/before"), "x").unwrap();
            let (_, last) = as_user(&scratch.mount(), "dd if=/dev/zero of=large bs=64k 2>&1 | grep -o 'No space left'");
            assert_eq!(last, "No space left\n", "{stack}, {options}");
            assert!(free() >= reserve, "{stack}, {options}: {} blocks are left of {reserve}", free());
            fs::remove_file(scratch.path("mount/large")).unwrap();
            // Who closed it does not wait until it is closed below.
            wait_until("the room is free", || free() > before / 2);

            let give = "cp /usr/bin/true own && unshare -Ur setcap cap_net_raw+ep own && unshare -Ur getcap own";
            let beside = as_user(&base, &format!("{give} && rm -f own"));
            assert_eq!(beside, (true, "own cap_net_raw=ep\n".to_owned()));
            assert_eq!(
                as_user(&scratch.mount(), &format!("{give} && unshare -Ur setcap -r own && rm own")),
                beside,
                "{stack}"
            );

            let bits = |name: &str| fs::metadata(scratch.path(name)).unwrap().mode() & 0o7777;
            for name in ["base/owned", "mount/owned"] {
                File::create(scratch.path(name)).unwrap();
                fs::set_permissions(scratch.path(name), fs::Permissions::from_mode(0o6755)).unwrap();
                let chown = "perl -e 'exit !chown(-1, -1, \"owned\")'";
                assert!(!as_user(scratch.path(name).parent().unwrap(), chown).0, "{name} is another's");
                assert_eq!(bits(name), 0o6755);
                std::os::unix::fs::chown(scratch.path(name), None, None).unwrap();
                assert_eq!(bits(name), 0o755, "{name}, {stack}");
                fs::remove_file(scratch.path(name)).unwrap();
            }

            // The kernel waits for the program while it is being executed, and the server asks who executes it.
            copy_program("/usr/bin/true", scratch.path("mount/program"));
            let mut executed = Command::new("timeout");
            executed.args(["60", "unshare", "--user", "--map-root-user"]).arg(scratch.path("mount/program"));
            finish(executed.output()).succeeded();
            umount(mount);
        }
    }
}

/// Changes of what is in a directory without permissions, and of a file without any.
const CHANGES_OF_CLOSED: &str = "
echo x > closed/new
echo x > own
truncate -s 0 own
mkdir closed/d
mkfifo closed/p
ln -s x closed/s
ln own closed/l
mv closed/new closed/d/moved
rm closed/d/moved closed/p closed/s closed/l
stat -c %A closed/d
rmdir closed/d
printf own > own
";

/// The kernel admits whom the file system below knows too little of.
#[test]
fn what_the_kernel_grants_for_others_or_in_namespaces_is_granted() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base, other) = (&scratch.name("mount"), scratch.path("base"), scratch.path("other"));
    for directory in [&base, &other] {
        fs::create_dir(directory).unwrap();
    }
    fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
    let file = |name: &str, owner: u32, mode: u32| {
        fs::write(base.join(name), name).unwrap();
        std::os::unix::fs::chown(base.join(name), Some(owner), Some(65_534)).unwrap();
        fs::set_permissions(base.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    file("others", 0, 0);
    file("of_group", 1_001, 0o640);
    let copied = other.join("lower");
    for directory in [&copied, &copied.join("inner")] {
        fs::create_dir(directory).unwrap();
        std::os::unix::fs::chown(directory, Some(65_534), Some(65_534)).unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o000)).unwrap();
    }
    for stack in [
        scratch.name("base"),
        format!("{} | map(user-map=1001/1002)", scratch.name("base")),
        format!("{}=rw, {}=ro | union", scratch.name("base"), scratch.name("other")),
    ] {
        file("own", 65_534, 0);
        as_user(
            &base,
            "chmod -f 700 closed; rm -rf closed; mkdir closed && echo below > closed/f && chmod 0 closed/f closed",
        );
        run(["mount", &stack, mount, "-o", "allow_other"]).succeeded();
        for directory in [&base, &scratch.mount()] {
            let what = format!("{stack}, {}", directory.display());
            assert_eq!(as_user(directory, "unshare -Ur cat own"), (true, "own".to_owned()), "{what}");
            let below = as_user(directory, "unshare -Ur sh -c 'ls closed && cat closed/f'");
            assert_eq!(below, (true, "f\nbelow\n".to_owned()), "{what}");
            let changed = as_user(directory, &format!("unshare -Ur sh -ec '{CHANGES_OF_CLOSED}'"));
            assert_eq!(changed, (true, "drwxr-xr-x\n".to_owned()), "{what}");
            for command in CHANGES_OF_CLOSED.lines().filter(|line| line.contains("closed")) {
                assert!(!as_user(directory, command).0, "{command}: {what}");
            }
            if stack.contains("union") && *directory == scratch.mount() {
                let below = as_user(
                    directory,
                    "unshare -Ur sh -ec 'touch lower/inner/f && rmdir lower/inner 2>&1 || ls lower/inner'",
                );
                assert_eq!(below.1.lines().last(), Some("f"), "{below:?}");
            }
            for command in ["cat own", "ls closed", "unshare -Ur cat others", "unshare -Ur sh -c 'echo > others'"] {
                assert!(!as_user(directory, command).0, "{command}: {what}");
            }
        }
        // Overlayfs asks with the ids of whoever mounted it, in the process of whoever uses it.
        let merged = scratch.path("merged");
        fs::create_dir_all(&merged).unwrap();
        let lower = format!("lowerdir={mount}:{}", scratch.name("other"));
        let overlay = Command::new("mount").args(["-t", "overlay", "overlay", "-o", &lower]).arg(&merged).status();
        assert!(overlay.unwrap().success());
        let read = as_user(&merged, "cat of_group");
        let unmounted = Command::new("umount").arg(&merged).status().unwrap();
        assert_eq!(read, (true, "of_group".to_owned()), "{stack}");
        assert!(unmounted.success());
        umount(mount);
    }
}

/// Also where the server writes for them: behind a view of owners, what the kernel kept, and copies of a union.
#[test]
fn what_is_reserved_for_the_superuser_is_not_taken_by_users_through_any_stack() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base, lower) = (&scratch.name("mount"), scratch.path("base"), scratch.path("lower"));
    for directory in [&base, &lower] {
        fs::create_dir(directory).unwrap();
    }
    File::create(scratch.path("image")).unwrap().set_len(64 << 20).unwrap();
    let call = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).args(arguments).status().expect("it is started").success(), "{arguments:?}");
    };
    call("mkfs.ext4", &["-q", "-F", "-b", "4096", "-m", "50", &scratch.name("image")]);
    call("mount", &["-o", "loop", &scratch.name("image"), base.to_str().unwrap()]);
    call("mount", &["-t", "tmpfs", "-o", "mode=777", "none", lower.to_str().unwrap()]);
    fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
    // More than users may write, and less than there is.
    fs::write(lower.join("copied"), vec![7; 40 << 20]).unwrap();
    fs::set_permissions(lower.join("copied"), fs::Permissions::from_mode(0o666)).unwrap();
    let free = || rustix::fs::statvfs(&base).unwrap().f_bfree;
    let reserve = free() * 2 / 5;
    let (base, lower) = (scratch.name("base"), scratch.name("lower"));
    // Opened to be read first: where the kernel writes by itself, it does so as who opened it first.
    let fill = |by: &str, count: u32| {
        let read_first = format!("touch {by}; exec 3<{by}");
        let write = format!("dd if=/dev/zero of={by} bs=64k count={count} conv=fsync");
        format!("{read_first}; {write} 2>&1 | grep -o 'No space left' | head -1")
    };
    let append = "printf x 2>&1 >> copied";
    for (stack, options) in [
        (base.clone(), "allow_other,writes=back"),
        (format!("{base} | map(owner=nobody, perms=\"u=rwX,go=rX\")"), "allow_other"),
        (format!("{base} | map(owner=nobody, perms=\"u=rwX,go=rX\")"), "allow_other,nopassthrough"),
        (format!("{base} | map(owner=nobody, perms=\"u=rwX,go=rX\")"), "allow_other,writes=back"),
        (format!("{base}=rw, {lower}=ro | union"), "allow_other"),
        (format!("{base}=rw, {lower}=ro | union(metacopy=on)"), "allow_other"),
    ] {
        run(["mount", &stack, mount, "-o", options]).succeeded();
        let report = |what: &str| format!("{what}: {stack}, {options}, {} blocks are left of {reserve}", free());
        if stack.contains("union") {
            if stack.contains("metacopy") {
                fs::set_permissions(scratch.path("mount/copied"), fs::Permissions::from_mode(0o666)).unwrap();
            }
            assert!(!as_user(&scratch.mount(), append).0, "{}", report("copied"));
            assert!(free() >= reserve, "{}", report("copied"));
            std::io::Write::write_all(
                &mut File::options().append(true).open(scratch.path("mount/copied")).unwrap(),
                b"x",
            )
            .unwrap();
            assert!(free() < reserve, "{}", report("the superuser copies"));
        } else {
            assert_eq!(as_user(&scratch.mount(), &fill("large", 1_000)).1, "No space left\n", "{}", report("filled"));
            assert!(free() >= reserve, "{}", report("filled"));
            let mut shell = Command::new("sh");
            let roots = finish(shell.args(["-c", &fill("roots", 320)]).current_dir(scratch.mount()).output());
            assert_eq!(roots.succeeded(), "", "{}", report("the superuser goes on"));
            assert!(free() < reserve, "{}", report("the superuser goes on"));
        }
        umount(mount);
        for name in ["large", "roots", "copied"] {
            let _ = fs::remove_file(scratch.path("base").join(name));
        }
    }
}

/// Each prints what it is and fails where a user finds no room for it.
const TAKE_ROOM: &str = r#"
name=$(printf '%0200d' 0)
# Stops at the first that fails.
many() { for number in $(seq 100); do "$@" "$name$number" || return; done; }
mkdir d && echo directory
(cd files && many touch) && echo files
(cd fifos && many mkfifo) && echo fifos
(cd symlinks && many ln -s short) && echo symlinks
(cd links && many ln ../file) && echo links
moved() { touch ../away/x && mv ../away/x "$1"; }
(cd moved && many moved) && echo moved
ln -s "$name" long && echo a long symlink
setfattr -n user.large -v "$(printf '%02000d' 0)" file && echo an attribute
[ ! -d below ] || { touch below/1/2/new && echo directories above; }
[ ! -d below ] || { touch below/copied && echo a copy; }
"#;

/// Also where the server makes them: behind a view of owners, and copies of a union.
#[test]
fn names_and_objects_take_nothing_that_is_reserved_for_the_superuser_through_any_stack() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, base, lower) = (&scratch.name("mount"), scratch.path("base"), scratch.path("lower"));
    for directory in [&base, &lower, &lower.join("below"), &lower.join("below/1"), &lower.join("below/1/2")] {
        fs::create_dir(directory).unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    }
    for name in ["below/first", "below/copied"] {
        fs::write(lower.join(name), "x").unwrap();
        std::os::unix::fs::chown(lower.join(name), Some(65_534), None).unwrap();
    }
    File::create(scratch.path("image")).unwrap().set_len(16 << 20).unwrap();
    let call = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).args(arguments).status().expect("it is started").success(), "{arguments:?}");
    };
    call("mkfs.ext4", &["-q", "-F", "-b", "4096", "-m", "50", "-N", "8192", &scratch.name("image")]);
    call("mount", &["-o", "loop", &scratch.name("image"), base.to_str().unwrap()]);
    fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
    let free = || rustix::fs::statvfs(&base).unwrap().f_bfree;
    let (base, lower) = (scratch.name("base"), scratch.name("lower"));
    for stack in [
        base.clone(),
        format!("{base} | map(owner=nobody, perms=\"u=rwX,go=rX\")"),
        format!("{base} | map(user-map=1000/65534, group-map=1000/65534)"),
        format!("{base}=rw, {lower}=ro | union"),
        format!("{base}=rw, {lower}=ro | union(whiteouts=overlay)"),
    ] {
        run(["mount", &stack, mount, "-o", "allow_other"]).succeeded();
        // With the first copy, a union makes its own directories.
        let begin = "mkdir files fifos symlinks links moved away && touch file; [ ! -d below ] || touch below/first;
            dd if=/dev/zero of=large bs=64k conv=fsync 2>&1 | grep -o 'No space left' | head -1;
            dd if=/dev/zero of=rest bs=4k conv=fsync 2>/dev/null";
        let filled = as_user(&scratch.mount(), begin);
        assert_eq!(filled.1, "No space left\n", "{stack}");
        let left = free();
        assert_eq!(as_user(&scratch.mount(), &format!("exec 2>/dev/null; {TAKE_ROOM}")).1, "", "{stack}");
        assert!(free() >= left, "{stack}: {} blocks are left of {left}", free());
        let mut shell = Command::new("sh");
        shell.args(["-c", "mkdir of_root && mkdir of_root/too"]).current_dir(scratch.mount());
        finish(shell.output()).succeeded();
        assert!(free() < left, "{stack}: the superuser takes it");
        umount(mount);
        for entry in fs::read_dir(scratch.path("base")).unwrap().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// As in a container that shares the directory of sockets: each side knows the other by no number of a process.
#[test]
fn commands_of_another_pid_namespace_are_answered() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    for words in [&["status", mount][..], &["stats", mount], &["umount", mount]] {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", env!("CARGO_BIN_EXE_plyfs")]).args(words);
        finish(command.output()).succeeded();
    }
    assert!(!is_mounted(&scratch.mount()));
}

#[test]
fn the_root_of_a_user_namespace_is_promised_nothing_of_roots() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let base = scratch.mount().display().to_string();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", env!("CARGO_BIN_EXE_plyfs")]);
    let explained = finish(command.args(["mount", "--explain", &base]).output()).succeeded();
    assert!(explained.contains("through the page cache: it needs root"), "{explained}");
}

/// What a user puts where a server's socket was: one that claims CLAIM, one that says nothing byte by byte, one that takes no
/// connection.
const FALSE_SERVERS: &str = r#"
use IO::Socket::UNIX;
sub listener { IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => "$_[0].sock", Listen => $_[1]) or die "$_[0]: $!" }
my ($claims, $drips, $full) = (listener("claims", 5), listener("drips", 5), listener("full", 0));
$SIG{PIPE} = "IGNORE";
my @callers;
for (1 .. 3) {
    my $caller = IO::Socket::UNIX->new(Type => SOCK_STREAM);
    $caller->blocking(0);
    $caller->connect(pack_sockaddr_un("full.sock"));
    push @callers, $caller;
}
open(my $ready, ">", "ready");
close $ready;
if (!fork) {
    while (my $connection = $claims->accept) { $connection->sysread(my $request, 4096); $connection->syswrite("$ENV{CLAIM}\n"); }
    exit;
}
while (my $connection = $drips->accept) {
    next if fork;
    for (1 .. 600) { $connection->syswrite(" ") or exit; select(undef, undef, undef, 0.5); }
    exit;
}
"#;

/// A user's false servers keep nobody from the mounts of others, and are not believed.
#[test]
fn false_servers_delay_nobody_and_are_not_believed() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = scratch.name("mount");
    run(["mount", "mem:", &mount]).succeeded();
    // The directory of a user that nobody is.
    let user = 4_000_000 + std::process::id();
    let directory = Path::new("/tmp").join(format!("plyfs-{user}"));
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&directory, Some(user), Some(user)).unwrap();
    let report = run(["status", "--json", &mount]).succeeded();
    let report: Value = serde_json::from_str(&report).unwrap();
    let mut claim = report.as_array().map_or(&report, |reports| &reports[0]).clone();
    for (key, value) in [("version", "\u{1b}[31m"), ("mount_point", &mount), ("log_level", "false"), ("stack", "mem:")]
    {
        claim[key] = value.into();
    }
    let mut server = Command::new("perl");
    server.args(["-e", FALSE_SERVERS]).env("CLAIM", serde_json::json!({ "status": claim }).to_string());
    let mut server =
        server.uid(user).gid(user).process_group(0).current_dir(&directory).stdin(Stdio::null()).spawn().unwrap();
    wait_until("the false servers listen", || directory.join("ready").exists());
    let begin = Instant::now();
    let status = run(["status", &mount]).succeeded();
    assert!(!status.contains("31m") && !status.contains("false"), "{status}");
    run(["log-level", &mount, "debug"]).succeeded();
    run(["stats", &mount]).succeeded();
    run(["mount", "-o", "remount,noexec", &mount]).succeeded();
    for words in [["control", &mount, "union", "branches"], ["snapshot", "take", &mount, "name"]] {
        let refused = run(words);
        assert!(refused.code == 1 && refused.errors.contains("union"), "{refused:?}");
    }
    // Here all are asked, each user for so long and no longer.
    let all = asked_of_all(["status"], &mount);
    assert!(begin.elapsed() < Duration::from_secs(60), "it took {:?}", begin.elapsed());
    assert_eq!(all.matches(&mount).count(), 1, "{all}");
    umount(&mount);
    // With those that it has started.
    let group = Pid::from_child(&server);
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    server.wait().unwrap();
    fs::remove_dir_all(&directory).unwrap();
}

/// Runs a test again in a mount name space where all users may open /dev/fuse, as on an ordinary system.
fn with_open_device(test: &str) {
    let scratch = Scratch::new();
    // In a directory of its own, which nobody outside sees.
    let place = scratch.name("device");
    fs::create_dir(&place).unwrap();
    let script = format!(
        "mount -t tmpfs none {place} && mknod -m 666 {place}/fuse c 10 229 && mount --bind {place}/fuse /dev/fuse &&
        exec \"$0\" --exact {test} --show-output"
    );
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(program);
    let result = finish(command.output());
    assert_eq!(result.code, 0, "{}{}", result.output, result.errors);
    assert!(result.output.contains("test result: ok. 1 passed"), "{}", result.output);
    // What is said there is said here.
    print!("{}", result.output);
}

#[test]
fn users_mount_through_the_helper_of_fuse() {
    let helper = ["/usr/bin/fusermount3", "/bin/fusermount3"].iter().any(|path| Path::new(path).exists());
    if !can_mount() || !helper {
        eprintln!("skipped: needs fusermount3");
        return;
    }
    if fs::metadata("/dev/fuse").unwrap().mode() & 0o666 != 0o666 {
        return with_open_device("users_mount_through_the_helper_of_fuse");
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    std::os::unix::fs::chown(scratch.mount(), Some(65_534), Some(65_534)).unwrap();
    let runtime = scratch.path("runtime");
    fs::create_dir(&runtime).unwrap();
    std::os::unix::fs::chown(&runtime, Some(65_534), Some(65_534)).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    // The program may be in a directory that the user cannot reach.
    let program = scratch.path("plyfs");
    copy_program(env!("CARGO_BIN_EXE_plyfs"), &program);
    let as_nobody = |runtime: &Path, words: &[&str]| -> Run {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).args(words);
        finish(command.env("XDG_RUNTIME_DIR", runtime).current_dir("/").output())
    };
    as_nobody(&runtime, &["mount", "mem:", mount]).succeeded();
    assert!(is_mounted(&scratch.mount()));
    assert!(runtime.join("plyfs").read_dir().unwrap().next().is_some(), "no control socket");
    assert!(as_nobody(&runtime, &["status"]).succeeded().contains(mount.as_str()));
    assert_eq!(status(mount)["state"], "other-user", "root finds a socket in a directory that it does not look into");
    as_nobody(&runtime, &["umount", mount]).succeeded();
    assert!(!is_mounted(&scratch.mount()));
    // What fails after the mount was made takes it away again.
    let failed = as_nobody(&scratch.path("none"), &["mount", "mem:", mount]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.errors.contains("cannot create "), "{failed:?}");
    wait_until("nothing to be mounted", || !is_mounted(&scratch.mount()));
    // Somebody else's mount point.
    let not_ours = as_nobody(&runtime, &["mount", "mem:", "/mnt"]);
    assert_eq!(not_ours.code, 9, "{not_ours:?}");
    assert_eq!(not_ours.errors.lines().count(), 1, "{not_ours:?}");
}

#[test]
fn other_users_may_not_ask() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    run(["mount", "mem:", mount]).succeeded();
    let program = scratch.path("plyfs");
    copy_program(env!("CARGO_BIN_EXE_plyfs"), &program);
    let as_nobody = |words: &[&str]| -> Run {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).args(words);
        finish(command.env_remove("XDG_RUNTIME_DIR").output())
    };
    for words in [["log-level", mount], ["umount", mount]] {
        let refused = as_nobody(&words);
        assert_eq!(refused.code, 9, "{refused:?}");
    }
    assert!(as_nobody(&["status"]).succeeded().contains("another user's"));
    umount(mount);
}

#[test]
fn scripts_and_pages_are_generated() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(["completions", shell]).succeeded().contains("PLYFS_COMPLETE"));
        // As the script calls it.
        let mut tools = Command::new(env!("CARGO_BIN_EXE_plyfs-tools"));
        tools.args(["--", "plyfs", "log"]).env("PLYFS_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "1");
        assert!(finish(tools.output()).succeeded().starts_with("log-level"), "{shell}");
    }
    run(["man", &scratch.name("man")]).succeeded();
    for page in [
        "plyfs.1",
        "plyfs-mount.1",
        "plyfs-shell.1",
        "mount.plyfs.8",
        "plyfs-stack.5",
        "plyfs-layers.7",
        "plyfs-tools.1",
    ] {
        let text = fs::read_to_string(scratch.path("man").join(page)).unwrap();
        for section in ["NAME", "SYNOPSIS", "EXAMPLES", "SEE ALSO"] {
            assert!(
                text.contains(&format!(".SH {section}")) || text.contains(&format!(".SH \"{section}\"")),
                "{page}: {section}"
            );
        }
    }
    assert!(fs::read_to_string(scratch.path("man/plyfs.1")).unwrap().contains("Exit codes"));
    let list = run(["layers"]).succeeded();
    // Programs of the machine follow below an empty line.
    for layer in list.lines().take_while(|line| !line.is_empty()).map(|line| line.split_whitespace().next().unwrap()) {
        let page = fs::read_to_string(scratch.path("man").join(format!("plyfs-layer-{layer}.7"))).unwrap();
        assert!(page.contains(".SH NAME"), "{layer}");
        // Each option and control command that the command lists is in the page, too.
        let told = run(["layers", layer]).succeeded();
        let (options, controls) = told.split_once("  plyfs control MOUNTPOINT ").unwrap_or((&told, ""));
        let controls = controls.lines().skip(2).filter(|line| !line.is_empty() && !line.starts_with("  "));
        for control in controls.map(|line| line.split_whitespace().next().unwrap()) {
            assert!(page.contains(&format!("\n\\fB{}", control.replace('-', "\\-"))), "{layer} {control}: {page}");
        }
        let options = options.lines().skip(3).filter_map(|line| Some(line.trim().split_once('=')?.0));
        for option in options {
            assert!(page.contains(&format!("\\fB{}\\fR=", option.replace('-', "\\-"))), "{layer} {option}: {page}");
        }
    }
    for page in ["plyfs-union", "plyfs-union-view-add", "plyfs-union-check", "plyfs-snapshot-take"] {
        assert!(scratch.path("man").join(format!("{page}.1")).exists(), "{page}");
    }
    assert!(list.lines().any(|line| line.trim_start().starts_with("union ")), "{list}");
    let misspelt = run(["layers", "unoin"]);
    assert_eq!(
        (misspelt.code, misspelt.errors.as_str()),
        (4, "plyfs: there is no layer 'unoin'; did you mean 'union'?\n")
    );
}

#[test]
fn tools_are_found_beside_the_executable_or_in_the_path_and_named_where_they_are_missing() {
    let scratch = Scratch::new();
    let run = |program: &Path, path: &Path| {
        finish(Command::new(program).args(["completions", "bash"]).env("PATH", path).output())
    };
    let (built, nowhere) = (Path::new(env!("CARGO_BIN_EXE_plyfs")), scratch.path("nowhere"));
    let (link, copy) = (scratch.path("link"), scratch.path("copy"));
    symlink(built, &link).unwrap();
    copy_program(built, &copy);
    run(&link, &nowhere).succeeded();
    run(&copy, built.parent().unwrap()).succeeded();
    let missing = run(&copy, &nowhere);
    assert_eq!((missing.code, missing.errors.lines().count()), (1, 1), "{missing:?}");
    assert!(missing.errors.starts_with("plyfs: this command needs plyfs-tools, "), "{missing:?}");
    assert!(missing.errors.contains("; to install it "), "{missing:?}");
}

#[test]
fn the_shell_works_without_a_mount() {
    let result = run(["shell", "mem: | readonly", "-c", "ls -l; df; cat readme"]);
    assert_eq!(result.code, 1);
    assert!(result.errors.starts_with("plyfs: cat: readme: No such file or directory (ENOENT)\n"), "{result:?}");
    assert_eq!(run(["shell", "mem:", "-c", "echo hello > a; mkdir d; ls"]).succeeded(), "a\nd\n");
    let mut child = plyfs().args(["shell", "mem:"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"echo typed > t\ncat t\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"typed\n");
}

#[test]
fn a_mount_inside_its_own_directory_shows_what_it_covers_and_ends_at_once() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = &scratch.name("mount");
    fs::write(scratch.path("mount/covered"), "text").unwrap();
    fs::write(scratch.path("beside"), "text").unwrap();
    let base = Path::new(mount).parent().unwrap().to_str().unwrap();
    let made = run(["mount", base, mount]);
    assert_eq!(made.code, 0, "{made:?}");
    let pid = pid_of(mount);
    assert_eq!(fs::read(scratch.path("mount/mount/covered")).unwrap(), b"text");
    assert!(!scratch.path("mount/mount/mount").exists(), "the mount was entered from below");
    fs::write(scratch.path("mount/mount/new"), "text").unwrap();
    assert_eq!(fs::read_dir(scratch.path("mount/mount")).unwrap().count(), 2);
    assert!(fs::remove_dir(scratch.path("mount/mount")).is_err(), "what is covered was removed");
    umount(mount);
    assert!(!is_alive(pid), "the server holds its own mount");
    assert_eq!(fs::read(scratch.path("mount/new")).unwrap(), b"text");
}

#[test]
fn an_audit_whose_lines_nobody_would_read_is_refused() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (mount, log) = (scratch.name("mount"), scratch.name("log"));
    let has_syslog = Path::new("/dev/log").exists();
    let mounted = run(["mount", "mem: | audit", &mount]);
    if has_syslog {
        mounted.succeeded();
        umount(&mount);
    } else {
        assert_eq!(mounted.code, 4, "{mounted:?}");
        assert!(mounted.errors.contains("`audit` needs the option `to`: there is no system log"), "{mounted:?}");
        assert!(!is_mounted(&scratch.mount()));
    }
    run(["mount", "--log-file", &log, "mem: | audit(result=all)", &mount]).succeeded();
    fs::write(scratch.path("mount/file"), "text").unwrap();
    umount(&mount);
    assert!(has_syslog || fs::read_to_string(&log).unwrap().contains("\"create\""));
}

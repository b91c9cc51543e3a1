//! What the tests of the command share: running it, and directories that are unmounted and removed at the end.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// What a run of the command gave.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

/// The command.
pub(crate) fn plyfs() -> Command {
    Command::new(env!("CARGO_BIN_EXE_plyfs"))
}

/// Runs the command with these words.
pub(crate) fn run<const N: usize>(words: [&str; N]) -> Run {
    finish(plyfs().args(words).stdin(Stdio::null()).output())
}

/// Runs a command that is set up already.
pub(crate) fn finish(output: std::io::Result<Output>) -> Run {
    let output = output.expect("the command starts");
    Run {
        code: output.status.code().expect("the command ends by itself"),
        output: String::from_utf8(output.stdout).expect("output is text"),
        errors: String::from_utf8(output.stderr).expect("errors are text"),
    }
}

impl Run {
    /// The output of a run that succeeded without a word on standard error.
    pub(crate) fn succeeded(self) -> String {
        assert!(self.code == 0 && self.errors.is_empty(), "{self:?}");
        self.output
    }
}

/// The output of a command that asks the servers of all mounts. Other tests of this process stop and kill theirs meanwhile: what
/// is reported of those is no failure, what is reported of this mount is one.
pub(crate) fn asked_of_all<const N: usize>(words: [&str; N], mount_point: &str) -> String {
    let asked = run(words);
    assert!(asked.code == 0 && !asked.errors.contains(mount_point), "{asked:?}");
    asked.output
}

/// How many requests of an operation a mount has had.
pub(crate) fn requests(mount: &str, operation: &str) -> u64 {
    let status = run(["status", "--json", mount]).succeeded();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    status[0]["requests_by_operation"][operation].as_u64().unwrap_or(0)
}

/// Unmounts what is mounted here. A program that another test of this process starts has copies of all open files until it is
/// executed: while the mount is in use, this is tried again for a while. Where storage is slow the command says that it waits.
pub(crate) fn umount(mount_point: &str) {
    const IN_USE: i32 = 12;
    let end = Instant::now() + Duration::from_secs(10);
    let mut ended = run(["umount", mount_point]);
    while ended.code == IN_USE && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
        ended = run(["umount", mount_point]);
    }
    assert!(ended.code == 0 && ended.errors.lines().all(|line| line.contains("waiting for its server")), "{ended:?}");
}

/// Directories for one test. At the end whatever is mounted on `mount` is unmounted.
pub(crate) struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    /// New directories, open to all users.
    pub(crate) fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::Builder::new().prefix("plyfs-cli-").tempdir().expect("a directory is made");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("its mode is set");
        fs::create_dir(directory.path().join("mount")).expect("the mount point is made");
        Scratch { directory }
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The same as text.
    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).to_str().expect("scratch paths are text").to_owned()
    }

    /// The mount point.
    pub(crate) fn mount(&self) -> PathBuf {
        self.path("mount")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for name in ["merged", "mount", "base", "lower", "mount.plyfs"] {
            let path = self.path(name);
            if is_mounted(&path) {
                let _ = rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH);
            }
        }
    }
}

/// Whether something is mounted on exactly this path.
pub(crate) fn is_mounted(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("the mount table is read");
    let path = path.to_str().expect("a path of text");
    table.lines().any(|line| line.split(' ').nth(4) == Some(path))
}

/// Whether FUSE file systems can be mounted here by root; says so if not, since the test is then skipped.
pub(crate) fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: needs root and /dev/fuse");
    }
    can
}

/// Waits until the condition holds.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the process is there and has not ended, with all its threads: what it has open is open until then.
pub(crate) fn is_alive(pid: u32) -> bool {
    if fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) > 1 {
        return true;
    }
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// Sends a signal to a process that is there.
pub(crate) fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).expect("a pid"), signal).expect("the process is there");
}

/// A process that is stopped until this is dropped, at the latest: others would take it for the server of their mounts.
#[must_use]
pub(crate) struct StoppedProcess(u32);

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = kill_process(Pid::from_raw(self.0 as i32).expect("a pid"), Signal::CONT);
    }
}

/// Stops a process, and waits until it has stopped: a thread on another CPU may run for a moment after the signal was sent.
pub(crate) fn stop(pid: u32) -> StoppedProcess {
    let stopped = StoppedProcess(pid);
    send(pid, Signal::STOP);
    let has_stopped = |task: &fs::DirEntry| {
        let state = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        state.rsplit(')').next().is_none_or(|rest| rest.starts_with(" T") || rest.is_empty())
    };
    wait_until("the process to stop", || {
        fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten().all(|task| has_stopped(&task))
    });
    stopped
}

/// Copies a program to be run. A process of its own does it: what this one had open for writing for a moment, a process that
/// another test starts just then would have open too, and nobody could run it.
pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp")
        .arg("--remove-destination")
        .arg(from.as_ref())
        .arg(to.as_ref())
        .output()
        .expect("cp is started");
    assert!(copied.status.success(), "{}: {}", from.as_ref().display(), String::from_utf8_lossy(&copied.stderr));
}

//! Runs the harness itself at small sizes. Needs root, and says so where it is not.
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(["--quick", "--image-gib", "1"]).args(arguments).stdin(Stdio::null());
    command
}

fn lacks_root() -> bool {
    let lacks = !rustix::process::geteuid().is_root();
    if lacks {
        eprintln!("skipped: needs root");
    }
    lacks
}

/// Directories that harnesses made and did not remove.
fn leftovers(of: &Path) -> usize {
    std::fs::read_dir(of).expect("it was just made").count()
}

#[test]
fn figures_are_written_and_nothing_stays() {
    if lacks_root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let output = tempfile::tempdir().expect("a directory for the results");
    let run = bench(&["--subjects", "native", "--only", "sequential,random,fchown", "--output"])
        .arg(output.path())
        .env("TMPDIR", scratch.path())
        .output()
        .expect("bench starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(output.path().join("results.json")).expect("results.json");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for (workload, step) in [("sequential", "write"), ("random", "write"), ("fchown", "fchown")] {
        let steps = results["workloads"][workload]["steps"].as_array().expect("steps");
        let step = steps.iter().find(|found| found["step"] == step).expect("the step");
        assert_eq!(step["subjects"]["native"]["ratio"], 1.0, "{workload}");
    }
    assert!(output.path().join("results.md").is_file());
    assert!(output.path().join("chart.svg").is_file());
    assert_eq!(leftovers(scratch.path()), 0);
}

#[test]
fn unions_are_measured_by_the_number_of_branches() {
    if lacks_root() {
        return;
    }
    let output = tempfile::tempdir().expect("a directory for the results");
    let run = bench(&["union", "--subjects", "native,overlayfs", "--only", "tree", "--branches", "1,3", "--output"])
        .arg(output.path())
        .arg("--archive")
        .arg(archive(output.path()))
        .output()
        .expect("bench starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(output.path().join("union.json")).expect("union.json");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let has_overlayfs = !String::from_utf8_lossy(&run.stderr).contains("overlayfs is left out");
    for layout in ["tree, DIST", "tree, DUP"] {
        let steps = results["workloads"][layout]["steps"].as_array().expect("steps");
        for step in ["stat, first", "stat, again", "readdir", "unlink"] {
            let step = steps.iter().find(|found| found["step"] == step).expect("the step");
            assert_eq!(step["subjects"]["native"]["ratio"], 1.0, "{layout}");
            assert_eq!(step["subjects"]["overlayfs (3)"]["ratio"].is_number(), has_overlayfs, "{layout}");
        }
    }
    for name in ["union.md", "union.svg", "union-tree.svg"] {
        assert!(output.path().join(name).is_file(), "{name}");
    }
}

#[test]
fn transfers_of_the_raw_device_and_ext4_are_compared() {
    if lacks_root() {
        return;
    }
    let (scratch, output) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let run = bench(&["fat", "--subjects", "raw,ext4", "--only", "transfers,operations", "--output"])
        .arg(output.path())
        .env("TMPDIR", scratch.path())
        .output()
        .expect("bench starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(output.path().join("fat.json")).expect("fat.json");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let steps = results["transfers"]["result"]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 2);
    assert!(steps.iter().all(|step| step["subjects"]["raw"]["ratio"] == 1.0));
    assert!(steps.iter().all(|step| step["subjects"]["ext4"]["ratio"].is_number()));
    for name in ["fat.md", "fat-utilisation.svg", "fat-transfers.svg"] {
        assert!(output.path().join(name).is_file(), "{name}");
    }
    assert_eq!(leftovers(scratch.path()), 0);
    assert_eq!(loop_devices(scratch.path()), "");
}

/// Lines of losetup(8) about images below a directory.
fn loop_devices(directory: &Path) -> String {
    let output = Command::new("losetup").arg("--all").output().expect("losetup starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = directory.file_name().expect("a name").to_string_lossy();
    // Of a file in an unmounted file system, losetup shows the path as it was.
    text.lines().filter(|line| line.contains(&*name)).collect()
}

#[test]
fn a_signal_detaches_the_loop_devices() {
    if lacks_root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let mut child = bench(&["fat", "--subjects", "raw,ext4", "--only", "transfers", "--rounds", "100000"])
        .env("TMPDIR", scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bench starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while loop_devices(scratch.path()).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    assert_eq!(wait(&mut child, deadline).code(), Some(143));
    while !loop_devices(scratch.path()).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(loop_devices(scratch.path()), "");
    assert_eq!(leftovers(scratch.path()), 0);
}

/// A source archive with a few directories and files.
fn archive(scratch: &Path) -> std::path::PathBuf {
    let source = scratch.join("source");
    for directory in ["", "empty", "below", "below/deeper"] {
        std::fs::create_dir(source.join(directory)).expect("a directory");
        for number in 0..if directory == "empty" { 0 } else { 5 } {
            std::fs::write(source.join(directory).join(format!("file{number}")), "text").expect("a file");
        }
    }
    let archive = scratch.join("source.tar.gz");
    let status = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(scratch).arg("source").status();
    assert!(status.expect("tar starts").success());
    archive
}

#[test]
fn a_failing_subject_fails_the_run_and_no_other_subject() {
    if lacks_root() {
        return;
    }
    let output = tempfile::tempdir().expect("a directory for the results");
    // A server that ends without mounting.
    let run = bench(&[
        "--subjects",
        "native,plyfs",
        "--plyfs",
        "/bin/false",
        "--stack",
        "{}",
        "--only",
        "fchown",
        "--output",
    ])
    .arg(output.path())
    .output()
    .expect("bench starts");
    assert_eq!(run.status.code(), Some(1));
    let text = std::fs::read_to_string(output.path().join("results.json")).expect("results.json");
    let results: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let fchown = &results["workloads"]["fchown"];
    assert!(fchown["failures"]["plyfs dir"].as_str().expect("a reason").contains("instead of mounting"));
    assert_eq!(fchown["steps"][0]["subjects"]["native"]["ratio"], 1.0);
}

#[test]
fn a_signal_ends_it_and_nothing_stays() {
    if lacks_root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let mut child = bench(&["--subjects", "native", "--only", "fchown", "--rounds", "100000"])
        .env("TMPDIR", scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bench starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while leftovers(scratch.path()) == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_secs(1));
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    assert_eq!(wait(&mut child, deadline).code(), Some(130));
    assert_eq!(leftovers(scratch.path()), 0);
}

fn wait(child: &mut Child, deadline: Instant) -> std::process::ExitStatus {
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it runs");
    panic!("the signal did not end it");
}

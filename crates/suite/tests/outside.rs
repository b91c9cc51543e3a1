//! Third-party suites on real mounts: pjdfstest for POSIX semantics, fsx for data.
//!
//! pjdfstest runs on an ext4 image in memory and through a mount over the same: no test may fail that the lower file
//! system passes. fsx makes random changes of one file, mapped writes among them, and checks every byte it reads. Both
//! are installed by cargo into the target directory if they are missing. `OUTSIDE=some` tests only the primary stacks,
//! and runs fsx with fewer seeds.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};

use bases::fat::format::FatWidth;
use frontends::fuse::Features;
use layers::BranchMode;
use libtest_mimic::{Arguments, Failed};
use suite::{Base, Recipe, ServedStack, TestDirectory, make_branches, make_volume, serve_if_requested, timed_trial};

use OutsideBase::{Branches, Directory, Fat, Memory};

const PJDFSTEST: (&str, &str) = ("pjdfstest", "0.2.2");
const FSX: (&str, &str) = ("fsx", "0.3.2");

/// Tests that are skipped on mounts: the C library reports LINK_MAX only for the file systems that it knows.
const EXPECTED_SKIPS: &[&str] = &["link::link_count_max"];

/// Tests that fail on mounts of stacks that see each refusal, for which the kernel checks no permissions: there, only
/// callers that may both read and write a pipe, socket or device find it, and these tests query the attributes of
/// other users'.
const EXPECTED_FAILURES_UNCHECKED: &[&str] = &[
    "rename::unchanged_ctime_failed::block",
    "rename::unchanged_ctime_failed::char",
    "rename::unchanged_ctime_failed::fifo",
    "rename::unchanged_ctime_failed::socket",
    "unlink::unchanged_ctime_failed::block",
    "unlink::unchanged_ctime_failed::char",
    "unlink::unchanged_ctime_failed::fifo",
];

/// A test of a large hole, which FAT has not.
const EXPECTED_FAILURES_ON_FAT: &[&str] = &["open::interact_2gb"];

/// Seeds of the runs. Each run of fsx keeps all its mappings, which makes long runs slow, so there are many short ones.
const FSX_SEEDS: Range<u64> = 1..11;
const FSX_QUICK_SEEDS: Range<u64> = 1..3;
const FSX_OPERATIONS: u64 = 10_000;

/// Configuration with users that every Debian system has.
const PJDFSTEST_CONFIGURATION: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.02
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

const FSX_CONFIGURATION: &str = "
flen = 262144
nomsyncafterwrite = true
[opsize]
max = 65536
[weights]
close_open = 1
invalidate = 0.3
mapread = 5
mapwrite = 5
read = 10
write = 10
truncate = 3
fsync = 0.05
fdatasync = 0.05
posix_fallocate = 1
sendfile = 1
posix_fadvise = 1
copy_file_range = 1
";

/// Added where files have holes.
const FSX_HOLES: &str = "punch_hole = 1\n";

fn main() -> ExitCode {
    serve_if_requested();
    let arguments = Arguments::from_args();
    let can_run = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can_run {
        println!("the outside suites need root and /dev/fuse: they are skipped");
    }
    let is_quick = std::env::var("OUTSIDE").is_ok_and(|part| part == "some");
    let mut trials = Vec::new();
    let mut add_trials = |suite: &str,
                          run: fn(&OutsideStack) -> Result<(), Failed>,
                          stacks: &[(OutsideBase, &'static [&'static str])]| {
        for (bottom, layers) in stacks {
            let stack = OutsideStack { bottom: *bottom, layers };
            trials.push(timed_trial(&arguments, format!("{suite} on {stack}"), move || run(&stack)));
        }
    };
    add_trials("pjdfstest", pjdfstest, PRIMARY_STACKS);
    add_trials("fsx", if is_quick { fsx_quick } else { fsx }, PRIMARY_STACKS);
    if !is_quick {
        add_trials("pjdfstest", pjdfstest, OTHER_STACKS);
        add_trials("fsx", fsx, OTHER_STACKS);
    }
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(!can_run)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    ExitCode::from(u8::from(conclusion.has_failed() || ServedStack::has_any_failed()))
}

/// Stacks that are always tested: data passed through by the kernel, data that a layer changes, in memory, and copied
/// up.
const PRIMARY_STACKS: &[(OutsideBase, &[&str])] = &[
    (Directory, &["audit"]),
    (Directory, &["audit", "rot13"]),
    (Memory, &[]),
    (Branches(3), UNION),
    (Fat(FatWidth::Fat32), &[]),
];

/// Stacks with each other base and layer.
const OTHER_STACKS: &[(OutsideBase, &[&str])] = &[
    (Directory, &[]),
    (Directory, &["map"]),
    (Directory, &["longnames"]),
    (Directory, &["names.fist"]),
    (Directory, &["pages.fist"]),
    (Directory, &["rules.fist"]),
    (Directory, &["sizes.fist"]),
    (Memory, &["audit", "rot13"]),
    (Branches(1), UNION),
    (Fat(FatWidth::Fat12), &[]),
    (Fat(FatWidth::Fat16), &["audit", "rot13"]),
    (Branches(3), &["union", "audit", "rot13"]),
];

/// The base of a stack.
#[derive(Clone, Copy)]
enum OutsideBase {
    Memory,
    Directory,
    /// A union of this many branches in one image; only the first is writable.
    Branches(usize),
    /// A FAT volume with sidecars.
    Fat(FatWidth),
}

const UNION: &[&str] = &["union"];

/// A tested stack.
struct OutsideStack {
    bottom: OutsideBase,
    layers: &'static [&'static str],
}

impl fmt::Display for OutsideStack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bottom {
            Memory => formatter.write_str("mem"),
            Directory => formatter.write_str("dir"),
            Fat(FatWidth::Fat12) => formatter.write_str("fat12"),
            Fat(FatWidth::Fat16) => formatter.write_str("fat16"),
            Fat(FatWidth::Fat32) => formatter.write_str("fat32"),
            Branches(count) => formatter.write_str(&vec!["dir"; count].join(", ")),
        }?;
        self.layers.iter().try_for_each(|layer| write!(formatter, " | {layer}"))
    }
}

impl OutsideStack {
    /// Returns whether the kernel checks permissions for it.
    fn is_checked(&self) -> bool {
        !self.layers.iter().any(|layer| ["audit", "rules.fist"].contains(layer))
    }

    /// Returns whether its files have holes.
    fn has_holes(&self) -> bool {
        !matches!(self.bottom, Fat(_))
    }

    /// Returns the recipe of the stack on files in this directory, and the directory of the lowest branch.
    fn prepare(&self, test_directory: &TestDirectory) -> Result<(Recipe, PathBuf), Failed> {
        let log = test_directory.sibling("logs")?.join("audit").display().to_string();
        let (base, lowest) = match self.bottom {
            Memory => (Base::Memory("size=1g".to_owned()), test_directory.path().to_owned()),
            Directory => {
                let lower = test_directory.path().join("lower");
                fs::create_dir(&lower)?;
                (Base::Directory(lower.clone()), lower)
            }
            Fat(width) => {
                let volume = make_volume(test_directory, width, 240)?;
                (Base::Fat(volume, "meta=sidecar".to_owned()), test_directory.path().to_owned())
            }
            Branches(count) => {
                let mut modes = vec![BranchMode::ReadOnly; count];
                modes[0] = BranchMode::ReadWrite;
                let branches = make_branches(test_directory, &modes)?;
                let lowest = branches[count - 1].0.clone();
                (Base::Branches(branches), lowest)
            }
        };
        let add = |recipe: Recipe, layer: &&str| match *layer {
            "audit" => recipe.with_layer(layer, &[("to", &log)]),
            other => recipe.with_layer(other, &[]),
        };
        Ok((self.layers.iter().fold(Recipe::plain(base), add), lowest))
    }
}

/// Runs pjdfstest on the image and on a mount, and compares the results.
fn pjdfstest(stack: &OutsideStack) -> Result<(), Failed> {
    let program = ensure_installed(PJDFSTEST)?;
    let test_directory = TestDirectory::image(512)?;
    let native = test_directory.path().join("native");
    fs::create_dir(&native)?;
    let mount_point = test_directory.sibling("mount")?;
    let below = pjdfstest_in(&program, &test_directory, &native)?;
    let served = ServedStack::start(&stack.prepare(&test_directory)?.0, &mount_point, Features::NONE, None)?;
    let here = pjdfstest_in(&program, &test_directory, &mount_point)?;
    drop(served);
    println!("pjdfstest on the lower file system: {}", below.summary);
    println!("pjdfstest on {stack}: {}", here.summary);
    let expected = if stack.is_checked() { &[] } else { EXPECTED_FAILURES_UNCHECKED };
    if let Some(obsolete) = expected.iter().find(|name| !here.failed.contains(**name)) {
        return Err(format!("{obsolete} does not fail any more: take it from the list").into());
    }
    let surplus = here.failed.difference(&below.failed);
    let is_expected = |name: &str| {
        let of_fat = || EXPECTED_FAILURES_ON_FAT.iter().any(|prefix| name.starts_with(prefix));
        expected.contains(&name) || matches!(stack.bottom, Fat(_)) && of_fat()
    };
    let surplus: Vec<&String> = surplus.filter(|name| !is_expected(name)).collect();
    if !surplus.is_empty() {
        return Err(format!("{} tests fail only here: {surplus:?}\n{}", surplus.len(), here.output).into());
    }
    let unexpected = |name: &&String| !EXPECTED_SKIPS.contains(&name.as_str());
    let skipped: Vec<&String> = here.skipped.difference(&below.skipped).filter(unexpected).collect();
    if !skipped.is_empty() {
        return Err(format!("{} tests are skipped only here: {skipped:?}", skipped.len()).into());
    }
    Ok(())
}

/// The results that pjdfstest reported.
struct PjdfstestResults {
    failed: BTreeSet<String>,
    skipped: BTreeSet<String>,
    summary: String,
    output: String,
}

fn pjdfstest_in(program: &Path, test_directory: &TestDirectory, directory: &Path) -> Result<PjdfstestResults, Failed> {
    let configuration = test_directory.sibling("logs")?.join("pjdfstest.toml");
    fs::write(&configuration, PJDFSTEST_CONFIGURATION)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(configuration).arg("-p").arg(directory).arg("-s").arg(test_directory.sibling("secondary")?);
    let output = command.env("NO_COLOR", "1").output()?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = output.lines().find_map(|line| line.strip_prefix("Summary: "));
    let summary = summary.ok_or_else(|| format!("pjdfstest did not end: {output}"))?.to_owned();
    let with = |word: &str| -> BTreeSet<String> {
        let names = output.lines().filter_map(|line| line.strip_suffix(word));
        names.filter(|name| name.ends_with(' ')).map(|name| name.trim().to_owned()).collect()
    };
    let (failed, skipped) = (with("FAILED"), with("skipped"));
    if with("ok").is_empty() {
        return Err(format!("no test of pjdfstest passed: {output}").into());
    }
    Ok(PjdfstestResults { failed, skipped, summary, output })
}

fn fsx(stack: &OutsideStack) -> Result<(), Failed> {
    fsx_with(stack, FSX_SEEDS)
}

fn fsx_quick(stack: &OutsideStack) -> Result<(), Failed> {
    fsx_with(stack, FSX_QUICK_SEEDS)
}

/// Runs fsx on a file in a mount, with each seed.
fn fsx_with(stack: &OutsideStack, seeds: Range<u64>) -> Result<(), Failed> {
    let program = ensure_installed(FSX)?;
    let test_directory = TestDirectory::image(256)?;
    let (recipe, lowest) = stack.prepare(&test_directory)?;
    // On existing files, a union begins with a copy-up.
    let file = |seed: u64| format!("file{seed}");
    for seed in seeds.clone() {
        fs::write(lowest.join(file(seed)), vec![b'x'; 100_000])?;
    }
    let mount_point = test_directory.sibling("mount")?;
    let logs = test_directory.sibling("logs")?;
    let configuration = logs.join("fsx.toml");
    let holes = if stack.has_holes() { FSX_HOLES } else { "" };
    fs::write(&configuration, format!("{FSX_CONFIGURATION}{holes}"))?;
    let served = ServedStack::start(&recipe, &mount_point, Features::NONE, None)?;
    for seed in seeds.clone() {
        let mut command = Command::new(&program);
        command.arg("-f").arg(&configuration).arg("-P").arg(&logs);
        command.args(["-S", &seed.to_string(), "-N", &FSX_OPERATIONS.to_string()]);
        let output = command.arg(mount_point.join(file(seed))).output()?;
        if !output.status.success() {
            let printed = [output.stdout, output.stderr].concat();
            let printed = String::from_utf8_lossy(&printed);
            let end = printed.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
            return Err(format!("seed {seed}, {:?}: …{}", output.status, &printed[end..]).into());
        }
    }
    drop(served);
    let count = (seeds.end - seeds.start) * FSX_OPERATIONS;
    println!("fsx on {stack}: {count} operations, seeds {seeds:?}, no difference");
    Ok(())
}

/// Returns a program published as a crate, after installing it into the target directory if necessary.
fn ensure_installed((name, version): (&str, &str)) -> Result<PathBuf, Failed> {
    /// Serialises installations, so that concurrent tests find the installed program.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    // target/debug/deps/outside-…
    let program = std::env::current_exe()?;
    let root = &program.ancestors().nth(3).ok_or("no place for programs is known")?.join("tools");
    let program = root.join("bin").join(name);
    if has_version(&program, name, version) {
        return Ok(program);
    }
    println!("installing {name} {version}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // They wait for the file systems: what optimising them would save is less than it takes.
    command.args(["install", "--debug", "--quiet", "--locked", "--force", "--version", version, "--root"]);
    command.arg(root).arg(name).env("CARGO_PROFILE_DEV_DEBUG", "false");
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{name} cannot be installed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(program)
}

fn has_version(program: &Path, name: &str, version: &str) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("{name} {version}"))
}

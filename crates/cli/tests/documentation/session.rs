//! One session of a page: its steps in one shell, in mount and process namespaces of its own.

use std::fs;
use std::io::{Error, Result};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::page::{Action, Step};

/// Seconds after which a session is killed.
const TIME_LIMIT: &str = "300";

/// Makes the machine of the pages, where Plyfs is installed, and runs the steps: `sh -c PREPARE sh PROGRAMS STEPS SAMPLES`. Nothing of it
/// is seen outside, and it ends with its first process. The directories of the programs and the steps are bound first, since
/// they can be below /home.
const PREPARE: &str = r#"
set -e
mount -t tmpfs -o mode=755 run /run
cd /run
mkdir documentation documentation/programs documentation/steps documentation/samples documentation/sbin
mount --bind "$1" documentation/programs
mount --bind "$2" documentation/steps
cp "$3"/*.fist documentation/samples
chmod 644 documentation/samples/*
cp -a /etc documentation/etc
mount --bind documentation/etc /etc
: >/etc/fstab
sbin=$(readlink -f /sbin)
mount --bind "$sbin" documentation/sbin
mount -t tmpfs -o mode=755 sbin "$sbin"
ln -s /run/documentation/sbin/* "$sbin"
for helper in mount.plyfs mount.fuse.plyfs; do ln -sf /run/documentation/programs/plyfs "$sbin/$helper"; done
for directory in home media mnt srv usr/local/bin var/lib var/log; do
    mount -t tmpfs -o mode=755 "$directory" "/$directory"
done
ln -s /run/documentation/programs/plyfs /usr/local/bin/plyfs
mkdir /home/me
cd /home/me
exec env -i HOME=/home/me LANG=C.UTF-8 TZ=UTC PLYFS_PATH=/run/documentation/samples \
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin sh /run/documentation/steps/all
"#;

/// What a step gave.
pub(crate) struct StepResult {
    /// Its exit code; `None` if the session ended in it, or before.
    pub code: Option<i32>,
    /// What it printed, on standard output and standard error.
    pub output: String,
}

/// Runs the steps of a session in their order; returns the result of each.
///
/// # Errors
/// Fails if the session cannot be started, or its machine cannot be made.
pub(crate) fn run(steps: &[Step]) -> Result<Vec<StepResult>> {
    let directory = tempfile::Builder::new().prefix("plyfs-documentation-").tempdir()?;
    write_steps(directory.path(), steps)?;
    let programs = Path::new(env!("CARGO_BIN_EXE_plyfs")).parent().expect("a program is in a directory");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fist");
    let mut shell = Command::new("timeout");
    shell.args(["--kill-after=5", TIME_LIMIT, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    shell.args(["sh", "-c", PREPARE, "sh"]).args([programs, directory.path(), samples.as_path()]).stdin(Stdio::null());
    let ended = shell.output()?;
    let results: Vec<_> = (0..steps.len()).map(|index| read_result(directory.path(), index)).collect();
    if results.first().is_some_and(|first| first.code.is_none()) || !ended.stderr.is_empty() {
        let message = String::from_utf8_lossy(&ended.stderr).into_owned();
        return Err(Error::other(format!("the session has failed ({}): {message}", ended.status)));
    }
    Ok(results)
}

/// Writes a script for each step, and one that runs them all.
fn write_steps(directory: &Path, steps: &[Step]) -> Result<()> {
    let mut all = String::new();
    for (index, step) in steps.iter().enumerate() {
        let at = format!("/run/documentation/steps/{index}");
        let commands = match &step.action {
            Action::Prepare(commands) => format!("set -e\n{commands}\nset +e"),
            Action::Run(command) | Action::Compare { command, .. } => command.clone(),
            Action::WriteFile { path, contents } => {
                fs::write(directory.join(format!("{index}.contents")), contents)?;
                format!("cat {at}.contents >{path}")
            }
        };
        fs::write(directory.join(index.to_string()), commands + "\n")?;
        all += &format!("{{ . {at}; }} >{at}.output 2>&1 </dev/null; echo $? >{at}.code\n");
    }
    fs::write(directory.join("all"), all)
}

fn read_result(directory: &Path, index: usize) -> StepResult {
    let read = |kind: &str| fs::read(directory.join(format!("{index}.{kind}"))).unwrap_or_default();
    let text = |kind: &str| String::from_utf8_lossy(&read(kind)).into_owned();
    StepResult { code: text("code").trim().parse().ok(), output: text("output") }
}

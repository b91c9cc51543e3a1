//! Every conformance test over every stack of the matrix, each as one counted test.
//!
//! As root, the bases are tested with several users, and once more by a process without privileges.
//! What a stack cannot do is declared with the matrix; tests that need it are counted as not applicable.
//! `MATRIX=cover` runs a covering part of the matrix, and prints which. All mounts use one transport, according to the
//! kernel's io_uring parameter; tests without a mount run when the parameter is off.

use std::collections::{BTreeSet, HashMap};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};

use conformance::{Subject, Test, Verdict};
use libtest_mimic::{Arguments, Failed, Trial};
use suite::access::StackAccess;
use suite::cover::{distribute, select_covering};
use suite::matrix::{self, Facilities};
use suite::plan::{LiveRun, RunKind, RunPlan};
use suite::{
    ServedStack, TestDirectory, keep_initial_credentials, serve_if_requested, timed_trial, with_initial_credentials,
    with_timeout,
};

fn main() -> ExitCode {
    serve_if_requested();
    keep_initial_credentials();
    let mut arguments = Arguments::from_args();
    // Most tests wait: for the server, for locks, for the clock to advance.
    arguments.test_threads.get_or_insert(4);
    let facilities = Facilities::detect();
    if std::env::var_os(MUST_MOUNT).is_some() && !facilities.can_mount {
        println!("a user without privileges cannot mount here: /dev/fuse or fusermount3 is missing");
        return ExitCode::FAILURE;
    }
    let conclusion = libtest_mimic::run(&arguments, trials(&arguments, facilities));
    let mut failed = conclusion.has_failed() || ServedStack::has_any_failed();
    if facilities.is_root && !arguments.list {
        failed |= !run_without_privileges(facilities);
    }
    ExitCode::from(u8::from(failed))
}

/// Name of the variable that tells the run without privileges that root can mount.
const MUST_MOUNT: &str = "PLYFS_SUITE_MUST_MOUNT";

/// Runs this program again as a user without privileges. Where only root may use /dev/fuse, the program gets another
/// node of the device there.
fn run_without_privileges(facilities: Facilities) -> bool {
    const SCRIPT: &str = r#"
        user=$1; place=$2; shift 2
        if [ -e /dev/fuse ] && ! setpriv --reuid $user --regid $user --clear-groups sh -c ': <>/dev/fuse' 2>/dev/null
        then
            mount -t tmpfs -o mode=755 none "$place" && mknod -m 666 "$place/fuse" c 10 229 && mount --bind "$place/fuse" /dev/fuse
        fi
        exec setpriv --reuid $user --regid $user --clear-groups "$@"
    "#;
    let user = 65_534;
    let (Ok(program), Ok(test_directory)) = (std::env::current_exe(), TestDirectory::image(1024)) else { return false };
    let Ok(nodes) = test_directory.sibling("nodes") else { return false };
    if std::os::unix::fs::chown(test_directory.path(), Some(user), Some(user)).is_err() {
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh", &user.to_string()]).arg(&nodes).arg(program);
    command.args(std::env::args_os().skip(1)).env("TMPDIR", test_directory.path()).current_dir("/");
    if facilities.can_mount {
        command.env(MUST_MOUNT, "1");
    }
    command.status().is_ok_and(|status| status.success())
}

/// A run that starts with its first test and ends with its last.
struct Run {
    plan: RunPlan,
    live: Mutex<Option<Result<LiveRun, String>>>,
    /// Held by tests that fill the file system.
    exclusive: Mutex<()>,
}

impl Run {
    fn subject(&self) -> Result<Arc<dyn Subject>, Failed> {
        let mut live = self.live.lock().map_err(|_| "the run could not start")?;
        let plan = self.plan.clone();
        let start = || {
            let started = with_initial_credentials(move || plan.start().map_err(|error| error.to_string()));
            started.unwrap_or_else(|| Err("the start of the run panicked".to_owned()))
        };
        match live.get_or_insert_with(start) {
            Ok(live) => Ok(live.subject.clone()),
            Err(message) => Err(message.clone().into()),
        }
    }

    fn test(&self, test: &Test) -> Result<(), Failed> {
        let subject = self.subject()?;
        let _exclusive = (self.plan.run_kind == RunKind::Small).then(|| self.exclusive.lock());
        let name = format!("{}: {}", self.plan.title(), test.full_name());
        match with_timeout(&name, || conformance::run_test(&*subject, test)) {
            Verdict::Passed => Ok(()),
            Verdict::Failed(message) => Err(message.into()),
            Verdict::NotApplicable(missing) => Err(format!("the run declared {missing:?}").into()),
        }
    }
}

/// Returns each run with the indices of the tests selected for it.
fn selected_runs(facilities: Facilities, tests: &[&Test]) -> Vec<(RunPlan, BTreeSet<usize>)> {
    let covers = match std::env::var("MATRIX").as_deref() {
        Ok("cover") => true,
        Ok(other) => panic!("MATRIX={other}: it can be cover, or not set"),
        Err(_) => false,
    };
    let all = |plans: &[RunPlan]| vec![(0..tests.len()).collect::<BTreeSet<usize>>(); plans.len()];
    // Number of additional runs, which only add combinations, per test.
    let (single, double) = (matrix::single(facilities), matrix::double(facilities));
    let (passthrough, features) = (matrix::without_passthrough(&single), matrix::without_features(&single));
    let (of_single, double_runs, runs_of_others): (Vec<_>, _, _) = match covers {
        true => (select_covering(&single, tests), 3, Some(1)),
        false => (all(&single), 20, None),
    };
    let share = |plans: &[RunPlan]| runs_of_others.map_or_else(|| all(plans), |runs| distribute(plans, tests, runs));
    let shares = [of_single, distribute(&double, tests, double_runs), share(&passthrough), share(&features)].concat();
    let mut runs: Vec<(RunPlan, BTreeSet<usize>)> = Vec::with_capacity(shares.len());
    let mut indices = HashMap::new();
    for (plan, share) in [single, double, passthrough, features].concat().into_iter().zip(shares) {
        // A stack of one layer may be among those of two as well.
        let index = *indices.entry(plan.title()).or_insert(runs.len());
        match runs.get_mut(index) {
            Some((_, chosen)) => chosen.extend(share),
            None => runs.push((plan, share)),
        }
    }
    runs
}

/// Returns the trials of every run with this transport; prints for each run how many tests are selected and how many
/// do not apply.
fn trials(arguments: &Arguments, facilities: Facilities) -> Vec<Trial> {
    let transport = matrix::transport();
    if !facilities.can_mount {
        println!("no /dev/fuse or no fusermount3: nothing is mounted, the stacks are tested by their vnodes only");
    }
    let is_now = |plan: &RunPlan| {
        plan.access == transport || (plan.access == StackAccess::Tree && transport == StackAccess::Device)
    };
    let tests: Vec<&'static Test> = conformance::all().iter().collect();
    let (mut trials, mut omitted) = (Vec::new(), 0);
    for (plan, chosen) in selected_runs(facilities, &tests).into_iter().filter(|(plan, _)| is_now(plan)) {
        let title = plan.title();
        let run = Arc::new(Run { plan, live: Mutex::new(None), exclusive: Mutex::new(()) });
        let of_run = tests.iter().copied().enumerate().filter(|(_, test)| run.plan.has(test));
        let (applicable, others): (Vec<_>, Vec<_>) =
            of_run.partition(|(_, test)| run.plan.abilities().missing(test.needs).is_none());
        let now: Vec<_> = applicable.iter().filter(|(index, _)| chosen.contains(index)).collect();
        if !arguments.list {
            println!("{title}: {} of {} tests, {} are not applicable", now.len(), applicable.len(), others.len());
        }
        omitted += applicable.len() - now.len();
        for (_, test) in now {
            let (run, test): (_, &'static Test) = (run.clone(), test);
            trials.push(timed_trial(arguments, format!("{title}: {}", test.full_name()), move || run.test(test)));
        }
    }
    if omitted > 0 && !arguments.list {
        println!("left: {omitted} of {} combinations of a conformance test and a stack", omitted + trials.len());
    }
    trials
}

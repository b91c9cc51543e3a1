//! Every conformance test over every stack of the matrix, each as one counted test.
//!
//! As root the bases are tried with several users, and once more by a process without privileges.
//! What a stack cannot do is declared with the matrix; tests that need it are counted as not applicable.
//! `MATRIX=cover` runs a covering part of the matrix, and prints which. Mounts are those of one transport, as the kernel's
//! switch of io_uring is set; what needs no mount belongs to the run with the switch off.

use std::collections::{BTreeSet, HashMap};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};

use conformance::{Subject, Test, Verdict};
use libtest_mimic::{Arguments, Failed, Trial};
use suite::cover::{choose, deal};
use suite::matrix::{self, Means};
use suite::plan::{Live, Plan, Sort};
use suite::reach::Reach;
use suite::{Place, Served, keep_credentials, patiently, serve_if_asked, timed, with_kept_credentials};

fn main() -> ExitCode {
    serve_if_asked();
    keep_credentials();
    let mut arguments = Arguments::from_args();
    // Most tests wait: for the server, for locks, for the clock to advance.
    arguments.test_threads.get_or_insert(4);
    let means = Means::here();
    if std::env::var_os(MUST_MOUNT).is_some() && !means.can_mount {
        println!("a user without privileges cannot mount here: /dev/fuse or fusermount3 is missing");
        return ExitCode::FAILURE;
    }
    let conclusion = libtest_mimic::run(&arguments, trials(&arguments, means));
    let mut failed = conclusion.has_failed() || Served::has_any_failed();
    if means.is_root && !arguments.list {
        failed |= !run_without_privileges(means);
    }
    ExitCode::from(u8::from(failed))
}

/// Said to the run of a user without privileges where root can mount.
const MUST_MOUNT: &str = "PLYFS_SUITE_MUST_MOUNT";

/// Runs this program again as a user without privileges. Where the machine lets only root use /dev/fuse, the program
/// sees another node of the device there.
fn run_without_privileges(means: Means) -> bool {
    const SCRIPT: &str = r#"
        user=$1; place=$2; shift 2
        if [ -e /dev/fuse ] && ! setpriv --reuid $user --regid $user --clear-groups sh -c ': <>/dev/fuse' 2>/dev/null
        then
            mount -t tmpfs -o mode=755 none "$place" && mknod -m 666 "$place/fuse" c 10 229 && mount --bind "$place/fuse" /dev/fuse
        fi
        exec setpriv --reuid $user --regid $user --clear-groups "$@"
    "#;
    let user = 65_534;
    let (Ok(program), Ok(place)) = (std::env::current_exe(), Place::image(1024)) else { return false };
    let Ok(nodes) = place.beside("nodes") else { return false };
    if std::os::unix::fs::chown(place.path(), Some(user), Some(user)).is_err() {
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh", &user.to_string()]).arg(&nodes).arg(program);
    command.args(std::env::args_os().skip(1)).env("TMPDIR", place.path()).current_dir("/");
    if means.can_mount {
        command.env(MUST_MOUNT, "1");
    }
    command.status().is_ok_and(|status| status.success())
}

/// A run that starts with its first test and ends with its last.
struct Run {
    plan: Plan,
    live: Mutex<Option<Result<Live, String>>>,
    /// Held by tests that fill the file system.
    alone: Mutex<()>,
}

impl Run {
    fn subject(&self) -> Result<Arc<dyn Subject>, Failed> {
        let mut live = self.live.lock().map_err(|_| "the run could not start")?;
        let plan = self.plan.clone();
        let start = || {
            let started = with_kept_credentials(move || plan.start().map_err(|error| error.to_string()));
            started.unwrap_or_else(|| Err("the start of the run panicked".to_owned()))
        };
        match live.get_or_insert_with(start) {
            Ok(live) => Ok(live.subject.clone()),
            Err(message) => Err(message.clone().into()),
        }
    }

    fn test(&self, test: &Test) -> Result<(), Failed> {
        let subject = self.subject()?;
        let _alone = (self.plan.sort == Sort::Small).then(|| self.alone.lock());
        let name = format!("{}: {}", self.plan.title(), test.full_name());
        match patiently(&name, || conformance::run_test(&*subject, test)) {
            Verdict::Passed => Ok(()),
            Verdict::Failed(message) => Err(message.into()),
            Verdict::NotApplicable(missing) => Err(format!("the run declared {missing:?}").into()),
        }
    }
}

/// Each run with the tests that are chosen for it, by their indices.
fn chosen(means: Means, tests: &[&Test]) -> Vec<(Plan, BTreeSet<usize>)> {
    let covers = match std::env::var("MATRIX").as_deref() {
        Ok("cover") => true,
        Ok(other) => panic!("MATRIX={other}: it can be cover, or not set"),
        Err(_) => false,
    };
    let all = |plans: &[Plan]| vec![(0..tests.len()).collect::<BTreeSet<usize>>(); plans.len()];
    // Each test is tried on so many of the runs that only add combinations.
    let (single, double) = (matrix::single(means), matrix::double(means));
    let (passthrough, features) = (matrix::without_passthrough(&single), matrix::without_features(&single));
    let (of_single, double_runs, runs_of_others): (Vec<_>, _, _) = match covers {
        true => (choose(&single, tests), 3, Some(1)),
        false => (all(&single), 20, None),
    };
    let share = |plans: &[Plan]| runs_of_others.map_or_else(|| all(plans), |runs| deal(plans, tests, runs));
    let shares = [of_single, deal(&double, tests, double_runs), share(&passthrough), share(&features)].concat();
    let mut runs: Vec<(Plan, BTreeSet<usize>)> = Vec::with_capacity(shares.len());
    let mut known = HashMap::new();
    for (plan, share) in [single, double, passthrough, features].concat().into_iter().zip(shares) {
        // A stack of one layer may have come to be among those of two.
        let place = *known.entry(plan.title()).or_insert(runs.len());
        match runs.get_mut(place) {
            Some((_, chosen)) => chosen.extend(share),
            None => runs.push((plan, share)),
        }
    }
    runs
}

/// The trials of every run with this transport, and a line for each on what is chosen and what does not apply.
fn trials(arguments: &Arguments, means: Means) -> Vec<Trial> {
    let transport = matrix::transport();
    if !means.can_mount {
        println!("no /dev/fuse or no fusermount3: nothing is mounted, the stacks are tested by their vnodes only");
    }
    let is_now = |plan: &Plan| plan.reach == transport || (plan.reach == Reach::Tree && transport == Reach::Device);
    let tests: Vec<&'static Test> = conformance::all().iter().collect();
    let (mut trials, mut left) = (Vec::new(), 0);
    for (plan, chosen) in chosen(means, &tests).into_iter().filter(|(plan, _)| is_now(plan)) {
        let title = plan.title();
        let run = Arc::new(Run { plan, live: Mutex::new(None), alone: Mutex::new(()) });
        let of_run = tests.iter().copied().enumerate().filter(|(_, test)| run.plan.has(test));
        let (applicable, others): (Vec<_>, Vec<_>) =
            of_run.partition(|(_, test)| run.plan.abilities().missing(test.needs).is_none());
        let now: Vec<_> = applicable.iter().filter(|(index, _)| chosen.contains(index)).collect();
        if !arguments.list {
            println!("{title}: {} of {} tests, {} are not applicable", now.len(), applicable.len(), others.len());
        }
        left += applicable.len() - now.len();
        for (_, test) in now {
            let (run, test): (_, &'static Test) = (run.clone(), test);
            trials.push(timed(arguments, format!("{title}: {}", test.full_name()), move || run.test(test)));
        }
    }
    if left > 0 && !arguments.list {
        println!("left: {left} of {} combinations of a conformance test and a stack", left + trials.len());
    }
    trials
}

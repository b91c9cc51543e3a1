//! A hostile user, as a differential test: every kind of object, every kind of user, every call. In a mount each call has the
//! same result, and leaves every object with the same attributes, as on the file system beside it.
//!
//! `HOSTILE_SHARE=N` tries one of N combinations, chosen by `HOSTILE_SEED`; without it none: it is a target of its own, `make
//! hostile`, until the list of what differs has a reason for each line.

mod actor;
mod calls;
mod expected;
mod objects;
mod stacks;
mod state;
mod users;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use actor::Actor;
use calls::{CALLS, WAYS, Way};
use libtest_mimic::{Arguments, Failed, Trial};
use objects::OBJECTS;
use stacks::{STACKS, Side, Sides};
use suite::{keep_credentials, serve_if_asked, timed};
use users::USERS;

fn main() -> ExitCode {
    serve_if_asked();
    actor::act_if_asked();
    keep_credentials();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(2);
    if !suite::matrix::Means::here().is_root || !suite::matrix::Means::here().can_mount {
        println!("skipped: it takes root and /dev/fuse");
        return ExitCode::SUCCESS;
    }
    if std::env::var_os("HOSTILE_SHARE").is_none() {
        return ExitCode::from(u8::from(libtest_mimic::run(&arguments, Vec::new()).has_failed()));
    }
    let choice = Choice::given();
    println!("HOSTILE_SEED={} HOSTILE_SHARE={}", choice.seed, choice.share);
    let trials = STACKS.iter().flat_map(|stack| {
        let sides: Arc<Mutex<Option<Sides>>> = Arc::default();
        USERS.iter().map(move |user| (stack, user, sides.clone()))
    });
    let trials = trials.map(|(stack, user, sides)| {
        let name = format!("{}: {}", stack.title, user.name);
        timed(&arguments, name, move || {
            let mut sides = sides.lock().map_err(|_| Failed::from("an earlier user's trial panicked"))?;
            let sides = match &mut *sides {
                Some(sides) => sides,
                none => none.insert(Sides::start(stack)?),
            };
            compare(sides, user, choice)
        })
    });
    let trials: Vec<Trial> = trials.collect();
    ExitCode::from(u8::from(libtest_mimic::run(&arguments, trials).has_failed() || suite::Served::has_any_failed()))
}

/// Which combinations are tried.
#[derive(Clone, Copy)]
struct Choice {
    seed: u64,
    share: u64,
}

impl Choice {
    fn given() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
        Self {
            seed: number("HOSTILE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32)),
            share: number("HOSTILE_SHARE").unwrap_or(1),
        }
    }

    fn has(self, combination: (usize, usize, usize)) -> bool {
        let (object, call, way) = combination;
        let number = (object * 1009 + call) * 4 + way;
        fastrand::Rng::with_seed(self.seed ^ number as u64).u64(..self.share) == 0
    }
}

/// Tries all calls on all objects, each on new objects on both sides.
fn compare(sides: &mut Sides, user: &'static users::User, choice: Choice) -> Result<(), Failed> {
    let mut actors = [Actor::start(user, sides.beside.path())?, Actor::start(user, sides.mounted.path())?];
    let (mut count, mut differences) = (0, Vec::new());
    for (object_index, object) in OBJECTS.iter().enumerate() {
        for (call_index, call) in CALLS.iter().enumerate() {
            for (way_index, way) in WAYS.iter().enumerate() {
                let is_lacked = |lacked: &&str| [object.name, call.name].iter().any(|name| name.contains(*lacked));
                let is_there = !sides.stack.lacks.iter().any(is_lacked);
                let is_meant = choice.has((object_index, call_index, way_index)) && (call.by_path || *way == Way::Path);
                let is_meant = is_meant && is_there;
                if !is_meant {
                    continue;
                }
                count += 1;
                let names = (user.name, object.name, call.name, *way);
                let try_on = |side: &Side, actor: &mut Actor| -> Result<(String, String), Failed> {
                    let directory = side.new_directory(count)?;
                    objects::make(&directory, object)?;
                    let result = actor.act(&side.name(count), call_index, *way)?;
                    let after = state::of(&directory);
                    side.remove(&directory)?;
                    Ok((result, after))
                };
                let [own, other] = &mut actors;
                let beside = try_on(&sides.beside, own)?;
                let mounted = try_on(&sides.mounted, other)?;
                if beside != mounted && !expected::is_expected(sides.stack, names) {
                    differences.push(describe(names, &beside, &mounted));
                }
            }
        }
    }
    println!("{}: {}: {count} calls compared, {} differ", sides.stack.title, user.name, differences.len());
    match differences.is_empty() {
        true => Ok(()),
        false => Err(format!("{} of {count} differ:\n{}", differences.len(), differences.join("\n")).into()),
    }
}

/// What a call is known by: user, object, call, way.
type Names = (&'static str, &'static str, &'static str, Way);

fn describe((user, object, call, way): Names, beside: &(String, String), mounted: &(String, String)) -> String {
    let mut text = format!("{user}, {object}, {call}, {way:?}: beside {}, in the mount {}", beside.0, mounted.0);
    let lines = |state: &str| state.lines().map(str::to_owned).collect::<Vec<_>>();
    let (beside, mounted) = (lines(&beside.1), lines(&mounted.1));
    for line in beside.iter().filter(|line| !mounted.contains(line)) {
        text.push_str(&format!("\n    beside only: {line}"));
    }
    for line in mounted.iter().filter(|line| !beside.contains(line)) {
        text.push_str(&format!("\n    in the mount only: {line}"));
    }
    text
}

//! A hostile user, as a differential test: every kind of object, every kind of user, every call. In a mount, each call
//! has the same result, and leaves every object with the same attributes, as on the native file system.
//!
//! `HOSTILE_SHARE=N` tests one in N combinations, selected by `HOSTILE_SEED`; the default is all of them.

mod actor;
mod calls;
mod counts;
mod expected;
mod fixture;
mod objects;
mod selection;
mod stacks;
mod state;
mod users;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use actor::Actor;
use calls::{AccessRoute, CALLS, ROUTES};
use counts::ComparisonCounts;
use fixture::{CallOutcome, ObjectFixture};
use libtest_mimic::{Arguments, Failed, FormatSetting, Trial};
use objects::OBJECTS;
use selection::CallSelection;
use stacks::{ComparedDirectories, HostileStack, STACKS};
use suite::{keep_initial_credentials, serve_if_requested, timed_trial};
use users::{USERS, User};

fn main() -> ExitCode {
    serve_if_requested();
    actor::serve_calls_if_requested();
    keep_initial_credentials();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(2);
    if !suite::matrix::Facilities::detect().is_root || !suite::matrix::Facilities::detect().can_mount {
        println!("skipped: it takes root and /dev/fuse");
        return ExitCode::from(u8::from(libtest_mimic::run(&arguments, Vec::new()).has_failed()));
    }
    let selection = CallSelection::from_environment();
    println!("HOSTILE_SEED={} HOSTILE_SHARE={}", selection.seed, selection.share);
    let prints_counts = arguments.format != Some(FormatSetting::Json);
    let trials = STACKS.iter().flat_map(|stack| {
        let sides = SharedDirectories::default();
        USERS.iter().map(move |user| (stack, user, sides.clone()))
    });
    let trials = trials.map(|(stack, user, sides)| {
        let name = format!("{}: {}", stack.title, user.name);
        timed_trial(&arguments, name, move || try_all(stack, user, &sides, selection, prints_counts))
    });
    let trials: Vec<Trial> = trials.collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    counts::print();
    let is_full_run = selection.share == 1 && conclusion.num_filtered_out == 0 && !arguments.list;
    let unmatched_reasons = if is_full_run { expected::unmatched_reasons() } else { Vec::new() };
    unmatched_reasons.iter().for_each(|reason| println!("nothing differs any more: {reason}"));
    ExitCode::from(u8::from(
        conclusion.has_failed() || suite::ServedStack::has_any_failed() || !unmatched_reasons.is_empty(),
    ))
}

/// The compared directories of a stack, created when the first of its users needs them.
type SharedDirectories = Arc<Mutex<Option<Arc<ComparedDirectories>>>>;

/// Tests everything that one user does in a stack.
fn try_all(
    stack: &'static HostileStack,
    user: &'static User,
    sides: &SharedDirectories,
    selection: CallSelection,
    prints_counts: bool,
) -> Result<(), Failed> {
    let sides = {
        let mut sides = sides.lock().map_err(|_| Failed::from("an earlier user's trial panicked"))?;
        match &*sides {
            Some(sides) => sides.clone(),
            None => sides.insert(Arc::new(ComparedDirectories::start(stack)?)).clone(),
        }
    };
    let (counts, differences) = compare(&sides, user, selection)?;
    counts.add_to(stack.title);
    if prints_counts {
        println!("{}: {}: {counts}", stack.title, user.name);
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(format!("{counts}:\n{}", differences.join("\n")).into()),
    }
}

/// Performs all calls on all objects in both directories; returns the counts and the unexpected differences.
fn compare(
    sides: &ComparedDirectories,
    user: &'static User,
    selection: CallSelection,
) -> Result<(ComparisonCounts, Vec<String>), Failed> {
    let mut actors = [Actor::start(user, &sides.native.path)?, Actor::start(user, &sides.mounted.path)?];
    let (mut counts, mut differences) = (ComparisonCounts::default(), Vec::new());
    let trial = format!("{}: {}", sides.stack.title, user.name);
    let objects = OBJECTS.iter().enumerate().filter(|(_, object)| !sides.stack.lacks(object.name));
    for (object_index, object) in objects.filter(|(index, _)| selection.has_object(&trial, *index)) {
        let fixture =
            |side| ObjectFixture::new(side, object, format!("{}-{}", user.name, object.name).replace(' ', "_"));
        let mut fixtures = [fixture(&sides.native), fixture(&sides.mounted)];
        for (call_index, call) in CALLS.iter().enumerate().filter(|(_, call)| !sides.stack.lacks(call.name)) {
            for (route_index, route) in ROUTES.into_iter().enumerate() {
                if !route.is_applicable(user, call)
                    || !selection.has_call(&trial, (object_index, call_index, route_index))
                {
                    continue;
                }
                counts.compared += 1;
                let mut perform = |side: usize| fixtures[side].perform(&mut actors[side], call_index, route);
                let (native, mounted) = (perform(0)?, perform(1)?);
                let names = (user.name, object.name, call.name, route);
                if native != mounted {
                    match expected::is_expected(sides.stack, names, &native, &mounted) {
                        true => counts.expected += 1,
                        false => differences.push(describe(names, &native, &mounted)),
                    }
                }
            }
        }
        fixtures.iter_mut().try_for_each(ObjectFixture::clear)?;
    }
    Ok((ComparisonCounts { others: differences.len(), ..counts }, differences))
}

/// The names that identify a test: user, object, call, route.
type CallNames = (&'static str, &'static str, &'static str, AccessRoute);

fn describe((user, object, call, route): CallNames, native: &CallOutcome, mounted: &CallOutcome) -> String {
    let mut text =
        format!("{user}, {object}, {call}, {route:?}: beside {}, in the mount {}", native.result, mounted.result);
    for line in native.state.iter().filter(|line| !mounted.state.contains(line)) {
        text.push_str(&format!("\n    beside only: {line}"));
    }
    for line in mounted.state.iter().filter(|line| !native.state.contains(line)) {
        text.push_str(&format!("\n    in the mount only: {line}"));
    }
    text
}

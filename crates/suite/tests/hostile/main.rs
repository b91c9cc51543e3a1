//! A hostile user, as a differential test: every kind of object, every kind of user, every call. In a mount each call has the
//! same result, and leaves every object with the same attributes, as on the file system beside it.
//!
//! `HOSTILE_SHARE=N` tries one of N combinations, chosen by `HOSTILE_SEED`; without it all.

mod actor;
mod arena;
mod calls;
mod choice;
mod counts;
mod expected;
mod objects;
mod stacks;
mod state;
mod users;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use actor::Actor;
use arena::{Arena, Outcome};
use calls::{CALLS, WAYS, Way};
use choice::Choice;
use counts::Counts;
use libtest_mimic::{Arguments, Failed, FormatSetting, Trial};
use objects::OBJECTS;
use stacks::{STACKS, Sides, Stack};
use suite::{keep_credentials, serve_if_asked, timed};
use users::{USERS, User};

fn main() -> ExitCode {
    serve_if_asked();
    actor::act_if_asked();
    keep_credentials();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(2);
    if !suite::matrix::Means::here().is_root || !suite::matrix::Means::here().can_mount {
        println!("skipped: it takes root and /dev/fuse");
        return ExitCode::from(u8::from(libtest_mimic::run(&arguments, Vec::new()).has_failed()));
    }
    let choice = Choice::given();
    println!("HOSTILE_SEED={} HOSTILE_SHARE={}", choice.seed, choice.share);
    let is_by_hand = arguments.format != Some(FormatSetting::Json);
    let trials = STACKS.iter().flat_map(|stack| {
        let sides = SharedSides::default();
        USERS.iter().map(move |user| (stack, user, sides.clone()))
    });
    let trials = trials.map(|(stack, user, sides)| {
        let name = format!("{}: {}", stack.title, user.name);
        timed(&arguments, name, move || try_all(stack, user, &sides, choice, is_by_hand))
    });
    let trials: Vec<Trial> = trials.collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    counts::print();
    let is_whole = choice.share == 1 && conclusion.num_filtered_out == 0 && !arguments.list;
    let needless = if is_whole { expected::needless() } else { Vec::new() };
    needless.iter().for_each(|reason| println!("nothing differs any more: {reason}"));
    ExitCode::from(u8::from(conclusion.has_failed() || suite::Served::has_any_failed() || !needless.is_empty()))
}

/// The sides of a stack, once the first of its users needs them.
type SharedSides = Arc<Mutex<Option<Arc<Sides>>>>;

/// All that a user tries in a stack.
fn try_all(
    stack: &'static Stack,
    user: &'static User,
    sides: &SharedSides,
    choice: Choice,
    is_by_hand: bool,
) -> Result<(), Failed> {
    let sides = {
        let mut sides = sides.lock().map_err(|_| Failed::from("an earlier user's trial panicked"))?;
        match &*sides {
            Some(sides) => sides.clone(),
            None => sides.insert(Arc::new(Sides::start(stack)?)).clone(),
        }
    };
    let (counts, differences) = compare(&sides, user, choice)?;
    counts.note(stack.title);
    if is_by_hand {
        println!("{}: {}: {counts}", stack.title, user.name);
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(format!("{counts}:\n{}", differences.join("\n")).into()),
    }
}

/// Tries all calls on all objects, each on both sides. Also tells what differs and is not expected to.
fn compare(sides: &Sides, user: &'static User, choice: Choice) -> Result<(Counts, Vec<String>), Failed> {
    let mut actors = [Actor::start(user, &sides.beside.path)?, Actor::start(user, &sides.mounted.path)?];
    let (mut counts, mut differences) = (Counts::default(), Vec::new());
    let trial = format!("{}: {}", sides.stack.title, user.name);
    let objects = OBJECTS.iter().enumerate().filter(|(_, object)| !sides.stack.lacks(object.name));
    for (object_index, object) in objects.filter(|(index, _)| choice.has_object(&trial, *index)) {
        let arena = |side| Arena::new(side, object, format!("{}-{}", user.name, object.name).replace(' ', "_"));
        let mut arenas = [arena(&sides.beside), arena(&sides.mounted)];
        for (call_index, call) in CALLS.iter().enumerate().filter(|(_, call)| !sides.stack.lacks(call.name)) {
            for (way_index, way) in WAYS.into_iter().enumerate() {
                if !way.is_open_to(user, call) || !choice.has_call(&trial, (object_index, call_index, way_index)) {
                    continue;
                }
                counts.compared += 1;
                let mut act = |side: usize| arenas[side].act(&mut actors[side], call_index, way);
                let (beside, mounted) = (act(0)?, act(1)?);
                let names = (user.name, object.name, call.name, way);
                if beside != mounted {
                    match expected::is_expected(sides.stack, names, &beside, &mounted) {
                        true => counts.expected += 1,
                        false => differences.push(describe(names, &beside, &mounted)),
                    }
                }
            }
        }
        arenas.iter_mut().try_for_each(Arena::clear)?;
    }
    Ok((Counts { others: differences.len(), ..counts }, differences))
}

/// What a call is known by: user, object, call, way.
type Names = (&'static str, &'static str, &'static str, Way);

fn describe((user, object, call, way): Names, beside: &Outcome, mounted: &Outcome) -> String {
    let mut text =
        format!("{user}, {object}, {call}, {way:?}: beside {}, in the mount {}", beside.result, mounted.result);
    for line in beside.state.iter().filter(|line| !mounted.state.contains(line)) {
        text.push_str(&format!("\n    beside only: {line}"));
    }
    for line in mounted.state.iter().filter(|line| !beside.state.contains(line)) {
        text.push_str(&format!("\n    in the mount only: {line}"));
    }
    text
}

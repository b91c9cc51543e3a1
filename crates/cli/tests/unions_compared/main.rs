//! Unions compared: each row of the table in docs/unions-compared.md, probed through real mounts of Plyfs and its peers.
//!
//! A probe is one function, and the table names it. It is run once for each subject, as a test of its own, and what it
//! finds has to be what the table says. `UNIONS_COMPARED=show` prints the rows as they are found, with reasons.

mod branches;
mod copies;
mod identity;
mod placement;
mod scene;
mod semantics;
mod subject;
mod table;
mod tools;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use scene::Scene;
use subject::{SUBJECTS, Subject};
use table::Table;

/// Whether a subject does what a row is about, or why not.
type Outcome = Result<(), Box<dyn Error>>;

/// One row of the table.
type Probe = fn(&Scene) -> Outcome;

/// A list of functions with their names.
macro_rules! probes {
    ($($module:ident: $($name:ident)*;)*) => { &[$($((stringify!($name), $module::$name as Probe),)*)*] };
}

const PROBES: &[(&str, Probe)] = probes! {
    semantics: directories_are_merged_at_every_level names_are_listed_once deleting_does_not_expose
        whiteouts_hide_what_cannot_be_deleted directories_made_again_are_empty both_formats_of_whiteouts_are_read
        directories_of_read_only_branches_are_renamed;
    identity: inode_numbers_are_unique inode_numbers_are_the_same_in_listings inode_numbers_stay_when_files_are_copied
        inode_numbers_stay_over_a_remount handles_stay_valid_over_a_remount;
    copies: files_are_copied_to_be_written owner_and_mode_are_kept times_are_kept extended_attributes_and_acls_are_kept
        hard_links_stay_links open_descriptors_follow_the_copy memory_maps_follow_the_copy directories_above_copies_are_made_when_needed
        attributes_are_copied_without_data owners_of_copies_can_be_chosen;
    branches: files_are_changed_in_several_branches read_only_branches_are_never_written a_branch_on_top_comes_and_goes a_branch_anywhere_comes_and_goes
        any_file_system_is_a_branch changes_in_branches_are_seen a_missing_branch_is_an_error
        deleting_from_all_branches_can_be_chosen branches_are_stacks_of_layers;
    placement: new_files_go_where_most_is_free branches_with_little_room_get_no_new_files
        files_move_when_their_branch_is_full;
    tools: branches_on_top_make_snapshots snapshots_are_taken_compared_and_restored
        processes_have_views_of_their_own commands_run_in_forks branches_are_checked_and_repaired;
};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of the time is spent waiting for caches to expire.
    arguments.test_threads.get_or_insert(8);
    let can_mount = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can_mount {
        println!("comparing unions needs root and /dev/fuse: it is skipped");
    }
    let table = Arc::new(Table::read());
    let mut trials = vec![{
        let table = table.clone();
        Trial::test("the table names these tests", move || table.names_exactly(PROBES.iter().map(|(name, _)| *name)))
    }];
    for (name, probe) in PROBES {
        for subject in SUBJECTS {
            let table = table.clone();
            let trial = Trial::test(format!("{name} on {subject}"), move || compare(&table, name, *probe, *subject));
            trials.push(trial.with_ignored_flag(!can_mount));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Probes one subject and compares with the table. What the table says of peers holds for the versions that it states.
fn compare(table: &Table, name: &str, probe: Probe, subject: Subject) -> Result<(), Failed> {
    let version = subject.version();
    let outcome = catch_unwind(AssertUnwindSafe(|| probe(&Scene::new(subject))));
    let outcome = outcome.map_err(|_| format!("the probe of {subject} could not be prepared"))?;
    if std::env::var_os("UNIONS_COMPARED").is_some() {
        eprintln!("{name}: {subject}: {}", outcome.as_ref().map_or_else(ToString::to_string, |()| "yes".to_owned()));
    }
    let (said, is) = (table.ticks(name, subject)?, outcome.is_ok());
    if said == is {
        return Ok(());
    }
    let reason = outcome.map_or_else(|error| format!("does not: {error}"), |()| "does".to_owned());
    let difference = format!("the table says {said} of {subject}, but {subject} {version} {reason}");
    match table.version(subject)? {
        stated if subject == Subject::Plyfs || stated == version => Err(difference.into()),
        stated => {
            eprintln!("{name}: {difference}; the table is about {stated}");
            Ok(())
        }
    }
}

/// An error, unless the condition holds.
fn expect(holds: bool, what: impl Into<String>) -> Outcome {
    if holds { Ok(()) } else { Err(what.into().into()) }
}

/// As [`expect`] for two values.
fn expect_equal<T: PartialEq + std::fmt::Debug>(is: T, should_be: T, what: &str) -> Outcome {
    expect(is == should_be, format!("{what}: {is:?}, not {should_be:?}"))
}

/// Tries until it succeeds, longer than any of the subjects caches names and attributes.
fn eventually(attempt: impl Fn() -> Outcome) -> Outcome {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
    loop {
        let outcome = attempt();
        if outcome.is_ok() || std::time::Instant::now() > end {
            return outcome;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

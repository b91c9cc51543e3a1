//! Runs the tests over a directory: `conformance DIRECTORY [-ABILITY…] [+ABILITY…] [FILTER…]`.
//! With `--prepare` it makes the tree for the tests of a read-only file system instead.

use std::process::ExitCode;

use plyfs_conformance::{Ability, Mounted, Subject};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(directory) = arguments.next() else {
        eprintln!("usage: conformance DIRECTORY [-ABILITY…] [+ABILITY…] [FILTER…]");
        return ExitCode::from(2);
    };
    let subject = match Mounted::new(directory.as_ref()) {
        Ok(subject) => subject,
        Err(error) => {
            eprintln!("{directory}: {error}");
            return ExitCode::from(2);
        }
    };
    let mut abilities = subject.abilities();
    let mut filters = Vec::new();
    let mut prepares = false;
    for argument in arguments {
        let ability = |name: &str| Ability::ALL.into_iter().find(|a| format!("{a:?}") == name);
        if argument == "--prepare" {
            prepares = true;
            continue;
        }
        match (argument.split_at(1), ability(&argument[1..])) {
            (("-", _), Some(ability)) => abilities = abilities.without(ability),
            (("+", _), Some(ability)) => abilities = abilities.with(ability),
            _ => filters.push(argument),
        }
    }
    let subject = subject.limited_to(abilities);
    if prepares {
        return match plyfs_conformance::prepare(&subject) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{directory}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let chosen = |name: String| filters.is_empty() || filters.iter().any(|f| name.contains(f));
    let report = plyfs_conformance::run(&subject, |test| chosen(test.full_name()));
    println!("{report}");
    for (name, missing) in &report.not_applicable {
        println!("{name}: not applicable, needs {missing:?}");
    }
    ExitCode::from(u8::from(!report.failures.is_empty()))
}

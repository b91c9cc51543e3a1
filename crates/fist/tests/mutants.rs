//! Descriptions that were damaged: whatever they are, they are read, refused, or run to an end, the same in both tiers.

mod common;

use std::time::{Duration, Instant};

use common::RecordingHost;
use common::red_zones::RedZones;
use plyfs_fist::check::check;
use plyfs_fist::compiler::Compiled;
use plyfs_fist::memory::Memory;
use plyfs_fist::program::Program;
use plyfs_fist::trap::Trap;

#[global_allocator]
static ALLOCATOR: RedZones = RedZones;

/// Words that make a difference where they stand.
const WORDS: [&str; 40] = [
    "0",
    "1",
    "-1",
    "4096",
    "0xffffffffffffffff",
    "$0",
    "$1",
    "$2",
    "$dir",
    "$name",
    "$vfs",
    "%uid",
    "%pagesize",
    "int",
    "char",
    "unsigned long",
    "*",
    "&",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ";",
    ",",
    "=",
    "+=",
    "++",
    "->",
    ".",
    "fistOp",
    "fistMalloc",
    "fistMemCpy",
    "return",
    "while",
    "for",
    "%%\n",
    "\"%s\"",
    "struct",
];

fn samples() -> Vec<(String, String)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fist");
    let mut samples: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "fist"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap()))
        .collect();
    samples.sort();
    samples
}

fn damage(text: &str, random: &mut fastrand::Rng) -> String {
    let mut text = text.to_owned();
    for _ in 0..random.usize(1..4) {
        let mut place = || {
            let at = random.usize(0..=text.len());
            (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
        };
        let (one, other) = (place(), place());
        let (from, to) = (one.min(other), one.max(other).min(one.min(other) + 40));
        let to = (to..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        match random.u8(0..4) {
            0 => text.replace_range(from..to, ""),
            1 => text.insert_str(from, &format!(" {} ", random.choice(WORDS).unwrap())),
            2 => text.replace_range(from..to, random.choice(WORDS).unwrap()),
            _ => {
                let again = text[from..to].to_owned();
                text.insert_str(from, &again);
            }
        }
    }
    text
}

/// Values that functions are given: none means anything to them.
const GIVEN: [[i64; 5]; 3] = [
    [Memory::INPUT, Memory::OUTPUT, 4096, 1, 0],
    [Memory::INPUT + 4080, Memory::OUTPUT + 16, -16, i64::MIN, i32::MAX as i64],
    [Memory::OUTPUT, Memory::OUTPUT + 3, 40, -1, i64::MAX],
];

/// Results of all runs, and all that they changed.
#[derive(Debug, PartialEq)]
struct Done {
    results: Vec<Result<i64, Trap>>,
    notes: RecordingHost,
    output: Box<[u8]>,
}

/// Runs every function of a program.
fn run_functions(
    program: &Program,
    mut run: impl FnMut(&mut RecordingHost, usize, &[i64], &[u8], &mut [u8]) -> Result<i64, Trap>,
) -> Done {
    let mut notes = RecordingHost::new(program);
    notes.ioctl = program
        .topmost()
        .ioctls
        .first()
        .map(|ioctl| (ioctl.structure, vec![1; program.structures[ioctl.structure].size as usize]));
    let (mut results, mut output) = (Vec::new(), vec![0; 4096].into_boxed_slice());
    for (index, function) in program.functions.iter().enumerate() {
        let given = if function.parameters == 0 { &GIVEN[..1] } else { &GIVEN[..] };
        for values in given {
            let input: Box<[u8]> = (0..4096).map(|at| (at * 31 % 253) as u8).collect();
            let values: Vec<_> = (0..function.parameters).map(|at| values[at % values.len()]).collect();
            results.push(run(&mut notes, index, &values, &input, &mut output));
        }
    }
    Done { results, notes, output }
}

/// Number of damaged descriptions that were run, in which tiers.
#[derive(Debug, Default)]
struct Counts {
    both_tiers: u64,
    interpreted_only: u64,
    refused: u64,
}

/// Reads and checks a description, and runs what is one in both tiers.
fn run_all(name: &str, text: &str, counts: &mut Counts) {
    let parsed = plyfs_fist::parser::parse(text);
    let checked = check(&parsed.description, name);
    let Some(program) = checked.program.filter(|_| parsed.diagnostics.is_empty()) else {
        counts.refused += 1;
        return;
    };
    let interpreted = || {
        run_functions(&program, |notes, function, values, input, output| {
            common::interpret(&program, notes, function, values, input, output)
        })
    };
    // Whether runs are stopped or not: they end.
    let Ok(compiled) = Compiled::new(&program) else {
        interpreted();
        counts.interpreted_only += 1;
        return;
    };
    let compiled = || {
        run_functions(&program, |notes, function, values, input, output| {
            common::run_compiled(&compiled, &program, notes, function, values, input, output)
        })
    };
    let _ = common::in_both_tiers(interpreted, compiled, || name.to_owned());
    counts.both_tiers += 1;
}

#[test]
fn damaged_descriptions_are_refused_or_run_to_an_end() {
    let seconds = std::env::var("PLYFS_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let first: u64 =
        std::env::var("PLYFS_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let samples = samples();
    assert!(samples.len() >= 10);
    let mut counts = Counts::default();
    samples.iter().for_each(|(name, text)| run_all(name, text, &mut counts));
    assert_eq!(counts.both_tiers, samples.len() as u64, "{counts:?}");
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        let seed = first.wrapping_add(count);
        let mut random = fastrand::Rng::with_seed(seed);
        let (name, text) = &samples[random.usize(0..samples.len())];
        let text = damage(text, &mut random);
        let run = std::panic::AssertUnwindSafe(|| run_all(name, &text, &mut counts));
        let outcome = std::panic::catch_unwind(run);
        assert!(outcome.is_ok(), "PLYFS_FUZZ_SEED={seed}\n{text}");
        count += 1;
    }
    println!("{count} descriptions from PLYFS_FUZZ_SEED={first}: {counts:?}");
}

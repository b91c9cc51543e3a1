//! Descriptions that were damaged: whatever they are, they are read, refused, or run to an end.

mod common;

use std::time::{Duration, Instant};

use common::Notes;
use fist::calls::Calls;
use fist::check::check;
use fist::memory::Memory;

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

/// Reads, checks and runs every function with values that mean nothing.
fn run_all(name: &str, text: &str) {
    let parsed = fist::parser::parse(text);
    let checked = check(&parsed.description, name);
    let Some(program) = checked.program.filter(|_| parsed.diagnostics.is_empty()) else { return };
    let mut notes = Notes::new(&program);
    notes.ioctl = program
        .ioctls
        .first()
        .map(|ioctl| (ioctl.structure, vec![1; program.structures[ioctl.structure].size as usize]));
    for (index, function) in program.functions.iter().enumerate() {
        let mut output = [0; 4096];
        let mut memory = Memory::new(&program.data, &[3; 4096], &mut output);
        let values = [Memory::INPUT, Memory::OUTPUT, 4096, 1, 0, 0, 0, 0];
        let values: Vec<_> = (0..function.parameters).map(|at| values[at % values.len()]).collect();
        // Whether it is stopped or not: it ends.
        let _ = fist::interpreter::run(
            &program,
            &mut memory,
            &mut Calls { program: &program, host: &mut notes },
            index,
            &values,
        );
    }
}

#[test]
fn damaged_descriptions_are_refused_or_run_to_an_end() {
    let seconds = std::env::var("PLYFS_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let first: u64 =
        std::env::var("PLYFS_FUZZ_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let samples = samples();
    assert!(samples.len() >= 10);
    samples.iter().for_each(|(name, text)| run_all(name, text));
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        let seed = first.wrapping_add(count);
        let mut random = fastrand::Rng::with_seed(seed);
        let (name, text) = &samples[random.usize(0..samples.len())];
        let text = damage(text, &mut random);
        let outcome = std::panic::catch_unwind(|| run_all(name, &text));
        assert!(outcome.is_ok(), "PLYFS_FUZZ_SEED={seed}\n{text}");
        count += 1;
    }
    println!("{count} descriptions from PLYFS_FUZZ_SEED={first}");
}

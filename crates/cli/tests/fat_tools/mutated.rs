//! Images with random damage: every tool ends by itself, with an exit code of its own and bounded memory, and a repaired image is sound.
//! `FAT_SEED` replays a failure, `FAT_MUTATIONS` sets the number of images.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;

use crate::images::Image;
use crate::support::{Run, finish};

/// Address space of a tool, in KiB: the program, and little more than what an image of this size takes.
const MEMORY_KIB: u32 = 400_000;

/// Time of a tool for one image.
const TIME_MAX: Duration = Duration::from_secs(60);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a tool with limited memory.
fn limited(words: &[&str], context: &str) -> Run {
    let script = format!("ulimit -v {MEMORY_KIB}; exec {} fat \"$@\"", env!("CARGO_BIN_EXE_plyfs"));
    let started = Instant::now();
    let ran = finish(Command::new("sh").args(["-c", &script, "sh"]).args(words).stdin(Stdio::null()).output());
    assert!([0, 1, 5].contains(&ran.code), "{context}: {words:?}: {ran:?}");
    assert!(ran.code == 0 || ran.errors.starts_with("plyfs: "), "{context}: {words:?}: {ran:?}");
    assert!(started.elapsed() < TIME_MAX, "{context}: {words:?} took {:?}", started.elapsed());
    ran
}

/// Changes bytes of the boot sector, of the tables and of the directories.
fn damage(contents: &mut [u8], random: &mut Rng) {
    let regions = [0..64, 512..1024, 512..33_000, 33_000..50_000, 33_000..80_000];
    for _ in 0..random.usize(1..40) {
        let region = random.choice(&regions).cloned().unwrap_or(0..1);
        let position = random.usize(region);
        match random.u8(..4) {
            0 => contents[position] = random.u8(..),
            1 => contents[position] ^= 1 << random.u8(..8),
            2 => contents[position..position + 2].copy_from_slice(&random.u16(..200).to_le_bytes()),
            _ => contents
                .copy_within(position / 32 * 32..position / 32 * 32 + 32, random.usize(33_000..50_000) / 32 * 32),
        }
    }
}

#[test]
fn damaged_images_are_survived_and_repaired() {
    let seed = number("FAT_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let image = Image::with_files();
    let sound = image.contents();
    for round in 0..number("FAT_MUTATIONS").unwrap_or(15) {
        let context = format!("FAT_SEED={seed} FAT_MUTATIONS={}", round + 1);
        let mut random = Rng::with_seed(seed.wrapping_add(round));
        let mut contents = sound.clone();
        damage(&mut contents, &mut random);
        fs::write(&image.name, &contents).unwrap();
        for words in [
            &["dump", "--boot", "--info", "--table", "--directory=/", "--chain=/a"][..],
            &["tune", "-n"],
            &["label"],
            &["fsck", "-n"],
            &["badsect", "-n"],
        ] {
            limited(&[words, &[&image.name]].concat(), &context);
            assert!(image.contents() == contents, "{context}: {words:?} has changed something");
        }
        if random.bool() {
            limited(&["fsck", "-p", &image.name], &context);
        }
        let repaired = limited(&["fsck", "-y", "--json", &image.name], &context);
        let report: Value = serde_json::from_str(&repaired.output).unwrap();
        let findings = report["findings"].as_array().unwrap();
        // Nothing repairs a boot sector without a copy.
        if findings.iter().all(|finding| finding["result"] == "done") {
            let checked = limited(&["fsck", "-n", &image.name], &context);
            assert_eq!(checked.code, 0, "{context}: {checked:?}\nafter {report:#}");
            limited(&["tune", &image.name], &context);
            limited(&["label", &image.name, "new"], &context);
            limited(&["badsect", "--relocate", "-s", "300", &image.name], &context);
            let checked = limited(&["fsck", "-n", &image.name], &context);
            assert_eq!(checked.code, 0, "{context}: {checked:?}\nafter tuning");
        }
    }
}

//! Inputs of the corpus, as they are and damaged by chance: no panic, no hang, and no more memory than the options allow.
//!
//! `IMAGE_SEED` and `IMAGE_MUTATIONS` select the first seed and the number of damaged images of each format; each is damaged by its
//! own seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use fastrand::Rng;
use image_fuzz::{Input, corpus, fat, iso, mutate};
use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One test at a time, since each measures the memory of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Number of damaged images of each format by default.
const MUTATIONS: u64 = 500;
/// Number of damaged images after which a long run says how far it is.
const REPORTED: u64 = 50_000;
/// Memory that an image may take, its own pages included: the options of both formats and a multiple of the largest input.
const MEMORY_MAX: usize = 24 << 20;
/// CPU time that an image may take.
const TIME_MAX: Duration = Duration::from_secs(10);

#[test]
fn fat_volumes_do_no_harm() {
    run("fat", fat);
}

#[test]
fn iso_images_do_no_harm() {
    run("iso", iso);
}

fn run(format: &str, attack: impl Fn(&Input) -> bool) {
    let _alone = ALONE.lock();
    let inputs = corpus::read(format).unwrap();
    assert!(inputs.len() >= 5, "there is a corpus");
    for (number, bytes) in inputs.iter().enumerate() {
        try_input(bytes, &attack, &format!("input {number} of the corpus of {format}"));
    }
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let count = number("IMAGE_MUTATIONS").unwrap_or(MUTATIONS);
    let first = number("IMAGE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    eprintln!("{format}: IMAGE_SEED={first} IMAGE_MUTATIONS={count}, {} inputs", inputs.len());
    let mut used = 0;
    for (done, seed) in (first..first + count).enumerate() {
        if count >= REPORTED && (done as u64).is_multiple_of(REPORTED) {
            eprintln!("{format}: {done} of {count}");
        }
        let mut random = Rng::with_seed(seed);
        let mut bytes = random.choice(&inputs).unwrap().clone();
        let other = random.choice(&inputs).unwrap();
        mutate(&mut bytes, other, &mut random);
        used += u64::from(try_input(&bytes, &attack, &format!("replay with IMAGE_SEED={seed} IMAGE_MUTATIONS=1")));
    }
    eprintln!("{format}: {used} of {count} could be opened");
    assert!(used >= count / 10, "the damage is too large to test anything");
}

/// Gives an input to the format; returns whether it could be opened.
fn try_input(bytes: &[u8], attack: &impl Fn(&Input) -> bool, replay: &str) -> bool {
    let Some(input) = Input::parse(bytes) else { return false };
    let (before, start) = (ALLOCATOR.current_usage(), cpu_time());
    ALLOCATOR.reset_peak_usage();
    let Ok(is_used) = catch_unwind(AssertUnwindSafe(|| attack(&input))) else { panic!("{replay}") };
    let used = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(used < MEMORY_MAX, "{used} bytes of memory: {replay}");
    let time = cpu_time().saturating_sub(start);
    assert!(time < TIME_MAX, "{time:?}: {replay}");
    is_used
}

/// Returns the CPU time of this process, which other programs of the machine do not change.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap()
}

//! Random operations of several users over `mem` and over `dir` side by side: each step answers the same on both.
//!
//! `dir` stands on a real file system, so the kernel says what is right. Needs root. `MODEL_SEED` replays a failure,
//! `MODEL_STEPS` says how many steps are made, `MODEL_DIRECTORY` on which file system, instead of an ext4 image and a
//! tmpfs directory.

#[path = "model/operation.rs"]
mod operation;
#[path = "model/side.rs"]
mod side;
#[path = "model/test_directory.rs"]
mod test_directory;

use fastrand::Rng;
use plyfs_bases::dir::{self, DirectoryFileSystem};
use plyfs_bases::mem::{self, MemoryFileSystem};

use operation::Operation;
use side::Side;
use test_directory::TestDirectory;

const STEPS: usize = 4000;
/// How many operations before a difference are shown.
const SHOWN: usize = 12;
/// How often the whole trees are compared, in steps.
const WHOLE: usize = 250;

#[test]
fn mem_behaves_like_ext4() {
    if let Some(test_directory) = TestDirectory::image() {
        run(&test_directory);
    }
}

#[test]
fn mem_behaves_like_tmpfs() {
    if let Some(test_directory) = TestDirectory::tmpfs() {
        run(&test_directory);
    }
}

#[test]
fn mem_behaves_like_the_given_directory() {
    if let Some(test_directory) = TestDirectory::from_environment() {
        run(&test_directory);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(test_directory: &TestDirectory) {
    let seed = number("MODEL_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let steps = number("MODEL_STEPS").map_or(STEPS, |steps| steps as usize);
    println!("MODEL_SEED={seed} MODEL_STEPS={steps} on {}", test_directory.path().display());
    let options = mem::Options { size: 1 << 30, inodes: 100_000, mode: 0o777, uid: 0, gid: 0 };
    let mut memory = Side::new(Box::new(MemoryFileSystem::new(options)), test_directory.has_fine_times());
    let directory =
        DirectoryFileSystem::open(test_directory.path(), dir::Options { exclusive: true, ..Default::default() });
    let mut directory = Side::new(Box::new(directory.expect("the directory opens")), test_directory.has_fine_times());
    let mut random = Rng::with_seed(seed);
    let mut done: Vec<Operation> = Vec::new();
    for step in 0..steps {
        let operation = Operation::random(&mut random);
        if !test_directory.supports(&operation) {
            continue;
        }
        let expected = directory.apply(&operation);
        let found = memory.apply(&operation);
        done.push(operation);
        if expected != found {
            let first = done.len().saturating_sub(SHOWN);
            let shown: Vec<String> = done[first..].iter().map(|operation| format!("  {operation:?}")).collect();
            panic!("MODEL_SEED={seed}, step {step}:\n{}\ndir: {expected}\nmem: {found}", shown.join("\n"));
        }
        if step % WHOLE == 0 {
            let (expected, found) = (directory.tree(), memory.tree());
            if let Some((expected, found)) = expected.iter().zip(&found).find(|(expected, found)| expected != found) {
                panic!("MODEL_SEED={seed}, tree at step {step}:\ndir: {expected}\nmem: {found}");
            }
            assert_eq!(expected.len(), found.len(), "MODEL_SEED={seed}, tree at step {step}");
        }
    }
}

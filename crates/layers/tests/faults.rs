//! Every call to the file system below the data layers of the tests fails in turn, and whoever is stopped goes on.

mod common;

use common::codecs::CODECS;
use common::{layer, memory, root};
use conformance::faults::{OPERATIONS, Operation, Stack, counts_are_short, each_call_fails, no_data_come};
use vnode::{Control, FileSystemRef};

/// A data layer of the tests: its place among them, and the size of its blocks.
struct Coded(usize, usize);

const STACKS: [Coded; 8] = [
    Coded(0, 512),
    Coded(0, 4096),
    Coded(1, 4096),
    Coded(2, 512),
    Coded(3, 512),
    Coded(3, 4096),
    Coded(4, 512),
    Coded(4, 4096),
];

impl Stack for Coded {
    fn title(&self) -> String {
        format!("{} in blocks of {}", CODECS[self.0].0, self.1)
    }

    fn width(&self) -> usize {
        1
    }

    fn below(&self) -> FileSystemRef {
        layer("faulty", &[], memory())
    }

    fn build(&self, mut below: Vec<FileSystemRef>) -> FileSystemRef {
        CODECS[self.0].1(self.1, below.remove(0))
    }
}

/// Does this with every operation of every stack: what is wrong, and the sum of what it returns.
fn with_all<T: Into<usize>>(test: impl Fn(&dyn Stack, &Operation) -> Result<T, String>) {
    let (mut problems, mut count) = (Vec::new(), 0);
    for stack in &STACKS {
        for operation in OPERATIONS {
            match test(stack, operation) {
                Ok(done) => count += done.into(),
                Err(problem) => problems.push(format!("{}: {}: {problem}", stack.title(), operation.name)),
            }
        }
    }
    println!("{count}");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn an_operation_is_done_or_not_done_when_a_call_below_fails() {
    with_all(|stack, operation| each_call_fails(stack, operation, usize::MAX));
}

#[test]
fn short_counts_below_are_no_end_of_the_file() {
    with_all(|stack, operation| counts_are_short(stack, operation).map(|()| 1_usize));
}

#[test]
fn data_that_do_not_come_are_not_replaced_by_zeros() {
    with_all(|stack, operation| no_data_come(stack, operation).map(|()| 1_usize));
}

#[test]
fn a_stopped_operation_goes_on_when_it_is_let() {
    let below = layer("faulty", &[("operations", "getattr"), ("stop", "yes")], memory());
    let tell = |command: &str| {
        let control = Control { target: "faulty".to_owned(), command: command.to_owned(), arguments: Vec::new() };
        below.control(&control).unwrap()
    };
    let top = layer("audit", &[("to", "/dev/null")], below.clone());
    let asking = std::thread::spawn(move || top.root().getattr(&root()).map(drop));
    while !tell("stats").contains("stopped=1") {
        std::thread::yield_now();
    }
    assert!(!asking.is_finished());
    tell("off");
    assert_eq!(asking.join().unwrap(), Ok(()));
    assert!(tell("stats").contains("stopped=0"));
}

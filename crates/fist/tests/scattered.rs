//! Memory of compiled code: the addresses that are free may lie far apart, and the kernel may refuse to execute what was written.

mod common;

use std::fmt::Write;
use std::process::Command;

use common::RecordingHost;
use plyfs_fist::check::check;
use plyfs_fist::compiler::Compiled;
use plyfs_fist::program::Program;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// More than a call instruction reaches.
const FAR_BYTES: usize = 3 << 30;
/// Number of functions that are called, many to a page.
const FUNCTIONS: usize = 200;

fn map(bytes: usize) -> usize {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel chooses addresses that nothing has.
    unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), flags) }.unwrap().addr()
}

fn unmap(address: usize, bytes: usize) {
    // SAFETY: nothing uses these addresses.
    unsafe { munmap(std::ptr::with_exposed_provenance_mut(address), bytes) }.unwrap();
}

/// Leaves single free pages, far from each other; the kernel takes the highest that suffices.
fn scatter_free_pages() {
    let page = rustix::param::page_size();
    let lowest = map(FAR_BYTES);
    for bytes in (0..18).rev().map(|power| page << power) {
        while map(bytes) > lowest {}
    }
    let free: Vec<_> = (0..FUNCTIONS)
        .map(|_| {
            let address = map(page);
            // Of no length that the kernel would align.
            map(FAR_BYTES + page);
            address
        })
        .collect();
    free.into_iter().for_each(|address| unmap(address, page));
}

/// A program of functions that one of them calls.
fn program() -> Program {
    let mut text = String::from("%%\n%%\n");
    let mut sum = String::from("0");
    for index in 0..FUNCTIONS {
        writeln!(text, "int f{index}(int a) {{ return a + {index}; }}").unwrap();
        write!(sum, " + f{index}(a)").unwrap();
    }
    writeln!(text, "int all(int a) {{ return {sum}; }}").unwrap();
    let parsed = plyfs_fist::parser::parse(&text);
    check(&parsed.description, "scattered").program.expect("a program")
}

#[test]
fn functions_call_each_other_when_free_pages_are_far_apart() {
    let program = program();
    scatter_free_pages();
    let compiled = Compiled::new(&program).unwrap();
    let mut notes = RecordingHost::new(&program);
    let result = common::run_compiled(&compiled, &program, &mut notes, FUNCTIONS, &[42], &[], &mut []);
    assert_eq!(result, Ok((0..FUNCTIONS as i64).map(|index| 42 + index).sum()));
}

#[test]
fn code_that_the_kernel_refuses_to_execute_is_an_error() {
    const DENIED: &str = "PLYFS_TEST_EXECUTION_IS_DENIED";
    if std::env::var_os(DENIED).is_none() {
        // In a process of its own, since it stays denied.
        let name = "code_that_the_kernel_refuses_to_execute_is_an_error";
        let mut test = Command::new(std::env::current_exe().unwrap());
        let run = test.args([name, "--exact", "--nocapture"]).env(DENIED, "1").output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        return;
    }
    // SAFETY: the call only sets a property of the process.
    let denied = unsafe { libc::prctl(libc::PR_SET_MDWE, libc::PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) };
    assert_eq!(denied, 0, "Linux 6.3 can deny it");
    let compiled = Compiled::new(&program());
    let error = compiled.expect_err("it would have to be executed").to_string();
    assert!(error.contains("the kernel refuses memory for machine code"), "{error}");
}

//! Measures how fast a page is filtered: interpreted, compiled, and by the same loop in Rust.

use std::hint::black_box;
use std::time::{Duration, Instant};

use plyfs_fist::calls::Calls;
use plyfs_fist::compiler::Compiled;
use plyfs_fist::memory::Memory;
use plyfs_fist::program::Program;

#[path = "../tests/common/mod.rs"]
mod common;

/// Bytes of a page.
const PAGE: usize = 4096;
/// How often each is measured; the others are measured in between.
const ROUNDS: usize = 5;
/// How long at a time.
const ROUND: Duration = Duration::from_millis(200);

const ROTATE: &str = "filter:data;\n%%\n%%\n\
    static int rotate(int c) { if (c >= 'a' && c <= 'z') return 'a' + (c - 'a' + 13) % 26; return c; }\n\
    int test_encode_data(const page_t *in, page_t *out) { for (int i = 0; i < %pagesize; i++) out[i] = rotate(in[i]); return %pagesize; }\n\
    int test_decode_data(const page_t *in, page_t *out) { return test_encode_data(in, out); }\n";

const EXCLUSIVE_OR: &str = "filter:data;\n%%\n%%\n\
    const char key[16] = \"0123456789abcdef\";\n\
    int test_encode_data(const page_t *in, page_t *out) { for (int i = 0; i < %pagesize; i++) out[i] = in[i] ^ key[i & 15]; return %pagesize; }\n\
    int test_decode_data(const page_t *in, page_t *out) { return test_encode_data(in, out); }\n";

/// As `examples/fist/rot13fs.fist` has it.
const LOCAL: &str = "filter:data;\n%%\n%%\n\
    int test_encode_data(const page_t *in, page_t *out) { for (int i = 0; i < %pagesize; i++) { int c = in[i];\n\
        if (c >= 'a' && c <= 'z') c = 'a' + (c - 'a' + 13) % 26;\n\
        else if (c >= 'A' && c <= 'Z') c = 'A' + (c - 'A' + 13) % 26;\n\
        out[i] = c; } return %pagesize; }\n\
    int test_decode_data(const page_t *in, page_t *out) { return test_encode_data(in, out); }\n";

const INDEXED_TABLE: &str = "filter:data;\n%%\n%%\n\
    int test_encode_data(const page_t *in, page_t *out) {\n\
        unsigned char table[256];\n\
        for (int i = 0; i < 256; i++) table[i] = i * 7 + 3;\n\
        for (int i = 0; i < %pagesize; i++) out[i] = table[in[i]];\n\
        return %pagesize; }\n\
    int test_decode_data(const page_t *in, page_t *out) { return test_encode_data(in, out); }\n";

const TABLE: &str = "filter:data;\n%%\n%%\n\
    int test_encode_data(const page_t *in, page_t *out) {\n\
        unsigned char table[256]; int n = %pagesize;\n\
        for (int i = 0; i < 256; i++) table[i] = i * 7 + 3;\n\
        while (n-- > 0) *out++ = table[*in++];\n\
        return %pagesize; }\n\
    int test_decode_data(const page_t *in, page_t *out) { return test_encode_data(in, out); }\n";

fn rotate(c: i32) -> i32 {
    if c >= i32::from(b'a') && c <= i32::from(b'z') {
        return i32::from(b'a') + (c - i32::from(b'a') + 13) % 26;
    }
    c
}

#[inline(never)]
fn rotate_in_rust(input: &[u8], output: &mut [u8]) -> usize {
    #[allow(clippy::needless_range_loop, reason = "it is the same loop")]
    for i in 0..PAGE {
        output[i] = rotate(i32::from(input[i])) as u8;
    }
    PAGE
}

#[inline(never)]
fn rotate_in_rust_by_iterators(input: &[u8], output: &mut [u8]) -> usize {
    for (to, from) in output.iter_mut().zip(input) {
        *to = rotate(i32::from(*from)) as u8;
    }
    PAGE
}

#[inline(never)]
fn rotate_all_in_rust(input: &[u8], output: &mut [u8]) -> usize {
    #[allow(clippy::needless_range_loop, reason = "it is the same loop")]
    for i in 0..PAGE {
        let mut c = i32::from(input[i]);
        if c >= i32::from(b'a') && c <= i32::from(b'z') {
            c = i32::from(b'a') + (c - i32::from(b'a') + 13) % 26;
        } else if c >= i32::from(b'A') && c <= i32::from(b'Z') {
            c = i32::from(b'A') + (c - i32::from(b'A') + 13) % 26;
        }
        output[i] = c as u8;
    }
    PAGE
}

#[inline(never)]
fn exclusive_or_in_rust(input: &[u8], output: &mut [u8]) -> usize {
    let key = b"0123456789abcdef";
    #[allow(clippy::needless_range_loop, reason = "it is the same loop")]
    for i in 0..PAGE {
        output[i] = input[i] ^ key[i & 15];
    }
    PAGE
}

#[inline(never)]
fn table_in_rust(input: &[u8], output: &mut [u8]) -> usize {
    let mut table = [0; 256];
    for (i, entry) in table.iter_mut().enumerate() {
        *entry = (i * 7 + 3) as u8;
    }
    for (to, from) in output.iter_mut().zip(input) {
        *to = table[usize::from(*from)];
    }
    PAGE
}

/// Megabytes per second.
fn measure(filter: &mut dyn FnMut()) -> f64 {
    let begin = Instant::now();
    let mut pages = 0;
    while begin.elapsed() < ROUND {
        for _ in 0..16 {
            filter();
        }
        pages += 16;
    }
    (pages * PAGE) as f64 / begin.elapsed().as_secs_f64() / 1e6
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The program, and what runs its filter in either tier.
struct Filter {
    program: Program,
    compiled: Compiled,
    function: usize,
}

impl Filter {
    fn new(text: &str) -> Filter {
        let program = common::program("test", text);
        let compiled = Compiled::new(&program).unwrap_or_else(|error| panic!("{error}"));
        let (function, _) = program.topmost().filters.data.expect("a filter of data");
        Filter { program, compiled, function }
    }

    fn run(&self, is_compiled: bool, input: &[u8], output: &mut [u8]) {
        let mut memory = Memory::new(&self.program.data, black_box(input), black_box(output));
        let mut notes = common::RecordingHost::default();
        let outside = &mut Calls { program: &self.program, host: &mut notes };
        let values = [Memory::INPUT, Memory::OUTPUT];
        let answer = match is_compiled {
            true => self.compiled.run(&self.program, &mut memory, outside, self.function, &values),
            false => plyfs_fist::interpreter::run(&self.program, &mut memory, outside, self.function, &values),
        };
        assert_eq!(answer, Ok(PAGE as i64));
    }
}

type InRust = fn(&[u8], &mut [u8]) -> usize;

fn compare(name: &str, text: &str, in_rust: &[(&str, InRust)]) {
    let filter = Filter::new(text);
    let input: Vec<u8> = (0..PAGE).map(|index| b"The quick brown fox jumps over the lazy dog 42"[index % 46]).collect();
    let (mut one, mut other) = (vec![0; PAGE], vec![0; PAGE]);
    filter.run(false, &input, &mut one);
    filter.run(true, &input, &mut other);
    assert!(one == other, "both tiers filter alike");
    let mut all = vec![Vec::new(); 2 + in_rust.len()];
    for _ in 0..ROUNDS {
        all[0].push(measure(&mut || filter.run(false, &input, &mut other)));
        all[1].push(measure(&mut || filter.run(true, &input, &mut other)));
        for (index, (_, function)) in in_rust.iter().enumerate() {
            all[index + 2].push(measure(&mut || {
                black_box(function(black_box(&input), black_box(&mut other)));
            }));
            assert!(one == other, "Rust filters alike");
        }
    }
    let medians: Vec<f64> = all.into_iter().map(median).collect();
    println!("{name}: interpreter {:.0} MB/s, compiled {:.0} MB/s", medians[0], medians[1]);
    for ((what, _), speed) in in_rust.iter().zip(&medians[2..]) {
        println!("{name}: {what} {speed:.0} MB/s, compiled is {:.2} of that", medians[1] / speed);
    }
}

fn main() {
    compare("rotate", ROTATE, &[("Rust", rotate_in_rust), ("Rust by iterators", rotate_in_rust_by_iterators)]);
    compare("rot13fs", LOCAL, &[("Rust", rotate_all_in_rust)]);
    compare("exclusive or", EXCLUSIVE_OR, &[("Rust", exclusive_or_in_rust)]);
    compare("table by index", INDEXED_TABLE, &[("Rust", table_in_rust)]);
    compare("table", TABLE, &[("Rust", table_in_rust)]);
}

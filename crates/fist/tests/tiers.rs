//! Interpreted and compiled, programs do the same: random ones, with all that they change.
//!
//! `FIST_TIERS_STATEMENTS` says how many statements the programs have in all; `FIST_TIERS_SEED` is the one program to run,
//! `FIST_TIERS_FIRST` the first of those that are run otherwise.

mod common;
mod random;

use std::alloc::{GlobalAlloc, Layout};
use std::io::Write;
use std::time::{Duration, Instant};

use common::RecordingHost;
use common::red_zones::{RedZones, far_from_all};
use plyfs_fist::calls::Calls;
use plyfs_fist::check::check;
use plyfs_fist::compiler::Compiled;
use plyfs_fist::interpreter::{self, CallHandler};
use plyfs_fist::memory::Memory;
use plyfs_fist::program::Program;
use plyfs_fist::trap::{Trap, TrapKind};

#[global_allocator]
static ALLOCATOR: RedZones = RedZones;

/// The results of a program's runs, and everything that they changed.
#[derive(Debug, PartialEq, Eq)]
struct RunResult {
    results: Vec<Result<i64, Trap>>,
    notes: RecordingHost,
    output: Vec<u8>,
}

/// Arguments of the functions besides the bytes.
const ARGUMENTS: [(i64, i64); 4] = [(7, -3), (0, 1), (i64::MIN, 255), (-2_147_483_648, 4)];

/// Runs the function twice for each of the values, in one memory: what one run leaves behind the next one finds.
fn all_runs(
    program: &Program,
    mut run: impl FnMut(&mut Memory<'_>, &mut dyn CallHandler, usize, &[i64]) -> Result<i64, Trap>,
) -> RunResult {
    let function = program.functions.iter().position(|one| one.name == "f").expect("a function `f`");
    let input: Vec<u8> = (0..48).map(|index| b"the quick brown fox\0"[index % 20]).collect();
    let (mut notes, mut output, mut results) = (RecordingHost::new(program), vec![0; 40], Vec::new());
    for (one, other) in ARGUMENTS {
        // One tier takes longer than the other, and steps are what ends their runs.
        let mut memory = Memory::new(&program.data, &input, &mut output).metered(notes.meter());
        for values in [[Memory::INPUT, Memory::OUTPUT, one, other], [Memory::INPUT + 3, Memory::OUTPUT + 1, other, one]]
        {
            let handler = &mut Calls { program, host: &mut notes };
            results.push(run(&mut memory, handler, function, &values));
        }
    }
    RunResult { results, notes, output }
}

/// The program of a seed, if its text is one, and how many statements it has.
fn generate(seed: u64) -> (String, Option<Program>, usize) {
    let (text, statements) = random::description(seed);
    let parsed = plyfs_fist::parser::parse(&text);
    assert!(parsed.diagnostics.is_empty(), "seed {seed}\n{text}\n{:#?}", parsed.diagnostics);
    let checked = check(&parsed.description, "test");
    if checked.program.is_none() && std::env::var_os("FIST_TIERS_SEED").is_some() {
        println!("{text}\n{:#?}", checked.diagnostics);
    }
    (text, checked.program, statements)
}

/// Runs the program of a seed in both tiers: how many statements that were, and how its runs ended.
fn check_tiers_agree(seed: u64, counts: &mut Counts) {
    let (text, program, statements) = generate(seed);
    counts.programs += 1;
    let Some(program) = program else {
        counts.refused += 1;
        return;
    };
    let compiled = Compiled::new(&program).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
    let done = common::in_both_tiers(
        || {
            all_runs(&program, |memory, handler, function, values| {
                interpreter::run(&program, memory, handler, function, values)
            })
        },
        || {
            far_from_all(|| {
                all_runs(&program, |memory, handler, function, values| {
                    compiled.run(&program, memory, handler, function, values)
                })
            })
        },
        || format!("FIST_TIERS_SEED={seed}\n{text}"),
    );
    counts.statements += statements;
    for result in &done.results {
        match result {
            Ok(_) => counts.ended += 1,
            Err(trap) => counts.traps[TrapKind::ALL.iter().position(|kind| *kind == trap.kind).unwrap_or(0)] += 1,
        }
    }
}

/// Runs the first function of a program in both tiers, on bytes to read and bytes to write.
fn on_bytes(
    program: &Program,
    compiled: &Compiled,
    values: &[i64],
    (input, output): (&[u8], &[u8]),
    what: &dyn std::fmt::Display,
) {
    let run = |is_compiled: bool| {
        // Allocations of their own, with red zones close to the first and the last byte.
        let (input, mut output): (Box<[u8]>, Box<[u8]>) = (input.into(), output.into());
        let notes = &mut RecordingHost::new(program);
        let result = match is_compiled {
            true => common::run_compiled(compiled, program, notes, 0, values, &input, &mut output),
            false => common::interpret(program, notes, 0, values, &input, &mut output),
        };
        (result, output)
    };
    let _ = common::in_both_tiers(|| run(false), || run(true), || what.to_string());
}

#[derive(Debug, Default)]
struct Counts {
    programs: usize,
    refused: usize,
    statements: usize,
    ended: usize,
    traps: [usize; TrapKind::ALL.len()],
}

fn variable(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

#[test]
fn random_programs_behave_the_same_in_both_tiers() {
    let mut counts = Counts::default();
    if let Some(seed) = variable("FIST_TIERS_SEED") {
        check_tiers_agree(seed, &mut counts);
        return;
    }
    let (expected, begin) = (variable("FIST_TIERS_STATEMENTS"), Instant::now());
    let first = variable("FIST_TIERS_FIRST").unwrap_or_else(|| fastrand::u64(..1 << 40));
    // Not kept back as other output of tests: a process that is ended by a signal has none.
    let _ = writeln!(std::io::stderr(), "FIST_TIERS_FIRST={first}");
    for seed in first.. {
        let is_enough = match expected {
            Some(expected) => counts.statements as u64 >= expected,
            None => begin.elapsed() > Duration::from_secs(2),
        };
        if is_enough {
            break;
        }
        check_tiers_agree(seed, &mut counts);
    }
    let traps: Vec<_> = TrapKind::ALL.iter().zip(counts.traps).filter(|(_, count)| *count > 0).collect();
    println!(
        "{} statements of {} programs agree ({} more were refused); {} runs ended, others stopped: {traps:?}; {:?}",
        counts.statements,
        counts.programs - counts.refused,
        counts.refused,
        counts.ended,
        begin.elapsed()
    );
    assert!(counts.refused * 4 <= counts.programs + 20, "most programs are to be run: {counts:?}");
}

#[test]
fn out_of_bounds_accesses_are_detected() {
    let layout = Layout::array::<u8>(40).unwrap();
    let surroundings = |fill| {
        common::red_zones::filled_with(fill, || {
            // SAFETY: the layout is not empty, and what is read is in the red zones, which the allocator has initialized.
            unsafe {
                let bytes = RedZones.alloc(layout);
                let surroundings = (*bytes.sub(1), *bytes.add(40));
                RedZones.dealloc(bytes, layout);
                surroundings
            }
        })
    };
    assert_eq!((surroundings(7), surroundings(9)), ((7, 7), (9, 9)));
    let before = common::red_zones::damaged();
    for distance in [-16, -1, 0, 39, 40, 55] {
        // SAFETY: the layout is not empty, and what is written to is the allocation or in its red zones.
        unsafe {
            let bytes = RedZones.alloc(layout);
            *bytes.offset(distance) = 2;
            RedZones.dealloc(bytes, layout);
        }
    }
    assert_eq!(common::red_zones::damaged() - before, 4);
}

#[test]
fn vectorized_loops_trap_where_scalar_loops_do() {
    // Without optimization all steps of a run take seconds.
    let most = if cfg!(debug_assertions) { 1 } else { 3 };
    for (count, calls) in [(37, "one(one(in[i]))"), (4096, "one(in[i])"), (100, "in[i] + 1")].into_iter().take(most) {
        let text = format!(
            "%%\n%%\nstatic int one(int c) {{ if (c > 'n' || c < 'c') return c - 3; return c ^ 32; }}\n\
             long f(const unsigned char *in, unsigned char *out, long a, long b) {{\n\
             while (1) for (int i = 0; i < {count}; i++) out[i] = {calls};\nreturn 0; }}\n"
        );
        let program = common::program("test", &text);
        let input: Vec<u8> = (0..5000).map(|index| (index * 31 % 251) as u8).collect();
        let mut output = vec![0; 5000];
        let values = [Memory::INPUT, Memory::OUTPUT, 0, 0];
        let result = common::run_on(&program, &mut RecordingHost::new(&program), "f", &values, &input, &mut output);
        assert_eq!(result.map_err(|trap| trap.kind), Err(TrapKind::OutOfFuel));
    }
}

#[test]
fn loops_of_bytes_reach_up_to_the_end_and_over_themselves() {
    let text = "%%\n%%\nlong f(const unsigned char *in, unsigned char *out, int n, int k) {\n\
        for (int i = 0; i < n; i++) out[i] = (in[i] >= 'a' && in[i] <= 'z' ? (in[i] - 'a' + 13) % 26 + 'a' : in[i] ^ k);\n\
        return 0; }\n";
    let program = common::program("test", text);
    let compiled = Compiled::new(&program).unwrap();
    let both = |from: i64, to: i64, count: i64, input: &[u8], output: &[u8]| {
        let values = [from, to, count, 5];
        on_bytes(&program, &compiled, &values, (input, output), &format!("{from:x} {to:x} {count}"));
    };
    let text = *b"a filter makes bytes of bytes, sixteen at a time. A filter makes bytes of bytes.";
    for count in [0, 15, 16, 17, 47, 48, 49, 64, -1] {
        both(Memory::INPUT, Memory::OUTPUT, count, &text[..48], &[7; 48]);
        both(Memory::INPUT + 1, Memory::OUTPUT + 3, count, &text[..48], &[7; 48]);
        for distance in 0..20 {
            both(Memory::OUTPUT, Memory::OUTPUT + distance, count, &[], &text);
            both(Memory::OUTPUT + distance, Memory::OUTPUT, count, &[], &text);
        }
    }
}

#[test]
fn vectorized_loops_handle_the_full_counter_range() {
    const COUNTERS: [&str; 7] = ["int", "long", "short", "char", "unsigned int", "unsigned char", "unsigned long"];
    let input = *b"a filter makes bytes of bytes, sixteen at a time; the loop may begin anywhere.";
    for counter in COUNTERS {
        let text = format!(
            "%%\n%%\nlong f(const unsigned char *in, unsigned char *out, long from, long to) {{ {counter} i; {counter} n = to;\n\
             for (i = from; i < n; i++) out[i] = in[i] + 1; return i; }}\n"
        );
        let program = common::program("test", &text);
        let compiled = Compiled::new(&program).unwrap();
        let edges = [i64::MIN, i32::MIN.into(), i16::MIN.into(), i8::MIN.into(), 0, 48, 127, 255, 32_767, 65_535];
        let more = [1 << 31, (1 << 32) - 1, 1 << 32, i64::MAX, -4096, -32, -16];
        let near = |edge: i64| [-17, -16, -1, 0, 1, 16].map(|distance| edge.wrapping_add(distance));
        let all: Vec<i64> = edges.into_iter().chain(more).flat_map(near).collect();
        for from in &all {
            for to in &all {
                for place in [Memory::OUTPUT, Memory::OUTPUT + 20] {
                    let values = [Memory::INPUT, place, *from, *to];
                    let what = format_args!("{counter}: {from} to {to}, {place:x}");
                    on_bytes(&program, &compiled, &values, (&input, &[7; 64]), &what);
                }
            }
        }
    }
}

#[test]
fn operators_agree_at_type_bounds() {
    const TYPES: [&str; 8] =
        ["char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long", "unsigned long"];
    const CONSTANTS: [i64; 14] =
        [1, 2, 3, 7, 8, 10, 127, 255, 256, 65_536, 2_147_483_647, 4_294_967_296, -1, -2_147_483_647];
    const EDGES: [i64; 9] = [i64::MIN, i32::MIN as i64, i16::MIN as i64, -128, 0, 256, 1 << 16, 1 << 31, 1 << 32];
    let all: Vec<i64> = EDGES.iter().flat_map(|edge| [-2, -1, 0, 1, 2].map(|near| edge.wrapping_add(near))).collect();
    for (of, constant) in TYPES.iter().flat_map(|of| CONSTANTS.map(|constant| (of, constant))) {
        let mut operators = vec!["/", "%", "*", "+", "-", "&", "|", "^"];
        if (0..8).contains(&constant) {
            operators.extend(["<<", ">>"]);
        }
        // Each also where a narrow type is widened, and as an index.
        let cases = operators.iter().enumerate().map(|(case, operator)| {
            format!(
                "if (b == {case}) {{ {of} y = x {operator} ({constant}); few[(x {operator} ({constant})) & 15] = 1; \
                 return (x {operator} ({constant})) + y; }}\n"
            )
        });
        let text = format!(
            "%%\n%%\nlong f(const unsigned char *in, unsigned char *out, long a, long b) {{ {of} x = a; char few[16];\n\
             {}return few[x % 1]; }}\n",
            cases.collect::<String>()
        );
        let program = common::program("test", &text);
        let compiled = Compiled::new(&program).unwrap();
        for value in &all {
            for case in 0..=operators.len() as i64 {
                let values = [Memory::INPUT, Memory::OUTPUT, *value, case];
                on_bytes(&program, &compiled, &values, (&[], &[]), &format_args!("{text}{value}, {case}"));
            }
        }
    }
}

/// Loop bodies over `in[i]` and `out[i]`, vectorizable or not.
const LOOP_BODIES: &[&str] = &[
    "for (i = 0; i < n; i++) { int c = in[i]; if (c > 'm') c = c * 3 - 'a'; else if (c < ' ') { c = -c; } out[i] = c; }",
    "for (i = 0; i < n; i++) { int c; int d = in[i] & 31; if (d > 3) c = d; else c = k; d = c + d; out[i] = d ^ 7; }",
    "for (i = 0; i < n; i++) if (in[i] & 1) out[i] = in[i] + 1; else { out[i] = k; }",
    "for (i = 0; i < n; i++) { out[i] = k; if (in[i] & 1) out[i] = in[i] + 1; }",
    "for (i = 0; i < n; i++) if (in[i] & 1) out[i] = in[i] + 1;",
    "for (i = 0; i < n; i++) { if (in[i] & 1) out[i] = k; out[i] = out[i] + in[i]; }",
    "for (i = 0; i < n; i++) { out[i] = in[i] + 1; late = out[i] - 1; out[i] = late * 2; }",
    // What the last round leaves, or the one before has left, or nothing has.
    "for (i = 0; i < n; i++) { late = in[i] + 3; out[i] = late; }",
    "for (i = 0; i < n; i++) { out[i] = in[i] + late; late = in[i]; }",
    "for (i = 0; i < n; i++) { int c; if (in[i] > 'm') c = 1; out[i] = in[i] + c; }",
    "{ int c = 9; for (i = 0; i < n; i++) { if (in[i] > 'm') c = 1; out[i] = in[i] + c; } }",
    // Tables.
    "for (i = 0; i < n; i++) out[i] = letters[in[i] & 15] + letters[i & 15];",
    "for (i = 0; i < n; i++) out[i] = in[i] ^ letters[i % 7] ^ letters[i % 8 + 5];",
    "for (i = 0; i < n; i++) out[i] = in[i] < 16 ? letters[in[i]] : wide[in[i]];",
    "for (i = 0; i < n; i++) { int c = in[i]; if (c < 16) c = letters[c]; out[i] = c; }",
    "for (i = 0; i < n; i++) out[i] = wide[(unsigned char)(in[i] * 2 + i)];",
    "for (i = 0; i < n; i++) out[i] = letters[in[i] - 'a'];",
    "for (i = 0; i < n; i++) out[i] = letters[in[i] & 31];",
    "for (i = 0; i < n; i++) out[i] = in[(in[i] & 15) + 40];",
    "for (i = 0; i < n; i++) out[i] = in[in[i] & 31];",
    "for (i = 0; i < n; i++) out[i] = in[i] + out[in[i] & 31];",
    "for (i = 0; i < n; i++) out[i] = in[i] + out[(in[i] & 15) + 40];",
    "{ char own[40]; for (i = 0; i < 40; i++) own[i] = in[i] + own[in[i] & 15]; for (i = 0; i < 40; i++) out[i] = own[i]; }",
    "{ char own[8]; for (i = 0; i < 8; i++) own[i] = i * i; for (i = 0; i < n; i++) out[i] = own[in[i] & 7]; }",
    // What is counted.
    "for (i = 0; i < n; i++) out[i] = in[i] * 37 + i * -5;",
    "for (i = 0; i < n; i++) out[i] = i > 20 ? in[i] : i;",
    "{ unsigned char j; for (j = 0; j < 40; j++) out[j] = j + in[j]; i = j; }",
    "for (i = 0; i < n; i++) { n = 20; out[i] = in[i]; }",
    "for (i = 0; i < n; i++) { i += in[i] & 1; out[i] = in[i]; }",
    "for (i = 0; i < n; i++) { if (in[i] == 'q') continue; out[i] = in[i]; }",
];

#[test]
fn vectorized_iterations_behave_like_scalar_ones() {
    for round in LOOP_BODIES {
        let text = format!(
            "%%\n%%\nconst char letters[16] = \"abcdefghijklmno\";\n\
             const unsigned char wide[256] = \"zyxwvutsrqponmlkjihgfedcba, and what is behind that\";\n\
             long f(const unsigned char *in, unsigned char *out, int n, int k) {{ int i; int late;\n\
             {round}\nreturn i * 1000 + late; }}\n"
        );
        let program = common::program("test", &text);
        let compiled = Compiled::new(&program).unwrap();
        let input = *b"\x04a filter makes bytes of bytes, sixteen at a time.\x09";
        for count in [0, 1, 15, 16, 17, 31, 32, 33, 40, 47, 48, 49, 60, -1] {
            for (from, to) in [
                (Memory::INPUT, Memory::OUTPUT),
                (Memory::INPUT + 3, Memory::OUTPUT + 1),
                (Memory::OUTPUT, Memory::OUTPUT),
                (Memory::OUTPUT, Memory::OUTPUT + 5),
                (Memory::OUTPUT + 20, Memory::OUTPUT),
            ] {
                let mut output = [7; 56];
                output[..input.len()].copy_from_slice(&input);
                let what = format_args!("{round}: {from:x} {to:x} {count}");
                on_bytes(&program, &compiled, &[from, to, count, 5], (&input, &output), &what);
            }
        }
    }
}

/// Answers the calls of a program by a function.
struct ClosureHandler<F>(F);

fn handler_of<F: FnMut(&mut Memory<'_>) -> Result<i64, TrapKind>>(result: F) -> ClosureHandler<F> {
    ClosureHandler(result)
}

impl<F: FnMut(&mut Memory<'_>) -> Result<i64, TrapKind>> CallHandler for ClosureHandler<F> {
    fn call(&mut self, memory: &mut Memory<'_>, _: usize, _: &[i64]) -> Result<i64, TrapKind> {
        self.0(memory)
    }
}

/// Calls out of the program while it has an object, and writes to that and to what it is given.
const HOST_CALL_PROGRAM: &str = "%%\n%%\n\
    static long inner(char *p, long a) { int kept[4]; kept[a & 3] = 1; a += %uid; p[1] = 3; kept[0] += 2; return a + kept[0]; }\n\
    long f(unsigned char *out, long a) { char own[8]; own[2] = a; a = inner(own, a); out[1] = own[1] + own[2]; return a; }\n";

#[test]
fn handler_panics_propagate_through_compiled_code() {
    let program = common::program("test", HOST_CALL_PROGRAM);
    let compiled = Compiled::new(&program).unwrap();
    for _ in 0..3 {
        let mut output = [0; 4];
        let mut memory = Memory::new(&program.data, &[], &mut output);
        let run = std::panic::AssertUnwindSafe(|| {
            let mut handler = handler_of(|_: &mut Memory<'_>| std::panic::panic_any("nobody answers"));
            compiled.run(&program, &mut memory, &mut handler, 1, &[Memory::OUTPUT, 7])
        });
        let panic = std::panic::catch_unwind(run).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"nobody answers"));
        let mut memory = Memory::new(&program.data, &[], &mut output);
        let result = compiled.run(&program, &mut memory, &mut handler_of(|_| Ok(5)), 1, &[Memory::OUTPUT, 7]);
        assert_eq!((result, output), (Ok(14), [0, 10, 0, 0]));
    }
}

#[test]
fn handlers_may_free_memory() {
    let program = common::program("test", HOST_CALL_PROGRAM);
    let compiled = Compiled::new(&program).unwrap();
    let mut output = [0; 4];
    let mut memory = Memory::new(&program.data, &[], &mut output);
    let mut handler = handler_of(|memory: &mut Memory<'_>| {
        *memory = Memory::new(&[], &[], &mut []);
        Ok(0)
    });
    let trap = compiled.run(&program, &mut memory, &mut handler, 1, &[Memory::OUTPUT, 7]).unwrap_err();
    assert_eq!(trap.kind, TrapKind::StalePointer);
    let mut memory = Memory::new(&program.data, &[], &mut output);
    let mut handler = handler_of(|memory: &mut Memory<'_>| {
        // Blocks of variables come and go, and regions with them.
        let frame = memory.enter(&[100, 1 << 20, 3])?;
        memory.allocate(vec![1; 100])?;
        memory.leave(frame);
        Ok(1)
    });
    let result = compiled.run(&program, &mut memory, &mut handler, 1, &[Memory::OUTPUT, 7]);
    assert_eq!((result, output), (Ok(10), [0, 10, 0, 0]));
}

#[test]
fn threads_share_compiled_code() {
    let program = common::program("test", HOST_CALL_PROGRAM);
    let compiled = Compiled::new(&program).unwrap();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (compiled, program) = (&compiled, &program);
            scope.spawn(move || {
                for _ in 0..1000 {
                    let mut output = [0; 4];
                    let mut memory = Memory::new(&program.data, &[], &mut output);
                    let result =
                        compiled.run(program, &mut memory, &mut handler_of(|_| Ok(number)), 1, &[Memory::OUTPUT, 4]);
                    assert_eq!((result, output[1]), (Ok(7 + number), 7));
                }
            });
        }
    });
}

#[test]
fn malformed_functions_are_not_compiled() {
    let mut program = common::program("test", HOST_CALL_PROGRAM);
    program.functions[0].body =
        vec![plyfs_fist::code::Statement::Return(Some(plyfs_fist::code::Expression::Register(99)))];
    let error = Compiled::new(&program).unwrap_err();
    assert_eq!(error.function.as_deref(), Some("inner"));
    assert_eq!(error.to_string(), "`inner` cannot be compiled: there is no such register");
}

#[test]
fn deeply_nested_code_is_compiled() {
    let sum = |many: usize| (0..many).fold("a".to_owned(), |inner, _| format!("(1 + {inner})"));
    let tests = (0..60).fold("a++;".to_owned(), |inner, number| format!("if (a > {number} - 200) {{ {inner} }}"));
    let text = format!("%%\n%%\nlong f(long a) {{ {tests} return {}; }}\n", sum(70));
    let program = common::program("test", &text);
    assert_eq!(common::run(&program, &mut RecordingHost::new(&program), "f", &[7]), Ok(78));
}

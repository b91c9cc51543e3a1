//! What a run may take: work by bytes and by what it asks for, rounds by what is done in them, time, and memory.

use std::time::{Duration, Instant};

use plyfs_fist::budget::Budget;
use plyfs_fist::compiler::Compiled;
use plyfs_fist::memory::Memory;
use plyfs_fist::meter::MAX_WORK;
use plyfs_fist::program::Program;
use plyfs_fist::trap::{Trap, TrapKind};

mod common;
use common::RecordingHost;

/// A program whose function `f` does this, after what is declared.
fn program(declared: &str, body: &str) -> Program {
    common::program("test", &format!("{declared}\n%%\n%%\nlong f(unsigned char *out) {{ {body} }}\n"))
}

/// Runs `f` in both tiers, which have to stop at the same place with the same effects: where, and what `out` holds.
fn run(program: &Program, notes: &mut RecordingHost) -> (Result<i64, Trap>, u64) {
    let mut output = [0; 8];
    let result = common::run_on(program, notes, "f", &[Memory::OUTPUT], &[], &mut output);
    (result, u64::from_le_bytes(output))
}

#[test]
fn work_is_charged_per_byte() {
    // What is done in each round, and the bytes that it handles at least.
    let iterations: [(&str, u64); 13] = [
        ("fistMemSet(a, 1, 4000000);", 4_000_000),
        ("fistMemCpy(a, b, 4000000);", 8_000_000),
        ("fistMemCmp(a, b, 4000000);", 8_000_000),
        ("fistStrLen(s);", 1_000_000),
        ("fistStrEq(s, s);", 2_000_000),
        ("fistFree(fistStrAdd(s, \"\"));", 2_000_000),
        ("fistFree(fistMalloc(4000000));", 4_000_000),
        ("fistHash(a, b, 400000);", 8 * 400_000),
        ("fistRandom(a, 400000);", 8 * 400_000),
        ("fistCompress(a, 400000, b, 400000);", 8 * 800_000),
        ("fistDecompress(a, 400000, b, 400000);", 8 * 800_000),
        ("fistSeal(a, b, 400000, key, key, 1);", 8 * 400_000),
        ("BF_cfb64_encrypt(a, b, 100000, key, key, &place, 1);", 16 * 100_000),
    ];
    for (iteration, bytes) in iterations {
        let body = format!(
            "char *a = fistMalloc(4000000), *b = fistMalloc(4000000), *s = fistMalloc(1000001); char key[64]; int place = 0;\n\
             fistMemSet(s, 'x', 1000000);\n\
             for (long n = 0; ; n++) {{ fistMemCpy(out, &n, 8); {iteration} }} return 0;"
        );
        let program = program("", &body);
        let work = MAX_WORK / 16;
        let (result, count) = run(&program, &mut RecordingHost { work, ..RecordingHost::new(&program) });
        assert_eq!(result.map_err(|trap| trap.kind), Err(TrapKind::WorkLimit), "{iteration}");
        assert!(count > 2 && count * bytes <= work, "{iteration}: {count} times");
    }
}

#[test]
fn lower_requests_are_charged() {
    let iterations = [
        "$0.owner;",
        "fistLookup($dir, \"name\");",
        "fistUnlink($dir, \"name\");",
        "fistMkdir($dir, \"name\", 448);",
        "fistRename($dir, \"name\", $dir, \"other\");",
        "fistOp($1);",
        "fistCopyFile($0, \"name\");",
        "fistIsDir($0);",
        "fistPrintf(\"%d\\n\", 1);",
        "fistSkipName(\"name\");",
        "fistReaddir($dir, 0);",
        "fistSetFileData(\"file\", FORMAT, field, 1);",
        "%blocksize;",
    ];
    for iteration in iterations {
        let used = if iteration.ends_with("%blocksize;") || iteration.starts_with("$0") { "x = " } else { "" };
        let body =
            format!("long x = 0; for (long n = 0; ; n++) {{ fistMemCpy(out, &n, 8); {used}{iteration} }} return x;");
        let program = program("fileformat FORMAT { int field; };", &body);
        let (result, count) = run(&program, &mut RecordingHost::new(&program));
        assert_eq!(result.map_err(|trap| trap.kind), Err(TrapKind::WorkLimit), "{iteration}");
        assert!((10_000..=1 << 14).contains(&count), "{iteration}: {count} times");
    }
}

#[test]
fn iterations_and_calls_cost_fuel_by_their_size() {
    let count_of = |body: &str, functions: &str| {
        let text = format!(
            "%%\n%%\n{functions}\nlong f(unsigned char *out) {{ long x = 1, n = 0;\n\
             for (;;) {{ n++; out[0] = n; out[1] = n >> 8; out[2] = n >> 16; {body} }} return x; }}\n"
        );
        let program = common::program("test", &text);
        let (result, count) = run(&program, &mut RecordingHost::new(&program));
        assert_eq!(result.map_err(|trap| trap.kind), Err(TrapKind::OutOfFuel), "{body:.60}");
        count
    };
    let many = "x = x * 3 + 1; ".repeat(4000);
    let cheap = count_of(&"x = x * 3 + 1; ".repeat(200), "");
    let dear = count_of(&many, "");
    assert!(dear * 15 < cheap && cheap < 5_000_000 / 5, "{cheap} and {dear} rounds");
    let called = count_of("x = g(x);", &format!("static long g(long x) {{ {many} return x; }}"));
    assert!(called.abs_diff(dear) * 10 < dear, "{called} and {dear} rounds");
    // A round that is left before its end counts as well.
    let left = count_of(&format!("for (;;) {{ {many} break; }}"), "");
    assert!(left.abs_diff(dear) * 10 < dear, "{left} and {dear} rounds");
    // Variables that are made zero, registers, and whole copies.
    let zeros =
        count_of("x += g();", "static long g(void) { char a[1 << 19]; return a[x0]; }\nstatic const int x0 = 3;");
    assert!(zeros < 5_000_000 / 50, "{zeros} rounds");
    let copies = count_of("char a[1 << 17] = \"text\"; x += a[n & 7];", "");
    assert!(copies < 5_000_000 / 50, "{copies} rounds");
    let registers: String = (0..4000).map(|number| format!("long r{number};")).collect();
    let registers = count_of("x += g();", &format!("static long g(void) {{ {registers} return 1; }}"));
    assert!(registers < 5_000_000 / 20, "{registers} rounds");
}

#[test]
fn time_limit_excludes_lower_requests() {
    let endless = [
        "long n = 1; while (1) { n = n / 3 + 100; n = n / 5 + 100; n = n / 7 + n / 9 + n / 11 + n / 13; } return n;",
        "char *a = fistMalloc(1000000); for (;;) fistMemSet(a, 1, 1000000); return 0;",
    ];
    for body in endless {
        let program = program("", body);
        let compiled = Compiled::new(&program).unwrap();
        let mut notes = RecordingHost::new(&program);
        notes.time_limit = Duration::from_nanos(1);
        let begin = Instant::now();
        let interpreted = common::interpret(&program, &mut notes, 0, &[Memory::OUTPUT], &[], &mut [0; 8]);
        let result = common::run_compiled(&compiled, &program, &mut notes, 0, &[Memory::OUTPUT], &[], &mut [0; 8]);
        for result in [interpreted, result] {
            assert_eq!(result.map_err(|trap| trap.kind), Err(TrapKind::TimeLimit), "{body}");
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{body}: {:?}", begin.elapsed());
    }
    let body = "for (int i = 0; i < 600; i++) fistUnlink($dir, \"name\"); return 7;";
    let program = program("", body);
    let mut notes = RecordingHost::new(&program);
    (notes.time_limit, notes.unlinks_for) = (Duration::from_millis(300), Duration::from_millis(2));
    let (result, _) = run(&program, &mut notes);
    assert_eq!((result, notes.done.len()), (Ok(7), 600), "below it took more than a second");
}

#[test]
fn runs_share_a_memory_budget() {
    let text = "%%\n%%\nlong f(long bytes) { char *p = fistMalloc(bytes); p[0] = 1; return p[0]; }\n";
    let program = common::program("test", text);
    let compiled = Compiled::new(&program).unwrap();
    let budget = Budget::new(1 << 20);
    let run = |bytes: i64, keeps: &mut Vec<Memory<'_>>| {
        let mut calls = RecordingHost::new(&program);
        let mut calls = plyfs_fist::calls::Calls { program: &program, host: &mut calls };
        let mut memory = keeps.pop().expect("one that is new");
        let result = compiled.run(&program, &mut memory, &mut calls, 0, &[bytes]).map_err(|trap| trap.kind);
        keeps.insert(0, memory);
        result
    };
    let mut outputs: [[u8; 0]; 4] = [[]; 4];
    let new = |output| Memory::new(&program.data, &[], output).within(&budget);
    let mut keeps: Vec<_> = outputs.iter_mut().map(|output| new(output)).collect();
    assert_eq!(run(64 << 10, &mut keeps), Ok(1));
    assert_eq!(budget.used(), 0, "little is not counted");
    assert_eq!(run(1_000_000, &mut keeps), Ok(1));
    assert_eq!(run(500_000, &mut keeps), Err(TrapKind::OutOfMemory));
    assert_eq!(run(60_000, &mut keeps), Ok(1));
    drop(keeps);
    assert_eq!(budget.used(), 0);
}

//! Programs that exceed a limit are rejected with a diagnostic; all others compile in bounded time.

use std::fmt::Write;
use std::time::Duration;

use plyfs_fist::compiler::Compiled;
use plyfs_fist::limits::{
    MAX_DATA_OBJECTS, MAX_FIELDS, MAX_FUNCTIONS, MAX_IOCTLS_OR_FORMATS, MAX_NAME_BYTES, MAX_NESTING_DEPTH,
    MAX_PARAMETERS, MAX_RULES, MAX_SOURCE_BYTES, MAX_TOKENS, MAX_TYPE_DEPTH,
};
use plyfs_fist::load::Loaded;
use plyfs_fist::trap::TrapKind;

mod common;

/// Minimum stack size of server threads in bytes.
const STACK_BYTES: usize = 2 << 20;

/// Checks, explains and compiles a program on a stack of the size that server threads have; returns the first code.
fn diagnose(text: String) -> Option<&'static str> {
    diagnose_timed(text).0
}

/// Also returns the CPU time.
fn diagnose_timed(text: String) -> (Option<&'static str>, Duration) {
    let body = move || {
        let loaded = Loaded::of("test.fist", text);
        let _ = plyfs_fist::fmt::format(&loaded.text);
        if let Some(program) = &loaded.program {
            plyfs_fist::explain::explain(program, &loaded.text);
            // What is too large for that is interpreted.
            let _ = Compiled::new(program);
        }
        let code = loaded.diagnostics.first().map(|problem| problem.code.name());
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        (code, Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body).unwrap();
    thread.join().expect("nothing panics")
}

fn repeated(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut all, number| {
        all.push_str(&part(number));
        all
    })
}

#[test]
fn type_depth_is_limited_in_every_syntax() {
    let limit = MAX_TYPE_DEPTH as usize;
    for (count, expected) in [(limit, None), (limit + 1, Some("F0106")), (100_000, Some("F0106"))] {
        let (stars, lengths) = ("*".repeat(count), "[1]".repeat(count));
        let chain = repeated(count - 1, |number| format!("typedef t{number} *t{};\n", number + 1));
        let arrays = repeated(count - 1, |number| format!("typedef t{number} t{}[1];\n", number + 1));
        let texts = [
            format!("%%\n%op:mkdir:precall {{ int {stars}x; x = 0; }}\n"),
            format!("%%\n%op:mkdir:precall {{ char a{lengths}; }}\n"),
            format!("%%\n%%\nint {stars}f(void) {{ return 0; }}\n"),
            format!("%%\n%%\nint f(int {stars}p) {{ return 0; }}\n"),
            format!("%%\n%%\nint f(int p{lengths}) {{ return 0; }}\n"),
            format!("%%\n%%\nlong f(void) {{ return sizeof(int {stars}); }}\n"),
            format!("%%\n%%\nlong f(void) {{ return sizeof(int{lengths}); }}\n"),
            format!("%%\n%%\nint f(char *p) {{ return !(int {stars})p; }}\n"),
            format!("per_vfs {{ char a{lengths}; }};\n%%\n"),
            format!("%%\n%%\nint a{lengths};\n"),
            format!("%{{\ntypedef int *t0;\n{chain}%}}\n%%\n"),
            format!("%{{\ntypedef int t0[1];\n{arrays}%}}\n%%\n"),
        ];
        for text in texts {
            let begin: String = text.chars().take(60).collect();
            // A chain of a hundred thousand is too long a text.
            let expected = if text.len() > MAX_SOURCE_BYTES { Some("F0001") } else { expected };
            assert_eq!(diagnose(text), expected, "{count}: {begin}");
        }
    }
}

#[test]
fn expression_nesting_depth_is_limited_in_every_syntax() {
    // Each pair encloses an expression.
    let wrappers: [(&str, &str); 14] = [
        ("(", ")"),
        ("(", " + x)"),
        ("(x - ", ")"),
        ("", " * x * x"),
        ("- ", ""),
        ("(long)", ""),
        ("g(", ")"),
        ("a[", " & 7]"),
        ("(x ? ", " : 1)"),
        ("(x ? 1 : ", ")"),
        ("(x, ", ")"),
        ("(x = ", ")"),
        ("(x && ", ")"),
        ("sizeof(", ")"),
    ];
    let text = |value: &str| {
        format!("%%\n%%\nlong g(long x) {{ return x; }}\nlong f(long x) {{ long a[8]; a[0] = x; return {value}; }}\n")
    };
    for (before, after) in wrappers {
        for count in [10, 100, MAX_NESTING_DEPTH as usize, 20_000] {
            let code = diagnose(text(&format!("{}x{}", before.repeat(count), after.repeat(count))));
            let is_fine = matches!(code, None | Some("F0106"));
            assert!(is_fine || count == 20_000 && code == Some("F0001"), "{count} times {before}x{after}: {code:?}");
            assert!(count > 10 || code.is_none(), "{before}x{after}: {code:?}");
            assert!(count <= MAX_NESTING_DEPTH as usize || code.is_some(), "{before}x{after}");
        }
    }
    // Operators in a row within parentheses, and those in others: neither is many by itself.
    let row = (0..120).fold("x".to_owned(), |inner, _| format!("({inner}{})", " + x".repeat(200)));
    assert_eq!(diagnose(text(&row)), Some("F0106"));
    let row = (0..120).fold("a".to_owned(), |inner, _| format!("({inner}{})", "[x]".repeat(200)));
    assert_eq!(diagnose(text(&row)), Some("F0106"));
}

#[test]
fn nested_statements_need_a_bounded_stack() {
    let statements: [(&str, &str); 7] = [
        ("{", "}"),
        ("if (x) ", ""),
        ("if (x) ; else ", ""),
        ("while (x) ", ""),
        ("do ", " while (x);"),
        ("for (;;) ", ""),
        ("switch (x) { case 1: ", "}"),
    ];
    for (before, after) in statements {
        for count in [50, MAX_NESTING_DEPTH as usize - 2, 20_000] {
            let text = format!("%%\n%%\nvoid f(long x) {{ {} x++; {} }}\n", before.repeat(count), after.repeat(count));
            let code = diagnose(text);
            assert!(matches!(code, None | Some("F0106")), "{count} times {before}: {code:?}");
            assert!(count < 1000 || code.is_some(), "{before}");
        }
    }
    let braces = |count: usize| format!("%%\n%%\nint a[1] = {}1{};\n", "{".repeat(count), "}".repeat(count));
    assert_eq!((diagnose(braces(20)), diagnose(braces(20_000))), (None, Some("F0106")));
}

#[test]
fn call_chains_and_cycles_may_have_any_length() {
    let limit = 2500;
    let body =
        |next: usize| format!("{{ long n = 0; for (; x < 3; x++) n += f{next}(x) + f{next}(x + 1); return n; }}\n");
    let link = |number: usize| format!("long f{number}(long x) {}", body(number + 1));
    let chain = repeated(limit, link) + &format!("long f{limit}(long x) {{ return x; }}\n");
    let backwards =
        format!("long f{limit}(long x) {{ return x + %uid; }}\n") + &repeated(limit, |number| link(limit - 1 - number));
    let ring = repeated(limit, link) + &format!("long f{limit}(long x) {}", body(0));
    for functions in [chain, backwards, ring] {
        assert_eq!(diagnose(format!("%%\n%op:mkdir:precall {{ f0(1); }}\n%%\n{functions}")), None);
    }
    // Running them stops in both tiers at the same call.
    for last in ["return x;", "return f0(x);"] {
        let functions =
            repeated(300, |number| format!("long f{number}(long x) {{ return f{}(x) + 1; }}\n", number + 1));
        let program = common::program("test", &format!("%%\n%%\n{functions}long f300(long x) {{ {last} }}\n"));
        let result = common::run(&program, &mut common::RecordingHost::new(&program), "f0", &[1]);
        assert_eq!(result.map_err(|trap| trap.kind), Err(TrapKind::CallDepth), "{last}");
    }
}

#[test]
fn counts_are_limited() {
    let rules = |count| format!("%%\n{}", "%op:mkdir:precall { }\n".repeat(count));
    let functions =
        |count| format!("%%\n%%\n{}", repeated(count, |number| format!("int f{number}(void) {{ return 0; }}\n")));
    let parameters = |count| {
        let all: Vec<_> = (0..count).map(|number| format!("int p{number}")).collect();
        format!("%%\n%%\nint f({}) {{ return 0; }}\n", all.join(", "))
    };
    let fields = |count| format!("per_vfs {{ {}}};\n%%\n", repeated(count, |number| format!("int f{number}; ")));
    let given = |count| format!("mntdata {{ {}}};\n%%\n", repeated(count, |number| format!("int f{number}; ")));
    let ioctls = |count| repeated(count, |number| format!("ioctl C{number} {{ int f; }};\n")) + "%%\n";
    let formats = |count| repeated(count, |number| format!("fileformat C{number} {{ int f; }};\n")) + "%%\n";
    let data = |count| format!("%%\n%%\n{}", repeated(count, |number| format!("int d{number};\n")));
    let strings = |count| {
        let uses = repeated(count, |number| format!("s = \"{number}\"; "));
        format!("%%\n%op:mkdir:precall {{ const char *s; {uses} }}\n")
    };
    type Text<'t> = &'t dyn Fn(usize) -> String;
    let all: [(usize, Text<'_>, &str); 9] = [
        (MAX_RULES, &rules, "F0208"),
        (MAX_FUNCTIONS, &functions, "F0208"),
        (MAX_PARAMETERS, &parameters, "F0208"),
        (MAX_FIELDS, &fields, "F0208"),
        (MAX_FIELDS, &given, "F0208"),
        (MAX_IOCTLS_OR_FORMATS, &ioctls, "F0208"),
        (MAX_IOCTLS_OR_FORMATS, &formats, "F0208"),
        (MAX_DATA_OBJECTS, &data, "F0208"),
        (MAX_DATA_OBJECTS, &strings, "F0208"),
    ];
    for (limit, text, code) in all {
        let begin: String = text(1).chars().take(60).collect();
        assert_eq!(diagnose(text(limit)), None, "{limit}: {begin}");
        assert_eq!(diagnose(text(limit + 1)), Some(code), "{limit}: {begin}");
    }
    let words = |count| format!("%%\n%%\nvoid f(void) {{ {} }}\n", ";".repeat(count));
    assert_eq!((diagnose(words(MAX_TOKENS - 20)), diagnose(words(MAX_TOKENS))), (None, Some("F0001")));
    let name = |bytes| format!("%%\n%%\nint {};\n", "n".repeat(bytes));
    assert_eq!((diagnose(name(MAX_NAME_BYTES)), diagnose(name(MAX_NAME_BYTES + 1))), (None, Some("F0001")));
    let blanks = |bytes| format!("%%\n{}", " ".repeat(bytes));
    assert_eq!((diagnose(blanks(MAX_SOURCE_BYTES - 3)), diagnose(blanks(MAX_SOURCE_BYTES))), (None, Some("F0001")));
}

#[test]
fn sizes_of_declared_data_are_limited() {
    let many = |count: usize, bytes: usize| repeated(count, |number| format!("char f{number}[{bytes}]; "));
    let data = |count: usize| repeated(count, |number| format!("char d{number}[1 << 20];\n"));
    let texts = [
        (format!("per_vfs {{ {}}};\n%%\n", many(16, 1 << 20)), None),
        (format!("per_vfs {{ {}}};\n%%\n", many(17, 1 << 20)), Some("F0208")),
        (format!("per_vfs {{ {}}};\n%%\n", many(1000, 16 << 20)), Some("F0208")),
        (format!("fileformat F {{ {}}};\n%%\n", many(17, 1 << 20)), Some("F0208")),
        (format!("mntdata {{ {}}};\n%%\n", many(17, 1 << 20)), Some("F0208")),
        (format!("%{{\nstruct s {{ {}}};\n%}}\n%%\n", many(17, 1 << 20)), Some("F0208")),
        ("per_vnode { char f[64 << 10]; };\n%%\n".to_owned(), None),
        ("per_vnode { char f[64 << 10]; char one; };\n%%\n".to_owned(), Some("F0208")),
        (format!("%%\n%%\n{}", data(16)), None),
        (format!("%%\n%%\n{}", data(17)), Some("F0208")),
    ];
    for (text, expected) in texts {
        let begin: String = text.chars().take(80).collect();
        assert_eq!(diagnose(text), expected, "{begin}");
    }
}

#[test]
fn expression_visits_are_limited() {
    // An index is visited for the lvalue, for its bytes and for its value, and so are the expressions nested in it.
    let mut value = "x".to_owned();
    for _ in 0..40 {
        value = format!("fistStrLen(&a[{value}])");
    }
    let (code, time) = diagnose_timed(format!("%%\n%op:mkdir:precall {{ char a[9]; int x = 0; x = {value}; }}\n"));
    assert_eq!(code, Some("F0208"));
    assert!(time < Duration::from_secs(60), "{time:?}");
}

/// Whole texts of one shape, as large as they may be or nearly so.
fn largest() -> Vec<(&'static str, String)> {
    let one = |name: &'static str, body: String| {
        (
            name,
            format!(
                "%%\n%op:mkdir:precall {{ fistPrintf(\"%d\", f(%uid)); }}\n%%\nint f(int x) {{ {body} return x; }}\n"
            ),
        )
    };
    let mut calls = String::new();
    for number in 0..3000 {
        let _ = writeln!(calls, "int f{number}(int x) {{ for (; x < 3; x++) x += f{}(x); return x; }}", number + 1);
    }
    vec![
        one("statements", format!("for (; x < 3; x++) {{ {} }}", "x = x * 3 + 1; ".repeat(15_000))),
        one(
            "pointers",
            format!("int a[9]; int *p = a; for (; x < 3; x++) {{ {} }}", "p = p + x; *p = 1; ".repeat(2000)),
        ),
        one(
            "cases",
            format!("switch (x) {{ {} }}", repeated(20_000, |number| format!("case {}: x++; ", number * 7919))),
        ),
        one("variables", repeated(20_000, |number| format!("int a{number} = x; "))),
        one(
            "copies",
            repeated(8000, |number| format!("int a{number} = 0; "))
                + &repeated(7999, |number| format!("a{number} = a{}; ", number + 1)),
        ),
        one("loops", "for (int i = 0; i < x; i++) x += i; ".repeat(1500)),
        one("choices", "if (x > 1) x = x / 3; else x++; ".repeat(6000)),
        ("calls", format!("%%\n%op:mkdir:precall {{ f0(1); }}\n%%\n{calls}int f3000(int x) {{ return x; }}\n")),
        ("rules", format!("%%\n{}", "%op:all:precall { int x = 1; }\n".repeat(MAX_RULES))),
        one("blocks", ("{ int b; ".repeat(200) + &"x = 1; ".repeat(20_000)) + &"}".repeat(200)),
    ]
}

#[test]
fn the_largest_programs_compile_in_time() {
    // What makes machine code is itself not optimized here.
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 2 });
    for (name, text) in largest() {
        let (code, time) = diagnose_timed(text);
        assert!(matches!(code, None | Some("F0301")), "{name}: {code:?}");
        assert!(time < limit, "{name}: {time:?}");
    }
}

//! Texts that are longer, deeper or have more of something than a description may: each is told, and any other can be run soon.

use std::fmt::Write;
use std::time::Duration;

use fist::compiler::Compiled;
use fist::limits::{
    DATA_MAX, DECLARED_MAX, DEPTH_MAX, FIELDS_MAX, FUNCTIONS_MAX, NAME_BYTES_MAX, PARAMETERS_MAX, RULES_MAX,
    TEXT_BYTES_MAX, TOKENS_MAX, TYPE_DEPTH_MAX,
};
use fist::load::Loaded;
use fist::stop::Why;

mod common;

/// As many bytes of the stack as threads of a server have at least.
const STACK_BYTES: usize = 2 << 20;

/// What the checker, the explainer and the compiler say of a text, on a stack as threads of a server have: the first code.
fn told(text: String) -> Option<&'static str> {
    told_in(text).0
}

/// The same, and how long it was computed.
fn told_in(text: String) -> (Option<&'static str>, Duration) {
    let work = move || {
        let loaded = Loaded::of("test.fist", text);
        let _ = fist::fmt::format(&loaded.text);
        if let Some(program) = &loaded.program {
            fist::explain::explain(program, &loaded.text);
            // What is too large for that is interpreted.
            let _ = Compiled::new(program);
        }
        let code = loaded.diagnostics.first().map(|problem| problem.code.name());
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        (code, Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap();
    thread.join().expect("nothing panics")
}

fn repeated(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut all, number| {
        all.push_str(&part(number));
        all
    })
}

#[test]
fn types_are_made_of_so_many_pointers_and_arrays_however_they_are_written() {
    let most = TYPE_DEPTH_MAX as usize;
    for (count, expected) in [(most, None), (most + 1, Some("F0106")), (100_000, Some("F0106"))] {
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
            let expected = if text.len() > TEXT_BYTES_MAX { Some("F0001") } else { expected };
            assert_eq!(told(text), expected, "{count}: {begin}");
        }
    }
}

#[test]
fn what_lies_in_each_other_is_counted_together_however_it_comes_to() {
    // Each adds to what it is around, at both sides of it.
    let around: [(&str, &str); 14] = [
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
    for (before, behind) in around {
        for count in [10, 100, DEPTH_MAX as usize, 20_000] {
            let told = told(text(&format!("{}x{}", before.repeat(count), behind.repeat(count))));
            let is_fine = matches!(told, None | Some("F0106"));
            assert!(is_fine || count == 20_000 && told == Some("F0001"), "{count} times {before}x{behind}: {told:?}");
            assert!(count > 10 || told.is_none(), "{before}x{behind}: {told:?}");
            assert!(count <= DEPTH_MAX as usize || told.is_some(), "{before}x{behind}");
        }
    }
    // Operators in a row within parentheses, and those in others: neither is many by itself.
    let row = (0..120).fold("x".to_owned(), |inner, _| format!("({inner}{})", " + x".repeat(200)));
    assert_eq!(told(text(&row)), Some("F0106"));
    let row = (0..120).fold("a".to_owned(), |inner, _| format!("({inner}{})", "[x]".repeat(200)));
    assert_eq!(told(text(&row)), Some("F0106"));
}

#[test]
fn statements_that_lie_in_each_other_need_a_bounded_stack() {
    let statements: [(&str, &str); 7] = [
        ("{", "}"),
        ("if (x) ", ""),
        ("if (x) ; else ", ""),
        ("while (x) ", ""),
        ("do ", " while (x);"),
        ("for (;;) ", ""),
        ("switch (x) { case 1: ", "}"),
    ];
    for (before, behind) in statements {
        for count in [50, DEPTH_MAX as usize - 2, 20_000] {
            let text = format!("%%\n%%\nvoid f(long x) {{ {} x++; {} }}\n", before.repeat(count), behind.repeat(count));
            let told = told(text);
            assert!(matches!(told, None | Some("F0106")), "{count} times {before}: {told:?}");
            assert!(count < 1000 || told.is_some(), "{before}");
        }
    }
    let braces = |count: usize| format!("%%\n%%\nint a[1] = {}1{};\n", "{".repeat(count), "}".repeat(count));
    assert_eq!((told(braces(20)), told(braces(20_000))), (None, Some("F0106")));
}

#[test]
fn functions_call_each_other_in_chains_and_rings_of_any_length() {
    let most = 2500;
    let body =
        |next: usize| format!("{{ long n = 0; for (; x < 3; x++) n += f{next}(x) + f{next}(x + 1); return n; }}\n");
    let link = |number: usize| format!("long f{number}(long x) {}", body(number + 1));
    let chain = repeated(most, link) + &format!("long f{most}(long x) {{ return x; }}\n");
    let backwards =
        format!("long f{most}(long x) {{ return x + %uid; }}\n") + &repeated(most, |number| link(most - 1 - number));
    let ring = repeated(most, link) + &format!("long f{most}(long x) {}", body(0));
    for functions in [chain, backwards, ring] {
        assert_eq!(told(format!("%%\n%op:mkdir:precall {{ f0(1); }}\n%%\n{functions}")), None);
    }
    // Running them stops in both tiers at the same call.
    for last in ["return x;", "return f0(x);"] {
        let functions =
            repeated(300, |number| format!("long f{number}(long x) {{ return f{}(x) + 1; }}\n", number + 1));
        let program = common::program("test", &format!("%%\n%%\n{functions}long f300(long x) {{ {last} }}\n"));
        let answer = common::run(&program, &mut common::Notes::new(&program), "f0", &[1]);
        assert_eq!(answer.map_err(|stop| stop.why), Err(Why::TooDeep), "{last}");
    }
}

#[test]
fn there_are_no_more_of_anything_than_a_description_may_have() {
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
        (RULES_MAX, &rules, "F0208"),
        (FUNCTIONS_MAX, &functions, "F0208"),
        (PARAMETERS_MAX, &parameters, "F0208"),
        (FIELDS_MAX, &fields, "F0208"),
        (FIELDS_MAX, &given, "F0208"),
        (DECLARED_MAX, &ioctls, "F0208"),
        (DECLARED_MAX, &formats, "F0208"),
        (DATA_MAX, &data, "F0208"),
        (DATA_MAX, &strings, "F0208"),
    ];
    for (most, text, code) in all {
        let begin: String = text(1).chars().take(60).collect();
        assert_eq!(told(text(most)), None, "{most}: {begin}");
        assert_eq!(told(text(most + 1)), Some(code), "{most}: {begin}");
    }
    let words = |count| format!("%%\n%%\nvoid f(void) {{ {} }}\n", ";".repeat(count));
    assert_eq!((told(words(TOKENS_MAX - 20)), told(words(TOKENS_MAX))), (None, Some("F0001")));
    let name = |bytes| format!("%%\n%%\nint {};\n", "n".repeat(bytes));
    assert_eq!((told(name(NAME_BYTES_MAX)), told(name(NAME_BYTES_MAX + 1))), (None, Some("F0001")));
    let blanks = |bytes| format!("%%\n{}", " ".repeat(bytes));
    assert_eq!((told(blanks(TEXT_BYTES_MAX - 3)), told(blanks(TEXT_BYTES_MAX))), (None, Some("F0001")));
}

#[test]
fn declared_data_have_sizes_that_can_be_kept() {
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
        assert_eq!(told(text), expected, "{begin}");
    }
}

#[test]
fn what_is_looked_at_more_than_once_is_not_so_without_end() {
    // What an index is made of is looked at for the place, for its bytes and for its value: and what lies in it each time.
    let mut value = "x".to_owned();
    for _ in 0..40 {
        value = format!("fistStrLen(&a[{value}])");
    }
    let (told, time) = told_in(format!("%%\n%op:mkdir:precall {{ char a[9]; int x = 0; x = {value}; }}\n"));
    assert_eq!(told, Some("F0208"));
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
        ("rules", format!("%%\n{}", "%op:all:precall { int x = 1; }\n".repeat(RULES_MAX))),
        one("blocks", ("{ int b; ".repeat(200) + &"x = 1; ".repeat(20_000)) + &"}".repeat(200)),
    ]
}

#[test]
fn the_largest_texts_can_be_run_soon() {
    // What makes machine code is itself not optimized here.
    let most = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 2 });
    for (name, text) in largest() {
        let (told, time) = told_in(text);
        assert!(matches!(told, None | Some("F0301")), "{name}: {told:?}");
        assert!(time < most, "{name}: {time:?}");
    }
}

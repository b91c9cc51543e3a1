//! What functions compute, and where they are stopped.

mod common;

use common::{RecordingHost, codes, program, run, run_on};
use plyfs_fist::trap::TrapKind;

/// What a function `f` with this body answers for 7.
fn result(body: &str) -> Result<i64, TrapKind> {
    let program = program("test", &format!("%%\n%%\nlong f(long a) {{ {body} }}\n"));
    let mut notes = RecordingHost::new(&program);
    run(&program, &mut notes, "f", &[7]).map_err(|trap| trap.kind)
}

#[test]
fn expressions_compute_as_in_c() {
    for (expression, expected) in [
        ("a * 3 + 1", 22),
        ("a / 2", 3),
        ("-a / 2", -3),
        ("-a % 4", -3),
        ("a << 4 | 1", 113),
        ("~a & 0xff", 248),
        ("(char)200", -56),
        ("(unsigned char)-1", 255),
        ("(unsigned)-1 > 0", 1),
        ("-1 < (unsigned)1", 0),
        ("2147483647 + 1", -2_147_483_648),
        ("2147483648", 2_147_483_648),
        ("a > 5 ? 10 : 20", 10),
        ("a > 5 && a < 6", 0),
        ("a > 5 || 1 / (a - 7)", 1),
        ("!a + !!a", 1),
        ("sizeof(int) + sizeof(char[3]) + sizeof(long)", 15),
        ("'a' + '\\n'", 107),
        ("(a, 3)", 3),
        ("a == 7 ? -EPERM : 0", -1),
        ("-2147483648 / -1", 2_147_483_648),
        ("(int)0x80000000 / -1", -2_147_483_648),
    ] {
        assert_eq!(result(&format!("return {expression};")), Ok(expected), "{expression}");
    }
}

#[test]
fn statements_behave_as_in_c() {
    for (body, expected) in [
        ("long sum = 0; for (int i = 0; i < a; i++) sum += i; return sum;", 21),
        ("int n = 0; while (1) { if (++n > 5) break; if (n == 2) continue; } return n;", 6),
        ("int n = 0; do n++; while (n < 3); return n;", 3),
        ("switch (a) { case 1: return 1; case 7: a = 9; case 8: return a; default: return 0; }", 9),
        ("switch (a) { case 1: break; default: a = 4; break; case 2: a = 5; } return a;", 4),
        ("int x[3] = {1, 2}; x[2] = x[0] + x[1]; return x[2] * 10 + x[1];", 32),
        ("char s[8] = \"ab\"; return s[0] + s[2] + sizeof(s);", 105),
        ("long b = 5; long *p = &b; *p += a; return b;", 12),
        ("int x[4] = {1, 2, 3, 4}; int *p = x + 1; p++; return *p * 10 + (p - x);", 32),
        ("int x[2][3]; x[1][2] = 6; x[1][0]++; return x[1][2] + x[1][0] + x[0][2];", 7),
        ("int i = 3; int j = i++ + ++i; return j * 10 + i;", 85),
        ("unsigned char c = 250; c += 10; return c;", 4),
        ("{ int a = 1; { int a = 2; } return a; }", 1),
        ("int n = 0; for (int i = 0; i < 3; i++) { int fresh; fresh++; n += fresh; } return n;", 3),
        ("char *s = fistMalloc(4); s[3] = 9; long v = s[3]; fistFree(s); return v;", 9),
        ("return fistStrLen(fistStrAdd(\"ab\", \"cde\")) * 10 + fistStrEq(\"x\", \"x\");", 51),
        ("char t[4]; fistMemCpy(t, \"abcd\", 4); return fistMemCmp(t, \"abce\", 4);", -1),
    ] {
        assert_eq!(result(body), Ok(expected), "{body}");
    }
}

#[test]
fn functions_call_each_other_and_structures_hold_fields() {
    let text = "%{\nstruct point { char tag; long x; int y[2]; };\nint twice(int of);\n#define OFFSET (1 << 4)\nenum { A, B = 5, C };\n%}\n%%\n%%\n\
        static long sum(struct point *p) { return p->x + p->y[0] + p->y[1] + p->tag; }\n\
        int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }\n\
        void set(int *out, int value) { *out = value; }\n\
        long f(long a) { struct point p; int v; p.tag = 1; p.x = twice(a); p.y[1] = OFFSET; set(&v, C); return sum(&p) + v * 1000 + factorial(5) * 10000; }\n\
        int twice(int of) { return of * 2; }\n";
    let program = program("test", text);
    assert_eq!(run(&program, &mut RecordingHost::new(&program), "f", &[7]), Ok(14 + 1 + 16 + 6000 + 1_200_000));
}

#[test]
fn undefined_behaviour_in_c_traps() {
    for (body, why) in [
        ("return 1 / (a - 7);", TrapKind::DivisionByZero),
        ("return 1 % (a - 7);", TrapKind::DivisionByZero),
        ("int x[4]; return x[a];", TrapKind::IndexOutOfRange),
        ("int x[4]; return x[-a];", TrapKind::IndexOutOfRange),
        ("int x[4]; int *p = x; return p[a];", TrapKind::OutOfBounds),
        ("int x[4]; int *p = x; p += a; return *p;", TrapKind::OutOfBounds),
        ("int *p = 0; return *p;", TrapKind::NullPointer),
        ("char *s = \"abc\"; s[0] = 'x'; return 0;", TrapKind::ReadOnly),
        ("while (1) ; return 0;", TrapKind::OutOfFuel),
        ("return f(a);", TrapKind::CallDepth),
        ("char *s = fistMalloc(4); fistFree(s); return s[0];", TrapKind::StalePointer),
        ("fistMalloc(a - 8); return 0;", TrapKind::InvalidLength),
        ("while (1) fistMalloc(1 << 20); return 0;", TrapKind::OutOfMemory),
        ("char t[4]; fistMemCpy(t, \"abcdefgh\", 8); return 0;", TrapKind::OutOfBounds),
    ] {
        assert_eq!(result(body), Err(why), "{body}");
    }
}

#[test]
fn dangling_pointers_trap() {
    let text =
        "%%\n%%\nint *bad(void) { int x = 1; int *p = &x; return p; }\nlong f(long a) { int *p = bad(); return *p; }\n";
    let program = program("test", text);
    assert_eq!(run(&program, &mut RecordingHost::new(&program), "f", &[7]).unwrap_err().kind, TrapKind::StalePointer);
}

#[test]
fn pages_are_filtered() {
    let text = "filter:data;\n%%\n%%\n\
        static int rotate(int c) { if (c >= 'a' && c <= 'z') return 'a' + (c - 'a' + 13) % 26; return c; }\n\
        int test_encode_data(const page_t *in, page_t *out) { for (int i = 0; i < %pagesize; i++) out[i] = rotate(in[i]); return %pagesize; }\n\
        int test_decode_data(const page_t *in, page_t *out) { return test_encode_data(in, out); }\n";
    let program = program("test", text);
    assert!(program.topmost().filters.data.is_some());
    let (input, mut output) = ([b'n'; 4096], [0; 4096]);
    let pointers = [plyfs_fist::memory::Memory::INPUT, plyfs_fist::memory::Memory::OUTPUT];
    let result =
        run_on(&program, &mut RecordingHost::new(&program), "test_encode_data", &pointers, &input, &mut output);
    assert_eq!((result, output), (Ok(4096), [b'a'; 4096]));
}

#[test]
fn filters_can_take_the_last_block_flag() {
    let filter = |size: &str, given: &str| {
        let text = format!(
            "filter:data;{size}\n%%\n%%\nint test_encode_data({given}) {{ return is_last; }}\n\
            int test_decode_data({given}) {{ return is_last; }}\n"
        );
        (codes(&text), text)
    };
    for (size, given, last) in [
        ("", "const page_t *in, page_t *out, int length, long page, int is_last", 5),
        ("filter:size;", "const char *in, int length, char *out, int room, long number, int is_last", 6),
    ] {
        let (wrong, text) = filter(size, given);
        assert_eq!(wrong, [""; 0]);
        let program = program("test", &text);
        assert!(program.topmost().marks_last);
        let mut values = vec![0; last];
        values[last - 1] = 1;
        assert_eq!(run(&program, &mut RecordingHost::new(&program), "test_encode_data", &values), Ok(1));
        assert_eq!(filter(size, &format!("{given}, int more")).0, ["F0302"; 2], "no more than that");
    }
}

#[test]
fn rename_without_replace_fails_if_the_target_exists() {
    let text = "operations serial;\n%%\n%%\nlong f() { fistRename($dir, \"a\", $dir, \"b\"); fistRename($dir, \"a\", $dir, \"c\", NOREPLACE); return 0; }\n";
    let program = program("test", text);
    assert!(program.topmost().is_serial);
    let mut notes = RecordingHost::new(&program);
    assert_eq!(run(&program, &mut notes, "f", &[]), Ok(0));
    assert_eq!(notes.done, ["rename a b", "rename a c without replacing"]);
}

#[test]
fn shared_data_are_updated_in_place() {
    let text = "per_vfs { int count; char key[4]; };\nmntdata { int limit; };\nper_vnode { int opens; };\n\
        %%\n%op:open:precall { $vfs.count++; $0.opens += 2; if ($vfs.count > $mnt.limit) fistRetErr(EBUSY); fistSetErr(-ENOENT); }\n\
        %%\nint hits[3] = {1, 2, 3};\n\
        long f(long a) { hits[a - 6] += a; BF_set_key(&$vfs.key, 4, \"abcd\"); return hits[1] * 10 + $vfs.count++; }\n";
    let program = program("test", text);
    let mut notes = RecordingHost::new(&program);
    notes.mount = 1_i32.to_le_bytes().to_vec();
    assert_eq!(run(&program, &mut notes, "%op:open:precall", &[]), Ok(0));
    assert_eq!((notes.error, &notes.vnode[..]), (libc::ENOENT, &[2, 0, 0, 0][..]));
    assert_eq!(run(&program, &mut notes, "%op:open:precall", &[]).unwrap_err().kind, TrapKind::Finished);
    assert_eq!(notes.error, libc::EBUSY);
    assert_eq!(run(&program, &mut notes, "f", &[7]), Ok(92));
    assert_eq!(notes.vfs, [3, 0, 0, 0, b'a', b'b', b'c', b'd']);
}

/// The kernel takes no others from a server: whoever asks would wait for ever.
#[test]
fn declared_errors_have_distinct_valid_numbers() {
    let many: String = (0..376).map(|number| format!("errorcode E{number};\n")).collect();
    let text = format!("errorcode EFIRST;\n{many}errorcode EGIVEN 134;\nerrorcode EPROTOCOL 71;\n%%\n");
    let program = common::program("test", &text);
    let numbers: std::collections::HashSet<i32> = program.topmost().errors.iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers.len(), 379);
    assert!(numbers.iter().all(|number| (134..512).contains(number) || *number == 71), "{numbers:?}");
    assert!(codes(&format!("errorcode EMORE;\n{text}")).contains(&"F0204"));
}

#[test]
fn ioctls_without_a_number_get_a_free_one() {
    let numbers = |text: &str| -> Vec<(String, u32)> {
        let program = common::program("test", text);
        program.topmost().ioctls.iter().map(|ioctl| (ioctl.name.clone(), ioctl.command & 0xff)).collect()
    };
    let of = |all: &[(&str, u32)]| all.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect::<Vec<_>>();
    let (a, b, c) = ("ioctl A 2 { int x; };\n", "ioctl:fromuser B { int x; };\n", "ioctl:touser:C 255 { int x; };\n");
    assert_eq!(numbers(&[a, b, c].concat()), of(&[("A", 2), ("B", 1), ("C", 255)]));
    assert_eq!(numbers(&[c, a, b].concat()), of(&[("C", 255), ("A", 2), ("B", 1)]));
    assert_eq!(
        numbers(&format!("{b}ioctl both 3 {{ int x; }};\nioctl D {{ int x; }};\n{a}")),
        of(&[("B", 1), ("both", 3), ("D", 4), ("A", 2),])
    );
    // As many as there are numbers, one of them given.
    let many: String = (0..254).map(|number| format!("ioctl N{number} {{ int x; }};\n")).collect();
    let all = numbers(&format!("{many}{a}"));
    let different: std::collections::HashSet<u32> = all.iter().map(|(_, number)| *number).collect();
    assert!(different.len() == 255 && !different.contains(&0));
}

#[test]
fn operation_arguments_can_be_assigned() {
    let done = |body: &str| {
        let program = common::program("test", &format!("%%\n%op:create:precall {{ {body} }}\n"));
        let mut notes = common::RecordingHost::new(&program);
        let ended = common::run(&program, &mut notes, "%op:create:precall", &[]);
        (ended.map_err(|trap| trap.kind), notes.error, notes.done)
    };
    let body = "$mode &= 0755; $name = fistStrAdd(\"x\", $name); $mode++; \
        if (($mode = 7) == 7 && fistStrEq($name = \"y\", \"y\")) fistSetErr(1); $name += 1;";
    let expected = ["NewMode = 493", "Name = xname", "NewMode = 0", "NewMode = 7", "Name = y", "Name = ame"];
    assert_eq!(done(body), (Ok(0), 1, expected.map(str::to_owned).to_vec()));
    // What an argument cannot be ends the operation.
    for (body, assigned) in
        [("$name = \"a/b\"; fistSetErr(5);", "Name = a/b"), ("$mode = 99; fistSetErr(5);", "NewMode = 99")]
    {
        assert_eq!(done(body), (Err(TrapKind::Finished), libc::EINVAL, vec![assigned.to_owned()]));
    }
}

#[test]
fn optional_arguments_may_be_omitted_between_others() {
    let text = "%%\n%op:lookup:postcall { fistLookup($dir, \"a\", , 7); fistLookup($dir, \"b\", , , 8); fistLookup($dir, \"c\"); }\n";
    let program = common::program("test", text);
    let mut notes = common::RecordingHost::new(&program);
    assert_eq!(common::run(&program, &mut notes, "%op:lookup:postcall", &[]), Ok(0));
    let users: Vec<_> = notes.done.iter().filter_map(|done| done.rsplit_once(" as ")).map(|(_, who)| who).collect();
    assert_eq!(users, ["Some(7), None", "None, Some(8)", "None, None"]);
    for call in ["fistLookup($dir, , $1)", "fistLookup(, $name)", "fistPrintf(\"%d %d\", , 1)", "f(, 1)", "f(1, , 1)"] {
        let text = format!("%%\n%op:lookup:postcall {{ {call}; }}\n%%\nint f(int a, int b) {{ return a + b; }}\n");
        assert!(codes(&text).contains(&"F0205"), "{call}: {:?}", codes(&text));
    }
}

#[test]
fn errors_are_reported_by_code() {
    for (text, code) in [
        ("%%\n%op:unlink { x = 1; }\n", "F0202"),
        ("%%\n%op:unlink { int x; int x; }\n", "F0201"),
        ("%%\n%op:unlink { int x = \"a\"; }\n", "F0203"),
        ("%%\n%op:unlink { int x[2]; x[2] = 1; }\n", "F0204"),
        ("%%\n%op:unlink { fistStrEq($name); }\n", "F0205"),
        ("%%\n%op:unlink { fistPrintf($name); }\n", "F0205"),
        ("%%\n%op:unlink { fistPrintf(\"%d\"); }\n", "F0205"),
        ("%%\n%op:unlink { fistPrintf($toname); }\n", "F0205"),
        ("%%\n%op:unlink { fistSetErr($offset); }\n", "F0206"),
        ("%%\n%op:unlink { 1 == 2; }\n", "F0207"),
        ("%%\n%readops:unlink { }\n", "F0301"),
        ("accessmode readonly;\n%%\n%op:unlink { }\n", "F0301"),
        ("%%\n%op:unlink { }\n%op:all { }\n", "F0301"),
        ("filter:data;\n%%\n", "F0302"),
        ("filter:data;\n%%\n%%\nint test_encode_data(int x) { return x; }\n", "F0302"),
        ("%%\n%op:lookup:postcall { if (fistLastErr() == EPERM) fistSetErr(0); }\n", "F0303"),
        ("%%\n%op:unlnik { }\n", "F0103"),
        ("%%\n%op:unlink { fistOp($2); }\n", "F0204"),
        ("%%\n%op:unlink { $vfs.x = 1; }\n", "F0202"),
        ("%%\n%op:unlink { break; }\n", "F0108"),
        ("errorcode EODD 512;\n%%\n", "F0204"),
        ("errorcode EODD 0;\n%%\n", "F0204"),
        ("errorcode EODD 4294967297;\n%%\n", "F0204"),
        ("errorcode EODD 300;\nerrorcode EVEN 300;\n%%\n", "F0201"),
        ("%%\n%op:unlink:postcall { $name = \"x\"; }\n", "F0108"),
        ("%%\n%%\nint f(void) { $mode = 1; return 0; }\n", "F0108"),
        ("%%\n%op:unlink { $mode = 1; }\n", "F0206"),
        ("%%\n%op:readdir { $name = \"x\"; }\n", "F0206"),
        ("%%\n%op:read { $offset++; }\n", "F0105"),
        ("%%\n%op:create { const char *p = &$name; }\n", "F0105"),
        ("%%\n%op:create { $name = 7; }\n", "F0203"),
        ("%%\n%op:create { $0 = $1; }\n", "F0203"),
        ("ioctl A 0 { int x; };\n%%\n", "F0204"),
        ("ioctl A 256 { int x; };\n%%\n", "F0204"),
        ("ioctl A 7 { int x; };\nioctl:touser B 7 { char y[3]; };\n%%\n", "F0201"),
        ("%%\n%op:unlink { return 1; }\n", "F0203"),
        ("%%\n%%\nint f(void);\n", "F0202"),
        ("%%\n%%\nint f(const char *s) { s[0] = 1; return 0; }\n", "F0203"),
        ("%%\n%%\nint f(const char *s) { char *t = s; return 0; }\n", "F0203"),
        (
            "per_vfs { char key[4]; };\n%%\n%%\nint g(char *s) { return 0; }\nint f(void) { return g($vfs.key); }\n",
            "F0105",
        ),
    ] {
        let found = codes(text);
        assert!(found.contains(&code), "{text}\n{found:?}");
    }
}

#[test]
fn memory_that_is_given_back_can_be_allocated_again() {
    let body = "for (int i = 0; i < 200; i++) { char *s = fistMalloc(1 << 20); s[i] = 1; fistFree(s); } return a;";
    assert_eq!(result(body), Ok(7));
}

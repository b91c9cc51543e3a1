//! The intermediate form: what it keeps of a description, and what it becomes on a target.

mod common;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use plyfs_fist::compiler::Compiled;
use plyfs_fist::ir::{self, print::print};
use plyfs_fist::load::Loaded;
use plyfs_fist::program::Program;
use plyfs_fist::target::{ByteOrder, IoctlEncoding, Target};

/// The form of a description that has no errors.
fn form(name: &str, text: &str) -> ir::Program {
    let loaded = Loaded::of(name, text.to_owned());
    loaded.ir.unwrap_or_else(|| panic!("{text}\n{:#?}", loaded.diagnostics))
}

/// Its text, with the bounds that it has on this machine.
fn printed(form: &ir::Program) -> String {
    print(form, &Target::host())
}

fn files(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "fist")).collect();
    files.sort();
    files
}

#[test]
fn ir_of_the_samples_is_unchanged() {
    let samples = files("../../examples/fist");
    assert!(samples.len() > 10);
    for file in samples {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        insta::assert_snapshot!(name.clone(), printed(&form(&name, &text)));
    }
}

const KEPT: &str = "// Keeps count.\nfanout 1;\nper_vfs { int total; };\n%%\n\
    // Nobody removes more than some.\n\
    %op:unlink:precall {\n  struct pair both; // two\n  int sum = 0;\n  both.second = LIMIT;\n\
    \x20 /* Counted before. */\n  sum = add(&both, 2);\n  $vfs.total = sum; // at the end\n}\n%%\n\
    #define LIMIT 3 + EPERM\nstruct pair { char first; long second; };\n\
    /* Adds. */\nint add(struct pair *both, int more) { return both->second + more; }\n";

#[test]
fn names_types_fields_and_comments_are_kept() {
    let form = form("kept.fist", KEPT);
    let [add, rule] = &form.functions[..] else { panic!("{:#?}", form.functions) };
    let pair = ir::Type::Structure(1);
    let to_pair = ir::Type::Pointer { to: Box::new(pair.clone()), is_const: false };
    let variable = |name: &str, r#type| ir::Variable { name: name.to_owned(), r#type };
    let int = ir::Type::Integer(ir::Integer::INT);
    assert_eq!((&add.name[..], &add.result, add.parameters), ("add", &int, 2));
    assert_eq!(add.registers, [variable("both", to_pair), variable("more", int.clone())]);
    assert_eq!((&rule.name[..], &rule.registers[..]), ("%op:unlink:precall", &[variable("sum", int)][..]));
    assert_eq!(rule.objects, [variable("both", pair)]);
    assert_eq!(form.constants[0].name, "LIMIT");
    assert_eq!(form.levels[0].comments, ["// Keeps count."]);
    assert_eq!(rule.comments, ["// Nobody removes more than some."]);
    assert_eq!(add.comments, ["/* Adds. */"]);
    insta::assert_snapshot!("names_types_fields_and_comments", printed(&form));
}

#[test]
fn comments_do_not_affect_code() {
    let within = "%%\n%op:read:precall { int a = 1; if (a) /* x */ a++; else // y\n { a--; }\n\
        for (/* i */ int i = 0; /* c */ i < 3; i++) /* z */ a += i; // end\n switch (a) { /* 1 */ case 1: /* 2 */ break; } }\n";
    let with = Loaded::of("same.fist", within.to_owned()).program.unwrap();
    let without = common::program("same", within);
    assert_eq!(with, without);
}

/// A machine that is none: other pages, other numbers, the highest byte first.
fn fictitious_target() -> Target {
    let mut target = Target::host();
    target.page_bytes = 8192;
    target.byte_order = ByteOrder::Big;
    target.alignment_max = 4;
    target.own_errors = 1000..=1001;
    target.ioctls =
        IoctlEncoding { from_user: 4, to_user: 2, way_shift: 29, size_shift: 16, size_bits: 13, letter_shift: 8 };
    target.errors.extend([("EPERM", 71), ("EINVAL", 122)]);
    target.flags.extend([("O_APPEND", 8), ("S_IFDIR", 0x9000)]);
    target
}

const DIFFERING: &str = "errorcode EOWN;\nioctl:fromuser SET { char which; long value; };\nper_vfs { char flag; long total; };\n\
    %%\n%op:open:precall { fistPrintf(\"%ld\", page()); }\n%%\n\
    enum { FIRST = EPERM, NEXT };\n#define BOTH (O_APPEND | FIRST)\nchar buffer[sizeof(page_t) / 2];\n\
    const int numbers[] = { EPERM, NEXT, 258 };\n\
    long page(void) { return %pagesize; }\nint next(void) { return NEXT; }\nint both(void) { return BOTH; }\n\
    int own(void) { return EOWN; }\nlong half(void) { return sizeof(buffer); }\nint element(void) { return numbers[2]; }\n\
    int first(void) { long whole = 1; char *bytes = (char *)&whole; return bytes[7]; }\n\
    int which(int error) { switch (error) { case EPERM: return 1; case EINVAL: return 2; default: return 3; } }\n\
    long total(void) { $vfs.total = 0x0102; $vfs.total += 1; return $vfs.total; }\n\
    int asks(void) { long value = 0; return fistGetIoctlData(SET, value, value); }\n";

#[test]
fn a_program_is_prepared_for_any_target() {
    let form = form("differing.fist", DIFFERING);
    let call = |program: &Program, name: &str, values: &[i64]| {
        let mut notes = common::RecordingHost::new(program);
        let function = program.functions.iter().position(|function| function.name == name).unwrap();
        let result = common::interpret(program, &mut notes, function, values, &[], &mut []).unwrap();
        (result, notes.vfs)
    };
    let host = form.prepare(&Target::host()).unwrap();
    let other = form.prepare(&fictitious_target()).unwrap();
    for (name, on_host, on_other) in [
        ("page", 4096, 8192),
        ("half", 2048, 4096),
        ("next", i64::from(libc::EPERM) + 1, 72),
        ("both", i64::from(libc::O_APPEND | libc::EPERM), 8 | 71),
        ("own", 134, 1000),
        ("element", 258, 258),
        ("first", 0, 1),
        ("total", 0x0103, 0x0103),
        ("asks", -i64::from(libc::EINVAL), -122),
    ] {
        assert_eq!((call(&host, name, &[]).0, call(&other, name, &[]).0), (on_host, on_other), "{name}");
    }
    assert_eq!([71, 122, 1].map(|error| call(&other, "which", &[error]).0), [1, 2, 3]);
    let numbers = other.data.iter().find(|data| data.name == "numbers").unwrap();
    assert_eq!(numbers.bytes, [0, 0, 0, 71, 0, 0, 0, 72, 0, 0, 1, 2]);
    // The flag, what fills up to a multiple of four, and the total with its highest byte first.
    assert_eq!(call(&other, "total", &[]).1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3]);
    assert_eq!((host.topmost().ioctls[0].command, other.topmost().ioctls[0].command), (0x4010_4601, 0x800c_4601));
    assert!(Compiled::new(&other).is_err(), "no machine code is made for another machine");
    Compiled::new(&host).unwrap();
}

#[test]
fn unsupported_programs_are_not_prepared_for_a_target() {
    let form = form("differing.fist", DIFFERING);
    let error = |change: &dyn Fn(&mut Target)| {
        let mut target = fictitious_target();
        change(&mut target);
        form.prepare(&target).unwrap_err().to_string()
    };
    assert_eq!(error(&|target| target.errors.retain(|name, _| *name != "EPERM")), "the target has no `EPERM`");
    assert_eq!(
        error(&|target| target.errors.extend([("EINVAL", 71)])),
        "two labels of a switch in `which` are the same on the target"
    );
    assert_eq!(
        error(&|target| target.own_errors = RangeInclusive::new(2, 1)),
        "the target has too few numbers of errors that are free"
    );
    assert_eq!(error(&|target| target.page_bytes = 1 << 40), "`buffer` is too large on the target");
    assert_eq!(error(&|target| target.ioctls.size_bits = 3), "`SET` is too large on the target");
}

#[test]
fn nested_constants_take_linear_space() {
    let mut text = "%%\n%op:read:precall { fistSetErr(N40); }\n%%\n#define N0 EPERM\n".to_owned();
    (1..=40).for_each(|number| text.push_str(&format!("#define N{number} (N{0} + N{0})\n", number - 1)));
    let form = form("doubled.fist", &text);
    assert_eq!(form.constants.len(), 40);
    form.prepare(&Target::host()).unwrap();
}

#[test]
fn merged_programs_keep_the_declarations_of_each_level() {
    let samples = files("../../examples/fist").into_iter().map(|file| {
        let text = std::fs::read_to_string(&file).unwrap();
        form(&file.file_name().unwrap().to_string_lossy(), &text)
    });
    let mut all: Vec<_> = samples.collect();
    all.push(form("kept.fist", KEPT));
    all.push(form("differing.fist", DIFFERING));
    for upper in &all {
        // Everything of the second has moved, and of the third, which is the first again, by both.
        for lower in &all {
            let merged = ir::Program::merge([upper.clone(), lower.clone(), upper.clone()]);
            let apart = [upper, lower, upper].map(printed).join("\n");
            assert_eq!(printed(&merged), apart);
            merged.prepare(&Target::host()).unwrap();
        }
    }
    let again = ir::Program::merge([ir::Program::merge([all[0].clone(), all[1].clone()]), all[2].clone()]);
    assert_eq!(again, ir::Program::merge(all[..3].iter().cloned()));
}

#[test]
fn merged_programs_run_like_separate_ones() {
    let (kept, differing) = (form("kept.fist", KEPT), form("differing.fist", DIFFERING));
    let merged = ir::Program::merge([kept.clone(), differing.clone(), differing.clone()]);
    for target in [Target::host(), fictitious_target()] {
        let (together, alone) = (merged.prepare(&target).unwrap(), differing.prepare(&target).unwrap());
        for (place, level) in together.levels.iter().enumerate().skip(1) {
            assert_eq!(level.errors, alone.topmost().errors, "{place}");
            assert_eq!(
                level.ioctls.iter().map(|ioctl| ioctl.command).collect::<Vec<_>>(),
                alone.topmost().ioctls.iter().map(|ioctl| ioctl.command).collect::<Vec<_>>()
            );
            // What a host keeps for the level, as its notes are for the topmost.
            let mut seen = together.clone();
            seen.levels.swap(0, place);
            let compiled = Compiled::of(&together, level.functions.clone());
            assert_eq!(compiled.is_ok(), target.byte_order == ByteOrder::HOST);
            for (index, function) in alone.functions.iter().enumerate() {
                let values = vec![3; function.parameters];
                let moved = level.functions.start + index;
                assert_eq!(together.functions[moved].name, function.name);
                let mut notes = common::RecordingHost::new(&alone);
                let expected = common::interpret(&alone, &mut notes, index, &values, &[], &mut []);
                let mut other = common::RecordingHost::new(&seen);
                let found = common::interpret(&together, &mut other, moved, &values, &[], &mut []);
                assert_eq!((found, &other.vfs), (expected, &notes.vfs), "{} of {place}", function.name);
                if let Ok(compiled) = &compiled {
                    let mut other = common::RecordingHost::new(&seen);
                    let found = common::run_compiled(compiled, &together, &mut other, moved, &values, &[], &mut []);
                    assert_eq!((found, &other.vfs), (expected, &notes.vfs), "{} of {place}, compiled", function.name);
                }
            }
        }
    }
}

const CALLS: &str = "per_vfs { int count; };\n%%\n%op:unlink:precall { fistSetErr(middle($name)); }\n%%\n\
    int deepest(const char *name) { char copy[100]; fistMemCpy(copy, name, 1); return fistStrLen(copy); }\n\
    int middle(const char *name) { int a = deepest(name); return a + (%uid == 0) + deepest(name); }\n\
    int again(int number) { $vfs.count++; return number > 0 ? other(number - 1) : 0; }\n\
    int other(int number) { return again(number); }\n\
    int above(int number) { return fistIsFile($0) + again(number); }\n";

#[test]
fn stack_depth_and_effects_include_callees() {
    let form = form("calls.fist", CALLS);
    let bounds = form.bounds(&Target::host()).unwrap();
    let of = |name: &str| bounds[form.functions.iter().position(|one| one.name == name).unwrap()].to_string();
    assert_eq!(of("deepest"), "calls none, 112 bytes of stack; only computes");
    assert_eq!(of("middle"), "calls 1 deep, 128 bytes of stack; needs credentials");
    assert_eq!(of("%op:unlink:precall"), "calls 2 deep, 128 bytes of stack; needs credentials");
    assert_eq!(of("again"), "may call itself, 8 bytes of stack each time; takes locks");
    assert_eq!(of("other"), "may call itself, 8 bytes of stack each time; takes locks");
    assert_eq!(of("above"), "may call itself, 8 bytes of stack each time; may sleep, takes locks");
}

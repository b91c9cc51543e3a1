//! Descriptions that ask for more than a mount gives: their operations fail, and nothing else does.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plyfs_stack::syntax;
use vnode::{Caller, CancellationSource, Control, ControlError, Cookie, Errno, FileSystemRef, Name};

/// A directory with a description, and the stack of that on memory.
struct Mounted {
    _directory: tempfile::TempDir,
    path: PathBuf,
    file_system: FileSystemRef,
}

fn mounted(text: &str, options: &str) -> Mounted {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hostile.fist");
    std::fs::write(&path, text).unwrap();
    let expression = format!("mem: | {}{options}", path.display());
    let file_system = plyfs_stack::build(&syntax::parse(&expression).unwrap()).unwrap();
    Mounted { _directory: directory, path, file_system }
}

impl Mounted {
    fn mkdir(&self, name: &str) -> Result<(), Errno> {
        let root = self.file_system.root();
        root.mkdir(&Caller::server(), Name::new(name.as_bytes()).unwrap(), 0o755).map(drop)
    }

    fn reload(&self, text: &str) -> Result<String, ControlError> {
        std::fs::write(&self.path, text).unwrap();
        let (target, command) = ("hostile.fist".to_owned(), "reload".to_owned());
        self.file_system.control(&Control { target, command, arguments: Vec::new() })
    }
}

/// A rule for mkdir that does this, but for the names that begin with `q`.
fn rule(declared: &str, body: &str) -> String {
    format!("{declared}\n%%\n%op:mkdir:precall {{ if ($name[0] != 'q') {{ {body} }} }}\n")
}

#[test]
fn rules_that_do_not_end_fail_with_eio_in_both_tiers() {
    let bodies = [
        "while (1) ;",
        "char *a = fistMalloc(16000000); for (int k = 0; k < 4999999; k++) fistMemSet(a, 1, 16000000);",
        "for (;;) fistLookup($dir, \"q\");",
        "for (;;) fistMalloc(1000);",
        "char *s = \"x\"; for (;;) s = fistStrAdd(s, s);",
    ];
    for tier in ["interpreted", "compiled"] {
        for body in bodies {
            let mounted = mounted(&rule("", body), &format!("(tier={tier})"));
            let begin = Instant::now();
            assert_eq!(mounted.mkdir("a"), Err(Errno::EIO), "{tier}: {body}");
            assert!(begin.elapsed() < Duration::from_secs(20), "{tier}: {body}: {:?}", begin.elapsed());
            assert_eq!(mounted.mkdir("q"), Ok(()), "{tier}: {body}");
        }
    }
}

#[test]
fn the_time_limit_is_that_of_an_operation() {
    let body = "long n = 1; for (int k = 0; k < 4000000; k++) n = n / 3 + 100;";
    for tier in ["interpreted", "compiled"] {
        let short = mounted(&rule("", body), &format!("(tier={tier}, time-limit=0.001)"));
        assert_eq!((short.mkdir("a"), short.mkdir("q")), (Err(Errno::EIO), Ok(())), "{tier}");
        let long = mounted(&rule("", body), &format!("(tier={tier}, time-limit=3600)"));
        assert_eq!(long.mkdir("a"), Ok(()), "{tier}");
    }
    // Many rules have it together.
    let rules = format!("%%\n{}", format!("%op:mkdir:precall {{ {body} }}\n").repeat(1000));
    let many = mounted(&rules, "(tier=compiled, time-limit=0.1)");
    let begin = Instant::now();
    assert_eq!(many.mkdir("a"), Err(Errno::EIO));
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn the_time_limit_is_a_number_of_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("plain.fist");
    std::fs::write(&path, "%%\n").unwrap();
    for (value, is_fine) in [
        ("1", true),
        ("0.5", true),
        ("3600", true),
        ("0", false),
        ("-1", false),
        ("nan", false),
        ("3601", false),
        ("x", false),
    ] {
        let expression = format!("mem: | {}(time-limit={value})", path.display());
        let built = plyfs_stack::build(&syntax::parse(&expression).unwrap());
        assert_eq!(built.is_ok(), is_fine, "{value}");
    }
}

#[test]
fn data_of_objects_take_room_of_the_mount_as_long_as_the_objects_are_in_use() {
    // Five thousand objects of 64 KiB are more than there is room for.
    let mounted = mounted("per_vnode { char kept[65536]; };\n%%\n%op:mkdir:postcall { $dir.kept[1] = 1; }\n", "");
    let root = mounted.file_system.root();
    let server = Caller::server();
    let name = |number: usize| format!("d{number}");
    let mut used = Vec::new();
    let mut failed = 0;
    for number in 0..5000 {
        let name = name(number);
        mounted.mkdir(&name).expect("the root has room");
        let directory = root.lookup(&server, Name::new(name.as_bytes()).unwrap()).unwrap().vnode;
        match directory.mkdir(&server, Name::new(b"inner").unwrap(), 0o755) {
            Ok(_) => used.push(directory),
            Err(error) => {
                assert_eq!(error, Errno::EIO);
                failed += 1;
            }
        }
    }
    assert!((4000..4200).contains(&used.len()) && failed == 5000 - used.len(), "{} have room", used.len());
    drop(used);
    let last = root.lookup(&server, Name::new(b"d4999").unwrap()).unwrap().vnode;
    assert_eq!(last.mkdir(&server, Name::new(b"other").unwrap(), 0o755).map(drop), Ok(()));
}

#[test]
fn a_text_that_is_too_large_or_too_deep_is_refused_and_the_old_one_goes_on() {
    let mounted = mounted(&rule("", "fistRetErr(EPERM);"), "");
    let stars = "*".repeat(200_000);
    let chain: String =
        (0..20_000).map(|number| format!("int f{number}(int x) {{ return f{}(x); }}\n", number + 1)).collect();
    let texts = [
        rule("", &format!("int {stars}x;")),
        rule("", &format!("char a{};", "[1]".repeat(200_000))),
        format!("%%\n%%\n{chain}int f20000(int x) {{ return x; }}\n"),
        format!("%%\n{}", "%op:mkdir:precall { }\n".repeat(30_000)),
        rule("per_vnode { char kept[16000000]; };", ""),
        rule("", &format!("int x = {}1{};", "(".repeat(100_000), ")".repeat(100_000))),
    ];
    for text in texts {
        let begin = Instant::now();
        assert!(matches!(mounted.reload(&text), Err(ControlError::Refused(_))), "{text:.80}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{text:.80}");
        assert_eq!((mounted.mkdir("a"), mounted.mkdir("q").err()), (Err(Errno::EPERM), None), "{text:.80}");
        let root = mounted.file_system.root();
        root.rmdir(&Caller::server(), Name::new(b"q").unwrap()).unwrap();
    }
    // Chains and rings of as many functions as there may be are taken, and stop where they are too deep.
    for last in ["return x;", "while (x) x += f0(x); return x;"] {
        let chain: String =
            (0..3000).map(|number| format!("int f{number}(int x) {{ return f{}(x) + 1; }}\n", number + 1)).collect();
        let text = rule("", "f0(1);") + &format!("%%\n{chain}int f3000(int x) {{ {last} }}\n");
        assert!(mounted.reload(&text).is_ok());
        assert_eq!((mounted.mkdir("a"), mounted.mkdir("q")), (Err(Errno::EIO), Ok(())), "{last}");
        mounted.file_system.root().rmdir(&Caller::server(), Name::new(b"q").unwrap()).unwrap();
    }
}

#[test]
fn rules_add_so_many_names_to_a_listing() {
    let rule = "%op:readdir:postcall { for (int n = 0; n < 5000; n++) { int e = fistReaddir($0, 0); if (e < 0) fistRetErr(-e); } }";
    let mounted = mounted(&format!("%%\n{rule}\n"), "");
    for number in 0..2000 {
        mounted.mkdir(&format!("a-name-of-some-length-{number}")).unwrap();
    }
    let root = mounted.file_system.root();
    let server = Caller::server();
    let listed = root.open_directory(&server).unwrap().read(&server, Cookie::START, &mut |_| ControlFlow::Continue(()));
    assert_eq!(listed, Err(Errno::ENOMEM));
}

#[test]
fn who_is_killed_does_not_wait_for_all_names_of_a_listing() {
    let mounted =
        mounted("per_vfs { int n; };\n%%\n%op:readdir:call { $vfs.n++; if ($vfs.n > 1000) fistRetErr(EPERM); }\n", "");
    for number in 0..2000 {
        mounted.mkdir(&format!("d{number}")).unwrap();
    }
    let root = mounted.file_system.root();
    let source = CancellationSource::new();
    let caller = Caller::server().cancelled_by(source.begin(1, 0));
    let directory = root.open_directory(&caller).unwrap();
    source.cancel(1);
    let listed = directory.read(&caller, Cookie::START, &mut |_| ControlFlow::Continue(()));
    assert_eq!(listed, Err(Errno::EINTR));
}

//! `plyfs fist`: descriptions are checked, laid out and begun, and whatever is wrong is told.

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use support::{Run, Scratch, finish, plyfs, run};

const FINE: &str = "fanout 2;\n\n%%\n\n%op:unlink:precall {\n    fistSetErr(EPERM);\n}\n";
const UNTIDY: &str = "fanout   2;\n%%\n%op:unlink:precall{ /* never */ fistSetErr( EPERM ); }";
const UNREADABLE: &str = "fanout two;\n%%\n%op:unlink:precall { fistSetErr(EPERM); }\n";
const WRONG: &str = "%%\n\n%op:unlnik:precall {\n    fistSetErr(EPERM);\n}\n";

fn file(scratch: &Scratch, name: &str, text: &[u8]) -> String {
    fs::write(scratch.path(name), text).unwrap();
    scratch.name(name)
}

/// Runs `plyfs fist` with this on standard input.
fn run_with(words: &[&str], input: &str) -> Run {
    let mut command = plyfs();
    command.arg("fist").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    finish(child.wait_with_output())
}

#[test]
fn what_is_right_is_not_spoken_of() {
    let scratch = Scratch::new();
    let fine = file(&scratch, "fine.fist", FINE.as_bytes());
    assert_eq!(run(["fist", "check", &fine, &fine]).succeeded(), "");
}

#[test]
fn errors_are_told_with_their_places() {
    let scratch = Scratch::new();
    let (fine, wrong) = (file(&scratch, "fine.fist", FINE.as_bytes()), file(&scratch, "wrong.fist", WRONG.as_bytes()));
    let result = run(["fist", "check", &wrong, &fine]);
    assert_eq!((result.code, result.output.as_str()), (1, ""), "{result:?}");
    for expected in [
        "error[F0103]: there is no operation `unlnik`",
        &format!("--> {wrong}:3:5"),
        "help: perhaps `unlink` is meant",
        &format!("plyfs: {wrong} has 1 error; fix the errors above"),
    ] {
        assert!(result.errors.contains(expected), "{expected}: {result:?}");
    }
    assert!(!result.errors.contains('\u{1b}'), "{result:?}");
}

#[test]
fn warnings_are_told_and_are_no_failure() {
    let scratch = Scratch::new();
    let text = "%%\n%op:lookup:postcall { if (fistLastErr() == EPERM) fistSetErr(ENOENT); }\n";
    let result = run(["fist", "check", &file(&scratch, "warned.fist", text.as_bytes())]);
    assert_eq!(result.code, 0, "{result:?}");
    assert!(result.errors.starts_with("warning[F0303]: "), "{result:?}");
}

#[test]
fn descriptions_are_collapsed_where_nothing_shows_it() {
    let scratch = Scratch::new();
    let named = |name: &str, text: &str| file(&scratch, name, text.as_bytes());
    let refusing = named("refusing.fist", "%%\n%op:rename:precall { fistSetErr(EROFS); }\n");
    let trash = named("trash.fist", "%%\n%op:unlink:call { fistSetErr(fistRename($dir, $name, $dir, \"old\")); }\n");
    let count =
        named("count.fist", "per_vfs { long count; };\n%%\n%op:unlink { $vfs.count++; fistSetErr(fistOp($1)); }\n");

    let together = run(["fist", "collapse", &refusing, &count]).succeeded();
    let fires = "unlink\n  count: %op:unlink (line 3), in its place; where it does the operation:\n    the operation below\n\
        rename\n  refusing: %op:rename:precall (line 2)\n  the operation below\n";
    assert!(together.starts_with(&format!("refusing and count are one layer\n\n{fires}")), "{together}");
    assert!(together.contains("in memory          stacked  one layer  ratio\ngetattr "), "{together}");

    let apart = run(["fist", "collapse", &refusing, &trash]);
    assert_eq!((apart.code, apart.output.as_str()), (1, ""), "{apart:?}");
    assert!(apart.errors.contains("rules of trash.fist do what refusing.fist has rules for: rename"), "{apart:?}");
    assert_eq!(run(["fist", "collapse", &trash, &refusing]).code, 0);
    assert_eq!(run(["fist", "collapse", &trash]).code, 2);
}

#[test]
fn the_intermediate_form_of_descriptions_is_one_program() {
    let scratch = Scratch::new();
    let named = |name: &str, text: &str| file(&scratch, name, text.as_bytes());
    let refusing = named("refusing.fist", "%%\n// Nobody renames.\n%op:rename:precall { fistSetErr(EROFS); }\n");
    let count =
        named("count.fist", "per_vfs { long count; };\n%%\n%op:unlink { $vfs.count++; fistSetErr(fistOp($1)); }\n");

    let upper = "program count\nstruct per_vfs { long count; }\n$vfs: struct per_vfs\n\n\
        rule %op:unlink in place of unlink\n\
        // calls none, 0 bytes of stack; may sleep, needs credentials, takes locks\n\
        {\n  before $vfs.count +:long= 1;\n  fistSetErr(fistOp($1));\n}\n";
    let lower = "program refusing\n\n// Nobody renames.\nrule %op:rename:precall before rename\n\
        // calls none, 0 bytes of stack; only computes\n{\n  fistSetErr(EROFS);\n}\n";
    assert_eq!(run(["fist", "explain", "--ir", &refusing]).succeeded(), lower);
    assert_eq!(run(["fist", "explain", "--ir", &refusing, &count]).succeeded(), format!("{upper}\n{lower}"));

    let trash = named("trash.fist", "%%\n%op:unlink:call { fistSetErr(fistRename($dir, $name, $dir, \"old\")); }\n");
    let apart = run(["fist", "explain", "--ir", &refusing, &trash]);
    assert_eq!((apart.code, apart.output.as_str()), (1, ""), "{apart:?}");
    assert!(apart.errors.contains("rules of trash.fist do what refusing.fist has rules for: rename"), "{apart:?}");
}

#[test]
fn what_is_no_description_is_told_in_one_line() {
    let scratch = Scratch::new();
    let binary = file(&scratch, "binary.fist", b"%%\n\x00\xff\xfe");
    fs::create_dir(scratch.path("directory.fist")).unwrap();
    symlink(scratch.path("nowhere"), scratch.path("link.fist")).unwrap();
    for (name, message) in [
        (binary.as_str(), "is not text: line 2, column 2 is not UTF-8"),
        (&scratch.name("directory.fist"), "is not a regular file"),
        (&scratch.name("none.fist"), "No such file or directory"),
        (&scratch.name("link.fist"), "No such file or directory"),
        ("/dev/zero", "is not a regular file"),
        ("no\nname", "cannot read no\\nname: No such file or directory"),
    ] {
        for command in ["check", "fmt"] {
            let result = run(["fist", command, name]);
            assert_eq!((result.code, result.errors.lines().count()), (1, 1), "{name}: {result:?}");
            assert!(result.errors.starts_with("plyfs: ") && result.errors.contains(message), "{name}: {result:?}");
            assert!(result.errors.contains("; "), "no remedy: {result:?}");
        }
    }
    for words in [&["fist", "check"][..], &["fist", "fmt", ""], &["fist", "layout"]] {
        let result = finish(plyfs().args(words).output());
        assert_eq!((result.code, result.errors.lines().count()), (2, 1), "{words:?}: {result:?}");
    }
}

#[test]
fn files_are_laid_out() {
    let scratch = Scratch::new();
    let untidy = file(&scratch, "untidy.fist", UNTIDY.as_bytes());
    fs::set_permissions(&untidy, fs::Permissions::from_mode(0o640)).unwrap();
    let checked = run(["fist", "fmt", "--check", &untidy]);
    assert_eq!((checked.code, checked.output, checked.errors), (1, format!("{untidy}\n"), String::new()));
    assert_eq!(fs::read_to_string(&untidy).unwrap(), UNTIDY);
    assert_eq!(run(["fist", "fmt", &untidy]).succeeded(), "");
    let expected = "fanout 2;\n\n%%\n\n%op:unlink:precall {\n    /* never */ fistSetErr(EPERM);\n}\n";
    assert_eq!(fs::read_to_string(&untidy).unwrap(), expected);
    assert_eq!(fs::metadata(&untidy).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(run(["fist", "fmt", "--check", &untidy]).succeeded(), "");
}

#[test]
fn standard_input_is_laid_out_to_standard_output() {
    assert_eq!(run_with(&["fmt", "-"], "fanout  2 ;").succeeded(), "fanout 2;\n");
    let checked = run_with(&["fmt", "--check", "-"], "fanout  2 ;");
    assert_eq!((checked.code, checked.output.as_str()), (1, "standard input\n"), "{checked:?}");
    let refused = run_with(&["fmt", "-"], UNREADABLE);
    assert_eq!((refused.code, refused.output.as_str()), (1, ""), "{refused:?}");
    assert!(refused.errors.contains("--> standard input:1:8"), "{refused:?}");
}

#[test]
fn what_cannot_be_read_stays_and_the_others_are_laid_out() {
    let scratch = Scratch::new();
    let unreadable = file(&scratch, "unreadable.fist", UNREADABLE.as_bytes());
    let untidy = file(&scratch, "untidy.fist", UNTIDY.as_bytes());
    let result = run(["fist", "fmt", &unreadable, &untidy]);
    assert_eq!((result.code, result.output.as_str()), (1, ""), "{result:?}");
    assert!(result.errors.contains("error[F0101]: "), "{result:?}");
    let last = format!("plyfs: {unreadable} has 1 error; its layout stays as it is\n");
    assert!(result.errors.ends_with(&last), "{result:?}");
    assert_eq!(fs::read_to_string(&unreadable).unwrap(), UNREADABLE);
    assert_ne!(fs::read_to_string(&untidy).unwrap(), UNTIDY);
}

#[test]
fn what_cannot_be_written_stays() {
    let scratch = Scratch::new();
    let untidy = file(&scratch, "untidy.fist", UNTIDY.as_bytes());
    fs::set_permissions(&untidy, fs::Permissions::from_mode(0o444)).unwrap();
    let program = env!("CARGO_BIN_EXE_plyfs");
    // Root may write anything, unless it gives that up.
    let result = if rustix::process::geteuid().is_root() {
        let mut weak = std::process::Command::new("setpriv");
        finish(weak.args(["--bounding-set", "-all", program, "fist", "fmt", &untidy]).output())
    } else {
        run(["fist", "fmt", &untidy])
    };
    assert_eq!((result.code, result.errors.lines().count()), (1, 1), "{result:?}");
    assert!(result.errors.starts_with(&format!("plyfs: cannot write {untidy}: Permission denied")), "{result:?}");
    assert_eq!(fs::read_to_string(&untidy).unwrap(), UNTIDY);
}

#[test]
fn descriptions_are_begun_and_never_written_over() {
    let scratch = Scratch::new();
    let directory = scratch.name("");
    let written = run(["fist", "new", "first", "--directory", &directory]).succeeded();
    let path = scratch.name("first.fist");
    assert_eq!(written, format!("{path}\n"));
    run(["fist", "check", &path]).succeeded();
    run(["fist", "fmt", "--check", &path]).succeeded();
    fs::write(&path, "mine").unwrap();
    let again = run(["fist", "new", "first", "--directory", &directory]);
    assert_eq!((again.code, again.errors.lines().count()), (1, 1), "{again:?}");
    assert!(again.errors.contains("File exists") && again.errors.contains("; give another name"), "{again:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    let here = finish(plyfs().args(["fist", "new", "second"]).current_dir(scratch.path("")).output());
    assert_eq!(here.succeeded(), "second.fist\n");
    for (name, code) in [("my-fs", 2), ("", 2), ("a/b", 2), ("x.fist", 2)] {
        let result = run(["fist", "new", name]);
        assert_eq!((result.code, result.errors.lines().count()), (code, 1), "{name}: {result:?}");
    }
    let nowhere = run(["fist", "new", "third", "--directory", &scratch.name("none")]);
    assert_eq!((nowhere.code, nowhere.errors.lines().count()), (1, 1), "{nowhere:?}");
}

/// One message of the Language Server Protocol.
fn message(content: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{content}", content.len())
}

#[test]
fn editors_are_served_over_standard_input_and_output() {
    let opened = r#"{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a.fist","languageId":"fist","version":1,"text":"%%\n%op:unlnik { }\n"}}}"#;
    let messages = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#,
        opened,
        r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#,
        r#"{"jsonrpc":"2.0","method":"exit"}"#,
    ];
    let input: String = messages.iter().map(|content| message(content)).collect();
    let output = run_with(&["lsp"], &input).succeeded();
    assert!(output.starts_with("Content-Length: "), "{output}");
    assert!(output.contains("textDocument/publishDiagnostics") && output.contains("F0103"), "{output}");
    let gone = run_with(&["lsp"], &message(messages[0]));
    assert_eq!((gone.code, gone.errors.lines().count()), (1, 1), "{gone:?}");
    assert!(gone.errors.starts_with("plyfs: the language server failed: "), "{gone:?}");
}

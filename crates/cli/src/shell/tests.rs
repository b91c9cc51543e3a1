//! Tests of the shell on a file system in memory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

/// A shell on an empty stack built from this expression, and its output.
struct Fixture {
    file_system: FileSystemRef,
    caller: Caller,
}

impl Fixture {
    fn new(expression: &str) -> Self {
        let file_system = stack::build(&stack::syntax::parse(expression).unwrap()).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        Fixture { file_system, caller: Caller::with_groups(uid, gid, &[gid], 0o022) }
    }

    /// Returns the output and errors of the commands, and whether all succeeded.
    fn run(&self, commands: &str) -> (String, String, bool) {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut session =
            Session::new(self.file_system.clone(), self.caller.clone(), &COMMANDS, &mut output, &mut errors);
        session.run(commands.as_bytes());
        let failed = session.failed;
        (String::from_utf8(output).unwrap(), String::from_utf8(errors).unwrap(), !failed)
    }

    /// Returns the output of commands that all succeed.
    fn output(&self, commands: &str) -> String {
        let (output, errors, succeeded) = self.run(commands);
        assert!(succeeded && errors.is_empty(), "{commands}: {errors}");
        output
    }

    /// Returns the errors of commands of which at least one fails.
    fn errors(&self, commands: &str) -> String {
        let (_, errors, succeeded) = self.run(commands);
        assert!(!succeeded, "{commands}: no command failed");
        errors
    }
}

#[test]
fn names_do_not_control_a_terminal() {
    let shell = Fixture::new("mem:");
    let command = "mkdir 'a\u{1b}[2J\u{202e}b'; ls; ls -l 'a\u{1b}[2J\u{202e}b' .; tree";
    assert!(shell.output(command).contains('\u{1b}'), "what programs read is exact");
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut session =
        Session::new(shell.file_system.clone(), shell.caller.clone(), &COMMANDS, &mut output, &mut errors);
    session.is_terminal = true;
    session.run(command.split_once(';').unwrap().1.as_bytes());
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("a?[2J?b") && !output.contains(['\u{1b}', '\u{202e}']), "{output:?}");
}

#[test]
fn files_are_written_and_read() {
    let shell = Fixture::new("mem:");
    assert_eq!(
        shell.output("write a 'one; two'; cat a; append a x; cat a; echo; cat a a"),
        "one; twoone; twox\none; twoxone; twox"
    );
    assert_eq!(shell.output("echo hello world > b; echo -n more >> b; cat b"), "hello world\nmore");
    assert_eq!(
        shell.output("truncate -s 5 b; cat b; truncate -s 1K c; stat c").lines().nth(1).unwrap().trim(),
        "Size: 1024            Blocks: 0          IO Block: 4096   regular file"
    );
    assert_eq!(shell.output("touch d; touch -c e; ls"), "a\nb\nc\nd\n");
}

#[test]
fn directories_and_paths() {
    let shell = Fixture::new("mem:");
    let text = "mkdir -p a/b/c a/b; cd a/b; pwd; cd ../..; pwd; cd a; echo x > b/../f; ls; cd; rmdir a/b/c; ls -R a";
    assert_eq!(shell.output(text), "/a/b\n/\nb\nf\na:\nb\nf\n\na/b:\n");
    assert_eq!(shell.output("ln -s /a/b l; cd l; pwd; cd /l/..; pwd; readlink /l"), "/a/b\n/a\n/a/b\n");
    assert_eq!(
        shell.output("echo y > l/deep; cat a/b/deep; mv a/b/deep a/shallow; cat a/shallow; ls -a l"),
        "y\ny\n.\n..\n"
    );
    assert_eq!(
        shell.output("tree"),
        ".\n├── a\n│   ├── b\n│   ├── f\n│   └── shallow\n└── l -> /a/b\n\n2 directories, 3 files\n"
    );
    assert_eq!(shell.output("rm -r a; rm -f a; ls"), "l\n");
    assert_eq!(
        shell.errors("cat l; cat l/x; cd f/.."),
        "\
        plyfs: cat: l: No such file or directory (ENOENT)\n\
        plyfs: cat: l/x: No such file or directory (ENOENT)\n\
        plyfs: cd: f/..: No such file or directory (ENOENT)\n"
    );
    assert_eq!(
        shell.errors("ln -s m n; ln -s n m; cat m"),
        "plyfs: cat: m: Too many levels of symbolic links (ELOOP)\n"
    );
}

#[test]
fn errors_are_reported_and_the_rest_continues() {
    let shell = Fixture::new("mem:");
    let (output, errors, succeeded) = shell.run("echo a > a; cat none a; lss; ls -z; mkdir; cat 'x\n");
    assert_eq!(output, "a\n");
    assert!(!succeeded);
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines[0], "plyfs: cat: none: No such file or directory (ENOENT)");
    assert_eq!(lines[1], "plyfs: unknown command 'lss'; did you mean 'ls'?");
    assert_eq!(lines[2], "plyfs: ls: unknown option -z; there are a, l, d, i, n and R");
    assert_eq!(lines[3], "plyfs: mkdir: wrong usage; write mkdir [-p] PATH...");
    assert!(lines[4].starts_with("plyfs: a quote is not closed"));
    assert_eq!(shell.errors("mkdir d; rm d"), "plyfs: rm: d: Is a directory (EISDIR)\n");
    assert_eq!(
        shell.errors("rmdir /; mkdir ."),
        "\
        plyfs: rmdir: /: Device or resource busy (EBUSY)\nplyfs: mkdir: .: Invalid argument (EINVAL)\n"
    );
}

#[test]
fn names_of_any_kind() {
    let shell = Fixture::new("mem:");
    let long = "n".repeat(255);
    assert_eq!(shell.output(&format!("echo x > {long}; ls; rm {long}")), format!("{long}\n"));
    assert!(shell.errors(&format!("touch {long}n")).ends_with("File name too long (ENAMETOOLONG)\n"));
    assert_eq!(shell.output("echo x > -- ; ls; rm -- --"), "--\n");
    assert_eq!(shell.output("echo x > 'a b;c'; ls 'a b;c'; rm a\\ b\\;c; ls"), "a b;c\n");
}

#[test]
fn attributes_change() {
    let shell = Fixture::new("mem:");
    assert!(shell.output("echo x > a; chmod 4711 a; ls -l a").starts_with("-rws--x--x "));
    assert!(shell.output("chmod u-s,g=r a; ls -l a").starts_with("-rwxr----x "));
    assert!(shell.output("umask 077; touch b; ls -l b").starts_with("-rw------- "));
    if rustix::process::geteuid().is_root() {
        assert!(shell.output("mkdir -p d/e; chown -R 12345:54321 d; ls -n d").contains(" 12345    54321 "));
        assert_eq!(
            shell.output("chown :7 a; chown root a; stat a").lines().nth(3).map(|line| line.contains("Gid: (7/")),
            Some(true)
        );
    }
    assert!(shell.errors("chown nobody-by-this-name a").contains("there is no user"));
    assert_eq!(shell.output("xattr set user.k 'v 1' a; xattr set user.b '' a; xattr get user.k a; xattr list a; xattr rm user.k a; xattr list a"),
        "v 1\nuser.b=\"\"\nuser.k=\"v 1\"\nuser.b=\"\"\n");
    assert!(shell.errors("xattr get user.k a").contains("ENODATA"));
}

#[test]
fn copies_keep_holes_modes_and_trees() {
    let shell = Fixture::new("mem:");
    shell.output("truncate -s 1G big; append big end; cp big copy; chmod 640 copy; cp -p copy kept");
    let line = |name: &str| shell.output(&format!("stat {name}"));
    assert!(line("copy").contains("Size: 1073741827 "), "{}", line("copy"));
    let blocks: u64 =
        line("copy").split("Blocks: ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!(blocks < 1_000, "{}", line("copy"));
    assert!(line("kept").contains("(0640/-rw-r-----)"), "{}", line("kept"));
    shell.output("mkdir -p t/u; echo x > t/u/f; ln -s u/f t/l; cp -r t new; mkdir into; cp -r t into");
    assert_eq!(shell.output("cat new/l into/t/u/f; readlink new/l"), "x\nx\nu/f\n");
    assert_eq!(shell.errors("cp -r t t/u/v"), "plyfs: cp: t would be copied into itself; choose another target\n");
    assert_eq!(shell.errors("cp copy copy"), "plyfs: cp: copy and its copy are the same file; choose another target\n");
    assert_eq!(shell.errors("cp t x"), "plyfs: cp: t is a directory; copy it with -r\n");
    assert_eq!(shell.errors("cp copy kept t/u/f"), "plyfs: cp: t/u/f: Not a directory (ENOTDIR)\n");
}

#[test]
fn files_are_copied_in_and_out() {
    let shell = Fixture::new("mem:");
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path();
    fs::create_dir(path.join("in")).unwrap();
    fs::write(path.join("in/file"), "from outside").unwrap();
    fs::set_permissions(path.join("in/file"), fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("file", path.join("in/link")).unwrap();
    let name = path.display();
    shell.output(&format!("put -r {name}/in .; put {name}/in/file renamed; get -rp in {name}/out; get renamed {name}"));
    assert_eq!(shell.output("cat in/link renamed"), "from outsidefrom outside");
    assert_eq!(fs::read(path.join("out/link")).unwrap(), b"from outside");
    assert_eq!(fs::read(path.join("renamed")).unwrap(), b"from outside");
    assert_eq!(fs::metadata(path.join("out/file")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(
        shell.errors(&format!("get renamed {name}/none/x")),
        format!("plyfs: get: {name}/none/x: No such file or directory (ENOENT)\n")
    );
    assert_eq!(
        shell.errors(&format!("put {name}/none x")),
        format!("plyfs: put: {name}/none: No such file or directory (ENOENT)\n")
    );
}

#[test]
fn messages_name_the_affected_path() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let mut shell = Fixture::new("mem:");
    shell.output("mkdir -p d/e; echo x > f; chmod 755 d d/e");
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
    shell.caller = Caller::with_groups(12345, 12345, &[], 0o022);
    let name = outside.path().display();
    assert_eq!(
        shell.errors(&format!("get f {name}/new")),
        format!("plyfs: get: {name}/new: Permission denied (EACCES)\n")
    );
    assert_eq!(shell.errors(&format!("get f {name}")), format!("plyfs: get: {name}/f: Permission denied (EACCES)\n"));
    assert_eq!(shell.errors("cp f d/e"), "plyfs: cp: /d/e/f: Permission denied (EACCES)\n");
    assert_eq!(shell.errors("put /etc/passwd d"), "plyfs: put: /d/passwd: Permission denied (EACCES)\n");
}

#[test]
fn layers_can_refuse_commands() {
    let shell = Fixture::new("mem: | readonly");
    let errors = shell.errors("mkdir d; echo x > f");
    assert_eq!(
        errors,
        "plyfs: mkdir: d: Read-only file system (EROFS)\nplyfs: echo: f: Read-only file system (EROFS)\n"
    );
}

#[test]
fn permissions_of_the_caller_apply() {
    let mut shell = Fixture::new("mem:");
    shell.output("echo secret > s; chmod 600 s; mkdir d; chmod 700 d");
    shell.caller = Caller::with_groups(12345, 12345, &[], 0o022);
    assert_eq!(
        shell.errors("cat s; ls d; cd d; rm s"),
        "\
        plyfs: cat: s: Permission denied (EACCES)\n\
        plyfs: ls: d: Permission denied (EACCES)\n\
        plyfs: cd: d: Permission denied (EACCES)\n\
        plyfs: rm: s: Permission denied (EACCES)\n"
    );
}

#[test]
fn help_lists_every_command() {
    let shell = Fixture::new("mem:");
    let text = shell.output("help");
    assert!(COMMANDS.iter().all(|command| text.contains(command.usage)));
    assert_eq!(shell.output("help pwd").lines().count(), 1);
    assert_eq!(shell.output("exit; nonsense"), "");
}

#[test]
fn non_utf8_names_survive() {
    let shell = Fixture::new("mem:");
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut session =
        Session::new(shell.file_system.clone(), shell.caller.clone(), &COMMANDS, &mut output, &mut errors);
    session.run(OsStr::from_bytes(b"echo x > a\xffb; ls").as_bytes());
    assert_eq!((output, errors), (b"a\xffb\n".to_vec(), Vec::new()));
}

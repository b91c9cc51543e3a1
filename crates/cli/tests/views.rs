//! Views in mounted unions: real processes, each of which sees and writes what its view has.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use support::{Scratch, can_mount, copy_program, run, umount, wait_until};

/// A user without a name.
const USER: u32 = 54_321;

/// A shell that does what it is told.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    /// The program, as the user, or as who runs the test.
    fn new(program: &str, arguments: &[&str], user: Option<u32>) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn plain() -> Self {
        Self::new("sh", &[], None)
    }

    fn id(&self) -> String {
        self.child.id().to_string()
    }

    /// What it prints, and `failed` if it fails.
    fn run(&mut self, commands: &str) -> String {
        writeln!(self.input, "{{ {commands}\n}} || echo failed; echo done-with-it").unwrap();
        let mut lines = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the shell has ended: {lines}");
            match line.strip_suffix("done-with-it\n") {
                Some(rest) => return (lines + rest).trim_end().to_owned(),
                None => lines += &line,
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A union of directories that everybody may change, mounted for all.
fn mounted(scratch: &Scratch) -> String {
    for name in ["upper", "lower", "private", "other"] {
        make_open(&scratch.path(name));
    }
    make_open(&scratch.path("upper/d"));
    for (file, text) in [("upper/d/f", "shared"), ("lower/below", "lower"), ("upper/d/gone", "")] {
        fs::write(scratch.path(file), text).unwrap();
        open(&scratch.path(file));
    }
    let mount = scratch.name("mount");
    let stack = format!("{}=rw, {}=ro | union", scratch.name("upper"), scratch.name("lower"));
    run(["mount", "-o", "allow_other", &stack, &mount]).succeeded();
    mount
}

fn make_open(path: &Path) {
    fs::create_dir_all(path).unwrap();
    open(path);
}

fn open(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

/// What one view writes: `mine` changes, and nobody else sees it.
fn writes_apart(mount: &str, private: &Path, mine: &mut Shell, others: &mut Shell) {
    others.run(&format!("cd {mount}/d || exit; cat f ../below"));
    mine.run(&format!(
        "cd {mount}/d || exit; cat f ../below; echo mine > f; echo mine > ../below; echo new > new; rm gone; mkdir own"
    ));
    assert_eq!(mine.run("ls; cat f ../below new"), "f\nnew\nown\nmine\nmine\nnew");
    assert_eq!(others.run("ls; cat f ../below"), "f\ngone\nsharedlower");
    assert_eq!(others.run("cat new"), "failed");
    assert_eq!(others.run("cd own"), "failed");
    assert_eq!(fs::read_to_string(private.join("d/f")).unwrap(), "mine\n");
    // What the others write is there at once, where nothing of its own hides it.
    for round in 0..5 {
        others.run(&format!("echo {round} > late; echo {round} > f"));
        assert_eq!(mine.run("cat late f"), format!("{round}\nmine"));
        mine.run("cat late; ls");
        others.run("rm late");
        assert_eq!((mine.run("cat late"), mine.run("ls")), ("failed".to_owned(), "f\nnew\nown".to_owned()));
    }
    assert_eq!(mine.run("/bin/pwd"), format!("{mount}/d"));
    assert_eq!(others.run("/bin/pwd"), format!("{mount}/d"));
}

#[test]
fn a_user_has_a_view() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    open(&scratch.path(""));
    let mount = mounted(&scratch);
    let (mut mine, mut others) = (Shell::new("sh", &[], Some(USER)), Shell::plain());
    let private = scratch.name("private");
    // It has looked around before: nothing of that may be believed afterwards.
    assert_eq!(mine.run(&format!("cd {mount}/d; ls; cat f; cat nothing")), "f\ngone\nsharedfailed");
    let list = run(["union", "view", "add", &mount, "--uid", &USER.to_string(), &private]).succeeded();
    assert_eq!(list, format!("uid:{USER} = {private}\n"));
    writes_apart(&mount, &scratch.path("private"), &mut mine, &mut others);
    // A file that both have open.
    let mut file = fs::File::options().append(true).open(scratch.path("mount/d/f")).unwrap();
    file.write_all(b"more").unwrap();
    assert_eq!(mine.run("cat f"), "mine");
    assert_eq!(run(["union", "view", "list", &mount]).succeeded(), list);
    let busy = run(["union", "add", &mount, &private]);
    assert!(busy.code != 0 && busy.errors.contains("private branch"), "{busy:?}");
    let check = run(["union", "check", &private]);
    assert!(check.code != 0 && check.errors.contains("is using the branch"), "{check:?}");
    // A descriptor goes on in the view that it was opened in, whoever inherits it.
    let inherited =
        format!("exec 8<> d/f; setpriv --reuid {USER} --clear-groups sh -c 'echo by-another >&8; cat d/f'; cat d/f");
    assert_eq!(Shell::plain().run(&format!("cd {mount}; {inherited}")), "mine\nby-another");
    assert_eq!(mine.run("cat f"), "mine");
    mine.run("exec 7< f");
    assert_eq!(run(["union", "view", "remove", &mount, &private]).succeeded(), "");
    assert_eq!(mine.run("cat <&7"), "failed", "what is open there is stale");
    assert_eq!(mine.run("cd .. && cd d && ls"), "f\ngone");
    assert_eq!(fs::read_to_string(scratch.path("private/d/new")).unwrap(), "new\n");
    drop((mine, file, others));
    umount(&mount);
}

#[test]
fn a_process_and_its_descendants_have_a_view() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch);
    let (mut mine, mut others) = (Shell::plain(), Shell::plain());
    run(["union", "view", "add", &mount, "--pid", &mine.id(), &scratch.name("private")]).succeeded();
    writes_apart(&mount, &scratch.path("private"), &mut mine, &mut others);
    assert_eq!(mine.run("sh -c 'sh -c \"cat f; cat f\"; true'"), "mine\nmine");
    // One that outlives its parent. Without births it is known by its session, as the session's leader was seen.
    let orphan = "sh -c 'sleep 0.1; while ! test -e go; do sleep 0.05; done; echo orphan > orphaned; cat f > seen'";
    match births_are_told() {
        true => mine.run(&format!("({orphan} & )")),
        false => {
            mine.run(&format!("setsid sh -c \"cat f; ({orphan} & ); while ! test -e seen; do sleep 0.05; done\" &"))
        }
    };
    mine.run("sleep 0.2; touch go; wait");
    wait_until("the orphan has written", || mine_has(&scratch, "private/d/seen", "mine\n"));
    assert_eq!(others.run("cat orphaned"), "failed");
    let wrong = run(["union", "view", "add", &mount, "--pid", "4194304", &scratch.name("other")]);
    assert!(wrong.code != 0 && wrong.errors.contains("running process"), "{wrong:?}");
    drop((mine, others));
    umount(&mount);
}

/// Whether the kernel tells of the births of processes: to root outside of containers.
fn births_are_told() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace.as_os_str() == "pid:[4026531836]")
}

fn mine_has(scratch: &Scratch, path: &str, text: &str) -> bool {
    fs::read_to_string(scratch.path(path)).is_ok_and(|found| found == text)
}

#[test]
fn a_session_and_a_program_have_a_view() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch);
    let program = scratch.name("program");
    copy_program("/bin/sh", &program);
    let mut others = Shell::plain();
    let mut mine = Shell::new("setsid", &["sh"], None);
    mine.run("true");
    run(["union", "view", "add", &mount, "--session", &mine.id(), &scratch.name("private")]).succeeded();
    run(["union", "view", "add", &mount, "--executable", &program, &scratch.name("other")]).succeeded();
    writes_apart(&mount, &scratch.path("private"), &mut mine, &mut others);
    let mut special = Shell::new(&program, &[], None);
    special.run(&format!("cd {mount}/d; echo special > only; echo special > f"));
    assert_eq!(special.run("read line < f; echo $line; cat f only"), "special\n4\nfailed", "cat is another program");
    assert_eq!(others.run("cat only"), "failed");
    assert_eq!(mine.run("cat only"), "failed");
    // The first rule decides.
    assert_eq!(mine.run(&format!("{program} -c 'read line < f; echo $line'")), "mine");
    drop((mine, others, special));
    umount(&mount);
}

#[test]
fn what_a_view_removes_or_renames_others_stay_in() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let mount = mounted(&scratch);
    let (mut mine, mut others) = (Shell::plain(), Shell::plain());
    run(["union", "view", "add", &mount, "--pid", &mine.id(), &scratch.name("private")]).succeeded();
    others.run(&format!("mkdir {mount}/e {mount}/t; cd {mount}/e"));
    assert_eq!(
        mine.run(&format!("cd {mount}; ls -d e d; rmdir e; ls -d e; mv d t/x; ls -d d t/x t/x/f")),
        "d\ne\nt/x\nt/x/f\nfailed"
    );
    assert_eq!(
        others.run("echo here > file; mkdir sub; ls; ls ../d; /bin/pwd"),
        format!("file\nsub\nf\ngone\n{mount}/e")
    );
    assert_eq!(mine.run("mkdir e; cd e; ls; echo mine > own; /bin/pwd"), format!("{mount}/e"));
    assert_eq!(others.run("ls; /bin/pwd"), format!("file\nsub\n{mount}/e"));
    assert_eq!(mine.run("ls; cd ..; rm -r e; ls; mkdir n; mv n t/n; rm -r t; ls"), "own\nbelow\nt\nbelow");
    assert_eq!(others.run("ls; ls ..; cd ..; rm -r e t; ls"), "file\nsub\nbelow\nd\ne\nt\nbelow\nd");
    // The other way round.
    others.run("mkdir k; cd ..");
    assert_eq!(mine.run("cd k; echo mine > own; ls"), "own");
    assert_eq!(others.run(&format!("cd {mount}; ls k; rm -r k; ls -d k")), "failed");
    assert_eq!(mine.run("echo more > more; mkdir sub; ls; cat own more"), "more\nown\nsub\nmine\nmore");
    assert_eq!(mine.run(&format!("ls {mount}/k; rm -r {mount}/k; ls {mount}")), "more\nown\nsub\nbelow");
    drop((mine, others));
    umount(&mount);
}

#[test]
fn views_are_defined_in_the_stack() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    open(&scratch.path(""));
    for name in ["upper", "private"] {
        make_open(&scratch.path(name));
    }
    fs::write(scratch.path("upper/f"), "shared").unwrap();
    open(&scratch.path("upper/f"));
    let mount = scratch.name("mount");
    let view = format!("uid:{USER}={}", scratch.name("private"));
    let stack = format!("{} | union(views=\"{view}\")", scratch.name("upper"));
    run(["mount", "-o", "allow_other", &stack, &mount]).succeeded();
    let mut mine = Shell::new("sh", &[], Some(USER));
    assert_eq!(mine.run(&format!("cd {mount}; cat f; echo mine > f; cat f")), "sharedmine");
    assert_eq!(fs::read_to_string(scratch.path("mount/f")).unwrap(), "shared");
    // What a process sees of another's files and directories through /proc is its own, or nothing.
    mine.run("mkdir own; exec 7< f; cd own");
    let proc = |what: &str| format!("/proc/{}/{what}", mine.id());
    assert!(fs::read_dir(proc("cwd")).is_err());
    assert!(fs::read(proc("fd/7")).is_err());
    drop(mine);
    umount(&mount);
}

/// The other tests in a container: processes outside of it have no number there, nor have their sessions.
#[test]
fn views_work_in_a_container() {
    if !can_mount() {
        return;
    }
    let mut tests = Command::new("unshare");
    tests.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(std::env::current_exe().unwrap());
    let tests = tests.args(["--skip", "views_work_in_a_container"]).output().unwrap();
    let output = String::from_utf8_lossy(&tests.stdout);
    assert!(tests.status.success() && output.contains(" 5 passed; 0 failed"), "{output}");
}

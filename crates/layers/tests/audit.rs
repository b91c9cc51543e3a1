//! `audit`: what is reported of what several callers do, and what is refused.

mod common;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{create, layer, list, memory, name, root, user, walk};
use serde_json::Value;
use vnode::layer::{Layer, LayerVnode, stack};
use vnode::{
    AccessControl, Caller, Control, ControlError, Creation, Device, Errno, FileKind, FileSystemRef, Name, OpenFlags,
    Promises, RenameMode, SetAttributes, XattrMode,
};

const NONE: SetAttributes =
    SetAttributes { mode: None, uid: None, gid: None, size: None, atime: None, mtime: None, kill_privileges: false };

/// A stack with `audit` on top, and the file that it writes to.
struct Audited {
    upper: FileSystemRef,
    lower: FileSystemRef,
    log: PathBuf,
    _directory: tempfile::TempDir,
}

impl Audited {
    /// Over a home directory of user 1000 with a private directory and a file in it.
    fn new(options: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("audit.log");
        let lower = memory();
        let home = lower.root().mkdir(&root(), name("home"), 0o755).unwrap().vnode;
        home.setattr(&root(), &SetAttributes { uid: Some(1000), gid: Some(1000), ..NONE }).unwrap();
        let private = home.mkdir(&user(1000), name("private"), 0o700).unwrap().vnode;
        create(&private, &user(1000), "diary", 0o600);
        create(&home, &user(1000), "notes", 0o600);
        let options: Vec<_> = [("to", log.to_str().unwrap())].into_iter().chain(options.iter().copied()).collect();
        Self { upper: layer("audit", &options, lower.clone()), lower, log, _directory: directory }
    }

    /// The first `count` lines, once they are there; then sees that there are no more.
    fn lines(&self, count: usize) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(&self.log).unwrap();
            let lines: Vec<&str> = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
            assert!(lines.len() <= count, "{text}");
            if lines.len() == count && self.stats().ends_with("waiting=0") {
                return lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            }
            assert!(start.elapsed() < Duration::from_secs(10), "{count} lines expected:\n{text}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn control(&self, command: &str) -> Result<String, ControlError> {
        let command = Control { target: "audit".to_owned(), command: command.to_owned(), arguments: Vec::new() };
        self.upper.control(&command)
    }

    fn stats(&self) -> String {
        self.control("stats").unwrap()
    }
}

#[test]
fn strangers_who_are_denied_or_guess_are_reported_and_nobody_else() {
    let audited = Audited::new(&[]);
    let home = walk(&audited.upper, &root(), "home").unwrap().vnode;
    let private = walk(&audited.upper, &root(), "home/private").unwrap().vnode;
    let notes = walk(&audited.upper, &root(), "home/notes").unwrap().vnode;
    for caller in [root(), user(1000)] {
        private.lookup(&caller, name("diary")).unwrap();
        assert_eq!(private.lookup(&caller, name("nothing")).map(drop), Err(Errno::ENOENT));
        assert_eq!(home.lookup(&caller, name("nothing")).map(drop), Err(Errno::ENOENT));
    }
    assert_eq!(private.lookup(&Caller::server(), name("nothing")).map(drop), Err(Errno::ENOENT));
    let thief = Caller::process(std::process::id(), 7, 8, 0);
    home.lookup(&thief, name("notes")).unwrap();
    assert_eq!(private.lookup(&thief, name("diary")).map(drop), Err(Errno::EACCES));
    assert_eq!(home.lookup(&thief, name("guess")).map(drop), Err(Errno::ENOENT));
    assert_eq!(notes.open(&thief, OpenFlags::READ_WRITE).map(drop), Err(Errno::EACCES));
    assert_eq!(private.open_directory(&thief).map(drop), Err(Errno::EACCES));
    assert_eq!(notes.setattr(&thief, &SetAttributes { mode: Some(0o777), ..NONE }), Err(Errno::EPERM));
    let lines = audited.lines(5);
    let told: Vec<_> = lines
        .iter()
        .map(|line| ["operation", "path", "result"].map(|key| line[key].as_str().unwrap().to_owned()))
        .collect();
    let expected = [
        ["lookup", "/home/private/diary", "EACCES"],
        ["lookup", "/home/guess", "ENOENT"],
        ["open", "/home/notes", "EACCES"],
        ["opendir", "/home/private", "EACCES"],
        ["setattr", "/home/notes", "EPERM"],
    ];
    assert_eq!(told, expected);
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    for line in &lines {
        assert_eq!((&line["uid"], &line["gid"], &line["pid"]), (&7.into(), &8.into(), &std::process::id().into()));
        assert_eq!(line["process"], comm.trim_end_matches('\n'));
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == "2026-01-01T00:00:00.000000000Z".len() && time.ends_with('Z'), "{time}");
        assert!(time.parse::<jiff::Timestamp>().is_ok());
    }
    assert_eq!(lines[0]["name"], "diary");
    assert_eq!(lines[2]["flags"], "O_RDWR");
    assert_eq!(lines[4]["mode"], "0777");
    let properties = audited.upper.properties();
    assert!(properties.allows_bypass() && properties.needs.failed_lookups);
    assert!(!properties.needs.every_lookup && !properties.needs.fresh_attributes);
}

#[test]
fn rules_choose_by_operation_path_user_and_result() {
    let audited = Audited::new(&[
        ("operations", "unlink:rename:mkdir:link"),
        ("path", "/home/**"),
        ("uid", "1000-1001"),
        ("result", "ok:EEXIST"),
    ]);
    let home = walk(&audited.upper, &root(), "home").unwrap().vnode;
    let alice = user(1000);
    home.mkdir(&alice, name("new"), 0o755).unwrap();
    assert_eq!(home.mkdir(&alice, name("new"), 0o755).map(drop), Err(Errno::EEXIST));
    home.mkdir(&root(), name("other"), 0o755).unwrap();
    audited.upper.root().mkdir(&alice, name("elsewhere"), 0o755).unwrap();
    let notes = home.lookup(&alice, name("notes")).unwrap().vnode;
    home.link(&alice, &notes, name("link")).unwrap();
    home.rename(&alice, name("link"), &audited.upper.root(), name("away"), RenameMode::NoReplace).unwrap();
    assert_eq!(home.unlink(&alice, name("nothing")), Err(Errno::ENOENT));
    home.unlink(&alice, name("notes")).unwrap();
    let lines = audited.lines(5);
    let keys = ["operation", "path", "result", "new_path", "target_path", "rename_mode"];
    let told: Vec<_> = lines.iter().map(|line| keys.map(|key| line[key].as_str().unwrap_or(""))).collect();
    assert_eq!(
        told,
        [
            ["mkdir", "/home/new", "ok", "", "", ""],
            ["mkdir", "/home/new", "EEXIST", "", "", ""],
            ["link", "/home/link", "ok", "", "/home/notes", ""],
            ["rename", "/home/link", "ok", "/away", "", "NoReplace"],
            ["unlink", "/home/notes", "ok", "", "", ""],
        ]
    );
    assert!(!audited.upper.properties().needs.failed_lookups);
}

#[test]
fn files_of_rules_are_read_and_their_mistakes_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules");
    let text = "# who reads what\nignore uid=1001\nreport operations=open:read:write result=ok path=\"home/*\"\n";
    std::fs::write(&path, text).unwrap();
    let audited = Audited::new(&[("rules", path.to_str().unwrap())]);
    assert!(!audited.upper.properties().allows_bypass());
    let notes = walk(&audited.upper, &root(), "home/notes").unwrap().vnode;
    let open = notes.open(&user(1000), OpenFlags::READ_WRITE).unwrap();
    open.write_at(&user(1000), 3, b"text").unwrap();
    open.write_at(&user(1001), 3, b"text").unwrap();
    open.read_at(&user(1000), 0, &mut [0; 9]).unwrap();
    let lines = audited.lines(3);
    assert_eq!(lines[1]["operation"], "write");
    assert_eq!((&lines[1]["offset"], &lines[1]["length"]), (&3.into(), &4.into()));

    std::fs::write(&path, "report\nreport uid=x y\n").unwrap();
    let pairs = [("rules".to_owned(), path.to_str().unwrap().to_owned())];
    let message = plyfs_layers::audit::create(&pairs).unwrap_err().to_string();
    assert!(message.contains("rules, line 2: `uid` cannot be `x`"), "{message}");
    let missing = plyfs_layers::audit::create(&[("rules".to_owned(), "/nowhere/rules".to_owned())]).unwrap_err();
    assert!(missing.to_string().contains("`/nowhere/rules`: No such file"), "{missing}");
    let both = [pairs[0].clone(), ("uid".to_owned(), "1".to_owned())];
    assert!(plyfs_layers::audit::create(&both).unwrap_err().to_string().contains("exclude each other"));
}

#[test]
fn names_of_any_bytes_make_valid_lines() {
    let audited = Audited::new(&[("operations", "mkdir:symlink")]);
    let odd = b"a\xff\"\\\n\x01\xe2\x98\xba";
    let root_directory = audited.upper.root();
    root_directory.mkdir(&root(), Name::new(odd).unwrap(), 0o755).unwrap();
    root_directory.symlink(&root(), Name::new("\u{263a}".as_bytes()).unwrap(), b"\xfe").unwrap();
    let lines = audited.lines(2);
    let hexadecimal: String = odd.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(lines[0]["name_hex"], hexadecimal);
    assert_eq!(lines[0]["path_hex"], format!("2f{hexadecimal}"));
    assert_eq!(lines[0]["name"], "a\u{fffd}\"\\\n\u{1}\u{263a}");
    assert_eq!((&lines[1]["name"], &lines[1]["name_hex"]), (&"\u{263a}".into(), &Value::Null));
    assert_eq!(lines[1]["target_hex"], "fe");
}

#[test]
fn lines_of_concurrent_callers_are_all_there() {
    const THREADS: u32 = 4;
    const EACH: usize = 500;
    let audited = Audited::new(&[("operations", "lookup"), ("queue", "100000")]);
    std::thread::scope(|scope| {
        for caller in 0..THREADS {
            let top = audited.upper.root();
            scope.spawn(move || {
                for number in 0..EACH {
                    let _ = top.lookup(&user(caller), name(&number.to_string()));
                }
            });
        }
    });
    let lines = audited.lines(EACH * THREADS as usize);
    for caller in 0..THREADS {
        let names = lines.iter().filter(|line| line["uid"] == caller).map(|line| line["name"].as_str().unwrap());
        assert!(names.eq((0..EACH).map(|number| number.to_string())), "in order");
    }
}

#[test]
fn the_file_is_opened_again_for_rotation() {
    let audited = Audited::new(&[("operations", "mkdir")]);
    let top = audited.upper.root();
    top.mkdir(&root(), name("one"), 0o755).unwrap();
    audited.lines(1);
    let rotated = audited.log.with_extension("1");
    std::fs::rename(&audited.log, &rotated).unwrap();
    top.mkdir(&root(), name("two"), 0o755).unwrap();
    while std::fs::read_to_string(&rotated).unwrap().lines().count() < 2 {
        std::thread::yield_now();
    }
    assert_eq!(audited.control("reopen"), Ok(String::new()));
    top.mkdir(&root(), name("three"), 0o755).unwrap();
    assert_eq!(audited.lines(1)[0]["name"], "three");
    assert!(audited.stats().starts_with("written=3 dropped=0 unwritten=0"));
    let unknown = ControlError::UnknownCommand { target: "audit".to_owned(), command: "what".to_owned() };
    assert_eq!(audited.control("what"), Err(unknown));
}

#[test]
fn set_id_files_are_refused_to_users_and_not_to_root() {
    let audited = Audited::new(&[("refuse-setuid", "yes")]);
    let home = walk(&audited.upper, &root(), "home").unwrap().vnode;
    let alice = user(1000);
    let how = |mode| Creation { mode, flags: OpenFlags::READ_WRITE };
    for mode in [0o4755, 0o2755] {
        assert_eq!(home.create(&alice, name("x"), &how(mode)).map(drop), Err(Errno::EPERM));
        assert_eq!(home.tmpfile(&alice, &how(mode)).map(drop), Err(Errno::EPERM));
        let node = home.mknod(&alice, name("x"), FileKind::Regular, mode, Device::default());
        assert_eq!(node.map(drop), Err(Errno::EPERM));
        let notes = home.lookup(&alice, name("notes")).unwrap().vnode;
        assert_eq!(notes.setattr(&alice, &SetAttributes { mode: Some(mode), ..NONE }), Err(Errno::EPERM));
        assert_eq!(notes.setattr(&root(), &SetAttributes { mode: Some(mode), ..NONE }).unwrap().mode, mode);
        notes.setattr(&alice, &SetAttributes { mode: Some(0o644), ..NONE }).unwrap();
    }
    let shared = home.mkdir(&alice, name("shared"), 0o755).unwrap().vnode;
    shared.setattr(&alice, &SetAttributes { mode: Some(0o2775), ..NONE }).unwrap();
    let lines = audited.lines(8);
    assert!(lines.iter().all(|line| line["refused_by"] == "refuse-setuid" && line["result"] == "EPERM"));
    assert_eq!((&lines[0]["operation"], &lines[0]["mode"]), (&"create".into(), &"4755".into()));
    assert_eq!(list(&home, &root()), ["notes", "private", "shared"]);
    assert_eq!(audited.upper.properties().promises.access_control, AccessControl::OpenAsShown);
}

#[test]
fn protected_files_stay_as_they_are_whoever_comes() {
    let audited = Audited::new(&[("protect", "bin/login:/home/private/*")]);
    let bin = audited.lower.root().mkdir(&root(), name("bin"), 0o755).unwrap().vnode;
    create(&bin, &root(), "login", 0o755);
    create(&bin, &root(), "other", 0o755);
    let top = audited.upper.root();
    let bin = walk(&audited.upper, &root(), "bin").unwrap().vnode;
    let login = walk(&audited.upper, &root(), "bin/login").unwrap().vnode;
    let other = walk(&audited.upper, &root(), "bin/other").unwrap().vnode;
    let how = Creation { mode: 0o755, flags: OpenFlags::WRITE };
    let rename = |from: &str, to: &str, mode| bin.rename(&root(), name(from), &bin, name(to), mode);
    let refused = [
        login.open(&root(), OpenFlags::WRITE).map(drop),
        login.open(&root(), OpenFlags::READ.with(OpenFlags::TRUNCATE)).map(drop),
        login.setattr(&root(), &SetAttributes { size: Some(0), ..NONE }).map(drop),
        login.setattr(&root(), &SetAttributes { mode: Some(0o4755), ..NONE }).map(drop),
        login.setxattr(&root(), b"user.x", b"", XattrMode::Set),
        bin.create(&root(), name("login"), &how).map(drop),
        bin.unlink(&root(), name("login")),
        rename("login", "moved", RenameMode::Replace),
        rename("other", "login", RenameMode::Replace),
        rename("other", "login", RenameMode::Exchange),
        bin.link(&root(), &login, name("alias")).map(drop),
        top.rename(&root(), name("bin"), &top, name("sbin"), RenameMode::Replace),
        top.rename(&root(), name("home"), &top, name("bin"), RenameMode::Exchange),
        walk(&audited.upper, &root(), "home/private").unwrap().vnode.unlink(&user(1000), name("diary")),
    ];
    assert!(refused.iter().all(|result| *result == Err(Errno::EPERM)), "{refused:?}");
    login.open(&user(5), OpenFlags::READ).unwrap();
    other.open(&root(), OpenFlags::WRITE).unwrap();
    bin.link(&root(), &other, name("alias")).unwrap();
    rename("alias", "more", RenameMode::Replace).unwrap();
    bin.unlink(&root(), name("more")).unwrap();
    login.setattr(&Caller::server(), &SetAttributes { mode: Some(0o700), ..NONE }).unwrap();
    let lines = audited.lines(refused.len());
    assert!(lines.iter().all(|line| line["refused_by"] == "protect" && line["result"] == "EPERM"));
    assert_eq!(lines[0]["path"], "/bin/login");
}

#[test]
fn no_directory_gets_the_name_of_one_on_the_way_to_protected_files() {
    let audited = Audited::new(&[("protect", "q/y/*")]);
    let top = audited.upper.root();
    let x = top.mkdir(&root(), name("x"), 0o755).unwrap().vnode;
    let y = x.mkdir(&root(), name("y"), 0o755).unwrap().vnode;
    create(&y, &root(), "evil", 0o755);
    create(&top, &root(), "file", 0o644);
    let rename = |from: &str, to: &str, mode| top.rename(&root(), name(from), &top, name(to), mode);
    for mode in [RenameMode::Replace, RenameMode::NoReplace] {
        assert_eq!(rename("x", "q", mode), Err(Errno::EPERM), "{mode:?}");
    }
    assert_eq!(rename("missing", "q", RenameMode::Replace), Err(Errno::ENOENT));
    let q = top.mkdir(&root(), name("q"), 0o755).unwrap().vnode;
    assert_eq!(x.rename(&root(), name("y"), &q, name("y"), RenameMode::Replace), Err(Errno::EPERM));
    assert_eq!(rename("x", "q", RenameMode::Replace), Err(Errno::EPERM));
    assert_eq!(rename("x", "q", RenameMode::Exchange), Err(Errno::EPERM));
    x.rename(&root(), name("y"), &q, name("z"), RenameMode::Replace).unwrap();
    top.rename(&root(), name("file"), &q, name("y"), RenameMode::Replace).unwrap();
    assert_eq!(walk(&audited.upper, &root(), "q/y/evil").err(), Some(Errno::ENOTDIR));
}

#[test]
fn what_waits_is_written_before_the_stack_is_gone() {
    let Audited { upper, lower: _lower, log, _directory } = Audited::new(&[("operations", "mkdir")]);
    for number in 0..1000 {
        upper.root().mkdir(&root(), name(&number.to_string()), 0o755).unwrap();
    }
    drop(upper);
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 1000);
}

/// Does not know the paths of files, as a directory of which the kernel has forgotten the names.
struct Forgetful;

impl Layer for Forgetful {
    type State = ();

    fn kind(&self) -> &'static str {
        "forgetful"
    }

    fn promises(&self) -> Promises {
        Promises { names_untouched: false, ..Promises::TRANSPARENT }
    }

    fn decode_name<'a>(
        &self,
        _: &LayerVnode<Self>,
        _: &Caller,
        name: Name<'a>,
    ) -> Result<Option<Cow<'a, [u8]>>, Errno> {
        if name.as_bytes().starts_with(b"file") { Err(Errno::EOPNOTSUPP) } else { Ok(Some(name.as_bytes().into())) }
    }
}

#[test]
fn files_whose_paths_are_forgotten_below_are_known_by_where_they_were_seen() {
    let lower = stack(Forgetful, memory());
    let bin = lower.root().mkdir(&root(), name("bin"), 0o755).unwrap().vnode;
    let other = create(&bin, &root(), "file-other", 0o755).0;
    create(&bin, &root(), "file-login", 0o755);
    assert_eq!(other.path(), Err(Errno::EOPNOTSUPP));
    let handle = other.handle();
    let upper = layer("audit", &[("to", "/dev/null"), ("protect", "bin/file-login")], lower);
    let write = |vnode: &vnode::VnodeRef| vnode.open(&root(), OpenFlags::WRITE).map(drop);
    assert_eq!(write(&upper.resolve(&root(), &handle).unwrap()), Err(Errno::EPERM), "nobody knows what it is called");

    let other = walk(&upper, &root(), "bin/file-other").unwrap().vnode;
    let login = walk(&upper, &root(), "bin/file-login").unwrap().vnode;
    assert_eq!((write(&other), write(&login)), (Ok(()), Err(Errno::EPERM)));
    let bin = walk(&upper, &root(), "bin").unwrap().vnode;
    bin.rename(&root(), name("file-other"), &upper.root(), name("file"), RenameMode::Replace).unwrap();
    assert_eq!(write(&other), Ok(()));
    assert_eq!(bin.link(&root(), &login, name("file-alias")).map(drop), Err(Errno::EPERM));
    create(&bin, &root(), "file-new", 0o755);
    let handle = bin.lookup(&root(), name("file-new")).unwrap().vnode.handle();
    let new = upper.resolve(&root(), &handle).unwrap();
    assert_eq!(write(&new), Err(Errno::EPERM), "nobody held on to it");
}

/// The lines of proc_pid_status(5) of a thread that say by what rights it acts.
fn rights(thread: &std::path::Path) -> Vec<String> {
    const KEYS: [&str; 5] = ["Uid:", "Gid:", "Groups:", "CapEff:", "Umask:"];
    let status = std::fs::read_to_string(thread.join("status")).unwrap();
    let lines = status.lines().filter(|line| KEYS.iter().any(|key| line.starts_with(key)));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// A user whose operation is the first could else have the log written with their rights: not at all on a full disk, where the
/// server may take what is reserved.
#[test]
fn what_is_reported_is_written_with_the_servers_rights_whoever_is_reported_first() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let servers = rights(std::path::Path::new("/proc/thread-self"));
    let base = bases::dir::DirectoryFileSystem::open(directory.path(), bases::dir::Options::default()).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = [("to", log.path().to_str().unwrap()), ("operations", "mkdir")];
    let upper = layer("audit", &options, std::sync::Arc::new(base));
    let caller = Caller::with_groups(61_234, 61_235, &[61_236], 0o777);
    let before = writers();
    upper.root().mkdir(&caller, name("d"), 0o755).unwrap();
    assert_ne!(rights(std::path::Path::new("/proc/thread-self")), servers, "this tests nothing");
    bases::dir::restore_thread_credentials();
    let start = Instant::now();
    while std::fs::read_to_string(log.path()).unwrap().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "nothing is reported");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Those of other tests write for a base that acts for nobody.
    let new: Vec<PathBuf> = writers().into_iter().filter(|writer| !before.contains(writer)).collect();
    assert!(!new.is_empty());
    new.iter().for_each(|writer| assert_eq!(rights(writer), servers));
}

/// The threads that write what is reported.
fn writers() -> Vec<PathBuf> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let is_writer = |path: &PathBuf| std::fs::read(path.join("comm")).is_ok_and(|name| name == b"plyfs-audit\n");
    threads.filter(is_writer).collect()
}

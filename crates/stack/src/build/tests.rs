//! Tests of building: the stacks that are built, the errors and their locations, and the paths that become absolute.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bases::device::{Access, DeviceRef, FileDevice, find_volume};
use layers::OptionSpecification;
use layers::options::{Options, number};
use vnode::{Caller, Control, Errno, FileSystemRef, Name};

use super::*;
use crate::kinds::{BaseError, BaseKind, PARTITION};
use crate::search_path::SearchPath;
use crate::syntax::{parse, parse_layers};

/// Returns the column and message of the error from building `text`.
fn error(text: &str) -> (usize, String) {
    match build(&parse(text).unwrap()) {
        Err(error) => (error.span.column(), error.problem.to_string()),
        Ok(_) => panic!("{text} was built"),
    }
}

#[test]
fn layers_are_stacked_bottom_up() {
    let file_system = build(&parse("(mem: | longnames(suffix=.x)) | readonly").unwrap()).unwrap();
    let kinds: Vec<String> = file_system.describe().into_iter().map(|member| member.kind).collect();
    assert_eq!(kinds, ["mem", "longnames", "readonly"]);
    let created = file_system.root().mkdir(&Caller::server(), Name::new(b"d").unwrap(), 0o777);
    assert_eq!(created.err(), Some(Errno::EROFS));
    let text = crate::explain(file_system.as_ref());
    assert!(text.contains("  longnames suffix=.x\n") && text.contains("read-only"), "{text}");
}

#[test]
fn layers_stack_on_an_existing_file_system() {
    let base = build(&parse("mem:").unwrap()).unwrap();
    let stack = Registry::default().build_layers(base, &parse_layers("readonly").unwrap()).unwrap();
    assert!(stack.properties().needs.read_only);
}

#[test]
fn errors_point_at_their_cause() {
    let cases = [
        ("mam:", 1, "there is no kind of base 'mam'; did you mean 'mem'?"),
        ("x3y://bucket", 1, "there is no kind of base 'x3y'; there are dir, fat, iso and mem"),
        ("dir:", 1, "'dir:' needs a path"),
        ("mem:nonsense", 5, "`mem` has no option `nonsense`"),
        ("mem:(size=1g)", 6, "`mem` takes no options in parentheses; write mem:[OPTION=VALUE,...]"),
        ("dir:/(uid=1)", 7, "`dir` has no option `uid`"),
        ("/(uid=1)", 3, "`dir` has no option `uid`"),
        ("mem: | nothing", 8, "there is no layer 'nothing'; there are "),
        ("mem: | readonly(x=1)", 17, "`readonly` has no option `x`"),
        ("mem: | longnames(suffix=a, suffix=b)", 28, "option `suffix` of `longnames` is given twice; give it once"),
        ("mem: | longnames(suffix=\\xff)", 25, "the value of 'suffix' is not UTF-8"),
        ("mem: | ./rules.fist", 8, "cannot read ./rules.fist: No such file or directory"),
        ("mem:, mem: | readonly", 7, "several branches need a layer that joins them"),
        ("(mem:, mem:) | readonly", 8, "several branches need a layer that joins them"),
        ("mem:=ro | readonly", 6, "the mode 'ro' is for one of several branches"),
        ("mem:=rw(minimum=1g), mem: | union", 9, "`branch` has no option `minimum`; it has minimum-free"),
        (
            "mem:=rw(minimum-free=big), mem: | union",
            22,
            "option `minimum-free` of `branch` cannot be `big`: expected a number",
        ),
    ];
    for (text, column, message) in cases {
        let (found_column, found_message) = error(text);
        assert!(found_message.starts_with(message), "{text}: {found_message}");
        assert_eq!(found_column, column, "{text}: {found_message}");
    }
}

#[test]
fn missing_directory_is_named() {
    let error = build(&parse("/none/at/all | readonly").unwrap()).err().unwrap();
    assert!(matches!(error.problem, BuildProblem::Directory(_)));
    assert!(error.to_string().starts_with("there is no directory `/none/at/all`: "), "{error}");
}

#[test]
fn paths_become_absolute_and_nothing_else_does() {
    let cases = [
        ("data | readonly", "/home/me/data | readonly"),
        ("dir:data", "dir:/home/me/data"),
        ("/data", "/data"),
        ("mem:data", "mem:data"),
        ("(a | readonly)=ro, ../b=rw", "(/home/me/a | readonly)=ro, /home/me/../b=rw"),
        ("a | audit(to=log, rules=r, path=x)", "/home/me/a | audit(to=/home/me/log, rules=/home/me/r, path=x)"),
        ("a | audit(to=stderr)", "/home/me/a | audit(to=stderr)"),
        ("a | my.fist(to=log)", "/home/me/a | /home/me/my.fist(to=log)"),
        ("a | unknown(to=log)", "/home/me/a | unknown(to=log)"),
    ];
    for (text, absolute) in cases {
        let mut stack = parse(text).unwrap();
        Registry::default().make_absolute(&mut stack, Path::new("/home/me"));
        assert_eq!(stack.to_string(), absolute);
    }
}

/// Returns a registry whose search path is a directory with these programs.
fn registry_with_programs(programs: &[(&str, &str)]) -> (tempfile::TempDir, Registry) {
    let directory = tempfile::tempdir().unwrap();
    for (file, text) in programs {
        let path = directory.path().join(file);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let registry = Registry::default().with_search_path(SearchPath::new([directory.path().to_owned()]));
    (directory, registry)
}

#[test]
fn programs_on_the_search_path_are_layers_by_their_names() {
    let programs = [("hidefs.fist", "accessmode readonly;\n%%\n"), ("bothfs.fist", "fanout 2;\n%%\n")];
    let (directory, registry) = registry_with_programs(&programs);
    let build = |text: &str| registry.build(&parse(text).unwrap());
    assert!(build("mem: | hidefs").unwrap().properties().needs.read_only);
    assert!(build("(mem: | hide)=ro, mem:=rw | union").is_ok(), "also in branches, and without fs");
    assert!(build("mem:, mem: | both | readonly").is_ok(), "also as the layer that joins branches");
    let problem = |text: &str| build(text).err().unwrap().problem;
    assert!(matches!(problem("mem: | both"), BuildProblem::FanOut { needed: 2, given: 1, .. }));
    let path = fs::canonicalize(directory.path()).unwrap().join("hidefs.fist");
    let mut stack = parse("mem: | hide(tier=auto) | readonly").unwrap();
    registry.make_absolute(&mut stack, Path::new("/home/me"));
    assert_eq!(stack.to_string(), format!("mem: | {}(tier=auto) | readonly", path.display()));
}

#[test]
fn a_kind_of_layer_comes_before_a_program_of_its_name() {
    let (_directory, registry) = registry_with_programs(&[("readonly.fist", "fanout 2;\n%%\n")]);
    let mut stack = parse("mem: | readonly").unwrap();
    registry.make_absolute(&mut stack, Path::new("/"));
    assert_eq!(stack.to_string(), "mem: | readonly");
    assert!(registry.build(&stack).is_ok());
}

#[test]
fn an_unknown_name_is_reported_with_what_was_searched() {
    let (directory, registry) = registry_with_programs(&[("trashfs.fist", "%%\n")]);
    let message = |text: &str| registry.build(&parse(text).unwrap()).err().unwrap().problem.to_string();
    assert_eq!(message("mem: | trahsfs"), "there is no layer 'trahsfs'; did you mean 'trashfs'?");
    let nowhere = message("mem: | nothing");
    assert!(
        nowhere
            .contains(", rot13, throttle, trashfs and union; no FiST program nothing.fist or nothingfs.fist is in /"),
        "{nowhere}"
    );
    assert!(nowhere.ends_with(&directory.path().display().to_string()), "{nowhere}");
    assert_eq!(message("mem:, mem: | nothing"), nowhere, "also where it would join branches");
    fs::set_permissions(directory.path().join("trashfs.fist"), fs::Permissions::from_mode(0o666)).unwrap();
    let distrusted = message("mem: | trash");
    assert!(
        distrusted.starts_with("there is no layer 'trash'; /") && distrusted.contains("chmod go-w /"),
        "{distrusted}"
    );
}

#[test]
fn missing_branch_is_an_error_unless_omitted() {
    let error = |text: &str| error(text).1;
    assert!(error("mem:, /no/such=ro | union").contains("/no/such"));
    assert!(error("mem:, /no/such=ro | union(missing=fail)").contains("/no/such"));
    assert!(error("mem:, /no/such=ro | union(missing=maybe)").contains("fail or skip"));
    assert!(error("/no/such=rw, /nor/this=ro | union(missing=skip)").contains("/nor/this"), "nothing is left");
    assert!(error("mem:, /dev/null=ro | union(missing=skip)").contains("/dev/null"), "it is there, and no directory");
    let union = build(&parse("/no/such=rw, mem:=rw, (/nor/this | readonly) | union(missing=skip)").unwrap()).unwrap();
    let text = crate::explain(union.as_ref());
    assert!(text.contains("mem:=rw") && !text.contains("/no/such") && !text.contains("/nor/this"), "{text}");
}

/// Returns the branches that a union of this stack has, as they are listed.
fn branches(union: &FileSystemRef) -> Vec<String> {
    let control = |command: &str| Control { target: "union".into(), command: command.into(), arguments: Vec::new() };
    let list = union.control(&control("branches")).unwrap();
    list.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect()
}

#[test]
fn patterns_among_branches_are_expanded_and_rescanned() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    ["disk1", "disk3", ".disk4", "other"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    fs::write(at("disk5"), "").unwrap();
    let stack = |text: &str| text.replace("DIR", directory.path().to_str().unwrap());
    let text = stack("DIR/disk3=ro, DIR/disk*=rw(minimum-free=1m), DIR/[n-p]* | union");
    let union = build(&parse(&text).unwrap()).unwrap();
    assert_eq!(branches(&union), ["disk3=ro", "disk1=rw (minimum free 1m)", "other=ro"]);

    ["disk0", "disk2"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    let rescan = || {
        let control = Control { target: "union".into(), command: "rescan".into(), arguments: Vec::new() };
        union.control(&control).unwrap()
    };
    let report = stack("added DIR/disk0=rw(minimum-free=1m)\nadded DIR/disk2=rw(minimum-free=1m)\n");
    assert_eq!((rescan(), rescan().as_str()), (report, "nothing has changed\n"));
    let added = ["disk3=ro", "disk0=rw (minimum free 1m)", "disk1=rw (minimum free 1m)", "disk2=rw (minimum free 1m)"];
    assert_eq!(branches(&union)[..4], added);
    fs::remove_dir_all(at("disk2")).unwrap();
    assert!(rescan().starts_with(&stack("vanished DIR/disk2 ")));
    assert_eq!(branches(&union).len(), 5, "it stays until it is removed");
}

/// A file system mounted at a directory until this is dropped.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: PathBuf) -> Self {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&at).status().unwrap();
        assert!(mounted.success(), "{}", at.display());
        Self(at)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn patterns_do_not_lead_out_by_the_symlinks_of_others() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: to be the superuser, and others, needs root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    ["private/sub", "disks/disk1", "homes/one"].iter().for_each(|path| fs::create_dir_all(at(path)).unwrap());
    let link = |to: &str, name: &str, owner: u32| {
        std::os::unix::fs::symlink(at(to), at(name)).unwrap();
        std::os::unix::fs::lchown(at(name), Some(owner), Some(owner)).unwrap();
    };
    link("private", "disks/disk0", 65_534);
    link("private", "disks/disk2", 0);
    link("private/sub", "homes/one/shared", 65_534);
    let stack = |text: &str| text.replace("DIR", directory.path().to_str().unwrap());
    let union = build(&parse(&stack("mem:=rw, DIR/disks/disk*=rw, DIR/homes/*/shared | union(missing=skip)")).unwrap());
    let union = union.unwrap();
    assert_eq!(branches(&union), ["mem:=rw", "disk1=rw", "disk2=rw", "shared=missing"]);
    link("private", "disks/disk3", 65_534);
    let rescan = Control { target: "union".into(), command: "rescan".into(), arguments: Vec::new() };
    assert_eq!(union.control(&rescan).unwrap(), "nothing has changed\n");

    // Who may change what a pattern finds may do so between the search and the opening, and afterwards.
    let text = stack("DIR/disks/disk*=rw, mem: | union");
    let (found, patterns) = super::patterns::expand(&parse(&text).unwrap().source);
    let opened = || layers::Branch {
        file_system: build(&parse(&stack("DIR/private")).unwrap()).unwrap(),
        mode: None,
        label: String::new(),
        minimum_free: None,
    };
    let check = || super::patterns::check_opened(&patterns, &found[0], &opened());
    assert!(check().unwrap_err().ends_with("/disks/disk1 was replaced while it was opened"));
    // The roots of two file systems have one number.
    let mounted = [at("private"), at("disks/disk1")].map(Tmpfs::mount);
    assert!(check().unwrap_err().ends_with("/disks/disk1 was replaced while it was opened"));
    drop(mounted);
    fs::remove_dir(at("disks/disk1")).unwrap();
    link("private", "disks/disk1", 65_534);
    assert!(check().unwrap_err().contains("/disks/disk1 has the symlink disk1 of user 65534"));
}

#[test]
fn patterns_without_matches_are_missing_branches() {
    let directory = tempfile::tempdir().unwrap();
    let stack = |text: &str| text.replace("DIR", directory.path().to_str().unwrap());
    let missing = error(&stack("mem:, DIR/disk*=ro | union")).1;
    assert!(missing.contains("disk*"), "{missing}");
    let union = build(&parse(&stack("mem:=rw, DIR/disk*=ro | union(missing=skip)")).unwrap()).unwrap();
    assert_eq!(branches(&union), ["mem:=rw", "disk*=missing"]);
    fs::create_dir(directory.path().join("disk*")).unwrap();
    let literal = build(&parse(&stack("mem:=rw, DIR/disk*=ro | union")).unwrap()).unwrap();
    assert_eq!(branches(&literal), ["mem:=rw", "disk*=ro"], "what exists as it is written is no pattern");
}

#[test]
fn only_the_written_part_of_a_relative_pattern_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("[ab]");
    ["[ab]/disk1", "a/disk2"].iter().for_each(|path| fs::create_dir_all(directory.path().join(path)).unwrap());
    let mut stack = parse("mem:=rw, disk?=ro | union").unwrap();
    Registry::default().make_absolute(&mut stack, &inner);
    assert_eq!(branches(&build(&stack).unwrap()), ["mem:=rw", "disk1=ro"]);
}

/// Returns a layer of this name from elsewhere.
const fn locked(name: &'static str) -> layers::Kind {
    layers::Kind::over(name, "refuses every change", &[], |pairs, lower| {
        layers::kind("readonly").expect("the layer is built in").stack(pairs, lower)
    })
}

#[test]
fn layers_from_elsewhere_are_built_and_suggested() {
    let registry = Registry::default().with_layer(locked("locked"));
    let build = |text: &str| registry.build(&parse(text).unwrap());
    assert!(build("mem: | locked").unwrap().properties().needs.read_only);
    assert!(build("mem:, (mem: | locked) | union").is_ok());
    let message = |text: &str| build(text).err().unwrap().problem.to_string();
    assert_eq!(message("mem: | loked"), "there is no layer 'loked'; did you mean 'locked'?");
    assert!(
        message("mem: | locked(x=1)").starts_with("`locked` has no option `x`"),
        "{}",
        message("mem: | locked(x=1)")
    );
    assert!(error("mem: | locked").1.starts_with("there is no layer 'locked'"), "only that registry has it");
    assert!(registry.layers().is_sorted_by_key(|kind| kind.name));
}

#[test]
fn a_layer_from_elsewhere_replaces_one_of_the_same_name() {
    let registry = Registry::default().with_layer(locked("rot13"));
    assert!(registry.build(&parse("mem: | rot13").unwrap()).unwrap().properties().needs.read_only);
    assert_eq!(registry.layers().len(), Registry::default().layers().len());
}

#[test]
fn branches_added_later_may_have_layers_from_elsewhere() {
    let registry = Registry::default().with_layer(locked("locked"));
    let union = registry.build(&parse("mem: | union").unwrap()).unwrap();
    let branch = ("branch".to_owned(), "(mem: | locked)=ro".to_owned());
    let command = vnode::Control { target: "union".into(), command: "add".into(), arguments: vec![branch] };
    assert!(union.control(&command).unwrap().contains("mem: | locked"));
}

/// Contents that the kind of base `disk` recognises.
const DISK_MARK: &[u8] = b"disk of the tests";

const DISK_OPTIONS: &[OptionSpecification] = &[
    OptionSpecification { key: "log", value: "FILE", summary: "log to this file" },
    OptionSpecification { key: PARTITION, value: "NUMBER", summary: "use this partition" },
    OptionSpecification { key: "uid", value: "UID", summary: "owner of the root (default 0)" },
];

/// A kind of base on files and devices, which are recognised. Its root is empty.
const DISK: BaseKind = BaseKind::new("disk", "PATH", "a disk of the tests", open_disk)
    .with_probe("a disk of the tests", is_disk)
    .with_options(DISK_OPTIONS);

fn is_disk(device: &DeviceRef) -> vnode::Result<bool> {
    let mut start = [0; DISK_MARK.len()];
    if device.size() < start.len() as u64 {
        return Ok(false);
    }
    device.read_at(0, &mut start)?;
    Ok(start == DISK_MARK)
}

fn open_disk(location: &OsStr, options: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    let device: DeviceRef = Arc::new(FileDevice::open(Path::new(location), Access::Read)?);
    let partition = options.read(PARTITION, number::<u32>)?;
    find_volume(&device, partition, &mut is_disk)
        .map_err(|error| BaseError::Contents(format!("`{}` is no disk of the tests: {error}", location.display())))?;
    let uid = options.read("uid", number::<u32>)?.unwrap_or(0);
    Ok(Arc::new(bases::mem::MemoryFileSystem::new(bases::mem::Options { uid, ..Default::default() })))
}

/// A directory with files, and a registry with the kind of base `disk`.
struct Disks {
    directory: tempfile::TempDir,
    registry: Registry,
}

impl Disks {
    fn new() -> Disks {
        Disks { directory: tempfile::tempdir().unwrap(), registry: Registry::default().with_base(DISK) }
    }

    /// Writes a file of 64 KiB with the mark at these offsets, and, for more than one, partitions that begin there.
    fn add(&self, name: &str, marks: &[usize]) -> PathBuf {
        let mut contents = vec![0; 64 << 10];
        for (index, offset) in marks.iter().enumerate() {
            contents[*offset..*offset + DISK_MARK.len()].copy_from_slice(DISK_MARK);
            if marks.len() > 1 {
                let entry = 446 + 16 * index;
                contents[entry + 4] = 0x83;
                contents[entry + 8..entry + 12].copy_from_slice(&(*offset as u32 / 512).to_le_bytes());
                contents[entry + 12..entry + 16].copy_from_slice(&8_u32.to_le_bytes());
                contents[510..512].copy_from_slice(&[0x55, 0xaa]);
            }
        }
        let path = self.directory.path().join(name);
        fs::write(&path, contents).unwrap();
        path
    }

    /// Builds a stack in which `DIR` is the directory.
    fn build(&self, text: &str) -> Result<FileSystemRef, BuildError> {
        self.registry.build(&parse(&text.replace("DIR", self.directory.path().to_str().unwrap())).unwrap())
    }

    /// Returns the error from building, in whose text the directory is `DIR`.
    fn error(&self, text: &str) -> (BuildProblem, String) {
        let error = self.build(text).err().unwrap_or_else(|| panic!("{text} was built"));
        let message = error.to_string().replace(self.directory.path().to_str().unwrap(), "DIR");
        (error.problem, message)
    }

    /// Returns the owner of the root of a stack.
    fn owner(&self, text: &str) -> u32 {
        let built = self.build(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        built.root().getattr(&Caller::server()).unwrap().uid
    }
}

#[test]
fn bases_get_their_options() {
    let disks = Disks::new();
    disks.add("a.img", &[0]);
    assert_eq!(disks.owner("disk:DIR/a.img"), 0);
    assert_eq!(disks.owner("disk:DIR/a.img(uid=7)"), 7);
    assert_eq!(disks.owner("(disk:DIR/a.img(uid=7, log=x) | longnames) | readonly"), 7);
    let message = |text| disks.error(text).1;
    let unknown = message("disk:x(udi=7)");
    assert_eq!(unknown, "column 8: `disk` has no option `udi`; it has log, partition and uid; did you mean 'uid'?");
    assert!(message("disk:x(uid=1, uid=2)").starts_with("column 15: option `uid` of `disk` is given twice"));
    assert!(message("disk:DIR/a.img(uid=me)").contains("option `uid` of `disk` cannot be `me`: expected a number"));
    assert!(message("disk:x(uid=\\xff)").starts_with("column 12: the value of 'uid' is not UTF-8"));
    assert_eq!(message("disk:(uid=1)"), "column 1: 'disk:' needs a path; write disk:PATH");
}

#[test]
fn plain_paths_are_recognised_by_their_contents() {
    let disks = Disks::new();
    disks.add("a.img", &[0]);
    disks.add("other", &[]);
    fs::write(disks.directory.path().join("empty"), "").unwrap();
    assert_eq!(disks.owner("DIR/a.img(uid=7)"), 7);
    assert_eq!(disks.build("DIR").unwrap().describe()[0].kind, "dir");
    let expected = "`DIR/other` is neither a directory, nor a disk of the tests, nor a FAT file system, nor an ISO 9660 image; check the path, or \
                    name the kind of base, as in disk:DIR/other";
    assert_eq!(disks.error("DIR/other").1, expected);
    assert!(matches!(disks.error("DIR/empty").0, BuildProblem::Unrecognised { .. }));
    assert!(matches!(disks.error("dir:DIR/a.img").0, BuildProblem::Directory(_)));
    assert!(disks.error("DIR/a.img(udi=7)").1.contains("`disk` has no option `udi`"));
    assert!(disks.error("DIR(uid=7)").1.contains("`dir` has no option `uid`"));
    let contents = disks.error("disk:DIR/other").1;
    assert_eq!(
        contents,
        "`DIR/other` is no disk of the tests: neither it nor a partition of it has the expected contents"
    );
    // Without a kind of base that recognises it, a file is no directory.
    let plain = build(&parse(disks.directory.path().join("a.img").to_str().unwrap()).unwrap()).err().unwrap();
    assert!(
        plain.to_string().contains("is neither a directory, nor a FAT file system, nor an ISO 9660 image;"),
        "{plain}"
    );
}

#[test]
fn plain_paths_of_partitioned_disks_are_recognised_by_a_partition() {
    let disks = Disks::new();
    disks.add("two", &[4096, 8192]);
    let one = disks.add("one", &[4096, 8192]);
    let mut contents = fs::read(&one).unwrap();
    contents[8192] = 0;
    fs::write(&one, contents).unwrap();
    assert_eq!(disks.owner("DIR/one(uid=7)"), 7);
    assert_eq!(disks.owner("DIR/two(partition=2, uid=7)"), 7);
    let message = |text| disks.error(text).1;
    assert_eq!(
        message("DIR/two"),
        "cannot use `DIR/two`: it has several such partitions, 1 and 2; choose one with partition="
    );
    assert_eq!(message("DIR/two(partition=3)"), "cannot use `DIR/two`: it has no partition 3; it has 1 and 2");
    assert!(message("DIR/one(partition=2)").contains("partition 2 has other contents; choose another with partition="));
    assert!(message("DIR/one(partition=x)").contains("option `partition` of `disk` cannot be `x`: expected a number"));
}

#[test]
fn disks_in_use_or_missing_are_reported_as_such() {
    let disks = Disks::new();
    let path = disks.add("a.img", &[0]);
    let _writer = FileDevice::open(&path, Access::Write).unwrap();
    for text in ["disk:DIR/a.img", "DIR/a.img", "mem:, DIR/a.img=ro | union(missing=skip)"] {
        let error = disks.build(text).err().unwrap();
        assert!(error.is_in_use() && error.names_object() && !error.is_missing(), "{error}");
    }
    assert!(disks.build("disk:DIR/none").err().unwrap().is_missing());
    assert!(disks.build("mem:, disk:DIR/none=ro | union(missing=skip)").is_ok());
}

#[test]
fn paths_of_bases_and_their_options_become_absolute() {
    let registry = Registry::default().with_base(DISK);
    let cases = [
        ("disk:a.img(log=x, uid=y)", "disk:/home/me/a.img(log=/home/me/x, uid=y)"),
        ("a.img(log=x, uid=y)", "/home/me/a.img(log=/home/me/x, uid=y)"),
        ("dir:a(log=x)", "dir:/home/me/a(log=x)"),
        ("dir:a(workdir=w)", "dir:/home/me/a(workdir=/home/me/w)"),
        ("a(workdir=w)", "/home/me/a(workdir=/home/me/w)"),
        ("none:a(log=x)", "none:a(log=x)"),
    ];
    for (text, absolute) in cases {
        let mut stack = parse(text).unwrap();
        registry.make_absolute(&mut stack, Path::new("/home/me"));
        assert_eq!(stack.to_string(), absolute);
    }
}

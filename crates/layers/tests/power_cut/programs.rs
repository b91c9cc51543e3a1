//! Programs that synchronize what they do: whenever the power is cut, what was synchronized is there.

use std::fs;

use fastrand::Rng;
use plyfs_layers::Branch;
use vnode::{Caller, Creation, Errno, FileSystemRef, Name, OpenFileRef, OpenFlags};

use super::commits::with_random_syncs;
use super::operations::{DiskScenario, Layout, check, join};
use super::promises::PromiseHistory;
use super::scene::{Operation, Scenario, UnionOptions};
use super::state::state_of;
use super::steps::Step::{
    self, Chmod, Create, Fdatasync, Fsync, FsyncDirectory, FsyncOpen, Link, Mkdir, Open, Rename, Rmdir, Snapshot,
    Truncate, Unlink, Write, WriteSynchronously,
};
use super::steps::UnionUser;

/// Bytes of a file whose name ends with `big`.
const BIG_FILE_BYTES: usize = 20_000;

/// A union, and what is done with it.
pub(crate) struct Program {
    pub name: &'static str,
    options: UnionOptions,
    /// As those of a [`Scenario`].
    branches: Branches,
    steps: &'static [Step],
}

type Branches = &'static [(&'static str, &'static [&'static str])];

const fn program(name: &'static str, branches: Branches, steps: &'static [Step]) -> Program {
    Program { name, options: "", branches, steps }
}

const DEEP_BRANCHES: Branches = &[("rw", &[]), ("ro", &["a/b/c/big", "a/b/g", "other"])];
const HARD_LINKED_BRANCHES: Branches = &[("rw", &["x"]), ("ro", &["a/big", "a/g=a/big", "b/h=a/big"])];

pub(crate) const PROGRAMS: &[Program] = &[
    program("a new file", DEEP_BRANCHES, &[Create("/a/b/new", b'n'), Fsync("/a/b/new"), Write("/a/b/new", b'm')]),
    program(
        "a copied file",
        DEEP_BRANCHES,
        &[Write("/a/b/c/big", b'x'), Fsync("/a/b/c/big"), Write("/a/b/c/big", b'y')],
    ),
    program("the data of a copied file", DEEP_BRANCHES, &[Write("/a/b/c/big", b'x'), Fdatasync("/a/b/c/big")]),
    program("a synchronous write to a copied file", DEEP_BRANCHES, &[WriteSynchronously("/a/b/c/big", b'x')]),
    program("a copied file that is cut", DEEP_BRANCHES, &[Truncate("/a/b/c/big", 4000), Fdatasync("/a/b/c/big")]),
    program(
        "a file that is copied while it is open",
        DEEP_BRANCHES,
        &[Open("/a/b/c/big"), Write("/a/b/c/big", b'x'), FsyncOpen("/a/b/c/big")],
    ),
    program("attributes", DEEP_BRANCHES, &[Chmod("/a/b/g"), Fsync("/a/b/g"), Chmod("/a/b"), FsyncDirectory("/a/b")]),
    program(
        "the data of a file that was copied for its attributes",
        DEEP_BRANCHES,
        &[Chmod("/a/b/c/big"), Write("/a/b/c/big", b'x'), Fdatasync("/a/b/c/big")],
    ),
    program(
        "a removal",
        DEEP_BRANCHES,
        &[Unlink("/a/b/g"), FsyncDirectory("/a/b"), Unlink("/other"), FsyncDirectory("")],
    ),
    program(
        "a file in the place of a removed one",
        DEEP_BRANCHES,
        &[Unlink("/a/b/g"), FsyncDirectory("/a/b"), Create("/a/b/g", b'n'), Fsync("/a/b/g"), Unlink("/a/b/g")],
    ),
    program(
        "a directory in the place of a removed one",
        &[("rw", &["d/f"]), ("ro", &["d/f", "d/g", "e/h"])],
        &[
            Unlink("/d/f"),
            Unlink("/d/g"),
            Rmdir("/d"),
            FsyncDirectory(""),
            Mkdir("/d"),
            Create("/d/g", b'n'),
            Fsync("/d/g"),
            FsyncDirectory("/d"),
            FsyncDirectory(""),
        ],
    ),
    program(
        "a moved directory",
        &[("rw", &["d/f"]), ("ro", &["d/big", "e/h"])],
        &[
            Rename("/d", "/e/d"),
            FsyncDirectory("/e"),
            Write("/e/d/big", b'x'),
            Fdatasync("/e/d/big"),
            Rename("/e/d", "/c"),
            FsyncDirectory(""),
        ],
    ),
    program(
        "a file that is replaced",
        DEEP_BRANCHES,
        &[
            Create("/a/b/c/new", b'n'),
            Fsync("/a/b/c/new"),
            Rename("/a/b/c/new", "/a/b/c/big"),
            FsyncDirectory("/a/b/c"),
        ],
    ),
    program(
        "a file on the left that is replaced",
        &[("rw", &["g"]), ("rw", &["big"])],
        &[Write("/big", b'x'), Fsync("/big"), Rename("/big", "/g"), FsyncDirectory("")],
    ),
    program(
        "a file on the right that is replaced",
        &[("rw", &["big"]), ("rw", &["g", "h=g"])],
        &[Write("/big", b'x'), Fsync("/big"), Rename("/big", "/g"), FsyncDirectory("")],
    ),
    program(
        "a file with several names",
        HARD_LINKED_BRANCHES,
        &[
            Write("/a/big", b'x'),
            Fsync("/a/g"),
            Unlink("/b/h"),
            FsyncDirectory("/b"),
            Link("/a/g", "/n"),
            FsyncDirectory(""),
        ],
    ),
    program(
        "removals in two branches",
        &[("rw", &["f", "d/x"]), ("rw", &["f", "g", "d/y"]), ("ro", &["f", "d/y"])],
        &[Unlink("/f"), FsyncDirectory(""), Unlink("/g"), Unlink("/d/y"), FsyncDirectory("/d"), FsyncDirectory("")],
    ),
    Program {
        options: "metacopy=on",
        ..program(
            "the data of a metadata-only copy",
            DEEP_BRANCHES,
            &[Chmod("/a/b/c/big"), Fsync("/a/b/c/big"), Write("/a/b/c/big", b'x'), Fdatasync("/a/b/c/big")],
        )
    },
    Program {
        options: "metacopy=on",
        ..program(
            "a metadata-only copy that is cut",
            DEEP_BRANCHES,
            &[Chmod("/a/b/c/big"), Truncate("/a/b/c/big", 4000), Fdatasync("/a/b/c/big")],
        )
    },
    Program {
        options: "delete=all",
        ..program(
            "removals from all branches",
            &[("rw", &["f", "d/x"]), ("rw", &["f", "d/x"]), ("ro", &["d/x"])],
            &[Unlink("/f"), FsyncDirectory(""), Unlink("/d/x"), FsyncDirectory("/d")],
        )
    },
    program(
        "snapshots",
        &[("rw", &["d/big", "e"]), ("ro", &["o/big"])],
        &[
            Snapshot("snapshot-take", "one"),
            Write("/d/big", b'x'),
            Fdatasync("/d/big"),
            Write("/o/big", b'y'),
            Fsync("/o/big"),
            Snapshot("snapshot-take", "two"),
            Unlink("/e"),
            FsyncDirectory(""),
            Snapshot("snapshot-drop", "one"),
        ],
    ),
];

/// A data layer in the place of the union, by its name among the layers or the samples.
pub(crate) const DATA_LAYERS: &[&str] = &["negate", "rot13", "veil", "zstd"];

const PLAIN_BRANCH: Branches = &[("rw", &["a/big", "b"])];

/// What is done with a file system that has a data layer.
pub(crate) const DATA_PROGRAMS: &[Program] = &[
    program("a new file", PLAIN_BRANCH, &[Create("/a/new", b'n'), Fsync("/a/new"), Write("/a/new", b'm')]),
    program(
        "a file that is written again",
        PLAIN_BRANCH,
        &[Write("/a/big", b'x'), Fdatasync("/a/big"), Write("/a/big", b'y'), Fsync("/a/big"), Write("/a/big", b'z')],
    ),
    program(
        "a file that is cut and grows",
        PLAIN_BRANCH,
        &[
            Truncate("/a/big", 4_001),
            Fdatasync("/a/big"),
            Truncate("/a/big", 9_000),
            Fsync("/a/big"),
            Truncate("/a/big", 100),
            Write("/a/big", b'x'),
        ],
    ),
    program("a synchronous write", PLAIN_BRANCH, &[WriteSynchronously("/a/big", b'x'), WriteSynchronously("/b", b'y')]),
    program(
        "a file that is replaced",
        PLAIN_BRANCH,
        &[Create("/new", b'n'), Fsync("/new"), Rename("/new", "/a/big"), FsyncDirectory("/a"), FsyncDirectory("")],
    ),
];

/// Runs a program once on a data layer over a directory, and cuts the power at points that the random numbers choose.
///
/// # Errors
/// In words, what is not as it was promised.
pub(crate) fn cut_data_program(
    program: &Program,
    layer: &str,
    is_mounted: bool,
    cuts: usize,
    random: &mut Rng,
) -> Result<(), String> {
    let build = |mut branches: Vec<Branch>| {
        let kind = plyfs_layers::kind(layer).or_else(|| samples::kind(layer)).ok_or("there is no such layer")?;
        kind.stack(&[], branches.remove(0).file_system).map_err(|error| error.to_string())
    };
    // Each layer writes its files by itself.
    let fill = |scenario: &DiskScenario<'_>| {
        let file_system = build(scenario.scene.branches())?;
        for path in program.branches[0].1 {
            let bytes = if path.ends_with("big") { BIG_FILE_BYTES } else { 5 };
            let written = create_at(&file_system, path)
                .and_then(|file| vnode::write_fully(&*file, &Caller::server(), 0, &vec![b'#'; bytes]));
            written.map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(())
    };
    let gives_space_back = ["veil", "zstd"].contains(&layer);
    let subject = Subject { build: &build, fill: &fill, check: &|_| Ok(()), gives_space_back };
    cut_program_on(&subject, program, Layout::Together, is_mounted, cuts, random)
}

/// Creates a file, or truncates it, with the directories above it: a layer may have other names below.
fn create_at(file_system: &FileSystemRef, path: &str) -> vnode::Result<OpenFileRef> {
    let (server, name) = (Caller::server(), |text| Name::new(str::as_bytes(text)));
    let (directories, file) = path.rsplit_once('/').unwrap_or(("", path));
    let directory =
        directories.split('/').filter(|part| !part.is_empty()).try_fold(file_system.root(), |at, part| {
            match at.lookup(&server, name(part)?) {
                Err(Errno::ENOENT) => at.mkdir(&server, name(part)?, 0o755).map(|entry| entry.vnode),
                found => found.map(|entry| entry.vnode),
            }
        })?;
    let how = Creation { mode: 0o644, flags: OpenFlags::WRITE.with(OpenFlags::TRUNCATE) };
    directory.create(&server, name(file)?, &how).map(|created| created.file)
}

/// Runs a program once on a union, and cuts the power at points that the random numbers choose.
///
/// # Errors
/// In words, what is not as it was promised.
pub(crate) fn cut_program(
    program: &Program,
    layout: Layout,
    is_mounted: bool,
    cuts: usize,
    random: &mut Rng,
) -> Result<(), String> {
    let build = |branches| Ok(join(branches, program.options)? as FileSystemRef);
    let fill = |scenario: &DiskScenario<'_>| {
        for (index, (_, paths)) in program.branches.iter().enumerate() {
            for path in paths.iter().filter(|path| path.ends_with("big") && !path.contains('=')) {
                fs::write(scenario.branch(index).join(path), vec![b'#'; BIG_FILE_BYTES]).unwrap();
            }
        }
        Ok(())
    };
    let subject = Subject { build: &build, fill: &fill, check: &check, gives_space_back: false };
    cut_program_on(&subject, program, layout, is_mounted, cuts, random)
}

/// What is tested.
struct Subject<'a> {
    /// Builds it from its branches.
    build: &'a dyn Fn(Vec<Branch>) -> Result<FileSystemRef, String>,
    /// Writes its first files.
    fill: &'a dyn Fn(&DiskScenario<'_>) -> Result<(), String>,
    /// Checks its branches after a cut.
    check: &'a dyn Fn(Vec<Branch>) -> Result<(), String>,
    /// Whether it gives space back when a file is closed.
    gives_space_back: bool,
}

fn cut_program_on(
    subject: &Subject<'_>,
    program: &Program,
    layout: Layout,
    is_mounted: bool,
    cuts: usize,
    random: &mut Rng,
) -> Result<(), String> {
    let Program { name, options, branches, steps } = *program;
    let scenario = Scenario { name, branches, earlier: &[], operation: Operation::Create("unused") };
    let mut scenario_disks = DiskScenario::new(&scenario, options, layout);
    let Subject { build, fill, check, gives_space_back } = subject;
    fill(&scenario_disks)?;
    let mut history = PromiseHistory::new(state_of(&*build(scenario_disks.scene.branches())?)?);
    scenario_disks.disks.begin();
    {
        let branches = with_random_syncs(scenario_disks.scene.branches(), |index| scenario_disks.branch(index), random);
        let mut user = UnionUser::of(build(branches)?, is_mounted);
        for step in steps {
            let begun = scenario_disks.disks.requests();
            user.perform(*step)?;
            history.add(begun, state_of(&**user.union())?);
            if let Some(durable) = step.durable() {
                history.promise(durable, scenario_disks.disks.requests());
            }
        }
    }
    if *gives_space_back {
        history.close_files();
    }
    scenario_disks.cut(cuts, random, |scene, point| {
        let found = state_of(&*build(scene.branches())?)?;
        history.check(&found, point)?;
        check(scene.branches())?;
        history.check(&state_of(&*build(scene.branches())?)?, point)
    })
}

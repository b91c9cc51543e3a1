//! Every conformance test over every stack of the matrix, each as one counted test.
//!
//! As root the bases are tried with several users, and once more by a process without privileges.
//! What a stack cannot do is declared below; tests that need it are counted as not applicable.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

use conformance::{Abilities, Ability, Client, Identity, Mounted, Subject, Test, Tree, Verdict};
use layers::BranchMode;
use libtest_mimic::{Arguments, Failed, Trial};
use suite::{Base, Place, Recipe, Served, make_branches, patiently, serve_if_asked};

fn main() -> ExitCode {
    serve_if_asked();
    let mut arguments = Arguments::from_args();
    // Most tests wait: for the server, for locks, for the clock to advance.
    arguments.test_threads.get_or_insert(4);
    let is_root = rustix::process::geteuid().is_root();
    let conclusion = libtest_mimic::run(&arguments, trials(&arguments, is_root));
    let mut failed = conclusion.has_failed();
    if is_root && !arguments.list {
        failed |= !run_without_privileges();
    }
    ExitCode::from(u8::from(failed))
}

/// Runs this program again as a user without privileges. Where the machine lets only root use /dev/fuse, the program
/// sees another node of the device there.
fn run_without_privileges() -> bool {
    const SCRIPT: &str = r#"
        user=$1; place=$2; shift 2
        if [ -e /dev/fuse ] && ! setpriv --reuid $user --regid $user --clear-groups sh -c ': <>/dev/fuse' 2>/dev/null
        then
            mknod -m 666 "$place/fuse" c 10 229 && mount --bind "$place/fuse" /dev/fuse
        fi
        exec setpriv --reuid $user --regid $user --clear-groups "$@"
    "#;
    let user = 65_534;
    let (Ok(program), Ok(place)) = (std::env::current_exe(), Place::image(1024)) else { return false };
    let Ok(nodes) = place.beside("nodes") else { return false };
    if std::os::unix::fs::chown(place.path(), Some(user), Some(user)).is_err() {
        return false;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh", &user.to_string()]).arg(&nodes).arg(program);
    command.args(std::env::args_os().skip(1)).env("TMPDIR", place.path()).current_dir("/");
    command.status().is_ok_and(|status| status.success())
}

/// How a run reaches its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tree,
    Mount,
}

impl fmt::Display for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tree => "tree",
            Self::Mount => "mount",
        })
    }
}

/// Which tests a run is made for, and what it needs for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Ordinary,
    ReadOnly,
    Small,
}

/// One run: a stack, reached in one way.
#[derive(Clone, Debug)]
struct Plan {
    way: Way,
    sort: Sort,
    in_memory: bool,
    /// The branches, of a union.
    union: Option<Union>,
    layers: Vec<&'static str>,
    is_root: bool,
}

impl Plan {
    fn title(&self) -> String {
        let base = if self.in_memory { "mem" } else { "dir" };
        let user = if self.is_root { "" } else { "user " };
        let small = if self.sort == Sort::Small { " small" } else { "" };
        let mut stack = [&[base], &self.layers[..]].concat().join("|");
        if let Some(union) = &self.union {
            stack = union.to_string();
        }
        format!("{user}{}{small} {stack}", self.way)
    }

    fn abilities(&self) -> Abilities {
        let mut abilities = Abilities::complete();
        if self.way == Way::Tree {
            abilities = abilities.without(Ability::Kernel).without(Ability::Map);
        }
        if !self.is_root {
            abilities = abilities.without(Ability::Users);
        }
        let kernel_has_the_data =
            self.is_root && !self.in_memory && !self.layers.iter().any(|layer| HANDLES_DATA.contains(layer));
        if self.way == Way::Mount && !kernel_has_the_data {
            abilities = abilities.without(Ability::GrowingFiles);
        }
        if self.layers.contains(&"longnames") {
            abilities = abilities.without(Ability::FullNames);
        }
        if self.layers.contains(&"map") {
            // Its view decides by the mode that it shows.
            abilities = abilities.without(Ability::AccessControlLists);
        }
        if let Some(union) = &self.union
            && union.options.iter().any(|(key, _)| *key == "create")
        {
            // Nobody counts the directories in a directory of several branches; and a file that the kernel reads and writes
            // by itself does not change places with one in another branch.
            abilities = abilities.without(Ability::DirectoryLinks);
            if self.way == Way::Mount {
                abilities = abilities.without(Ability::Exchange);
            }
        }
        if self.union.as_ref().is_some_and(Union::has_view) {
            // What is open there is not read and written by the kernel.
            abilities = abilities.without(Ability::GrowingFiles);
        }
        match self.sort {
            Sort::Ordinary => abilities,
            Sort::ReadOnly => abilities.without(Ability::Write).with(Ability::ReadOnly),
            Sort::Small => abilities.with(Ability::SmallSpace),
        }
    }

    fn has(&self, test: &Test) -> bool {
        self.sort != Sort::Small || test.group == "space"
    }

    /// Makes the stack and what it stands on.
    fn start(&self) -> Result<Live, Failed> {
        let size = if self.sort == Sort::Small { 48 } else { 2048 };
        let place = if self.in_memory { Place::plain()? } else { Place::image(size)? };
        if self.sort == Sort::Small && !self.in_memory && !place.is_image() {
            return Err("no image can be mounted".into());
        }
        let mut private = None;
        let base = match (self.in_memory, self.sort) {
            (true, Sort::Small) => Base::Memory("size=48m".to_owned()),
            (true, _) => Base::Memory("size=2g".to_owned()),
            (false, _) => match &self.union {
                Some(union) if union.has_view() => {
                    let mut branches = make_branches(&place, &[&union.modes[..], &[BranchMode::ReadWrite]].concat())?;
                    private = branches.pop().map(|(path, _)| path);
                    Base::Branches(branches)
                }
                Some(union) => Base::Branches(make_branches(&place, &union.modes)?),
                None => Base::Directory(place.path().to_owned()),
            },
        };
        let branches = match (&base, &self.union) {
            (Base::Branches(branches), Some(union)) if union.layout == Layout::Duplicated => {
                branches.iter().map(|(path, _)| path.clone()).collect()
            }
            _ => Vec::new(),
        };
        let log = place.beside("logs")?.join("audit");
        let mut recipe = Recipe::plain(base);
        for layer in &self.layers {
            recipe = match *layer {
                "audit" => recipe.with_layer(layer, &[("to", &log.display().to_string())]),
                // A user that no test has is shown as another: so the layer decides what is allowed, in all tests.
                "map" => recipe.with_layer(layer, &[("user-map", "70000/70001"), ("group-map", "70000/70001")]),
                "union" => match &private {
                    Some(private) => {
                        let program = std::env::current_exe()?;
                        let view = format!("executable:{}={}=rw", program.display(), private.display());
                        recipe.with_layer(layer, &[("views", &view)])
                    }
                    None => recipe.with_layer(layer, self.union.as_ref().map_or(&[], |union| &union.options[..])),
                },
                other => recipe.with_layer(other, &[]),
            };
        }
        if self.sort == Sort::ReadOnly {
            recipe = recipe.prepared();
        }
        let (title, abilities) = (self.title(), self.abilities());
        if self.way == Way::Tree {
            let subject = Tree::new(recipe.build()?).titled(title).limited_to(abilities);
            let subject = Arc::new(Duplicated { subject, branches });
            return Ok(Live { subject, _served: None, _place: place });
        }
        let mount_point = place.beside("mount")?;
        let served = Served::start(&recipe, &mount_point)?;
        let subject = Mounted::new(&mount_point)?.titled(title).limited_to(abilities);
        Ok(Live { subject: Arc::new(Duplicated { subject, branches }), _served: Some(served), _place: place })
    }
}

/// Says that the tests are done in a view: the option itself names this program.
const VIEW: (&str, &str) = ("views", "own");

/// What a union is made of.
#[derive(Clone, Debug)]
struct Union {
    modes: Vec<BranchMode>,
    options: Vec<(&'static str, &'static str)>,
    layout: Layout,
}

/// Where in the branches directories are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Where they are made.
    AsMade,
    /// That of each test in every branch.
    Duplicated,
}

impl Union {
    fn plain(modes: &[BranchMode]) -> Self {
        Self { modes: modes.to_vec(), options: Vec::new(), layout: Layout::AsMade }
    }

    /// Whether all tests are done in a view.
    fn has_view(&self) -> bool {
        self.options.contains(&VIEW)
    }

    /// Branches with these modes over and over, as many as `count`.
    fn of(count: usize, modes: &[BranchMode], layout: Layout, options: &[(&'static str, &'static str)]) -> Self {
        let modes = modes.iter().copied().cycle().take(count).collect();
        Self { modes, options: options.to_vec(), layout }
    }
}

impl fmt::Display for Union {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modes: Vec<String> = self.modes.iter().map(BranchMode::to_string).collect();
        write!(formatter, "union {}", modes.join(","))?;
        if self.layout == Layout::Duplicated {
            formatter.write_str(" duplicated")?;
        }
        self.options.iter().try_for_each(|(key, value)| write!(formatter, " {key}={value}"))
    }
}

/// A subject each of whose tests works in a directory that is made in all these branches, if there are any.
struct Duplicated<S> {
    subject: S,
    branches: Vec<PathBuf>,
}

impl<S: Subject> Subject for Duplicated<S> {
    fn title(&self) -> &str {
        self.subject.title()
    }

    fn abilities(&self) -> Abilities {
        self.subject.abilities()
    }

    fn client(&self, identity: &Identity) -> Box<dyn Client> {
        self.subject.client(identity)
    }

    fn make_directory(&self, name: &[u8]) -> vnode::Result<bool> {
        for branch in &self.branches {
            std::fs::create_dir(branch.join(OsStr::from_bytes(name)))?;
        }
        Ok(!self.branches.is_empty())
    }
}

/// A run under way. The fields are dropped in this order.
struct Live {
    subject: Arc<dyn Subject>,
    _served: Option<Served>,
    _place: Place,
}

/// A run that starts with its first test and ends with its last.
struct Run {
    plan: Plan,
    live: Mutex<Option<Result<Live, String>>>,
    /// Held by tests that fill the file system.
    alone: Mutex<()>,
}

impl Run {
    fn subject(&self) -> Result<Arc<dyn Subject>, Failed> {
        let mut live = self.live.lock().map_err(|_| "the run could not start")?;
        let started = live.get_or_insert_with(|| {
            self.plan.start().map_err(|failed| failed.message().unwrap_or("no reason is known").to_owned())
        });
        match started {
            Ok(live) => Ok(live.subject.clone()),
            Err(message) => Err(message.clone().into()),
        }
    }

    fn test(&self, test: &Test) -> Result<(), Failed> {
        let subject = self.subject()?;
        let _alone = (self.plan.sort == Sort::Small).then(|| self.alone.lock());
        let name = format!("{}: {}", self.plan.title(), test.full_name());
        match patiently(&name, || conformance::run_test(&*subject, test)) {
            Verdict::Passed => Ok(()),
            Verdict::Failed(message) => Err(message.into()),
            Verdict::NotApplicable(missing) => Err(format!("the run declared {missing:?}").into()),
        }
    }
}

/// The trials of every run, and a line for each on what does not apply.
fn trials(arguments: &Arguments, is_root: bool) -> Vec<Trial> {
    let mut trials = Vec::new();
    for plan in plans(is_root) {
        let title = plan.title();
        let run = Arc::new(Run { plan, live: Mutex::new(None), alone: Mutex::new(()) });
        let (mut applicable, mut others) = (0, 0);
        for test in conformance::all().iter().filter(|test| run.plan.has(test)) {
            if run.plan.abilities().missing(test.needs).is_some() {
                others += 1;
                continue;
            }
            applicable += 1;
            let run = run.clone();
            let name = format!("{title}: {}", test.full_name());
            trials.push(Trial::test(name, move || run.test(test)));
        }
        if !arguments.list {
            println!("{title}: {applicable} tests apply, {others} are not applicable");
        }
    }
    trials
}

/// Whether users without privileges can mount.
fn has_fusermount() -> bool {
    Command::new("fusermount3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Layers through which all data go.
const HANDLES_DATA: [&str; 4] = ["rot13", "pages.fist", "rules.fist", "sizes.fist"];

/// Descriptions that change nothing, names, and data.
const DESCRIPTIONS: [&str; 4] = ["names.fist", "pages.fist", "rules.fist", "sizes.fist"];

/// The matrix: each base, with no layer and with each, by its vnodes and mounted.
fn plans(is_root: bool) -> Vec<Plan> {
    let opens = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let can_mount = opens && (is_root || has_fusermount());
    if !can_mount {
        println!("no /dev/fuse or no fusermount3: nothing is mounted, the stacks are tested by their vnodes only");
    }
    let mut plans = Vec::new();
    for way in [Way::Tree, Way::Mount] {
        if way == Way::Mount && !can_mount {
            continue;
        }
        for in_memory in [true, false] {
            // By its vnodes, the memory of a process without privileges is that of any other.
            if in_memory && !is_root && way == Way::Tree {
                continue;
            }
            let plan = |sort, layers: &[&'static str]| Plan {
                way,
                sort,
                in_memory,
                union: None,
                layers: layers.to_vec(),
                is_root,
            };
            plans.push(plan(Sort::Ordinary, &[]));
            if !in_memory {
                for union in unions(way, is_root) {
                    plans.push(Plan { union: Some(union), ..plan(Sort::Ordinary, &["union"]) });
                }
            }
            for kind in layers::kinds().iter().filter(|kind| !kind.joins_branches()) {
                // Who mounts makes little difference to layers.
                if way == Way::Mount && !is_root && kind.name != "audit" {
                    continue;
                }
                let sort = if kind.name == "readonly" { Sort::ReadOnly } else { Sort::Ordinary };
                plans.push(plan(sort, &[kind.name]));
            }
            for description in DESCRIPTIONS.iter().filter(|_| is_root) {
                plans.push(plan(Sort::Ordinary, &[description]));
            }
            if is_root {
                plans.push(plan(Sort::Small, &[]));
                plans.push(plan(Sort::Small, &["rot13"]));
            }
        }
    }
    plans
}

/// Unions of 1 to 16 branches, their new objects in one or distributed over several (DIST) or their directories in all
/// (DUP), with either mode of deletion and either form of whiteouts. All by their vnodes, some mounted.
fn unions(way: Way, is_root: bool) -> Vec<Union> {
    use BranchMode::{NoCreate, ReadOnly, ReadWrite};
    use Layout::{AsMade, Duplicated};
    const DISTRIBUTED: (&str, &str) = ("create", "round-robin");
    const ALL: (&str, &str) = ("delete", "all");
    const OVERLAY: (&str, &str) = ("whiteouts", "overlay");
    let mut unions = vec![Union::plain(&[ReadWrite]), Union::plain(&[ReadWrite, ReadOnly, ReadOnly, ReadOnly])];
    // What a user without privileges writes differs, and not what many branches do.
    let modes = [ReadWrite, ReadWrite, ReadOnly, NoCreate];
    unions.push(Union::of(4, &modes, AsMade, &[DISTRIBUTED, ALL, OVERLAY]));
    if !is_root {
        return unions;
    }
    unions.push(Union::of(2, &[ReadWrite, ReadOnly], Duplicated, &[OVERLAY]));
    unions.push(Union::of(16, &[ReadWrite], AsMade, &[DISTRIBUTED]));
    if way == Way::Mount {
        unions.push(Union::of(2, &[ReadWrite, ReadOnly], AsMade, &[VIEW]));
        return unions;
    }
    unions.push(Union::of(8, &[ReadWrite, ReadOnly, ReadWrite, NoCreate], Duplicated, &[ALL, OVERLAY]));
    unions.push(Union::of(1, &[ReadWrite], AsMade, &[ALL, OVERLAY]));
    unions.push(Union::of(2, &[ReadWrite], AsMade, &[DISTRIBUTED]));
    unions.push(Union::of(4, &[ReadWrite], Duplicated, &[DISTRIBUTED, ALL]));
    unions.push(Union::of(8, &[ReadWrite, ReadWrite, ReadOnly], AsMade, &[("create", "most-free"), OVERLAY]));
    unions.push(Union::of(16, &[ReadWrite, ReadOnly], Duplicated, &[ALL]));
    unions
}

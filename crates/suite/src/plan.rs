//! One run of the matrix: a stack, the way to access it, and the abilities it lacks.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use bases::fat::format::FatWidth;
use conformance::{Abilities, Ability, Client, Identity, Mounted, Subject, Test, Tree};
use frontends::fuse::Features;
use layers::BranchMode;
use vnode::FileSystemRef;

use crate::access::StackAccess;
use crate::{Base, Recipe, ServedStack, TestDirectory, kernel, make_branches, make_volume, with_initial_credentials};

/// The tests that a run is made for, and its requirements for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// Tests that write.
    Ordinary,
    /// Tests for stacks that refuse every change.
    ReadOnly,
    /// Tests that fill the file system.
    Small,
}

/// What is below all layers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottom {
    /// A file system in memory.
    Memory,
    /// One or more directories.
    Directory,
    /// An ISO 9660 image of the tree that read-only subjects are tested on.
    Image,
    /// A FAT volume with sidecars in a file.
    Fat(FatWidth),
}

/// Layers that all data pass through.
const HANDLES_DATA: [&str; 8] = ["mirror", "negate", "rot13", "veil", "zstd", "pages.fist", "rules.fist", "sizes.fist"];

/// Abilities that FAT lacks: it answers `EOPNOTSUPP`, `EINVAL` for names, and `EFBIG`, or files have no holes.
const NOT_OF_FAT: [Ability; 5] =
    [Ability::AnyNames, Ability::Holes, Ability::Punch, Ability::CopyRange, Ability::LargeFiles];

/// One run: a stack, accessed in one way.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The way to access the stack.
    pub access: StackAccess,
    /// The tests that it is for.
    pub run_kind: RunKind,
    /// What is below all layers.
    pub bottom: Bottom,
    /// The branches, if the first layer joins several, and the options of a union.
    pub union: Option<UnionConfiguration>,
    /// Layers, bottom first; FiST programs of this crate are named by their files.
    pub layers: Vec<&'static str>,
    /// The tests act as root and as other users.
    pub is_root: bool,
    /// Name of the protocol feature that the kernel has and the mount does without.
    pub withheld: Option<&'static str>,
}

impl RunPlan {
    /// Returns everything that distinguishes this run from others.
    pub fn title(&self) -> String {
        let base = match self.bottom {
            Bottom::Memory => "mem",
            Bottom::Directory => "dir",
            Bottom::Image => "iso",
            Bottom::Fat(FatWidth::Fat12) => "fat12",
            Bottom::Fat(FatWidth::Fat16) => "fat16",
            Bottom::Fat(FatWidth::Fat32) => "fat32",
        };
        let user = if self.is_root { "" } else { "user " };
        let small = if self.run_kind == RunKind::Small { " small" } else { "" };
        let mut members = vec![base.to_owned()];
        let mut layers = self.layers.iter();
        if let Some(union) = &self.union {
            members = vec![format!("{} {union}", layers.next().expect("a layer joins the branches"))];
        }
        members.extend(layers.map(|&layer| layer.to_owned()));
        let without = self.withheld.map_or_else(String::new, |feature| format!(" without {feature}"));
        format!("{user}{}{without}{small} {}", self.access, members.join("|"))
    }

    /// Returns the abilities of the stack when it is accessed in this way.
    pub fn abilities(&self) -> Abilities {
        let mut abilities = Abilities::complete();
        if self.access == StackAccess::Tree {
            abilities = abilities.without(Ability::Kernel).without(Ability::Map);
        }
        if !self.is_root {
            abilities = abilities.without(Ability::Users);
        }
        let kernel_reads_the_base = self.is_root
            && self.kernel_has("passthrough", 6, 9)
            && self.bottom == Bottom::Directory
            && !self.layers.iter().any(|layer| HANDLES_DATA.contains(layer));
        if self.access.is_mount() && !kernel_reads_the_base {
            abilities = abilities.without(Ability::GrowingFiles);
        }
        if matches!(self.bottom, Bottom::Fat(_)) {
            abilities = NOT_OF_FAT.into_iter().fold(abilities, Abilities::without);
            if self.layers.iter().any(|layer| HANDLES_DATA.contains(layer)) {
                // Zeros of a layer's data are holes below.
                abilities = abilities.without(Ability::ZeroRange);
            }
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
            // The directories in a directory of several branches are not counted; and a file that the kernel reads and writes
            // itself (passthrough) is not exchanged with one in another branch.
            abilities = abilities.without(Ability::DirectoryLinks);
            if self.access.is_mount() {
                abilities = abilities.without(Ability::Exchange);
            }
        }
        if self.union.as_ref().is_some_and(UnionConfiguration::has_view) {
            // The kernel does not itself read and write files that are open there.
            abilities = abilities.without(Ability::GrowingFiles);
        }
        if self.access.is_mount() && !kernel::is_at_least(6, 6) {
            abilities = abilities.without(Ability::BirthTimes);
        }
        if self.access.is_mount() && self.lacks("dont-mask") {
            abilities = abilities.without(Ability::WholeModes);
        }
        // The feature is in Linux 6.3, and in later releases of 6.1.
        if self.access.is_mount() && self.may_check_permissions() && self.kernel_has("has-expire-only", 6, 1) {
            abilities = abilities.without(Ability::PromptRevocation);
        }
        let sees_all_data = self.layers.iter().any(|layer| ["rules.fist", "faulty"].contains(layer));
        if self.access.is_mount() && sees_all_data && !self.kernel_has("direct-io-allow-mmap", 6, 6) {
            abilities = abilities.without(Ability::Map);
        }
        if self.bottom == Bottom::Image {
            abilities = abilities.without(Ability::ExtendedAttributes).without(Ability::AccessControlLists);
            if self.access == StackAccess::Tree {
                // The base leaves locks to front ends.
                abilities = abilities.without(Ability::RangeLocks).without(Ability::FileLocks);
            }
        }
        match self.run_kind {
            RunKind::Ordinary => abilities,
            RunKind::ReadOnly => abilities.without(Ability::Write).with(Ability::ReadOnly),
            RunKind::Small => abilities.with(Ability::SmallSpace),
        }
    }

    /// Returns whether the mount may leave permission checks to the stack: to layers that need to see refusals, or for lack of
    /// access control lists.
    fn may_check_permissions(&self) -> bool {
        let sees_refusals = |layer: &&str| layer.ends_with(".fist") || ["audit", "map"].contains(layer);
        self.lacks("posix-acl") || self.layers.contains(&"union") || self.layers.iter().any(sees_refusals)
    }

    /// Returns whether the kernel, which has this feature of the protocol from this release on, has it here and is asked for
    /// it.
    fn kernel_has(&self, feature: &str, major: u32, minor: u32) -> bool {
        kernel::is_at_least(major, minor) && !self.lacks(feature)
    }

    /// Returns whether the mount lacks a feature because the feature itself or one that it depends on is withheld.
    fn lacks(&self, feature: &str) -> bool {
        let feature = feature.parse().expect("features are called by their names");
        self.withheld().is_ok_and(|withheld| withheld.rule_out_all(feature))
    }

    /// Returns whether the run is made for the test; it may still lack an ability.
    pub fn has(&self, test: &Test) -> bool {
        self.run_kind != RunKind::Small || test.group == "space"
    }

    /// Builds the stack on files in this location, for access by its vnodes.
    ///
    /// # Errors
    /// Fails if the stack cannot be built.
    pub fn build(&self, test_directory: &TestDirectory) -> Result<FileSystemRef, Box<dyn std::error::Error>> {
        Ok(self.recipe(test_directory)?.0.build()?)
    }

    /// Creates the stack and everything below it.
    ///
    /// # Errors
    /// Fails if the location for its files cannot be created, or the stack cannot be built or mounted.
    pub fn start(&self) -> Result<LiveRun, Box<dyn std::error::Error>> {
        let size = if self.run_kind == RunKind::Small { 48 } else { 2048 };
        let test_directory = match self.bottom {
            Bottom::Directory => TestDirectory::image(size)?,
            Bottom::Memory | Bottom::Image | Bottom::Fat(_) => TestDirectory::plain()?,
        };
        if self.run_kind == RunKind::Small && self.bottom == Bottom::Directory && !test_directory.is_image() {
            return Err("no image can be mounted".into());
        }
        let (recipe, branches) = self.recipe(&test_directory)?;
        let (title, abilities) = (self.title(), self.abilities());
        if self.access == StackAccess::Tree {
            let subject = Tree::new(recipe.build()?).titled(title).limited_to(abilities);
            return Ok(LiveRun {
                subject: Arc::new(Duplicated { subject, branches }),
                _served: None,
                _directory: test_directory,
            });
        }
        let mount_point = test_directory.sibling("mount")?;
        let served = ServedStack::start(&recipe, &mount_point, self.withheld()?, Some(self.access))?;
        let subject = Mounted::new(&mount_point)?.titled(title).limited_to(abilities);
        Ok(LiveRun {
            subject: Arc::new(Duplicated { subject, branches }),
            _served: Some(served),
            _directory: test_directory,
        })
    }

    fn withheld(&self) -> Result<Features, Box<dyn std::error::Error>> {
        Ok(self.withheld.map_or(Ok(Features::NONE), str::parse)?)
    }

    /// Returns the recipe of the stack on files in this location, and the branches in which each test's directory is created
    /// first.
    ///
    /// # Errors
    /// Fails if the branches cannot be created.
    pub fn recipe(&self, test_directory: &TestDirectory) -> Result<(Recipe, Vec<PathBuf>), Box<dyn std::error::Error>> {
        let mut private = None;
        let base = match (self.bottom, self.run_kind, &self.union) {
            (Bottom::Memory, RunKind::Small, _) => Base::Memory("size=48m".to_owned()),
            (Bottom::Memory, ..) => Base::Memory("size=2g".to_owned()),
            (Bottom::Fat(width), kind, _) => {
                let size = if kind == RunKind::Small { 48 } else { 240 };
                Base::Fat(make_volume(test_directory, width, size)?, "meta=sidecar".to_owned())
            }
            (Bottom::Image, ..) => Base::Image(make_image(test_directory)?),
            (Bottom::Directory, _, Some(union)) if union.has_view() => {
                let mut branches =
                    make_branches(test_directory, &[&union.modes[..], &[BranchMode::ReadWrite]].concat())?;
                private = branches.pop().map(|(path, _)| path);
                Base::Branches(branches)
            }
            (Bottom::Directory, _, Some(union)) => Base::Branches(make_branches(test_directory, &union.modes)?),
            (Bottom::Directory, _, None) => Base::Directory(test_directory.path().to_owned()),
        };
        let branches = match (&base, &self.union) {
            (Base::Branches(branches), Some(union)) if union.layout == DirectoryLayout::Duplicated => {
                branches.iter().map(|(path, _)| path.clone()).collect()
            }
            _ => Vec::new(),
        };
        let mut recipe = Recipe::plain(base);
        for (index, layer) in self.layers.iter().enumerate() {
            let log = test_directory.sibling("logs")?.join(format!("audit{index}"));
            recipe = match *layer {
                "audit" => recipe.with_layer(layer, &[("to", &log.display().to_string())]),
                // A user that no test has is mapped to another, so that the layer decides about permissions in all tests.
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
        let is_prepared = self.run_kind == RunKind::ReadOnly && self.bottom != Bottom::Image;
        Ok((if is_prepared { recipe.prepared() } else { recipe }, branches))
    }
}

/// Makes an image of the tree that read-only subjects are tested on, as far as an image can have it.
fn make_image(test_directory: &TestDirectory) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let (source, image) = (test_directory.sibling("source")?, test_directory.path().join("image.iso"));
    let lacking = Abilities::complete().without(Ability::ExtendedAttributes).without(Ability::Users);
    conformance::prepare(&Mounted::new(&source)?.limited_to(lacking))?;
    let output =
        Command::new("xorriso").args(["-as", "mkisofs", "-quiet", "-R", "-o"]).args([&image, &source]).output();
    let output = output.map_err(|error| format!("xorriso: {error}; install it"))?;
    if output.status.success() { Ok(image) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
}

/// Placeholder for a view that the tests run in: the actual option names this program.
pub(crate) const VIEW: (&str, &str) = ("views", "own");

/// The configuration of a union.
#[derive(Clone, Debug)]
pub struct UnionConfiguration {
    /// The modes of its branches, leftmost first.
    pub modes: Vec<BranchMode>,
    /// Its options.
    pub options: Vec<(&'static str, &'static str)>,
    /// The placement of directories.
    pub layout: DirectoryLayout,
}

/// The placement of directories in the branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryLayout {
    /// In the branch where each is created.
    AsCreated,
    /// The directory of each test in every branch.
    Duplicated,
}

impl UnionConfiguration {
    /// Returns a union with these branches and without options.
    pub fn plain(modes: &[BranchMode]) -> Self {
        Self { modes: modes.to_vec(), options: Vec::new(), layout: DirectoryLayout::AsCreated }
    }

    /// Returns whether all tests run in a view.
    pub(crate) fn has_view(&self) -> bool {
        self.options.contains(&VIEW)
    }

    /// Returns a union of `count` branches that repeat these modes.
    pub fn of(
        count: usize,
        modes: &[BranchMode],
        layout: DirectoryLayout,
        options: &[(&'static str, &'static str)],
    ) -> Self {
        let modes = modes.iter().copied().cycle().take(count).collect();
        Self { modes, options: options.to_vec(), layout }
    }
}

impl fmt::Display for UnionConfiguration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modes: Vec<String> = self.modes.iter().map(BranchMode::to_string).collect();
        formatter.write_str(&modes.join(","))?;
        if self.layout == DirectoryLayout::Duplicated {
            formatter.write_str(" duplicated")?;
        }
        self.options.iter().try_for_each(|(key, value)| write!(formatter, " {key}={value}"))
    }
}

/// A subject whose tests each work in a directory that is created in all these branches, if there are any.
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
        if self.branches.is_empty() {
            return Ok(false);
        }
        let directories: Vec<_> = self.branches.iter().map(|branch| branch.join(OsStr::from_bytes(name))).collect();
        // This thread may still have the credentials of the previous test's last caller.
        let make = move || directories.iter().try_for_each(std::fs::create_dir);
        with_initial_credentials(make).unwrap_or_else(|| Err(std::io::ErrorKind::Other.into()))?;
        Ok(true)
    }
}

/// A run in progress. The fields are dropped in this order.
pub struct LiveRun {
    /// The subject of the tests.
    pub subject: Arc<dyn Subject>,
    _served: Option<ServedStack>,
    _directory: TestDirectory,
}

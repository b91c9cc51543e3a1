//! One run of the matrix: a stack, how it is reached, and what it cannot do.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use conformance::{Abilities, Ability, Client, Identity, Mounted, Subject, Test, Tree};
use frontends::fuse::Features;
use layers::BranchMode;
use vnode::FileSystemRef;

use crate::reach::Reach;
use crate::{Base, Place, Recipe, Served, kernel, make_branches, with_kept_credentials};

/// Which tests a run is made for, and what it needs for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Those that write.
    Ordinary,
    /// Those for stacks that refuse every change.
    ReadOnly,
    /// Those that fill the file system.
    Small,
}

/// Layers through which all data go.
const HANDLES_DATA: [&str; 4] = ["rot13", "pages.fist", "rules.fist", "sizes.fist"];

/// One run: a stack, reached in one way.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How the stack is reached.
    pub reach: Reach,
    /// For which tests.
    pub sort: Sort,
    /// The base is in memory; otherwise a directory, or several.
    pub in_memory: bool,
    /// The branches, of a union, which is the first layer.
    pub union: Option<Union>,
    /// Layers, bottom first; one of the descriptions of this crate by its file's name.
    pub layers: Vec<&'static str>,
    /// The tests act as root and as other users.
    pub is_root: bool,
    /// What the kernel's protocol has and the mount does without, by its name.
    pub withheld: Option<&'static str>,
}

impl Plan {
    /// Everything that tells this run from others.
    pub fn title(&self) -> String {
        let base = if self.in_memory { "mem" } else { "dir" };
        let user = if self.is_root { "" } else { "user " };
        let small = if self.sort == Sort::Small { " small" } else { "" };
        let mut members = vec![base.to_owned()];
        let mut layers = self.layers.iter();
        if let Some(union) = &self.union {
            members = vec![union.to_string()];
            layers.next();
        }
        members.extend(layers.map(|&layer| layer.to_owned()));
        let without = self.withheld.map_or_else(String::new, |feature| format!(" without {feature}"));
        format!("{user}{}{without}{small} {}", self.reach, members.join("|"))
    }

    /// What the stack can do, reached in this way.
    pub fn abilities(&self) -> Abilities {
        let mut abilities = Abilities::complete();
        if self.reach == Reach::Tree {
            abilities = abilities.without(Ability::Kernel).without(Ability::Map);
        }
        if !self.is_root {
            abilities = abilities.without(Ability::Users);
        }
        let kernel_has_the_data = self.is_root
            && self.kernel_has("passthrough", 6, 9)
            && !self.in_memory
            && !self.layers.iter().any(|layer| HANDLES_DATA.contains(layer));
        if self.reach.is_mount() && !kernel_has_the_data {
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
            if self.reach.is_mount() {
                abilities = abilities.without(Ability::Exchange);
            }
        }
        if self.union.as_ref().is_some_and(Union::has_view) {
            // What is open there is not read and written by the kernel.
            abilities = abilities.without(Ability::GrowingFiles);
        }
        if self.reach.is_mount() && !kernel::is_at_least(6, 6) {
            abilities = abilities.without(Ability::BirthTimes);
        }
        if self.reach.is_mount() && self.lacks("dont-mask") {
            abilities = abilities.without(Ability::WholeModes);
        }
        // Of Linux 6.3, and of later releases of 6.1.
        if self.reach.is_mount() && self.may_check_permissions() && self.kernel_has("has-expire-only", 6, 1) {
            abilities = abilities.without(Ability::PromptRevocation);
        }
        let sees_all_data = self.layers.iter().any(|layer| ["rules.fist", "faulty"].contains(layer));
        if self.reach.is_mount() && sees_all_data && !self.kernel_has("direct-io-allow-mmap", 6, 6) {
            abilities = abilities.without(Ability::Map);
        }
        match self.sort {
            Sort::Ordinary => abilities,
            Sort::ReadOnly => abilities.without(Ability::Write).with(Ability::ReadOnly),
            Sort::Small => abilities.with(Ability::SmallSpace),
        }
    }

    /// Whether the mount may leave permissions to the stack: to layers that need to see what is refused, or for want of lists.
    fn may_check_permissions(&self) -> bool {
        let sees_refusals = |layer: &&str| layer.ends_with(".fist") || ["audit", "map"].contains(layer);
        self.lacks("posix-acl") || self.union.is_some() || self.layers.iter().any(sees_refusals)
    }

    /// Whether the kernel, which has this feature of the protocol from this release on, has it here, and is asked for it.
    fn kernel_has(&self, feature: &str, major: u32, minor: u32) -> bool {
        kernel::is_at_least(major, minor) && !self.lacks(feature)
    }

    /// Whether the mount has to do without a feature, since it or what it depends on is withheld.
    fn lacks(&self, feature: &str) -> bool {
        let feature = feature.parse().expect("features are called by their names");
        self.withheld().is_ok_and(|withheld| withheld.rule_out_all(feature))
    }

    /// Whether the run is made for the test; it may still lack an ability.
    pub fn has(&self, test: &Test) -> bool {
        self.sort != Sort::Small || test.group == "space"
    }

    /// Builds the stack over files in this place, to be reached by its vnodes.
    ///
    /// # Errors
    /// When the stack cannot be built.
    pub fn build(&self, place: &Place) -> Result<FileSystemRef, Box<dyn std::error::Error>> {
        Ok(self.recipe(place)?.0.build()?)
    }

    /// Makes the stack and what it stands on.
    ///
    /// # Errors
    /// When the place for its files cannot be made, or the stack not be built or mounted.
    pub fn start(&self) -> Result<Live, Box<dyn std::error::Error>> {
        let size = if self.sort == Sort::Small { 48 } else { 2048 };
        let place = if self.in_memory { Place::plain()? } else { Place::image(size)? };
        if self.sort == Sort::Small && !self.in_memory && !place.is_image() {
            return Err("no image can be mounted".into());
        }
        let (recipe, branches) = self.recipe(&place)?;
        let (title, abilities) = (self.title(), self.abilities());
        if self.reach == Reach::Tree {
            let subject = Tree::new(recipe.build()?).titled(title).limited_to(abilities);
            return Ok(Live { subject: Arc::new(Duplicated { subject, branches }), _served: None, _place: place });
        }
        let mount_point = place.beside("mount")?;
        let served = Served::start(&recipe, &mount_point, self.withheld()?, Some(self.reach))?;
        let subject = Mounted::new(&mount_point)?.titled(title).limited_to(abilities);
        Ok(Live { subject: Arc::new(Duplicated { subject, branches }), _served: Some(served), _place: place })
    }

    fn withheld(&self) -> Result<Features, Box<dyn std::error::Error>> {
        Ok(self.withheld.map_or(Ok(Features::NONE), str::parse)?)
    }

    /// The stack over files in this place, and the branches in which each test's directory is made first.
    ///
    /// # Errors
    /// Of making the branches.
    pub fn recipe(&self, place: &Place) -> Result<(Recipe, Vec<PathBuf>), Box<dyn std::error::Error>> {
        let mut private = None;
        let base = match (self.in_memory, self.sort, &self.union) {
            (true, Sort::Small, _) => Base::Memory("size=48m".to_owned()),
            (true, ..) => Base::Memory("size=2g".to_owned()),
            (false, _, Some(union)) if union.has_view() => {
                let mut branches = make_branches(place, &[&union.modes[..], &[BranchMode::ReadWrite]].concat())?;
                private = branches.pop().map(|(path, _)| path);
                Base::Branches(branches)
            }
            (false, _, Some(union)) => Base::Branches(make_branches(place, &union.modes)?),
            (false, _, None) => Base::Directory(place.path().to_owned()),
        };
        let branches = match (&base, &self.union) {
            (Base::Branches(branches), Some(union)) if union.layout == Layout::Duplicated => {
                branches.iter().map(|(path, _)| path.clone()).collect()
            }
            _ => Vec::new(),
        };
        let mut recipe = Recipe::plain(base);
        for (index, layer) in self.layers.iter().enumerate() {
            let log = place.beside("logs")?.join(format!("audit{index}"));
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
        Ok((if self.sort == Sort::ReadOnly { recipe.prepared() } else { recipe }, branches))
    }
}

/// Says that the tests are done in a view: the option itself names this program.
pub(crate) const VIEW: (&str, &str) = ("views", "own");

/// What a union is made of.
#[derive(Clone, Debug)]
pub struct Union {
    /// The modes of its branches, leftmost first.
    pub modes: Vec<BranchMode>,
    /// Its options.
    pub options: Vec<(&'static str, &'static str)>,
    /// Where directories are.
    pub layout: Layout,
}

/// Where in the branches directories are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Where they are made.
    AsMade,
    /// That of each test in every branch.
    Duplicated,
}

impl Union {
    /// With these branches and no options.
    pub fn plain(modes: &[BranchMode]) -> Self {
        Self { modes: modes.to_vec(), options: Vec::new(), layout: Layout::AsMade }
    }

    /// Whether all tests are done in a view.
    pub(crate) fn has_view(&self) -> bool {
        self.options.contains(&VIEW)
    }

    /// Branches with these modes over and over, as many as `count`.
    pub fn of(count: usize, modes: &[BranchMode], layout: Layout, options: &[(&'static str, &'static str)]) -> Self {
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
        if self.branches.is_empty() {
            return Ok(false);
        }
        let directories: Vec<_> = self.branches.iter().map(|branch| branch.join(OsStr::from_bytes(name))).collect();
        // This thread may still act for the last caller of a test before.
        let make = move || directories.iter().try_for_each(std::fs::create_dir);
        with_kept_credentials(make).unwrap_or_else(|| Err(std::io::ErrorKind::Other.into()))?;
        Ok(true)
    }
}

/// A run under way. The fields are dropped in this order.
pub struct Live {
    /// What the tests work on.
    pub subject: Arc<dyn Subject>,
    _served: Option<Served>,
    _place: Place,
}

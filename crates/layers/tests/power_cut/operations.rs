//! Single operations of a union: after a cut users see the tree before or after.

use std::path::PathBuf;

use fastrand::Rng;
use plyfs_layers::Branch;
use plyfs_layers::union::{CheckOptions, Finding, Problem, check as check_branches};
use tempfile::TempDir;
use vnode::{FileKind, FileSystemRef};

use super::commits::with_random_syncs;
use super::disks::Disks;
use super::scene::{Operation, Scenario, Scene, UnionOptions, perform};
use super::state::{Object, State, state_of};

/// How the branches are on disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All on one.
    Together,
    /// Each on its own.
    Apart,
}

/// A scenario's branches on disks.
pub(crate) struct DiskScenario<'a> {
    pub scene: Scene<'a>,
    pub disks: Disks,
    base_path: PathBuf,
    _directory: TempDir,
}

impl<'a> DiskScenario<'a> {
    /// Makes them.
    pub(crate) fn new(scenario: &'a Scenario, options: UnionOptions, layout: Layout) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (base_path, paths) = match layout {
            Layout::Together => (directory.path().join("disk"), vec![directory.path().join("disk")]),
            Layout::Apart => {
                let paths = (0..scenario.branches.len()).map(|index| directory.path().join(index.to_string()));
                (directory.path().to_owned(), paths.collect())
            }
        };
        let disks = Disks::new(&paths);
        let scene = Scene::make(scenario, options, &base_path);
        Self { scene, disks, base_path, _directory: directory }
    }

    /// The directory of a branch.
    pub(crate) fn branch(&self, index: usize) -> PathBuf {
        self.base_path.join(index.to_string())
    }

    /// Has the disks write what they have, one after the other, and cuts the power at points that the random numbers
    /// choose. `inspect` looks at what is left, and is told at which point that was.
    ///
    /// # Errors
    /// Those of `inspect`.
    pub(crate) fn cut(
        &mut self,
        cuts: usize,
        random: &mut Rng,
        inspect: impl Fn(&Scene<'a>, usize) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut order: Vec<usize> = (0..self.disks.count()).collect();
        random.shuffle(&mut order);
        order.into_iter().for_each(|index| self.disks.sync(index));
        let requests = self.disks.requests();
        self.disks.end();
        for _ in 0..cuts {
            let (point, seed) = (random.usize(..=requests), random.u64(..));
            let after_cut = self.disks.cut(point, &mut Rng::with_seed(seed))?;
            inspect(&self.scene, point).map_err(|failure| {
                format!("cut before request {point} of {requests}: {failure}\n{}", after_cut.describe())
            })?;
        }
        Ok(())
    }
}

/// Does a scenario's operation once, and cuts the power at points that the random numbers choose.
///
/// # Errors
/// In words, what users see that they are not to see.
pub(crate) fn cut_operation(
    scenario: &Scenario,
    options: UnionOptions,
    layout: Layout,
    cuts: usize,
    random: &mut Rng,
) -> Result<(), String> {
    let mut scenario_disks = DiskScenario::new(scenario, options, layout);
    let before = state_of(&*scenario_disks.scene.union())?;
    scenario_disks.disks.begin();
    let after = {
        let branches = with_random_syncs(scenario_disks.scene.branches(), |index| scenario_disks.branch(index), random);
        let union = join(branches, options)?;
        perform(&*union, scenario.operation).map_err(|error| error.to_string())?;
        state_of(&*union)?
    };
    scenario_disks.cut(cuts, random, |scene, _| check_after_cut(scene, options, scenario.operation, [&before, &after]))
}

/// Looks at branches after a cut.
fn check_after_cut(
    scene: &Scene<'_>,
    options: UnionOptions,
    operation: Operation,
    [before, after]: [&State; 2],
) -> Result<(), String> {
    let mut found = state_of(&*join(scene.branches(), options)?)?;
    found
        .iter_mut()
        .for_each(|(path, object)| accept_intermediate_state(object, operation, before.get(path), after.get(path)));
    if found != *before && found != *after {
        return Err(format!("{operation:?}:\n{}", differences(&found, before, after)));
    }
    check(scene.branches())?;
    let mut again = state_of(&*join(scene.branches(), options)?)?;
    again
        .iter_mut()
        .for_each(|(path, object)| accept_intermediate_state(object, operation, before.get(path), after.get(path)));
    if again == found { Ok(()) } else { Err("the tree changes when it is looked at".to_owned()) }
}

/// A time between before and after is that of a step of the operation, and as good as its last. Data that were written and
/// not synchronized may be missing, and ext4 clears what is cut off before it is.
fn accept_intermediate_state(
    found: &mut Object,
    operation: Operation,
    before: Option<&Object>,
    after: Option<&Object>,
) {
    // What a rename leaves behind is made again where it is lost, and is as good.
    if let (Operation::RenameWhiteout(..), Some(after)) = (operation, after)
        && after.attributes.kind == FileKind::CharacterDevice
        && before.is_none_or(|before| before.ino != after.ino)
        && found.attributes.equals_except_mtime(&after.attributes)
    {
        *found = after.clone();
    }
    let [Some(before), Some(after)] = [before, after] else { return };
    if before.ino == found.ino && after.ino == found.ino {
        if found.attributes.mtime > before.attributes.mtime {
            found.attributes.mtime = found.attributes.mtime.max(after.attributes.mtime);
        }
        let is_written = |(index, byte): (usize, &u8)| *byte == 0 || after.data.get(index) == Some(byte);
        if matches!(operation, Operation::Append(_))
            && found.data != before.data
            && found.data.starts_with(&before.data)
            && found.data.iter().enumerate().all(is_written)
        {
            found.data.clone_from(&after.data);
        }
        let is_cleared = |(index, byte): (usize, &u8)| {
            before.data.get(index) == Some(byte) || *byte == 0 && index >= after.data.len()
        };
        if matches!(operation, Operation::Resize(..))
            && found.data.len() == before.data.len()
            && found.data.iter().enumerate().all(is_cleared)
        {
            found.data.clone_from(&before.data);
        }
    }
}

/// A union of branches.
///
/// # Errors
/// In words, if there can be none.
pub(crate) fn join(branches: Vec<Branch>, options: UnionOptions) -> Result<FileSystemRef, String> {
    let options = options.split(',').filter_map(|option| option.split_once('='));
    let options: Vec<_> = options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    plyfs_layers::kind("union").unwrap().join(&options, branches, None).map_err(|error| error.to_string())
}

/// Has the check find nothing that a union which has just been there leaves in anybody's way.
pub(crate) fn check(branches: Vec<Branch>) -> Result<(), String> {
    let mut findings = Vec::<Finding>::new();
    let options = CheckOptions { repair: false, idle: false, losses: false };
    check_branches(branches, &options, &mut |finding| findings.push(finding)).map_err(|error| error.to_string())?;
    let is_harmless = |finding: &Finding| {
        use Problem::{BesideWhiteout, DirectoryBesideWhiteout, MovedFile, OrphanedLink, TwoWhiteouts};
        let problem = &finding.problem;
        matches!(problem, BesideWhiteout | DirectoryBesideWhiteout | TwoWhiteouts | OrphanedLink | MovedFile)
    };
    match findings.into_iter().find(|finding| !is_harmless(finding)) {
        Some(finding) => Err(format!("the check finds {finding:?}")),
        None => Ok(()),
    }
}

fn differences(found: &State, before: &State, after: &State) -> String {
    let mut text = String::new();
    let mut paths: Vec<&String> = found.keys().chain(before.keys()).chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let states = [found, before, after].map(|state| state.get(path));
        if states[0] != states[1] || states[0] != states[2] {
            text += &format!(
                "  {path}\n    found  {:?}\n    before {:?}\n    after  {:?}\n",
                states[0], states[1], states[2]
            );
        }
    }
    text
}

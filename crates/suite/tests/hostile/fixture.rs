//! Objects of one kind in one of the compared directories: recreated after a call has changed them.

use libtest_mimic::Failed;

use super::actor::Actor;
use super::calls::AccessRoute;
use super::objects::{self, Object};
use super::stacks::ComparedDirectory;
use super::state::{ComparedTimes, DirectoryState};

pub(crate) struct ObjectFixture<'a> {
    side: &'a ComparedDirectory,
    object: &'static Object,
    /// Prefix of the names of its directories, unique in the compared directory.
    name: String,
    /// Number of times that the objects were created.
    made: usize,
    /// The initial state of the objects, if no call has changed them.
    ready: Option<DirectoryState>,
}

/// The result of a call, and the state after it.
#[derive(PartialEq, Eq)]
pub(crate) struct CallOutcome {
    pub result: String,
    /// The objects after the call, one line each.
    pub state: Vec<String>,
}

impl<'a> ObjectFixture<'a> {
    pub(crate) fn new(side: &'a ComparedDirectory, object: &'static Object, name: String) -> Self {
        Self { side, object, name, made: 0, ready: None }
    }

    /// Performs a call on unchanged objects.
    pub(crate) fn perform(
        &mut self,
        actor: &mut Actor,
        call: usize,
        route: AccessRoute,
    ) -> Result<CallOutcome, Failed> {
        let before = match self.ready.take() {
            Some(state) => state,
            None => self.make()?,
        };
        let result = actor.perform(&self.directory(), call, route)?;
        let after = DirectoryState::of(&self.side.path.join(self.directory()));
        // A copy-up changes the object and its directory; refused calls copy nothing up.
        let is_copied = self.side.copies_up && !["EPERM", "EACCES"].contains(&&*result);
        let times = match self.side.has_fine_timestamps {
            true if is_copied => ComparedTimes::Modification,
            true => ComparedTimes::All,
            false => ComparedTimes::None,
        };
        let outcome = CallOutcome { result, state: after.compared_to(&before, times) };
        let is_changed = after != before;
        self.ready = Some(before);
        if is_changed {
            self.clear()?;
        }
        Ok(outcome)
    }

    /// Returns the name of the directory of the current objects.
    fn directory(&self) -> String {
        format!("{}-{}", self.name, self.made)
    }

    fn make(&mut self) -> Result<DirectoryState, Failed> {
        self.made += 1;
        objects::make(&self.side.origin.join(self.directory()), self.object)?;
        Ok(DirectoryState::of(&self.side.path.join(self.directory())))
    }

    /// Removes the objects.
    pub(crate) fn clear(&mut self) -> Result<(), Failed> {
        if self.ready.take().is_none() {
            return Ok(());
        }
        let ComparedDirectory { path, origin, .. } = self.side;
        objects::remove(&path.join(self.directory()))?;
        if path == origin { Ok(()) } else { objects::remove(&origin.join(self.directory())) }
    }
}

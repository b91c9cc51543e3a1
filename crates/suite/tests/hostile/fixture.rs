//! Where one kind of object is tried on one side: the objects stay until a call has changed them, and are made anew then.

use libtest_mimic::Failed;

use super::actor::Actor;
use super::calls::AccessRoute;
use super::objects::{self, Object};
use super::stacks::ComparedDirectory;
use super::state::{ComparedTimes, DirectoryState};

pub(crate) struct ObjectFixture<'a> {
    side: &'a ComparedDirectory,
    object: &'static Object,
    /// Begins the names of its directories, which no other arena of the side has.
    name: String,
    /// How many have been made.
    made: usize,
    /// The state in which they were made last, if they still are in that.
    ready: Option<DirectoryState>,
}

/// What came of a call.
#[derive(PartialEq, Eq)]
pub(crate) struct CallOutcome {
    pub result: String,
    /// The objects afterwards, a line for each.
    pub state: Vec<String>,
}

impl<'a> ObjectFixture<'a> {
    pub(crate) fn new(side: &'a ComparedDirectory, object: &'static Object, name: String) -> Self {
        Self { side, object, name, made: 0, ready: None }
    }

    /// Carries out a call on the objects as they were made.
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
        // What is copied up is changed now, and so is the directory that it is in; nobody copies up what is refused.
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

    /// The name of the directory of the objects that were made last.
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

//! Files of which a failed synchronization may have lost data: they are known for longer than their maps are in memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Errno, Handle};

/// Number of files that are known, each of which takes about 120 bytes.
const FILES_MAX: usize = 1 << 16;

/// What failed synchronizations mean for a file: some of its data may have to be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    /// The error of one that nobody was told yet.
    pub(crate) untold: Option<Errno>,
}

/// The files with a loss, by the handles of the lower files.
#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<NotedFiles>);

#[derive(Debug, Default)]
struct NotedFiles {
    files: HashMap<Handle, Loss>,
    /// Set once there were too many: then any file may have one.
    is_incomplete: bool,
}

impl Losses {
    /// Returns what is known of a file.
    pub(crate) fn of(&self, file: &Handle) -> Option<Loss> {
        let known = self.known();
        known.files.get(file).copied().or(known.is_incomplete.then_some(Loss { untold: None }))
    }

    /// Notes what is known of a file: `None` if nothing of it is lost any more.
    pub(crate) fn set(&self, file: Handle, loss: Option<Loss>) {
        let mut known = self.known();
        let Some(loss) = loss else {
            known.files.remove(&file);
            return;
        };
        if known.files.len() < FILES_MAX || known.files.contains_key(&file) {
            known.files.insert(file, loss);
        } else {
            known.is_incomplete = true;
        }
    }

    fn known(&self) -> MutexGuard<'_, NotedFiles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: usize) -> Handle {
        Handle::new(&number.to_le_bytes()).unwrap()
    }

    #[test]
    fn a_loss_is_known_until_it_is_made_good() {
        let losses = Losses::default();
        assert_eq!(losses.of(&file(1)), None);
        let loss = Some(Loss { untold: Some(Errno::EIO) });
        losses.set(file(1), loss);
        assert_eq!((losses.of(&file(1)), losses.of(&file(2))), (loss, None));
        losses.set(file(1), None);
        assert_eq!(losses.of(&file(1)), None);
    }

    #[test]
    fn beyond_the_files_that_are_known_any_may_have_a_loss() {
        let (losses, loss) = (Losses::default(), Some(Loss { untold: None }));
        (0..FILES_MAX).for_each(|number| losses.set(file(number), loss));
        losses.set(file(0), loss);
        assert_eq!(losses.of(&file(FILES_MAX)), None);
        losses.set(file(FILES_MAX), loss);
        assert_eq!(losses.of(&file(FILES_MAX)), loss);
        assert_eq!(losses.known().files.len(), FILES_MAX);
    }
}

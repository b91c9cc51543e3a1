//! What programs may rely on after fsync(2) and its kin, checked against the states that a tree went through.
//!
//! Each name stands for what it stood for when its directory was last synchronized, or at some time since; each object has
//! the attributes and data of when it was last synchronized, or later ones. A file is never shorter than in all of these
//! states, and every byte of it is one that it had in one of them.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use vnode::{InodeNumber, Timestamp};

use super::state::{CheckedAttributes, Object, State};

/// What is on the disk from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Durable {
    /// A file with all attributes, and its name: fsync(2).
    File(&'static str),
    /// The data of a file, under a name that is on the disk: fdatasync(2).
    Data(&'static str),
    /// The names in a directory: fsync(2) of it.
    Names(&'static str),
    /// Everything.
    All,
}

/// What a tree went through.
pub(crate) struct PromiseHistory {
    /// The first is what was on the disks at the beginning, each other what a step made.
    states: Vec<State>,
    /// Number of requests to the disks when each step began.
    begun: Vec<usize>,
    /// Until when the time of a file may be later than in any state: where space is given back when a file is closed, which changes
    /// its time until that is set back. The kernel may report that it was closed when the next step has begun, or the last one has
    /// ended.
    closed_until: Option<Timestamp>,
    /// What was promised after a step, by which state, and number of requests by then.
    promises: Vec<(Durable, usize, usize)>,
}

/// The states from which on objects and names are what they are.
#[derive(Default)]
struct EarliestStates<'a> {
    names: HashMap<&'a str, usize>,
    attributes: HashMap<InodeNumber, usize>,
    data: HashMap<InodeNumber, usize>,
}

impl PromiseHistory {
    /// Nothing has been done yet.
    pub(crate) fn new(first: State) -> Self {
        Self { states: vec![first], begun: Vec::new(), closed_until: None, promises: Vec::new() }
    }

    /// Files were closed until now, which may have changed their times.
    pub(crate) fn close_files(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() };
        self.closed_until = Some(now);
    }

    /// A step was begun after so many requests, which made this.
    pub(crate) fn add(&mut self, begun: usize, state: State) {
        self.begun.push(begun);
        self.states.push(state);
    }

    /// What the last step made is durable, after so many requests.
    pub(crate) fn promise(&mut self, durable: Durable, requests: usize) {
        self.promises.push((durable, self.states.len() - 1, requests));
    }

    /// Whether this may be found after a cut before the request.
    ///
    /// # Errors
    /// In words, what may not.
    pub(crate) fn check(&self, found: &State, point: usize) -> Result<(), String> {
        // The step that was under way may be done.
        let last = self.begun.iter().filter(|&&begun| begun <= point).count();
        let earliest_states = self.earliest_states(point);
        let paths = self.states.iter().flat_map(State::keys).chain(found.keys());
        for path in paths {
            let earliest = earliest_states.names.get(path.as_str()).copied().unwrap_or(0);
            let ino = |state: &State| state.get(path).map(|object| object.ino);
            if !self.states[earliest..=last].iter().any(|state| ino(state) == ino(found)) {
                let wanted: Vec<_> = self.states[earliest..=last].iter().map(ino).collect();
                return Err(format!("{path} stands for {:?}, not for one of {wanted:?}", found.get(path)));
            }
        }
        found.iter().try_for_each(|(path, object)| {
            let from =
                |earliest_states: &HashMap<InodeNumber, usize>| earliest_states.get(&object.ino).copied().unwrap_or(0);
            self.check_attributes(&object.attributes, object.ino, from(&earliest_states.attributes), last)
                .and_then(|()| self.check_data(&object.data, object.ino, from(&earliest_states.data), last))
                .map_err(|failure| format!("{path}: {failure}"))
        })
    }

    fn earliest_states(&self, point: usize) -> EarliestStates<'_> {
        let mut earliest_states = EarliestStates::default();
        let kept = self.promises.iter().filter(|(_, _, requests)| *requests <= point);
        for (durable, index, _) in kept {
            let state = &self.states[*index];
            let all_paths = || self.states.iter().flat_map(State::keys);
            match durable {
                Durable::File(path) => {
                    let ino = state[*path].ino;
                    earliest_states.names.insert(path, *index);
                    earliest_states.attributes.insert(ino, *index);
                    earliest_states.data.insert(ino, *index);
                }
                Durable::Data(path) => drop(earliest_states.data.insert(state[*path].ino, *index)),
                Durable::Names(directory) => {
                    let is_in = |path: &&String| path.rsplit_once('/').is_some_and(|(above, _)| above == *directory);
                    earliest_states.names.extend(all_paths().filter(is_in).map(|path| (path.as_str(), *index)));
                }
                Durable::All => {
                    earliest_states.names.extend(all_paths().map(|path| (path.as_str(), *index)));
                    let inos = || self.states.iter().flat_map(State::values).map(|object| (object.ino, *index));
                    earliest_states.attributes.extend(inos());
                    earliest_states.data.extend(inos());
                }
            }
        }
        earliest_states
    }

    /// What an object was in the states.
    fn versions(&self, ino: InodeNumber, from: usize, to: usize) -> Vec<Option<&Object>> {
        self.states[from..=to].iter().map(|state| state.values().find(|object| object.ino == ino)).collect()
    }

    fn check_attributes(
        &self,
        found: &CheckedAttributes,
        ino: InodeNumber,
        from: usize,
        to: usize,
    ) -> Result<(), String> {
        let versions = self.versions(ino, from, to);
        // Then it had other times on the way to what it was first seen as.
        let is_new = versions.iter().any(Option::is_none);
        let versions: Vec<&CheckedAttributes> =
            versions.into_iter().flatten().map(|object| &object.attributes).collect();
        let was = |same: &dyn Fn(&CheckedAttributes) -> bool| versions.iter().any(|version| same(version));
        let is_right = was(&|version| version.kind == found.kind)
            && was(&|version| version.mode == found.mode)
            && was(&|version| version.owner == found.owner)
            && was(&|version| version.names == found.names)
            && (is_new || versions.iter().map(|version| version.mtime).min() <= Some(found.mtime))
            && versions.iter().map(|version| version.mtime.max(self.closed_until)).max() >= Some(found.mtime)
            && was(&|version| version.xattrs == found.xattrs);
        if is_right { Ok(()) } else { Err(format!("{found:?}, not of {versions:?}")) }
    }

    fn check_data(&self, found: &[u8], ino: InodeNumber, from: usize, to: usize) -> Result<(), String> {
        let versions = self.versions(ino, from, to);
        let is_new = versions.iter().any(Option::is_none);
        let versions: Vec<&[u8]> = versions.into_iter().flatten().map(|object| object.data.as_slice()).collect();
        let shortest = if is_new { 0 } else { versions.iter().map(|data| data.len()).min().unwrap_or(0) };
        let longest = versions.iter().map(|data| data.len()).max().unwrap_or(0);
        let is_known = |(index, byte): (usize, &u8)| {
            // Ext4 clears what is cut off before it is.
            *byte == 0 && (is_new || index >= shortest) || versions.iter().any(|data| data.get(index) == Some(byte))
        };
        let wrong = found.iter().enumerate().position(|(index, byte)| !is_known((index, byte)));
        match wrong {
            None if (shortest..=longest).contains(&found.len()) => Ok(()),
            wrong => Err(format!("{} bytes of {shortest} to {longest}, wrong at {wrong:?}", found.len())),
        }
    }
}

//! Report of moves between branches, as text: a line for each object that stays, and the number of those that moved.

use crate::printable::printable;
use crate::union::tree_path::TreePath;

/// Maximum number of objects that stay which are reported one by one.
const MAX_REPORTED: usize = 100;

/// Objects that moved, and those that could not.
#[derive(Default)]
pub(crate) struct MoveReport {
    moved_objects: u64,
    moved_bytes: u64,
    stays: Vec<String>,
    stay_count: usize,
}

impl MoveReport {
    /// Forgets what has stayed, since everything is visited again; returns the number of objects that have moved.
    pub(crate) fn begin_walk(&mut self) -> u64 {
        (self.stays, self.stay_count) = (Vec::new(), 0);
        self.moved_objects
    }

    /// Counts an object that has moved, with the number of bytes that it takes.
    pub(crate) fn add_moved(&mut self, bytes: u64) {
        self.moved_objects += 1;
        self.moved_bytes = self.moved_bytes.saturating_add(bytes);
    }

    /// Adds an object that stays, and the reason.
    pub(crate) fn add_stay(&mut self, path: &TreePath, reason: &str) {
        self.stay_count += 1;
        if self.stays.len() < MAX_REPORTED {
            let path = String::from_utf8_lossy(&path.to_bytes()).into_owned();
            self.stays.push(format!("stays {}: {reason}\n", printable(&path)));
        }
    }

    /// Number of objects that have moved.
    pub(crate) fn moved_objects(&self) -> u64 {
        self.moved_objects
    }

    /// The report; its last line has the totals.
    pub(crate) fn to_text(&self) -> String {
        let mut text = self.stays.concat();
        if self.stay_count > self.stays.len() {
            text.push_str(&format!("stays … and {} more\n", self.stay_count - self.stays.len()));
        }
        let Self { moved_objects, moved_bytes, stay_count, .. } = self;
        text + &format!("objects moved: {moved_objects} ({moved_bytes} bytes); objects that stay: {stay_count}\n")
    }
}

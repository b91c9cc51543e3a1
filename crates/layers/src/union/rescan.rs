//! Rescan: directories that have come to match a pattern among the branches are added; those that no longer do are reported.

use std::sync::Arc;

use vnode::ControlError;

use super::branch::branches::BranchSlot;
use super::control_arguments::refused;
use super::state::Union;
use crate::{BranchScan, PatternMatches};

impl Union {
    /// Adds the branches that match the patterns and are not among the branches yet, each next to its neighbour in the order of the
    /// pattern. Returns a line for each change.
    ///
    /// # Errors
    /// `Refused` if the union cannot open branches.
    pub(crate) fn rescan(self: &Arc<Self>) -> Result<String, ControlError> {
        let opener = self.opener.as_ref().ok_or_else(|| refused("this union cannot open branches"))?;
        let BranchScan { patterns, vanished } = opener.scan();
        let mut report: Vec<String> = patterns.iter().flat_map(|pattern| self.add_matches(pattern)).collect();
        let is_branch = |label: &&String| self.position_of_label(label).is_some();
        let gone = |label: &String| format!("vanished {label} (still a branch; plyfs union remove removes it)\n");
        report.extend(vanished.iter().filter(is_branch).map(gone));
        Ok(if report.is_empty() { "nothing has changed\n".to_owned() } else { report.concat() })
    }

    fn add_matches(self: &Arc<Self>, pattern: &PatternMatches) -> Vec<String> {
        let mut report = Vec::new();
        // Before the first that is a branch already, or at the end.
        let mut next = pattern.branches.iter().find_map(|branch| self.position_of_label(&branch.label));
        for found in &pattern.branches {
            if let Some(position) = self.position_of_label(&found.label) {
                next = Some(position + 1);
                continue;
            }
            match self.add_branch(&found.text, next) {
                Ok(_) => {
                    self.forget_missing(&pattern.label);
                    report.push(format!("added {}\n", found.text));
                    next = self.position_of_label(&found.label).map(|position| position + 1);
                }
                Err(error) => report.push(format!("failed {}: {error}\n", found.label)),
            }
        }
        report
    }

    /// Position of the branch with this label, counted as [`Union::list_branches`] lists them.
    fn position_of_label(&self, label: &str) -> Option<usize> {
        let slots = self.branches.slots();
        slots.chunk_by(BranchSlot::is_same_branch).position(|group| group[0].member.base.label == label)
    }
}

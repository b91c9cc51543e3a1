//! Snapshots: states of a union that are preserved while it continues to change (Unionfs, sections 1 and 3.8).
//!
//! Taking one freezes the newest layer of the branch that is written and puts an empty layer on top; everything else is
//! read-only from then on. So it takes effect at once, whatever the amount of data.

pub(crate) mod diff;
pub(crate) mod direct_files;
pub(crate) mod merge;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vnode::{Caller, Control, ControlError, Errno, NameBuf, Result, Vnode, is_terminal_control};

use super::branch::branches::{BranchMember, BranchSlot, Branches};
use super::branch::history::{self, History, Snapshot};
use super::branch::lease::command_errno;
use super::branch::register::BranchRegister;
use super::change::Groups;
use super::control_arguments::{ArgumentValues, refused};
use super::copy_up::copy_attributes;
use super::settings::NAME;
use super::state::{NodeLocation, Union};
use crate::BranchMode;
use crate::is_only_described;
use direct_files::DirectFileCopy;
use merge::LayerMerge;

/// Initial delay before a failed merge is retried; it grows with each failure, since all others wait during a retry.
const INITIAL_RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(32);

/// Maximum length of the name of a snapshot, in bytes.
const MAX_NAME_BYTES: usize = 255;

type CommandResult = std::result::Result<String, ControlError>;
type CommandOutcome = std::result::Result<(), ControlError>;

impl Union {
    /// Executes a snapshot command.
    pub(crate) fn snapshot_command(self: &Arc<Self>, control: &Control) -> CommandResult {
        let arguments = ArgumentValues(control);
        if control.command.starts_with("snapshot-") {
            // An interrupted merge is finished before anything builds on it.
            self.finish_merges()?;
            self.check_all_branches();
            if let Some(label) = self.failed_branch() {
                return Err(refused(&format!("the branch {label} has failed; nothing was changed")));
            }
        }
        match control.command.as_str() {
            "snapshots" => Ok(self.list_snapshots()),
            "snapshot-take" => self.take_snapshot(arguments.required("name")?),
            "snapshot-diff" => self.diff_snapshots(arguments.required("from")?, arguments.get("to")),
            "snapshot-merge" => self.merge_snapshots(arguments.get("name")),
            "snapshot-drop" => self.drop_snapshot(arguments.required("name")?),
            "snapshot-restore" => self.restore_snapshot(arguments.required("name")?),
            other => Err(ControlError::UnknownCommand { target: NAME.to_owned(), command: other.to_owned() }),
        }
    }

    /// The snapshots as JSON, oldest first.
    fn list_snapshots(&self) -> String {
        let slots = self.branches.slots();
        let history = history_slot(&slots).map(|slot| slot.member.base.history().clone()).unwrap_or_default();
        let line = |snapshot: &Snapshot| serde_json::json!({ "name": snapshot.name, "taken": snapshot.taken });
        serde_json::Value::Array(history.snapshots.iter().map(line).collect()).to_string()
    }

    /// Takes a snapshot of the present state.
    fn take_snapshot(self: &Arc<Self>, name: &str) -> CommandResult {
        check_name(name)?;
        self.flush_to_branches()?;
        let change = self.begin_change()?;
        let mut groups = change.groups();
        let at = groups.iter().position(|group| group[0].mode == BranchMode::ReadWrite);
        let at = at.ok_or_else(|| refused("no branch can be written, so nothing will change"))?;
        let newest = Arc::clone(&groups[at][0].member);
        let base = Arc::clone(&newest.base);
        let mut history = base.history().clone();
        if history.find(name).is_some() {
            return Err(refused(&format!("there is a snapshot {name} already")));
        }
        for group in groups.iter().filter(|group| !Arc::ptr_eq(&group[0].member, &newest)) {
            self.check_no_direct_files(&group[0].member)?;
        }
        let kept = self.copy_direct_files(&newest)?;
        let (before, layer, taken) = (history.clone(), history.next_layer(), history::current_time());
        history.snapshots.push(Snapshot { layer: newest.layer, taken, name: name.to_owned() });
        history.current = layer;
        let first = first_layer(&groups[at]);
        let discard = || kept.iter().for_each(|kept| newest.work.discard(&kept.copy));
        let discard_record = |record: Option<NameBuf>| record.iter().for_each(|record| newest.work.discard(record));
        let begun = direct_files::write_record(&newest, &kept).and_then(|record| {
            match create_layer(&first, &newest, &history) {
                Ok(member) => Ok((member, record)),
                Err(error) => {
                    discard_record(record);
                    Err(error)
                }
            }
        });
        let (member, record) = begun.map_err(|error| {
            discard();
            ControlError::Failed(error)
        })?;
        *base.history() = history;
        let without = groups.clone();
        groups[at].insert(0, BranchSlot { member: Arc::clone(&member), mode: base.mode() });
        change.install(groups);
        let moved = direct_files::move_to_layer(&member, &kept);
        let is_undone = match &moved {
            Err(_) if kept.iter().rev().all(|kept| kept.move_back_from(&member)) => before.write(&first.work).is_ok(),
            _ => false,
        };
        if moved.is_ok() || is_undone {
            discard_record(record);
        }
        if is_undone {
            *base.history() = before;
            change.install(without);
            discard();
            // What cannot be removed now is removed when the branch is next used.
            let _ = history::discard_layer(&first.work, layer);
        }
        change.finish();
        match moved {
            Ok(()) => Ok(String::new()),
            Err((_, error)) if is_undone => Err(ControlError::Failed(error)),
            Err((path, error)) => Err(refused(&format!(
                "the snapshot was taken, but {path}, which is open, could not be kept as it was: {}; drop the snapshot",
                command_errno(error)
            ))),
        }
    }

    /// Copies files that the kernel may be writing directly: the copies are for the snapshot, and the files stay in use.
    fn copy_direct_files(&self, member: &Arc<BranchMember>) -> std::result::Result<Vec<DirectFileCopy>, ControlError> {
        let mut kept: Vec<DirectFileCopy> = Vec::new();
        for node in self.direct_files_in(member) {
            if kept.iter().any(|kept| Arc::ptr_eq(&kept.node, &node))
                || matches!(node.location(), NodeLocation::Nowhere)
            {
                continue;
            }
            match DirectFileCopy::new(Arc::clone(&node), member) {
                Ok(one) => kept.push(one),
                Err(error) => {
                    kept.iter().for_each(|kept| member.work.discard(&kept.copy));
                    let path = node.path().unwrap_or_default();
                    let path = String::from_utf8_lossy(&path).into_owned();
                    return Err(refused(&match error {
                        Errno::EMLINK => format!("{path} is open and has several names; close it"),
                        Errno::EBUSY => format!("{path} is being written without pause"),
                        error => format!("{path} is open and cannot be copied: {}", command_errno(error)),
                    }));
                }
            }
        }
        Ok(kept)
    }

    /// Differences between a snapshot and a later one, or the present state, as JSON.
    fn diff_snapshots(self: &Arc<Self>, from: &str, to: Option<&str>) -> CommandResult {
        let guard = self.operation_guard();
        let (older, newer) = (self.union_at_snapshot(from)?, to.map(|to| self.union_at_snapshot(to)).transpose()?);
        let newer = newer.unwrap_or_else(|| self.read_only_union(self.branches.slots().to_vec()));
        drop(guard);
        let differences = diff::compare(&older.root_node(), &newer.root_node()).map_err(ControlError::Failed)?;
        Ok(diff::to_json(&differences))
    }

    /// The union as it was at a snapshot.
    fn union_at_snapshot(self: &Arc<Self>, name: &str) -> std::result::Result<Arc<Union>, ControlError> {
        let slots = self.branches.slots();
        let slot = history_slot(&slots).ok_or_else(|| unknown(name))?;
        let (history, base) = (slot.member.base.history(), &slot.member.base);
        let position = history.find(name).ok_or_else(|| unknown(name))?;
        let layers: Vec<u32> = history.snapshots[..=position].iter().map(|snapshot| snapshot.layer).collect();
        let is_kept = |slot: &&BranchSlot| !Arc::ptr_eq(&slot.member.base, base) || layers.contains(&slot.member.layer);
        Ok(self.read_only_union(slots.iter().filter(is_kept).cloned().collect()))
    }

    /// A read-only union of some of the trees.
    pub(crate) fn read_only_union(&self, slots: Vec<BranchSlot>) -> Arc<Union> {
        let slots = slots.into_iter().map(|slot| BranchSlot { mode: BranchMode::ReadOnly, ..slot }).collect();
        Arc::new(Union::new(
            Branches::from_slots(slots, self.branches.identifiers()),
            BranchRegister::default(),
            self.settings.clone(),
            None,
        ))
    }

    /// Drops a snapshot: the changes made after it become changes in the layer that it froze.
    fn drop_snapshot(self: &Arc<Self>, name: &str) -> CommandResult {
        let change = self.begin_change()?;
        let mut groups = change.groups();
        let at = history_group(&groups).ok_or_else(|| unknown(name))?;
        let position = groups[at][0].member.base.history().find(name).ok_or_else(|| unknown(name))?;
        let merged = self.merge_layer(&mut groups, at, position);
        change.install(groups);
        change.finish();
        merged.map(|()| String::new())
    }

    /// Drops all snapshots before this one, or all snapshots.
    fn merge_snapshots(self: &Arc<Self>, name: Option<&str>) -> CommandResult {
        let change = self.begin_change()?;
        let mut groups = change.groups();
        let Some(at) = history_group(&groups) else {
            return Err(refused("there is no snapshot"));
        };
        let base = Arc::clone(&groups[at][0].member.base);
        let count = match name {
            Some(name) => base.history().find(name).ok_or_else(|| unknown(name))?,
            None => base.history().snapshots.len(),
        };
        // Newest first: each merge moves the least.
        let merged = (0..count).rev().try_for_each(|position| self.merge_layer(&mut groups, at, position));
        change.install(groups);
        change.finish();
        merged.map(|()| String::new())
    }

    /// Restores the state of a snapshot. Later changes and snapshots are discarded.
    fn restore_snapshot(self: &Arc<Self>, name: &str) -> CommandResult {
        self.flush_to_branches()?;
        let change = self.begin_change()?;
        let mut groups = change.groups();
        let at = history_group(&groups).ok_or_else(|| unknown(name))?;
        let base = Arc::clone(&groups[at][0].member.base);
        let mut history = base.history().clone();
        let position = history.find(name).ok_or_else(|| unknown(name))?;
        let layer = history.next_layer();
        let frozen: Vec<u32> = history.snapshots[..=position].iter().map(|snapshot| snapshot.layer).collect();
        history.snapshots.truncate(position + 1);
        history.current = layer;
        let first = first_layer(&groups[at]);
        let (kept, gone): (Vec<BranchSlot>, Vec<BranchSlot>) =
            std::mem::take(&mut groups[at]).into_iter().partition(|slot| frozen.contains(&slot.member.layer));
        // The kernel would keep using what is gone.
        gone.iter().try_for_each(|slot| self.check_no_direct_files(&slot.member))?;
        let member = create_layer(&first, &kept[0].member, &history).map_err(ControlError::Failed)?;
        *base.history() = history;
        groups[at].push(BranchSlot { member, mode: base.mode() });
        groups[at].extend(kept);
        change.install(groups);
        change.finish();
        // What cannot be removed now is removed when the branch is next used.
        for slot in gone {
            let _ = history::discard_layer(&first.work, slot.member.layer);
        }
        Ok(String::new())
    }

    /// Finishes interrupted merges.
    pub(crate) fn finish_merges(self: &Arc<Self>) -> CommandOutcome {
        if is_only_described() || self.branches.slots().iter().all(|slot| slot.member.base.history().merging.is_none())
        {
            return Ok(());
        }
        let change = self.begin_change()?;
        let (mut groups, mut outcome) = (change.groups(), Ok(()));
        for at in 0..groups.len() {
            let base = Arc::clone(&groups[at][0].member.base);
            let Some(upper) =
                base.history().merging.filter(|_| self.is_own(&base) && base.mode() != BranchMode::ReadOnly)
            else {
                continue;
            };
            if let Some(index) = groups[at].iter().position(|slot| slot.member.layer == upper)
                && let Some(position) = groups[at].len().checked_sub(index + 2)
            {
                outcome = outcome.and(self.merge_layer(&mut groups, at, position));
            }
        }
        change.install(groups);
        change.finish();
        outcome
    }

    /// Starts a thread that retries unfinished merges for as long as the union exists and any are left.
    fn retry_merges_in_background(self: &Arc<Self>) {
        if self.is_retrying_merges.swap(true, Ordering::AcqRel) {
            return;
        }
        let union = Arc::downgrade(self);
        let finish = move || {
            let mut pause = INITIAL_RETRY_INTERVAL;
            loop {
                std::thread::sleep(pause);
                pause = (2 * pause).min(MAX_RETRY_INTERVAL);
                let Some(union) = union.upgrade() else { return };
                let slots = union.branches.slots();
                let mut left = slots.iter().filter(|slot| slot.member.base.history().merging.is_some()).peekable();
                if left.peek().is_none() {
                    union.is_retrying_merges.store(false, Ordering::Release);
                    return;
                }
                // Merges of read-only branches wait until those are writable again.
                if left.any(|slot| slot.member.base.mode() != BranchMode::ReadOnly) {
                    let _ = union.finish_merges();
                }
            }
        };
        if std::thread::Builder::new().name("merge".to_owned()).spawn(vnode::as_server(finish)).is_err() {
            // The next snapshot command does it, or the next union to use the branch.
            self.is_retrying_merges.store(false, Ordering::Release);
        }
    }

    /// Merges the layer above a snapshot into the one that it froze, which takes its place.
    fn merge_layer(self: &Arc<Self>, groups: &mut Groups, at: usize, position: usize) -> CommandOutcome {
        let group = &groups[at];
        let index = group.len() - 1 - position;
        let (upper, lower) = (Arc::clone(&group[index - 1].member), Arc::clone(&group[index].member));
        let right = group[index + 1..].iter().chain(groups[at + 1..].iter().flatten());
        let view = self.read_only_union(right.cloned().collect());
        let first = first_layer(group);
        let mut history = lower.base.history().clone();
        let merge = LayerMerge { union: &view, upper: &upper, lower: &lower };
        let is_new = history.merging.is_none();
        if let Err(error) = merge.fill_metacopies() {
            if !is_new {
                lower.base.health.set_half_merged(true);
                self.retry_merges_in_background();
            }
            return Err(ControlError::Failed(command_errno(error)));
        }
        if is_new {
            merge.check().map_err(|error| match error {
                Errno::EXDEV => refused("a directory of the layer has been moved by overlayfs; it cannot be merged"),
                error => ControlError::Failed(command_errno(error)),
            })?;
            // After an interruption, the next union to use the branch finishes the merge first.
            history.merging = Some(upper.layer);
            history.write(&first.work).map_err(ControlError::Failed)?;
            // Also if this merge is interrupted: the next command resumes it first.
            *lower.base.history() = history.clone();
        }
        // A failure rarely repeats, and halfway users would miss what is in transit.
        if let Err(error) = if is_new { merge.run() } else { merge.rerun() }.or_else(|_| merge.rerun()) {
            lower.base.health.set_half_merged(true);
            self.retry_merges_in_background();
            return Err(match error {
                Errno::ESTALE => refused(
                    "directories are on their way from one layer to another, and it cannot be told any more whose they are, as \
                     in a copy of a branch that was made meanwhile; use the original, and copy it once that is finished",
                ),
                error => ControlError::Failed(command_errno(error)),
            });
        }
        lower.base.health.set_half_merged(false);
        history.merging = None;
        history.snapshots.remove(position);
        match history.snapshots.get_mut(position) {
            Some(next) => next.layer = lower.layer,
            None => history.current = lower.layer,
        }
        if let Err(error) = history.write(&first.work) {
            // Users see the same in both layers as in one. Changes that they make until then are merged too.
            self.retry_merges_in_background();
            return Err(ControlError::Failed(error));
        }
        *lower.base.history() = history;
        groups[at].remove(index - 1);
        // What cannot be removed now is removed when the branch is next used.
        let _ = history::discard_layer(&first.work, upper.layer);
        Ok(())
    }
}

/// Creates an empty layer on top of another, and writes the history that lists it: last, since it takes effect then.
fn create_layer(first: &BranchMember, below: &BranchMember, history: &History) -> Result<Arc<BranchMember>> {
    history::discard_unknown(&first.work, &first.base.history())?;
    let root = history::make_layer(&first.work, history.current)?;
    copy_attributes(&Caller::server(), &below.root, &root, None)?;
    let member = BranchMember::open_layer(&first.base, history.current)?;
    history.write(&first.work)?;
    Ok(member)
}

/// The branch whose snapshots are the union's: the first that has any or is writable.
fn history_slot(slots: &[BranchSlot]) -> Option<&BranchSlot> {
    slots.iter().find(|slot| slot.mode == BranchMode::ReadWrite || !slot.member.base.history().snapshots.is_empty())
}

fn history_group(groups: &Groups) -> Option<usize> {
    groups.iter().position(|group| !group[0].member.base.history().snapshots.is_empty())
}

fn first_layer(group: &[BranchSlot]) -> Arc<BranchMember> {
    let first = group.iter().find(|slot| slot.member.layer == 0).or(group.last());
    Arc::clone(&first.expect("a branch has a layer").member)
}

/// Checks the name of a new snapshot. Earlier versions took names with spaces, which remain valid.
fn check_name(name: &str) -> CommandOutcome {
    let is_refused = |character: char| character.is_whitespace() || is_terminal_control(character);
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let message =
            format!("the name of a snapshot has 1 to {MAX_NAME_BYTES} bytes; choose another, such as before-upgrade");
        return Err(ControlError::BadArgument(message));
    }
    if name.contains(is_refused) {
        let words: Vec<&str> = name.split(is_refused).filter(|word| !word.is_empty()).collect();
        let proposal = if words.is_empty() { "before-upgrade".to_owned() } else { words.join("-") };
        let message = format!("the name of a snapshot has no spaces and no control characters; write {proposal}");
        return Err(ControlError::BadArgument(message));
    }
    Ok(())
}

fn unknown(name: &str) -> ControlError {
    ControlError::BadArgument(format!("there is no snapshot {name}; plyfs snapshot list tells which there are"))
}

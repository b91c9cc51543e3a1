//! Balance: files move from the fullest branches to the emptiest, until the shares of space in use are close to each other.

use std::ops::ControlFlow;
use std::sync::Arc;

use vnode::{Caller, ControlError, StatFs};

use super::report::MoveReport;
use super::walk::WalkedObject;
use crate::union::branch::branches::BranchMember;
use crate::union::control_arguments::refused;
use crate::union::operations::space::{spaces_of, used};
use crate::union::state::{Node, Union};

/// A branch and the share of its space that is in use.
struct BranchUse {
    member: Arc<BranchMember>,
    used: u64,
    total: u64,
}

impl BranchUse {
    fn of(member: &Arc<BranchMember>, space: &StatFs) -> Self {
        let total = space.blocks.saturating_mul(space.fragment_size.into());
        Self { member: Arc::clone(member), used: used(space), total: total.max(1) }
    }

    /// Percentage in use.
    fn percentage(&self) -> f64 {
        self.used as f64 * 100.0 / self.total as f64
    }
}

impl Union {
    /// Moves files until the percentages in use of the `rw` branches differ by no more than `within`. Returns the totals.
    ///
    /// # Errors
    /// `Refused` if there are not two `rw` branches that report their space, or one has snapshots.
    pub(crate) fn balance(self: &Arc<Self>, within: u8) -> Result<String, ControlError> {
        let mut report = MoveReport::default();
        loop {
            let uses = self.branch_uses();
            let by_percentage = |one: &&BranchUse, other: &&BranchUse| one.percentage().total_cmp(&other.percentage());
            let (Some(fullest), Some(emptiest)) =
                (uses.iter().max_by(by_percentage), uses.iter().min_by(by_percentage))
            else {
                return Err(refused("no rw branch reports its space; nothing was moved"));
            };
            if uses.len() < 2 {
                return Err(refused("there are not two rw branches; nothing was moved"));
            }
            self.movable_branch(&fullest.member.base.label)?;
            if fullest.percentage() - emptiest.percentage() <= f64::from(within) {
                return Ok(report.to_text());
            }
            let before = report.moved_objects();
            self.move_bytes(fullest, emptiest, bytes_to_move(fullest, emptiest), &mut report);
            if report.moved_objects() == before {
                let (from, to) = (&fullest.member.base.label, &emptiest.member.base.label);
                return Ok(report.to_text() + &format!("nothing else can move from {from} to {to}\n"));
            }
        }
    }

    /// Space in use of the branches in which objects may be created.
    fn branch_uses(&self) -> Vec<BranchUse> {
        let slots = self.branches.slots();
        let members = slots.iter().map(|slot| &slot.member).filter(|member| self.branches.may_create(member));
        let members: Vec<Arc<BranchMember>> = members.cloned().collect();
        let spaces = spaces_of(&members);
        members.iter().zip(spaces).filter_map(|(member, space)| Some(BranchUse::of(member, space.as_ref()?))).collect()
    }

    /// Moves files that together take no more than this number of bytes.
    fn move_bytes(self: &Arc<Self>, from: &BranchUse, to: &BranchUse, mut bytes: u64, report: &mut MoveReport) {
        self.walk_branch(&from.member, |_, object| {
            let WalkedObject::File(node) = object else { return ControlFlow::Continue(()) };
            let size = size_of(&node);
            if size == 0 || size > bytes {
                return ControlFlow::Continue(());
            }
            // A file that cannot move stays.
            let moved = node.run_change(|node| node.relocate(&Caller::server(), &to.member));
            if moved == Ok(true) {
                bytes -= size;
                report.add_moved(size);
            }
            if bytes == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
}

/// Number of bytes that make the shares of both equal.
fn bytes_to_move(fullest: &BranchUse, emptiest: &BranchUse) -> u64 {
    let together = (fullest.used as f64 + emptiest.used as f64) / (fullest.total as f64 + emptiest.total as f64);
    let excess = fullest.used as f64 - together * fullest.total as f64;
    excess.max(0.0) as u64
}

/// Number of bytes that a file takes.
fn size_of(node: &Arc<Node>) -> u64 {
    const BLOCK_BYTES: u64 = 512;
    node.leftmost()
        .vnode
        .getattr(&Caller::server())
        .map_or(0, |attributes| attributes.blocks.saturating_mul(BLOCK_BYTES))
}

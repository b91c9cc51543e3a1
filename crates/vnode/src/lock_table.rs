//! A table of advisory locks on one file: byte ranges and whole-file locks, among owners.

use std::collections::HashMap;

use crate::lock_ranges::LockRanges;
use crate::{Errno, Lock, LockFamily, LockKind, LockOwner, Result};

/// The locks on one file. No two owners hold locks of one family that exclude each other.
#[derive(Default)]
pub struct LockTable {
    ranges: HashMap<LockOwner, LockRanges<Held>>,
    whole: HashMap<LockOwner, Held>,
}

/// A held lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    kind: LockKind,
    pid: u32,
    /// Open file through which it was acquired.
    holder: u64,
}

impl Held {
    fn excludes(&self, lock: &Lock) -> bool {
        self.kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive
    }
}

impl LockTable {
    /// Returns a lock of another owner that conflicts with `lock`; for byte ranges, the first.
    pub fn conflict(&self, owner: &LockOwner, lock: &Lock) -> Option<Lock> {
        if lock.kind == LockKind::Unlock {
            return None;
        }
        let found = |start, end, held: &Held| Lock { family: lock.family, kind: held.kind, start, end, pid: held.pid };
        match lock.family {
            LockFamily::Posix => {
                let others = self.ranges.iter().filter(|(other, _)| *other != owner);
                let in_the_way =
                    others.filter_map(|(_, ranges)| ranges.find(lock.start, lock.end, |held| held.excludes(lock)));
                let first = in_the_way.min_by_key(|range| range.start)?;
                Some(found(first.start, first.end, &first.held))
            }
            LockFamily::Flock => {
                let held = self.whole.iter().find(|(other, held)| *other != owner && held.excludes(lock));
                held.map(|(_, held)| found(0, u64::MAX, held))
            }
        }
    }

    /// Acquires, converts or releases a lock for `owner`, through the open file `holder`.
    ///
    /// Converting a whole-file lock releases it before requesting the new one, as flock(2) does.
    ///
    /// # Errors
    /// `EAGAIN` if another owner's lock conflicts, `EINVAL` for a range that ends before it starts, `ENOLCK` for more
    /// than [`crate::LOCK_RANGES_MAX`] ranges.
    pub fn set(&mut self, owner: &LockOwner, holder: u64, lock: &Lock) -> Result<()> {
        if lock.start > lock.end {
            return Err(Errno::EINVAL);
        }
        let held = Held { kind: lock.kind, pid: lock.pid, holder };
        match lock.family {
            LockFamily::Flock => self.set_whole(owner, lock, held),
            LockFamily::Posix => self.set_range(owner, lock, held),
        }
    }

    /// Releases all byte ranges of `owner`.
    pub fn release_ranges(&mut self, owner: &LockOwner) {
        self.ranges.remove(owner);
    }

    /// Releases all locks acquired through the open file `holder`.
    pub fn release_holder(&mut self, holder: u64) {
        self.ranges.retain(|_, ranges| {
            ranges.retain(|range| range.held.holder != holder);
            !ranges.is_empty()
        });
        self.whole.retain(|_, held| held.holder != holder);
    }

    /// Returns whether no lock is held.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.whole.is_empty()
    }

    fn set_whole(&mut self, owner: &LockOwner, lock: &Lock, new: Held) -> Result<()> {
        if self.whole.get(owner).is_some_and(|held| held.kind == new.kind) {
            return Ok(());
        }
        self.whole.remove(owner);
        if self.conflict(owner, lock).is_some() {
            return Err(Errno::EAGAIN);
        }
        if new.kind != LockKind::Unlock {
            self.whole.insert(owner.clone(), new);
        }
        Ok(())
    }

    fn set_range(&mut self, owner: &LockOwner, lock: &Lock, new: Held) -> Result<()> {
        if self.conflict(owner, lock).is_some() {
            return Err(Errno::EAGAIN);
        }
        let held = (new.kind != LockKind::Unlock).then_some(new);
        let none = LockRanges::default();
        let ranges = self.ranges.get(owner).unwrap_or(&none).with(lock.start, lock.end, held)?;
        match ranges.is_empty() {
            true => self.ranges.remove(owner),
            false => self.ranges.insert(owner.clone(), ranges),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LOCK_RANGES_MAX;

    fn range(kind: LockKind, start: u64, end: u64) -> Lock {
        Lock { family: LockFamily::Posix, kind, start, end, pid: 0 }
    }

    fn whole(kind: LockKind) -> Lock {
        Lock { family: LockFamily::Flock, kind, start: 0, end: u64::MAX, pid: 0 }
    }

    const ONE: LockOwner = LockOwner::Number(1);
    const TWO: LockOwner = LockOwner::Number(2);

    #[test]
    fn a_range_is_split_by_unlocking_its_middle() {
        let mut table = LockTable::default();
        table.set(&ONE, 0, &range(LockKind::Exclusive, 0, u64::MAX)).unwrap();
        table.set(&ONE, 0, &range(LockKind::Unlock, 10, 19)).unwrap();
        table.set(&TWO, 0, &range(LockKind::Exclusive, 10, 19)).unwrap();
        assert_eq!(table.set(&TWO, 0, &range(LockKind::Shared, 9, 9)), Err(Errno::EAGAIN));
        assert_eq!(table.set(&TWO, 0, &range(LockKind::Shared, 20, 20)), Err(Errno::EAGAIN));
        assert_eq!(table.conflict(&TWO, &range(LockKind::Shared, 20, 30)).unwrap().start, 20);
    }

    #[test]
    fn ranges_that_touch_are_joined() {
        let mut table = LockTable::default();
        for start in [0, 20, 10] {
            table.set(&ONE, 0, &range(LockKind::Shared, start, start + 9)).unwrap();
        }
        let found = table.conflict(&TWO, &range(LockKind::Exclusive, 15, 15)).unwrap();
        assert_eq!((found.start, found.end), (0, 29));
    }

    #[test]
    fn shared_ranges_of_two_owners_keep_either_from_upgrading() {
        let mut table = LockTable::default();
        table.set(&ONE, 0, &range(LockKind::Shared, 0, 9)).unwrap();
        table.set(&TWO, 0, &range(LockKind::Shared, 5, 15)).unwrap();
        assert_eq!(table.set(&ONE, 0, &range(LockKind::Exclusive, 0, 9)), Err(Errno::EAGAIN));
        table.set(&ONE, 0, &range(LockKind::Exclusive, 0, 4)).unwrap();
        table.release_ranges(&TWO);
        table.set(&ONE, 0, &range(LockKind::Exclusive, 0, 9)).unwrap();
    }

    #[test]
    fn the_families_do_not_see_each_other() {
        let mut table = LockTable::default();
        table.set(&ONE, 1, &range(LockKind::Exclusive, 0, u64::MAX)).unwrap();
        table.set(&TWO, 2, &whole(LockKind::Exclusive)).unwrap();
        assert_eq!(table.set(&ONE, 1, &whole(LockKind::Shared)), Err(Errno::EAGAIN));
        table.release_holder(2);
        table.set(&ONE, 1, &whole(LockKind::Shared)).unwrap();
    }

    #[test]
    fn random_locks_agree_with_a_table_of_bytes() {
        let seed: u64 =
            std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
        println!("SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut table = LockTable::default();
        let mut bytes = [[LockKind::Unlock; 64]; 3];
        for step in 0..5000 {
            let owner = random.usize(0..3);
            let start = random.u64(0..64);
            let end = random.u64(start..64);
            let kind = [LockKind::Shared, LockKind::Exclusive, LockKind::Unlock][random.usize(0..3)];
            let bars = |held: LockKind| match kind {
                LockKind::Unlock => false,
                LockKind::Shared => held == LockKind::Exclusive,
                LockKind::Exclusive => held != LockKind::Unlock,
            };
            let place = start as usize..=end as usize;
            let barred =
                (0..3).any(|other| other != owner && bytes[other][place.clone()].iter().any(|&held| bars(held)));
            let answer = table.set(&LockOwner::Number(owner as u64), 0, &range(kind, start, end));
            assert_eq!(answer.is_err(), barred, "step {step}");
            if !barred {
                bytes[owner][place].fill(kind);
            }
        }
    }

    #[test]
    fn owners_of_bytes_are_the_same_if_all_bytes_are() {
        const NLM_BYTES_MAX: usize = 1024;
        let long = |last: u8| LockOwner::from([vec![0; NLM_BYTES_MAX - 1], vec![last]].concat().as_slice());
        let owners = [
            LockOwner::Number(0),
            LockOwner::from(&b""[..]),
            LockOwner::from(&0_u64.to_ne_bytes()[..]),
            LockOwner::from(&[0; 7][..]),
            LockOwner::from(&1_u64.to_le_bytes()[..]),
            LockOwner::Number(1),
            long(0),
            long(1),
        ];
        for lock in [range(LockKind::Exclusive, 0, 9), whole(LockKind::Exclusive)] {
            for (index, owner) in owners.iter().enumerate() {
                let mut table = LockTable::default();
                table.set(owner, 0, &lock).unwrap();
                for (other_index, other) in owners.iter().enumerate() {
                    let expected = if index == other_index { Ok(()) } else { Err(Errno::EAGAIN) };
                    assert_eq!(table.set(other, 0, &lock), expected, "{owner:?}, {other:?}");
                    assert_eq!(table.conflict(other, &lock).is_none(), index == other_index);
                }
                let equal = match owner {
                    LockOwner::Number(number) => LockOwner::Number(*number),
                    LockOwner::Opaque(bytes) => LockOwner::Opaque(bytes.to_vec().into()),
                };
                table.set(&equal, 0, &Lock { kind: LockKind::Unlock, ..lock }).unwrap();
                assert!(table.is_empty(), "equal bytes are one owner: {owner:?}");
            }
        }
    }

    #[test]
    fn an_owner_has_so_many_ranges_and_no_more() {
        let mut table = LockTable::default();
        let (one, two, most) = (LockOwner::Number(1), LockOwner::Number(2), LOCK_RANGES_MAX as u64);
        (0..most).for_each(|at| table.set(&one, 1, &range(LockKind::Shared, 10 * at, 10 * at + 4)).unwrap());
        assert_eq!(table.set(&one, 1, &range(LockKind::Shared, 10 * most, 10 * most)), Err(Errno::ENOLCK));
        // Releasing a part would leave two.
        assert_eq!(table.set(&one, 1, &range(LockKind::Unlock, 2, 2)), Err(Errno::ENOLCK));
        assert_eq!(table.set(&two, 1, &range(LockKind::Exclusive, 2, 2)), Err(Errno::EAGAIN));
        table.set(&two, 1, &range(LockKind::Exclusive, 10 * most, 10 * most)).unwrap();
        table.set(&one, 1, &range(LockKind::Unlock, 0, 4)).unwrap();
        table.set(&one, 1, &range(LockKind::Shared, 10 * most + 1, 10 * most + 1)).unwrap();
        table.release_ranges(&one);
        assert_eq!(table.ranges.len(), 1);
        table.release_ranges(&two);
        assert!(table.is_empty());
    }
}

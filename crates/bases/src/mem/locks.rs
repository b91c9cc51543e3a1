//! A table of advisory locks on one file: byte ranges and whole-file locks, among owners.

use vnode::{Errno, LOCK_RANGES_MAX, Lock, LockFamily, LockKind, LockOwner, Result};

/// The locks on one file.
///
/// Invariants: ranges of one owner do not overlap, ranges of one owner and kind do not touch, and no two owners hold
/// ranges of one family that exclude each other.
#[derive(Default)]
pub struct LockTable {
    ranges: Vec<Held>,
    whole: Vec<Held>,
}

/// A lock that is held.
#[derive(Clone, Copy)]
struct Held {
    owner: LockOwner,
    /// Through which open file it was taken.
    holder: u64,
    lock: Lock,
}

impl LockTable {
    /// A lock of another owner that `lock` cannot be held beside.
    pub fn conflict(&self, owner: LockOwner, lock: &Lock) -> Option<Lock> {
        let excludes = |held: &&Held| {
            held.owner != owner
                && (held.lock.kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
                && (lock.family == LockFamily::Flock || overlap(&held.lock, lock))
        };
        match lock.kind {
            LockKind::Unlock => None,
            _ => self.family(lock.family).iter().find(excludes).map(|held| held.lock),
        }
    }

    /// Takes, changes or releases a lock for `owner`, through the open file `holder`.
    ///
    /// A whole-file lock that changes its kind is given up before the new one is asked for, as flock(2) does.
    ///
    /// # Errors
    /// `EAGAIN` if another owner's lock is in the way, `EINVAL` for a range that ends before it starts, `ENOLCK` for more than
    /// [`LOCK_RANGES_MAX`].
    pub fn set(&mut self, owner: LockOwner, holder: u64, lock: &Lock) -> Result<()> {
        if lock.start > lock.end {
            return Err(Errno::EINVAL);
        }
        match lock.family {
            LockFamily::Flock => self.set_whole(owner, holder, lock),
            LockFamily::Posix => self.set_range(owner, holder, lock),
        }
    }

    /// Releases all byte ranges of `owner`.
    pub fn release_ranges(&mut self, owner: LockOwner) {
        self.ranges.retain(|held| held.owner != owner);
    }

    /// Releases whatever was taken through the open file `holder`.
    pub fn release_holder(&mut self, holder: u64) {
        self.ranges.retain(|held| held.holder != holder);
        self.whole.retain(|held| held.holder != holder);
    }

    fn family(&self, family: LockFamily) -> &Vec<Held> {
        match family {
            LockFamily::Posix => &self.ranges,
            LockFamily::Flock => &self.whole,
        }
    }

    fn set_whole(&mut self, owner: LockOwner, holder: u64, lock: &Lock) -> Result<()> {
        if self.whole.iter().any(|held| held.owner == owner && held.lock.kind == lock.kind) {
            return Ok(());
        }
        self.whole.retain(|held| held.owner != owner);
        if self.conflict(owner, lock).is_some() {
            return Err(Errno::EAGAIN);
        }
        if lock.kind != LockKind::Unlock {
            self.whole.push(Held { owner, holder, lock: Lock { start: 0, end: u64::MAX, ..*lock } });
        }
        Ok(())
    }

    fn set_range(&mut self, owner: LockOwner, holder: u64, lock: &Lock) -> Result<()> {
        if self.conflict(owner, lock).is_some() {
            return Err(Errno::EAGAIN);
        }
        let (own, mut rest): (Vec<Held>, Vec<Held>) = self.ranges.iter().partition(|held| held.owner == owner);
        let mut new: Vec<_> = own.iter().flat_map(|held| outside(held, lock)).collect();
        if lock.kind != LockKind::Unlock {
            new.push(Held { owner, holder, lock: *lock });
        }
        new.sort_by_key(|held| held.lock.start);
        let new = merged(new);
        if new.len() > own.len().max(LOCK_RANGES_MAX) {
            return Err(Errno::ENOLCK);
        }
        rest.extend(new);
        self.ranges = rest;
        Ok(())
    }
}

fn overlap(one: &Lock, other: &Lock) -> bool {
    one.start <= other.end && other.start <= one.end
}

/// What remains of a held range before and after that of `lock`.
fn outside(held: &Held, lock: &Lock) -> impl Iterator<Item = Held> + use<> {
    let (held, lock) = (*held, *lock);
    let part = move |start, end| Held { lock: Lock { start, end, ..held.lock }, ..held };
    let disjoint = !overlap(&held.lock, &lock);
    let before = (!disjoint && held.lock.start < lock.start).then(|| part(held.lock.start, lock.start - 1));
    let after = (!disjoint && held.lock.end > lock.end).then(|| part(lock.end + 1, held.lock.end));
    disjoint.then_some(held).into_iter().chain(before).chain(after)
}

/// Ranges of one owner, ordered and disjoint, with those that touch and exclude the same joined.
fn merged(ranges: Vec<Held>) -> Vec<Held> {
    let mut joined: Vec<Held> = Vec::with_capacity(ranges.len());
    for next in ranges {
        match joined.last_mut() {
            Some(last) if last.lock.kind == next.lock.kind && last.lock.end.checked_add(1) == Some(next.lock.start) => {
                last.lock.end = next.lock.end;
                (last.lock.pid, last.holder) = (next.lock.pid, next.holder);
            }
            _ => joined.push(next),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(kind: LockKind, start: u64, end: u64) -> Lock {
        Lock { family: LockFamily::Posix, kind, start, end, pid: 0 }
    }

    fn whole(kind: LockKind) -> Lock {
        Lock { family: LockFamily::Flock, kind, start: 0, end: u64::MAX, pid: 0 }
    }

    const ONE: LockOwner = LockOwner(1);
    const TWO: LockOwner = LockOwner(2);

    #[test]
    fn a_range_is_split_by_unlocking_its_middle() {
        let mut table = LockTable::default();
        table.set(ONE, 0, &range(LockKind::Exclusive, 0, u64::MAX)).unwrap();
        table.set(ONE, 0, &range(LockKind::Unlock, 10, 19)).unwrap();
        table.set(TWO, 0, &range(LockKind::Exclusive, 10, 19)).unwrap();
        assert_eq!(table.set(TWO, 0, &range(LockKind::Shared, 9, 9)), Err(Errno::EAGAIN));
        assert_eq!(table.set(TWO, 0, &range(LockKind::Shared, 20, 20)), Err(Errno::EAGAIN));
        assert_eq!(table.conflict(TWO, &range(LockKind::Shared, 20, 30)).unwrap().start, 20);
    }

    #[test]
    fn ranges_that_touch_are_joined() {
        let mut table = LockTable::default();
        for start in [0, 20, 10] {
            table.set(ONE, 0, &range(LockKind::Shared, start, start + 9)).unwrap();
        }
        let found = table.conflict(TWO, &range(LockKind::Exclusive, 15, 15)).unwrap();
        assert_eq!((found.start, found.end), (0, 29));
    }

    #[test]
    fn shared_ranges_of_two_owners_keep_either_from_upgrading() {
        let mut table = LockTable::default();
        table.set(ONE, 0, &range(LockKind::Shared, 0, 9)).unwrap();
        table.set(TWO, 0, &range(LockKind::Shared, 5, 15)).unwrap();
        assert_eq!(table.set(ONE, 0, &range(LockKind::Exclusive, 0, 9)), Err(Errno::EAGAIN));
        table.set(ONE, 0, &range(LockKind::Exclusive, 0, 4)).unwrap();
        table.release_ranges(TWO);
        table.set(ONE, 0, &range(LockKind::Exclusive, 0, 9)).unwrap();
    }

    #[test]
    fn the_families_do_not_see_each_other() {
        let mut table = LockTable::default();
        table.set(ONE, 1, &range(LockKind::Exclusive, 0, u64::MAX)).unwrap();
        table.set(TWO, 2, &whole(LockKind::Exclusive)).unwrap();
        assert_eq!(table.set(ONE, 1, &whole(LockKind::Shared)), Err(Errno::EAGAIN));
        table.release_holder(2);
        table.set(ONE, 1, &whole(LockKind::Shared)).unwrap();
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
            let answer = table.set(LockOwner(owner as u64), 0, &range(kind, start, end));
            assert_eq!(answer.is_err(), barred, "step {step}");
            if !barred {
                bytes[owner][place].fill(kind);
            }
        }
    }

    #[test]
    fn an_owner_has_so_many_ranges_and_no_more() {
        let mut table = LockTable::default();
        let (one, two, most) = (LockOwner(1), LockOwner(2), LOCK_RANGES_MAX as u64);
        (0..most).for_each(|at| table.set(one, 1, &range(LockKind::Shared, 10 * at, 10 * at + 4)).unwrap());
        assert_eq!(table.set(one, 1, &range(LockKind::Shared, 10 * most, 10 * most)), Err(Errno::ENOLCK));
        // A part that is released would leave two.
        assert_eq!(table.set(one, 1, &range(LockKind::Unlock, 2, 2)), Err(Errno::ENOLCK));
        assert_eq!(table.set(two, 1, &range(LockKind::Exclusive, 2, 2)), Err(Errno::EAGAIN));
        table.set(two, 1, &range(LockKind::Exclusive, 10 * most, 10 * most)).unwrap();
        table.set(one, 1, &range(LockKind::Unlock, 0, 4)).unwrap();
        table.set(one, 1, &range(LockKind::Shared, 10 * most + 1, 10 * most + 1)).unwrap();
        table.release_ranges(one);
        assert_eq!(table.ranges.len(), 1);
    }
}

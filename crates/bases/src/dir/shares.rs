//! Shares of the process's descriptors: what callers hold open leaves room for other callers, for look-ups and for the server.
//!
//! Callers together hold at most [`Limits::held`]. A user holds at most as many as are then left of these, so that the
//! next user always gets some: half of all if no other user has any, a third each if there are two. All subordinate ids
//! of one range count as one user, since the owner of such a range would otherwise have another share with each id. The
//! superuser, the server, and the user that runs it may have all that are left. Descriptors that the base keeps for
//! itself are numbered below [`Limits::long_lived`]: the system assigns the lowest free number, so the numbers from
//! there on are free for the short-lived descriptors of operations.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use vnode::{Caller, Errno, Result};

use super::subordinate_ids::accounting_uid;

/// Maximum number of descriptors that callers leave, however many the process may have.
const RESERVE_MAX: usize = 1 << 14;

/// The process's limits of open descriptors.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Number that callers may hold.
    held: usize,
    /// First number at which no descriptor is kept open for longer than an operation.
    long_lived: usize,
}

impl Limits {
    /// Computes the limits of a process that may have `all` open.
    fn of(all: usize) -> Self {
        let reserve = (all / 4).min(RESERVE_MAX);
        Self { held: all - reserve, long_lived: all - reserve / 2 }
    }
}

/// Numbers of descriptors that callers hold.
#[derive(Debug, Default)]
struct HeldCounts {
    total: usize,
    by_user: HashMap<u32, usize>,
}

impl HeldCounts {
    /// Counts one more for a user, out of `all` that callers may hold.
    fn take(&mut self, all: usize, user: u32, entitlement: Entitlement) -> Result<()> {
        let left = all.saturating_sub(self.total);
        let own = self.by_user.get(&user).copied().unwrap_or_default();
        let is_refused = match entitlement {
            Entitlement::Share => own >= left,
            Entitlement::Remaining => left == 0,
            Entitlement::Any => false,
        };
        if is_refused {
            return Err(Errno::EMFILE);
        }
        self.by_user.insert(user, own + 1);
        self.total += 1;
        Ok(())
    }

    fn release(&mut self, user: u32) {
        self.total -= 1;
        match self.by_user.get_mut(&user) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(self.by_user.remove(&user)),
        }
    }
}

/// The part of the remaining descriptors that a caller may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entitlement {
    /// As many as it leaves for others.
    Share,
    /// All.
    Remaining,
    /// Even more than remain: the reserve is the server's.
    Any,
}

impl Entitlement {
    fn of(caller: &Caller) -> Entitlement {
        match caller {
            Caller { server: true, .. } => Entitlement::Any,
            _ if caller.is_superuser() || caller.uid == geteuid().as_raw() => Entitlement::Remaining,
            _ => Entitlement::Share,
        }
    }
}

/// Maximum number of open descriptors of this process, raised as far as allowed when a base is first opened.
static DESCRIPTOR_LIMIT: LazyLock<usize> = LazyLock::new(raise_limit);
static HELD_COUNTS: LazyLock<Mutex<HeldCounts>> = LazyLock::new(Mutex::default);

/// Returns the number of descriptors that the process may have, after raising the limit as far as allowed.
pub(crate) fn limit() -> usize {
    *DESCRIPTOR_LIMIT
}

/// Returns whether a descriptor may be kept for longer than an operation: enough others are left.
pub(crate) fn may_retain(descriptor: impl AsFd) -> bool {
    (descriptor.as_fd().as_raw_fd() as usize) < Limits::of(*DESCRIPTOR_LIMIT).long_lived
}

/// Room for a descriptor that a caller will hold, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct DescriptorShare {
    user: u32,
}

impl DescriptorShare {
    /// Reserves one more descriptor for a caller; to be called before anything is opened or created.
    ///
    /// # Errors
    /// `EMFILE` for a caller that already has as many as it may.
    pub(crate) fn take(caller: &Caller) -> Result<Self> {
        let user = accounting_uid(caller.uid);
        held().take(Limits::of(*DESCRIPTOR_LIMIT).held, user, Entitlement::of(caller))?;
        Ok(Self { user })
    }

    /// Transfers the reservation to the descriptor that it was made for.
    pub(crate) fn of(self, descriptor: OwnedFd) -> HeldDescriptor {
        HeldDescriptor { descriptor, _share: self }
    }
}

impl Drop for DescriptorShare {
    fn drop(&mut self) {
        held().release(self.user);
    }
}

/// A descriptor that a caller holds open.
#[derive(Debug)]
pub(crate) struct HeldDescriptor {
    descriptor: OwnedFd,
    _share: DescriptorShare,
}

impl AsFd for HeldDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn held() -> MutexGuard<'static, HeldCounts> {
    HELD_COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Raises the limit as far as allowed: for root beyond its hard limit, up to the system's maximum for any process.
fn raise_limit() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let of_system = procfs::parameter("fs/nr_open").and_then(|text| text.parse().ok());
    // Refused without the capability, and in some containers; then the present limit has to suffice.
    let _ = [of_system.unwrap_or(0).max(maximum), maximum]
        .into_iter()
        .any(|all| setrlimit(Resource::Nofile, Rlimit { current: Some(all), maximum: Some(all) }).is_ok());
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |all| all as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(held: &mut HeldCounts, user: u32, entitlement: Entitlement) -> usize {
        (0..).take_while(|_| held.take(100, user, entitlement).is_ok()).count()
    }

    #[test]
    fn shares_leave_descriptors_for_the_next_user() {
        let mut held = HeldCounts::default();
        assert_eq!(take_all(&mut held, 1, Entitlement::Share), 50);
        assert_eq!(take_all(&mut held, 2, Entitlement::Share), 25);
        assert_eq!(take_all(&mut held, 3, Entitlement::Share), 13);
        assert_eq!(take_all(&mut held, 1, Entitlement::Share), 0);
        assert_eq!(take_all(&mut held, 0, Entitlement::Remaining), 12);
        assert_eq!(held.take(100, 0, Entitlement::Any), Ok(()), "the reserve");
        (0..50).for_each(|_| held.release(1));
        assert_eq!(held.by_user.get(&1), None);
        assert_eq!(held.take(100, 4, Entitlement::Share), Ok(()));
    }

    #[test]
    fn limits_leave_a_reserve() {
        for all in [64, 1024, 1 << 20, usize::MAX] {
            let Limits { held, long_lived } = Limits::of(all);
            assert!(held < long_lived && long_lived < all && held >= all / 2, "{all}: {held} {long_lived}");
        }
    }

    #[test]
    fn dropped_descriptor_releases_its_share() {
        let caller = Caller::with_groups(4_000_000, 0, &[], 0);
        let held_by_it = || held().by_user.get(&4_000_000).copied();
        let descriptor = std::fs::File::open("/").unwrap().into();
        let descriptor = DescriptorShare::take(&caller).unwrap().of(descriptor);
        assert_eq!(held_by_it(), Some(1));
        drop(descriptor);
        assert_eq!(held_by_it(), None);
    }
    #[test]
    fn subordinate_ids_of_one_range_have_one_share() {
        crate::dir::subordinate_ids::set_ranges(vec![4_100_000..4_165_536, 4_200_000..4_200_010]);
        let take = |uid| DescriptorShare::take(&Caller::with_groups(uid, 0, &[], 0)).unwrap();
        let shares = [4_100_001, 4_165_535, 4_165_536].map(take);
        let held_by = |uid| held().by_user.get(&uid).copied();
        let counts = [4_100_000, 4_100_001, 4_165_536].map(held_by);
        drop(shares);
        assert_eq!(counts, [Some(2), None, Some(1)]);
        assert_eq!(held_by(4_100_000), None);
    }
}

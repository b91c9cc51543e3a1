//! Metering of a run beyond its fuel: work, measured in bytes handled and requests to the lower layer, and time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::trap::TrapKind;

/// Maximum work of a run, in units of one byte copied once.
pub const MAX_WORK: u64 = 1 << 30;
/// Default time limit.
pub const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Work between two clock checks.
const CLOCK_CHECK_WORK: u64 = 32 << 20;
/// Fuel between two clock checks.
const CLOCK_CHECK_FUEL: u64 = 1 << 18;

/// The remaining work and time of a run, or of all runs of one operation.
#[derive(Clone, Debug)]
pub struct Meter {
    work: u64,
    /// The clock is checked when less work than this is left.
    next_clock_check: u64,
    limit: Duration,
    /// Computing time before the clock was last started.
    used: Duration,
    /// Thread time when the clock was last started, which happens at the first check: most runs end before that.
    clock_started_at: Option<Duration>,
    /// Number of pauses.
    pauses: u64,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new(TIME_LIMIT)
    }
}

impl Meter {
    /// Creates an unused meter. A run may compute for at most `limit`, and does no work afterwards.
    pub fn new(limit: Duration) -> Meter {
        Meter {
            work: MAX_WORK,
            next_clock_check: MAX_WORK - CLOCK_CHECK_WORK,
            limit,
            used: Duration::ZERO,
            clock_started_at: None,
            pauses: 0,
        }
    }

    /// Sets the work limit, [`MAX_WORK`] at most.
    #[must_use]
    pub fn with_work(self, work: u64) -> Meter {
        let work = work.min(MAX_WORK);
        Meter { work, next_clock_check: work.saturating_sub(CLOCK_CHECK_WORK), ..self }
    }

    /// Charges work, before it is done.
    ///
    /// # Errors
    /// [`TrapKind::WorkLimit`], [`TrapKind::TimeLimit`].
    #[inline]
    pub fn charge(&mut self, work: u64) -> Result<(), TrapKind> {
        self.work = self.work.checked_sub(work).ok_or(TrapKind::WorkLimit)?;
        if self.work < self.next_clock_check {
            self.next_clock_check = self.work.saturating_sub(CLOCK_CHECK_WORK);
            return self.look();
        }
        Ok(())
    }

    /// Checks the clock. Time before the first check does not count.
    ///
    /// # Errors
    /// [`TrapKind::TimeLimit`].
    pub fn look(&mut self) -> Result<(), TrapKind> {
        let now = thread_time();
        let clock_started_at = *self.clock_started_at.get_or_insert(now);
        if self.used + now.saturating_sub(clock_started_at) > self.limit { Err(TrapKind::TimeLimit) } else { Ok(()) }
    }

    /// Stops the clock until the next check, while the thread does something other than the run.
    pub fn pause(&mut self) {
        self.pauses += 1;
        if let Some(clock_started_at) = self.clock_started_at.take() {
            self.used += thread_time().saturating_sub(clock_started_at);
        }
    }

    /// Number of times the clock was stopped.
    pub(crate) const fn pauses(&self) -> u64 {
        self.pauses
    }

    /// Restarts the clock, if it was running before.
    pub fn resume(&mut self) {
        if !self.used.is_zero() {
            self.clock_started_at = Some(thread_time());
        }
    }
}

/// CPU time of this thread: waiting, and other threads that use the CPU, do not count.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Fuel of a run: the caller counts down the part up to the next clock check one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fuel {
    /// Fuel left after the next clock check.
    reserve: u64,
}

impl Fuel {
    /// Splits the total fuel; also returns the part up to the first clock check.
    pub(crate) fn new(all: u64) -> (Fuel, u64) {
        let first = all.min(CLOCK_CHECK_FUEL);
        (Fuel { reserve: all - first }, first)
    }

    /// Checks the clock when that part is used up; returns the fuel up to the next check. `missing` is the amount
    /// overspent.
    ///
    /// # Errors
    /// [`TrapKind::OutOfFuel`], [`TrapKind::TimeLimit`].
    pub(crate) fn refill(&mut self, overspent: u64, meter: &mut Meter) -> Result<u64, TrapKind> {
        let left = self.reserve.checked_sub(overspent).ok_or(TrapKind::OutOfFuel)?;
        meter.look()?;
        let (steps, next) = Fuel::new(left);
        *self = steps;
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_limit_is_enforced() {
        let mut meter = Meter::new(Duration::MAX);
        assert_eq!((meter.charge(MAX_WORK - 1), meter.charge(1), meter.charge(0)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(meter.charge(1), Err(TrapKind::WorkLimit));
    }

    #[test]
    fn only_thread_cpu_time_with_a_running_clock_counts() {
        let mut meter = Meter::new(Duration::from_millis(20));
        let compute = |time: Duration| {
            let end = thread_time() + time;
            while thread_time() < end {}
        };
        assert_eq!(meter.look(), Ok(()));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(meter.look(), Ok(()), "it has waited");
        meter.pause();
        compute(Duration::from_millis(50));
        meter.resume();
        assert_eq!(meter.look(), Ok(()), "the clock stood still");
        compute(Duration::from_millis(50));
        assert_eq!(meter.look(), Err(TrapKind::TimeLimit));
    }

    #[test]
    fn clock_checks_do_not_change_the_total_fuel() {
        for weight in [1, 7, 4096] {
            let all = 1_000_000;
            let (mut steps, mut left) = Fuel::new(all);
            let mut meter = Meter::default();
            let mut taken = 0;
            loop {
                match left.checked_sub(weight) {
                    Some(rest) => left = rest,
                    None => match steps.refill(weight - left, &mut meter) {
                        Ok(refill) => left = refill,
                        Err(kind) => {
                            assert_eq!(kind, TrapKind::OutOfFuel);
                            break;
                        }
                    },
                }
                taken += weight;
            }
            assert_eq!(taken, all / weight * weight);
        }
    }
}

//! What a run may take besides rounds and calls: work, which is counted by bytes and by what is asked for below, and time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::stop::Why;

/// Most work of a run: bytes that are copied once.
pub const WORK_MAX: u64 = 1 << 30;
/// The time limit where none is given.
pub const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Work between two looks at the clock.
const LOOK_WORK: u64 = 32 << 20;
/// Rounds and calls between two looks at the clock.
const LOOK_STEPS: u64 = 1 << 18;

/// What is left of the work and of the time of a run, or of several that are one operation's.
#[derive(Clone, Debug)]
pub struct Meter {
    work: u64,
    /// The clock is looked at when less work is left.
    next_look: u64,
    limit: Duration,
    /// How long it has computed before the clock was begun the last time.
    used: Duration,
    /// What the clock of the thread said then. It is begun at the first look: most runs end before that.
    begun: Option<Duration>,
    /// How often it was stopped.
    pauses: u64,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter::new(TIME_LIMIT)
    }
}

impl Meter {
    /// Nothing is taken yet. The run computes for so long at most, and no work is done afterwards.
    pub fn new(limit: Duration) -> Meter {
        Meter { work: WORK_MAX, next_look: WORK_MAX - LOOK_WORK, limit, used: Duration::ZERO, begun: None, pauses: 0 }
    }

    /// The same with so much work to be taken, [`WORK_MAX`] at most.
    #[must_use]
    pub fn with_work(self, work: u64) -> Meter {
        let work = work.min(WORK_MAX);
        Meter { work, next_look: work.saturating_sub(LOOK_WORK), ..self }
    }

    /// Takes so much work, before it is done.
    ///
    /// # Errors
    /// [`Why::TooMuchWork`], [`Why::TooLong`].
    #[inline]
    pub fn charge(&mut self, work: u64) -> Result<(), Why> {
        self.work = self.work.checked_sub(work).ok_or(Why::TooMuchWork)?;
        if self.work < self.next_look {
            self.next_look = self.work.saturating_sub(LOOK_WORK);
            return self.look();
        }
        Ok(())
    }

    /// Looks at the clock. What is computed before the first look does not count.
    ///
    /// # Errors
    /// [`Why::TooLong`].
    pub fn look(&mut self) -> Result<(), Why> {
        let now = thread_time();
        let begun = *self.begun.get_or_insert(now);
        if self.used + now.saturating_sub(begun) > self.limit { Err(Why::TooLong) } else { Ok(()) }
    }

    /// Stops the clock until the next look, while something else is done than to run.
    pub fn pause(&mut self) {
        self.pauses += 1;
        if let Some(begun) = self.begun.take() {
            self.used += thread_time().saturating_sub(begun);
        }
    }

    /// How often something else was done.
    pub(crate) const fn pauses(&self) -> u64 {
        self.pauses
    }

    /// Starts the clock again, if it was begun before.
    pub fn resume(&mut self) {
        if !self.used.is_zero() {
            self.begun = Some(thread_time());
        }
    }
}

/// How long this thread has computed: what it waits for, and others that have the processor, do not count.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Rounds and calls that a run may still take: those up to the next look at the clock are counted one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    /// Those that may be taken after the next look.
    later: u64,
}

impl Steps {
    /// Of so many in all, with those up to the first look.
    pub(crate) fn new(all: u64) -> (Steps, u64) {
        let first = all.min(LOOK_STEPS);
        (Steps { later: all - first }, first)
    }

    /// Looks at the clock where these are taken: the number of those up to the next look. `missing` is how many were taken more
    /// than there were.
    ///
    /// # Errors
    /// [`Why::TooManySteps`], [`Why::TooLong`].
    pub(crate) fn more(&mut self, missing: u64, meter: &mut Meter) -> Result<u64, Why> {
        let left = self.later.checked_sub(missing).ok_or(Why::TooManySteps)?;
        meter.look()?;
        let (steps, next) = Steps::new(left);
        *self = steps;
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_taken_until_none_is_left() {
        let mut meter = Meter::new(Duration::MAX);
        assert_eq!((meter.charge(WORK_MAX - 1), meter.charge(1), meter.charge(0)), (Ok(()), Ok(()), Ok(())));
        assert_eq!(meter.charge(1), Err(Why::TooMuchWork));
    }

    #[test]
    fn time_counts_while_the_clock_runs_and_the_thread_computes() {
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
        assert_eq!(meter.look(), Err(Why::TooLong));
    }

    #[test]
    fn steps_are_as_many_as_there_are_however_often_the_clock_is_looked_at() {
        for weight in [1, 7, 4096] {
            let all = 1_000_000;
            let (mut steps, mut left) = Steps::new(all);
            let mut meter = Meter::default();
            let mut taken = 0;
            loop {
                match left.checked_sub(weight) {
                    Some(rest) => left = rest,
                    None => match steps.more(weight - left, &mut meter) {
                        Ok(more) => left = more,
                        Err(why) => {
                            assert_eq!(why, Why::TooManySteps);
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

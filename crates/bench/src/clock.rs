//! The cost of work: wall-clock time, and CPU time of the whole machine.
use std::ops::{Add, Sub};
use std::time::{Duration, Instant};

/// The time that something took.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct TimeUsed {
    /// Elapsed wall-clock time.
    pub wall: Duration,
    /// Time for which CPUs were busy, summed over all of them, with work of any kind: programs, the kernel, servers. It is
    /// counted in steps of 10 ms.
    pub cpu: Duration,
}

impl Add for TimeUsed {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

impl Sub for TimeUsed {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { wall: self.wall - other.wall, cpu: self.cpu.saturating_sub(other.cpu) }
    }
}

/// The starting point of a measurement of both times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    at: Instant,
    idle: Option<Duration>,
}

impl ClockReading {
    /// Returns the current moment.
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/stat").ok();
        Self { at: Instant::now(), idle: status.and_then(|status| idle_time(&status)) }
    }

    /// Returns the time used since then. Without `/proc/stat`, CPUs appear to have been idle.
    pub(crate) fn used(self) -> TimeUsed {
        let now = Self::now();
        let wall = now.at - self.at;
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let busy = |(now, then): (Duration, Duration)| (wall * processors).saturating_sub(now.saturating_sub(then));
        TimeUsed { wall, cpu: now.idle.zip(self.idle).map_or(Duration::ZERO, busy) }
    }
}

/// Returns the time for which CPUs were idle, waited for storage, or were taken by others who share the machine: the columns
/// idle, iowait and steal of proc_stat(5), in hundredths of a second.
fn idle_time(status: &str) -> Option<Duration> {
    let all = status.lines().next()?.strip_prefix("cpu ")?;
    let columns: Vec<u64> = all.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let hundredths = columns.get(3)? + columns.get(4)? + columns.get(7)?;
    Some(Duration::from_millis(hundredths * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_not_idle_is_busy() {
        let status = "cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(idle_time(status), Some(Duration::from_millis(4580)));
        assert_eq!(idle_time("cpu  1 2 3"), None);
    }

    #[test]
    fn busy_loop_uses_a_cpu() {
        let moment = ClockReading::now();
        while moment.at.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        let used = moment.used();
        assert!(used.wall >= Duration::from_millis(200));
        assert!(used.cpu >= Duration::from_millis(100), "{used:?}");
    }
}

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
        let idle = procfs::idle_time();
        Self { at: Instant::now(), idle }
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

#[cfg(test)]
mod tests {
    use super::*;

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

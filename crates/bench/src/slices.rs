//! Time slices: several subjects do the same work side by side, one of them running for a second at a time.
//!
//! Within a minute, the speed of a shared machine varies by more than the subjects differ. With slices, a temporary slowdown
//! affects all subjects, whereas otherwise each would have its own minute. The program that works for a subject is stopped
//! (SIGSTOP) while others run, and its clock stands still.
use std::process::{Command, ExitStatus};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::clock::{ClockReading, TimeUsed};
use crate::teardown;

/// Pause before the next subject runs, so that the server of the last one completes work that nothing waits for.
const SLICE_PAUSE: Duration = Duration::from_millis(50);

/// The permission of a subject to run, and its time used.
#[derive(Default)]
pub(crate) struct SubjectTurn {
    state: Mutex<TurnState>,
    changed: Condvar,
}

#[derive(Default)]
struct TurnState {
    /// Start of the current slice; `None` while it may not run.
    since: Option<ClockReading>,
    /// Time used before that.
    used: TimeUsed,
    /// The process group that currently works for it.
    program: Option<Pid>,
    ended: bool,
}

/// A guard that ends a turn for good on drop.
pub(crate) struct TurnGuard<'a>(&'a SubjectTurn);

impl SubjectTurn {
    /// Returns the turn of a subject that never waits for others.
    pub(crate) fn unshared() -> Self {
        Self {
            state: Mutex::new(TurnState { since: Some(ClockReading::now()), ..TurnState::default() }),
            ..Self::default()
        }
    }

    /// Waits until the subject may run for the first time; the turn ends when the result is dropped.
    pub(crate) fn begin(&self) -> TurnGuard<'_> {
        drop(self.wait());
        TurnGuard(self)
    }

    /// Returns the time that the subject has used.
    pub(crate) fn used(&self) -> TimeUsed {
        let state = self.lock();
        state.used + state.since.map_or_else(TimeUsed::default, ClockReading::used)
    }

    /// Runs a program to its end while the subject may run.
    pub(crate) fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        let mut state = self.wait();
        let mut child = teardown::spawn(command)?;
        let program = Pid::from_child(&child);
        state.program = Some(program);
        self.changed.notify_all();
        drop(state);
        // Its pid cannot be reused until it is no longer known here.
        let ended = waitid(WaitId::Pid(program), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        self.lock().program = None;
        let status = child.wait();
        teardown::forget(&child);
        ended.context("cannot wait for a program")?;
        drop(self.wait());
        Ok(status?)
    }

    /// Lets the subject run for that long, and then until a program that can be stopped works for it; returns whether the
    /// subject continues next time.
    fn run_slice(&self, slice: Duration, deadline: Instant) -> bool {
        let mut state = self.lock();
        let (started, since) = (Instant::now(), ClockReading::now());
        state.since = Some(since);
        if let Some(program) = state.program {
            let _ = kill_process_group(program, Signal::CONT);
        }
        self.changed.notify_all();
        let end = started.checked_add(slice).map_or(deadline, |end| end.min(deadline));
        while !state.ended && (state.program.is_none() || Instant::now() < end) {
            let remaining = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            state = self.changed.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
            if Instant::now() >= deadline {
                teardown::kill_all();
            }
        }
        if state.ended {
            return false;
        }
        state.used = state.used + since.used();
        state.since = None;
        if let Some(program) = state.program {
            let _ = kill_process_group(program, Signal::STOP);
        }
        true
    }

    /// Waits until the subject may run.
    fn wait(&self) -> MutexGuard<'_, TurnState> {
        let is_waiting = |state: &mut TurnState| state.since.is_none();
        self.changed.wait_while(self.lock(), is_waiting).unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

/// Gives each subject its slices in turn until all have ended; at the deadline, all running programs are killed. The order
/// rotates every round, so that none always follows the same one.
pub(crate) fn schedule(turns: &[SubjectTurn], slice: Duration, deadline: Instant) {
    let mut active: Vec<&SubjectTurn> = turns.iter().collect();
    while !active.is_empty() {
        active.retain(|turn| {
            let continues = turn.run_slice(slice, deadline);
            if turns.len() > 1 {
                std::thread::sleep(SLICE_PAUSE);
            }
            continues
        });
        if !active.is_empty() {
            active.rotate_left(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(30);

    /// At a deadline the harness kills everything that its process has started, including programs of another test.
    static EXCLUSIVE: Mutex<()> = Mutex::new(());

    fn lock_exclusive() -> MutexGuard<'static, ()> {
        EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deadline() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[test]
    fn clock_of_a_stopped_subject_stands_still() {
        let _exclusive = lock_exclusive();
        let turns = [SubjectTurn::default(), SubjectTurn::default()];
        let counts = std::thread::scope(|scope| {
            let counts = turns.each_ref().map(|turn| {
                scope.spawn(move || {
                    let _guard = turn.begin();
                    let mut shell = Command::new("sh");
                    shell.args(["-c", "i=0; while [ $i -lt 200 ]; do i=$((i+1)); sleep 0.001; done"]);
                    assert!(turn.run(&mut shell).unwrap().success());
                    turn.used().wall
                })
            });
            schedule(&turns, SLICE, deadline());
            counts.map(|count| count.join().unwrap())
        });
        let (shorter, longer) = (counts[0].min(counts[1]), counts[0].max(counts[1]));
        assert!(shorter >= Duration::from_millis(200), "{counts:?}");
        assert!(longer < shorter * 3, "each clock counts its own slices only: {counts:?}");
    }

    #[test]
    fn hanging_program_is_killed_at_the_deadline() {
        let _exclusive = lock_exclusive();
        let turns = [SubjectTurn::default()];
        let status = std::thread::scope(|scope| {
            let hung = scope.spawn(|| {
                let _guard = turns[0].begin();
                turns[0].run(Command::new("sleep").arg("1000"))
            });
            schedule(&turns, Duration::MAX, Instant::now() + SLICE);
            hung.join().unwrap().unwrap()
        });
        assert!(!status.success());
    }

    #[test]
    fn unshared_turns_never_wait() {
        let _exclusive = lock_exclusive();
        let turn = SubjectTurn::unshared();
        assert!(turn.run(&mut Command::new("true")).unwrap().success());
        assert!(turn.used().wall > Duration::ZERO);
    }
}

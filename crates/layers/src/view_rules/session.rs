//! A session: the one that has a number now, distinct from any later one.
//!
//! The number of a session is not reused as long as a process is in it, even after its leader has ended. So one of its
//! processes is known at each time, the *witness*; when that has ended, or has started a session of its own, another one is
//! searched for at once. If there is none, the session has ended for good.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::process::{self, Process};

/// Interval at which a live witness is checked.
const WITNESS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A session.
pub(crate) struct Session {
    pub(crate) number: u32,
    /// The process that started it, if that still existed.
    leader: Option<Process>,
    /// One of its processes; `None` once the session has ended.
    witness: Mutex<Option<Process>>,
}

impl Session {
    /// The session that has this number now; `None` if nobody is in it.
    pub(crate) fn of(number: u32) -> Option<Arc<Self>> {
        let leader = Process::current(number);
        let witness = match Process::in_session(number, number) {
            Ok(Some(leader)) => leader,
            _ => process::any_in_session(number).ok()??,
        };
        let session = Arc::new(Self { number, leader, witness: Mutex::new(Some(witness)) });
        session.watch();
        Some(session)
    }

    /// Returns whether a thread is in it.
    pub(crate) fn contains(&self, thread: u32) -> bool {
        // In this order: as long as the witness is in the session, the thread was in no other of that number.
        process::session(thread) == Some(self.number) && self.has_witness(false)
    }

    /// Checks the witness even without requests, as long as the session is in use.
    fn watch(self: &Arc<Self>) {
        let session = Arc::downgrade(self);
        let watch = move || {
            while let Some(session) = session.upgrade() {
                let is_known = session.has_witness(true);
                let witness = session.witness().clone();
                drop(session);
                let Some(witness) = witness else { break };
                match witness.pidfd.filter(|_| is_known) {
                    Some(pidfd) => pidfd.wait(WITNESS_CHECK_INTERVAL),
                    None => thread::sleep(WITNESS_CHECK_INTERVAL),
                }
            }
        };
        // Without the thread the witness is only checked on requests.
        let _ = thread::Builder::new().name("session".into()).spawn(vnode::as_server(watch));
    }

    /// Returns whether somebody is known to be in it now. A caller that `sees_all` processes ends it if nobody is.
    fn has_witness(&self, sees_all: bool) -> bool {
        let mut witness = self.witness();
        let Some(known) = &*witness else { return false };
        if known.is_in(self.number) {
            return true;
        }
        let found = process::any_in_session(self.number);
        // Only its leader can have the number of a session that somebody is in.
        let has_leader = self.leader.as_ref().is_some_and(Process::still_exists);
        let is_over = !has_leader && Process::current(self.number).is_some();
        match found {
            _ if is_over => *witness = None,
            Ok(Some(found)) => *witness = Some(found),
            Ok(None) if sees_all => *witness = None,
            _ => return false,
        }
        witness.is_some()
    }

    fn witness(&self) -> MutexGuard<'_, Option<Process>> {
        self.witness.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// A session whose leader, a shell, waits for another process of it, and both numbers.
    fn started() -> (Child, u32, u32) {
        let mut command = Command::new("setsid");
        let script = "sleep 100000 <&- >&- 2>&- & echo $!; read line";
        command.args(["sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut leader = command.spawn().unwrap();
        let mut member = String::new();
        BufReader::new(leader.stdout.take().unwrap()).read_line(&mut member).unwrap();
        let number = leader.id();
        (leader, number, member.trim().parse().unwrap())
    }

    /// Ends a process that is not a child of the test.
    fn end(process: u32) {
        kill_process(Pid::from_raw(process.cast_signed()).unwrap(), Signal::KILL).unwrap();
        while process::is_running(process) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn session_lasts_until_its_last_process_ends() {
        let (mut leader, number, member) = started();
        let session = Session::of(number).unwrap();
        assert!(session.contains(number) && session.contains(member) && !session.contains(std::process::id()));
        leader.kill().unwrap();
        leader.wait().unwrap();
        assert!(session.contains(member), "who began it has ended");
        let late = Session::of(number).unwrap();
        assert!(late.contains(member), "it is known by who is still in it");
        end(member);
        for session in [session, late] {
            while session.witness().is_some() {
                thread::sleep(Duration::from_millis(5));
            }
            assert!(!session.contains(member));
        }
        assert!(Session::of(number).is_none());
    }

    #[test]
    fn later_session_with_the_same_number_differs() {
        let (mut leader, number, member) = started();
        let [now, other] = [number, member].map(|process| Process::current(process).unwrap());
        let mut gone = Command::new("sleep").arg("100000").spawn().unwrap();
        let pidfd = Process::current(gone.id()).unwrap().pidfd;
        gone.kill().and_then(|()| gone.wait()).unwrap();
        // As if an earlier owner of the number had been meant, and as if it had started within the same tick.
        let before = |process: &Process| Process { start_time: process.start_time - 1, ..process.clone() };
        let as_late = |process: &Process| Process { pidfd: pidfd.clone(), ..process.clone() };
        let earlier =
            [(Some(before(&now)), before(&other)), (None, before(&other)), (Some(as_late(&now)), as_late(&now))];
        for (leader, witness) in earlier {
            let session = Session { number, leader: leader.clone(), witness: Mutex::new(Some(witness)) };
            assert!(!session.contains(number) && !session.contains(member), "{leader:?}");
        }
        let session = Session { number, leader: Some(before(&now)), witness: Mutex::new(Some(before(&now))) };
        assert!(!session.contains(member));
        leader.kill().unwrap();
        leader.wait().unwrap();
        assert!(!session.contains(member), "what is over is over for good");
        end(member);
    }
}

//! The state of a process or thread in one line, see proc_pid_stat(5).

use crate::read::{number, words};

/// A snapshot of the line. Each field is found when it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat(Vec<u8>);

/// Numbers of the fields, from 1, as proc_pid_stat(5) has them.
const STATE: usize = 3;
const PARENT: usize = 4;
const SESSION: usize = 6;
const THREAD_COUNT: usize = 20;
const START_TIME: usize = 22;
const CPU: usize = 39;
const POLICY: usize = 41;

impl From<Vec<u8>> for Stat {
    fn from(line: Vec<u8>) -> Self {
        Self(line)
    }
}

impl Stat {
    /// Returns its state: `b'R'` is running, `b'Z'` a zombie.
    pub fn state(&self) -> Option<u8> {
        self.text(STATE)?.first().copied()
    }

    /// Returns the parent of the process; 0 if that is not in the PID namespace of /proc.
    pub fn parent(&self) -> Option<u32> {
        self.number(PARENT)?.try_into().ok()
    }

    /// Returns the session; 0 if that began outside the PID namespace of /proc.
    pub fn session(&self) -> Option<u32> {
        self.number(SESSION)?.try_into().ok()
    }

    /// Returns the number of threads of the process.
    pub fn thread_count(&self) -> Option<u64> {
        self.number(THREAD_COUNT)
    }

    /// Returns when it was started, in clock ticks since boot.
    pub fn start_time(&self) -> Option<u64> {
        self.number(START_TIME)
    }

    /// Returns the number of the CPU on which it ran last.
    pub fn cpu(&self) -> Option<usize> {
        self.number(CPU)?.try_into().ok()
    }

    /// Returns the number of its scheduling policy, as in sched(7).
    pub fn policy(&self) -> Option<u64> {
        self.number(POLICY)
    }

    fn number(&self, field: usize) -> Option<u64> {
        number(self.text(field)?)
    }

    /// Returns a field after the name, the second, which may have spaces, newlines and parentheses in it.
    fn text(&self, field: usize) -> Option<&[u8]> {
        let name_end = self.0.iter().rposition(|&byte| byte == b')')?;
        words(&self.0[name_end + 1..]).nth(field - STATE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_from_after_the_name() {
        let line = b"8 (\xff) S 1\n2 () R 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 11 0 912 0 0\n";
        let stat = Stat::from(line.to_vec());
        assert_eq!((stat.state(), stat.parent(), stat.session()), (Some(b'R'), Some(7), Some(9)));
        assert_eq!((stat.thread_count(), stat.start_time(), stat.cpu()), (Some(11), Some(912), None));
        assert_eq!(Stat::from(b"8 (name".to_vec()).state(), None);
    }
}

//! The machine: its memory, the time of its CPUs, and the kernel's parameters.

use std::time::Duration;

use crate::read::{bytes, field, number, read, words};

/// Returns the value of a parameter below /proc/sys, such as `fs/protected_symlinks`, see proc_sys(5); `None` if there is none.
pub fn parameter(name: &str) -> Option<String> {
    let value = read(&format!("/proc/sys/{name}")).ok()?;
    Some(String::from_utf8(value).ok()?.trim().to_owned())
}

/// Returns how much memory, in bytes, programs could get without swapping, see proc_meminfo(5).
pub fn available_memory() -> Option<u64> {
    field(&read("/proc/meminfo").ok()?, "MemAvailable").and_then(bytes)
}

/// Returns the time for which CPUs have been idle, have waited for storage, or were taken by others who share the machine: the
/// columns idle, iowait and steal of proc_stat(5).
pub fn idle_time() -> Option<Duration> {
    idle_time_in(&read("/proc/stat").ok()?)
}

fn idle_time_in(text: &[u8]) -> Option<Duration> {
    let all = text.split(|&byte| byte == b'\n').next()?.strip_prefix(b"cpu ")?;
    let columns: Vec<u64> = words(all).filter_map(number).collect();
    let hundredths = columns.get(3)? + columns.get(4)? + columns.get(7)?;
    Some(Duration::from_millis(hundredths * 10))
}

/// Returns the load average of the last minute.
pub fn load_average() -> Option<f64> {
    number(words(&read("/proc/loadavg").ok()?).next()?)
}

/// Returns whether the kernel has a type of file systems at present; it may be able to load a module for others.
pub fn has_file_system(kind: &str) -> bool {
    let types = read("/proc/filesystems").unwrap_or_default();
    types.split(|&byte| byte == b'\n').any(|line| words(line).last() == Some(kind.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        assert!(available_memory() > Some(1 << 20));
        assert!(idle_time().is_some() && load_average().is_some());
        assert!(has_file_system("proc") && !has_file_system("pro"));
        assert!(parameter("fs/nr_open").is_some_and(|most| most.parse::<u64>().is_ok()));
        assert_eq!(parameter("fs/no-such-parameter"), None);
    }

    #[test]
    fn idle_time_is_idle_waiting_and_stolen() {
        let text = b"cpu  10 20 30 400 50 60 70 8 9 10\ncpu0 1 2 3\n";
        assert_eq!(idle_time_in(text), Some(Duration::from_millis(4580)));
        assert_eq!(idle_time_in(b"cpu 1 2"), None);
    }
}

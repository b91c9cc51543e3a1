//! The caller: on whose behalf an operation is done.

use std::fs;
use std::sync::{Arc, OnceLock};

/// Whose operation it is: every operation of the interface gets one, so that bases check and layers decide by it.
///
/// Supplementary groups and the session are looked up in /proc when first asked for, since most operations need
/// neither and the look-up costs more than many operations.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The file system user id, as in credentials(7).
    pub uid: u32,
    /// The file system group id.
    pub gid: u32,
    /// The process (thread) id in the server's pid namespace; 0 where there is none: kernel write-back, NFS.
    pub pid: u32,
    /// The file mode creation mask, as in umask(2). Bases apply it to modes at creation, unless a default ACL rules.
    pub umask: u32,
    /// The operation is the server's own: bases act with the server's credentials and check nothing more.
    pub server: bool,
    groups: OnceLock<Arc<[u32]>>,
    session: OnceLock<u32>,
}

impl Caller {
    /// A process of this machine; its supplementary groups and session are looked up when asked for.
    pub fn process(pid: u32, uid: u32, gid: u32, umask: u32) -> Self {
        Self { uid, gid, pid, umask, server: false, groups: OnceLock::new(), session: OnceLock::new() }
    }

    /// A caller whose supplementary groups are known, such as an RPC credential's.
    pub fn with_groups(uid: u32, gid: u32, groups: &[u32], umask: u32) -> Self {
        let caller = Self::process(0, uid, gid, umask);
        let _ = caller.groups.set(groups.into());
        let _ = caller.session.set(0);
        caller
    }

    /// The server itself: what a layer uses for work of its own that the user has no part in.
    pub fn server() -> Self {
        Self { server: true, ..Self::with_groups(0, 0, &[], 0) }
    }

    /// The same caller with other ids, for layers that map ids. The groups go through `map` when they are asked for
    /// at all; here they are looked up at once.
    pub fn mapped(&self, uid: u32, gid: u32, map: impl Fn(u32) -> u32) -> Self {
        let caller = Self { uid, gid, ..self.clone() };
        let groups: Arc<[u32]> = self.groups().iter().map(|&group| map(group)).collect();
        Self { groups: groups.into(), ..caller }
    }

    /// The supplementary groups. Empty where the process is gone or /proc is absent.
    pub fn groups(&self) -> &Arc<[u32]> {
        self.groups.get_or_init(|| groups_of(self.pid))
    }

    /// The session id, as in getsid(2); 0 where it cannot be known.
    pub fn session(&self) -> u32 {
        *self.session.get_or_init(|| session_of(self.pid))
    }

    /// Whether the caller is the superuser or the server itself.
    pub fn is_superuser(&self) -> bool {
        self.server || self.uid == 0
    }

    /// Whether `gid` is the caller's group or among its supplementary groups.
    pub fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups().contains(&gid)
    }
}

fn groups_of(pid: u32) -> Arc<[u32]> {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return Arc::new([]) };
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|group| group.parse().ok()).collect()
}

fn session_of(pid: u32) -> u32 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0 };
    // The command name may hold blanks and parentheses; the fields after the last `)` are state, ppid, pgrp, session.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_ascii_whitespace().nth(3).and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_session_of_a_live_process_are_found() {
        let caller = Caller::process(std::process::id(), 0, 0, 0);
        assert_ne!(caller.session(), u32::MAX);
        assert_eq!(caller.groups().len(), caller.groups().len());
        assert_eq!(Caller::process(0, 1, 1, 0).groups().len(), 0);
    }

    #[test]
    fn mapped_groups_are_mapped() {
        let caller = Caller::with_groups(1, 2, &[3, 4], 0o22).mapped(11, 12, |group| group + 10);
        assert_eq!((caller.uid, caller.gid, caller.umask), (11, 12, 0o22));
        assert_eq!(&**caller.groups(), &[13, 14]);
    }
}

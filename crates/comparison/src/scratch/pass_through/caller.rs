//! Who asks, and acting as that user.

use std::fs;

use fuser::Request;
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// The number that means no user or group.
const NOBODY: u32 = u32::MAX;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The user.
    pub user: u32,
    /// The user's group.
    pub group: u32,
    /// The process, or 0 if there is none.
    pub process: u32,
}

impl From<&Request> for Caller {
    fn from(request: &Request) -> Self {
        Self { user: request.uid(), group: request.gid(), process: request.pid() }
    }
}

impl Caller {
    /// The file system itself.
    pub const SERVER: Self = Self { user: 0, group: 0, process: 0 };

    /// Makes this thread act as the caller, until what this answers is dropped. A server that is not the superuser's
    /// acts as itself, and so does a thread that acts as somebody already.
    ///
    /// # Errors
    /// What the system says to it.
    pub fn act(&self) -> Result<Option<Acting>> {
        if self.user == 0 || !geteuid().is_root() {
            return Ok(None);
        }
        set_thread_groups(&self.groups())?;
        self.act_without_groups()
    }

    /// As [`Self::act`], where groups make no difference: for what is done through open files.
    ///
    /// # Errors
    /// What the system says to it.
    pub fn act_without_groups(&self) -> Result<Option<Acting>> {
        if self.user == 0 || !geteuid().is_root() {
            return Ok(None);
        }
        if self.user == NOBODY || self.group == NOBODY {
            // Who has no number here would be left what the file system is.
            return Err(Errno::OVERFLOW);
        }
        let acting = Acting;
        set_thread_res_gid(None, Gid::from_raw(self.group), None)?;
        set_thread_res_uid(None, Uid::from_raw(self.user), None)?;
        Ok(Some(acting))
    }

    /// The further groups of the caller's process.
    fn groups(&self) -> Vec<Gid> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
        line.split_whitespace().filter_map(|group| group.parse().ok()).map(Gid::from_raw).collect()
    }
}

/// A thread acts as somebody else.
#[derive(Debug)]
pub struct Acting;

impl Drop for Acting {
    fn drop(&mut self) {
        set_thread_res_uid(None, Uid::ROOT, None).expect("the saved user is the superuser");
        set_thread_res_gid(None, Gid::ROOT, None).expect("the superuser has any group");
    }
}

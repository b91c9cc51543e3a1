//! A process and all that descend from it.
//!
//! Linux knows of a process only its parent, and forgets it when that ends. So whoever was found to descend is remembered
//! as long as it lives, and one whose parents are gone is known by its session, if that began within the lineage and a
//! remembered process is still in it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::process::{self, Process, Watched};

/// So many are remembered of those that do not descend.
const STRANGERS_MAX: usize = 512;
/// A longer line of parents is no line: processes come and go while it is followed.
const GENERATIONS_MAX: usize = 4096;

/// A process and all that descend from it.
pub(in crate::union) struct Lineage {
    pub(super) first: Process,
    /// By the numbers of their threads.
    known: Mutex<HashMap<u32, Known>>,
}

/// A thread of which it is known whether it descends.
struct Known {
    watched: Watched,
    descends: bool,
    /// The session that it was in, if that began within the lineage.
    session: Option<u32>,
}

impl Lineage {
    /// That of a process; `None` if there is none of that number.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Some(Self { first: Process::now(pid)?, known: Mutex::default() })
    }

    /// Whether a thread is of the process, or of one that descends from it.
    pub(super) fn has(&self, thread: u32) -> bool {
        if let Some(descends) = self.remembered(thread) {
            return descends;
        }
        // Watched first: what is found out is of whoever has the number now.
        let watched = Watched::new(thread);
        let descends = self.descends(thread) || self.is_in_session_of_one(thread);
        let session = process::session(thread).filter(|session| descends && self.began_here(*session));
        if let Some(watched) = watched.filter(Watched::is_alive) {
            self.remember(thread, Known { watched, descends, session });
        }
        descends
    }

    fn remembered(&self, thread: u32) -> Option<bool> {
        let mut known = self.lock();
        let found = known.get(&thread)?;
        if found.watched.is_alive() {
            return Some(found.descends);
        }
        known.remove(&thread);
        None
    }

    fn remember(&self, thread: u32, found: Known) {
        let mut known = self.lock();
        if known.len().is_power_of_two() && known.len() >= STRANGERS_MAX {
            known.retain(|_, known| known.watched.is_alive());
            if known.values().filter(|known| !known.descends).count() >= STRANGERS_MAX {
                known.retain(|_, known| known.descends);
            }
        }
        known.insert(thread, found);
    }

    /// Whether parents lead from a thread to the first, or to one that is remembered.
    fn descends(&self, thread: u32) -> bool {
        let mut next = process::process_of(thread);
        for _ in 0..GENERATIONS_MAX {
            let Some(process) = next.filter(|process| *process != 0) else { return false };
            if process == self.first.pid {
                return self.first.is_there();
            }
            if self.remembered(process) == Some(true) {
                return true;
            }
            next = process::parent(process);
        }
        false
    }

    /// Whether a session was begun by one that descends.
    fn began_here(&self, session: u32) -> bool {
        self.descends(session)
    }

    /// Whether one that descends is in the thread's session, which began within the lineage. As long as it is, the session's
    /// number is no other's.
    fn is_in_session_of_one(&self, thread: u32) -> bool {
        let Some(session) = process::session(thread) else { return false };
        let known = self.lock();
        let mut relatives = known.iter().filter(|(_, known)| known.session == Some(session));
        relatives.any(|(relative, known)| process::session(*relative) == Some(session) && known.watched.is_alive())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

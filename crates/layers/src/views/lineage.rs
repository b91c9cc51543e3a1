//! A process and all its descendants.
//!
//! Linux knows only the parent of a process, and forgets it when that ends. So fork events are listened to, where that is
//! allowed. Where it is not, known descendants are remembered as long as they live, and a process whose parents are gone is
//! recognized by its session, if that began within the lineage and a remembered process is still in it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::{self, Process, Watched};
use super::process_events::{Births, Event};

/// Maximum number of remembered threads that are not descendants.
const STRANGERS_MAX: usize = 512;
/// Maximum length of a chain of parents; a longer one is an artefact of processes that start and end while it is followed.
const GENERATIONS_MAX: usize = 4096;
/// Maximum time that fork events stay queued without a request.
const PAUSE: Duration = Duration::from_millis(50);

/// A process and all its descendants.
pub(crate) struct Lineage {
    pub(crate) first: Process,
    births: Option<Arc<Births>>,
    /// Processes of the lineage known from fork events; without those only the first.
    born: Mutex<HashSet<u32>>,
    /// Classified threads, by their numbers.
    known: Mutex<HashMap<u32, Known>>,
}

/// A thread known to be, or not to be, a descendant.
struct Known {
    watched: Watched,
    descends: bool,
    /// The session that it was in, if that began within the lineage.
    session: Option<u32>,
}

impl Lineage {
    /// The lineage of a process; `None` if there is none of that number.
    pub(crate) fn of(pid: u32) -> Option<Arc<Self>> {
        // Listens first: a process that starts during the scan is reported.
        let births = Births::new().map(Arc::new);
        let first = Process::now(pid)?;
        let (born, known) = (Mutex::new(HashSet::from([pid])), Mutex::default());
        let lineage = Arc::new(Self { first, births, born, known });
        if lineage.births.is_some() {
            lineage.look_for_all(&mut lock(&lineage.born));
            lineage.listen();
        } else {
            lineage.remember_all();
        }
        Some(lineage)
    }

    /// Remembers all present descendants. Without exit events, they have to be watched.
    fn remember_all(&self) {
        for process in process::all() {
            if ancestors(process).any(|ancestor| ancestor == self.first.pid) {
                self.has(process);
            }
        }
    }

    /// Drains queued fork events, even without requests, as long as the lineage is in use.
    fn listen(self: &Arc<Self>) {
        let (Some(births), lineage) = (self.births.clone(), Arc::downgrade(self)) else { return };
        let listen = move || {
            while let Some(lineage) = lineage.upgrade() {
                lineage.take_births();
                drop(lineage);
                let second = Timespec { tv_sec: 1, tv_nsec: 0 };
                let _ = poll(&mut [PollFd::new(&births, PollFlags::IN)], Some(&second));
                thread::sleep(PAUSE);
            }
        };
        // Without the thread some events are lost, which causes a scan.
        let _ = thread::Builder::new().name("lineage".into()).spawn(vnode::as_server(listen));
    }

    fn take_births(&self) {
        let Some(births) = &self.births else { return };
        let mut born = lock(&self.born);
        let mut has_lost = false;
        births.take(|event| match event {
            Event::Born { parent, child } if born.contains(&parent) => {
                born.insert(child);
            }
            // The former owner of the number is gone.
            Event::Born { child, .. } => {
                born.remove(&child);
            }
            // The first thread of a process may end before others, which continue.
            Event::Ended(process) if born.contains(&process) && !process::is_running(process) => {
                born.remove(&process);
            }
            Event::Ended(_) => {}
            Event::Lost => has_lost = true,
        });
        if has_lost {
            self.look_for_all(&mut born);
        }
    }

    /// Scans all processes for descendants, and forgets those that are gone.
    fn look_for_all(&self, born: &mut HashSet<u32>) {
        let all: Vec<u32> = process::all();
        let first = self.first.is_there().then_some(self.first.pid);
        born.retain(|process| if *process == self.first.pid { first.is_some() } else { all.contains(process) });
        for process in all {
            if ancestors(process).any(|ancestor| born.contains(&ancestor)) {
                born.insert(process);
            }
        }
    }

    /// Returns whether a thread belongs to the process, or to a descendant.
    pub(crate) fn has(&self, thread: u32) -> bool {
        if let Some(descends) = self.remembered(thread) {
            return descends;
        }
        // The pidfd is opened first: the findings are about the present owner of the number.
        let watched = Watched::new(thread);
        self.take_births();
        let descends = self.descends(thread) || self.is_in_session_of_one(thread);
        let session = process::session(thread).filter(|session| descends && self.descends(*session));
        if let Some(watched) = watched.filter(Watched::is_alive) {
            self.remember(thread, Known { watched, descends, session });
        }
        descends
    }

    fn remembered(&self, thread: u32) -> Option<bool> {
        let mut known = lock(&self.known);
        let found = known.get(&thread)?;
        if found.watched.is_alive() {
            return Some(found.descends);
        }
        known.remove(&thread);
        None
    }

    fn remember(&self, thread: u32, found: Known) {
        let mut known = lock(&self.known);
        if known.len().is_power_of_two() && known.len() >= STRANGERS_MAX {
            known.retain(|_, known| known.watched.is_alive());
            if known.values().filter(|known| !known.descends).count() >= STRANGERS_MAX {
                known.retain(|_, known| known.descends);
            }
        }
        known.insert(thread, found);
    }

    /// Returns whether it is known to descend from the first, or its parents lead to the first or to a remembered process.
    fn descends(&self, thread: u32) -> bool {
        let Some(process) = process::process_of(thread) else { return false };
        let is_one = |process: u32| {
            if process == self.first.pid {
                return self.first.is_there();
            }
            lock(&self.born).contains(&process) || self.remembered(process) == Some(true)
        };
        is_one(process) || ancestors(process).any(is_one)
    }

    /// Returns whether a descendant is in the thread's session, which began within the lineage. As long as one is, the
    /// session's number is not reused.
    fn is_in_session_of_one(&self, thread: u32) -> bool {
        let Some(session) = process::session(thread) else { return false };
        let known = lock(&self.known);
        let mut relatives = known.iter().filter(|(_, known)| known.session == Some(session));
        relatives.any(|(relative, known)| process::session(*relative) == Some(session) && known.watched.is_alive())
    }
}

/// Ancestors of a process, nearest first, as far as they live.
fn ancestors(process: u32) -> impl Iterator<Item = u32> {
    let next = |process: u32| process::parent(process).filter(|parent| *parent != 0);
    std::iter::successors(next(process), move |process| next(*process)).take(GENERATIONS_MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

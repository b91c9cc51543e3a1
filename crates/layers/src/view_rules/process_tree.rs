//! A process and all its descendants.
//!
//! Linux knows only the parent of a process, and forgets it when that ends. So fork events are listened to, where that
//! is allowed. Where it is not, known descendants are remembered as long as they live, and a process whose parents are
//! gone is recognized by its session, if that began within the tree and a remembered process is still in it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::{self, PidFd, Process};
use super::process_events::{ProcessEvent, ProcessEvents};

/// Maximum number of remembered threads that are not descendants.
const MAX_CACHED_OUTSIDERS: usize = 512;
/// Maximum length of a chain of parents; a longer one is an artefact of processes that start and end while it is followed.
const MAX_ANCESTORS: usize = 4096;
/// Maximum time that fork events stay queued without a request.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);

/// A process and all its descendants.
pub(crate) struct ProcessTree {
    pub(crate) root: Process,
    events: Option<Arc<ProcessEvents>>,
    /// Processes of the tree known from fork events; without those only the root.
    descendants: Mutex<HashSet<u32>>,
    /// Classified threads, by their numbers.
    classified: Mutex<HashMap<u32, ClassifiedThread>>,
}

/// A thread known to be, or not to be, a descendant.
struct ClassifiedThread {
    pidfd: PidFd,
    is_descendant: bool,
    /// The session that it was in, if that began within the tree.
    session: Option<u32>,
}

impl ProcessTree {
    /// The tree of a process; `None` if there is none of that number.
    pub(crate) fn of(pid: u32) -> Option<Arc<Self>> {
        // Listens first: a process that starts during the scan is reported.
        let events = ProcessEvents::new().map(Arc::new);
        let root = Process::current(pid)?;
        let (descendants, classified) = (Mutex::new(HashSet::from([pid])), Mutex::default());
        let process_tree = Arc::new(Self { root, events, descendants, classified });
        if process_tree.events.is_some() {
            process_tree.rescan(&mut lock(&process_tree.descendants));
            process_tree.listen();
        } else {
            process_tree.classify_all();
        }
        Some(process_tree)
    }

    /// Remembers all present descendants. Without exit events, they have to be watched.
    fn classify_all(&self) {
        for process in process::all_processes() {
            if ancestors(process).any(|ancestor| ancestor == self.root.pid) {
                self.contains(process);
            }
        }
    }

    /// Drains queued fork events, even without requests, as long as the tree is in use.
    fn listen(self: &Arc<Self>) {
        let (Some(events), process_tree) = (self.events.clone(), Arc::downgrade(self)) else { return };
        let listen = move || {
            while let Some(process_tree) = process_tree.upgrade() {
                process_tree.drain_events();
                drop(process_tree);
                let second = Timespec { tv_sec: 1, tv_nsec: 0 };
                let _ = poll(&mut [PollFd::new(&events, PollFlags::IN)], Some(&second));
                thread::sleep(DRAIN_INTERVAL);
            }
        };
        // Without the thread some events are lost, which causes a scan.
        let _ = thread::Builder::new().name("lineage".into()).spawn(vnode::as_server(listen));
    }

    fn drain_events(&self) {
        let Some(events) = &self.events else { return };
        let mut descendants = lock(&self.descendants);
        let mut has_lost = false;
        events.drain(|event| match event {
            ProcessEvent::Forked { parent, child } if descendants.contains(&parent) => {
                descendants.insert(child);
            }
            // The former owner of the number is gone.
            ProcessEvent::Forked { child, .. } => {
                descendants.remove(&child);
            }
            // The first thread of a process may end before others, which continue.
            ProcessEvent::Exited(process) if descendants.contains(&process) && !process::is_running(process) => {
                descendants.remove(&process);
            }
            ProcessEvent::Exited(_) => {}
            ProcessEvent::Lost => has_lost = true,
        });
        if has_lost {
            self.rescan(&mut descendants);
        }
    }

    /// Scans all processes for descendants, and forgets those that are gone.
    fn rescan(&self, descendants: &mut HashSet<u32>) {
        let all: Vec<u32> = process::all_processes();
        let root = self.root.still_exists().then_some(self.root.pid);
        descendants.retain(|process| if *process == self.root.pid { root.is_some() } else { all.contains(process) });
        for process in all {
            if ancestors(process).any(|ancestor| descendants.contains(&ancestor)) {
                descendants.insert(process);
            }
        }
    }

    /// Returns whether a thread belongs to the process, or to a descendant.
    pub(crate) fn contains(&self, thread: u32) -> bool {
        if let Some(is_descendant) = self.cached_class(thread) {
            return is_descendant;
        }
        // The pidfd is opened first: the findings are about the present owner of the number.
        let pidfd = PidFd::new(thread);
        self.drain_events();
        let is_descendant = self.is_descendant(thread) || self.is_in_known_session(thread);
        let session = process::session(thread).filter(|session| is_descendant && self.is_descendant(*session));
        if let Some(pidfd) = pidfd.filter(PidFd::is_alive) {
            self.cache_class(thread, ClassifiedThread { pidfd, is_descendant, session });
        }
        is_descendant
    }

    fn cached_class(&self, thread: u32) -> Option<bool> {
        let mut classified = lock(&self.classified);
        let found = classified.get(&thread)?;
        if found.pidfd.is_alive() {
            return Some(found.is_descendant);
        }
        classified.remove(&thread);
        None
    }

    fn cache_class(&self, thread: u32, found: ClassifiedThread) {
        let mut classified = lock(&self.classified);
        if classified.len().is_power_of_two() && classified.len() >= MAX_CACHED_OUTSIDERS {
            classified.retain(|_, classified| classified.pidfd.is_alive());
            if classified.values().filter(|classified| !classified.is_descendant).count() >= MAX_CACHED_OUTSIDERS {
                classified.retain(|_, classified| classified.is_descendant);
            }
        }
        classified.insert(thread, found);
    }

    /// Returns whether it is known to descend from the root, or its parents lead to the root or to a remembered
    /// process.
    fn is_descendant(&self, thread: u32) -> bool {
        let Some(process) = process::process_of(thread) else { return false };
        let is_one = |process: u32| {
            if process == self.root.pid {
                return self.root.still_exists();
            }
            lock(&self.descendants).contains(&process) || self.cached_class(process) == Some(true)
        };
        is_one(process) || ancestors(process).any(is_one)
    }

    /// Returns whether a descendant is in the thread's session, which began within the tree. As long as one is, the
    /// session's number is not reused.
    fn is_in_known_session(&self, thread: u32) -> bool {
        let Some(session) = process::session(thread) else { return false };
        let classified = lock(&self.classified);
        let mut relatives = classified.iter().filter(|(_, classified)| classified.session == Some(session));
        relatives
            .any(|(relative, classified)| process::session(*relative) == Some(session) && classified.pidfd.is_alive())
    }
}

/// Ancestors of a process, nearest first, as far as they live.
fn ancestors(process: u32) -> impl Iterator<Item = u32> {
    let next = |process: u32| process::parent(process).filter(|parent| *parent != 0);
    std::iter::successors(next(process), move |process| next(*process)).take(MAX_ANCESTORS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The requests that wait for a lock, in order of arrival, and when those of each file are tried next. No thread waits with
//! them.

use crate::fuse::transport::deferred::DeferredReply;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vnode::{Errno, Result};

/// Initial and maximum time between two tries, for holders whose unlocking is not visible to the front end.
const RETRY_INTERVAL_MIN: Duration = Duration::from_millis(1);
const RETRY_INTERVAL_MAX: Duration = Duration::from_millis(100);
/// Maximum number of interrupts kept for requests that are not waiting yet.
const EARLY_INTERRUPTS_MAX: usize = 64;

/// The waiting requests; `A` is what each of them attempts.
pub(crate) struct LockQueues<A> {
    waiters: HashMap<u64, Waiter<A>>,
    files: HashMap<u64, FileQueue>,
    /// When each file is tried next; without the files that are being tried.
    timers: BTreeSet<(Instant, u64)>,
    /// Requests interrupted before they began to wait: interrupt and request may be served by two threads.
    early_interrupts: VecDeque<u64>,
    /// Set at the end: no request is served any more.
    pub(crate) ended: bool,
}

/// A waiting request, found by its unique.
struct Waiter<A> {
    attempt: Arc<A>,
    node: u64,
    /// The reply to send the result through; the result may arrive first.
    reply: Option<DeferredReply>,
    result: Option<Result<()>>,
    /// Set during a try, when only the result of the try says whether it has the lock.
    is_being_tried: bool,
    interrupted: bool,
}

/// The lock requests for one file.
struct FileQueue {
    waiting: VecDeque<u64>,
    retry_interval: Duration,
    /// Time of the next try.
    due: Instant,
    is_being_tried: bool,
    /// Set if a lock was released since the try began.
    retry_now: bool,
}

/// A reply and its result.
pub(crate) type CompletedRequest = (DeferredReply, Result<()>);

impl<A> Default for LockQueues<A> {
    fn default() -> LockQueues<A> {
        LockQueues {
            waiters: HashMap::new(),
            files: HashMap::new(),
            timers: BTreeSet::new(),
            early_interrupts: VecDeque::new(),
            ended: false,
        }
    }
}

impl<A> LockQueues<A> {
    /// Puts a request at the end of its file's queue, which is tried at once: a lock may have been released since the
    /// request's first try.
    ///
    /// # Errors
    /// `EINTR` if it was interrupted meanwhile.
    pub(crate) fn add(&mut self, unique: u64, node: u64, attempt: Arc<A>) -> Result<()> {
        if let Some(position) = self.early_interrupts.iter().position(|&early| early == unique) {
            self.early_interrupts.remove(position);
            return Err(Errno::EINTR);
        }
        let waiter = Waiter { attempt, node, reply: None, result: None, is_being_tried: false, interrupted: false };
        self.waiters.insert(unique, waiter);
        let now = Instant::now();
        let new = || FileQueue {
            waiting: VecDeque::new(),
            retry_interval: RETRY_INTERVAL_MIN,
            due: now,
            is_being_tried: false,
            retry_now: false,
        };
        self.files.entry(node).or_insert_with(new).waiting.push_back(unique);
        self.schedule_retry(node);
        Ok(())
    }

    /// Attaches the reply to a waiting request, or returns what has to be sent at once.
    pub(crate) fn attach(&mut self, unique: u64, reply: DeferredReply) -> Option<CompletedRequest> {
        let waiter = self.waiters.get_mut(&unique)?;
        match waiter.result {
            Some(result) => {
                self.waiters.remove(&unique);
                Some((reply, result))
            }
            None => {
                waiter.reply = Some(reply);
                None
            }
        }
    }

    /// Stops waiting and returns the request's result, if it has one by now.
    pub(crate) fn give_up(&mut self, unique: u64) -> Option<Result<()>> {
        self.dequeue(unique);
        self.waiters.remove(&unique)?.result
    }

    /// Interrupts the request.
    pub(crate) fn interrupt(&mut self, unique: u64) -> Option<CompletedRequest> {
        match self.waiters.get_mut(&unique) {
            Some(waiter) if waiter.is_being_tried => {
                waiter.interrupted = true;
                None
            }
            Some(_) => self.complete(unique, Err(Errno::EINTR)),
            None => {
                self.early_interrupts.push_back(unique);
                if self.early_interrupts.len() > EARLY_INTERRUPTS_MAX {
                    self.early_interrupts.pop_front();
                }
                None
            }
        }
    }

    /// Schedules a try after a lock on the file was released; returns whether somebody waits for one.
    pub(crate) fn schedule_retry(&mut self, node: u64) -> bool {
        let Some(file) = self.files.get_mut(&node) else { return false };
        file.retry_interval = RETRY_INTERVAL_MIN;
        if file.is_being_tried {
            file.retry_now = true;
        } else {
            self.timers.remove(&(file.due, node));
            file.due = Instant::now();
            self.timers.insert((file.due, node));
        }
        true
    }

    /// Returns the requests of a file that is due, in order; [`LockQueues::end_round`] must follow.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(u64, Vec<u64>)> {
        let &(due, node) = self.timers.first().filter(|(due, _)| *due <= now)?;
        self.timers.remove(&(due, node));
        let file = self.files.get_mut(&node)?;
        file.is_being_tried = true;
        file.retry_now = false;
        Some((node, file.waiting.iter().copied().collect()))
    }

    /// Ends a round in which all requests of the file have been tried.
    pub(crate) fn end_round(&mut self, node: u64, now: Instant) {
        let Some(file) = self.files.get_mut(&node) else { return };
        if file.waiting.is_empty() {
            self.files.remove(&node);
            return;
        }
        file.is_being_tried = false;
        file.due = if file.retry_now { now } else { now + file.retry_interval };
        file.retry_interval = (file.retry_interval * 2).min(RETRY_INTERVAL_MAX);
        self.timers.insert((file.due, node));
    }

    /// Returns the time at which the next file is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Returns what a request attempts, if it still waits.
    pub(crate) fn attempt(&self, unique: u64) -> Option<Arc<A>> {
        self.waiters.get(&unique).filter(|waiter| waiter.result.is_none()).map(|waiter| Arc::clone(&waiter.attempt))
    }

    /// Begins a try of the request; returns whether it still waits. [`LockQueues::end_attempt`] must follow.
    pub(crate) fn begin_attempt(&mut self, unique: u64) -> bool {
        let waiter = self.waiters.get_mut(&unique).filter(|waiter| waiter.result.is_none());
        waiter.is_some_and(|waiter| {
            waiter.is_being_tried = true;
            true
        })
    }

    /// Ends a try of the request with this result; after `EAGAIN` it keeps waiting.
    pub(crate) fn end_attempt(&mut self, unique: u64, result: Result<()>) -> Option<CompletedRequest> {
        let waiter = self.waiters.get_mut(&unique)?;
        waiter.is_being_tried = false;
        match result {
            Err(Errno::EAGAIN) if waiter.interrupted => self.complete(unique, Err(Errno::EINTR)),
            Err(Errno::EAGAIN) => None,
            result => self.complete(unique, result),
        }
    }

    /// Ends the queue: nobody waits for replies any more.
    pub(crate) fn end(&mut self) -> Vec<DeferredReply> {
        self.ended = true;
        self.files.clear();
        self.timers.clear();
        self.waiters.drain().filter_map(|(_, waiter)| waiter.reply).collect()
    }

    fn complete(&mut self, unique: u64, result: Result<()>) -> Option<CompletedRequest> {
        self.dequeue(unique);
        let waiter = self.waiters.get_mut(&unique)?;
        waiter.result = Some(result);
        let reply = waiter.reply.take()?;
        self.waiters.remove(&unique);
        Some((reply, result))
    }

    /// Removes a request from the queue of its file.
    fn dequeue(&mut self, unique: u64) {
        let Some(node) = self.waiters.get(&unique).map(|waiter| waiter.node) else { return };
        let Some(file) = self.files.get_mut(&node) else { return };
        file.waiting.retain(|&other| other != unique);
        if file.waiting.is_empty() && !file.is_being_tried {
            self.timers.remove(&(file.due, node));
            self.files.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: u64 = 3;

    fn queues_with(uniques: &[u64]) -> LockQueues<u64> {
        let mut queues = LockQueues::default();
        uniques.iter().for_each(|&unique| queues.add(unique, NODE, Arc::new(unique)).unwrap());
        queues
    }

    #[test]
    fn requests_are_tried_in_order_of_arrival() {
        let mut queues = queues_with(&[7, 5, 6]);
        assert_eq!(queues.take_due(Instant::now()), Some((NODE, vec![7, 5, 6])));
        assert_eq!(queues.take_due(Instant::now()), None, "one helper tries a file at a time");
        assert!(queues.begin_attempt(7));
        queues.end_attempt(7, Ok(()));
        let now = Instant::now();
        queues.end_round(NODE, now);
        assert_eq!(queues.next_due(), Some(now + RETRY_INTERVAL_MIN));
        assert_eq!(queues.take_due(now + RETRY_INTERVAL_MIN), Some((NODE, vec![5, 6])));
        assert_eq!(queues.give_up(7), Some(Ok(())));
    }

    #[test]
    fn release_during_a_round_triggers_another() {
        let mut queues = queues_with(&[7]);
        queues.take_due(Instant::now()).unwrap();
        assert!(queues.schedule_retry(NODE) && !queues.schedule_retry(NODE + 1));
        queues.end_round(NODE, Instant::now());
        assert!(queues.take_due(Instant::now()).is_some());
    }

    #[test]
    fn interrupt_ends_the_wait_even_if_it_comes_first() {
        let mut queues = queues_with(&[7]);
        queues.interrupt(9);
        assert_eq!(queues.add(9, NODE, Arc::new(9)), Err(Errno::EINTR));
        queues.interrupt(7);
        assert_eq!(queues.give_up(7), Some(Err(Errno::EINTR)));
        assert!(queues.waiters.is_empty() && queues.files.is_empty() && queues.timers.is_empty());
        assert!(queues.early_interrupts.is_empty());
    }

    #[test]
    fn interrupt_during_an_attempt_yields_to_its_result() {
        for (tried, result) in [(Ok(()), Ok(())), (Err(Errno::EAGAIN), Err(Errno::EINTR))] {
            let mut queues = queues_with(&[7]);
            queues.take_due(Instant::now()).unwrap();
            assert!(queues.begin_attempt(7));
            queues.interrupt(7);
            assert_eq!(queues.waiters[&7].result, None);
            queues.end_attempt(7, tried);
            queues.end_round(NODE, Instant::now());
            assert_eq!(queues.give_up(7), Some(result));
            assert!(queues.files.is_empty() && queues.timers.is_empty());
        }
    }
}

//! The requests that wait for a lock, in the order in which they came, and when each file's are tried next. No thread waits
//! with them.

use super::super::deferred::DeferredReply;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vnode::{Errno, Result};

/// The first and the longest time between two tries, for holders whose unlocking we do not see.
const RETRY_FIRST: Duration = Duration::from_millis(1);
const RETRY_LONGEST: Duration = Duration::from_millis(100);
/// Interrupts kept for requests that are not waiting yet.
const EARLY_INTERRUPTS_MAX: usize = 64;

/// The requests that wait; `A` is what each of them attempts.
pub(super) struct Queues<A> {
    waiters: HashMap<u64, Waiter<A>>,
    files: HashMap<u64, FileQueue>,
    /// When each file is tried next; none of those that are being tried.
    timers: BTreeSet<(Instant, u64)>,
    /// Requests interrupted before they began to wait: interrupt and request may be served by two threads.
    early: VecDeque<u64>,
    /// Nobody is served any more.
    pub(super) ended: bool,
}

/// A request, by its unique.
struct Waiter<A> {
    attempt: Arc<A>,
    node: u64,
    /// Where to send the result to; it may be there before this is.
    reply: Option<DeferredReply>,
    result: Option<Result<()>>,
    /// It is being tried, so only its result says whether it has the lock.
    is_tried: bool,
    interrupted: bool,
}

/// The requests for locks of one file.
struct FileQueue {
    order: VecDeque<u64>,
    pause: Duration,
    /// When it is tried next.
    due: Instant,
    is_tried: bool,
    /// A lock was released since the try began.
    again: bool,
}

/// A reply and what it is to say.
pub(super) type Settled = (DeferredReply, Result<()>);

impl<A> Default for Queues<A> {
    fn default() -> Queues<A> {
        Queues {
            waiters: HashMap::new(),
            files: HashMap::new(),
            timers: BTreeSet::new(),
            early: VecDeque::new(),
            ended: false,
        }
    }
}

impl<A> Queues<A> {
    /// Puts a request at the end of its file's queue, which is tried at once: a lock may have been released since its try.
    ///
    /// # Errors
    /// `EINTR` if it was interrupted meanwhile.
    pub(super) fn add(&mut self, unique: u64, node: u64, attempt: Arc<A>) -> Result<()> {
        if let Some(place) = self.early.iter().position(|&early| early == unique) {
            self.early.remove(place);
            return Err(Errno::EINTR);
        }
        let waiter = Waiter { attempt, node, reply: None, result: None, is_tried: false, interrupted: false };
        self.waiters.insert(unique, waiter);
        let now = Instant::now();
        let new = || FileQueue { order: VecDeque::new(), pause: RETRY_FIRST, due: now, is_tried: false, again: false };
        self.files.entry(node).or_insert_with(new).order.push_back(unique);
        self.released(node);
        Ok(())
    }

    /// Gives a request that waits the way to its reply, or returns what is to be sent at once.
    pub(super) fn attach(&mut self, unique: u64, reply: DeferredReply) -> Option<Settled> {
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

    /// The request's result, and whether it has one by now: else it no longer waits.
    pub(super) fn give_up(&mut self, unique: u64) -> Option<Result<()>> {
        self.take_out(unique);
        self.waiters.remove(&unique)?.result
    }

    /// The request is to give up waiting.
    pub(super) fn interrupt(&mut self, unique: u64) -> Option<Settled> {
        match self.waiters.get_mut(&unique) {
            Some(waiter) if waiter.is_tried => {
                waiter.interrupted = true;
                None
            }
            Some(_) => self.settle(unique, Err(Errno::EINTR)),
            None => {
                self.early.push_back(unique);
                if self.early.len() > EARLY_INTERRUPTS_MAX {
                    self.early.pop_front();
                }
                None
            }
        }
    }

    /// A lock of the file was released: whether somebody waits for it.
    pub(super) fn released(&mut self, node: u64) -> bool {
        let Some(file) = self.files.get_mut(&node) else { return false };
        file.pause = RETRY_FIRST;
        if file.is_tried {
            file.again = true;
        } else {
            self.timers.remove(&(file.due, node));
            file.due = Instant::now();
            self.timers.insert((file.due, node));
        }
        true
    }

    /// The requests of a file that is to be tried now, in their order; [`Queues::end_round`] has to follow.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(u64, Vec<u64>)> {
        let &(due, node) = self.timers.first().filter(|(due, _)| *due <= now)?;
        self.timers.remove(&(due, node));
        let file = self.files.get_mut(&node)?;
        file.is_tried = true;
        file.again = false;
        Some((node, file.order.iter().copied().collect()))
    }

    /// All requests of the file have been tried.
    pub(super) fn end_round(&mut self, node: u64, now: Instant) {
        let Some(file) = self.files.get_mut(&node) else { return };
        if file.order.is_empty() {
            self.files.remove(&node);
            return;
        }
        file.is_tried = false;
        file.due = if file.again { now } else { now + file.pause };
        file.pause = (file.pause * 2).min(RETRY_LONGEST);
        self.timers.insert((file.due, node));
    }

    /// When the next file is to be tried.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// What a request attempts, if it still waits.
    pub(super) fn attempt(&self, unique: u64) -> Option<Arc<A>> {
        self.waiters.get(&unique).filter(|waiter| waiter.result.is_none()).map(|waiter| Arc::clone(&waiter.attempt))
    }

    /// The request is about to be tried; whether it still waits. [`Queues::end_try`] has to follow.
    pub(super) fn begin_try(&mut self, unique: u64) -> bool {
        let waiter = self.waiters.get_mut(&unique).filter(|waiter| waiter.result.is_none());
        waiter.is_some_and(|waiter| {
            waiter.is_tried = true;
            true
        })
    }

    /// The request was tried, with this result; `EAGAIN` has it wait on.
    pub(super) fn end_try(&mut self, unique: u64, result: Result<()>) -> Option<Settled> {
        let waiter = self.waiters.get_mut(&unique)?;
        waiter.is_tried = false;
        match result {
            Err(Errno::EAGAIN) if waiter.interrupted => self.settle(unique, Err(Errno::EINTR)),
            Err(Errno::EAGAIN) => None,
            result => self.settle(unique, result),
        }
    }

    /// Ends all: nobody waits for replies any more.
    pub(super) fn end(&mut self) -> Vec<DeferredReply> {
        self.ended = true;
        self.files.clear();
        self.timers.clear();
        self.waiters.drain().filter_map(|(_, waiter)| waiter.reply).collect()
    }

    fn settle(&mut self, unique: u64, result: Result<()>) -> Option<Settled> {
        self.take_out(unique);
        let waiter = self.waiters.get_mut(&unique)?;
        waiter.result = Some(result);
        let reply = waiter.reply.take()?;
        self.waiters.remove(&unique);
        Some((reply, result))
    }

    /// Takes a request out of the queue of its file.
    fn take_out(&mut self, unique: u64) {
        let Some(node) = self.waiters.get(&unique).map(|waiter| waiter.node) else { return };
        let Some(file) = self.files.get_mut(&node) else { return };
        file.order.retain(|&other| other != unique);
        if file.order.is_empty() && !file.is_tried {
            self.timers.remove(&(file.due, node));
            self.files.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: u64 = 3;

    fn queues_with(uniques: &[u64]) -> Queues<u64> {
        let mut queues = Queues::default();
        uniques.iter().for_each(|&unique| queues.add(unique, NODE, Arc::new(unique)).unwrap());
        queues
    }

    #[test]
    fn requests_are_tried_in_the_order_in_which_they_came() {
        let mut queues = queues_with(&[7, 5, 6]);
        assert_eq!(queues.take_due(Instant::now()), Some((NODE, vec![7, 5, 6])));
        assert_eq!(queues.take_due(Instant::now()), None, "one helper tries a file at a time");
        assert!(queues.begin_try(7));
        queues.end_try(7, Ok(()));
        let now = Instant::now();
        queues.end_round(NODE, now);
        assert_eq!(queues.next_due(), Some(now + RETRY_FIRST));
        assert_eq!(queues.take_due(now + RETRY_FIRST), Some((NODE, vec![5, 6])));
        assert_eq!(queues.give_up(7), Some(Ok(())));
    }

    #[test]
    fn a_release_during_a_round_has_another_follow_at_once() {
        let mut queues = queues_with(&[7]);
        queues.take_due(Instant::now()).unwrap();
        assert!(queues.released(NODE) && !queues.released(NODE + 1));
        queues.end_round(NODE, Instant::now());
        assert!(queues.take_due(Instant::now()).is_some());
    }

    #[test]
    fn an_interrupt_ends_the_wait_also_when_it_comes_first() {
        let mut queues = queues_with(&[7]);
        queues.interrupt(9);
        assert_eq!(queues.add(9, NODE, Arc::new(9)), Err(Errno::EINTR));
        queues.interrupt(7);
        assert_eq!(queues.give_up(7), Some(Err(Errno::EINTR)));
        assert!(queues.waiters.is_empty() && queues.files.is_empty() && queues.timers.is_empty());
        assert!(queues.early.is_empty());
    }

    #[test]
    fn who_is_interrupted_while_being_tried_may_have_the_lock() {
        for (tried, result) in [(Ok(()), Ok(())), (Err(Errno::EAGAIN), Err(Errno::EINTR))] {
            let mut queues = queues_with(&[7]);
            queues.take_due(Instant::now()).unwrap();
            assert!(queues.begin_try(7));
            queues.interrupt(7);
            assert_eq!(queues.waiters[&7].result, None);
            queues.end_try(7, tried);
            queues.end_round(NODE, Instant::now());
            assert_eq!(queues.give_up(7), Some(result));
            assert!(queues.files.is_empty() && queues.timers.is_empty());
        }
    }
}

//! The queue of events to the sink of `audit`: bounded, and emptied by a thread, so that no operation ever waits.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;

use super::event::{AuditEvent, dropped_line};
use super::sink::Sink;

/// Maximum time that the end of a mount waits for lines that are still to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Accepts events, never blocks, and counts the events that it has to drop.
#[derive(Debug)]
pub(crate) struct Reporter(Arc<ReporterState>);

/// Counts of events since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventCounts {
    /// Number of lines written, counted before a reader can see them.
    pub(crate) written: u64,
    /// Number of events that found the queue full.
    pub(crate) dropped: u64,
    /// Number of lines that could not be written.
    pub(crate) unwritten: u64,
    /// Number of events not yet counted as written or unwritten.
    pub(crate) waiting: u64,
}

#[derive(Debug)]
struct ReporterState {
    queue: Mutex<EventQueue>,
    changed: Condvar,
    capacity: usize,
    /// Thread ID of the writer, whose own operations are not to be reported.
    writer: AtomicU32,
}

#[derive(Debug)]
struct EventQueue {
    events: VecDeque<AuditEvent>,
    counts: EventCounts,
    /// Number of events and lines lost since a line last reported a loss.
    lost: u64,
    /// The sink until the writer takes it, or one that replaces the writer's.
    sink: Option<Sink>,
    writer: WriterState,
    closing: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum WriterState {
    /// Not started yet, since the first event starts it: a thread made before would not survive a fork into the
    /// background.
    NotStarted,
    Running,
    Ended,
}

impl Reporter {
    /// Creates a queue of at most `capacity` events in front of the sink.
    pub(crate) fn new(sink: Sink, capacity: usize) -> Self {
        let queue = EventQueue {
            events: VecDeque::new(),
            counts: EventCounts::default(),
            lost: 0,
            sink: Some(sink),
            writer: WriterState::NotStarted,
            closing: false,
        };
        Self(Arc::new(ReporterState {
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            capacity,
            writer: AtomicU32::new(0),
        }))
    }

    /// Queues an event, or drops it if there is no room.
    pub(crate) fn report(&self, event: AuditEvent) {
        let mut queue = self.0.lock();
        if queue.writer == WriterState::NotStarted {
            self.start(&mut queue);
        }
        if queue.events.len() >= self.0.capacity || queue.writer != WriterState::Running {
            queue.counts.dropped += 1;
            queue.lost += 1;
            return;
        }
        queue.events.push_back(event);
        queue.counts.waiting += 1;
        if queue.events.len() == 1 {
            self.0.changed.notify_all();
        }
    }

    /// Makes the writer use another sink from the next line on.
    pub(crate) fn replace(&self, sink: Sink) {
        self.0.lock().sink = Some(sink);
    }

    pub(crate) fn counts(&self) -> EventCounts {
        self.0.lock().counts
    }

    /// Returns whether the thread with this ID is the writer.
    pub(crate) fn is_writer(&self, thread: u32) -> bool {
        thread != 0 && self.0.writer.load(Ordering::Relaxed) == thread
    }

    fn start(&self, queue: &mut EventQueue) {
        let shared = Arc::clone(&self.0);
        let write = vnode::as_server(move || shared.write_events());
        let started = thread::Builder::new().name("plyfs-audit".to_owned()).spawn(write);
        // If the thread could not be started, the next event tries again.
        queue.writer = if started.is_ok() { WriterState::Running } else { WriterState::NotStarted };
    }
}

impl Drop for Reporter {
    /// Waits until the queued events are written, unless that takes too long.
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.closing = true;
        self.0.changed.notify_all();
        let _ = self.0.changed.wait_timeout_while(queue, CLOSE_TIMEOUT, |queue| queue.writer == WriterState::Running);
    }
}

impl ReporterState {
    fn lock(&self) -> MutexGuard<'_, EventQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Main loop of the writer thread.
    fn write_events(&self) {
        self.writer.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
        let mut sink = None;
        loop {
            let mut queue = self.lock();
            while queue.events.is_empty() && !queue.closing {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.events.is_empty() {
                queue.writer = WriterState::Ended;
                self.changed.notify_all();
                return;
            }
            let events = std::mem::take(&mut queue.events);
            let lost = std::mem::take(&mut queue.lost);
            sink = queue.sink.take().or(sink);
            drop(queue);
            if let Some(sink) = &mut sink {
                self.write_lines(sink, events, lost);
            }
        }
    }

    /// Writes events, and after them the number of events that were lost because there was no room after these.
    fn write_lines(&self, sink: &mut Sink, events: VecDeque<AuditEvent>, lost: u64) {
        for event in events {
            let line = event.line();
            let mut queue = self.lock();
            queue.counts.waiting -= 1;
            queue.counts.written += 1;
            drop(queue);
            if sink.write(&line).is_err() {
                let mut queue = self.lock();
                queue.counts.written -= 1;
                queue.counts.unwritten += 1;
                queue.lost += 1;
            }
        }
        if lost > 0 && sink.write(&dropped_line(Timestamp::now(), lost)).is_err() {
            self.lock().lost += lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    fn event(number: u64) -> AuditEvent {
        AuditEvent {
            time: Timestamp::now(),
            operation: "open",
            uid: 0,
            gid: 0,
            pid: 0,
            process: Vec::new(),
            result: Ok(()),
            refused_by: None,
            details: vec![("number", super::super::event::Value::Number(number))],
        }
    }

    #[test]
    fn slow_reader_loses_lines_without_blocking_and_the_loss_is_reported() {
        const EVENTS: u64 = 5000;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        // A FIFO that nobody reads is soon full; opened for both reading and writing, the open does not wait.
        let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let reporter = Reporter::new(Sink::file(&path).unwrap(), 16);
        for number in 0..EVENTS {
            reporter.report(event(number));
        }
        while reporter.counts().waiting > 0 {
            thread::yield_now();
        }
        let mut lines = BufReader::new(reader).lines();
        // There is room again: the next event brings the report of the loss.
        let (mut written, mut reported) = (0, 0);
        let mut number = EVENTS;
        while reported == 0 || written + reported < number {
            let line = lines.next().unwrap().unwrap();
            // A line torn by the full FIFO counts as lost.
            let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
            match line["dropped"].as_u64() {
                Some(count) => reported += count,
                None => written += 1,
            }
            if written + reported < number && reporter.counts().waiting == 0 {
                reporter.report(event(number));
                number += 1;
            }
        }
        assert_eq!(written + reported, number);
    }

    #[test]
    fn lines_are_counted_before_a_reader_sees_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let reporter = Reporter::new(Sink::file(&path).unwrap(), 16);
        let mut lines = BufReader::new(reader).lines();
        for number in 1..=2000 {
            reporter.report(event(number));
            lines.next().unwrap().unwrap();
            assert_eq!(reporter.counts(), EventCounts { written: number, ..EventCounts::default() });
        }
    }

    #[test]
    fn queued_events_are_written_on_drop_and_a_new_sink_takes_effect() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("1"), directory.path().join("2"));
        let reporter = Reporter::new(Sink::file(&first).unwrap(), 1000);
        reporter.report(event(0));
        while reporter.counts().written < 1 {
            thread::yield_now();
        }
        reporter.replace(Sink::file(&second).unwrap());
        (0..100).for_each(|number| reporter.report(event(number)));
        drop(reporter);
        assert_eq!(std::fs::read_to_string(first).unwrap().lines().count(), 1);
        assert_eq!(std::fs::read_to_string(second).unwrap().lines().count(), 100);
    }
}

//! Threads with the initial credentials of the process. The base `dir` leaves a thread with the credentials of its last caller,
//! and a thread inherits the credentials of the thread that starts it.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Task = Box<dyn FnOnce() + Send>;

static THREAD_STARTER: OnceLock<Sender<Task>> = OnceLock::new();

/// Starts the thread that starts the others. Must be called by the main thread, before anything acts for a caller.
pub fn keep_initial_credentials() {
    let (sender, receiver) = channel::<Task>();
    std::thread::spawn(move || {
        for task in receiver {
            std::thread::spawn(task);
        }
    });
    THREAD_STARTER.set(sender).expect("credentials are kept once");
}

/// Runs a function on a new thread with the initial credentials of the process; returns `None` if it panics.
pub fn with_initial_credentials<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    let task = Box::new(move || {
        let _ = sender.send(function());
    });
    THREAD_STARTER.get()?.send(task).ok()?;
    receiver.recv().ok()
}

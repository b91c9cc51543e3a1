//! Poll: files that are not ready are checked periodically, and their pollers woken.

use super::caching::notifications::{Notification, NotificationSender};
use super::open_files::OpenedFile;
use super::protocol::wire;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vnode::Caller;

/// Interval between checks of polled files. Regular files are always ready, so hardly any mount has such a file.
const INTERVAL: Duration = Duration::from_millis(20);

/// Polled files that somebody waits for, by the kernel's handle of the wait.
pub(crate) struct Pollers {
    shared: Arc<Shared>,
}

struct Shared {
    notifications: NotificationSender,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    files: HashMap<u64, Watch>,
    /// Set while a thread checks them.
    running: bool,
}

struct Watch {
    opened: Arc<OpenedFile>,
    handle: u64,
    events: u32,
}

impl Pollers {
    pub(crate) fn new(notifications: NotificationSender) -> Pollers {
        Pollers { shared: Arc::new(Shared { notifications, watched: Mutex::default() }) }
    }

    /// Wakes the poller once one of the events holds; returns whether it will be woken.
    pub(crate) fn watch(&self, opened: &Arc<OpenedFile>, arguments: &wire::PollIn) -> bool {
        let watch = Watch { opened: Arc::clone(opened), handle: arguments.handle, events: arguments.events };
        let mut watched = self.shared.lock();
        watched.files.insert(arguments.kernel_handle, watch);
        if !watched.running {
            let shared = Arc::clone(&self.shared);
            let started =
                std::thread::Builder::new().name("fuse-poll".into()).spawn(vnode::as_server(move || shared.run()));
            match started {
                Ok(_) => watched.running = true,
                Err(error) => {
                    tracing::warn!(%error, "files that are polled count as ready");
                    watched.files.remove(&arguments.kernel_handle);
                }
            }
        }
        watched.running
    }

    /// Removes a closed file: nobody waits for it.
    pub(crate) fn released(&self, handle: u64) {
        let mut watched = self.shared.lock();
        if !watched.files.is_empty() {
            watched.files.retain(|_, watch| watch.handle != handle);
        }
    }
}

impl Shared {
    /// Checks the files until none is left.
    fn run(&self) {
        let caller = Caller::server();
        loop {
            std::thread::sleep(INTERVAL);
            let mut watched = self.lock();
            watched.files.retain(|&kernel_handle, watch| {
                // An error is an event as well: the poller tries again and gets it.
                let waiting = watch.opened.file.poll(&caller, watch.events) == Ok(0);
                if !waiting {
                    self.notifications.send(Notification::PollWakeup { kernel_handle });
                }
                waiting
            });
            if watched.files.is_empty() {
                watched.running = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Poll: files that are not ready are checked periodically, and their pollers woken.

use super::caching::notifications::{Notification, NotificationSender};
use super::open_files::OpenedFile;
use super::protocol::wire;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vnode::Caller;

/// Interval between checks of polled files. Regular files are always ready, so hardly any mount has such a file.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polled files that somebody waits for, by the kernel's handle of the wait.
pub(crate) struct Pollers {
    shared: Arc<Shared>,
}

struct Shared {
    notifications: NotificationSender,
    polled: Mutex<PolledFiles>,
}

#[derive(Default)]
struct PolledFiles {
    files: HashMap<u64, PolledFile>,
    /// Set while a thread checks them.
    running: bool,
}

struct PolledFile {
    opened: Arc<OpenedFile>,
    handle: u64,
    events: u32,
}

impl Pollers {
    pub(crate) fn new(notifications: NotificationSender) -> Pollers {
        Pollers { shared: Arc::new(Shared { notifications, polled: Mutex::default() }) }
    }

    /// Wakes the poller once one of the events holds; returns whether it will be woken.
    pub(crate) fn add(&self, opened: &Arc<OpenedFile>, arguments: &wire::PollIn) -> bool {
        let add = PolledFile { opened: Arc::clone(opened), handle: arguments.handle, events: arguments.events };
        let mut polled = self.shared.lock();
        polled.files.insert(arguments.kernel_handle, add);
        if !polled.running {
            let shared = Arc::clone(&self.shared);
            let started =
                std::thread::Builder::new().name("fuse-poll".into()).spawn(vnode::as_server(move || shared.run()));
            match started {
                Ok(_) => polled.running = true,
                Err(error) => {
                    tracing::warn!(%error, "files that are polled count as ready");
                    polled.files.remove(&arguments.kernel_handle);
                }
            }
        }
        polled.running
    }

    /// Removes a closed file: nobody waits for it.
    pub(crate) fn released(&self, handle: u64) {
        let mut polled = self.shared.lock();
        if !polled.files.is_empty() {
            polled.files.retain(|_, add| add.handle != handle);
        }
    }
}

impl Shared {
    /// Checks the files until none is left.
    fn run(&self) {
        let caller = Caller::server();
        loop {
            std::thread::sleep(POLL_INTERVAL);
            let mut polled = self.lock();
            polled.files.retain(|&kernel_handle, add| {
                // An error is an event as well: the poller tries again and gets it.
                let waiting = add.opened.file.poll(&caller, add.events) == Ok(0);
                if !waiting {
                    self.notifications.send(Notification::PollWakeup { kernel_handle });
                }
                waiting
            });
            if polled.files.is_empty() {
                polled.running = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PolledFiles> {
        self.polled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

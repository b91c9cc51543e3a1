//! A thread that behaves like a process except for its memory.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::mpsc::{Sender, channel, sync_channel};

use rustix::fs::Mode;
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use crate::Identity;

type WorkerTask = Box<dyn FnOnce() + Send>;

/// A thread with its own credentials, file table, working directory and umask. It ends when the last file and client that use
/// it are dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    jobs: Sender<WorkerTask>,
}

impl Worker {
    /// Starts a thread in this directory with umask 022, with this identity or the caller's own.
    pub(crate) fn start(root: &OwnedFd, identity: Option<&Identity>) -> Result<Self> {
        let (jobs, queue) = channel::<WorkerTask>();
        let (started, outcome) = sync_channel(1);
        let root = root.as_raw_fd();
        let identity = identity.cloned();
        let thread = std::thread::Builder::new().stack_size(256 * 1024);
        thread
            .spawn(move || {
                let _ = started.send(become_process(root, identity.as_ref()));
                for job in queue {
                    job();
                }
            })
            .map_err(|_| Errno::AGAIN)?;
        // The thread uses the root only until it replies, while the caller lends it.
        outcome.recv().unwrap_or(Err(Errno::AGAIN))?;
        Ok(Self { jobs })
    }

    /// Runs a function in the thread and waits for its result.
    pub(crate) fn call<R: Send + 'static>(&self, function: impl FnOnce() -> R + Send + 'static) -> R {
        let (done, result) = sync_channel(1);
        let job = Box::new(move || {
            let _ = done.send(function());
        });
        self.jobs.send(job).expect("the worker runs while it has users");
        result.recv().expect("system calls do not panic")
    }
}

/// Borrows a file descriptor of the current worker's own table.
pub(crate) fn own(descriptor: RawFd) -> BorrowedFd<'static> {
    // SAFETY: descriptors are closed only by the last job of the file that owns them, which runs when the file is dropped,
    // after all jobs that use it.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}

fn become_process(root: RawFd, identity: Option<&Identity>) -> Result<()> {
    // SAFETY: the thread is new and owns no descriptor; of the copied table it uses no descriptor of another owner except the
    // root, which the caller keeps open.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES | UnshareFlags::FS)? };
    rustix::process::fchdir(own(root))?;
    close_copies();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    if let Some(identity) = identity {
        assume_identity(identity)?;
    }
    Ok(())
}

/// Closes the descriptors that this thread's table copied from the process, so that files are closed when their owners close
/// them.
fn close_copies() {
    // SAFETY: the table is this thread's own and nothing in this thread owns a descriptor of it.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Changes the credentials of this thread only, as the raw system calls do.
fn assume_identity(identity: &Identity) -> Result<()> {
    let groups: Vec<Gid> = identity.groups.iter().map(|id| Gid::from_raw(*id)).collect();
    let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    let none = CapabilitySet::empty();
    let sets = match identity {
        Identity { is_powerless: true, .. } => CapabilitySets { effective: none, permitted: none, inheritable: none },
        // The thread that started this one may have acted for a user, with fewer capabilities. A user gets none here.
        _ => {
            let sets = rustix::thread::capabilities(None)?;
            CapabilitySets { effective: sets.permitted, ..sets }
        }
    };
    rustix::thread::set_capabilities(None, sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_all_capabilities_whatever_the_starting_thread_acts_as() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: acting for another user needs root");
            return;
        }
        let root = std::fs::File::open("/").unwrap().into();
        let starter = std::thread::spawn(move || {
            // SAFETY: this changes only the file-system uid of this thread, which ends here.
            unsafe { libc::syscall(libc::SYS_setfsuid, 65_534) };
            let worker = Worker::start(&root, Some(&Identity::ROOT)).unwrap();
            worker.call(|| rustix::thread::capabilities(None).unwrap())
        });
        let sets = starter.join().unwrap();
        assert_eq!(sets.effective, sets.permitted);
        assert!(sets.effective.contains(CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE));
    }
}

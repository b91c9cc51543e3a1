//! The command in its fork: a private mount namespace, the mount, the process and its signals.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;

use procfs::{Process, SignalSet};
use rustix::fs::StatVfsMountFlags;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{Gid, Pid, PidfdFlags, Signal, Uid, getegid, geteuid, pidfd_open, pidfd_send_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;
use stack::fork::Fork;

use super::inherited::InheritedAttributes;
use super::message::notify;
use super::root::{self, ForkRoot};
use super::scratch::ScratchDirectory;
use crate::exit::{Exit, Failure, Outcome};
use crate::front_end::{self, MountPlan, MountPoint};
use crate::mount_table;
use crate::options::{MountFlags, MountOptions};

/// Signals that are forwarded to the command.
const FORWARDED_SIGNALS: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Whether signals end this process, as is the default without handlers.
static SIGNALS_TERMINATE: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Sets whether signals end this process from now on. Without a command to forward them to, they are ignored otherwise, so that
/// a running commit completes.
pub(crate) fn set_signals_terminate(ends: bool) {
    SIGNALS_TERMINATE.store(ends, Ordering::SeqCst);
}

/// The way in which the command ended.
pub(crate) enum CommandOutcome {
    /// It exited, or a signal killed it.
    Exited(ExitStatus),
    /// It could not be started.
    NotStarted(io::Error),
}

/// The end of a command in a fork.
pub(crate) struct FinishedCommand {
    /// The way in which the command ended.
    pub outcome: CommandOutcome,
    /// Nothing can change in the fork any more: no process that was left running uses it.
    pub is_unused: bool,
}

impl CommandOutcome {
    /// Returns the exit status as a shell reports it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Exited(status) => {
                let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
                u8::try_from(code).unwrap_or(u8::MAX)
            }
            Self::NotStarted(_) => crate::exit::run_command::NOT_EXECUTABLE,
        }
    }
}

/// A user who is not root, but has root's capabilities in a user namespace of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamespaceUser {
    uid: Uid,
    gid: Gid,
}

/// Gives this process a private mount namespace and, for callers other than root, a user namespace in which they are root;
/// returns that user. Mounts made outside propagate into it, none propagate out.
pub(crate) fn unshare_namespaces() -> Outcome<Option<NamespaceUser>> {
    let user = (!geteuid().is_root()).then(|| NamespaceUser { uid: geteuid(), gid: getegid() });
    let flags = if user.is_some() { UnshareFlags::NEWUSER | UnshareFlags::NEWNS } else { UnshareFlags::NEWNS };
    // SAFETY: the process has a single thread, and neither namespace changes descriptors or memory.
    let unshared = unsafe { unshare_unsafe(flags) }.map_err(io::Error::from);
    let unshared = unshared.and_then(|()| match &user {
        Some(user) => map_ids(Uid::ROOT, user.uid, Gid::ROOT, user.gid),
        None => Ok(()),
    });
    let private = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    unshared.and_then(|()| Ok(mount_change("/", private)?)).map_err(|error| {
        let message = match user {
            Some(_) => format!("this system does not let users create user namespaces ({error}); run as root"),
            None => format!("cannot create a mount namespace: {error}; in a container, this needs CAP_SYS_ADMIN"),
        };
        Failure::new(Exit::Permission, message)
    })?;
    Ok(user)
}

/// Maps the ids outside to those in a new user namespace of this process. Does not allocate.
fn map_ids(inner_uid: Uid, outer_uid: Uid, inner_gid: Gid, outer_gid: Gid) -> io::Result<()> {
    let map = |path: &str, inner: u32, outer: u32| {
        let mut line = [0; 32];
        let mut rest = &mut line[..];
        writeln!(rest, "{inner} {outer} 1")?;
        let left = rest.len();
        let length = line.len() - left;
        File::options().write(true).open(path)?.write_all(&line[..length])
    };
    map("/proc/self/uid_map", inner_uid.as_raw(), outer_uid.as_raw())?;
    // Otherwise a user could leave a group to which access is denied.
    File::options().write(true).open("/proc/self/setgroups")?.write_all(b"deny")?;
    map("/proc/self/gid_map", inner_gid.as_raw(), outer_gid.as_raw())
}

/// Mounts the fork, runs the command to its end, and unmounts.
pub(crate) fn run(
    fork: &Fork,
    scratch: &ScratchDirectory,
    command: &[OsString],
    user: Option<NamespaceUser>,
    inherited: InheritedAttributes,
) -> Outcome<FinishedCommand> {
    let at = &scratch.description.at;
    let working_directory = std::env::current_dir().ok();
    notify_what_is_not_forked(at);
    // First: whatever arrives from now on is for the command.
    let signals = signals_to_forward()?;
    let root = if at == Path::new("/") { Some(ForkRoot::prepare(scratch.as_fd())?) } else { None };
    let point = match &root {
        Some(root) => open_mount_point(&root.mount_point)?,
        None => open_mount_point(at).and_then(|point| check_not_moved(point, at))?,
    };
    let plan = MountPlan {
        mount_point: point.path().to_owned(),
        source: "fork".into(),
        options: mount_options_like(at),
        // Over a mount of Plyfs, which is not refused in this case.
        over: root.is_none() && mount_table::find_at(at).is_some_and(|entry| entry.is_plyfs()),
    };
    let mount = front_end::mount(fork.file_system(), &point, &plan)?;
    drop(point);
    let process = CommandProcess { command, working_directory, user, root: root.as_ref(), inherited };
    let shared_bound = root.as_ref().map_or(Ok(()), ForkRoot::bind_shared);
    let outcome = shared_bound.and_then(|()| process.start()).and_then(|started| match started {
        Ok(child) => {
            scratch.mark_used();
            wait(child, signals)
        }
        Err(error) => Ok(CommandOutcome::NotStarted(error)),
    });
    root.iter().for_each(ForkRoot::unbind_shared);
    let is_unused = mount.finish() && !fork.is_mapped();
    outcome.map(|outcome| FinishedCommand { outcome, is_unused })
}

fn open_mount_point(path: &Path) -> Outcome<MountPoint> {
    MountPoint::open(path).map_err(|error| {
        Failure::new(Exit::MountPoint, format!("cannot use {}: {error}; give another with --at DIR", path.display()))
    })
}

/// Fails if a component of the path to the fork has become a symlink: the fork would cover something else.
fn check_not_moved(point: MountPoint, at: &Path) -> Outcome<MountPoint> {
    if point.path() == at {
        return Ok(point);
    }
    let (at, actual) = (at.display(), point.path().display());
    Err(Failure::new(Exit::MountPoint, format!("{at} is {actual} now; give another with --at DIR")))
}

/// The command to start.
struct CommandProcess<'a> {
    command: &'a [OsString],
    working_directory: Option<PathBuf>,
    user: Option<NamespaceUser>,
    root: Option<&'a ForkRoot>,
    inherited: InheritedAttributes,
}

impl CommandProcess<'_> {
    /// Starts it in the caller's working directory, if that exists in the fork.
    fn start(self) -> Outcome<io::Result<Child>> {
        let mut process = Command::new(&self.command[0]);
        process.args(&self.command[1..]);
        let root = self.root.map(|root| root.mount_point.clone());
        if let Some(directory) = &self.working_directory {
            let inside = root.as_ref().map_or_else(|| directory.clone(), |root| path_below(root, directory));
            if let Err(error) = std::fs::metadata(&inside) {
                let name = directory.display();
                let message =
                    format!("the current directory {name} is not in the fork: {error}; change to another one");
                return Err(Failure::new(Exit::Failure, message));
            }
            process.current_dir(inside);
        }
        let (user, root) = (self.user, root.map(|root| c_path(&root)).transpose()?);
        let directory = c_path(self.working_directory.as_deref().unwrap_or(Path::new("/")))?;
        let inherited = self.inherited;
        let prepare = move || {
            inherited.restore()?;
            if let Some(user) = user {
                // SAFETY: this is the only thread of a new process; descriptors and memory stay unchanged.
                unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
                map_ids(user.uid, Uid::ROOT, user.gid, Gid::ROOT)?;
            }
            root.as_ref().map_or(Ok(()), |root| root::enter(root, &directory))
        };
        // SAFETY: between fork and exec only system calls are made, without allocating memory.
        unsafe { process.pre_exec(prepare) };
        Ok(process.spawn())
    }
}

/// Fails if the command would start where its changes are not confined to the fork. Only root can fork everything.
pub(crate) fn check_working_directory(at: &Path, is_root: bool) -> Outcome {
    let fork = at.display();
    match std::env::current_dir() {
        Ok(directory) if !directory.starts_with(at) => {
            let all = if is_root { ", or fork everything with --stack /" } else { "" };
            let message = format!(
                "the current directory {} is not in the fork of {fork}, so changes in it would be permanent; \
                 change to {fork}{all}",
                directory.display()
            );
            Err(Failure::new(Exit::Usage, message))
        }
        _ => Ok(()),
    }
}

/// Reports what the command can change outside the fork.
fn notify_what_is_not_forked(at: &Path) {
    if at != Path::new("/") {
        notify(&format!("only {} is forked: changes elsewhere are permanent", at.display()));
    }
}

fn c_path(path: &Path) -> Outcome<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|error| Failure::new(Exit::Failure, format!("cannot use {}: {error}", path.display())))
}

/// Returns the corresponding path below another root.
fn path_below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Returns the signals that are forwarded: those that are not already ignored, as under nohup(1).
fn signals_to_forward() -> Outcome<SignalsInfo<WithRawSiginfo>> {
    let status = Process::Own.status().unwrap_or_default();
    let ignored = status.and_then(|status| status.signals(SignalSet::Ignored));
    let is_ignored = |signal: &i32| ignored.unwrap_or_default() >> (signal - 1) & 1 == 1;
    let watched: Vec<i32> = FORWARDED_SIGNALS.into_iter().filter(|signal| !is_ignored(signal)).collect();
    watched
        .iter()
        .try_for_each(|signal| flag::register_conditional_default(*signal, Arc::clone(&SIGNALS_TERMINATE)).map(drop))
        .and_then(|()| SignalsInfo::new(watched))
        .map_err(|error| Failure::new(Exit::Failure, format!("cannot install signal handlers: {error}; try again")))
}

/// Returns options that permit what the file system at this path permits, except for writing. The kernel revalidates what
/// others may have changed as often as in any mount.
fn mount_options_like(at: &Path) -> MountOptions {
    let flags = rustix::fs::statvfs(at).map(|status| status.f_flag).unwrap_or(StatVfsMountFlags::empty());
    MountOptions {
        flags: MountFlags {
            no_suid: flags.contains(StatVfsMountFlags::NOSUID),
            no_devices: flags.contains(StatVfsMountFlags::NODEV),
            no_exec: flags.contains(StatVfsMountFlags::NOEXEC),
            ..MountFlags::default()
        },
        attribute_timeout: Some(std::time::Duration::from_secs(1)),
        entry_timeout: Some(std::time::Duration::from_secs(1)),
        ..MountOptions::default()
    }
}

/// Waits for the command to end, and forwards signals meanwhile.
fn wait(mut child: Child, mut signals: SignalsInfo<WithRawSiginfo>) -> Outcome<CommandOutcome> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::Failure, format!("cannot wait for the command: {error}; end it and try again"))
    };
    let process = Pid::from_raw(child.id() as i32).expect("a process has a number");
    // A pidfd, so that a later process with the same pid cannot get a signal.
    let process = match pidfd_open(process, PidfdFlags::empty()) {
        Ok(process) => Arc::new(process),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(&error));
        }
    };
    let handle = signals.handle();
    let forwarder = {
        let process = Arc::clone(&process);
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                // Signals that a terminal sends reach the command as well.
                let Some(number) = Signal::from_named_raw(signal.si_signo) else { continue };
                if signal.si_code != libc::SI_KERNEL {
                    let _ = pidfd_send_signal(&*process, number);
                }
            }
        })
    };
    if let Err(error) = &forwarder {
        let _ = child.kill();
        let _ = child.wait();
        return Err(failed(error));
    }
    let status = child.wait().map_err(|error| failed(&error));
    handle.close();
    status.map(CommandOutcome::Exited)
}

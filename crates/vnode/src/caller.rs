//! The caller: the party on whose behalf an operation runs.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getsid};
use procfs::Status;
use rustix::thread::CapabilitySet;

use crate::{Cancellation, Result, process, process_files};

/// Identity of the requester: every operation of the interface takes one, so that bases can check permissions and
/// layers can decide by it.
///
/// Supplementary groups and the session are looked up on first use, since most operations need neither and the lookup
/// costs more than many operations.
#[derive(Clone, Debug)]
pub struct Caller {
    /// File system user ID, as in credentials(7).
    pub uid: u32,
    /// File system group ID.
    pub gid: u32,
    /// Process (thread) ID in the server's PID namespace; 0 if there is none: kernel writeback, NFS.
    pub pid: u32,
    /// File mode creation mask, as in umask(2). Bases apply it to modes at creation, unless a default ACL applies.
    pub umask: u32,
    /// Set if the operation is the server's own: bases act with the server's credentials and check nothing else.
    pub server: bool,
    payer: Payer,
    admission: Admission,
    kills_privileges: bool,
    cancellation: Cancellation,
    groups: OnceLock<Arc<[u32]>>,
    session: OnceLock<u32>,
    capabilities: OnceLock<u64>,
}

/// User to whom the caller's space in file systems is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payer {
    /// The caller itself.
    Own,
    /// This user and group.
    User(u32, u32),
    /// The superuser, in a process that may exceed quota limits and use reserved space, or not.
    Superuser { may_pass_limits: bool },
}

/// State of the permission check for the caller's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Open,
    /// The kernel has granted access.
    Checked,
    /// Access is granted whatever the mode says.
    Overriding,
    /// The request follows from another one, for which the caller was granted access.
    Implied,
}

impl Caller {
    /// Returns a caller for a process of this machine; its supplementary groups and session are looked up on demand.
    pub fn process(pid: u32, uid: u32, gid: u32, umask: u32) -> Self {
        let (groups, session, capabilities) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self {
            uid,
            gid,
            pid,
            umask,
            server: false,
            payer: Payer::Own,
            admission: Admission::Open,
            kills_privileges: false,
            cancellation: Cancellation::default(),
            groups,
            session,
            capabilities,
        }
    }

    /// Returns a caller with known supplementary groups, such as those of an RPC credential.
    pub fn with_groups(uid: u32, gid: u32, groups: &[u32], umask: u32) -> Self {
        let caller = Self::process(0, uid, gid, umask);
        let _ = caller.groups.set(groups.into());
        let _ = caller.session.set(0);
        let _ = caller.capabilities.set(implied_by(uid));
        caller
    }

    /// Returns the server itself as the caller: for a layer's own work, in which the user has no part.
    pub fn server() -> Self {
        Self { server: true, ..Self::with_groups(0, 0, &[], 0) }
    }

    /// Returns the server as the caller for work that follows from an operation that `other` was permitted, such as
    /// reading a program to execute it. Bases act as the server, and layers check no permissions; layers that refuse or
    /// report operations by their own rules do so as for `other`, whose IDs the result has. The result keeps privileges,
    /// whether `other` [kills](Self::killing_privileges) them or not.
    pub fn server_for(other: &Self) -> Self {
        Self { server: true, admission: Admission::Implied, kills_privileges: false, ..other.clone() }
    }

    /// Returns whether the operation is the server's own and does not follow from another caller's operation.
    pub fn is_server_alone(&self) -> bool {
        self.server && self.admission != Admission::Implied
    }

    /// Returns this caller without the capabilities of a superuser, whatever its user ID.
    #[must_use]
    pub fn without_capabilities(self) -> Self {
        Self { capabilities: 0.into(), ..self }
    }

    /// Returns a shared instance of [`Caller::server`], for frequent operations.
    pub(crate) fn shared_server() -> &'static Self {
        static SERVER: LazyLock<Caller> = LazyLock::new(Caller::server);
        &SERVER
    }

    /// Returns this caller with other IDs, for layers that map IDs. The supplementary groups, if they are ever needed,
    /// go through `map`; this looks them up at once. A caller that becomes the superuser has all of the superuser's
    /// capabilities.
    pub fn mapped(&self, uid: u32, gid: u32, map: impl Fn(u32) -> u32) -> Self {
        let caller = Self { uid, gid, ..self.clone() };
        let groups: Arc<[u32]> = self.groups().iter().map(|&group| map(group)).collect();
        let capabilities = if uid == self.uid { self.capabilities.clone() } else { implied_by(uid).into() };
        Self { groups: groups.into(), capabilities, ..caller }
    }

    /// Returns this caller as granted access by the kernel on the basis of the object's shown attributes: the kernel
    /// knows more about the process, such as its capabilities in a user namespace over what its user owns.
    pub fn admitted_by_kernel(self) -> Self {
        Self { admission: Admission::Checked, ..self }
    }

    /// Returns whether the kernel has granted access.
    pub fn is_admitted_by_kernel(&self) -> bool {
        self.admission == Admission::Checked
    }

    /// Returns this caller with CAP_DAC_OVERRIDE, for one operation on an object that it owns: as the owner it could
    /// change the mode.
    pub fn overriding(&self) -> Self {
        Self { admission: Admission::Overriding, ..self.clone() }
    }

    /// Returns whether the caller has CAP_DAC_OVERRIDE for this operation.
    pub fn is_overriding(&self) -> bool {
        self.admission == Admission::Overriding
    }

    /// Looks up the credentials that permission checks need: the capabilities of a superuser, the groups of other
    /// users.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`: the lookup is not possible at present. Until it succeeds, the caller appears to
    /// have none.
    pub fn identify(&self) -> Result<()> {
        match self.uid {
            _ if self.server => Ok(()),
            0 => self.known_capabilities().map(drop),
            _ => self.known_groups().map(drop),
        }
    }

    /// Returns this caller with its space charged to `other`: where a file system limits space or reserves some for the
    /// superuser, data, names and new objects count as those of `other`. The server's work for a user thus takes no
    /// more space than the user may. Charged to a superuser, the caller may take as much as that superuser may;
    /// charging to the server changes nothing; if `other` has a payer, that payer is charged.
    pub fn at_expense_of(self, other: &Caller) -> Self {
        let payer = match other.payer {
            Payer::Own if other.server => self.payer,
            Payer::Own if other.uid == 0 => Payer::Superuser { may_pass_limits: other.may_pass_limits() },
            Payer::Own => Payer::User(other.uid, other.gid),
            payer => payer,
        };
        Self { payer, ..self }
    }

    /// Returns the user and group to which the caller's space is charged, unless that is the caller itself or the
    /// superuser.
    pub fn payer(&self) -> Option<(u32, u32)> {
        match self.payer {
            Payer::User(uid, gid) => Some((uid, gid)),
            Payer::Own | Payer::Superuser { .. } => None,
        }
    }

    /// Returns whether space is charged to an explicit payer instead of the opener of the file that the caller writes
    /// to.
    pub fn has_payer(&self) -> bool {
        self.payer != Payer::Own
    }

    /// Returns whether the caller may exceed quota limits and use reserved space (CAP_SYS_RESOURCE). Space that the
    /// server takes belongs to a user, so the server may not by itself.
    pub fn may_pass_limits(&self) -> bool {
        const CAP_SYS_RESOURCE: u64 = CapabilitySet::SYS_RESOURCE.bits();
        match self.payer {
            Payer::Own => !self.server && self.capabilities() & CAP_SYS_RESOURCE != 0,
            Payer::User(..) => false,
            Payer::Superuser { may_pass_limits } => may_pass_limits,
        }
    }

    /// Returns this caller with privileges killed: a regular file whose data or size an operation changes loses its
    /// set-user-ID bit, its set-group-ID bit if its group may execute it, and `security.capability`, as when a process
    /// without CAP_FSETID writes (the kernel's term: `FUSE_WRITE_KILL_SUIDGID`, file_remove_privs). Set where the caller
    /// of a base is more privileged than whoever requested the change; otherwise bases follow the rules of Linux for the
    /// caller's credentials. Default: not set.
    #[must_use]
    pub fn killing_privileges(self) -> Self {
        Self { kills_privileges: true, ..self }
    }

    /// Returns this caller, killing privileges if `other` does: for a change of the server that is a part of what `other`
    /// requested.
    #[must_use]
    pub fn killing_privileges_with(self, other: &Self) -> Self {
        Self { kills_privileges: self.kills_privileges || other.kills_privileges, ..self }
    }

    /// Returns the server as the caller for a change of data that `other` requested and may make: it clears set-ID bits where the
    /// same change by `other` would.
    pub fn server_changing_for(other: &Self) -> Self {
        if other.may_keep_set_id() { Self::server() } else { Self::server().killing_privileges() }
    }

    /// Returns this caller without the request to kill privileges: for undoing a change, and for files of a layer's own.
    #[must_use]
    pub fn keeping_privileges(self) -> Self {
        Self { kills_privileges: false, ..self }
    }

    /// Returns whether what the caller changes loses privileges, whatever the caller's credentials; see
    /// [`Caller::killing_privileges`].
    pub fn kills_privileges(&self) -> bool {
        self.kills_privileges
    }

    /// Returns whether changing data leaves the set-ID bits of a file in place: the caller has CAP_FSETID, and does not
    /// [kill privileges](Caller::killing_privileges).
    pub fn may_keep_set_id(&self) -> bool {
        !self.kills_privileges && self.capabilities() & CapabilitySet::FSETID.bits() != 0
    }

    /// Returns this caller with operations cancelled by `cancellation` and nothing else.
    #[must_use]
    pub fn cancelled_by(self, cancellation: Cancellation) -> Self {
        Self { cancellation, ..self }
    }

    /// Returns this caller, cancelled together with `other`, for a part of what `other` waits for. For work of the
    /// server on behalf of a user that may take long, and not for undoing it.
    #[must_use]
    pub fn cancelled_with(self, other: &Caller) -> Self {
        self.cancelled_by(other.cancellation.clone())
    }

    /// Returns this caller without cancellation, for work that has to run to completion.
    #[must_use]
    pub fn uncancelled(&self) -> Self {
        self.clone().cancelled_by(Cancellation::default())
    }

    /// Returns the cancellation of the operation: work that may take long checks it, and fails with its error.
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// Returns the supplementary groups; empty if the process is gone or /proc is absent. Each thread looks up the
    /// groups of a process that has no privilege to change them at most once a second.
    pub fn groups(&self) -> &Arc<[u32]> {
        static NONE: LazyLock<Arc<[u32]>> = LazyLock::new(|| Arc::new([]));
        self.known_groups().unwrap_or(&NONE)
    }

    fn known_groups(&self) -> Result<&Arc<[u32]>> {
        match self.groups.get() {
            Some(known) => Ok(known),
            None => {
                let groups = recent_groups((self.pid, self.uid, self.gid))?;
                Ok(self.groups.get_or_init(|| groups))
            }
        }
    }

    /// Returns the session ID, as in getsid(2); 0 if it cannot be determined, and for a session that began outside the
    /// server's PID namespace.
    pub fn session(&self) -> u32 {
        *self.session.get_or_init(|| session_of(self.pid))
    }

    /// Returns the capabilities that permit the caller more than its user and groups do, as a mask (capabilities(7)).
    /// Capabilities of users other than 0 do not count. A caller in a user namespace other than the server's has none;
    /// a process that is gone, or unknown because it is in another PID namespace, has all. So does any other user's
    /// process through which a kernel overlayfs may be making the request.
    pub fn capabilities(&self) -> u64 {
        self.known_capabilities().unwrap_or(0)
    }

    fn known_capabilities(&self) -> Result<u64> {
        match self.capabilities.get() {
            _ if self.server => Ok(ALL),
            _ if self.uid != 0 => Ok(0),
            Some(known) => Ok(*known),
            None => {
                let looked_up = if self.pid == 0 { None } else { process::capabilities(self.pid)? };
                Ok(*self.capabilities.get_or_init(|| looked_up.unwrap_or(ALL)))
            }
        }
    }

    /// Returns whether the caller is the server itself, or the superuser with the capabilities that override
    /// permissions.
    pub fn is_superuser(&self) -> bool {
        self.server || (self.uid == 0 && self.capabilities() & OF_SUPERUSER == OF_SUPERUSER)
    }

    /// Returns whether the caller may do what Linux requires CAP_SYS_ADMIN for.
    pub fn may_administer(&self) -> bool {
        self.capabilities() & CAP_SYS_ADMIN != 0
    }

    /// Returns whether the caller may change what is immutable or append-only, with CAP_LINUX_IMMUTABLE.
    pub fn may_change_flags(&self) -> bool {
        self.capabilities() & CapabilitySet::LINUX_IMMUTABLE.bits() != 0
    }

    /// Returns whether the caller has CAP_SETFCAP in any user namespace: in its own namespace it may give capabilities
    /// to its own files, which count only there.
    pub fn may_give_own_files_capabilities(&self) -> bool {
        process::has_in_any_namespace(self.pid, CapabilitySet::SETFCAP)
    }

    /// Returns whether the caller may set or remove these capabilities, the value of `security.capability`, on an
    /// object of the user `owner` without any capability of its own: they count only in user namespaces whose user 0 is
    /// the caller, and the caller owns the object. Every user may create such a namespace, and may do so there. The
    /// kernel adds the owner of the capabilities to the value.
    pub fn may_give_capabilities(&self, value: &[u8], owner: u32) -> bool {
        const REVISION_3: u8 = 3;
        const LENGTH: usize = 24;
        let is_revision_3 = value.len() == LENGTH && value[3] == REVISION_3;
        self.uid != 0 && self.uid == owner && is_revision_3 && value[20..] == self.uid.to_le_bytes()
    }

    /// Returns whether `gid` is the caller's group or one of its supplementary groups.
    pub fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups().contains(&gid)
    }
}

const OF_SUPERUSER: u64 = process::OF_SUPERUSER.bits();
const CAP_SYS_ADMIN: u64 = CapabilitySet::SYS_ADMIN.bits();

/// All capabilities.
const ALL: u64 = u64::MAX;

/// Returns the capabilities assumed for a user about whom nothing else is known.
fn implied_by(uid: u32) -> u64 {
    if uid == 0 { ALL } else { 0 }
}

/// Process, user and group IDs.
type Ids = (u32, u32, u32);

/// Cached groups, with the IDs they belong to and the time of the lookup.
type Remembered = Option<(Ids, Instant, Arc<[u32]>)>;

thread_local! {
    /// Cache of groups: a lookup costs more than most operations, and consecutive operations mostly come from few
    /// processes.
    static REMEMBERED: RefCell<[Remembered; 8]> = const { RefCell::new([const { None }; 8]) };
}

fn recent_groups(ids: Ids) -> Result<Arc<[u32]>> {
    const VALID: Duration = Duration::from_secs(1);
    REMEMBERED.with_borrow_mut(|remembered| {
        let place = &mut remembered[ids.0 as usize % remembered.len()];
        if let Some((whose, when, groups)) = place
            && *whose == ids
            && when.elapsed() < VALID
        {
            return Ok(Arc::clone(groups));
        }
        let Some(status) = process_files::status(ids.0)? else { return Ok(Arc::new([])) };
        let groups: Arc<[u32]> = status.groups().collect();
        *place = is_bound(&status, ids.1).then(|| (ids, Instant::now(), Arc::clone(&groups)));
        Ok(groups)
    })
}

/// Returns whether the process can neither change its groups nor become one that can, except through a set-user-ID
/// program, which shows in its IDs: all its user IDs are `uid`, not the superuser's, and it has no capabilities.
fn is_bound(status: &Status, uid: u32) -> bool {
    let own = procfs::Ids { real: uid, effective: uid, saved: uid, file_system: uid };
    uid != 0 && status.uids() == Some(own) && status.permitted_capabilities() == Some(0)
}

/// Returns the session by getsid(2): /proc does not report on a process inside an execve(2) that waits for us.
fn session_of(pid: u32) -> u32 {
    // 0 would be the server itself.
    let process = i32::try_from(pid).ok().filter(|process| *process > 0);
    let session = process.and_then(|process| getsid(Some(Pid::from_raw(process))).ok());
    session.map_or(0, |session| session.as_raw().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use procfs::Process;

    use super::*;

    #[test]
    fn groups_and_session_of_a_live_process_are_found() {
        let caller = Caller::process(std::process::id(), 0, 0, 0);
        assert_ne!(caller.session(), u32::MAX);
        assert_eq!(caller.groups().len(), caller.groups().len());
        assert_eq!(Caller::process(0, 1, 1, 0).groups().len(), 0);
    }

    /// A session that began outside the server's PID namespace has no ID in it.
    #[test]
    fn sessions_from_outside_the_pid_namespace_are_not_known() {
        const INSIDE: &str = "PLYFS_TEST_IS_INSIDE";
        if std::env::var_os(INSIDE).is_some() {
            return assert_eq!(Caller::process(std::process::id(), 0, 0, 0).session(), 0);
        }
        let test = "caller::tests::sessions_from_outside_the_pid_namespace_are_not_known";
        let mut inside = std::process::Command::new("unshare");
        inside.args(["--user", "--map-root-user", "--pid", "--fork"]).arg(std::env::current_exe().unwrap());
        let ended = inside.args(["--exact", test]).env(INSIDE, "1").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }

    #[test]
    fn only_processes_without_privileges_are_bound_to_their_groups() {
        let status = |uids: &str, capabilities: &str| {
            Status::from(format!("Uid:\t{uids}\nCapPrm:\t{capabilities}\n").into_bytes())
        };
        assert!(is_bound(&status("5\t5\t5\t5", "0000000000000000"), 5));
        assert!(!is_bound(&status("5\t5\t5\t5", "0000000000000040"), 5));
        assert!(!is_bound(&status("0\t5\t0\t5", "0000000000000000"), 5), "as set-uid servers are for their users");
        assert!(!is_bound(&status("0\t0\t0\t0", "0000000000000000"), 0));
        assert!(!is_bound(&Status::from(Vec::new()), 5));
    }

    /// A process may give itself any name.
    #[test]
    fn the_groups_of_a_process_whose_name_is_not_text_are_found() {
        let script = "import sys; open('/proc/self/comm', 'wb').write(b'\\xff'); print(flush=True); sys.stdin.read()";
        let mut command = std::process::Command::new("python3");
        let piped = std::process::Stdio::piped;
        if rustix::process::getuid().is_root() {
            command = std::process::Command::new("setpriv");
            command.args(["--groups", "70001,70002", "python3"]);
        }
        let Ok(mut process) = command.args(["-c", script]).stdin(piped()).stdout(piped()).spawn() else {
            eprintln!("skipped: this needs python3");
            return;
        };
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let found = Caller::process(process.id(), 5, 5, 0).groups().to_vec();
        let expected: Vec<u32> = Process::Numbered(process.id()).status().unwrap().unwrap().groups().collect();
        drop(process.stdin.take());
        process.wait().unwrap();
        assert_eq!(found, expected);
        assert!(!rustix::process::getuid().is_root() || found == [70_001, 70_002]);
    }

    /// More processes of one user than the cache has slots: at least two share one, whatever their IDs.
    #[test]
    fn nobody_has_the_groups_of_another_process_of_the_same_user() {
        let uid = 65_534;
        let start = |group: u32| {
            let ids = [uid.to_string(), uid.to_string(), group.to_string()];
            let mut command = std::process::Command::new("setpriv");
            command.args(["--reuid", &ids[0], "--regid", &ids[1], "--groups", &ids[2], "sleep", "60"]).spawn().unwrap()
        };
        if !rustix::process::getuid().is_root() {
            eprintln!("skipped: starting processes of another user needs root");
            return;
        }
        let places = REMEMBERED.with_borrow(|remembered| remembered.len() as u32);
        let mut processes: Vec<_> = (0..=places).map(|index| (70_000 + index, start(70_000 + index))).collect();
        let found: Vec<_> = processes
            .iter()
            .map(|(group, process)| {
                let status = || process_files::status(process.id()).unwrap();
                let deadline = Instant::now() + Duration::from_secs(30);
                while !status().is_some_and(|status| is_bound(&status, uid)) && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(5));
                }
                (*group, Caller::process(process.id(), uid, uid, 0).groups().to_vec())
            })
            .collect();
        for (_, process) in &mut processes {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        found.into_iter().for_each(|(group, groups)| assert_eq!(groups, [group]));
    }

    #[test]
    fn a_superuser_whose_process_has_gone_is_one() {
        let mut process = std::process::Command::new("true").spawn().unwrap();
        process.wait().unwrap();
        let thread = std::thread::spawn(rustix::thread::gettid).join().unwrap();
        for pid in [process.id(), thread.as_raw_nonzero().get() as u32] {
            assert!(Caller::process(pid, 0, 0, 0).is_superuser(), "{pid}");
            assert!(!Caller::process(pid, 5, 0, 0).is_superuser(), "{pid}");
        }
    }

    #[test]
    fn the_servers_own_threads_are_superusers_whoever_they_act_for() {
        let permitted = Process::Own.status().unwrap().unwrap().permitted_capabilities().unwrap();
        let (begin, thread) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let acting = std::thread::spawn(move || {
            let sets = rustix::thread::capabilities(None).unwrap();
            let aside = rustix::thread::CapabilitySets { effective: CapabilitySet::empty(), ..sets };
            rustix::thread::set_capabilities(None, aside).unwrap();
            begin.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = ended.recv();
        });
        assert_eq!(Caller::process(thread.recv().unwrap(), 0, 0, 0).capabilities(), permitted);
        drop(end);
        acting.join().unwrap();
    }

    /// Runs in its own process, which has no descriptors left.
    #[test]
    fn who_cannot_be_looked_up_now_is_not_taken_for_somebody_else() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        const ALONE: &str = "PLYFS_TEST_ALONE";
        let test = "caller::tests::who_cannot_be_looked_up_now_is_not_taken_for_somebody_else";
        if std::env::var_os(ALONE).is_none() {
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let ended = alone.args(["--exact", test]).env(ALONE, "1").output().unwrap();
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
            return;
        }
        let parent = std::os::unix::process::parent_id();
        let (superuser, user) = (Caller::process(parent, 0, 0, 0), Caller::process(parent, 5, 5, 0));
        Caller::process(1, 0, 0, 0).identify().unwrap();
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
        let identified = [superuser.identify(), user.identify()];
        let without = (superuser.capabilities(), user.groups().len());
        setrlimit(Resource::Nofile, limit).unwrap();
        assert_eq!(identified, [Err(crate::Errno::EMFILE); 2]);
        assert_eq!(without, (0, 0));
        assert_eq!([superuser.identify(), user.identify()], [Ok(()); 2]);
        let own = Process::Own.status().unwrap().unwrap();
        assert_eq!(Some(superuser.capabilities()), own.effective_capabilities());
        assert_eq!(**user.groups(), *own.groups().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_taken_is_of_whoever_pays() {
        let (user, root, server) =
            (Caller::with_groups(5, 6, &[], 0), Caller::with_groups(0, 0, &[], 0), Caller::server());
        assert!(root.may_pass_limits() && !user.may_pass_limits() && !server.may_pass_limits());
        let (for_user, for_root) = (server.clone().at_expense_of(&user), server.clone().at_expense_of(&root));
        assert_eq!((for_user.payer(), for_root.payer(), server.payer()), (Some((5, 6)), None, None));
        assert!(for_root.may_pass_limits() && !for_user.may_pass_limits());
        assert!(for_user.has_payer() && for_root.has_payer() && !server.clone().at_expense_of(&server).has_payer());
        let twice = server.clone().at_expense_of(&root.at_expense_of(&user));
        assert_eq!((twice.payer(), twice.may_pass_limits()), (Some((5, 6)), false));
        // Depends on the capabilities of this superuser's process.
        let own = Caller::process(std::process::id(), 0, 0, 0);
        let may = own.capabilities() & CapabilitySet::SYS_RESOURCE.bits() != 0;
        assert_eq!([own.may_pass_limits(), server.at_expense_of(&own).may_pass_limits()], [may; 2]);
    }

    #[test]
    fn killing_privileges_is_passed_on_except_to_the_server() {
        let user = Caller::with_groups(5, 6, &[], 0).killing_privileges();
        assert!(user.kills_privileges() && user.mapped(0, 0, |group| group).kills_privileges());
        assert!(user.uncancelled().kills_privileges() && user.overriding().kills_privileges());
        assert!(!Caller::server_for(&user).kills_privileges());
        assert!(!Caller::server().at_expense_of(&user).cancelled_with(&user).kills_privileges());
        assert!(Caller::server().killing_privileges_with(&user).kills_privileges());
        assert!(!user.clone().keeping_privileges().killing_privileges_with(&Caller::server()).kills_privileges());
        assert!(Caller::server().may_keep_set_id() && !user.may_keep_set_id());
        assert!(!Caller::with_groups(0, 0, &[], 0).without_capabilities().may_keep_set_id());
    }

    #[test]
    fn mapped_groups_are_mapped() {
        let caller = Caller::with_groups(1, 2, &[3, 4], 0o22).mapped(11, 12, |group| group + 10);
        assert_eq!((caller.uid, caller.gid, caller.umask), (11, 12, 0o22));
        assert_eq!(&**caller.groups(), &[13, 14]);
    }
}

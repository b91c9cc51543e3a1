//! The tested calls: every system call on an object, by its path, through a descriptor's link, and on a descriptor.

use conformance::{Client, Errno, File, Kind, Lock, LockKind, Time, TimeChange};
use libc::{
    LOCK_EX, LOCK_NB, LOCK_SH, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOFOLLOW, O_NONBLOCK, O_PATH,
    O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY, R_OK, W_OK, X_OK,
};

use super::objects::{NEIGHBOUR, OBJECT, OWN_FILE};
use super::users::{LISTED, OWNER, STRANGER, User};

type Result<T> = std::result::Result<T, Errno>;

/// The way in which a call reaches the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessRoute {
    /// By its path.
    Path,
    /// Through the link of /proc that a descriptor opened by `O_PATH` has.
    Link,
    /// In the same way, after the descriptor was opened by the object's handle, open_by_handle_at(2).
    Handle,
}

pub(crate) const ROUTES: [AccessRoute; 3] = [AccessRoute::Path, AccessRoute::Link, AccessRoute::Handle];

impl AccessRoute {
    /// Returns whether a user tests a call by this route. For users who may not use handles, one call suffices.
    pub(crate) fn is_applicable(self, user: &User, call: &SystemCall) -> bool {
        match self {
            Self::Path => true,
            Self::Link => call.by_path,
            Self::Handle => call.by_path && (user.may_use_handles || call.name == "stat"),
        }
    }
}

/// The objects of a call, by their paths.
pub(crate) struct Paths {
    /// The object, by the tested route.
    object: Vec<u8>,
    /// The object by its name, for calls that change names.
    named: Vec<u8>,
    directory: String,
}

impl Paths {
    fn sibling(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}", self.directory).into_bytes()
    }

    fn below(&self, name: &str) -> Vec<u8> {
        [&self.object[..], b"/", name.as_bytes()].concat()
    }
}

pub(crate) struct SystemCall {
    pub name: &'static str,
    /// It can reach the object by other routes than its name.
    pub by_path: bool,
    run: fn(&dyn Client, &Paths) -> Result<String>,
}

const fn call(name: &'static str, run: fn(&dyn Client, &Paths) -> Result<String>) -> SystemCall {
    SystemCall { name, by_path: true, run }
}

const fn of_names(name: &'static str, run: fn(&dyn Client, &Paths) -> Result<String>) -> SystemCall {
    SystemCall { name, by_path: false, run }
}

/// Performs a call on the object in a directory below the client's working directory.
pub(crate) fn perform_call(
    client: &dyn Client,
    directory: &str,
    call: &SystemCall,
    route: AccessRoute,
) -> Result<String> {
    let named = format!("{directory}/{OBJECT}").into_bytes();
    let held = match route {
        AccessRoute::Path => None,
        AccessRoute::Link => Some(client.open(&named, O_PATH | O_NOFOLLOW, 0)?),
        AccessRoute::Handle => Some(client.open_by_handle(&named, O_PATH)?),
    };
    // The first descriptor of the client's own table.
    let object = held.as_ref().map_or(named.clone(), |_| b"/proc/thread-self/fd/3".to_vec());
    let result = (call.run)(client, &Paths { object, named, directory: directory.to_owned() });
    drop(held);
    result
}

fn done<T>(result: Result<T>) -> Result<String> {
    result.map(|_| String::new())
}

fn open(client: &dyn Client, paths: &Paths, flags: i32) -> Result<String> {
    done(client.open(&paths.object, flags | O_NONBLOCK, 0))
}

/// Opens the object and runs a function on it.
fn with_open(
    client: &dyn Client,
    paths: &Paths,
    flags: i32,
    act: impl FnOnce(&dyn File) -> Result<String>,
) -> Result<String> {
    act(&*client.open(&paths.object, flags | O_NONBLOCK, 0)?)
}

fn chmod(client: &dyn Client, paths: &Paths, mode: u32) -> Result<String> {
    done(client.chmod(&paths.object, mode))
}

fn chown(client: &dyn Client, paths: &Paths, uid: Option<u32>, gid: Option<u32>) -> Result<String> {
    done(client.chown(&paths.object, uid, gid))
}

fn set_attribute(client: &dyn Client, paths: &Paths, name: &str, value: &[u8]) -> Result<String> {
    done(client.setxattr(&paths.object, name.as_bytes(), value, 0))
}

fn attribute(client: &dyn Client, paths: &Paths, name: &str) -> Result<String> {
    client.getxattr(&paths.object, name.as_bytes(), 4096).map(|value| format!("{value:02x?}"))
}

fn remove_attribute(client: &dyn Client, paths: &Paths, name: &str) -> Result<String> {
    done(client.removexattr(&paths.object, name.as_bytes()))
}

fn access(client: &dyn Client, paths: &Paths, mode: i32) -> Result<String> {
    done(client.access(&paths.object, mode))
}

fn times(client: &dyn Client, paths: &Paths, access: TimeChange, modification: TimeChange) -> Result<String> {
    done(client.set_times(&paths.object, access, modification, true))
}

fn lock(client: &dyn Client, paths: &Paths, flags: i32, kind: LockKind) -> Result<String> {
    with_open(client, paths, flags, |file| done(file.lock(Lock::new(kind, 0, 10), false)))
}

const ACL: &str = "system.posix_acl_access";
const CAPABILITIES: &str = "security.capability";
/// A time that calls set.
pub(crate) const PAST_SECONDS: i64 = 1_000_000_000;
const PAST: TimeChange = TimeChange::To(Time::new(PAST_SECONDS, 0));
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// An access control list without named users: equivalent to a mode.
const PLAIN_LIST: &[u8] =
    &[2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 4, 0, 6, 0, 255, 255, 255, 255, 32, 0, 6, 0, 255, 255, 255, 255];
/// `cap_net_raw=ep`.
const CAPABILITY: &[u8] = &[1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(crate) const CALLS: &[SystemCall] = &[
    call("open to read", |client, paths| open(client, paths, O_RDONLY)),
    call("open to write", |client, paths| open(client, paths, O_WRONLY)),
    call("open to read and write", |client, paths| open(client, paths, O_RDWR)),
    call("open to append", |client, paths| open(client, paths, O_WRONLY | O_APPEND)),
    call("open to cut", |client, paths| open(client, paths, O_WRONLY | O_TRUNC)),
    call("open to read and cut", |client, paths| open(client, paths, O_RDONLY | O_TRUNC)),
    call("open without access time", |client, paths| open(client, paths, O_RDONLY | O_NOATIME)),
    call("open as a path", |client, paths| open(client, paths, O_PATH)),
    call("open without following", |client, paths| open(client, paths, O_RDONLY | O_NOFOLLOW)),
    call("open a directory", |client, paths| open(client, paths, O_RDONLY | O_DIRECTORY)),
    of_names("open or create", |client, paths| done(client.open(&paths.named, O_CREAT | O_WRONLY | O_NONBLOCK, 0o600))),
    of_names("open or create and cut", |client, paths| {
        done(client.open(&paths.named, O_CREAT | O_TRUNC | O_WRONLY | O_NONBLOCK, 0o600))
    }),
    of_names("create", |client, paths| done(client.open(&paths.named, O_CREAT | O_EXCL | O_WRONLY, 0o600))),
    call("make a file without a name", |client, paths| done(client.open(&paths.object, O_TMPFILE | O_RDWR, 0o600))),
    call("read", |client, paths| {
        with_open(client, paths, O_RDONLY, |file| {
            let mut buffer = [0; 100];
            file.read_at(&mut buffer, 0).map(|length| format!("{:?}", &buffer[..length]))
        })
    }),
    call("write", |client, paths| with_open(client, paths, O_WRONLY, |file| done(file.write_at(b"WRITTEN", 3)))),
    call("append", |client, paths| with_open(client, paths, O_WRONLY | O_APPEND, |file| done(file.write(b"WRITTEN")))),
    call("write nothing", |client, paths| with_open(client, paths, O_WRONLY, |file| done(file.write_at(b"", 0)))),
    call("map and read", |client, paths| {
        with_open(client, paths, O_RDONLY, |file| file.map(10, true, false).map(|map| format!("{:?}", map.load(0, 10))))
    }),
    call("map and write", |client, paths| {
        with_open(client, paths, O_RDWR, |file| {
            let map = file.map(10, true, true)?;
            map.store(0, b"MAPPED");
            done(map.sync())
        })
    }),
    call("synchronize", |client, paths| with_open(client, paths, O_RDONLY, |file| done(file.sync(false)))),
    call("allocate", |client, paths| with_open(client, paths, O_RDWR, |file| done(file.allocate(0, 0, 100)))),
    call("punch a hole", |client, paths| with_open(client, paths, O_RDWR, |file| done(file.allocate(PUNCH, 0, 5)))),
    call("cut an open file", |client, paths| with_open(client, paths, O_RDWR, |file| done(file.truncate(3)))),
    call("cut a file open to be read", |client, paths| {
        with_open(client, paths, O_RDONLY, |file| done(file.truncate(3)))
    }),
    call("change the mode of an open file", |client, paths| {
        with_open(client, paths, O_RDONLY, |file| done(file.chmod(0o777)))
    }),
    call("change the owner of an open file", |client, paths| {
        with_open(client, paths, O_RDONLY, |file| done(file.chown(Some(STRANGER), None)))
    }),
    call("change the times of an open file", |client, paths| {
        with_open(client, paths, O_RDONLY, |file| done(file.set_times(PAST, PAST)))
    }),
    call("link an open file", |client, paths| {
        let name = paths.sibling("new");
        with_open(client, paths, O_RDONLY, |file| done(file.link(&name)))
    }),
    call("lock to read", |client, paths| lock(client, paths, O_RDONLY, LockKind::Read)),
    call("lock to write", |client, paths| lock(client, paths, O_WRONLY, LockKind::Write)),
    call("lock to write what is open to be read", |client, paths| lock(client, paths, O_RDONLY, LockKind::Write)),
    call("lock whole", |client, paths| with_open(client, paths, O_RDONLY, |file| done(file.flock(LOCK_EX | LOCK_NB)))),
    call("lock whole and shared", |client, paths| {
        with_open(client, paths, O_WRONLY, |file| done(file.flock(LOCK_SH | LOCK_NB)))
    }),
    call("copy into it", |client, paths| {
        let source = client.open(&paths.sibling(NEIGHBOUR), O_RDONLY, 0)?;
        with_open(client, paths, O_WRONLY, |file| done(source.copy_range(0, file, 0, 5)))
    }),
    call("stat", |client, paths| {
        client.stat(&paths.object).map(|found| {
            let size = if found.kind == Kind::Directory { 0 } else { found.size };
            format!("{:?} {:o} {}:{} {size} {:?}", found.kind, found.mode, found.uid, found.gid, found.device)
        })
    }),
    call("read a symlink", |client, paths| client.readlink(&paths.named).map(|target| format!("{target:?}"))),
    call("access: is there", |client, paths| access(client, paths, 0)),
    call("access: read", |client, paths| access(client, paths, R_OK)),
    call("access: write", |client, paths| access(client, paths, W_OK)),
    call("access: execute", |client, paths| access(client, paths, X_OK)),
    call("access: all", |client, paths| access(client, paths, R_OK | W_OK | X_OK)),
    call("list", |client, paths| client.names(&paths.object).map(|names| format!("{}", names.len()))),
    call("enter", |client, paths| done(client.chdir(&paths.object))),
    call("look below", |client, paths| done(client.stat(&paths.below("inner")))),
    call("look for what is not below", |client, paths| done(client.stat(&paths.below("nothing")))),
    call("read below", |client, paths| done(client.open(&paths.below("inner"), O_RDONLY, 0))),
    call("create below", |client, paths| {
        let file = client.open(&paths.below("new"), O_CREAT | O_EXCL | O_RDWR, 0o6777)?;
        file.write_at(b"new", 0).map(|_| String::new())
    }),
    call("make a directory below", |client, paths| done(client.mkdir(&paths.below("new"), 0o2777))),
    call("make a pipe below", |client, paths| done(client.mknod(&paths.below("new"), libc::S_IFIFO | 0o666, (0, 0)))),
    call("make a device below", |client, paths| done(client.mknod(&paths.below("new"), libc::S_IFCHR | 0o666, (1, 3)))),
    call("make a symlink below", |client, paths| done(client.symlink(b"inner", &paths.below("new")))),
    call("link below", |client, paths| done(client.link(&paths.sibling(NEIGHBOUR), &paths.below("new")))),
    call("remove below", |client, paths| done(client.unlink(&paths.below("inner")))),
    call("rename below", |client, paths| done(client.rename(&paths.below("inner"), &paths.below("new")))),
    call("move one's own below", |client, paths| done(client.rename(&paths.sibling(OWN_FILE), &paths.below("new")))),
    call("move from below", |client, paths| done(client.rename(&paths.below("inner"), &paths.sibling("new")))),
    of_names("make a directory over it", |client, paths| done(client.mkdir(&paths.named, 0o777))),
    of_names("make a pipe over it", |client, paths| done(client.mknod(&paths.named, libc::S_IFIFO | 0o600, (0, 0)))),
    of_names("make a symlink over it", |client, paths| done(client.symlink(b"x", &paths.named))),
    of_names("link it", |client, paths| done(client.link(&paths.named, &paths.sibling("new")))),
    of_names("link over it", |client, paths| done(client.link(&paths.sibling(NEIGHBOUR), &paths.named))),
    of_names("unlink", |client, paths| done(client.unlink(&paths.named))),
    of_names("remove a directory", |client, paths| done(client.rmdir(&paths.named))),
    of_names("rename it", |client, paths| done(client.rename(&paths.named, &paths.sibling("new")))),
    of_names("rename over it", |client, paths| done(client.rename(&paths.sibling(OWN_FILE), &paths.named))),
    of_names("rename it over another's", |client, paths| done(client.rename(&paths.named, &paths.sibling(NEIGHBOUR)))),
    of_names("rename it without replacing", |client, paths| {
        done(client.rename_with(&paths.named, &paths.sibling(NEIGHBOUR), libc::RENAME_NOREPLACE))
    }),
    of_names("exchange", |client, paths| {
        done(client.rename_with(&paths.named, &paths.sibling(OWN_FILE), libc::RENAME_EXCHANGE))
    }),
    call("change the mode", |client, paths| chmod(client, paths, 0o777)),
    call("change the mode to set-user-id", |client, paths| chmod(client, paths, 0o4755)),
    call("change the mode to set-group-id", |client, paths| chmod(client, paths, 0o2755)),
    call("change the mode to sticky", |client, paths| chmod(client, paths, 0o1777)),
    call("change nothing of the owner", |client, paths| chown(client, paths, None, None)),
    call("change the owner to the same", |client, paths| chown(client, paths, Some(OWNER), None)),
    call("change the owner", |client, paths| chown(client, paths, Some(STRANGER), None)),
    call("change the owner to root", |client, paths| chown(client, paths, Some(0), Some(0))),
    call("change the group to the same", |client, paths| chown(client, paths, None, Some(OWNER))),
    call("change the group", |client, paths| chown(client, paths, None, Some(LISTED))),
    of_names("change the owner of a symlink", |client, paths| done(client.lchown(&paths.named, Some(STRANGER), None))),
    of_names("change nothing of the owner of a symlink", |client, paths| done(client.lchown(&paths.named, None, None))),
    call("cut", |client, paths| done(client.truncate(&paths.object, 3))),
    call("make longer", |client, paths| done(client.truncate(&paths.object, 5000))),
    call("set the times to now", |client, paths| times(client, paths, TimeChange::Now, TimeChange::Now)),
    call("set one time to now", |client, paths| times(client, paths, TimeChange::Keep, TimeChange::Now)),
    call("set the times", |client, paths| times(client, paths, PAST, PAST)),
    call("set no time", |client, paths| times(client, paths, TimeChange::Keep, TimeChange::Keep)),
    of_names("set the times of a symlink", |client, paths| done(client.set_times(&paths.named, PAST, PAST, false))),
    call("state of the file system", |client, paths| done(client.statfs(&paths.object))),
    call("list attributes", |client, paths| client.attributes(&paths.object).map(|names| format!("{}", names.len()))),
    call("read an attribute", |client, paths| attribute(client, paths, "user.none")),
    call("read a list", |client, paths| attribute(client, paths, ACL)),
    call("read capabilities", |client, paths| attribute(client, paths, CAPABILITIES)),
    call("read a trusted attribute", |client, paths| attribute(client, paths, "trusted.none")),
    call("set an attribute", |client, paths| set_attribute(client, paths, "user.new", b"value")),
    call("set a list", |client, paths| set_attribute(client, paths, ACL, PLAIN_LIST)),
    call("set a list that is none", |client, paths| set_attribute(client, paths, ACL, b"nonsense")),
    call("set capabilities", |client, paths| set_attribute(client, paths, CAPABILITIES, CAPABILITY)),
    call("set a trusted attribute", |client, paths| set_attribute(client, paths, "trusted.new", b"value")),
    call("set a security attribute", |client, paths| set_attribute(client, paths, "security.new", b"value")),
    call("remove an attribute", |client, paths| remove_attribute(client, paths, "user.none")),
    call("remove a list", |client, paths| remove_attribute(client, paths, ACL)),
    call("remove capabilities", |client, paths| remove_attribute(client, paths, CAPABILITIES)),
];

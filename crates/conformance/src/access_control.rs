//! Comparison of the access control that a tree declares with the accesses that it permits.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use vnode::{
    AccessControl, AccessMode, Attributes, Caller, Creation, Errno, FileSystem, Name, OpenFlags, Result, SetAttributes,
    VnodeRef, XattrMode,
};

use crate::acl::{self, AclEntry};
use crate::{Failure, Outcome};

/// Queries a tree for many callers, modes, owners and access control lists whether it permits access, open, lookup and
/// modification, and fails where the result differs from what the tree declares. The base must act with the callers'
/// credentials.
///
/// Fails with a [`Failure`] that names the query and the result.
pub fn check_access_control(file_system: &dyn FileSystem) -> Outcome {
    let declared = file_system.properties().access_control;
    if declared == AccessControl::NotShown {
        return Ok(());
    }
    let scene = Scene::new(file_system)?;
    let outcome = scene.ask_all(declared);
    scene.clear();
    outcome
}

const OWNER: u32 = 1001;
/// The user named in lists.
const NAMED: u32 = 1002;
const STRANGER: u32 = 1003;
const GROUP: u32 = 2000;
const NAMED_GROUP: u32 = 2001;

/// Owner and group of the tested objects.
const OWNERS: [(u32, u32); 2] = [(OWNER, GROUP), (0, 0)];

/// Modes in which each class has each permission, and modes in which classes differ.
const MODES: [u32; 12] = [0, 0o777, 0o700, 0o070, 0o007, 0o077, 0o707, 0o750, 0o711, 0o421, 0o124, 0o1642];

/// Access control lists, besides the absence of one.
const LISTS: [&[AclEntry]; 3] = {
    use acl::{GROUP, GROUP_OBJECT, MASK, OTHER, USER, USER_OBJECT};
    [
        &[(USER_OBJECT, 7, 0), (USER, 5, NAMED), (GROUP_OBJECT, 0, 0), (MASK, 7, 0), (OTHER, 0, 0)],
        &[(USER_OBJECT, 6, 0), (USER, 7, NAMED), (GROUP_OBJECT, 5, 0), (MASK, 4, 0), (OTHER, 1, 0)],
        &[(USER_OBJECT, 0, 0), (GROUP_OBJECT, 1, 0), (GROUP, 7, NAMED_GROUP), (MASK, 7, 0), (OTHER, 5, 0)],
    ]
};

fn callers() -> [Caller; 7] {
    let caller = |uid, gid, groups: &[u32]| Caller::with_groups(uid, gid, groups, 0);
    [
        caller(0, 0, &[]),
        caller(OWNER, OWNER, &[]),
        caller(OWNER, GROUP, &[]),
        caller(NAMED, NAMED, &[]),
        caller(NAMED, NAMED, &[5, GROUP]),
        caller(STRANGER, GROUP, &[]),
        caller(STRANGER, STRANGER, &[NAMED_GROUP]),
    ]
}

/// The operation tested on an object, and the permissions that it requires.
#[derive(Clone, Copy, Debug)]
enum Question {
    Access(u32),
    Open(OpenFlags),
    LookUp(&'static str),
    List,
    /// A name is created and removed again.
    Change,
    SetMode,
}

impl Question {
    fn all(is_directory: bool) -> Vec<Question> {
        let mut all: Vec<_> = (1..=7).map(Question::Access).collect();
        if is_directory {
            all.extend([Question::LookUp("there"), Question::LookUp("not there"), Question::List, Question::Change]);
        } else {
            all.extend([OpenFlags::READ, OpenFlags::WRITE, OpenFlags::READ_WRITE].map(Question::Open));
        }
        // Comes last: it sets the mode that is shown.
        all.push(Question::SetMode);
        all
    }

    /// Returns whether the kernel may decide the operation itself by search permission, so that nothing else may decide it.
    fn is_decided_unasked(self) -> bool {
        matches!(self, Question::Access(_) | Question::LookUp(_))
    }

    /// Returns whether the shown attributes permit the operation.
    fn is_admitted(self, shown: &Shown<'_>) -> bool {
        match self {
            Question::Access(bits) => shown.admits(bits),
            Question::Open(flags) => shown.admits(u32::from(flags.reads()) << 2 | u32::from(flags.writes()) << 1),
            Question::LookUp(_) => shown.admits(1),
            Question::List => shown.admits(4),
            Question::Change => shown.admits(3),
            Question::SetMode => shown.caller.uid == 0 || shown.caller.uid == shown.attributes.uid,
        }
    }

    fn ask(self, caller: &Caller, vnode: &VnodeRef) -> Result<()> {
        match self {
            Question::Access(bits) => vnode.access(caller, AccessMode::from_bits(bits)),
            Question::Open(flags) => vnode.open(caller, flags).map(drop),
            Question::LookUp(name) => vnode.lookup(caller, Name::new(name.as_bytes())?).map(drop),
            Question::List => vnode.open_directory(caller).map(drop),
            Question::Change => {
                vnode.mkdir(caller, Name::new(b"new")?, 0o700)?;
                vnode.rmdir(caller, Name::new(b"new")?)
            }
            Question::SetMode => {
                let mode = Some(vnode.getattr(&Caller::server())?.mode);
                vnode.setattr(caller, &SetAttributes { mode, ..SetAttributes::default() }).map(drop)
            }
        }
    }
}

/// The attributes of an object as shown to a caller.
struct Shown<'a> {
    caller: &'a Caller,
    attributes: Attributes,
    list: Option<Vec<AclEntry>>,
}

impl<'a> Shown<'a> {
    fn of(vnode: &VnodeRef, caller: &'a Caller) -> Result<Self> {
        let attributes = vnode.getattr(caller)?;
        let list = vnode.getxattr(caller, acl::ACCESS).ok().and_then(|bytes| acl::entries(&bytes));
        Ok(Self { caller, attributes, list })
    }

    /// Returns whether these permissions are granted, by acl(5) and, for the superuser, capabilities(7).
    fn admits(&self, wanted: u32) -> bool {
        if self.caller.uid == 0 {
            return wanted & 1 == 0 || self.attributes.is_directory() || self.attributes.mode & 0o111 != 0;
        }
        let Attributes { mode, uid, gid, .. } = self.attributes;
        match &self.list {
            Some(list) => acl::admits(list, self.caller, (uid, gid), wanted as u16),
            None => {
                let shift = match self.caller {
                    caller if caller.uid == uid => 6,
                    caller if caller.is_in_group(gid) => 3,
                    _ => 0,
                };
                mode >> shift & wanted == wanted
            }
        }
    }

    fn is_open_to_all(&self) -> bool {
        self.list.is_none() && self.attributes.mode & 0o111 == 0o111
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attributes { kind, mode, uid, gid, .. } = self.attributes;
        write!(formatter, "{kind:?} of {uid}:{gid}, mode {mode:o}, list {:?}, ", self.list)?;
        write!(formatter, "for {}:{} {:?}", self.caller.uid, self.caller.gid, self.caller.groups())
    }
}

/// A directory and a file whose owners, modes and lists are varied.
struct Scene {
    top: VnodeRef,
    name: Vec<u8>,
    objects: [VnodeRef; 2],
    is_read_only: bool,
}

impl Scene {
    fn new(file_system: &dyn FileSystem) -> Outcome<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let top = file_system.root();
        let name = format!("access.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)).into_bytes();
        let server = &Caller::server();
        let directory = top.mkdir(server, Name::new(&name)?, 0o755)?.vnode;
        directory.mkdir(server, Name::new(b"there")?, 0o755)?;
        let how = Creation { mode: 0o644, flags: OpenFlags::READ };
        let file = directory.create(server, Name::new(b"file")?, &how)?.entry.vnode;
        Ok(Self { top, name, objects: [directory, file], is_read_only: file_system.properties().read_only })
    }

    fn clear(&self) {
        let server = Caller::server();
        let remove = || -> Result<()> {
            self.objects[0].rmdir(&server, Name::new(b"there")?)?;
            self.objects[0].unlink(&server, Name::new(b"file")?)?;
            self.top.rmdir(&server, Name::new(&self.name)?)
        };
        let _ = remove();
    }

    fn ask_all(&self, declared: AccessControl) -> Outcome {
        for object in &self.objects {
            for (uid, gid) in OWNERS {
                for mode in MODES {
                    self.set(object, uid, gid, mode)?;
                    self.compare(object, declared)?;
                }
                for list in LISTS {
                    self.set(object, uid, gid, 0o600)?;
                    match object.setxattr(&Caller::server(), acl::ACCESS, &acl::list(list), XattrMode::Set) {
                        Ok(()) => self.compare(object, declared)?,
                        // The object has none, or shows none.
                        Err(Errno::EOPNOTSUPP) => break,
                        Err(error) => return Err(error.into()),
                    }
                    object.removexattr(&Caller::server(), acl::ACCESS)?;
                }
            }
        }
        Ok(())
    }

    fn set(&self, object: &VnodeRef, uid: u32, gid: u32, mode: u32) -> Result<()> {
        let server = &Caller::server();
        let owner = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
        object.setattr(server, &owner)?;
        object.setattr(server, &SetAttributes { mode: Some(mode), ..SetAttributes::default() }).map(drop)
    }

    fn compare(&self, object: &VnodeRef, declared: AccessControl) -> Outcome {
        let callers = callers();
        let shown = callers.iter().map(|caller| Shown::of(object, caller)).collect::<Result<Vec<_>>>()?;
        for question in Question::all(shown[0].attributes.is_directory()) {
            // Queried first: whether the operation is refused to everybody.
            let by_rule = refused(question.ask(&callers[0], object));
            for shown in &shown {
                self.judge(question, shown, question.ask(shown.caller, object), by_rule, declared)?;
            }
        }
        Ok(())
    }

    fn judge(
        &self,
        question: Question,
        shown: &Shown<'_>,
        answer: Result<()>,
        by_rule: bool,
        declared: AccessControl,
    ) -> Outcome {
        let is_admitted = question.is_admitted(shown);
        let is_refused = refused(answer);
        let told = |wrong: &str| {
            let declared = format!("declared {declared:?}");
            Failure::new(format!("{question:?} {wrong} ({answer:?}): {shown}; {declared}"))
        };
        if declared == AccessControl::OpenAsShown {
            let is_search = matches!(question, Question::LookUp(_)) && shown.is_open_to_all();
            return if is_search && is_refused { Err(told("is refused where everybody may search")) } else { Ok(()) };
        }
        match (is_admitted, is_refused) {
            (true, true) if question.is_decided_unasked() || !by_rule => Err(told("is refused")),
            (false, false) if !(self.is_read_only && answer == Err(Errno::EROFS)) => Err(told("is admitted")),
            _ => Ok(()),
        }
    }
}

fn refused(answer: Result<()>) -> bool {
    matches!(answer, Err(Errno::EACCES | Errno::EPERM))
}

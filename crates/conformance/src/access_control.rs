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
    let declared = file_system.properties().promises.access_control;
    if declared == AccessControl::NotShown {
        return Ok(());
    }
    let fixture = AccessFixture::new(file_system)?;
    let outcome = fixture.check_all(declared);
    fixture.clear();
    outcome
}

const OWNER: u32 = 1001;
/// The user named in lists.
const NAMED: u32 = 1002;
const STRANGER: u32 = 1003;
const GROUP: u32 = 2000;
const NAMED_GROUP: u32 = 2001;

/// Owner and group of the tested objects.
const OWNERSHIPS: [(u32, u32); 2] = [(OWNER, GROUP), (0, 0)];

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
enum TestedOperation {
    Access(u32),
    Open(OpenFlags),
    LookUp(&'static str),
    List,
    /// A name is created and removed again.
    Change,
    SetMode,
}

impl TestedOperation {
    fn all(is_directory: bool) -> Vec<TestedOperation> {
        let mut all: Vec<_> = (1..=7).map(TestedOperation::Access).collect();
        if is_directory {
            all.extend([
                TestedOperation::LookUp("there"),
                TestedOperation::LookUp("not there"),
                TestedOperation::List,
                TestedOperation::Change,
            ]);
        } else {
            all.extend([OpenFlags::READ, OpenFlags::WRITE, OpenFlags::READ_WRITE].map(TestedOperation::Open));
        }
        // Comes last: it sets the mode that is shown.
        all.push(TestedOperation::SetMode);
        all
    }

    /// Returns whether the kernel may decide the operation itself by search permission, so that nothing else may decide it.
    fn may_be_decided_by_kernel(self) -> bool {
        matches!(self, TestedOperation::Access(_) | TestedOperation::LookUp(_))
    }

    /// Returns whether the shown attributes permit the operation.
    fn is_permitted(self, shown: &ShownAttributes<'_>) -> bool {
        match self {
            TestedOperation::Access(bits) => shown.permits(bits),
            TestedOperation::Open(flags) => {
                shown.permits(u32::from(flags.reads()) << 2 | u32::from(flags.writes()) << 1)
            }
            TestedOperation::LookUp(_) => shown.permits(1),
            TestedOperation::List => shown.permits(4),
            TestedOperation::Change => shown.permits(3),
            TestedOperation::SetMode => shown.caller.uid == 0 || shown.caller.uid == shown.attributes.uid,
        }
    }

    fn perform(self, caller: &Caller, vnode: &VnodeRef) -> Result<()> {
        match self {
            TestedOperation::Access(bits) => vnode.access(caller, AccessMode::from_bits(bits)),
            TestedOperation::Open(flags) => vnode.open(caller, flags).map(drop),
            TestedOperation::LookUp(name) => vnode.lookup(caller, Name::new(name.as_bytes())?).map(drop),
            TestedOperation::List => vnode.open_directory(caller).map(drop),
            TestedOperation::Change => {
                vnode.mkdir(caller, Name::new(b"new")?, 0o700)?;
                vnode.rmdir(caller, Name::new(b"new")?)
            }
            TestedOperation::SetMode => {
                let mode = Some(vnode.getattr(&Caller::server())?.mode);
                vnode.setattr(caller, &SetAttributes { mode, ..SetAttributes::default() }).map(drop)
            }
        }
    }
}

/// The attributes of an object as shown to a caller.
struct ShownAttributes<'a> {
    caller: &'a Caller,
    attributes: Attributes,
    list: Option<Vec<AclEntry>>,
}

impl<'a> ShownAttributes<'a> {
    fn of(vnode: &VnodeRef, caller: &'a Caller) -> Result<Self> {
        let attributes = vnode.getattr(caller)?;
        let list = vnode.getxattr(caller, acl::ACCESS).ok().and_then(|bytes| acl::entries(&bytes));
        Ok(Self { caller, attributes, list })
    }

    /// Returns whether these permissions are granted, by acl(5) and, for the superuser, capabilities(7).
    fn permits(&self, wanted: u32) -> bool {
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

    fn is_searchable_by_all(&self) -> bool {
        self.list.is_none() && self.attributes.mode & 0o111 == 0o111
    }
}

impl fmt::Display for ShownAttributes<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attributes { kind, mode, uid, gid, .. } = self.attributes;
        write!(formatter, "{kind:?} of {uid}:{gid}, mode {mode:o}, list {:?}, ", self.list)?;
        write!(formatter, "for {}:{} {:?}", self.caller.uid, self.caller.gid, self.caller.groups())
    }
}

/// A directory and a file whose owners, modes and lists are varied.
struct AccessFixture {
    top: VnodeRef,
    name: Vec<u8>,
    objects: [VnodeRef; 2],
    is_read_only: bool,
}

impl AccessFixture {
    fn new(file_system: &dyn FileSystem) -> Outcome<Self> {
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
        let top = file_system.root();
        let name =
            format!("access.{}.{}", std::process::id(), NEXT_NUMBER.fetch_add(1, Ordering::Relaxed)).into_bytes();
        let server = &Caller::server();
        let directory = top.mkdir(server, Name::new(&name)?, 0o755)?.vnode;
        directory.mkdir(server, Name::new(b"there")?, 0o755)?;
        let how = Creation { mode: 0o644, flags: OpenFlags::READ };
        let file = directory.create(server, Name::new(b"file")?, &how)?.entry.vnode;
        Ok(Self { top, name, objects: [directory, file], is_read_only: file_system.properties().needs.read_only })
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

    fn check_all(&self, declared: AccessControl) -> Outcome {
        for object in &self.objects {
            for (uid, gid) in OWNERSHIPS {
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
        let shown = callers.iter().map(|caller| ShownAttributes::of(object, caller)).collect::<Result<Vec<_>>>()?;
        for operation in TestedOperation::all(shown[0].attributes.is_directory()) {
            // Queried first: whether the operation is refused to everybody.
            let is_refused_to_root = refused(operation.perform(&callers[0], object));
            for shown in &shown {
                self.check_result(
                    operation,
                    shown,
                    operation.perform(shown.caller, object),
                    is_refused_to_root,
                    declared,
                )?;
            }
        }
        Ok(())
    }

    fn check_result(
        &self,
        operation: TestedOperation,
        shown: &ShownAttributes<'_>,
        result: Result<()>,
        is_refused_to_root: bool,
        declared: AccessControl,
    ) -> Outcome {
        let is_permitted = operation.is_permitted(shown);
        let is_refused = refused(result);
        let failure = |what: &str| {
            let declared = format!("declared {declared:?}");
            Failure::new(format!("{operation:?} {what} ({result:?}): {shown}; {declared}"))
        };
        if declared == AccessControl::OpenAsShown {
            let is_search = matches!(operation, TestedOperation::LookUp(_)) && shown.is_searchable_by_all();
            return if is_search && is_refused {
                Err(failure("is refused where everybody may search"))
            } else {
                Ok(())
            };
        }
        match (is_permitted, is_refused) {
            (true, true) if operation.may_be_decided_by_kernel() || !is_refused_to_root => Err(failure("is refused")),
            (false, false) if !(self.is_read_only && result == Err(Errno::EROFS)) => Err(failure("is admitted")),
            _ => Ok(()),
        }
    }
}

fn refused(result: Result<()>) -> bool {
    matches!(result, Err(Errno::EACCES | Errno::EPERM))
}

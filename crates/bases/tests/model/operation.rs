//! One random operation, with all it needs to be done again elsewhere.

use fastrand::Rng;
use vnode::{
    AccessMode, AllocateMode, Caller, FileKind, LockFamily, LockKind, OpenFlags, RenameMode, SeekTarget, SetTime,
    Timestamp, XattrMode,
};

/// How many files and vnodes are kept open.
pub(crate) const SLOTS: usize = 4;

/// Who does it, what, and to what.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub user: usize,
    pub umask: u32,
    pub path: Path,
    pub action: Action,
}

/// Components from the root.
pub(crate) type Path = Vec<&'static str>;

/// What is done. Slots hold what earlier operations have opened.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Lookup,
    Create { mode: u32, flags: u32, slot: usize },
    Temporary { mode: u32, exclusive: bool, slot: usize },
    Mkdir { mode: u32 },
    Mknod { kind: FileKind, mode: u32, minor: u32 },
    Symlink { length: usize },
    Link { from: Path },
    LinkHeld { slot: usize },
    Unlink,
    Rmdir,
    Rename { to: Path, mode: RenameMode },
    Readlink,
    List,
    Access { mode: u32 },
    Chmod { mode: u32 },
    Chown { uid: Option<u32>, gid: Option<u32> },
    Truncate { size: u64 },
    Times { atime: Option<SetTime>, mtime: Option<SetTime> },
    Open { flags: u32, slot: usize },
    Hold { slot: usize },
    InHeld { slot: usize, name: &'static str, what: usize },
    Close { slot: usize },
    Read { slot: usize, offset: u64, length: usize },
    Write { slot: usize, offset: u64, length: usize, byte: u8, kill: bool },
    Resize { slot: usize, size: u64, kill: bool },
    Allocate { slot: usize, mode: u32, offset: u64, length: u64 },
    Seek { slot: usize, offset: u64, target: SeekTarget },
    Copy { slot: usize, offset: u64, to: usize, to_offset: u64, length: u64 },
    Lock { slot: usize, family: LockFamily, kind: LockKind, start: u64, end: u64 },
    TestLock { slot: usize, kind: LockKind, start: u64, end: u64 },
    Flush { slot: usize },
    GetXattr { name: &'static str },
    SetXattr { name: &'static str, value: Vec<u8>, mode: XattrMode },
    ListXattr,
    RemoveXattr { name: &'static str },
}

impl Operation {
    /// The next operation.
    pub(crate) fn random(random: &mut Rng) -> Self {
        Self {
            user: random.usize(0..USERS.len()),
            umask: pick(random, &[0, 0o022, 0o077, 0o007]),
            path: path(random),
            action: action(random),
        }
    }

    /// Who does it.
    pub(crate) fn caller(&self) -> Caller {
        let (uid, gid, groups) = USERS[self.user];
        Caller::with_groups(uid, gid, groups, self.umask)
    }
}

/// The superuser, and users who share groups.
const USERS: [(u32, u32, &[u32]); 6] = [
    (0, 0, &[]),
    (1001, 1001, &[2000]),
    (1002, 1002, &[1001]),
    (1003, 1003, &[2000, 1002]),
    (1001, 1001, &[2000]),
    (1004, 2000, &[]),
];

const IDS: &[u32] = &[0, 1001, 1002, 1003, 2000];

const XATTRS: &[&str] = &[
    "user.a",
    "user.b",
    "trusted.a",
    "security.a",
    "security.capability",
    "system.posix_acl_access",
    "system.posix_acl_default",
    "system.posix_acl_access",
    "system.posix_acl_default",
    "user.",
    "other.a",
];

fn pick<T: Copy>(random: &mut Rng, from: &[T]) -> T {
    from[random.usize(0..from.len())]
}

fn path(random: &mut Rng) -> Path {
    let depth = pick(random, &[0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3]);
    (0..depth).map(|_| pick(random, &["a", "b", "c", "d"])).collect()
}

fn mode(random: &mut Rng) -> u32 {
    let special = pick(random, &[0, 0, 0, 0o1000, 0o2000, 0o4000, 0o6000]);
    special | pick(random, &[0o777, 0o755, 0o700, 0o770, 0o666, 0o644, 0o640, 0o000, 0o711, 0o070, 0o007, 0o775])
}

fn flags(random: &mut Rng) -> u32 {
    let access = pick(random, &[OpenFlags::READ, OpenFlags::WRITE, OpenFlags::READ_WRITE, OpenFlags::READ_WRITE]);
    let more = pick(random, &[OpenFlags::READ, OpenFlags::READ, OpenFlags::APPEND, OpenFlags::TRUNCATE]);
    access.with(more).bits()
}

fn offset(random: &mut Rng) -> u64 {
    pick(random, &[0, 1, 100, 4095, 4096, 5000, 8192, 12_288, 20_000, 1 << 20])
}

fn length(random: &mut Rng) -> u64 {
    pick(random, &[1, 10, 100, 4096, 5000, 8192, 0])
}

fn time(random: &mut Rng) -> Option<SetTime> {
    let (seconds, nanoseconds) = (random.i64(1..1 << 30), random.u32(..1_000_000_000));
    pick(random, &[None, Some(SetTime::Now), Some(SetTime::To(Timestamp { seconds, nanoseconds }))])
}

/// Never one time alone to now: whether that needs ownership is for whoever takes utimensat(2) apart to say.
fn times(random: &mut Rng) -> Action {
    match (time(random), time(random)) {
        (Some(SetTime::Now), None) | (None, Some(SetTime::Now)) => {
            Action::Times { atime: Some(SetTime::Now), mtime: Some(SetTime::Now) }
        }
        (atime, mtime) => Action::Times { atime, mtime },
    }
}

fn kind_of_lock(random: &mut Rng) -> LockKind {
    pick(random, &[LockKind::Shared, LockKind::Exclusive, LockKind::Unlock])
}

fn action(random: &mut Rng) -> Action {
    match random.u32(0..30) {
        0 => Action::Lookup,
        1..=9 => naming(random),
        10..=13 => attribute(random),
        14..=23 => file(random),
        24..=25 => held(random),
        _ => xattr(random),
    }
}

fn naming(random: &mut Rng) -> Action {
    let slot = random.usize(0..SLOTS);
    match random.u32(0..18) {
        0..=2 => {
            let exclusive = if random.bool() { OpenFlags::EXCLUSIVE.bits() } else { 0 };
            Action::Create { mode: mode(random), flags: flags(random) | exclusive, slot }
        }
        3..=5 => Action::Mkdir { mode: mode(random) },
        6 => {
            let kinds =
                [FileKind::Regular, FileKind::Fifo, FileKind::Socket, FileKind::CharacterDevice, FileKind::BlockDevice];
            Action::Mknod { kind: pick(random, &kinds), mode: mode(random), minor: pick(random, &[0, 0, 7]) }
        }
        7 => Action::Symlink { length: pick(random, &[1, 10, 100, 4095]) },
        8..=9 => Action::Link { from: path(random) },
        10..=11 => Action::Unlink,
        12 => Action::Rmdir,
        13 => Action::Temporary { mode: mode(random), exclusive: random.bool(), slot },
        _ => {
            let modes = [
                RenameMode::Replace,
                RenameMode::Replace,
                RenameMode::NoReplace,
                RenameMode::Exchange,
                RenameMode::Whiteout,
                RenameMode::WhiteoutNoReplace,
            ];
            Action::Rename { to: path(random), mode: pick(random, &modes) }
        }
    }
}

fn attribute(random: &mut Rng) -> Action {
    match random.u32(0..9) {
        0..=2 => Action::Chmod { mode: mode(random) },
        3..=4 => {
            let id = |random: &mut Rng| random.bool().then(|| pick(random, IDS));
            Action::Chown { uid: id(random), gid: id(random) }
        }
        5 => Action::Truncate { size: offset(random) },
        6 => times(random),
        7 => Action::Access { mode: random.u32(0..8) & AccessMode::from_bits(7).bits() },
        _ => pick_action(random, &[Action::Readlink, Action::List]),
    }
}

fn pick_action(random: &mut Rng, from: &[Action]) -> Action {
    from[random.usize(0..from.len())].clone()
}

fn file(random: &mut Rng) -> Action {
    let slot = random.usize(0..SLOTS);
    let (offset, length) = (offset(random), length(random));
    match random.u32(0..14) {
        0..=2 => Action::Open { flags: flags(random), slot },
        3 => Action::Close { slot },
        4..=5 => Action::Read { slot, offset, length: length as usize + 1 },
        6..=7 => {
            Action::Write { slot, offset, length: length as usize, byte: random.u8(1..), kill: random.u8(0..4) == 0 }
        }
        8 => Action::Resize { slot, size: offset, kill: random.u8(0..4) == 0 },
        9 => {
            let keep = AllocateMode::KEEP_SIZE.bits();
            let modes = [0, keep, 2 | keep, 2 | keep, 2, 0x10, 0x10 | keep, 0x08, 0x20, 0x08 | keep, 0x100];
            Action::Allocate { slot, mode: pick(random, &modes), offset, length }
        }
        10 => Action::Seek { slot, offset, target: pick(random, &[SeekTarget::Data, SeekTarget::Hole]) },
        11 => Action::Copy { slot, offset, to: random.usize(0..SLOTS), to_offset: self::offset(random), length },
        12 => {
            let family = pick(random, &[LockFamily::Posix, LockFamily::Posix, LockFamily::Flock]);
            let kind = kind_of_lock(random);
            Action::Lock { slot, family, kind, start: offset, end: offset + length }
        }
        _ => match random.u32(0..2) {
            0 => {
                let kind = pick(random, &[LockKind::Shared, LockKind::Exclusive]);
                Action::TestLock { slot, kind, start: offset, end: offset + length }
            }
            _ => Action::Flush { slot },
        },
    }
}

fn held(random: &mut Rng) -> Action {
    let slot = random.usize(0..SLOTS);
    match random.u32(0..5) {
        0..=1 => Action::Hold { slot },
        2 => Action::LinkHeld { slot },
        _ => Action::InHeld { slot, name: pick(random, &["a", "b", "c", "d"]), what: random.usize(0..8) },
    }
}

fn xattr(random: &mut Rng) -> Action {
    let name = pick(random, XATTRS);
    match random.u32(0..8) {
        0..=1 => Action::GetXattr { name },
        2..=5 => {
            let modes = [XattrMode::Set, XattrMode::Set, XattrMode::Create, XattrMode::Replace];
            Action::SetXattr { name, value: value(random, name), mode: pick(random, &modes) }
        }
        6 => Action::ListXattr,
        _ => Action::RemoveXattr { name },
    }
}

fn value(random: &mut Rng, name: &str) -> Vec<u8> {
    let junk = random.u8(0..20) == 0;
    match name {
        "security.capability" if !junk => [&[1, 0, 0, 2][..], &[0, 4, 0, 0], &[0; 12]].concat(),
        _ if name.starts_with("system.") && !junk => acl(random),
        _ => (0..random.usize(0..20)).map(|_| random.u8(..)).collect(),
    }
}

/// A list in binary form, mostly well made.
fn acl(random: &mut Rng) -> Vec<u8> {
    let mut entries: Vec<(u16, u32)> = vec![(1, u32::MAX)];
    let named = random.usize(0..3);
    entries.extend((0..named).map(|_| (2, pick(random, IDS))));
    entries.push((4, u32::MAX));
    let groups = random.usize(0..3);
    entries.extend((0..groups).map(|_| (8, pick(random, IDS))));
    if named + groups > 0 || random.bool() {
        entries.push((16, u32::MAX));
    }
    entries.push((32, u32::MAX));
    if random.u8(0..20) == 0 {
        entries.remove(random.usize(0..entries.len()));
    }
    let mut bytes = vec![2, 0, 0, 0];
    for (tag, id) in entries {
        let permissions = pick(random, &[7u16, 6, 5, 4, 0, 7, 6, 2, 1]);
        bytes.extend([&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    bytes
}

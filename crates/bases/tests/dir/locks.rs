//! Locks: between owners, between families, and released when they should be.

use vnode::{Errno, LOCK_RANGES_MAX, Lock, LockFamily, LockKind, LockOwner, OpenFlags};

use crate::fixture::{Fixture, create_file, root};

const ONE: LockOwner = LockOwner::Number(1);
const TWO: LockOwner = LockOwner::Number(2);

fn posix(kind: LockKind, start: u64, end: u64) -> Lock {
    Lock { family: LockFamily::Posix, kind, start, end, pid: 42 }
}

fn flock(kind: LockKind) -> Lock {
    Lock { family: LockFamily::Flock, kind, start: 0, end: u64::MAX, pid: 42 }
}

#[test]
fn ranges_exclude_other_owners_until_released() {
    Fixture::each(|fixture| {
        let caller = root();
        let (vnode, file) = create_file(&fixture.root, &caller, "f", 0o644, b"x");
        let other = vnode.open(&caller, OpenFlags::READ_WRITE).unwrap();
        file.lock(&caller, &ONE, &posix(LockKind::Exclusive, 10, 19)).unwrap();
        assert_eq!(other.lock(&caller, &TWO, &posix(LockKind::Shared, 15, 15)), Err(Errno::EAGAIN));
        other.lock(&caller, &TWO, &posix(LockKind::Exclusive, 20, u64::MAX)).unwrap();
        let seen = other.test_lock(&caller, &TWO, &posix(LockKind::Shared, 0, 12)).unwrap().unwrap();
        assert_eq!((seen.kind, seen.start, seen.end, seen.pid), (LockKind::Exclusive, 10, 19, 42));
        let third = other.test_lock(&caller, &LockOwner::Number(3), &posix(LockKind::Shared, 30, 30)).unwrap().unwrap();
        assert_eq!((third.start, third.end), (20, u64::MAX));
        assert_eq!(file.test_lock(&caller, &ONE, &posix(LockKind::Exclusive, 0, 19)), Ok(None));
        file.lock(&caller, &ONE, &posix(LockKind::Unlock, 12, 19)).unwrap();
        other.lock(&caller, &TWO, &posix(LockKind::Exclusive, 12, 12)).unwrap();
        assert_eq!(other.lock(&caller, &TWO, &posix(LockKind::Exclusive, 11, 11)), Err(Errno::EAGAIN));
        // Any descriptor that the owner closes takes its locks along.
        vnode.open(&caller, OpenFlags::READ).unwrap().flush(&caller, &ONE).unwrap();
        other.lock(&caller, &TWO, &posix(LockKind::Exclusive, 0, u64::MAX)).unwrap();
        other.flush(&caller, &TWO).unwrap();
        assert_eq!(file.test_lock(&caller, &ONE, &posix(LockKind::Exclusive, 0, 0)), Ok(None));
    });
}

#[test]
fn shared_locks_survive_an_upgrade() {
    Fixture::each(|fixture| {
        let caller = root();
        let (_, file) = create_file(&fixture.root, &caller, "f", 0o644, b"x");
        file.lock(&caller, &ONE, &posix(LockKind::Shared, 0, 9)).unwrap();
        file.lock(&caller, &TWO, &posix(LockKind::Shared, 5, 9)).unwrap();
        file.lock(&caller, &ONE, &posix(LockKind::Exclusive, 20, 29)).unwrap();
        assert_eq!(file.lock(&caller, &TWO, &posix(LockKind::Exclusive, 0, 0)), Err(Errno::EAGAIN));
        assert_eq!(file.lock(&caller, &TWO, &posix(LockKind::Exclusive, 20, 20)), Err(Errno::EAGAIN));
        assert_eq!(file.lock(&caller, &ONE, &posix(LockKind::Exclusive, 5, 5)), Err(Errno::EAGAIN));
        file.lock(&caller, &ONE, &posix(LockKind::Exclusive, 0, 4)).unwrap();
    });
}

#[test]
fn owners_of_bytes_are_the_same_if_all_bytes_are() {
    Fixture::each(|fixture| {
        let caller = root();
        let (_, file) = create_file(&fixture.root, &caller, "f", 0o644, b"x");
        let with_last = |length: usize, last: u8| {
            let mut bytes = vec![0; length];
            bytes.last_mut().into_iter().for_each(|byte| *byte = last);
            LockOwner::from(bytes.as_slice())
        };
        let owners = [LockOwner::Number(0), with_last(0, 0), with_last(8, 0), with_last(8, 1), with_last(1024, 0)];
        let of_families: [fn(LockKind, u64, u64) -> Lock; 2] = [posix, |kind, _, _| flock(kind)];
        for lock in of_families {
            for (index, owner) in owners.iter().enumerate() {
                file.lock(&caller, owner, &lock(LockKind::Exclusive, 0, 9)).unwrap();
                for (other_index, other) in owners.iter().enumerate() {
                    let expected = if index == other_index { Ok(()) } else { Err(Errno::EAGAIN) };
                    assert_eq!(file.lock(&caller, other, &lock(LockKind::Exclusive, 0, 9)), expected);
                }
                file.lock(&caller, &owner.clone(), &lock(LockKind::Unlock, 0, u64::MAX)).unwrap();
            }
        }
        // The bytes of an owner may have been received anew, as by a stateless server.
        file.lock(&caller, &with_last(1024, 2), &posix(LockKind::Exclusive, 0, 9)).unwrap();
        file.flush(&caller, &with_last(1024, 3)).unwrap();
        assert_eq!(file.lock(&caller, &owners[2], &posix(LockKind::Shared, 0, 0)), Err(Errno::EAGAIN));
        file.flush(&caller, &with_last(1024, 2)).unwrap();
        file.lock(&caller, &owners[2], &posix(LockKind::Shared, 0, 0)).unwrap();
    });
}

#[test]
fn ranges_per_owner_are_bounded() {
    Fixture::each(|fixture| {
        let caller = root();
        let (_, file) = create_file(&fixture.root, &caller, "f", 0o644, b"x");
        let take = |owner: &LockOwner, kind, start, end| file.lock(&caller, owner, &posix(kind, start, end));
        let most = LOCK_RANGES_MAX as u64;
        // Those that touch are one.
        (0..=most).for_each(|at| take(&ONE, LockKind::Shared, at, at).unwrap());
        take(&ONE, LockKind::Unlock, 0, u64::MAX).unwrap();
        (0..most).for_each(|at| take(&ONE, LockKind::Shared, 10 * at, 10 * at + 4).unwrap());
        assert_eq!(take(&ONE, LockKind::Shared, 10 * most, 10 * most), Err(Errno::ENOLCK));
        // A part that is released would leave two.
        assert_eq!(take(&ONE, LockKind::Unlock, 2, 2), Err(Errno::ENOLCK));
        take(&TWO, LockKind::Exclusive, 10 * most, 10 * most).unwrap();
        take(&TWO, LockKind::Unlock, 0, u64::MAX).unwrap();
        // What was refused has changed nothing.
        assert_eq!(take(&TWO, LockKind::Exclusive, 2, 2), Err(Errno::EAGAIN));
        take(&ONE, LockKind::Unlock, 0, 4).unwrap();
        take(&TWO, LockKind::Exclusive, 0, 4).unwrap();
        take(&ONE, LockKind::Exclusive, 10 * most, 10 * most).unwrap();
    });
}

#[test]
fn locks_require_a_matching_open_mode() {
    Fixture::each(|fixture| {
        let caller = root();
        let (vnode, _) = create_file(&fixture.root, &caller, "f", 0o644, b"x");
        let reader = vnode.open(&caller, OpenFlags::READ).unwrap();
        let writer = vnode.open(&caller, OpenFlags::WRITE).unwrap();
        assert_eq!(reader.lock(&caller, &ONE, &posix(LockKind::Exclusive, 0, 0)), Err(Errno::EBADF));
        assert_eq!(writer.lock(&caller, &ONE, &posix(LockKind::Shared, 0, 0)), Err(Errno::EBADF));
        reader.lock(&caller, &ONE, &posix(LockKind::Shared, 0, 0)).unwrap();
        writer.lock(&caller, &TWO, &posix(LockKind::Exclusive, 1, 1)).unwrap();
        reader.lock(&caller, &TWO, &flock(LockKind::Exclusive)).unwrap();
        assert_eq!(reader.lock(&caller, &ONE, &posix(LockKind::Shared, 5, 4)), Err(Errno::EINVAL));
    });
}

#[test]
fn closing_the_open_file_releases_flocks() {
    Fixture::each(|fixture| {
        let caller = root();
        let (vnode, file) = create_file(&fixture.root, &caller, "f", 0o644, b"x");
        file.lock(&caller, &ONE, &flock(LockKind::Shared)).unwrap();
        file.lock(&caller, &ONE, &flock(LockKind::Exclusive)).unwrap();
        let other = vnode.open(&caller, OpenFlags::READ).unwrap();
        assert_eq!(other.lock(&caller, &TWO, &flock(LockKind::Shared)), Err(Errno::EAGAIN));
        // The families do not see each other.
        other.lock(&caller, &TWO, &posix(LockKind::Shared, 0, 0)).unwrap();
        drop(file);
        other.lock(&caller, &TWO, &flock(LockKind::Exclusive)).unwrap();
        let third = vnode.open(&caller, OpenFlags::READ).unwrap();
        assert_eq!(third.lock(&caller, &ONE, &flock(LockKind::Shared)), Err(Errno::EAGAIN));
        other.lock(&caller, &TWO, &flock(LockKind::Unlock)).unwrap();
        third.lock(&caller, &ONE, &flock(LockKind::Shared)).unwrap();
    });
}

#[test]
fn locks_of_other_programs_count() {
    use std::os::fd::AsRawFd;
    Fixture::each(|fixture| {
        let caller = root();
        let (_, file) = create_file(&fixture.root, &caller, "f", 0o644, b"x");
        let outside = std::fs::OpenOptions::new().read(true).write(true).open(fixture.path.join("f")).unwrap();
        let mut lock = libc::flock64 { l_type: libc::F_WRLCK as i16, l_whence: 0, l_start: 0, l_len: 10, l_pid: 0 };
        // SAFETY: the lock is a valid struct flock64 for the length of the call.
        assert_eq!(unsafe { libc::fcntl(outside.as_raw_fd(), libc::F_OFD_SETLK, &mut lock) }, 0);
        assert_eq!(file.lock(&caller, &ONE, &posix(LockKind::Shared, 9, 9)), Err(Errno::EAGAIN));
        file.lock(&caller, &ONE, &posix(LockKind::Shared, 10, 10)).unwrap();
        let seen = file.test_lock(&caller, &TWO, &posix(LockKind::Shared, 0, 0)).unwrap().unwrap();
        assert_eq!((seen.start, seen.end), (0, 9));
    });
}

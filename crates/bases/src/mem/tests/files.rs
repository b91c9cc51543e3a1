//! Open files: permitted accesses, appending, allocation, holes, copies, locks.

use vnode::{AllocateMode, Errno, FileSystem, Lock, LockFamily, LockKind, LockOwner, OpenFlags, SeekTarget};

use super::*;

fn contents(file: &OpenFileRef) -> Vec<u8> {
    let size = file.getattr(&user(7)).unwrap().size;
    let mut bytes = vec![0xff; size as usize + 1];
    let read = file.read_at(&user(7), 0, &mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

#[test]
fn a_file_admits_what_it_was_opened_for() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    let open = |flags| file.open(&user(7), flags).unwrap();
    let (reader, writer) = (open(OpenFlags::READ), open(OpenFlags::WRITE));
    assert_eq!(reader.write_at(&user(7), 0, b"x"), Err(Errno::EBADF));
    assert_eq!(reader.truncate(&user(7), 0), Err(Errno::EINVAL));
    assert_eq!(reader.allocate(&user(7), AllocateMode::ALLOCATE, 0, 1), Err(Errno::EBADF));
    assert_eq!(writer.read_at(&user(7), 0, &mut [0]), Err(Errno::EBADF));
    assert_eq!(writer.write_at(&user(8), 0, b"x"), Ok(1), "who writes does not count any more");
    assert_eq!(failure(file.open(&user(8), OpenFlags::READ)), Errno::EACCES);
    let reading_that_truncates = OpenFlags::READ.with(OpenFlags::TRUNCATE);
    chmod(&file, &user(7), 0o644).unwrap();
    assert_eq!(failure(file.open(&user(8), reading_that_truncates)), Errno::EACCES);
    assert_eq!(attributes(&file).size, 1);
    open(OpenFlags::WRITE.with(OpenFlags::TRUNCATE));
    assert_eq!(attributes(&file).size, 0);
    assert_eq!(failure(root.open(&user(7), OpenFlags::READ)), Errno::EISDIR);
}

#[test]
fn a_new_file_is_opened_whatever_its_mode() {
    let root = file_system().root();
    let (_, file) = create(&root, &user(7), "file", 0);
    assert_eq!(file.write_at(&user(7), 0, b"x"), Ok(1));
    assert_eq!(contents(&file), b"x");
}

#[test]
fn appending_writers_never_overwrite_each_other() {
    let root = file_system().root();
    let (file, first) = create(&root, &user(7), "file", 0o600);
    first.write_at(&user(7), 0, b"start").unwrap();
    std::thread::scope(|scope| {
        for byte in 1..=4u8 {
            let file = &file;
            scope.spawn(move || {
                let open = file.open(&user(7), OpenFlags::WRITE.with(OpenFlags::APPEND)).unwrap();
                for _ in 0..500 {
                    assert_eq!(open.write_at(&user(7), 0, &[byte; 7]), Ok(7));
                }
            });
        }
    });
    let bytes = contents(&first);
    assert_eq!(bytes.len(), 5 + 4 * 500 * 7);
    assert!(bytes[5..].chunks(7).all(|chunk| chunk.iter().all(|&byte| byte == chunk[0])));
}

#[test]
fn holes_are_zero_and_take_no_space() {
    let root = file_system().root();
    let (vnode, file) = create(&root, &user(7), "file", 0o600);
    file.write_at(&user(7), 1 << 40, b"far").unwrap();
    assert_eq!((attributes(&vnode).size, attributes(&vnode).blocks), ((1 << 40) + 3, 8));
    let mut bytes = [1; 8];
    assert_eq!(file.read_at(&user(7), (1 << 40) - 4, &mut bytes), Ok(7));
    assert_eq!(&bytes[..7], b"\0\0\0\0far");
    assert_eq!(file.seek(&user(7), 0, SeekTarget::Data), Ok(1 << 40));
    assert_eq!(file.seek(&user(7), 0, SeekTarget::Hole), Ok(0));
    assert_eq!(file.seek(&user(7), 1 << 40, SeekTarget::Hole), Ok((1 << 40) + 3));
    assert_eq!(file.seek(&user(7), (1 << 40) + 3, SeekTarget::Data), Err(Errno::ENXIO));
    file.truncate(&user(7), 10).unwrap();
    assert_eq!(file.seek(&user(7), 0, SeekTarget::Data), Err(Errno::ENXIO));
    file.truncate(&user(7), (1 << 40) + 3).unwrap();
    assert_eq!(file.read_at(&user(7), 1 << 40, &mut bytes), Ok(3));
    assert_eq!(&bytes[..3], b"\0\0\0");
}

#[test]
fn ranges_are_allocated_punched_zeroed_cut_out_and_put_in() {
    let root = file_system().root();
    let (vnode, file) = create(&root, &user(7), "file", 0o600);
    let allocate = |bits, offset, length| file.allocate(&user(7), AllocateMode::from_bits(bits), offset, length);
    let state = || (attributes(&vnode).size, attributes(&vnode).blocks / 8);
    file.write_at(&user(7), 0, &[7; 4 * 4096]).unwrap();
    allocate(libc::FALLOC_FL_KEEP_SIZE as u32, 0, 8 * 4096).unwrap();
    assert_eq!(state(), (4 * 4096, 8));
    allocate(0, 0, 5 * 4096).unwrap();
    assert_eq!(state(), (5 * 4096, 8));
    allocate(libc::FALLOC_FL_PUNCH_HOLE as u32 | libc::FALLOC_FL_KEEP_SIZE as u32, 100, 2 * 4096).unwrap();
    assert_eq!(state(), (5 * 4096, 7));
    assert_eq!(contents(&file)[99..101], [7, 0]);
    assert_eq!(contents(&file)[8291..8293], [0, 7]);
    allocate(libc::FALLOC_FL_ZERO_RANGE as u32, 3 * 4096, 6 * 4096).unwrap();
    assert_eq!(state(), (9 * 4096, 8));
    assert_eq!(contents(&file)[3 * 4096 - 1..3 * 4096 + 1], [7, 0]);
    allocate(libc::FALLOC_FL_COLLAPSE_RANGE as u32, 0, 2 * 4096).unwrap();
    assert_eq!(contents(&file)[99..101], [0, 7]);
    assert_eq!(state().0, 7 * 4096);
    allocate(libc::FALLOC_FL_INSERT_RANGE as u32, 4096, 4096).unwrap();
    assert_eq!(state().0, 8 * 4096);
    assert_eq!(contents(&file)[4095..4097], [7, 0]);
}

#[test]
fn invalid_allocations_are_refused() {
    let root = file_system().root();
    let (_, file) = create(&root, &user(7), "file", 0o600);
    let allocate = |bits, offset, length| file.allocate(&user(7), AllocateMode::from_bits(bits as u32), offset, length);
    file.write_at(&user(7), 0, &[7; 3 * 4096]).unwrap();
    assert_eq!(allocate(0, 0, 0), Err(Errno::EINVAL));
    assert_eq!(allocate(libc::FALLOC_FL_PUNCH_HOLE, 0, 1), Err(Errno::EOPNOTSUPP));
    assert_eq!(allocate(0x80, 0, 1), Err(Errno::EOPNOTSUPP));
    assert_eq!(allocate(0, i64::MAX as u64, 1), Err(Errno::EFBIG));
    assert_eq!(allocate(0, u64::MAX, 1), Err(Errno::EFBIG));
    assert_eq!(allocate(0, 0, 1 << 50), Err(Errno::ENOSPC));
    assert_eq!(allocate(libc::FALLOC_FL_COLLAPSE_RANGE, 0, 3 * 4096), Err(Errno::EINVAL));
    assert_eq!(allocate(libc::FALLOC_FL_COLLAPSE_RANGE, 1, 4096), Err(Errno::EINVAL));
    assert_eq!(allocate(libc::FALLOC_FL_INSERT_RANGE, 3 * 4096, 4096), Err(Errno::EINVAL));
    assert_eq!(allocate(libc::FALLOC_FL_INSERT_RANGE, 0, i64::MAX as u64 & !4095), Err(Errno::EFBIG));
    assert_eq!(contents(&file), [7; 3 * 4096]);
}

#[test]
fn ranges_are_copied_with_their_holes() {
    let root = file_system().root();
    let (_, from) = create(&root, &user(7), "from", 0o600);
    let (vnode, to) = create(&root, &user(7), "to", 0o600);
    from.write_at(&user(7), 0, &[1; 5000]).unwrap();
    from.write_at(&user(7), 1 << 30, &[2; 5000]).unwrap();
    to.write_at(&user(7), 0, &[9; 20_000]).unwrap();
    assert_eq!(from.copy_range(&user(7), 0, &to, 0, u64::MAX), Ok((1 << 30) + 5000));
    assert_eq!(attributes(&vnode).size, (1 << 30) + 5000);
    assert_eq!(attributes(&vnode).blocks, 4 * 8);
    let mut bytes = [5; 3];
    to.read_at(&user(7), 4999, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 0, 0]);
    to.read_at(&user(7), (1 << 30) - 1, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 2, 2]);
    assert_eq!(from.copy_range(&user(7), 0, &from, 10, 100), Err(Errno::EINVAL));
    assert_eq!(from.copy_range(&user(7), 0, &from, 100, 100), Ok(100));
    assert_eq!(from.copy_range(&user(7), 1 << 31, &to, 0, 100), Ok(0));
    let other = create(&file_system().root(), &user(7), "other", 0o600).1;
    assert_eq!(from.copy_range(&user(7), 0, &other, 0, 100), Err(Errno::EXDEV));
    let appending = vnode.open(&user(7), OpenFlags::WRITE.with(OpenFlags::APPEND)).unwrap();
    assert_eq!(from.copy_range(&user(7), 0, &appending, 0, 100), Err(Errno::EBADF));
}

#[test]
fn flush_and_close_release_locks() {
    let bytes = |last: u8| LockOwner::from([vec![0; 1023], vec![last]].concat().as_slice());
    let none = LockOwner::from(&[][..]);
    for (one, two) in [(LockOwner::Number(1), LockOwner::Number(2)), (bytes(1), bytes(2)), (none, bytes(0))] {
        flush_and_close_release_locks_of(&one, &two);
    }
}

fn flush_and_close_release_locks_of(one: &LockOwner, two: &LockOwner) {
    let root = file_system().root();
    let (vnode, first) = create(&root, &user(7), "file", 0o600);
    let second = vnode.open(&user(7), OpenFlags::READ).unwrap();
    let posix = |kind| Lock { family: LockFamily::Posix, kind, start: 0, end: 9, pid: 42 };
    let flock = |kind| Lock { family: LockFamily::Flock, kind, start: 0, end: u64::MAX, pid: 0 };
    first.lock(&user(7), one, &posix(LockKind::Exclusive)).unwrap();
    assert_eq!(second.lock(&user(7), two, &posix(LockKind::Shared)), Err(Errno::EAGAIN));
    assert_eq!(second.lock(&user(7), two, &posix(LockKind::Exclusive)), Err(Errno::EBADF));
    assert_eq!(second.test_lock(&user(7), two, &posix(LockKind::Shared)).unwrap().unwrap().pid, 42);
    first.flush(&user(7), one).unwrap();
    second.lock(&user(7), two, &posix(LockKind::Shared)).unwrap();
    first.lock(&user(7), one, &flock(LockKind::Exclusive)).unwrap();
    assert_eq!(second.lock(&user(7), two, &flock(LockKind::Shared)), Err(Errno::EAGAIN));
    drop(first);
    second.lock(&user(7), two, &flock(LockKind::Exclusive)).unwrap();
    assert_eq!(second.test_lock(&user(7), two, &posix(LockKind::Shared)), Ok(None));
}

//! Changing attributes: chmod, chown, truncate and utimensat, and their effect on set-id bits.

use vnode::{Errno, FileSystem, OpenFlags, SetTime, Timestamp};

use super::super::inode::Inode;
use super::super::metadata::Metadata;
use super::*;

const NOW: Option<SetTime> = Some(SetTime::Now);

fn set_times(vnode: &VnodeRef, caller: &Caller, atime: Option<SetTime>, mtime: Option<SetTime>) -> Result<Attributes> {
    vnode.setattr(caller, &SetAttributes { atime, mtime, ..Default::default() })
}

fn to(seconds: i64) -> Option<SetTime> {
    Some(SetTime::To(Timestamp { seconds, nanoseconds: 123_456_789 }))
}

#[test]
fn chmod_is_for_the_owner_and_drops_setgid_of_strangers() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    assert_eq!(chmod(&file, &user(8), 0o666), Err(Errno::EPERM));
    assert_eq!(chmod(&file, &user(7), 0o6755).unwrap().mode, 0o6755);
    chown(&file, &superuser(), Some(7), Some(9)).unwrap();
    assert_eq!(chmod(&file, &user(7), 0o6755).unwrap().mode, 0o4755);
    assert_eq!(chmod(&file, &member(7, &[9]), 0o6755).unwrap().mode, 0o6755);
    assert_eq!(chmod(&file, &superuser(), 0o7777).unwrap().mode, 0o7777);
}

#[test]
fn only_the_superuser_changes_owners() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o600);
    assert_eq!(chown(&file, &user(7), Some(8), None), Err(Errno::EPERM));
    assert_eq!(chown(&file, &user(7), None, Some(8)), Err(Errno::EPERM));
    assert_eq!(chown(&file, &user(8), Some(8), None), Err(Errno::EPERM));
    assert!(chown(&file, &user(7), Some(7), Some(7)).is_ok());
    assert_eq!(chown(&file, &member(7, &[9]), None, Some(9)).unwrap().gid, 9);
    assert_eq!(chown(&file, &superuser(), Some(8), Some(10)).unwrap().uid, 8);
}

#[test]
fn chown_clears_set_id_bits_of_files_only() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o6755);
    assert_eq!(chown(&file, &superuser(), Some(8), None).unwrap().mode, 0o755);
    chmod(&file, &superuser(), 0o6745).unwrap();
    assert_eq!(chown(&file, &superuser(), Some(9), None).unwrap().mode, 0o2745);
    let directory = mkdir(&root, &user(7), "directory", 0o755);
    chmod(&directory, &superuser(), 0o6755).unwrap();
    assert_eq!(chown(&directory, &superuser(), Some(9), None).unwrap().mode, 0o6755);
}

#[test]
fn changing_data_takes_privileges_from_others_than_the_superuser() {
    let root = file_system().root();
    let (file, open) = create(&root, &user(7), "file", 0o777);
    let reset = || {
        chmod(&file, &superuser(), 0o6777).unwrap();
    };
    reset();
    open.write_at(&superuser(), 0, b"x").unwrap();
    assert_eq!(mode_of(&file), 0o6777);
    open.write_at(&superuser().killing_privileges(), 0, b"x").unwrap();
    assert_eq!(mode_of(&file), 0o777);
    reset();
    open.write_at(&user(7), 0, b"").unwrap();
    assert_eq!(mode_of(&file), 0o6777, "nothing written, nothing changed");
    open.write_at(&user(7), 0, b"x").unwrap();
    assert_eq!(mode_of(&file), 0o777);
    reset();
    assert_eq!(resize(&file, &user(8), 5).unwrap().mode, 0o777);
    reset();
    open.truncate(&user(8), 5).unwrap();
    assert_eq!(mode_of(&file), 0o777);
    reset();
    file.open(&user(8), OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).unwrap();
    assert_eq!(mode_of(&file), 0o777);
    chmod(&file, &superuser(), 0o2767).unwrap();
    open.write_at(&member(8, &[7]), 0, b"x").unwrap();
    assert_eq!(mode_of(&file), 0o2767, "without an x bit for the group, its members keep the bit");
    open.write_at(&user(8), 0, b"x").unwrap();
    assert_eq!(mode_of(&file), 0o767);
}

#[test]
fn each_change_has_a_later_change_time() {
    let root = file_system().root();
    let (file, open) = create(&root, &user(7), "file", 0o644);
    let directory = mkdir(&root, &user(7), "directory", 0o755);
    type Change<'a> = (&'a VnodeRef, &'a dyn Fn());
    let changes: [Change<'_>; 7] = [
        (&file, &|| {
            open.write_at(&user(7), 0, b"x").unwrap();
        }),
        (&file, &|| open.truncate(&user(7), 3).unwrap()),
        (&file, &|| {
            chmod(&file, &user(7), 0o600).unwrap();
        }),
        (&file, &|| {
            chown(&file, &superuser(), None, Some(9)).unwrap();
        }),
        (&file, &|| {
            set_times(&file, &user(7), None, NOW).unwrap();
        }),
        (&file, &|| drop(root.link(&superuser(), &file, name("link")).unwrap())),
        (&directory, &|| drop(mkdir(&directory, &user(7), "inside", 0o755))),
    ];
    for (index, (object, change)) in changes.into_iter().enumerate() {
        let before = attributes(object).ctime;
        change();
        assert!(attributes(object).ctime > before, "{index}");
    }
    // Also if the clock is set back, or is read twice before it advances.
    let metadata = |vnode: &VnodeRef, change: &dyn Fn(&mut Metadata)| {
        change(&mut vnode.as_any().downcast_ref::<Inode>().unwrap().write().metadata);
    };
    for nanoseconds in [5, 999_999_999] {
        let future = Timestamp { seconds: Timestamp::now().seconds + 1000, nanoseconds };
        metadata(&file, &|metadata| metadata.times.ctime = future);
        chmod(&file, &user(7), 0o644).unwrap();
        let after = attributes(&file).ctime;
        assert!(after > future && after.seconds <= future.seconds + 1);
        open.write_at(&user(7), 0, b"y").unwrap();
        assert!(attributes(&file).ctime > after);
    }
}

#[test]
fn truncate_needs_write_permission_and_a_regular_file() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o644);
    assert_eq!(resize(&file, &user(8), 1), Err(Errno::EACCES));
    assert_eq!(resize(&file, &user(7), 1 << 40).unwrap().size, 1 << 40);
    assert_eq!(resize(&file, &user(7), u64::MAX), Err(Errno::EFBIG));
    assert_eq!(resize(&file, &user(7), i64::MAX as u64).unwrap().blocks, 0);
    assert_eq!(resize(&root, &superuser(), 1), Err(Errno::EISDIR));
    let fifo = root.mknod(&user(7), name("fifo"), FileKind::Fifo, 0o666, Default::default()).unwrap();
    assert_eq!(resize(&fifo.vnode, &user(7), 1), Err(Errno::EINVAL));
}

#[test]
fn attribute_changes_are_atomic() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o644);
    let before = attributes(&file);
    let changes = SetAttributes { mode: Some(0o600), size: Some(10), uid: Some(8), ..Default::default() };
    assert_eq!(file.setattr(&user(7), &changes), Err(Errno::EPERM));
    assert_eq!(attributes(&file), before);
    let after = file.setattr(&superuser(), &changes).unwrap();
    assert_eq!((after.mode, after.size, after.uid), (0o600, 10, 8));
}

#[test]
fn times_are_set_to_the_nanosecond_by_the_owner() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o666);
    let set = set_times(&file, &user(7), to(-5), to(1 << 33)).unwrap();
    assert_eq!((set.atime.seconds, set.atime.nanoseconds), (-5, 123_456_789));
    assert_eq!(set.mtime.seconds, 1 << 33);
    assert!(set.ctime >= set.btime.unwrap());
    assert_eq!(set_times(&file, &user(8), to(1), to(1)), Err(Errno::EPERM));
    assert_eq!(set_times(&file, &user(8), to(1), NOW), Err(Errno::EPERM));
    assert_eq!(set_times(&file, &user(8), None, NOW), Err(Errno::EPERM));
    assert!(set_times(&file, &user(8), NOW, NOW).unwrap().mtime > set.ctime);
    chmod(&file, &user(7), 0o644).unwrap();
    assert_eq!(set_times(&file, &user(8), NOW, NOW), Err(Errno::EACCES));
    assert_eq!(set_times(&file, &superuser(), to(9), None).unwrap().atime.seconds, 9);
}

#[test]
fn truncation_may_set_times_with_write_permission() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o666);
    let changes = SetAttributes { size: Some(5), mtime: NOW, ..Default::default() };
    assert_eq!(file.setattr(&user(8), &changes).unwrap().size, 5);
}

#[test]
fn reading_sets_the_access_time_once_after_each_change() {
    let root = file_system().root();
    let (file, open) = create(&root, &user(7), "file", 0o600);
    open.write_at(&user(7), 0, b"text").unwrap();
    let written = attributes(&file);
    assert!(written.mtime > written.atime && written.mtime == written.ctime);
    let mut bytes = [0; 4];
    open.read_at(&user(7), 0, &mut bytes).unwrap();
    let read = attributes(&file);
    assert!(read.atime > written.mtime && read.ctime == written.ctime);
    open.read_at(&user(7), 0, &mut bytes).unwrap();
    assert_eq!(attributes(&file), read);
    let day = 24 * 60 * 60;
    set_times(&file, &user(7), to(read.atime.seconds - day - 1), to(read.atime.seconds - day - 2)).unwrap();
    open.read_at(&user(7), 0, &mut bytes).unwrap();
    assert!(attributes(&file).atime >= read.atime);
}

#[test]
fn noatime_is_for_the_owner() {
    let root = file_system().root();
    let (file, open) = create(&root, &user(7), "file", 0o666);
    open.write_at(&user(7), 0, b"text").unwrap();
    let quiet = OpenFlags::READ.with(OpenFlags::from_bits(libc::O_NOATIME as u32));
    assert_eq!(failure(file.open(&user(8), quiet)), Errno::EPERM);
    let before = attributes(&file);
    file.open(&user(7), quiet).unwrap().read_at(&user(7), 0, &mut [0; 4]).unwrap();
    assert_eq!(attributes(&file), before);
}

#[test]
fn changes_of_entries_are_changes_of_the_directory() {
    let root = file_system().root();
    let mut last = attributes(&root);
    let mut changed = |what: &str| {
        let now = attributes(&root);
        assert!(now.mtime > last.mtime && now.mtime == now.ctime, "{what}");
        last = now;
    };
    let (file, _) = create(&root, &user(7), "file", 0o666);
    changed("create");
    let directory = mkdir(&root, &user(7), "directory", 0o777);
    changed("mkdir");
    root.link(&user(7), &file, name("link")).unwrap();
    changed("link");
    let before = attributes(&file);
    root.unlink(&user(7), name("link")).unwrap();
    changed("unlink");
    assert!(attributes(&file).ctime > before.ctime && attributes(&file).mtime == before.mtime);
    root.rename(&user(7), name("file"), &directory, name("file"), Default::default()).unwrap();
    changed("rename");
    assert_eq!(attributes(&directory).mtime, attributes(&directory).ctime);
    assert!(attributes(&file).ctime > before.ctime);
    directory.unlink(&user(7), name("file")).unwrap();
    root.rmdir(&user(7), name("directory")).unwrap();
    changed("rmdir");
}

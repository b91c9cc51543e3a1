//! Limits of space and inodes, and how statfs reports them.

use vnode::{Errno, FileSystem, StatFs};

use super::*;

fn limited(pages: u64, inodes: u64) -> MemoryFileSystem {
    MemoryFileSystem::new(Options { size: pages * 4096, inodes, mode: 0o777, uid: 0, gid: 0 })
}

#[test]
fn pages_are_limited_exactly() {
    let root = limited(3, 10).root();
    let (_, file) = create(&root, &user(7), "file", 0o600);
    assert_eq!(file.write_at(&user(7), 0, &[1; 20_000]), Ok(3 * 4096));
    assert_eq!(file.write_at(&user(7), 3 * 4096, b"x"), Err(Errno::ENOSPC));
    assert_eq!(file.write_at(&user(7), 5, b"x"), Ok(1), "what is there can be overwritten");
    let before = file.getattr(&user(7)).unwrap();
    assert_eq!(file.write_at(&superuser(), 1 << 30, b"x"), Err(Errno::ENOSPC));
    assert_eq!(file.getattr(&user(7)).unwrap(), before, "a failed write changes nothing");
    file.truncate(&user(7), 2 * 4096 + 1).unwrap();
    file.truncate(&user(7), 2 * 4096).unwrap();
    assert_eq!(file.write_at(&user(7), 1 << 30, b"x"), Ok(1));
}

#[test]
fn inodes_are_limited_exactly() {
    let root = limited(3, 3).root();
    create(&root, &user(7), "one", 0o600);
    mkdir(&root, &user(7), "two", 0o700);
    assert_eq!(failure(root.mkdir(&user(7), name("three"), 0o700)), Errno::ENOSPC);
    assert_eq!(failure(root.symlink(&user(7), name("three"), b"x")), Errno::ENOSPC);
    assert_eq!(failure(root.tmpfile(&user(7), &how(0o600, vnode::OpenFlags::WRITE))), Errno::ENOSPC);
    let whiteout = root.rename(&user(7), name("one"), &root, name("other"), vnode::RenameMode::Whiteout);
    assert_eq!(whiteout, Err(Errno::ENOSPC));
    assert_eq!(names(&root), ["one", "two"]);
    root.unlink(&user(7), name("one")).unwrap();
    root.symlink(&user(7), name("three"), b"x").unwrap();
}

#[test]
fn statfs_counts_exactly() {
    let memory = limited(100, 50);
    let root = memory.root();
    let (_, file) = create(&root, &user(7), "file", 0o600);
    file.write_at(&user(7), 0, &[1; 5000]).unwrap();
    let expected = StatFs {
        block_size: 4096,
        fragment_size: 4096,
        blocks: 100,
        blocks_free: 98,
        blocks_available: 98,
        files: 50,
        files_free: 48,
        name_max: 255,
    };
    assert_eq!(root.statfs(&user(7)), Ok(expected));
    assert_eq!(attributes(&root).block_size, 4096);
}

#[test]
fn long_targets_of_symlinks_count_as_space() {
    let root = limited(1, 10).root();
    root.symlink(&user(7), name("short"), &[b'x'; 127]).unwrap();
    let long = root.symlink(&user(7), name("long"), &[b'x'; 128]).unwrap();
    assert_eq!(long.attributes.blocks, 8);
    assert_eq!(failure(root.symlink(&user(7), name("longer"), &[b'x'; 129])), Errno::ENOSPC);
    assert_eq!(root.statfs(&user(7)).unwrap().files_free, 7, "the failure took no inode");
    root.unlink(&user(7), name("long")).unwrap();
    drop(long);
    root.symlink(&user(7), name("longer"), &[b'x'; 129]).unwrap();
}

#[test]
fn what_the_file_system_declares() {
    let properties = limited(1, 1).properties();
    assert!(
        properties.promises.exclusive
            && properties.promises.checks_credentials
            && !properties.promises.persistent_handles
    );
    assert!(!properties.needs.read_only && properties.promises.data_untouched);
}

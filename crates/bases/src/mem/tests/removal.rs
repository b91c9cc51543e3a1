//! Removing names: permissions, kinds, and use of objects afterwards.

use vnode::{Errno, FileSystem, OpenFlags};

use super::*;

#[test]
fn an_open_file_outlives_its_name() {
    let memory = file_system();
    let root = memory.root();
    let free = root.statfs(&superuser()).unwrap();
    let (file, open) = create(&root, &user(7), "file", 0o600);
    open.write_at(&user(7), 0, b"still here").unwrap();
    let handle = file.handle();
    root.unlink(&user(7), name("file")).unwrap();
    assert_eq!(failure(lookup(&root, "file")), Errno::ENOENT);
    assert_eq!(open.getattr(&user(7)).unwrap().nlink, 0);
    let mut bytes = [0; 20];
    assert_eq!(open.read_at(&user(7), 0, &mut bytes), Ok(10));
    assert!(memory.resolve(&superuser(), &handle).is_ok());
    drop(open);
    drop(file);
    assert_eq!(failure(memory.resolve(&superuser(), &handle)), Errno::ESTALE);
    assert_eq!(root.statfs(&superuser()).unwrap(), free);
}

#[test]
fn a_removed_directory_is_empty_for_ever() {
    let root = file_system().root();
    let directory = mkdir(&root, &user(7), "directory", 0o755);
    assert_eq!(attributes(&root).nlink, 3);
    root.rmdir(&user(7), name("directory")).unwrap();
    assert_eq!((attributes(&root).nlink, attributes(&directory).nlink), (2, 0));
    assert_eq!(failure(directory.mkdir(&user(7), name("x"), 0o755)), Errno::ENOENT);
    assert_eq!(failure(directory.create(&user(7), name("x"), &how(0o644, OpenFlags::READ))), Errno::ENOENT);
    assert_eq!(failure(directory.tmpfile(&user(7), &how(0o644, OpenFlags::WRITE))), Errno::ENOENT);
    assert_eq!(failure(directory.parent(&user(7))), Errno::ENOENT);
    assert_eq!(directory.path(), Err(Errno::ENOENT));
    assert_eq!(names(&directory), Vec::<String>::new());
    let (file, _) = create(&root, &user(7), "file", 0o600);
    assert_eq!(failure(directory.link(&user(7), &file, name("x"))), Errno::ENOENT);
    let onto = root.rename(&user(7), name("file"), &directory, name("x"), Default::default());
    assert_eq!(onto, Err(Errno::ENOENT));
}

#[test]
fn removal_refuses_wrong_kinds_and_full_directories() {
    let root = file_system().root();
    let directory = mkdir(&root, &user(7), "directory", 0o755);
    create(&directory, &user(7), "file", 0o644);
    assert_eq!(root.unlink(&user(7), name("directory")), Err(Errno::EISDIR));
    assert_eq!(directory.rmdir(&user(7), name("file")), Err(Errno::ENOTDIR));
    assert_eq!(root.rmdir(&user(7), name("directory")), Err(Errno::ENOTEMPTY));
    assert_eq!(root.rmdir(&user(7), name("nothing")), Err(Errno::ENOENT));
    assert_eq!(directory.unlink(&user(8), name("file")), Err(Errno::EACCES));
    assert_eq!(directory.unlink(&user(8), name("nothing")), Err(Errno::ENOENT));
}

#[test]
fn in_a_sticky_directory_only_owners_remove() {
    let root = file_system().root();
    let sticky = mkdir(&root, &user(5), "sticky", 0o1777);
    for text in ["one", "two", "three"] {
        create(&sticky, &user(7), text, 0o666);
    }
    assert_eq!(sticky.unlink(&user(8), name("one")), Err(Errno::EPERM));
    let elsewhere = sticky.rename(&user(8), name("one"), &root, name("one"), Default::default());
    assert_eq!(elsewhere, Err(Errno::EPERM));
    create(&sticky, &user(8), "own", 0o666);
    let over = sticky.rename(&user(8), name("own"), &sticky, name("one"), Default::default());
    assert_eq!(over, Err(Errno::EPERM));
    sticky.unlink(&user(7), name("one")).unwrap();
    sticky.unlink(&user(5), name("two")).unwrap();
    sticky.unlink(&superuser(), name("three")).unwrap();
}

#[test]
fn deep_tree_is_dropped_without_recursion() {
    let memory = MemoryFileSystem::new(Options { inodes: 300_000, ..Options::default() });
    let mut directory = memory.root();
    for _ in 0..200_000 {
        directory = mkdir(&directory, &superuser(), "d", 0o755);
    }
    drop(directory);
    drop(memory);
}

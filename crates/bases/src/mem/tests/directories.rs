//! Looking up and reading directories, handles and paths.

use vnode::{AccessMode, Cookie, Errno, FileKind, FileSystem, Handle};

use super::*;

#[test]
fn entries_are_ordered_and_cookies_stable() {
    let root = file_system().root();
    for number in 0..200 {
        create(&root, &user(7), &format!("file{number}"), 0o644);
    }
    let all = entries_after(&root, Cookie::START);
    assert_eq!(all.iter().map(|entry| entry.2.get()).collect::<Vec<_>>(), (3..203).collect::<Vec<_>>());
    for number in (0..200).step_by(2) {
        root.unlink(&user(7), name(&format!("file{number}"))).unwrap();
    }
    create(&root, &user(7), "file0", 0o644);
    let rest = entries_after(&root, all[101].2);
    assert_eq!(rest.first().unwrap(), &all[103]);
    assert_eq!(rest.last().unwrap(), &("file0".to_owned(), FileKind::Regular, Cookie::new(203)));
    assert_eq!(rest.len(), 50);
    assert_eq!(entries_after(&root, Cookie::new(u64::MAX)), []);
}

#[test]
fn a_reader_may_break_and_may_change_the_directory_itself() {
    let root = file_system().root();
    for number in 0..100 {
        create(&root, &user(7), &format!("file{number}"), 0o644);
    }
    let open = root.open_directory(&user(7)).unwrap();
    let mut given = 0;
    open.read(&user(7), Cookie::START, &mut |entry| {
        root.unlink(&user(7), entry.name).unwrap();
        given += 1;
        if given == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!((given, names(&root).len()), (10, 90));
}

#[test]
fn search_permission_is_for_names_and_read_permission_for_lists() {
    let root = file_system().root();
    let directory = mkdir(&root, &user(7), "directory", 0o711);
    create(&directory, &user(7), "file", 0o600);
    assert!(directory.lookup(&user(8), name("file")).is_ok());
    assert_eq!(failure(directory.open_directory(&user(8))), Errno::EACCES);
    chmod(&directory, &user(7), 0o744).unwrap();
    assert_eq!(failure(directory.lookup(&user(8), name("file"))), Errno::EACCES);
    assert_eq!(failure(directory.lookup(&user(8), name("nothing"))), Errno::EACCES);
    assert!(directory.open_directory(&user(8)).is_ok());
    chmod(&directory, &user(7), 0).unwrap();
    assert_eq!(failure(directory.lookup(&user(7), name("file"))), Errno::EACCES);
    assert!(directory.lookup(&superuser(), name("file")).is_ok());
}

#[test]
fn access_checks_the_first_matching_class() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "file", 0o063);
    let access = |caller: &Caller, bits| file.access(caller, AccessMode::from_bits(bits)).is_ok();
    assert!(access(&user(7), 0) && !access(&user(7), 4), "the owner has only its own class");
    assert!(access(&member(8, &[7]), 6) && !access(&member(8, &[7]), 1));
    assert!(access(&user(9), 3) && !access(&user(9), 4));
    assert!(access(&superuser(), 7));
    chmod(&file, &user(7), 0o666).unwrap();
    assert!(access(&superuser(), 6) && !access(&superuser(), 1), "not even the superuser executes without an x bit");
    assert!(root.access(&superuser(), AccessMode::EXECUTE).is_ok());
}

#[test]
fn handles_are_of_one_instance_and_one_object() {
    let (memory, other) = (file_system(), file_system());
    let (file, _) = create(&memory.root(), &user(7), "file", 0o600);
    create(&other.root(), &user(7), "file", 0o600);
    assert_eq!(memory.resolve(&superuser(), &file.handle()).unwrap().handle(), file.handle());
    assert_eq!(failure(other.resolve(&superuser(), &file.handle())), Errno::ESTALE);
    assert_eq!(failure(memory.resolve(&superuser(), &Handle::new(b"short").unwrap())), Errno::ESTALE);
    let handle = file.handle();
    drop(file);
    memory.root().unlink(&user(7), name("file")).unwrap();
    create(&memory.root(), &user(7), "file", 0o600);
    assert_eq!(failure(memory.resolve(&superuser(), &handle)), Errno::ESTALE);
}

#[test]
fn paths_and_parents_follow_renames() {
    let root = file_system().root();
    let one = mkdir(&root, &user(7), "one", 0o755);
    let two = mkdir(&one, &user(7), "two", 0o755);
    let (file, _) = create(&two, &user(7), "file", 0o644);
    assert_eq!(root.path().unwrap(), b"");
    assert_eq!(file.path().unwrap(), b"one/two/file");
    one.rename(&user(7), name("two"), &root, name("second"), Default::default()).unwrap();
    assert_eq!(file.path().unwrap(), b"second/file");
    assert_eq!(two.parent(&user(7)).unwrap().handle(), root.handle());
    assert_eq!(root.parent(&user(7)).unwrap().handle(), root.handle());
    one.link(&user(7), &file, name("other")).unwrap();
    two.unlink(&user(7), name("file")).unwrap();
    assert_eq!(file.path().unwrap(), b"one/other");
}

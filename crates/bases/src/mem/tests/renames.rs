//! Renames: kinds, loops, permissions, exchange, whiteouts, and many at once.

use vnode::{Cookie, Device, Errno, FileSystem, RenameMode};

use super::*;

fn rename(from: &VnodeRef, text: &str, to: &VnodeRef, to_text: &str, mode: RenameMode) -> Result<()> {
    from.rename(&user(7), name(text), to, name(to_text), mode)
}

const REPLACE: RenameMode = RenameMode::Replace;

#[test]
fn kinds_must_fit_and_directories_be_empty() {
    let root = file_system().root();
    let full = mkdir(&root, &user(7), "full", 0o755);
    mkdir(&full, &user(7), "below", 0o755);
    mkdir(&root, &user(7), "empty", 0o755);
    create(&root, &user(7), "file", 0o644);
    assert_eq!(rename(&root, "file", &root, "empty", REPLACE), Err(Errno::EISDIR));
    assert_eq!(rename(&root, "empty", &root, "file", REPLACE), Err(Errno::ENOTDIR));
    assert_eq!(rename(&root, "empty", &root, "full", REPLACE), Err(Errno::ENOTEMPTY));
    assert_eq!(rename(&root, "nothing", &root, "full", REPLACE), Err(Errno::ENOENT));
    assert_eq!(attributes(&root).nlink, 4);
    rename(&root, "full", &root, "empty", REPLACE).unwrap();
    assert_eq!((attributes(&root).nlink, attributes(&full).nlink), (3, 3));
    assert_eq!(names(&root), ["empty", "file"]);
}

#[test]
fn no_directory_ends_up_in_itself() {
    let root = file_system().root();
    let one = mkdir(&root, &user(7), "one", 0o755);
    let two = mkdir(&one, &user(7), "two", 0o755);
    let three = mkdir(&two, &user(7), "three", 0o755);
    assert_eq!(rename(&root, "one", &one, "x", REPLACE), Err(Errno::EINVAL));
    assert_eq!(rename(&root, "one", &three, "x", REPLACE), Err(Errno::EINVAL));
    assert_eq!(rename(&two, "three", &root, "one", REPLACE), Err(Errno::ENOTEMPTY));
    assert_eq!(rename(&two, "three", &root, "one", RenameMode::Exchange), Err(Errno::EINVAL));
    create(&three, &user(7), "file", 0o600);
    assert_eq!(rename(&three, "file", &root, "one", REPLACE), Err(Errno::ENOTEMPTY));
    rename(&one, "two", &one, "second", REPLACE).unwrap();
    assert_eq!(three.path().unwrap(), b"one/second/three");
}

#[test]
fn moving_a_directory_counts_in_both_parents() {
    let root = file_system().root();
    let one = mkdir(&root, &user(7), "one", 0o755);
    let two = mkdir(&root, &user(7), "two", 0o755);
    mkdir(&one, &user(7), "moved", 0o755);
    mkdir(&two, &user(7), "replaced", 0o755);
    rename(&one, "moved", &two, "replaced", REPLACE).unwrap();
    assert_eq!((attributes(&one).nlink, attributes(&two).nlink), (2, 3));
    create(&one, &user(7), "file", 0o644);
    rename(&one, "file", &two, "replaced", RenameMode::Exchange).unwrap();
    assert_eq!((attributes(&one).nlink, attributes(&two).nlink), (3, 2));
    assert_eq!(lookup(&one, "file").unwrap().attributes.kind, FileKind::Directory);
}

#[test]
fn moving_a_directory_requires_write_permission() {
    let root = file_system().root();
    let theirs = mkdir(&root, &user(8), "theirs", 0o755);
    mkdir(&root, &user(7), "own", 0o755);
    let (one, two) = (mkdir(&root, &user(7), "one", 0o777), mkdir(&root, &user(7), "two", 0o777));
    rename(&root, "theirs", &one, "theirs", REPLACE).unwrap_err();
    assert_eq!(rename(&root, "theirs", &one, "theirs", REPLACE), Err(Errno::EACCES));
    assert_eq!(rename(&root, "theirs", &root, "renamed", REPLACE), Ok(()));
    chmod(&theirs, &user(8), 0o777).unwrap();
    rename(&root, "renamed", &one, "theirs", REPLACE).unwrap();
    chmod(&theirs, &user(8), 0o755).unwrap();
    mkdir(&two, &user(7), "own", 0o755);
    assert_eq!(rename(&two, "own", &one, "theirs", RenameMode::Exchange), Err(Errno::EACCES));
    assert_eq!(rename(&two, "own", &one, "theirs", REPLACE), Ok(()), "replacing it needs none");
}

#[test]
fn modes_say_what_happens_to_the_target() {
    let root = file_system().root();
    let (one, _) = create(&root, &user(7), "one", 0o600);
    let (two, _) = create(&root, &user(7), "two", 0o600);
    assert_eq!(rename(&root, "one", &root, "two", RenameMode::NoReplace), Err(Errno::EEXIST));
    assert_eq!(rename(&root, "one", &root, "three", RenameMode::Exchange), Err(Errno::ENOENT));
    rename(&root, "one", &root, "two", RenameMode::Exchange).unwrap();
    assert_eq!((one.path().unwrap(), two.path().unwrap()), (b"two".to_vec(), b"one".to_vec()));
    rename(&root, "one", &root, "three", RenameMode::NoReplace).unwrap();
    assert_eq!(rename(&root, "two", &root, "three", RenameMode::WhiteoutNoReplace), Err(Errno::EEXIST));
    rename(&root, "two", &root, "three", RenameMode::Whiteout).unwrap();
    assert_eq!((attributes(&two).nlink, one.path().unwrap()), (0, b"three".to_vec()));
    let whiteout = lookup(&root, "two").unwrap();
    assert_eq!((whiteout.attributes.kind, whiteout.attributes.rdev), (FileKind::CharacterDevice, Device::default()));
    assert_eq!((whiteout.attributes.mode, whiteout.attributes.nlink, whiteout.attributes.uid), (0, 1, 7));
    assert_eq!(whiteout.vnode.path().unwrap(), b"two");
    assert_eq!(names(&root).len(), 2);
}

#[test]
fn renaming_between_links_of_one_file_does_nothing() {
    let root = file_system().root();
    let (file, _) = create(&root, &user(7), "one", 0o600);
    root.link(&user(7), &file, name("two")).unwrap();
    let before = attributes(&file);
    rename(&root, "one", &root, "two", REPLACE).unwrap();
    rename(&root, "one", &root, "one", REPLACE).unwrap();
    assert_eq!(rename(&root, "one", &root, "two", RenameMode::NoReplace), Err(Errno::EEXIST));
    assert_eq!((names(&root).len(), attributes(&file)), (2, before));
}

#[test]
fn a_directory_of_another_file_system_is_refused() {
    let root = file_system().root();
    create(&root, &user(7), "file", 0o600);
    assert_eq!(rename(&root, "file", &file_system().root(), "file", REPLACE), Err(Errno::EXDEV));
}

/// Moves files and directories at random between directories from several threads; nothing is lost, duplicated, or
/// deadlocked.
#[test]
fn concurrent_renames_keep_the_tree_consistent() {
    let seed = random::seed();
    let memory = file_system();
    let root = memory.root();
    let directories: Vec<VnodeRef> =
        (0..8).map(|number| mkdir(&root, &user(7), &format!("d{number}"), 0o755)).collect();
    for number in 0..16 {
        create(&directories[number % 8], &user(7), &format!("f{number}"), 0o600);
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (root, directories) = (&root, &directories);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed + thread);
                let modes = [REPLACE, RenameMode::NoReplace, RenameMode::Exchange];
                for _ in 0..5000 {
                    let pick = |random: &mut fastrand::Rng| match random.usize(0..9) {
                        8 => root.clone(),
                        index => directories[index].clone(),
                    };
                    let (from, to) = (pick(&mut random), pick(&mut random));
                    let text = format!("{}{}", ['d', 'f'][random.usize(0..2)], random.usize(0..16));
                    // Only modes that never replace, so that each name keeps its object.
                    let mode = modes[random.usize(1..3)];
                    let _ = rename(&from, &text, &to, &text, mode);
                    let _ = from.path();
                }
            });
        }
    });
    let (mut files, mut found) = (0, 0);
    let mut stack = vec![root.clone()];
    while let Some(directory) = stack.pop() {
        let mut below = 0;
        for (text, kind, _) in entries_after(&directory, Cookie::START) {
            let entry = lookup(&directory, &text).unwrap();
            if kind == FileKind::Directory {
                below += 1;
                found += 1;
                assert_eq!(entry.vnode.parent(&user(7)).unwrap().handle(), directory.handle());
                stack.push(entry.vnode);
            } else {
                files += 1;
            }
        }
        assert_eq!(attributes(&directory).nlink, 2 + below);
    }
    assert_eq!((files, found), (16, 8));
}

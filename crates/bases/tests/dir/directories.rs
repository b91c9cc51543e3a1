//! Directories: every entry once, cookies that last, concurrent readers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use vnode::{Caller, Cookie, Errno, OpenDirectoryRef, OpenFlags, SetAttributes, SetTime, Timestamp, VnodeRef};

use crate::fixture::{Fixture, entries, name, root};

fn fill(fixture: &Fixture, count: usize) -> VnodeRef {
    let path = fixture.path.join("many");
    std::fs::create_dir(&path).unwrap();
    (0..count).for_each(|file| drop(std::fs::File::create(path.join(format!("file-{file}"))).unwrap()));
    fixture.root.lookup(&root(), name("many")).unwrap().vnode
}

/// At most `count` entries after `cookie`.
fn read_entries(directory: &OpenDirectoryRef, cookie: Cookie, count: usize) -> Vec<(Vec<u8>, Cookie)> {
    let mut found = Vec::new();
    directory
        .read(&root(), cookie, &mut |entry| {
            if found.len() == count {
                return ControlFlow::Break(());
            }
            found.push((entry.name.as_bytes().to_vec(), entry.cookie));
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

#[test]
fn every_entry_is_returned_once() {
    Fixture::each(|fixture| {
        let many = fill(fixture, 3_000);
        let all = entries(&many);
        let names: BTreeSet<_> = all.iter().map(|entry| &entry.0).collect();
        assert_eq!((all.len(), names.len()), (3_000, 3_000));
        let cookies: BTreeSet<_> = all.iter().map(|entry| entry.2).collect();
        assert_eq!(cookies.len(), 3_000);
        assert!(cookies.iter().all(|cookie| (Cookie::FIRST..=Cookie::LAST).contains(cookie)));

        let open = many.open_directory(&root()).unwrap();
        let (mut cookie, mut read) = (Cookie::START, Vec::new());
        loop {
            let next = read_entries(&open, cookie, 7);
            let Some((_, last)) = next.last() else { break };
            cookie = *last;
            read.extend(next.into_iter().map(|entry| entry.0));
        }
        assert_eq!(read, all.iter().map(|entry| entry.0.clone()).collect::<Vec<_>>());
    });
}

#[test]
fn cookies_outlive_unlinks_and_reopening() {
    Fixture::each(|fixture| {
        let many = fill(fixture, 1_000);
        let all = entries(&many);
        let order: BTreeMap<_, _> =
            all.iter().enumerate().map(|(position, entry)| (entry.0.clone(), position)).collect();
        for (position, (entry, _, cookie)) in all.iter().enumerate().step_by(97) {
            // The entry itself and some before and after it go.
            many.unlink(&root(), name(entry)).unwrap();
            let after = many.open_directory(&root()).unwrap();
            let rest = read_entries(&after, *cookie, usize::MAX);
            assert_eq!(rest.len(), all.len() - position - 1, "after {position}");
            assert!(rest.iter().all(|(found, _)| order[found] > position));
        }
    });
}

#[test]
fn concurrent_readers_of_one_open_directory_do_not_disturb_each_other() {
    Fixture::each(|fixture| {
        let many = fill(fixture, 2_000);
        let expected: Vec<_> = entries(&many).into_iter().map(|entry| (entry.0, entry.2)).collect();
        let open = many.open_directory(&root()).unwrap();
        std::thread::scope(|scope| {
            for step in [1, 13, 400, usize::MAX] {
                let (open, expected) = (&open, &expected);
                scope.spawn(move || {
                    let (mut cookie, mut read) = (Cookie::START, Vec::new());
                    loop {
                        let next = read_entries(open, cookie, step);
                        let Some((_, last)) = next.last() else { break };
                        cookie = *last;
                        read.extend(next);
                    }
                    assert_eq!(&read, expected, "by {step}");
                });
            }
        });
    });
}

#[test]
fn creation_succeeds_despite_concurrent_removal() {
    Fixture::each(|fixture| {
        std::thread::scope(|scope| {
            for maker in 0..4 {
                scope.spawn(move || {
                    for round in 0..500 {
                        let made = match (maker + round) % 3 {
                            0 => fixture.root.mkdir(&root(), name("x"), 0o755),
                            1 => fixture.root.symlink(&root(), name("x"), b"target"),
                            _ => {
                                fixture.root.mknod(&root(), name("x"), vnode::FileKind::Fifo, 0o600, Default::default())
                            }
                        };
                        assert!(matches!(made.map(drop), Ok(()) | Err(Errno::EEXIST)));
                        let moved =
                            fixture.root.rename(&root(), name("x"), &fixture.root, name("y"), Default::default());
                        let allowed = [Errno::ENOENT, Errno::EISDIR, Errno::ENOTDIR];
                        assert!(moved.is_ok() || allowed.contains(&moved.unwrap_err()));
                        for gone in ["x", "y"] {
                            let _ = fixture.root.rmdir(&root(), name(gone));
                            let _ = fixture.root.unlink(&root(), name(gone));
                        }
                    }
                });
            }
        });
    });
}

#[test]
fn rewound_directory_shows_changes() {
    Fixture::each(|fixture| {
        let many = fill(fixture, 10);
        let open = many.open_directory(&root()).unwrap();
        assert_eq!(read_entries(&open, Cookie::START, 3).len(), 3);
        std::fs::write(fixture.path.join("many/new"), "").unwrap();
        many.unlink(&root(), name("file-0")).unwrap();
        let names: BTreeSet<_> =
            read_entries(&open, Cookie::START, usize::MAX).into_iter().map(|entry| entry.0).collect();
        assert_eq!(names.len(), 10);
        assert!(names.contains(&b"new"[..]) && !names.contains(&b"file-0"[..]));
        open.fsync(&root(), false).unwrap();
    });
}

#[test]
fn dots_are_the_directory_and_its_parent() {
    Fixture::each(|fixture| {
        std::fs::create_dir_all(fixture.path.join("above/inner")).unwrap();
        let above = fixture.root.lookup(&root(), name("above")).unwrap();
        let inner = above.vnode.lookup(&root(), name("inner")).unwrap();
        std::fs::write(fixture.path.join("above/inner/file"), "").unwrap();
        let open = inner.vnode.open_directory(&root()).unwrap();
        assert_eq!(open.dots(), Some([inner.attributes.ino, above.attributes.ino]));
        assert_eq!(read_entries(&open, Cookie::START, 9).len(), 1, "what was read for the dots is listed");
        std::fs::write(fixture.path.join("above/inner/other"), "").unwrap();
        assert_eq!(open.dots(), Some([inner.attributes.ino, above.attributes.ino]));
        assert_eq!(read_entries(&open, Cookie::START, 9).len(), 2, "who starts over sees what has changed");
        let above_root = fixture.root.open_directory(&root()).unwrap();
        assert_eq!(above_root.dots(), None, "what lies above the root is not shown");
    });
}

#[test]
fn end_of_directory_is_reported_repeatedly() {
    Fixture::each(|fixture| {
        let many = fill(fixture, 10);
        let open = many.open_directory(&root()).unwrap();
        let all = read_entries(&open, Cookie::START, 20);
        let end = all.last().unwrap().1;
        assert_eq!(read_entries(&open, end, 20), []);
        assert_eq!(read_entries(&open, end, 20), []);
        assert_eq!(read_entries(&open, Cookie::START, 20), all);
    });
}

#[test]
fn reads_of_the_server_leave_access_times() {
    Fixture::each(|fixture| {
        let directory = fill(fixture, 3);
        let file = directory.lookup(&root(), name("file-1")).unwrap().vnode;
        let long_ago = SetTime::To(Timestamp { seconds: 1, nanoseconds: 0 });
        let seconds = |vnode: &VnodeRef| vnode.getattr(&root()).unwrap().atime.seconds;
        let read = |caller: &Caller| {
            directory
                .open_directory(caller)
                .unwrap()
                .read(caller, Cookie::START, &mut |_| ControlFlow::Continue(()))
                .unwrap();
            let _ = file.open(caller, OpenFlags::READ).unwrap().read_at(caller, 0, &mut [0; 8]).unwrap();
        };
        for vnode in [&directory, &file] {
            let times = SetAttributes { atime: Some(long_ago), ..Default::default() };
            vnode.setattr(&root(), &times).unwrap();
        }
        std::fs::write(fixture.path.join("many/file-1"), "text").unwrap();
        read(&Caller::server());
        assert_eq!((seconds(&directory), seconds(&file)), (1, 1));
        let mut for_a_process = Caller::server();
        for_a_process.pid = std::process::id();
        read(&for_a_process);
        assert!(
            seconds(&directory) > 1 && seconds(&file) > 1,
            "what it reads for a process, that process has accessed"
        );
    });
}

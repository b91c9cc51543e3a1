//! Tests of the mirror: all branches get every change, in one order, and a branch that does not is left out.

#[path = "../../layers/tests/common/steps.rs"]
mod steps;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bases::mem::{MemoryFileSystem, Options};
use layers::Branch;
use samples::mirror;
use steps::{Steps, Stepwise};
use vnode::{
    Caller, Control, Cookie, Creation, Errno, FileKind, FileSystemRef, Name, OpenFlags, RenameMode, Result,
    SetAttributes, SetTime, Timestamp, VnodeRef, XattrMode, read_fully,
};

fn memory() -> FileSystemRef {
    let options = Options { size: 1 << 28, inodes: 100_000, mode: 0o777, uid: 0, gid: 0 };
    Arc::new(MemoryFileSystem::new(options))
}

/// A branch whose operations can be made to fail while it is used.
fn breakable() -> FileSystemRef {
    layers::kind("faulty").unwrap().stack(&[], memory()).unwrap()
}

fn break_with(file_system: &FileSystemRef, rule: &[(&str, &str)]) {
    let arguments = rule.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let set = Control { target: "faulty".to_owned(), command: "set".to_owned(), arguments };
    file_system.control(&set).unwrap();
}

fn mirror_of(branches: &[FileSystemRef]) -> std::result::Result<FileSystemRef, String> {
    mirror_named("branch", branches)
}

/// Returns a mirror of branches that are called by this word and their number.
fn mirror_named(word: &str, branches: &[FileSystemRef]) -> std::result::Result<FileSystemRef, String> {
    let branch = |(index, file_system): (usize, &FileSystemRef)| Branch {
        file_system: Arc::clone(file_system),
        mode: None,
        label: format!("{word}{index}"),
        minimum_free: None,
    };
    let branches = branches.iter().enumerate().map(branch).collect();
    mirror::KIND.join(&[], branches, None).map_err(|error| error.to_string())
}

fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

fn root() -> Caller {
    Caller::with_groups(0, 0, &[], 0o022)
}

fn write(directory: &VnodeRef, text: &str, data: &[u8]) -> Result<()> {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    let file = directory.create(&root(), name(text), &how)?.file;
    assert_eq!(file.write_at(&root(), 0, data)?, data.len());
    Ok(())
}

fn read(directory: &VnodeRef, text: &str) -> Result<Vec<u8>> {
    let found = directory.lookup(&root(), name(text))?;
    let mut data = vec![0; found.attributes.size as usize];
    read_fully(&*found.vnode.open(&root(), OpenFlags::READ)?, &root(), 0, &mut data)?;
    Ok(data)
}

/// Everything that is to be the same in all branches, of a tree.
fn contents(directory: &VnodeRef, path: &str, all: &mut Vec<String>) {
    let mut names = Vec::new();
    let open = directory.open_directory(&root()).unwrap();
    let collect = &mut |entry: vnode::DirectoryEntry<'_>| {
        names.push(String::from_utf8(entry.name.as_bytes().to_vec()).unwrap());
        std::ops::ControlFlow::Continue(())
    };
    open.read(&root(), Cookie::START, collect).unwrap();
    names.sort();
    for text in names {
        let found = directory.lookup(&root(), name(&text)).unwrap();
        let (shown, attributes) = (format!("{path}/{text}"), found.attributes);
        let data = match attributes.kind {
            FileKind::Regular => read(directory, &text).unwrap(),
            FileKind::Symlink => found.vnode.readlink(&root()).unwrap(),
            _ => Vec::new(),
        };
        let xattrs = found.vnode.listxattr(&root()).unwrap();
        all.push(format!(
            "{shown} {:?} {:o} {} {} {} {:x} {xattrs:?}",
            attributes.kind,
            attributes.mode,
            attributes.uid,
            attributes.nlink,
            data.len(),
            data.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
        ));
        if attributes.kind == FileKind::Directory {
            contents(&found.vnode, &shown, all);
        }
    }
}

fn assert_same(branches: &[FileSystemRef]) {
    let all = |file_system: &FileSystemRef| {
        let mut all = Vec::new();
        contents(&file_system.root(), "", &mut all);
        all
    };
    let first = all(&branches[0]);
    branches[1..].iter().for_each(|other| assert_eq!(first, all(other)));
}

#[test]
fn every_change_reaches_every_branch() {
    let branches = [memory(), memory(), memory()];
    let mirror = mirror_of(&branches).unwrap();
    let (top, root) = (mirror.root(), root());
    let directory = top.mkdir(&root, name("d"), 0o755).unwrap().vnode;
    write(&directory, "file", b"data").unwrap();
    let file = directory.lookup(&root, name("file")).unwrap().vnode;
    top.link(&root, &file, name("link")).unwrap();
    top.symlink(&root, name("symlink"), b"d/file").unwrap();
    file.setattr(&root, &SetAttributes { mode: Some(0o600), uid: Some(7), ..SetAttributes::default() }).unwrap();
    file.setxattr(&root, b"user.x", b"y", XattrMode::Create).unwrap();
    let open = file.open(&root, OpenFlags::READ_WRITE).unwrap();
    open.truncate(&root, 2).unwrap();
    directory.rename(&root, name("file"), &top, name("moved"), RenameMode::Replace).unwrap();
    open.write_at(&root, 2, b"after").unwrap();
    write(&top, "gone", b"x").unwrap();
    top.unlink(&root, name("gone")).unwrap();
    assert_same(&branches);
    assert_eq!(read(&branches[2].root(), "moved").unwrap(), b"daafter");
    assert_eq!(top.lookup(&root, name("moved")).unwrap().attributes.nlink, 2);
    assert_eq!(top.rmdir(&root, name("d")), Ok(()));
    assert_same(&branches);
}

#[test]
fn an_error_of_the_first_branch_changes_nothing() {
    let branches = [memory(), memory()];
    let top = mirror_of(&branches).unwrap().root();
    top.mkdir(&root(), name("d"), 0o755).unwrap();
    let user = Caller::with_groups(1000, 1000, &[], 0o022);
    let directory = top.lookup(&root(), name("d")).unwrap().vnode;
    assert_eq!(directory.mkdir(&user, name("e"), 0o755).err(), Some(Errno::EACCES));
    assert_eq!(top.mkdir(&root(), name("d"), 0o755).err(), Some(Errno::EEXIST));
    assert_same(&branches);
    assert!(write(&top, "f", b"both").is_ok());
    assert_eq!(read(&branches[1].root(), "f").unwrap(), b"both", "no branch has failed");
}

#[test]
fn a_branch_that_misses_a_change_is_left_out_and_not_mounted_again() {
    for broken in [0, 1] {
        let branches = [breakable(), breakable()];
        let mirror = mirror_of(&branches).unwrap();
        let top = mirror.root();
        write(&top, "before", b"1").unwrap();
        break_with(&branches[broken], &[("operations", "mkdir"), ("error", "EIO")]);
        top.mkdir(&root(), name("d"), 0o755).unwrap();
        break_with(&branches[broken], &[]);
        write(&top, "after", b"2").unwrap();
        assert_eq!(read(&top, "before").unwrap(), b"1");
        assert_eq!(read(&branches[broken].root(), "after").err(), Some(Errno::ENOENT), "it is used no more");
        assert_eq!(read(&branches[1 - broken].root(), "after").unwrap(), b"2");
        drop((top, mirror));
        let refused = mirror_of(&branches).err().unwrap();
        assert!(refused.contains(&format!("cannot join the branches: branch{broken} lacks changes")), "{refused}");
        let renamed = mirror_named("the same by another path", &branches).err().unwrap();
        assert!(renamed.contains(&format!("branch{broken} lacks changes")), "{renamed}");
        // Made a copy again.
        branches[broken].root().mkdir(&root(), name("d"), 0o755).unwrap();
        write(&branches[broken].root(), "after", b"2").unwrap();
        branches[1 - broken].root().removexattr(&root(), b"user.plyfs.mirror.behind").unwrap();
        assert!(mirror_of(&branches).is_ok());
    }
}

#[test]
fn the_record_of_what_branches_lack_is_neither_shown_nor_changed_through_the_mirror() {
    const BEHIND: &[u8] = b"user.plyfs.mirror.behind";
    let branches = [breakable(), breakable()];
    let (mirror, root) = (mirror_of(&branches).unwrap(), root());
    let top = mirror.root();
    let check = || {
        assert_eq!(top.setxattr(&root, BEHIND, b"branch0\n", XattrMode::Set), Err(Errno::EPERM));
        assert_eq!(top.removexattr(&root, BEHIND), Err(Errno::EPERM));
        assert_eq!(top.getxattr(&root, BEHIND), Err(Errno::ENODATA));
        assert_eq!(top.listxattr(&root).unwrap(), b"user.other\0");
        assert_eq!(top.getxattr(&root, b"user.other").unwrap(), b"x");
    };
    top.setxattr(&root, b"user.other", b"x", XattrMode::Set).unwrap();
    check();
    assert_eq!(branches[0].root().getxattr(&root, BEHIND), Err(Errno::ENODATA));
    break_with(&branches[1], &[("operations", "mkdir"), ("error", "EIO")]);
    top.mkdir(&root, name("d"), 0o755).unwrap();
    break_with(&branches[1], &[]);
    check();
    assert_eq!(branches[0].root().getxattr(&root, BEHIND).unwrap(), b"branch1\n", "it stays below");
}

#[test]
fn a_broken_branch_does_not_disturb_readers() {
    let branches = [breakable(), breakable()];
    let top = mirror_of(&branches).unwrap().root();
    write(&top, "file", b"data").unwrap();
    let open = top.lookup(&root(), name("file")).unwrap().vnode.open(&root(), OpenFlags::READ).unwrap();
    for branch in &branches {
        break_with(branch, &[("error", "EIO")]);
        let mut data = [0; 4];
        for _ in 0..200 {
            assert_eq!(open.read_at(&root(), 0, &mut data), Ok(4));
            assert_eq!(&data, b"data");
            assert_eq!(read(&top, "file").unwrap(), b"data");
        }
        break_with(branch, &[]);
    }
    assert!(write(&top, "later", b"x").is_ok());
    assert_eq!(read(&branches[0].root(), "later").unwrap(), read(&branches[1].root(), "later").unwrap());
}

#[test]
fn lack_of_descriptors_for_a_moment_makes_no_branch_fail() {
    let branches = [breakable(), breakable()];
    let top = mirror_of(&branches).unwrap().root();
    break_with(&branches[1], &[("operations", "create"), ("error", "EMFILE"), ("times", "3")]);
    write(&top, "file", b"data").unwrap();
    assert_eq!(read(&branches[1].root(), "file").unwrap(), b"data");
}

#[test]
fn lack_of_descriptors_while_names_are_stored_makes_no_branch_fail() {
    for (broken, expected) in [(0, Err(Errno::EMFILE)), (1, Ok(()))] {
        let branches = [breakable(), breakable()];
        let top = mirror_of(&branches).unwrap().root();
        let open = top.open_directory(&root()).unwrap();
        break_with(&branches[broken], &[("operations", "opendir"), ("error", "EMFILE"), ("times", "3")]);
        assert_eq!(open.fsync(&root(), false), expected, "{broken}");
        break_with(&branches[broken], &[]);
        write(&top, "later", b"x").unwrap();
        assert_eq!(read(&branches[broken].root(), "later").unwrap(), b"x");
    }
}

#[test]
fn lack_of_descriptors_that_lasts_makes_no_branch_fail() {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    let exclusive = Creation { flags: how.flags.with(OpenFlags::EXCLUSIVE), ..how };
    let truncate = |top: &VnodeRef, flags: OpenFlags| {
        let file = top.lookup(&root(), name("file"))?.vnode;
        file.open(&root(), flags.with(OpenFlags::TRUNCATE)).map(drop)
    };
    type Open<'a> = &'a dyn Fn(&VnodeRef) -> Result<()>;
    let opens: [(&str, Open<'_>); 6] = [
        ("create", &|top| top.create(&root(), name("new"), &how).map(drop)),
        ("create", &|top| top.create(&root(), name("new"), &exclusive).map(drop)),
        ("create", &|top| top.create(&root(), name("file"), &how).map(drop)),
        ("tmpfile", &|top| top.tmpfile(&root(), &how).map(drop)),
        ("open", &|top| truncate(top, OpenFlags::WRITE)),
        ("open", &|top| truncate(top, OpenFlags::READ)),
    ];
    for (operation, open) in opens {
        let branches = [breakable(), breakable()];
        let top = mirror_of(&branches).unwrap().root();
        write(&top, "file", b"data").unwrap();
        break_with(&branches[1], &[("operations", operation), ("error", "EMFILE")]);
        assert_eq!(open(&top), Err(Errno::EMFILE), "{operation}");
        break_with(&branches[1], &[]);
        write(&top, "later", b"x").unwrap();
        assert_same(&branches);
        assert_eq!(read(&branches[1].root(), "file").unwrap(), b"data", "{operation}");
    }
}

#[test]
fn reading_a_changed_file_changes_the_access_time_that_is_shown() {
    let branches = [breakable(), breakable()];
    // The second answers faster.
    break_with(&branches[0], &[("delay", "1")]);
    let top = mirror_of(&branches).unwrap().root();
    write(&top, "file", b"data").unwrap();
    let file = top.lookup(&root(), name("file")).unwrap().vnode;
    let open = file.open(&root(), OpenFlags::READ).unwrap();
    let old = SetTime::To(Timestamp { seconds: 1_000_000_000, nanoseconds: 0 });
    for _ in 0..100 {
        let changes = SetAttributes { atime: Some(old), mtime: Some(old), ..SetAttributes::default() };
        file.setattr(&root(), &changes).unwrap();
        assert_eq!(open.read_at(&root(), 0, &mut [0; 4]), Ok(4));
        assert!(file.getattr(&root()).unwrap().atime.seconds > 1_000_000_000);
        assert_eq!(open.read_at(&root(), 0, &mut [0; 4]), Ok(4));
    }
}

#[test]
fn what_is_shown_of_a_change_in_progress_can_be_read() {
    let branches = [breakable(), breakable()];
    // The second answers faster, but takes its time to change anything.
    break_with(&branches[0], &[("delay", "1"), ("operations", "read")]);
    break_with(&branches[1], &[("delay", "500"), ("operations", "write:truncate")]);
    let top = mirror_of(&branches).unwrap().root();
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    let file = top.create(&root(), name("file"), &how).unwrap();
    let (vnode, file) = (file.entry.vnode, file.file);
    for _ in 0..10 {
        assert_eq!(file.read_at(&root(), 0, &mut [0; 4]), Ok(0));
    }
    let wait_for = |size| {
        let end = Instant::now() + Duration::from_secs(10);
        while vnode.getattr(&root()).unwrap().size != size {
            assert!(Instant::now() < end, "the change does not begin");
        }
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| file.write_at(&root(), 0, b"data"));
        wait_for(4);
        for _ in 0..10 {
            assert_eq!(file.read_at(&root(), 0, &mut [0; 5]), Ok(4));
        }
        assert!(!writer.is_finished());
        assert_eq!(writer.join().unwrap(), Ok(4));
        let cutter = scope.spawn(|| file.truncate(&root(), 1));
        wait_for(1);
        for _ in 0..10 {
            assert_eq!(file.read_at(&root(), 0, &mut [0; 5]), Ok(1));
        }
        assert!(!cutter.is_finished());
    });
}

#[test]
fn a_file_that_cannot_be_opened_in_all_branches_is_opened_in_none() {
    let (read_only, both) = (OpenFlags::READ, OpenFlags::READ_WRITE);
    for (broken, flags) in [(0, both), (1, both), (0, read_only), (1, read_only)] {
        let branches = [breakable(), breakable()];
        let top = mirror_of(&branches).unwrap().root();
        write(&top, "file", b"data").unwrap();
        let file = top.lookup(&root(), name("file")).unwrap().vnode;
        break_with(&branches[broken], &[("operations", "open"), ("error", "EMFILE")]);
        assert_eq!(file.open(&root(), flags).err(), Some(Errno::EMFILE), "{broken} {flags:?}");
        break_with(&branches[broken], &[]);
        write(&top, "later", b"x").unwrap();
        assert_same(&branches);
    }
}

#[test]
fn a_file_is_truncated_in_all_branches_however_it_is_opened() {
    let branches = [memory(), memory()];
    let top = mirror_of(&branches).unwrap().root();
    for access in [OpenFlags::READ, OpenFlags::WRITE, OpenFlags::READ_WRITE] {
        write(&top, "file", b"data").unwrap();
        let file = top.lookup(&root(), name("file")).unwrap().vnode;
        drop(file.open(&root(), access.with(OpenFlags::TRUNCATE)).unwrap());
        assert_same(&branches);
    }
}

#[test]
fn a_branch_that_cannot_store_what_was_written_is_left_out() {
    for (broken, operations) in [(0, "fsync"), (1, "fsync"), (0, "flush")] {
        let branches = [breakable(), breakable()];
        let top = mirror_of(&branches).unwrap().root();
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        let file = top.create(&root(), name("file"), &how).unwrap().file;
        file.write_at(&root(), 0, b"data").unwrap();
        break_with(&branches[broken], &[("operations", operations), ("error", "ENOSPC")]);
        match operations {
            "fsync" => file.fsync(&root(), false).unwrap(),
            _ => file.flush(&root(), &vnode::LockOwner::Number(1)).unwrap(),
        }
        break_with(&branches[broken], &[]);
        write(&top, "later", b"x").unwrap();
        assert_eq!(read(&branches[broken].root(), "later").err(), Some(Errno::ENOENT), "{operations} {broken}");
        assert_eq!(read(&branches[1 - broken].root(), "later").unwrap(), b"x");
    }
}

#[test]
fn what_was_written_is_stored_where_the_reader_could_not_open_the_file() {
    let branches = [breakable(), breakable()];
    let top = mirror_of(&branches).unwrap().root();
    write(&top, "file", b"data").unwrap();
    break_with(&branches[1], &[("operations", "open"), ("error", "EIO")]);
    let file = top.lookup(&root(), name("file")).unwrap().vnode.open(&root(), OpenFlags::READ).unwrap();
    break_with(&branches[1], &[("operations", "fsync"), ("error", "EIO")]);
    file.fsync(&root(), false).unwrap();
    break_with(&branches[1], &[]);
    write(&top, "later", b"x").unwrap();
    assert_eq!(read(&branches[1].root(), "later").err(), Some(Errno::ENOENT), "it was asked, and failed");
}

#[test]
fn data_that_is_appended_again_for_lack_of_memory_is_there_once() {
    let faulty = |rule: &[(&str, &str)], lower| {
        let rule: Vec<_> = rule.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        layers::kind("faulty").unwrap().stack(&rule, lower).unwrap()
    };
    let short = faulty(&[("operations", "write"), ("short", "2"), ("times", "1")], memory());
    let lacking = faulty(&[("operations", "write"), ("from", "2"), ("times", "1"), ("error", "ENOMEM")], short);
    let branches = [memory(), lacking];
    let top = mirror_of(&branches).unwrap().root();
    let how = Creation { mode: 0o644, flags: OpenFlags::WRITE.with(OpenFlags::APPEND) };
    let file = top.create(&root(), name("file"), &how).unwrap().file;
    assert_eq!(file.write_at(&root(), 0, b"data"), Ok(4));
    assert_eq!(file.write_at(&root(), 0, b"more"), Ok(4));
    assert_eq!(read(&branches[1].root(), "file").unwrap(), b"datamore");
    assert_same(&branches);
}

#[test]
fn an_open_directory_lists_no_branch_that_has_failed() {
    let branches = [breakable(), breakable()];
    let top = mirror_of(&branches).unwrap().root();
    write(&top, "before", b"1").unwrap();
    let open = top.open_directory(&root()).unwrap();
    let list = |from: Cookie| {
        let mut listed = Vec::new();
        let collect = &mut |entry: vnode::DirectoryEntry<'_>| {
            listed.push((entry.name.as_bytes().to_vec(), entry.ino, entry.cookie));
            std::ops::ControlFlow::Continue(())
        };
        open.read(&root(), from, collect).map(|()| listed)
    };
    let position = list(Cookie::START).unwrap()[0].2;
    break_with(&branches[0], &[("operations", "mkdir"), ("error", "EIO")]);
    top.mkdir(&root(), name("d"), 0o755).unwrap();
    break_with(&branches[0], &[]);
    assert_eq!(list(position).err(), Some(Errno::ESTALE), "positions are a branch's own");
    let listed = list(Cookie::START).unwrap();
    assert_eq!(listed.len(), 2);
    for (text, number, _) in listed {
        let found = top.lookup(&root(), Name::new(&text).unwrap()).unwrap();
        assert_eq!(found.attributes.ino, number);
    }
}

#[test]
fn a_killed_caller_makes_no_branch_fail_that_stores() {
    let steps = Arc::new(Steps::default());
    let stepwise = || -> FileSystemRef { vnode::layer::stack(Stepwise(Arc::clone(&steps)), memory()) };
    let branches = [stepwise(), stepwise()];
    let top = mirror_of(&branches).unwrap().root();
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    let file = top.create(&root(), name("file"), &how).unwrap().file;
    let directory = top.open_directory(&root()).unwrap();
    type Store<'a> = &'a dyn Fn(&Caller) -> Result<()>;
    let stores: [(&str, Store<'_>); 3] = [
        ("flush", &|caller| file.flush(caller, &vnode::LockOwner::Number(1))),
        ("fsync", &|caller| file.fsync(caller, false)),
        ("fsync of a directory", &|caller| directory.fsync(caller, false)),
    ];
    for (operation, store) in stores {
        let mut results = Vec::new();
        for step in 1.. {
            let (result, has_step) = steps.run(step, store);
            results.push(result);
            let later = format!("{operation} {step}");
            write(&top, &later, b"x").unwrap();
            assert_eq!(read(&branches[0].root(), &later).unwrap(), b"x", "{later}");
            assert_eq!(read(&branches[1].root(), &later).unwrap(), b"x", "{later}");
            if !has_step {
                break;
            }
        }
        assert!(results.len() > 2, "{operation} has a step in each branch");
        assert!(results[0] == Err(Errno::EINTR) && results[1..].contains(&Ok(())), "{operation}: {results:?}");
    }
}

#[test]
fn names_are_stored_in_all_branches() {
    let branches = [breakable(), breakable()];
    let top = mirror_of(&branches).unwrap().root();
    write(&top, "file", b"data").unwrap();
    let open = top.open_directory(&root()).unwrap();
    break_with(&branches[1], &[("operations", "opendir:fsync"), ("error", "EIO")]);
    open.fsync(&root(), false).unwrap();
    break_with(&branches[1], &[]);
    write(&top, "later", b"x").unwrap();
    assert_eq!(read(&branches[1].root(), "later").err(), Some(Errno::ENOENT), "it was asked, and failed");
}

#[test]
fn the_last_branch_goes_on_and_names_those_that_failed() {
    let branches = [breakable(), breakable(), breakable()];
    let mirror = mirror_of(&branches).unwrap();
    let top = mirror.root();
    for broken in [1, 2] {
        break_with(&branches[broken], &[("operations", "mkdir"), ("error", "ENOSPC")]);
        top.mkdir(&root(), name(&format!("d{broken}")), 0o755).unwrap();
        break_with(&branches[broken], &[]);
    }
    break_with(&branches[0], &[("operations", "mkdir"), ("error", "EIO")]);
    assert_eq!(top.mkdir(&root(), name("d"), 0o755).err(), Some(Errno::EIO));
    break_with(&branches[0], &[]);
    write(&top, "later", b"x").unwrap();
    assert_eq!(read(&branches[0].root(), "later").unwrap(), b"x");
    let behind = |branch: usize| branches[branch].root().getxattr(&root(), b"user.plyfs.mirror.behind").unwrap();
    assert_eq!(behind(0), b"branch1\nbranch2\n");
    assert_eq!(behind(2), b"branch1\n", "a failed branch is no evidence against others");
}

#[test]
fn copies_are_the_same_in_branches_that_copy_differently() {
    let encoded = || layers::kind("rot13").unwrap().stack(&[], memory()).unwrap();
    for branches in [[memory(), encoded()], [encoded(), memory()]] {
        let top = mirror_of(&branches).unwrap().root();
        let data: Vec<u8> = (0..300_000_u32).map(|index| index as u8).collect();
        write(&top, "from", &data).unwrap();
        let from = top.lookup(&root(), name("from")).unwrap().vnode.open(&root(), OpenFlags::READ).unwrap();
        let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
        let to = top.create(&root(), name("to"), &how).unwrap().file;
        let copy = |done| from.copy_range(&root(), done as u64, &to, done as u64, (data.len() - done) as u64);
        let copied = vnode::transfer_fully(data.len(), |done| copy(done).map(|count| count as usize));
        assert_eq!(copied, Ok(data.len()));
        assert_same(&branches);
        write(&top, "later", b"x").unwrap();
        assert_eq!(read(&branches[1].root(), "later").unwrap(), b"x", "no branch has failed");
    }
}

#[test]
fn a_branch_that_is_not_to_be_written_is_refused() {
    let branch =
        |mode| Branch { file_system: memory(), mode: Some(mode), label: format!("{mode}"), minimum_free: None };
    let branches = vec![branch(layers::BranchMode::ReadWrite), branch(layers::BranchMode::ReadOnly)];
    let refused = mirror::KIND.join(&[], branches, None).err().unwrap().to_string();
    assert!(refused.contains("all branches of a mirror are written"), "{refused}");
}

#[test]
fn a_mirror_is_no_branch_of_another_whose_record_it_could_not_have() {
    let inner = mirror_of(&[memory(), memory()]).unwrap();
    let refused = mirror_of(&[memory(), inner]).err().unwrap();
    assert!(refused.contains("cannot use the branch branch1"), "{refused}");
}

/// One of many callers, which all work on the same few names.
fn work(top: &VnodeRef, seed: u64, names: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let root = root();
    let names: Vec<String> = (0..names).map(|number| format!("n{number}")).collect();
    for step in 0..300_u32 {
        let mut pick = || name(&names[random.usize(..names.len())]);
        let (one, other) = (pick(), pick());
        let directory = match top.lookup(&root, one) {
            Ok(found) if found.vnode.kind() == FileKind::Directory && random.bool() => found.vnode,
            _ => Arc::clone(top),
        };
        // Most fail: the names are there or not, of another kind, or not empty.
        match random.u8(..9) {
            0 => drop(directory.mkdir(&root, one, 0o755)),
            1 => drop(write(&directory, &names[random.usize(..names.len())], &step.to_ne_bytes())),
            2 => drop(directory.unlink(&root, one)),
            3 => drop(directory.rmdir(&root, one)),
            4 => drop(directory.rename(&root, one, top, other, RenameMode::Replace)),
            5 => drop(top.rename(&root, one, &directory, other, RenameMode::Exchange)),
            6 => drop(top.lookup(&root, one).and_then(|found| directory.link(&root, &found.vnode, other))),
            7 => drop(top.lookup(&root, one).and_then(|found| {
                let flags = if random.bool() { OpenFlags::WRITE.with(OpenFlags::APPEND) } else { OpenFlags::WRITE };
                let file = found.vnode.open(&root, flags)?;
                file.write_at(&root, random.u64(..64), &step.to_ne_bytes())
            })),
            _ => drop(top.lookup(&root, one).and_then(|found| {
                let mode = Some(u32::from(random.u16(..0o777)) | 0o700);
                found.vnode.setattr(&root, &SetAttributes { mode, ..SetAttributes::default() })
            })),
        }
    }
}

#[test]
fn concurrent_changes_are_made_in_one_order_in_all_branches() {
    let seed = std::env::var("PLYFS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("PLYFS_TEST_SEED={seed}");
    for names in [2, 3, 6] {
        // All are late at times, so that changes could overtake each other between them.
        let branches = [breakable(), breakable()];
        for (branch, chance) in branches.iter().zip(["10", "40"]) {
            break_with(branch, &[("chance", chance), ("delay", "1"), ("seed", &seed.to_string())]);
        }
        let top = mirror_of(&branches).unwrap().root();
        thread::scope(|scope| {
            for thread in 0..8 {
                let top = &top;
                scope.spawn(move || work(top, seed.wrapping_add(thread), names));
            }
        });
        branches.iter().for_each(|branch| break_with(branch, &[]));
        assert_same(&branches);
        write(&top, "last", b"x").unwrap();
        assert_eq!(read(&branches[1].root(), "last").unwrap(), b"x", "no branch has failed");
    }
}

//! The base run by a user: it acts as that user, whoever calls. And by the root of a user namespace: for whoever is there.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plyfs_bases::dir::{DirectoryFileSystem, OpenError, Options};
use vnode::{Errno, FileSystem, OpenFlags, RenameMode, SetAttributes};

use crate::fixture::{Fixture, content, create_file, creation, entries, name, root, user};

/// Runs `test` in a thread that is a user's, with no capabilities.
fn as_user(uid: u32, test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rustix::thread::set_thread_groups(&[]).unwrap();
            let gid = Some(rustix::fs::Gid::from_raw(uid));
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            let uid = Some(rustix::fs::Uid::from_raw(uid));
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            test();
        });
    });
}

#[test]
fn a_users_base_acts_as_the_user() {
    Fixture::each(|fixture| {
        std::fs::write(fixture.path.join("roots"), "x").unwrap();
        std::fs::set_permissions(fixture.path.join("roots"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let path = fixture.path.clone();
        as_user(1_000, move || {
            let file_system = DirectoryFileSystem::open(&path, Options::default()).unwrap();
            assert!(!file_system.properties().promises.checks_credentials);
            let top = file_system.root();
            let roots = top.lookup(&root(), name("roots")).unwrap().vnode;
            assert_eq!(roots.open(&root(), OpenFlags::READ).err(), Some(Errno::EACCES));
            let (file, open) = create_file(&top, &user(5, &[]), "f", 0o666, b"own");
            assert_eq!(std::fs::metadata(path.join("f")).unwrap().uid(), 1_000);
            assert_eq!(file.getattr(&root()).unwrap().mode, 0o644);
            drop(open);
            let directory = top.mkdir(&root(), name("d"), 0o755).unwrap().vnode;
            top.rename(&root(), name("f"), &directory, name("g"), RenameMode::Replace).unwrap();
            assert_eq!(content(&file.open(&root(), OpenFlags::READ).unwrap()), b"own");
            assert_eq!(file.path(), Ok(b"d/g".to_vec()));
            let mode = SetAttributes { mode: Some(0o600), size: Some(1), ..Default::default() };
            assert_eq!(file.setattr(&root(), &mode).unwrap().size, 1);
            let owner = SetAttributes { uid: Some(0), mode: Some(0o644), ..Default::default() };
            assert_eq!(file.setattr(&root(), &owner).err(), Some(Errno::EPERM));
            assert_eq!(file.getattr(&root()).unwrap().mode, 0o600);
            let link = top.symlink(&root(), name("s"), b"nowhere").unwrap().vnode;
            top.link(&root(), &link, name("s2")).unwrap();
            directory.unlink(&root(), name("g")).unwrap();
            assert_eq!(file.getattr(&root()).unwrap().nlink, 0);
            assert_eq!(content(&file.open(&root(), OpenFlags::READ).unwrap()), b"o");
            assert_eq!(entries(&directory), []);
        });
    });
}

#[test]
fn open_error_names_the_remedy() {
    Fixture::each(|fixture| {
        let open = |path: &Path| DirectoryFileSystem::open(path, Options::default()).err();
        let missing = fixture.path.join("missing");
        assert_eq!(open(&missing), Some(OpenError::Missing(missing.clone())));
        std::fs::write(fixture.path.join("file"), "").unwrap();
        let file = fixture.path.join("file");
        assert_eq!(open(&file), Some(OpenError::NotADirectory(file.clone())));
        assert!(open(&missing).unwrap().to_string().contains("create it"));
        let closed = fixture.path.join("closed");
        std::fs::create_dir_all(closed.join("below")).unwrap();
        std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let below = closed.join("below");
        as_user(1_000, move || {
            let error = DirectoryFileSystem::open(&below, Options::default()).err();
            assert_eq!(error, Some(OpenError::NoPermission(below)));
        });
    });
}

#[test]
fn exclusive_creation_works_unprivileged() {
    Fixture::each(|fixture| {
        let path = fixture.path.clone();
        as_user(1_000, move || {
            let top = DirectoryFileSystem::open(&path, Options::default()).unwrap().root();
            create_file(&top, &root(), "f", 0o600, b"x");
            assert_eq!(top.create(&root(), name("f"), &creation(0o600)).err(), Some(Errno::EEXIST));
        });
    });
}

/// The directory to serve, for this program in a namespace.
const SERVED: &str = "PLYFS_TEST_SERVED";

/// As in the namespaces that users make for themselves (user_namespaces(7)), but with several users in it.
#[test]
fn the_root_of_a_namespace_without_changes_of_groups_acts_for_its_users() {
    if let Some(served) = std::env::var_os(SERVED) {
        return act_for_users(&PathBuf::from(served));
    }
    Fixture::each(|fixture| {
        let test = "unprivileged::the_root_of_a_namespace_without_changes_of_groups_acts_for_its_users";
        let begin = "read begin && exec \"$0\" --exact \"$1\" --nocapture";
        let mut command = Command::new("unshare");
        command.args(["--user", "--setgroups", "deny", "sh", "-c", begin]).arg(std::env::current_exe().unwrap());
        command.arg(test).env(SERVED, &fixture.path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let file = |name: &str| format!("/proc/{}/{name}", process.id());
        let deadline = Instant::now() + Duration::from_secs(30);
        while std::fs::read_to_string(file("setgroups")).unwrap() != "deny\n" {
            assert!(Instant::now() < deadline, "the namespace is not made");
            std::thread::sleep(Duration::from_millis(5));
        }
        for map in ["uid_map", "gid_map"] {
            std::fs::write(file(map), "0 0 70000\n").unwrap();
        }
        process.stdin.take().unwrap().write_all(b"begin\n").unwrap();
        let ended = process.wait_with_output().unwrap();
        assert!(ended.status.success(), "on {}: {}", fixture.label, String::from_utf8_lossy(&ended.stdout));
    });
}

fn act_for_users(served: &Path) {
    let file_system = DirectoryFileSystem::open(served, Options::default()).unwrap();
    assert!(file_system.properties().promises.checks_credentials);
    let (owner, stranger, top) = (user(1_000, &[7]), user(1_001, &[]), file_system.root());
    let (file, _) = create_file(&top, &owner, "owned", 0o600, b"x");
    let attributes = file.getattr(&owner).unwrap();
    assert_eq!((attributes.uid, attributes.gid), (1_000, 1_000));
    assert_eq!(file.open(&stranger, OpenFlags::READ).err(), Some(Errno::EACCES));
    assert!(file.open(&root(), OpenFlags::READ).is_ok());
}

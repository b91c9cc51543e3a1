//! Mounts that let others in without the kernel's checking permissions, and rules of a stack where the front end acts as the server.

mod support;

use plyfs_frontends::fuse::MountOptions;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use support::{Mounted, as_user, copy_program, mount_directory, mount_with};
use vnode::layer::{Layer, LayerVnode, Operation};
use vnode::{AccessControl, Caller, Errno, Needs, Promises, Result, Vnode};

fn unchecked() -> Option<(Mounted, tempfile::TempDir)> {
    mount_directory(MountOptions { default_permissions: Some(false), over: true, ..MountOptions::default() })
}

fn open_as(uid: u32, path: &Path) -> bool {
    let program = "import os, socket, stat, sys\n\
                   path = sys.argv[1]\n\
                   if stat.S_ISSOCK(os.stat(path).st_mode): socket.socket(socket.AF_UNIX).connect(path)\n\
                   else: os.open(path, os.O_RDWR | os.O_NONBLOCK)";
    as_user(uid, &format!("python3 -c '{program}' {}", path.display()))
}

/// By whichever reply the kernel learns the name.
#[test]
fn new_file_is_opened_by_permitted_callers() {
    let Some((mounted, _lower)) = unchecked() else { return };
    let path = |name: &str| mounted.path(name);
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, path("pipe"), FileType::Fifo, mode, 0).unwrap();
    mknodat(CWD, path("device"), FileType::CharacterDevice, mode, rustix::fs::makedev(1, 3)).unwrap();
    // Made, linked, and moved: there is no look-up by others before.
    let listener = UnixListener::bind(path("socket")).unwrap();
    fs::hard_link(path("pipe"), path("linked")).unwrap();
    for name in ["pipe", "linked", "socket"] {
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o600)).unwrap();
        assert!(open_as(0, &path(name)) && !open_as(1234, &path(name)), "{name}");
    }
    fs::rename(path("linked"), path("moved")).unwrap();
    assert!(!open_as(1234, &path("moved")));
    assert!(!open_as(1234, &path("device")));
    chown(path("pipe"), Some(1234), Some(1234)).unwrap();
    assert!(open_as(1234, &path("pipe")));
    drop(listener);
}

/// A symlink of somebody else's in a directory such as `/tmp`, however it came there.
#[test]
fn symlinks_of_others_in_sticky_directories_are_not_followed() {
    let Some((mounted, _lower)) = unchecked() else { return };
    if fs::read("/proc/sys/fs/protected_symlinks").is_ok_and(|switch| switch.starts_with(b"0")) {
        eprintln!("skipped: symlinks are not protected here (sysctl fs.protected_symlinks=1 has them be)");
        return;
    }
    let path = |name: &str| mounted.path(name);
    for (name, mode) in [("sticky", 0o1777), ("open", 0o777), ("later", 0o777)] {
        fs::create_dir(path(name)).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(path("target"), b"target").unwrap();
    let make = |name: &str| assert!(as_user(1234, &format!("ln -s ../target {}", path(name).display())), "{name}");
    let may_follow = |uid, name: &str| as_user(uid, &format!("cat {}", path(name).display()));
    ["sticky/made", "open/moved", "open/linked", "later/there"].into_iter().for_each(make);
    assert!(may_follow(1235, "open/moved") && may_follow(1235, "open/linked") && may_follow(1235, "later/there"));
    fs::rename(path("open/moved"), path("sticky/moved")).unwrap();
    fs::hard_link(path("open/linked"), path("sticky/linked")).unwrap();
    fs::set_permissions(path("later"), fs::Permissions::from_mode(0o1777)).unwrap();
    // The kernel is made to look it up again after the reply.
    std::thread::sleep(std::time::Duration::from_millis(100));
    for name in ["sticky/made", "sticky/moved", "sticky/linked", "later/there"] {
        assert!(!may_follow(1235, name) && may_follow(1234, name), "{name}");
    }
    symlink("../target", path("sticky/of the owner")).unwrap();
    assert!(as_user(1235, &format!("cat '{}'", path("sticky/of the owner").display())));
}

/// The kernel would let them look into the memory of the process.
#[test]
fn unreadable_program_is_not_executed_without_kernel_checks() {
    let Some((mounted, _lower)) = unchecked() else { return };
    let path = mounted.path("program");
    copy_program("/bin/true", &path);
    for (mode, may) in [(0o711, false), (0o755, true), (0o744, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(as_user(1234, path.to_str().unwrap()), may, "{mode:o}");
        assert!(as_user(0, path.to_str().unwrap()), "{mode:o}");
    }
}

/// Refuses to all but the server's own work what is done to files by these operations.
struct Refusing(&'static [&'static str]);

impl Layer for Refusing {
    type State = ();

    fn kind(&self) -> &'static str {
        "refusing"
    }

    fn promises(&self) -> Promises {
        Promises { access_control: AccessControl::OpenAsShown, ..Promises::TRANSPARENT }
    }

    fn admit(&self, node: &LayerVnode<Self>, caller: &Caller, operation: &Operation<'_>) -> Result<()> {
        let is_refused = node.kind() == vnode::FileKind::Regular && self.0.contains(&operation.name());
        if is_refused && !caller.is_server_alone() { Err(Errno::EPERM) } else { Ok(()) }
    }
}

fn refusing(operations: &'static [&'static str], options: MountOptions) -> Option<(Mounted, tempfile::TempDir)> {
    let lower = tempfile::tempdir().unwrap();
    fs::set_permissions(lower.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let base = bases::dir::DirectoryFileSystem::open(lower.path(), bases::dir::Options::default()).unwrap();
    copy_program("/bin/true", lower.path().join("program"));
    Some((mount_with(vnode::layer::stack(Refusing(operations), Arc::new(base)), options)?, lower))
}

#[test]
fn stack_decides_who_executes() {
    let Some((mounted, _lower)) = refusing(&["open"], MountOptions::default()) else { return };
    for uid in [0, 1234] {
        assert!(!as_user(uid, mounted.path("program").to_str().unwrap()));
    }
}

#[test]
fn stack_decides_who_removes_capabilities() {
    let Some((mounted, lower)) = refusing(&["removexattr"], MountOptions::default()) else { return };
    let name = "security.capability";
    let value: Vec<u8> = [0x0200_0001_u32, 1 << 13, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let program = lower.path().join("program");
    let set = || rustix::fs::setxattr(&program, name, &value, rustix::fs::XattrFlags::empty()).unwrap();
    let has = || rustix::fs::getxattr(&program, name, &mut [0; 64][..]).is_ok();
    set();
    let removed = rustix::fs::removexattr(mounted.path("program"), name);
    assert_eq!(removed, Err(rustix::io::Errno::PERM));
    assert!(has());
    // Whoever may write takes them away by that.
    assert!(as_user(0, &format!("printf x >> {}", mounted.path("program").display())) && !has());
}

#[test]
fn stack_decides_who_sets_times_with_the_writeback_cache() {
    let options = MountOptions { write_back: true, over: true, ..MountOptions::default() };
    let Some((mounted, lower)) = refusing(&["setattr"], options) else { return };
    let program = lower.path().join("program");
    let before = fs::metadata(&program).unwrap().mtime();
    for touch in ["touch -d 2001-01-01", "touch -a -d 2001-01-01"] {
        assert!(!as_user(0, &format!("{touch} {}", mounted.path("program").display())), "{touch}");
    }
    assert_eq!(fs::metadata(&program).unwrap().mtime(), before);
    // What is written late comes with times of the kernel's.
    assert!(as_user(0, &format!("printf x >> {}", mounted.path("program").display())));
    let file = File::options().append(true).open(mounted.path("program")).unwrap();
    std::io::Write::write_all(&mut &file, b"y").unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert!(fs::read(&program).unwrap().ends_with(b"xy"));
}

/// A layer whose close reports a write error.
struct Losing;

impl Layer for Losing {
    type State = ();

    fn kind(&self) -> &'static str {
        "losing"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn needs(&self) -> Needs {
        Needs { every_close: true, every_data_operation: true, ..Needs::NONE }
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        if matches!(operation, Operation::Flush) { Err(Errno::EIO) } else { Ok(()) }
    }
}

#[test]
fn close_reports_write_errors_in_every_mode() {
    let lower_options = MountOptions::default();
    let lower = tempfile::tempdir().unwrap();
    let base = bases::dir::DirectoryFileSystem::open(lower.path(), bases::dir::Options::default()).unwrap();
    let Some(losing) = mount_with(vnode::layer::stack(Losing, Arc::new(base)), lower_options) else { return };
    for (over, passthrough, forward_locks) in
        [(false, true, None), (false, false, None), (false, true, Some(false)), (true, true, None), (true, false, None)]
    {
        let base = bases::dir::DirectoryFileSystem::open(losing.mount.mount_point(), bases::dir::Options::default());
        let options = MountOptions { over, passthrough, forward_locks, ..MountOptions::default() };
        let Some(mounted) = mount_with(Arc::new(base.unwrap()), options) else { return };
        let path = mounted.path("file");
        let program =
            "import os, sys\nfd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\nos.write(fd, b\"x\")\nos.close(fd)";
        assert!(
            !as_user(0, &format!("python3 -c '{program}' {}", path.display())),
            "{over} {passthrough} {forward_locks:?}"
        );
    }
}

#[test]
fn write_by_others_to_a_file_opened_by_root_clears_set_id_bits() {
    let Some((mounted, _lower)) = mount_directory(MountOptions::default()) else { return };
    let path = mounted.path("program");
    fs::write(&path, b"old").unwrap();
    for reads_first in [false, true] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        let reader = reads_first.then(|| File::open(&path).unwrap());
        let command = format!("exec 3>>{}; setpriv --reuid 1234 --clear-groups sh -c 'printf x >&3'", path.display());
        assert!(as_user(0, &command));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
        drop(reader);
    }
}

#[test]
fn file_without_passthrough_does_not_disable_it_for_others() {
    let Some((mounted, lower)) = mount_directory(MountOptions::default()) else { return };
    for name in ["low", "up", "work", "merged"] {
        fs::create_dir(lower.path().join(name)).unwrap();
    }
    fs::write(lower.path().join("low/file"), b"stacked").unwrap();
    fs::write(lower.path().join("file"), b"plain").unwrap();
    let of = |name: &str| lower.path().join(name).display().to_string();
    let options = format!("lowerdir={},upperdir={},workdir={}", of("low"), of("up"), of("work"));
    let mount =
        std::process::Command::new("mount").args(["-t", "overlay", "none", "-o", &options, &of("merged")]).status();
    if !mount.unwrap().success() {
        eprintln!("skipped: there is no overlayfs here");
        return;
    }
    let stacked = fs::read(mounted.path("merged/file"));
    let before = mounted.requests("READ");
    let plain = fs::read(mounted.path("file")).unwrap();
    let unmounted = std::process::Command::new("umount").args(["-l", &of("merged")]).status();
    assert!(unmounted.unwrap().success());
    assert_eq!((stacked.unwrap(), plain), (b"stacked".to_vec(), b"plain".to_vec()));
    assert_eq!(mounted.requests("READ"), before);
}

//! Mounts inside a mount stay, whatever the kernel is notified of and looks up again.

mod support;

use plyfs_frontends::fuse::MountOptions;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};
use support::{Mounted, NotifierProbe, as_user, memory, mount_with};
use vnode::layer::{Layer, LayerVnode, Operation, stack};
use vnode::{Caller, Creation, Errno, FileSystemRef, Name, Needs, OpenFlags, Promises, Result};

/// A file system in memory, mounted on a directory. Unmounted when dropped.
struct Inner(PathBuf);

impl Inner {
    fn on(directory: PathBuf) -> Inner {
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("none", &directory, "tmpfs", flags, None).unwrap();
        fs::write(directory.join("kept"), b"data").unwrap();
        Inner(directory)
    }

    fn check(&self, after: &str) {
        let kept = fs::read(self.0.join("kept"));
        assert!(kept.is_ok_and(|data| data == b"data"), "{}: detached by {after}", self.0.display());
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// The stack checks permissions, and the kernel keeps names only where everybody may search.
fn unchecked() -> MountOptions {
    MountOptions { default_permissions: Some(false), ..MountOptions::default() }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// An access control list that refuses everything to one user; the mode stays 0755.
fn narrow(path: &Path) {
    let entries: [(u16, u16, u32); 5] =
        [(1, 7, u32::MAX), (2, 0, 1234), (4, 5, u32::MAX), (16, 5, u32::MAX), (32, 5, u32::MAX)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(path, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty()).unwrap();
}

fn make_directories(mounted: &Mounted) {
    for name in ["fresh", "d2", "d2/c", "d3", "private"] {
        fs::create_dir(mounted.path(name)).unwrap();
    }
    set_mode(&mounted.path("private"), 0o700);
    fs::write(mounted.path("d2/c/f"), b"").unwrap();
    fs::write(mounted.path("d3/f"), b"").unwrap();
    // So that the kernel keeps their names.
    assert!(as_user(1234, &format!("ls -lR {}", mounted.path("d2").display())));
    assert!(as_user(1234, &format!("stat {}", mounted.path("d3/f").display())));
}

#[test]
fn changes_elsewhere_keep_inner_mounts() {
    for options in [unchecked(), MountOptions::default()] {
        let Some(mounted) = mount_with(memory(), options) else { return };
        make_directories(&mounted);
        let inner = [Inner::on(mounted.path("fresh")), Inner::on(mounted.path("d2/c"))];
        let assert_settled = |what: &str| {
            assert!(mounted.mount.wait_until_notified(Duration::from_secs(10)), "{what}");
            inner.iter().for_each(|inner| inner.check(what));
        };
        set_mode(&mounted.path("d2"), 0o700);
        assert_settled("chmod");
        set_mode(&mounted.path("d2"), 0o755);
        assert_settled("chmod back");
        std::os::unix::fs::chown(mounted.path("d2"), Some(1234), Some(1234)).unwrap();
        assert_settled("chown");
        narrow(&mounted.path("d2"));
        assert_settled("an access control list");
        fs::rename(mounted.path("d3"), mounted.path("private/d3")).unwrap();
        assert_settled("a rename");
    }
}

#[test]
fn names_are_revalidated_when_search_permission_is_removed() {
    let Some(mounted) = mount_with(memory(), unchecked()) else { return };
    make_directories(&mounted);
    let refused = |name: &str| {
        let started = Instant::now();
        let stat = format!("stat {}", mounted.path(name).display());
        while as_user(1234, &stat) {
            assert!(started.elapsed() < Duration::from_secs(5), "{name} is still open");
        }
    };
    set_mode(&mounted.path("d2"), 0o700);
    refused("d2/c");
    refused("d2/c/f");
    fs::rename(mounted.path("d3"), mounted.path("private/d3")).unwrap();
    refused("private/d3");
    refused("private/d3/f");
    set_mode(&mounted.path("d2"), 0o755);
    assert!(as_user(1234, &format!("stat {}", mounted.path("d2/c/f").display())));
}

fn create(below: &FileSystemRef, name: &str, data: &[u8]) {
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    let name = Name::new(name.as_bytes()).unwrap();
    let created = below.root().create(&Caller::server(), name, &how).unwrap();
    created.file.write_at(&Caller::server(), 0, data).unwrap();
}

#[test]
fn invalidating_everything_keeps_names_and_inner_mounts() {
    for withheld in ["", "has-expire-only"] {
        let (below, notifier_slot) = (memory(), NotifierProbe::default());
        let withheld = if withheld.is_empty() { Default::default() } else { withheld.parse().unwrap() };
        let options = MountOptions { withheld, ..MountOptions::default() };
        let Some(mounted) = mount_with(stack(notifier_slot.clone(), below.clone()), options) else { return };
        make_directories(&mounted);
        let inner = Inner::on(mounted.path("fresh"));
        for name in ["gone", "replaced", "moved"] {
            fs::write(mounted.path(name), b"old").unwrap();
        }
        fs::rename(mounted.path("moved"), mounted.path("elsewhere")).unwrap();
        fs::metadata(mounted.path("new")).unwrap_err();
        let in_use = fs::File::open(mounted.path("gone")).unwrap();

        let (root, server) = (below.root(), Caller::server());
        for name in ["gone", "replaced", "elsewhere"] {
            root.unlink(&server, Name::new(name.as_bytes()).unwrap()).unwrap();
        }
        create(&below, "replaced", b"another");
        create(&below, "new", b"new");
        if withheld.is_empty() {
            assert!(fs::metadata(mounted.path("gone")).is_ok(), "the kernel keeps no names: this tests nothing");
        }
        notifier_slot.notifier().everything_changed();
        assert!(mounted.mount.wait_until_notified(Duration::from_secs(10)));

        assert!(fs::metadata(mounted.path("gone")).is_err(), "a name that is gone, of a file that is in use");
        assert!(fs::metadata(mounted.path("elsewhere")).is_err(), "a name that had been moved");
        assert_eq!(fs::read(mounted.path("replaced")).unwrap(), b"another");
        assert_eq!(fs::read(mounted.path("new")).unwrap(), b"new");
        inner.check("a change of everything");
        drop(in_use);
    }
}

/// Fails look-ups of a name with an error, while it is asked to.
struct Failing(Arc<AtomicI32>);

impl Layer for Failing {
    type State = ();

    fn kind(&self) -> &'static str {
        "failing"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, ..Needs::NONE }
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        match (operation, self.0.load(Ordering::Relaxed)) {
            (Operation::Lookup(name), errno) if errno != 0 && name.as_bytes() != b"kept" => Err(Errno::new(errno)),
            _ => Ok(()),
        }
    }
}

#[test]
fn failed_lookup_keeps_inner_mounts() {
    let errno = Arc::new(AtomicI32::new(0));
    let Some(mounted) = mount_with(stack(Failing(Arc::clone(&errno)), memory()), MountOptions::default()) else {
        return;
    };
    make_directories(&mounted);
    let inner = [Inner::on(mounted.path("fresh")), Inner::on(mounted.path("d2/c"))];
    for number in [libc::EIO, libc::EMFILE, libc::ENFILE, libc::EINTR, libc::ENOMEM, libc::ETIMEDOUT, libc::EACCES] {
        errno.store(number, Ordering::Relaxed);
        for name in ["fresh", "d2/c", "d2"] {
            let expected = if number == libc::EINTR { libc::EINTR } else { libc::ENOMEM };
            let error = rustix::fs::stat(mounted.path(name)).unwrap_err();
            assert_eq!(error.raw_os_error(), expected, "{name} {number}");
        }
        let is_shortage = [libc::EMFILE, libc::ENFILE].contains(&number);
        let error = rustix::fs::stat(mounted.path("d3")).unwrap_err();
        assert_eq!(error.raw_os_error(), if is_shortage { libc::ENOMEM } else { number }, "nothing is mounted there");
        errno.store(0, Ordering::Relaxed);
        inner.iter().for_each(|inner| inner.check(&format!("error {number}")));
    }
}

#[test]
fn denied_lookup_keeps_inner_mounts() {
    let Some(mounted) = mount_with(memory(), unchecked()) else { return };
    make_directories(&mounted);
    for name in ["private/m", "private/n"] {
        fs::create_dir(mounted.path(name)).unwrap();
    }
    let inner = Inner::on(mounted.path("private/m"));
    for name in ["private/m", "private/m/kept"] {
        assert!(!as_user(1234, &format!("stat {}", mounted.path(name).display())));
        inner.check("a refusal");
    }
    let denied = format!("LC_ALL=C stat {} 2>&1 | grep 'Permission denied'", mounted.path("private/n").display());
    assert!(as_user(1234, &denied), "where nothing is mounted the reason is told");
}

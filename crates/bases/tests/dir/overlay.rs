//! Over an overlay of the kernel's, which copies an object to another layer when it is first changed, with a new time of creation.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plyfs_bases::dir::{DirectoryFileSystem, Options};
use vnode::{FileSystem, OpenFlags, RenameMode, SetAttributes, SetTime, Timestamp, VnodeRef};

use crate::fixture::{Fixture, content, create_file, name, root, run};

/// An overlay, served.
struct Overlay {
    merged: PathBuf,
    file_system: DirectoryFileSystem,
    root: VnodeRef,
}

impl Overlay {
    /// Runs a test on overlays with both layers on one file system of each kind, and with the upper on another one.
    fn each(test: impl Fn(&Overlay)) {
        Fixture::each(|fixture| {
            for has_separate_upper in [false, true] {
                eprintln!("upper layer apart: {has_separate_upper}");
                test(&Self::on(fixture, has_separate_upper));
            }
        });
    }

    fn on(fixture: &Fixture, has_separate_upper: bool) -> Overlay {
        let base = fixture.path.join(if has_separate_upper { "apart" } else { "together" });
        let lower = base.join("lower");
        std::fs::create_dir_all(lower.join("directory")).unwrap();
        for file in ["one", "two", "three", "directory/below"] {
            std::fs::write(lower.join(file), "content").unwrap();
        }
        // Times of creation are told apart by clock ticks.
        std::thread::sleep(Duration::from_millis(50));
        let upper = if has_separate_upper { fixture.mount_below("upper-layer", "tmpfs") } else { base.clone() };
        let (work, upper, merged) = (upper.join("work"), upper.join("upper"), base.join("merged"));
        for directory in [&work, &upper, &merged] {
            std::fs::create_dir(directory).unwrap();
        }
        let [lower, upper, work] = [lower, upper, work].map(|path| path.to_str().unwrap().to_owned());
        let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        run("mount", &["-t", "overlay", "overlay", "-o", &layers, merged.to_str().unwrap()]);
        let file_system = DirectoryFileSystem::open(&merged, Options::default()).unwrap();
        let root = file_system.root();
        Overlay { merged, file_system, root }
    }

    fn lookup(&self, file: &str) -> VnodeRef {
        self.root.lookup(&root(), name(file)).unwrap().vnode
    }
}

fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..Default::default() }
}

#[test]
fn copy_up_by_open_keeps_the_vnode() {
    Overlay::each(|overlay| {
        let vnode = overlay.lookup("one");
        let handle = vnode.handle();
        let file = vnode.open(&root(), OpenFlags::READ_WRITE).unwrap();
        assert_eq!(vnode.setattr(&root(), &mode(0o600)).unwrap().mode, 0o600);
        let owner = SetAttributes { uid: Some(1_000), gid: Some(1_000), ..Default::default() };
        assert_eq!(vnode.setattr(&root(), &owner).unwrap().uid, 1_000);
        let time = SetTime::To(Timestamp { seconds: 7, nanoseconds: 0 });
        let times = SetAttributes { mtime: Some(time), ..Default::default() };
        assert_eq!(vnode.setattr(&root(), &times).unwrap().mtime.seconds, 7);
        assert_eq!(file.write_at(&root(), 0, b"C"), Ok(1));
        assert_eq!(content(&vnode.open(&root(), OpenFlags::READ).unwrap()), b"Content");
        assert!(Arc::ptr_eq(&overlay.lookup("one"), &vnode));
        assert_eq!(vnode.handle(), handle);
        assert!(Arc::ptr_eq(&overlay.file_system.resolve(&root(), &handle).unwrap(), &vnode));
    });
}

#[test]
fn copy_up_by_others_keeps_the_vnode() {
    Overlay::each(|overlay| {
        let vnode = overlay.lookup("one");
        let file = vnode.open(&root(), OpenFlags::READ).unwrap();
        let changed = std::fs::OpenOptions::new().write(true).open(overlay.merged.join("one")).unwrap();
        changed.write_at(b"C", 0).unwrap();
        assert!(Arc::ptr_eq(&overlay.lookup("one"), &vnode));
        assert_eq!(vnode.setattr(&root(), &mode(0o600)).unwrap().mode, 0o600);
        overlay.root.unlink(&root(), name("one")).unwrap();
        assert_eq!(vnode.getattr(&root()).unwrap().nlink, 0);
        assert_eq!(vnode.setattr(&root(), &mode(0o640)).unwrap().mode, 0o640);
        drop(file);
        let other = overlay.lookup("two");
        std::fs::set_permissions(overlay.merged.join("two"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        assert_eq!(other.getattr(&root()).unwrap().mode, 0o600, "found where it was");
    });
}

#[test]
fn copy_up_of_a_directory_keeps_the_vnode() {
    Overlay::each(|overlay| {
        let directory = overlay.lookup("directory");
        let below = directory.lookup(&root(), name("below")).unwrap().vnode;
        std::fs::write(overlay.merged.join("directory/new"), "").unwrap();
        assert!(Arc::ptr_eq(&overlay.lookup("directory"), &directory));
        assert_eq!(directory.setattr(&root(), &mode(0o711)).unwrap().mode, 0o711);
        assert_eq!(below.setattr(&root(), &mode(0o600)).unwrap().mode, 0o600);
    });
}

#[test]
fn copy_up_by_rename_or_link_keeps_the_vnode() {
    Overlay::each(|overlay| {
        let (moved, linked) = (overlay.lookup("one"), overlay.lookup("two"));
        overlay.root.rename(&root(), name("one"), &overlay.root, name("moved"), RenameMode::Replace).unwrap();
        assert!(Arc::ptr_eq(&overlay.lookup("moved"), &moved));
        assert_eq!(moved.setattr(&root(), &mode(0o600)).unwrap().mode, 0o600);
        let link = overlay.root.link(&root(), &linked, name("link")).unwrap();
        assert!(Arc::ptr_eq(&link.vnode, &linked));
        assert_eq!(linked.setattr(&root(), &mode(0o600)).unwrap().mode, 0o600);
    });
}

/// Its number may be the same; what is in the upper layer is not copied any more.
#[test]
fn replacement_of_a_new_object_is_another_object() {
    Overlay::each(|overlay| {
        let (vnode, file) = create_file(&overlay.root, &root(), "new", 0o644, b"x");
        drop(file);
        let path = overlay.merged.join("new");
        let number = std::fs::metadata(&path).unwrap().ino();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "another").unwrap();
        eprintln!("the number is given again: {}", std::fs::metadata(&path).unwrap().ino() == number);
        assert!(!Arc::ptr_eq(&overlay.lookup("new"), &vnode));
        assert!(vnode.setattr(&root(), &mode(0o777)).is_err());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
    });
}

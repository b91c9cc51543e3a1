//! Tools beside mounts of the same image.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Command;

use crate::images::{Image, assert_clean, fat, json};
use crate::support::{Scratch, can_mount, is_mounted, run, umount};

/// A file system in RAM, unmounted when this is dropped.
struct Ram(String);

impl Ram {
    /// Returns `None`, with the reason printed, if it cannot be mounted.
    fn mount(directory: String, size: &str) -> Option<Self> {
        fs::create_dir(&directory).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs", &directory]).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(directory));
        }
        println!("skipped: tmpfs cannot be mounted");
        None
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_mounted_image_is_only_examined() {
    if !can_mount() {
        return;
    }
    let image = Image::with_files();
    let (name, mount) = (image.name.as_str(), image.scratch.name("mount"));
    run(["mount", name, &mount]).succeeded();
    fs::write(image.scratch.path("mount/new"), "text").unwrap();
    for words in
        [&["mkfs", "--force", name][..], &["fsck", name], &["fsck", "-n", name], &["badsect", name], &["tune", name]]
    {
        let refused = fat(words);
        assert!(refused.code == 12 && refused.errors.contains("is in use by another mount"), "{words:?}: {refused:?}");
    }
    fat(&["dump", name]).succeeded();
    let estimate = json(&["tune", "-n", name]);
    assert!(estimate["before"]["chains"].as_u64().unwrap() >= 3, "{estimate}");
    umount(&mount);
    let report = json(&["fsck", "-n", name]);
    // The journal is one of them.
    assert_eq!((&report["found"], &report["files"]), (&0.into(), &4.into()), "{report}");
    assert_clean(name);
    assert_eq!(image.shell("cat /new"), "text");
}

#[test]
fn umount_fails_while_the_mount_is_there_if_something_cannot_be_stored() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let Some(ram) = Ram::mount(scratch.name("ram"), "512k") else { return };
    let (name, mount) = (format!("{}/image", ram.0), scratch.name("mount"));
    fat(&["mkfs", "--size", "16m", "-F", "16", &name]).succeeded();
    // Only what mkfs wrote takes space.
    let sparse = fs::read(&name).unwrap();
    let image = File::create(&name).unwrap();
    image.set_len(sparse.len() as u64).unwrap();
    for (index, page) in sparse.chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|&byte| byte != 0)) {
        image.write_all_at(page, index as u64 * 4096).unwrap();
    }
    drop(image);
    run(["mount", &name, &mount]).succeeded();
    let mut filler = File::create(format!("{}/filler", ram.0)).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}
    File::create(scratch.path("mount/a")).unwrap();
    let refused = run(["umount", &mount]);
    assert!(refused.code == 1 && refused.errors.contains("could not be written to storage"), "{refused:?}");
    assert!(is_mounted(&scratch.mount()));
    assert!(scratch.path("mount/a").exists(), "it can be read");
    let ended = run(["umount", "--lazy", &mount]);
    assert!(ended.code == 0 && ended.errors.contains("could not be written to storage"), "{ended:?}");
    assert!(!is_mounted(&scratch.mount()));
}

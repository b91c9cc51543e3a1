//! Tools beside mounts of the same image.

use std::fs;

use crate::images::{Image, assert_clean, fat, json};
use crate::support::{can_mount, run, umount};

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

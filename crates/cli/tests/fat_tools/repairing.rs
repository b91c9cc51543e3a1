//! fsck: its modes, its questions and its reports.

use crate::images::{Image, assert_clean, fat, fat_on_terminal, json};

/// Makes the chain of `/a` lead back to its second cluster.
fn with_loop() -> Image {
    let image = Image::with_files();
    let first = image.first_cluster("/a");
    image.set_link(first + 5, first as u16 + 1);
    assert_eq!(image.problems(), ["chain-loop"]);
    image
}

#[test]
fn a_sound_file_system_has_no_findings() {
    let image = Image::with_files();
    for mode in [&["-n"][..], &["--dry-run"], &["-p"], &["-a"], &["-y"], &[]] {
        let before = image.contents();
        let text = fat(&[&["fsck"], mode, &[&image.name]].concat()).succeeded();
        assert!(text.starts_with("0 findings, 0 not repaired\n2 files, 1 directories; "), "{text}");
        assert!(image.contents() == before, "{mode:?}");
    }
}

#[test]
fn lost_chains_are_reported_saved_or_freed() {
    for (option, codes) in [("-n", vec!["lost-chain"]), ("-p", vec![]), ("-y", vec![]), ("--lost=free", vec![])] {
        let image = Image::with_files();
        image.set_link(100, 101);
        image.set_link(101, 0xFFFF);
        let before = image.contents();
        let report = json(&["fsck", option, &image.name]);
        assert_eq!(report["findings"][0]["code"], "lost-chain", "{report}");
        assert_eq!(report["findings"][0]["clusters"][0]["first"], 100);
        assert_eq!(image.problems(), codes);
        let names = image.shell("ls /");
        assert_eq!(names.contains("FSCK0000.REC"), ["-p", "-y"].contains(&option), "{names}");
        match option {
            "-n" => {
                let checked = fat(&["fsck", "-n", &image.name]);
                assert_eq!((checked.code, report["fsck_exit_code"].as_u64()), (1, Some(4)));
                assert_eq!(checked.errors, "plyfs: 1 problem found; to repair them, leave -n out\n");
                assert!(image.contents() == before);
            }
            _ => {
                assert_eq!(report["fsck_exit_code"], 1);
                assert_clean(&image.name);
            }
        }
    }
}

#[test]
fn preening_leaves_what_may_lose_something() {
    let image = Image::with_files();
    // An invalid character in the name of `/a`.
    let position = image.contents().windows(11).position(|bytes| bytes == b"A          ").unwrap();
    image.write(position as u64, b"*");
    let preened = fat(&["fsck", "-p", &image.name]);
    assert!(preened.code == 1 && preened.errors.contains("not repaired"), "{preened:?}");
    assert!(preened.output.contains("[name-invalid]; left; repair: rename it"), "{preened:?}");
    let repaired = fat(&["fsck", &image.name]).succeeded();
    assert!(repaired.contains("[name-invalid]; repaired: rename it"), "{repaired}");
    assert_clean(&image.name);
}

#[test]
fn nobody_is_asked_without_a_terminal() {
    let image = with_loop();
    let before = image.contents();
    let left = fat(&["fsck", &image.name]);
    assert!(left.code == 1 && left.output.contains("[chain-loop]") && left.output.contains("; left; "), "{left:?}");
    assert!(image.contents() == before);
    assert_eq!(fat(&["fsck", "-p", &image.name]).code, 1);
    fat(&["fsck", "-y", &image.name]).succeeded();
    assert_eq!(image.problems(), [""; 0]);
    assert_clean(&image.name);
}

#[test]
fn questions_are_asked_on_a_terminal() {
    let image = with_loop();
    let Some((code, shown)) = fat_on_terminal(&["fsck", &image.name], "leave\n") else { return };
    assert!(code == 1 && shown.contains("leave") && shown.contains("cut-this"), "{shown}");
    let (code, shown) = fat_on_terminal(&["fsck", &image.name], "perhaps\ncut-this\n").unwrap();
    assert!(code == 0 && shown.contains("'perhaps' is none of them"), "{shown}");
    assert_eq!(image.problems(), [""; 0]);

    // Two chains that meet.
    let image = Image::with_files();
    let (a, b) = (image.first_cluster("/a"), image.first_cluster("/d/b"));
    image.set_link(b, a as u16 + 1);
    assert_eq!(image.problems(), ["cross-link", "lost-chain"]);
    let (code, shown) = fat_on_terminal(&["fsck", &image.name], "copy\n").unwrap();
    assert!(code == 0 && shown.contains("cut-other") && shown.contains("copy"), "{shown}");
    assert_eq!(image.shell("cat /d/b").len(), 1000);
    assert_clean(&image.name);
}

#[test]
fn findings_are_listed_up_to_a_limit() {
    let image = Image::with_files();
    (0..20).for_each(|number| image.set_link(100 + number * 2, 0xFFFF));
    let report = json(&["fsck", "-n", "--findings-max", "3", &image.name]);
    assert_eq!((report["findings"].as_array().unwrap().len(), &report["found"]), (3, &20.into()));
    let text = fat(&["fsck", "-n", "--findings-max", "3", &image.name]).output;
    assert!(text.contains("and 17 more findings"), "{text}");
}

#[test]
fn a_boot_sector_is_restored_from_its_copy() {
    let image = Image::new();
    fat(&["mkfs", "--force", "--size", "4m", "-F", "16", &image.name]).succeeded();
    image.write(0, &[0; 512]);
    let left = fat(&["fsck", &image.name]);
    assert!(left.code == 1 && left.output.contains("[boot-invalid]; no repair"), "{left:?}");

    let name = &image.scratch.name("wide");
    fat(&["mkfs", "--size", "64m", "-F", "32", "-s", "1", name]).succeeded();
    let file = std::fs::File::options().write(true).open(name).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], 0).unwrap();
    assert_eq!(json(&["fsck", "-n", name])["findings"][0]["code"], "boot-invalid");
    fat(&["fsck", name]).succeeded();
    assert_clean(name);
}

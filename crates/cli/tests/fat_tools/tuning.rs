//! tune and badsect, and the progress that is shown.

use std::fs::{self, File};

use crate::images::{Image, assert_clean, fat, fat_on_terminal, json};

#[test]
fn a_fragmented_file_system_becomes_contiguous() {
    let image = Image::with_files();
    let b = fs::read_to_string(image.scratch.path("b")).unwrap();
    // What is appended to the first file is after the others.
    let (a, end) = (image.first_cluster("/a"), 200_u16);
    image.set_link(a + 1, end);
    image.set_link(u64::from(end), a as u16 + 2);
    assert_eq!(json(&["fsck", "-p", &image.name])["unrepaired"], 0);
    let estimate = json(&["tune", "--estimate", &image.name]);
    assert!(estimate["before"]["fragmented"].as_u64().unwrap() >= 1 && estimate["after"].is_null(), "{estimate}");
    let before = image.contents();
    let text = fat(&["tune", "-n", &image.name]).succeeded();
    assert!(text.contains("clusters to be moved"), "{text}");
    assert!(image.contents() == before);
    let tuned = json(&["tune", &image.name]);
    assert_eq!((&tuned["before"], &tuned["after"]["fragmented"]), (&estimate["before"], &0.into()), "{tuned}");
    assert_eq!((image.problems(), image.shell("cat /d/b")), (vec![], b));
    assert_clean(&image.name);
    assert_eq!(json(&["tune", &image.name])["moved"], 0);
}

#[test]
fn a_file_system_with_problems_is_not_tuned() {
    let image = Image::with_files();
    image.set_link(100, 0xFFFF);
    let before = image.contents();
    let refused = fat(&["tune", &image.name]);
    let expected = "the file system has errors; repair them with `plyfs fat fsck`\n";
    assert!(refused.code == 1 && refused.errors.ends_with(expected), "{refused:?}");
    assert!(image.contents() == before);
}

#[test]
fn bad_sectors_are_marked_and_files_moved() {
    let image = Image::with_files();
    let data =
        image.report["reserved_sectors"].as_u64().unwrap() + 2 * image.report["fat_sectors"].as_u64().unwrap() + 32;
    let sector = |cluster: u64| (data + cluster - 2).to_string();
    let (free, used) = (sector(300), sector(image.first_cluster("/a")));
    let before = image.contents();
    let found = fat(&["badsect", "-n", "-s", &free, "--sector", &used, &image.name]);
    assert!(found.code == 1 && found.errors.contains("not out of use: 2;"), "{found:?}");
    let text = found.output;
    assert!(text.contains("cluster 300 is bad; it is free\n") && text.contains("it belongs to /a\n"), "{text}");
    assert!(text.ends_with("2 bad clusters, 0 marked\n"), "{text}");
    assert!(image.contents() == before);
    // Marking takes only the free one out of use.
    let marked = fat(&["badsect", "--no-scan", "-s", &free, "-s", &used, &image.name]);
    assert!(marked.code == 1 && marked.errors.contains("not out of use: 1;"), "{marked:?}");
    let report = json(&["badsect", "--relocate", "-s", &free, "-s", &used, &image.name]);
    assert_eq!((&report["found"], &report["marked"]), (&2.into(), &1.into()), "{report}");
    assert_eq!(json(&["fsck", "-n", &image.name])["bad_clusters"], 2);
    assert_eq!(image.shell("cat /a"), "a".repeat(3000));
    assert_clean(&image.name);
    assert_eq!(fat(&["badsect", "-w", &image.name]).succeeded(), "0 bad clusters, 0 marked\n");
    let refused = fat(&["badsect", "-s", "99999999", &image.name]);
    assert!(refused.code == 1 && refused.errors.contains("sector 99999999 does not exist; "), "{refused:?}");
}

#[test]
fn long_work_shows_its_progress_on_a_terminal_only() {
    let image = Image::new();
    let name = &image.scratch.name("large");
    File::create(name).unwrap().set_len(8 << 30).unwrap();
    fat(&["mkfs", name]).succeeded();
    let Some((code, shown)) = fat_on_terminal(&["badsect", "-n", name], "") else { return };
    assert!(code == 0 && shown.contains("fat badsect: reading clusters [") && shown.contains(" %"), "{shown}");
    assert_eq!(fat(&["badsect", "-n", name]).errors, "");
}

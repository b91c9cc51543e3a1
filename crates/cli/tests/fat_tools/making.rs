//! mkfs, label and dump.

use std::fs;

use serde_json::Value;

use crate::images::{Image, assert_clean, fat, json};
use crate::support::{Scratch, finish, plyfs};

/// Returns a value of a dump.
fn value(dump: &Value, part: &str, name: &str) -> String {
    let row = dump[part].as_array().unwrap().iter().find(|row| row["name"] == name);
    row.unwrap_or_else(|| panic!("no {name} in {dump}"))["value"].as_str().unwrap().to_owned()
}

#[test]
fn every_size_has_its_file_system() {
    let scratch = Scratch::new();
    let sizes =
        [("160k", 12), ("1440k", 12), ("4m", 12), ("5m", 16), ("100m", 16), ("511m", 16), ("512m", 32), ("40g", 32)];
    for (size, width) in sizes {
        let name = scratch.name(size);
        let report = json(&["mkfs", "--size", size, &name]);
        assert_eq!(report["width"], width, "{size}: {report}");
        let checked = json(&["fsck", "-n", &name]);
        assert_eq!((&checked["found"], &checked["fsck_exit_code"]), (&0.into(), &0.into()), "{size}: {checked}");
        assert_clean(&name);
        fs::remove_file(&name).unwrap();
    }
}

#[test]
fn every_option_is_stored() {
    let scratch = Scratch::new();
    let name = &scratch.name("image");
    let words = [
        "mkfs",
        "--size",
        "64m",
        "--width",
        "32",
        "--label",
        "übung",
        "--serial",
        "cafe0001",
        "--sectors-per-cluster",
        "1",
        "--tables",
        "1",
        "--reserved-sectors",
        "40",
        "--backup-sector",
        "9",
        "--media",
        "0xf0",
        "--drive",
        "7",
        "--geometry",
        "16/63",
        "--hidden-sectors",
        "2048",
        "--codepage",
        "850",
        "--tz",
        "+1:30",
        "--partition-table",
        name,
    ];
    // A partition table is for whole disks.
    let refused = fat(&words);
    assert!(refused.code == 1 && refused.errors.contains("hidden sectors"), "{refused:?}");
    assert!(!fs::exists(name).unwrap());
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "--partition-table").collect();
    fat(&words).succeeded();
    let dump = json(&["dump", "--boot", "--codepage", "850", name]);
    for (row, expected) in [
        ("width", "FAT32"),
        ("label", "ÜBUNG"),
        ("serial number", "CAFE-0001"),
        ("sectors per cluster", "1"),
        ("tables", "1"),
        ("copy of the boot sector", "9"),
        ("media byte", "0xf0"),
        ("drive number", "0x07"),
        ("sectors per track, heads", "63, 16"),
        ("hidden sectors", "2048"),
        ("signature", "present"),
    ] {
        assert_eq!(value(&dump, "boot", row), expected, "{row}");
    }
    assert!(value(&dump, "boot", "reserved sectors").parse::<u32>().unwrap() >= 40);
    let report = json(&["mkfs", "--force", "-S", "4096", "-F", "16", "-r", "100", "-a", name]);
    assert_eq!((&report["bytes_per_sector"], &report["root_entries"]), (&4096.into(), &128.into()));
    fat(&["mkfs", "--force", "--partition-table", "--width", "16", name]).succeeded();
    assert_clean(name);
}

#[test]
fn bad_sectors_of_a_list_are_marked() {
    let scratch = Scratch::new();
    let (name, list) = (&scratch.name("image"), &scratch.name("list"));
    fs::write(list, "1000\n\n 1001\n2000\n").unwrap();
    let report = json(&["mkfs", "--size", "4m", "-F", "16", "-s", "1", "-c", "-l", list, name]);
    assert_eq!(report["bad_clusters"], 3);
    assert_eq!(json(&["fsck", "-n", name])["bad_clusters"], 3);
    fs::write(list, "1000\nx\n").unwrap();
    for words in [["mkfs", "--force", "-l", list, name], ["badsect", "--no-scan", "-l", list, name]] {
        let refused = fat(&words);
        assert!(refused.code == 1 && refused.errors.contains("line 2 of the list"), "{refused:?}");
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let scratch = Scratch::new();
    let name = &scratch.name("image");
    let words = ["mkfs", "--size", "1440k", "-i", "1", name];
    let planned = fat(&[&words[..], &["--dry-run"]].concat()).succeeded();
    assert!(!fs::exists(name).unwrap());
    assert_eq!(fat(&words).succeeded(), planned);
    let before = fs::read(name).unwrap();
    let other = fat(&["mkfs", "--dry-run", "-s", "4", name]).succeeded();
    assert!(other.contains("clusters of 2048 bytes"), "{other}");
    assert!(fs::read(name).unwrap() == before);
}

#[test]
fn what_an_image_contains_is_not_overwritten_by_mistake() {
    let image = Image::new();
    let before = image.contents();
    let refused = fat(&["mkfs", &image.name]);
    let expected =
        format!("plyfs: `{}` is not empty, but contains a FAT file system; to overwrite it, add --force\n", image.name);
    assert_eq!((refused.code, refused.errors), (1, expected));
    assert!(image.contents() == before);
    fat(&["mkfs", "--force", &image.name]).succeeded();
    assert!(image.contents() != before);
}

#[test]
fn images_made_at_one_time_are_the_same() {
    let scratch = Scratch::new();
    let make = |name: &str| {
        let name = scratch.name(name);
        let words = ["fat", "mkfs", "--size", "1440k", "--label", "same", &name];
        finish(plyfs().args(words).env("SOURCE_DATE_EPOCH", "1000000000").output()).succeeded();
        fs::read(name).unwrap()
    };
    assert!(make("one") == make("two"));
    let dump = json(&["dump", "--directory", "/", &scratch.name("one")]);
    assert_eq!(value(&dump, "directory", "0"), "label SAME");
}

#[test]
fn labels_and_serial_numbers_change() {
    let image = Image::new();
    let name = &image.name;
    assert_eq!(fat(&["label", name]).succeeded(), "label: none\nserial number: 1234-ABCD\n");
    assert_eq!(fat(&["label", name, "Holiday 24"]).succeeded(), "");
    let shown = json(&["label", name, "--serial", "00000007"]);
    assert_eq!((&shown["label"], &shown["serial"]), (&"HOLIDAY 24".into(), &"0000-0007".into()));
    let refused = fat(&["label", name, "a.b"]);
    let expected = "plyfs: 'a.b' cannot be the label: a label cannot have the character '.'; choose another\n";
    assert_eq!((refused.code, refused.errors.as_str()), (1, expected));
    fat(&["label", "--remove", name]).succeeded();
    assert_eq!(json(&["label", name])["label"], Value::Null);
    assert_eq!(image.problems(), [""; 0]);
    assert_clean(name);
}

#[test]
fn everything_on_the_disk_is_shown() {
    let image = Image::with_files();
    let text = fat(&["dump", &image.name]).succeeded();
    assert!(text.starts_with("Boot sector:\nmade by ") && text.contains("\n\nFree space and state:\n"), "{text}");
    let dump = json(&["dump", "--table=0-1", "--directory", "/d", "--chain", "/d/b", &image.name]);
    assert_eq!(dump.as_object().unwrap().len(), 3);
    assert_eq!(value(&dump, "table", "0"), "0xfff8");
    assert_eq!((value(&dump, "chain", "clusters"), value(&dump, "chain", "fragments")), ("2".into(), "1".into()));
    let slots = dump["directory"].as_array().unwrap();
    let slots: Vec<&str> = slots.iter().map(|row| row["value"].as_str().unwrap()).collect();
    assert!(slots.iter().any(|slot| slot.contains("1000 bytes") && slot.contains("modified 20")), "{slots:?}");
    let refused = fat(&["dump", "--directory", "/none", &image.name]);
    assert!(refused.code == 1 && refused.errors.contains("/none does not exist; list "), "{refused:?}");
    // A boot sector that describes nothing is shown, too.
    image.write(11, &[0, 0]);
    let shown = fat(&["dump", "--boot", &image.name]).succeeded();
    assert!(shown.contains("not valid"), "{shown}");
}

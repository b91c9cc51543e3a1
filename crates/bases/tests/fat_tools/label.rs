//! Labels and serial numbers.

use plyfs_bases::fat::format::{CodePage, EntrySlot, FatWidth, Label};
use plyfs_bases::fat::tools::{ToolError, set_label, set_serial, show_label};
use vnode::Timestamp;

use crate::external;
use crate::image::{Image, WIDTHS, boot_sector};
use crate::repairs::{assert_sound, check};
use crate::sample::Sample;

const TIME: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };

fn set(image: &Image, text: Option<&str>) -> Result<(), ToolError> {
    let page = CodePage::by_number(850).unwrap();
    let label = text.map(|text| Label::encode(text, page).unwrap());
    set_label(image.device(), label, TIME, 0)
}

#[test]
fn labels_are_set_in_both_places() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let before = sample.image.tree();
        for text in [Some("NEW LABEL"), Some("Été 2026"), None, None, Some("AGAIN")] {
            set(&sample.image, text).unwrap();
            let page = CodePage::by_number(850).unwrap();
            let report = show_label(sample.image.device(), page).unwrap();
            let expected = text.map(|text| text.to_uppercase());
            assert_eq!((report.root.clone(), report.boot.clone()), (expected.clone(), expected.clone()));
            assert_eq!(report.to_json()["label"], serde_json::json!(expected));
            match text {
                Some(text) if !text.is_ascii() => assert_eq!(check(sample.image.device()).found(), 0),
                _ => assert_sound(&sample.image, &format!("label {text:?}")),
            }
            if let Some(expected) = expected.filter(|expected| expected.is_ascii())
                && let Some((_, shown)) = external::run("fatlabel", &["IMAGE"], &sample.image)
            {
                assert_eq!(shown.trim(), expected);
            }
        }
        assert_eq!(sample.image.tree(), before);
    }
}

#[test]
fn serial_numbers_are_set() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        set_serial(sample.image.device(), 0xCAFE_0001).unwrap();
        assert_eq!(
            show_label(sample.image.device(), CodePage::default()).unwrap().serial.as_deref(),
            Some("CAFE-0001")
        );
        assert_sound(&sample.image, "serial number");
        sample.image.write(if width == FatWidth::Fat32 { 66 } else { 38 }, &[0]);
        assert_eq!(boot_sector(&*sample.image.device, 0).identity, None);
        assert_eq!(set_serial(sample.image.device(), 1), Err(ToolError::NoSerial));
    }
}

#[test]
fn an_endless_root_directory_has_no_room_for_a_label() {
    let sample = Sample::new(FatWidth::Fat32);
    set(&sample.image, None).unwrap();
    let root = sample.image.geometry.root_cluster().unwrap();
    sample.image.set_link(root, plyfs_bases::fat::format::Link::Next(root));
    for position in sample.image.slots(0).into_iter().take(16) {
        let name = plyfs_bases::fat::format::ShortName(*b"FILE       ");
        let entry = plyfs_bases::fat::format::Entry::new(name, plyfs_bases::fat::format::EntryAttributes::ARCHIVE);
        sample.image.write(position, &entry.encode());
    }
    assert_eq!(set(&sample.image, Some("LABEL")), Err(ToolError::DirectoryFull));
}

#[test]
fn a_full_root_directory_has_no_room_for_a_label() {
    for width in WIDTHS {
        let mut sample = Sample::new(width);
        set(&sample.image, None).unwrap();
        let count = sample.image.slots(0).len();
        for index in 0..count {
            let position = sample.image.slots(0)[index];
            let slot = EntrySlot::decode(&sample.image.slot(position));
            if matches!(slot, EntrySlot::Deleted | EntrySlot::End) {
                let mut name = *b"F0000      ";
                name[1..5].copy_from_slice(format!("{index:04}").as_bytes());
                let entry = plyfs_bases::fat::format::Entry::new(
                    plyfs_bases::fat::format::ShortName(name),
                    plyfs_bases::fat::format::EntryAttributes::ARCHIVE,
                );
                sample.image.write(position, &entry.encode());
            }
        }
        assert_sound(&sample.image, "full root directory");
        let result = set(&sample.image, Some("LABEL"));
        if width == FatWidth::Fat32 {
            assert_eq!(result, Ok(()));
            assert_sound(&sample.image, "label in a cluster of its own");
            sample.image = Image::open(sample.image.device.clone());
            assert_eq!(sample.image.slots(0).len(), count + 16);
        } else {
            assert_eq!(result, Err(ToolError::RootFull));
        }
    }
}

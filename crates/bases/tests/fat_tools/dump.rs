//! Dumps show what is on the disk.

use plyfs_bases::fat::format::{CodePage, FatWidth};
use plyfs_bases::fat::tools::{Dump, ToolError, dump_boot, dump_chain, dump_directory, dump_info, dump_table};

use crate::image::WIDTHS;
use crate::sample::Sample;

fn value<'a>(dump: &'a Dump, name: &str) -> &'a str {
    let row = dump.rows.iter().find(|(row, _)| row == name);
    &row.unwrap_or_else(|| panic!("no {name} in\n{dump}")).1
}

#[test]
fn fields_and_regions_are_shown() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let dump = dump_boot(sample.image.device(), CodePage::default()).unwrap();
        assert_eq!((value(&dump, "width"), value(&dump, "label")), (width.to_string().as_str(), "SAMPLE"));
        assert_eq!(value(&dump, "clusters"), sample.image.geometry.clusters().to_string());
        assert_eq!(dump.to_json()[0]["name"], "made by");
        sample.image.write(11, &[0, 0]);
        let dump = dump_boot(sample.image.device(), CodePage::default()).unwrap();
        assert!(value(&dump, "not valid").contains("sectors have 0 bytes"), "{dump}");
    }
    let dump = dump_info(Sample::new(FatWidth::Fat32).image.device()).unwrap();
    assert!(value(&dump, "free clusters, counted").parse::<u32>().unwrap() > 60_000);
}

#[test]
fn tables_are_shown_in_runs() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let image = &sample.image;
        let (first, last) = (sample.clusters[0], sample.clusters[5]);
        let end = image.geometry.cluster_numbers().end;
        let dump = dump_table(image.device(), 0..u32::MAX).unwrap();
        assert_eq!(value(&dump, &format!("{first}-{}", last - 1)), format!("each the next, then {last}"));
        assert_eq!(value(&dump, &last.to_string()), "end");
        assert!(dump.rows.last().unwrap().0.ends_with(&format!("-{}", end - 1)));
        assert_eq!(dump.rows.last().unwrap().1, "free");
        assert_eq!(dump_table(image.device(), first..first + 1).unwrap().rows.len(), 1);
        assert_eq!(dump_table(image.device(), end..u32::MAX).unwrap().rows.len(), 0);
    }
}

#[test]
fn directories_and_chains_are_found_by_their_paths() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let directory = |path| dump_directory(sample.image.device(), path, CodePage::default());
        let root = directory("/").unwrap();
        assert!(root.rows.iter().any(|(_, value)| value == "label SAMPLE"), "{root}");
        assert!(root.rows.iter().any(|(_, value)| value.ends_with(": A long file n")), "{root}");
        let inner = directory("/dir/SUB DIRECTORY").unwrap();
        assert!(inner.rows.iter().any(|(_, value)| value.ends_with(": C.DAT")), "{inner}");
        assert_eq!(directory("/dir/sub/").unwrap(), inner);
        assert_eq!(directory("/none/x"), Err(ToolError::NotFound("/none/x".into())));
        assert_eq!(directory("/A.TXT/x"), Err(ToolError::NotADirectory("/A.TXT/x".into())));

        let chain = dump_chain(sample.image.device(), "/a.txt", CodePage::default()).unwrap();
        assert_eq!((value(&chain, "clusters"), value(&chain, "fragments")), ("6", "1"));
        assert_eq!(value(&chain, "end"), "as it should be");
        let chain = dump_chain(sample.image.device(), "/", CodePage::default()).unwrap();
        assert_eq!(value(&chain, "clusters"), if width == FatWidth::Fat32 { "1" } else { "none" });
    }
}

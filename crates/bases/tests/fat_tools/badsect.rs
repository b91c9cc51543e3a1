//! Bad sectors: found, marked and replaced.

use std::sync::Arc;

use plyfs_bases::device::{DeviceRef, Effect, Fault, FaultyDevice, Operation};
use plyfs_bases::fat::format::Link;
use plyfs_bases::fat::tools::{BadClusterUse, BadsectOptions, BadsectReport, ToolError, badsect};

use crate::image::{WIDTHS, pattern};
use crate::repairs::assert_sound;
use crate::sample::Sample;

fn search(device: DeviceRef, options: &BadsectOptions) -> BadsectReport {
    badsect(device, options, &mut |_| ()).unwrap()
}

#[test]
fn bad_clusters_are_marked_and_reported() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let image = &sample.image;
        let device = Arc::new(FaultyDevice::new(image.device()));
        let free = image.copy().free(3);
        image.set_link(free[2], Link::Bad);
        crate::boot::correct_free_count(image);
        for cluster in [free[0], free[2], sample.clusters[1], sample.inner] {
            let offset = image.offset(cluster);
            device.add(Fault::bad_sectors(offset..offset + 512));
        }
        let options = BadsectOptions { mark: false, ..BadsectOptions::default() };
        let report = search(device.clone(), &options);
        assert_eq!((report.found, report.marked), (4, 0));
        assert_eq!(image.link(free[0]), Link::Free);
        let report = search(device.clone(), &BadsectOptions::default());
        assert_eq!((report.found, report.marked), (4, 1));
        assert_eq!(image.link(free[0]), Link::Bad);
        let mut expected = vec![
            (free[0], BadClusterUse::Free),
            (free[2], BadClusterUse::Marked),
            (sample.clusters[1], BadClusterUse::Used("/A.TXT".into())),
            (sample.inner, BadClusterUse::Used("/DIR/sub directory".into())),
        ];
        let mut found = report.clusters.clone();
        expected.sort_by_key(|(cluster, _)| *cluster);
        found.sort_by_key(|(cluster, _)| *cluster);
        assert_eq!(found, expected);
        assert_eq!(report.to_json()["found"], 4);
        device.repair();
        assert_sound(image, "marked clusters");
    }
}

#[test]
fn used_clusters_are_replaced() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let image = &sample.image;
        let before = image.tree();
        let device = Arc::new(FaultyDevice::new(image.device()));
        // The first cluster of a file, one in it, and those of both directories, of which nothing can be read.
        let bad = [sample.clusters[0], sample.clusters[2]];
        for cluster in bad {
            let offset = image.offset(cluster);
            device.add(Fault::bad_sectors(offset..offset + 512));
        }
        let options = BadsectOptions { relocate: true, ..BadsectOptions::default() };
        let report = search(device.clone(), &options);
        assert_eq!((report.found, report.marked), (2, 2), "{report}");
        assert!(bad.iter().all(|&cluster| image.link(cluster) == Link::Bad));
        assert_eq!(crate::repairs::check(device.clone()).found(), 0);
        device.repair();
        assert_sound(image, "replaced clusters");
        let mut tree = image.tree();
        let mut expected = pattern(1, 3000);
        expected[..512].fill(0);
        expected[1024..1536].fill(0);
        assert_eq!(tree.insert("/A.TXT".into(), before["/A.TXT"].clone()), Some(expected));
        assert_eq!(tree, before);
        assert_eq!(search(device, &options).marked, 0);
    }
}

#[test]
fn directories_of_listed_sectors_move_with_their_entries() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let before = sample.image.tree();
        let sector = |cluster: u32| sample.image.offset(cluster) / 512;
        let mut sectors = vec![sector(sample.directory), sector(sample.inner), sector(sample.clusters[4])];
        if let Some(root) = sample.image.geometry.root_cluster() {
            sectors.push(sector(root));
        }
        let options =
            BadsectOptions { scan: false, sectors: sectors.clone(), relocate: true, ..BadsectOptions::default() };
        let report = search(sample.image.device(), &options);
        assert_eq!(report.marked, sectors.len() as u64, "{report}");
        let image = crate::image::Image::open(sample.image.device.clone());
        assert_sound(&image, "moved directories");
        assert_eq!(image.tree(), before);
        let options = BadsectOptions { scan: false, sectors: vec![u64::MAX], ..BadsectOptions::default() };
        let result = badsect(sample.image.device(), &options, &mut |_| ());
        assert_eq!(result, Err(ToolError::NoSector(u64::MAX)));
    }
}

#[test]
fn writing_back_finds_what_reading_does_not() {
    for width in WIDTHS {
        let sample = Sample::new(width);
        let free = sample.image.copy().free(1)[0];
        let offset = sample.image.offset(free);
        let device = Arc::new(FaultyDevice::new(sample.image.device()));
        device.add(Fault::of([Operation::Write], Effect::Error(vnode::Errno::EIO)).within(offset..offset + 512));
        assert_eq!(search(device.clone(), &BadsectOptions::default()).found, 0);
        let before = sample.image.tree();
        let options = BadsectOptions { write_test: true, ..BadsectOptions::default() };
        let report = search(device.clone(), &options);
        assert_eq!(report.clusters, [(free, BadClusterUse::Free)]);
        assert_eq!(sample.image.tree(), before);
        // Outside of clusters.
        let table = sample.image.geometry.fat_offset(1).unwrap();
        device.add(Fault::bad_sectors(table..table + 512));
        let report = search(device, &BadsectOptions { mark: false, ..BadsectOptions::default() });
        assert_eq!(report.other, [(table, 512, "the file allocation tables")]);
    }
}

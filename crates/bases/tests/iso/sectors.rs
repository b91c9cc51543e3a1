//! Images of whole sectors.

use std::fs;

use vnode::FileSystem;

use crate::image::{Workshop, open_bytes, read};
use crate::source;
use crate::tools::xorriso;

#[test]
fn a_walk_over_whole_sectors_sees_what_one_over_user_data_sees() {
    let workshop = Workshop::new();
    source::kinds(&workshop.source());
    source::long(&workshop.source().join("long"), 10);
    xorriso(&["-R"], &workshop.path("image"), &workshop.source());
    let plain = fs::read(workshop.path("image")).unwrap();
    let seen = |bytes: &[u8]| {
        let file_system = open_bytes(bytes, "").unwrap();
        let entries = file_system.walk().map(|entry| {
            let entry = entry.ok().unwrap();
            (entry.path, entry.attributes, read(&entry.vnode).ok())
        });
        let handle = file_system.root().handle();
        (entries.collect::<Vec<_>>(), handle, file_system.information().sector_size)
    };
    let (expected, handle, none) = seen(&plain);
    assert_eq!(none, None);
    for (size, mode) in [(2352, 1), (2352, 2), (2448, 1), (2336, 2)] {
        let (entries, own_handle, sector_size) = seen(&whole_sectors(&plain, size, mode));
        assert!(entries == expected, "{size} {mode}");
        assert_eq!((own_handle, sector_size), (handle, Some(size as u64)));
    }
}

/// Returns the user data in sectors of this size and mode.
fn whole_sectors(data: &[u8], size: usize, mode: u8) -> Vec<u8> {
    let header = [&[0][..], &[0xff; 10], &[0, 0, 2, 0, mode]].concat();
    let sectors = data.chunks(2048).flat_map(|data| {
        let mut sector = if size == 2336 { vec![] } else { header.clone() };
        sector.extend(if mode == 2 { vec![0; 8] } else { vec![] });
        sector.extend_from_slice(data);
        sector.resize(size, 0x77);
        sector
    });
    sectors.collect()
}

//! The named tests of file-system behaviour over FAT volumes, with no mount.

use std::sync::Arc;

use conformance::{Abilities, Ability, Test, Tree};
use plyfs_bases::fat::{FatFileSystem, MetadataMode, Options};

use crate::image::{self, Kind};

/// Abilities that FAT has with sidecars.
fn abilities() -> Abilities {
    let missing =
        [Ability::Kernel, Ability::Map, Ability::Holes, Ability::Punch, Ability::CopyRange, Ability::LargeFiles];
    missing.into_iter().fold(Abilities::complete(), Abilities::without)
}

/// Tests that require more than FAT has: names of any bytes but the slash, and such that differ only in case.
const NOT_OF_FAT: [&str; 4] = ["names/every_byte", "names/not_utf8", "names/odd_but_ordinary", "names/case_matters"];

/// Tests that require exact times, besides those of the group `times`.
const NOT_OF_ENTRIES: [&str; 2] = ["special/attributes", "unlinked/attributes_can_change"];

/// Tests that require numbers larger than the paper's entries have.
const NOT_OF_PAPER: [&str; 2] = ["attributes/large_ids", "special/large_device_numbers"];

fn run(kind: Kind, options: Options, abilities: Abilities, is_chosen: impl Fn(&Test) -> bool) {
    let Some(device) = image::format(kind) else { return };
    let device = Arc::new(device);
    let file_system: Arc<FatFileSystem> = Arc::new(image::mount(&device, options));
    let subject = Tree::new(file_system.clone()).titled(format!("FAT{}", kind.width)).limited_to(abilities);
    let report = conformance::run(&subject, |test| !NOT_OF_FAT.contains(&&*test.full_name()) && is_chosen(test));
    println!("{report}");
    drop(subject);
    drop(Arc::into_inner(file_system).expect("the tests have ended"));
    image::check(&device);
    assert!(report.failures.is_empty(), "{report}");
}

#[test]
fn fat12_conforms() {
    run(
        Kind { size: 240 << 20, sectors_per_cluster: 128, ..image::KINDS[0] },
        image::with_sidecars(),
        abilities(),
        |_| true,
    );
}

#[test]
fn fat16_conforms() {
    run(
        Kind { size: 240 << 20, sectors_per_cluster: 8, ..image::KINDS[1] },
        image::with_sidecars(),
        abilities(),
        |_| true,
    );
}

#[test]
fn fat32_conforms() {
    run(Kind { size: 240 << 20, ..image::KINDS[2] }, image::with_sidecars(), abilities(), |_| true);
}

/// Abilities that FAT has with Unix metadata in entries, whose times are those of FAT.
fn abilities_in_entries() -> Abilities {
    let missing = [
        Ability::HardLinks,
        Ability::ExtendedAttributes,
        Ability::AccessControlLists,
        Ability::AccessTimes,
        Ability::BirthTimes,
    ];
    missing.into_iter().fold(abilities(), Abilities::without)
}

#[test]
fn metadata_in_entries_conforms() {
    for (metadata, kind) in [(MetadataMode::Inline, image::KINDS[2]), (MetadataMode::Paper, image::KINDS[1])] {
        let sectors_per_cluster = if kind.width == 32 { 1 } else { 8 };
        let kind = Kind { size: 240 << 20, sectors_per_cluster, ..kind };
        run(kind, image::in_entries(metadata), abilities_in_entries(), |test| {
            let name = test.full_name();
            let is_too_large = metadata == MetadataMode::Paper && NOT_OF_PAPER.contains(&&*name);
            !name.starts_with("times/") && !NOT_OF_ENTRIES.contains(&&*name) && !is_too_large
        });
    }
}

#[test]
fn a_small_volume_conforms() {
    run(
        Kind { size: 40 << 20, ..image::KINDS[1] },
        image::with_sidecars(),
        abilities().with(Ability::SmallSpace),
        |test| test.full_name().starts_with("space/"),
    );
}
